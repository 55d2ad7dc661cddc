"""Capture: one write to the outside, as data. What a program changed -> the statement that does it.

Each kind says how its objects are written (`Shadow.replay`); `effects` puts the writes in order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, Protocol

from eager.base.dataclass import dataclass
from jitcap.base.origin import Item, Origin
from jitcap.base.terms import Row, Term, attribute, filled, method, text
from jitcap.guards.guard import Unnamed

# Fields of a tensor by the names with which a program writes them.
USER_NAMES: Final = {"_array": "data", "_grad": "grad", "_requires_grad": "requires_grad"}
# The statements: on what is found at the origin, with the key, the value and the method.
ITEM: Final[Row] = ("set", ("item", "t", "k"), "v")
DROP_ITEM: Final[Row] = ("delete", ("item", "t", "k"))
ATTRIBUTE: Final[Row] = ("set", ("attribute", "t", "k"), "v")
OWN: Final[Row] = ("set", ("item", attribute("t", "__dict__"), "k"), "v")
CLEAR: Final[Row] = ("do", ("call", "f", "t"))
APPLY: Final[Row] = ("do", ("call", "f", "t", "v"))
PUT: Final[Row] = ("do", ("call", "f", "t", "k", "v"))
DROP: Final[Row] = ("do", ("call", "f", "t", "k"))
EXTEND: Final[Row] = ("do", method("t", "extend", "v"))
VERSION: Final[Row] = ("add", attribute("t", "_storage", "version"), "v")


@dataclass(slots=True)
class Effect:
    """One write to an object from outside: what is found at `origin`, `target` in the entry.

    `form` is the statement, `key`, `value` and `fn` (a method) are the terms in it; `model` is the
    statement on a copy of the object's contents. `name` is the key as data where it is a constant,
    `where` the user's line that wrote, where it is known."""

    origin: Origin
    target: Term
    form: Row
    key: Term = ""
    value: Term = ""
    fn: Term = ""
    model: Row = ()
    name: Any = None
    where: str = ""

    def rename(self, named: Callable[[Term], Term]) -> None:
        """Put names into its terms."""
        terms = self.target, self.key, self.value, self.fn
        self.target, self.key, self.value, self.fn = map(named, terms)

    def statement(self) -> Row:
        """The statement that replays it."""
        return self._filled(self.form, self.target)

    def record(self, target: str) -> Row:
        """The statement that does it to `target`, a copy of the contents of the object."""
        return self._filled(self.model or self.form, target)

    def _filled(self, form: Row, target: Term) -> Row:
        given = {"t": target, "k": self.key, "v": self.value, "f": self.fn}
        return filled(form, given)

    def show(self) -> str:
        """The place that is written, as the user writes it."""
        place = self.origin.show()
        if self.form in (ATTRIBUTE, OWN):
            key = self.key[1:]  # a text
            name = USER_NAMES.get(key, key)
            return place if name == "cell_contents" else f"{place}.{name}"
        if self.name is None:
            return place
        return Item(self.origin, self.name).show()


class Emitter(Protocol):
    """Renders values as terms that make them again: see `jitcap.capture.epilogue.values`."""

    session: Any
    names: Unnamed
    rows: list[Row]
    early: set[int]  # ids of what contains itself
    reporting: bool  # whether what is made is only shown by a call of the host
    writes: list[Any]  # (shadow of a tensor, the value that its memory takes)

    def expr(self, value: Any) -> Term: ...
    def all(self, values: Iterable[Any]) -> list[Term]: ...
    def output(self, node: Any) -> int: ...
    def let(self, term: Term) -> str: ...
    def call(self, fn: Any, *args: Any) -> str: ...
    def put(self, name: Term, field: str, value: Term) -> None: ...
    def mutable(self, kind: Any, value: Any) -> str: ...
    def number(self, number: Any) -> Term: ...
    def one_of(self, ways: Term, truth: Any) -> Term: ...
    def tensor(self, tensor: Any) -> str: ...
    def is_fixed(self, value: Any) -> bool: ...
    def is_made(self, value: Any) -> bool: ...
    def is_outside(self, value: Any) -> bool: ...
    def written_at(self, twin: Any, key: Any) -> str: ...


def attributes(make: Emitter, name: str, value: Any) -> list[Row]:
    """Statements that give the object `name` the attributes of one."""
    fields = getattr(value, "__dict__", None)
    if not fields:
        return []
    pairs = [part for k, v in fields.items() for part in (text(k), make.expr(v))]
    return [("do", method(attribute(name, "__dict__"), "update", ("dict", *pairs)))]
