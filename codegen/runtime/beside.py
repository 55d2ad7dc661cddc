"""Beside the stages: work that a thread of its own does while the program goes on. a function -> a
Task, which has the result later.

There is one such thread, one task after the other, as long as there are any. The program is not to
notice it: it shows no progress, and pauses no garbage collection, which is the program's, too. A
task ends between two stages when nobody wants it any more, or the process ends. In a forked process
there is no such thread, and what it had not finished is lost.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

from eager.base.process.locks import lock

MOMENT: Final = 0.3  # seconds that the end of a process waits for the end of a stage
T = TypeVar("T")


class Stopped(BaseException):
    """The task is not wanted any more. It is no Exception, for which there is another way."""


class _Here(threading.local):
    task: Task[Any] | None = None


_here: Final = _Here()
_lock: Final = lock()
_waiting: Final[deque[Task[Any]]] = deque()
_threads: Final[list[threading.Thread]] = []  # one, while there is work
_ending: Final = threading.Event()


class Task(Generic[T]):
    """Work that was handed over, and what comes of it."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._work: Callable[[], T] | None = work
        self._over = threading.Event()
        self._value: list[T] = []
        self._fault: BaseException | None = None
        self._process = os.getpid()
        self._dropped = False

    @property
    def is_over(self) -> bool:
        """True if there is a result, or the exception in its place."""
        return self._over.is_set() and not self.is_lost

    @property
    def is_lost(self) -> bool:
        """True if it was stopped, or belongs to the process that forked this one."""
        over = self._over.is_set()
        return isinstance(self._fault, Stopped) if over else self._process != os.getpid()

    def wait(self) -> None:
        """Wait until it is over, or lost."""
        if not self._over.is_set() and not self.is_lost:
            self._over.wait()

    def drop(self) -> None:
        """Stop it, soon: nobody wants it any more."""
        self._dropped = True

    def result(self) -> T:
        """Result of the work, when it `is_over`. Raises what it raised."""
        if self._fault is not None:
            raise self._fault
        return self._value[0]

    def run(self) -> None:
        """Do the work, in this thread."""
        work, self._work = self._work, None
        assert work is not None
        _here.task = self
        try:
            check()
            self._value.append(work())
        except BaseException as fault:  # noqa: BLE001 - raised by `result`
            self._fault = fault
        finally:
            _here.task = None
            self._over.set()


def begin(work: Callable[[], T]) -> Task[T]:
    """Have `work` done. Where no thread can be started it is done at once."""
    task = Task(work)
    with _lock:
        _waiting.append(task)
        if not _threads:
            thread = threading.Thread(target=_work, name="jitcap-background", daemon=True)
            try:
                thread.start()
            except RuntimeError:
                _waiting.remove(task)
            else:
                _threads.append(thread)
                return task
        else:
            return task
    task.run()
    return task


def is_here() -> bool:
    """True in the thread of the tasks."""
    return _here.task is not None


def check() -> None:
    """Raises Stopped in a task that is not wanted any more."""
    task = _here.task
    if task is not None and (task._dropped or _ending.is_set()):
        raise Stopped


def _work() -> None:
    while True:
        with _lock:
            if not _waiting:
                _threads.clear()
                return
            task = _waiting.popleft()
        task.run()
        del task  # what it holds may go while the next one runs


def _at_exit() -> None:
    """Stop at the next stage, which leaves no file half written and no folder behind."""
    _ending.set()
    for thread in tuple(_threads):
        thread.join(MOMENT)


def _in_child() -> None:
    _waiting.clear()
    _threads.clear()
    _here.task = None


atexit.register(_at_exit)
os.register_at_fork(after_in_child=_in_child)
