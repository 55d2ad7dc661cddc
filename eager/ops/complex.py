"""Complex tensors: parts, conjugates, building them. tensors -> tensors.

Arithmetic on complex numbers is that of the pointwise ops.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import field
from typing import Any, ClassVar

import numpy as np

from eager.base import dtype as dt
from eager.base.dataclass import dataclass
from eager.core.dispatch import apply, write_
from eager.core.op import Attrs, Op
from eager.core.registry import Out, needs_tensors, public
from eager.core.tape import zeros_of
from eager.core.tensor import Tensor, wrap
from eager.core.traced import Traced
from eager.ops import samples as s
from eager.ops.kinds import Host
from eager.ops.pointwise import where
from eager.sizes.aval import Aval, broadcast_shapes

Ints = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class PartView(Host):
    """View of the same memory with another element type: a view to eager and to the tracer, a
    routine of its own to compiled code. `strides` and `write` are as those of a `View`."""

    strides: Callable[[Ints, Ints], tuple[Ints, int]] = field(kw_only=True)
    write: Callable[[Aval, Attrs], tuple[Op, dict[str, Any], bool]] = field(kw_only=True)
    shares: ClassVar[bool] = True

    def run(self, arrays: tuple[Any, ...], _: Attrs) -> tuple[Any, ...]:
        return (self.numpy(*arrays),)

    def restride(self, shape: Ints, strides: Ints, _: Attrs) -> tuple[Ints, int] | None:
        return self.strides(shape, strides)

    def inverse(self, base: Aval, attrs: Attrs) -> tuple[Op, dict[str, Any], bool]:
        return self.write(base, attrs)


def _of_parts(x: Aval) -> tuple[Aval]:
    return (Aval(x.shape, dt.real_of(x.dtype), x.device),)


def _real_vjp(g: Tensor) -> tuple[Tensor]:
    return (make_complex(g, zeros_of(g)),)


def _imag_vjp(g: Tensor) -> tuple[Tensor]:
    return (make_complex(zeros_of(g), g),)


def _conj_vjp(g: Tensor) -> tuple[Tensor]:
    return (conj(g),)


def _with_part(name: str) -> Callable[[Any, Any], Any]:
    def kernel(x: Any, part: Any) -> Any:
        out = np.array(x)
        setattr(out, name, part)
        return out

    return kernel


def _with_real_vjp(g: Tensor) -> tuple[Tensor, Tensor]:
    return make_complex(zeros_of(real(g)), imag(g)), real(g)


def _with_imag_vjp(g: Tensor) -> tuple[Tensor, Tensor]:
    return make_complex(real(g), zeros_of(real(g))), imag(g)


def _component(name: str, vjp: Any, replaced: Any, place: int) -> PartView:
    """A part of each number; `replaced` is the derivative of the numbers with another such part."""
    put = Host(
        f"with_{name}",
        ("x", "part"),
        replaced,
        numpy=_with_part(name),
        rule=lambda x, part: (x,),
        core=(0, 0),
    )
    return PartView(
        name,
        ("x",),
        vjp,
        numpy=np.real if name == "real" else np.imag,
        rule=_of_parts,
        strides=lambda _, strides: (tuple(2 * step for step in strides), place),
        write=lambda *_: (put, {}, True),
    )


REAL = _component("real", _real_vjp, _with_real_vjp, 0)
IMAG = _component("imag", _imag_vjp, _with_imag_vjp, 1)


def _as_complex_aval(x: Aval) -> tuple[Aval]:
    dtype = dt.complex64 if x.dtype is dt.float32 else dt.complex128
    return (Aval(x.shape[:-1], dtype, x.device),)


def _as_complex(x: Any) -> Any:
    """A copy where the strides allow no view (a gradient's: the function refuses it)."""
    if x.strides[-1] != x.itemsize:
        x = np.ascontiguousarray(x)
    return x.view(np.complex64 if x.dtype == np.float32 else np.complex128)[..., 0]


AS_REAL: PartView = PartView(
    "view_as_real",
    ("x",),
    lambda g: (apply(AS_COMPLEX, g),),
    numpy=lambda x: x[..., None].view(x.real.dtype),
    rule=lambda x: (Aval((*x.shape, 2), dt.real_of(x.dtype), x.device),),
    strides=lambda _, strides: ((*(2 * step for step in strides), 1), 0),
    write=lambda *_: (AS_COMPLEX, {}, False),
)
AS_COMPLEX: PartView = PartView(
    "view_as_complex",
    ("x",),
    lambda g: (apply(AS_REAL, g),),
    numpy=_as_complex,
    rule=_as_complex_aval,
    strides=lambda _, strides: (tuple(step // 2 for step in strides[:-1]), 0),
    write=lambda *_: (AS_REAL, {}, False),
    may_copy=True,
)


def _angle_vjp(g: Tensor, x: Tensor) -> tuple[Tensor]:
    a, b = real(x), imag(x)
    at_zero = (a == 0) & (b == 0)  # no angle changes there, says PyTorch
    size = where(at_zero, 1, a * a + b * b)
    return (make_complex(-g * b / size, g * a / size),)


ANGLE = Host("angle", ("x",), _angle_vjp, numpy=np.angle, rule=_of_parts, core=(0,))
CONJ = Host("conj", ("x",), _conj_vjp, numpy=np.conj, rule=lambda x: (x,), core=(0,))


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
    core=(0, 0),
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


@public(
    "complex",
    out=Out(exact=True),
    method=False,
    samples=lambda: [s.call(s.values((3,)), s.values((3,), seed=1))],
)
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
    """The real part, a view; a real tensor itself."""
    return apply(REAL, input) if input.dtype.is_complex else input


def imag(input: Tensor) -> Tensor:
    """The imaginary part, a view. RuntimeError for a real tensor."""
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


@public(
    out=Out(exact=True),
    method=False,
    samples=lambda: [s.call(s.values((3,), 0.5, 2), s.values((3,), seed=1))],
)
@needs_tensors("both")
def polar(abs: Tensor, angle: Tensor) -> Tensor:
    """abs * exp(i angle). RuntimeError for other dtypes than floats, which must be equal."""
    if abs.dtype is not angle.dtype or not abs.dtype.is_floating_point:
        raise RuntimeError(
            "polar(): Expected both inputs to be Half, Float or Double tensors of one type but got "
            f"{abs.dtype} and {angle.dtype}"
        )
    return make_complex(abs * angle.cos(), abs * angle.sin())


@public(method=False, samples=lambda: [s.call(s.values((3, 2)), grad=False)])
def view_as_complex(input: Tensor) -> Tensor:
    """The last dimension, of size 2, as real and imaginary part: a view."""
    if input.dtype not in (dt.float32, dt.float64):
        raise RuntimeError(
            f"view_as_complex is only supported for half, float and double tensors, but got a "
            f"tensor of scalar type: {input.dtype} (there are no complex numbers of 16-bit floats)"
        )
    if input.ndim == 0 or input.shape[-1] != 2:
        raise RuntimeError("Tensor must have a last dimension of size 2")
    *steps, last = input.stride()
    if last != 1:
        raise RuntimeError("Tensor must have a last dimension with stride 1")
    if any(step % 2 for step in steps):
        raise RuntimeError("Tensor must have a stride divisible by 2 for all but last dimension")
    if type(input._array) is not Traced and input.storage_offset() % 2:
        raise RuntimeError("Tensor must have a storage_offset divisible by 2")
    return apply(AS_COMPLEX, input)


@public(method=False, samples=lambda: [s.call(_complex, grad=False)])
def view_as_real(input: Tensor) -> Tensor:
    """Real and imaginary part along a new last dimension: a view."""
    if not input.dtype.is_complex:
        raise RuntimeError("view_as_real is only supported for complex tensors")
    return apply(AS_REAL, input)


def _part_of(x: Tensor, value: Any) -> Tensor:
    """Value to be written to a part of `x`, in its shape and the part's dtype."""
    part = value if isinstance(value, Tensor) else wrap(np.array(value))
    return part.to(dt.real_of(x.dtype)).expand(x.shape)


def _set_real(self: Tensor, value: Any) -> None:
    """`z.real = value`: in place."""
    write_(real(self), _part_of(self, value))


def _set_imag(self: Tensor, value: Any) -> None:
    """`z.imag = value`: in place. RuntimeError for a real tensor."""
    write_(imag(self), _part_of(self, value))


for _name, _get, _set in (("real", real, _set_real), ("imag", imag, _set_imag)):
    setattr(Tensor, _name, property(_get, _set))
