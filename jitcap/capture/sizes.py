"""Capture: sizes that are symbols, between the program and eager. (tensor or int from outside) ->
SymInt, guards; run-time numbers <-> SymInts.

The program works with run-time numbers (`numbers.Outside`), which remember the size that they are.
Where `eager` takes one as a size it gets that (`eager.sizes.symint.index`), and the sizes that it
answers with are numbers again (`out`). A symbol is one input of the graph, read by its number's
expression at every call; a question that eager decides about sizes is a guard on such expressions.
"""

from __future__ import annotations

import itertools
import operator
import re
from collections.abc import Callable, Iterator
from math import inf
from typing import Any, Final, NamedTuple

from eager.base.dataclass import dataclass
from eager.core.op import Attrs
from eager.core.sym import PLAIN, SymNumber
from eager.core.tensor import Tensor
from eager.core.traced import Traced
from eager.device import Size
from eager.sizes.aval import contiguous_strides, scalar_aval
from eager.sizes.symint import (
    SymInt,
    Terms,
    add,
    bounds,
    hint,
    known_eq,
    known_le,
    least,
    most,
    of_atom,
    of_data,
    symbols_of,
)
from jitcap.base.marks import STATIC, Range, marks_of
from jitcap.base.origin import APART, Bind, Origin, Step, Variable
from jitcap.base.terms import Term, attribute
from jitcap.base.walks import after_parents
from jitcap.capture import numbers
from jitcap.capture.hoist_sizes import ahead, move_ahead
from jitcap.capture.state import State
from jitcap.graph.graph import AS_NUMBER, BIND, INPUT, SIZE, Arg, Node, aval_of, symbol
from jitcap.graph.scalars import Unlowered
from jitcap.graph.symbols import Sizes, sides
from jitcap.graph.tracer import DataDependent
from jitcap.guards.guard import Guard, Holds, Names
from jitcap.guards.tensor_guard import (
    Layout,
    TensorLike,
    is_argument,
    is_contiguous,
    laid_out,
    layout_of,
)

MARK: Final = "~"  # between the name of a size and the values that it was seen to have
_NAMES: Final = re.compile(r"\bdim\d+\b")
ALL: Final = "*~"  # all sizes of all arguments
INTS: Final = "+~"  # ints that vary are symbols where they are sizes
DATA: Final = "?~"  # sizes that data decide are symbols
_NO_SIZES: Final = frozenset({INTS, DATA})  # that say nothing of a tensor from outside
_SIZE: Final = re.compile(r".*\.(shape|strides)\[\d{1,3}\]", re.ASCII | re.DOTALL)
_COMPARE: Final[dict[str, Callable[[Any, Any], bool]]] = {"==": operator.eq, ">=": operator.ge}


@dataclass(frozen=True, slots=True, eq=False)
class SizeOf(Step):
    """The size of one dimension of a tensor."""

    shows = "{o.base}.shape[{o.dim}]"
    is_size = True
    dim: int

    def term(self, var: Variable, bind: Bind) -> Term:
        return ("item", attribute(var(self.base), "_array", "shape"), self.dim)


@dataclass(frozen=True, slots=True, eq=False)
class StrideOf(SizeOf):
    """The stride of one dimension of a tensor, in elements; the array counts in `unit`s of them."""

    shows = "{o.base}.strides[{o.dim}]"
    unit: int

    def term(self, var: Variable, bind: Bind) -> Term:
        return ("//", ("item", attribute(var(self.base), "_array", "strides"), self.dim), self.unit)


@dataclass(frozen=True, slots=True, eq=False)
class SameSize(Guard):
    """Two sizes that have been the same at each compile stand for one symbol."""

    other: Origin

    def places(self) -> tuple[Origin, ...]:
        return (self.origin, self.other)

    def test(self, names: Names) -> Term:
        return ("==", names.var(self.origin), names.var(self.other))

    def expected(self) -> str:
        return f"{self.origin.show()} == {self.other.show()}"


class Calls:
    """Numbers calls, so that equal ones on equal values have the same."""

    def __init__(self) -> None:
        self._numbers: dict[Node, int] = {}
        self._equal: dict[Any, int] = {}

    def number_of(self, node: Node) -> int:
        for top in after_parents(node, lambda n: n.parents, self._numbers.__contains__):
            args = tuple(
                self._numbers[a] if isinstance(a, Node) else (type(a), repr(a)) for a in top.args
            )
            own = top if top.op is INPUT else (top.op, args, tuple(sorted(top.attrs.items())))
            self._numbers[top] = self._equal.setdefault(own, len(self._equal))
        return self._numbers[node]


class CaptureSizes(Sizes):
    """The symbols of a capture."""

    def computed(self, fn: Callable[..., Any], operands: tuple[Any, ...]) -> Any:
        """Value of `fn` of numbers from outside, if known and some are sizes: a size, int or
        truth; else None."""
        return _computed(fn, operands) if self.symbols else None

    def __init__(self, session: State) -> None:
        super().__init__()
        self.session = session
        self.may_vary = any(map(is_size, session.outside.assumed.varying))
        self.origins: dict[str, Origin] = {}  # of each symbol
        self.seen: dict[Any, tuple[SymInt, Origin]] = {}  # by the values seen: symbols of shapes
        self._numbers: dict[Terms, SymNumber] = {}
        self.complete = False  # whether the graph has all its inputs
        self._spelled = 0  # sizes that are being written as arithmetic: none is looked for in that
        self.definers: dict[str, Node] = {}  # by symbol: the value whose size it is
        self.known: dict[Node, Any] = {}  # the sizes that numbers of the graph are
        self._calls = Calls()
        self._found: dict[int, SymInt] = {}  # by the call whose result has that size
        self.results: dict[Terms, tuple[Node, ...]] = {}  # of such calls, by the size

    def shown(self, size: SymInt | int) -> str:
        """A size as the user would write it."""
        number = size if of_data(size) else self.number(size)
        return number.leaf.origin.show() if type(number) is SymNumber else str(number)

    def named(self, text: str) -> bool:
        """True if a text names a symbol, where Python shows an int."""
        return any(name in self.symbols for name in _NAMES.findall(text)) if self.symbols else False

    def layout(self, real: Any, origin: Origin) -> Layout:
        """The layout of a tensor from outside with symbols for what may differ."""
        layout = layout_of(real._array)
        if not self.may_vary:
            return layout
        aval, strides, spans, *_ = layout
        shape = self._of_shape(real, origin) or aval.shape
        if spans is not None:
            unit = 1 if aval.device != "cpu" else real._array.itemsize
            strides = laid_out(shape, self._of_strides(strides, spans, origin, unit), spans)
            return layout.varying(shape, strides)
        return layout if shape is aval.shape else layout.varying(shape, contiguous_strides(shape))

    def _of_shape(self, real: Any, origin: Origin) -> tuple[int, ...] | None:
        """The shape of a tensor from outside with a symbol for each size that has varied, or is
        marked; None where none is."""
        dynamic = self.session.outside.assumed.varying
        array, marks = real._array, marks_of(real)
        if not marks and dynamic <= _NO_SIZES:
            return None
        every = range(array.ndim) if ALL in dynamic and is_argument(origin) else ()
        names = dict.fromkeys(every, frozenset[str]()) | _varying(dynamic, origin.show())
        names |= {d: frozenset({str(m)}) for d, m in marks.items() if m and d not in names}
        return tuple(
            self._of_dim(SizeOf(origin, d), n, names[d], marks.get(d))
            if n >= 2 and d in names and marks.get(d) is not STATIC
            else n
            for d, n in enumerate(array.shape)
        )

    def _of_strides(
        self, strides: tuple[int, ...], spans: tuple[int, ...], origin: Origin, unit: int
    ) -> tuple[Any, ...]:
        """The strides (in elements) of a tensor from outside with a symbol for each that has varied
        and follows from no other."""
        varied = _varying(self.session.outside.assumed.varying, origin.show(), "strides")
        if not varied:
            return strides
        return tuple(
            self.make(numbers.read(self.session, n, StrideOf(origin, d, unit)), lo=2)
            if d in varied and spans[d] < 0 and n >= 2
            else n
            for d, n in enumerate(strides)
        )

    def _of_dim(
        self, origin: SizeOf, value: int, history: frozenset[str], within: Range | None
    ) -> Any:
        """Sizes of one history are one symbol, as long as they are the same."""
        key = value, history
        if key in self.seen:
            size, first = self.seen[key]
            self.session.guard(SameSize, origin, first)
            return size
        size = self.make(numbers.read(self.session, value, origin), lo=2)
        self.seen[key] = size, origin
        if within is not None:  # guards, like any other question
            limits: list[Any] = [within.min, size, size if within.max is None else within.max]
            assert all(a <= b for a, b in itertools.pairwise(limits))
        return size

    def of_number(self, number: SymNumber) -> Any:
        """A number that is used as a size; None where it is better fixed."""
        if PLAIN.get(number.pytype) is int:
            number = numbers.cast(number, int)
        leaf = number.leaf
        if number.pytype is not int:
            return None
        if type(leaf) is not numbers.Outside:
            return self._of_graph(number)
        if leaf.size is None and (leaf.varies or INTS in self.session.outside.assumed.varying):
            self.make(number)
        return leaf.size

    def make(self, number: SymNumber, lo: float = -float("inf")) -> SymInt:
        """A symbol for a number from outside: an input of the graph."""
        leaf = number.leaf
        size = self.symbol(f"dim{len(self.symbols)}", leaf.value, lo)
        node = symbol(size)
        tracer, outside = self.session.tracer, self.session.outside
        tracer.inputs.append(node)
        outside.numbers[node] = leaf.origin
        name = node.attrs["symbol"]
        self.origins[name] = leaf.origin
        self.numbers[name] = self._numbers[size.terms] = number
        leaf.size, leaf.node = size, node
        return size

    def number(self, size: SymInt | int) -> Any:
        """The number of a size, made once per size. Raises Unlowered when the graph is complete."""
        if not isinstance(size, SymInt):
            return size
        found = self._numbers.get(size.terms)
        if found is None:
            if self.complete:
                raise Unlowered(f"the size {size} as a number, after capture")
            if of_data(size) and self.session.tracer.inside is None:
                return self._as_number(size)
            self._spelled += 1
            try:
                found = self._numbers[size.terms] = super().number(size)
            finally:
                self._spelled -= 1
        return found

    # ---- sizes that data decide

    @property
    def takes_data(self) -> bool:
        """True if a size that data decide can be a symbol here: not inside the graphs of nodes."""
        s = self.session
        return DATA in s.outside.assumed.varying and s.tracer.inside is None and not self.complete

    @property
    def moves(self) -> bool:
        """True if the nodes that define a size in a subgraph may be moved ahead of it."""
        return not self.complete and self.asked is None

    def of_result(
        self, op: Any, operands: tuple[Arg, ...], attrs: Attrs, count: Traced | None
    ) -> SymInt | None:
        """The size that a call finds, or that is `count`: the same for the same call. None if it is
        no symbol here."""
        if DATA not in self.session.outside.assumed.varying:
            return None
        key, tracer = self._calls.number_of(Node(op, operands, attrs, ())), self.session.tracer
        if key not in self._found:
            counted = () if count is None else (count.read(),)
            if not self.takes_data and not (self.moves and move_ahead(tracer, operands + counted)):
                return None
            size = self._found[key] = self.of_data(0, op.most(*map(aval_of, operands), **attrs))
            if counted:
                with ahead(tracer):
                    (number,) = tracer.emit(AS_NUMBER, counted, {}, (scalar_aval(0),))
                    tracer.emit(BIND, (number,), {"size": size}, (scalar_aval(0),))
        return self._found[key]

    def of_data(self, lo: float, most: Any = None) -> SymInt:
        """A new symbol, at least `lo` and at most `most`."""
        limit = inf if most is None else bounds(most)[1]
        likely = 2 * USUAL if most is None else hint(most)
        name = f"dim{len(self.symbols)}"
        size = self.symbol(name, max(likely // 2, 2), lo, limit, of_data=True)
        if isinstance(most, SymInt):
            self.know(">=", add(most, size, -1), True)  # type: ignore[arg-type]
        return size

    def defined(self, size: SymInt, emit: Callable[[], tuple[Node, ...]]) -> tuple[Node, ...]:
        """Nodes that define the symbol of a size: those of that size, or the number itself. Equal
        calls have memory of their own; inside the graph of a node it is what is there already."""
        found = self.results.get(size.terms)
        if found is not None:
            return emit() if self.session.tracer.inside is None else found
        (name,) = (s.name for s in symbols_of(size))
        with ahead(self.session.tracer):
            found = self.results[size.terms] = emit()
            self.definers[name] = found[0]
            self.numbers[name] = number = self._as_number(size)
        self.session.tracer.data_sizes[name] = number.leaf
        return found

    def _as_number(self, size: SymInt) -> SymNumber:
        """A size as a number of the graph."""
        tracer = self.session.tracer
        names = [s.name for s in symbols_of(size) if s.of_data]
        definers = tuple(dict.fromkeys(self.definers[name] for name in names))
        attrs: dict[str, Any] = {"size": size}
        if size.terms == symbol_terms(size):
            attrs |= {"name": names[0], "symbol": names[0]}
        (node,) = tracer.emit(SIZE, definers, attrs, (scalar_aval(0),))
        self.known[node] = size
        number = self._numbers[size.terms] = SymNumber(tracer, int, node)
        return number

    def rounds(self, number: SymNumber) -> Any:
        """Trip count of a loop, as a size."""
        found = self._of_graph(number, 0)
        return operator.index(number) if found is None else found

    def _of_graph(self, number: SymNumber, lo: float = -inf) -> Any:
        """A number that the graph knows as a size."""
        found = self._size_of(number)
        if found is not None:
            return found
        if not self.takes_data or numbers.constant(self.session, number) is not None:
            return None
        handle = number.handle
        if handle not in self.known:
            size = self.of_data(lo)
            self.session.tracer.emit(BIND, (handle,), {"size": size}, (scalar_aval(0),))
            self.known[handle] = size
        return self.known[handle]

    def _size_of(self, x: Any) -> Any:
        """Size that a number is, an int or a symbol, if that is known; else None."""
        if type(x) is not SymNumber:
            return x if type(x) in (int, SymInt) else None
        if type(x.leaf) is numbers.Outside:
            return x.leaf.size if type(x.leaf.size) is SymInt else None
        found = self.known.get(x.leaf if x.leaf is not None else x.node)
        if found is None and x.fn in _EXACT and x.fn not in (operator.floordiv, operator.mod):
            sizes = [self._size_of(a) for a in x.args]
            found = None if None in sizes else _EXACT[x.fn](*sizes)
        return found

    def of_graph(self, fn: Callable[..., Any], operands: tuple[Any, ...]) -> Any:
        """`fn` of numbers that are sizes which data decide: a number, or a truth; None where it is
        something else, or not known."""
        if not self.known or self._spelled or not any(type(x) is SymNumber for x in operands):
            return None
        sizes = [self._size_of(x) for x in operands]
        if any(x is None for x in sizes) or not any(map(of_data, sizes)):
            return None
        if fn in _KNOWN:
            return _KNOWN[fn](*sizes)
        divides = fn in (operator.floordiv, operator.mod)
        if fn not in _EXACT or (divides and type(sizes[1]) is not int):
            return None
        size = _EXACT[fn](*sizes)
        return self.number(size) if isinstance(size, SymInt) else size

    def undecided(self, size: SymInt) -> None:
        x, y = sides(size)
        what = f"how large {x} is beside {y}" if y else f"what {x} is"
        raise DataDependent(f"{what}: data decide that size when the program runs")

    def check(self, relation: str, size: SymInt, holds: bool) -> None:
        s = self.session
        if self.asked is not None or not self.takes_data:
            self.undecided(size)
        x, y = sides(size)
        sign = relation if holds else _NEGATED[relation]
        what = f"sizes with {x} {sign} {y}"
        s.tracer.check(what, relation=relation, size=size, holds=holds)

    def guard(self, relation: str, size: SymInt, holds: bool) -> None:
        super().guard(relation, size, holds)
        if self.asked is not None:
            return
        s, complete = self.session, self.complete
        self.complete = False  # for guards, numbers of the host will do
        x, y = map(self.number, sides(size))
        self.complete = complete
        origin = numbers.expression(_COMPARE[relation], (x, y))
        s.guard(Holds, origin, holds)


def symbol_terms(size: SymInt) -> Terms:
    """The terms of the first symbol in it alone."""
    return of_atom(next(symbols_of(size))).terms


USUAL: Final = 16  # a size of which nothing is known
_NEGATED: Final = {"==": "!=", ">=": "<"}


def _varying(dynamic: frozenset[str], name: str, what: str = "shape") -> dict[int, frozenset[str]]:
    """The dimensions of the tensor called `name` that have varied, each with what was seen."""
    found: dict[int, set[str]] = {}
    for each in dynamic:
        place, mark, history = each.partition(MARK)
        base, _, dim = place.rpartition(f".{what}[")
        if mark and base == name:
            found.setdefault(int(dim[:-1]), set()).add(history)
    return {dim: frozenset(history) for dim, history in found.items()}


def counted(name: str) -> str:
    """Name of the length of a list, where that varies."""
    return f"len({name})"


def growing(name: str) -> str:
    """Name of a list that only ever gets longer."""
    return f"growing {name}"


def is_size(name: str) -> bool:
    """True if the name is of a tensor's size, or of where it is found, not of an int."""
    return MARK in name


def is_name(text: str) -> bool:
    """True if this can be the name of a varying size or number."""
    place, mark, _ = text.partition(MARK)
    return (
        not mark
        or text in (ALL, INTS, DATA)
        or text.startswith(APART)
        or _SIZE.fullmatch(place) is not None
    )


def seen(guard: Guard, value: Any) -> Iterator[str]:
    """Sizes that have changed where a guard fails for `value`, each with what it was and is: those
    that change alike may be one symbol."""
    name = guard.origin.show()
    if isinstance(guard, SameSize):
        yield f"{name}{MARK}{value}"
    elif isinstance(guard, TensorLike) and isinstance(value, Tensor):
        now = value._array.shape
        if len(now) == len(guard.shape):
            for d, (n, m) in enumerate(zip(guard.shape, now, strict=True)):
                if n is not None and n != m:
                    yield f"{name}.shape[{d}]{MARK}{n}>{m}"
            yield from _strides_seen(name, guard, value._array)


def _strides_seen(name: str, guard: TensorLike, array: Any) -> Iterator[str]:
    """Strides that have changed and follow from no size: those of parts of larger tensors. One
    element is none of them, since code for any stride there reads element by element."""
    if guard.strides is None or is_contiguous(array):
        return
    item = guard.dtype.itemsize // guard.unit
    for d, (n, m) in enumerate(zip(guard.strides, array.strides, strict=True)):
        if n is not None and n != m and min(n, m) >= 2 * item:
            yield f"{name}.strides[{d}]{MARK}{n}>{m}"


# ---- the door


def out(value: Any) -> Any:
    """The value as the program gets it: run-time numbers for sizes, also in a shape."""
    cls = type(value)
    if cls is SymInt:
        return value.number()
    if cls in (tuple, Size, list) and any(type(part) is SymInt for part in value):
        parts = [part.number() if type(part) is SymInt else part for part in value]
        return parts if cls is list else tuple.__new__(cls, parts)
    return value


# ---- arithmetic


class Comparison(NamedTuple):
    """A question about sizes that is open: a guard answers it, when the program wants to know."""

    fn: Callable[..., bool]
    sizes: tuple[Any, ...]

    def __call__(self) -> bool:
        return self.fn(*self.sizes)


# What gives a size, and how it is found of symbols.
_EXACT: Final[dict[Callable[..., Any], Callable[..., Any]]] = {
    fn: fn for fn in (operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod,
                      operator.neg, operator.pos)
} | {max: most, min: least}  # fmt: skip


def _computed(fn: Callable[..., Any], operands: tuple[Any, ...]) -> Any:
    """Value of `fn` of sizes, where that is known: a size, an int, a truth; else None."""
    sizes = [x.leaf.size if type(x) is SymNumber else x for x in operands]
    if not any(type(x) is SymInt for x in sizes):
        return None
    if not all(type(x) in (SymInt, int) for x in sizes):
        return None
    if fn in _EXACT:
        return _EXACT[fn](*sizes)
    known = _KNOWN.get(fn)
    if known is None:
        return None
    answer = known(*sizes)
    return Comparison(fn, tuple(sizes)) if answer is None else answer


def _not(answer: bool | None) -> bool | None:
    return None if answer is None else not answer


_KNOWN: Final[dict[Any, Callable[[Any, Any], bool | None]]] = {
    operator.eq: known_eq,
    operator.ne: lambda x, y: _not(known_eq(x, y)),
    operator.le: known_le,
    operator.ge: lambda x, y: known_le(y, x),
    operator.lt: lambda x, y: _not(known_le(y, x)),
    operator.gt: lambda x, y: _not(known_le(x, y)),
}
