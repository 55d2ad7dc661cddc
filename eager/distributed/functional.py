"""`eager.distributed.functional`: collectives that give new tensors and have derivatives. op
records and tensors -> tensors.

The derivative of a collective is another: of a sum over the ranks it is the sum of the gradients
(of the sum of all ranks' losses), of a gathering the reduced part, of an exchange the exchange
back. All ranks take part in them when they run backward.

    t = F.all_gather_tensor(x, gather_dim=0, group=None)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any, ClassVar

import numpy as np

from eager.base.dataclass import dataclass
from eager.base.host_only import host_only
from eager.core.dispatch import apply
from eager.core.op import Attrs, Op
from eager.core.tensor import Tensor
from eager.distributed.collectives import Work, _parts, _require_op, _root
from eager.distributed.engine import ReduceOp, Request
from eager.distributed.groups import ProcessGroup, require_agreement, resolve
from eager.ops.view import norm_dim
from eager.sizes.aval import Aval


@dataclass(frozen=True, eq=False)
class Collective(Op):
    """Step that the ranks of a group (its attribute `group`) take together. `rows(n, **attrs)` says
    how many rows the result has for n of the operand; `start(out, array, **attrs)` starts it."""

    rows: Callable[..., int] = field(kw_only=True)
    start: Callable[..., Request] = field(kw_only=True)
    kind: ClassVar[str] = "collective"
    raises: ClassVar[bool] = True

    def abstract(self, avals: tuple[Aval, ...], attrs: Attrs) -> tuple[Aval, ...]:
        (x,) = avals
        shape = x.shape if x.ndim == 0 else (self.rows(x.shape[0], **attrs), *x.shape[1:])
        return (Aval(shape, x.dtype, x.device),)

    def compute(
        self, arrays: tuple[Any, ...], attrs: Attrs, outs: tuple[Aval, ...]
    ) -> tuple[Any, ...]:
        group: ProcessGroup = attrs["group"]
        x = np.ascontiguousarray(arrays[0]).reshape(arrays[0].shape)
        out = np.empty(outs[0].shape, x.dtype)
        what = f"{self.name} of {list(x.shape)} {x.dtype}"
        require_agreement(group, what)
        Work(self.start(out, x, **attrs), group, what).wait()
        return (out,)


def _same(n: int, **attrs: Any) -> int:
    return n


def _reduced(out: Any, x: Any, group: ProcessGroup, reduction: ReduceOp) -> Request:
    out[...] = x
    return group.engine.all_reduce(out, reduction)


def _sent(out: Any, x: Any, group: ProcessGroup, root: int) -> Request:
    out[...] = x
    return group.engine.broadcast(out, root)


def _exchanged(
    out: Any, x: Any, group: ProcessGroup, received: tuple[int, ...], sent: tuple[int, ...]
) -> Request:
    each = x[:1].size if len(x) else out[:1].size
    lengths = [[n * each for n in sizes] for sizes in (received, sent)]
    return group.engine.all_to_all(out, x, *lengths)


def _linear(op: ReduceOp, name: str) -> None:
    if op not in (ReduceOp.SUM, ReduceOp.AVG):
        raise RuntimeError(f"{name}: {op!r} has no derivative; SUM and AVG have one")


def _reduce_vjp(g: Tensor, group: Any, reduction: Any) -> tuple[Tensor]:
    _linear(reduction, "all_reduce")
    return (apply(ALL_REDUCE, g, group=group, reduction=reduction),)


def _scatter_vjp(g: Tensor, group: Any, reduction: Any) -> tuple[Tensor]:
    _linear(reduction, "reduce_scatter")
    spread = apply(ALL_GATHER, g, group=group)
    return (spread / group.size() if reduction is ReduceOp.AVG else spread,)


def _broadcast_vjp(g: Tensor, group: Any, root: Any) -> tuple[Tensor]:
    total = apply(ALL_REDUCE, g, group=group, reduction=ReduceOp.SUM)
    return (total if group.rank() == root else total * 0,)


ALL_REDUCE = Collective("all_reduce", ("x",), _reduce_vjp, rows=_same, start=_reduced)
ALL_GATHER = Collective(
    "all_gather", ("x",),
    lambda g, group: (apply(REDUCE_SCATTER, g, group=group, reduction=ReduceOp.SUM),),
    rows=lambda n, group: n * group.size(),
    start=lambda out, x, group: group.engine.all_gather(out, x),
)  # fmt: skip
REDUCE_SCATTER: Op = Collective(
    "reduce_scatter", ("x",), _scatter_vjp,
    rows=lambda n, group, reduction: n // group.size(),
    start=lambda out, x, group, reduction: group.engine.reduce_scatter(out, x, reduction),
)  # fmt: skip
BROADCAST = Collective("broadcast", ("x",), _broadcast_vjp, rows=_same, start=_sent)
ALL_TO_ALL: Op = Collective(
    "all_to_all", ("x",),
    lambda g, group, received, sent: (
        apply(ALL_TO_ALL, g, group=group, received=sent, sent=received),
    ),
    rows=lambda n, group, received, sent: sum(received),
    start=_exchanged,
)  # fmt: skip


# --------------------------------------------------------------------------------- functions
def _op(op: Any) -> ReduceOp:
    """PyTorch's functional forms name the operation by a word, too."""
    return ReduceOp(op.lower()) if isinstance(op, str) else op


def all_reduce(self: Tensor, reduceOp: Any = ReduceOp.SUM, group: Any = None) -> Tensor:
    """The values reduced over the ranks; any shape. SUM and AVG have derivatives."""
    host_only("distributed.functional.all_reduce")
    op, found = _op(reduceOp), resolve(group)
    _require_op(op, self, "all_reduce")
    return self if found is None else apply(ALL_REDUCE, self, group=found, reduction=op)


def all_gather_tensor(self: Tensor, gather_dim: int = 0, group: Any = None) -> Tensor:
    """The tensors of all ranks, concatenated along a dimension."""
    host_only("distributed.functional.all_gather_tensor")
    found = resolve(group)
    if found is None:
        return self
    d = norm_dim(gather_dim, self.ndim, "all_gather_tensor")
    return _along(d, self, lambda x: apply(ALL_GATHER, x, group=found))


def reduce_scatter_tensor(
    self: Tensor, reduceOp: Any = ReduceOp.SUM, scatter_dim: int = 0, group: Any = None
) -> Tensor:
    """This rank's part, along a dimension, of what is reduced over the ranks. Raises ValueError
    where the dimension does not make equal parts."""
    host_only("distributed.functional.reduce_scatter_tensor")
    op, found = _op(reduceOp), resolve(group)
    _require_op(op, self, "reduce_scatter_tensor")
    if found is None:
        return self
    d = norm_dim(scatter_dim, self.ndim, "reduce_scatter_tensor")
    if self.shape[d] % found.size():
        raise ValueError(
            f"reduce_scatter_tensor(): dimension {d} of {list(self.shape)} does not make "
            f"{found.size()} equal parts"
        )
    return _along(d, self, lambda x: apply(REDUCE_SCATTER, x, group=found, reduction=op))


def _along(d: int, x: Tensor, collective: Callable[[Tensor], Tensor]) -> Tensor:
    """A collective along dimension 0, done along `d`."""
    return collective(x.transpose(0, d).contiguous()).transpose(0, d) if d else collective(x)


def broadcast(self: Tensor, src: int, group: Any = None) -> Tensor:
    """The values of the world's rank `src`, which gets the sum of the gradients."""
    host_only("distributed.functional.broadcast")
    found = resolve(group)
    if found is None:
        return self
    return apply(BROADCAST, self, group=found, root=_root(found, src, None, "src"))


def all_to_all_single(
    self: Tensor,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: Any = None,
) -> Tensor:
    """Part r of the first dimension goes to rank r; what the ranks sent here, one behind the
    other. Parts are equal, or of the sizes that are given (in rows)."""
    host_only("distributed.functional.all_to_all_single")
    found = resolve(group)
    if found is None:
        return self
    n = found.size()
    _parts("all_to_all_single", self, input_split_sizes, n, "input")
    sent = tuple(input_split_sizes or [self.shape[0] // n] * n)
    received = tuple(output_split_sizes or sent)
    return apply(ALL_TO_ALL, self, group=found, received=received, sent=sent)


def wait_tensor(tensor: Tensor) -> Tensor:
    """The tensor: results of this module are there when they are returned."""
    return tensor
