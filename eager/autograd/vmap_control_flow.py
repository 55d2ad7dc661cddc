"""Control flow in mapped functions, where what decides differs by example: all examples go every
way, and each keeps what its own way gives. functions of trees -> a tree.

Where a loop is recorded as one node of a graph, its body is given plain tensors, with the examples
of all mapped functions that run in front (`plain`), and the functions tensors of their levels again
(`raised`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from eager.base.dtype import FLOAT, get_default_dtype
from eager.core.batched import Batched
from eager.core.dispatch import apply, lifted, tracing
from eager.core.op import REGISTRY
from eager.core.sym import SymNumber
from eager.core.tape import mode
from eager.core.tensor import Tensor, wrap
from eager.ops.pointwise import where
from eager.ops.view import movedim
from eager.sizes.aval import scalar_aval

Leaves = list[Any]


def differs(pred: Any) -> bool:
    """True if a condition, or an index, may differ between examples."""
    array = pred._array if isinstance(pred, Tensor) else None
    return type(array) is Batched and (array.mapped or differs(array.value))


def same_for_all(pred: Any) -> Any:
    """The condition or index without the levels on which it does not differ."""
    while isinstance(pred, Tensor) and type(pred._array) is Batched and not pred._array.mapped:
        pred = pred._array.value
    return pred


def decided(pred: Tensor) -> Tensor:
    """The condition of a Python branch without the levels on which it does not differ. RuntimeError
    where it differs."""
    if differs(pred):
        raise RuntimeError(
            "vmap: It looks like you're attempting to use a Tensor in some data-dependent control "
            "flow. It stands for all examples here, and may be true of some: use eager.where, or "
            "eager.cond, which computes both"
        )
    return same_for_all(pred)


def holds(pred: Tensor) -> Tensor:
    """A condition of one element as a bool without dimensions."""
    scalar = pred.reshape(())
    return scalar if scalar.dtype.name == "bool" else scalar != 0


def chosen(pred: Tensor, yes: Sequence[Any], no: Sequence[Any]) -> Leaves:
    """The leaves of one way or of the other, in memory of their own."""
    return [where(holds(pred), a, b) for a, b in zip(yes, no, strict=True)]


def in_any(pred: Any) -> Any:
    """True if a condition holds for any example."""
    while isinstance(pred, Tensor) and type(pred._array) is Batched:
        array = pred._array
        pred = holds(array.value.any()) if array.mapped else array.value
    return pred


def as_tensors(leaves: Sequence[Any]) -> Leaves:
    """Loop-carried values as tensors, numbers too: each example has its own."""
    return [x if isinstance(x, Tensor) else _number(x) for x in leaves]


def _number(x: Any) -> Tensor:
    dtype = x.aval.dtype if isinstance(x, SymNumber) else scalar_aval(x).dtype
    dtype = get_default_dtype() if dtype.category == FLOAT else dtype
    return apply(REGISTRY["full"], x, shape=(), dtype=dtype)


# ------------------------------------------------------------------ loops that are a graph's nodes
def recorded_plain(leaves: Sequence[Any]) -> bool:
    """True if a loop over these leaves is to be recorded with plain tensors."""
    return bool(mode.levels) and tracing() and not any(map(_tracked, leaves))


def _tracked(x: Any) -> bool:
    """True if a gradient goes to it inside of a mapped function."""
    return isinstance(x, Tensor) and type(x._array) is Batched and (
        x.requires_grad or _tracked(x._array.value)
    )  # fmt: skip


def plain(leaves: Sequence[Any]) -> Leaves:
    """Tensors with the examples of all levels in front, those of the outermost first."""
    found = []
    for x in leaves:
        for level in reversed(mode.levels):
            array: Any = lifted(level, x)._array
            x = array.value
            if not array.mapped:
                x = x.expand((level.size, *x.shape))
        found.append(x)
    return found


def raised(leaves: Sequence[Tensor]) -> Leaves:
    """The opposite of `plain`."""
    found = []
    for x in leaves:
        for level in mode.levels:
            x = wrap(Batched(level, x, True))
        found.append(x)
    return found


class _GradientOfSteps(Exception):
    """A gradient inside of `vmap` goes through the steps of a loop."""


def _keep() -> None:
    raise _GradientOfSteps


def of_examples(run: Callable[..., Any], step: Any, start: Leaves, xs: Leaves) -> Any:
    """`run(step, start, xs)`, a loop over slices that is recorded, of plain tensors; None where it
    is to stay a sequence of steps."""
    if not recorded_plain([*start, *xs]):
        return None
    depth = len(mode.levels)
    slices = [movedim(x, depth, 0) for x in plain(xs)]
    try:
        last, ys = run(plainly(step, _keep), plain(start), slices)
    except _GradientOfSteps:
        return None
    return raised(last), raised([movedim(y, 0, depth) for y in ys])


def plainly(step: Callable[..., Any], refuse: Callable[[], None]) -> Callable[..., Any]:
    """A function of lists of leaves that gives lists of leaves, of plain tensors. `refuse` is
    called where it gives what has a history inside of a mapped function."""

    def of_plain(*lists: Sequence[Tensor]) -> Any:
        found = step(*map(raised, lists))
        if any(_tracked(x) for leaves in found for x in leaves):
            refuse()
        return tuple(plain(leaves) for leaves in found)

    return of_plain
