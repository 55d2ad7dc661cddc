"""Beside capture: what an entry assumes of the outside. (origin, expectation) -> test, explanation.

A `Guard` is data, and its test a term (`jitcap.base.terms`). All guards of an entry become the rows
of one straight-line function in which each place is read once (`Names`), and the same records,
evaluated one by one, say why a call did not fit: `expected ... got ..., read as self.layers[0].p`
(`explain`). Checking runs none of the program's code: a type is tested before anything is read of a
value or compared with it.
"""

from __future__ import annotations

import enum
import functools
import operator
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import field, fields
from types import CodeType, FunctionType
from typing import Any, ClassVar, Final

import numpy as np

from eager.base.dataclass import dataclass
from jitcap.base.equality import condition, identity, is_wide, same_keys
from jitcap.base.origin import Computed, Drawn, Origin
from jitcap.base.terms import Row, Term, attribute, constant, every, python, source
from jitcap.guards.size_guard import SizeBlock

_ATOMS: Final = (type(None), bool, type(Ellipsis), type(NotImplemented))
_FUNCTIONS_IN: Final[dict[type, tuple[str, ...]]] = {
    staticmethod: ("__func__",),
    classmethod: ("__func__",),
    property: ("fget", "fset", "fdel"),
    functools.cached_property: ("func",),
    functools._lru_cache_wrapper: ("__wrapped__",),
}
READ_ERRORS: Final = (
    LookupError, AttributeError, TypeError, ValueError, ArithmeticError, MemoryError,
)  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Guard:
    """Base: what is expected at `origin`; `where` is the user's line that relied on it."""

    origin: Origin
    where: str
    after_rows: ClassVar[bool] = False  # whether it relies on guards that are tested in loops

    @property
    def is_short(self) -> bool:
        """True if its test is so short that many are one condition: a model has thousands."""
        return False

    @property
    def in_rows(self) -> bool:
        """True if it is tested in a loop."""
        return False

    @property
    def size_test(self) -> Callable[[Names], Term] | None:
        """The part of its test that is about sizes alone, where it has one that is not."""
        return None

    @property
    def together(self) -> Callable[[list[Guard], Names], None] | None:
        """Renderer of all guards of this kind at once, before the others; None if there is none."""
        return None

    def places(self) -> tuple[Origin, ...]:
        """Origins that are read to test it."""
        return (self.origin,)

    def row(self, names: Names) -> tuple[Term, tuple[str, Any]] | None:
        """Condition on `v` and `i` of a test that many guards share, and this guard's place and
        constant for them."""
        return None

    def test(self, names: Names) -> Term:
        """The condition that the guard holds."""
        raise NotImplementedError

    def expected(self) -> str:
        raise NotImplementedError

    def got(self, value: Any) -> str:
        return short(value)

    def key(self) -> tuple[Any, ...]:
        """Guards with equal keys are the same guard: all that one has, but for the line."""
        cls: Any = type(self)
        return (cls, id(self.origin), *map(identity, _of_kind(cls)(self)))


@functools.cache
def _of_kind(cls: type[Guard]) -> Callable[[Guard], tuple[Any, ...]]:
    """Getter of the fields that a guard of this kind has besides its origin and line."""
    names = [f.name for f in fields(cls) if f.name not in ("origin", "where")]
    if len(names) < 2:
        return lambda guard: tuple(getattr(guard, name) for name in names)
    return operator.attrgetter(*names)


class Names:
    """The names of an entry: variables for origins, and bound objects."""

    def __init__(self) -> None:
        self.namespace: dict[str, Any] = {}
        self.variables: dict[Origin, str] = {}
        self._bound: dict[int, str] = {}
        self._reads: dict[Term, str] = {}  # what is read -> the variable that holds it
        self.rows: list[Row] = []
        self.found: set[str] = set()  # names of objects that a row takes
        self.fixed: set[str] = set()  # names of objects that no other may replace
        self.keep: list[Any] = []
        self.block: SizeBlock | None = None  # what is read in it is no row of its own
        self.seen: Any = None  # what the guards of tensors share
        self.alike: dict[Any, Term] = {}  # their tests in loops, by what is asked

    def bind(self, value: Any, where: Term | None = "", *, tested: bool = False) -> str:
        """The name of `value` in the entry. `where`: the term that finds this object of the
        program, for another process, in which it is another one; None if it is this object that is
        meant, not its value, and nothing is known of its place. `tested`: a guard compares what is
        at this place with it, so that it need not be found there again."""
        if type(value) in _ATOMS:
            return repr(value)
        name = self._bound.get(id(value))
        if name is None:
            name = self._bound[id(value)] = f"C{len(self._bound)}"
            self.namespace[name] = value
            self.keep.append(value)
        elif not where or where == name or (tested and name in self.found):
            where = None if where is None else ""
        elif name not in self.fixed and name not in self.found:
            where = ""  # a constant, which is equal in another process
        if where:
            self.rows.append(("take", name, where))
            if name not in self.found:
                self.found.add(name)
                self._bind_around(value, name)
        if where is None:
            self.fixed.add(name)
        return name

    def _bind_around(self, value: Any, name: str) -> None:
        """Bind local base classes, the metaclass and wrapped functions of an object that was
        found."""
        if isinstance(value, type):
            for i, base in enumerate(value.__mro__[1:], 1):
                if "<locals>" in base.__qualname__:
                    self.bind(base, ("item", attribute(name, "__mro__"), i))
            if "<locals>" in type(value).__qualname__:
                self.bind(type(value), ("type", name))
        for part in _FUNCTIONS_IN.get(type(value), ()):
            if getattr(value, part) is not None:
                self.bind(getattr(value, part), attribute(name, part))

    def var(self, origin: Origin) -> str:
        """The variable that holds the value at `origin`; its reading is appended when it is new."""
        known = self.variables.get(origin)
        if known is not None:
            return known
        stack = [origin]
        while stack:
            missing = [p for p in stack[-1].parents() if p not in self.variables]
            if missing:  # not by recursion: a sum of a loop is as deep as the loop is long
                stack += reversed(missing)
            else:
                self._read(stack.pop())
        return self.variables[origin]

    def _read(self, origin: Origin) -> None:
        name = term = origin.term(self.var, self.bind)
        if type(term) is tuple:
            known = self._reads.get(term)
            name = self._reads[term] = known or f"v{len(self._reads)}"
            if known is None:
                inside = self.block is not None and self.block.computes(origin)
                rows = self.block.rows if self.block and inside else self.rows
                rows.append(("let", name, term))
        self.variables[origin] = name

    def later(self, drawn: Drawn) -> Row:
        """The row, for after the guards, that draws a number."""
        self.variables[drawn] = drawn.name
        return ("let", drawn.name, drawn.term(self.var, self.bind))

    def named(self, term: Term) -> Term:
        """A term (or a row) whose leaves are of `Unnamed`, with names in their place."""
        kind = type(term)
        if kind is tuple:
            return (term[0], *[self.named(part) for part in term[1:]])
        if kind is str or kind is int:
            return term
        return self.bind(term.value) if kind is Object else self.var(term)


@dataclass(frozen=True, slots=True, eq=False)
class Object:
    """A leaf of a term: an object, before it has a name. Equal are those of equal number."""

    value: Any
    number: int

    def __eq__(self, other: object) -> bool:
        return type(other) is Object and other.number == self.number

    def __hash__(self) -> int:
        return self.number


class Unnamed:
    """The names of an entry for who makes terms before there is one: its origins and objects
    themselves, until `Names.named`."""

    def __init__(self) -> None:
        self._objects: dict[int, Object] = {}

    def bind(self, value: Any, where: Term | None = "") -> Term:
        if type(value) in _ATOMS:
            return repr(value)
        return self._objects.setdefault(id(value), Object(value, len(self._objects)))

    def var(self, origin: Origin) -> Term:
        return origin.name if isinstance(origin, Drawn) else origin

    def later(self, drawn: Drawn) -> Row:
        """The row that draws a number."""
        return ("let", drawn.name, drawn.term(self.var, self.bind))


@dataclass(frozen=True, slots=True, eq=False)
class TypeIs(Guard):
    """`type(value) is cls`."""

    cls: type

    def key(self) -> tuple[Any, ...]:
        return TypeIs, id(self.origin), id(self.cls)

    def sides(self, names: Names) -> tuple[str, str]:
        """The names of the value and of the class."""
        v = names.var(self.origin)
        return v, names.bind(self.cls, ("type", v), tested=True)

    def test(self, names: Names) -> Term:
        v, cls = self.sides(names)
        return ("is", ("type", v), cls)

    def expected(self) -> str:
        return f"type {self.cls.__qualname__}"

    def got(self, value: Any) -> str:
        return f"type {type(value).__qualname__}"


@dataclass(frozen=True, slots=True, eq=False)
class Is(Guard):
    """The very same object (functions, classes, modules, None, True ...)."""

    value: Any

    @property
    def is_short(self) -> bool:
        return not isinstance(self.origin, Computed)  # what is computed may rely on it

    def test(self, names: Names) -> Term:
        v = names.var(self.origin)
        return ("is", v, names.bind(self.value, v, tested=True))

    def expected(self) -> str:
        return short(self.value)


@dataclass(frozen=True, slots=True, eq=False)
class Equals(Guard):
    """An equal value of the same type: a constant of builtin types (see `equality`)."""

    value: Any

    @property
    def is_short(self) -> bool:
        return not isinstance(self.origin, Computed) and type(self.value) is not tuple

    def row(self, names: Names) -> tuple[Term, tuple[str, Any]] | None:
        if type(self.value) is not tuple or isinstance(self.origin, Computed):
            return None
        _, like = condition(self.value, "v", names.bind)[1:]
        # Most tuples are the very one that was found: they are known by it.
        return ("or", ("is", "v", "i"), like), (names.var(self.origin), self.value)

    def test(self, names: Names) -> Term:
        return condition(self.value, names.var(self.origin), names.bind)

    def expected(self) -> str:
        return short(self.value)


@dataclass(frozen=True, slots=True, eq=False)
class KeysAre(Guard):
    """A dictionary has these keys, all of them ints and strings, in this order. `view`: how they
    are listed where a class has ways of its own."""

    names: tuple[int | str, ...]
    view: Any = None

    def test(self, names: Names) -> Term:
        v: Term = names.var(self.origin)
        keys = names.bind(self.names)
        if self.view is not None:
            v = ("call", names.bind(self.view), v)
        return ("call", names.bind(same_keys), v, keys)

    def expected(self) -> str:
        return f"keys {short(list(self.names))}"

    def got(self, value: Any) -> str:
        return f"keys {short(list(dict.keys(value)))}"


@dataclass(frozen=True, slots=True, eq=False)
class CodeIs(Guard):
    """A Python function with this code, whatever its closure and defaults."""

    code: CodeType

    def test(self, names: Names) -> Term:
        v = names.var(self.origin)
        plain, code = ("is", ("type", v), names.bind(FunctionType)), attribute(v, "__code__")
        return every(plain, ("is", code, names.bind(self.code, code, tested=True)))

    def expected(self) -> str:
        return (
            f"function {self.code.co_qualname} ({self.code.co_filename}:{self.code.co_firstlineno})"
        )


@dataclass(frozen=True, slots=True, eq=False)
class Length(Guard):
    """`len(value) == n`. `by`: what counts where a class has a `__len__` of its own."""

    n: int
    by: Any = None

    @property
    def is_short(self) -> bool:
        return self.by is None

    def key(self) -> tuple[Any, ...]:
        return Length, id(self.origin), identity(self.n), id(self.by)

    def test(self, names: Names) -> Term:
        v = names.var(self.origin)
        count = ("len", v) if self.by is None else ("call", names.bind(self.by), v)
        return ("==", count, self.n)

    def expected(self) -> str:
        return f"length {self.n}"

    def got(self, value: Any) -> str:
        return f"length {len(value) if self.by is None else self.by(value)}"


@dataclass(frozen=True, slots=True, eq=False)
class Absent(Guard):
    """`key not in value`. `by`: what looks where a class has a `__contains__` of its own."""

    name: Any
    by: Any = None

    @property
    def is_short(self) -> bool:
        return self.by is None and type(self.name) in (int, str)

    def key(self) -> tuple[Any, ...]:
        return Absent, id(self.origin), identity(self.name), id(self.by)

    def test(self, names: Names) -> Term:
        return absence(constant(self.name, names.bind), names.var(self.origin), self.by, names)

    def expected(self) -> str:
        return f"no {self.name!r}"

    def got(self, value: Any) -> str:
        return f"one with {self.name!r}"


@dataclass(frozen=True, slots=True, eq=False)
class AbsentBy(Guard):
    """`key not in value` where the key is an object from outside."""

    name: Origin
    by: Any = None

    def places(self) -> tuple[Origin, ...]:
        return (self.origin, self.name)

    def test(self, names: Names) -> Term:
        return absence(names.var(self.name), names.var(self.origin), self.by, names)

    def expected(self) -> str:
        return f"no {self.name.show()}"

    def got(self, value: Any) -> str:
        return f"one with {self.name.show()}"


@dataclass(frozen=True, slots=True, eq=False)
class Same(Guard):
    """Two places hold (or, with `same=False`, do not hold) the same object."""

    other: Origin
    same: bool = True

    def places(self) -> tuple[Origin, ...]:
        return (self.origin, self.other)

    def test(self, names: Names) -> Term:
        return ("is" if self.same else "is not", names.var(self.origin), names.var(self.other))

    def expected(self) -> str:
        return f"{'the same object as' if self.same else 'another object than'} {self.other.show()}"

    def got(self, value: Any) -> str:
        return "another object" if self.same else "the same object"


@dataclass(frozen=True, slots=True, eq=False)
class Distinct(Guard):
    """The objects at `origin` and `others` are pairwise different, and none of them is among those
    at `rest`, which may be the same."""

    others: tuple[Origin, ...]
    rest: tuple[Origin, ...] = ()

    def places(self) -> tuple[Origin, ...]:
        return (self.origin, *self.others, *self.rest)

    def test(self, names: Names) -> Term:
        apart = ("set", *(("id", names.var(o)) for o in (self.origin, *self.others)))
        rest = ("tuple", *(("id", names.var(o)) for o in self.rest))
        tests: list[Term] = []
        if self.others:
            tests.append(("==", ("len", apart), 1 + len(self.others)))
        if self.rest:
            tests.append(("isdisjoint", apart, rest))
        return every(*tests)

    def expected(self) -> str:
        shown = ", ".join(o.show() for o in self.places()[:6])
        return f"no aliasing among {shown}{' ...' if len(self.places()) > 6 else ''}"

    def got(self, value: Any) -> str:
        return "the same object at two of them"


@dataclass(frozen=True, slots=True, eq=False)
class Holds(Guard):
    """A condition that control flow relied on is `true`, or is not."""

    true: bool

    def test(self, names: Names) -> Term:
        v = names.var(self.origin)
        return v if self.true else ("not", v)

    def expected(self) -> str:
        return self.origin.show() if self.true else f"{self.origin.show()} to be False"


def absence(key: Term, table: str, by: Any, names: Names) -> Term:
    """The condition that a dictionary has no such key."""
    if by is None:
        return ("not in", key, table)
    return ("not", ("call", names.bind(by), table, key))


def short(value: Any) -> str:
    """A value in an error message: its repr when that is short and safe, else its type. It is not
    asked for its `__class__`: the program would see it."""
    cls = type(value)
    if issubclass(cls, enum.Enum):
        return f"{cls.__qualname__}.{value._name_}"
    if _is_short(value) or (cls in (list, tuple, set, frozenset) and all(map(_is_short, value))):
        text = repr(value)
        return text if len(text) <= 60 else text[:57] + "..."
    if issubclass(cls, FunctionType | type):
        return f"{value.__module__}.{value.__qualname__}"
    if issubclass(cls, range | slice | complex | re.Pattern):
        return repr(value)
    if issubclass(cls, np.number | np.bool_) and cls.__module__ == "numpy":
        return repr(value)
    return f"a {cls.__qualname__}"


def _is_short(value: Any) -> bool:
    return type(value) in (int, float, str, bytes, bool, type(None)) and not is_wide(value)


@dataclass(slots=True)
class Guards:
    """The guards of one capture, in the order of the reads, without repetitions."""

    items: list[Guard] = field(default_factory=list)
    _seen: set[tuple[Any, ...]] = field(default_factory=set)

    def append(self, guard: Guard) -> None:
        """Add a guard of a place that nobody asked about before."""
        self.items.append(guard)

    def add(self, guard: Guard) -> None:
        key = guard.key()
        if key not in self._seen:
            self._seen.add(key)
            self.items.append(guard)


def explain(guards: Iterable[Guard], args: tuple[Any, ...], kwargs: dict[str, Any]) -> str | None:
    """Reason why a call with these arguments does not fit, or None when all guards hold."""
    return next((why(*each) for each in failing(guards, args, kwargs)), None)


def why(guard: Guard, got: str, _: Any = None) -> str:
    """Text of a guard that does not hold."""
    place = f"at {guard.where}, read as {guard.origin.show()}"
    return f"expected {guard.expected()}, got {got}, {place}"


def failing(
    guards: Iterable[Guard], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Iterator[tuple[Guard, str, Any]]:
    """The guards that do not hold, and what was found: as text, and itself (None where nothing
    could be). It may be anything: it is forgotten, and what else is asked of it, or of what hangs
    on it, is not asked."""
    names = Names()
    scope: dict[str, Any] = {"args": args, "kwargs": kwargs}
    for guard in guards:
        start = len(names.rows)
        test = python(guard.test(names))
        scope |= names.namespace
        variable, value = names.var(guard.origin), None
        try:
            for line in source(names.rows[start:]):
                exec(line, scope)
            if eval(test, scope):
                continue
            value = scope.get(variable)
            got = guard.got(value)
        except READ_ERRORS as error:
            got = f"{type(error).__name__}: {error}"
        except NameError:
            continue
        scope.pop(variable, None)
        yield guard, got, value
