"""Beside the loop IR: how many elements, blocks and bytes. Every stage counts here, so that what a
size is (an int) is decided in one place."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Protocol

from eager.aval import contiguous_strides

Size = int
Shape = tuple[Size, ...]


class Counter(Protocol):
    """A loop counter, or an index form of one."""

    @property
    def extent(self) -> Size: ...


def extent(counters: Iterable[Counter]) -> Size:
    """How often the loops over `counters`, one within the other, run."""
    return math.prod(c.extent for c in counters)


def extents(counters: Iterable[Counter]) -> Shape:
    return tuple(c.extent for c in counters)


def blocks(n: Size, per: Size) -> Size:
    """How many blocks of `per` hold `n`."""
    return -(-n // per)


def round_up(n: Size, to: Size) -> Size:
    return blocks(n, to) * to


def power_of_two(n: Size) -> Size:
    """The smallest power of two >= n."""
    return 1 << max(n - 1, 0).bit_length()


def span(shape: Shape, strides: Shape) -> Size:
    """Elements of memory from the first to the last of a strided tensor."""
    if 0 in shape:
        return 0
    return 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))


def is_contiguous(shape: Shape, strides: Shape) -> bool:
    """Whether elements lie in order without gaps; strides of dimensions of size 1 do not matter."""
    want = contiguous_strides(shape)
    return 0 in shape or all(n == 1 or s == w for n, s, w in zip(shape, strides, want, strict=True))
