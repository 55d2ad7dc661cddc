"""`fft` of the array API standard. tensors -> tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eager import fft as _fft
from eager.core.tensor import Tensor


def _one(name: str) -> Any:
    inner = getattr(_fft, name)

    def transform(
        x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: str = "backward"
    ) -> Tensor:
        return inner(x, n, axis, norm)

    transform.__name__ = transform.__qualname__ = name
    transform.__doc__ = inner.__doc__
    return transform


def _many(name: str) -> Any:
    inner = getattr(_fft, name)

    def transform(
        x: Tensor, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = None,
        norm: str = "backward",
    ) -> Tensor:  # fmt: skip
        return inner(x, s, axes, norm)

    transform.__name__ = transform.__qualname__ = name
    transform.__doc__ = inner.__doc__
    return transform


fft, ifft, rfft, irfft, hfft, ihfft = map(_one, ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"))
fftn, ifftn, rfftn, irfftn = map(_many, ("fftn", "ifftn", "rfftn", "irfftn"))


def fftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Tensor:
    """The frequencies of `fft`."""
    return _fft.fftfreq(n, d, dtype=dtype, device=device)


def rfftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Tensor:
    """The frequencies of `rfft`."""
    return _fft.rfftfreq(n, d, dtype=dtype, device=device)


def fftshift(x: Tensor, /, *, axes: Any = None) -> Tensor:
    """The zero frequency in the middle."""
    return _fft.fftshift(x, axes)


def ifftshift(x: Tensor, /, *, axes: Any = None) -> Tensor:
    """The zero frequency first again."""
    return _fft.ifftshift(x, axes)
