"""Beside the backends: a program run op by op with the eager kernels, where there is no C++
compiler. Program -> Artifact."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from codegen.ir import Program, Value
from codegen.runtime.artifact import Artifact, CheckFailed

_announced: list[bool] = []


def interpret(program: Program, why: str) -> Artifact:
    """An Artifact that calls each op's NumPy kernel in order. Says once per process that, and why,
    nothing was compiled."""
    if not _announced:
        _announced.append(True)
        warnings.warn(f"programs run op by op, without fusion: {why}", stacklevel=2)
    return Artifact(_Interpreter(program), (), {}, {"arena_bytes": 0})


class _Interpreter:
    """Values by id; each is dropped after its last use."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.last = _last_uses(program)

    def __call__(self, inputs: list[Any]) -> list[Any]:
        p = self.program
        known = {v.id: x for v, x in zip(p.inputs, inputs, strict=True)}
        with np.errstate(all="ignore"):
            for i, call in enumerate(p.calls):
                operands = tuple(known[v.id] if isinstance(v, Value) else v for v in call.operands)
                results = call.op.compute(operands, call.attrs, tuple(v.aval for v in call.outs))
                for out, value in zip(call.outs, results, strict=True):
                    known[out.id] = value.item() if out.aval.weak else value
                for dead in self.last.get(i, ()):
                    del known[dead]
        for check in p.checks:
            if not known[check.value.id]:
                raise CheckFailed(*check.where.rpartition("|")[::2])
        outputs = [np.array(known[v.id], v.aval.dtype.np) for v in p.outputs]
        new = [(known[t.id], np.array(known[v.id])) for t, v in p.writes]
        for target, value in new:
            target[...] = value
        return outputs


def _last_uses(program: Program) -> dict[int, list[int]]:
    """The values that each call is the last to use."""
    kept = {v.id for v in program.outputs} | {v.id for pair in program.writes for v in pair}
    kept |= {check.value.id for check in program.checks}
    last: dict[int, int] = {}
    for i, call in enumerate(program.calls):
        for v in (*call.operands, *call.outs):
            if isinstance(v, Value) and v.id not in kept:
                last[v.id] = i
    out: dict[int, list[int]] = {}
    for vid, i in last.items():
        out.setdefault(i, []).append(vid)
    return out
