"""At the edge: `eager.amp`, mixed precision as PyTorch spells it: bfloat16 or float16 in matrix
products and convolutions (`eager/core/casts.py`). Where there is no GPU, what is asked of one is
off, as in PyTorch.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable, Iterable
from typing import Any

from eager.base import dtype as dt
from eager.base.compat_warnings import warn
from eager.base.dtype import DType
from eager.core import sharded
from eager.core.casts import (
    autocast_now,
    get_autocast_dtype,
    is_autocast_enabled,
    set_autocast,
    to_precision,
    with_autocast,
)
from eager.core.tape import Autocast
from eager.core.tensor import Tensor
from eager.device import places
from eager.ops.create import full
from eager.ops.pointwise import where
from eager.ops.reduce import any as any_of


class autocast:
    """`with autocast("cpu", dtype=bfloat16): ...`: matrix products and convolutions in `dtype`.

    Also a decorator; `enabled=False` turns it off inside. For "cuda" it does nothing where there is
    no GPU. Raises RuntimeError for a type other than bfloat16 and float16."""

    def __init__(
        self,
        device_type: str,
        dtype: DType | None = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        if device_type not in ("cpu", "cuda"):
            raise RuntimeError(
                f"autocast: expected device type 'cpu' or 'cuda', got {device_type!r}"
            )
        self.device = device_type
        self.fast_dtype = get_autocast_dtype(device_type) if dtype is None else dtype
        if enabled and self.fast_dtype not in (dt.bfloat16, dt.float16):
            raise RuntimeError(
                f"autocast runs in bfloat16 or float16, not in {self.fast_dtype}: leave it out, or "
                "pass enabled=False"
            )
        if enabled and device_type == "cuda" and not places.count():
            warn('autocast("cuda") does nothing: there is no GPU')
        self._wanted = self.fast_dtype if enabled else None
        self._before: list[Autocast | None] = []  # a decorated function may call itself

    def __enter__(self) -> autocast:
        there = self.device == "cpu" or (self.device == "cuda" and places.count())
        on = with_autocast(self.device, self._wanted) if there else autocast_now()
        self._before.append(set_autocast(on))
        return self

    def __exit__(self, *_: object) -> None:
        set_autocast(self._before.pop())

    def __call__(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(fn)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with self:
                return fn(*args, **kwargs)

        return inside


def is_autocast_available(device_type: str) -> bool:
    """True for the devices that `autocast` knows."""
    return device_type in ("cpu", "cuda")


def custom_fwd(
    fwd: Any = None, *, device_type: str, cast_inputs: DType | None = None
) -> Callable[..., Any]:
    """Decorator of the forward of an `autograd.Function`: with `cast_inputs` it gets its floats in
    that type and runs without autocast; its backward is then run as the forward was."""
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def forward(*args: Any, **kwargs: Any) -> Any:
        ctx = args[0]
        ctx._autocast = autocast_now()
        if cast_inputs is None or not is_autocast_enabled(device_type):
            return fwd(*args, **kwargs)
        given = [to_precision(x, cast_inputs) for x in args]
        with autocast(device_type, enabled=False):
            ctx._autocast = autocast_now()
            return fwd(*given, **{k: to_precision(v, cast_inputs) for k, v in kwargs.items()})

    return forward


def custom_bwd(bwd: Any = None, *, device_type: str) -> Callable[..., Any]:
    """Decorator of the backward of an `autograd.Function` whose forward has `custom_fwd`."""
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def backward(*args: Any, **kwargs: Any) -> Any:
        before = set_autocast(args[0]._autocast)
        try:
            return bwd(*args, **kwargs)
        finally:
            set_autocast(before)

    return backward


class OptState(enum.Enum):
    """States of an optimizer between two updates of a scaler, of PyTorch's names."""

    READY = 0
    UNSCALED = 1
    STEPPED = 2


class GradScaler:
    """Loss scaling for training in float16: a step whose gradients overflow is left out, and the
    scale is halved; after `growth_interval` good ones it doubles.

    For "cuda" it passes everything through where there is no GPU."""

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        self._device = device
        self._enabled = enabled and (device == "cpu" or places.count() > 0)
        if enabled and not self._enabled:
            warn("GradScaler is enabled, but there is no GPU: it passes everything through")
        self._init_scale = init_scale
        self._growth_factor = growth_factor
        self._backoff_factor = backoff_factor
        self._growth_interval = growth_interval
        if self._enabled:
            if growth_factor <= 1 or backoff_factor >= 1:
                raise ValueError("The growth factor must be > 1.0 and the backoff factor < 1.0.")
            self._scale = full((), init_scale, dtype=dt.float32, device=device)
            self._growth_tracker = full((), 0, dtype=dt.int32, device=device)
            self._found: dict[Any, Tensor] = {}  # by optimizer that was unscaled: any overflow
            self._stepped: list[Any] = []

    def scale(self, outputs: Any) -> Any:
        """A loss, or an iterable of them, times the scale."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            return outputs * self._scale.to(outputs.dtype)
        if isinstance(outputs, Iterable):
            scaled = [self.scale(each) for each in outputs]
            return scaled if isinstance(outputs, list) else tuple(scaled)
        raise ValueError("outputs must be a Tensor or an iterable of Tensors")

    def unscale_(self, optimizer: Any) -> None:
        """Divide the gradients of an optimizer by the scale, so that they can be clipped. Raises
        RuntimeError the second time before `update`."""
        if not self._enabled:
            return
        if optimizer in self._found:
            raise RuntimeError(
                "unscale_() has already been called on this optimizer since the last update()."
            )
        if optimizer in self._stepped:
            raise RuntimeError("unscale_() is being called after step().")
        found, inverse = self._none(), 1 / self._scale
        parameters = [p for g in optimizer.param_groups for p in g["params"]]
        for gradient in [p.grad for p in parameters]:
            if gradient is not None:
                found = found | any_of(~gradient.isfinite())
                gradient.detach().mul_(inverse.to(gradient.dtype))
        if sharded.on_any_rank is not None:
            found = sharded.on_any_rank(parameters, found)
        self._found[optimizer] = found

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """`optimizer.step(...)`, unless a gradient is infinite or NaN. Raises RuntimeError for a
        second call without `update`."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        if optimizer in self._stepped:
            raise RuntimeError("step() has already been called since the last update().")
        if optimizer not in self._found:
            self.unscale_(optimizer)
        self._stepped.append(optimizer)
        optimizer._opt_called = True  # asked by schedulers, before the number that decides here
        if self._found[optimizer]:
            return None
        return optimizer.step(*args, **kwargs)

    def update(self, new_scale: Any = None) -> None:
        """Adapt the scale to whether a gradient overflowed since the last time, or set it."""
        if not self._enabled:
            return
        if new_scale is not None:
            self._scale.fill_(new_scale)
        else:
            if not self._found:
                raise RuntimeError("No inf checks were recorded prior to update.")
            self._adapt()
        self._found, self._stepped = {}, []

    def _none(self) -> Tensor:
        """Nothing overflowed."""
        return full((), False, dtype=dt.bool_, device=self._device)

    def _adapt(self) -> None:
        found = self._none()
        for each in self._found.values():
            found = found | each
        good = where(found, 0, self._growth_tracker + 1)
        grows = good == self._growth_interval
        self._growth_tracker.copy_(where(grows, 0, good))
        kept = where(grows, self._scale * self._growth_factor, self._scale)
        kept = where(kept.isfinite(), kept, self._scale)
        self._scale.copy_(where(found, self._scale * self._backoff_factor, kept))

    def get_scale(self) -> float:
        return float(self._scale.item()) if self._enabled else 1.0

    def is_enabled(self) -> bool:
        return self._enabled

    def get_growth_factor(self) -> float:
        return self._growth_factor

    def get_backoff_factor(self) -> float:
        return self._backoff_factor

    def get_growth_interval(self) -> int:
        return self._growth_interval

    def state_dict(self) -> dict[str, Any]:
        """The scale and the settings; {} when not enabled."""
        if not self._enabled:
            return {}
        return {
            "scale": self.get_scale(),
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": int(self._growth_tracker.item()),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` gave. Raises RuntimeError for {} of one that was off."""
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError("The source state dict is empty: it is of a disabled GradScaler.")
        self._scale.fill_(state_dict["scale"])
        self._growth_factor = state_dict["growth_factor"]
        self._backoff_factor = state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        self._growth_tracker.fill_(state_dict["_growth_tracker"])
