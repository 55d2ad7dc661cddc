"""Triton runtime: runs an emitted program on a device or in the interpreter. (TritonProgram,
inputs) -> outputs.

`interpreted` runs the kernels on NumPy memory, one program after the other: for tests, and for
debugging with print and pdb. `on_device` compiles them, keeps temporaries on the GPU, and launches.
Both raise CheckFailed when a check failed; written inputs are updated when none did.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from codegen.ir import Access, Buffer
from codegen.runtime import cache, triton_build
from codegen.runtime.artifact import INDEX_SITE, CheckFailed, OutOfRange
from codegen.runtime.triton_build import DEFAULT_TARGET, Record
from codegen.runtime.triton_program import Launch, Tables, TritonProgram

Array = np.ndarray[Any, Any]
Run = Callable[[list[Any]], list[Array]]
Platform = tuple[str, int, int]
Binaries = dict[str, tuple[Record, bytes]]


class Memory:
    """The arrays behind a program's buffers for one run; `kinds` are those to make."""

    def __init__(
        self,
        program: TritonProgram,
        inputs: Sequence[Any],
        kinds: Sequence[str] = ("temp", "output"),
    ) -> None:
        self.arrays: dict[str, Any] = {}
        by_value = {b.value: b for b in program.buffers.values() if b.kind in ("input", "scalar")}
        for value, given in zip(program.fused.program.inputs, inputs, strict=True):
            own = by_value.get(value.id)
            if own is not None:
                self.arrays[own.name] = own.dtype.np.type(given) if own.kind == "scalar" else given
        for buffer in program.buffers.values():
            if buffer.name not in self.arrays and buffer.kind in kinds:
                home = self.arrays.get(buffer.alias) if buffer.alias else None
                self.arrays[buffer.name] = (
                    np.empty(buffer.size, buffer.dtype.np) if home is None else home
                )

    def output(self, access: Access, buffers: Mapping[str, Buffer]) -> Array:
        """A program output as an array of its shape."""
        flat: Array = self.arrays[access.buffer]
        if (
            access.offset == 0
            and flat.size == int(np.prod(access.shape))
            and flat.flags.c_contiguous
        ):
            return flat.reshape(access.shape)
        item = flat.itemsize
        base = flat.reshape(-1)[access.offset :]
        strides = tuple(s * item for s in access.strides)
        return np.lib.stride_tricks.as_strided(base, access.shape, strides).copy()


def interpreted(program: TritonProgram) -> Run:
    """A function that runs the program in the interpreter. Inputs are written when all went
    well."""
    module = triton_build.load_kernels(program.source)
    interpret = importlib.import_module("codegen.runtime.triton_interpreter").interpret
    places = {v.id: i for i, v in enumerate(program.fused.program.inputs)}
    written = [places[target.id] for target, _ in program.fused.program.writes]

    def run(inputs: list[Any]) -> list[Array]:
        own = list(inputs)
        for i in written:
            own[i] = _same_layout(inputs[i])
        memory = Memory(program, own)
        for launch in program.launches:
            _interpret_one(interpret, module, launch, memory)
        for i in written:
            np.copyto(inputs[i], own[i])
        return finish(program, memory)

    return run


def _same_layout(array: Array) -> Array:
    """A copy with the same strides, over memory of its own."""
    if not array.size:
        return array.copy()
    span = array.itemsize + sum(
        (n - 1) * s for n, s in zip(array.shape, array.strides, strict=True)
    )
    memory = np.empty(span // array.itemsize, array.dtype)
    copy = np.lib.stride_tricks.as_strided(memory, array.shape, array.strides)
    copy[...] = array
    return copy


def _interpret_one(interpret: Any, module: Any, launch: Launch, memory: Memory) -> None:
    errors = np.zeros(max(len(launch.checks), 1), np.int32)
    given = {"errors": errors, **memory.arrays}
    reached: list[Array] = []
    if launch.tables is not None:
        given |= table_arrays(launch.tables, lambda name: memory.arrays[name].ctypes.data)
        reached = [memory.arrays[name] for slot in launch.tables.slots for name in slot]
    arguments = [given[a] for a in launch.arguments]
    interpret(getattr(module, launch.kernel), (launch.programs,), *arguments, reachable=reached)
    report(errors, launch)


def table_arrays(tables: Tables, address: Callable[[str], int]) -> dict[str, Array]:
    """The tables of a grouped launch: addresses [slots, members], each block's member, each
    member's first block, sizes."""
    blocks = np.array(tables.blocks)
    return {
        "table": np.array([[address(name) for name in slot] for slot in tables.slots], np.int64),
        "owner": np.repeat(np.arange(len(blocks)), blocks).astype(np.int32),
        "first": (np.cumsum(blocks) - blocks).astype(np.int32),
        "sizes": np.array(tables.sizes, np.int64),
    }


def report(errors: Array, launch: Launch) -> None:
    """Raises CheckFailed for the first check that failed. Its text is "message|file:line"."""
    for failed, text in zip(errors, launch.checks, strict=False):
        if failed:
            message, _, where = text.partition("|")
            raise (OutOfRange if INDEX_SITE in message else CheckFailed)(message, where)


def finish(program: TritonProgram, memory: Memory) -> list[Array]:
    """The outputs in their shapes. Written inputs were written by the kernels."""
    return [memory.output(a, program.buffers) for a in program.fused.outputs]


def compile_program(program: TritonProgram, target: Platform = DEFAULT_TARGET) -> Binaries:
    """Every kernel of the program compiled for `target`, by name; kept in the compile cache.

    Needs triton for what is not cached, and no device. All pointers are promised to be 16-byte
    aligned: `triton_device` places every buffer so."""
    how = repr([target, *((k.name, k.parameters, k.warps) for k in program.kernels.values())])
    key = cache.digest("triton", version("triton"), how, _prelude(), program.source)
    store = cache.default()
    entry = store.get(key)
    if entry is None:
        compiled = _compile(program, target)
        data = {name: record.to_json() for name, (record, _) in compiled.items()}
        entry = store.put(
            key, data, {f"{name}.cubin": cubin for name, (_, cubin) in compiled.items()}
        )
    return {
        name: (Record.from_json(record), entry.file(f"{name}.cubin").read_bytes())
        for name, record in entry.data.items()
    }


def _compile(program: TritonProgram, target: Platform) -> Binaries:
    module = triton_build.load_kernels(program.source)
    compiled = {}
    for kernel in program.kernels.values():
        compiled[kernel.name] = triton_build.compile_offline(
            getattr(module, kernel.name),
            dict(kernel.parameters),
            {},
            divisible=[name for name, kind in kernel.parameters if kind.startswith("*")],
            warps=kernel.warps,
            target=target,
        )
    return compiled


def _prelude() -> str:
    """The device functions that kernels call are part of what they mean."""
    return Path(__file__).with_name("triton_prelude.py").read_text()
