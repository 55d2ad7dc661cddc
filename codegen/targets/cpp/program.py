"""Emit: the whole program as one C++ source with one entry. Tiled -> Spelled -> Batched -> (with a
Plan) Source.

Kernels that are the same up to their buffers are emitted once, and those of a batch are launched as
one. The entry is a straight line of calls; temporaries are offsets into the arena, library steps
are calls of the headers' routines or of host callbacks.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import Final

from codegen.ir.schema import Fused, Kernel, Library, Plan, Tiled
from codegen.ir.sizes import Size, at_least, name_of, some
from codegen.runtime import artifact
from codegen.schedule import batch_updates
from codegen.schedule.plan import line_up
from codegen.schedule.plan import plan as plan_memory
from codegen.targets.cpp import control, exchange, library, table
from codegen.targets.cpp.clocks import Clocks
from codegen.targets.cpp.epilogue import emit_epilogue, weight
from codegen.targets.cpp.kernel import KernelText, emit_kernel
from codegen.targets.cpp.table import size_text
from eager.base.dataclass import dataclass
from eager.base.fold_text import fold_text
from eager.base.process import threads
from eager.sizes.aval import Aval

ENTRY = "jitcap_entry"
UNIT_BYTES = 10_000  # kernels of this much text are worth a compiler process of their own


@dataclass(eq=False, slots=True)
class Source:
    """Needs of the entry to be called, and the kernels for `explain`. `files`: what is compiled
    (file name -> text), in parts that compile at the same time; `libraries`: parts whose text other
    programs have, too; `show`: gives the whole as one text, to read."""

    show: Callable[[], str]
    signature: artifact.Signature
    kernels: tuple[artifact.Kernel, ...]
    files: Mapping[str, str]
    libraries: Mapping[str, str]

    @property
    def text(self) -> str:
        return self.show()


@dataclass(eq=False, slots=True)
class _Sites:
    """Error sites ("file:line") by number, and host callbacks."""

    names: list[str] = field(default_factory=list)
    hosts: list[artifact.Host | artifact.Exchange] = field(default_factory=list)

    def number(self, where: str) -> int:
        if where not in self.names:
            self.names.append(where)
        return self.names.index(where)

    def beside(self, name: str, places: Addresses) -> None:
        """Note a kernel or a step for the collectives that are under way."""
        for number in places.under_way.values():
            found = self.hosts[number]
            assert isinstance(found, artifact.Exchange)
            self.hosts[number] = replace(found, beside=(*found.beside, name))


@dataclass(frozen=True, eq=False, slots=True)
class Spelled:
    """Kernels as functions, by name."""

    fused: Fused
    texts: Mapping[str, KernelText]

    @property
    def text(self) -> str:
        """Each function once, by the name of the first kernel that it is."""
        names: dict[str, list[str]] = {}
        for name, text in self.texts.items():
            names.setdefault(text.text, []).append(name)
        called = names_of(self.fused, self.texts)
        functions = (_to_read(text).replace("{name}", called[text]) for text in names)
        equal = (f"// equal: {' '.join(each)}" for each in names.values() if len(each) > 1)
        return "\n\n".join(['#include "jitcap_kernel.h"', *functions, "\n".join(equal)]).rstrip()


Batched = batch_updates.Batched[Kernel | Library, KernelText]


def spell(tiled: Tiled) -> Spelled:
    """Every kernel as a function."""
    fused, symbolic = tiled.fused, bool(tiled.fused.program.symbols)
    texts = {
        item.name: emit_kernel(item, tiled.schedules[item.name], fused.buffers, symbolic=symbolic)
        for item in fused.kernels()
    }
    for item in fused.items:
        if isinstance(item, Library) and item.epilogue is not None:
            texts[item.epilogue.name] = emit_epilogue(item, fused.buffers, symbolic=symbolic)
    return Spelled(fused, texts)


def batch(spelled: Spelled) -> Batched:
    """Equal updates of different tensors side by side.

    Only kernels that touch no temporaries move, so that memory never grows by it: a gradient that
    stays in `.grad` outlives the program anyway; one that dies in its update does so at once."""
    fused, texts = spelled.fused, spelled.texts
    large = {b.name for b in fused.buffers.values() if b.kind == "temp" and not at_least(1, b.size)}
    keys = {
        item.name: texts[item.name].text
        for item in fused.kernels()
        if some(texts[item.name].size)
        and large.isdisjoint(fused.homes((*item.reads(), *item.writes())))
    }
    failing = fused.failing()  # comes before the first item that writes an input
    barrier = fused.items[max(failing)] if failing else None
    batches = batch_updates.batch_updates(fused, fused.items, keys, barrier)
    items = tuple(item for batch in batches for item in batch)
    return Batched(replace(fused, items=items), batches, texts)


def plan(batched: Batched) -> Plan:
    """Memory for the temporaries, and for what library steps need while they run."""
    return plan_memory(batched.fused, scratch(batched))


def scratch(batched: Batched) -> dict[str, tuple[int, Size]]:
    """Memory that items need while they run, by name: (position, bytes)."""
    found = {
        library.scratch_name(item): (i, size)
        for i, item in enumerate(batched.fused.items)
        if isinstance(item, Library) and some(size := library.scratch_bytes(item))
    }
    return found | {
        room_name(item.name): (i, batched.known[item.name].room * threads.room())
        for i, item in enumerate(batched.fused.items)
        if isinstance(item, Kernel) and some(batched.known[item.name].room)
    }


def plan_body(batched: Batched) -> Plan:
    """Memory plan of a program inside another: offsets are expressions of the symbols."""
    return line_up(plan(batched))


def room_name(kernel: str) -> str:
    """The name under which a plan keeps the buffers of rows of a kernel."""
    return f"{kernel}.rows"


def emit(batched: Batched, plan: Plan, clocks: Clocks | None = None) -> Source:
    """The source; with `clocks`, each part of it is timed, and stands in their list."""
    fused, places = batched.fused, Addresses(batched.fused, plan)
    writer = _Emission(places.first_host, clocks)
    calls = writer.lines(batched, places)
    functions = list(writer.functions.values())
    declared, libraries = library.heavy(writer.steps)
    files = {}
    here, *others = share_out(functions, threads.get_num_threads())
    for i, part in enumerate(others):
        heads = (f"{text.types}\n{text.head};".replace("{name}", name) for name, text in part)
        declared = [*declared, "namespace jc {", *heads, "}"]
        files[f"kernels{i}.cpp"] = unit(part)
    files = {"graph.cpp": writer.main(here, declared, calls), **files}
    signed = signature(fused, plan, writer.sites)
    show = functools.partial(writer.listing, functions, calls)
    return Source(show, signed, tuple(writer.kernels), files, libraries)


Functions = list[tuple[str, KernelText]]
NAMED: Final = 4  # of the ops that a kernel fuses, in the name of its function


def names_of(fused: Fused, texts: Mapping[str, KernelText]) -> dict[str, str]:
    """The names of functions by their texts: the number of the first kernel that one is, and what
    other profilers show."""
    kernels = {kernel.name: kernel for kernel in fused.kernels()}
    steps = (item for item in fused.items if isinstance(item, Library))
    kernels |= {step.epilogue.name: step.epilogue for step in steps if step.epilogue is not None}
    names: dict[str, str] = {}
    for name, text in texts.items():
        if name in kernels:
            names.setdefault(text.text, f"{name}{_fused(kernels[name])}")
    return names


def _fused(kernel: Kernel) -> str:
    """Its first ops as the end of a name in C++: "_exp_mul_sum"."""
    words = kernel.note.partition(" -> ")[0].split()
    ops = [word for word in words if not re.fullmatch(r"v\d+", word)][:NAMED]
    return re.sub(r"\W", "_", "".join(f"_{op}" for op in ops), flags=re.ASCII)


class _Emission:
    """State of the emission: kernels and bodies as functions, each text once."""

    def __init__(self, first_host: int, clocks: Clocks | None = None) -> None:
        self.first_host = first_host
        self.clocks = clocks
        self.names: dict[str, str] = {}  # of functions: of the first kernel that one is
        self.functions: dict[str, tuple[str, KernelText]] = {}
        self.kernels: list[artifact.Kernel] = []
        self.bodies: dict[str, str] = {}  # lines -> the function, those that it calls before it
        self.named: dict[Batched, str] = {}  # the functions of bodies that many steps call
        self.steps: list[Library] = []  # that call routines
        self.sites = _Sites()
        self.rooms = False  # whether members of a team have memory of their own

    def lines(self, batched: Batched, places: Addresses) -> list[str]:
        """The calls of a program, or of a body."""
        calls: list[str] = places.sizes()
        self.names = names_of(batched.fused, batched.known) | self.names
        self.rooms |= places.has_scratch()
        left = batched.fused.failing()
        done = exchanged = 0
        for batch in batched.batches:
            first = batch[0]
            if left and done > max(left):
                calls.append("if (jc::error_of(arena)->code) return 1;  // no input is written yet")
                left = set()
            done += len(batch)
            if isinstance(first, Library):
                calls += self.timed(batch, self.step(first, places, batched), places)
                if not first.op.half:
                    self.sites.beside(first.name, places)
                if first.op.half or first.bodies:
                    exchanged = len(calls)
            else:
                texts = {item.name: batched.known[item.name] for item in batch}
                name = self.function(first, texts[first.name])
                lines = [call_kernel(name, texts, places, self.sites)]
                calls += self.timed(batch, lines, places, name)
                self.sites.beside(name, places)
            calls += exchange.polls(places)
        if exchanged and places.top == "b":
            calls[exchanged:exchanged] = exchange.finish(self.sites.hosts, places)
        return calls

    def timed(
        self,
        batch: Sequence[Kernel | Library],
        lines: list[str],
        places: Addresses,
        code: str = "",
    ) -> list[str]:
        """The lines of a part, which calls `code`, with a clock around them if there are clocks."""
        if self.clocks is None:
            return lines
        return self.clocks.around(batch, lines, places.fused.buffers, code)

    def function(self, kernel: Kernel, text: KernelText) -> str:
        """The name of a kernel's function."""
        body = text.text
        if body not in self.functions:
            name = self.names[body]
            self.functions[body] = name, text
            whole = body.replace("{name}", name)
            self.kernels.append(artifact.Kernel(name, whole, (kernel.note, kernel.where)))
        return self.functions[body][0]

    def step(self, step: Library, places: Addresses, batched: Batched) -> list[str]:
        names = [self.body(made["batched"], made["plan"]) for made in step.bodies]
        self.steps.append(step)
        if step.epilogue is None:
            return library.call(step, places, self.sites.hosts, self.sites.number, names)
        text = batched.known[step.epilogue.name]
        name = self.function(step.epilogue, text)
        args = ", ".join(["arena", *arguments(text, places, self.sites)])
        after = f"{{{name}, &env, 0, {weight(step.epilogue)}}}"
        lines = library.call(step, places, self.sites.hosts, self.sites.number, names, after)
        return [lines[0], f"  const {name}_t env = {{{args}}};", *lines[1:]]

    def body(self, batched: Batched, plan: Plan) -> str:
        """The name of a body's function."""
        if batched not in self.named:
            self.named[batched] = self._new_body(batched, plan)
        return self.named[batched]

    def _new_body(self, batched: Batched, plan: Plan) -> str:
        places = Addresses(batched.fused, plan, "work", self.first_host)
        lines = self.lines(batched, places)
        key = "\n".join(lines)
        if key not in self.bodies:
            head = control.head(f"body{len(self.bodies)}")
            text = [f"{head} {{", *("  " + line for line in lines), "  return 0;", "}"]
            self.bodies[key] = "\n".join(text)
        return f"body{list(self.bodies).index(key)}"

    def listing(self, functions: Functions, calls: list[str]) -> str:
        """The source to read: functions apart from each other, equal calls in a loop."""
        spaced = [(name, replace(x, text=f"\n{_to_read(x.text)}")) for name, x in functions]
        parts: list[str] = []
        for line in calls:
            if line.startswith((" ", "}")):
                parts[-1] += f"\n{line}"
            else:
                parts.append(line)
        return self.main(spaced, [], fold_text(parts, braces=True).text.split("\n"))

    def main(self, functions: Functions, declared: list[str], calls: list[str]) -> str:
        """The source with the entry, and with `functions`; `declared` stand elsewhere."""
        timed = self.clocks is not None
        lines = [
            *(["#define JC_CLOCKS"] if timed else []),
            '#include "jitcap_kernel.h"',
            *(f'#include "{name}"' for name in library.headers(self.steps)),
            f"JC_MODULE_FOR({threads.room()})" if self.rooms else "JC_MODULE",
            *declared,
            "namespace jc {",
            *(text.text.replace("{name}", name) for name, text in functions),
            "}",
            "using namespace jc;",
            *self.bodies.values(),
            f"JC_ENTRY JC_STRAIGHT int {ENTRY}(void **b, const double *s, void *arena) {{",
            *(["  JcTimed timed(0);"] if timed else []),
            *("  " + c for c in calls),
            "  return jc::error_of(arena)->code != 0;",
            "}",
            "",
        ]
        return "\n".join(lines)


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


def _to_read(function: str) -> str:
    """A function with loops for what repeats in it."""
    head, *body, end = function.split("\n")
    if not all(line.startswith("  ") for line in body):  # several
        return function
    parts: list[str] = []
    for line in body:
        if parts and line[2:3] in (" ", "}"):
            parts[-1] += f"\n{line}"
        else:
            parts.append(line)
    return f"{head}\n{fold_text(parts, braces=True).text}\n{end}"


class Addresses:
    """C++ addresses of buffers inside the entry, or inside a body, whose temporaries lie in
    `work`."""

    def __init__(self, fused: Fused, plan: Plan, work: str = "", first_host: int = 0) -> None:
        self.fused = fused
        self.plan = plan
        self.work = work or "(char *)arena"
        self.top = "top" if work else "b"
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
        self.table = tensors + len(fused.outputs)  # of the plan for the sizes of a call
        self.first_host = first_host if work else self.table + plan.is_symbolic
        self.under_way: dict[str, int] = {}

    def sizes(self) -> list[str]:
        """Definitions of the symbols, and of the table of the offsets of temporaries of symbolic
        sizes."""
        slots = (
            (v.symbol, self.scalars[f"v{v.id}"]) for v in self.fused.program.inputs if v.symbol
        )
        lines = [f"const i64 {name_of(symbol)} = as_i64(s[{k}]);" for symbol, k in slots]
        table = [f"const i64 *const at_ = (const i64 *)b[{self.table}];"]
        return [*lines, *(table if self.plan.is_symbolic else [])]

    def offset(self, name: str) -> str:
        """Offset of a temporary in the memory for them."""
        if self.plan.is_symbolic:
            return f"at_[{self.plan.slot(name)}]"
        return size_text(self.plan.offsets[name])

    def pointer(self, name: str) -> str:
        """A typed pointer."""
        b = self.fused.buffers[name]
        target = b.home
        kind = f"({table.MEMORY[b.dtype.name]} *)"
        if target in self.slots:
            slot = f"b[{self.slots[target]}]"
            return f"{kind}((char *){slot} + {b.offset})" if b.offset else f"{kind}{slot}"
        start = f" + {b.offset}" if b.offset else ""
        return f"{kind}({self.work} + {self.offset(target)}{start})"

    def location(self, name: str) -> int | None:
        """The position of a buffer as a number: see `step.Addresses`."""
        b = self.fused.buffers[name]
        home = b.alias or name
        if home in self.slots:
            return None if b.offset else self.slots[home]
        offset = None if self.plan.is_symbolic else self.plan.offsets[home]
        return -1 - offset - b.offset if isinstance(offset, int) else None

    def has_scratch(self) -> bool:
        """True if something is planned besides buffers."""
        return not self.fused.buffers.keys() >= {*self.plan.offsets, *self.plan.blocks}

    def scratch(self, step: Library) -> str:
        """A `char *` to the scratch memory planned for a step."""
        return f"({self.work} + {self.offset(library.scratch_name(step))})"

    def slot(self, name: str) -> str:
        """The slot of a number that the program is given; "" for one that it computes."""
        return f"s[{self.scalars[name]}]" if name in self.scalars else ""

    def argument(self, name: str, start: int = 0) -> str:
        """A pointer to the element `start`, or the number itself for a run-time scalar."""
        if name not in self.scalars:
            return f"{self.pointer(name)} + {start}" if start else self.pointer(name)
        b = self.fused.buffers[name]
        slot = f"s[{self.scalars[name]}]"
        if b.dtype.is_floating_point:
            return slot
        return f"-(i32)(as_i64({slot}) != 0)" if b.dtype.name == "bool" else f"as_i64({slot})"


def call_kernel(
    name: str, texts: Mapping[str, KernelText], places: Addresses, sites: _Sites
) -> str:
    """The call of a function, or of a function of a table with one member per text; by the names of
    the kernels."""
    rows = []
    for kernel, text in texts.items():
        args = arguments(text, places, sites)
        if some(text.room):
            args.append(f"(char *)({places.work} + {places.offset(room_name(kernel))})")
        if not some(text.size):
            return f"{name}({', '.join(['arena', *args])});"
        rows.append(", ".join([*args, size_text(text.size)]))
    table = ", ".join(f"{{{row}}}" for row in rows)
    return f"{{ const {name}_t t[] = {{{table}}}; {name}(arena, t, {len(rows)}); }}"


def arguments(text: KernelText, places: Addresses, sites: _Sites) -> list[str]:
    """Arguments of a call of a function: buffers, error sites, sizes."""
    args = [places.argument(name, start) for name, start in text.params]
    args += [str(sites.number(where)) for where in text.sites]
    return [*args, *text.sizes]


def signature(fused: Fused, plan: Plan, sites: _Sites) -> artifact.Signature:
    kinds = "".join(kind_of(v.aval) for v in fused.program.inputs)
    outputs = tuple(spec(v.aval) for v in fused.program.outputs)
    return artifact.Signature(
        kinds, outputs, plan.arena_bytes, tuple(sites.names), tuple(sites.hosts),
        tuple(fused.program.symbols.items()), tuple(plan.blocks.values()),
    )  # fmt: skip


def kind_of(aval: Aval) -> str:
    if not aval.weak:
        return "t"
    return "f" if aval.dtype.is_floating_point else "i"


def spec(aval: Aval) -> artifact.Spec:
    return artifact.Spec(aval.shape, aval.dtype.np)
