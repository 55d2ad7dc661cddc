"""Runtime of the backends that write Python: a fused program over flat arrays. (Fused, functions of
its kernels) -> a function on arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from codegen.fuse.bodies import ScanLayout
from codegen.ir.schema import Access, Fused, Kernel, Library
from codegen.ir.sizes import name_of
from codegen.runtime.artifact import Array
from codegen.runtime.callback import callback
from codegen.runtime.memory import Memory
from eager.sizes.substitute import substitute


class FlatProgram:
    """Calls kernels and library ops in order over flat arrays."""

    def __init__(self, fused: Fused, functions: Mapping[str, Any]) -> None:
        self.fused = fused
        self.functions = functions
        self.bodies = {
            item: tuple(FlatProgram(body["source"].fused, functions) for body in item.bodies)
            for item in fused.items
            if isinstance(item, Library)
        }

    def __call__(self, inputs: Sequence[Any]) -> list[Array]:
        memory = Memory(self.fused, inputs)
        for v in self.fused.program.inputs:
            if v.aval.weak:  # kernels read each buffer by an index
                memory.arrays[f"v{v.id}"] = memory.arrays[f"v{v.id}"].reshape(1)
        own = {name_of(symbol): n for symbol, n in memory.sizes.items()}
        arrays = memory.arrays | own if own else memory.arrays
        with np.errstate(all="ignore"):
            for item in self.fused.items:
                self.do(item, arrays, memory)
        return memory.outputs()

    def do(self, item: Kernel | Library, arrays: Mapping[str, Any], memory: Memory) -> None:
        """Run a kernel, or a step. (While a profile runs there is a clock around it.)"""
        if isinstance(item, Kernel):
            self.functions[item.name](arrays)
        else:
            self.step(item, memory)

    def step(self, item: Library, memory: Memory) -> None:
        bodies = self.bodies[item]
        if bodies:
            operands = [_operand(x, memory) for x in item.operands]
            if memory.sizes:
                item = _at(item, memory.sizes)
            results = BODIES[item.name](item, bodies, operands)
        else:
            tensors = [memory.view(x) for x in item.operands if isinstance(x, Access)]
            numbers = [memory.arrays[x][0] for x in item.operands if isinstance(x, str)]
            results = callback(item, memory.sizes)(*tensors, *numbers)
        _store(item, results, memory)


def _operand(x: Any, memory: Memory) -> Any:
    """An operand of a step; its numbers are Python's."""
    if isinstance(x, Access):
        return memory.view(x)
    return memory.arrays[x][0] if isinstance(x, str) else x


Bodies = Sequence[FlatProgram]


def _at(step: Library, sizes: Mapping[str, int]) -> Library:
    """The step where symbols have these values."""
    avals = tuple(replace(a, shape=substitute(a.shape, sizes)) for a in step.out_avals)
    return replace(step, attrs=substitute(step.attrs, sizes), out_avals=avals)


def _scan(step: Library, bodies: Bodies, operands: list[Any]) -> Sequence[Array]:
    """The last carries, and every y."""
    (body,), parts = bodies, ScanLayout.of(step)
    carries = [np.ascontiguousarray(c) for c in operands[: parts.carried]]
    first = parts.carried + parts.sequences
    sequences, rest = operands[parts.carried : first], operands[first : parts.counters]
    counters = operands[parts.counters :]
    ys = [np.empty(a.shape, a.dtype.np) for a in step.out_avals[parts.carried :]]
    for i in reversed(range(parts.length)) if parts.reverse else range(parts.length):
        given = body([*carries, *(s[i] for s in sequences), *rest, *counters])
        carries = given[: parts.carried]
        for whole, y in zip(ys, given[parts.carried :], strict=True):
            whole[i] = y
        counters = [c + by for c, by in zip(counters, parts.steps, strict=True)]
    return [*carries, *ys]


def _cond(step: Library, bodies: Bodies, operands: list[Any]) -> Sequence[Array]:
    """Results of the body that is chosen."""
    pick, *given = operands
    return bodies[int(pick)](given)


def _repeat(step: Library, bodies: Bodies, operands: list[Any]) -> Sequence[Array]:
    """The last carries."""
    (body,), count = bodies, step.attrs["carried"]
    go, *given = operands
    carries, rest = given[:count], given[count:]
    while bool(go):
        go, *carries = body([*map(np.ascontiguousarray, carries), *rest])
        carries = [c.reshape(a.shape) for c, a in zip(carries, step.out_avals, strict=True)]
    return carries


def _call(step: Library, bodies: Bodies, given: list[Any]) -> Sequence[Array]:
    """Results of the body, and the operands that it updated."""
    (body,) = bodies
    results = iter(body(given))
    written = {o: given[i] for i, o in step.attrs.get("writes", ())}
    return [written[o] if o in written else next(results) for o in range(len(step.outs))]


BODIES: Final = {"scan": _scan, "cond": _cond, "while_loop": _repeat, "call": _call}


def _store(item: Library, results: Sequence[Array], memory: Memory) -> None:
    for name, value in zip(item.outs, results, strict=True):
        own = memory.arrays[name]
        own[:] = np.asarray(value, own.dtype).reshape(-1)
