"""Beside row_blocks: matrices that the products of all blocks read are packed once, ahead of them.
The body of a level -> one whose products take panels, and what packs these.

The brick (`jitcap_brick.h`) reads a right operand as panels: some columns, row by row. To make them
of keys or values costs as much as a product of a few rows, and would be done again for each block.
"""

from __future__ import annotations

from typing import Any, Protocol

from codegen.fuse.chunk_rows import DOT_ADD
from codegen.fuse.elements import tensors
from codegen.fuse.pack_once import DOT_PACKED, PACK, PANEL
from codegen.fuse.row_groups import Axes, Frame
from codegen.ir.schema import Call, Value
from codegen.ir.sizes import blocks, hint, round_up
from eager.base.dtype import DType
from eager.core.op import REGISTRY
from eager.ops.contract import DOT
from eager.ops.view import PERMUTE

FEWEST = 3  # blocks of rows that read a matrix


class Body(Protocol):
    """Interface of the body of a level."""

    w: Any  # who writes the program
    frame: Frame
    block: int  # rows
    body: list[Call]
    inputs: list[Value]
    operands: list[Value]  # what the inputs are parts of, by `cuts`
    cuts: list[Axes]
    places: dict[str, Any]
    where: str

    def turned(self, x: Value) -> Value: ...
    def given(self, v: Value, cut: Axes) -> Value: ...


def pack_operands(body: Body) -> None:
    """Has products of parts of matrices that are the same for all rows take these packed."""
    if blocks(hint(body.frame.rows), body.block) < FEWEST:
        return
    calls, body.body = body.body, []
    for call in calls:
        made = _packed(body, call) if call.op in (DOT, DOT_ADD) else None
        body.body.append(made or call)


def _packed(body: Body, call: Call) -> Call | None:
    """The product with panels; None where it stays as it is."""
    *_, a, b = tensors(call)
    (a, a_turned), (b, turned) = _bare(body, a), _bare(body, b)
    if b not in body.inputs or a.aval.dtype is not b.aval.dtype or not _sums(call, a.aval.dtype):
        return None
    at = body.inputs.index(b)
    outer, cut = body.operands[at], body.cuts[at]
    if set(cut) != {"", "c"}:
        return None
    panels = _panels(body, outer, turned)
    a, b = (body.turned(x) if t else x for x, t in ((a, a_turned), (b, turned)))
    deep = outer.aval.shape[-1 if turned else -2]
    rows = (cut[-1] == "c") == turned  # whether a part of it is some of its rows, or columns
    place = body.places["column"]
    attrs = {"deep": deep, "place": (place, 0) if rows else (0, place)}
    inner = body.given(panels, ("", ""))
    if call.op is DOT:
        return Call(DOT_PACKED, (a, b, inner), attrs, call.outs, call.where)
    return Call(call.op, (call.operands[0], a, b, inner), attrs, call.outs, call.where)


def _sums(call: Call, kind: DType) -> bool:
    """True if the brick's sums of products of that type are the result itself."""
    return kind.is_floating_point and call.outs[0].aval.dtype is kind.compute


def _bare(body: Body, v: Value) -> tuple[Value, bool]:
    """The value of 16 bits that `v` is of, or `v`; and whether it is turned."""
    makers = {out.id: call for call in body.body for out in call.outs}
    turned = False
    while (call := makers.get(v.id)) is not None:
        widens = call.op.kind == "cast" and tensors(call)[0].aval.dtype.itemsize == 2
        if not widens and call.op is not PERMUTE:
            break
        (v,) = tensors(call)
        turned ^= call.op is PERMUTE
    return v, turned


def _panels(body: Body, x: Value, turned: bool) -> Value:
    """The panels of the matrices `x`, or of the turned ones, made ahead of the blocks."""
    packs, w = body.w.packs, body.w
    if (x.id, turned) not in packs:
        calls = []
        matrices = x
        if turned:
            last = x.aval.ndim - 1
            shape = (*x.aval.shape[:-2], x.aval.shape[-1], x.aval.shape[-2])
            matrices = w.value(shape, x.aval.dtype, x)
            dims = (*range(last - 1), last, last - 1)
            calls.append(Call(REGISTRY["permute"], (x,), {"dims": dims}, (matrices,), body.where))
        *batch, k, n = matrices.aval.shape
        made = w.value((*batch, round_up(n, PANEL), k), x.aval.dtype.compute, x)
        calls.append(Call(PACK, (matrices,), {}, (made,), body.where))
        packs[x.id, turned] = calls
        w.wanted.add(x.id)
    return packs[x.id, turned][-1].outs[0]
