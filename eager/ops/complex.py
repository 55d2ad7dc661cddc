"""Complex tensors: parts, conjugates, building them. tensors -> tensors.

Arithmetic on complex numbers is that of the pointwise ops.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from eager import dtype as dt
from eager.aval import Aval, broadcast_shapes
from eager.dispatch import apply, write_
from eager.ops import samples as s
from eager.ops.kinds import Host
from eager.ops.pointwise import where
from eager.ops.view import zeros_of
from eager.registry import needs_tensors, public
from eager.tensor import Tensor, wrap


def _part(name: str, kernel: Any, vjp: Any) -> Host:
    return Host(
        name,
        ("x",),
        vjp,
        numpy=kernel,
        rule=lambda x: (Aval(x.shape, dt.real_of(x.dtype), x.device),),
    )


def _real_vjp(g: Tensor) -> tuple[Tensor]:
    return (make_complex(g, zeros_of(g)),)


def _imag_vjp(g: Tensor) -> tuple[Tensor]:
    return (make_complex(zeros_of(g), g),)


def _conj_vjp(g: Tensor) -> tuple[Tensor]:
    return (conj(g),)


REAL = _part("real", np.real, _real_vjp)
IMAG = _part("imag", np.imag, _imag_vjp)


def _angle_vjp(g: Tensor, x: Tensor) -> tuple[Tensor]:
    a, b = real(x), imag(x)
    size = a * a + b * b
    return (make_complex(-g * b / size, g * a / size),)


ANGLE = _part("angle", np.angle, _angle_vjp)
CONJ = Host("conj", ("x",), _conj_vjp, numpy=np.conj, rule=lambda x: (x,))


def _joined(a: Any, b: Any) -> Any:
    """(a + 1j * b makes NaN of infinite parts.)"""
    shape, wide = np.broadcast_shapes(a.shape, b.shape), a.dtype.itemsize > 4
    out = np.empty(shape, np.complex128 if wide else np.complex64)
    out.real, out.imag = a, b
    return out


COMPLEX = Host(
    "complex",
    ("real", "imag"),
    lambda g: (real(g), imag(g)),
    numpy=_joined,
    rule=lambda a, b: (
        Aval(
            broadcast_shapes(a.shape, b.shape),
            dt.complex64 if a.dtype is dt.float32 else dt.complex128,
            a.device,
        ),
    ),
)
_complex = np.array([[1 + 2j, -0.5j], [3.0, -1 - 1j]])


@public("complex", method=False, samples=lambda: [s.call(s.values((3,)), s.values((3,), seed=1))])
@needs_tensors("both")
def make_complex(real: Tensor, imag: Tensor) -> Tensor:
    """real + i imag, of two float32 or float64 tensors."""
    if real.dtype is not imag.dtype or real.dtype not in (dt.float32, dt.float64):
        raise RuntimeError(
            f"complex(): Expected both inputs to be Float or Double tensors, got {real.dtype} and "
            f"{imag.dtype}: there are no complex numbers of 16-bit floats"
        )
    return apply(COMPLEX, real, imag)


def real(input: Tensor) -> Tensor:
    """The real part; a real tensor itself."""
    return apply(REAL, input) if input.dtype.is_complex else input


def imag(input: Tensor) -> Tensor:
    """The imaginary part. RuntimeError for a real tensor."""
    if not input.dtype.is_complex:
        raise RuntimeError("imag is not implemented for tensors with non-complex dtypes.")
    return apply(IMAG, input)


public(method=False, samples=lambda: [s.call(_complex, grad=False)])(real)
public(method=False, samples=lambda: [s.call(_complex, grad=False)])(imag)


@public(alias=("conj_physical",), samples=lambda: [s.call(_complex, grad=False)])
def conj(input: Tensor) -> Tensor:
    """The complex conjugate; a real tensor itself."""
    return apply(CONJ, input) if input.dtype.is_complex else input


def _resolved(name: str) -> None:
    """There is nothing to resolve: a conjugate or negative is computed at once."""

    def resolve(input: Tensor) -> Tensor:
        return input

    resolve.__name__ = resolve.__qualname__ = name
    resolve.__doc__ = "The tensor itself: conjugates and negatives are computed at once."
    public(name, samples=lambda: [s.call(_complex, grad=False)])(resolve)


_resolved("resolve_conj")
_resolved("resolve_neg")


@public(alias=("arg",), samples=lambda: [s.call(_complex, grad=False)])
def angle(input: Tensor) -> Tensor:
    """The argument of complex numbers; 0 or pi for real ones."""
    if input.dtype.is_complex:
        return apply(ANGLE, input)
    x = input if input.dtype.is_floating_point else input.to(dt.get_default_dtype())
    return where(x < 0, math.pi, where(x != x, x, 0.0))


@public(method=False, samples=lambda: [s.call(s.values((3,), 0.5, 2), s.values((3,), seed=1))])
@needs_tensors("both")
def polar(abs: Tensor, angle: Tensor) -> Tensor:
    """abs * exp(i angle)."""
    return make_complex(abs * angle.cos(), abs * angle.sin())


@public(method=False, samples=lambda: [s.call(s.values((3, 2)), grad=False)])
def view_as_complex(input: Tensor) -> Tensor:
    """The last dimension, of size 2, as real and imaginary part (a copy)."""
    if input.ndim == 0 or input.shape[-1] != 2:
        raise RuntimeError("Tensor must have a last dimension of size 2")
    return make_complex(input.select(-1, 0), input.select(-1, 1))


@public(method=False, samples=lambda: [s.call(_complex, grad=False)])
def view_as_real(input: Tensor) -> Tensor:
    """Real and imaginary part along a new last dimension (a copy)."""
    parts: Any = [real(input).unsqueeze(-1), imag(input).unsqueeze(-1)]
    return (
        parts[0]
        .new_zeros((*input.shape, 2))
        .slice_scatter(parts[0], -1, 0, 1)
        .slice_scatter(parts[1], -1, 1, 2)
    )


def _part_of(x: Tensor, value: Any) -> Tensor:
    """What is to become a part of `x`, in its shape and the part's dtype."""
    part = value if isinstance(value, Tensor) else wrap(np.array(value))
    return part.to(dt.real_of(x.dtype)).expand(x.shape)


def _set_real(self: Tensor, value: Any) -> None:
    """`z.real = value`: in place."""
    part = _part_of(self, value)
    write_(self, make_complex(part, imag(self)) if self.dtype.is_complex else part)


def _set_imag(self: Tensor, value: Any) -> None:
    """`z.imag = value`: in place. RuntimeError for a real tensor."""
    rest = imag(self)  # that there is one
    write_(self, make_complex(real(self), _part_of(self, value).to(rest.dtype)))


for _name, _get, _set in (("real", real, _set_real), ("imag", imag, _set_imag)):
    setattr(Tensor, _name, property(_get, _set))
