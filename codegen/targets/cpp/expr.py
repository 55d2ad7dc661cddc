"""Scalar expressions as C++ statements, each at the outermost loop where its operands are known.
Expr -> names in scopes.

A `Scope` is one loop level: lines, and which expressions already have a name there. `Spell` knows
which axis is spread over SIMD lanes; what does not depend on it stays scalar and is broadcast once,
outside the loop.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any

from codegen.ir import affine, expr
from codegen.ir.affine import Affine, Axis
from codegen.ir.expr import Apply, Cast, Checked, Const, Expr, IndexOf, Load, Local, Select
from codegen.ir.sizes import Size, at_least, is_static, same
from codegen.ir.walk import Walk
from codegen.targets.cpp import table
from codegen.targets.cpp.table import size_text
from eager.base import dtype as dt
from eager.base.dataclass import dataclass
from eager.base.dtype import DType


@dataclass(eq=False, slots=True)
class Scope:
    """One loop level. `axes` and `locals` are those that become known here."""

    axes: frozenset[Axis]
    lines: list[str] = field(default_factory=list)
    names: dict[Any, str] = field(default_factory=dict)


class Names:
    """Fresh names, buffers' parameters in order of first use, and error sites of one kernel."""

    stored: frozenset[str] = frozenset()  # buffers that the kernel itself writes
    calls = False  # long functions are calls: the kernel has very many of them

    def __init__(self, dtypes: dict[str, DType], scalars: frozenset[str]) -> None:
        self.dtypes = dtypes
        self.scalars = scalars
        self.params: dict[str, str] = {}
        self.locals: dict[str, str] = {}
        self.sites: list[str] = []
        self.count = 0

    def fresh(self, prefix: str = "x") -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def buffer(self, name: str) -> str:
        """The C++ name of a buffer: a parameter, or a local row buffer."""
        found = self.locals.get(name)
        if found is not None:
            return found
        return self.params.setdefault(name, f"p{len(self.params)}")

    def site(self, where: str) -> str:
        if where not in self.sites:
            self.sites.append(where)
        return f"site{self.sites.index(where)}"


class Spell(Walk[str]):
    """Writes expressions into a stack of scopes (outermost first; the last is the body of the
    innermost loop)."""

    def __init__(self, scopes: list[Scope], names: Names, vector: Axis | None, lanes: str) -> None:
        self.scopes = scopes
        self.names = names
        self.vector = vector
        self.lanes = lanes  # the C++ constant with the number of lanes
        self.counter = "" if vector is None else vector.name  # of the first lane
        self.local_names: dict[str, tuple[str, int, bool]] = {}  # name, scope, is vector

    # ------------------------------------------------------------------ where things go

    def is_vector(self, x: Expr) -> bool:
        if self.vector is not None and self.vector in expr.axes(x):
            return True
        return any(self.local_names[n][2] for n in expr_locals(x) if n in self.local_names)

    def depth(self, x: Expr) -> int:
        axes = expr.axes(x)
        level = max((self.axis_depth(a) for a in axes), default=0)
        used = (self.local_names[n][1] for n in expr_locals(x))
        level = max(level, max(used, default=0))
        return max(level, 1) if level == 0 and self.reads_row(x) else level

    def level(self, x: Expr, guard: Expr | None) -> int:
        """The outermost scope in which `x` is known, and whether it is needed."""
        return max(self.depth(x), 0 if guard is None else self.depth(guard))

    def reads_row(self, x: Expr) -> bool:
        """True if `x` loads from a row buffer, which exists inside the loop over rows only, or from
        memory that an earlier stage of this kernel writes: it cannot be read before the loop."""
        read, names = loaded(x), self.names
        return not read.isdisjoint(names.stored) or not read.isdisjoint(names.locals)

    def axis_depth(self, a: Axis) -> int:
        for i in range(len(self.scopes) - 1, -1, -1):
            if a in self.scopes[i].axes:
                return i
        raise KeyError(a)

    def find(self, key: Any) -> str | None:
        for scope in reversed(self.scopes):
            found = scope.names.get(key)
            if found is not None:
                return found
        return None

    def define(self, key: Any, depth: int, ctype: str, text: str) -> str:
        scope = self.scopes[depth]
        name = self.names.fresh()
        scope.lines.append(f"const {ctype} {name} = {text};")
        scope.names[key] = name
        return name

    # ------------------------------------------------------------------ values

    def scalar(self, x: Expr, guard: Expr | None = None) -> str:
        """The name (or literal) of a value that is the same in all lanes."""
        if type(x) is Const:
            return table.constant(x)
        guard = self.needed(guard, x)
        key = (x, guard)
        found = self.find(key)
        if found is not None:
            return found
        text = self.spell(x, guard, False)
        return self.define(key, self.level(x, guard), table.register(x.dtype), text)

    def vector_of(self, x: Expr, guard: Expr | None = None) -> str:
        """The name of a value as a vector of `lanes`."""
        guard = self.needed(guard, x)
        key = (x, guard, self.lanes)
        found = self.find(key)
        if found is not None:
            return found
        lane_type = table.lane(x.dtype)
        ctype = f"vec<{lane_type}, {self.lanes}>"
        lanes_vary = self.is_vector(x) or (guard is not None and self.is_vector(guard))
        if not lanes_vary:
            scalar = self.scalar(x, guard)
            text = f"splat<{lane_type}, {self.lanes}>({scalar})"
        else:
            text = self.spell(x, guard, True)
        return self.define(key, self.level(x, guard), ctype, text)

    def needed(self, guard: Expr | None, x: Expr) -> Expr | None:
        """The guard, if `x` reads memory that may not be there without it. Run-time scalars always
        are, and what does not vary with counters that alone decide the guard: it is read somewhere.
        """
        if guard is None or not has_load(x):
            return None
        axes = expr.axes(guard)
        if axes and axes.isdisjoint(expr.axes(x)) and _is_of_counters(guard):
            return None
        return None if type(x) is Load and x.buffer in self.names.scalars else guard

    def value(self, x: Expr, guard: Expr | None, vector: bool) -> str:
        return self.vector_of(x, guard) if vector else self.scalar(x, guard)

    def anywhere(self, guard: Expr) -> str:
        """Condition that any lane needs a value that is the same in all of them."""
        return f"any({self.vector_of(guard)})" if self.is_vector(guard) else self.scalar(guard)

    # ------------------------------------------------------------------ indices

    def index_text(self, index: Affine, guard: Expr | None = None, *, lane: bool = False) -> str:
        """The index as an i64 C++ expression: for the first lane, or for lane `l_`, with the SIMD
        axis advanced by the lane, and data indices by lane."""
        parts = []
        for atom, c in index.terms:
            body = self._atom(atom, guard, lane=lane)
            parts.append(body if same(c, 1) else f"{size_text(c)}*{body}")
        if not parts or not same(index.const, 0):
            parts.append(size_text(index.const))
        return " + ".join(parts)

    def _atom(self, atom: affine.Atom, guard: Expr | None, *, lane: bool) -> str:
        if isinstance(atom, Axis):
            name = self.counter if atom is self.vector else atom.name
            return f"({name} + l_)" if lane and atom is self.vector else name
        if isinstance(atom, affine.Opaque):
            varying = self.is_vector(atom.expr) or (guard is not None and self.is_vector(guard))
            name = self.value(atom.expr, guard, lane and varying)
            return f"(i64)lane({name}, l_)" if lane and varying else f"(i64){name}"
        inner, d = self.index_text(atom.index, guard, lane=lane), size_text(atom.divisor)
        div = isinstance(atom, affine.FloorDiv)
        if at_least(atom.index.lo, 0):
            return f"(({inner}) {'/' if div else '%'} {d})"
        return f"{'fdiv' if div else 'fmod_i'}({inner}, {d})"

    def step(self, index: Affine) -> Size | None:
        """Step of the index from lane to lane; None if irregular."""
        if self.vector is None:
            return 0
        if any(map(self.is_vector, affine.opaques(index))):
            return None
        return affine.coefficient(index, affine.form(self.vector))

    # ------------------------------------------------------------------ one rule per kind

    def const(self, x: Const, guard: Expr | None, vector: bool) -> str:
        return table.constant(x)

    def apply(self, x: Apply, guard: Expr | None, vector: bool) -> str:
        if x.fn in expr.CODEGEN:
            return self.random(x, guard, vector)
        kind, by = x.args[-1].dtype, x.args[-1]
        known = by.value if isinstance(by, Const) and kind.category == dt.INT else 0
        if vector and known > 0 and x.fn in table.DIVISIONS:
            return f"{table.DIVISIONS[x.fn]}<{int(known)}>({self.value(x.args[0], guard, vector)})"
        fn, operands = x.fn, x.args
        base = operands[0]
        if fn == "pow" and kind.is_floating_point and isinstance(base, Const) and base.value == 2:
            fn, operands = "exp2", operands[1:]
        args = [self.value(a, guard, vector) for a in operands]
        if kind is dt.bool_:
            return f"{table.BOOL_FUNCTIONS[x.fn]}({', '.join(args)})"
        if kind.category == dt.INT and x.fn in table.INT_IDENTITY:
            return args[0]
        lane = table.register(kind)
        wrap = f"vec<{lane}, {self.lanes if vector else 1}>"
        # explicit types: a literal or a narrow int promoted by C++ would not deduce one vector type
        typed = [f"{wrap}({a})" if not vector else a for a in args]
        if x.fn == "where":
            typed[0] = args[0]
            return f"select<{wrap}>({', '.join(typed)})"
        if not vector and kind is dt.float64 and fn in table.ALONE:
            return f"{fn}_alone({', '.join(typed)})"
        calls = self.names.calls and fn in table.APART and kind.is_floating_point
        return f"{table.FUNCTIONS[fn]}{'_apart' if calls else ''}({', '.join(typed)})"

    def random(self, x: Apply, guard: Expr | None, vector: bool) -> str:
        seed, ordinal = (self.scalar(a, guard) for a in x.args[:2])
        index = self.value(x.args[2], guard, vector)
        return f"{x.fn}<{table.register(x.dtype)}>({seed}, {ordinal}, {index})"

    def cast(self, x: Cast, guard: Expr | None, vector: bool) -> str:
        arg, to, source = self.value(x.arg, guard, vector), x.dtype, x.arg.dtype
        lanes = self.lanes if vector else "1"
        typed = arg if vector else f"{table.register(source)}({arg})"
        if source is dt.bool_:
            return f"from_mask<{table.register(to)}>({typed})"
        if to is dt.bool_:
            return f"to_bool({typed})"
        wide = table.register(to)
        text = typed if table.register(source) == wide else f"cvt<{wide}>({typed})"
        if to in (dt.float16, dt.bfloat16) and source is not to:
            short = "bf16" if to is dt.bfloat16 else "f16"
            text = f"round_{short}(vec<f32, {lanes}>({text}))"
        return text

    def select(self, x: Select, guard: Expr | None, vector: bool) -> str:
        cond = self.value(x.cond, guard, vector)
        yes, no = x.cond, expr.BUILD.not_(x.cond)
        if guard is not None:
            yes, no = expr.BUILD.and_(guard, yes), expr.BUILD.and_(guard, no)
        then, other = self.value(x.then, yes, vector), self.value(x.other, no, vector)
        wrap = f"vec<{table.lane(x.dtype)}, {self.lanes if vector else 1}>"
        return f"select<{wrap}>({cond}, {wrap}({then}), {wrap}({other}))"

    def checked(self, x: Checked, guard: Expr | None, vector: bool) -> str:
        arg = self.value(x.arg, guard, vector)
        n = "n_" if vector else "1"
        lo, hi = size_text(x.lo), size_text(x.hi)
        return f"bounded({arg}, {lo}, {hi}, {n}, arena, {self.names.site(x.where)})"

    def local(self, x: Local, guard: Expr | None, vector: bool) -> str:
        return self.local_names[x.name][0]

    def index_of(self, x: IndexOf, guard: Expr | None, vector: bool) -> str:
        lane = table.register(x.dtype)
        if not vector:
            return f"{lane}({self.index_text(x.index, guard)})"
        step = self.step(x.index)
        wrap = f"vec<{lane}, {self.lanes}>"
        if step is None:
            at = self.index_text(x.index, guard, lane=True)
            return f"lanes_of<{wrap}>(n_, [&](int l_) {{ return ({lane})({at}); }})"
        first = f"splat<{lane}, {self.lanes}>({lane}({self.index_text(x.index, guard)}))"
        return f"{first} + iota<{lane}, {self.lanes}>() * {lane}({size_text(step)})"

    def load(self, x: Load, guard: Expr | None, vector: bool) -> str:
        if x.buffer in self.names.scalars:
            return self.names.buffer(x.buffer)
        p = self.names.buffer(x.buffer)
        if not vector:
            at = f"{p} + {self.index_text(x.offset, guard)}"
            return f"ld1({at})" if guard is None else f"ld1_if({at}, {self.anywhere(guard)})"
        step = self.step(x.offset)
        if guard is not None and self.is_vector(guard):
            return self._guarded_load(x, guard, p, None if affine.reads_data(x.offset) else step)
        text = self._plain_load(x, guard, p, step)
        if guard is None:
            return text
        wrap = f"vec<{table.lane(x.dtype)}, {self.lanes}>"
        return f"{self.scalar(guard)} ? {text} : {wrap}{{}}"

    def _plain_load(self, x: Load, guard: Expr | None, p: str, step: Size | None) -> str:
        if step is None:
            wrap = f"vec<{table.lane(x.dtype)}, {self.lanes}>"
            at = self.index_text(x.offset, guard, lane=True)
            return f"lanes_of<{wrap}>(n_, [&](int l_) {{ return ld1({p} + {at}); }})"
        at = f"{p} + {self.index_text(x.offset, guard)}"
        if same(step, 1):
            return f"ld<B, {self.lanes}>({at}, n_)"
        if same(step, 0):
            return f"splat<{table.lane(x.dtype)}, {self.lanes}>(ld1({at}))"
        return f"ld_strided<B, {self.lanes}>({at}, {size_text(step)}, n_)"

    def _guarded_load(self, x: Load, guard: Expr, p: str, step: Size | None) -> str:
        mask = self.vector_of(guard)
        if step is not None and same(step, 1):
            return f"ld_if<B, {self.lanes}>({p} + {self.index_text(x.offset, guard)}, {mask}, n_)"
        wrap = f"vec<{table.lane(x.dtype)}, {self.lanes}>"
        if step is not None and same(step, 0):
            at = self.index_text(x.offset)
            one = f"splat<{table.lane(x.dtype)}, {self.lanes}>(ld1({p} + {at}))"
            return f"any({mask}) ? {one} : {wrap}{{}}"
        at = self.index_text(x.offset, guard, lane=True)
        return f"lanes_if<{wrap}>({mask}, n_, [&](int l_) {{ return ld1({p} + {at}); }})"


@expr.remembered
def _is_of_counters(x: Expr) -> bool:
    """True if counters alone decide a value: no data, and no size of a call."""
    if isinstance(x, Load | Local | Checked):
        return False
    own = all(is_static(affine.sizes(i)) for i in expr.indices(x))
    return own and all(map(_is_of_counters, expr.children(x)))


@expr.remembered
def expr_locals(x: Expr) -> frozenset[str]:
    """Names of the reductions that `x` uses."""
    own = (frozenset((x.name,)),) if isinstance(x, Local) else ()
    return frozenset().union(*own, *(expr_locals(c) for c in expr.children(x)))


@expr.remembered
def loaded(x: Expr) -> frozenset[str]:
    """The buffers that `x` loads from."""
    own = (frozenset((x.buffer,)),) if isinstance(x, Load) else ()
    return frozenset().union(*own, *map(loaded, expr.children(x)))


@expr.remembered
def has_load(x: Expr) -> bool:
    return isinstance(x, Load) or any(has_load(c) for c in expr.children(x))
