"""Before lower: rewrites of op calls that loops cannot express later. Program -> Program.

A product whose only use is its transpose is computed transposed: (A B)^T == B^T A^T. The gradient
of a linear layer's weight is such a product, and the optimizer then reads it contiguously.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from codegen.ir.schema import Call, Program, Value
from eager.core.op import REGISTRY
from eager.ops.contract import DOT
from eager.sizes.aval import Aval


def transpose_products(program: Program) -> Program:
    return replace(program, calls=tuple(_transposed_products(program)))


def _transposed_products(program: Program) -> Iterator[Call]:
    users = _users(program)
    fresh = program.free_ids()
    dropped: set[int] = set()  # permutes that a product has absorbed, by output
    for call in program.calls:
        if call.outs[0].id in dropped:
            continue
        permute = _only_transpose(call, users) if call.op is DOT else None
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
    """The calls that read each product; None stands for the caller of the program."""
    users: dict[int, list[Call | None]] = {
        call.outs[0].id: [] for call in program.calls if call.op is DOT
    }
    for call in program.calls:
        for v in call.operands:
            if isinstance(v, Value) and v.id in users:
                users[v.id].append(call)
    for v in program.wanted():
        if v.id in users:
            users[v.id].append(None)
    return users


def _only_transpose(call: Call, users: dict[int, list[Call | None]]) -> Call | None:
    """The permute that swaps the last two dimensions of `call`'s result and is its only use."""
    found = users[call.outs[0].id]
    if len(found) != 1 or found[0] is None or found[0].op is not REGISTRY["permute"]:
        return None
    n = call.outs[0].aval.ndim
    return found[0] if found[0].attrs["dims"] == (*range(n - 2), n - 1, n - 2) else None
