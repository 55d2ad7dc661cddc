"""`eager.distributed.nn.functional`: PyTorch's older names of collectives that have derivatives.
tensors -> new tensors, or what PyTorch gives.

The gradients are those of the sum of all ranks' losses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eager.core.tensor import Tensor
from eager.distributed import functional as F
from eager.distributed.collectives import _split_sizes
from eager.distributed.engine import ReduceOp
from eager.distributed.groups import ProcessGroup, resolve
from eager.ops.create import full, zeros_like
from eager.ops.move import cat, stack
from eager.ops.pointwise import where

__all__ = [
    "all_gather", "all_reduce", "all_to_all", "all_to_all_single", "broadcast", "gather", "reduce",
    "reduce_scatter", "scatter",
]  # fmt: skip


def all_reduce(tensor: Tensor, op: ReduceOp = ReduceOp.SUM, group: Any = None) -> Tensor:
    """The values reduced over the ranks; any shape."""
    return F.all_reduce(tensor, op, group)


def broadcast(tensor: Tensor, src: int, group: Any = None) -> Tensor:
    """The values of the world's rank `src`."""
    return F.broadcast(tensor, src, group)


def all_gather(tensor: Tensor, group: Any = None) -> tuple[Tensor, ...]:
    """The tensors of all ranks, of one shape."""
    found = resolve(group)
    if found is None:
        return (tensor,)
    return F.all_gather_tensor(tensor[None], 0, found).unbind(0)


def gather(tensor: Tensor, dst: int = 0, group: Any = None) -> tuple[Tensor, ...]:
    """The tensors of all ranks, on `dst`; elsewhere zeros of their shape."""
    found = resolve(group)
    if found is None:
        return (tensor,)
    return tuple(_on(found, dst, t, zeros_like(t)) for t in all_gather(tensor, found))


def reduce(tensor: Tensor, dst: int, op: ReduceOp = ReduceOp.SUM, group: Any = None) -> Tensor:
    """The values reduced over the ranks, on `dst`; elsewhere the tensor's, without a gradient."""
    found = resolve(group)
    if found is None:
        return tensor
    return _on(found, dst, F.all_reduce(tensor, op, found), tensor.detach())


def _on(group: ProcessGroup, dst: int, x: Tensor, other: Tensor) -> Tensor:
    """x on `dst`, elsewhere `other`, whose backward takes part in x's all the same."""
    is_root = full((), group.rank() == group.local(dst, "dst"), device=x.device)
    return where(is_root, x, other)


def scatter(tensors: Sequence[Tensor], src: int = 0, group: Any = None) -> Tensor:
    """Tensor r of `src`'s list, on rank r. The others give lists of the same shapes."""
    found = resolve(group)
    if found is None:
        return tensors[0]
    return F.broadcast(stack(list(tensors)), src, found)[found.rank()]


def reduce_scatter(
    output: Tensor, input_list: Sequence[Tensor], op: ReduceOp = ReduceOp.SUM, group: Any = None
) -> Tensor:
    """This rank's part of the lists, reduced over the ranks: a new tensor like `output`."""
    made = F.reduce_scatter_tensor(stack(list(input_list)), op, 0, group)
    return made.reshape(output.shape)


def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: Any = None,
) -> Tensor:
    """Part r of the first dimension goes to rank r: a new tensor like `output`. Parts are equal, or
    of the sizes that all ranks give (in rows). RuntimeError for an output of another size."""
    found = resolve(group)
    if found is None:
        return input
    if output_split_sizes is not None or input_split_sizes is not None:
        n, name = found.size(), "all_to_all_single"
        output_split_sizes = _split_sizes(name, output, output_split_sizes, n, "output")
        input_split_sizes = _split_sizes(name, input, input_split_sizes, n, "input")
    made = F.all_to_all_single(input, output_split_sizes, input_split_sizes, found)
    return made.reshape(output.shape)


def all_to_all(
    output_tensor_list: Sequence[Tensor], input_tensor_list: Sequence[Tensor], group: Any = None
) -> tuple[Tensor, ...]:
    """Tensor r of the inputs goes to rank r: new tensors like the outputs."""
    sent = [t.numel() for t in input_tensor_list]
    received = [t.numel() for t in output_tensor_list]
    flat = cat([t.reshape(-1) for t in input_tensor_list])
    row = F.all_to_all_single(flat, received, sent, group)
    parts = zip(row.split(received), output_tensor_list, strict=True)
    return tuple(part.reshape(like.shape) for part, like in parts)
