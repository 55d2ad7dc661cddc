"""Library steps without a graph around them: NumPy arrays of any strides -> compiled C++ -> NumPy
arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from codegen.ir.schema import Access, Library
from codegen.runtime.artifact import Array, Host, Signature, Spec
from codegen.targets.cpp import library as routines
from codegen.targets.cpp.runtime import cpu
from codegen.targets.cpp.table import MEMORY
from eager.base.dtype import from_numpy
from eager.base.process import threads
from eager.core.op import REGISTRY
from eager.sizes.aval import Aval, scalar_aval


def access(name: str, x: Array) -> Access:
    return Access(name, 0, x.shape, tuple(s // x.itemsize for s in x.strides))


def library(op: str, operands: Sequence[Any], attrs: dict[str, Any]) -> Library:
    """The step of `op` on arrays; numbers stay as they are."""
    avals = tuple(
        Aval(x.shape, from_numpy(x.dtype)) if isinstance(x, np.ndarray) else scalar_aval(x)
        for x in operands
    )
    outs = REGISTRY[op].abstract(avals, attrs)
    reads = tuple(
        access(f"in{i}", x) if isinstance(x, np.ndarray) else x for i, x in enumerate(operands)
    )
    own = tuple(a for a, x in zip(avals, operands, strict=True) if isinstance(x, np.ndarray))
    names = tuple(f"out{i}" for i in range(len(outs)))
    return Library(REGISTRY[op], reads, names, attrs, own, outs, "user.py:1")


@dataclass(frozen=True, eq=False)
class Call:
    """An op on arrays of any strides and on numbers, run by its routine."""

    op: str
    operands: tuple[Any, ...]
    attrs: dict[str, Any]

    def reference(self) -> tuple[Array, ...]:
        """What eager's kernel makes of it."""
        return REGISTRY[self.op].run(self.operands, self.attrs)

    def __str__(self) -> str:
        shapes = [f"{x.dtype}{x.shape}" for x in self.operands if isinstance(x, np.ndarray)]
        return f"{self.op} of {', '.join(shapes)} with {self.attrs}"


def call(op: str, *operands: Any, **attrs: Any) -> Call:
    return Call(op, operands, attrs)


class Step:
    """A call as a step of a graph; `compile_steps` makes it run. `run(*operands)` may be called
    again with arrays of the same shapes and strides."""

    runner: cpu.Runner

    def __init__(self, call: Call) -> None:
        self.step = library(call.op, call.operands, call.attrs)
        self.sites: list[str] = []
        self.hosts: list[Host] = []
        places = [r.buffer for r in self.step.operands if isinstance(r, Access)] + list(
            self.step.outs
        )
        avals = (*self.step.avals, *self.step.out_avals)
        self.slots = {name: i for i, name in enumerate(places)}
        self.types = {name: MEMORY[a.dtype.name] for name, a in zip(places, avals, strict=True)}
        self.first_host = len(places)
        self.top = "b"

    def entry(self, name: str) -> list[str]:
        return [
            f"JC_ENTRY int {name}(void **b, const double *s, void *arena) {{",
            *routines.call(self.step, self, self.hosts, self.site),
            "return error_of(arena)->code != 0;",
            "}",
        ]

    def pointer(self, name: str) -> str:
        return f"({self.types[name]} *)b[{self.slots[name]}]"

    argument = pointer

    def scratch(self, step: Library) -> str:
        return "((char *)arena)"

    def site(self, text: str) -> int:
        self.sites.append(text)
        return len(self.sites) - 1

    def signature(self) -> Signature:
        outputs = tuple(Spec(a.shape, a.dtype.np) for a in self.step.out_avals)
        arena = routines.scratch_bytes(self.step)
        kinds = "t" * (self.first_host - len(outputs))
        return Signature(kinds, outputs, arena, tuple(self.sites), tuple(self.hosts))

    def run(self, *operands: Any) -> list[Array]:
        return self.runner([x for x in operands if isinstance(x, np.ndarray)])


def compile_steps(*calls: Call) -> list[Step]:
    """The steps, each an entry of one source: a process of the C++ compiler for each would take
    minutes."""
    made = [Step(each) for each in calls]
    steps = [m.step for m in made]
    declared, libraries = routines.heavy(steps)
    entries = [line for i, m in enumerate(made) for line in m.entry(f"entry{i}")]
    includes = (f'#include "{h}"' for h in routines.headers(steps))
    source = [
        *includes,
        f"JC_MODULE_FOR({threads.room()})",
        *declared,
        "using namespace jc;",
        *entries,
        "",
    ]
    module = cpu.load(cpu.build_shared({"step.cpp": "\n".join(source)}, (), libraries).result())
    for i, m in enumerate(made):
        m.runner = module.runner(f"entry{i}", m.signature())
    return made


def compiled(*calls: Call) -> list[list[Array]]:
    """The results of each."""
    steps = compile_steps(*calls)
    return [step.run(*each.operands) for step, each in zip(steps, calls, strict=True)]


def reference(op: str, *operands: Any, **attrs: Any) -> tuple[Array, ...]:
    return call(op, *operands, **attrs).reference()
