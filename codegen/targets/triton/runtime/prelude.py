"""Triton: the scalar functions that Triton lacks, as device functions. Emitted kernels import it as
`jc`.

Each function is the meaning of one intrinsic of `eager.base.scalar` (or of a reduction) that has no
single spelling in Triton: NaN-propagating extrema, division and remainder that round as Python's,
integer powers, Philox draws. All work on blocks and on scalars; the operands of one call have one
type.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"
# Parameters are blocks or scalars of any type; Triton would read annotations as types of its own.

from __future__ import annotations

import triton
import triton.language as tl
from triton.language.extra import libdevice

NAN_WINS = tl.constexpr(tl.PropagateNan.ALL)


# ------------------------------------------------------------------------------ arithmetic


@triton.jit
def minimum(a, b):
    return tl.minimum(a, b, propagate_nan=NAN_WINS)


@triton.jit
def maximum(a, b):
    return tl.maximum(a, b, propagate_nan=NAN_WINS)


@triton.jit
def divide(a, b):
    """Correctly rounded: of float32, Triton's `/` is two units off."""
    return tl.div_rn(a, b) if a.dtype == tl.float32 else a / b


@triton.jit
def to_int(x, kind: tl.constexpr):
    """A float as an int, as NumPy's and the C++ backend's on a CPU of x86: narrow ones are cut out
    of 32 bits, and what does not fit (NaN, too) is the least. (For Triton it is undefined.)"""
    wide: tl.constexpr = tl.int64 if kind == tl.int64 else tl.int32
    least: tl.constexpr = -9223372036854775808.0 if kind == tl.int64 else -2147483648.0
    value = x if x.dtype == tl.float64 else x.to(tl.float32)
    fits = (value >= least) & (value < -least)
    return tl.where(fits, value, least).to(wide).to(kind)


@triton.jit
def shl(a, b):
    """Bits that leave are gone, all of them by a shift of the width or more, or below 0. (For
    Triton it is undefined.)"""
    return tl.where((b >= 0) & (b < a.dtype.primitive_bitwidth), a << b, a ^ a)


@triton.jit
def shr(a, b):
    """By as much as there are bits or more, or below 0: -1 for what is negative, else 0."""
    rest = tl.where(a < 0, ~(a ^ a), a ^ a)
    return tl.where((b >= 0) & (b < a.dtype.primitive_bitwidth), a >> b, rest)


@triton.jit
def sign(x):
    """-1, 0 or 1; 0 for NaN."""
    return (x > 0).to(x.dtype) - (x < 0).to(x.dtype)


@triton.jit
def int_trunc_div(a, b):
    """C's division; 0 for a zero divisor."""
    safe = tl.where(b == 0, b + 1, b)
    return tl.where(b == 0, b, a // safe)


@triton.jit
def int_fmod(a, b):
    """C's remainder; 0 for a zero divisor."""
    safe = tl.where(b == 0, b + 1, b)
    return tl.where(b == 0, b, a % safe)


@triton.jit
def int_gcd(a, b):
    """Euclid's, by as many steps as two int64 need at most (neighbours in Fibonacci's sequence)."""
    a, b = a + b * 0, b + a * 0  # a block each: a loop changes no shape
    for _ in range(92):
        rest = int_fmod(a, b)
        a = tl.where(b == 0, a, b)
        b = tl.where(b == 0, b, rest)
    return tl.where(a < 0, -a, a)


@triton.jit
def int_floor_div(a, b):
    """Python's division, rounding towards minus infinity; 0 for a zero divisor."""
    safe = tl.where(b == 0, b + 1, b)
    quotient = a // safe
    inexact = (a % safe != 0) & ((a < 0) != (safe < 0))
    return tl.where(b == 0, b, tl.where(inexact, quotient - 1, quotient))


@triton.jit
def int_mod(a, b):
    """Python's remainder, with the sign of the divisor; 0 for a zero divisor."""
    safe = tl.where(b == 0, b + 1, b)
    rest = a % safe
    return tl.where(
        b == 0, b, tl.where((rest != 0) & ((rest < 0) != (safe < 0)), rest + safe, rest)
    )


@triton.jit
def float_mod(a, b):
    """NumPy's remainder: exact (fmod), with the sign of the divisor."""
    rest = libdevice.fmod(a, b)
    moved = tl.where((rest != 0) & ((rest < 0) != (b < 0)), rest + b, rest)
    return tl.where(moved == 0, libdevice.copysign(moved, b), moved)


@triton.jit
def float_floor_div(a, b):
    """NumPy's floor division: (a - fmod(a, b)) / b, less 1 where the remainder has the other sign,
    rounded to the nearest whole number."""
    rest = libdevice.fmod(a, b)
    quotient = divide(a - rest, b)
    quotient = tl.where((rest != 0) & ((rest < 0) != (b < 0)), quotient - 1, quotient)
    whole = tl.floor(quotient)
    whole = tl.where(quotient - whole > 0.5, whole + 1, whole)
    plain = divide(a, b)
    whole = tl.where(quotient == 0, libdevice.copysign(quotient, plain), whole)
    return tl.where(b == 0, plain, whole)


@triton.jit
def int_pow(base, exponent):
    """Whole power by squaring, wrapping around; a negative exponent gives 0 except for a base of 1
    or -1."""
    factor = base + exponent * 0  # a block, if either is: a loop changes no shape
    one = factor * 0 + 1
    result = one
    rest = exponent
    for _ in range(63):
        result = tl.where((rest & 1) != 0, result * factor, result)
        factor = factor * factor
        rest = rest >> 1
    odd = (exponent & 1) != 0
    small = tl.where(base == 1, one, tl.where(base == -one, tl.where(odd, -one, one), one * 0))
    return tl.where(exponent < 0, small, result)


@triton.jit
def is_nan(x):
    return x != x


# ------------------------------------------------------------------------------ reductions


@triton.jit
def multiply(a, b):
    return a * b


@triton.jit
def later_max(av, ai, bv, bi):
    """The larger of two (value, position) pairs; NaN is largest, the earlier position wins a
    tie."""
    a_nan = av != av
    b_nan = bv != bv
    tie = (av == bv) | (a_nan & b_nan)
    take_a = ((av > bv) & ~b_nan) | (a_nan & ~b_nan) | (tie & (ai < bi))
    return tl.where(take_a, av, bv), tl.where(take_a, ai, bi)


@triton.jit
def later_min(av, ai, bv, bi):
    """The smaller of two (value, position) pairs; NaN is smallest, the earlier position wins a
    tie."""
    a_nan = av != av
    b_nan = bv != bv
    tie = (av == bv) | (a_nan & b_nan)
    take_a = ((av < bv) & ~b_nan) | (a_nan & ~b_nan) | (tie & (ai < bi))
    return tl.where(take_a, av, bv), tl.where(take_a, ai, bi)


# ---------------------------------------------------------------------------------- random


@triton.jit
def philox(seed, ordinal, index):
    """The first two words of Philox4x32-10 for element `index` of draw `ordinal` (int64, all
    three).

    Source: Salmon et al., Parallel random numbers: as easy as 1, 2, 3 (SC 2011).
    """
    index = index.to(tl.int64)
    zero = index * 0
    low = (index & 0xFFFFFFFF).to(tl.uint32)
    high = ((index >> 32) & 0xFFFFFFFF).to(tl.uint32)
    draw = zero + ordinal
    draw_low = (draw & 0xFFFFFFFF).to(tl.uint32)
    draw_high = ((draw >> 32) & 0xFFFFFFFF).to(tl.uint32)
    word0, word1, _, _ = tl.philox(seed, low, high, draw_low, draw_high)
    return word0, word1


@triton.jit
def random_bits(seed, ordinal, index):
    word0, _ = philox(seed, ordinal, index)
    return word0.to(tl.int64)


@triton.jit
def random_uniform32(seed, ordinal, index):
    word0, _ = philox(seed, ordinal, index)
    return (word0 >> 8).to(tl.float32) * 5.9604644775390625e-08


@triton.jit
def random_uniform64(seed, ordinal, index):
    word0, word1 = philox(seed, ordinal, index)
    bits = (word0.to(tl.int64) << 21) ^ (word1.to(tl.int64) >> 11)
    return bits.to(tl.float64) * 1.1102230246251565e-16


@triton.jit
def random_normal32(seed, ordinal, index):
    """The cosine branch of Box and Muller (1958), in float32."""
    word0, word1 = philox(seed, ordinal, index)
    u = (word0 >> 8).to(tl.float32) * 5.9604644775390625e-08
    v = (word1 >> 8).to(tl.float32) * 5.9604644775390625e-08
    return tl.sqrt_rn(libdevice.log(1.0 - u) * -2.0) * libdevice.cos(v * 6.283185307179586)


@triton.jit
def random_normal64(seed, ordinal, index):
    """The cosine branch of Box and Muller (1958), in float64."""
    word0, word1 = philox(seed, ordinal, index)
    u = word0.to(tl.float64) * 2.3283064365386963e-10
    v = word1.to(tl.float64) * 2.3283064365386963e-10
    return tl.sqrt(libdevice.log(1.0 - u) * -2.0) * libdevice.cos(v * 6.283185307179586)


# ----------------------------------------------------------------------------------- scans


@triton.jit
def plus(a, b):
    return a + b


@triton.jit
def logaddexp(a, b):
    """log(exp(a) + exp(b)) without overflow."""
    apart = maximum(a, b) + libdevice.log1p(libdevice.exp(-tl.abs(a - b)))
    return tl.where(a == b, a + 0.6931471805599453, apart)


@triton.jit
def latest_max(av, ai, bv, bi):
    """The larger of two (value, position) pairs; the later wins a tie, NaN wins over all."""
    take_b = (bv >= av) | (bv != bv)
    return tl.where(take_b, bv, av), tl.where(take_b, bi, ai)


@triton.jit
def latest_min(av, ai, bv, bi):
    """The smaller of two (value, position) pairs; the later wins a tie, NaN wins over all."""
    take_b = (bv <= av) | (bv != bv)
    return tl.where(take_b, bv, av), tl.where(take_b, bi, ai)
