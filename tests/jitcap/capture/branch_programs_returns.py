"""The rest of `branch_programs`: values of two kinds that the ways leave where the call ends."""

import math

import eager
from tests.jitcap.capture.branch_programs import box, splits, tensors, with_gradient
from tests.jitcap.capture.branch_programs_views import ONE as ONE
from tests.jitcap.capture.branch_programs_views import SPLITS as SPLITS

LAST = {}  # one graph, if nothing comes behind them


def one(fn, make=None):
    LAST[fn.__name__] = fn, make or tensors()
    return fn


def no_loss(x, w):
    loss = (w * x).sum()
    if loss < 0 or not math.isfinite(loss.item()):
        return None
    loss.backward()
    return loss.item()


one(no_loss, with_gradient(3, 3))


def fields_of_two_kinds(x, w):
    loss = (w * x).sum()
    if eager.isnan(loss):
        return {"loss": math.nan, "skipped": True, "by": [w, "nan"]}
    if loss < 0:
        w.grad = x * 1
        return {"loss": None, "skipped": True, "by": x}
    loss.backward()
    y = x * 2
    return {"loss": loss.detach(), "skipped": False, "by": (y, y, loss.item())}


one(fields_of_two_kinds, with_gradient(3, 3))


@one
def two_shapes(x):
    return x[:2] * 2 if x.sum() > 0 else (x > 0, x.sum())


def a_state_of_two_kinds(x, b):
    if x.sum() > 0:
        b.last = x * 2
    else:
        b.last = None
        b.log[0] = x.sum().item()


one(a_state_of_two_kinds, box(last=None, log=lambda: [0.0]))


def a_history_leaves_alone(x, w):
    if x.sum() > 0:
        return w * x
    return "none"


one(a_history_leaves_alone, with_gradient(3, 3))


# ---- not one graph


@splits
def two_kinds_are_asked(x):
    def half(x):
        return None if x.sum() < 0 else x.sum().item()

    found = half(x)
    return 0.0 if found is None else found * 2


def a_part_leaves(x, w):
    y = w * 2
    if x.sum() > 0:
        return y[0], y
    return None


splits(a_part_leaves, tensors(3, 3))
