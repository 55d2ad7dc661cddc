"""Before lower, on the CPU: a loop whose rounds compute each row of a batch by itself is cut into
blocks of rows. Program -> Program.

A recurrent cell multiplies a few rows by its weights in each round: work that is too little to be
shared by a team well. Its rows are independent of each other through all rounds, so that members
of the team take blocks of them, and none waits for another before the end of the loop. What a block
holds stays in its member's caches. How rows are cut depends on their number alone, and with it what
is computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from codegen.fuse.chunk_rows import spread
from codegen.fuse.elements import tensors
from codegen.ir.schema import Call, Program, Value
from codegen.ir.sizes import is_static
from eager.base import dtype as dt
from eager.ops.contract import DOT

BLOCK: Final = (16, 8)  # rows of a block, at least: if there are as many, or else
MOST_BLOCKS: Final = 16  # as many members of a team have work: how many there are is not known
NEAR: Final = 512 << 10  # bytes of weights that stay in the caches of each member
MOST_PARTS: Final = 8  # of what is put together: of many, NumPy does it

Rows = dict[int, int | None]  # the dimension of its rows, by value; None: it is the same for all


def split_loops(program: Program) -> Program:
    return replace(program, calls=tuple(map(_split, program.calls)))


def _split(call: Call) -> Call:
    if call.op.name != "scan" or call.attrs.get("in_place"):
        return call
    (body,) = call.attrs["programs"]
    rows = _rows(body, call.attrs["carried"])
    blocks = 0 if rows is None else _blocks(body.outputs[0].aval.shape[0])
    work = 0 if rows is None else _work(body, rows)
    if not blocks or rows is None or not work:
        return call
    made = _cut(body, rows, body.outputs[0].aval.shape[0] // blocks)
    cut = tuple(i for i, v in enumerate(body.inputs) if rows.get(v.id) == 0)
    attrs = {**call.attrs, "programs": (made,), "blocks": blocks, "cut": cut, "work": work}
    return replace(call, attrs=attrs)


def _blocks(rows: int) -> int:
    """Into how many blocks rows are cut; 0: they are not."""
    for least in BLOCK:
        for n in range(min(MOST_BLOCKS, rows // least), 1, -1):
            if rows % n == 0:
                return n
    return 0


def _rows(body: Program, carried: int) -> Rows | None:
    """The dimension of the rows in each value, if each row of the results depends on the same row
    of the inputs alone."""
    if not all(is_static(v.aval.shape) and not v.aval.dtype.is_complex for v in body.values()):
        return None
    sizes = {v.aval.shape[0] if v.aval.ndim > 1 else 0 for v in body.outputs}
    if len(sizes) != 1 or 0 in sizes or any(call.op.raises for call in body.calls):
        return None
    rows: Rows = {v.id: 0 for v in body.outputs}
    for call in reversed(body.calls):
        needed = [rows[v.id] for v in call.outs if v.id in rows]
        if not needed:
            continue
        dims = _operands(call, needed[0])
        if dims is None or len(dims) != len(call.operands):
            return None
        for x, dim in zip(call.operands, dims, strict=True):
            if isinstance(x, Value) and rows.setdefault(x.id, dim) != dim:
                return None
    first = all(rows.get(v.id) == 0 for v in body.inputs[:carried])
    return rows if first and all(rows.get(v.id) in (0, None) for v in body.inputs) else None


def _operands(call: Call, dim: int | None) -> Sequence[int | None] | None:
    """The dimension of the rows in each operand of a call, where it is `dim` in its result; None:
    not by rows."""
    name, out = call.op.name, call.outs[0].aval
    if dim is None:
        return [None] * len(call.operands) if len(call.outs) == 1 else None
    if name == "slice" and call.attrs["dim"] % out.ndim != dim:
        return [dim]
    if name == "cat" and call.attrs["dim"] % out.ndim != dim and len(call.operands) <= MOST_PARTS:
        return [dim] * len(call.operands)
    if name == "dot" and out.dtype not in (dt.float32, dt.float64):
        return None
    return spread(call, dim)


def _work(body: Program, rows: Rows) -> int:
    """Multiplications of a row in a round; 0 where that is none of products, or what all rows are
    multiplied by does not stay near each member."""
    dots = [call for call in body.calls if call.op is DOT and rows.get(call.outs[0].id) == 0]
    weights = [b.aval for _, b in map(tensors, dots)]
    near = sum(b.nbytes for b in weights) <= NEAR
    return sum(b.numel for b in weights) if near else 0


def _cut(body: Program, rows: Rows, block: int) -> Program:
    """The body for a block of rows."""
    cut: dict[int, Value] = {}

    def of(v: Value) -> Value:
        dim = rows.get(v.id)
        if dim is None:
            return v
        if v.id not in cut:
            shape = (*v.aval.shape[:dim], block, *v.aval.shape[dim + 1 :])
            cut[v.id] = replace(v, aval=replace(v.aval, shape=shape))
        return cut[v.id]

    def call_of(call: Call) -> Call:
        outs = tuple(map(of, call.outs))
        attrs = dict(call.attrs)
        if "shape" in attrs:
            attrs["shape"] = outs[0].aval.shape
        operands = tuple(of(x) if isinstance(x, Value) else x for x in call.operands)
        return replace(call, operands=operands, attrs=attrs, outs=outs)

    calls = tuple(call_of(c) for c in body.calls if c.outs[0].id in rows)
    return replace(
        body,
        inputs=tuple(map(of, body.inputs)),
        calls=calls,
        outputs=tuple(map(of, body.outputs)),
    )
