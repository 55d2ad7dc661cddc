"""The worker processes of a loader, from the outside. picks -> batches, or one error that names the
worker that died.

Each worker has a channel of its own: a worker that is killed can hold no lock that others wait for,
and its end of the channel closes by itself, as the loader's does for workers.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Final, NoReturn

from eager.utils.data.channel import Channel
from eager.utils.data.reading import Reading
from eager.utils.data.worker import AGAIN, WorkerInfo, work

LOOK: Final = 1.0  # seconds after which it is looked whether all workers live
GRACE: Final = 5.0  # seconds in which a worker may finish its batch


class Worker:
    """One process, its channel, and what it is still to be asked."""

    def __init__(self, number: int, process: Any, channel: Channel) -> None:
        self.number = number
        self.process = process
        self.channel = channel
        self.unsent: deque[tuple[Any, Any]] = deque()

    def ask(self, label: Any, pick: Any = None) -> None:
        self.unsent.append((label, pick))
        self.flush()

    def flush(self) -> None:
        """Send what the worker takes now: waiting for it, while it waits for us, would last for
        ever. What is left goes when it answers. That it has died is seen where it should answer."""
        with contextlib.suppress(ConnectionError):
            while self.unsent and self.channel.takes():
                self.channel.send(*self.unsent.popleft())

    def fate(self) -> str:
        """Message about how the worker ended."""
        self.process.join(LOOK)
        code = self.process.exitcode
        who = f"DataLoader worker {self.number} (pid {self.process.pid})"
        if code is None or code >= 0:
            return f"{who} exited unexpectedly, with exit code {code}"
        known = {s.value: s.name for s in signal.Signals}
        why = ": the system does that when memory runs out" if code == -signal.SIGKILL else ""
        return f"{who} was killed by signal {known.get(-code, -code)}{why}"


class Pool:
    """Workers, until `close`. In a process that is forked later they are not there."""

    def __init__(
        self,
        context: Any,
        count: int,
        reading: Reading,
        init: Callable[[int], Any] | None,
        seed: int,
    ) -> None:
        self.workers: list[Worker] = []
        self.closed = False
        self.passes = 0
        self._process = os.getpid()
        _pools.add(self)
        try:
            for number in range(count):
                info = WorkerInfo(number, count, seed + number, reading.dataset)
                self._start(context, reading, init, info)
        except BaseException:
            self.close(0)
            raise

    def _start(
        self, context: Any, reading: Reading, init: Callable[[int], Any] | None, info: WorkerInfo
    ) -> None:
        ours, theirs = context.Pipe()
        name = f"DataLoader worker {info.id}"
        process = context.Process(
            target=work, args=(theirs, reading, init, info), name=name, daemon=True
        )
        self.workers.append(Worker(info.id, process, Channel(ours)))  # a fork leaves all of these
        held = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # the worker's, for good
        try:
            with theirs, warnings.catch_warnings():
                # A worker resets what threads of ours may have left.
                warnings.filterwarnings("ignore", ".*use of fork", DeprecationWarning)
                process.start()
        except BaseException:
            self.workers.pop().channel.close()
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, held)

    def again(self) -> None:
        """Begin another pass; what was asked in the last one is of no interest any more."""
        self.passes += 1
        for worker in self.workers:
            worker.unsent.clear()
            worker.ask(AGAIN)

    def answers(self, seconds: float) -> Iterator[tuple[Worker, Any, Any]]:
        """Answers of workers: worker, label, value; waits for the first. RuntimeError after so many
        seconds, unless they are 0, and when a worker has died."""
        from multiprocessing.connection import wait  # slow to import

        end = time.monotonic() + (seconds or float("inf"))
        by_file: dict[Any, Worker] = {worker.channel.fileno(): worker for worker in self.workers}
        while not (ready := wait(by_file, max(0.0, min(LOOK, end - time.monotonic())))):
            if time.monotonic() >= end:
                raise RuntimeError(f"DataLoader timed out after {seconds} seconds")
            for worker in self.workers:
                if not worker.process.is_alive():
                    self._end_with(worker)
        for worker in (by_file[file] for file in ready):
            try:
                label, value = worker.channel.receive()
                worker.flush()
            except (EOFError, ConnectionError):
                self._end_with(worker)
            yield worker, label, value

    def _end_with(self, worker: Worker) -> NoReturn:
        fate = worker.fate()
        self.close(0)
        raise RuntimeError(fate) from None

    def close(self, grace: float = GRACE) -> None:
        """End the workers: each may finish its batch in so many seconds."""
        if self.closed or os.getpid() != self._process:
            return
        self.closed = True
        for worker in self.workers:
            worker.channel.close()
        try:
            end = time.monotonic() + grace
            for worker in self.workers:
                worker.process.join(max(0.0, end - time.monotonic()))
        finally:
            for stop in ("terminate", "kill"):
                left = [w.process for w in self.workers if w.process.is_alive()]
                for process in left:
                    getattr(process, stop)()
                for process in left:
                    process.join(LOOK)
            for worker in self.workers:
                with contextlib.suppress(ValueError):  # it cannot be killed
                    worker.process.close()

    def leave(self) -> None:
        """Forget the workers in a forked process: they are its parent's."""
        self.closed = True
        for worker in self.workers:
            worker.channel.close()


def _in_child() -> None:
    for pool in tuple(_pools):
        pool.leave()


_pools: Final[weakref.WeakSet[Pool]] = weakref.WeakSet()
os.register_at_fork(after_in_child=_in_child)
