"""At the edge: `eager.accelerator`, the device-independent questions about accelerators, which are
`eager.cuda`'s here."""

from __future__ import annotations

from eager.cuda import current_device as current_device_index
from eager.cuda import device_count, is_available, synchronize
from eager.device import device

__all__ = [
    "current_accelerator", "current_device_index", "device_count", "is_available", "synchronize",
]  # fmt: skip


def current_accelerator(check_available: bool = False) -> device | None:
    """The accelerator's device, or None where there is none."""
    return device("cuda") if is_available() else None
