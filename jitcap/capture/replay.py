"""Capture: one write to the outside, as data. What a program changed -> the statement that does it.

Each kind says how its objects are written (`Shadow.replay`); `effects` puts the writes in order.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Protocol

from eager.base.dataclass import dataclass
from jitcap.base.origin import Item, Origin
from jitcap.guards.guard import Names

# Fields of a tensor by the names with which a program writes them.
USER_NAMES: Final = {"_array": "data", "_grad": "grad", "_requires_grad": "requires_grad"}
ITEM: Final = "{t}[{k}] = {v}"
DROP_ITEM: Final = "del {t}[{k}]"
ATTRIBUTE: Final = "{t}.{k} = {v}"
PUT: Final = "{f}({t}, {k}, {v})"
DROP: Final = "{f}({t}, {k})"
EXTEND: Final = "{t}.extend({v})"
VERSION: Final = "{t}._storage.version += {v}"


@dataclass(frozen=True, slots=True)
class Effect:
    """One write to an object from outside: what is found at `origin`, `target` in the source.

    `form` is the statement, `key`, `value` and `fn` (a method) are the expressions in it; `model`
    is the statement on a copy of the object's contents. `name` is the key as data where it is a
    constant, `where` the user's line that wrote, where it is known."""

    origin: Origin
    target: str
    form: str
    key: str = ""
    value: str = ""
    fn: str = ""
    model: str = ""
    name: Any = None
    where: str = ""

    def statement(self) -> str:
        """The statement that replays it."""
        return self._filled(self.form, self.target)

    def record(self, target: str) -> str:
        """The statement that does it to `target`, a copy of the contents of the object."""
        return self._filled(self.model or self.form, target)

    def _filled(self, form: str, target: str) -> str:
        return form.format(t=target, k=self.key, v=self.value, f=self.fn)

    def show(self) -> str:
        """The place that is written, as the user writes it."""
        place = self.origin.show()
        if self.form == ATTRIBUTE:
            name = USER_NAMES.get(self.key, self.key)
            return place if name == "cell_contents" else f"{place}.{name}"
        if self.name is None:
            return place
        return Item(self.origin, self.name).show()


class Maker(Protocol):
    """Renders values as source that makes them again: see `jitcap.capture.rebuild`."""

    session: Any
    names: Names
    lines: list[str]
    reporting: bool  # whether what is made is only shown by a call of the host
    writes: list[Any]  # (shadow of a tensor, index of the output that its memory takes)

    def expr(self, value: Any) -> str: ...
    def all(self, values: Iterable[Any]) -> str: ...
    def output(self, node: Any) -> int: ...
    def let(self, text: str) -> str: ...
    def mutable(self, kind: Any, value: Any) -> str: ...
    def number(self, number: Any) -> str: ...
    def tensor(self, tensor: Any) -> str: ...
    def is_fixed(self, value: Any) -> bool: ...
    def is_made(self, value: Any) -> bool: ...
    def is_outside(self, value: Any) -> bool: ...
    def written_at(self, twin: Any, key: Any) -> str: ...
