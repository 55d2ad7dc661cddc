"""At the edge: `eager.accelerator`, the device-independent questions about accelerators, which are
`eager.cuda`'s here."""

from __future__ import annotations

from typing import Any

from eager import cuda
from eager.device import device


def is_available() -> bool:
    return cuda.is_available()


def device_count() -> int:
    return cuda.device_count()


def current_accelerator(check_available: bool = False) -> device | None:
    """The accelerator's device, or None where there is none."""
    return device("cuda") if cuda.is_available() else None


def current_device_index() -> int:
    return cuda.current_device()


def synchronize(device: Any = None) -> None:
    """Wait for the accelerator."""
    cuda.synchronize(device)
