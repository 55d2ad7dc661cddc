"""Capture: which module of the model an operation belongs to, for profiles. module -> its path."""

from __future__ import annotations

from typing import Any

from jitcap.base.module_path import dotted
from jitcap.base.origin import DictOf, Item, Origin
from jitcap.graph.graph import NOWHERE, Where


class Paths:
    """Paths of the modules that were called: what the program reads them by. `module`: that of the
    innermost one whose call is interpreted. (An object of its own: no table of the session grows by
    what is for people alone.)"""

    def __init__(self) -> None:
        self.module = ""
        self._last: tuple[Where, Where] = NOWHERE, NOWHERE
        self._known: dict[int, tuple[Any, str]] = {}  # by id of a module, or of its origin

    def inside(self, line: Where) -> Where:
        """A line, in the call of that module."""
        known, module = self._last, self.module
        if known[0] is not line or known[1].module is not module:  # of each node of a call
            self._last = known = line, Where(line.file, line.line, line.function, module)
        return known[1]

    def of(self, s: Any, layer: Any) -> str:
        found = self._known.get(id(layer))
        if found is None:
            shadow = s.outside.by_twin.get(id(layer))
            path = type(layer).__name__ if shadow is None else self._read_by(shadow.origin)
            found = self._known[id(layer)] = layer, path
        return found[1]

    def _read_by(self, origin: Origin) -> str:
        """`dotted(origin.show())`, of children by that of their parent."""
        found = self._known.get(id(origin))
        if found is None:
            path, table = "", origin.base if type(origin) is Item else None
            if type(table) is Item and table.key == "_modules" and type(table.base) is DictOf:
                assert type(origin) is Item
                path = f"{self._read_by(table.base.base)}.{origin.key}"
            path = path or dotted(origin.show())
            found = self._known[id(origin)] = origin, path
        return found[1]
