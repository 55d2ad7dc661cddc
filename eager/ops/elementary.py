"""Pointwise ops of mathematics: rounding, exponentials, trigonometry, special functions. tensor ->
tensor."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from eager.base import dtype as dt
from eager.base.special_arrays import ERFINV_FAR, ERFINV_NEAR, NDTRI_TAIL, far_coefficients
from eager.core.casts import rounded_once
from eager.core.dispatch import apply
from eager.core.op import REGISTRY, Sample
from eager.core.registry import in_place, needs_tensors, public
from eager.core.tape import zeros_of
from eager.core.tensor import Tensor
from eager.ops import samples as s
from eager.ops.complex import view_as_complex, view_as_real
from eager.ops.define import UnaryFn, binary, binary_op, not_for, unary
from eager.ops.kinds import Pointwise
from eager.ops.pointwise import float_power, is_integral, where

# ---------------------------------------------------------------------------------- rounding
_rounded = s.both(s.on(-3.3, 3.3), s.on_ints())


def _zero(g: Tensor) -> tuple[Tensor]:
    return (zeros_of(g),)


def _rounding(name: str, alias: tuple[str, ...] = ()) -> Any:
    """Ints are whole already: a copy of them."""
    op = Pointwise(name, ("x",), _zero, body=lambda m, x: getattr(m, name)(x), takes="real")

    def fn(input: Tensor) -> Tensor:
        not_for(name, dt.BOOL)([input.aval])
        return input.clone() if is_integral(input) else apply(op, input)

    fn.__name__ = fn.__qualname__ = name
    fn.__doc__ = f"Elementwise {name}."
    return public(name, inplace=True, alias=alias, samples=_rounded)(fn)


floor = _rounding("floor")
ceil = _rounding("ceil")
trunc = _rounding("trunc", alias=("fix",))
ROUND = Pointwise("round", ("x",), _zero, body=lambda m, x: m.round(x), takes="real")


@public(inplace=True, samples=s.both(_rounded, lambda: [s.call(s.values((3, 4)), decimals=1)]))
def round(input: Tensor, *, decimals: int = 0) -> Tensor:
    """To the nearest whole number (half to even), or to `decimals` places."""
    if input.dtype is dt.bool_:
        not_for("round", dt.BOOL)([input.aval])
    if decimals:
        scale = 10.0 ** abs(decimals)
        scaled = input * scale if decimals > 0 else input / scale
        whole = apply(ROUND, scaled)
        return whole / scale if decimals > 0 else whole * scale
    return input.clone() if is_integral(input) else apply(ROUND, input)


frac = unary("frac", lambda m, x: x - m.trunc(x), lambda g: (g,), samples=s.on(-3.3, 3.3),
    refuses=not_for("frac", dt.BOOL, dt.INT), takes="real",
)  # fmt: skip

# ------------------------------------------------------------------------------ exponentials
_with_ints = s.both(s.on(), s.on_ints())
_positive = s.on(0.1, 4.0)
exp = unary("exp", "exp", lambda g, out: (g * out,), samples=_with_ints, on_gpus="full")
exp2 = unary(
    "exp2", lambda m, x: m.pow(2.0, x), lambda g, out: (g * out * math.log(2.0),), samples=s.on()
)
expm1 = unary("expm1", "expm1", lambda g, out: (g * (out + 1),), samples=_with_ints, on_gpus="full")
log = unary("log", "log", lambda g, x: (g / x,), samples=_positive, on_gpus="full")
log2 = unary(
    "log2", "log2", lambda g, x: (g / (x * math.log(2.0)),), samples=_positive, on_gpus="full"
)
log10 = unary(
    "log10",
    lambda m, x: m.log2(x) * math.log10(2.0),
    lambda g, x: (g / (x * math.log(10.0)),),
    of_complex=np.log10,
    samples=_positive,
    on_gpus="full",
)
log1p = unary(
    "log1p", "log1p", lambda g, x: (g / (x + 1),), samples=s.on(-0.9, 3.0), on_gpus="full"
)
sigmoid = unary(
    "sigmoid",
    lambda m, x: 1.0 / (1.0 + m.exp(-x)),
    lambda g, out: (g * (out * (1 - out)),),
    samples=s.both(s.on(-4, 4), s.on_ints(), lambda: [s.call(s.values((4,), -200.0, 200.0))]),
    alias=("expit",),
)
logit_op = Pointwise("logit", ("x",), lambda g, x: (g / (x * (1 - x)),), takes="real",
                     body=lambda m, x: m.log(x / (1.0 - x)), result="float")  # fmt: skip


@public(inplace=True, samples=s.both(s.on(0.1, 0.9), lambda: [s.call(s.values((3,), 0, 1), 0.1)]))
def logit(input: Tensor, eps: float | None = None) -> Tensor:
    """log(x / (1 - x)), with x limited to [eps, 1 - eps] when eps is given."""
    return apply(logit_op, input if eps is None else input.clamp(eps, 1 - eps))


# ------------------------------------------------------------------------------ trigonometry
_inside = s.on(-0.9, 0.9)
sin = unary("sin", "sin", lambda g, x: (g * cos(x),), samples=_with_ints)
cos: UnaryFn = unary("cos", "cos", lambda g, x: (-g * sin(x),), samples=_with_ints)
tan = unary(
    "tan", "tan", lambda g, out: (g * (1 + out * out),), samples=s.on(-1.3, 1.3), on_gpus="full"
)
asin = unary(
    "asin",
    "asin",
    lambda g, x: (g * (1 - x * x).rsqrt(),),
    alias=("arcsin",),
    samples=_inside,
    on_gpus="full",
)
acos = unary(
    "acos",
    "acos",
    lambda g, x: (-g * (1 - x * x).rsqrt(),),
    alias=("arccos",),
    samples=_inside,
    on_gpus="full",
)
atan = unary("atan", "atan", lambda g, x: (g / (x * x + 1),), alias=("arctan",))
sinh = unary("sinh", "sinh", lambda g, x: (g * cosh(x),), on_gpus="full")
cosh: UnaryFn = unary("cosh", "cosh", lambda g, x: (g * sinh(x),), on_gpus="full")
tanh = unary("tanh", "tanh", lambda g, out: (g * (1 - out * out),), samples=_with_ints)


def _asinh_body(m: Any, x: Any, size: Any) -> Any:
    """log1p(a + a^2 / (1 + sqrt(1 + a^2))) with the fraction cut by a: a^2 may overflow; log(2a)
    far out, where the sum may, too."""
    one_over = 1.0 / size
    near = m.log1p(size + size / (one_over + m.sqrt(1.0 + one_over * one_over)))
    out = m.where(size < _FAR, near, m.log(size) + math.log(2.0))
    return m.where(m.eq(x, 0.0), x, m.where(x < 0.0, -out, out))


_FAR = 1e10  # from here on, 1 is nothing beside the square


def _acosh_body(m: Any, x: Any) -> Any:
    near = m.log1p(x - 1.0 + m.sqrt(x - 1.0) * m.sqrt(x + 1.0))
    return m.where(x < _FAR, near, m.log(x) + math.log(2.0))


asinh = unary(
    "asinh",
    lambda m, x: _asinh_body(m, x, m.abs(x)),
    lambda g, x: (g * (x * x + 1).rsqrt(),),
    of_complex=np.arcsinh,
    alias=("arcsinh",),
)
acosh = unary(
    "acosh",
    _acosh_body,
    lambda g, x: (g * ((x - 1).rsqrt() * (x + 1).rsqrt()),),  # on the branch of acosh itself
    of_complex=np.arccosh,
    alias=("arccosh",),
    samples=s.on(1.1, 4.0),
)
atanh = unary(
    "atanh",
    lambda m, x: 0.5 * (m.log1p(x) - m.log1p(-x)),
    lambda g, x: (g / (1 - x * x),),
    of_complex=np.arctanh,
    alias=("arctanh",),
    samples=_inside,
)


def _sinc_body(m: Any, x: Any) -> Any:
    safe = m.where(m.eq(x, 0.0), 1.0, x) * math.pi
    return m.where(m.eq(x, 0.0), 1.0, m.sin(safe) / safe)


def _sinc_vjp(g: Tensor, x: Tensor) -> tuple[Any]:
    angle = x * math.pi
    square = angle * angle  # 0 near zero, too
    slope = (angle.cos() * angle - angle.sin()) / where(square == 0, 1.0, square) * math.pi
    return (where(square == 0, 0.0, g * slope),)


sinc = unary("sinc", _sinc_body, _sinc_vjp)
deg2rad = unary(
    "deg2rad", lambda m, x: x * (math.pi / 180), lambda g: (g * (math.pi / 180),), takes="real"
)
rad2deg = unary(
    "rad2deg", lambda m, x: x * (180 / math.pi), lambda g: (g * (180 / math.pi),), takes="real"
)



def _atan2_vjp(g: Tensor, x: Tensor, y: Tensor) -> tuple[Any, Any]:
    """Zeros where both are zero, as in PyTorch."""
    square = x * x + y * y
    g = g / where(square == 0, 1.0, square)
    return g * y, -g * x


ATAN2 = binary_op(
    "atan2",
    "atan2",
    _atan2_vjp,
    result="float",
    takes="real",
)
atan2 = binary(ATAN2, tensors="both", alias=("arctan2",), samples=s.on_two(number=None))


def _hypot_body(m: Any, x: Any, y: Any) -> Any:
    """By the quotient of the sides, of which no square overflows; infinite beside NaN, too."""
    a, b = m.abs(x), m.abs(y)
    long = m.max(a, b)
    share = m.min(a, b) / m.where(m.eq(long, 0.0), 1.0, long)
    endless = m.or_(m.eq(a, math.inf), m.eq(b, math.inf))
    return m.where(endless, math.inf, long * m.sqrt(1.0 + share * share))


HYPOT = binary_op(
    "hypot",
    _hypot_body,
    lambda g, x, y, out: (g * (x / out), g * (y / out)),
    result="float",
    takes="real",
)
hypot = binary(HYPOT, tensors="both", samples=s.on_two(number=None))
LDEXP = binary_op(
    "ldexp",
    lambda m, x, y: x * m.pow(2.0, y),
    lambda g, y, out: (g * 2.0**y, g * out * math.log(2.0)),
    result="float",
)
ldexp = binary(LDEXP, tensors="both", doc="input * 2**other.", samples=s.on_two(number=None))

# ------------------------------------------------------------------------ special functions
_TWO_OVER_SQRT_PI = 2.0 / math.sqrt(math.pi)
erf = unary(
    "erf",
    "erf",
    lambda g, x: (g * _TWO_OVER_SQRT_PI * (-x * x).exp(),),
    samples=_with_ints,
    takes="real",
)


def _erfc_body(m: Any, x: Any) -> Any:
    """1 - erf(x) near 0; elsewhere a series of its own, for there the difference cancels."""
    far = m.max(m.abs(x), 1.0)
    size = m.min(far, 26.0)
    tail = m.exp(-far * far) * _horner((size - 3.75) / (size + 3.75), far_coefficients())
    return m.where(m.abs(x) < 1.0, 1.0 - m.erf(x), m.where(x < 0.0, 2.0 - tail, tail))


erfc = unary(
    "erfc",
    _erfc_body,
    lambda g, x: (-g * _TWO_OVER_SQRT_PI * (-x * x).exp(),),
    samples=s.both(s.on(), s.on(-8.0, 8.0)),
    takes="real",
)


def _erfcx_body(m: Any, x: Any) -> Any:
    """The series of erfc's tail without its exponential; 1 / (x sqrt(pi)) far out."""
    size = m.min(m.max(x, 1.0), 26.0)
    tail = _horner((size - 3.75) / (size + 3.75), far_coefficients())
    far = m.max(x, 26.0)
    square = 0.5 / (far * far)
    series = _horner(square, (-945.0, 105.0, -15.0, 3.0, -1.0, 1.0))
    out = series / far / math.sqrt(math.pi)
    near = m.min(x, 1.0)
    inside = m.exp(near * near) * (1.0 - m.erf(near))
    return m.where(x < 1.0, inside, m.where(x < 26.0, tail, out))


ERFCX = Pointwise(
    "erfcx",
    ("x",),
    lambda g, x, out: (g * (2 * x * out - _TWO_OVER_SQRT_PI),),
    body=_erfcx_body,
    result="float",
    takes="real",
)


def _erfinv_parts(m: Any, product: Any) -> tuple[Any, Any, Any, Any]:
    """w = -log(product) of product = (1 - y) (1 + y), its root, and erfinv(y) / y by polynomials in
    w, for w < 6.25, and in the root, up to 6.01."""
    w = -m.log(product)
    root = m.sqrt(m.max(w, 6.25))
    far = _in_halves(m.min(root, 6.01) - 4.25, ERFINV_FAR)
    return w, root, _in_halves(m.min(w, 6.25) - 3.125, ERFINV_NEAR), far


def _erfinv_body(m: Any, y: Any) -> Any:
    w, _, near, far = _erfinv_parts(m, (1.0 - y) * (1.0 + y))
    return y * m.where(m.eq(m.abs(y), 1.0), math.inf, m.where(w < 6.25, near, far))


def _horner(x: Any, coefficients: tuple[float, ...]) -> Any:
    total: Any = coefficients[0]
    for c in coefficients[1:]:
        total = total * x + c
    return total


def _in_halves(x: Any, coefficients: tuple[float, ...]) -> Any:
    """A long polynomial as two of x^2, neither of which waits for the other."""
    odd, even = coefficients[::2], coefficients[1::2]  # of an even number of terms
    return _horner(x * x, even) + x * _horner(x * x, odd)


erfinv = unary(
    "erfinv",
    _erfinv_body,
    lambda g, out: (g * (1 / _TWO_OVER_SQRT_PI) * (out * out).exp(),),
    samples=s.on(-0.9, 0.9),
    takes="real",
    on_gpus="full",
)


def _ndtri_body(m: Any, p: Any) -> Any:
    """sqrt(2) erfinv(2p - 1), of p itself, so that nothing cancels: where p is still smaller, by a
    polynomial in 1 / root."""
    w, root, near, far = _erfinv_parts(m, 4.0 * p * (1.0 - p))
    tail = root * _in_halves(16.0 / root - 1.6, NDTRI_TAIL)
    middle = m.where(w < 6.25, near, m.where(root < 6.0, far, tail))
    return (2.0 * p - 1.0) * middle * math.sqrt(2.0)


NDTRI = Pointwise(
    "ndtri",
    ("x",),
    lambda g, out: (g * (out * out * 0.5).exp() * math.sqrt(2 * math.pi),),
    body=_ndtri_body,
    result="float",
    takes="real",
)
lgamma = unary(
    "lgamma", "lgamma", lambda g, x: (g * digamma(x),), samples=s.on(0.1, 5.0), takes="real"
)


def _digamma_body(m: Any, x: Any) -> Any:
    """Reflection for x < 0, recurrence up to 8, then the asymptotic series (Bernardo 1976). A
    negative whole number is a pole: NaN."""
    negative = x < 0.0
    z = m.where(negative, 1.0 - x, x)
    turn = x - m.round(x)  # tan's period is 1 half turn: exact beside the poles
    reflected = m.where(m.eq(turn, 0.0), float("nan"), -math.pi / m.tan(turn * math.pi))
    total = m.where(negative, reflected, 0.0)
    for _ in range(8):
        small = z < 8.0
        total = total - m.where(small, 1.0 / z, 0.0)
        z = m.where(small, z + 1.0, z)
    inverse = 1.0 / (z * z)
    series = _horner(inverse, _DIGAMMA) * inverse
    return total + m.log(z) - 0.5 / z - series


_DIGAMMA = (1 / 12, -691 / 32760, 1 / 132, -1 / 240, 1 / 252, -1 / 120, 1 / 12)
digamma: UnaryFn = unary(
    "digamma", _digamma_body, lambda g, x: (g * trigamma(x),), samples=s.on(0.2, 5.0), takes="real"
)


def _trigamma_body(m: Any, x: Any) -> Any:
    """The derivative of digamma, the same way."""
    negative = x < 0.5
    z = m.where(negative, 1.0 - x, x)
    sine = m.sin((x - m.round(x)) * math.pi)
    total = 0.0
    for _ in range(8):
        small = z < 8.0
        total = total + m.where(small, 1.0 / (z * z), 0.0)
        z = m.where(small, z + 1.0, z)
    inverse = 1.0 / (z * z)
    total = total + 1.0 / z + 0.5 * inverse + _horner(inverse, _TRIGAMMA) * inverse / z
    total = m.where(m.eq(x, math.inf), 0.0, total)
    return m.where(negative, (math.pi / sine) * (math.pi / sine) - total, total)


_TRIGAMMA = (7 / 6, -691 / 2730, 5 / 66, -1 / 30, 1 / 42, -1 / 30, 1 / 6)
trigamma: UnaryFn = unary(
    "trigamma",
    _trigamma_body,
    lambda g, x: (g * -2 * apply(REGISTRY["zeta"], zeros_of(x) + 3, x),),
    torch="special.polygamma",
    method=False,
    samples=list,
    takes="real",
)


# -------------------------------------------------------------------- two and three operands
def complex_logaddexp(x: Any, y: Any) -> Any:
    """log(exp(x) + exp(y)) of complex arrays. Where both real parts are -inf it is the second
    number: phases of 0 are not added."""
    swap = x.real < y.real
    high, low = np.where(swap, y, x), np.where(swap, x, y)
    nothing = np.isneginf(high.real)
    safe = np.where(nothing, 0, high)
    return np.where(nothing, low, safe + np.log1p(np.exp(low - safe)))


LOGADDEXP = binary_op(
    "logaddexp",
    lambda m, x, y: m.where(
        m.eq(x, y), x + math.log(2.0), m.max(x, y) + m.log1p(m.exp(-m.abs(x - y)))
    ),
    lambda g, x, y: (g / (1 + (y - x).exp()), g / (1 + (x - y).exp())),  # finite beside infinity
    result="float",
    of_complex=complex_logaddexp,
)
logaddexp = binary(LOGADDEXP, tensors="both", samples=s.on_two(number=None), inplace=False)
XLOGY = binary_op(
    "xlogy",
    lambda m, x, y: m.where(m.is_nan(y), y, m.where(m.eq(x, 0), 0.0, x * m.log(y))),
    lambda g, x, y: (
        (where((x == 0) & (y <= 0), 0.0, g * y.log()), g * x / y)
        if isinstance(y, Tensor) and isinstance(x, Tensor)
        else (None if not isinstance(x, Tensor) else g * math.log(y), g * x / y)
    ),
    result="float",
    takes="real",
)
xlogy = binary(XLOGY, tensors="one", samples=s.on_two(second=(0.2, 2.0), number=2.0))
HEAVISIDE = binary_op(
    "heaviside",
    lambda m, x, y: m.where(m.eq(x, 0), y, m.where(x > 0, 1.0, 0.0)),
    takes="real",
)
heaviside = binary(HEAVISIDE, tensors="both", samples=s.on_two(number=None, grad=False))


def _copysign_body(m: Any, x: Any, y: Any) -> Any:
    """|x| with the sign bit of y."""
    return m.where(m.sign_bit(y), -m.abs(x), m.abs(x))


COPYSIGN = binary_op(
    "copysign",
    _copysign_body,
    lambda g, x, y, out: (
        g * where(x == 0, 0.0, where((x < 0) == (out < 0), 1.0, -1.0)),
        zeros_of(g),
    ),
    result="float",
    takes="real",
)
copysign = binary(COPYSIGN, tensors="first", samples=s.on_two(number=None))

LERP = Pointwise(
    "lerp",
    ("x", "y", "w"),
    lambda g, x, y, w, needs: (g * (1 - w), g * w, g * (y - x) if needs[2] else None),
    saves_for={"x": (2,), "y": (2,)},
    body=lambda m, x, y, w: m.where(m.abs(w) < 0.5, x + w * (y - x), y - (y - x) * (1.0 - w)),
)


def _triple() -> Any:
    return (s.values((3, 4)), s.values((3, 4), seed=1), s.values((4,), 0.5, 2.0, seed=2))


@public(inplace=True, samples=lambda: [s.call(*_triple()), s.call(*_triple()[:2], 0.3)])
def lerp(input: Tensor, end: Tensor, weight: Any) -> Tensor:
    """input + weight * (end - input), of tensors of one dtype (RuntimeError); a weight that is a
    0-d tensor may have another."""
    one = not isinstance(weight, Tensor) or not weight.ndim
    for name, x in (("end", end),) if one else (("end", end), ("weight", weight)):
        if x.dtype is not input.dtype:
            raise RuntimeError(f"expected dtype {input.dtype} for `{name}` but got dtype {x.dtype}")
    if not (one and isinstance(weight, Tensor)):
        not_for("lerp", dt.BOOL, dt.INT)([input.aval])
    return apply(LERP, input, end, weight)


@public(inplace=True, samples=lambda: [s.call(*_triple()), s.call(*_triple(), value=0.5)])
@rounded_once
def addcmul(
    input: Tensor, tensor1: Any, tensor2: Any, tensor: Any = None, *, value: Any = 1
) -> Tensor:
    """input + value * tensor1 * tensor2. As it was
    once spelled: `addcmul(input, value, tensor1, tensor2)`."""
    if tensor is not None:
        value, tensor1, tensor2 = tensor1, tensor2, tensor
    scaled = tensor1 if type(value) is int and value == 1 else tensor1 * value
    return input + scaled * tensor2


@public(inplace=True, samples=lambda: [s.call(*_triple()), s.call(*_triple(), value=0.5)])
@rounded_once
def addcdiv(
    input: Tensor, tensor1: Any, tensor2: Any, tensor: Any = None, *, value: Any = 1
) -> Tensor:
    """input + value * tensor1 / tensor2. Integer division raises. As it was
    once spelled: `addcdiv(input, value, tensor1, tensor2)`."""
    if tensor is not None:
        value, tensor1, tensor2 = tensor1, tensor2, tensor
    if is_integral(tensor1, tensor2):
        raise RuntimeError("Integer division with addcdiv is no longer supported")
    scaled = tensor1 if type(value) is int and value == 1 else tensor1 * value
    return input + scaled / tensor2


def _odd() -> list[Sample]:
    return [s.call([[float("nan"), float("inf")], [-float("inf"), 1.0]], grad=False)]


@public(inplace=True, samples=s.both(s.on(), _odd))
def nan_to_num(
    input: Tensor, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None
) -> Tensor:
    """NaN, inf and -inf replaced (by default by 0 and the dtype's largest and smallest numbers)."""
    if is_integral(input):
        return input.clone()
    if input.dtype.is_complex:
        parts = view_as_real(input)
        return view_as_complex(nan_to_num(parts, nan, posinf, neginf))
    high = dt.finfo(input.dtype).max if posinf is None else posinf
    low = dt.finfo(input.dtype).min if neginf is None else neginf
    out = where(input != input, nan, input)
    return where(out == math.inf, high, where(out == -math.inf, low, out))


@public(
    samples=s.both(
        s.on_two(grad=False, number=None), lambda: [s.call([1.0, 2.0], [1.0, 2.1], grad=False)]
    )
)
@needs_tensors("both")
def isclose(
    input: Tensor, other: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Tensor:
    """|input - other| <= atol + rtol * |other|, elementwise."""
    for name, tolerance in (("rtol", rtol), ("atol", atol)):
        if tolerance < 0:
            raise RuntimeError(f"{name} must be greater than or equal to zero, but got {tolerance}")
    if input.dtype is dt.bool_:
        return input == other
    close = (input - other).abs() <= atol + rtol * other.abs()
    close = (input == other) | (close & other.isfinite() & input.isfinite())
    return close | (input.isnan() & other.isnan()) if equal_nan else close


@public(samples=lambda: [s.call([1.0, float("inf"), -float("inf")], grad=False)])
def isposinf(input: Tensor) -> Tensor:
    return input == math.inf


@public(samples=lambda: [s.call([1.0, float("inf"), -float("inf")], grad=False)])
def isneginf(input: Tensor) -> Tensor:
    return input == -math.inf


@public(samples=s.on(grad=False))
def isreal(input: Tensor) -> Tensor:
    """Bool tensor: true where the imaginary part is 0."""
    return input.imag == 0 if input.dtype.is_complex else input.isfinite() | True


@public(samples=s.on_two(number=None))
@needs_tensors("both")
def logaddexp2(input: Tensor, other: Tensor) -> Tensor:
    """log2(2 ** input + 2 ** other), without overflow."""
    scale = math.log(2.0)
    return logaddexp(input * scale, other * scale) / scale


def _power_in_place(input: Tensor, exponent: Any) -> Tensor:
    out = float_power(input, exponent)
    if out.dtype is not input.dtype:
        raise RuntimeError(
            f"the base given to float_power_ has dtype {input.dtype} but the operation's result "
            f"requires dtype {out.dtype}"
        )
    return out


setattr(Tensor, "float_power_", in_place("float_power_", _power_in_place))  # noqa: B010
