"""Triton runtime: a program on a device, for arrays of the host. (TritonProgram, Pool) -> a
function on host arrays.

All buffers have a fixed place on the device, so that the launches of a program without run-time
scalars are recorded once and replayed by one call. Inputs are copied in and results out on each
run. Where sizes are symbolic, that is so for each vector of them: the kernels are shared.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from codegen.emit.triton.runtime.kernel import TABLES, TritonKernel
from codegen.emit.triton.runtime.program import Launch, ResidentProgram, TritonProgram
from codegen.runtime.artifact import INDEX_SITE, Array, CheckFailed, OutOfRange
from codegen.runtime.memory import Memory
from eager.device.pool import Buffer, Pool
from eager.device.protocol import Recording, Region

VECTORS: Final = 8  # of sizes, whose memory and recordings are kept


def run_of(program: TritonProgram, pool: Pool) -> Callable[[list[Any]], list[Array]]:
    """The program as a function. ModuleNotFoundError where triton is not installed."""
    kernels = prepared(program, pool)
    symbols = program.fused.program.symbols
    if not symbols:
        return DeviceProgram(program, pool, kernels)

    @functools.lru_cache(VECTORS)
    def at(*values: int) -> DeviceProgram:
        return DeviceProgram(program.at(dict(zip(symbols, values, strict=True))), pool, kernels)

    return lambda inputs: at(*(int(inputs[i]) for i in symbols.values()))(inputs)


def prepared(program: TritonProgram, pool: Pool) -> list[TritonKernel]:
    """The kernel of each launch, ready. ModuleNotFoundError where triton is not installed."""
    kernels = kernels_of(program)
    for kernel in kernels:
        kernel.prepare(pool.device.properties)
    return kernels


class DeviceProgram:
    """A program on a device. Calls take turns: the buffers are shared."""

    def __init__(
        self, program: TritonProgram, pool: Pool, kernels: Sequence[TritonKernel] = ()
    ) -> None:
        self.program = program
        self.pool = pool
        self.device = pool.device
        self.stream = pool.device.main
        self.kernels = kernels or prepared(program, pool)
        self.held: list[Buffer] = []
        self.regions: dict[str, Region] = {
            b.name: self.place(b.size * b.dtype.itemsize)
            for b in program.buffers.values()
            if b.kind in ("input", "output") and not b.alias
        }
        self.inputs = [n for n in self.regions if program.buffers[n].kind == "input"]
        arena = self.place(program.arena_bytes)
        for name, offset in program.arena.items():
            nbytes = program.buffers[name].nbytes
            self.regions[name] = Region(arena.address + offset, nbytes, writes=True)
        for b in program.buffers.values():
            if b.alias:
                address = self.regions[b.alias].address + b.offset
                self.regions[b.name] = Region(address, b.nbytes, writes=True)
        self.errors = [self.place(4 * len(launch.checks)) for launch in program.launches]
        self.written = _written(program)
        taken = {name for launch in program.launches for name in launch.arguments}
        self.takes_numbers = any(
            b.kind == "scalar" and b.name in taken for b in program.buffers.values()
        )
        self.recording: Recording | None = None
        self.lock = threading.Lock()

    def place(self, nbytes: int) -> Region:
        self.held.append(self.pool.empty(nbytes, self.stream))
        return Region(self.held[-1].address, nbytes, writes=True)

    def __call__(self, inputs: list[Any]) -> list[Array]:
        """Run on host arrays. Raises CheckFailed for a check that failed: inputs are as before."""
        with self.lock:
            memory = Memory(self.program.fused, self.program.buffers, inputs, ("output",))
            self.upload(memory)
            self.run(memory)
            self.raise_errors()
            return self.results(memory)

    def upload(self, memory: Memory) -> None:
        for name in self.inputs:
            self.device.upload(self.regions[name], memory.arrays[name], self.stream)
        for region in self.errors:
            if region.nbytes:
                self.device.clear(region, self.stream)

    def run(self, memory: Memory) -> None:
        if self.takes_numbers:
            self.launch(memory)
            return
        if self.recording is None:
            self.recording = self.device.record(lambda: self.launch(memory), self.stream)
        self.recording.replay(self.stream)

    def launch(self, memory: Memory) -> None:
        for kernel, launch, errors in zip(
            self.kernels, self.program.launches, self.errors, strict=True
        ):
            arguments = [
                errors if name == "errors" else self.argument(name, memory)
                for name in arguments_of(launch)
            ]
            if launch.programs:
                self.device.launch(kernel, (launch.programs, 1, 1), arguments, self.stream)

    def argument(self, name: str, memory: Memory) -> Any:
        if name in self.program.sizes:
            return self.program.sizes[name]
        if self.program.buffers[name].kind == "scalar":
            return memory.arrays[name].item()
        return self.regions[name]

    def raise_errors(self) -> None:
        for region, launch in zip(self.errors, self.program.launches, strict=True):
            if launch.checks:
                errors = np.empty(len(launch.checks), np.int32)
                self.device.download(errors, region, self.stream)
                report(errors, launch)

    def results(self, memory: Memory) -> list[Array]:
        for name in (*self.written, *(a.buffer for a in self.program.fused.outputs)):
            self.device.download(memory.arrays[name], self.regions[name], self.stream)
        return memory.outputs()


def kernels_of(program: TritonProgram | ResidentProgram) -> list[TritonKernel]:
    """The kernel of each launch."""
    made: dict[Any, TritonKernel] = {}
    for launch in program.launches:
        k = program.kernels[launch.kernel]
        key = launch.kernel, launch.tables
        if key not in made:
            made[key] = TritonKernel(
                k.name, k.name, program.source, k.parameters, k.warps, launch.tables, k.strides
            )
    return [made[launch.kernel, launch.tables] for launch in program.launches]


def arguments_of(launch: Launch) -> list[str]:
    """The buffers (or "errors") to pass: a kernel's own, and those behind its tables."""
    behind = () if launch.tables is None else launch.tables.slots
    own = [name for name in launch.arguments if name not in TABLES]
    return own + [name for slot in behind for name in slot]


def report(errors: Array, launch: Launch) -> None:
    """Raises CheckFailed for the first check that failed. Its text is "message|file:line"."""
    for failed, text in zip(errors, launch.checks, strict=False):
        if failed:
            message, _, where = text.partition("|")
            raise (OutOfRange if INDEX_SITE in message else CheckFailed)(message, where)


def _written(program: TritonProgram) -> Sequence[str]:
    """The inputs whose memory kernels write."""
    inputs = {b.name for b in program.buffers.values() if b.kind == "input"}
    return sorted(f"v{t.id}" for t, _ in program.fused.program.writes if f"v{t.id}" in inputs)
