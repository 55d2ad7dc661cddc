"""Under `eager.distributed`: what a message-passing library does for a group. NumPy arrays -> a
`Request`, whose end says that the arrays hold the result.

An engine moves and reduces memory; it knows no tensors. Every call returns at once; arrays of a
request belong to the engine until it is done. Reductions are named by `ReduceOp`.
"""

from __future__ import annotations

import enum
import os
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Final, Protocol

import numpy as np

default_pg_timeout: Final = timedelta(minutes=10)  # PyTorch's on GPUs
EAGER_POLLS: Final = 1.0  # seconds of waiting after which a rank stops asking all the time
NAP: Final = 1e-3  # seconds between questions from then on: a late rank may be compiling


class ReduceOp(enum.Enum):
    """Ways in which the values of the ranks become one."""

    SUM = "sum"
    AVG = "avg"
    PRODUCT = "product"
    MIN = "min"
    MAX = "max"
    BAND = "band"
    BOR = "bor"
    BXOR = "bxor"

    def __repr__(self) -> str:
        return f"ReduceOp.{self.name}"


setattr(ReduceOp, "RedOpType", ReduceOp)  # noqa: B010  # the type of `ReduceOp.SUM`, in annotations


class DistError(RuntimeError):
    """A collective failed."""


class DistBackendError(DistError):
    """The engine is missing, or refused a call."""


class DistTimeoutError(DistError):
    """Other ranks did not take part within the timeout."""


class Request(Protocol):
    """A collective under way."""

    def done(self) -> bool:
        """Make progress; True at the end. Raises what the engine says is wrong."""
        ...


class Engine(Protocol):
    """The ranks of one group. Ranks are numbered within it; arrays are C-contiguous."""

    rank: int
    size: int
    on_devices: bool  # memory of GPUs is taken as it is, as a DeviceArray

    def all_reduce(self, array: Any, op: ReduceOp) -> Request:
        """Reduce in place; every rank gets the result."""
        ...

    def reduce(self, array: Any, op: ReduceOp, root: int) -> Request:
        """Reduce into the root's array; the others keep theirs."""
        ...

    def broadcast(self, array: Any, root: int) -> Request: ...

    def all_gather(self, out: Any, array: Any) -> Request:
        """`out` holds the arrays of all ranks (of one length), in the order of ranks."""
        ...

    def gather(self, out: Any, array: Any, root: int) -> Request:
        """Gather for the root alone; `out` is None elsewhere."""
        ...

    def scatter(self, out: Any, array: Any, root: int) -> Request:
        """The root's array in equal parts, one for each rank."""
        ...

    def reduce_scatter(self, out: Any, array: Any, op: ReduceOp) -> Request:
        """Reduce, and keep of the result the part of this rank; parts are equal."""
        ...

    def all_to_all(
        self, out: Any, array: Any, received: Sequence[int], sent: Sequence[int]
    ) -> Request:
        """Part r of `array` goes to rank r, and comes from there into part r of `out`. `received`
        and `sent` are their lengths in elements; both are empty for parts of one length."""
        ...

    def send(self, array: Any, to: int, tag: int) -> Request: ...

    def receive(self, array: Any, source: int | None, tag: int) -> Any:
        """A request whose `source` is the sender's rank once it is done."""
        ...

    def barrier(self) -> Request:
        """A sum of one number (float32), as compiled code does it."""
        ...

    def split(self, ranks: Sequence[int]) -> Engine | None:
        """The engine of a subgroup, which all ranks of it make together; None outside of it."""
        ...

    def free(self) -> None: ...


def gathered(engine: Engine, data: Any, finish: Callable[[Request], object]) -> list[Any]:
    """The bytes (n,) uint8 of all ranks, of any lengths; `finish` waits for a request."""
    lengths = np.empty(engine.size, np.int64)
    finish(engine.all_gather(lengths, np.array([len(data)])))
    padded = np.zeros(int(lengths.max()), np.uint8)
    padded[: len(data)] = data
    rows = np.empty((engine.size, len(padded)), np.uint8)
    finish(engine.all_gather(rows, padded))
    return [row[:n] for row, n in zip(rows, lengths, strict=True)]


def wait(request: Request, timeout: timedelta, what: Callable[[], str]) -> None:
    """Poll a request until it is done. A rank that waits leaves its core to the others.

    Raises DistTimeoutError, which says `what()` was waited for."""
    start = time.monotonic()
    limit = timeout.total_seconds()
    while not request.done():
        waited = time.monotonic() - start
        if waited > limit:
            raise late(what(), timeout)
        if waited < EAGER_POLLS:
            os.sched_yield()
        else:
            time.sleep(NAP)


def late(what: str, timeout: timedelta) -> DistTimeoutError:
    """The error of a collective to which the others did not come."""
    return DistTimeoutError(
        f"{what} waited for {timeout.total_seconds():g} s: another rank has not come to it. It may "
        "have taken another branch, have failed, or be slower than the timeout of its process "
        "group allows (init_process_group(timeout=...))"
    )
