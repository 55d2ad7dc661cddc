"""Beside the stages: what is being made while the C++ compiler runs. -> `result()`, which waits.

Compilers are processes of their own: who has begun them does other work and waits as late as it
can. Leaving the context ends what still runs, whatever the reason (Ctrl-C, a refusal).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")
U = TypeVar("U")


def _nothing() -> None:
    pass


class Pending(Generic[T]):
    """A value that `finish` gives, once; `close` ends what it waits for, and may come twice."""

    __slots__ = ("_finish", "close", "waits")

    def __init__(
        self, finish: Callable[[], T], close: Callable[[], None] = _nothing, *, waits: bool = True
    ) -> None:
        self._finish = finish
        self.close = close
        self.waits = waits  # whether there is time for other work

    @staticmethod
    def of(value: U) -> Pending[U]:
        """A result that is there already."""
        return Pending(lambda: value, waits=False)

    def then(self, step: Callable[[T], U]) -> Pending[U]:
        """The result of `step` on this one, when it is there."""
        return Pending(lambda: step(self.result()), self.close, waits=self.waits)

    def result(self) -> T:
        """Wait for it, once. Raises what `finish` raises."""
        with self:
            return self._finish()

    def __enter__(self) -> Pending[T]:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()
