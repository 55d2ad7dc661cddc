"""Before lower: rewrites of op calls that loops cannot express later. Program -> Program.

Equal calls become one: a derivative often computes again what the forward pass has. Ops are pure
here (random ones take their seed and ordinal as operands), so equal operands and attributes give
equal results.

A product whose only use is its transpose is computed transposed: (A B)^T == B^T A^T. The gradient
of a linear layer's weight is such a product, and the optimizer then reads it contiguously.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count

from codegen.ir import Call, Program, Value
from eager.aval import Aval
from eager.op import REGISTRY


def peephole(program: Program) -> Program:
    program = merge_equal(program)
    calls = tuple(_transposed_products(program))
    return replace(program, calls=calls)


def merge_equal(program: Program) -> Program:
    """Each distinct (op, operands, attributes) once; later readers use the first result."""
    first: dict[object, Call] = {}
    same: dict[int, Value] = {}
    calls = []
    for call in program.calls:
        operands = tuple(same.get(v.id, v) if isinstance(v, Value) else v for v in call.operands)
        key = (call.op, tuple(map(_key, operands)), tuple(sorted(call.attrs.items())))
        earlier = first.get(key) if call.op.kind != "extern" else None
        if earlier is not None:
            same |= {v.id: w for v, w in zip(call.outs, earlier.outs, strict=True)}
            continue
        moved = Call(call.op, operands, call.attrs, call.outs, call.where)
        first[key] = moved
        calls.append(moved)
    outputs = tuple(same.get(v.id, v) for v in program.outputs)
    writes = tuple((t, same.get(v.id, v)) for t, v in program.writes)
    checks = tuple(replace(c, value=same.get(c.value.id, c.value)) for c in program.checks)
    return Program(program.inputs, tuple(calls), outputs, writes, checks)


def _key(x: Value | complex) -> object:
    """Numbers are equal when type and text are: 1, 1.0 and True differ, and -0.0 is not 0.0."""
    return ("v", x.id) if isinstance(x, Value) else (type(x).__name__, repr(x))


def _transposed_products(program: Program) -> Iterator[Call]:
    users = _users(program)
    defined = [v.id for v in program.inputs] + [v.id for c in program.calls for v in c.outs]
    fresh = count(max(defined, default=0) + 1)
    dropped: set[int] = set()  # permutes that a product has absorbed, by output
    for call in program.calls:
        if call.outs[0].id in dropped:
            continue
        permute = _only_transpose(call, users) if call.op.name == "dot" else None
        if permute is None:
            yield call
            continue
        flipped = []
        for operand in reversed(call.operands):
            assert isinstance(operand, Value)
            swapped = _swap(operand, next(fresh))
            yield Call(permute.op, (operand,), permute.attrs, (swapped,), call.where)
            flipped.append(swapped)
        dropped.add(permute.outs[0].id)
        yield Call(call.op, tuple(flipped), call.attrs, permute.outs, call.where)


def _swap(v: Value, name: int) -> Value:
    *batch, m, n = v.aval.shape
    return Value(name, Aval((*batch, n, m), v.aval.dtype, v.aval.device))


def _users(program: Program) -> dict[int, list[Call | None]]:
    """The calls that read each value; None stands for the caller of the program."""
    users: dict[int, list[Call | None]] = {}
    for call in program.calls:
        for v in call.operands:
            if isinstance(v, Value):
                users.setdefault(v.id, []).append(call)
    wanted = (*program.outputs, *(w for _, w in program.writes), *(c.value for c in program.checks))
    for v in wanted:
        users.setdefault(v.id, []).append(None)
    return users


def _only_transpose(call: Call, users: dict[int, list[Call | None]]) -> Call | None:
    """The permute that swaps the last two dimensions of `call`'s result and is its only use."""
    found = users.get(call.outs[0].id, [])
    if len(found) != 1 or found[0] is None or found[0].op is not REGISTRY["permute"]:
        return None
    n = call.outs[0].aval.ndim
    return found[0] if found[0].attrs["dims"] == (*range(n - 2), n - 1, n - 2) else None
