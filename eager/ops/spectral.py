"""Ops of kind `extern`: discrete Fourier transforms by NumPy's pocketfft. tensors -> spectra.

Three ops, as PyTorch has them: complex to complex, real to complex, complex to real, each over the
dimensions `dim` of x (*N). `scale` names the factor: 1 ("none"), 1/n ("n") or 1/sqrt(n) ("sqrt").
The other transforms are written with these in `eager/fft/__init__.py`.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from eager.base import dtype as dt
from eager.base.dtype import complex_of as complex_of
from eager.core.dispatch import apply
from eager.core.tensor import Tensor
from eager.ops.complex import real
from eager.ops.kinds import Host
from eager.ops.move import cat, constant_pad
from eager.sizes.aval import Aval

Dims = tuple[int, ...]
_FORWARD: Final[dict[str, Any]] = {
    "none": "backward",
    "n": "forward",
    "sqrt": "ortho",
}  # NumPy's names of scales
_BACKWARD: Final[dict[str, Any]] = {"none": "forward", "n": "backward", "sqrt": "ortho"}


def _resized(shape: Dims, dim: int, size: int) -> Dims:
    return (*shape[:dim], size, *shape[dim + 1 :])


def _c2c_kernel(x: Any, dim: Dims, scale: str, forward: bool) -> Any:
    if forward:
        return np.fft.fftn(x, axes=dim, norm=_FORWARD[scale])
    return np.fft.ifftn(x, axes=dim, norm=_BACKWARD[scale])


def _c2c_vjp(g: Tensor, dim: Dims, scale: str, forward: bool) -> tuple[Tensor]:
    return (apply(C2C, g, dim=dim, scale=scale, forward=not forward),)


C2C = Host("fft_c2c", ("x",), _c2c_vjp, numpy=_c2c_kernel, rule=lambda x, **_: (x,))


def _r2c_kernel(x: Any, dim: Dims, scale: str, onesided: bool) -> Any:
    transform = np.fft.rfftn if onesided else np.fft.fftn
    return transform(x, axes=dim, norm=_FORWARD[scale])


def _r2c_rule(x: Aval, dim: Dims, scale: str, onesided: bool) -> tuple[Aval]:
    last = dim[-1]
    shape = _resized(x.shape, last, x.shape[last] // 2 + 1) if onesided else x.shape
    return (Aval(shape, complex_of(x.dtype), x.device),)


def _r2c_vjp(g: Tensor, avals: Any, dim: Dims, scale: str, onesided: bool) -> tuple[Tensor]:
    if onesided:  # what is left out has no gradient
        pads = [(0, 0)] * g.ndim
        pads[dim[-1]] = (0, avals[0].shape[dim[-1]] - g.shape[dim[-1]])
        g = constant_pad(g, pads)
    return (real(apply(C2C, g, dim=dim, scale=scale, forward=False)),)


R2C = Host("fft_r2c", ("x",), _r2c_vjp, numpy=_r2c_kernel, rule=_r2c_rule)


def _c2r_kernel(x: Any, dim: Dims, scale: str, size: int) -> Any:
    sizes = [x.shape[d] for d in dim[:-1]] + [size]
    return np.fft.irfftn(x, s=sizes, axes=dim, norm=_BACKWARD[scale])


def _c2r_rule(x: Aval, dim: Dims, scale: str, size: int) -> tuple[Aval]:
    return (Aval(_resized(x.shape, dim[-1], size), dt.real_of(x.dtype), x.device),)


def _c2r_vjp(g: Tensor, dim: Dims, scale: str, size: int) -> tuple[Tensor]:
    """Frequencies that stand for their conjugates, too, count twice."""
    spectrum = apply(R2C, g, dim=dim, scale=scale, onesided=True)
    last, half = dim[-1], size // 2 + 1
    twice = size - half
    parts = [
        spectrum.narrow(last, 0, 1),
        spectrum.narrow(last, 1, twice) * 2,
        spectrum.narrow(last, 1 + twice, half - 1 - twice),
    ]
    return (cat([p for p in parts if p.shape[last]], last),)


C2R = Host("fft_c2r", ("x",), _c2r_vjp, numpy=_c2r_kernel, rule=_c2r_rule)
