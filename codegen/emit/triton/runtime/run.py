"""Triton runtime: runs an emitted program on a device or in the interpreter. (TritonProgram,
inputs) -> outputs.

`interpreted` runs the kernels on NumPy memory, one program after the other: for tests, and for
debugging with print and pdb. `on_device` compiles them, keeps temporaries on the GPU, and launches.
Both raise CheckFailed when a check failed; written inputs are updated when none did.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from codegen.emit.triton.runtime import build
from codegen.emit.triton.runtime.build import DEFAULT_TARGET, Record
from codegen.emit.triton.runtime.program import Launch, Tables, TritonProgram
from codegen.runtime import cache
from codegen.runtime.artifact import INDEX_SITE, Array, CheckFailed, OutOfRange
from codegen.runtime.memory import Memory
from codegen.sizes import span

Run = Callable[[list[Any]], list[Array]]
Platform = tuple[str, int, int]
Binaries = dict[str, tuple[Record, bytes]]


def interpreted(program: TritonProgram) -> Run:
    """A function that runs the program in the interpreter. Inputs are written when all went
    well."""
    module = build.load_kernels(program.source)
    interpret = interpreter().interpret
    places = {v.id: i for i, v in enumerate(program.fused.program.inputs)}
    written = [places[target.id] for target, _ in program.fused.program.writes]

    def run(inputs: list[Any]) -> list[Array]:
        own = list(inputs)
        for i in written:
            own[i] = _same_layout(inputs[i])
        memory = Memory(program.fused, program.buffers, own)
        for launch in program.launches:
            _interpret_one(interpret, module, launch, memory)
        for i in written:
            np.copyto(inputs[i], own[i])
        return memory.outputs()

    return run


def interpreter() -> Any:
    """The module `interpreter`, which imports triton."""
    return importlib.import_module("codegen.emit.triton.runtime.interpreter")


def _same_layout(array: Array) -> Array:
    """A copy with the same strides, over memory of its own."""
    if not array.size:
        return array.copy()
    steps = tuple(s // array.itemsize for s in array.strides)
    memory = np.empty(span(array.shape, steps), array.dtype)
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


def compile_program(program: TritonProgram, target: Platform = DEFAULT_TARGET) -> Binaries:
    """Every kernel of the program compiled for `target`, by name; kept in the compile cache.

    Needs triton for what is not cached, and no device. All pointers are promised to be 16-byte
    aligned: `device` places every buffer so."""
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
    module = build.load_kernels(program.source)
    compiled = {}
    for kernel in program.kernels.values():
        compiled[kernel.name] = build.compile_offline(
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
    return Path(__file__).with_name("prelude.py").read_text()
