"""`eager.fft`: discrete Fourier transforms under PyTorch's names. tensors -> spectra, and back.

`n` and `s` are the sizes of the transformed dimensions (cut or filled with zeros), `norm` is
"backward" (1/n on the inverse, the default), "forward" or "ortho". float32 gives complex64.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from eager.base import dtype as dt
from eager.base.dtype import DType
from eager.base.misspelled import missing
from eager.core.dispatch import apply
from eager.core.registry import Out, under
from eager.core.tensor import Tensor
from eager.ops import create, spectral
from eager.ops import samples as s
from eager.ops.complex import conj
from eager.ops.move import constant_pad
from eager.ops.move import roll as _roll
from eager.ops.view import norm_dim
from eager.sizes.symint import Ints, SymInt, known_eq

F = TypeVar("F", bound=Callable[..., Any])
_SCALES = {
    "backward": ("none", "n"),
    "forward": ("n", "none"),
    "ortho": ("sqrt", "sqrt"),
}  # of the transform, of the inverse
_fft = under("fft", Out(overlap="any"))


def _complex(*shape: int) -> Any:
    return s.values(shape) + 1j * s.values(shape, seed=1)


def _scale(norm: str | None, *, inverse: bool) -> str:
    if norm is not None and norm not in _SCALES:
        raise RuntimeError(f'Invalid normalization mode: "{norm}"')
    return _SCALES[norm or "backward"][inverse]


def _floating(x: Tensor) -> Tensor:
    """`x` in a dtype that is transformed. Raises RuntimeError for 16 bits, as PyTorch on a CPU."""
    if not x.dtype.is_floating_point and not x.dtype.is_complex:
        return x.to(dt.get_default_dtype())
    if x.dtype not in (dt.float32, dt.float64, dt.complex64, dt.complex128):
        name = {dt.float16: "Half", dt.bfloat16: "BFloat16"}.get(x.dtype, str(x.dtype))
        raise RuntimeError(f"Unsupported dtype {name}")
    return x


def _real(x: Tensor, name: str, kind: str = "real") -> Tensor:
    x = _floating(x)
    if x.dtype.is_complex:
        given = "ComplexFloat" if x.dtype is dt.complex64 else "ComplexDouble"
        raise RuntimeError(f"{name} expects a {kind} input tensor, but got {given}")
    return x


def _as_complex(x: Tensor) -> Tensor:
    x = _floating(x)
    return x if x.dtype.is_complex else x.to(spectral.complex_of(x.dtype))


def _resize(x: Tensor, dims: Sequence[int], sizes: Sequence[int]) -> Tensor:
    """`x` cut, or filled with zeros at the end, to `sizes` along `dims`."""
    pads = [(0, 0)] * x.ndim
    for d, n in zip(dims, sizes, strict=True):
        if n < 1:
            raise RuntimeError(f"Invalid number of data points ({n}) specified")
        if type(n) is type(x.shape[d]) is int and n < x.shape[d]:
            x = x.narrow(d, 0, n)
        pads[d] = (0, n - x.shape[d])
    return x if all(known_eq(after, 0) for _, after in pads) else constant_pad(x, pads)


def _one(x: Tensor, n: int | None, dim: int) -> tuple[int, int]:
    """The dimension and size of a transform of one dimension."""
    if x.ndim == 0:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    d = norm_dim(dim, x.ndim, "fft")
    return d, x.shape[d] if n is None else n


def _many(x: Tensor, sizes: Ints | None, dim: Ints | None) -> tuple[Any, list[int]]:
    """Dimensions and sizes of a transform of several: -1 is the input's size."""
    sizes = (sizes,) if isinstance(sizes, int | SymInt) else sizes
    dim = (dim,) if isinstance(dim, int) else dim
    if dim is not None:
        if sizes is not None and len(sizes) != len(dim):
            raise RuntimeError("When given, dim and shape arguments must have the same length")
        dims = tuple(norm_dim(d, x.ndim, "fft") for d in dim)
    else:
        count = x.ndim if sizes is None else len(sizes)
        if count > x.ndim:
            raise RuntimeError(
                f"Got shape with {count} values but input tensor only has {x.ndim} dimensions."
            )
        dims = tuple(range(x.ndim - count, x.ndim))
    if len({*dims}) != len(dims):
        raise RuntimeError("FFT dims must be unique")
    given = (-1,) * len(dims) if sizes is None else sizes
    return dims, [x.shape[d] if n == -1 else n for d, n in zip(dims, given, strict=True)]


def _transform(x: Tensor, dims: Any, sizes: Sequence[int], norm: str | None, inverse: bool) -> Any:
    """Complex results of any input, over `dims`."""
    x, scale = _resize(_floating(x), dims, sizes), _scale(norm, inverse=inverse)
    if not dims:
        return _as_complex(x)
    if x.dtype.is_complex:
        return apply(spectral.C2C, x, dim=dims, scale=scale, forward=not inverse)
    out = apply(spectral.R2C, x, dim=dims, scale=scale, onesided=False)
    return conj(out) if inverse else out


def _onesided(x: Tensor, dims: Any, sizes: Sequence[int], scale: str) -> Tensor:
    return apply(spectral.R2C, _resize(x, dims, sizes), dim=dims, scale=scale, onesided=True)


def _to_real(x: Tensor, dims: Any, sizes: Sequence[int], scale: str) -> Tensor:
    """The real signal of `sizes` whose half spectrum along the last of `dims` is `x`."""
    size = sizes[-1]
    if size < 1:
        raise RuntimeError(f"Invalid number of data points ({size}) specified")
    x = _resize(x, dims, [*sizes[:-1], size // 2 + 1])
    return apply(spectral.C2R, x, dim=dims, scale=scale, size=size)


@_fft(
    lambda: [
        s.call(_complex(2, 5)),
        s.call(s.values((5, 3)), 4, 0, "ortho"),
        s.call(s.values((4,)), 6),
    ]
)
def fft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The discrete Fourier transform along `dim`: complex, of size `n`.

    Raises RuntimeError for 16-bit floats, sizes below 1, an unknown `norm`."""
    d, size = _one(input, n, dim)
    return _transform(input, (d,), (size,), norm, inverse=False)


@_fft(
    lambda: [
        s.call(_complex(2, 5)),
        s.call(s.values((5, 3)), 4, 0, "ortho"),
        s.call(s.values((4,)), 6),
    ]
)
def ifft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The inverse of `fft`."""
    d, size = _one(input, n, dim)
    return _transform(input, (d,), (size,), norm, inverse=True)


@_fft(
    lambda: [
        s.call(s.values((2, 5))),
        s.call(s.values((2, 5)), 8, 1, "forward"),
        s.call(s.values((6,))),
    ]
)
def rfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The first n // 2 + 1 frequencies of a real signal (*N) along `dim`: the others are their
    conjugates. RuntimeError for a complex one."""
    x = _real(input, "rfft")
    d, size = _one(x, n, dim)
    return _onesided(x, (d,), (size,), _scale(norm, inverse=False))


@_fft(
    lambda: [
        s.call(_complex(2, 4)),
        s.call(_complex(2, 4), 5, 1, "ortho"),
        s.call(s.values((4,)), 9),
    ]
)
def irfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The inverse of `rfft`: real, of size `n` (default: the even one, 2 (m - 1) of m)."""
    x = _as_complex(input)
    d, size = _one(x, n, dim)
    return _to_real(x, (d,), (2 * (size - 1) if n is None else n,), _scale(norm, inverse=True))


@_fft(lambda: [s.call(_complex(2, 4)), s.call(_complex(2, 4), 5, 1, "ortho")])
def hfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The real spectrum of the signal whose first half is `input` and the rest its conjugates."""
    x = conj(_as_complex(input))
    d, size = _one(x, n, dim)
    return _to_real(x, (d,), (2 * (size - 1) if n is None else n,), _scale(norm, inverse=False))


@_fft(lambda: [s.call(s.values((2, 5))), s.call(s.values((2, 5)), 8, 1, "forward")])
def ihfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The inverse of `hfft`, of a real spectrum: the first half of the signal."""
    x = _real(input, "ihfft")
    d, size = _one(x, n, dim)
    return conj(_onesided(x, (d,), (size,), _scale(norm, inverse=True)))


@_fft(
    lambda: [
        s.call(_complex(2, 3)),
        s.call(s.values((3, 2, 4)), (2, -1), (0, 1)),
        s.call(s.values((3,))),
    ]
)
def fftn(
    input: Tensor, s: Ints | None = None, dim: Sequence[int] | None = None, norm: str | None = None
) -> Tensor:
    """`fft` over several dimensions: `dim`, or the last ones that `s` names, or all."""
    dims, sizes = _many(input, s, dim)
    return _transform(input, dims, sizes, norm, inverse=False)


@_fft(lambda: [s.call(_complex(2, 3)), s.call(s.values((3, 2, 4)), (2, -1), (0, 1), "ortho")])
def ifftn(
    input: Tensor, s: Ints | None = None, dim: Sequence[int] | None = None, norm: str | None = None
) -> Tensor:
    """The inverse of `fftn`."""
    dims, sizes = _many(input, s, dim)
    return _transform(input, dims, sizes, norm, inverse=True)


@_fft(lambda: [s.call(s.values((2, 3))), s.call(s.values((3, 2, 4)), (2, 5), (0, 2), "ortho")])
def rfftn(
    input: Tensor, s: Ints | None = None, dim: Sequence[int] | None = None, norm: str | None = None
) -> Tensor:
    """`fftn` of a real signal, the last of its dimensions with n // 2 + 1 frequencies."""
    x = _real(input, "rfftn", "real-valued")
    dims, sizes = _many(x, s, dim)
    if not dims:
        raise RuntimeError("rfftn must transform at least one axis")
    return _onesided(x, dims, sizes, _scale(norm, inverse=False))


@_fft(lambda: [s.call(_complex(2, 3)), s.call(_complex(3, 2, 4), (2, 5), (0, 2), "ortho")])
def irfftn(
    input: Tensor, s: Ints | None = None, dim: Sequence[int] | None = None, norm: str | None = None
) -> Tensor:
    """The inverse of `rfftn`: real; the last size is 2 (m - 1) of m by default."""
    x = _as_complex(input)
    dims, sizes = _many(x, s, dim)
    if not dims:
        raise RuntimeError("irfftn must transform at least one axis")
    given: Any = None if s is None else (s if isinstance(s, int | SymInt) else s[-1])
    if given in (None, -1):
        sizes[-1] = 2 * (sizes[-1] - 1)
    return _to_real(x, dims, sizes, _scale(norm, inverse=True))


@_fft(lambda: [s.call(_complex(2, 3)), s.call(s.values((3, 2, 4)), (2, 5))])
def fft2(
    input: Tensor, s: Ints | None = None, dim: Sequence[int] = (-2, -1), norm: str | None = None
) -> Tensor:
    """`fftn` over two dimensions."""
    return fftn(input, s, dim, norm)


@_fft(lambda: [s.call(_complex(2, 3)), s.call(s.values((3, 2, 4)), (2, 5))])
def ifft2(
    input: Tensor, s: Ints | None = None, dim: Sequence[int] = (-2, -1), norm: str | None = None
) -> Tensor:
    """`ifftn` over two dimensions."""
    return ifftn(input, s, dim, norm)


@_fft(lambda: [s.call(s.values((3, 2))), s.call(s.values((3, 2, 4)), (2, 5))])
def rfft2(
    input: Tensor, s: Ints | None = None, dim: Sequence[int] = (-2, -1), norm: str | None = None
) -> Tensor:
    """`rfftn` over two dimensions."""
    return rfftn(input, s, dim, norm)


@_fft(lambda: [s.call(_complex(3, 2)), s.call(_complex(3, 2, 4), (2, 5))])
def irfft2(
    input: Tensor, s: Ints | None = None, dim: Sequence[int] = (-2, -1), norm: str | None = None
) -> Tensor:
    """`irfftn` over two dimensions."""
    return irfftn(input, s, dim, norm)


@_fft(lambda: [s.call(_complex(2, 3)), s.call(_complex(3, 2, 4), (2, 5), (0, 2), "ortho")])
def hfftn(
    input: Tensor, s: Ints | None = None, dim: Sequence[int] | None = None, norm: str | None = None
) -> Tensor:
    """`hfft` over the last of the dimensions, after `fftn` over the others: real."""
    x = _as_complex(input)
    dims, sizes = _many(x, s, dim)
    if not dims:
        raise RuntimeError("hfftn must transform at least one axis")
    given: Any = None if s is None else (s if isinstance(s, int | SymInt) else s[-1])
    x = _transform(x, dims[:-1], sizes[:-1], norm, inverse=False) if dims[1:] else x
    return hfft(x, None if given in (None, -1) else given, dims[-1], norm)


@_fft(lambda: [s.call(s.values((2, 3))), s.call(s.values((3, 2, 4)), (2, 5), (0, 2), "ortho")])
def ihfftn(
    input: Tensor, s: Ints | None = None, dim: Sequence[int] | None = None, norm: str | None = None
) -> Tensor:
    """The inverse of `hfftn`, of a real spectrum."""
    x = _real(input, "ihfftn", "real-valued")
    dims, sizes = _many(x, s, dim)
    if not dims:
        raise RuntimeError("ihfftn must transform at least one axis")
    half = ihfft(x, sizes[-1], dims[-1], norm)
    return _transform(half, dims[:-1], sizes[:-1], norm, inverse=True) if dims[1:] else half


@_fft(lambda: [s.call(_complex(3, 2)), s.call(_complex(3, 2, 4), (2, 5))])
def hfft2(
    input: Tensor, s: Ints | None = None, dim: Sequence[int] = (-2, -1), norm: str | None = None
) -> Tensor:
    """`hfftn` over two dimensions."""
    return hfftn(input, s, dim, norm)


@_fft(lambda: [s.call(s.values((3, 2))), s.call(s.values((3, 2, 4)), (2, 5))])
def ihfft2(
    input: Tensor, s: Ints | None = None, dim: Sequence[int] = (-2, -1), norm: str | None = None
) -> Tensor:
    """`ihfftn` over two dimensions."""
    return ihfftn(input, s, dim, norm)


def _frequencies(name: str, k: Any, scale: float, dtype: DType | None, **options: Any) -> Tensor:
    dtype = dtype or dt.get_default_dtype()
    if not dtype.is_floating_point and not dtype.is_complex:
        raise RuntimeError(f"{name} requires a floating point or complex dtype")
    found = create.finish(k.to(dtype) * scale, options.pop("device", None))
    return found.requires_grad_() if options.get("requires_grad") else found


@_fft(lambda: [s.call(5), s.call(6, 0.1)])
def fftfreq(n: int, d: float = 1.0, *, dtype: DType | None = None, **options: Any) -> Tensor:
    """The frequencies of `fft` of n samples `d` apart: 0, 1, ..., -2, -1 over n d."""
    k = create.arange(n)
    k = k - n * (k >= (n + 1) // 2)
    return _frequencies("fftfreq", k, 1.0 / (n * d), dtype, **options)


@_fft(lambda: [s.call(5), s.call(6, 0.1)])
def rfftfreq(n: int, d: float = 1.0, *, dtype: DType | None = None, **options: Any) -> Tensor:
    """The frequencies of `rfft` of n samples `d` apart."""
    return _frequencies("rfftfreq", create.arange(n // 2 + 1), 1.0 / (n * d), dtype, **options)


def _shifted(x: Tensor, dim: Any, sign: int) -> Tensor:
    dims = range(x.ndim) if dim is None else (dim,) if isinstance(dim, int) else dim
    along = tuple(norm_dim(d, x.ndim, "fftshift") for d in dims)
    sizes = [x.shape[d] for d in along]
    return _roll(x, tuple(n // 2 if sign > 0 else -(n // 2) for n in sizes), along)


@_fft(lambda: [s.call(s.values((4, 5))), s.call(s.values((4, 5)), 1)])
def fftshift(input: Tensor, dim: Ints | None = None) -> Tensor:
    """The zero frequency moved to the middle, along `dim` (all dimensions by default)."""
    return _shifted(input, dim, 1)


@_fft(lambda: [s.call(s.values((4, 5))), s.call(s.values((4, 5)), (0, 1))])
def ifftshift(input: Tensor, dim: Ints | None = None) -> Tensor:
    """The inverse of `fftshift`."""
    return _shifted(input, dim, -1)


__getattr__ = missing(__name__)
