"""Emit: the scalar vocabulary in Triton's words. (intrinsic, operand type, operand texts) ->
expression text.

One template per intrinsic and category of type; `jc` is `runtime/prelude.py`, where what Triton
lacks is decomposed. float32 division and square root are the correctly rounded ones, as in eager;
transcendental functions are libdevice's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from codegen.ir.schema import Unsupported
from codegen.ir.walk import INFIX
from eager.base import dtype as dt
from eager.base.dtype import DType

TYPES: Final[Mapping[DType, str]] = {
    d: "tl.int1" if d is dt.bool_ else f"tl.{d.name}" for d in dt.ALL if not d.is_complex
}
# Types of kernel parameters in a signature: pointers get a "*" in front.
PARAMETERS: Final[Mapping[DType, str]] = {
    dt.bool_: "i1", dt.uint8: "u8", dt.int8: "i8", dt.int16: "i16", dt.int32: "i32",
    dt.int64: "i64", dt.float16: "fp16", dt.bfloat16: "bf16", dt.float32: "fp32",
    dt.float64: "fp64",
}  # fmt: skip

_BETWEEN: Final = {name: f"({{0}} {sign} {{1}})" for name, sign in INFIX.items()}
_LOGIC: Final = {name: _BETWEEN[name] for name in ("and_", "or_", "xor")}
_ANY: Final = {
    **{name: _BETWEEN[name] for name in "eq ne lt le gt ge add sub mul".split()},
    "neg": "(-{0})",
    "abs": "tl.abs({0})",
    "sign": "jc.sign({0})",
    "where": "tl.where({0}, {1}, {2})",
    "random_bits": "jc.random_bits({0}, {1}, {2})",
}
_LIBDEVICE: Final = (
    *"exp expm1 log log1p log2 rsqrt sin cos tan asin acos atan atan2 sinh cosh tanh".split(),
    *"erf lgamma pow fmod trunc".split(),
)
_UNARY: Final = frozenset(_LIBDEVICE) - {"atan2", "pow", "fmod"}
_FLOAT: Final = {
    **_ANY,
    **{n: f"libdevice.{n}({{0}})" for n in _UNARY},
    **{n: f"libdevice.{n}({{0}}, {{1}})" for n in ("atan2", "pow", "fmod")},
    "div": _BETWEEN["div"],
    "floor_div": "jc.float_floor_div({0}, {1})",
    "trunc_div": "libdevice.trunc(jc.divide({0}, {1}))",
    "mod": "jc.float_mod({0}, {1})",
    "min": "jc.minimum({0}, {1})",
    "max": "jc.maximum({0}, {1})",
    "floor": "tl.floor({0})",
    "ceil": "tl.ceil({0})",
    "round": "libdevice.rint({0})",
    "sqrt": "tl.sqrt({0})",
    "is_nan": "jc.is_nan({0})",
    "sign_bit": "(libdevice.signbit({0}) != 0)",
}
_FLOAT32: Final = {
    **_FLOAT,
    "div": "tl.div_rn({0}, {1})",
    "sqrt": "tl.sqrt_rn({0})",
    "random_uniform": "jc.random_uniform32({0}, {1}, {2})",
    "random_normal": "jc.random_normal32({0}, {1}, {2})",
}
_FLOAT64: Final = {
    **_FLOAT,
    "random_uniform": "jc.random_uniform64({0}, {1}, {2})",
    "random_normal": "jc.random_normal64({0}, {1}, {2})",
}
_SAME: Final = "{0}"
_INT: Final = {
    **_ANY,
    **_LOGIC,
    "floor_div": "jc.int_floor_div({0}, {1})",
    "trunc_div": "jc.int_trunc_div({0}, {1})",
    "div": "jc.int_trunc_div({0}, {1})",
    "mod": "jc.int_mod({0}, {1})",
    "fmod": "jc.int_fmod({0}, {1})",
    "gcd": "jc.int_gcd({0}, {1})",
    "min": "tl.minimum({0}, {1})",
    "max": "tl.maximum({0}, {1})",
    "pow": "jc.int_pow({0}, {1})",
    "not_": "(~{0})",
    "shl": "jc.shl({0}, {1})",
    "shr": "jc.shr({0}, {1})",
    "is_nan": "({0} != {0})",
    "sign_bit": "({0} < 0)",
    **dict.fromkeys(("floor", "ceil", "trunc", "round"), _SAME),
}
# A bool is one bit: comparisons and extrema of bits are logic.
_BOOL: Final = {
    **_LOGIC,
    **{name: _BETWEEN[name] for name in ("eq", "ne")},
    "lt": "((~{0}) & {1})",
    "le": "((~{0}) | {1})",
    "gt": "({0} & (~{1}))",
    "ge": "({0} | (~{1}))",
    "add": "({0} | {1})",
    "mul": "({0} & {1})",
    "min": "({0} & {1})",
    "max": "({0} | {1})",
    "not_": "(~{0})",
    "floor_div": "({0} & {1})",
    "trunc_div": "({0} & {1})",
    "mod": "({0} & (~{0}))",
    "fmod": "({0} & (~{0}))",
    "pow": "({0} | (~{1}))",
    "abs": _SAME,
    "sign": _SAME,
    "is_nan": "({0} & (~{0}))",
    "sign_bit": "({0} & (~{0}))",
    "where": "tl.where({0}, {1}, {2})",
}


def _tables() -> dict[DType, Mapping[str, str]]:
    found: dict[DType, Mapping[str, str]] = {d: _INT for d in TYPES if d.category == dt.INT}
    return found | {dt.bool_: _BOOL, dt.float32: _FLOAT32, dt.float64: _FLOAT64}


TABLES: Final = _tables()


def template(fn: str, dtype: DType) -> str:
    """Template of `fn` on operands of `dtype`. Raises Unsupported when Triton has no such operation
    on that type."""
    found = TABLES.get(dtype, {}).get(fn)
    if found is None:
        raise Unsupported(
            f"the triton backend has no {fn} of {dtype.name}; compile this for the CPU instead"
        )
    return found


def is_infix(spelling: str) -> bool:
    """True if Python numbers may stand as operands: in a call they would lose their type."""
    return spelling.startswith("(") and "jc." not in spelling and "tl." not in spelling


def type_name(dtype: DType) -> str:
    """`tl.float32` for float32. Raises Unsupported for a type Triton lacks (complex)."""
    found = TYPES.get(dtype)
    if found is None:
        raise Unsupported(
            f"the triton backend has no element type {dtype.name}; compile this for the CPU instead"
        )
    return found


def number(value: float, dtype: DType) -> str:
    """A Python literal for a constant of `dtype` (not typed by itself)."""
    if dtype is dt.bool_:
        return str(bool(value))
    if not dtype.is_floating_point:
        return str(int(value))
    text = repr(float(value))
    return text if text[-1].isdigit() else f'float("{text}")'


def typed(value: float, dtype: DType) -> str:
    """A constant that carries its type."""
    return f"tl.full([], {number(value, dtype)}, {type_name(dtype)})"
