"""`eager.distributed.functional`: collectives that have derivatives. tensors -> new tensors.

t = F.all_gather_tensor(x, gather_dim=0, group=None)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from eager.core.tensor import Tensor
from eager.distributed.collectives import _require_op, _root, _split_sizes
from eager.distributed.device_mesh import DeviceMesh
from eager.distributed.engine import ReduceOp
from eager.distributed.groups import ProcessGroup, resolve
from eager.distributed.ops import (
    ALL_GATHER,
    ALL_REDUCE,
    ALL_TO_ALL,
    BROADCAST,
    REDUCE_SCATTER,
)
from eager.distributed.work import taken
from eager.ops.view import norm_dim


def _resolved(group: Any) -> ProcessGroup | None:
    """The group that is meant: also a mesh of one dimension, or (mesh, dimension)."""
    if isinstance(group, tuple):
        return group[0].get_group(group[1])
    return resolve(group.get_group() if isinstance(group, DeviceMesh) else group)


def _op(op: Any) -> ReduceOp:
    """PyTorch's functional forms name the operation by a word, too."""
    return ReduceOp(op.lower()) if isinstance(op, str) else op


def all_reduce(self: Tensor, reduceOp: Any = ReduceOp.SUM, group: Any = None) -> Tensor:
    """The values reduced over the ranks; any shape. SUM and AVG have derivatives."""
    op, found = _op(reduceOp), _resolved(group)
    _require_op(op, self, "all_reduce")
    if found is None:
        return self
    return taken(ALL_REDUCE, self, found, reduction=op.value)


def all_gather_tensor(self: Tensor, gather_dim: int = 0, group: Any = None) -> Tensor:
    """The tensors of all ranks, concatenated along a dimension."""
    found = _resolved(group)
    if found is None:
        return self
    if not self.ndim:
        raise ValueError("all_gather_tensor(): a tensor without dimensions is not gathered")
    d = norm_dim(gather_dim, self.ndim, "all_gather_tensor")
    return _along(d, self, lambda x: taken(ALL_GATHER, x, found))


def reduce_scatter_tensor(
    self: Tensor, reduceOp: Any = ReduceOp.SUM, scatter_dim: int = 0, group: Any = None
) -> Tensor:
    """This rank's part, along a dimension, of what is reduced over the ranks. Raises ValueError
    where the dimension does not make equal parts."""
    op, found = _op(reduceOp), _resolved(group)
    _require_op(op, self, "reduce_scatter_tensor")
    if found is None:
        return self
    d = norm_dim(scatter_dim, self.ndim, "reduce_scatter_tensor")
    if self.shape[d] % found.size():
        raise ValueError(
            f"reduce_scatter_tensor(): dimension {d} of {list(self.shape)} does not make "
            f"{found.size()} equal parts"
        )
    return _along(d, self, lambda x: taken(REDUCE_SCATTER, x, found, reduction=op.value))


def _along(d: int, x: Tensor, collective: Callable[[Tensor], Tensor]) -> Tensor:
    """A collective along dimension 0, done along `d`."""
    return collective(x.transpose(0, d).contiguous()).transpose(0, d) if d else collective(x)


def broadcast(self: Tensor, src: int, group: Any = None) -> Tensor:
    """The values of the world's rank `src`, which gets the sum of the gradients."""
    found = _resolved(group)
    if found is None:
        return self
    root = _root(found, src, None, "src")
    return taken(BROADCAST, self, found, root=root, sends=found.rank() == root)


def all_to_all_single(
    self: Tensor,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: Any = None,
) -> Tensor:
    """Part r of the first dimension goes to rank r; what the ranks sent here, one behind the
    other. Parts are equal, or of the sizes that all ranks give (in rows). ValueError where one list
    of sizes is given without the other, or does not fit."""
    found = _resolved(group)
    if found is None:
        return self
    n = found.size()
    if (input_split_sizes is None) != (output_split_sizes is None):
        raise ValueError("all_to_all_single(): give both lists of sizes, or none")
    _split_sizes("all_to_all_single", self, input_split_sizes, n, "input")
    received, sent = (tuple(map(int, s or ())) for s in (output_split_sizes, input_split_sizes))
    if received and (len(received) != n or min(received) < 0):
        raise ValueError(
            f"all_to_all_single(): output_split_sizes are {n} numbers of rows; got {received}"
        )
    return taken(ALL_TO_ALL, self, found, received=received, sent=sent)


def wait_tensor(tensor: Tensor) -> Tensor:
    """The tensor: results of this module are there when they are returned."""
    return tensor


# PyTorch's names for those that have derivatives, as all of these do.
all_gather_tensor_autograd = all_gather_tensor
reduce_scatter_tensor_autograd = reduce_scatter_tensor
all_to_all_single_autograd = all_to_all_single
