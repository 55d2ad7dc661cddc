"""The C++ backend, end: the source compiled, loaded, and called. Stages' results -> Artifact."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from codegen.emit.cpp.program import ENTRY, Source
from codegen.emit.cpp.runtime import cpu
from codegen.ir import Target
from codegen.runtime.artifact import Artifact


def prepare(target: Target) -> None:
    """Threads are settled first: scratch memory is planned for so many."""
    if target.threads:
        cpu.set_threads(target.threads)


def load(results: Mapping[str, Any], target: Target) -> Artifact:
    """Raises build.NoCompiler or build.CompileError."""
    source: Source = results["source"]
    start = time.perf_counter()
    path = cpu.build_shared(source.files, cpu.isa_flags(target.isa), source.libraries)
    runner = cpu.load(path).runner(ENTRY, source.signature)
    seconds = time.perf_counter() - start
    figures = {"arena_bytes": results["plan"].arena_bytes, "build_us": int(1e6 * seconds)}
    callbacks = source.signature.callbacks
    return Artifact(runner, source.kernels, plan=figures, callbacks=callbacks)
