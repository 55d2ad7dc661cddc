"""Beside the stages: one op call as kernels, for eager tensors on a device. op record, operands ->
a plan of launches.

This is what the entry point `eager.kernels` names. The call goes through the stages of the Triton
backend as a program of one op, with its operands' own strides; numbers stay run-time scalars.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from codegen import BACKENDS, run_body
from codegen.ir.expr import interning
from codegen.ir.schema import Call, Program, Unsupported, Value
from codegen.runtime.artifact import broken
from codegen.targets.triton.runtime.kernel import TritonKernel, kernels_of
from codegen.targets.triton.runtime.program import Launch, TritonProgram
from eager.core.op import Op
from eager.device.plan import Argument, NoKernel, Operand, Plan, Result, Step
from eager.ops.contract import DOT
from eager.sizes.aval import Aval, contiguous_strides


def compile_op(
    op: Op,
    operands: Sequence[Operand],
    attrs: Mapping[str, Any],
    outs: Sequence[Aval],
    into: Operand | None = None,
) -> Plan:
    """The launches that compute `op`; with `into`, they write its one result there. Raises NoKernel
    saying why, where there is no kernel for it."""
    program = _program(op, operands, attrs, outs, into)
    try:
        with interning():
            emitted = run_body(BACKENDS["triton"].stages, "source", program)["source"]
    except Unsupported as refusal:
        raise NoKernel(str(refusal)) from refusal
    planner = _Planner(emitted, operands, into)
    flops = _flops(op, operands, outs)
    pairs = zip(emitted.launches, kernels_of(emitted), strict=True)
    steps = tuple(planner.step(launch, k, op.name, flops) for launch, k in pairs)
    results = (
        Result(a.shape, a.strides, a.offset, emitted.buffers[planner.home(a.buffer)].size)
        for a, _ in emitted.outputs
    )
    return Plan(steps, tuple(results), emitted.arena_bytes, tuple(planner.checks))


def fail(site: str, where: str) -> Exception:
    """The exception of a check that failed on the device, by its text; `where`: the user's
    file:line."""
    return broken(site.partition("|")[0], where)


def _program(
    op: Op,
    operands: Sequence[Operand],
    attrs: Mapping[str, Any],
    outs: Sequence[Aval],
    into: Operand | None,
) -> Program:
    given: list[Value] = []
    for x in operands:
        own = contiguous_strides(x.aval.shape)
        strides = None if x.strides is None or x.strides == own else x.strides
        given.append(Value(len(given), _anywhere(x.aval), strides))
    made = tuple(Value(len(given) + 1 + i, _anywhere(a)) for i, a in enumerate(outs))
    if into is None:
        return Program(tuple(given), (Call(op, tuple(given), attrs, made),), made)
    target = Value(len(given), _anywhere(into.aval), into.strides)
    call = Call(op, tuple(given), attrs, made)
    return Program((*given, target), (call,), (), ((target, made[0]),))


def _anywhere(aval: Aval) -> Aval:
    return replace(aval, device="cpu")  # what is compiled does not depend on which device it is


def _flops(op: Op, operands: Sequence[Operand], outs: Sequence[Aval]) -> int:
    """About how many operations on floats: an estimate for a device that models time."""
    count = max(a.numel for a in (*outs, *(x.aval for x in operands)))
    if op.kind != "contract":
        return count
    inner = operands[0].aval.shape[-1:] if op is DOT else operands[1].aval.shape[1:]
    return 2 * sum(a.numel for a in outs) * math.prod(inner)


class _Planner:
    """Assignment of memory to the launches of an emitted program."""

    def __init__(
        self, emitted: TritonProgram, operands: Sequence[Operand], into: Operand | None
    ) -> None:
        self.emitted = emitted
        self.checks: list[str] = []
        inputs = emitted.inputs
        self.arguments: dict[str, Argument] = {
            f"v{v.id}": Argument("number" if x.aval.weak else "operand", i)
            for i, (v, x) in enumerate(zip(inputs, operands, strict=False))
        }
        if into is not None:
            self.arguments[f"v{inputs[-1].id}"] = Argument("into", 0, writes=True)
        for i, (access, _) in enumerate(emitted.outputs):
            self.arguments[access.buffer] = Argument("result", i, writes=True)
        for name, offset in emitted.arena.items():
            nbytes = emitted.buffers[name].nbytes
            self.arguments[name] = Argument("arena", offset, writes=True, nbytes=nbytes)

    def home(self, name: str) -> str:
        return self.emitted.buffers[name].home

    def argument(self, name: str) -> Argument:
        if name == "errors":
            return Argument("errors", len(self.checks), writes=True)
        found = self.arguments.get(name)
        return self.arguments[self.home(name)] if found is None else found

    def step(self, launch: Launch, kernel: TritonKernel, name: str, flops: int) -> Step:
        passed = tuple(map(self.argument, launch.passed))
        self.checks += launch.checks
        kernel = replace(kernel, name=f"{name}:{kernel.symbol}")
        return Step(kernel, launch.programs, passed, flops)
