"""Scalar expressions of the loop IR: what one element is computed from. Hash-consed, typed;
within a compile equality is `is`, so CSE is free.

    Const(value)                     a number
    Read(value, index)               element `index` of a program value (an Affine per dimension)
    Load(buffer, offset)             element at `offset` of a buffer: what reads become in fusion
    IndexOf(index)                   the value of an index, int64
    Local(name)                      the result of a reduction of an earlier stage, one per row
    Apply(fn, args)                  a scalar intrinsic (`eager.base.scalar.VOCABULARY`)
    Cast(arg)                        conversion to `dtype`
    Select(cond, then, other)        like where, but lazy: the branch not taken may be out of bounds
    Checked(arg, lo, hi, where)      arg, an index from data; IndexError unless lo <= arg <= hi

Besides the vocabulary, `Apply` knows random_uniform, random_normal, random_bits (seed, ordinal,
element index): see CODEGEN.

dtype `float16`/`bfloat16` only occurs on Read, Load, Const and Cast: arithmetic runs in float32.
Build with the functions below (never the classes); `BUILD` is the `m` for the bodies of pointwise
ops.

    >>> x = read(7, (axis("i0", 4),), dtype.float32)
    >>> y = BUILD.exp(x) + 1.0
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import numpy as np

from codegen.ir import affine
from codegen.ir.affine import Affine, Axis
from codegen.ir.sizes import Size, at_least, below, same
from eager.base import dtype as dt
from eager.base.dataclass import dataclass
from eager.base.dtype import DType
from eager.base.process.locks import rlock
from eager.base.scalar import VOCABULARY
from eager.sizes.symint import SymInt

Operator = Callable[["Expr", Any], "Expr"]


def _operator(fn: str) -> tuple[Operator, Operator]:
    """The methods for `x fn y` and for `y fn x`, where `y` may be a Python number."""
    return lambda x, y: apply(fn, x, _like(y, x)), lambda x, y: apply(fn, _like(y, x), x)


@dataclass(frozen=True, eq=False, slots=True)
class Expr:
    """Base: the element type. Operators build, with Python numbers as constants of the operand's
    type."""

    dtype: DType

    @property
    def axes(self) -> frozenset[Axis]:
        return axes(self)

    @property
    def order(self) -> str:
        return order(self)

    __add__, __radd__ = _operator("add")
    __sub__, __rsub__ = _operator("sub")
    __mul__, __rmul__ = _operator("mul")
    __truediv__, __rtruediv__ = _operator("div")
    __lt__, __le__ = _operator("lt")[0], _operator("le")[0]
    __gt__, __ge__ = _operator("gt")[0], _operator("ge")[0]

    def __neg__(self) -> Expr:
        return apply("neg", self)

    def __bool__(self) -> bool:
        raise TypeError("a scalar expression has no truth value: write m.where(cond, a, b)")


@dataclass(frozen=True, eq=False, slots=True)
class Const(Expr):
    value: bool | int | float


@dataclass(frozen=True, eq=False, slots=True)
class Read(Expr):
    value: int
    index: tuple[Affine, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Load(Expr):
    buffer: str
    offset: Affine


@dataclass(frozen=True, eq=False, slots=True)
class IndexOf(Expr):
    index: Affine


@dataclass(frozen=True, eq=False, slots=True)
class Local(Expr):
    name: str


@dataclass(frozen=True, eq=False, slots=True)
class Apply(Expr):
    fn: str
    args: tuple[Expr, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Cast(Expr):
    arg: Expr


@dataclass(frozen=True, eq=False, slots=True)
class Select(Expr):
    cond: Expr
    then: Expr
    other: Expr


@dataclass(frozen=True, eq=False, slots=True)
class Checked(Expr):
    arg: Expr
    lo: Size
    hi: Size
    where: str


# Functions that only compiled code spells: Philox of (seed, ordinal, element index), result in the
# named dtype.
CODEGEN: Final = {"random_uniform": 25, "random_normal": 50, "random_bits": 25}  # and their cost
COST: Final = {name: i.cost for name, i in VOCABULARY.items()} | CODEGEN

E = TypeVar("E", bound=Expr)
A = TypeVar("A")
K = TypeVar("K")
_nodes: dict[tuple[Any, ...], Expr] = {}
# Tables that hold expressions, of this module and of others: all are emptied together.
TABLES: Final[list[dict[Any, Any]]] = [_nodes]


def _intern(kind: Callable[..., E], *fields: Any) -> E:
    key = (kind, *fields)
    node = _nodes.get(key)
    if node is None:
        node = _nodes[key] = kind(*fields)
    return node  # type: ignore[return-value]  # the key says the class


def const(value: complex, dtype: DType) -> Expr:
    """`value` rounded to `dtype`. Equal bits are one constant: 0.0 and -0.0 are two, NaN is one."""
    exact = dtype.np.type(value).item()
    key = (Const, dtype, exact.hex() if isinstance(exact, float) else exact)
    node = _nodes.get(key)
    if node is None:
        node = _nodes[key] = Const(dtype, exact)
    return node


def read(value: int, index: tuple[Affine, ...], dtype: DType) -> Expr:
    return _intern(Read, dtype, value, index)


def load(buffer: str, offset: Affine, dtype: DType) -> Expr:
    return _intern(Load, dtype, buffer, offset)


def local(name: str, dtype: DType) -> Expr:
    return _intern(Local, dtype, name)


def index_of(index: Affine) -> Expr:
    """An index as an int64 value."""
    if not index.terms and index.const.__class__ is int:
        return const(index.const, dt.int64)
    if len(index.terms) == 1 and same(index.const, 0) and same(index.terms[0][1], 1):
        atom = index.terms[0][0]
        if isinstance(atom, affine.Opaque):
            return cast(atom.expr, dt.int64)
    return _intern(IndexOf, dt.int64, index)


def short_index(index: Affine) -> Expr:
    """An index as an int32 value; the caller knows that it fits."""
    known = not index.terms and index.const.__class__ is int
    return const(index.const, dt.int32) if known else _intern(IndexOf, dt.int32, index)


def cast(x: Expr, dtype: DType) -> Expr:
    if x.dtype is dtype:
        return x
    if dtype is dt.float16 and x.dtype in (dt.float64, dt.int64, dt.int32):  # see dtype.converted
        x = cast(x, dt.float32)
    if isinstance(x, Const):
        return const(np.asarray(x.value, x.dtype.np).astype(dtype.np).item(), dtype)
    if isinstance(x, Cast) and _lossless(x.arg.dtype, x.dtype):
        return cast(x.arg, dtype)  # f16 -> f32 -> f64 is f16 -> f64
    return _intern(Cast, dtype, x)


def _lossless(narrow: DType, wide: DType) -> bool:
    if narrow.category != wide.category or narrow.category == dt.COMPLEX:
        return False
    return dt.promote_types(narrow, wide) is wide and (
        narrow.is_signed or wide.itemsize > narrow.itemsize
    )


def _like(y: Any, x: Expr) -> Expr:
    if isinstance(y, SymInt):
        return cast(index_of(affine.constant(y)), x.dtype)  # type: ignore[arg-type]
    return y if isinstance(y, Expr) else const(y, x.dtype)


def size(n: Size) -> Expr:
    """A size as an int64 value."""
    return index_of(affine.constant(n))


def checked(x: Expr, lo: Size, hi: Size, where: str) -> Expr:
    """`x`, an index read from data, verified at run time to lie in [lo, hi]."""
    return _intern(Checked, x.dtype, x, lo, hi, where)


def random(fn: str, seed: Expr, ordinal: Expr, index: Expr, dtype: DType) -> Expr:
    """A Philox draw for flat element `index`; all three operands are int64."""
    return _intern(Apply, dtype, fn, (seed, ordinal, index))


def select(cond: Expr, then: Expr, other: Expr) -> Expr:
    """`then if cond else other`, evaluating only the branch that is taken."""
    cond = decide(cond)
    if isinstance(cond, Const):
        return then if cond.value else other
    return then if then is other else _intern(Select, then.dtype, cond, then, other)


def apply(fn: str, *args: Expr) -> Expr:
    """The intrinsic `fn` on operands of one type (`where` takes a bool first)."""
    simpler = _simplify(fn, args)
    if simpler is not None:
        return simpler
    result = dt.bool_ if VOCABULARY[fn].result == "bool" else args[-1].dtype
    return _intern(Apply, result, fn, args)


def _simplify(fn: str, args: tuple[Expr, ...]) -> Expr | None:
    """Exact identities only: nothing that changes a bit of any result, NaN and -0.0 included."""
    if all(type(a) is Const for a in args):
        return _fold(fn, args)
    rule = _RULES.get(fn)
    return rule(*args) if rule is not None else None


def _fold(fn: str, args: tuple[Expr, ...]) -> Expr | None:
    result = dt.bool_ if VOCABULARY[fn].result == "bool" else args[-1].dtype
    with np.errstate(all="ignore"):
        arrays = [np.asarray(a.value, a.dtype.np) for a in args if isinstance(a, Const)]
        try:
            value = VOCABULARY[fn].numpy(*arrays)
        except TypeError:
            return None
    return const(np.asarray(value).astype(result.np).item(), result)


def _is(x: Expr, value: float) -> bool:
    return type(x) is Const and x.value == value


def _mul(x: Expr, y: Expr) -> Expr | None:
    a, b = _form(x), _form(y)
    if a is not None and b is not None and not (a.terms and b.terms):
        return index_of(a * b.const if a.terms else b * a.const)
    return x if _is(y, 1) else y if _is(x, 1) else None


def _form(x: Expr) -> Affine | None:
    """The index form of an int64 value that is one."""
    if type(x) is IndexOf and x.dtype is dt.int64:
        return x.index
    if type(x) is Const and x.dtype is dt.int64:
        return affine.constant(int(x.value))
    return None


def _add(x: Expr, y: Expr) -> Expr | None:
    if x.dtype.category == dt.INT:
        a, b = _form(x), _form(y)
        if a is not None and b is not None:
            return index_of(a + b)
        return x if _is(y, 0) else y if _is(x, 0) else None
    return None


def _by_number(of: Callable[[Affine, int], Affine]) -> Callable[[Expr, Expr], Expr | None]:
    """The quotient or remainder of an index by a number above 0 is an index."""

    def rule(x: Expr, y: Expr) -> Expr | None:
        a, b = _form(x), _form(y)
        if a is None or b is None or b.terms or not below(0, b.const):
            return None
        return index_of(of(a, b.const))

    return rule


def _sub(x: Expr, y: Expr) -> Expr | None:
    a, b = _form(x), _form(y)
    if a is not None and b is not None:
        return index_of(a - b)
    return x if _is(y, 0) and type(y) is Const and str(y.value)[0] != "-" else None


def _div(x: Expr, y: Expr) -> Expr | None:
    return x if _is(y, 1) else None


def _pow(x: Expr, y: Expr) -> Expr | None:
    """NumPy squares for an exponent of 2; small whole exponents and 0.5 are as exact as pow
    itself."""
    if type(y) is not Const or not x.dtype.is_floating_point:
        return x * x if _is(y, 2) else None
    table: dict[float, Callable[[Expr], Expr]] = {
        2.0: lambda v: v * v,
        3.0: lambda v: v * v * v,
        1.0: lambda v: v,
        -1.0: lambda v: apply("div", const(1.0, v.dtype), v),
        0.5: lambda v: apply("sqrt", v),
    }
    rule = table.get(float(y.value))
    return rule(x) if rule is not None else None


def _where(c: Expr, a: Expr, b: Expr) -> Expr | None:
    if a is b:
        return a
    c = decide(c)
    return (a if c.value else b) if isinstance(c, Const) else None


def _coarse_compare(fn: str) -> Callable[[Expr, Expr], Expr | None]:
    """g * a + b < g * k is a < k when 0 <= b < g: the finer digits of an index do not matter."""

    def rule(x: Expr, y: Expr) -> Expr | None:
        form, limit = _form(x), _form(y)
        if form is None or limit is None or limit.terms or not form.terms:
            return None
        k = limit.const + (fn in ("le", "gt"))
        parts = affine.coarse(form, k) if below(0, k) else None
        if parts is None:
            return None
        g, whole, _ = parts
        return apply("lt" if fn in ("lt", "le") else "ge", index_of(whole), size(k // g))

    return rule


_RULES: Final[dict[str, Callable[..., Expr | None]]] = {
    **{fn: _coarse_compare(fn) for fn in ("lt", "le", "gt", "ge")},
    "mul": _mul,
    "add": _add,
    "sub": _sub,
    "div": _div,
    "floor_div": _by_number(affine.floordiv),
    "mod": _by_number(affine.mod),
    "pow": _pow,
    "where": _where,
    "and_": lambda x, y: _logic(x, y, unit=True),
    "or_": lambda x, y: _logic(x, y, unit=False),
    "neg": lambda x: x.args[0] if isinstance(x, Apply) and x.fn == "neg" else None,
}


def _logic(x: Expr, y: Expr, *, unit: bool) -> Expr | None:
    if x.dtype is not dt.bool_:
        return None
    x, y = decide(x), decide(y)
    for one, other in ((x, y), (y, x)):
        if isinstance(one, Const):
            return other if bool(one.value) is unit else one
    return x if x is y else None


def decide(cond: Expr) -> Expr:
    """A comparison of indices as a constant where their known ranges settle it."""
    if not isinstance(cond, Apply) or cond.fn not in _DECIDE:
        return cond
    bounds = [_bounds(a) for a in cond.args]
    if bounds[0] is None or bounds[1] is None:
        return cond
    answer = _DECIDE[cond.fn](*bounds[0], *bounds[1])
    return cond if answer is None else const(answer, dt.bool_)


def _bounds(x: Expr) -> tuple[Size, Size] | None:
    if isinstance(x, IndexOf):
        return x.index.lo, x.index.hi
    if isinstance(x, Const) and isinstance(x.value, int):
        return x.value, x.value
    return None


def _less(a: Size, b: Size, c: Size, d: Size) -> bool | None:
    """True if each of [a, b] is below each of [c, d], False if none is; None if neither is
    known."""
    return True if below(b, c) else False if at_least(a, d) else None


def _not_less(a: Size, b: Size, c: Size, d: Size) -> bool | None:
    less = _less(a, b, c, d)
    return None if less is None else not less


def _equal(a: Size, b: Size, c: Size, d: Size) -> bool | None:
    if below(b, c) or below(d, a):
        return False
    return True if same(a, b) and same(c, d) and same(a, c) else None


_DECIDE: Final[dict[str, Callable[[Size, Size, Size, Size], bool | None]]] = {
    "lt": _less,
    "le": lambda a, b, c, d: _not_less(c, d, a, b),
    "gt": lambda a, b, c, d: _less(c, d, a, b),
    "ge": _not_less,
    "eq": _equal,
}


class Builder:
    """`m` for op bodies: each intrinsic builds an expression; Python numbers take the other
    operands' type, or `dtype`."""

    def __init__(self, dtype: DType | None = None) -> None:
        self.dtype = dtype

    def __getattr__(self, name: str) -> Callable[..., Expr]:
        if name not in VOCABULARY:
            raise AttributeError(f"{name} is not a scalar intrinsic; known: {sorted(VOCABULARY)}")

        def build(*args: Any) -> Expr:
            values = args[1:] if name == "where" else args
            like = next((a for a in values if isinstance(a, Expr)), None)
            if like is None:
                like = const(0, self.dtype or _number_type(values))
            rest = tuple(_like(a, like) for a in values)
            if name != "where":
                return apply(name, *rest)
            cond = args[0] if isinstance(args[0], Expr) else const(args[0], dt.bool_)
            return apply(name, cond, *rest)

        setattr(self, name, build)
        return build

    @staticmethod
    def cast(x: Any, dtype: Any) -> Expr:
        return cast(x, dtype if isinstance(dtype, DType) else dt.from_numpy(dtype))


def _number_type(numbers: tuple[Any, ...]) -> DType:
    return dt.float64 if any(isinstance(a, float) for a in numbers) else dt.int64


BUILD: Final = Builder()


def indices(x: Expr) -> tuple[Affine, ...]:
    """The index forms directly inside `x`."""
    if isinstance(x, Read):
        return x.index
    if isinstance(x, Load):
        return (x.offset,)
    return (x.index,) if isinstance(x, IndexOf) else ()


def children(x: Expr) -> tuple[Expr, ...]:
    """Operand expressions, those inside index forms included."""
    kind = type(x)
    if kind is Apply:
        return x.args  # type: ignore[attr-defined]
    if kind is Cast or kind is Checked:
        return (x.arg,)  # type: ignore[attr-defined]
    if kind is Select:
        return (x.cond, x.then, x.other)  # type: ignore[attr-defined]
    return tuple(y for index in indices(x) for y in affine.opaques(index))


def remembered(rule: Callable[[K], A]) -> Callable[[K], A]:
    """`rule`, which answers once for each expression, or several, of a compile."""
    memo: dict[K, A] = {}
    TABLES.append(memo)

    def answer(x: K) -> A:
        found = memo.get(x)
        if found is None:
            found = memo[x] = rule(x)
        return found

    return answer


@remembered
def axes(x: Expr) -> frozenset[Axis]:
    """The loop counters that `x` depends on."""
    parts = [axes(c) for c in children(x)]
    parts += [affine.axes_of(i) for i in indices(x)]
    return frozenset().union(*parts)


def walk(*roots: Expr) -> Iterable[Expr]:
    """Every distinct node under `roots`, operands first."""
    return _under(roots)


@remembered
def _under(roots: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """The nodes of `walk`, memoised: many passes walk the same bodies and stages."""
    return tuple(_walk(roots))


def _walk(roots: tuple[Expr, ...]) -> Iterator[Expr]:
    seen: set[Expr] = set()
    stack = [(r, False) for r in reversed(roots)]
    while stack:
        x, done = stack.pop()
        if done:
            yield x
        elif x not in seen:
            seen.add(x)
            stack.append((x, True))
            stack.extend((c, False) for c in reversed(children(x)))


def use_counts(roots: Iterable[Expr]) -> dict[Expr, int]:
    """Number of times that each expression is an operand (roots count once)."""
    roots = tuple(roots)
    counts: dict[Expr, int] = {}
    for root in roots:
        counts[root] = counts.get(root, 0) + 1
    for x in walk(*roots):
        for child in children(x):
            counts[child] = counts.get(child, 0) + 1
    return counts


_order_memo: dict[Expr, str] = {}
TABLES.append(_order_memo)


def order(x: Expr) -> str:
    """A digest of what `x` says: the same in every process, other for another expression."""
    for y in walk(x) if x not in _order_memo else ():
        if y not in _order_memo:
            own = [getattr(y, name) for name in y.__slots__]
            said = [type(y).__name__, y.dtype.name, *map(_said, own)]
            _order_memo[y] = hashlib.sha256(repr(said).encode()).hexdigest()
    return _order_memo[x]


def _said(field: Any) -> object:
    if isinstance(field, Expr):
        return _order_memo[field]
    if isinstance(field, Affine):
        return field.order
    return tuple(map(_said, field)) if isinstance(field, tuple) else field


_LOCK: Final = rlock()  # the tables are the process's: one compile at a time
_open: Final[list[None]] = []  # the compiles that are under way, one within the other
os.register_at_fork(after_in_child=_open.clear)


@contextmanager
def interning() -> Iterator[None]:
    """One compile: expressions and index forms made within are equal when they are one object. The
    tables are empty after it."""
    with _LOCK:
        _open.append(None)
        try:
            yield
        finally:
            _open.pop()
            for table in TABLES if not _open else ():
                table.clear()
            if not _open:
                affine.clear()
