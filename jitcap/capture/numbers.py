"""Capture: run-time numbers. (Python function, numbers) -> a number, with its guards.

A number from outside is a Python number, of any size, with the expression that reads it: arithmetic
on such numbers happens in Python, now on the value and at every later call in the entry, before
anything is written. It enters the graph where a tensor op takes it, one input per expression.
Control flow may ask for its value: the answer becomes a guard on the *condition* (`lr > 0.0`), not
on the number. A number that only the graph knows (`loss.item()`) cannot answer, unless it is made
of constants; for its arithmetic see `jitcap.graph.scalars`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from typing import Any, Final

import numpy as np

from eager.base.dataclass import dataclass
from eager.core.sym import NARROW, PLAIN, SymNumber
from jitcap.base.breaks import Break
from jitcap.base.equality import text_of
from jitcap.base.origin import Computed, Origin, Told
from jitcap.base.terms import Term, number
from jitcap.base.walks import after_parents
from jitcap.capture.operations import COMPARE, INFIX, PREFIX
from jitcap.capture.state import State
from jitcap.graph.scalars import TOTAL, operands_of
from jitcap.graph.tracer import DataDependent
from jitcap.guards.guard import Equals, Holds, TypeIs

Function = Callable[..., Any]
TYPES: Final = frozenset({bool, int, float, complex, *PLAIN})
INT64: Final = range(-(1 << 63), 1 << 63)
_COMPARISONS: Final = frozenset(COMPARE.values())
_NEVER_RAISES: Final = TOTAL | {operator.add, operator.sub, operator.mul, abs}  # of one type


@dataclass(slots=True, eq=False)
class Outside:
    """A number from outside: where it is read, and its value now; the size that it is for
    eager, once it was one, and its input of the graph if that is a symbol. `varies`: it is made of
    sizes that are symbols, and no size as they are (`int(x.shape[0] * 0.5)`)."""

    origin: Origin
    value: Any
    size: Any = None
    node: Any = None
    varies: bool = False


def read(s: State, value: Any, origin: Origin) -> SymNumber:
    """A number that is read at `origin` at every call."""
    return SymNumber(s.tracer, type(value), Outside(origin, value))


# ---- arithmetic


def compute(s: State, fn: Function, operands: tuple[Any, ...]) -> Any:
    """`fn` of numbers. Where all are from outside this is Python's own; the result is read by the
    same expression at every call. None where one is not: see `scalars`."""
    of_graph = narrow = False
    for x in operands:
        if type(x) is SymNumber:
            of_graph = of_graph or type(x.leaf) is not Outside
            narrow = narrow or x.pytype in NARROW
        elif isinstance(x, np.generic):
            narrow = narrow or type(x) in NARROW
            if type(x) not in TYPES:
                return fn(*map(s.known, operands))
    if of_graph:
        return _beside_graph(s, fn, operands) if narrow else None
    key = (fn, *((id(x) if type(x) is SymNumber else (type(x), text_of(x))) for x in operands))
    found = s.computed.get(key)
    if found is None:
        found = s.computed[key] = _compute(s, fn, operands), operands
    return found[0]


def _compute(s: State, fn: Function, operands: tuple[Any, ...]) -> Any:
    values = [value_of(x) for x in operands]
    warns = type(fn) is Template or any(type(v) in PLAIN for v in values)
    call = Strict(fn) if warns and fn is not int and fn is not float else fn
    try:
        value = call(*values)
    except FloatingPointError as warning:
        raise Break("numpy", f"{warning} in arithmetic of NumPy's numbers") from None
    except Exception:  # for these values; the program may handle it
        for x in operands:
            s.known(x)
        raise
    if type(value) not in TYPES:
        return fn(*map(s.known, operands))
    size = s.sizes.computed(fn, operands)
    if size is not None and type(size) is type(value):  # the same for all sizes
        return size
    origin = expression(call, operands)
    if size is None and not _is_sure(fn, operands):
        s.guard(TypeIs, origin, type(value))
    leaves = [x.leaf for x in operands if type(x) is SymNumber]
    varies = size is None and any(x.varies or x.size is not None for x in leaves)
    return SymNumber(s.tracer, type(value), Outside(origin, value, size, varies=varies))


def _beside_graph(s: State, fn: Function, operands: tuple[Any, ...]) -> Any:
    """`fn` of numbers of which some are NumPy's and some the graph's alone: NumPy takes an int
    beside a float for a float64. Of others it must know the values."""
    kinds = set(map(_kind, operands))
    if kinds <= {float, np.float64, *(cls for cls in NARROW if PLAIN[cls] is int)}:
        wide = (cast(x, np.float64) if PLAIN.get(_kind(x)) is int else x for x in operands)
        return s.tracer.number(fn, tuple(wide))
    return fn(*map(s.known, operands))


def _kind(x: Any) -> type:
    return x.pytype if type(x) is SymNumber else type(x)


def _is_sure(fn: Function, operands: tuple[Any, ...]) -> bool:
    """True if `fn` raises nothing and gives one type, whatever numbers of these types it gets."""
    kinds = {int if x.pytype is bool else x.pytype for x in operands if type(x) is SymNumber}
    for x in operands:  # a small int is as good as a float
        if type(x) is float or (type(x) in (int, bool) and x not in INT64):
            kinds.add(type(x))
    if fn in _COMPARISONS:
        return kinds <= {int, float}
    return fn in _NEVER_RAISES and kinds in ({int}, {float})


class Template:
    """A function of NumPy's with its arguments, in which `...` stands for a run-time number."""

    def __init__(self, fn: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.fn, self.args, self.kwargs = fn, args, kwargs
        self.__name__ = getattr(fn, "__name__", "f")

    def __call__(self, *values: Any) -> Any:
        given = iter(values)
        return self.fn(*(_filled(x, given) for x in self.args), **self.kwargs)


def _filled(value: Any, given: Iterator[Any]) -> Any:
    if type(value) in (list, tuple):
        return [_filled(x, given) for x in value]
    return next(given) if value is ... else value


def _places(value: Any, found: list[SymNumber]) -> Any:
    """Lists, tuples and constants with `...` for each run-time number, which is added to `found`.
    ValueError for anything else."""
    if type(value) in (list, tuple):
        return [_places(x, found) for x in value]
    if type(value) is SymNumber:
        found.append(value)
        return ...
    if type(value) not in TYPES and value is not None:
        raise ValueError(f"a {type(value).__name__}")
    return value


def by_numpy(s: State, fn: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """NumPy's function of constants and numbers from outside, which every call asks again. None
    where it is given, or gives, something else."""
    found: list[SymNumber] = []
    try:
        call = Template(fn, tuple(_places(x, found) for x in args), kwargs)
        beside: list[SymNumber] = []
        _places((*kwargs.values(),), beside)
        if not found or beside or any(type(x.leaf) is not Outside for x in found):
            return None
        known = type(Strict(call)(*map(value_of, found))) in TYPES
    except Exception:  # noqa: BLE001 - it is called with the values, then
        return None
    return _compute(s, call, tuple(found)) if known else None


class Strict:
    """A function of NumPy's numbers that raises where NumPy would warn: FloatingPointError."""

    def __init__(self, fn: Function) -> None:
        self.fn = fn
        self.__name__ = getattr(fn, "__name__", "f")

    def __call__(self, *values: Any) -> Any:
        with np.errstate(all="raise"):
            return self.fn(*values)


def value_of(x: Any) -> Any:
    return x.leaf.value if type(x) is SymNumber else x


def expression(fn: Function, operands: tuple[Any, ...]) -> Computed:
    """Origin that computes `fn(*operands)` in the entry."""
    sources = tuple(x.leaf.origin for x in operands if type(x) is SymNumber)
    bound: list[Any] = []
    terms: list[Term] = []
    places = iter(range(len(sources)))
    for x in operands:
        term = f"${next(places)}" if type(x) is SymNumber else literal(x)
        if term is None:
            term = f"${len(sources) + len(bound)}"
            bound.append(x)
        terms.append(term)
    form = operation(fn, terms)
    if form is None:
        form = ("call", f"${len(sources) + len(bound)}", *terms)
        bound.append(fn)
    return Computed(sources, form, tuple(bound))


def operation(fn: Function, terms: Sequence[Term]) -> Term | None:
    """`fn` as an operator on these operands, or None."""
    operator = INFIX.get(fn) or PREFIX.get(fn)
    return None if operator is None else (operator, *terms)


def literal(x: Any) -> Term | None:
    """A number as a term, or None for one that has no literal."""
    if type(x) not in (bool, int, float) or (type(x) is int and x not in INT64):
        return None
    return number(x)


# ---- into the graph


def enter(s: State, number: SymNumber) -> Any:
    """A number as the graph's: an input for one that is read outside."""
    if type(number.leaf) is not Outside:
        if type(drawn := s.drawn.get(number.leaf)) is Told:
            raise Break("time and chance", f"{drawn.label}() is called, and used in the graph")
        return number.leaf
    if number.pytype in NARROW:
        return enter(s, cast(number, PLAIN[number.pytype]))
    origin = number.leaf.origin
    if number.pytype is complex:
        return s.known(number)
    if number.pytype is int and not fits(s, number):
        raise Break("data dependent", "an int beyond 64 bits enters a tensor operation")
    if number.leaf.node is not None:
        return number.leaf.node
    node = s.tracer.input(f"s{len(s.tracer.inputs)}", number.aval)
    s.outside.numbers[node] = origin
    return node


def fits(s: State, number: SymNumber) -> bool:
    """True if an int fits in 64 bits, which is guarded. Numbers of the graph always fit."""
    if type(number.leaf) is not Outside:
        return True
    if number.leaf.value not in INT64:
        return False
    if number.leaf.origin.is_size:
        return True
    within = ("and", ("<=", INT64.start, "$0"), ("<", "$0", INT64.stop))
    s.guard_that(within, number.leaf.origin)
    return True


# ---- questions


def concretize(s: State, number: SymNumber, want: type) -> Any:
    """The value of `number` as `want`, guarded where it is read from outside. Raises DataDependent
    if only the graph knows it."""
    found = constant(s, number)
    if found is None:
        what = f"{want.__name__}() of a value that is known only when the program runs"
        if s.search is not None:
            return s.search.decide(want, what)
        raise DataDependent(what)
    if type(number.leaf) is Outside and callable(number.leaf.size):
        return want(number.leaf.size())
    origin, value = found
    if origin is not None and want is bool:
        s.guard(Holds, origin, bool(value))
    elif origin is not None:
        s.guard(Equals, origin, value)
    return want(value)


def constant(s: State, number: SymNumber) -> tuple[Origin | None, Any] | None:
    """(where it is read, its value) of a number that the run does not decide; None of others. The
    origin is None where constants alone decide it."""
    if type(number.leaf) is Outside:
        return number.leaf.origin, number.leaf.value
    known: dict[int, SymNumber | Any] = {}
    for each in postorder(number):
        if type(each.leaf) is Outside:
            known[id(each)] = each
        elif each.fn is None:
            value = s.tracer.value(each.leaf)
            if value is None:
                return None
            known[id(each)] = each.pytype(value)
        else:
            operands = tuple(known[id(a)] if isinstance(a, SymNumber) else a for a in each.args)
            symbolic = any(isinstance(a, SymNumber) for a in operands)
            known[id(each)] = compute(s, each.fn, operands) if symbolic else each.fn(*operands)
    result = known[id(number)]
    if isinstance(result, SymNumber):
        return result.leaf.origin, result.leaf.value
    return None, result


def postorder(number: SymNumber) -> list[SymNumber]:
    """A number and what it is made of, operands first, each once."""
    order: dict[int, SymNumber] = {}
    for each in after_parents(number, operands_of, lambda n: id(n) in order):
        order[id(each)] = each
    return [*order.values()]


def extreme(s: State, fn: Function, values: Sequence[Any]) -> Any:
    """`max` or `min` of numbers of one type that the run decides: a number. None of others, which
    Python compares, under guards."""
    if not all(type(x) in (SymNumber, int, float) for x in values):
        return None
    kinds = set(map(_kind, values))
    run_decides = any(type(x) is SymNumber and constant(s, x) is None for x in values)
    if kinds not in ({int}, {float}) or not run_decides:
        return None
    return reduce(lambda best, x: s.tracer.number(fn, (best, x)), values)


def cast(number: Any, cls: type) -> Any:
    """`int(x)`, `float(x)` of a run-time number: still a run-time number."""
    if not isinstance(number, SymNumber):
        return cls(number)
    return number if number.pytype is cls else number.tracer.number(cls, (number,))
