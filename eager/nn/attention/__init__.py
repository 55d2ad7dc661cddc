"""`eager.nn.attention`: which implementation of attention to use, and attention with functions of
one's own (`flex_attention`). PyTorch's names; here there is one implementation.

Programs choose a backend for speed. Here attention is a composition that the compiler fuses, so the
choice is accepted and changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import Any

from eager.nn.attention import flex_attention

__all__ = ["SDPBackend", "flex_attention", "sdpa_kernel"]


class SDPBackend(IntEnum):
    """The implementations PyTorch knows."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


@contextmanager
def sdpa_kernel(backends: Any, set_priority: bool = False) -> Iterator[None]:
    """Accepts one backend or a list of them. TypeError for anything else."""
    given = list(backends) if isinstance(backends, list | tuple) else [backends]
    if not all(isinstance(b, SDPBackend) for b in given):
        raise TypeError("sdpa_kernel: expected an SDPBackend or a list of them")
    yield
