"""A simulated GPU inside the process: checked memory and ordering, a modelled clock. commands ->
what a device would do with them, on memory that host code cannot reach.

Commands are queued and run as late as they may: at a wait, each stream in its order, other streams
only as far as events ask. So a result that is read too early is not there, and a host array that
changes under a copy is noticed. `order` checks every command against all that it may race with,
whatever the actual order was. A kernel comes from its provider and is run by `Kernel.simulate`.
"""

from __future__ import annotations

import bisect
import collections
import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Final

import numpy as np

from eager.base.compat_warnings import user_line
from eager.base.dataclass import dataclass
from eager.base.process.locks import rlock
from eager.base.recorder import Span, UserLine, Work, recorder
from eager.device.cost_model import H200, H200_PROPERTIES, Model
from eager.device.counters import Counters
from eager.device.pinned import array_over
from eager.device.protocol import (
    Array,
    DeviceFailure,
    Grid,
    Kernel,
    OutOfMemoryError,
    Properties,
    RaceError,
    Region,
)
from eager.device.race_detector import Clock, Order

FIRST_ADDRESS: Final = 0x0A00_0000_0000  # no memory of a process lies there
APART: Final = 1 << 40  # between the memories of two devices
GAP: Final = 1 << 20  # between blocks, so that what leaves one is noticed
LONGEST_QUEUE: Final = 4096  # commands, which hold their arguments: before there are more they run


@dataclass(slots=True)
class _Command:
    """`run` does it; `waits` is the event to come first, `marks` the one that it completes."""

    what: str
    run: Callable[[], None] | None = None
    kernel: Kernel | None = None
    waits: SimEvent | None = None
    marks: SimEvent | None = None


class _Together(ExitStack):
    """Contexts in which kernels are simulated, one for each provider."""

    def __init__(self) -> None:
        super().__init__()
        self._entered: set[type] = set()

    def of(self, kernel: Kernel) -> None:
        if type(kernel) not in self._entered:
            self._entered.add(type(kernel))
            self.enter_context(kernel.together())


@dataclass(slots=True)
class _Step:
    """A recorded command: `queue` puts it on a stream."""

    queue: Callable[[SimStream], None]


class Machine:
    """State that the simulated devices of a process share: the host with its clock, and the order
    of accesses. One lock: commands are queued and run by one thread at a time."""

    def __init__(self) -> None:
        self.order = Order()
        self.time = 0.0  # the host's, by the model
        self.lock = rlock()

    def drain(self, stream: SimStream, until: SimEvent | None = None) -> None:
        """Run what is queued on a stream, or that up to an event; of other streams what it waits
        for."""
        with _Together() as scopes:
            self._run(stream, until, scopes)

    def _run(self, stream: SimStream, until: SimEvent | None, scopes: _Together) -> None:
        while stream.queue and (until is None or until.pending):
            command = stream.queue[0]
            if command.waits is not None and command.waits.pending:
                assert command.waits.stream is not None
                self._run(command.waits.stream, command.waits, scopes)
            stream.queue.popleft()
            if command.marks is not None:
                command.marks.pending -= 1
            if command.kernel is not None:
                scopes.of(command.kernel)
            if command.run is not None:
                try:
                    command.run()
                except Exception as error:
                    raise _failed(stream.device, command, error) from error


def _failed(device: SimDevice, command: _Command, error: Exception) -> Exception:
    """The device takes no more work: what was queued after the fault is lost."""
    own = isinstance(error, RaceError)
    device.failure = error if own else DeviceFailure(f"{command.what} failed: {error}")
    for stream in device._streams:
        for left in stream.queue:
            if left.marks is not None:
                left.marks.pending -= 1
        stream.queue.clear()
    return device.failure


class SimEvent:
    """A point in a stream, with the clock that was reached there."""

    def __init__(self, device: SimDevice, *, timing: bool = False) -> None:
        self.device = device
        self.timing = timing
        self.stream: SimStream | None = None
        self.clock: Clock = {}
        self.time = 0.0
        self.pending = 0  # commands that will mark it

    def query(self) -> bool:
        """True if all that was queued before the event has run."""
        return not self.pending

    def synchronize(self) -> None:
        self.device.wait_for(self)

    def elapsed_time(self, end: SimEvent) -> float:
        """Milliseconds to the event `end`, by the model's clock. RuntimeError unless both were
        recorded with timing, and have come."""
        if not (self.timing and end.timing):
            raise RuntimeError("Both events must be created with argument 'enable_timing=True'.")
        if self.stream is None or end.stream is None:
            raise RuntimeError("Both events must be recorded before calculating elapsed time.")
        if self.pending or end.pending:
            raise RuntimeError("Both events must be completed before calculating elapsed time.")
        return 1e3 * (end.time - self.time)


class SimStream:
    """A queue of commands. `time` is when, by the model, the last of them ends."""

    def __init__(self, device: SimDevice, number: int) -> None:
        self.device = device
        self.number = number
        self.name = f"{number} of cuda:{device.index}" if device.index else f"{number}"
        self.queue: collections.deque[_Command] = collections.deque()
        self.time = 0.0
        self.recorded: list[_Step] | None = None

    def record(self, event: SimEvent) -> None:
        self.device.mark(self, event)

    def wait(self, event: SimEvent) -> None:
        self.device.order_after(self, event)

    def query(self) -> bool:
        return not self.queue

    def synchronize(self) -> None:
        self.device.wait_for(self)


class SimRecording:
    def __init__(self, device: SimDevice, steps: Sequence[_Step]) -> None:
        self.device = device
        self.steps = tuple(steps)

    def replay(self, stream: SimStream) -> None:
        """Queue all commands again: one call of the host."""
        self.device.replay(self, stream)


@dataclass(slots=True)
class Faults:
    """Faults that are injected on purpose. Numbers count from the next one: 0 is the very next."""

    allocation: int | None = None  # out of memory
    launch: int | None = None  # a launch that the driver refuses
    execution: int | None = None  # a kernel that fails while it runs
    memory: int | None = None  # bytes that there are, in place of the device's own

    def due(self, name: str) -> bool:
        left = getattr(self, name)
        if left is not None:
            setattr(self, name, left - 1 if left else None)
        return left == 0


class _Memory:
    """Blocks of bytes, by addresses that mean nothing to the host."""

    def __init__(self, first: int) -> None:
        self._blocks: dict[int, Array] = {}
        self._starts: list[int] = []  # rising
        self._next = first

    def allocate(self, nbytes: int) -> int:
        address = self._next
        self._next += -(-nbytes // 256) * 256 + GAP
        self._blocks[address] = np.full(nbytes, 0xFF, np.uint8)
        self._starts.append(address)
        return address

    def free(self, address: int) -> int:
        """Free a block; the result is its number of bytes."""
        self._starts.remove(address)
        return self._blocks.pop(address).size

    def block_of(self, region: Region) -> int:
        """Start of the block that a region lies in. Raises DeviceFailure if it is in none."""
        place = bisect.bisect_right(self._starts, region.address) - 1
        if place >= 0:
            start = self._starts[place]
            if region.address + region.nbytes <= start + self._blocks[start].size:
                return start
        raise DeviceFailure(
            f"an illegal memory access: {region.nbytes} bytes at {region.address:#x} lie in no "
            "memory of the device"
        )

    def bytes_of(self, region: Region) -> Array:
        start = self.block_of(region)
        offset = region.address - start
        return self._blocks[start][offset : offset + region.nbytes]


class SimDevice:
    """See `protocol.Device`. Devices that exchange data are of one `machine`."""

    def __init__(
        self,
        index: int = 0,
        properties: Properties = H200_PROPERTIES,
        model: Model = H200,
        machine: Machine | None = None,
    ) -> None:
        self.index = index
        self.properties = properties
        self.model = model
        self.machine = machine or Machine()
        self.faults = Faults()
        self.order = self.machine.order
        self.counted = Counters()
        self.failure: Exception | None = None
        self.process = os.getpid()
        self._memory = _Memory(FIRST_ADDRESS + index * APART)
        self._streams: list[SimStream] = []
        self._lock = self.machine.lock
        self.main = self.stream()

    # ---- memory
    def pinned(self, nbytes: int) -> Array:
        """(A simulated device locks no pages.)"""
        memory = np.empty(nbytes, np.uint8)
        return array_over(memory.ctypes.data, nbytes, memory)

    def allocate(self, nbytes: int) -> int:
        """Memory whose bytes are all 0xFF: floats in it are NaN. Raises OutOfMemoryError."""
        with self._entered():
            limit = self.faults.memory or self.properties.total_memory
            total = self.counted.allocated + nbytes
            if self.faults.due("allocation") or total > limit:
                raise OutOfMemoryError(f"it has {limit} bytes, and would need {total}")
            self.counted.add("allocations")
            self.counted.allocated = total
            self.counted.peak = max(self.counted.peak, total)
            return self._memory.allocate(nbytes)

    def free(self, address: int) -> None:
        with self._entered():
            self._drain_all()
            self.counted.allocated -= self._memory.free(address)
            self.order.forget(address)

    # ---- commands
    def upload(self, to: Region, array: Array, stream: SimStream, *, pinned: bool = False) -> None:
        what = f"a copy to the device {user_line()}"
        if not pinned:
            array = array.copy()  # through a staging buffer
        source = array.reshape(-1).view(np.uint8)
        before = zlib.crc32(source.data) if pinned else 0

        def run() -> None:
            if pinned and zlib.crc32(source.data) != before:
                raise RaceError(
                    f"race: the host wrote to pinned memory while {what} was under way. "
                    "Synchronize before the array is written again, or copy without "
                    "non_blocking=True"
                )
            self._memory.bytes_of(to)[:] = source

        seconds = self.model.transfer(to.nbytes, pinned=pinned)
        with self._entered():
            _not_recording(stream, what)
            self._queue(stream, what, run, self._reached([_written(to)]), seconds)
            if not pinned:
                self.machine.time += seconds
            self.counted.copy("to_device", to.nbytes)

    def download(self, array: Array, source: Region, stream: SimStream) -> None:
        what = f"a copy to the host {user_line()}"
        target = array.reshape(-1).view(np.uint8)

        def run() -> None:
            target[:] = self._memory.bytes_of(source)

        with self._entered():
            _not_recording(stream, what)
            seconds = self.model.transfer(source.nbytes, pinned=False)
            self._queue(stream, what, run, self._reached([source]), seconds)
            self.counted.copy("to_host", source.nbytes)
            self.wait_for(stream)

    def copy(self, to: Region, source: Region, stream: SimStream) -> None:
        what = f"a copy {user_line()}"
        if to.address < source.address + to.nbytes and source.address < to.address + to.nbytes:
            raise DeviceFailure(f"{what}: its source and its target overlap")

        def run() -> None:
            self._memory.bytes_of(to)[:] = self._memory.bytes_of(source)

        with self._entered():
            seconds = self.model.kernel(2 * to.nbytes, 0)
            self._queue(stream, what, run, self._reached([_written(to), source]), seconds)
            self.counted.copy("on_device", to.nbytes)

    def copy_to(self, peer: SimDevice, to: Region, source: Region, stream: SimStream) -> None:
        what = f"a copy to cuda:{peer.index} {user_line()}"

        def run() -> None:
            peer._memory.bytes_of(to)[:] = self._memory.bytes_of(source)

        with peer._entered(), self._entered():
            _not_recording(stream, what)
            reached = [*peer._reached([_written(to)]), *self._reached([source])]
            self._queue(stream, what, run, reached, to.nbytes / self.model.peer)
            self.counted.copy("to_peers", to.nbytes)

    def reaches(self, peer: SimDevice) -> bool:
        """True if the two are linked: all of a machine are."""
        return peer.machine is self.machine

    def clear(self, region: Region, stream: SimStream) -> None:
        """Fill with zero bytes."""
        what = f"a clearing {user_line()}"

        def run() -> None:
            self._memory.bytes_of(region)[:] = 0

        with self._entered():
            reached = self._reached([_written(region)])
            self._queue(stream, what, run, reached, self.model.kernel(region.nbytes, 0))

    def launch(
        self,
        kernel: Kernel,
        grid: Grid,
        arguments: Sequence[Any],
        stream: SimStream,
        *,
        flops: int = 0,
    ) -> None:
        """Queue a kernel. `arguments` are regions and numbers."""
        what = f"kernel {kernel.name} {user_line()}"
        regions = [a for a in arguments if isinstance(a, Region)]

        def run() -> None:
            if self.faults.due("execution"):
                raise DeviceFailure("the kernel failed while it ran (a fault that was asked for)")
            kernel.simulate(
                grid, [self._memory.bytes_of(a) if isinstance(a, Region) else a for a in arguments]
            )

        with self._entered():
            if self.faults.due("launch"):
                raise DeviceFailure(f"{what} was not launched (a fault that was asked for)")
            moved = sum(r.nbytes * (r.reads + r.writes) for r in regions)
            seconds = self.model.kernel(moved, flops)
            self._queue(stream, what, run, self._reached(regions), seconds, kernel, flops)
            self.counted.add("launches")

    def _reached(self, regions: Sequence[Region]) -> list[tuple[int, Region]]:
        """Regions of this device's memory, with their blocks."""
        return [(self._memory.block_of(r), r) for r in regions if r.nbytes]

    def _queue(
        self,
        stream: SimStream,
        what: str,
        run: Callable[[], None],
        reached: Sequence[tuple[int, Region]],
        seconds: float,
        kernel: Kernel | None = None,
        flops: int = 0,
    ) -> None:
        machine = self.machine

        def put(
            on: SimStream, host: float = self.model.launch, start: float = self.model.start
        ) -> None:
            self.order.command(on.name, what, reached)
            machine.time += host
            on.time = max(on.time, machine.time) + start + seconds
            if recorder.options:
                _note(_work(what, kernel, reached, flops), on, seconds)
            on.queue.append(_Command(what, run, kernel))

        if stream.recorded is not None:
            stream.recorded.append(_Step(lambda on: put(on, 0.0, self.model.step)))
            return
        put(stream)
        if len(stream.queue) > LONGEST_QUEUE:
            self.machine.drain(stream)

    # ---- order
    def stream(self) -> SimStream:
        """A stream of its own."""
        with self._lock:
            self._streams.append(SimStream(self, len(self._streams)))
            return self._streams[-1]

    def event(self, *, timing: bool = False) -> SimEvent:
        return SimEvent(self, timing=timing)

    def mark(self, stream: SimStream, event: SimEvent) -> None:
        with self._entered():
            _not_recording(stream, "an event")
            if event.device is not self:
                raise DeviceFailure(
                    f"an event of cuda:{event.device.index} on a stream of cuda:{self.index}"
                )
            event.stream, event.time = stream, max(stream.time, self.machine.time)
            event.clock = self.order.event(stream.name)
            event.pending += 1
            stream.queue.append(_Command("an event", marks=event))

    def order_after(self, stream: SimStream, event: SimEvent) -> None:
        with self._entered():
            _not_recording(stream, "a wait")
            if event.stream is None:
                return  # as in CUDA: an event that was not recorded has come
            self.order.wait(stream.name, event.clock)
            stream.time = max(stream.time, event.time)
            if event.pending:
                stream.queue.append(_Command("a wait", waits=event))

    def wait_for(self, what: SimEvent | SimStream) -> None:
        """Let the host wait."""
        with self._entered():
            stream = what if isinstance(what, SimStream) else what.stream
            if stream is None:
                return
            _not_recording(stream, "a synchronization")
            self.counted.add("synchronizations")
            if isinstance(what, SimStream):
                self.machine.drain(stream)
                clock = self.order.event(stream.name)
            else:
                self.machine.drain(stream, what)
                clock = what.clock
            self.order.wait_on_host(clock)
            self.machine.time = max(self.machine.time, what.time)

    def synchronize(self) -> None:
        """Wait for all streams."""
        with self._entered():
            self.counted.add("synchronizations")
            self._drain_all()
            for stream in self._streams:
                self.order.wait_on_host(self.order.event(stream.name))
                self.machine.time = max(self.machine.time, stream.time)

    def _drain_all(self) -> None:
        for stream in self._streams:
            self.machine.drain(stream)

    # ---- recordings
    def record(self, work: Callable[[], None], stream: SimStream) -> SimRecording:
        with self._entered():
            _not_recording(stream, "a recording")
            stream.recorded = []
            before = dict(self.counted.counts)
            try:
                work()
                steps = stream.recorded
            finally:
                stream.recorded = None
                self.counted.counts.update(before)
            self.counted.add("recordings")
            return SimRecording(self, steps)

    def replay(self, recording: SimRecording, stream: SimStream) -> None:
        with self._entered():
            _not_recording(stream, "a replay")
            self.counted.add("replays")
            self.machine.time += self.model.replay
            for step in recording.steps:
                step.queue(stream)

    # ---- what it says of itself
    def counters(self) -> dict[str, float]:
        """Commands, bytes and waits since the last reset; `modelled_seconds` is the model's clock,
        and no measurement."""
        with self._lock:
            seconds = max(self.machine.time, *(s.time for s in self._streams))
            return {**self.counted.table(), "modelled_seconds": seconds}

    def reset_counters(self) -> None:
        with self._lock:
            now = self.counted.allocated
            self.counted = Counters(allocated=now, peak=now)

    @contextmanager
    def _entered(self) -> Iterator[None]:
        """Only in the process that opened the device, and while it is in order."""
        if os.getpid() != self.process:
            raise DeviceFailure(
                f"cuda:{self.index} was opened before this process was forked, and cannot be used "
                "in it: use the start method 'spawn', or open the device in the child alone"
            )
        with self._lock:
            if self.failure is not None:
                raise DeviceFailure(
                    f"cuda:{self.index} takes no more work since: {self.failure}"
                ) from self.failure
            yield


def _note(work: Work, on: SimStream, seconds: float) -> None:
    """A command that was queued on a stream, whose time has just been reckoned, for profiles."""
    begin, end = (round(1e9 * time) for time in (on.time - seconds, on.time))
    recorder.modelled.append(Span(work, begin, end, on.name))


def _work(
    what: str, kernel: Kernel | None, reached: Sequence[tuple[int, Region]], flops: int
) -> Work:
    """A command, for profiles; `what` ends with its line."""
    name, _, line = what.removesuffix(")").partition(" (at ")
    name = name if kernel is None else kernel.name
    nbytes = sum(r.nbytes * (r.reads + r.writes) for _, r in reached)
    kind = "transfer" if kernel is None else "kernel"
    return Work(name, kind, "", {UserLine(line): 1.0}, nbytes, operations=float(flops))


def _written(region: Region) -> Region:
    return Region(region.address, region.nbytes, writes=True, reads=False)


def _not_recording(stream: SimStream, what: str) -> None:
    if stream.recorded is not None:
        raise DeviceFailure(f"{what} on stream {stream.number} while its commands are recorded")
