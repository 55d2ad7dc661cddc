"""Emit: scalar expressions of one tile as Triton statements. (Expr over the counters r and c) ->
lines and value names.

A `Block` writes the statements of one tile. Every value knows which tile dimensions it spans, so
that scalars, columns [R, 1], rows [1, C] and full tiles [R, C] broadcast by themselves. Loads carry
exactly the masks they need: the tile's bounds along the dimensions of their address, and the
conditions of the `Select`s they stand in (whose other branch may be out of bounds).

A size that is known at run time only is written as a polynomial of the kernel's int parameters: so
the text is one for all sizes, and Triton sees what multiples of a constant are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from itertools import count
from typing import Final

from codegen.ir import affine, expr
from codegen.ir.affine import Affine, Axis, FloorDiv, Mod
from codegen.ir.expr import Apply, Cast, Checked, Const, Expr, IndexOf, Load, Local, Select
from codegen.ir.schema import Buffer, Store, Unsupported
from codegen.ir.sizes import Size, at_least, divides, fit_32_bits, is_static, same
from codegen.ir.walk import Walk, bare
from codegen.runtime.artifact import SIZE
from codegen.targets.triton import table
from codegen.targets.triton.runtime.program import size_key
from codegen.targets.triton.tile import COMBINES, is_atomic
from eager.base import dtype as dt
from eager.base.dataclass import dataclass
from eager.sizes import symint

Dims = frozenset[str]
NONE: Final[Dims] = frozenset()
STEP: Final = "    "
WIDE: Final = 16  # a stride that is a multiple of this keeps rows where accesses may be wide
INLINE: Final = 60  # a value used once stands inside its user's line up to this length
NUMBERS_STAND_IN: Final = frozenset("add sub mul div eq ne lt le gt ge".split())


@dataclass(frozen=True, slots=True)
class Text:
    """A value as Triton text, and the tile dimensions it spans."""

    text: str
    dims: Dims = NONE


Guard = tuple[Text, ...]
Memo = dict[tuple[Expr, Guard], Text]


@dataclass
class Signature:
    """The parameters of a kernel in order of first use: buffer -> parameter name. `checks`: what
    each error slot means. `sizes`: the parameters that are sizes, or parts of one, by name;
    `strides`: those that addresses of neighbours are apart by. `wide`: they have 64 bits.
    `said`: sizes that checks name."""

    buffers: Mapping[str, Buffer]
    wide: bool = False
    names: dict[str, str] = field(default_factory=dict)
    checks: list[str] = field(default_factory=list)
    sizes: dict[str, Size] = field(default_factory=dict)
    strides: set[str] = field(default_factory=set)
    said: dict[str, Size] = field(default_factory=dict)
    touched: dict[Expr, frozenset[str]] = field(default_factory=dict)

    def parameter(self, buffer: str) -> str:
        name = self.names.get(buffer)
        if name is None:
            prefix = "s" if self.buffers[buffer].kind == "scalar" else "p"
            name = self.names[buffer] = f"{prefix}{len(self.names)}"
        return name

    def size(self, n: Size) -> str:
        """A size as text, in parentheses if it is a sum or a product."""
        if n.__class__ is int:
            return str(n)
        text = symint.text(n, self._atom)
        return text if text.isidentifier() else f"({text})"

    def _atom(self, atom: symint.Atom) -> str:
        size: Size = symint.of_atom(atom)  # type: ignore[assignment]
        found = [name for name, known in self.sizes.items() if same(known, size)]
        if not found:
            found = [f"n{len(self.sizes)}"]
            self.sizes[found[0]] = size
        return found[0]

    def step(self, n: Size) -> str:
        """A coefficient of an index as text: accesses are wide where it is a multiple of 16."""
        text = self.size(n)
        if n.__class__ is not int and not divides(WIDE, n):
            self.strides.update(name for name in self.sizes if re.search(rf"\b{name}\b", text))
        return text

    def reads(self, x: Expr) -> frozenset[str]:
        """The buffers that `x` reads ("errors" when it checks an index). Linear: each node once."""
        for y in expr.walk(x) if x not in self.touched else ():
            if y not in self.touched:
                own = {y.buffer} if isinstance(y, Load) else set()
                own = {"errors"} if isinstance(y, Checked) else own
                parts = (self.touched[c] for c in expr.children(y))
                self.touched[y] = frozenset(own).union(*parts)
        return self.touched[x]

    def check(self, where: str, bound: Size) -> int:
        """The slot of a check; what it says names the size `bound`."""
        if SIZE in where:
            key = size_key(bound)
            self.said[key] = bound
            where = where.replace(SIZE, f"{{{key}}}")
        if where not in self.checks:
            self.checks.append(where)
        return self.checks.index(where)


@dataclass
class Block(Walk[Text]):
    """Statements of a tile. `counters`: spelling of each canonical axis; `masks`: name of the bound
    of each dimension."""

    signature: Signature
    lines: list[str]
    indent: str
    counters: dict[Axis, Text]
    masks: dict[str, str]
    locals: dict[str, Text]
    memo: Memo
    wide: bool
    fresh: Callable[[], str]
    uses: Mapping[Expr, int] = field(default_factory=dict)

    # ---- statements

    def put(self, line: str) -> None:
        self.lines.append(self.indent + line)

    def bind(self, value: Text) -> Text:
        """Give a value a name."""
        name = self.fresh()
        self.put(f"{name} = {bare(value.text)}")
        return Text(name, value.dims)

    def store(self, s: Store, dims: Iterable[str], value: Text, address: Text) -> None:
        """Write `value` at `address`; `dims` are the dimensions the stage runs over. What combines
        does so once for each element of them, also where all go to one place."""
        dims = frozenset(dims)
        mask = self._mask(dims, ())
        needed = dims & self.masks.keys() if s.monoid is None else dims
        span = dims_in(address.dims | value.dims | needed)
        target = self._widened(address, span)
        if s.monoid is None:
            self.put(f"tl.store({target}, {bare(value.text)}{mask})")
            return
        dtype = self.signature.buffers[s.buffer].dtype
        if not is_atomic(s.monoid, dtype):
            what = f"{s.monoid.name} {dtype.name}"
            raise Unsupported(f"the triton backend cannot {what} at shared places")
        self.put(f'tl.atomic_{COMBINES[s.monoid]}({target}, {value.text}{mask}, sem="relaxed")')

    def store_in_turn(self, s: Store, value: Text, address: Text) -> None:
        """Combine with memory in a serial loop: each turn sees what the last one wrote."""
        dtype = self.signature.buffers[s.buffer].dtype
        if s.monoid is not None:
            wide = table.type_name(dtype.compute)
            before = self.bind(Text(f"tl.load({address.text}).to({wide})"))
            template = table.template(COMBINES[s.monoid], dtype.compute)
            spelled = template.format(before.text, value.text)
            value = Text(f"({spelled}).to({table.type_name(dtype)})")
        self.put(f"tl.store({address.text}, {value.text})")
        self.put("tl.debug_barrier()")

    def address(self, buffer: str, offset: Affine, guard: Guard = ()) -> Text:
        place = self.index(offset, guard)
        name = self.signature.parameter(buffer)
        return Text(name if place.text == "0" else f"{name} + {place.text}", place.dims)

    def _mask(self, dims: Dims, guard: Guard, joined: Sequence[str] = ()) -> str:
        parts = [self.masks[d] for d in dims_in(dims) if d in self.masks]
        return mask([*parts, *(g.text for g in guard), *joined])

    def _widened(self, address: Text, span: Sequence[str]) -> str:
        """The address as a block over all dimensions of `span`."""
        missing = [d for d in span if d not in address.dims]
        return address.text + "".join(f" + 0 * {self._counter_of(d)}" for d in missing)

    def _counter_of(self, dim: str) -> str:
        return next(t.text for t in reversed(self.counters.values()) if t.dims == frozenset((dim,)))

    # ---- indices

    def index(self, index: Affine, guard: Guard = ()) -> Text:
        """An index form; integer types are wide enough for its range by `wide`."""
        parts: list[str] = []
        dims: Dims = NONE
        for atom, c in index.terms:
            body = self._atom(atom, guard)
            dims |= body.dims
            sign, size = self._signed(c)
            parts.append(f"{sign} {body.text if size == '1' else f'{size} * {body.text}'}")
        if not parts or not same(index.const, 0):
            parts.append(" ".join(self._signed(index.const)))
        text = " ".join(parts).removeprefix("+ ")
        if len(parts) == 1 and text.startswith("("):
            return Text(text, dims)  # a quotient or remainder in its own parentheses
        text = f"0 {text}" if text.startswith("-") else text
        plain = (len(parts) == 1 and text.isidentifier()) or text.isdigit()
        return Text(text if plain else f"({text})", dims)

    def _signed(self, n: Size) -> tuple[str, str]:
        if n.__class__ is int:
            return "-" if n < 0 else "+", str(abs(n))
        return "+", self.signature.step(n)

    def _atom(self, atom: affine.Atom, guard: Guard) -> Text:
        if isinstance(atom, Axis):
            return self.counters[atom]
        if isinstance(atom, affine.Opaque):
            value = self.named(atom.expr, guard)
            # Lanes that are masked off or failed a check still compute an address.
            lo, hi = map(self.signature.size, (atom.lo, atom.hi))
            clamped = f"tl.minimum(tl.maximum({value.text}.to(tl.int64), {lo}), {hi})"
            return self.bind(Text(clamped, value.dims))
        inner, d = atom.index, self.signature.size(atom.divisor)
        if not at_least(inner.lo, 0) and not is_static((inner.lo, atom.divisor)):
            body = self.index(inner, guard)
            rule = "jc.int_floor_div" if isinstance(atom, FloorDiv) else "jc.int_mod"
            return Text(f"{rule}({bare(body.text)}, {d})", body.dims)
        # Whole divisors that make the operand positive.
        lift = 0 if at_least(inner.lo, 0) else -(inner.lo // atom.divisor)
        body = self.index(inner + lift * atom.divisor, guard)
        if isinstance(atom, FloorDiv):
            return Text(f"({body.text} // {d}{f' - {lift}' if lift else ''})", body.dims)
        assert isinstance(atom, Mod)
        return Text(f"({body.text} % {d})", body.dims)

    # ---- values

    def value(self, x: Expr, guard: Guard = ()) -> Text:
        """The text of `x`; written once per guard, named when used more than once."""
        key = (x, guard if guard and self.signature.reads(x) else ())
        found = self.memo.get(key)
        if found is None:
            found = self.spell(x, guard)
            long = self.uses.get(x, 2) > 1 or len(found.text) > INLINE
            if long and type(x) is not Const and not found.text.isidentifier():
                found = self.bind(found)
            self.memo[key] = found
        return found

    def named(self, x: Expr, guard: Guard = ()) -> Text:
        """The text of `x`, in which a constant carries its type: for places where a bare number
        would lose it."""
        if isinstance(x, Const):
            return Text(table.typed(x.value, x.dtype))
        return self.value(x, guard)

    def full(self, x: Text, span: Sequence[str], shape: str) -> str:
        """`x` as a block over all dimensions of `span`."""
        return x.text if dims_in(x.dims) == tuple(span) else f"tl.broadcast_to({x.text}, {shape})"

    # ---- one rule per kind

    def const(self, x: Const, guard: Guard) -> Text:
        return Text(table.number(x.value, x.dtype))

    def load(self, x: Load, guard: Guard) -> Text:
        if self.signature.buffers[x.buffer].kind == "scalar":
            return Text(self.signature.parameter(x.buffer))
        address = self.address(x.buffer, x.offset, guard)
        span = address.dims.union(*(g.dims for g in guard))
        target = self._widened(address, dims_in(span))
        return self.bind(Text(f"tl.load({target}{self._mask(span, guard)})", span))

    def index_of(self, x: IndexOf, guard: Guard) -> Text:
        index = self.index(x.index, guard)
        return Text(f"{index.text}.to(tl.int64)", index.dims)

    def local(self, x: Local, guard: Guard) -> Text:
        return self.locals[x.name]

    def apply(self, x: Apply, guard: Guard) -> Text:
        operand = x.dtype if x.fn.startswith("random") else x.args[-1].dtype
        if x.fn == "random_bits":
            operand = dt.int64
        template = table.template(x.fn, operand)
        literal = x.fn in NUMBERS_STAND_IN and operand is not dt.bool_ and table.is_infix(template)
        args = [(self.value if literal else self.named)(a, guard) for a in x.args]
        counts = [template.count(f"{{{i}}}") for i in range(len(args))]
        repeated = [a if n == 1 else self.bind(a) for a, n in zip(args, counts, strict=True)]
        called = not template.startswith("(")
        text = template.format(*(bare(a.text) if called else a.text for a in repeated))
        return Text(text, frozenset().union(*(a.dims for a in args)))

    def cast(self, x: Cast, guard: Guard) -> Text:
        arg = self.named(x.arg, guard)
        if x.dtype is dt.bool_:
            return Text(f"({arg.text} != 0)", arg.dims)
        if x.arg.dtype is dt.bool_ and x.dtype in (dt.float16, dt.bfloat16):
            return Text(f"{arg.text}.to(tl.float32).to({table.type_name(x.dtype)})", arg.dims)
        if x.arg.dtype.is_floating_point and not x.dtype.is_floating_point:
            return Text(f"jc.to_int({bare(arg.text)}, {table.type_name(x.dtype)})", arg.dims)
        return Text(f"{arg.text}.to({table.type_name(x.dtype)})", arg.dims)

    def select(self, x: Select, guard: Guard) -> Text:
        condition = self.named(x.cond, guard)
        if not condition.text.isidentifier():
            condition = self.bind(condition)
        refused = condition
        if self.signature.reads(x.other):
            refused = self.bind(Text(f"~{condition.text}", condition.dims))
        then = self.named(x.then, (*guard, condition) if self.signature.reads(x.then) else guard)
        other = self.named(x.other, (*guard, refused) if self.signature.reads(x.other) else guard)
        return Text(
            f"tl.where({condition.text}, {then.text}, {other.text})",
            condition.dims | then.dims | other.dims,
        )

    def checked(self, x: Checked, guard: Guard) -> Text:
        """The index itself; lanes outside [lo, hi] set the error slot of this check."""
        value = self.named(x.arg, guard)
        if not value.text.isidentifier():
            value = self.bind(value)
        slot = self.signature.check(x.where, x.hi + 1)
        lo, hi = map(self.signature.size, (x.lo, x.hi))
        bad = self.bind(Text(f"({value.text} < {lo}) | ({value.text} > {hi})", value.dims))
        span = value.dims.union(*(g.dims for g in guard))
        address = Text(f"errors + {slot}")
        if value.dims:  # of the loop in which the index was computed, which may be an earlier one
            address = Text(f"{address.text} + 0 * {value.text}", value.dims)
        target = self._widened(address, dims_in(span))
        self.put(f"tl.store({target}, 1{self._mask(span, guard, [bad.text])})")
        return value


def plain_block(signature: Signature, *, wide: bool) -> Block:
    """A block at the start of a kernel that names its values v0, v1 ..."""
    numbers = count()
    return Block(signature, [], STEP, {}, {}, {}, {}, wide, lambda: f"v{next(numbers)}")


def mask(conditions: Iterable[str]) -> str:
    """The argument of a load or store that is made where all conditions hold."""
    text = " & ".join(dict.fromkeys(conditions))
    return f", mask={text}" if text else ""


def dims_in(dims: Iterable[str]) -> tuple[str, ...]:
    """Rows before columns."""
    return tuple(d for d in "rc" if d in dims)


def needs_int64(buffers: Iterable[Buffer]) -> bool:
    """True if an offset into one of these may pass 2**31."""
    return not fit_32_bits(b.size for b in buffers)
