"""`python -m benchmarks.loader`: how much faster workers make a transform that is bound by Python.

Prints the time of a pass without workers, with worker processes and with threads, and how many
times faster than the first each is. A second table is about large batches that cost nothing to
make: what is left is the way of the bytes.
"""

import argparse
import resource
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from eager.utils.data import DataLoader, Dataset

Options = dict[str, Any]


class Letters(Dataset[Any]):
    """A transform in plain Python, of a few milliseconds."""

    def __len__(self) -> int:
        return 256

    def __getitem__(self, index: int) -> Any:
        counts = [0.0] * 64
        for step in range(60_000):
            counts[(index * step) % 64] += step * 0.5
        return np.array(counts, np.float32)


class Large(Dataset[Any]):
    """10 MB that are there already."""

    image = np.ones(10_000_000 // 4, np.float32)

    def __len__(self) -> int:
        return 60

    def __getitem__(self, index: int) -> Any:
        return self.image


@dataclass(frozen=True)
class Pass:
    """Seconds from before workers start until they have ended, and processor time: of this process
    and of its workers."""

    whole: float
    own: float
    workers: float


def time_pass(loader: DataLoader) -> Pass:
    start, own, workers = time.perf_counter(), time.process_time(), of_children()
    for _ in loader:
        pass
    whole, own = time.perf_counter() - start, time.process_time() - own
    return Pass(whole, own, of_children() - workers)


def of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def table(title: str, make: Callable[..., DataLoader], workers: int, rounds: int) -> None:
    """The best of some rounds: by the clock, and by processor time, which says what processors that
    nobody else uses would give if nothing of this process went on beside its workers."""
    ways: dict[str, Options] = {
        "no workers": {},
        f"{workers} processes": {"num_workers": workers},
        f"{workers} threads": {"num_workers": workers, "multiprocessing_context": "thread"},
    }
    passes: dict[str, list[Pass]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, options in ways.items():
            passes[name].append(time_pass(make(**options)))
    first, alone = (min(key(p) for p in passes["no workers"]) for key in (whole_of, own_of))
    print(title)
    for name, made in passes.items():
        whole, own = min(map(whole_of, made)), min(map(own_of, made))
        each = min(p.workers for p in made) / workers
        print(
            f"  {name:14} {whole * 1e3:8.0f} ms, {first / whole:5.2f} x; processor time: here "
            f"{own * 1e3:6.0f} ms, each worker {each * 1e3:6.0f} ms: {alone / (own + each):5.2f} x"
        )


def whole_of(made: Pass) -> float:
    return made.whole


def own_of(made: Pass) -> float:
    return made.own


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.loader", description=__doc__)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    python = lambda **options: DataLoader(Letters(), batch_size=8, **options)
    table("a transform in Python, 32 batches of 8", python, given.workers, given.rounds)
    large = lambda **options: DataLoader(Large(), batch_size=None, **options)
    table("60 arrays of 10 MB", large, given.workers, given.rounds)


if __name__ == "__main__":
    main()
