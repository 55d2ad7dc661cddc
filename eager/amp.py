"""At the edge: `eager.amp`, mixed precision as PyTorch spells it. On the CPU both are off.

PyTorch itself turns both off where there is no GPU, and so do we; CPU autocast, which would run
matrix products in bfloat16, is refused rather than ignored.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from eager.dtype import DType


class autocast:
    """`with autocast("cuda"): ...`: runs the block in the tensors' own dtypes. Also a decorator.

    NotImplementedError for `autocast("cpu")` unless `enabled=False`."""

    def __init__(
        self,
        device_type: str = "cuda",
        dtype: DType | None = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        if device_type == "cpu" and enabled:
            raise NotImplementedError(
                "autocast('cpu') is not supported: convert the model and its inputs by "
                ".to(eager.bfloat16)"
            )

    def __enter__(self) -> autocast:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def __call__(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(fn)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with self:
                return fn(*args, **kwargs)

        return inside


class GradScaler:
    """Loss scaling for float16 training on GPUs; without one it passes everything through."""

    def __init__(self, device: str = "cuda", enabled: bool = True, **_: Any) -> None:
        self._enabled = False

    def scale(self, outputs: Any) -> Any:
        return outputs

    def unscale_(self, optimizer: Any) -> None:
        """Gradients are not scaled."""

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        return optimizer.step(*args, **kwargs)

    def update(self, new_scale: Any = None) -> None:
        """There is no scale to adapt."""

    def get_scale(self) -> float:
        return 1.0

    def is_enabled(self) -> bool:
        return self._enabled

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Nothing is kept."""
