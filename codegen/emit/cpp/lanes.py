"""How many lanes the loops of a C++ kernel have: as many as its widest values allow. Stages -> the
constant's name.

All values of a loop have the same number of lanes. With one of 8 bytes they are JC_W64; a loop of
masks and bytes alone, long enough to fill them, has JC_W8.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from codegen import affine, expr
from codegen.affine import Axis
from codegen.expr import Apply, Const, Expr, IndexOf
from codegen.ir import Reduction, Stage
from codegen.sizes import at_least, hint, is_short, same

# Shorter rows would run in masked tails of so many lanes.
BYTES_FROM: Final = 256
# What has an instruction for bytes, or is made of such. (The rest goes through wider lanes.)
BYTE_FUNCTIONS: Final = frozenset(
    "and_ or_ xor not_ eq ne lt le gt ge where add sub neg min max abs".split()
)


def width(stages: Sequence[Stage], vector: Axis) -> str:
    """The C++ constant with the number of lanes along `vector`."""
    varying = [x for s in stages for x in _values(s) if vector in expr.axes(x)]
    if any(x.dtype.itemsize == 8 for x in varying):
        return "JC_W64"
    narrow = hint(vector.size) >= BYTES_FROM and all(map(_is_bytes, varying))
    return "JC_W8" if narrow and all(_is_plain(s, vector) for s in stages) else "JC_W32"


def position_of(r: Reduction) -> Expr:
    """The position of an argmax as a value, in 32 bits where it fits: twice the lanes."""
    assert r.position is not None
    fits = at_least(r.position.lo, 0) and is_short(r.position.lo, r.position.hi)
    return expr.short_index(r.position) if fits else expr.index_of(r.position)


def _values(stage: Stage) -> list[Expr]:
    positions = (position_of(r) for r in stage.reductions if r.monoid.of is not None)
    return list(expr.walk(*stage.roots(), *positions))


def _is_bytes(x: Expr) -> bool:
    if isinstance(x, IndexOf) or (isinstance(x, Apply) and x.fn not in BYTE_FUNCTIONS):
        return False
    return isinstance(x, Const) or x.dtype.itemsize == 1


def _is_plain(stage: Stage, vector: Axis) -> bool:
    """Whether all memory is met lane by lane, or the same in all lanes."""
    steps = (affine.coefficient(i, affine.form(vector)) for i in stage.indices())
    return all(step is not None and (same(step, 0) or same(step, 1)) for step in steps)
