"""`eager.distributed`: tensors of which each rank has its rows. a tensor, a group -> this rank's
rows, and where they lie in the whole.

Rows are those of dimension 0, in parts of equal length (the last ranks may have fewer, or none), as
PyTorch splits them: a part keeps the number of dimensions, by which programs choose what decays,
and all ranks' parts, one behind the other, begin with the tensor itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Final

from eager.autograd import no_grad
from eager.base.dataclass import dataclass
from eager.base.dtype import DType, bool_, int32
from eager.core import sharded
from eager.core.tensor import Tensor
from eager.distributed.collectives import (
    all_gather_into_tensor,
    all_reduce,
    reduce_scatter_tensor,
)
from eager.distributed.engine import ReduceOp
from eager.distributed.groups import ProcessGroup
from eager.nn.utils.clip import norm_of
from eager.ops.create import empty, zeros
from eager.ops.move import cat

ALONE: Final = 1 << 18  # bytes of a tensor from which on it is gathered where it lies
PARTS: Final = 32  # tensors that one collective moves, at most: what compiled code copies in loops


@dataclass(frozen=True)
class Shard:
    """Place of a tensor in a larger one, of `shape`, whose other parts the other ranks of `group`
    have: from `offsets` on, `sizes` long in each dimension."""

    shape: tuple[int, ...]
    offsets: tuple[int, ...]
    sizes: tuple[int, ...]
    group: ProcessGroup

    @property
    def rows(self) -> int:
        """Rows that each rank sends when the tensor is put together: what it lacks is padding."""
        return rows_of(self.shape[0], self.group.size())


def rows_of(rows: int, ranks: int) -> int:
    """Rows of the first ranks' parts."""
    return -(-rows // ranks)


def own_shard(shape: tuple[int, ...], group: ProcessGroup) -> Shard:
    """Shard of this rank in a tensor of `shape` that the group shares. ValueError for one without
    dimensions."""
    if not shape:
        raise ValueError("a tensor without dimensions has no rows to share: give it one, of size 1")
    each = rows_of(shape[0], group.size())
    start = min(group.rank() * each, shape[0])
    stop = min(start + each, shape[0])
    offsets = (start, *(0 for _ in shape[1:]))
    return Shard(tuple(shape), offsets, (stop - start, *shape[1:]), group)


def part_of(whole: Tensor, shard: Shard) -> Tensor:
    """The part of `whole` at the place of `shard`: a view."""
    start = shard.offsets[0]
    return whole[start : start + shard.sizes[0]]


def marked(tensor: Tensor, shard: Shard) -> Tensor:
    """The tensor, which `shard_of` knows from now on."""
    tensor._shard = shard
    sharded.total_norm, sharded.on_any_rank = total_norm, on_any_rank
    return tensor


def shard_of(tensor: Tensor) -> Shard | None:
    """The place of a tensor in the one that its rank shares with others: of a parameter of a module
    under `fully_shard`, and of what `state_dict()` has of it. None for any other tensor."""
    found: Shard | None = tensor._shard
    return found


def full_tensor(tensor: Tensor) -> Tensor:
    """The whole of which `tensor` is this rank's part (any other tensor as it is): a new tensor
    without a history. All ranks of the group call it."""
    shard = shard_of(tensor)
    if shard is None:
        return tensor
    with no_grad():
        own = padded(tensor.detach(), shard.rows)
        shape = shard.rows * shard.group.size(), *shard.shape[1:]
        out = empty(shape, dtype=tensor.dtype, device=tensor.device)
        all_gather_into_tensor(out, own, shard.group)
        return out[: shard.shape[0]].clone()


def placed_as(own: Tensor, value: Any) -> Any:
    """A value of the state of `own`, which are this rank's rows: one that is as large lies where
    they do, and `shard_of` knows it of the result."""
    shard = shard_of(own)
    if shard is None or not isinstance(value, Tensor) or tuple(value.shape) != shard.sizes:
        return value
    return marked(value.detach(), shard)


def rows_as(own: Tensor, value: Any) -> Any:
    """The part of a whole tensor at the place of `own`: a view; anything else as it is."""
    shard = shard_of(own)
    if shard is None or not isinstance(value, Tensor) or tuple(value.shape) != shard.shape:
        return value
    return part_of(value, shard)


def padded(part: Tensor, rows: int) -> Tensor:
    """The part with as many rows as the first rank's."""
    if part.shape[0] == rows:
        return part
    whole = zeros((rows, *part.shape[1:]), dtype=part.dtype, device=part.device)
    whole[: part.shape[0]] = part
    return whole


class Spread:
    """Tensors of which each rank of a group has its rows: their shards, and the collectives between
    rows and wholes. One without dimensions has no shard, and is whole on each rank."""

    def __init__(self, tensors: Sequence[Tensor], group: ProcessGroup) -> None:
        self.group = group
        self.shards = [own_shard(tuple(t.shape), group) if t.ndim else None for t in tensors]
        self.tensors, self.buckets = tensors, _buckets(tensors)

    def rows_here(self, i: int, whole: Tensor) -> Tensor:
        """The rows here of a tensor as large as number i: a view."""
        shard = self.shards[i]
        return whole if shard is None else part_of(whole, shard)

    def mark(self, i: int, rows: Tensor) -> None:
        """Make `shard_of` know the rows here of number i."""
        shard = self.shards[i]
        if shard is not None:
            marked(rows, shard)

    def gather(
        self, rows: Sequence[Tensor | None], dtype: DType | None = None
    ) -> Iterator[tuple[int, Tensor]]:
        """The whole tensors of all ranks' rows, with their numbers, as they arrive; floating ones
        as `dtype`, if it is given. What is None, on all ranks, and what has no shard is left
        out."""
        ranks = self.group.size()
        for bucket in self.buckets:
            spread, sent = [], []
            for i in bucket:
                own, shard = rows[i], self.shards[i]
                if own is not None and shard is not None:
                    spread.append((i, shard))
                    sent.append(_sent(own, shard, dtype))
            if not spread:
                continue
            mine = sent[0] if len(sent) == 1 else cat(sent)
            out = empty(ranks * mine.numel(), dtype=mine.dtype, device=mine.device)
            all_gather_into_tensor(out, mine, self.group)
            table, start = out.view(ranks, -1), 0
            for (i, shard), part in zip(spread, sent, strict=True):
                stop = start + part.numel()
                padded_shape = (ranks * shard.rows, *shard.shape[1:])
                yield i, table[:, start:stop].reshape(padded_shape)[: shard.shape[0]]
                start = stop

    def reduce(
        self, wholes: Sequence[Tensor | None], dtype: DType | None = None
    ) -> list[Tensor | None]:
        """The rows here of the averages over the ranks, in the types of the tensors; on the way as
        `dtype`, if it is given. What is None, on all ranks, stays so. The last come first: so
        derivatives become known."""
        found: list[Tensor | None] = [None] * len(wholes)
        for bucket in reversed(self.buckets):
            used = [i for i in bucket if wholes[i] is not None]
            if used:
                self._reduce(used, wholes, found, dtype)
        return found

    def _reduce(
        self, used: Sequence[int], wholes: Sequence[Any], found: list[Any], dtype: DType | None
    ) -> None:
        tables = [self._table(i, wholes[i], dtype) for i in used]
        table = tables[0] if len(tables) == 1 else cat(tables, 1)
        own = empty(table.shape[1], dtype=table.dtype, device=table.device)
        reduce_scatter_tensor(own, table, ReduceOp.AVG, self.group)
        parts = own.split([each.shape[1] for each in tables])
        for i, part in zip(used, parts, strict=True):
            shard, part = self.shards[i], part.to(self.tensors[i].dtype)
            if shard is None:
                found[i] = part.view(())
            else:
                rows = part.view(shard.rows, *shard.shape[1:])[: shard.sizes[0]]
                rows._shard = shard  # `get_total_norm` asks for it
                found[i] = rows

    def _table(self, i: int, whole: Tensor, dtype: DType | None) -> Tensor:
        """A row for each rank, with what it is to get: (ranks, n)."""
        ranks, shard = self.group.size(), self.shards[i]
        g = whole if dtype is None else whole.to(dtype)
        if shard is None:
            return g.view(1, 1).expand(ranks, 1)
        return padded(g, ranks * shard.rows).reshape(ranks, -1)


def _sent(rows: Tensor, shard: Shard, dtype: DType | None) -> Tensor:
    rows = rows.detach()
    if dtype is not None and rows.is_floating_point():
        rows = rows.to(dtype)
    return padded(rows, shard.rows).reshape(-1)


def _buckets(tensors: Sequence[Tensor]) -> list[list[int]]:
    """Numbers of the tensors that one collective moves: each large one, whose whole is then a view
    of what arrives, and the small ones of a dtype together, up to PARTS."""
    small: dict[Any, list[int]] = {}
    found = []
    for i, t in enumerate(tensors):
        if t.numel() * t.dtype.itemsize >= ALONE:
            found.append([i])
        elif t.dtype in small and len(small[t.dtype]) < PARTS:
            small[t.dtype].append(i)
        else:
            small[t.dtype] = [i]
            found.append(small[t.dtype])
    return found


# ---------------------------------------------------------------------- what looks at all of it
def total_norm(gradients: Sequence[Tensor], of: Sequence[Tensor], norm_type: float) -> Tensor:
    """Norm of gradients, with those that other ranks have: `of` says where they lie, the gradients
    themselves or their parameters. ValueError for an order that is not positive of gradients that
    are spread, and for gradients that are not averaged yet."""
    if any(t._unreduced is not None for t in of):
        raise ValueError(
            "the gradients are each rank's own until the step of their ZeroRedundancyOptimizer, "
            "which averages them (reduce_gradients=True): give it max_norm, too"
        )
    order = float(norm_type)
    parts: dict[Any, list[Tensor]] = {}
    for gradient, t in zip(gradients, of, strict=True):
        parts.setdefault(_group_of(t), []).append(gradient)
    if not order > 0 and any(group is not None for group in parts):
        raise ValueError(f"the norm of order {norm_type} is not there for sharded parameters")
    norms = []
    with no_grad():
        for group, part in parts.items():
            norm = _norm(part, order)
            if group is not None and order == math.inf:
                all_reduce(norm, ReduceOp.MAX, group)
            elif group is not None:
                norm = norm**order
                all_reduce(norm, ReduceOp.SUM, group)
                norm = norm ** (1 / order)
            norms.append(norm)
        return norms[0] if len(norms) == 1 else norm_of(norms, order)


def _group_of(tensor: Tensor) -> ProcessGroup | None:
    """The group whose ranks have the other rows of a tensor (None: nobody has)."""
    return None if tensor._shard is None else tensor._shard.group


def _norm(gradients: Sequence[Any], order: float) -> Tensor:
    held = [g for g in gradients if g.numel()]
    return norm_of(held, order) if held else gradients[0].sum()  # 0, in their type


def on_any_rank(parameters: Sequence[Tensor], found: Tensor) -> Tensor:
    """A bool (0-dim) that is true where it is on one of the ranks that share the parameters, or
    have other gradients of them."""
    counted = found.to(int32)
    for group in dict.fromkeys(p._unreduced or _group_of(p) for p in parameters):
        if group is not None:
            all_reduce(counted, ReduceOp.MAX, group)
    return counted.to(bool_)
