"""The C++ backend, end: the source compiled, loaded, and called. Stages' results -> Artifact."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from codegen import interpret
from codegen.emit.cpp.program import ENTRY, Source
from codegen.ir import Target
from codegen.runtime import build, cpu
from codegen.runtime.artifact import Artifact


def prepare(target: Target) -> None:
    """Threads are settled first: scratch memory is planned for so many."""
    if target.threads:
        cpu.set_threads(target.threads)


def load(results: Mapping[str, Any], target: Target) -> Artifact:
    """Without a C++ compiler the program runs op by op, and a warning says so once."""
    source: Source = results["source"]
    start = time.perf_counter()
    try:
        path = cpu.build_shared(source.files, cpu.isa_flags(target.isa), source.libraries)
    except build.NoCompiler as error:
        return interpret.interpret(results["program"], str(error))
    runner = cpu.load(path).runner(ENTRY, source.signature)
    seconds = time.perf_counter() - start
    figures = {"arena_bytes": results["plan"].arena_bytes, "build_us": int(1e6 * seconds)}
    callbacks = source.signature.callbacks
    return Artifact(runner, source.kernels, plan=figures, callbacks=callbacks)
