"""Below tensors and the tape: what a thread computes under. requests of `eager.autograd`,
`eager.amp` and the like -> the state that dispatch and the tape read.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from eager.base import dtype as dt
from eager.core.batched import Level

# The types that matrix products have under autocast: on the CPU, on GPUs (None: off there).
Autocast = tuple[dt.DType | None, dt.DType | None]
inferring: set[int] = set()  # the threads in inference mode: empty is quicker to ask than `mode`


class Anomaly(NamedTuple):
    """Settings of anomaly detection."""

    check_nan: bool


class _Inference:
    """`mode.inference`, which is noted in `inferring` when it is set. It is read from the thread's
    own dictionary, as fast as any other: this has no `__get__`."""

    def __set__(self, mode: Any, on: bool) -> None:
        mode.__dict__["inference"] = on
        (inferring.add if on else inferring.discard)(threading.get_ident())


class _Mode(threading.local):
    """State of dispatch, per thread: recording, autocast, levels of mapped functions."""

    enabled = True
    inference: Any = _Inference()
    autocast: Autocast | None = None  # None where no device has it on
    rows: tuple[int, int] | None = None  # draws are of this part, of so many, of a larger batch
    levels: tuple[Level, ...] = ()  # the mapped functions that run, the innermost last
    behind: Any = None  # the node whose derivative is being taken
    tangents = False  # a sweep is for tangents: a Function's `jvp` is asked
    anomaly: Anomaly | None = None  # look at the gradients of every derivative
    saved_hooks: tuple[Callable[..., Any], Callable[..., Any]] | None = None  # pack and unpack
    no_saved_hooks: str | None = None  # the message where hooks on what is saved are not allowed
    at_end: tuple[Callable[[], None], ...] = ()  # of the backward that runs: who waits for it
    used: list[tuple[Any, Any]] | None = None  # notes which nodes are released, and what they saved

    def __init__(self) -> None:
        self.inference = False

    @property
    def may_record(self) -> bool:
        """True if a caller that asks for recording gets it: in inference mode only transforms
        do."""
        return self.enabled or not self.inference


mode = _Mode()
