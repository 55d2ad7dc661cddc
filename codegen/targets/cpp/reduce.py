"""Reductions of a C++ kernel: accumulators in the lanes, folded block by block. (Reduction, Spell)
-> lines."""

from __future__ import annotations

from codegen.ir import expr
from codegen.ir.affine import Axis
from codegen.ir.expr import Expr
from codegen.ir.monoid import ARGMAX, SUM
from codegen.ir.schema import Reduction, Stage
from codegen.ir.sizes import Size, at_least, below, extent, is_short
from codegen.targets.cpp import table
from codegen.targets.cpp.expr import Spell
from codegen.targets.cpp.table import size_text
from eager.base import dtype as dt

# A sum down a long column is a sum of sums of this many: errors grow with the root of the length.
CHUNK = 128
BLOCK = 4096  # the same along a row: 256 additions per lane
EXIT = 1024  # any and all look so often whether they know the answer
EACH = "JC_UNROLL for (int u_ = 0; u_ < U; u_++)"
NOWHERE = {"i32": "0x7fffffff", "i64": "0x7fffffffffffffffl"}  # behind every position


class Blocks:
    """A long sum is a sum of blocks' sums: of the only loop, or of the turns of the outermost.

    (Where the outermost loop is cut, `k_` and `e_` bound its current block.)"""

    def __init__(self, stage: Stage, accs: list[Accumulator]) -> None:
        total = extent(stage.loops)
        self.accs = accs if not below(total, 2 * BLOCK) and all(a.chunked() for a in accs) else []
        decides = all(a.decided() for a in accs) and accs and not stage.stores
        self.exits = accs if not below(total, 2 * EXIT) and decides else []
        self.outer = stage.loops[0] if stage.loops else None
        self.alone = len(stage.loops) == 1
        self.turns = stage.loops[1] if len(stage.loops) > 1 else None

    def declare(self) -> list[str]:
        lines = [f"{a.vector} {a.name}t = {a.name};" for a in self.accs]
        for a in self.accs:
            a.result = f"{a.name}t"
        return lines

    def cuts(self, loop: Axis) -> bool:
        return bool(self.accs or self.exits) and self.alone and loop is self.outer

    def around(self, loop: Axis, lines: list[str]) -> list[str]:
        """`lines`, the whole of `loop`, with the sums of a block folded into the totals, or left
        where what follows cannot change the result."""
        if not (self.accs or self.exits) or (loop is not self.turns and not self.cuts(loop)):
            return lines
        reset = [f"{a.name} = {a.start};" for a in self.accs]
        fold = [f"{a.result} = {a.result} + {a.name};" for a in self.accs]
        if self.exits:
            fold = [f"if ({' && '.join(a.decided() for a in self.exits)}) break;"]
        if not self.alone:
            return [*reset, *lines, *fold]
        n, block = size_text(loop.size), EXIT if self.exits else BLOCK
        head = f"for (i64 k_ = 0; k_ < {n}; k_ += {block}) {{"
        end = f"const i64 e_ = k_ + {block} < {n} ? k_ + {block} : {n};"
        return [head, *indent([end, *reset, *lines, *fold]), "}"]


class Accumulator:
    """The C++ of one reduction: accumulators of the stage's lanes, the step of the loop body, the
    result."""

    def __init__(self, r: Reduction, s: Spell, at: str, loops: tuple[Axis, ...]) -> None:
        self.r = r
        self.s = s
        self.at = at
        self.name = s.names.fresh("s")
        self.lane = table.lane(r.value.dtype)
        self.arg = r.monoid.of is not None
        self.identity = table.identity(r.monoid, r.value.dtype)
        self.struct = self.struct_name()
        self.vector = f"vec<{self.lane}, {s.lanes}>"
        self.how = f"{self.max()}, {str(self.arg and _rises(r, loops)).lower()}"
        self.spot = table.register(position_of(r).dtype) if self.arg else ""
        self.place = f"vec<{self.spot}, {s.lanes}>"
        self.nowhere = f"splat<{self.spot}, {s.lanes}>({NOWHERE.get(self.spot)})"
        self.total = s.names.fresh("a")
        self.start = f"splat<{self.lane}, {s.lanes}>({self.identity})"
        self.result = self.name

    def struct_name(self) -> str:
        if self.arg:
            return "Max"
        if self.r.value.dtype is dt.bool_:
            return table.BOOL_MONOIDS[self.r.monoid.name]
        return table.MONOIDS[self.r.monoid.name]

    def chunked(self) -> bool:
        return self.r.monoid is SUM and self.r.value.dtype.is_floating_point

    def decided(self) -> str:
        """The C++ condition under which no further element changes the result; "" if there is
        none."""
        return {"Or": f"any({self.name})", "And": f"!all({self.name})"}.get(self.struct, "")

    def declare(self) -> str:
        one = f"{self.vector} {self.name} = {self.start};"
        return one + (f" {self.place} {self.name}p = {self.nowhere};" if self.arg else "")

    def declare_block(self) -> str:
        text = self.declare_each(self.name)
        if self.arg:
            text += f" {self.place} {self.name}p[U]; {EACH} {self.name}p[u_] = {self.nowhere};"
        return text

    def declare_total(self) -> str:
        return f"vec<i64, W> {self.total}[U];" if self.arg else self.declare_each(self.total)

    def declare_each(self, name: str) -> str:
        return f"{self.vector} {name}[U]; {EACH} {name}[u_] = {self.start};"

    def add_block(self) -> str:
        """Fold the accumulators into the totals."""
        t, a = f"{self.total}[u_]", f"{self.name}[u_]"
        if self.arg:
            return f"{EACH} {t} = arg_place({self.name}p[u_], {self.first()});"
        return f"{EACH} {t} = {self.struct}::apply({t}, {a});"

    def update(self) -> list[str]:
        acc = f"{self.name}{self.at}"
        if self.s.vector is None:
            x = f"vec<{self.lane}, 1>({self.s.scalar(self.r.value)})"
            if self.arg:
                at = self.position(scalar=True)
                return [f"arg_step<{self.how}>({x}, {at}, -1, {self.name}, {self.name}p);"]
            return [f"{acc} = {self.struct}::apply({acc}, {x});"]
        v = self.s.vector_of(self.r.value)
        if self.arg:
            at = self.position(scalar=False)
            live = f"live_lanes<{self.s.lanes}>(n_)"
            return [f"arg_step<{self.how}>({v}, {at}, {live}, {acc}, {self.name}p{self.at});"]
        return [f"{acc} = {self.struct}::apply({acc}, tail({v}, n_, {self.identity}, B::full));"]

    def position(self, *, scalar: bool) -> str:
        at = position_of(self.r)
        return f"vec<{self.spot}, 1>({self.s.scalar(at)})" if scalar else self.s.vector_of(at)

    def max(self) -> str:
        return "true" if self.r.monoid is ARGMAX else "false"

    def first(self) -> str:
        assert self.r.position is not None
        return size_text(self.r.position.lo)

    def final(self) -> str:
        if self.arg:
            return f"arg_final<{self.max()}>({self.name}, {self.name}p, {self.first()})"
        return f"reduce<{self.struct}>({self.result})"


def position_of(r: Reduction) -> Expr:
    """The position of an argmax as a value, in 32 bits where it fits: twice the lanes."""
    assert r.position is not None
    fits = at_least(r.position.lo, 0) and is_short(r.position.lo, r.position.hi)
    return expr.short_index(r.position) if fits else expr.index_of(r.position)


def _rises(r: Reduction, loops: tuple[Axis, ...]) -> bool:
    """True if the position of an argmax only grows while `loops` (outermost first) run."""
    assert r.position is not None
    steps = dict(r.position.terms)
    reach: Size = 0  # of the loops within
    for a in reversed(loops):
        step = steps.pop(a, 0)
        if not below(reach, step):
            return False
        reach = reach + step * (a.size - 1)
    return not steps


def indent(lines: list[str], by: int = 1) -> list[str]:
    return ["  " * by + line for line in lines]
