"""Splits in loops and in `with`: the iterator goes on at its place, over a dictionary (`ModuleList`
keeps its layers in one), too; where it, or what the `with` holds, cannot be made again (a
generator), the part before ends at the block."""

import contextlib
import warnings

import pytest

import eager
from eager import nn
from jitcap import graph_break, jit

pytestmark = pytest.mark.once

LAYERS = nn.ModuleList([nn.Linear(3, 3) for _ in range(3)])
TABLE = {"a": 1.0, "b": 2.0, "c": 3.0}


def layers_in_rounds(x):
    for _ in range(3):
        for layer in LAYERS:
            graph_break()
            x = layer(x)
    return x


def items_of_a_table_made_inside(x):
    for name, v in {"a": 1.5, "bb": x.sum()}.items():
        graph_break()
        x = x * v + len(name)
    return x


def counted_pairs(x):
    for i, (name, v) in enumerate(zip(TABLE, TABLE.values(), strict=True)):
        graph_break()
        x = x + v * i + ord(name)
    return x


def values_that_change(x):
    table = dict(TABLE)
    for name in table:
        graph_break()
        table["c"] = table["c"] + 1
        x = x * table[name]
    return x


def a_table_that_grows(x):
    table = dict(TABLE)
    try:
        for name in table:
            graph_break()
            x = x * table[name]
            table[name * 2] = 1.0
    except RuntimeError as error:
        return x, str(error)


def a_shared_iterator(x):
    values = iter(TABLE.values())
    for v in values:
        graph_break()
        x = x * v + next(values, 7.0)
    return x


def written_before(x):
    TABLE["c"] = TABLE["c"] + 1
    for v in TABLE.values():
        graph_break()
        x = x * v
    return x


def parameters_after_a_gradient(x):
    LAYERS.zero_grad()
    LAYERS[1](LAYERS[0](x)).sum().backward()
    for (name, p), q in zip(LAYERS.named_parameters(), LAYERS.parameters(), strict=True):
        graph_break()
        if p.grad is not None:
            x = x + (p.grad * q).sum() + len(name)
    return x


def a_generator_in_a_loop(x):
    def halves(v):
        for _ in range(2):
            v = v / 2
            yield v

    x = (x * 3).relu() + 1
    for i in range(2):
        x = x + i
        for half in halves(x):
            x = x + half
            graph_break()
            x = x * 1.5
    return x


def members_of_a_set(x):
    x = (x * 3).relu() + 1
    for v in {2.0, 4.0}:
        x = x + v
        graph_break()
        x = x * 2
    return x.sum() * 0 + 1


@pytest.mark.parametrize(
    ("fn", "plainly"),
    [
        (layers_in_rounds, 0), (items_of_a_table_made_inside, 0), (counted_pairs, 0),
        (values_that_change, 0), (a_table_that_grows, 0), (a_shared_iterator, 0),
        (written_before, None), (parameters_after_a_gradient, 0), (a_generator_in_a_loop, 0),
        (members_of_a_set, 0),
    ],
)  # fmt: skip
def test_a_loop_goes_on(fn, plainly):
    def run(step):
        TABLE["c"] = 3.0
        found = [step(eager.ones(2, 3)) for _ in range(3)]
        return [str(f[1]) if isinstance(f, tuple) else f.tolist() for f in found]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        step = jit(fn, backend="eager")
        assert run(step) == run(fn)
    assert step.stats.fallbacks == plainly or plainly is None


LOG = []


@contextlib.contextmanager
def noted(name, swallow=False):
    LOG.append(name)
    try:
        yield 2
    except ValueError:
        LOG.append("error")
        if not swallow:
            raise
    finally:
        LOG.append(f"{name} ends")


def around_a_call(x):
    def inner(y):
        graph_break()
        return y + 1

    y = x * 2
    if y.ndim > 3:
        return y
    with noted(
        "a",
    ) as k:
        y = inner(y) * k
    return y - 1


def one_in_another(x):
    total = x.sum()
    for i in range(3):
        with noted(i) as k, noted("b"):
            if i == 1:
                continue
            for n in (m + 1 for m in (1, k)):
                total = total + n
                graph_break()
    return total


def left_by_an_error(x):
    y = x + 1
    try:
        with noted("c"):
            y = y * 2
            graph_break()
            raise ValueError("text")
    except ValueError as error:
        y = y + len(str(error))
    with noted("d", True):
        graph_break()
        raise ValueError("more")
    return y


def with_a_backward(x):
    w = eager.ones(2, requires_grad=True)
    y = x * 3
    with noted("e"):
        loss = (w * y).sum()
        graph_break()
        loss.backward()
    return w.grad


@pytest.mark.parametrize("fn", [around_a_call, one_in_another, left_by_an_error, with_a_backward])
@pytest.mark.filterwarnings("ignore::jitcap.JitcapWarning")
def test_a_part_that_would_end_in_a_generators_with_ends_before_it(fn):
    step, found = jit(fn), {}
    for call in (fn, step):
        found[call] = []
        for i in range(3):
            LOG.clear()
            found[call].append((call(eager.ones(2) * i).tolist(), LOG[:]))
    assert found[step] == found[fn]
    assert step.stats.compiles > 1
    assert step.stats.fallbacks == 0 or fn is left_by_an_error  # which Python's generators take
