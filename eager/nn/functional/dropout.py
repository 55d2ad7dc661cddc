"""nn.functional: dropout and its kin. tensor -> tensor with elements (or whole channels) zeroed at
random."""

from __future__ import annotations

from eager.base.compat_warnings import warn
from eager.core.tensor import Tensor
from eager.nn.functional.register import functional
from eager.random import draw


def _check(p: float) -> None:
    if p < 0.0 or p > 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")


def _masked(input: Tensor, p: float, shape: tuple[int, ...]) -> Tensor:
    """input times a mask of the (broadcast) `shape`: 1 / (1 - p) with probability 1 - p, else 0."""
    if p == 1:
        return input * 0
    kept = (draw("uniform", shape, input.dtype.compute, None, input.device) >= p).to(input.dtype)
    return input * (kept * (1.0 / (1.0 - p)))


def _into(input: Tensor, out: Tensor, inplace: bool) -> Tensor:
    return input.copy_(out) if inplace else out


@functional()
def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Each element zeroed with probability p, the others scaled by 1 / (1 - p); the input itself
    unless `training`."""
    _check(p)
    if not training or p == 0:
        return input
    return _into(input, _masked(input, p, tuple(input.shape)), inplace)


def _channels(input: Tensor, p: float, training: bool, inplace: bool, batched: bool) -> Tensor:
    _check(p)
    if not training or p == 0:
        return input
    lead = 2 if batched else 1
    shape = tuple(input.shape[:lead]) + (1,) * (input.ndim - lead)
    return _into(input, _masked(input, p, shape), inplace)


def _warn_of_rank(name: str, input: Tensor, ranks: tuple[int, int]) -> None:
    if input.ndim not in ranks:
        warn(
            f"{name}: a {input.ndim}-D input is deprecated, expected {ranks[0]}-D or {ranks[1]}-D; "
            "to zero single elements use dropout()"
        )


@functional()
def dropout1d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Whole channels of (N, C, L) or (C, L) zeroed."""
    return _channels(input, p, training, inplace, input.ndim == 3)


@functional()
def dropout2d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Whole channels of (N, C, H, W) zeroed."""
    _warn_of_rank("dropout2d", input, (3, 4))
    if input.ndim == 3:
        warn(
            "dropout2d: a 3-D input is taken as (N, C, L), as dropout1d takes it; for (C, H, W) "
            "add a batch dimension: input.unsqueeze(0)"
        )
    return _channels(input, p, training, inplace, input.ndim != 2)


@functional()
def dropout3d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Whole channels of (N, C, D, H, W) or (C, D, H, W) zeroed."""
    _warn_of_rank("dropout3d", input, (4, 5))
    return _channels(input, p, training, inplace, input.ndim == 5)


_ALPHA = -1.7580993408473766  # the value SELU takes at minus infinity


def _alpha(input: Tensor, p: float, shape: tuple[int, ...]) -> Tensor:
    """Dropped elements take SELU's lowest value, and an affine map restores mean and variance
    (Klambauer et al. 2017)."""
    a = 1.0 / ((_ALPHA * _ALPHA * p + 1) * (1 - p)) ** 0.5 if p < 1 else 0.0
    kept = (draw("uniform", shape, input.dtype.compute, None, input.device) >= p).to(input.dtype)
    return (input * kept + _ALPHA * (1 - kept)) * a - a * p * _ALPHA


@functional()
def alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """Dropout that keeps the statistics of self-normalising networks."""
    _check(p)
    if not training or p == 0:
        return input
    return _into(input, _alpha(input, p, tuple(input.shape)), inplace)


@functional()
def feature_alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """`alpha_dropout` of whole channels."""
    _check(p)
    if not training or p == 0:
        return input
    shape = tuple(input.shape[:2]) + (1,) * (input.ndim - 2)
    return _into(input, _alpha(input, p, shape), inplace)
