"""Under the devices: what was queued, and how much memory is taken. -> a table of counts."""

from __future__ import annotations

from dataclasses import field
from typing import Final

from eager.base.dataclass import dataclass

COUNTED: Final = (
    "launches", "recordings", "replays", "copies_to_device", "copies_to_host", "copies_on_device",
    "copies_to_peers", "bytes_to_device", "bytes_to_host", "bytes_on_device", "bytes_to_peers",
    "synchronizations", "allocations",
)  # fmt: skip


@dataclass(slots=True)
class Counters:
    """Counters of work since the last reset; `peak` is the highest number of bytes allocated."""

    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTED, 0))
    allocated: int = 0
    peak: int = 0

    def add(self, name: str, count: int = 1) -> None:
        self.counts[name] += count

    def copy(self, direction: str, nbytes: int) -> None:
        self.counts[f"copies_{direction}"] += 1
        self.counts[f"bytes_{direction}"] += nbytes

    def table(self) -> dict[str, float]:
        memory = {"bytes_allocated": self.allocated, "peak_bytes_allocated": self.peak}
        return {**self.counts, **memory}
