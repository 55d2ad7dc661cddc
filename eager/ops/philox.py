"""Eager kernel of `random`: the counter-based generator Philox4x32-10. (seed, ordinal, number of
draws) -> words.

Element i of the draw number `ordinal` has the counter (i, ordinal) and the key `seed`, each split
into 32-bit halves. So any element can be computed anywhere, in any order, and every backend draws
the same bits. Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC
2011).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

Array = np.ndarray

_M0, _M1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_W0, _W1 = 0x9E3779B9, 0xBB67AE85
_LOW = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)
_MASK64 = (1 << 64) - 1

# Elements per block: the eight work arrays of a block stay in the second-level cache.
_BLOCK = 1 << 13


def _round(c: list[Array], key: tuple[int, int], work: list[Array]) -> None:
    """One Philox round on counters c (words in uint64, in place); `work` gives two buffers."""
    p0, p1 = work
    np.multiply(c[0], _M0, out=p0)
    np.multiply(c[2], _M1, out=p1)
    # c0 = high(p1) ^ c1 ^ k0, c2 = high(p0) ^ c3 ^ k1, c1 = low(p1), c3 = low(p0)
    np.right_shift(p1, _32, out=c[0])
    np.bitwise_xor(c[0], c[1], out=c[0])
    np.bitwise_xor(c[0], np.uint64(key[0]), out=c[0])
    np.right_shift(p0, _32, out=c[2])
    np.bitwise_xor(c[2], c[3], out=c[2])
    np.bitwise_xor(c[2], np.uint64(key[1]), out=c[2])
    np.bitwise_and(p1, _LOW, out=c[1])
    np.bitwise_and(p0, _LOW, out=c[3])


def blocks(seed: int, ordinal: int, n: int) -> Iterator[tuple[slice, Array, Array]]:
    """Yield (places, word 0, word 1) for the elements 0..n-1, block by block; words are uint64
    below 2**32.

    The arrays are reused: consume each block before the next. seed and ordinal are taken modulo
    2**64."""
    seed, ordinal = seed & _MASK64, ordinal & _MASK64
    size = min(n, _BLOCK)
    c = [np.empty(size, np.uint64) for _ in range(4)]
    work = [np.empty(size, np.uint64) for _ in range(2)]
    for start in range(0, n, _BLOCK):
        count = min(_BLOCK, n - start)
        if count < size:
            c, work = [a[:count] for a in c], [a[:count] for a in work]
        places = np.arange(start, start + count, dtype=np.uint64)
        np.bitwise_and(places, _LOW, out=c[0])
        np.right_shift(places, _32, out=c[1])
        c[2].fill(ordinal & 0xFFFFFFFF)
        c[3].fill(ordinal >> 32)
        k0, k1 = seed & 0xFFFFFFFF, seed >> 32
        for _ in range(10):
            _round(c, (k0, k1), work)
            k0, k1 = (k0 + _W0) & 0xFFFFFFFF, (k1 + _W1) & 0xFFFFFFFF
        yield slice(start, start + count), c[0], c[1]


def scalar_words(seed: int, ordinal: int, index: int) -> tuple[int, int]:
    """(word 0, word 1) of one element, in Python ints: what all other forms must equal."""
    low = 0xFFFFFFFF
    seed, ordinal = seed & _MASK64, ordinal & _MASK64
    c0, c1, c2, c3 = index & low, index >> 32, ordinal & low, ordinal >> 32
    k0, k1 = seed & low, seed >> 32
    for _ in range(10):
        p0, p1 = c0 * int(_M0), c2 * int(_M1)
        c0, c1, c2, c3 = (p1 >> 32) ^ c1 ^ k0, p1 & low, (p0 >> 32) ^ c3 ^ k1, p0 & low
        k0, k1 = (k0 + _W0) & low, (k1 + _W1) & low
    return c0, c1
