"""`vmap`: a function of one example as a function of many. func -> the function over a further
dimension.

`func` is called once. Its arguments are tensors of the shape of one example that stand for all of
them (`eager/core/batched.py`), and each op becomes ops on all (`eager/ops/batching.py`), as many as
for one example. Calls nest, with each other and with derivatives, each in a level of its own.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from eager.base.tree import fill
from eager.core.batched import Batched, Level
from eager.core.dispatch import innermost, lifted, tracing
from eager.core.tape import mode
from eager.core.tensor import Tensor, wrap
from eager.core.traced import UnknownValue
from eager.ops.batching import batched
from eager.ops.create import eye
from eager.ops.move import cat
from eager.ops.view import movedim, norm_dim
from eager.random import get_rng_state, set_rng_state

_RANDOMNESS = ("error", "different", "same")


def vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """`func` over the dimensions `in_dims` of its arguments (None: the same for every example; a
    tree of them for trees of tensors), with the examples at `out_dims` of its results.

    `randomness` says of random numbers drawn inside: "error", "different" or the "same" for every
    example. `chunk_size`: how many examples are computed at once, for less memory. What depends on
    the values of an example (`if x > 0`, `x.item()`, `nonzero`) raises RuntimeError, as does a
    write of what differs by example into a tensor that does not; ValueError for dimensions that do
    not fit."""
    if randomness not in _RANDOMNESS:
        raise RuntimeError(
            f"Only allowed values for randomness are 'error', 'different', or 'same'. Got "
            f"{randomness}"
        )
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")

    @functools.wraps(func)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        return _mapped(func, args, kwargs, in_dims, out_dims, randomness, chunk_size)

    return mapped


def directions(x: Tensor) -> Tensor:
    """One-hot tensors of the shape of `x`, one for each of its elements: (numel, *x.shape)."""
    n = x.numel()
    return eye(n, dtype=x.dtype, device=x.device).reshape((n, *x.shape))


def _mapped(
    func: Any, args: Any, kwargs: Any, in_dims: Any, out_dims: Any, randomness: str, chunk: Any
) -> Any:
    if not isinstance(in_dims, int | tuple):
        raise ValueError(  # noqa: TRY004 - as PyTorch
            f"vmap({_name(func)}): expected `in_dims` to be int or a tuple that matches the "
            f"structure of the inputs, got {type(in_dims)}"
        )
    pairs = list(_pairs(args, in_dims))
    size = _size(func, pairs)
    inside = [x if d is None else movedim(x, d, 0) for x, d in pairs]
    starts = [0] if chunk is None or size <= chunk else range(0, size, chunk)
    state = _state() if randomness == "same" and len(starts) > 1 else None
    rows: list[list[tuple[Tensor, Any]]] = []
    for start in starts:
        if start and state is not None:
            set_rng_state(state)
        count = size if len(starts) == 1 else min(chunk, size - start)
        level = Level(count, randomness, batched)
        parts = [
            x if d is None else _of_level(level, x if count is size else x.narrow(0, start, count))
            for x, (_, d) in zip(inside, pairs, strict=True)
        ]
        result = _call(level, func, fill(args, parts), kwargs)
        rows.append(list(_values(result, out_dims, level, func)))
    outs = [_joined(column) for column in zip(*rows, strict=True)]
    return fill(result, outs)


def _state() -> Tensor:
    if tracing():
        raise UnknownValue("vmap(randomness='same', chunk_size=...) sets the random numbers back")
    return get_rng_state()


def _of_level(level: Level, x: Tensor) -> Tensor:
    return wrap(Batched(level, x, True))


def _call(level: Level, func: Any, args: Any, kwargs: Any) -> Any:
    before, mode.levels = mode.levels, (*mode.levels, level)
    try:
        return func(*args, **kwargs)
    finally:
        mode.levels = before


def _children(tree: Any) -> list[Any] | None:
    """Children of a dict, list or tuple; None for a leaf."""
    if isinstance(tree, dict):
        return list(tree.values())
    return list(tree) if isinstance(tree, list | tuple) else None


def _dims_of(tree: Any, dims: Any, name: str) -> list[Any]:
    """The dimensions of what is in a dict, list or tuple: one for all, or those of a tree like it,
    in their order (also in a dict, as in PyTorch). ValueError for an unlike one."""
    given = _children(dims)
    if given is None:
        return [dims] * len(tree)
    alike = type(dims) is type(tree) and len(dims) == len(tree)
    if not alike or (isinstance(tree, dict) and dims.keys() != tree.keys()):
        raise ValueError(
            f"vmap: {name} is not compatible with the structure of what it is for: {dims} for a "
            f"{type(tree).__name__} of {len(tree)}"
        )
    return given


def _pairs(tree: Any, dims: Any) -> Iterator[tuple[Any, Any]]:
    """The leaves of `tree`, each with its dimension; `dims` is a tree that may end early."""
    children = _children(tree)
    if children is None:
        dim = _checked(tree, dims)
        if tree is not None:
            yield tree, dim
        return
    for child, dim in zip(children, _dims_of(tree, dims, "in_dims"), strict=True):
        yield from _pairs(child, dim)


def _checked(leaf: Any, dim: Any) -> Any:
    if dim is None:
        return None
    if not isinstance(dim, int):
        raise ValueError(  # noqa: TRY004 - as PyTorch
            f"vmap: Got in_dim={dim} for an input: it must be an int or None"
        )
    if not isinstance(leaf, Tensor):
        raise ValueError(  # noqa: TRY004 - as PyTorch
            f"vmap: Got in_dim={dim} for an input but the input is of type {type(leaf)}. We cannot "
            "vmap over non-Tensor arguments, please use None as the respective in_dim"
        )
    if not -leaf.ndim <= dim < leaf.ndim:
        raise ValueError(
            f"vmap: Got in_dim={dim} for some input, but that input is a Tensor of dimensionality "
            f"{leaf.ndim} so expected in_dim to satisfy -{leaf.ndim} <= in_dim < {leaf.ndim}."
        )
    return dim


def _size(func: Any, pairs: list[tuple[Any, Any]]) -> int:
    if not pairs:
        raise ValueError(f"vmap({_name(func)}): Trying to vmap over no arguments")
    sizes = [x.shape[d] for x, d in pairs if d is not None]
    if not sizes:
        raise ValueError(f"vmap({_name(func)}): in_dims has no dimension to vmap over")
    if any(n != sizes[0] for n in sizes):
        raise ValueError(
            f"vmap({_name(func)}): Expected all tensors to have the same size in the mapped "
            f"dimension, got sizes {sizes} for the mapped dimension"
        )
    return sizes[0]


def _values(result: Any, dims: Any, level: Level, func: Any) -> Iterator[tuple[Tensor, Any]]:
    """The tensors of a result, with the examples in front, and where they are to be; those that
    are to be the same for all, and None."""
    if isinstance(result, Tensor):
        dim = dims[0] if isinstance(dims, tuple) and len(dims) == 1 else dims
        if dim is not None and not isinstance(dim, int):
            raise ValueError(
                f"vmap({_name(func)}): out_dims is not compatible with the structure of the "
                f"outputs: {dims} for a Tensor"
            )
        yield _value(result, dim, level, func), dim
        return
    children = _children(result)
    if children is None:
        raise ValueError(
            f"vmap({_name(func)}): the function must only return Tensors, got type {type(result)}"
        )
    for child, dim in zip(children, _dims_of(result, dims, "out_dims"), strict=True):
        yield from _values(child, dim, level, func)


def _value(x: Tensor, dim: Any, level: Level, func: Any) -> Tensor:
    array: Any = lifted(level, x)._array
    inner = innermost((array.value,))
    if inner is not None and inner.number > level.number:
        raise RuntimeError(f"vmap({_name(func)}): a tensor of a vmap inside of it, which has ended")
    if dim is None:
        if array.mapped:
            raise ValueError(
                f"vmap({_name(func)}): the function can not return a BatchedTensor when out_dim is "
                "None"
            )
        return array.value
    norm_dim(dim, x.ndim + 1, "vmap")
    value = array.value
    return value if array.mapped else value.expand((level.size, *value.shape))


def _joined(column: Sequence[tuple[Tensor, Any]]) -> Tensor:
    """The values of all chunks, with the examples where they are to be."""
    dim = column[0][1]
    value = column[0][0] if len(column) == 1 or dim is None else cat([x for x, _ in column], 0)
    return value if dim is None else movedim(value, 0, dim)


def _name(func: Any) -> str:
    return func.__name__ if hasattr(func, "__name__") else repr(func)
