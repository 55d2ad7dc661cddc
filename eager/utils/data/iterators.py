"""One pass over a loader's batches, in one of three ways: in the program's process, in worker
processes, by threads. a loader -> batches

All draw the same numbers in the same order: a seed for the workers when the pass begins, whether
there are any or not, then what the sampler draws.
"""

from __future__ import annotations

import itertools
import weakref
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, Final

from eager.base.compat_warnings import warn
from eager.base.tracebacks import trim
from eager.device import places
from eager.utils.data.channel import Failure
from eager.utils.data.collate import pinned
from eager.utils.data.pool import Pool, Worker
from eager.utils.data.sampler import draw_seed

THREAD: Final = "thread"  # as `multiprocessing_context`


class BatchIterator:
    """Gives batches. `_next` gives one, or raises StopIteration."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader
        self._picks: Iterator[Any] = iter(loader.index_sampler)
        self._given = 0

    def __iter__(self) -> BatchIterator:
        return self

    def __len__(self) -> int:
        return len(self._loader.index_sampler)

    def __next__(self) -> Any:
        try:
            batch = self._next()
        except Exception as error:
            trim(error)
            raise
        self._given += 1
        told = self._loader._told_length
        if told is not None and self._given == told + 1:
            warn(
                f"the dataset has said that its length is {told}, and batch {told + 1} came: each "
                "worker reads a whole stream unless its __iter__ asks get_worker_info() for "
                "its part",
                UserWarning,
            )
        return pinned(batch) if self._loader.pin_memory and places.count() else batch

    def _next(self) -> Any:
        raise NotImplementedError


class InProcess(BatchIterator):
    """Without workers."""

    def __init__(self, loader: Any) -> None:
        super().__init__(loader)
        draw_seed(loader.generator)
        self._fetch = loader._reading.begin()

    def _next(self) -> Any:
        return self._fetch(next(self._picks))


class ByThreads(InProcess):
    """Samples with indices are read ahead by threads, in order: they share the dataset, and the
    generators."""

    def __init__(self, loader: Any) -> None:
        super().__init__(loader)
        self._waiting: deque[Future[Any]] = deque()
        init, numbers = loader.worker_init_fn, itertools.count()

        def begin() -> None:
            if init is not None:
                init(next(numbers))

        self._pool = ThreadPoolExecutor(loader.num_workers, "DataLoader worker", begin)
        weakref.finalize(self, self._pool.shutdown, wait=False, cancel_futures=True)
        for _ in range(loader.num_workers * loader.prefetch_factor):
            self._ask()

    def _ask(self) -> None:
        for pick in itertools.islice(self._picks, 1):
            self._waiting.append(self._pool.submit(self._fetch, pick))

    def _next(self) -> Any:
        if not self._waiting:
            self._pool.shutdown()
            raise StopIteration
        first = self._waiting.popleft()
        if wait([first], self._loader.timeout or None).not_done:
            raise RuntimeError(f"DataLoader timed out after {self._loader.timeout} seconds")
        self._ask()
        return first.result()


class ByProcesses(BatchIterator):
    """With worker processes, which are asked in turn. Answers have a label: the pass, and the
    number of the batch in it."""

    def __init__(self, loader: Any) -> None:
        super().__init__(loader)
        self._pool = _workers(self, loader)
        self._pass = self._pool.passes
        self._asked = 0
        self._due: dict[int, Worker] = {}  # who was asked for batches that were not given yet
        self._ready: dict[int, Any] = {}
        self._active = [*self._pool.workers]  # whose streams have not ended
        self._turns = itertools.cycle(self._pool.workers)
        for _ in range(self._loader.prefetch_factor * len(self._pool.workers)):
            self._ask()

    def _ask(self) -> None:
        """Ask for the next batch: the next worker, or if order does not matter, the next one that
        has room."""
        for pick in itertools.islice(self._picks, 1 if self._active else 0):
            most = self._loader.prefetch_factor * len(self._pool.workers) // len(self._active)
            for worker in itertools.islice(self._turns, len(self._pool.workers)):
                room = self._loader.in_order or [*self._due.values()].count(worker) < most
                if worker in self._active and room:
                    self._due[self._asked] = worker
                    worker.ask((self._pass, self._asked), pick)
                    self._asked += 1
                    return

    def _next(self) -> Any:
        if self._due and (self._pool.closed or self._pass != self._pool.passes):
            raise RuntimeError("DataLoader: the workers of this iterator have ended, or begun anew")
        try:
            while self._due:
                first = self._due if self._loader.in_order else self._ready
                number = next(iter(first), None)
                if number in self._ready:
                    return self._give(number)
                for answer in self._pool.answers(self._loader.timeout):
                    self._take(*answer)
        except BaseException as error:
            if not isinstance(error, Exception):  # Ctrl-C: a message may be half read
                self._pool.close(0)
            raise
        if not self._loader.persistent_workers:
            self._pool.close()
        raise StopIteration

    def _take(self, worker: Worker, label: tuple[tuple[int, int], bool], value: Any) -> None:
        (pass_, number), ended = label
        if pass_ != self._pass:
            return
        if not ended:
            self._ready[number] = value
            return
        self._active.remove(worker)
        lost = [n for n, w in self._due.items() if w is worker and n not in self._ready]
        for number in lost:
            del self._due[number]
        for _ in lost:
            self._ask()

    def _give(self, number: int) -> Any:
        del self._due[number]
        value = self._ready.pop(number)
        self._ask()
        if isinstance(value, Failure):
            value.reraise()
        return value


def _workers(iterator: ByProcesses, loader: Any) -> Pool:
    """Those that the loader keeps, or new ones, which end with the loader or the iterator."""
    if loader._pool is not None and not loader._pool.closed:
        loader._pool.again()
        return loader._pool
    import multiprocessing  # slow to import

    context = loader.multiprocessing_context or multiprocessing.get_context()
    seed = draw_seed(loader.generator).item()
    pool = Pool(context, loader.num_workers, loader._reading, loader.worker_init_fn, seed)
    if loader.persistent_workers:
        loader._pool = pool
    weakref.finalize(loader if loader.persistent_workers else iterator, pool.close)
    return pool


def iterator_of(loader: Any) -> BatchIterator:
    """A new pass of a loader."""
    if not loader.num_workers:
        return InProcess(loader)
    if loader.multiprocessing_context == THREAD:
        return InProcess(loader) if loader._reading.streams else ByThreads(loader)
    return ByProcesses(loader)
