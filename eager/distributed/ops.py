"""`eager.distributed`'s op records: collectives with derivatives. x, order -> result, next order.
In a graph that is compiled: x, order -> handle, next order; handle, x -> result.

The derivative of a collective is another: of a sum over the ranks it is the sum of the gradients
(of the sum of all ranks' losses), of a gathering the reduced part, of an exchange the exchange
back. All ranks take part in them when they run backward.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any, ClassVar, Final

import numpy as np

from eager.base.dataclass import dataclass
from eager.base.dtype import DType
from eager.core.dispatch import apply
from eager.core.op import Attrs, Op
from eager.core.tensor import Tensor
from eager.distributed import compiled
from eager.distributed.engine import ReduceOp, Request, wait
from eager.distributed.groups import (
    ProcessGroup,
    by_number,
    require_agreement,
    require_fit,
    told,
)
from eager.sizes.aval import Aval


@dataclass(frozen=True, eq=False)
class Collective(Op):
    """Step that the ranks of a group take together; its attribute `group` is the group's number,
    and `ranks` how many they are.

    x of any shape and the number of collectives before -> the result and the next number, by which
    a graph has them in the order of the program. `rows(n, ranks, **attrs)` says
    how many rows the result has for n of x; `start(out, x, group, **attrs)` starts it."""

    rows: Callable[..., Any] = field(kw_only=True)
    start: Callable[..., Request] = field(kw_only=True)
    kind: ClassVar[str] = "extern"
    raises: ClassVar[bool] = True
    ordered: ClassVar[bool] = True
    compiled: ClassVar[Any] = compiled  # the functions that graphs and compiled code ask

    @property
    def halves(self) -> tuple[Op, Op] | None:
        return STARTS[self.name], WAIT

    def abstract(self, avals: tuple[Aval, ...], attrs: Attrs) -> tuple[Aval, ...]:
        x, order = avals
        given = dict(attrs)
        del given["group"]
        ranks = given.pop("ranks")
        shape = (self.rows(x.shape[0], ranks, **given), *x.shape[1:]) if x.ndim else x.shape
        return (Aval(shape, x.dtype, x.device), Aval((), order.dtype, order.device))

    def compute(
        self, arrays: tuple[Any, ...], attrs: Attrs, outs: tuple[Aval, ...]
    ) -> tuple[Any, ...]:
        given = dict(attrs)
        group = by_number(given.pop("group"))
        del given["ranks"]
        x, order = np.ascontiguousarray(arrays[0]).reshape(arrays[0].shape), arrays[1]
        out = np.empty(outs[0].shape, x.dtype)
        what = told(self.name, x.shape, x.dtype, **given)
        require_agreement(group, what)
        wait(self.start(out, x, group, **given), group.timeout, lambda: f"{what} of {group!r}")
        return out, np.asarray(order + 1)

    def divisor(self, attrs: Attrs, dtype: DType) -> int:
        """The number by which a graph divides what is summed, for an average. (16 bits are summed
        and divided in 32.)"""
        averages = attrs.get("reduction") == "avg" and dtype.is_floating_point
        averages &= dtype.itemsize > 2
        return int(attrs["ranks"]) if averages else 1


@dataclass(frozen=True, eq=False)
class Start(Collective):
    """First half of a collective: from here on the operand is sent, and the memory of the handle,
    which is that of the result, is written. Both are MPI's until the wait.

    Compiled code does so; as an op on arrays it is the whole collective."""

    half: ClassVar[str] = "start"

    @property
    def halves(self) -> None:
        return None


@dataclass(frozen=True, eq=False)
class Wait(Op):
    """Second half of a collective: the handle, and the operand whose memory is in use until now ->
    the result."""

    kind: ClassVar[str] = "extern"
    raises: ClassVar[bool] = True
    ordered: ClassVar[bool] = True
    half: ClassVar[str] = "wait"

    def abstract(self, avals: tuple[Aval, ...], attrs: Attrs) -> tuple[Aval, ...]:
        return avals[:1]

    def compute(
        self, arrays: tuple[Any, ...], attrs: Attrs, outs: tuple[Aval, ...]
    ) -> tuple[Any, ...]:
        return arrays[:1]


def _same(n: int, ranks: int, **attrs: Any) -> int:
    return n


def _reduced(
    out: Any, x: Any, group: ProcessGroup, reduction: str, averages: bool = False
) -> Request:
    out[...] = x
    return group.engine.all_reduce(out, ReduceOp(reduction))


def _sent(out: Any, x: Any, group: ProcessGroup, root: int, sends: bool) -> Request:
    out[...] = x
    return group.engine.broadcast(out, root)


def _scattered(
    out: Any, x: Any, group: ProcessGroup, reduction: str, averages: bool = False
) -> Request:
    return group.engine.reduce_scatter(out, x, ReduceOp(reduction))


def exchanged(
    out: Any, x: Any, group: ProcessGroup, received: Sequence[int], sent: Sequence[int]
) -> Request:
    """Start an exchange of parts, of these numbers of rows or equal ones. Raises DistBackendError
    where the ranks' numbers do not fit."""
    lengths = []
    if sent:
        require_fit(group, received, sent)
    for array, sizes in ((out, received), (x, sent)):
        each = math.prod(array.shape[1:])
        lengths.append([n * each for n in sizes])
    return group.engine.all_to_all(out, x, *lengths)


def _require_linear(reduction: str, name: str) -> None:
    if reduction not in ("sum", "avg"):
        raise RuntimeError(f"{name}: {reduction} has no derivative; SUM and AVG have one")


def _reduce_vjp(g: Any, out1: Tensor, group: int, ranks: int, reduction: str) -> tuple[Any, None]:
    _require_linear(reduction, "all_reduce")
    return apply(ALL_REDUCE, g[0], out1, group=group, ranks=ranks, reduction=reduction)[0], None


def _gather_vjp(g: Any, out1: Tensor, group: int, ranks: int) -> tuple[Any, None]:
    return apply(REDUCE_SCATTER, g[0], out1, group=group, ranks=ranks, reduction="sum")[0], None


def _scatter_vjp(g: Any, out1: Tensor, group: int, ranks: int, reduction: str) -> tuple[Any, None]:
    _require_linear(reduction, "reduce_scatter")
    spread = apply(ALL_GATHER, g[0], out1, group=group, ranks=ranks)[0]
    return (spread / ranks if reduction == "avg" else spread), None


def _broadcast_vjp(g: Any, out1: Tensor, group: int, ranks: int, sends: bool) -> tuple[Any, None]:
    total = apply(ALL_REDUCE, g[0], out1, group=group, ranks=ranks, reduction="sum")[0]
    if sends:
        return total, None
    return total.where(total == 0, 0.0), None  # zeros that need the sum: all ranks take part


def _exchange_vjp(
    g: Any, out1: Tensor, group: int, ranks: int, received: tuple[int, ...], sent: tuple[int, ...]
) -> tuple[Any, None]:
    back = {"received": sent, "sent": received}
    return apply(ALL_TO_ALL, g[0], out1, group=group, ranks=ranks, **back)[0], None


WAIT: Final = Wait("wait", ("handle", "x"))
STARTS: Final[dict[str, Start]] = {}  # by the name of the whole


def _record(name: str, vjp: Any, rows: Callable[..., Any], start: Callable[..., Request]) -> Op:
    operands = "x", "order"
    STARTS[name] = Start(f"start_{name}", operands, n_outputs=2, rows=rows, start=start)
    return Collective(name, operands, vjp, n_outputs=2, rows=rows, start=start)


ALL_REDUCE: Final = _record("all_reduce", _reduce_vjp, _same, _reduced)
ALL_GATHER: Final = _record(
    "all_gather", _gather_vjp, lambda n, ranks: n * ranks,
    lambda out, x, group: group.engine.all_gather(out, x),
)  # fmt: skip
REDUCE_SCATTER: Final = _record(
    "reduce_scatter", _scatter_vjp, lambda n, ranks, reduction, averages=False: n // ranks,
    _scattered,
)  # fmt: skip
BROADCAST: Final = _record("broadcast", _broadcast_vjp, _same, _sent)
ALL_TO_ALL: Final = _record(
    "all_to_all", _exchange_vjp,
    lambda n, ranks, received, sent: sum(received) if received else n, exchanged,
)  # fmt: skip
