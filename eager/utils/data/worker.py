"""In a worker process: picks -> batches, until the loader closes the channel.

A worker computes on one thread, and draws numbers of its own: Python's `random`, NumPy's global
generator and the default generator are seeded from the loader's seed and the worker's number.
Ctrl-C is the main process's: what it does about it decides when workers end.
"""

from __future__ import annotations

import contextlib
import random
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NoReturn

import numpy as np

from eager.base.dataclass import dataclass
from eager.base.process.threads import compute_alone
from eager.random import default_generators
from eager.utils.data.channel import Channel, Failure
from eager.utils.data.reading import Reading

if TYPE_CHECKING:
    from multiprocessing.connection import Connection


@dataclass(frozen=True)
class WorkerInfo:
    """Result of `get_worker_info` in a worker: its number `id` of `num_workers`, its seed, and its
    copy of the dataset."""

    id: int
    num_workers: int
    seed: int
    dataset: Any


AGAIN: Final = "again"  # the label of a message: begin another pass
_worker: Final[list[WorkerInfo]] = []  # that this process is


def get_worker_info() -> WorkerInfo | None:
    """The loader's worker process that this is; None in the main process, and its threads."""
    return _worker[0] if _worker else None


def work(
    connection: Connection, reading: Reading, init: Callable[[int], Any] | None, info: WorkerInfo
) -> None:
    """The life of a worker process. `init` is called first, with its number."""
    signal.signal(signal.SIGINT, _leave_it_to_the_main_process)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    compute_alone()
    _worker[:] = [info]
    _seed(info.seed, info.id)
    channel = Channel(connection)
    with contextlib.suppress(EOFError, ConnectionError):  # the loader closed it, or died
        _serve(channel, reading, init, info)


def _leave_it_to_the_main_process(*_: Any) -> None:
    """A handler, since processes that a worker starts would inherit it if it were ignored."""


def _serve(
    channel: Channel, reading: Reading, init: Callable[[int], Any] | None, info: WorkerInfo
) -> None:
    where = f"DataLoader worker process {info.id}"

    def begin() -> Callable[[Any], Any]:
        try:
            if not started and init is not None:
                init(info.id)
            started.append(True)
            return reading.begin()
        except Exception as error:  # noqa: BLE001 - the program's
            return _failing(error)

    def answer(pick: Any) -> tuple[bool, Any]:
        """Pair: True if the stream has ended, and the batch."""
        if isinstance(pick, Failure):
            return False, pick
        try:
            return False, fetch(pick)
        except Exception as error:  # noqa: BLE001 - the program's
            if reading.streams and isinstance(error, StopIteration):
                return True, None
            return False, Failure(error, where)

    started: list[bool] = []
    fetch, ended = begin(), False
    while True:
        label, pick = channel.receive()
        if label == AGAIN:
            fetch, ended = begin(), False
        elif not ended:
            ended, batch = answer(pick)
            try:
                channel.send((label, ended), batch)
            except ConnectionError:
                raise
            except Exception as error:  # noqa: BLE001 - what pickling raises, or no memory
                channel.send((label, ended), Failure(error, where))


def _failing(error: Exception) -> Callable[[Any], NoReturn]:
    def fail(pick: Any) -> NoReturn:
        raise error

    return fail


def _seed(seed: int, number: int) -> None:
    random.seed(seed)
    for generator in default_generators.values():
        generator.manual_seed(seed)
    base = seed - number
    words = np.random.SeedSequence([number, base & 0xFFFFFFFF, base >> 32, 0])
    np.random.seed(words.generate_state(4))
