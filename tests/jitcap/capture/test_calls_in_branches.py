"""Calls of the host (print, logging, warnings) in one way of a branch are made where Python makes
them, and the function is one graph."""

import io
import logging
import warnings
from contextlib import redirect_stdout

import pytest

import eager
from jitcap import jit
from jitcap.base.diagnostics import JitcapWarning

log = logging.getLogger(__name__)


def improves(x):
    best = x * 1
    if x.sum() > 0:
        print(f"better: {x.sum().item():.2f}", x, [x[0].item(), "k"], sep="; ")
        best = x * 2
    else:
        print("worse")
    print("done")
    return best


def inside_another(x):
    n = 0
    if x.sum() > 0:
        print("above")
        if x[0] > 5:
            n += 1
            print("far", n, int(x[0].item()))
        else:
            log.warning("near %d %.1f", n, x[0].item())
    return x * n


def left_early(x):
    for i in range(20):
        x = x * 1.5
        if x.sum() > 50:
            print("over", i, x.sum().item())
            break
    return x


def warns(x):
    if x.sum() > 0:
        warnings.warn("above", UserWarning, stacklevel=1)
        return x
    return x - 1


def shows_then_raises(x):
    if x.sum() > 0:
        print("raises", x.sum().item())
        raise ValueError("above")
    return x * 2


class Held:
    def __init__(self, x):
        self.x = x

    def __repr__(self):
        return f"<{self.x.sum().item():.1f}>"


def an_object_of_its_own(x):
    if x.sum() > 0:
        print(Held(x * 2))
    return x * 2


def in_each_round(x):
    while 0 < x.sum() < 20:
        x = x * 1.5
        print("round", x.sum().item())
    return x


def one_with_a_history(x):
    w = (x * 1).requires_grad_()
    if x.sum() > 0:
        print(w)
    return w.detach()


ONE = [improves, inside_another, left_early, warns, shows_then_raises, an_object_of_its_own]
SPLITS = [in_each_round, one_with_a_history]


def heard(fn):
    """What calls give, print and log."""
    found, out = [], io.StringIO()
    handler = logging.StreamHandler(out)
    log.addHandler(handler)
    log.propagate = False
    try:
        with redirect_stdout(out), warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            for start in ([1.0, 2.0], [-1.0, -2.0], [9.0, 30.0], [1.0, 2.0]):
                try:
                    found.append(fn(eager.tensor(start)).tolist())
                except ValueError as error:
                    found.append(str(error))
    finally:
        log.removeHandler(handler)
    said = [(w.filename, w.lineno, str(w.message)) for w in warned
            if not issubclass(w.category, JitcapWarning)]  # fmt: skip
    return found, out.getvalue(), said


@pytest.mark.parametrize("fn", [*ONE, *SPLITS], ids=lambda fn: fn.__name__)
def test_as_python_makes_them(fn):
    step = jit(fn, backend="eager")
    assert heard(step) == heard(fn)
    assert (step.stats.splits == 0) is (fn in ONE), step.stats.refusals
