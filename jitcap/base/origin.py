"""Capture: where a value read from outside came from, as data. (parent, step) -> term, name.

An `Origin` knows how to *re-read* its value in an entry (`term`) and how to *name* it for people
(`show`, by a template over its fields). Guards and the entry are written in terms of origins only.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import repeat
from types import MemberDescriptorType
from typing import Any, ClassVar, Final, Protocol

from eager.base.dataclass import dataclass
from jitcap.base.terms import Term, attribute, constant, filled, python, text


class Bind(Protocol):
    """An object -> the name by which an entry reaches it (see `guards.Names.bind`)."""

    def __call__(self, value: Any, where: Term | None = "") -> str: ...


Variable = Callable[["Origin"], str]  # an origin -> the variable that holds its value
GLOBALS: Final = "globals()"


@dataclass(frozen=True, slots=True, eq=False)
class Origin:
    """Base: how to read one value. Compared by identity: each place is read once per capture.

    The template has the origin itself as `o`."""

    in_frame: ClassVar[bool] = False  # whether a live frame holds it
    is_size: ClassVar[bool] = False  # whether it is the size of a tensor
    of_object: ClassVar[bool] = False  # whether it is part of an object, the same at each call
    shows: ClassVar[str] = ""

    def parents(self) -> tuple[Origin, ...]:
        """The origins that must be read before this one."""
        return ()

    def term(self, var: Variable, bind: Bind) -> Term:
        """The term that reads it. May raise a LookupError or AttributeError."""
        raise NotImplementedError

    def show(self) -> str:
        """The expression that the user would write for it."""
        return self.shows.format(o=self)

    def __str__(self) -> str:
        return self.show()

    @property
    def root(self) -> Origin:
        first = self
        while parents := first.parents():
            first = parents[0]
        return first


@dataclass(frozen=True, slots=True, eq=False)
class Positional(Origin):
    """The i-th positional argument of the call."""

    shows = "{o.name}"
    index: int
    name: str

    def term(self, var: Variable, bind: Bind) -> Term:
        return ("item", "args", self.index)


@dataclass(frozen=True, slots=True, eq=False)
class Keyword(Origin):
    """A keyword argument of the call."""

    shows = "{o.name}"
    name: str

    def term(self, var: Variable, bind: Bind) -> Term:
        return ("item", "kwargs", text(self.name))


@dataclass(frozen=True, slots=True, eq=False)
class Keywords(Origin):
    """The dictionary of the call's keyword arguments."""

    shows = "the keyword arguments"

    def term(self, var: Variable, bind: Bind) -> Term:
        return "kwargs"


@dataclass(frozen=True, slots=True, eq=False)
class Fixed(Origin):
    """An object that is fixed for this entry: the root function's globals, a cell, a class."""

    shows = "{o.label}"
    of_object = True
    value: Any
    label: str

    def term(self, var: Variable, bind: Bind) -> Term:
        return bind(self.value, None)


@dataclass(frozen=True, slots=True, eq=False)
class FixedPart(Fixed):
    """A part of a function that is fixed itself: its globals, or a cell by its number."""

    function: Any
    part: str | int

    def place(self, function: Term) -> Term:
        """The term that finds it."""
        if type(self.part) is str:
            return attribute(function, self.part)
        return ("item", attribute(function, "__closure__"), self.part)

    def term(self, var: Variable, bind: Bind) -> Term:
        return bind(self.value, self.place(bind(self.function)))


@dataclass(frozen=True, slots=True, eq=False)
class MembersOf(Origin):
    """The namespace of a class that is fixed."""

    shows = "{o.cls.__qualname__}"
    cls: type
    table: Any  # a mapping proxy: a new one at each look

    @classmethod
    def of(cls, owner: type) -> MembersOf:
        return cls(owner, vars(owner))

    def term(self, var: Variable, bind: Bind) -> Term:
        return bind(self.table, attribute(bind(self.cls, None), "__dict__"))


@dataclass(frozen=True, slots=True, eq=False)
class Drawn(Origin):
    """A number, or an array of them, that the host draws for the call: read once, after the guards,
    in this order."""

    index: int
    method: Any
    args: tuple[Any, ...]
    label: str
    kwargs: tuple[tuple[str, Any], ...] = ()

    @property
    def name(self) -> str:
        """The variable that holds it."""
        return f"n{self.index}"

    def term(self, var: Variable, bind: Bind) -> Term:
        named = [("keyword", text(k), bind(v)) for k, v in self.kwargs]
        return ("call", bind(self.method), *map(bind, self.args), *named)

    def show(self) -> str:
        given = [*map(repr, self.args), *(f"{k}={v!r}" for k, v in self.kwargs)]
        return f"{self.label}({', '.join(given)})"


@dataclass(frozen=True, slots=True, eq=False)
class DrawnPart(Drawn):
    """One of several numbers that were drawn together."""

    shows = "{o.whole}[{o.place}]"
    whole: Any = None  # the `Drawn` before it
    place: int = 0
    show = Origin.show

    def term(self, var: Variable, bind: Bind) -> Term:
        return ("item", self.whole.name, self.place)


@dataclass(frozen=True, slots=True, eq=False)
class Told(Drawn):
    """Time that a clock says once the graph has run."""


# ---- one step from another place


@dataclass(frozen=True, slots=True, eq=False)
class Step(Origin):
    """One step from `base`."""

    shows = "{o.base}"
    base: Origin

    def parents(self) -> tuple[Origin, ...]:
        return (self.base,)

    def show(self) -> str:  # every other step of most places says nothing more
        return self.base.show() if self.shows == "{o.base}" else self.shows.format(o=self)


@dataclass(frozen=True, slots=True, eq=False)
class Attribute(Step):
    """`base.name`, for slots, modules' and classes' attributes, and attributes of builtin types."""

    shows = "{o.base}.{o.name}"
    of_object = True
    name: str

    def term(self, var: Variable, bind: Bind) -> Term:
        return ("attribute", var(self.base), text(self.name))


@dataclass(frozen=True, slots=True, eq=False)
class DictOf(Step):
    """The instance dictionary. `by`: what reads it where a class has a `__getattribute__`."""

    of_object = True
    by: Any = None

    def term(self, var: Variable, bind: Bind) -> Term:
        v = var(self.base)
        if self.by is None:
            return attribute(v, "__dict__")
        return ("call", bind(self.by), v, text("__dict__"))


@dataclass(frozen=True, slots=True, eq=False)
class PartialDict(Step):
    """The instance dictionary of a `functools.partial`, or None: asking for `__dict__` would give
    it one, and a partial that has one is not joined with a partial of it."""

    shows = "{o.base}.__dict__"

    def term(self, var: Variable, bind: Bind) -> Term:
        return ("call", bind(partial_dict), var(self.base))


def partial_dict(value: Any) -> Any:
    """The contents of a `PartialDict`."""
    state: Any = functools.partial.__reduce__(value)
    return state[2][3]


@dataclass(frozen=True, slots=True, eq=False)
class Item(Step):
    """`base[key]` for a constant key. `by`: what reads it where a class has a way of its own."""

    key: Any
    by: Any = None

    def term(self, var: Variable, bind: Bind) -> Term:
        return _item(self, constant(self.key, bind), var, bind)

    def show(self) -> str:
        if isinstance(self.base, DictOf | MembersOf):
            return f"{self.base.show()}.{self.key}"
        if isinstance(self.base, Fixed) and self.base.label == GLOBALS:
            return str(self.key)
        return f"{self.base.show()}[{self.key!r}]"


@dataclass(frozen=True, slots=True, eq=False)
class ItemBy(Step):
    """`base[key]` where the key is itself an object from outside (`optimizer.state[p]`)."""

    shows = "{o.base}[{o.key}]"
    of_object = True
    key: Origin
    by: Any = None

    def parents(self) -> tuple[Origin, ...]:
        return (self.base, self.key)

    def term(self, var: Variable, bind: Bind) -> Term:
        return _item(self, var(self.key), var, bind)


def _item(item: Any, key: Term, var: Variable, bind: Bind) -> Term:
    v = var(item.base)
    return ("item", v, key) if item.by is None else ("call", bind(item.by), v, key)


@dataclass(frozen=True, slots=True, eq=False)
class Keys(Step):
    """The keys (or values) of a dictionary, in order, as a list: `[*view(base)]`."""

    shows = "list({o.base}.{o.view.__name__}())"
    view: Any

    def term(self, var: Variable, bind: Bind) -> Term:
        return ("listed", ("call", bind(self.view), var(self.base)))


get_slot = MemberDescriptorType.__get__


def is_unset(descriptor: Any, obj: Any) -> bool:
    try:
        descriptor.__get__(obj)
    except AttributeError:
        return True
    return False


def entry_of(table: Any, key: Any) -> Any:
    """`table[key]`, without the `__getitem__` or `__missing__` of the dictionary's class."""
    value = dict.get(table, key, entry_of)
    if value is entry_of:
        raise KeyError(key)
    return value


def entries_of(table: Any, keys: Iterable[Any]) -> list[Any]:
    """`entry_of` for each key, in half the time for many."""
    found = [*map(dict.get, repeat(table), keys, repeat(entry_of))]
    for value in found:
        if value is entry_of:
            raise KeyError(table)
    return found


def items_of(base: Any, keys: Sequence[Any]) -> list[Any]:
    """`base[key]` for each key. Raises what that raises."""
    if type(keys) is range and type(base) in (list, tuple) and keys.stop <= len(base):
        return [*base[keys.start : keys.stop]]
    return [base[key] for key in keys]


@dataclass(frozen=True, slots=True, eq=False)
class Slot(Step):
    """Value of a slot, read without the class's `__getattribute__` or `__getattr__`."""

    shows = "{o.base}.{o.name}"
    by: ClassVar[Any] = staticmethod(get_slot)
    name: str
    descriptor: Any

    def term(self, var: Variable, bind: Bind) -> Term:
        return ("call", bind(self.by), bind(self.descriptor), var(self.base))


@dataclass(frozen=True, slots=True, eq=False)
class IsUnset(Slot):
    """Test of a slot: true if it is unset."""

    shows = "not hasattr({o.base}, {o.name!r})"
    by = staticmethod(is_unset)


@dataclass(frozen=True, slots=True, eq=False)
class CellOf(Step):
    """The i-th closure cell of a function."""

    shows = "{o.name}"
    index: int
    name: str

    def term(self, var: Variable, bind: Bind) -> Term:
        return ("item", attribute(var(self.base), "__closure__"), self.index)


@dataclass(frozen=True, slots=True, eq=False)
class Contents(Step):
    """Contents of a closure cell."""

    def term(self, var: Variable, bind: Bind) -> Term:
        return attribute(var(self.base), "cell_contents")


@dataclass(frozen=True, slots=True, eq=False)
class Computed(Origin):
    """A term over other origins: in `form`, the names `$0`, `$1` ... stand for what is found at the
    `sources`, and then for the objects in `bound`."""

    sources: tuple[Origin, ...]
    form: Term
    bound: tuple[Any, ...] = ()

    def parents(self) -> tuple[Origin, ...]:
        return self.sources

    def term(self, var: Variable, bind: Bind) -> Term:
        return self.of([*map(var, self.sources), *map(bind, self.bound)])

    def of(self, parts: Iterable[Term]) -> Term:
        """The term over these parts."""
        return filled(self.form, {f"${i}": part for i, part in enumerate(parts)})

    def show(self) -> str:
        return python(_shown(self, 3))


def result_of(fn: Any, *sources: Origin, more: tuple[Any, ...] = ()) -> Computed:
    """The result of a function for what is found at these places, and for `more` objects."""
    count = len(sources)
    given = [f"${i + (i >= count)}" for i in range(count + len(more))]
    return Computed(sources, ("call", f"${count}", *given), (fn, *more))


def _shown(origin: Origin, depth: int) -> Term:
    """A term as the user would write it, but not one that fills a page."""
    if not isinstance(origin, Computed):
        return ("shown", origin.show())
    if not depth:
        return ("shown", "...")
    bound = [("shown", str(getattr(b, "__name__", b))) for b in origin.bound]
    return origin.of([*(_shown(s, depth - 1) for s in origin.sources), *bound])


APART: Final = "~another "  # before the name of what is not always what another place holds
ANY: Final = "[*]"  # in the name of many: `batch[*][1]`
_PLACE: Final = re.compile(r"\[\d+\]", re.ASCII)


def siblings(name: str) -> Iterator[str]:
    """The names of the rows that an element stands in: of `batch[3][1]` those of `batch[*][1]` and
    `batch[3][*]`."""
    for place in _PLACE.finditer(name):
        yield f"{name[: place.start()]}{ANY}{name[place.end() :]}"
