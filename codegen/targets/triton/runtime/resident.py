"""Behind the stages: a program that lives in a device's memory. TritonProgram -> Artifact whose run
takes and gives arrays there, or (a copy each) of the host.

Inputs on the device are used where they lie, and written there; those of the host are copied into
slots of the program, and run-time numbers, all of them, into one block that kernels load them from.
Temporaries share one arena and results have slots (`pool.Slot`), so that addresses stay: the
launches are prepared once, recorded at the second run that writes the same memory, and from then on
a run is one replay. An input that is only read and comes from elsewhere than before gets a slot and
is copied there; one that is written makes a new recording.

Where sizes are symbols, the kernels take them as arguments. Grids, places and the recording are
those of one vector of sizes (`resident_run`), of which the last few are kept; the arena is as large
as the largest needs.

A check that fails on the device is noticed by the host when it next waits. Inputs are then what
they were before that run (`emit.triton.guard`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from codegen.ir.schema import Unsupported
from codegen.runtime.artifact import INDEX_SITE, Artifact, Kernel, OutOfRange, Runs, broken
from codegen.targets.triton.guard import JOIN, WORDS, slots_of
from codegen.targets.triton.runtime.compile_pool import compile_all
from codegen.targets.triton.runtime.kernel import TritonKernel, kernels_of, target_of
from codegen.targets.triton.runtime.program import TritonProgram, said
from codegen.targets.triton.runtime.resident_data import look
from codegen.targets.triton.runtime.resident_run import Common, Inputs, Sized
from eager.base.dataclass import dataclass
from eager.base.process.locks import lock
from eager.device import device, places
from eager.device.pool import Pool
from eager.sizes.symint import evaluate

INDEX: Final = ": an index within a size of "  # so begins what a check of indices says
VECTORS: Final = 16  # of sizes that are kept, each with its launches and its recording
UNSETTLED: Final = 1024  # runs, before the host waits for them: what would undo them is held


def resident(program: TritonProgram, place: str, name: str, *, host: bool = False) -> Artifact:
    """The artifact of a program, emitted here or found on disk. Raises Unsupported where triton is
    not installed."""
    try:
        run = Resident(program, places.pool(device(place)), name, host=host)
    except ModuleNotFoundError as error:
        raise Unsupported(str(error)) from error
    kernels = tuple(Kernel(k.name, k.source, k.notes) for k in program.kernels.values())
    plan = {
        "arena_bytes": program.arena_bytes,
        "symbolic_bytes": len(program.lives),
        "launches": len(program.launches),
    }
    return Artifact(run, kernels, plan=plan, runs=run.counted)


@dataclass(slots=True)
class _Run:
    """Undo record of one run that is not settled yet: `undo` reverts what it changed on the
    host."""

    number: int
    undo: Callable[[], None]


class Resident:
    """A program on a device. Calls take turns: they share its memory. `host`: what it is called
    with and gives are arrays of the host, and it waits."""

    def __init__(
        self, program: TritonProgram, pool: Pool, name: str, *, host: bool = False
    ) -> None:
        self.program = program
        self.place = device("cuda", pool.device.index)
        self.name = name
        self.host = host
        self.pool = pool
        self.inputs = Inputs.of(program)
        self.symbols = program.symbols
        firsts, self.slots = slots_of(program)
        self.sites = {
            first + i: text
            for first, launch in zip(firsts, program.launches, strict=True)
            for i, text in enumerate(launch.checks)
        }
        texts = self.sites.values()
        self.prompt = host or any(INDEX not in s and INDEX_SITE not in s for s in texts)
        self.kernels = [
            replace(kernel, name=f"{name}:{kernel.symbol}") for kernel in kernels_of(program)
        ]
        self._compile([(k, None) for k in self.kernels if not k.strides])
        for kernel in self.kernels:
            kernel.prepare(self.pool.device.properties)
        self.common: Common | None = None
        self.sized: dict[tuple[int, ...], Sized] = {}  # by the symbols' values, the last used last
        self.counted = Runs()
        self.stream: Any = None
        self.runs = 0  # since the checks were last clear
        self.vectors: list[tuple[int, tuple[int, ...]]] = []  # of runs that are not settled
        self.undo: list[_Run] = []
        self.counts = JOIN in program.kernels  # the runs that were whole
        self._lock = lock()
        self.pool.holders.add(self)

    def _compile(self, kernels: Sequence[tuple[TritonKernel, Sequence[bool] | None]]) -> None:
        properties = self.pool.device.properties
        if not properties.is_simulated:
            compile_all(kernels, target_of(properties.major, properties.minor))

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
            stream = places.stream(self.pool.device)
            common = self._common(stream)
            values = tuple([int(inputs[i]) for _, i in self.symbols]) if self.symbols else ()
            run = self.sized.get(values)
            if run is None or values:
                run = self._at(values, common)
            for tensor in () if self.prompt else replaced:
                tensor._grad = None
            if max(len(self.vectors), len(self.undo)) >= UNSETTLED:
                self._settle()
            run(inputs, stream)
            if self.sites:
                self.pool.checks.ran[self] = None
                if values:
                    self.vectors.append((self.runs, values))
                self.runs += 1
                if undo is not None:
                    self.undo.append(_Run(self.runs - 1, undo))
                if self.prompt:
                    self._raise_prompt()
            if self.host:
                run.bring_back(inputs, stream)
                return run.results.downloaded(run.slots, stream)
            return run.results.given(run.slots, self.place, stream)

    def _settle(self) -> None:
        """Wait for the runs so far, so that what is kept of them does not grow. Raises IndexError,
        not CheckFailed, which would be one of this call."""
        error = self._found()
        if error is not None:
            raise IndexError(str(error)) from error

    def _raise_prompt(self) -> None:
        self.pool.checks.ran.pop(self, None)
        error = self._found()
        if error is not None:
            raise error

    def _common(self, stream: Any) -> Common:
        if self.common is None:
            checks = bool(self.sites)
            self.common = Common(self.inputs, self.slots, self.pool, stream, checks=checks)
        elif self.stream is not stream:
            event = self.pool.device.event()
            self.stream.record(event)
            stream.wait(event)
        common = self.common
        for buffer in common.buffers:
            buffer.used_on(stream)
        self.stream = common.stream = stream
        return common

    def _at(self, values: tuple[int, ...], common: Common) -> Sized:
        """The program at these values of its symbols."""
        run = self.sized.get(values)
        if run is None:
            program = self.program
            if self.symbols:
                names = (name for name, _ in self.symbols)
                program = program.at(dict(zip(names, values, strict=True)))
                look(program)
                self._compile([(k, known) for k, known in self._variants(program) if k.strides])
            common.reserve(program.arena_bytes)
            run = Sized(program, self.kernels, common, self.counted)
            if len(self.sized) >= VECTORS:
                del self.sized[next(iter(self.sized))]
        else:
            del self.sized[values]
        self.sized[values] = run
        return run

    def _variants(self, program: TritonProgram) -> Iterator[tuple[TritonKernel, list[bool]]]:
        """Each kernel, and which of its arguments are as kernels want them."""
        for kernel, launch in zip(self.kernels, program.launches, strict=True):
            names = launch.passed[: kernel.own]
            yield kernel, [program.sizes.get(name, 0) % 16 == 0 for name in names]

    # ---- checks
    def verdict(self) -> Exception | None:
        """Wait for the runs so far: what a check of them found, and the host as before that run."""
        with self._lock:
            return self._found()

    def _found(self) -> Exception | None:
        common, unit = self.common, self.pool.device
        if common is None:
            return None
        found = np.zeros(WORDS + self.slots, np.int32)
        unit.download(found, common.state, self.stream)
        whole = int(found[1]) if self.counts else self.runs - 1
        if not found[WORDS:].any():
            self.undo.clear()
            self.vectors.clear()
            return None
        unit.clear(common.state._replace(writes=True, reads=False), self.stream)
        undo, self.undo, self.runs = self.undo, [], 0
        vectors, self.vectors = dict(self.vectors), []
        for run in reversed(undo):
            if run.number >= whole:
                run.undo()
        site = self.sites[int(np.flatnonzero(found[WORDS:])[0])]
        sizes = dict(zip((name for name, _ in self.symbols), vectors.get(whole, ()), strict=False))
        known = {name: evaluate(n, sizes) for name, n in self.program.sizes.items()}
        message, _, where = said(site, known).partition("|")
        return OutOfRange(message, where) if INDEX in message else broken(message, where)

    # ---- memory
    @property
    def held(self) -> int:
        """Bytes that it keeps between calls."""
        own = 0 if self.common is None else self.common.nbytes
        return own + sum(run.nbytes for run in self.sized.values())

    def let_go(self) -> None:
        """Give the memory back, unless a call is going on."""
        if self._lock.acquire(blocking=False):
            try:
                if self in self.pool.checks.ran:
                    return
                self.sized.clear()
                self.common = None
                self.runs = 0
            finally:
                self._lock.release()
