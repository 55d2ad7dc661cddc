"""Between the stages of codegen, when CHECK is set: what each IR promises. A stage's result ->
nothing, or VerifyError."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from codegen.ir import affine, expr
from codegen.ir.affine import Axis
from codegen.ir.expr import Expr, Load, Local, Read
from codegen.ir.schema import Fused, Kernel, Loops, Nest, Stage, Tiled
from codegen.ir.sizes import Size, below, is_static, same


class VerifyError(AssertionError):
    """An IR breaks one of its promises: a bug of the stage before. Names the item and the
    promise."""


def verify(result: Any) -> None:
    rule = RULES.get(type(result))
    if rule is not None:
        rule(result)


def _require(ok: bool, what: str, where: str) -> None:
    if not ok:
        raise VerifyError(f"{where}: {what}")


def _loops(loops: Loops) -> None:
    """Single assignment, definitions before uses, reads of the right rank and type, only own
    axes."""
    known = {v.id: v for v in loops.program.inputs}
    for item in loops.items:
        if isinstance(item, Nest):
            where = f"nest of v{item.value.id} {item.value.aval!r}"
            own = {affine.axis_of(a) for a in (*item.axes, *item.over) if a.terms}
            _require(expr.axes(item.body) <= own, "uses an axis that is not its own", where)
            for x in expr.walk(item.body):
                if isinstance(x, Read):
                    _require(x.value in known, f"reads v{x.value}, which is not defined yet", where)
                    aval = known[x.value].aval
                    _require(
                        len(x.index) == aval.ndim,
                        f"reads v{x.value} with {len(x.index)} indices",
                        where,
                    )
                    _require(x.dtype is aval.dtype, f"reads v{x.value} as {x.dtype}", where)
            outs: tuple[Any, ...] = (item.value,)
        else:
            outs = item.call.outs
        for v in outs:
            _require(v.id not in known, f"v{v.id} is defined twice", "loops")
            known[v.id] = v


def _fused(fused: Fused) -> None:
    """Requires that no temporary is read behind the kernel that overwrites its memory. (A part of
    another is in nobody's way.)"""
    holds: dict[str, str] = {}  # by memory
    for i, item in enumerate(fused.items):
        whole = item if isinstance(item, Kernel) else item.epilogue
        if whole is not None:
            kernel(whole, fused)
        own = set(item.writes())
        for b in map(fused.buffers.get, set(item.reads()) - own):
            if b is not None and fused.buffers[b.home].kind == "temp":
                there = holds.get(b.home, b.name)
                _require(there == b.name or there in own, f"reads {b.name} too late", f"item {i}")
        writes = (b for b in map(fused.buffers.get, item.writes()) if b)
        holds |= {b.home: b.name for b in writes if same(b.size, fused.buffers[b.home].size)}


def _tiled(tiled: Tiled) -> None:
    _fused(tiled.fused)


def kernel(k: Kernel, fused: Fused) -> None:
    """Only own axes and known buffers; locals before use; unguarded accesses inside their
    buffers."""
    sizes = {n: b.size for n, b in fused.buffers.items()} | {b.name: b.size for b in k.locals}
    known: set[str] = set()
    for i, stage in enumerate(k.stages):
        where = f"kernel {k.name} stage {i}"
        axes = frozenset((*k.rows, *stage.loops))
        for root in stage.roots():
            _expression(root, axes, known, sizes, where)
        for s in stage.stores:
            _require(s.buffer in sizes, f"stores to unknown buffer {s.buffer}", where)
            if not _inside(s.offset, sizes[s.buffer]):  # the text of an offset may be long
                _require(False, f"stores outside {s.buffer}: {s.offset}", where)
        _uses_only(stage, axes, where)
        known |= {r.name for r in stage.reductions}


def _uses_only(stage: Stage, axes: frozenset[Axis], where: str) -> None:
    foreign = next((i for i in stage.indices() if not affine.axes_of(i) <= axes), None)
    _require(foreign is None, f"index {foreign} uses a foreign axis", where)


def _expression(
    root: Expr, axes: frozenset[Axis], known: set[str], sizes: dict[str, Size], where: str
) -> None:
    _require(expr.axes(root) <= axes, "an expression uses a foreign axis", where)
    for x in expr.walk(root):
        if isinstance(x, Local):
            _require(x.name in known, f"uses local {x.name} before it is complete", where)
        elif isinstance(x, Load):
            _require(x.buffer in sizes, f"loads unknown buffer {x.buffer}", where)
        else:
            _require(not isinstance(x, Read), "a program value was left unresolved", where)


def _inside(offset: affine.Affine, size: Size) -> bool:
    """False if ranges say that an offset may leave the buffer (of symbolic ones: that it does)."""
    if is_static((offset.lo, offset.hi, size)):
        return offset.lo >= 0 and offset.hi < max(size, 1)
    return not below(offset.lo, 0) and not below(size, offset.hi + 1)


RULES: Final[dict[type, Callable[[Any], None]]] = {Loops: _loops, Fused: _fused, Tiled: _tiled}
