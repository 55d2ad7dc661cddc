"""Before lower, on the CPU: a matrix that the products of a loop multiply by in every round is
packed in front of the loop. Program -> Program.

The brick (`jitcap_brick.h`) reads its right operand as panels. A product with few rows spends much
of its time on making them; where the operand is the same in all rounds they are made once, and are
one more operand of the loop.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import count
from typing import Final

from codegen.fuse.chunk_rows import Loop
from codegen.ir.schema import Call, Program, Value
from codegen.ir.sizes import hint, is_static, round_up
from eager.base import dtype as dt
from eager.ops.contract import DOT
from eager.ops.view import PERMUTE
from eager.sizes.aval import Aval

LOOPS: Final = ("scan", "while_loop")
# The panels of matrices, as memory that only products read; a product that reads them where the
# brick is there, else the matrix itself.
PACK: Final = Loop("pack", ("b",))
DOT_PACKED: Final = Loop("dot_packed", ("a", "b", "packed"))
PANEL: Final = 32  # columns, a whole number of the brick's: LANES of jitcap_dot.h
ROWS: Final = range(6, 257)  # fewer have kernels without panels; for more, packing costs nothing
LEAST, MOST = 1 << 12, 4 << 20  # elements of the matrix: smaller ones are read where they lie


def pack_once(program: Program) -> Program:
    fresh = program.free_ids()
    calls: list[Call] = []
    for call in program.calls:
        calls += _packed(call, fresh) if call.op.name in LOOPS else [call]
    return replace(program, calls=tuple(calls))


def _packed(loop: Call, fresh: count[int]) -> list[Call]:
    """The loop, behind what packs the matrices that do not change in it."""
    (body,), attrs = loop.attrs["programs"], loop.attrs
    first = attrs["carried"] + attrs.get("sequences", 0)
    last = len(body.inputs) - len(attrs.get("steps", ()))  # what counts the rounds comes behind
    ahead = len(loop.operands) - len(body.inputs)  # operands that the body does not see
    pairs = zip(body.inputs[first:last], loop.operands[ahead + first :], strict=False)
    outside = {v.id: x for v, x in pairs if isinstance(x, Value)}
    inner = body.free_ids()
    before: list[Call] = []
    panels: dict[int, tuple[Value, Value]] = {}  # of a matrix in the body: outside, and there
    calls = []
    for call in body.calls:
        if call.op is PERMUTE and (x := _fixed(call, outside)):
            moved = replace(call.outs[0], id=next(fresh))
            before.append(replace(call, operands=(x,), outs=(moved,)))
            outside[call.outs[0].id] = moved
        elif call.op is DOT and _pays(call) and (b := call.operands[1].id) in outside:
            if b not in panels:
                aval = _aval(outside[b].aval)
                panels[b] = Value(next(fresh), aval), Value(next(inner), aval)
                before.append(Call(PACK, (outside[b],), {}, panels[b][:1], call.where))
            call = replace(call, op=DOT_PACKED, operands=(*call.operands, panels[b][1]))
        calls.append(call)
    if not panels:
        return [loop]
    out, own = zip(*panels.values(), strict=True)
    inputs = (*body.inputs[:last], *own, *body.inputs[last:])
    operands = (*loop.operands[: ahead + last], *out, *loop.operands[ahead + last :])
    body = replace(body, inputs=inputs, calls=tuple(calls))
    return [*before, replace(loop, operands=operands, attrs={**attrs, "programs": (body,)})]


def _fixed(call: Call, outside: Mapping[int, Value]) -> Value | None:
    (x,) = call.operands
    return outside.get(x.id) if isinstance(x, Value) else None


def _pays(dot: Call) -> bool:
    a, b = (x.aval for x in dot.operands if isinstance(x, Value))
    if b.ndim != 2 or b.dtype not in (dt.float32, dt.float64) or not is_static(b.shape):
        return False
    return LEAST <= b.numel <= MOST and min(b.shape) >= 16 and hint(a.shape[-2]) in ROWS


def _aval(b: Aval) -> Aval:
    k, n = b.shape
    return Aval((round_up(n, PANEL) * k,), b.dtype, b.device)
