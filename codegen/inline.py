"""First half of fusion: which values get memory, and their bodies with everything else inlined. Loops -> Inlined.

A view is always inlined. A pointwise value is inlined where it is cheap or has one reader that does not repeat it; other
values are `stored` (the second half may still keep them in a row's local memory or in registers). Reductions, outputs and
operands of library steps are always stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from codegen import affine, expr
from codegen.access import View, step_operands
from codegen.affine import Affine
from codegen.expr import Apply, Expr, Read
from codegen.ir import Loops, Nest, Step, Value
from codegen.rewrite import Rewrite

# Rough cost of an intrinsic in additions, for the recompute decision only.
COST: Final[Mapping[str, int]] = dict.fromkeys(
    "exp expm1 log log1p log2 sin cos tan tanh sinh cosh asin acos atan erf".split(), 12
) | {"pow": 30, "atan2": 20, "lgamma": 40, "div": 4, "sqrt": 4, "rsqrt": 4, "mod": 8, "floor_div": 8, "fmod": 12,
     "random_uniform": 25, "random_normal": 50, "random_bits": 25}  # fmt: skip
CHEAP: Final = 8  # recomputing this much per element is cheaper than a trip through memory
MAX_NODES: Final = 160  # a body larger than this is cut: registers, recursion and compile time have limits


@dataclass(frozen=True, eq=False, slots=True)
class Stored:
    """A nest whose value is kept; `body` reads stored values and inputs only. `forced`: memory is needed in any case."""

    nest: Nest
    body: Expr
    reads: tuple[Read, ...]
    forced: bool

    @property
    def value(self) -> Value:
        return self.nest.value


@dataclass(frozen=True, eq=False, slots=True)
class Inlined:
    """Stored nests and steps in order; `operands`: where the operands of steps lie."""

    loops: Loops
    items: tuple[Stored | Step, ...]
    operands: Mapping[int, View]


@dataclass(slots=True)
class _Uses:
    """How a value is used by what comes after it: consumers that are not views, reads, and iterations of the largest."""

    consumers: int = 0
    reads: int = 0
    iterations: int = 0
    outer: bool = True  # every read leaves the consumer's last axis out: hoisted out of its inner loop


def inline(loops: Loops) -> Inlined:
    operands = step_operands(loops)
    forced = forced_values(loops, operands)
    uses = _count_uses(loops, forced)
    state = _Inliner({}, {})
    items: list[Stored | Step] = []
    for item in loops.items:
        if isinstance(item, Step):
            items.append(item)
            continue
        vid = item.value.id
        if vid not in uses and vid not in forced:
            continue
        body = state.resolve(item.body)
        nodes = _size(body)
        if vid in forced or item.monoid or not _may_inline(item, body, nodes, uses[vid]):
            reads = tuple(x for x in expr.walk(body) if isinstance(x, Read))
            items.append(Stored(item, body, reads, vid in forced))
        else:
            state.inlined[vid] = (item, body)
    return Inlined(loops, tuple(items), operands)


class _Inliner:
    """Replaces reads of inlined values by their bodies."""

    def __init__(self, inlined: dict[int, tuple[Nest, Expr]], memo: dict[tuple[int, tuple[Affine, ...]], Expr]) -> None:
        self.inlined = inlined
        self.memo = memo

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
    by = {a.terms[0][0]: i for a, i in zip(nest.axes, index, strict=True) if a.terms and a is not i}
    return Rewrite(by)(body) if by else body  # type: ignore[arg-type]


def forced_values(loops: Loops, operands: Mapping[int, View]) -> set[int]:
    """Values that need memory whatever fusion does: outputs, written values, memory that steps read."""
    program = loops.program
    forced = {v.id for v in program.outputs} | {v.id for _, v in program.writes}
    return forced | {view.base.id for view in operands.values()}


def _count_uses(loops: Loops, forced: set[int]) -> dict[int, _Uses]:
    """Uses of every value, seen through views. Reverse sweep: a view's uses are complete when it is met."""
    uses: dict[int, _Uses] = {}
    for item in reversed(loops.items):
        if isinstance(item, Step):
            continue
        own = uses.get(item.value.id)
        if own is None and item.value.id not in forced:
            continue  # dead
        for x in expr.walk(item.body):
            if isinstance(x, Read):
                _add_use(uses.setdefault(x.value, _Uses()), item, x, own)
    return uses


def _add_use(use: _Uses, item: Nest, x: Read, own: _Uses | None) -> None:
    if item.view and own is not None:
        use.consumers += own.consumers
        use.reads += own.reads
        use.iterations = max(use.iterations, own.iterations)
        use.outer &= own.outer or not _depends_on_last(item, x)
        return
    use.consumers += 1
    use.reads += 1
    own_size = item.value.aval.numel
    for k in item.over:
        own_size *= k.hi + 1
    chained = own.iterations if own is not None and not item.monoid else 0
    use.iterations = max(use.iterations, own_size, chained)
    use.outer &= not _depends_on_last(item, x)


def _depends_on_last(item: Nest, x: Read) -> bool:
    last = next((a for a in reversed((*item.axes, *item.over)) if a.terms), None)
    return last is not None and any(last.terms[0][0] in affine.axes_of(i) for i in x.index)


def _may_inline(nest: Nest, body: Expr, nodes: int, use: _Uses) -> bool:
    if nest.view:
        return True
    if nodes > MAX_NODES:
        return False
    size = nest.value.aval.numel
    if size == 1 and nodes <= 40:
        return True  # hoisted: once per kernel
    cost = cost_of(body)
    leaves = {x.value for x in expr.walk(body) if isinstance(x, Read)}
    if use.consumers <= 1 and use.reads <= 1:
        repeats = use.iterations > size and not use.outer
        return cost <= CHEAP or not repeats
    return cost <= CHEAP and len(leaves) <= 1


def cost_of(body: Expr) -> int:
    """Additions per element, roughly."""
    return sum(COST.get(x.fn, 1) for x in expr.walk(body) if isinstance(x, Apply))


def _size(body: Expr) -> int:
    return sum(1 for _ in expr.walk(body))


