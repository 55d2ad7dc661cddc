"""At the edge: `eager.cuda`, what programs ask about GPUs. Eager tensors live on the CPU: there
are none.

Compiled code for GPUs is a matter of `jitcap`'s triton backend.
"""

from __future__ import annotations

from typing import Any, NoReturn

from eager.cuda import amp as amp


def is_available() -> bool:
    """Whether eager tensors can live on a GPU: no."""
    return False


def device_count() -> int:
    return 0


def is_bf16_supported() -> bool:
    return False


def is_initialized() -> bool:
    return False


def _absent(name: str) -> NoReturn:
    raise RuntimeError(f"cuda.{name}(): eager has no GPU device; guard it by cuda.is_available()")


def current_device() -> int:
    _absent("current_device")


def set_device(device: Any) -> None:
    _absent("set_device")


def get_device_properties(device: Any = None) -> Any:
    _absent("get_device_properties")


def get_device_name(device: Any = None) -> str:
    _absent("get_device_name")


def synchronize(device: Any = None) -> None:
    """Wait for the GPU: nothing to wait for."""


def empty_cache() -> None:
    """Release the GPU's cached memory: none is held."""


def manual_seed(seed: int) -> None:
    """Seed the GPU's generator; without one, nothing. `eager.manual_seed` seeds the CPU's."""


def manual_seed_all(seed: int) -> None:
    """Seed all GPUs' generators; without any, nothing."""


def memory_allocated(device: Any = None) -> int:
    return 0


def max_memory_allocated(device: Any = None) -> int:
    return 0


def reset_peak_memory_stats(device: Any = None) -> None:
    """Forget the peak of GPU memory."""
