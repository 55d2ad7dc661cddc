"""Fourier transforms of overlapping windows of a signal: `stft`, `istft`. (B, T) -> (B, F, frames),
and back.

Compositions: padding, windows as a strided view, `fft`, and additions where frames overlap.
"""

from __future__ import annotations

from typing import Any

from eager import fft
from eager.base import dtype as dt
from eager.base.compat_warnings import warn, warn_once
from eager.core.dispatch import apply
from eager.core.registry import public
from eager.core.tensor import Tensor
from eager.device import transfer
from eager.nn.functional.shape import pad
from eager.ops import samples as s
from eager.ops.complex import COMPLEX, view_as_real
from eager.ops.create import ones
from eager.ops.index import INDEX_ADD
from eager.ops.index_and_sort import iota
from eager.ops.move import constant_pad_nd


def _refuse(name: str, wanted: str) -> None:
    raise RuntimeError(f"{name}(): expected {wanted}")


def _geometry(
    name: str, n_fft: int, hop_length: int | None, win_length: int | None
) -> tuple[int, int]:
    """The distance of frames and the length of the window, checked."""
    win = n_fft if win_length is None else win_length
    hop = n_fft // 4 if hop_length is None else hop_length
    if hop <= 0:
        _refuse(name, f"hop_length > 0, but got hop_length={hop}")
    if not 0 < win <= n_fft:
        _refuse(name, f"0 < win_length <= n_fft, but got win_length={win}")
    return hop, win


def _window(name: str, window: Tensor | None, win: int, n_fft: int, like: Tensor) -> Tensor:
    """The window (n_fft), with zeros around it where it is shorter."""
    if window is None:
        warn(f"{name}: without a window it is rectangular, which leaks: pass hann_window({win})")
        window = ones((win,), dtype=dt.real_of(like.dtype), device=like.device)
    elif tuple(window.shape) != (win,):
        wanted = f"a 1D window tensor of size equal to win_length={win}"
        _refuse(name, f"{wanted}, but got window with size {list(window.shape)}")
    left = (n_fft - win) // 2
    return window if win == n_fft else constant_pad_nd(window, (left, n_fft - win - left))


@public(
    samples=lambda: [
        s.call(s.values((2, 40)), 8, window=s.values((8,), 0.1, 1), return_complex=True),
        s.call(s.values((40,)), 9, 3, 6, s.values((6,), 0.1, 1), False, return_complex=True),
        s.call(s.values((40,)), 8, 4, normalized=True, onesided=False, return_complex=True),
    ]
)
def stft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Tensor:
    """Spectra of windows of a signal (T) or (B, T): complex (B, F, frames), F = n_fft / 2 + 1 for
    real signals (`onesided`), n_fft otherwise; frames begin every `hop_length` (n_fft / 4).

    `center` pads the signal by n_fft / 2 on both sides; `align_to_window` (without it) by what the
    window lacks of n_fft; `normalized` divides by sqrt(n_fft); without
    `return_complex` the parts are in a last dimension. RuntimeError for sizes that do not fit."""
    if input.ndim not in (1, 2):
        _refuse("stft", f"a 1D or 2D tensor, but got {input.ndim}D")
    is_complex = input.dtype.is_complex or (window is not None and window.dtype.is_complex)
    if return_complex is None and not is_complex:
        raise RuntimeError(
            "stft requires the return_complex parameter be given for real inputs, and will "
            "further require that return_complex=True in a future PyTorch release."
        )
    if center and align_to_window is not None:
        raise RuntimeError("stft align_to_window should only be set when center = false.")
    hop, win = _geometry("stft", n_fft, hop_length, win_length)
    x = input.unsqueeze(0) if input.ndim == 1 else input
    if center:
        x = pad(x.unsqueeze(1), (n_fft // 2, n_fft // 2), pad_mode).squeeze(1)
    elif align_to_window:
        x = constant_pad_nd(x, ((n_fft - win) // 2, (n_fft - win) // 2))
    if not 0 < n_fft <= x.shape[1]:
        _refuse("stft", f"0 < n_fft < {x.shape[1]}, but got n_fft={n_fft}")
    frames = x.unfold(1, n_fft, hop) * _window("stft", window, win, n_fft, x)
    half = not is_complex if onesided is None else onesided
    if half and is_complex:
        raise RuntimeError("Cannot have onesided output if window or input is complex")
    spectrum = (fft.rfft if half else fft.fft)(frames, norm="ortho" if normalized else None)
    out = spectrum.transpose(1, 2)
    out = out.squeeze(0) if input.ndim == 1 else out
    return out if return_complex or return_complex is None else view_as_real(out)


def _overlapped(frames: Tensor, hop: int) -> Tensor:
    """(B, frames, n) -> (B, n + hop (frames - 1)), adding where frames overlap."""
    batch, count, n = frames.shape
    places = (iota(count, like=frames).unsqueeze(1) * hop + iota(n, like=frames)).reshape(-1)
    total = frames.new_zeros((batch, n + hop * (count - 1)))
    return apply(INDEX_ADD, total, places, frames.reshape((batch, count * n)), dim=1)


def _spectra(*shape: int) -> Any:
    return s.values(shape) + 1j * s.values(shape, seed=1)


@public(
    samples=lambda: [
        s.call(_spectra(2, 5, 9), 8, window=s.values((8,), 0.3, 1), grad=False),
        s.call(_spectra(5, 9), 9, 3, 7, s.values((7,), 0.3, 1), length=20, grad=False),
        s.call(_spectra(8, 9), 8, 2, normalized=True, onesided=False, return_complex=True,
               grad=False),
    ]
)  # fmt: skip
def istft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Tensor:
    """The signal (T) or (B, T) whose `stft` is nearest to `input` (F, frames) or (B, F, frames), by
    least squares (Griffin and Lim, 1984).

    `length` cuts the signal or fills it with zeros. RuntimeError for sizes that do not fit, and
    where the windows leave places that nothing is known of."""
    x = _spectrum_of(input, n_fft, onesided)
    hop, win = _geometry("istft", n_fft, hop_length, win_length)
    if hop > win:
        _refuse("istft", f"0 < hop_length <= win_length, but got hop_length={hop}")
    shape = _window("istft", window, win, n_fft, x)
    norm = "ortho" if normalized else None
    half = x.shape[1] != n_fft if onesided is None else onesided
    if return_complex:
        if half:
            raise RuntimeError("cannot have onesided output if window or input is complex")
        frames = fft.ifft(x.transpose(1, 2), norm=norm) * shape
        parts = (_overlapped(part, hop) for part in (frames.real, frames.imag))
        signal = apply(COMPLEX, *parts)
    else:
        if shape.dtype.is_complex:
            raise RuntimeError("Complex windows are incompatible with return_complex=False")
        spectra = x.transpose(1, 2)[..., : n_fft // 2 + 1]
        signal = _overlapped(fft.irfft(spectra, n_fft, norm=norm) * shape, hop)
    squares = (shape * shape).expand((1, x.shape[2], n_fft))
    start = n_fft // 2 if center else 0
    total = signal.shape[1]
    stop = total - start if length is None else start + length
    out = _divided(signal[:, start:stop], _overlapped(squares, hop)[:, start:stop])
    if stop > total:
        warn_once("istft length", "The length of signal is shorter than the length parameter. "
                  "Result is being padded with zeros in the tail. Please check your center and "
                  "hop_length settings.")  # fmt: skip
        out = constant_pad_nd(out, (0, stop - total))
    return out.squeeze(0) if input.ndim == 2 else out


def _spectrum_of(input: Tensor, n_fft: int, onesided: bool | None) -> Tensor:
    """The spectra as (B, F, frames)."""
    if not input.dtype.is_complex:
        raise RuntimeError(
            "istft requires a complex-valued input tensor matching the output from stft with "
            "return_complex=True."
        )
    if input.ndim not in (2, 3):
        _refuse("istft", f"a tensor with 2 or 3 dimensions, but got {input.ndim}")
    x = input.unsqueeze(0) if input.ndim == 2 else input
    if 0 in x.shape:
        raise RuntimeError("istft input tensor cannot be empty.")
    half = x.shape[1] != n_fft if onesided is None else onesided
    wanted = n_fft // 2 + 1 if half else n_fft
    if x.shape[1] != wanted:
        _refuse(
            "istft",
            "the frequency dimension (3rd to the last) of the input tensor to match "
            f"{'n_fft / 2 + 1' if half else 'n_fft'} when onesided={half}, but got {x.shape[1]}",
        )
    return x


def _divided(signal: Tensor, weights: Tensor) -> Tensor:
    known = transfer.values_of(weights._array)
    if known is not None and known.size and abs(known).min() < 1e-11:
        raise RuntimeError("window overlap add min: 1")
    return signal / weights
