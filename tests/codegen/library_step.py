"""One library step as a program of its own: NumPy arrays of any strides -> compiled C++ -> NumPy
arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from codegen.emit import cpp_library
from codegen.emit.cpp_table import MEMORY
from codegen.ir import Access, Library
from codegen.runtime import cpu
from codegen.runtime.artifact import Array, Host, Signature, Spec
from eager.aval import Aval, scalar_aval
from eager.dtype import from_numpy
from eager.op import REGISTRY


def access(name: str, x: Array) -> Access:
    return Access(name, 0, x.shape, tuple(s // x.itemsize for s in x.strides))


def library(op: str, operands: Sequence[Any], attrs: dict[str, Any], name: str) -> Library:
    """The step `name` (a routine) for `op` on arrays; numbers stay as they are."""
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
    return Library(name, REGISTRY[op], reads, names, attrs, own, outs, "user.py:1")


class Step:
    """A compiled step. `run(*operands)` may be called again with arrays of the same shapes and
    strides."""

    def __init__(
        self, op: str, operands: Sequence[Any], attrs: dict[str, Any], name: str = ""
    ) -> None:
        self.step = library(op, operands, attrs, name or op)
        self.sites: list[str] = []
        self.hosts: list[Host] = []
        places = [r.buffer for r in self.step.reads if isinstance(r, Access)] + list(self.step.outs)
        avals = (*self.step.avals, *self.step.out_avals)
        self.slots = {name: i for i, name in enumerate(places)}
        self.types = {name: MEMORY[a.dtype.name] for name, a in zip(places, avals, strict=True)}
        self.first_host = len(places)
        module = cpu.load(cpu.build_shared({"step.cpp": self.source()}))
        self.runner = module.runner("entry", self.signature(len(places) - len(self.step.outs)))

    def source(self) -> str:
        lines = cpp_library.call(self.step, self, self.hosts, self.site)
        return "\n".join(
            [
                *(f'#include "{h}"' for h in cpp_library.headers([self.step])),
                "JC_MODULE",
                "using namespace jc;",
                "JC_ENTRY int entry(void **b, const double *s, void *arena) {",
                *lines,
                "return error_of(arena)->code != 0;",
                "}",
            ]
        )

    def pointer(self, name: str) -> str:
        return f"({self.types[name]} *)b[{self.slots[name]}]"

    argument = pointer

    def scratch(self, step: Library) -> str:
        return "((char *)arena)"

    def site(self, text: str) -> int:
        self.sites.append(text)
        return len(self.sites) - 1

    def signature(self, inputs: int) -> Signature:
        outputs = tuple(Spec(a.shape, a.dtype.np) for a in self.step.out_avals)
        arena = cpp_library.scratch_bytes(self.step)
        return Signature("t" * inputs, outputs, arena, tuple(self.sites), tuple(self.hosts))

    def run(self, *operands: Any) -> list[Array]:
        return self.runner([x for x in operands if isinstance(x, np.ndarray)])


def compiled(op: str, *operands: Any, name: str = "", **attrs: Any) -> list[Array]:
    return Step(op, operands, attrs, name).run(*operands)


def reference(op: str, *operands: Any, **attrs: Any) -> tuple[Array, ...]:
    return REGISTRY[op].run(operands, attrs)
