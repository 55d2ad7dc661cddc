"""`vmap`: a function of one example as a function of many. func -> the function over a further
dimension.

`func` is called once for each example, on views of the arguments, and the results are stacked: any
function can be mapped, also one that looks at values, and derivatives of it nest. What one call
costs, n calls cost n times (under `@jit` the calls are one graph, which is compiled as a whole).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

from eager.dispatch import tracing
from eager.ops.move import stack
from eager.random import default_generator, get_rng_state, set_rng_state
from eager.tensor import Tensor
from eager.traced import UnknownValue

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
    example. `chunk_size` changes nothing. ValueError for dimensions that do not fit."""
    if randomness not in _RANDOMNESS:
        raise RuntimeError(
            f"Only allowed values for randomness are 'error', 'different', or 'same'. Got "
            f"{randomness}"
        )
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")

    @functools.wraps(func)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        pairs = list(_pairs(args, tuple(in_dims) if isinstance(in_dims, list) else in_dims))
        size = _size(func, pairs)
        results = []
        for i in range(size):
            parts = iter([x if d is None else x.select(d, i) for x, d in pairs])
            results.append(_call(func, _filled(args, parts), kwargs, randomness, i == size - 1))
        return _stacked(results, out_dims, func)

    return mapped


def _call(func: Any, args: Any, kwargs: Any, randomness: str, last: bool) -> Any:
    if randomness == "same":
        if tracing():
            raise UnknownValue("vmap(randomness='same') sets the random numbers back")
        before = get_rng_state()
        result = func(*args, **kwargs)
        if not last:
            set_rng_state(before)
        return result
    ordinal = default_generator.ordinal
    result = func(*args, **kwargs)
    if randomness == "error" and default_generator.ordinal != ordinal:
        raise RuntimeError(
            "vmap: called random operation while in randomness error mode. Please either use the "
            "'same' or 'different' randomness flags on vmap or perform the randomness operation "
            "out of vmap"
        )
    return result


def _children(tree: Any) -> list[Any] | None:
    """What is in a dict, list or tuple; None for a leaf."""
    if isinstance(tree, dict):
        return list(tree.values())
    return list(tree) if isinstance(tree, list | tuple) else None


def _pairs(tree: Any, dims: Any) -> Iterator[tuple[Any, Any]]:
    """The leaves of `tree`, each with its dimension; `dims` is a tree that may end early."""
    children = _children(tree)
    if children is None:
        yield tree, _checked(tree, dims)
        return
    given = _children(dims)
    if given is not None and len(given) != len(children):
        raise ValueError(
            f"vmap: in_dims is not compatible with the structure of inputs: {dims} for "
            f"{len(children)} of them"
        )
    for child, dim in zip(children, given or [dims] * len(children), strict=True):
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
    name = getattr(func, "__name__", repr(func))
    if not pairs:
        raise ValueError(f"vmap({name}): Trying to vmap over no arguments")
    sizes = [x.shape[d] for x, d in pairs if d is not None]
    if not sizes:
        raise ValueError(f"vmap({name}): in_dims has no dimension to vmap over")
    if any(n != sizes[0] for n in sizes):
        raise ValueError(
            f"vmap({name}): Expected all tensors to have the same size in the mapped dimension, "
            f"got sizes {sizes} for the mapped dimension"
        )
    if sizes[0] == 0:
        raise ValueError(f"vmap({name}): there is no example to call the function on")
    return sizes[0]


def _filled(tree: Any, leaves: Iterator[Any]) -> Any:
    """`tree` with other leaves."""
    if isinstance(tree, dict):
        return type(tree)((k, _filled(v, leaves)) for k, v in tree.items())
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*(_filled(v, leaves) for v in tree))
    if isinstance(tree, list | tuple):
        return type(tree)(_filled(v, leaves) for v in tree)
    return next(leaves)


def _stacked(results: list[Any], dims: Any, func: Any) -> Any:
    """One result of all: leaves of the same place stacked."""
    first = results[0]
    if isinstance(first, Tensor):
        dim = dims[0] if isinstance(dims, tuple | list) and len(dims) == 1 else dims
        return first if dim is None else stack(results, dim)
    children = _children(first)
    if children is None:
        raise ValueError(
            f"vmap({getattr(func, '__name__', func)}): the function must only return Tensors, got "
            f"type {type(first)}"
        )
    given = _children(dims)
    if given is not None and len(given) != len(children):
        raise ValueError(
            f"vmap: out_dims is not compatible with the structure of the outputs: {dims} for "
            f"{len(children)} of them"
        )
    columns = zip(*(_children(r) or [] for r in results), strict=True)
    each = given or [dims] * len(children)
    parts = [_stacked(list(c), d, func) for c, d in zip(columns, each, strict=True)]
    if isinstance(first, dict):
        return type(first)(zip(first, parts, strict=True))
    return type(first)(*parts) if hasattr(first, "_fields") else type(first)(parts)
