"""At the edge: `eager.distributed`, for programs that ask whether they train in several processes.

They do not: `is_available()` is False, and every other name can be imported and raises when called.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

__all__ = ["is_available", "is_initialized", "is_torchelastic_launched"]


def is_available() -> bool:
    """Whether tensors can be exchanged between processes: not here."""
    return False


def is_initialized() -> bool:
    return False


def is_torchelastic_launched() -> bool:
    return False


def is_nccl_available() -> bool:
    return False


is_gloo_available = is_mpi_available = is_ucc_available = is_nccl_available


def __getattr__(name: str) -> Callable[..., Any]:
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError(
            f"distributed.{name}: training in several processes is not there; ask "
            "distributed.is_available() first, as PyTorch's builds without it require"
        )

    refuse.__name__ = refuse.__qualname__ = name
    return refuse
