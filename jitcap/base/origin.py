"""Capture: where a value read from outside came from, as data. (parent, step) -> expression, name.

An `Origin` knows how to *re-read* its value in generated code (`expr`) and how to *name* it for
people (`show`), by two templates over its fields: `reads` and `shows`. Guards and the entry
function are written in terms of origins only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from types import MemberDescriptorType
from typing import Any, ClassVar, Final, Protocol

from eager.base.dataclass import dataclass


class Bind(Protocol):
    """An object -> the name by which generated code reaches it (see `guards.Names.bind`)."""

    def __call__(self, value: Any, where: str | None = "") -> str: ...


Variable = Callable[["Origin"], str]  # an origin -> the variable that holds its value
GLOBALS: Final = "globals()"


@dataclass(frozen=True, slots=True, eq=False)
class Origin:
    """Base: how to read one value. Compared by identity: each place is read once per capture.

    The templates have the origin itself as `o`; `reads` has the variables of its parents and then
    the names of what it `binds` by number."""

    in_frame: ClassVar[bool] = False  # whether a live frame holds it
    is_size: ClassVar[bool] = False  # whether it is the size of a tensor
    reads: ClassVar[str] = ""
    shows: ClassVar[str] = ""

    def parents(self) -> tuple[Origin, ...]:
        """The origins that must be read before this one."""
        return ()

    def binds(self) -> tuple[Any, ...]:
        """The objects that the expression names."""
        return ()

    def expr(self, var: Variable, bind: Bind) -> str:
        """Source of the expression that reads it. May raise a LookupError or AttributeError."""
        return self.reads.format(*map(var, self.parents()), *map(bind, self.binds()), o=self)

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

    reads, shows = "args[{o.index}]", "{o.name}"
    index: int
    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Keyword(Origin):
    """A keyword argument of the call."""

    reads, shows = "kwargs[{o.name!r}]", "{o.name}"
    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Keywords(Origin):
    """The dictionary of the call's keyword arguments."""

    reads, shows = "kwargs", "the keyword arguments"


@dataclass(frozen=True, slots=True, eq=False)
class Fixed(Origin):
    """An object that is fixed for this entry: the root function's globals, a cell, a class."""

    shows = "{o.label}"
    value: Any
    label: str

    def expr(self, var: Variable, bind: Bind) -> str:
        return bind(self.value, None)


@dataclass(frozen=True, slots=True, eq=False)
class FixedPart(Fixed):
    """A part of a function that is fixed itself: a cell, its globals."""

    function: Any
    part: str

    def expr(self, var: Variable, bind: Bind) -> str:
        return bind(self.value, f"{bind(self.function)}.{self.part}")


@dataclass(frozen=True, slots=True, eq=False)
class MembersOf(Origin):
    """The namespace of a class that is fixed."""

    shows = "{o.cls.__qualname__}"
    cls: type
    table: Any  # a mapping proxy: a new one at each look

    @classmethod
    def of(cls, owner: type) -> MembersOf:
        return cls(owner, vars(owner))

    def expr(self, var: Variable, bind: Bind) -> str:
        return bind(self.table, f"{bind(self.cls, None)}.__dict__")


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

    def expr(self, var: Variable, bind: Bind) -> str:
        given = [*map(bind, self.args), *(f"{k}={bind(v)}" for k, v in self.kwargs)]
        return f"{bind(self.method)}({', '.join(given)})"

    def show(self) -> str:
        given = [*map(repr, self.args), *(f"{k}={v!r}" for k, v in self.kwargs)]
        return f"{self.label}({', '.join(given)})"


@dataclass(frozen=True, slots=True, eq=False)
class DrawnPart(Drawn):
    """One of several numbers that were drawn together."""

    reads, shows = "{o.whole.name}[{o.place}]", "{o.whole}[{o.place}]"
    whole: Any = None  # the `Drawn` before it
    place: int = 0

    expr, show = Origin.expr, Origin.show


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


@dataclass(frozen=True, slots=True, eq=False)
class Attribute(Step):
    """`base.name`, for slots, modules' and classes' attributes, and attributes of builtin types."""

    reads, shows = "{0}.{o.name}", "{o.base}.{o.name}"
    name: str


@dataclass(frozen=True, slots=True, eq=False)
class DictOf(Step):
    """The instance dictionary. `by`: what reads it where a class has a `__getattribute__`."""

    by: Any = None

    def expr(self, var: Variable, bind: Bind) -> str:
        v = var(self.base)
        return f"{v}.__dict__" if self.by is None else f"{bind(self.by)}({v}, '__dict__')"


@dataclass(frozen=True, slots=True, eq=False)
class Item(Step):
    """`base[key]` for a constant key. `by`: what reads it where a class has a way of its own."""

    key: Any
    by: Any = None

    def expr(self, var: Variable, bind: Bind) -> str:
        key = repr(self.key) if type(self.key) in (int, str) else bind(self.key)
        return _item(self, key, var, bind)

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
    key: Origin
    by: Any = None

    def parents(self) -> tuple[Origin, ...]:
        return (self.base, self.key)

    def expr(self, var: Variable, bind: Bind) -> str:
        return _item(self, var(self.key), var, bind)


def _item(item: Any, key: str, var: Variable, bind: Bind) -> str:
    v = var(item.base)
    return f"{v}[{key}]" if item.by is None else f"{bind(item.by)}({v}, {key})"


@dataclass(frozen=True, slots=True, eq=False)
class Keys(Step):
    """The keys (or values) of a dictionary, in order, as a list: `[*view(base)]`."""

    reads, shows = "[*{1}({0})]", "list({o.base}.{o.view.__name__}())"
    view: Any

    def binds(self) -> tuple[Any, ...]:
        return (self.view,)


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


@dataclass(frozen=True, slots=True, eq=False)
class Slot(Step):
    """Value of a slot, read without the class's `__getattribute__` or `__getattr__`."""

    reads, shows = "{1}({2}, {0})", "{o.base}.{o.name}"
    name: str
    descriptor: Any

    def binds(self) -> tuple[Any, ...]:
        return get_slot, self.descriptor


@dataclass(frozen=True, slots=True, eq=False)
class IsUnset(Slot):
    """Test of a slot: true if it is unset."""

    shows = "not hasattr({o.base}, {o.name!r})"

    def binds(self) -> tuple[Any, ...]:
        return is_unset, self.descriptor


@dataclass(frozen=True, slots=True, eq=False)
class CellOf(Step):
    """The i-th closure cell of a function."""

    reads, shows = "{0}.__closure__[{o.index}]", "{o.name}"
    index: int
    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Contents(Step):
    """Contents of a closure cell."""

    reads = "{0}.cell_contents"


@dataclass(frozen=True, slots=True, eq=False)
class Computed(Origin):
    """An expression over other origins: `template.format(*variables, *names of what is bound)`."""

    sources: tuple[Origin, ...]
    template: str
    bound: tuple[Any, ...] = ()

    def parents(self) -> tuple[Origin, ...]:
        return self.sources

    def expr(self, var: Variable, bind: Bind) -> str:
        names = [var(s) for s in self.sources] + [bind(b) for b in self.bound]
        return self.template.format(*names)

    def show(self) -> str:
        return _shown(self, 3)


def _shown(origin: Origin, depth: int) -> str:
    """An expression as the user would write it, but not one that fills a page."""
    if not isinstance(origin, Computed):
        return origin.show()
    if not depth:
        return "..."
    sources = [_shown(s, depth - 1) for s in origin.sources]
    return origin.template.format(*sources, *(getattr(b, "__name__", b) for b in origin.bound))


APART: Final = "~another "  # before the name of what is not always what another place holds
ANY: Final = "[*]"  # in the name of many: `batch[*][1]`
_PLACE: Final = re.compile(r"\[\d+\]", re.ASCII)


def siblings(name: str) -> Iterator[str]:
    """The names of the rows that an element stands in: of `batch[3][1]` those of `batch[*][1]` and
    `batch[3][*]`."""
    for place in _PLACE.finditer(name):
        yield f"{name[: place.start()]}{ANY}{name[place.end() :]}"
