"""Middle of the stack: op calls -> machine code. `BACKENDS` is every transformation in order: read
it first.

Program --lower--> Loops --group--> Groups --fuse--> Fused --tile--> Tiled --emit--> source
--load--> Artifact
"""

from __future__ import annotations

import functools
import gc
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

from codegen import show
from codegen.fuse.bodies import compile_bodies
from codegen.fuse.chunk_rows import chunk_rows
from codegen.fuse.epilogues import fuse_epilogues
from codegen.fuse.fuse import fuse
from codegen.fuse.group_nests import group_nests
from codegen.fuse.inline import inline
from codegen.fuse.lower import lower
from codegen.fuse.pack_once import pack_once
from codegen.fuse.rematerialise import rematerialise
from codegen.fuse.row_blocks import row_blocks
from codegen.fuse.split_loops import split_loops
from codegen.fuse.transpose_products import transpose_products
from codegen.ir import expr
from codegen.ir.schema import Call, Check, Fused, Library, Program, Target, Unsupported, Value
from codegen.ir.verify import verify
from codegen.runtime import beside, progress
from codegen.runtime.artifact import Artifact, CheckFailed, Kernel
from codegen.runtime.backend import Backend, Stage
from codegen.runtime.pending import Pending
from codegen.schedule.hoist_updates import hoist_updates
from codegen.schedule.overlap import overlap, receive_in_place
from codegen.schedule.place_parts import place_parts
from codegen.schedule.place_writes import place_writes
from codegen.schedule.share_memory import share_memory
from codegen.targets import cpp, python
from codegen.targets.cpp import tile
from codegen.targets.cpp.cut_loops import cut_loops
from codegen.targets.cpp.narrow_indices import narrow_indices
from codegen.targets.cpp.runtime import cpu
from eager.base import lazy_imports
from eager.base.process.recursion import room

__all__ = [
    "Artifact", "Backend", "Call", "Check", "CheckFailed", "Kernel", "Program", "Stage", "Target",
    "Unsupported", "Value", "begin", "clocked", "compile", "compile_resident",
]  # fmt: skip


def front(*lowering: Stage) -> tuple[Stage, ...]:
    """Op calls -> kernels: the same for all backends, but for which products are loops."""
    return (
        Stage("transposed", transpose_products),  # on op calls: loops could not say it later
        *lowering,
        Stage("inlined", inline),
        Stage("groups", group_nests),  # asks who is stored
        Stage("recomputed", rematerialise),  # asks which group reads what
        Stage("fused", fuse),
    )


def cpp_bodies(fused: Fused) -> Fused:
    """Bodies up to where their code is written into that of the whole."""
    stages = [
        replace(stage, run=cpp.plan_body) if stage.name == "plan" else stage
        for stage in BACKENDS["cpp"].stages
    ]
    return compile_bodies(fused, functools.partial(run_body, stages, "plan"))


def triton_bodies(fused: Fused) -> Fused:
    """Bodies of scans up to what is written as kernels; their numbers lie in memory."""
    for item in fused.items:
        if isinstance(item, Library) and item.attrs.get("programs") and item.name != "scan":
            raise Unsupported(f"the triton backend does not compile {item.name} (at {item.where})")

    def run(program: Program) -> dict[str, Any]:
        made = replace(program, resident=True)
        return run_body(BACKENDS["triton"].stages, "batched", made)

    return compile_bodies(fused, run)


def python_bodies(fused: Fused) -> Fused:
    return compile_bodies(fused, functools.partial(run_body, BACKENDS["python"].stages, "source"))


def triton(name: str, *given: Any) -> Any:
    """A function of the backend for GPUs, which is imported when one of them is called."""
    return getattr(lazy_imports.submodule("codegen.targets", "triton"), name)(*given)


triton_fits: Final = functools.partial(triton, "fits")
FRONT: Final = front(Stage("loops", functools.partial(lower, widen=False)))
BACKENDS: Final[dict[str, Backend]] = {
    "cpp": Backend(
        (
            *front(
                Stage("chunked", chunk_rows),
                Stage("blocks", row_blocks),
                Stage("split_loops", split_loops),
                Stage("packed", pack_once),
                Stage("loops", lower),
            ),
            Stage("overlapped", overlap),  # asks which kernel reads what
            Stage("hoisted", hoist_updates),  # asks which can fail
            Stage("placed", place_writes),  # asks who reads later
            Stage("bodies", cpp_bodies),  # asks where the operands of steps lie
            Stage("products", functools.partial(fuse_epilogues, fits=cpp.fits)),
            Stage("received", receive_in_place),  # asks which results lie in inputs
            Stage("shared", share_memory),  # asks which kernels are left
            Stage("split", tile.split),
            Stage("cut", cut_loops),  # conditions are on single counters only after the split
            Stage("parts", place_parts),  # asks which kernels are copies
            Stage("scheduled", tile.schedule),
            Stage("tiled", narrow_indices),  # asks where the lanes are
            Stage("spelled", cpp.spell),
            Stage("batched", cpp.batch),  # equal texts side by side; the order is final
            Stage("plan", cpp.plan),
            Stage("source", cpp.emit, ("batched", "plan")),
        ),
        cpp.load,
        symbolic=True,
        anticipate=cpp.anticipate,
    ),
    "triton": Backend(
        (
            *FRONT,
            Stage("placed", place_writes),
            Stage("bodies", triton_bodies),
            Stage(
                "products",
                functools.partial(fuse_epilogues, fits=triton_fits),
            ),
            Stage("batched", functools.partial(triton, "batch")),
            Stage("source", functools.partial(triton, "emit")),
        ),
        functools.partial(triton, "load"),
        symbolic=True,
        resident=True,
    ),
    "python": Backend(
        (
            *FRONT,
            Stage("placed", place_writes),
            Stage("bodies", python_bodies),
            Stage("source", python.emit),
        ),
        python.load,
        symbolic=True,
    ),
}


def compile(program: Program, target: Target | None = None) -> Artifact:
    """Compile `program`. Raises build.CompileError, or what the caller answers by running it in
    eager: Unsupported, build.NoCompiler."""
    return begin(program, target).result()


def begin(program: Program, target: Target | None = None) -> Pending[Artifact]:
    """All stages; the artifact is ready when the last compiler is, which waiting for it raises the
    CompileError of. Raises the rest of what `compile` does."""
    target = target or Target()
    backend = BACKENDS[target.backend]
    if backend.resident:
        program = replace(program, resident=True)
    results, texts, times = run_stages(program, target.backend)
    figures = {f"{name}_us": int(1e6 * seconds) for name, seconds in times.items()}
    loaded = backend.load(results, target)
    begun = loaded if isinstance(loaded, Pending) else Pending.of(loaded)
    return begun.then(lambda made: replace(made, stages=texts, plan={**figures, **made.plan}))


def compile_resident(program: Program, place: str, name: str) -> Artifact:
    """The program for a device. Raises Unsupported, saying why, where Triton cannot do it."""
    return compile(program, Target("triton", place=place, name=name))


def clocked(program: Callable[[], Program], target: Target) -> cpu.Clocked:
    """A build of a program for the host, with clocks around its parts."""
    results, _, _ = run_stages(program(), target.backend, "plan")
    return cpp.clocked(results["batched"], results["plan"], target)


def run_stages(
    program: Program, backend: str = "cpp", last: str = ""
) -> tuple[dict[str, Any], show.Texts, dict[str, float]]:
    """The stages of a backend, up to `last`: (results, text of each, seconds of each); verified
    when CHECK is set."""
    _require_symbols(program, backend)
    times: dict[str, float] = {}
    with expr.interning(), _undisturbed():
        results = run_body(BACKENDS[backend].stages, last, program, times)
    return results, show.Texts(results), times


def run_body(
    stages: Sequence[Stage], last: str, program: Program, times: dict[str, float] | None = None
) -> dict[str, Any]:
    """The results of the stages, up to `last`: of a program, or of one inside another. `times` gets
    the seconds of each."""
    results: dict[str, Any] = {"program": program}
    before, check = "program", checked()
    for stage in stages:
        start = time.perf_counter()
        progress.at(stage.name)
        results[stage.name] = stage.run(*(results[name] for name in stage.of or (before,)))
        if times is not None:
            times[stage.name] = time.perf_counter() - start
        if check:
            verify(results[stage.name])
        before = stage.name
        if before == last:
            break
    return results


def checked() -> bool:
    """True if the stages' results are verified."""
    return os.environ.get("CHECK", "0") not in ("", "0")


def _require_symbols(program: Program, backend: str) -> None:
    """Raises Unsupported where sizes are symbolic that the backend, or the program, cannot know."""
    missing = {s.name for s in program.used_symbols()}
    if missing and not BACKENDS[backend].symbolic:
        raise Unsupported(f"symbolic sizes ({', '.join(sorted(missing))}) on backend {backend}")
    missing -= set(program.symbols)
    if missing:
        raise Unsupported(f"sizes of {', '.join(sorted(missing))}, no input of the program")


@contextmanager
def _undisturbed() -> Iterator[None]:
    """No garbage collection, for the passes make no cycles to speak of, and scanning the tables
    costs as much as they do; and room for deep calls. Beside a program all this is the program's:
    it makes garbage meanwhile, and ends recursions at its limit, before the stack of C is full."""
    if beside.is_here():
        yield
        return
    enabled = gc.isenabled()
    gc.disable()
    try:
        with room():
            yield
    finally:
        if enabled:
            gc.enable()
