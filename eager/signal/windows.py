"""`eager.signal.windows`, and the windows that stand in `eager` itself: a length -> samples.

A symmetric window of M samples is a function at M evenly spaced places; one that is not symmetric
is periodic: the first M of M + 1 samples.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from eager.base import dtype as dt
from eager.base.compat_warnings import STRIDED, options
from eager.base.dtype import DType
from eager.core.op import Sample
from eager.core.registry import public, under
from eager.core.tensor import Tensor
from eager.ops import samples as s
from eager.ops.create import arange, empty, finish, ones

Shape = Callable[[Tensor, float], Tensor]  # (places 0, 1, ..., the last of them) -> samples


def _window(
    name: str,
    M: int,
    sym: bool,
    dtype: Any,
    device: Any,
    requires_grad: bool,
    shape: Shape,
    layout: Any = None,
) -> Tensor:
    if layout not in (None, STRIDED):
        raise ValueError(f"{name} is implemented for strided tensors only, got: {layout}")
    if M < 0:
        raise ValueError(f"{name} requires non-negative window length, got M={M}")
    dtype = dt.get_default_dtype() if dtype is None else dtype
    if not dtype.is_floating_point or dtype.itemsize < 4:
        raise ValueError(f"{name} expects float32 or float64 dtypes, got: {dtype}")
    if M < 2:
        made = (ones if M else empty)(M, dtype=dtype)
    else:
        last = M - 1 if sym else M
        made = shape(arange(M, dtype=dt.float64), last * 1.0).to(dtype)
    return finish(made, device, requires_grad)


def _cosines(coefficients: Iterable[float]) -> Shape:
    terms = tuple(coefficients)

    def shape(k: Tensor, last: float) -> Tensor:
        total: Any = 0.0
        for i, a in enumerate(terms):
            total = total + (-1) ** i * a * (k * (2 * math.pi * i / last)).cos()
        return total

    return shape


def _triangle(k: Tensor, last: float) -> Tensor:
    return 1 - (k * (2 / last) - 1).abs()


def _sine(k: Tensor, last: float) -> Tensor:
    return ((k + 0.5) * (math.pi / (last + 1))).sin()


def _kaiser(beta: float) -> Shape:
    def shape(k: Tensor, last: float) -> Tensor:
        inside = (1 - (k * (2 / last) - 1) ** 2).clamp(min=0).sqrt() * beta
        return inside.i0() / Tensor._full(beta, inside.aval).i0()

    return shape


_BLACKMAN = (0.42, 0.5, 0.08)
_NUTTALL = (0.3635819, 0.4891775, 0.1365995, 0.0106411)


def _calls() -> list[Sample]:
    return [s.call(6), s.call(5, sym=False)]


def _plain(name: str, shape: Shape) -> Callable[..., Tensor]:
    """A window without parameters."""

    def make(
        M: int,
        *,
        sym: bool = True,
        dtype: DType | None = None,
        layout: Any = None,
        device: Any = None,
        requires_grad: bool = False,
    ) -> Tensor:
        return _window(name, M, sym, dtype, device, requires_grad, shape, layout)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"The {name} window of M samples."
    return under("signal.windows")(_calls)(make)


bartlett = _plain("bartlett", _triangle)
blackman = _plain("blackman", _cosines(_BLACKMAN))
cosine = _plain("cosine", _sine)
hann = _plain("hann", _cosines((0.5, 0.5)))
hamming = _plain("hamming", _cosines((0.54, 0.46)))
nuttall = _plain("nuttall", _cosines(_NUTTALL))
_parameters = under("signal.windows")


@_parameters(_calls)
def exponential(
    M: int, *, center: float | None = None, tau: float = 1.0, sym: bool = True,
    dtype: DType | None = None, layout: Any = None, device: Any = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """exp(-|k - center| / tau); the centre of a symmetric window is its middle."""
    if tau <= 0:
        raise ValueError(f"Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ValueError("Center must be None for symmetric windows")

    def shape(k: Tensor, last: float) -> Tensor:
        return (-(k - (last / 2 if center is None else center)).abs() / tau).exp()

    return _window("exponential", M, sym, dtype, device, requires_grad, shape, layout)


@_parameters(_calls)
def gaussian(
    M: int, *, std: float = 1.0, sym: bool = True, dtype: DType | None = None, layout: Any = None,
    device: Any = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """exp(-((k - middle) / std)^2 / 2)."""
    if std <= 0:
        raise ValueError(f"Standard deviation must be positive, got: {std} instead.")

    def shape(k: Tensor, last: float) -> Tensor:
        return (((k - last / 2) / std) ** 2 * -0.5).exp()

    return _window("gaussian", M, sym, dtype, device, requires_grad, shape, layout)


@_parameters(_calls)
def kaiser(
    M: int, *, beta: float = 12.0, sym: bool = True, dtype: DType | None = None, layout: Any = None,
    device: Any = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """I0(beta sqrt(1 - x^2)) / I0(beta) for x from -1 to 1."""
    if beta < 0:
        raise ValueError(f"beta must be non-negative, got: {beta} instead.")
    return _window("kaiser", M, sym, dtype, device, requires_grad, _kaiser(float(beta)), layout)


@_parameters()
def general_cosine(
    M: int, *, a: Iterable[float], sym: bool = True, dtype: DType | None = None, layout: Any = None,
    device: Any = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """A sum of cosines with the coefficients `a`, of alternating sign."""
    if not isinstance(a, Iterable):
        raise TypeError("Coefficients must be a list/tuple")
    terms = tuple(a)
    if not terms:
        raise ValueError("Coefficients cannot be empty")
    return _window("general_cosine", M, sym, dtype, device, requires_grad, _cosines(terms), layout)


@_parameters(_calls)
def general_hamming(
    M: int, *, alpha: float = 0.54, sym: bool = True, dtype: DType | None = None,
    layout: Any = None, device: Any = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """alpha - (1 - alpha) cos: Hann's for 0.5, Hamming's for 0.54."""
    shape = _cosines((alpha, 1.0 - alpha))
    return _window("general_hamming", M, sym, dtype, device, requires_grad, shape, layout)


# --------------------------------------------------------------- as they are called in `eager`
def _older(name: str, shape: Callable[..., Shape], *defaults: float) -> None:
    def make(
        window_length: int,
        periodic: bool = True,
        *parameters: float,
        dtype: DType | None = None,
        layout: Any = None,
        device: Any = None,
        pin_memory: bool = False,
        requires_grad: bool = False,
        **named: float,
    ) -> Tensor:
        if layout or pin_memory:
            options(name, layout, pin_memory)
        values = (*parameters, *named.values()) or defaults
        if window_length < 0:
            raise RuntimeError(f"{name} requires non-negative window_length, got {window_length}")
        if dtype is not None and not dtype.is_floating_point:
            raise RuntimeError(f"{name} expects floating point dtypes, got: {dtype}")
        wide = dtype if dtype is None or dtype.itemsize >= 4 else dt.float32
        made = _window(name, window_length, not periodic, wide, device, False, shape(*values))
        made = made if dtype is None else made.to(dtype)
        return made.requires_grad_() if requires_grad else made

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"{name}(window_length, periodic=True): as in `eager.signal.windows`."
    public(name, method=False, samples=lambda: [s.call(6), s.call(5, False)])(make)


def _raised(alpha: float = 0.54, beta: float = 0.46) -> Shape:
    return _cosines((alpha, beta))


_older("hann_window", lambda: _cosines((0.5, 0.5)))
_older("hamming_window", _raised)
_older("blackman_window", lambda: _cosines(_BLACKMAN))
_older("bartlett_window", lambda: _triangle)
_older("kaiser_window", _kaiser, 12.0)
