"""Fifth stage, CPU: the whole program as one C++ source with one entry. Tiled + Plan -> Source.

Kernels that are the same up to their buffers are emitted once. The entry is a straight line of
calls; temporaries are offsets into the arena, library steps are calls of the headers' routines or
of host callbacks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from codegen.emit import cpp_library
from codegen.emit import cpp_table as table
from codegen.emit.cpp_kernel import KernelText, emit_kernel
from codegen.ir import Fused, Kernel, Library, Plan, Tiled
from codegen.runtime import artifact
from eager.aval import Aval

ENTRY = "jitcap_entry"
UNIT_BYTES = 40_000  # kernels beyond twice this much text compile as a second source, side by side


@dataclass(eq=False, slots=True)
class Source:
    """The text, what the entry needs to be called, and the kernels for `explain`. `units`: further
    sources (file name -> text) of the same object, compiled beside it."""

    text: str
    signature: artifact.Signature
    kernels: tuple[artifact.Kernel, ...]
    units: Mapping[str, str] = field(default_factory=dict)


@dataclass(eq=False, slots=True)
class _Sites:
    """Error sites ("file:line") by number, and host callbacks."""

    names: list[str] = field(default_factory=list)
    hosts: list[artifact.Host] = field(default_factory=list)

    def number(self, where: str) -> int:
        if where not in self.names:
            self.names.append(where)
        return self.names.index(where)


def emit(tiled: Tiled, plan: Plan) -> Source:
    fused = tiled.fused
    places = Places(fused, plan)
    functions: dict[str, str] = {}
    kernels: list[artifact.Kernel] = []
    calls: list[str] = []
    sites = _Sites()
    steps = [item for item in fused.items if isinstance(item, Library)]
    for item in fused.items:
        if isinstance(item, Kernel):
            text = emit_kernel(item, tiled.schedules[item.name], fused.buffers)
            name = functions.get(text.text)
            if name is None:
                name = functions[text.text] = f"k{len(functions)}"
                kernels.append(
                    artifact.Kernel(
                        name, text.text.replace("{name}", name), (item.note, item.where)
                    )
                )
            calls.append(call_kernel(name, text, places, sites))
        else:
            calls += cpp_library.call(item, places, sites.hosts, sites.number)
    declared, units = cpp_library.heavy(steps)
    texts = [text.replace("{name}", name) for text, name in functions.items()]
    here, beside = share_out(texts)
    if beside:
        units = {**units, "kernels.cpp": unit(beside)}
    source = [
        '#include "jitcap_kernel.h"',
        *(f'#include "{name}"' for name in cpp_library.headers(steps)),
        "JC_MODULE",
        *declared,
        "namespace jc {",
        *(head(text) + ";" for text in beside),
        *here,
        "}",
        "using namespace jc;",
        f"JC_ENTRY JC_STRAIGHT int {ENTRY}(void **b, const double *s, void *arena) {{",
        *("  " + c for c in calls),
        "  return jc::error_of(arena)->code != 0;",
        "}",
        "",
    ]
    return Source("\n".join(source), signature(fused, plan, sites), tuple(kernels), units)


def share_out(texts: list[str]) -> tuple[list[str], list[str]]:
    """Kernels of the graph's own source, and those of a second one: half of a large program."""
    total, here = sum(map(len, texts)), 0
    if total < 2 * UNIT_BYTES:
        return texts, []
    for i, text in enumerate(texts):
        here += len(text)
        if 2 * here >= total:
            return texts[: i + 1], texts[i + 1 :]
    return texts, []


def head(text: str) -> str:
    """The declaration of a kernel that another source defines."""
    return text.split(" {\n", 1)[0].removeprefix("static ")


def unit(texts: list[str]) -> str:
    """A source of kernels only."""
    kernels = "\n".join(text.removeprefix("static ") for text in texts)
    return f'#include "jitcap_kernel.h"\nnamespace jc {{\n{kernels}\n}}\n'


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
        target = b.alias or name
        kind = f"({table.MEMORY[b.dtype.name]} *)"
        if target in self.slots:
            return f"{kind}b[{self.slots[target]}]"
        return f"{kind}((char *)arena + {self.plan.offsets[target]})"

    def scratch(self, step: Library) -> str:
        """A `char *` to the scratch memory planned for a step."""
        return f"((char *)arena + {self.plan.offsets[cpp_library.scratch_name(step)]})"

    def argument(self, name: str) -> str:
        """A pointer, or the number itself for a run-time scalar."""
        if name not in self.scalars:
            return self.pointer(name)
        b = self.fused.buffers[name]
        slot = f"s[{self.scalars[name]}]"
        if b.dtype.is_floating_point:
            return slot
        return f"-(i32)(as_i64({slot}) != 0)" if b.dtype.name == "bool" else f"as_i64({slot})"


def call_kernel(name: str, text: KernelText, places: Places, sites: _Sites) -> str:
    args = [places.argument(p) for p in text.params]
    args += [str(sites.number(where)) for where in text.sites]
    args += [str(n) for n in text.sizes]
    return f"{name}({', '.join(['arena', *args])});"


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


LibraryCall = Callable[[Library, Places, list[artifact.Host], Callable[[str], int]], list[str]]
Table = Mapping[str, LibraryCall]
