"""Between kernels and the host: conditions that a kernel finds broken. slots on the device -> an
exception at the next wait.

A kernel that meets an index out of bounds cannot raise: it sets its slot. When the host next waits
for the device it looks at the slots that were given out since, and raises with the op and the
user's line. (What ran after the fault has run.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

import numpy as np

from eager.device.protocol import Region

SLOTS: Final = 1024  # of four bytes: one page. More at a time make the host wait


class Checking(Protocol):
    """A program that has slots of its own."""

    def verdict(self) -> Exception | None:
        """Wait for its runs; what a check of them found. The next run begins anew."""


Fail = Callable[[str, str], Exception]


class Checks:
    """The slots of one device. `fail(text, place)` makes the exception of a broken check."""

    def __init__(self, pool: Any) -> None:
        self.pool = pool
        self.buffer: Any = None
        self.given: list[tuple[int, tuple[str, ...], str, Fail]] = []
        self.used = 0
        self.ran: dict[Checking, None] = {}  # since the host last waited
        self.sources: set[Checks] = set()  # of devices that values came from since then

    def slots(self, texts: Sequence[str], place: str, fail: Fail) -> int:
        """The address of a slot (int32, 0) for each text; `place` is the user's file:line."""
        if self.used + len(texts) > SLOTS:
            self.settle()
        device = self.pool.device
        if self.buffer is None:
            self.buffer = self.pool.empty(4 * SLOTS, device.main)
            self._clear()
        first, self.used = self.used, self.used + len(texts)
        self.given.append((first, tuple(texts), place, fail))
        return int(self.buffer.address + 4 * first)

    def settle(self) -> None:
        """Wait for the device and raise what its kernels found, and those of the devices that
        values came from; the slots are free again."""
        while self.sources:
            self.sources.pop().settle()
        while self.ran:
            (program,) = (next(iter(self.ran)),)
            del self.ran[program]
            error = program.verdict()
            if error is not None:
                raise error
        if not self.given:
            return
        device, given, used = self.pool.device, self.given, self.used
        self.given, self.used = [], 0
        device.synchronize()
        found = np.zeros(used, np.int32)
        device.download(found, Region(self.buffer.address, found.nbytes), device.main)
        if not found.any():
            return
        self._clear()
        for first, texts, place, fail in given:
            for i, text in enumerate(texts):
                if found[first + i]:
                    raise fail(text, place)

    def _clear(self) -> None:
        device = self.pool.device
        device.clear(Region(self.buffer.address, 4 * SLOTS, writes=True, reads=False), device.main)
        device.synchronize()
