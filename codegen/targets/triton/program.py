"""Emit: a fused program as one module of Triton kernels and the launches that run it. Batched ->
TritonProgram.

The same kernels as for the CPU: each is perhaps cut into several (`split`), tiled (`tile`), and
written (`kernel`); matrix products come from `dot`, scatters and the like become kernels in
`nests`. Kernels whose text is equal up to buffer names are emitted once and launched with other
buffers; sorting is counting, in `order`. What is not in reach (callbacks into NumPy, complex
numbers) raises Unsupported.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field, replace
from typing import Final

from codegen.ir.expr import Apply
from codegen.ir.routine import Spelling, anything, is_real, spell, spelling
from codegen.ir.schema import Buffer, Kernel, Library, Unsupported
from codegen.ir.sizes import Size, is_static, round_up, some
from codegen.schedule.plan import assign_offsets
from codegen.targets.triton import dot, nests, scan, sort_by_counting
from codegen.targets.triton.group import Batched, Form, emit_group
from codegen.targets.triton.kernel import KernelText, emit_kernel
from codegen.targets.triton.loop import Loop
from codegen.targets.triton.runtime.program import Compiled, Launch, Tables, TritonProgram
from codegen.targets.triton.split import split
from codegen.targets.triton.tile import DEFAULT, Sizes, tile
from eager.base.dataclass import dataclass

HEADER: Final = '''"""Triton kernels of one compiled graph."""

import triton
import triton.language as tl
from triton.language.extra import libdevice

from codegen.targets.triton.runtime import prelude as jc
'''
ALIGN: Final = 256  # of temporaries, in bytes: what a device allocation has


@dataclass
class _Module:
    """Kernels so far, by text. Each has the name of the kernel or the step that it is the first of,
    as the stages before have it; `prefix`: of steps, as of the kernels of a body."""

    buffers: dict[str, Buffer]
    sizes: Sizes
    prefix: str
    names: dict[tuple[str, tuple[tuple[str, str], ...]], str] = field(default_factory=dict)
    kernels: dict[str, Compiled] = field(default_factory=dict)
    launches: list[Launch] = field(default_factory=list)
    values: dict[str, Size] = field(default_factory=dict)  # of the arguments that are sizes

    def add(
        self,
        text: KernelText,
        source: Kernel | Library,
        does: str = "",
        tables: Tables | None = None,
        *,
        writes: tuple[str, ...],
    ) -> None:
        """Launch a kernel, which is new if its text is. `does`: the end of its name."""
        if not some(text.programs) or not text.arguments:  # nothing to compute, or nothing is kept
            return
        key = text.body, text.parameters
        name = self.names.get(key)
        if name is None:
            name = self.names[key] = self._new_name(source, does)
            written = f"@triton.jit\ndef {name}{text.body}\n"
            what = source.note if isinstance(source, Kernel) else source.op.name
            notes = (what, source.where)
            self.kernels[name] = Compiled(
                name, written, text.parameters, text.warps, notes, text.strides
            )
        self.values.update(text.sizes)
        self.launches.append(
            Launch(name, text.arguments, text.programs, text.checks, tables, writes)
        )

    def _new_name(self, source: Kernel | Library, does: str) -> str:
        own = source.name if isinstance(source, Kernel) else self.prefix + source.label
        name = f"{own}_{does}" if does else own
        names = itertools.chain([name], (f"{name}_{i}" for i in itertools.count(2)))
        return next(name for name in names if name not in self.kernels)

    def kernel(self, kernel: Kernel) -> None:
        parts = split(kernel, self.sizes)
        self.buffers.update({b.name: b for b in parts.buffers})
        for part in parts.kernels:
            self.buffers.update({b.name: b for b in part.locals})
            tiling = tile(part, self.sizes)
            for b in tiling.scratch:
                self.buffers[b.name] = replace(b, size=b.size * tiling.rows, kind="temp")
            self.add(emit_kernel(tiling, self.buffers), part, hint(part), writes=part.writes())

    def group(self, forms: Sequence[Form]) -> None:
        text, tables = emit_group(forms, self.buffers, self.sizes)
        first = forms[0].kernel
        writes = tuple(name for f in forms for name in f.kernel.writes())
        self.add(text, first, f"{hint(first)}_of_{len(forms)}", tables, writes=writes)


def emit(batched: Batched, sizes: Sizes = DEFAULT) -> TritonProgram:
    """Every kernel, in order. Raises Unsupported naming the step that Triton cannot do."""
    fused = batched.fused
    module = _Module(dict(fused.buffers), sizes, fused.program.prefix)
    _items(module, batched)
    source = HEADER + "".join(f"\n\n{k.source}" for k in module.kernels.values())
    lives = _lives(module)
    known = is_static(size for *_, size in lives.values())
    arena, size = assign_offsets(lives) if known else ({}, 0)
    program = fused.program
    targets = {target.id for target, _ in program.writes}
    return TritonProgram(
        source, module.kernels, tuple(module.launches), module.buffers, arena, size,
        program.inputs, frozenset(i for i, v in enumerate(program.inputs) if v.id in targets),
        tuple((a, v.aval) for a, v in zip(fused.outputs, program.outputs, strict=True)),
        module.values, {} if known else lives,
    )  # fmt: skip


def _items(module: _Module, batched: Batched) -> None:
    for item, *others in batched.batches:
        if others:
            module.group([batched.known[each.name] for each in (item, *others)])
        elif isinstance(item, Kernel):
            module.kernel(item)
        elif item.epilogue is not None:
            text = dot.dot(item, module.buffers, item.epilogue)
            module.add(text, item, hint(item.epilogue), writes=item.writes())
        elif found := spelling(item, "triton"):
            found.write(module, item)
        else:
            of = "" if is_real(item) else " of complex numbers"
            at = f" at {item.where}" if item.where else ""
            raise Unsupported(f"the triton backend does not compile {item.name}{of}{at}")


def _loop(module: _Module, step: Library) -> None:
    """A scan: its body's kernels, and their launches at each step."""
    body: Batched = step.bodies[0]["batched"]
    fused = body.fused
    inner = replace(module, buffers=dict(fused.buffers), launches=[], prefix=fused.program.prefix)
    loop = Loop(step, fused.program, module.buffers)
    _items(inner, body)
    arena, size = assign_offsets(_lives(inner))
    loop.work(size)
    launches = list(loop.launches(inner.launches, inner.buffers, arena))
    module.buffers.update(loop.own)
    for kernel in loop.before:
        module.kernel(replace(kernel, name=module.prefix + kernel.name))
    module.launches += launches


def _lives(module: _Module) -> dict[str, tuple[int, int, Size]]:
    """(first launch, last launch, bytes) of every temporary with memory of its own."""
    lives: dict[str, tuple[int, int, Size]] = {}
    for i, launch in enumerate(module.launches):
        slots = launch.tables.slots if launch.tables is not None else ()
        for name in (*launch.arguments, *(n for slot in slots for n in slot)):
            b = module.buffers.get(name)
            b = b if b is None or not b.alias else module.buffers[b.alias]
            if b is not None and b.kind == "temp":
                size = round_up(b.nbytes, ALIGN) if some(b.nbytes) else ALIGN
                lives[b.name] = (lives.get(b.name, (i,))[0], i, size)
    return lives


def _nested(rule: nests.Rule) -> Spelling:
    """Loop nests after all."""

    def write(module: _Module, step: Library) -> None:
        nested = rule(step, module.buffers)
        module.buffers.update({b.name: b for b in nested.buffers})
        for kernel in nested.kernels:
            module.kernel(replace(kernel, name=module.prefix + kernel.name))

    return Spelling(write)


def _dot(module: _Module, step: Library) -> None:
    module.add(dot.dot(step, module.buffers), step, writes=step.outs)


def _running(module: _Module, step: Library) -> None:
    text = scan.scan(step, module.buffers, module.sizes)
    module.add(text, step, writes=step.outs)


spell(
    "triton", {name: _nested(rule) for name, rule in (nests.RULES | sort_by_counting.RULES).items()}
)
spell("triton", dict.fromkeys(scan.FUNCTIONS, Spelling(_running)))
spell("triton", {"dot": Spelling(_dot), "scan": Spelling(_loop, anything)})


def hint(kernel: Kernel) -> str:
    """A few telling words for the kernel's name, which profilers show: "exp_sum_div"."""
    words: list[str] = []
    for stage in kernel.stages:
        words += _telling(x.fn for x in stage.walk() if isinstance(x, Apply))
        words += [r.monoid.name for r in stage.reductions]
    return "_".join(list(dict.fromkeys(words))[:4]).replace("__", "_").strip("_") or "copy"


def _telling(names: Iterable[str]) -> Iterator[str]:
    dull = {"add", "sub", "mul", "where", "lt", "le", "gt", "ge", "eq", "ne", "and_", "or_", "neg"}
    found = list(names)
    yield from ([n for n in found if n not in dull] or found[:2])
