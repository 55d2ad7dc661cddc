"""Capture: functions that are never captured. function -> a refusal with its name.

They read or write what only a run has: files, other processes, frames, streams of random numbers,
settings, the state of a device.
"""

from __future__ import annotations

import builtins
import decimal
import sys
from datetime import datetime
from typing import Any

import numpy as np

from eager import cuda, get_float32_matmul_precision, set_float32_matmul_precision
from eager import random as eager_random
from eager.base.dtype import set_default_dtype
from eager.base.host_only import host_only
from eager.base.process import threads
from eager.base.process.denormals import set_flush_denormal
from eager.base.recorder import Recorder
from eager.core.printing import set_printoptions
from eager.profiler import profile
from eager.serialization import load, save
from jitcap.base.breaks import Break
from jitcap.capture.kinds.base import HANDLERS, Handler, Session, handles


def refusing(kind: str, name: str) -> Handler:
    def handler(s: Session, /, *args: Any, **kwargs: Any) -> Any:
        raise Break(kind, f"{name}() is called")

    return handler


@handles(host_only)
def _host_only(s: Session, /, what: str) -> Any:
    raise Break("effect", f"{what}() talks to other processes")


for _refused, _home, _functions in (
    ("unknown call", "", (
        builtins.open, builtins.input, builtins.eval, builtins.exec, builtins.compile,
        builtins.__import__, builtins.memoryview, builtins.dir,
    )),
    ("frames", "", (builtins.breakpoint,)),
    ("unknown call", "decimal.", (decimal.getcontext, decimal.setcontext, decimal.localcontext)),
    ("time and chance", "", (datetime.utcnow,)),
    ("effect", "eager.", (
        eager_random.seed, eager_random.get_rng_state, eager_random.set_rng_state,
        eager_random.initial_seed, eager_random.Generator.seed, eager_random.Generator.get_state,
        eager_random.Generator.set_state, eager_random.Generator.initial_seed,
        eager_random.Generator.next_ordinal, eager_random.Generator.__deepcopy__,
        set_default_dtype, set_flush_denormal, set_printoptions, save, load,
        threads.get_num_threads, threads.set_num_threads, get_float32_matmul_precision,
        set_float32_matmul_precision,
    )),
    ("effect", "eager.profiler.", (
        profile.__enter__, profile.__exit__, profile.start, profile.stop, profile.step,
    )),
    ("effect", "eager.cuda.", (
        cuda.initial_seed, cuda.get_rng_state, cuda.get_rng_state_all, cuda.set_rng_state,
        cuda.set_rng_state_all, cuda.synchronize, cuda.Event.synchronize, cuda.Stream.synchronize,
        cuda.empty_cache, cuda.reset_peak_memory_stats,
    )),
    ("time and chance", "eager.cuda.", (
        cuda.memory_allocated, cuda.max_memory_allocated, cuda.memory_reserved,
        cuda.max_memory_reserved, cuda.mem_get_info, cuda.counters, cuda.memory_summary,
        cuda.Event.query, cuda.Event.elapsed_time, cuda.Stream.query,
    )),
    ("effect", "", (
        np.geterr, np.seterr, np.geterrcall, np.seterrcall, np.fromfile,
        sys.set_int_max_str_digits,
    )),
    ("frames", "sys.", tuple(
        getattr(sys, look)  # by version
        for look in (
            "_getframe", "_getframemodulename", "_current_frames", "_current_exceptions",
            "settrace", "setprofile", "gettrace", "getprofile",
        )
        if hasattr(sys, look)
    )),
):  # fmt: skip
    for _function in _functions:
        HANDLERS[_function] = refusing(_refused, f"{_home}{_function.__qualname__}")
for _function in (Recorder.start, Recorder.stop):  # what a profile is begun and ended by
    HANDLERS[_function] = refusing("effect", "jitcap.profile")
