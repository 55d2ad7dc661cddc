"""Beside the dynamic ops: the same by other ops, but for the size. tensors -> the size as a 0-dim
tensor, and a function that gives the results when it is known.

So run on a device what data decide the size of: the host waits for one number, and what is computed
from it stays there. All but the last step is of the operands' sizes, and compiles once for them.
No operand is empty.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from eager.base import dtype as dt
from eager.core.dispatch import apply
from eager.core.op import REGISTRY
from eager.core.tensor import Tensor
from eager.sizes.aval import Aval

Found = tuple[Tensor, Callable[[Any], Any]]


def _call(name: str, *operands: Any, **attrs: Any) -> Any:
    return apply(REGISTRY[name], *operands, **attrs)


def _zeros(n: Any, like: Tensor, dtype: dt.DType = dt.int64) -> Tensor:
    return Tensor._full(0, Aval((n,), dtype, like.aval.device))


def _numbered(n: Any, like: Tensor) -> Tensor:
    """0, 1, ..., n - 1 where `like` is."""
    found: Tensor = _call("iota", shape=(n,), dtype=dt.int64, device=like.aval.device)
    return found


def _hits(chosen: Tensor) -> Found:
    """Number of true elements of a one-dimensional mask, and their indices."""
    n = chosen.shape[0]
    upto = chosen.to(dt.int64).cumsum(0)
    place = _call("where", chosen, upto - 1, n)  # the others go behind all
    order = _zeros(n + 1, chosen).scatter(0, place, _numbered(n, chosen))
    return upto[-1], lambda size: order[:size].clone()


def nonzero(x: Tensor) -> Found:
    """A row of indices for each dimension."""
    count, places = _hits(x.reshape(-1).ne(0))
    shape = tuple(x.shape)

    def values(size: Any) -> Tensor:
        left, rows = places(size), []
        for n in reversed(shape[1:]):
            rows.append(left.remainder(n))
            left = left.floor_divide(n)
        if not shape:
            return _zeros(0, x).unsqueeze(1).expand(0, size)
        found: Tensor = _call("cat", *(r.unsqueeze(0) for r in (left, *reversed(rows))), dim=0)
        return found

    return count, values


def repeats(counts: Tensor) -> Found:
    """Each place is that of an element, of which so many end before it."""
    ends = counts.to(dt.int64).cumsum(0)
    total = _call("where", counts.amin(0) < 0, -1, ends[-1])

    def values(size: Any) -> Tensor:
        ended = _zeros(size + 1, counts).index_add(0, ends, ends.ne(-1).to(dt.int64))
        return ended[:size].cumsum(0)

    return total, values


def bincount(x: Tensor, weights: Tensor | None = None, *, least: int) -> Found:
    """The largest and one, unless there is a negative one."""
    places = x.to(dt.int64)
    size = _call("where", places.amin(0) < 0, -1, (places.amax(0) + 1).clamp(min=least))
    given = _zeros(x.shape[0], x) + 1 if weights is None else weights
    return size, lambda n: _zeros(n, x, given.dtype).index_add(0, places, given)


def unique(x: Tensor, dim: int | None) -> Found | None:
    """Unique values, as runs of the sorted elements; NaNs are one value."""
    if dim is not None and x.ndim != 1:
        return None
    ordered, places = x.reshape(-1).sort(stable=True)
    differs = ordered[1:].ne(ordered[:-1])
    if x.dtype.is_floating_point:
        differs = differs.logical_and(ordered[:-1].isnan().logical_not())
    count, rest = _runs(ordered, differs)

    def values(size: Any) -> tuple[Tensor, ...]:
        found, inverse, counts = rest(size)
        return found, _zeros(x.numel(), x).scatter(0, places, inverse).reshape(x.shape), counts

    return count, values


def runs(x: Tensor, dim: int | None) -> Found | None:
    """Runs of equal elements: one begins where an element differs from the one before it."""
    if dim is not None and x.ndim != 1:
        return None
    flat = x.reshape(-1)
    count, rest = _runs(flat, flat[1:].ne(flat[:-1]))

    def values(size: Any) -> tuple[Tensor, ...]:
        found, inverse, counts = rest(size)
        return found, inverse.reshape(x.shape), counts

    return count, values


def _runs(flat: Tensor, differs: Tensor) -> Found:
    """One element of each run, which run each is in, and how long they are."""
    begins = _call("cat", _zeros(1, flat).eq(0), differs, dim=0)
    count, places = _hits(begins)
    inverse = begins.to(dt.int64).cumsum(0) - 1

    def values(size: Any) -> tuple[Tensor, ...]:
        ones = inverse.ge(0).to(dt.int64)
        return flat[places(size)], inverse, _zeros(size, flat).index_add(0, inverse, ones)

    return count, values
