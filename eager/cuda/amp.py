"""`eager.cuda.amp`: the older spelling of `eager.amp`, with the device in the name."""

from __future__ import annotations

import functools

from eager import amp
from eager.base import dtype as dt
from eager.base.compat_warnings import warn
from eager.base.dtype import DType


class autocast(amp.autocast):
    """`autocast("cuda", ...)`."""

    def __init__(
        self, enabled: bool = True, dtype: DType = dt.float16, cache_enabled: bool = True
    ) -> None:
        warn('cuda.amp.autocast is deprecated: use amp.autocast("cuda")', FutureWarning)
        super().__init__("cuda", dtype, enabled, cache_enabled)


class GradScaler(amp.GradScaler):
    """`GradScaler("cuda", ...)`."""

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        warn('cuda.amp.GradScaler is deprecated: use amp.GradScaler("cuda")', FutureWarning)
        super().__init__(
            "cuda", init_scale, growth_factor, backoff_factor, growth_interval, enabled
        )


custom_fwd = functools.partial(amp.custom_fwd, device_type="cuda")
custom_bwd = functools.partial(amp.custom_bwd, device_type="cuda")
