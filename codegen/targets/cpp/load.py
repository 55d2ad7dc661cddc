"""The C++ backend, end: the source compiled, loaded, and called. Stages' results -> Artifact."""

from __future__ import annotations

import functools
import time
from collections.abc import Mapping
from typing import Any

from codegen.ir import expr
from codegen.ir.schema import Plan, Target
from codegen.runtime import progress
from codegen.runtime.artifact import Artifact
from codegen.runtime.pending import Pending
from codegen.targets.cpp.clocks import Clocks
from codegen.targets.cpp.program import ENTRY, Batched, Source, emit, scratch
from codegen.targets.cpp.runtime import cpu
from eager.base.process.recursion import room


def anticipate() -> None:
    """A graph that multiplies matrices is being captured: begin what it will load."""
    cpu.prefetch(["f32"])


def load(results: Mapping[str, Any], target: Target) -> Pending[Artifact]:
    """Begin to compile the source. Raises build.NoCompiler; waiting raises build.CompileError."""
    source: Source = results["source"]
    start = time.perf_counter()
    path = cpu.build_shared(source.files, cpu.isa_flags(target.isa), source.libraries)
    begun = time.perf_counter() - start

    def loaded() -> Artifact:
        start = time.perf_counter()
        if path.waits:
            progress.at(f"C++ compiler, {len(source.kernels)} kernels")
        runner = cpu.load(path.result()).runner(ENTRY, source.signature)
        seconds = begun + time.perf_counter() - start  # those that were spent on it alone
        runner.clocked = functools.partial(clocked, results["batched"], results["plan"], target)
        figures = {"arena_bytes": results["plan"].arena_bytes, "compiler_us": int(1e6 * seconds)}
        told = source.signature
        return Artifact(
            runner, source.kernels, plan=figures, callbacks=told.callbacks,
            exchanges=told.exchanges,
        )  # fmt: skip

    return Pending(loaded, path.close, waits=path.waits)


def clocked(batched: Batched, plan: Plan, target: Target) -> cpu.Clocked:
    """A build of the program with clocks around its parts. Raises what compiling it raises."""
    clocks = Clocks()
    with expr.interning(), room():
        source = emit(batched, plan, clocks)
        clocks.note_memory(batched.fused, batched.batches, plan, scratch(batched))
    path = cpu.build_shared(source.files, cpu.isa_flags(target.isa), source.libraries)
    return cpu.load(path.result()), source.signature, clocks.works
