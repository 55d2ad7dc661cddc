"""Triton runtime on a GPU: memory for every buffer, launches, one graph. (TritonProgram, Device) ->
a function on host arrays.

All buffers have a fixed place on the device, so that the launches of a program without run-time
scalars are recorded once as a graph and replayed with one driver call. Inputs are copied in and
results out on each run: arrays live on the host.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from codegen.ir import Buffer, Unsupported
from codegen.runtime.artifact import Artifact, Kernel
from codegen.runtime.cuda import Device, DeviceUnavailable, Graph, open_device
from codegen.runtime.triton_program import Launch, TritonProgram
from codegen.runtime.triton_run import (
    Array,
    Binaries,
    Memory,
    compile_program,
    interpreted,
    report,
    table_arrays,
)


class DeviceProgram:
    """A program loaded on a device. Calls take turns: the buffers are shared."""

    def __init__(self, program: TritonProgram, device: Device, binaries: Binaries) -> None:
        self.program = program
        self.device = device
        self.launchers = {n: device.load(record, cubin) for n, (record, cubin) in binaries.items()}
        self.spans = _spans(program)
        self.addresses = {
            name: device.allocate(size * program.buffers[name].dtype.itemsize)
            for name, size in self.spans.items()
        }
        self.arena = device.allocate(program.arena_bytes)
        self.addresses |= {name: self.arena + offset for name, offset in program.arena.items()}
        for b in program.buffers.values():
            if b.alias:
                self.addresses[b.name] = self.addresses[b.alias]
        slots = [max(len(launch.checks), 1) for launch in program.launches]
        self.errors = [np.zeros(n, np.int32) for n in slots]
        self.error_places = [device.allocate(4 * n) for n in slots]
        self.tables = [self.place_tables(launch) for launch in program.launches]
        self.written = _written(program)
        self.graph: Graph | None = None
        self.lock = threading.Lock()

    def __call__(self, inputs: list[Any]) -> list[Array]:
        """Run on host arrays. Raises IndexError for an index out of bounds, naming the op and its
        line."""
        with self.lock:
            self.device.activate()
            memory = Memory(self.program, inputs, ("output",))
            self.upload(memory)
            self.run(memory)
            self.raise_errors()
            return self.results(memory)

    def upload(self, memory: Memory) -> None:
        for name, size in self.spans.items():
            if self.program.buffers[name].kind == "input":
                self.device.upload(self.addresses[name], _flat(memory.arrays[name], size))
        for place, launch in zip(self.error_places, self.program.launches, strict=True):
            if launch.checks:
                self.device.upload(place, np.zeros(len(launch.checks), np.int32))

    def run(self, memory: Memory) -> None:
        if any(b.kind == "scalar" for b in self.program.buffers.values()):
            self.launch(memory)
            return
        if self.graph is None:
            self.graph = self.device.capture(lambda: self.launch(memory))
        self.graph.launch()

    def launch(self, memory: Memory) -> None:
        for launch, own in zip(self.program.launches, self.own_arguments(), strict=True):
            arguments = [self.argument(a, own, memory) for a in launch.arguments]
            self.launchers[launch.kernel]((launch.programs, 1, 1), *arguments)

    def own_arguments(self) -> list[dict[str, int]]:
        """What belongs to a launch and not to the program: its error slots and tables."""
        pairs = zip(self.error_places, self.tables, strict=True)
        return [{"errors": errors, **tables} for errors, tables in pairs]

    def place_tables(self, launch: Launch) -> dict[str, int]:
        """The tables of a grouped launch on the device; addresses never change, so once is
        enough."""
        if launch.tables is None:
            return {}
        placed = {}
        for name, array in table_arrays(launch.tables, self.addresses.__getitem__).items():
            placed[name] = self.device.allocate(array.nbytes)
            self.device.upload(placed[name], array)
        return placed

    def argument(self, name: str, own: Mapping[str, int], memory: Memory) -> Any:
        if name in own:
            return own[name]
        if self.program.buffers[name].kind == "scalar":
            return memory.arrays[name].item()
        return self.addresses[name]

    def raise_errors(self) -> None:
        for place, errors, launch in zip(
            self.error_places, self.errors, self.program.launches, strict=True
        ):
            if launch.checks:
                self.device.download(errors, place)
                report(errors, launch)

    def results(self, memory: Memory) -> list[Array]:
        for name in self.written:
            self.device.download(_flat(memory.arrays[name], self.spans[name]), self.addresses[name])
        outs = []
        for access in self.program.fused.outputs:
            flat = memory.arrays[access.buffer]
            self.device.download(flat.reshape(-1), self.addresses[access.buffer])
            outs.append(memory.output(access, self.program.buffers))
        return outs

    def close(self) -> None:
        """Give the device memory back."""
        own = [self.addresses[name] for name in self.spans]
        tables = [place for each in self.tables for place in each.values()]
        for place in (self.arena, *own, *self.error_places, *tables):
            self.device.free(place)


def _spans(program: TritonProgram) -> dict[str, int]:
    """Elements from the first to the last that each input and output holds."""
    strides = {v.id: (v.aval.shape, v.strides) for v in program.fused.program.inputs}
    return {
        b.name: _span(b, strides)
        for b in program.buffers.values()
        if b.kind in ("input", "output") and not b.alias
    }


def _span(b: Buffer, strides: Mapping[int, tuple[tuple[int, ...], tuple[int, ...] | None]]) -> int:
    shape, steps = strides.get(b.value, ((), None))
    if b.kind != "input" or steps is None or not b.size:
        return b.size
    return 1 + sum((n - 1) * s for n, s in zip(shape, steps, strict=True))


def _flat(array: Array, size: int) -> Array:
    """The memory of `size` elements from the array's first one on, as a vector that shares it."""
    return np.lib.stride_tricks.as_strided(array, (size,), (array.itemsize,))


def _written(program: TritonProgram) -> Sequence[str]:
    """The inputs whose memory kernels write."""
    inputs = {b.name for b in program.buffers.values() if b.kind == "input"}
    return sorted(f"v{t.id}" for t, _ in program.fused.program.writes if f"v{t.id}" in inputs)


def on_default_device(program: TritonProgram) -> DeviceProgram:
    """The program on the first GPU. Raises Unsupported, saying why, when there is none."""
    try:
        device = _default_device()
    except DeviceUnavailable as error:
        raise Unsupported(
            f"the triton backend has no device: {error};"
            " JITCAP_ISA=interpreter runs its kernels on NumPy"
        ) from error
    return DeviceProgram(program, device, compile_program(program))


@cache
def _default_device() -> Device:
    return open_device()


def load(program: TritonProgram, isa: str) -> Artifact:
    """What the compiler returns: the program on the GPU, or, for isa "interpreter", on NumPy.

    Raises Unsupported when there is no GPU (and the interpreter was not asked for)."""
    try:
        run = interpreted(program) if isa == "interpreter" else on_default_device(program)
    except ModuleNotFoundError as error:
        raise Unsupported(
            f"the triton backend needs the package {error.name} (pip install 'jitcap[gpu]')"
        ) from error
    kernels = tuple(Kernel(k.name, k.source, k.notes) for k in program.kernels.values())
    figures = {"arena_bytes": program.arena_bytes}
    return Artifact(run, kernels, {"source": program.source}, figures)
