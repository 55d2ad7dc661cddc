"""Around capture: one attempt after the other, until one stands. assumptions -> a result.

    for assumed in (attempts := Attempts(assumed)):
        with attempts.one():
            attempts.made(result, *trials)
    return attempts.result

A refusal that teaches something begins again, assuming that, too. Behind the first result come the
trials: what may be assumed on top of it, where that can be captured as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

from jitcap.base.assumed import Assumed
from jitcap.base.breaks import Again, Break

T = TypeVar("T")


class Attempts(Generic[T]):
    """See the module. `result` is that of the last attempt which could be captured."""

    result: T

    def __init__(self, assumed: Assumed) -> None:
        self._begin(assumed)

    def _begin(self, needed: Assumed) -> None:
        self._needed = self._held = self._now = needed  # by all; by `result`; by this attempt
        self._trials: list[Assumed] = []
        self._has_result = self._is_over = False

    def __iter__(self) -> Iterator[Assumed]:
        while not self._is_over:
            yield self._now

    @contextmanager
    def one(self) -> Iterator[None]:
        """An attempt. Raises its refusal, unless there is a result, or it teaches something."""
        try:
            yield
        except (Break, Again) as refusal:
            if self._has_result and isinstance(refusal, Break):
                self._next()
            elif refusal.lesson is None or self._needed.includes(refusal.lesson):
                raise
            else:
                self._begin(self._needed | refusal.lesson)

    def made(self, result: T, *trials: Assumed) -> None:
        """The attempt's result. `trials` are those of the first."""
        if not self._has_result:
            self._trials, self._has_result = [*trials], True
        self.result, self._held = result, self._now
        self._next()

    def _next(self) -> None:
        """Go on to the next trial."""
        self._trials = [more for more in self._trials if not self._held.includes(more)]
        self._is_over = not self._trials
        if self._trials:
            self._now = self._held | self._trials.pop(0)
