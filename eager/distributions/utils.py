"""Helpers for writing distributions, also those of programs. parameters -> tensors of one shape,
probabilities <-> logits."""

from __future__ import annotations

from functools import cached_property as lazy_property
from typing import Any

from eager.base.dtype import finfo
from eager.construct.interop import tensor
from eager.core.tensor import Tensor
from eager.nn.functional import softmax
from eager.ops.view import broadcast_tensors

__all__ = [
    "broadcast_all", "clamp_probs", "lazy_property", "logits_to_probs", "probs_to_logits",
]  # fmt: skip


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
