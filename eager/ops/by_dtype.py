"""Beside the kinds of ops: which pointwise ops treat some dtypes in another way. names."""

from __future__ import annotations

from typing import Final

from eager.base import dtype as dt

# Of complex numbers, which have no order, or of which the function is another one; and of bools
# alone, which are no numbers.
REFUSED: Final = {
    dt.COMPLEX: frozenset(
        "atan2 bessel_j0 bessel_j1 bessel_y0 bessel_y1 bitwise_and bitwise_left_shift "
        "bitwise_not bitwise_or bitwise_right_shift bitwise_xor ceil clamp clamp_max "
        "clamp_min copysign deg2rad digamma entr erf erfc erfcx erfinv floor floor_divide "
        "floor_steps fmax fmin fmod frac gcd ge gt heaviside hypot i0 i0e i1 i1e igamma "
        "igammac int_divide lcm le lgamma logaddexp2 logit lt maximum minimum "
        "modified_bessel_k0 modified_bessel_k1 ndtri rad2deg remainder round "
        "scaled_modified_bessel_k0 scaled_modified_bessel_k1 sign signbit trigamma trunc "
        "trunc_divide xlogy zeta".split()
    ),
    dt.BOOL: frozenset(
        "bitwise_left_shift bitwise_right_shift floor_divide floor_steps fmod gcd int_divide lcm "
        "remainder trunc_divide".split()
    ),
}

# Numbers and 0-dim tensors beside 16-bit floats are rounded to that type before the computation in
# float32, as in PyTorch; products, quotients and all others take them in full.
ROUND_NUMBERS: Final = frozenset("add eq fmod ge gt hardshrink le lt ne pow remainder sub".split())
