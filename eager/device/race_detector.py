"""Under the simulated device: who may run before whom. commands and their regions -> a race, or
none.

Every stream and the host has a vector clock: how many commands of each stream are sure to have run
before its next one. A command takes over the host's clock (it is queued after what the host waited
for), an event carries a stream's clock to who waits for it. Two accesses to the same bytes, one of
them a write, must be ordered by these clocks; that they ran in some order is not enough.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from eager.base.dataclass import dataclass
from eager.device.protocol import RaceError, Region

Clock = dict[str, int]  # by the name of the stream


@dataclass(frozen=True, slots=True)
class Access:
    """A command that was queued: the `stamp`-th of its stream, reaching [low, high) of a block."""

    low: int
    high: int
    writes: bool
    stream: str
    stamp: int
    what: str

    def covers(self, other: Access) -> bool:
        return self.low <= other.low and other.high <= self.high


class Order:
    """The clocks, and for each block of memory the accesses that a later one may race with."""

    def __init__(self) -> None:
        self.host: Clock = {}
        self.clocks: dict[str, Clock] = {}
        self.accesses: dict[int, list[Access]] = {}

    def command(self, stream: str, what: str, reached: Sequence[tuple[int, Region]]) -> int:
        """Queue a command that reaches these regions of blocks: its stamp. Raises RaceError naming
        it and the other command, and queues nothing then."""
        clock = self.clocks.setdefault(stream, {})
        join(clock, self.host)
        stamp = clock.get(stream, 0) + 1
        found = [
            (block, Access(r.address, r.address + r.nbytes, r.writes, stream, stamp, what))
            for block, r in reached
            if r.nbytes
        ]
        for block, access in found:
            for past in self.accesses.get(block, ()):
                if _clash(access, past) and clock.get(past.stream, 0) < past.stamp:
                    raise RaceError(_told(access, past))
        clock[stream] = stamp
        for block, access in found:
            kept = [
                past
                for past in self.accesses.get(block, ())
                if not (access.covers(past) and _replaces(access, past))
            ]
            self.accesses[block] = [*kept, access]
        return stamp

    def event(self, stream: str) -> Clock:
        """Clock of an event: what is sure to have run where it is recorded."""
        clock = dict(self.host)
        join(clock, self.clocks.get(stream, {}))
        return clock

    def wait(self, stream: str, event: Mapping[str, int]) -> None:
        """Make later work of the stream run after an event."""
        join(self.clocks.setdefault(stream, {}), event)

    def wait_on_host(self, event: Mapping[str, int]) -> None:
        join(self.host, event)

    def forget(self, block: int) -> None:
        """The block is no more."""
        self.accesses.pop(block, None)


def join(clock: Clock, other: Mapping[str, int]) -> None:
    for stream, stamp in other.items():
        if stamp > clock.get(stream, 0):
            clock[stream] = stamp


def _clash(a: Access, b: Access) -> bool:
    return (a.writes or b.writes) and a.low < b.high and b.low < a.high


def _replaces(access: Access, past: Access) -> bool:
    """True if an access that races with the past one races with this one, too, which is ordered
    after it: a write was checked against it, a read of the same stream comes after it."""
    return access.writes or (not past.writes and past.stream == access.stream)


def _told(access: Access, past: Access) -> str:
    does = "writes" if access.writes else "reads"
    did = "writes" if past.writes else "reads"
    count = min(access.high, past.high) - max(access.low, past.low)
    return (
        f"race: {access.what} on stream {access.stream} {does} {count} bytes that {past.what} on "
        f"stream {past.stream} {did}, and nothing orders the two. Let one stream wait for the "
        "other (stream.wait_stream(other), or an event), or synchronize"
    )
