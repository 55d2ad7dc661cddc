"""Middle of the stack: op calls -> machine code. `compile(program, target)` is every stage in order; read it first.

Program --lower--> Loops --fuse--> Fused --tile--> Tiled --plan--> Plan --emit--> source --build--> Artifact
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from codegen import fuse, lower, peephole, plan, show, tile, verify, writes
from codegen.emit import cpp, triton
from codegen.ir import Call, Program, Target, Unsupported, Value
from codegen.runtime import cpu, triton_device
from codegen.runtime.artifact import Artifact, Kernel

__all__ = ["Artifact", "Call", "Kernel", "Program", "Target", "Unsupported", "Value", "compile"]

# Each stage: its name, and what it makes of the results of the stages before it. In this order because each needs the one
# before; writes are placed after fusion (they ask which kernel reads what) and before memory is planned.
STAGES: Final[tuple[tuple[str, Callable[..., Any]], ...]] = (
    ("loops", lambda r: lower.lower(peephole.peephole(r["program"]))),
    ("fused", lambda r: fuse.fuse(r["loops"])),
    ("tiled", lambda r: tile.tile(writes.place_writes(r["fused"]))),
    ("plan", lambda r: plan.plan(r["tiled"])),
    ("source", lambda r: cpp.emit(r["tiled"], r["plan"])),
)
GPU_STAGES: Final[tuple[tuple[str, Callable[..., Any]], ...]] = (
    *STAGES[:1],
    ("fused", lambda r: writes.place_writes(fuse.fuse(r["loops"]))),
    ("source", lambda r: triton.emit(r["fused"])),
)
_LOCK = threading.RLock()  # expressions and index forms are interned in tables of the process


def compile(program: Program, target: Target | None = None) -> Artifact:  # noqa: A001
    """Compile `program`. Raises build.NoCompiler, build.CompileError, or Unsupported (the caller runs it in eager)."""
    target = target or Target()
    if target.backend == "triton":
        return _compile_triton(program, target)
    with _LOCK:
        results, texts, times = run_stages(program)
    source: cpp.Source = results["source"]
    start = time.perf_counter()
    runner = cpu.load(cpu.build_shared({"graph.cpp": source.text})).runner(
        cpp.ENTRY, source.signature
    )
    times["build"] = time.perf_counter() - start
    figures = {"arena_bytes": results["plan"].arena_bytes}
    figures |= {f"{name}_us": int(1e6 * seconds) for name, seconds in times.items()}
    return Artifact(runner, source.kernels, texts, figures)


def _compile_triton(program: Program, target: Target) -> Artifact:
    with _LOCK:
        results, texts, _ = run_stages(program, GPU_STAGES)
    artifact = triton_device.load(results["source"], target.isa)
    return replace(artifact, stages=texts)


def run_stages(
    program: Program, stages: tuple[tuple[str, Callable[..., Any]], ...] = STAGES
) -> tuple[dict[str, Any], dict[str, str], dict[str, float]]:
    """All stages but the build: (results, text of each, seconds of each); verified when CHECK is set."""
    results: dict[str, Any] = {"program": program}
    times: dict[str, float] = {}
    check = os.environ.get("CHECK", "0") not in ("", "0")
    for name, stage in stages:
        start = time.perf_counter()
        results[name] = stage(results)
        times[name] = time.perf_counter() - start
        if check:
            verify.verify(name, results[name])
    texts = show.Texts(results)
    return results, texts, times
