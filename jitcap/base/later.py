"""Beside the pipeline: what is compiled while the program goes on. a function -> a task, and in the
end its result.

Compiling asks nothing of the program: its settings are those of the call that it was begun for, and
what it has to announce is said where the result is taken, at a line of the user's.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

from codegen.runtime import beside
from eager.base.config import held, snapshot
from eager.base.process.locks import lock
from jitcap.base.diagnostics import announce, put_off

BACKGROUND: Final = "background"  # the mode of `jit`
T = TypeVar("T")


def is_alone() -> bool:
    """True unless there are other ranks: all of them are to change to compiled code at one call."""
    ranks = sys.modules.get("eager.distributed")
    return ranks is None or not ranks.is_initialized() or ranks.get_world_size() == 1


class Later(Generic[T]):
    """A value that is made beside the program. `tasks`: where others see that it is not there."""

    def __init__(self, work: Callable[[], T], tasks: list[beside.Task[Any]]) -> None:
        settings = snapshot()

        def quietly() -> tuple[T, list[tuple[Any, str]]]:
            with held(settings), put_off() as texts:
                return work(), texts

        self._work, self._tasks = work, tasks
        self.task = beside.begin(quietly)
        tasks.append(self.task)

    def take(self) -> T:
        """The value, once, when the task is over or lost: then it is made now, and so it is where
        it asks for deep calls, of which the program's limit allows few. Raises what making it
        raises."""
        self.leave()
        if self.task.is_lost:
            return self._work()
        try:
            value, texts = self.task.result()
        except RecursionError:
            return self._work()
        for place, text in texts:
            announce(place, text)
        return value

    def leave(self) -> None:
        """Nobody waits for it any more."""
        self._tasks.remove(self.task)


class Meanwhile(Generic[T]):
    """A function that is made beside the program: `take` makes it of the value of `work`. Until
    then `run` does the same. `tasks` as above."""

    def __init__(
        self,
        work: Callable[[], T],
        take: Callable[[T], Callable[..., Any]],
        run: Callable[..., Any],
        tasks: list[beside.Task[Any]],
    ) -> None:
        self._take, self._run = take, run
        self._lock = lock()
        self._later: Later[T] | None = Later(work, tasks)

    def __call__(self, *args: Any) -> Any:
        made = self._later
        if made is not None and (made.task.is_over or made.task.is_lost):
            with self._lock:
                if self._later is not None:
                    self._later = None
                    self._run = self._take(made.take())
        return self._run(*args)
