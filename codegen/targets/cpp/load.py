"""The C++ backend, end: the source compiled, loaded, and called. Stages' results -> Artifact."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from codegen.ir.schema import Target
from codegen.runtime.artifact import Artifact
from codegen.runtime.pending import Pending
from codegen.targets.cpp.program import ENTRY, Source
from codegen.targets.cpp.runtime import cpu


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
        runner = cpu.load(path.result()).runner(ENTRY, source.signature)
        seconds = begun + time.perf_counter() - start  # those that were spent on it alone
        figures = {"arena_bytes": results["plan"].arena_bytes, "build_us": int(1e6 * seconds)}
        told = source.signature
        return Artifact(
            runner, source.kernels, plan=figures, callbacks=told.callbacks,
            exchanges=told.exchanges,
        )  # fmt: skip

    return Pending(loaded, path.close, waits=path.waits)
