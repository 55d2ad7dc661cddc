"""Emit: the whole program as one C++ source with one entry. Tiled -> Spelled -> Batched -> (with a
Plan) Source.

Kernels that are the same up to their buffers are emitted once, and those of a batch are launched as
one. The entry is a straight line of calls; temporaries are offsets into the arena, library steps
are calls of the headers' routines or of host callbacks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from codegen.batch_updates import batch_updates
from codegen.emit.cpp import library, table
from codegen.emit.cpp.kernel import KernelText, emit_kernel
from codegen.ir import Fused, Kernel, Library, Plan, Tiled
from codegen.plan import plan as plan_memory
from codegen.runtime import artifact
from codegen.runtime.support import wanted_threads
from eager.aval import Aval

ENTRY = "jitcap_entry"
UNIT_BYTES = 10_000  # kernels of this much text are worth a compiler process of their own


@dataclass(eq=False, slots=True)
class Source:
    """The text, to read; what the entry needs to be called; the kernels for `explain`. `files`: the
    same as it is compiled (file name -> text), in parts that compile at the same time; `libraries`:
    parts whose text other programs have, too."""

    text: str
    signature: artifact.Signature
    kernels: tuple[artifact.Kernel, ...]
    files: Mapping[str, str]
    libraries: Mapping[str, str]


@dataclass(eq=False, slots=True)
class _Sites:
    """Error sites ("file:line") by number, and host callbacks."""

    names: list[str] = field(default_factory=list)
    hosts: list[artifact.Host] = field(default_factory=list)

    def number(self, where: str) -> int:
        if where not in self.names:
            self.names.append(where)
        return self.names.index(where)


@dataclass(frozen=True, eq=False, slots=True)
class Spelled:
    """Kernels as functions, by name."""

    fused: Fused
    texts: Mapping[str, KernelText]

    @property
    def text(self) -> str:
        functions = (text.text.replace("{name}", name) for name, text in self.texts.items())
        return "\n\n".join(['#include "jitcap_kernel.h"', *functions])


@dataclass(frozen=True, eq=False, slots=True)
class Batched:
    """Kernels in batches, one launch each; `fused` has its items in this order."""

    fused: Fused
    batches: tuple[tuple[Kernel | Library, ...], ...]
    texts: Mapping[str, KernelText]

    @property
    def text(self) -> str:
        """One line per launch, for `explain`."""
        return "\n".join(" ".join(item.name for item in batch) for batch in self.batches)


def spell(tiled: Tiled) -> Spelled:
    """Every kernel as a function."""
    fused = tiled.fused
    texts = {
        item.name: emit_kernel(item, tiled.schedules[item.name], fused.buffers)
        for item in fused.kernels()
    }
    return Spelled(fused, texts)


def batch(spelled: Spelled) -> Batched:
    """Equal updates of different tensors side by side.

    Only kernels that touch no temporaries move, so that memory never grows by it: a gradient that
    stays in `.grad` outlives the program anyway; one that dies in its update does so at once."""
    fused, texts = spelled.fused, spelled.texts
    large = {b.name for b in fused.buffers.values() if b.kind == "temp" and b.size > 1}
    keys = {
        item.name: texts[item.name].text
        for item in fused.kernels()
        if texts[item.name].size and large.isdisjoint(fused.homes((*item.reads(), *item.writes())))
    }
    failing = fused.failing()  # comes before the first item that writes an input
    barrier = fused.items[max(failing)] if failing else None
    batches = batch_updates(fused, fused.items, keys, barrier)
    items = tuple(item for batch in batches for item in batch)
    return Batched(replace(fused, items=items), batches, texts)


def plan(batched: Batched) -> Plan:
    """Memory for the temporaries, and for what library steps need while they run."""
    scratch = {
        library.scratch_name(item): (i, size)
        for i, item in enumerate(batched.fused.items)
        if isinstance(item, Library) and (size := library.scratch_bytes(item))
    }
    return plan_memory(batched.fused, scratch)


def emit(batched: Batched, plan: Plan) -> Source:
    fused = batched.fused
    places = Places(fused, plan)
    functions: dict[str, tuple[str, KernelText]] = {}
    kernels: list[artifact.Kernel] = []
    calls: list[str] = []
    sites = _Sites()
    steps = [item for item in fused.items if isinstance(item, Library)]
    left = fused.failing()
    done = 0
    for batch in batched.batches:
        first = batch[0]
        if left and done > max(left):
            calls.append("if (jc::error_of(arena)->code) return 1;  // no input is written yet")
            left = set()
        done += len(batch)
        if isinstance(first, Library):
            calls += library.call(first, places, sites.hosts, sites.number)
            continue
        texts = [batched.texts[item.name] for item in batch]
        body = texts[0].text
        if body not in functions:
            name = f"k{len(functions)}"
            functions[body] = name, texts[0]
            whole = body.replace("{name}", name)
            kernels.append(artifact.Kernel(name, whole, (first.note, first.where)))
        name = functions[body][0]
        calls.append(call_kernel(name, texts, places, sites))
    whole = main(list(functions.values()), [], steps, calls)
    declared, libraries = library.heavy(steps)
    files = share(list(functions.values()), declared, steps, calls)
    return Source(whole, signature(fused, plan, sites), tuple(kernels), files, libraries)


Functions = list[tuple[str, KernelText]]


def main(functions: Functions, declared: list[str], steps: list[Library], calls: list[str]) -> str:
    """The source with the entry, and with `functions`; `declared` stand elsewhere."""
    lines = [
        '#include "jitcap_kernel.h"',
        *(f'#include "{name}"' for name in library.headers(steps)),
        "JC_MODULE",
        *declared,
        "namespace jc {",
        *(text.text.replace("{name}", name) for name, text in functions),
        "}",
        "using namespace jc;",
        f"JC_ENTRY JC_STRAIGHT int {ENTRY}(void **b, const double *s, void *arena) {{",
        *("  " + c for c in calls),
        "  return jc::error_of(arena)->code != 0;",
        "}",
        "",
    ]
    return "\n".join(lines)


def share(
    functions: Functions, declared: list[str], steps: list[Library], calls: list[str]
) -> dict[str, str]:
    """The program as files that compile at the same time, one or more."""
    files: dict[str, str] = {}
    here, *others = share_out(functions, wanted_threads())
    for i, part in enumerate(others):
        heads = (f"{text.types}\n{text.head};".replace("{name}", name) for name, text in part)
        declared = [*declared, "namespace jc {", *heads, "}"]
        files[f"kernels{i}.cpp"] = unit(part)
    return {"graph.cpp": main(here, declared, steps, calls), **files}


def share_out(functions: Functions, most: int) -> list[Functions]:
    """The kernels of the graph's own source, then those of others that compile at the same time: at
    most `most` parts of about the same length."""
    total = sum(len(text.text) for _, text in functions)
    count = min(most, total // UNIT_BYTES, len(functions))
    if count < 2:
        return [functions]
    parts: list[Functions] = [[] for _ in range(count)]
    loads = [0] * count
    for each in sorted(functions, key=lambda f: len(f[1].text), reverse=True):
        lightest = loads.index(min(loads))
        parts[lightest].append(each)
        loads[lightest] += len(each[1].text)
    return parts


def unit(functions: Functions) -> str:
    """A source of kernels only, which another source calls."""
    texts = [
        text.text.replace(f"static {text.head}", text.head).replace("{name}", name)
        for name, text in functions
    ]
    return "\n".join(['#include "jitcap_kernel.h"', "namespace jc {", *texts, "}", ""])


class Places:
    """C++ addresses of buffers inside the entry."""

    def __init__(self, fused: Fused, plan: Plan) -> None:
        self.fused = fused
        self.plan = plan
        self.slots: dict[str, int] = {}
        self.scalars: dict[str, int] = {}
        tensors = 0
        for v in fused.program.inputs:
            if v.aval.weak:
                self.scalars[f"v{v.id}"] = len(self.scalars)
            else:
                self.slots[f"v{v.id}"] = tensors
                tensors += 1
        for i, out in enumerate(fused.outputs):
            self.slots.setdefault(out.buffer, tensors + i)
        self.first_host = tensors + len(fused.outputs)

    def pointer(self, name: str) -> str:
        """A typed pointer."""
        b = self.fused.buffers[name]
        target = b.home
        kind = f"({table.MEMORY[b.dtype.name]} *)"
        if target in self.slots:
            return f"{kind}b[{self.slots[target]}]"
        return f"{kind}((char *)arena + {self.plan.offsets[target]})"

    def scratch(self, step: Library) -> str:
        """A `char *` to the scratch memory planned for a step."""
        return f"((char *)arena + {self.plan.offsets[library.scratch_name(step)]})"

    def argument(self, name: str) -> str:
        """A pointer, or the number itself for a run-time scalar."""
        if name not in self.scalars:
            return self.pointer(name)
        b = self.fused.buffers[name]
        slot = f"s[{self.scalars[name]}]"
        if b.dtype.is_floating_point:
            return slot
        return f"-(i32)(as_i64({slot}) != 0)" if b.dtype.name == "bool" else f"as_i64({slot})"


def call_kernel(name: str, texts: Sequence[KernelText], places: Places, sites: _Sites) -> str:
    """The call of a function, or of a function of a table with one member per text."""
    members = []
    for text in texts:
        args = [places.argument(p) for p in text.params]
        args += [str(sites.number(where)) for where in text.sites]
        members.append(args)
    if not texts[0].size:
        return f"{name}({', '.join(['arena', *members[0]])});"
    rows = [", ".join([*args, str(t.size)]) for args, t in zip(members, texts, strict=True)]
    table = ", ".join(f"{{{row}}}" for row in rows)
    return f"{{ const {name}_t t[] = {{{table}}}; {name}(arena, t, {len(rows)}); }}"


def signature(fused: Fused, plan: Plan, sites: _Sites) -> artifact.Signature:
    kinds = "".join(kind_of(v.aval) for v in fused.program.inputs)
    outputs = tuple(spec(v.aval) for v in fused.program.outputs)
    return artifact.Signature(
        kinds, outputs, plan.arena_bytes, tuple(sites.names), tuple(sites.hosts)
    )


def kind_of(aval: Aval) -> str:
    if not aval.weak:
        return "t"
    return "f" if aval.dtype.is_floating_point else "i"


def spec(aval: Aval) -> artifact.Spec:
    return artifact.Spec(aval.shape, aval.dtype.np)
