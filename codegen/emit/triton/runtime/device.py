"""Triton runtime on a GPU: memory for every buffer, launches, one graph. (TritonProgram, Device) ->
a function on host arrays.

All buffers have a fixed place on the device, so that the launches of a program without run-time
scalars are recorded once as a graph and replayed with one driver call. Inputs are copied in and
results out on each run: arrays live on the host.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from codegen.emit.triton.runtime.cuda import Device, Graph
from codegen.emit.triton.runtime.program import Launch, TritonProgram
from codegen.emit.triton.runtime.run import Binaries, report, table_arrays
from codegen.runtime.artifact import Array
from codegen.runtime.memory import Memory


class DeviceProgram:
    """A program loaded on a device. Calls take turns: the buffers are shared."""

    def __init__(self, program: TritonProgram, device: Device, binaries: Binaries) -> None:
        self.program = program
        self.device = device
        self.launchers = {n: device.load(record, cubin) for n, (record, cubin) in binaries.items()}
        self.sizes = {
            b.name: b.size
            for b in program.buffers.values()
            if b.kind in ("input", "output") and not b.alias
        }
        self.addresses = {
            name: device.allocate(size * program.buffers[name].dtype.itemsize)
            for name, size in self.sizes.items()
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
            memory = Memory(self.program.fused, self.program.buffers, inputs, ("output",))
            self.upload(memory)
            self.run(memory)
            self.raise_errors()
            return self.results(memory)

    def upload(self, memory: Memory) -> None:
        for name in self.sizes:
            if self.program.buffers[name].kind == "input":
                self.device.upload(self.addresses[name], memory.arrays[name])
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
        for name in (*self.written, *(a.buffer for a in self.program.fused.outputs)):
            self.device.download(memory.arrays[name], self.addresses[name])
        return memory.outputs()

    def close(self) -> None:
        """Give the device memory back."""
        own = [self.addresses[name] for name in self.sizes]
        tables = [place for each in self.tables for place in each.values()]
        for place in (self.arena, *own, *self.error_places, *tables):
            self.device.free(place)


def _written(program: TritonProgram) -> Sequence[str]:
    """The inputs whose memory kernels write."""
    inputs = {b.name for b in program.buffers.values() if b.kind == "input"}
    return sorted(f"v{t.id}" for t, _ in program.fused.program.writes if f"v{t.id}" in inputs)
