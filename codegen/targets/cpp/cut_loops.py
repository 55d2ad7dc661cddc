"""In the third stage: index-set splitting, loops cut where a condition on their counter changes.
Kernel -> Kernels.

A concatenation or padding is written `x[i] if i < 32 else y[i - 32]`. Cut at 32 there are two loops
without a condition, each of which reads and writes straight through memory. Rows are independent,
so a cut row axis gives kernels of their own; a cut loop axis gives stages, and where something is
reduced each has its part of the total.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from codegen.ir import affine, expr
from codegen.ir.affine import Axis
from codegen.ir.expr import Apply, Const, Expr, IndexOf, Local
from codegen.ir.monoid import MAX, MIN, PROD, SUM
from codegen.ir.rewrite import Rewrite
from codegen.ir.schema import Fused, Kernel, Reduction, Stage
from codegen.ir.sizes import Size, below, hint, is_static, same

MAX_PIECES: Final = 64  # kernels, or loops of one, each of which is compiled
MIN_LENGTH: Final = 16  # a shorter piece of the axis that runs through memory is not worth a loop,
LONG: Final = 256  # unless the others are long, or
MANY: Final = 8  # there are more pieces: every vector would be computed as part of each of them

# Where the answer changes: `index < value` at value, `index <= value` after it.
_CHANGES: Final = {"lt": 0, "ge": 0, "le": 1, "gt": 1}


def cut_loops(fused: Fused) -> Fused:
    return fused.map_kernels(cut_kernel)


# How totals of parts are put together. Positions are not: they would need both values.
_TOGETHER: Final = {SUM: "add", PROD: "mul", MAX: "max", MIN: "min"}


def cut_kernel(kernel: Kernel) -> list[Kernel]:
    """`kernel` in pieces, in which conditions on a single counter are decided."""
    totals: dict[str, Expr] = {}
    stages: tuple[Stage, ...] = ()
    for stage in kernel.stages:
        cut = [*_cut_loops(stage.map(_Totals(totals)) if totals else stage)]
        if len(cut) > 1 and stage.reductions:
            cut = [*_partial(stage.reductions, cut, totals)]
        stages += tuple(cut)
    pending = [replace(kernel, stages=stages)]
    done: list[Kernel] = []
    while pending:
        one = pending.pop(0)
        parts = _cut_rows(one) if len(pending) + len(done) < MAX_PIECES else []
        if parts:
            pending = parts + pending
        else:
            done.append(one)
    if len(done) == 1:
        return done
    return [replace(k, name=f"{kernel.name}_{i}") for i, k in enumerate(done)]


def _cut_rows(kernel: Kernel) -> list[Kernel]:
    """The kernel by intervals of its first row axis that has cuts; [] when there is none."""
    for a in kernel.rows:
        bounds = _bounds(a, kernel.stages)
        if not bounds:
            continue
        parts = []
        for lo, hi in bounds:
            part = affine.axis(a.name, hi - lo)
            decide = _Deciding({a: part + lo})
            rows = _with(kernel.rows, a, part)
            stages = tuple(s.map(decide) for s in kernel.stages)
            parts.append(replace(kernel, rows=rows, stages=stages))
        return parts
    return []


def _cut_loops(stage: Stage) -> Iterator[Stage]:
    """A stage by intervals of its loop axes."""
    if all(r.monoid in _TOGETHER for r in stage.reductions):
        for a in stage.loops:
            bounds = _bounds(a, (stage,))
            for lo, hi in bounds:
                part = affine.axis(a.name, hi - lo)
                loops = _with(stage.loops, a, part)
                yield from _cut_loops(stage.map(_Deciding({a: part + lo}), loops))
            if bounds:
                return
    yield stage


def _partial(
    reductions: tuple[Reduction, ...], parts: list[Stage], totals: dict[str, Expr]
) -> Iterator[Stage]:
    """The parts of a stage with names of their own for what they reduce; `totals` gets the
    expressions of the wholes."""
    for i, part in enumerate(parts):
        named = (replace(r, name=f"{r.name}_{i}", dtype=r.value.dtype) for r in part.reductions)
        yield replace(part, reductions=tuple(named))
    for r in reductions:
        total, *others = (expr.local(f"{r.name}_{i}", r.value.dtype) for i in range(len(parts)))
        for x in others:
            total = expr.apply(_TOGETHER[r.monoid], total, x)
        totals[r.name] = expr.cast(total, r.dtype)


def _with(axes: tuple[Axis, ...], old: Axis, new: affine.Affine) -> tuple[Axis, ...]:
    return tuple(x for a in axes for x in (affine.counters(new) if a is old else (a,)))


def _bounds(a: Axis, stages: tuple[Stage, ...]) -> list[tuple[Size, Size]]:
    """The intervals of `a` between its cuts; [] when there is nothing to cut, or not worth it."""
    cuts: dict[Size, None] = {}
    for stage in stages:
        for x in stage.walk():
            place = _change(x, a)
            if place is not None and below(0, place) and below(place, a.size):
                cuts[place] = None
    edges = _sorted([*cuts])
    if not edges or len(edges) >= MAX_PIECES:
        return []
    bounds = list(itertools.pairwise([0, *edges, a.size]))
    short = hint(a.size) < LONG and min(hint(hi - lo) for lo, hi in bounds) < MIN_LENGTH
    if not short:
        return bounds
    reduces = any(stage.reductions for stage in stages)
    apart = reduces or (len(bounds) <= MANY and _runs_through_memory(a, stages))
    return [] if apart else bounds


def _sorted(cuts: list[Size]) -> list[Size]:
    """The cuts in ascending order; [] where that depends on what the symbols are."""
    if is_static(cuts):
        return sorted(cuts)
    ranked = sorted(cuts, key=lambda c: sum(below(x, c) for x in cuts))
    return ranked if all(below(x, y) for x, y in itertools.pairwise(ranked)) else []


def _change(x: Expr, a: Axis) -> Size | None:
    """The first value of `a` with another answer to `x`, if that compares `a` with a size."""
    if not isinstance(x, Apply) or x.fn not in _CHANGES:
        return None
    index, limit = x.args
    if not isinstance(index, IndexOf) or not isinstance(limit, Const | IndexOf):
        return None
    if isinstance(limit, IndexOf) and limit.index.terms:
        return None
    terms = index.index.terms
    if len(terms) != 1 or terms[0][0] is not a:
        return None
    value = limit.index.const if isinstance(limit, IndexOf) else int(limit.value)
    if same(terms[0][1], -1):  # what runs backwards
        return index.index.const - value + 1 - _CHANGES[x.fn]
    return value - index.index.const + _CHANGES[x.fn] if same(terms[0][1], 1) else None


def _runs_through_memory(a: Axis, stages: tuple[Stage, ...]) -> bool:
    of = affine.form(a)
    steps = (affine.coefficient(s.offset, of) for stage in stages for s in stage.stores)
    return any(step is not None and same(step, 1) for step in steps)


class _Deciding(Rewrite):
    """A substitution after which comparisons are answered where the ranges settle them."""

    def rewritten(self, x: Expr) -> Expr:
        return expr.decide(super().rewritten(x))


class _Totals(Rewrite):
    """Reads of what was reduced in one loop, by the expressions that put the parts together."""

    def __init__(self, totals: Mapping[str, Expr]) -> None:
        super().__init__({})
        self.totals = totals

    def rewritten(self, x: Expr) -> Expr:
        if isinstance(x, Local):
            return self.totals.get(x.name, x)
        return super().rewritten(x)
