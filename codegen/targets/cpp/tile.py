"""Third stage: axes of fused kernels split, merged and ordered, and how the CPU runs each. Fused ->
Tiled.

A kernel comes with one flat row axis and one flat loop axis per stage. Where accesses need r // 64
and r % 64, r is split into two axes, and the divisions disappear. Then the axis with unit strides
becomes the SIMD axis: a loop axis (rows one by one, lanes along the row) or a row axis (lanes hold
neighbouring rows: elementwise kernels, reductions over outer dimensions).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Final

from codegen.ir import affine, expr
from codegen.ir.affine import Affine, Axis, FloorDiv, Mod
from codegen.ir.expr import Expr, Load, Select
from codegen.ir.rewrite import Rewrite
from codegen.ir.schema import Buffer, Fused, Kernel, Schedule, Stage, Tiled, homes
from codegen.ir.sizes import (
    Size,
    degree,
    exact,
    exact_or,
    extent,
    extents,
    hint,
    is_static,
    order_of,
    same,
)

LANES: Final = 16  # floats of AVX-512, whatever the target is: loops are the same on all
STRIDED: Final = 0.05  # what an access gains whose lanes are apart
GATHERED: Final = -0.25  # or at places that data choose: an address for each
# Weighted elements below which starting threads costs more than it gains.
PARALLEL_WORK: Final = 1 << 15


def split(fused: Fused) -> Fused:
    """Axes in parts, where accesses need quotients and remainders of them."""
    return fused.map_kernels(lambda kernel: (split_axes(kernel),))


def schedule(fused: Fused) -> Tiled:
    """The schedule of each kernel, and the kernels with their loops in that order."""
    schedules = {kernel.name: schedule_kernel(kernel) for kernel in fused.kernels()}
    ordered = fused.map_kernels(lambda k: (order_loops(k, schedules[k.name]),))
    return Tiled(ordered, schedules)


# ---------------------------------------------------------------------------------- in place


def overwrites(stage: Stage, buffers: Mapping[str, Buffer]) -> bool:
    """True if a store may overwrite what a later one is the first to read: an input's old value,
    where a new one is stored in place. What a Select guards is read where it is needed."""
    seen: set[Expr] = set()
    written: set[str] = set()
    for root in stage.reductions:
        seen |= _loads_at_once(root.value)
    for store in stage.stores:
        at_once = _loads_at_once(store.value)
        seen |= {x for x in at_once if written.isdisjoint(homes((x.buffer,), buffers))}
        for x in expr.walk(store.value, *affine.opaques(store.offset)):
            if isinstance(x, Load) and homes((x.buffer,), buffers) <= written and x not in seen:
                return True
        written |= homes((store.buffer,), buffers)
    return False


def _loads_at_once(value: Expr) -> set[Load]:
    """The loads of a value that is read as a whole."""
    found = tuple(expr.walk(value))
    if any(isinstance(x, Select) for x in found):
        return set()
    return {x for x in found if isinstance(x, Load)}


# ---------------------------------------------------------------------------------- splitting


def split_axes(kernel: Kernel) -> Kernel:
    """Replace an axis by several where that removes its floordivs and mods."""
    indices = [list(s.indices()) for s in kernel.stages]
    by: dict[Axis, Affine] = {}
    rows: list[Axis] = []
    for a in kernel.rows:
        rows += _split(a, (i for group in indices for i in group), by)
    stages = []
    for stage, own in zip(kernel.stages, indices, strict=True):
        loops: list[Axis] = []
        local = dict(by)
        for a in stage.loops:
            loops += _split(a, own, local)
        stages.append(join_loops(stage.map(Rewrite(local), tuple(loops))) if local else stage)
    return replace(kernel, rows=tuple(rows), stages=tuple(stages))


def join_loops(stage: Stage) -> Stage:
    """Neighbouring loops that every access walks as one (the two dimensions of an image) are one:
    a longer one for the lanes."""
    for at in reversed(range(1, len(stage.loops))):
        outer, inner = stage.loops[at - 1 : at + 1]
        positions = (r.position for r in stage.reductions if r.position is not None)
        if all(_walks_as_one(i, outer, inner) for i in (*stage.indices(), *positions)):
            joined = affine.axis(inner.name, outer.size * inner.size)
            loops = *stage.loops[: at - 1], affine.axis_of(joined), *stage.loops[at + 1 :]
            stage = stage.map(Rewrite({outer: affine.ZERO, inner: joined}), loops)
    return stage


def _walks_as_one(index: Affine, outer: Axis, inner: Axis) -> bool:
    far, near = (affine.coefficient(index, affine.form(a)) for a in (outer, inner))
    return far is not None and near is not None and same(far, near * inner.size)


def _split(a: Axis, indices: Iterable[Affine], by: dict[Axis, Affine]) -> list[Axis]:
    cuts = _chain(_divisors(a, indices), a.size)
    if not cuts:
        return [a]
    bounds = [1, *cuts, a.size]
    parts = [
        (affine.axis(f"{a.name}_{i}", exact_or(hi, lo, 0)), lo)
        for i, (lo, hi) in enumerate(pairwise(bounds))
    ]
    total = affine.ZERO
    for part, step in parts:
        total = total + part * step
    by[a] = total
    return [affine.axis_of(p) for p, _ in reversed(parts) if p.terms]


def _divisors(a: Axis, indices: Iterable[Affine]) -> set[Size]:
    found: set[Size] = set()
    seen: set[Affine] = set()
    for index in indices:
        if index in seen:
            continue
        seen.add(index)
        for atom in affine.walk_atoms(index):
            if isinstance(atom, FloorDiv | Mod):
                inner = atom.index
                if len(inner.terms) == 1 and same(inner.const, 0) and same(inner.terms[0][1], 1):
                    base = inner.terms[0][0]
                    if base is a:
                        found.add(atom.divisor)
                    elif isinstance(base, FloorDiv) and _is_axis(base.index, a):
                        found |= {base.divisor, base.divisor * atom.divisor}
    return found


def _is_axis(index: Affine, a: Axis) -> bool:
    return index is affine.form(a)


def _chain(divisors: set[Size], size: Size) -> list[Size]:
    """A chain of cut points each dividing the next and the size."""
    chain: list[Size] = []
    for d in sorted(divisors, key=_before):
        inside = not same(d, 1) and not same(d, size) and exact(size, d) is not None
        if inside and (not chain or exact(d, chain[-1]) is not None):
            chain.append(d)
    return chain


def _before(d: Size) -> tuple[int, int]:
    """Divisors before their multiples: by how many symbols are multiplied, then ints by value."""
    return degree(d), order_of(d)


# ---------------------------------------------------------------------------------- scheduling


def schedule_kernel(kernel: Kernel) -> Schedule:
    """SIMD along the rows or along each stage's loops, whichever accesses more elements
    contiguously."""
    work = max((_work(kernel, s) for s in kernel.stages), default=0)
    enough = work >= PARALLEL_WORK and hint(extent(kernel.rows)) > 1
    parallel = enough or not is_static(extents(axes_of(kernel)))  # decided at run time, then
    loops = [
        _best(kernel, s.loops, (s,)) if _vectorisable(s) else (None, 0.0) for s in kernel.stages
    ]
    by_loops = sum(score for _, score in loops)
    # Lanes that hold rows leave no place for a row's own buffer, and run no stage in order.
    plain = not kernel.locals and all(_vectorisable(s) for s in kernel.stages)
    row, by_rows = _best(kernel, kernel.rows, kernel.stages) if plain else (None, 0.0)
    if row is not None and by_rows > by_loops:
        lanes: tuple[Axis | None, ...] = (None,) * len(kernel.stages)
        return Schedule(lanes, parallel, row, _across(kernel, row))
    return Schedule(tuple(a for a, _ in loops), parallel)


def _across(kernel: Kernel, lanes: Axis) -> Axis | None:
    """The row axis along which accesses are contiguous that are strided from lane to lane.

    Walked next to the lanes, it finds the cache lines that the lanes have just touched."""
    if any(s.reductions for s in kernel.stages):
        return None
    v = affine.form(lanes)
    strided = [
        i
        for s in kernel.stages
        for i in s.indices()
        if not is_either(affine.coefficient(i, v), 0, 1)
    ]
    best, most = None, 0
    for a in kernel.rows:
        at = affine.form(a)
        found = sum(a is not lanes and is_either(affine.coefficient(i, at), 1) for i in strided)
        if found > most:
            best, most = a, found
    return best


def axes_of(kernel: Kernel) -> tuple[Axis, ...]:
    """All its loops."""
    return (*kernel.rows, *(a for s in kernel.stages for a in s.loops))


def _work(kernel: Kernel, stage: Stage) -> int:
    elements = hint(extent((*kernel.rows, *stage.loops)))
    cost = sum(1 for x in stage.walk())
    return elements * max(cost // 4, 1)


def _vectorisable(stage: Stage) -> bool:
    """False if stores may collide: those run in order. Products of lanes are fine for every
    monoid."""
    return all(s.monoid is None for s in stage.stores)


def _best(
    kernel: Kernel, axes: tuple[Axis, ...], stages: tuple[Stage, ...]
) -> tuple[Axis | None, float]:
    """The axis along which accesses are contiguous, and how much SIMD gains there (weighted
    elements)."""
    rows = hint(extent(kernel.rows))
    best: tuple[Axis | None, float] = (None, 0.0)
    for a in reversed(axes):
        full = min(hint(a.size), LANES) / LANES  # a short axis fills its lanes in part
        score = sum(_score(a, s) * full * rows * hint(extent(s.loops)) for s in stages)
        if score > best[1]:
            best = (a, score)
    return best


def _score(a: Axis, stage: Stage) -> float:
    at = affine.form(a)
    total, count = 0.0, 0
    loads = [x.offset for x in stage.loads()]
    for offset in [*loads, *(s.offset for s in stage.stores)]:
        c = affine.coefficient(offset, at)
        apart = GATHERED if c is None else STRIDED
        total += 1.0 if is_either(c, 1) else 0.6 if is_either(c, 0) else apart
        count += 1
    if not loads:  # computing from nothing still gains
        total += 0.5 * len(stage.reductions)
        count += len(stage.reductions)
    return max(total / count, STRIDED) if count else 0.5


def is_either(c: Size | None, *values: int) -> bool:
    return c is not None and any(same(c, x) for x in values)


def order_loops(kernel: Kernel, plan: Schedule) -> Kernel:
    """The SIMD axis innermost. Order of rows and of reduction loops is free (argmax numbers its
    positions itself)."""
    stages = tuple(
        replace(s, loops=_last(s.loops, v)) for s, v in zip(kernel.stages, plan.vector, strict=True)
    )
    rows = _last(_last(kernel.rows, plan.across), plan.row_vector)
    return replace(kernel, stages=stages, rows=rows)


def _last(axes: tuple[Axis, ...], a: Axis | None) -> tuple[Axis, ...]:
    return axes if a is None else (*(x for x in axes if x is not a), a)
