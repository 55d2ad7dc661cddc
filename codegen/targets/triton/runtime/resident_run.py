"""Under the resident program: one vector of its sizes. A concrete TritonProgram, memory that all
vectors share -> a run on arrays of the device.

Inputs that are copied and results have memory of their own here (`pool.Slot`), temporaries lie in
the shared arena; the launches are prepared once, recorded at the second run that writes the same
memory, and from then on a run is one replay.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np

from codegen.ir.schema import Access, Value
from codegen.runtime.artifact import Runs
from codegen.targets.triton.guard import JOIN, SLOTS, STATE, WORDS, slots_of
from codegen.targets.triton.runtime.kernel import TritonKernel
from codegen.targets.triton.runtime.program import Launch, TritonProgram
from eager.base.dataclass import dataclass
from eager.device import device, transfer
from eager.device.array import DeviceArray
from eager.device.pool import Buffer, Pool, Slot
from eager.device.protocol import Array, Region
from eager.sizes.aval import Aval

ALIGNED: Final = 4 * WORDS  # bytes: where kernels want what they are given to begin


@dataclass(frozen=True, eq=False, slots=True)
class Inputs:
    """The inputs of a program, whatever its sizes are: their buffers' names, which are numbers
    (with the letter of NumPy's kind), which tensors, and which of these are written."""

    names: tuple[str, ...]
    values: tuple[Value, ...]
    numbers: tuple[tuple[int, str], ...]
    tensors: tuple[int, ...]
    written: frozenset[int]

    @staticmethod
    def of(program: TritonProgram) -> Inputs:
        values = program.inputs
        return Inputs(
            tuple(f"v{v.id}" for v in values),
            values,
            tuple((i, v.aval.dtype.np.kind) for i, v in enumerate(values) if v.aval.weak),
            tuple(i for i, v in enumerate(values) if not v.aval.weak),
            program.written,
        )


class Common:
    """Memory that all vectors of sizes share: numbers, checks, and the arena of the temporaries."""

    def __init__(
        self, inputs: Inputs, slots: int, pool: Pool, stream: Any, *, checks: bool
    ) -> None:
        self.pool, self.stream = pool, stream
        self.buffers: list[Buffer] = []  # the first is the arena
        self._new(0)
        self.regions: dict[str, Region] = {}
        numbers = inputs.numbers
        block = self._new(ALIGNED * len(numbers))
        self.block = Region(block.address, ALIGNED * len(numbers), writes=True, reads=False)
        for k, (i, _) in enumerate(numbers):
            size = inputs.values[i].aval.dtype.itemsize
            self.regions[inputs.names[i]] = Region(block.address + ALIGNED * k, size)
        self.host = np.zeros(ALIGNED * len(numbers), np.uint8)
        self.ints = self.host.view(np.int64)[:: ALIGNED // 8]
        self.floats = self.host.view(np.float64)[:: ALIGNED // 8]
        self.before = b""
        self.state = self._checks(slots) if checks else Region(0, 0)
        self.moves = 0  # of the arena

    def _new(self, nbytes: int) -> Buffer:
        buffer = self.pool.empty(nbytes, self.stream)
        self.buffers.append(buffer)
        return buffer

    def _checks(self, count: int) -> Region:
        """The state and the slots, all zero."""
        nbytes = 4 * (WORDS + count)
        whole = Region(self._new(nbytes).address, nbytes)
        self.pool.device.clear(whole._replace(writes=True, reads=False), self.stream)
        self.regions[STATE] = Region(whole.address, ALIGNED)
        self.regions[SLOTS] = Region(whole.address + ALIGNED, 4 * count)
        return whole

    @property
    def nbytes(self) -> int:
        return sum(b.size for b in self.buffers)

    @property
    def arena(self) -> Buffer:
        return self.buffers[0]

    def reserve(self, nbytes: int) -> None:
        """Have room for so many bytes of temporaries."""
        if nbytes > self.arena.nbytes:
            self.buffers[0] = self.pool.empty(nbytes, self.stream)
            self.moves += 1

    def upload_numbers(self, inputs: Sequence[Any], numbers: Sequence[tuple[int, str]]) -> None:
        """Fill the block of numbers, unless it is so on the device."""
        for k, (i, kind) in enumerate(numbers):
            x = inputs[i]
            if kind == "f":
                self.floats[k] = x
            else:
                self.ints[k] = _in_64_bits(int(x))
        now = self.host.tobytes()
        if now != self.before:
            self.pool.device.upload(self.block, self.host, self.stream)
            self.before = now


def _in_64_bits(x: int) -> int:
    return x if -(1 << 63) <= x < 1 << 63 else (x + (1 << 63)) % (1 << 64) - (1 << 63)


class Sized:
    """A program at one vector of sizes. `counted`: what it adds its runs to."""

    def __init__(
        self,
        program: TritonProgram,
        kernels: Sequence[TritonKernel],
        common: Common,
        counted: Runs,
    ) -> None:
        self.program = program
        self.counted = counted
        counted.sizes += 1
        self.common = common
        self.pool = common.pool
        self.inputs = Inputs.of(program)
        self.commands = _Commands(program, kernels)
        self.results = _Results(program)
        stream = common.stream
        self.slots = [Slot(self.pool, n, stream) for n in self.results.sizes(program)]
        self.copies: dict[int, _Allocation] = {}  # where inputs are copied to
        self.slotted: set[int] = set()  # inputs that are copied
        self.last: tuple[int, ...] = ()  # where inputs lay in the last run
        self.recording: Any = None
        self.moves = -1  # of the arena, when it was placed
        self.commands.bind(common.regions | self.result_regions())

    # ---- a run
    def __call__(self, inputs: Sequence[Any], stream: Any) -> None:
        """Queue a run on what `inputs` are. Where that fails (no memory is left), the next run
        takes nothing of it for granted."""
        try:
            self._run(inputs, stream)
        except BaseException:
            self.moves, self.last, self.recording, self.commands.key = -1, (), None, None
            self.commands.bind(self.result_regions())
            raise

    def _run(self, inputs: Sequence[Any], stream: Any) -> None:
        if self.moves != self.common.moves:
            self._place_arena()
        for piece in self.copies.values():
            piece.buffer.used_on(stream)
        elsewhere = [slot for slot in self.slots if slot.vacate(stream)]
        if elsewhere:
            self.commands.bind(self.result_regions())
            self.recording = None
        moved = self._copy_in(inputs, stream)
        fresh = moved or self.commands.key is None
        known = self._prepare(inputs) if fresh else True
        self._launch(stream, known=known)
        for i in self.slotted & self.inputs.written:
            target = inputs[i].region(writes=True, reads=False)
            self.pool.device.copy(target, self.copies[i].region(), stream)

    def bring_back(self, inputs: Sequence[Any], stream: Any) -> None:
        """Arrays of the host that were written get what their copies hold."""
        for i in self.inputs.written:
            packed = _packed(inputs[i], self.inputs.values[i])
            self.pool.device.download(packed, self.slot(i).region(), stream)

    @property
    def nbytes(self) -> int:
        own = sum(piece.buffer.size for piece in self.copies.values())
        return own + sum(slot.own.size for slot in self.slots)

    def result_regions(self) -> dict[str, Region]:
        """Memory regions of the results, by the names of their buffers."""
        pairs = zip(self.results.slots, self.slots, strict=True)
        return {name: Region(s.own.address, s.own.nbytes) for name, s in pairs if name}

    def _place_arena(self) -> None:
        base, buffers = self.common.arena.address, self.program.buffers
        places = self.program.arena.items()
        self.commands.bind({n: Region(base + at, buffers[n].nbytes) for n, at in places})
        self.moves, self.recording = self.common.moves, None

    def _copy_in(self, inputs: Sequence[Any], stream: Any) -> bool:
        """Everything that lies elsewhere: batches, numbers, inputs with a slot. Whether an input
        lies at another place than in the last run."""
        unit = self.pool.device
        self.common.upload_numbers(inputs, self.inputs.numbers)
        moved = self._choose_slots(inputs)
        for i in self.inputs.tensors:
            array = inputs[i]
            if not self.has(array):
                self._bring(i, array, stream)
                continue
            if array.buffer.stream is not stream:
                array.buffer.used_on(stream)
            if i in self.slotted and array.span:
                unit.copy(self.slot(i).target(), array.region(), stream)
        return moved

    def has(self, array: Any) -> bool:
        """True if an array lies on this device."""
        return type(array) is DeviceArray and array.buffer.pool is self.pool

    def _bring(self, i: int, array: Any, stream: Any) -> None:
        """Copy an input from the host, or from another device."""
        if type(array) is DeviceArray:
            if array.size:
                transfer.from_peer(self.slot(i).target(), self.pool, array, stream)
            return
        packed = _packed(np.asarray(array), self.inputs.values[i])
        if packed.size:
            self.pool.device.upload(self.slot(i).target(), packed, stream)

    def _choose_slots(self, inputs: Sequence[Any]) -> bool:
        """Inputs that are read only, and come from another place than in the last run, or lie where
        kernels do not expect it. Whether any comes from another place."""
        tensors = self.inputs.tensors
        now = tuple(inputs[i].address if self.has(inputs[i]) else 0 for i in tensors)
        before, self.last = self.last, now
        if now == before:
            return False
        for k, i in enumerate(tensors):
            moved = bool(before) and before[k] != now[k]
            if now[k] % ALIGNED or (moved and i not in self.inputs.written):
                self.slotted.add(i)
        return True

    def _launch(self, stream: Any, *, known: bool) -> None:
        """Replay the launches, or queue them; they are `known` where all memory that is written
        lies as in the last run."""
        if self.recording is None and known:
            unit = self.pool.device
            work = functools.partial(self._queue, stream, unit.launch)
            self.recording = self.pool.with_room(lambda: unit.record(work, stream))
            self.counted.recordings += 1
        if self.recording is not None:
            self.recording.replay(stream)
            self.counted.replays += 1
        else:
            self._queue(stream, self.pool.launch)
            self.counted.queued += 1

    def _prepare(self, inputs: Sequence[Any]) -> bool:
        """Put the inputs' places into the launches. Whether those that are used in place, and were
        before, lie as before."""
        tensors = self.inputs.tensors
        key = tuple(
            0 if i in self.slotted or not self.has(inputs[i]) else inputs[i].address
            for i in tensors
        )
        before = self.commands.key
        known = before is not None and all(
            now in (0, then) for now, then in zip(key, before, strict=True)
        )
        if key != before:
            regions = {}
            for i in tensors:
                array = inputs[i]
                own = i in self.slotted or not self.has(array)
                regions[self.inputs.names[i]] = self.slot(i).region() if own else array.region()
            self.commands.bind(regions)
            self.commands.key = key
            self.recording = None
        return known

    def _queue(self, stream: Any, launch: Callable[..., None]) -> None:
        unit = self.pool.device
        for kernel, grid, arguments in self.commands.prepared:
            if grid[0]:
                launch(kernel, grid, arguments, stream)
        for target, source in self.results.copies(self.slots, self.commands.regions):
            unit.copy(target, source, stream)

    def slot(self, i: int) -> _Allocation:
        """Memory that an input is copied to."""
        found = self.copies.get(i)
        if found is None:
            nbytes = self.program.buffers[self.inputs.names[i]].nbytes
            buffer = self.pool.empty(nbytes, self.common.stream)
            found = self.copies[i] = _Allocation(buffer, nbytes)
        return found


def _packed(array: Array, value: Value) -> Array:
    """The memory that an input's strides say, as a C-contiguous array."""
    if value.strides is None:
        return np.ascontiguousarray(array)
    count = 1 + sum((n - 1) * s for n, s in zip(array.shape, value.layout, strict=True))
    return np.lib.stride_tricks.as_strided(array, (count if array.size else 0,), (array.itemsize,))


class _Allocation:
    """Some memory of the program."""

    __slots__ = ("buffer", "nbytes")

    def __init__(self, buffer: Buffer, nbytes: int) -> None:
        self.buffer = buffer
        self.nbytes = nbytes

    def region(self) -> Region:
        return Region(self.buffer.address, self.nbytes)

    def target(self) -> Region:
        return Region(self.buffer.address, self.nbytes, writes=True, reads=False)


class _Results:
    """Results of a run. `slots` names for each the buffer that lies in its slot, "" where the value
    is copied there: it is the memory of an input, or of another result."""

    def __init__(self, program: TritonProgram) -> None:
        self.accesses: list[Access] = [access for access, _ in program.outputs]
        self.avals = [aval for _, aval in program.outputs]
        self.slots: list[str] = []
        for access in self.accesses:
            home = program.buffers[access.buffer].home
            fresh = program.buffers[home].kind == "output" and home not in self.slots
            self.slots.append(home if fresh else "")
        self.homes = [program.buffers[a.buffer].home for a in self.accesses]

    def sizes(self, program: TritonProgram) -> list[int]:
        return [program.buffers[home].nbytes for home in self.homes]

    def copies(
        self, slots: Sequence[Slot], regions: dict[str, Region]
    ) -> Iterator[tuple[Region, Region]]:
        """(to, from) of those that lie elsewhere."""
        for name, home, slot in zip(self.slots, self.homes, slots, strict=True):
            source = regions[home]
            if not name and source.nbytes:
                to = Region(slot.own.address, source.nbytes, writes=True, reads=False)
                yield to, source

    def given(self, slots: Sequence[Slot], place: device, stream: Any) -> list[Any]:
        """Arrays; of numbers their values, which are waited for."""
        found: list[Any] = []
        for access, aval, slot in zip(self.accesses, self.avals, slots, strict=True):
            if aval.weak:
                found.append(_downloaded(access, aval, slot, stream).item())
                continue
            there = Aval(access.shape, aval.dtype, str(place))
            buffer = slot.give(stream)
            buffer.used_on(stream)
            found.append(DeviceArray(buffer, there, access.strides, access.offset))
        return found

    def downloaded(self, slots: Sequence[Slot], stream: Any) -> list[Array]:
        """Arrays of the host."""
        rows = zip(self.accesses, self.avals, slots, strict=True)
        return [_downloaded(access, aval, slot, stream) for access, aval, slot in rows]


def _downloaded(access: Access, aval: Aval, slot: Slot, stream: Any) -> Array:
    """A result, which lies in its slot without gaps, as an array of the host."""
    found = np.empty(access.shape, aval.dtype.np)
    region = Region(slot.own.address + access.offset * aval.dtype.itemsize, found.nbytes)
    slot.own.pool.device.download(found, region, stream)
    return found


class _Commands:
    """The launches of a program, prepared: kernels, grids and arguments, for a device to queue.
    What changes its place is put into those alone that reach it."""

    def __init__(self, program: TritonProgram, kernels: Sequence[TritonKernel]) -> None:
        self.program = program
        self.regions: dict[str, Region] = {}
        self.key: tuple[int, ...] | None = None  # where the inputs lie that are used in place
        self.prepared: list[tuple[TritonKernel, tuple[int, int, int], list[Any]]] = []
        self.names: list[list[str]] = []
        self.writes: list[set[str]] = []
        self.users: dict[str, list[int]] = {}
        sizes: Any = program.sizes
        for k, (kernel, launch) in enumerate(zip(kernels, program.launches, strict=True)):
            names = [f"errors {k}" if n == "errors" else n for n in launch.passed]
            self.prepared.append((kernel, (launch.programs, 1, 1), [sizes.get(n) for n in names]))
            self.names.append(names)
            self.writes.append({self.home(n) for n in launch.writes} | _own_writes(launch, k))
            for n in names:
                self.users.setdefault(self.home(n), []).append(k)

    def home(self, name: str) -> str:
        found = self.program.buffers.get(name)
        return name if found is None else found.home

    def extent(self, name: str, whole: int) -> tuple[int, int]:
        """Offset and length of a buffer in its home, which has `whole` bytes."""
        found = self.program.buffers.get(name)
        return (found.offset, found.nbytes) if found is not None and found.alias else (0, whole)

    def bind(self, regions: dict[str, Region]) -> None:
        """Memory by name is there from now on."""
        self.regions |= regions
        if SLOTS in regions:
            self._place_errors(regions[SLOTS])
        touched = {k for name in regions for k in self.users.get(name, ())}
        if SLOTS in regions:
            touched |= {k for k, launch in enumerate(self.program.launches) if launch.checks}
        for k in touched:
            kernel, grid, before = self.prepared[k]
            arguments = [*before]  # what is queued has its own
            for j, name in enumerate(self.names[k]):
                home = self.home(name)
                found = self.regions.get(home)
                if found is not None:
                    offset, nbytes = self.extent(name, found.nbytes)
                    arguments[j] = Region(found.address + offset, nbytes, home in self.writes[k])
            self.prepared[k] = kernel, grid, arguments

    def _place_errors(self, slots: Region) -> None:
        for k, first in enumerate(slots_of(self.program)[0]):
            count = len(self.program.launches[k].checks)
            self.regions[f"errors {k}"] = Region(slots.address + 4 * first, 4 * count)


def _own_writes(launch: Launch, k: int) -> set[str]:
    """Names of what a launch writes besides buffers."""
    found = {f"errors {k}"} if launch.checks else set()
    return found | {STATE} if launch.kernel == JOIN else found
