"""Timing: runners -> seconds per call, in interleaved rounds.

The machine may be shared, so absolute figures drift; competitors take turns within each round,
and ratios come from one run. Where others keep it busy, the time that the processors spent
(`time.process_time`) says more, on one thread.
"""

import gc
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

MIN_BATCH_SECONDS = 1e-3  # calls shorter than this are timed several at a time


@dataclass
class Timing:
    """Seconds per call of one competitor on one workload."""

    samples: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        return statistics.median(self.samples)

    @property
    def minimum(self) -> float:
        return min(self.samples)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"median": self.median, "minimum": self.minimum}


Clock = Callable[[], float]


def time_batch(call: Callable[[], Any], count: int, clock: Clock = time.perf_counter) -> float:
    """Mean seconds per call over `count` calls in a row."""
    start = clock()
    for _ in range(count):
        call()
    return (clock() - start) / count


def calibrate(call: Callable[[], Any], clock: Clock = time.perf_counter) -> int:
    """How many calls make a batch long enough to time."""
    call()
    seconds = time_batch(call, 1, clock)
    if seconds >= MIN_BATCH_SECONDS:
        return 1
    seconds = time_batch(call, 10, clock)
    return max(1, round(MIN_BATCH_SECONDS / seconds))


def interleave(
    calls: dict[str, Callable[[], Any]],
    rounds: int,
    seconds: float,
    clock: Clock = time.perf_counter,
) -> dict[str, Timing]:
    """Time every call in turn, `rounds` times, for about `seconds` each in all.

    In each turn the first call is not counted: it wakes this competitor's threads and lets those
    of the one before go to sleep.
    """
    batches = {name: calibrate(call, clock) for name, call in calls.items()}
    timings = {name: Timing() for name in calls}
    gc.collect()
    for _ in range(rounds):
        for name, call in calls.items():
            call()
            deadline = clock() + seconds / rounds
            while True:
                timings[name].samples.append(time_batch(call, batches[name], clock))
                if clock() >= deadline:
                    break
    return timings
