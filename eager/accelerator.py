"""At the edge: `eager.accelerator`, the device-independent questions about accelerators. There is
none."""

from __future__ import annotations

from eager.device import device


def is_available() -> bool:
    return False


def device_count() -> int:
    return 0


def current_accelerator(check_available: bool = False) -> device | None:
    """The accelerator's device, or None: tensors live on the CPU."""
    return None


def synchronize() -> None:
    """Wait for the accelerator: nothing to wait for."""
