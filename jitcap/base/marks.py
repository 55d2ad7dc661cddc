"""Marks on functions and tensors: hints that users give capture from inside their programs.

None of these changes what a program computes, only what is compiled: where it splits, and which
sizes are symbols from the start. (A size that has changed between calls is one by itself.)
"""

from __future__ import annotations

import weakref
from typing import Final, NamedTuple

from eager.compiler import NO_CAPTURE
from eager.core.tensor import Tensor


def graph_break() -> None:
    """Split the compiled program here."""


setattr(graph_break, NO_CAPTURE, True)


class Range(NamedTuple):
    """The sizes that a dimension is compiled for: from `min` to `max`, or without end."""

    min: int = 2
    max: int | None = None


STATIC: Final = Range(1, 0)  # a dimension whose sizes are compiled one by one
Marks = dict[int, Range]
_marked: dict[int, tuple[weakref.ref[Tensor], Marks]] = {}  # by the tensor's id


def mark_dynamic(
    tensor: Tensor, dim: int | tuple[int, ...], *, min: int | None = None, max: int | None = None
) -> Tensor:
    """The size of `dim` will vary: the next compile is right for all sizes from `min` (at least 2)
    to `max`. Gives the tensor. Sizes 0 and 1 have versions of their own, and so has a size that the
    program itself asks for (`if x.shape[0] == 3`).

    Raises TypeError for what is no tensor, IndexError for a dimension that it does not have,
    ValueError where its size is outside the range."""
    least = 2 if min is None or min < 2 else min
    for d in _dims(tensor, dim):
        size = tensor.shape[d]
        if (min is not None and size < min) or (max is not None and size > max):
            raise ValueError(f"mark_dynamic: dimension {d} has size {size}, not {min} to {max}")
        _mark(tensor, d, Range(least, max))
    return tensor


def assume_static(tensor: Tensor, dim: int | tuple[int, ...]) -> Tensor:
    """Each size of `dim` compiles a version of its own, though it varies. Gives the tensor; raises
    as `mark_dynamic`."""
    for d in _dims(tensor, dim):
        _mark(tensor, d, STATIC)
    return tensor


def marks_of(tensor: Tensor) -> Marks:
    """The marks on a tensor, by dimension."""
    found = _marked.get(id(tensor))
    return found[1] if found is not None and found[0]() is tensor else {}


def any_marked() -> bool:
    """True if a tensor that is alive has marks."""
    return bool(_marked)


def any_static() -> bool:
    """True if a tensor that is alive has a dimension whose sizes are compiled one by one."""
    return any(mark is STATIC for _, marks in [*_marked.values()] for mark in marks.values())


def _mark(tensor: Tensor, dim: int, mark: Range) -> None:
    key = id(tensor)
    if not marks_of(tensor):
        _marked[key] = weakref.ref(tensor, lambda _: _marked.pop(key, None)), {}
    _marked[key][1][dim] = mark


def _dims(tensor: Tensor, dim: int | tuple[int, ...]) -> tuple[int, ...]:
    if not isinstance(tensor, Tensor):
        raise TypeError(f"expected a Tensor, got {type(tensor).__name__}")
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    for d in dims:
        if not -tensor.ndim <= d < tensor.ndim:
            raise IndexError(f"dimension {d} of a tensor with {tensor.ndim} dimensions")
    return tuple(d % tensor.ndim for d in dims)
