"""Beside the stages: a program that lives in a device's memory. Program -> Artifact whose run takes
and gives arrays there.

Inputs on the device are used where they lie, and written there; those of the host are copied into
slots of the program, and run-time numbers, all of them, into one block that kernels load them from.
Temporaries share one arena and results have slots (`pool.Slot`), so that addresses stay: the
launches are prepared once, recorded at the second run that writes the same memory, and from then on
a run is one replay. An input that is only read and comes from elsewhere than before gets a slot and
is copied there; one that is written makes a new recording.

A check that fails on the device is noticed by the host when it next waits. Inputs are then what
they were before that run (`emit.triton.guard`).
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from codegen import run_stages
from codegen.emit.triton.guard import SLOTS, STATE, WORDS, guard, slots_of
from codegen.emit.triton.runtime.device import arguments_of, kernels_of
from codegen.emit.triton.runtime.kernel import TritonKernel, target_of
from codegen.emit.triton.runtime.program import Launch, ResidentProgram
from codegen.emit.triton.runtime.together import compile_all
from codegen.ir import Access, Program, Unsupported, Value
from codegen.runtime.artifact import INDEX_SITE, Artifact, CheckFailed, Kernel, OutOfRange
from eager.aval import Aval
from eager.dataclass import dataclass
from eager.device import device, places
from eager.device.array import DeviceArray
from eager.device.pool import Buffer, Slot
from eager.device.protocol import Array, Region

INDEX: Final = ": an index within a size of "  # so begins what a check of indices says
ALIGNED: Final = 4 * WORDS  # bytes: where kernels want what they are given to begin


def compile_resident(program: Program, place: str, name: str) -> Artifact:
    """The program for a device. Raises Unsupported, saying why, where Triton cannot do it."""
    if program.used_symbols():
        raise Unsupported("sizes that are symbols, on a device")
    results, texts, times = run_stages(program, "triton")
    emitted = ResidentProgram.of(guard(results["source"]))
    figures = {f"{stage}_us": int(1e6 * seconds) for stage, seconds in times.items()}
    return resident(emitted, place, name, texts, figures)


def resident(
    program: ResidentProgram,
    place: str,
    name: str,
    texts: Mapping[str, str],
    figures: Mapping[str, int],
) -> Artifact:
    """The artifact of a program, emitted here or found on disk."""
    try:
        run = Resident(program, device(place), name)
    except ModuleNotFoundError as error:
        raise Unsupported(str(error)) from error
    kernels = tuple(Kernel(k.name, k.source, k.notes) for k in program.kernels.values())
    plan = {**figures, "arena_bytes": program.arena_bytes, "launches": len(program.launches)}
    return Artifact(run, kernels, texts, plan)


@dataclass(slots=True)
class _Run:
    """What one run that is not settled yet changed on the host, and how to undo it."""

    number: int
    undo: Callable[[], None]


class Resident:
    """A program on a device. Calls take turns: they share its memory."""

    def __init__(self, program: ResidentProgram, place: device, name: str) -> None:
        self.program = program
        self.place = place
        self.name = name
        self.pool = places.pool(place)
        self.held = 0
        inputs = program.inputs
        self.names = [f"v{v.id}" for v in inputs]
        self.values: list[Value] = [*inputs]
        self.numbers = [(i, v.aval.dtype.np.kind) for i, v in enumerate(inputs) if v.aval.weak]
        self.tensors = [i for i, v in enumerate(inputs) if not v.aval.weak]
        self.written = program.written
        firsts, self.slots = slots_of(program)
        self.sites = {
            first + i: text
            for first, launch in zip(firsts, program.launches, strict=True)
            for i, text in enumerate(launch.checks)
        }
        texts = self.sites.values()
        self.prompt = any(INDEX not in s and INDEX_SITE not in s for s in texts)
        self.commands = _Commands(program, name)
        kernels = [kernel for kernel, _, _ in self.commands.prepared]
        properties = self.pool.device.properties
        if not properties.is_simulated:
            compile_all(kernels, target_of(properties.major, properties.minor))
        for kernel in kernels:
            kernel.prepare(properties)
        self.results = _Results(program)
        self.memory: _Memory | None = None
        self.slotted: set[int] = set()  # inputs that are copied
        self.last: tuple[int, ...] = ()  # where inputs lay in the last run
        self.recording: Any = None
        self.recorded: tuple[int, ...] = ()  # the same when the launches were recorded
        self.stream: Any = None
        self.runs = 0  # since the checks were last clear
        self.undo: list[_Run] = []
        self._lock = threading.Lock()
        self.pool.holders.add(self)

    # ---- a call
    def __call__(
        self,
        inputs: list[Any],
        replaced: Sequence[Any] = (),
        undo: Callable[[], None] | None = None,
    ) -> list[Any]:
        """Queue a run: arrays of the device, or Python numbers (then it waits). `replaced` are
        tensors whose gradient the caller replaces by a result: that of the last run need not be
        kept. `undo` takes back what the caller did for this run on the host.

        Raises CheckFailed where a check failed that is no index's; that of an index is raised at
        the next wait."""
        with self._lock:
            pool = self.pool
            stream = places.stream(pool.device)
            memory = self._memory(stream)
            for tensor in () if self.prompt else replaced:
                tensor._grad = None
            elsewhere = [slot for slot in memory.results if slot.vacate(stream)]
            if elsewhere:
                self.commands.place(memory.placed(self.results))
                self.recording = None
            moved = self._copy_in(inputs, memory, stream)
            fresh = moved or self.commands.key is None
            known = self._prepare(inputs, memory) if fresh else True
            self._launch(memory, stream, known=known)
            for i in self.slotted & self.written:
                target = inputs[i].region(writes=True, reads=False)
                pool.device.copy(target, memory.inputs[i].region(), stream)
            if self.sites:
                pool.checks.ran[self] = None
                self.runs += 1
                if undo is not None:
                    self.undo.append(_Run(self.runs - 1, undo))
                if self.prompt:
                    self._raise_prompt()
            return self.results.given(memory, self.place, stream)

    def _raise_prompt(self) -> None:
        self.pool.checks.ran.pop(self, None)
        error = self._found()
        if error is not None:
            raise error

    def _memory(self, stream: Any) -> _Memory:
        if self.memory is None:
            self.memory = _Memory(self, stream)
            self.held = self.memory.nbytes
            self.commands.place(self.memory.regions)
        elif self.stream is not stream:
            event = self.pool.device.event()
            self.stream.record(event)
            stream.wait(event)
        for buffer in self.memory.buffers:
            buffer.used_on(stream)
        self.stream = stream
        return self.memory

    def _copy_in(self, inputs: Sequence[Any], memory: _Memory, stream: Any) -> bool:
        """Everything that lies elsewhere: batches, numbers, inputs with a slot. Whether an input
        lies at another place than in the last run."""
        unit = self.pool.device
        changed = memory.pack(inputs, self.numbers)
        if changed is not None:
            unit.upload(memory.block, changed, stream)
        moved = self._choose_slots(inputs)
        for i in self.tensors:
            array = inputs[i]
            if type(array) is not DeviceArray:
                self._upload(i, array, memory, stream)
                continue
            if array.buffer.stream is not stream:
                array.buffer.used_on(stream)
            if i in self.slotted and array.span:
                unit.copy(memory.slot(i, self).target(), array.region(), stream)

        return moved

    def _upload(self, i: int, array: Any, memory: _Memory, stream: Any) -> None:
        packed = _packed(np.asarray(array), self.values[i])
        if packed.size:
            self.pool.device.upload(memory.slot(i, self).target(), packed, stream)

    def _choose_slots(self, inputs: Sequence[Any]) -> bool:
        """Inputs that are read only, and come from another place than in the last run, or lie where
        kernels do not expect it. Whether any comes from another place."""
        now = tuple(
            inputs[i].address if type(inputs[i]) is DeviceArray else 0 for i in self.tensors
        )
        before, self.last = self.last, now
        if now == before:
            return False
        for k, i in enumerate(self.tensors):
            moved = bool(before) and before[k] != now[k]
            if now[k] % ALIGNED or (moved and i not in self.written):
                self.slotted.add(i)
        return True

    def _launch(self, memory: _Memory, stream: Any, *, known: bool) -> None:
        """Replay the launches, or queue them; they are `known` where all memory that is written
        lies as in the last run."""
        if self.recording is None and known:
            work = functools.partial(self._queue, memory, stream)
            self.recording = self.pool.device.record(work, stream)
        if self.recording is not None:
            self.recording.replay(stream)
        else:
            self._queue(memory, stream)

    def _prepare(self, inputs: Sequence[Any], memory: _Memory) -> bool:
        """Put the inputs' places into the launches. Whether those that are used in place, and were
        before, lie as before."""
        key = tuple(
            0 if i in self.slotted or type(inputs[i]) is not DeviceArray else inputs[i].address
            for i in self.tensors
        )
        before = self.commands.key
        known = before is not None and all(
            now in (0, then) for now, then in zip(key, before, strict=True)
        )
        if key != before:
            regions = {}
            for i in self.tensors:
                array, name = inputs[i], self.names[i]
                own = i in self.slotted or type(array) is not DeviceArray
                regions[name] = memory.slot(i, self).region() if own else array.region()
            self.commands.place(regions)
            self.commands.key = key
            self.recording = None
        return known

    def _queue(self, memory: _Memory, stream: Any) -> None:
        unit = self.pool.device
        for kernel, grid, arguments in self.commands.prepared:
            unit.launch(kernel, grid, arguments, stream)
        for target, source in self.results.copies(memory, self.commands.regions):
            unit.copy(target, source, stream)

    # ---- checks
    def verdict(self) -> Exception | None:
        """Wait for the runs so far: what a check of them found, and the host as before that run."""
        with self._lock:
            return self._found()

    def _found(self) -> Exception | None:
        memory, unit = self.memory, self.pool.device
        if memory is None:
            return None
        found = np.zeros(WORDS + self.slots, np.int32)
        unit.download(found, memory.state, self.stream)
        whole = int(found[1])
        if not found[WORDS:].any():
            self.undo.clear()
            return None
        unit.clear(memory.state._replace(writes=True, reads=False), self.stream)
        undo, self.undo, self.runs = self.undo, [], 0
        for run in reversed(undo):
            if run.number >= whole:
                run.undo()
        site = self.sites[int(np.flatnonzero(found[WORDS:])[0])]
        message, _, where = site.partition("|")
        kind = OutOfRange if INDEX in message or INDEX_SITE in message else CheckFailed
        return kind(message, where)

    # ---- memory
    def let_go(self) -> None:
        """Give the memory back, unless a call is going on."""
        if self._lock.acquire(blocking=False):
            try:
                if self in self.pool.checks.ran:
                    return
                self.memory = self.recording = None
                self.commands.key = None
                self.held = self.runs = 0
            finally:
                self._lock.release()


def _packed(array: Array, value: Value) -> Array:
    """The memory that an input's strides say, as a C-contiguous array."""
    if value.strides is None:
        return np.ascontiguousarray(array)
    count = 1 + sum((n - 1) * s for n, s in zip(array.shape, value.layout, strict=True))
    return np.lib.stride_tricks.as_strided(array, (count if array.size else 0,), (array.itemsize,))


class _Piece:
    """Some memory of the program."""

    __slots__ = ("buffer", "nbytes")

    def __init__(self, buffer: Buffer, nbytes: int) -> None:
        self.buffer = buffer
        self.nbytes = nbytes

    def region(self) -> Region:
        return Region(self.buffer.address, self.nbytes)

    def target(self) -> Region:
        return Region(self.buffer.address, self.nbytes, writes=True, reads=False)


class _Memory:
    """All memory of a program, from when it first runs."""

    def __init__(self, own: Resident, stream: Any) -> None:
        program, self.pool, self.stream = own.program, own.pool, stream
        self.buffers: list[Buffer] = []
        self.nbytes = 0
        self.inputs: dict[int, _Piece] = {}
        arena = self._new(program.arena_bytes)
        self.regions = {
            name: Region(arena.address + offset, program.buffers[name].nbytes)
            for name, offset in program.arena.items()
        }
        block = self._new(ALIGNED * len(own.numbers))
        self.block = Region(block.address, ALIGNED * len(own.numbers), writes=True, reads=False)
        for k, (i, _) in enumerate(own.numbers):
            size = own.values[i].aval.dtype.itemsize
            self.regions[own.names[i]] = Region(block.address + ALIGNED * k, size)
        self.host = np.zeros(ALIGNED * len(own.numbers), np.uint8)
        self.ints = self.host.view(np.int64)[:: ALIGNED // 8]
        self.floats = self.host.view(np.float64)[:: ALIGNED // 8]
        self.before = b""
        self.results = [Slot(self.pool, n, stream) for n in own.results.sizes(program)]
        self.nbytes += sum(slot.own.size for slot in self.results)
        self.regions |= self.placed(own.results)
        self.state = self._checks(own.slots) if own.sites else Region(0, 0)

    def placed(self, results: _Results) -> dict[str, Region]:
        """Where results lie, by the names of their buffers."""
        pairs = zip(results.slots, self.results, strict=True)
        return {name: Region(s.own.address, s.own.nbytes) for name, s in pairs if name}

    def _new(self, nbytes: int) -> Buffer:
        buffer = self.pool.empty(nbytes, self.stream)
        self.buffers.append(buffer)
        self.nbytes += buffer.size
        return buffer

    def _checks(self, count: int) -> Region:
        """The state and the slots, all zero."""
        nbytes = 4 * (WORDS + count)
        whole = Region(self._new(nbytes).address, nbytes)
        self.pool.device.clear(whole._replace(writes=True, reads=False), self.stream)
        self.regions[STATE] = Region(whole.address, ALIGNED)
        self.regions[SLOTS] = Region(whole.address + ALIGNED, 4 * count)
        return whole

    def slot(self, i: int, own: Resident) -> _Piece:
        """Where an input is copied to."""
        found = self.inputs.get(i)
        if found is None:
            buffer = own.program.buffers[own.names[i]]
            found = self.inputs[i] = _Piece(self._new(buffer.nbytes), buffer.nbytes)
            own.held = self.nbytes
        return found

    def pack(self, inputs: Sequence[Any], numbers: Sequence[tuple[int, str]]) -> Array | None:
        """The block of numbers; None where it is on the device."""
        for k, (i, kind) in enumerate(numbers):
            x = inputs[i]
            if kind == "f":
                self.floats[k] = x
            else:
                self.ints[k] = _in_64_bits(int(x))
        now = self.host.tobytes()
        if now == self.before:
            return None
        self.before = now
        return self.host


def _in_64_bits(x: int) -> int:
    return x if -(1 << 63) <= x < 1 << 63 else (x + (1 << 63)) % (1 << 64) - (1 << 63)


class _Results:
    """What a run gives. `slots` names for each the buffer that lies in its slot, "" where the value
    is copied there: it is the memory of an input, or of another result."""

    def __init__(self, program: ResidentProgram) -> None:
        self.accesses: list[Access] = [access for access, _ in program.outputs]
        self.avals = [aval for _, aval in program.outputs]
        self.slots: list[str] = []
        for access in self.accesses:
            home = program.buffers[access.buffer].home
            fresh = program.buffers[home].kind == "output" and home not in self.slots
            self.slots.append(home if fresh else "")
        self.homes = [program.buffers[a.buffer].home for a in self.accesses]

    def sizes(self, program: ResidentProgram) -> list[int]:
        return [program.buffers[home].nbytes for home in self.homes]

    def copies(self, memory: _Memory, regions: dict[str, Region]) -> list[tuple[Region, Region]]:
        """(to, from) of those that lie elsewhere."""
        found = []
        for name, home, slot in zip(self.slots, self.homes, memory.results, strict=True):
            source = regions[home]
            if not name and source.nbytes:
                to = Region(slot.own.address, source.nbytes, writes=True, reads=False)
                found.append((to, source))
        return found

    def given(self, memory: _Memory, place: device, stream: Any) -> list[Any]:
        """Arrays; of numbers their values, which are waited for."""
        found: list[Any] = []
        for access, aval, slot in zip(self.accesses, self.avals, memory.results, strict=True):
            if aval.weak:
                value = np.zeros(1, aval.dtype.np)
                offset = access.offset * aval.dtype.itemsize
                region = Region(slot.own.address + offset, value.nbytes)
                memory.pool.device.download(value, region, stream)
                found.append(value[0].item())
                continue
            there = Aval(access.shape, aval.dtype, str(place))
            buffer = slot.give(stream)
            buffer.used_on(stream)
            found.append(DeviceArray(buffer, there, access.strides, access.offset))
        return found


class _Commands:
    """The launches of a program, prepared: kernels, grids and arguments, for a device to queue.
    What changes its place is put into those alone that reach it."""

    def __init__(self, program: ResidentProgram, name: str) -> None:
        self.program = program
        self.regions: dict[str, Region] = {}
        self.key: tuple[int, ...] | None = None  # where the inputs lie that are used in place
        self.prepared: list[tuple[TritonKernel, tuple[int, int, int], list[Any]]] = []
        self.names: list[list[str]] = []
        self.writes: list[set[str]] = []
        self.users: dict[str, list[int]] = {}
        pairs = zip(kernels_of(program), program.launches, strict=True)
        for k, (kernel, launch) in enumerate(pairs):
            names = [f"errors {k}" if n == "errors" else n for n in arguments_of(launch)]
            kernel = replace(kernel, name=f"{name}:{kernel.symbol}")
            self.prepared.append((kernel, (launch.programs, 1, 1), [None] * len(names)))
            self.names.append(names)
            self.writes.append({self.home(n) for n in launch.writes} | _own_writes(launch, k))
            for n in names:
                self.users.setdefault(self.home(n), []).append(k)

    def home(self, name: str) -> str:
        found = self.program.buffers.get(name)
        return name if found is None else found.home

    def place(self, regions: dict[str, Region]) -> None:
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
                    writes = home in self.writes[k]
                    arguments[j] = Region(found.address, found.nbytes, writes)
            self.prepared[k] = kernel, grid, arguments

    def _place_errors(self, slots: Region) -> None:
        for k, first in enumerate(slots_of(self.program)[0]):
            count = len(self.program.launches[k].checks)
            self.regions[f"errors {k}"] = Region(slots.address + 4 * first, 4 * count)


def _own_writes(launch: Launch, k: int) -> set[str]:
    """What a launch writes beside buffers."""
    found = {f"errors {k}"} if launch.checks else set()
    return found | {STATE} if launch.kernel == "join_checks" else found
