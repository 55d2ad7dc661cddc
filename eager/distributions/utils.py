"""Helpers for writing distributions, also those of programs. parameters -> tensors of one shape,
probabilities <-> logits."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import update_wrapper
from typing import Any, Final

from eager.autograd import enable_grad
from eager.base.dtype import bool_, finfo
from eager.construct.interop import tensor
from eager.core.tensor import Tensor
from eager.nn.functional import softmax
from eager.ops.view import broadcast_tensors
from eager.random import randn

__all__ = [
    "broadcast_all", "clamp_probs", "lazy_property", "logits_to_probs", "probs_to_logits",
    "tril_matrix_to_vec", "vec_to_tril_matrix",
]  # fmt: skip

euler_constant: Final = 0.57721566490153286060


def broadcast_all(*values: Any) -> tuple[Tensor, ...]:
    """Numbers and tensors as tensors of one shape; numbers take the place and the floating point
    type of the first tensor."""
    like = next((v for v in values if isinstance(v, Tensor)), None)
    place = None if like is None else like.device
    dtype = None if like is None or not like.dtype.is_floating_point else like.dtype
    tensors = (
        v if isinstance(v, Tensor) else tensor(float(v), dtype=dtype, device=place) for v in values
    )
    return tuple(broadcast_tensors(*tensors))


def clamp_probs(probs: Tensor) -> Tensor:
    """Probabilities away from 0 and 1 by the dtype's precision, so that their logs are finite."""
    eps = finfo(probs.dtype).eps
    return probs.clamp(eps, 1 - eps)


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """Probabilities of one event each (`is_binary`), or of the classes along the last dimension."""
    return logits.sigmoid() if is_binary else softmax(logits, dim=-1)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    inside = clamp_probs(probs)
    return inside.log() - (-inside).log1p() if is_binary else inside.log()


class lazy_property:
    """A property that is computed when it is first asked for, with gradients even where a program
    that only samples asks, and is an attribute of the instance from then on."""

    def __init__(self, wrapped: Callable[[Any], Any]) -> None:
        self.wrapped = wrapped
        update_wrapper(self, wrapped)  # type: ignore[arg-type]

    def __get__(self, instance: Any, obj_type: Any = None) -> Any:
        if instance is None:
            return self
        with enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value


def tril_matrix_to_vec(mat: Tensor, diag: int = 0) -> Tensor:
    """Elements on and below a diagonal of (*, n, n) matrices, row by row: (*, m)."""
    n = mat.shape[-1]
    if not -n <= diag < n:
        raise ValueError(f"diag ({diag}) provided is outside [{-n}, {n - 1}].")
    return mat[..., mat.new_ones((n, n), dtype=bool_).tril(diag)]


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """The lower triangular matrices whose `tril_matrix_to_vec` this is."""
    size = vec.shape[-1]
    root = math.sqrt((1 + 2 * diag) ** 2 + 8 * size + 4 * abs(diag) * (diag + 1))
    n = round((root - (1 + 2 * diag)) / 2)
    mat = vec.new_zeros((*vec.shape[:-1], n, n))
    mask = mat.new_ones((n, n), dtype=bool_).tril(diag)
    if int(mask.sum()) != size:
        raise ValueError(
            f"The size of last dimension is {size} which cannot be expressed as the lower "
            "triangular part of a square D x D matrix."
        )
    mat[..., mask] = vec
    return mat


# Names of PyTorch's, of what libraries of distributions import.
def _standard_normal(shape: Any, dtype: Any, device: Any) -> Tensor:
    return randn(shape, dtype=dtype, device=device)


def _sum_rightmost(value: Tensor, dim: int) -> Tensor:
    return value.reshape((*value.shape[:-dim], -1)).sum(-1) if dim else value
