"""Spelling of types, constants, sizes and the scalar vocabulary in C++. dtype, Size or intrinsic ->
text of jitcap_math.h."""

from __future__ import annotations

import math
import re
from typing import Final

from codegen.ir.expr import Const
from codegen.ir.monoid import ALL, ANY, Monoid
from codegen.ir.sizes import Size, at_least, below, name_of
from eager.base import dtype as dt
from eager.base.dtype import DType
from eager.base.scalar import VOCABULARY
from eager.sizes import symint

MEMORY: Final = {
    "complex64": "c64", "complex128": "c128",  # of library steps
    "bool": "bool", "uint8": "u8", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64",
    "float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64",
}  # fmt: skip
# In registers bool is a mask (a scalar one is i32), and the 16-bit floats are f32.
REGISTER: Final = MEMORY | {"bool": "i32", "float16": "f32", "bfloat16": "f32"}

# Intrinsics whose C++ name is not their own.
_RENAMED: Final = {"xor": "xor_", "where": "select"}
FUNCTIONS: Final = {name: _RENAMED.get(name, name) for name in VOCABULARY} | {"exp2": "exp2"}
# Functions of floats that are long code, and can be calls instead: `name_apart`.
APART: Final = frozenset(
    "exp exp2 expm1 log log1p log2 tanh sinh cosh sin cos tan asin acos atan erf lgamma atan2 "
    "pow".split()
)
# Of one float64 alone libm's tables take a third of the time: `name_alone`.
ALONE: Final = frozenset({"pow", "erf"})
# On masks (0, -1): arithmetic is logic, and true is less than false.
BOOL_FUNCTIONS: Final = FUNCTIONS | {
    "add": "or_", "mul": "and_", "max": "or_", "min": "and_", "sub": "xor_", "ne": "ne",
    "lt": "gt", "gt": "lt", "le": "ge", "ge": "le",
}  # fmt: skip
# Ints divided by a known number above 0.
DIVISIONS: Final = {
    "floor_div": "floor_div_by",
    "trunc_div": "trunc_div_by",
    "div": "trunc_div_by",
    "mod": "mod_by",
    "fmod": "fmod_by",
}
# Ints: rounding is the identity.
INT_IDENTITY: Final = frozenset(("floor", "ceil", "trunc", "round"))

MONOIDS: Final = {
    "sum": "Sum",
    "prod": "Prod",
    "min": "Min",
    "max": "Max",
    "any": "Or",
    "all": "And",
}
# On booleans (lanes 0 and -1) arithmetic is logic.
BOOL_MONOIDS: Final = MONOIDS | {"sum": "Or", "prod": "And", "min": "And", "max": "Or"}


def register(dtype: DType) -> str:
    return REGISTER[dtype.name]


def lane(dtype: DType) -> str:
    """The T of vec<T, N>. A mask's lanes are as wide as N leaves room for."""
    return "bool" if dtype is dt.bool_ else REGISTER[dtype.name]


def identity(monoid: Monoid, dtype: DType) -> str:
    """The C++ text of the value that leaves others unchanged. (Truth is counted in lanes of any
    type: 0 and -1.)"""
    if monoid in (ANY, ALL):
        return number(monoid.unit(dtype), dt.bool_)
    return number(monoid.unit(dtype), dtype)


def number(value: float, dtype: DType) -> str:
    """A literal of `dtype`'s register type with exactly the bits of `value`."""
    if dtype is dt.bool_:
        return "-1" if value else "0"
    if dtype.is_floating_point:
        return _float(float(value), "" if dtype is dt.float64 else "f")
    if dtype is dt.int64:
        return f"i64({value}l)" if value > -(1 << 63) else "i64(1ul << 63)"
    return f"{REGISTER[dtype.name]}({int(value)})"


def _float(value: float, suffix: str) -> str:
    if math.isnan(value):
        return f'__builtin_nan{suffix}("")'
    if math.isinf(value):
        return ("-" if value < 0 else "") + f"__builtin_inf{suffix}()"
    if (
        value == int(value)
        and abs(value) < 1e6
        and not (value == 0 and math.copysign(1, value) < 0)
    ):
        return f"{int(value)}.0{suffix}"
    return value.hex() + suffix


def constant(x: Const) -> str:
    return number(x.value, x.dtype)


def size_text(x: Size) -> str:
    """A size: a number, or an expression of the parameters that symbols are, in parentheses if it
    is more than a name."""
    if x.__class__ is int:
        return str(x)
    text = symint.text(x, _atom)
    return text if text.isidentifier() else f"({text})"


def _atom(atom: symint.Atom) -> str:
    if isinstance(atom, symint.Symbol):
        return name_of(atom.name)
    a, b = atom.operands()
    x, y = size_text(a), size_text(b)  # type: ignore[arg-type]
    if isinstance(atom, symint.Least):
        return f"({x} {'>' if isinstance(atom, symint.Most) else '<'} {y} ? {x} : {y})"
    div = isinstance(atom, symint.Quotient)
    if at_least(a, 0) and below(0, b):  # type: ignore[arg-type]
        return f"({x} {'/' if div else '%'} {y})"
    return f"{'fdiv' if div else 'fmod_i'}({x}, {y})"


def any_text(x: object) -> str:
    """A size as C++; anything else as it prints."""
    return size_text(x) if isinstance(x, symint.SymInt) else str(x)  # type: ignore[arg-type]


def mentions_size(text: str) -> bool:
    """True if C++ text has a size in it that is known at run time only."""
    return re.search(rf"\b{name_of('')}", text) is not None
