"""Pointwise ops of neural networks: relu, gelu, softplus and their like. tensor -> tensor.

They are one op each: one pass in eager, one expression in compiled code. `eager.nn.functional`
re-exports them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from eager.base import dtype as dt
from eager.core.casts import on_gpus, rounded_once
from eager.core.dispatch import apply
from eager.core.op import Samples
from eager.core.registry import F, in_place, overwrite, public
from eager.core.tensor import Tensor
from eager.ops import samples as s
from eager.ops.define import Vjp, not_for
from eager.ops.elementary import sigmoid
from eager.ops.kinds import Pointwise
from eager.ops.pointwise import where

_OF_COMPLEX = frozenset({"silu", "softsign", "tanhshrink"})
_wide = s.both(s.on(-3.1, 3.3), s.on(-4.57, 4.31))


def functional(
    name: str, body: Any, vjp: Vjp, samples: Samples = _wide, ints: str = "", **how: Any
) -> Callable[..., Tensor]:
    """An activation `name(input, inplace=False)` known as `torch.nn.functional.<name>`. `ints`
    says what it makes of ints: ints ("promote"), floats ("float"), or an error ("")."""
    refused = {"": (dt.BOOL, dt.INT), "promote": (dt.BOOL,), "float": ()}[ints]
    refused = refused if name in _OF_COMPLEX else (*refused, dt.COMPLEX)
    op = Pointwise(
        name, ("x",), vjp, body=body, result=ints or "promote", refuses=not_for(name, *refused)
    )

    def fn(input: Tensor, inplace: bool = False) -> Tensor:
        return overwrite(fn, input) if inplace else apply(op, input)

    fn.__name__ = fn.__qualname__ = name
    fn.__doc__ = f"{name}(input, inplace=False): elementwise."
    shared = {"method": False, "namespace": False, "torch": f"nn.functional.{name}"}
    return public(name, samples=samples, **{**shared, **how})(fn)


def _float_constants(samples: Samples) -> Samples:
    """The reference computes these with float32 constants even in float64."""
    return lambda: [replace(each, rtol=1e-6, why="float32 constants") for each in samples()]


# ------------------------------------------------------------------------ piecewise linear
relu = functional(
    "relu",
    lambda m, x: m.max(x, 0),
    lambda g, out: (where(out <= 0, 0.0, g),),  # the gradient passes where NaN is
    s.both(_wide, s.on_ints()),
    ints="promote",
    namespace=True,
    method=True,
    torch="relu",
)
relu_ = in_place("relu_", relu)
setattr(Tensor, "relu_", relu_)  # noqa: B010
relu6 = functional(
    "relu6",
    lambda m, x: m.min(m.max(x, 0), 6),
    lambda g, x: (where((x > 0) & (x < 6), g, 0.0),),
    s.on(-3.3, 9.1),
    ints="promote",
)
hardsigmoid = functional(
    "hardsigmoid",
    lambda m, x: m.min(m.max(x + 3.0, 0.0), 6.0) / 6.0,
    lambda g, x: (where((x > -3) & (x < 3), g / 6, 0.0),),
    _float_constants(_wide),
)
hardswish = functional(
    "hardswish",
    lambda m, x: x * m.min(m.max(x + 3.0, 0.0), 6.0) / 6.0,
    lambda g, x: (where(x <= -3, 0.0, where(x >= 3, g, g * (x / 3 + 0.5))),),
)


LEAKY_RELU = Pointwise(
    "leaky_relu",
    ("x", "slope"),
    lambda g, x, slope: (where(x > 0, g, g * slope), None),
    body=lambda m, x, slope: m.where(x > 0, x, x * slope),
    refuses=not_for("leaky_relu", dt.BOOL, dt.INT, dt.COMPLEX),
)
HARDTANH = Pointwise(
    "hardtanh",
    ("x", "lo", "hi"),
    lambda g, x, lo, hi: (where((x > lo) & (x < hi), g, 0.0), None, None),
    body=lambda m, x, lo, hi: m.min(m.max(x, lo), hi),
    refuses=not_for("hardtanh", dt.BOOL, dt.COMPLEX),
)
THRESHOLD = Pointwise(
    "threshold",
    ("x", "limit", "value"),
    lambda g, x, limit: (where(x <= limit, 0.0, g), None, None),
    body=lambda m, x, limit, value: m.where(x <= limit, value, x),  # NaN stays
    refuses=not_for("threshold", dt.BOOL, dt.COMPLEX),
)


def _f(name: str, *extra: Any, method: bool = False) -> Callable[[F], F]:
    """Registration of an activation with parameters, tested with its defaults and with `extra`."""
    return public(
        name,
        method=method,
        namespace=False,
        torch=f"nn.functional.{name}",
        samples=_float_constants(
            s.both(_wide, lambda: [s.call(s.values((3, 4), -3.1, 3.3), *extra)])
        ),
    )


@_f("leaky_relu", 0.2)
def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """x for x > 0, negative_slope * x below."""
    if inplace:
        return leaky_relu_(input, negative_slope)
    return apply(LEAKY_RELU, input, negative_slope)


leaky_relu_ = in_place("leaky_relu_", leaky_relu)


@_f("hardtanh", -0.5, 0.7)
def hardtanh(
    input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
) -> Tensor:
    """x limited to [min_val, max_val]; no gradient at the limits."""
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    if input.dtype is dt.uint8 and min(min_val, max_val) < 0:
        raise RuntimeError("hardtanh: negative limits for a tensor of an unsigned type")
    if inplace:
        return hardtanh_(input, min_val, max_val)
    if input.dtype.category < dt.FLOAT:
        min_val, max_val = int(min_val), int(max_val)
    return apply(HARDTANH, input, min_val, max_val)


hardtanh_ = in_place("hardtanh_", hardtanh)


@public(
    method=False,
    torch="nn.functional.threshold",
    samples=lambda: [s.call(s.values((3, 4)), 0.1, 20.0)],
)
def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """x where x > threshold, `value` elsewhere."""
    if inplace:
        return threshold_(input, threshold, value)
    if input.dtype.category < dt.FLOAT:
        threshold, value = int(threshold), int(value)
    return apply(THRESHOLD, input, threshold, value)


threshold_ = in_place("threshold_", threshold)


# ------------------------------------------------------------------------------ exponential
ELU = Pointwise(
    "elu",
    ("x", "alpha", "scale"),
    lambda g, x, alpha, scale: (
        where(x > 0, g * scale, g * (scale * alpha) * where(x > 0, 0.0, x).exp()),
        None,
        None,
    ),
    body=lambda m, x, alpha, scale: scale * m.where(x > 0, x, alpha * m.expm1(m.min(x, 0.0))),
    refuses=not_for("elu", dt.BOOL, dt.INT, dt.COMPLEX),
)
CELU = Pointwise(
    "celu",
    ("x", "alpha"),
    lambda g, x, alpha: (where(x > 0, g, g * (where(x > 0, 0.0, x) / alpha).exp()), None),
    body=lambda m, x, alpha: m.where(x > 0, x, alpha * m.expm1(m.min(x, 0.0) / alpha)),
    refuses=not_for("celu", dt.BOOL, dt.INT, dt.COMPLEX),
)
SOFTPLUS = Pointwise(
    "softplus",
    ("x", "beta", "limit"),
    lambda g, x, beta, limit: (where(x * beta > limit, g, g * sigmoid(x * beta)), None, None),
    body=lambda m, x, beta, limit: m.where(
        x * beta > limit, x, m.log1p(m.exp(m.min(x * beta, limit))) / beta
    ),
    refuses=not_for("softplus", dt.BOOL, dt.INT, dt.COMPLEX),
)


@_f("elu", 0.7)
def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x for x > 0, alpha * (exp(x) - 1) below."""
    if inplace:
        return elu_(input, alpha)
    return apply(ELU, input, alpha, 1.0)


elu_ = in_place("elu_", elu)


_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946


@public(torch="selu", method=False, samples=_wide)
def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """The self-normalising ELU (Klambauer et al. 2017)."""
    if inplace:
        return selu_(input)
    return apply(ELU, input, _SELU_ALPHA, _SELU_SCALE)


selu_ = in_place("selu_", selu)


@_f("celu", 0.7)
def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """max(0, x) + min(0, alpha * (exp(x / alpha) - 1))."""
    if inplace:
        return celu_(input, alpha)
    return apply(CELU, input, alpha)


celu_ = in_place("celu_", celu)


@_f("softplus", 2.0, 3.0)
@on_gpus("full")
def softplus(input: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """log(1 + exp(beta x)) / beta; x itself where beta x > threshold."""
    return apply(SOFTPLUS, input, beta, threshold)


logsigmoid = functional(
    "logsigmoid",
    lambda m, x: m.min(x, 0.0) - m.log1p(m.exp(-m.abs(x))),
    lambda g, x: (g * sigmoid(-x),),
)
silu = functional("silu", lambda m, x: x / (1.0 + m.exp(-x)), lambda g, x: (_silu_grad(g, x),))


@rounded_once
def _silu_grad(g: Tensor, x: Tensor) -> Tensor:
    s = sigmoid(x)
    return g * (s * (1 + x * (1 - s)))


mish = functional(
    "mish",
    lambda m, x: x * m.tanh(m.max(x, 0.0) + m.log1p(m.exp(-m.abs(x)))),
    lambda g, x: (_mish_grad(g, x),),
)


@rounded_once
def _mish_grad(g: Tensor, x: Tensor) -> Tensor:
    t = softplus(x).tanh()
    return g * (t + x * sigmoid(x) * (1 - t * t))


softsign = functional(
    "softsign",
    lambda m, x: x / (1.0 + m.abs(x)),
    lambda g, x: (_softsign_grad(g, x, 1 + x.abs()),),
    ints="float",
)


def _softsign_grad(g: Tensor, x: Tensor, size: Tensor) -> Tensor:
    if not x.dtype.is_complex:
        return g / size.square()
    # Only along x does |x| grow, so only there does dividing by it slow the result's growth.
    return g / size - x.sgn().conj() * (g * x).real / size.square()


tanhshrink = functional(
    "tanhshrink",
    lambda m, x: x - m.tanh(x),
    lambda g, x: (g * x.tanh().square(),),
    ints="float",
)

# ------------------------------------------------------------------------------------- gelu
_SQRT_HALF = math.sqrt(0.5)
_PDF = 1.0 / math.sqrt(2.0 * math.pi)
_TANH_A, _TANH_B = math.sqrt(2.0 / math.pi), 0.044715
GELU = Pointwise(
    "gelu",
    ("x",),
    lambda g, x: (_gelu_grad(g, x),),
    body=lambda m, x: 0.5 * x * (1.0 + m.erf(x * _SQRT_HALF)),
    refuses=not_for("gelu", dt.BOOL, dt.INT, dt.COMPLEX),
)
GELU_TANH = Pointwise(
    "gelu_tanh",
    ("x",),
    lambda g, x: (_gelu_tanh_grad(g, x),),
    body=lambda m, x: 0.5 * x * (1.0 + m.tanh(_TANH_A * (x + _TANH_B * (x * x * x)))),
    refuses=not_for("gelu", dt.BOOL, dt.INT, dt.COMPLEX),
)


@rounded_once
def _gelu_grad(g: Tensor, x: Tensor) -> Tensor:
    return g * (0.5 * (1 + (x * _SQRT_HALF).erf()) + x * ((-0.5 * (x * x)).exp() * _PDF))


@rounded_once
def _gelu_tanh_grad(g: Tensor, x: Tensor) -> Tensor:
    t = (_TANH_A * (x + _TANH_B * (x * x * x))).tanh()
    slope = _TANH_A * (1 + 3 * _TANH_B * (x * x))
    return g * (0.5 * (1 + t) + 0.5 * x * ((1 - t * t) * slope))


@public(
    method=False,
    namespace=False,
    torch="nn.functional.gelu",
    samples=s.both(_wide, s.on(-3.1, 3.3, approximate="tanh")),
)
def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """x times the normal distribution function of x; "tanh" for its approximation."""
    if approximate not in ("none", "tanh"):
        raise RuntimeError(f"approximate argument must be either none or tanh, got {approximate!r}")
    return apply(GELU if approximate == "none" else GELU_TANH, input)


# -------------------------------------------------------------------------------- shrinkage
@_f("softshrink", 0.3)
@rounded_once
def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """x moved towards 0 by lambd, 0 within; NaN stays."""
    not_for("softshrink", dt.BOOL, dt.INT)([input.aval])
    if not lambd >= 0:
        raise RuntimeError(f"lambda must be greater or equal to 0, but found to be {lambd}.")
    return where(
        input > lambd,
        input - lambd,
        where(input < -lambd, input + lambd, where(input != input, input, 0.0)),
    )


@_f("hardshrink", 0.3, method=True)
def hardshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """x outside [-lambd, lambd], 0 inside; NaN stays."""
    not_for("hardshrink", dt.BOOL, dt.INT, dt.COMPLEX)([input.aval])
    return where(input.abs() <= lambd, 0.0, input)
