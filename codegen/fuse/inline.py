"""First half of fusion: which values get memory, and their bodies with everything else inlined.
Loops -> Inlined.

A view is always inlined. A pointwise value is inlined where it is cheap or has one reader that does
not repeat it; other values are `stored` (the second half may still keep them in a row's local
memory or in registers). Reductions, outputs and operands of library steps are always stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from codegen.fuse.operand_views import View, step_operands
from codegen.ir import affine, expr
from codegen.ir.affine import Affine
from codegen.ir.expr import Apply, Expr, Read
from codegen.ir.rewrite import Rewrite
from codegen.ir.schema import Loops, Nest, Step, Value, line_of
from codegen.ir.sizes import Size, extent, hint
from eager.base.dataclass import dataclass
from eager.base.recorder import UserLine

# Additions per element that are cheaper than a trip through memory: of what reads no large operand
# (a mask, a one-hot row), and of the rest.
FROM_NOTHING: Final = 24
CHEAP: Final = 8
# A body larger than this is cut: registers, recursion and compile time have limits.
MAX_NODES: Final = 160


Origins: TypeAlias = tuple[tuple[str, UserLine], ...]  # ops, each with its place in the program


@dataclass(frozen=True, eq=False, slots=True)
class Stored:
    """A nest whose value is kept; `body` reads stored values and inputs only. `forced`: memory is
    needed in any case."""

    nest: Nest
    body: Expr
    reads: tuple[Read, ...]
    forced: bool
    nodes: int
    ops: Origins = ()  # of the nest and of what was inlined into it

    @property
    def value(self) -> Value:
        return self.nest.value


@dataclass(frozen=True, eq=False, slots=True)
class Inlined:
    """Stored nests and steps in order; `operands`: where the operands of steps lie."""

    loops: Loops
    items: tuple[Stored | Step, ...]
    operands: Mapping[int, View]


def inline(loops: Loops) -> Inlined:
    operands = step_operands(loops)
    forced = forced_values(loops, operands)
    kept = _Decision(loops, forced).stored()
    state = Inliner({})
    items: list[Stored | Step] = []
    for item in loops.items:
        if isinstance(item, Step):
            items.append(item)
        elif item.value.id in kept:
            body = state.resolve(item.body)
            stored = stored_nest(item, body, state.ops_of(item), forced=item.value.id in forced)
            items.append(stored)
            if not stored.reads and not item.monoid and cost_of(body) <= CHEAP:
                # An iota or a fill: nobody need read it.
                state.inlined[item.value.id] = (item, body)
        elif item.value.id in kept.inlined:
            body = state.resolve(item.body)
            if not item.view and (_size(body) > MAX_NODES or kept.is_shared(item, body)):
                ops = state.ops_of(item)
                items.append(stored_nest(item, body, ops, forced=item.value.id in forced))
            else:
                state.ops_of(item)
                state.inlined[item.value.id] = (item, body)
    return Inlined(loops, tuple(items), operands)


def stored_nest(nest: Nest, body: Expr, ops: Origins, *, forced: bool) -> Stored:
    nodes = tuple(expr.walk(body))
    reads = tuple(x for x in nodes if isinstance(x, Read))
    return Stored(nest, body, reads, forced, len(nodes), ops)


class Inliner:
    """Replaces reads of inlined values by their bodies."""

    def __init__(self, inlined: dict[int, tuple[Nest, Expr]]) -> None:
        self.inlined = inlined
        self.memo: dict[tuple[int, tuple[Affine, ...]], Expr] = {}
        self.ops: dict[int, Origins] = {}

    def ops_of(self, item: Nest) -> Origins:
        """The ops that `item` computes, each of a place once, in order; views are not worth
        naming."""
        names: dict[tuple[str, UserLine], None] = {}
        for x in expr.walk(item.body):
            if isinstance(x, Read) and x.value in self.inlined:
                names |= dict.fromkeys(self.ops.get(x.value, ()))
        if item.op and not item.view:
            names[item.op, line_of(item.where)] = None
        found = self.ops[item.value.id] = tuple(names)
        return found

    def resolve(self, body: Expr) -> Expr:
        return Rewrite({}, self.on_read)(body)

    def on_read(self, value: int, index: tuple[Affine, ...], x: Read) -> Expr:
        producer = self.inlined.get(value)
        if producer is None:
            return expr.read(value, index, x.dtype)
        found = self.memo.get((value, index))
        if found is None:
            nest, body = producer
            found = self.memo[value, index] = substitute_axes(nest, body, index)
        return found


def substitute_axes(nest: Nest, body: Expr, index: tuple[Affine, ...]) -> Expr:
    """The body of `nest` at `index`."""
    by = {
        affine.axis_of(a): i
        for a, i in zip(nest.axes, index, strict=True)
        if a.terms and a is not i
    }
    return Rewrite(by)(body) if by else body


def forced_values(loops: Loops, operands: Mapping[int, View]) -> set[int]:
    """Values that need memory whatever fusion does: outputs, written values, checks, memory that
    steps read."""
    program = loops.program
    forced = {v.id for v in program.outputs} | {v.id for _, v in program.writes}
    forced |= {check.value.id for check in program.checks}
    return forced | {view.base.id for view in operands.values()}


class _Stored(set[int]):
    """Values to store; `inlined` are those that live in their readers (the rest is dead), and
    `crowded` those of them whose one reader in the end would be larger than a body may be."""

    def __init__(self) -> None:
        super().__init__()
        self.inlined: set[int] = set()
        self.crowded: set[int] = set()
        self.readers: dict[int, int] = {}

    def is_shared(self, nest: Nest, body: Expr) -> bool:
        """True if each of the bodies that a large one is cut into would compute this again."""
        vid = nest.value.id
        return vid in self.crowded and self.readers[vid] > 1 and cost_of(body) > CHEAP


@dataclass(slots=True)
class _Use:
    """Uses of a value by what is stored later: the stored values that use it, the number of reads,
    and the size of the largest loop that reads it.

    `outer`: every read leaves the reader's last axis out, so that the value is hoisted out of the
    inner loop."""

    sinks: set[int]
    reads: int = 0
    iterations: int = 0
    outer: bool = True


class _Decision:
    """Choice of the values to store: a reverse sweep, so that the fate of all readers is known when
    a value is decided."""

    def __init__(self, loops: Loops, forced: set[int]) -> None:
        self.loops = loops
        self.forced = forced
        self.uses: dict[int, _Use] = {}
        self.readers = _readers(loops)
        self.cost, self.leaves = _estimates(loops, self.readers)
        self.chained = _chained(loops, self.readers)

    def stored(self) -> _Stored:
        kept = _Stored()
        kept.readers = self.readers
        sizes: dict[int, int] = {}  # of what is inlined into one value only
        for item in reversed(self.loops.items):
            if isinstance(item, Step):
                continue
            vid = item.value.id
            use = self.uses.get(vid)
            if use is None and vid not in self.forced:
                continue  # dead
            store = vid in self.forced or item.monoid is not None or not self.may_inline(item, use)
            (kept if store else kept.inlined).add(vid)
            nodes = 0
            for x in expr.walk(item.body):
                nodes += 1
                if isinstance(x, Read):
                    self.add(item, x, None if store else use)
            if store:
                sizes[vid] = sizes.get(vid, 0) + nodes
            elif use is not None and len(use.sinks) == 1:
                (sink,) = use.sinks
                sizes[sink] = sizes.get(sink, 0) + nodes
        kept.crowded = {v for v in kept.inlined if self.is_crowded(v, sizes)}
        return kept

    def is_crowded(self, vid: int, sizes: Mapping[int, int]) -> bool:
        sinks = self.uses[vid].sinks
        return len(sinks) == 1 and all(sizes[sink] > MAX_NODES for sink in sinks)

    def add(self, item: Nest, x: Read, through: _Use | None) -> None:
        """Record that `item` reads `x`; `through` is how the inlined `item` itself is used."""
        use = self.uses.setdefault(x.value, _Use(set()))
        use.sinks |= {item.value.id} if through is None else through.sinks
        last = _depends_on_last(item, x)
        if through is None:
            size = hint(item.value.aval.numel * extent(item.over))
            use.iterations = max(use.iterations, size)
            use.outer &= not last
        else:
            use.iterations = max(use.iterations, through.iterations)
            use.outer &= through.outer or not last
        use.reads += 1 if through is None or not item.view else through.reads

    def may_inline(self, nest: Nest, use: _Use | None) -> bool:
        if nest.view or use is None:
            return True
        size, cost = hint(nest.value.aval.numel), self.cost[nest.value.id]
        if size == 1 and cost <= 100 and nest.value.id not in self.chained:
            return True  # hoisted: once per kernel
        if len(use.sinks) <= 1:
            return cost <= CHEAP or use.iterations * use.reads <= size or use.outer
        leaves = self.leaves[nest.value.id]
        return leaves <= 1 and cost <= (CHEAP if leaves else FROM_NOTHING)


def _readers(loops: Loops) -> dict[int, int]:
    """Number of reads of each value."""
    readers: dict[int, int] = {}
    for item in loops.items:
        if isinstance(item, Nest):
            for x in expr.walk(item.body):
                if isinstance(x, Read):
                    readers[x.value] = readers.get(x.value, 0) + 1
    return readers


def _estimates(loops: Loops, readers: Mapping[int, int]) -> tuple[dict[int, int], dict[int, int]]:
    """Two estimates for each value, if its single-use producers are inlined: additions per element,
    and operands of about its own size."""
    values = loops.by_id()
    cost: dict[int, int] = {}
    leaves: dict[int, int] = {}
    for item in loops.items:
        if not isinstance(item, Nest):
            continue
        total, count = cost_of(item.body), 0
        for x in expr.walk(item.body):
            if not isinstance(x, Read):
                continue
            own = leaves.get(x.value)
            if own is None or (readers[x.value] > 1 and cost[x.value] > CHEAP):
                count += is_large(values[x.value].aval.numel, item.value.aval.numel)
            else:
                total += cost[x.value]
                count += own
        if item.monoid:  # read, never recomputed
            total, count = 0, 1
        cost[item.value.id], leaves[item.value.id] = min(total, 9999), count
    return cost, leaves


def _chained(loops: Loops, readers: Mapping[int, int]) -> set[int]:
    """Single values that several read and that are computed from such: every second of them in a
    row. Were all of a table's elements computed again by who reads them, the first would be in
    each."""
    found: set[int] = set()
    above: set[int] = set()  # the others: several read them, or what is computed from them
    for item in loops.items:
        if isinstance(item, Nest) and hint(item.value.aval.numel) == 1 and not item.monoid:
            vid, reads = item.value.id, expr.walk(item.body)
            below = any(isinstance(x, Read) and x.value in above for x in reads)
            if below and readers.get(vid, 0) > 1 and not item.view:
                found.add(vid)
            elif below or (readers.get(vid, 0) > 1 and cost_of(item.body)):
                above.add(vid)
    return found


def is_large(operand: Size, result: Size) -> bool:
    """True if reading an operand of so many elements counts beside writing the result (a bias or a
    row's mean does not)."""
    return hint(operand) * 4 > hint(result)


def _depends_on_last(item: Nest, x: Read) -> bool:
    last = next((a for a in reversed((*item.axes, *item.over)) if a.terms), None)
    return last is not None and any(affine.axis_of(last) in affine.axes_of(i) for i in x.index)


def cost_of(body: Expr) -> int:
    """Additions per element, roughly."""
    return sum(expr.COST[x.fn] for x in expr.walk(body) if isinstance(x, Apply))


def _size(body: Expr) -> int:
    return sum(1 for _ in expr.walk(body))
