"""The step `blocks` (`codegen.fuse.row_blocks`) as C++: its body for each block of rows, side by
side. Writer, name of the body's function -> lines.

The unit that a member of the team takes is a block of rows of one matrix, or, where rows are added
up, the blocks p, p + parts, p + 2 parts ... of one. Within a block the body goes along the columns,
a tile at a time. Operands are seen through pointers that move with the matrix, the first row and
the first column; each member has memory of its own for what the body makes on the way.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from codegen.fuse.pack_once import PANEL
from codegen.ir.schema import Access
from codegen.ir.sizes import Shape, Size, covering, given, hint, numel, round_up, same
from codegen.ir.sizes import blocks as blocks_of
from codegen.schedule.plan import ALIGN
from codegen.targets.cpp.control import Table
from codegen.targets.cpp.step import Writer
from codegen.targets.cpp.table import size_text
from eager.base import dtype as dt
from eager.base.process import threads

# Bits of infinity.
INFINITY: Final = {
    dt.float16: 0x7C00, dt.bfloat16: 0x7F80, dt.float32: 0x7F800000, dt.float64: 0x7FF0000000000000,
}  # fmt: skip


def blocks(w: Writer, body: str) -> None:
    a, step = w.step.attrs, w.step
    carried, batch = a["carried"], a["batch"]
    count = size_text(blocks_of(a["rows"], a["block"]))
    parts = count if a["parts"] is None else size_text(a["parts"])
    matrices = size_text(numel(batch))
    rows, columns, width = (size_text(a[name]) for name in ("rows", "columns", "width"))
    each = _room(w)
    table = Table(w, range(carried, carried + len(step.operands)), first=-carried)
    results = [_result(w, table, i) for i in range(len(step.outs))]
    sums, row_sums = (
        results[: carried - a["row_sums"]],
        results[carried - a["row_sums"] : carried],
    )
    inner = _body(w, table, body, [pointer for pointer, _ in results])
    watched = (
        (
            "  i64 seen_ = -1, odd_ = 0;",
            f"    if (matrix_ != seen_) seen_ = matrix_, odd_ = {_unusual(w, table, False)};",
        )
        if a["window"]
        else ()
    )
    worth = f"team_for_product({matrices} * {rows}, {columns}, 64)"
    w.lines += [
        f"char *const room_ = {w.take(each * threads.room())};",
        "bool failed_ = false;",  # which members only ever set
        f"const i64 all_rows = {rows}, block = {a['block']}, width = {width};",
        f"parallel({matrices} * {parts}, 1, {worth}, [&](i64 lo_, i64 hi_) {{",
        f"  {table.declared(len(step.outs) - carried)}",
        f"  char *const own_ = room_ + member() * {size_text(each)};",
        *(f"  {line}" for line in table.numbers()),
        *watched[:1],
        "  for (i64 u_ = lo_; u_ < hi_; u_++) {",
        f"    const i64 matrix_ = u_ / {parts};",
        *(f"    {line}" for line in (*_indices(batch), *(zero for _, zero in sums))),
        *watched[1:],
        f"    for (i64 t_ = u_ % {parts}; t_ < {count}; t_ += {parts}) {{",
        "      const i64 row_ = t_ * block;",
        "      const i64 rows_ = row_ + block < all_rows ? block : all_rows - row_;",
        *(f"      {line}" for line in (*_columns(w, table), *(zero for _, zero in row_sums))),
        "      i64 column_ = first_;",
        "      do {",  # of no columns, too: what is made of none has a value
        "        const i64 columns_ = last_ - column_ < width ? last_ - column_ : width;",
        *(f"        {line}" for line in inner),
        "        column_ += width;",
        "      } while (column_ < last_);",
        "    }",
        "  }",
        "}, 16);",
        "if (failed_) return 1;",
    ]


def _body(w: Writer, table: Table, body: str, results: Sequence[str]) -> list[str]:
    """Statements that call the body, where `matrix_`, `row_` and `column_` are."""
    a, first = w.step.attrs, len(table.avals) - len(w.step.attrs["numbers"])
    cuts = enumerate(a["cuts"], a["carried"])
    return [
        *(line for i, cut in cuts if (line := _operand(w, table, i, cut))),
        *results,
        *(
            f"z[{table.places[first + k]}] = bitcast<f64>((i64)({name}_));"
            for k, name in enumerate(a["numbers"])
        ),
        f"if ({body}(q, z, arena, own_, {w.places.top})) failed_ = true;",
    ]


def _room(w: Writer) -> Size:
    """Bytes of the memory of a member, whatever the sizes of its blocks are."""
    a = w.step.attrs
    most = {"rows": a["block"], "columns": a["width"]}
    sizes = [given(made["plan"].arena_bytes, most) for made in w.step.bodies]
    return round_up(covering((1, *sizes)), ALIGN)


def _indices(batch: Shape) -> Iterator[str]:
    """The number of the matrix in each dimension of the batch."""
    for d, n in enumerate(batch):
        behind = size_text(numel(batch[d + 1 :]))
        yield f"const i64 batch{d}_ = matrix_ / {behind} % {size_text(n)};"


def _columns(w: Writer, table: Table) -> list[str]:
    """The columns of a block: those that a row of it needs; all, where a row needs none, and its
    elements may be NaN, and where zero times an operand is not zero."""
    window, columns = w.step.attrs["window"], size_text(w.step.attrs["columns"])
    first, last, empty = "0", columns, ["from_ >= to_"]
    if window:
        empty += ["odd_", _unusual(w, table, True)]
    if window.last < math.inf:
        last = f"clamped(row_ + rows_ - 1 + {int(window.last)}, 0, {columns})"
        empty.append(f"row_ + {int(window.last)} <= 0")
    if window.first > -math.inf:
        first = f"clamped(row_ + {int(window.first)} + 1, 0, {columns}) / {PANEL} * {PANEL}"
        empty.append(f"row_ + rows_ + {int(window.first)} >= {columns}")
    return [
        f"const i64 from_ = {first}, to_ = {last};",
        f"const bool all_ = {' || '.join(empty)};",
        f"const i64 first_ = all_ ? 0 : from_, last_ = all_ ? {columns} : to_;",
    ]


def _unusual(w: Writer, table: Table, of_rows: bool) -> str:
    """True if an operand holds what the zeros of a mask do not cancel: NaN, infinity, and, where a
    product reads it, minus infinity. Asked of a block of rows, or of what all blocks read."""
    a, asked = w.step.attrs, []
    lengths = {"r": "rows_", "c": size_text(a["columns"])}
    pairs = zip(a["cuts"], a["multiplied"], strict=True)
    for i, (cut, multiplied) in enumerate(pairs, a["carried"]):
        x, kind = w.step.operands[table.first + i], table.avals[i].dtype
        if multiplied is None or ("r" in cut) != of_rows or not isinstance(x, Access):
            continue
        if not kind.is_floating_point:
            continue
        dims = [
            (hint(by), f"{lengths.get(axis) or size_text(n)}, {size_text(by)}")
            for n, by, axis in zip(x.shape[::-1], x.strides[::-1], cut[::-1], strict=False)
        ]
        dims.sort(key=lambda pair: -pair[0])  # what lies together, innermost
        at = w.at(table.first + i) + _moves(w, x, cut, {"r": "row_"})
        size = ", ".join((*["1, 0"] * (2 - len(dims)), *(text for _, text in dims)))
        infinity = f"u{8 * kind.itemsize}, {INFINITY[kind]:#x}, {str(multiplied).lower()}"
        asked.append(f"beyond<{infinity}>({at}, {size})")
    return " || ".join(asked) or "false"


def _result(w: Writer, table: Table, i: int) -> tuple[str, str]:
    """Statement that sets the pointer to result `i`, and the one that sets its memory to zero: a
    sum over rows lies where the unit is, and a tile of it where its columns are; others lie where
    their rows are."""
    a, aval = w.step.attrs, w.step.out_avals[i]
    shape = aval.shape[len(a["batch"]) + 1 :]
    size, out = numel(shape), w.out(i)
    nbytes = size_text(size * aval.dtype.itemsize)
    if i < a["carried"] - a["row_sums"]:
        at = f"{out} + u_ * {size_text(size)}"
        zero = f"__builtin_memset({at}, 0, {nbytes});"
        return f"q[{i}] = {at} + column_ * {size_text(numel(shape[1:]))};", zero
    at = f"{out} + (matrix_ * all_rows + row_) * {size_text(size)}"
    place = i if i < a["carried"] else table.pointers + i - a["carried"]
    return (
        f"q[{place}] = {at};",
        f"__builtin_memset({at}, 0, rows_ * {nbytes});",
    )


def _operand(w: Writer, table: Table, i: int, cut: tuple[str, ...]) -> str:
    """Statement that sets the pointer to an operand's block; "" for a number."""
    x = w.step.operands[table.first + i]
    if not isinstance(x, Access):
        return ""
    return table.pointer(i, _moves(w, x, cut, {"r": "row_", "c": "column_"}))


def _moves(w: Writer, x: Access, cut: tuple[str, ...], names: Mapping[str, str]) -> str:
    """Offset to an operand's part, to add to a pointer: to the matrix, and along the dimensions
    that `cut` names. `names`: how far."""
    lead, batch = len(x.shape) - len(cut), len(w.step.attrs["batch"])
    moves = [
        f"batch{batch - lead + d}_" if not same(n, 1) else "" for d, n in enumerate(x.shape[:lead])
    ]
    moves += [names.get(axis, "") for axis in cut]
    pairs = zip(moves, x.strides, strict=True)
    return "".join(f" + {by} * {size_text(s)}" for by, s in pairs if by)
