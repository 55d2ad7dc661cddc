"""`eager.distributed`: tensors of which each rank has its rows. a tensor, a group -> this rank's
rows, and where they lie in the whole.

Rows are those of dimension 0, in parts of equal length (the last ranks may have fewer, or none), as
PyTorch splits them: a part keeps the number of dimensions, by which programs choose what decays,
and all ranks' parts, one behind the other, begin with the tensor itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from eager.autograd import no_grad
from eager.base.dataclass import dataclass
from eager.base.dtype import bool_, int32
from eager.core import sharded
from eager.core.tensor import Tensor
from eager.distributed.collectives import all_gather_into_tensor, all_reduce
from eager.distributed.engine import ReduceOp
from eager.distributed.groups import ProcessGroup
from eager.nn.utils.clip import get_total_norm
from eager.ops.create import empty, zeros


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
        out = empty((shard.rows * shard.group.size(), *shard.shape[1:]), dtype=tensor.dtype)
        all_gather_into_tensor(out, own, shard.group)
        return out[: shard.shape[0]].clone()


def padded(part: Tensor, rows: int) -> Tensor:
    """The part with as many rows as the first rank's."""
    if part.shape[0] == rows:
        return part
    whole = zeros((rows, *part.shape[1:]), dtype=part.dtype)
    whole[: part.shape[0]] = part
    return whole


# ---------------------------------------------------------------------- what looks at all of it
def _by_group(parameters: Sequence[Tensor]) -> dict[Any, list[Tensor]]:
    """The parameters, by the group whose ranks have parts of them (None: nobody else has)."""
    found: dict[Any, list[Tensor]] = {}
    for p in parameters:
        found.setdefault(None if p._shard is None else p._shard.group, []).append(p)
    return found


def total_norm(parameters: Sequence[Tensor], norm_type: float) -> Tensor:
    """Norm of the gradients of the parameters, with those that other ranks have. ValueError for an
    order that is not positive."""
    order = float(norm_type)
    if not order > 0:
        raise ValueError(f"the norm of order {norm_type} is not there for sharded parameters")
    norms = []
    with no_grad():
        for group, part in _by_group(parameters).items():
            norm = _norm([p.grad for p in part], order)
            if group is not None and order == math.inf:
                all_reduce(norm, ReduceOp.MAX, group)
            elif group is not None:
                norm = norm**order
                all_reduce(norm, ReduceOp.SUM, group)
                norm = norm ** (1 / order)
            norms.append(norm)
        return norms[0] if len(norms) == 1 else get_total_norm(norms, order)


def _norm(gradients: Sequence[Any], order: float) -> Tensor:
    held = [g for g in gradients if g.numel()]
    return get_total_norm(held, order) if held else gradients[0].sum()  # 0, in their type


def on_any_rank(parameters: Sequence[Tensor], found: Tensor) -> Tensor:
    """A bool (0-dim) that is true where it is on one of the ranks that share the parameters."""
    counted = found.to(int32)
    for group in _by_group(parameters):
        if group is not None:
            all_reduce(counted, ReduceOp.MAX, group)
    return counted.to(bool_)
