"""Middle of the stack: op calls -> machine code. `compile(program, target)` is every stage in
order; read it first.

Program --lower--> Loops --fuse--> Fused --tile--> Tiled --plan--> Plan --emit--> source --build-->
Artifact
"""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

from codegen import expr, fuse, interpret, lower, order, peephole, plan, show, tile, verify, writes
from codegen.emit import cpp, python, triton
from codegen.ir import Call, Check, Program, Target, Unsupported, Value
from codegen.runtime import build, cpu, triton_device
from codegen.runtime.artifact import Artifact, CheckFailed, Kernel

__all__ = [
    "Artifact", "Call", "Check", "CheckFailed", "Kernel", "Program", "Target", "Unsupported",
    "Value", "compile",
]  # fmt: skip

# Each stage: its name, and what it makes of the results of the stages before it. In this order
# because each needs the one before; writes are placed after fusion (they ask which kernel reads
# what), and memory is planned when the order of execution is final.
STAGES: Final[tuple[tuple[str, Callable[..., Any]], ...]] = (
    ("loops", lambda r: lower.lower(peephole.peephole(r["program"]))),
    ("fused", lambda r: fuse.fuse(r["loops"])),
    ("tiled", lambda r: tile.tile(writes.place_writes(order.hoist_updates(r["fused"])))),
    ("spelled", lambda r: cpp.spell(r["tiled"])),
    ("plan", lambda r: plan.plan(r["spelled"].tiled)),
    ("source", lambda r: cpp.emit(r["spelled"], r["plan"])),
)
GPU_STAGES: Final[tuple[tuple[str, Callable[..., Any]], ...]] = (
    (
        "loops",
        lambda r: lower.lower(peephole.peephole(r["program"]), widen=False),
    ),  # tensor cores take 16 bits
    ("fused", lambda r: writes.place_writes(fuse.fuse(r["loops"]))),
    ("source", lambda r: triton.emit(r["fused"])),
)
PYTHON_STAGES: Final[tuple[tuple[str, Callable[..., Any]], ...]] = (
    *GPU_STAGES[:2],
    ("source", lambda r: python.emit(r["fused"])),
)
DEPTH: Final = (
    10_000  # frames: passes recurse over expressions, and a kernel's may be a chain of 640 nodes
)


def compile(program: Program, target: Target | None = None) -> Artifact:
    """Compile `program`. Raises build.NoCompiler, build.CompileError, or Unsupported (the caller
    runs it in eager)."""
    target = target or Target()
    return BACKENDS[target.backend](program, target)


def _compile_cpp(program: Program, target: Target) -> Artifact:
    """Without a C++ compiler the program runs op by op, and a warning says so once."""
    flags = cpu.isa_flags(target.isa)
    if target.threads:
        cpu.set_threads(target.threads)
    with _no_collection():
        results, texts, times = run_stages(program)
    source: cpp.Source = results["source"]
    start = time.perf_counter()
    try:
        path = cpu.build_shared(source.files, flags, source.libraries)
    except build.NoCompiler as error:
        return interpret.interpret(program, str(error))
    runner = cpu.load(path).runner(cpp.ENTRY, source.signature)
    times["build"] = time.perf_counter() - start
    figures = {"arena_bytes": results["plan"].arena_bytes}
    figures |= {f"{name}_us": int(1e6 * seconds) for name, seconds in times.items()}
    return Artifact(runner, source.kernels, texts, figures, source.signature.callbacks)


def _compile_triton(program: Program, target: Target) -> Artifact:
    results, texts, _ = run_stages(program, GPU_STAGES)
    artifact = triton_device.load(results["source"], target.isa)
    return replace(artifact, stages=texts)


def _compile_python(program: Program, target: Target) -> Artifact:
    results, texts, _ = run_stages(program, PYTHON_STAGES)
    source: python.Source = results["source"]
    kernels = (Kernel("loops", source.text),)
    return Artifact(source.run, kernels, texts, {"arena_bytes": 0})


BACKENDS: Final[dict[str, Callable[[Program, Target], Artifact]]] = {
    "cpp": _compile_cpp,
    "triton": _compile_triton,
    "python": _compile_python,
}


@contextmanager
def _no_collection() -> Iterator[None]:
    """No garbage collection: the passes make no cycles to speak of, and scanning the tables costs
    as much as they do."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def run_stages(
    program: Program, stages: tuple[tuple[str, Callable[..., Any]], ...] = STAGES
) -> tuple[dict[str, Any], show.Texts, dict[str, float]]:
    """All stages but the build: (results, text of each, seconds of each); verified when CHECK is
    set."""
    sys.setrecursionlimit(max(sys.getrecursionlimit(), DEPTH))
    results: dict[str, Any] = {"program": program}
    times: dict[str, float] = {}
    check = os.environ.get("CHECK", "0") not in ("", "0")
    with expr.interning():
        for name, stage in stages:
            start = time.perf_counter()
            results[name] = stage(results)
            times[name] = time.perf_counter() - start
            if check:
                verify.verify(name, results[name])
    texts = show.Texts(results)
    return results, texts, times
