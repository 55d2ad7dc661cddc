"""`eager.cuda.amp`: the older spelling of `eager.amp`, with the device in the name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from eager import amp
from eager.dtype import DType


class autocast(amp.autocast):
    """`with autocast(enabled=...): ...`: runs the block in the tensors' own dtypes."""

    def __init__(
        self, enabled: bool = True, dtype: DType | None = None, cache_enabled: bool = True
    ) -> None:
        super().__init__("cuda", dtype, enabled, cache_enabled)


class GradScaler(amp.GradScaler):
    """Passes everything through."""

    def __init__(self, init_scale: float = 65536.0, **settings: Any) -> None:
        super().__init__("cuda", settings.get("enabled", True))


def custom_fwd(fwd: Any = None, *, cast_inputs: DType | None = None) -> Any:
    """The forward of an `autograd.Function` as it is: without autocast there is nothing to undo."""
    return fwd if fwd is not None else lambda each: each


def custom_bwd(bwd: Callable[..., Any]) -> Callable[..., Any]:
    """The backward as it is."""
    return bwd
