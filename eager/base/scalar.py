"""The closed vocabulary of scalar intrinsics: what a pointwise op's body may say. name ->
Intrinsic (arity, result type, NumPy).

A body is a function `body(m, x, y, ...)` over one element. `m` is the interpretation: `m.exp(x)`
on NumPy arrays computes, on
`codegen.ir.expr` builds an expression, on Python numbers it is the reference. Inside a body all
operands have one computing dtype (see `DType.compute`), so the vocabulary needs no promotion. `+ -
* / unary- < <= > >=` on values are shorthands for the intrinsics `add sub mul div neg lt le gt
ge`; `==`, `!=`, `&`, `|`, `~` are spelled `m.eq m.ne m.and_ m.or_ m.not_` (they mean logical for
bool and bitwise for ints). Python numbers in a body are constants of the computing dtype.

A backend is a table that spells every name here; a test asserts that each table is complete.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from eager.base import special_arrays
from eager.base.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Intrinsic:
    """One scalar operation. `result` is "same" (the operands' type), "bool", or "to" (takes a
    dtype: cast, bitcast). `cost`: about so many additions, to choose between computing again and
    memory."""

    name: str
    arity: int
    numpy: Callable[..., Any]
    result: str = "same"
    cost: int = 1


def _where(c: Any, a: Any, b: Any) -> Any:
    return np.where(c, a, b)


def _sign(x: Any) -> Any:
    """-1, 0 or 1; 0 for NaN."""
    if x.dtype == bool:
        return x.copy()  # its own memory, as any result's
    return np.where(x == x, np.sign(x), 0)


def _trunc_div(x: Any, y: Any) -> Any:
    """C's integer division: towards zero, on ints; 0 for a zero divisor (NumPy's choice for //)."""
    quotient = np.floor_divide(x, y)
    return quotient + ((np.remainder(x, y) != 0) & ((x < 0) ^ (y < 0))).astype(quotient.dtype)


def _pow(x: Any, y: Any) -> Any:
    """x ** y; of ints a negative power is 0, but for a base of 1 or -1."""
    if np.result_type(x, y).kind not in "iu" or not np.any(negative := np.less(y, 0)):
        return np.power(x, y)
    units = np.where(x == 1, 1, np.where(x == -1, 1 - 2 * (y & 1), 0))
    return np.where(negative, units, np.power(x, np.where(negative, 0, y))).astype(
        np.result_type(x, y)
    )


def _rsqrt(x: Any) -> Any:
    return 1 / np.sqrt(x)


_TABLE: Final = (
    # arithmetic (floor_div and mod round like Python: towards minus infinity; div is true division
    # on floats)
    Intrinsic("add", 2, np.add),
    Intrinsic("sub", 2, np.subtract),
    Intrinsic("mul", 2, np.multiply),
    Intrinsic("div", 2, np.divide, cost=4),
    Intrinsic("floor_div", 2, np.floor_divide, cost=8),
    Intrinsic("trunc_div", 2, _trunc_div),
    Intrinsic("mod", 2, np.remainder, cost=8),
    Intrinsic("fmod", 2, np.fmod, cost=12),
    Intrinsic("gcd", 2, np.gcd, cost=60),  # of ints
    Intrinsic("neg", 1, np.negative),
    Intrinsic("abs", 1, np.abs),
    Intrinsic("sign", 1, _sign),
    Intrinsic("min", 2, np.minimum),  # NaN propagates
    Intrinsic("max", 2, np.maximum),
    Intrinsic("pow", 2, _pow, cost=30),
    # rounding (round: half to even)
    Intrinsic("floor", 1, np.floor),
    Intrinsic("ceil", 1, np.ceil),
    Intrinsic("trunc", 1, np.trunc),
    Intrinsic("round", 1, np.rint),
    # exponentials, trigonometry, special functions
    Intrinsic("exp", 1, np.exp, cost=12),
    Intrinsic("expm1", 1, np.expm1, cost=12),
    Intrinsic("log", 1, np.log, cost=12),
    Intrinsic("log1p", 1, np.log1p, cost=12),
    Intrinsic("log2", 1, np.log2, cost=12),
    Intrinsic("sqrt", 1, np.sqrt, cost=4),
    Intrinsic("rsqrt", 1, _rsqrt, cost=4),
    Intrinsic("sin", 1, np.sin, cost=12),
    Intrinsic("cos", 1, np.cos, cost=12),
    Intrinsic("tan", 1, np.tan, cost=12),
    Intrinsic("asin", 1, np.arcsin, cost=12),
    Intrinsic("acos", 1, np.arccos, cost=12),
    Intrinsic("atan", 1, np.arctan, cost=12),
    Intrinsic("atan2", 2, np.arctan2, cost=20),
    Intrinsic("sinh", 1, np.sinh, cost=12),
    Intrinsic("cosh", 1, np.cosh, cost=12),
    Intrinsic("tanh", 1, np.tanh, cost=12),
    Intrinsic("erf", 1, special_arrays.erf, cost=12),
    Intrinsic("lgamma", 1, special_arrays.lgamma, cost=40),
    # comparison and logic
    Intrinsic("eq", 2, np.equal, "bool"),
    Intrinsic("ne", 2, np.not_equal, "bool"),
    Intrinsic("lt", 2, np.less, "bool"),
    Intrinsic("le", 2, np.less_equal, "bool"),
    Intrinsic("gt", 2, np.greater, "bool"),
    Intrinsic("ge", 2, np.greater_equal, "bool"),
    Intrinsic("and_", 2, np.bitwise_and),  # logical on bool, bitwise on ints
    Intrinsic("or_", 2, np.bitwise_or),
    Intrinsic("xor", 2, np.bitwise_xor),
    Intrinsic("not_", 1, np.invert),
    Intrinsic("shl", 2, np.left_shift),
    Intrinsic("shr", 2, np.right_shift),
    Intrinsic("is_nan", 1, np.isnan, "bool"),
    Intrinsic("sign_bit", 1, np.signbit, "bool"),  # also of -0.0, and of a NaN that has it
    Intrinsic("where", 3, _where),  # where(bool, a, b); a and b of one type, which is the result's
)

VOCABULARY: Final[dict[str, Intrinsic]] = {i.name: i for i in _TABLE}


class NumpyVocabulary:
    """`m` for eager: each intrinsic on whole NumPy arrays."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        try:
            return VOCABULARY[name].numpy
        except KeyError:
            raise AttributeError(
                f"{name} is not a scalar intrinsic; known: {sorted(VOCABULARY)}"
            ) from None

    @staticmethod
    def cast(x: Any, dtype: np.dtype) -> Any:
        """Convert to another element type. The one intrinsic that takes a type."""
        return np.asarray(x).astype(dtype)


NUMPY: Final = NumpyVocabulary()
