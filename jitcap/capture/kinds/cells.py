"""Capture: closure cells. cell -> twin, whose content is loaded at the first read."""

from __future__ import annotations

from collections.abc import Iterable
from types import CellType, FunctionType
from typing import Any

from jitcap.base.breaks import Break
from jitcap.base.origin import CellOf, Contents, FixedPart, Origin
from jitcap.base.terms import Row, attribute, text
from jitcap.capture.epilogue_writes import ATTRIBUTE, Effect, Emitter
from jitcap.capture.inputs import Shadow, counts
from jitcap.capture.kinds.base import MISSING, UNLOADED, MutableKind, Session, of
from jitcap.capture.kinds.constants import NativeKind
from jitcap.guards.guard import Same, TypeIs


class CellShadow(Shadow):
    """A closure cell; its content is loaded at the first read."""

    mutable = True

    def __init__(self, real: CellType, origin: Origin) -> None:
        super().__init__(real, origin, CellType())
        self.base: Any = UNLOADED

    def touch(self, s: Session) -> None:
        if self.base is not UNLOADED:
            return
        if is_empty(self.real):
            self.base = MISSING
            s.guard_that(("call", "$1", "$0"), self.origin, is_empty)
            return
        self.base = s.outside.load(self.real.cell_contents, Contents(self.origin))
        self.twin.cell_contents = self.base

    def store(self, value: Any) -> None:
        if self.base is UNLOADED:
            self.base = MISSING
        self.twin.cell_contents = value

    def mark(self) -> tuple[Any, ...]:
        if self.base is UNLOADED or is_empty(self.twin):
            return ()  # nobody empties one from outside
        now = self.twin.cell_contents
        return () if now is self.base else (id(now),)

    def lost(self) -> Iterable[Any]:
        return () if is_empty(self.real) else (self.real.cell_contents,)

    def replay(self, make: Emitter) -> list[Effect]:
        value = make.expr(self.twin.cell_contents)
        return [self.write(make, ATTRIBUTE, text("cell_contents"), value)]

    def counters(self) -> set[str]:
        counted = self.changed() and counts(self.base, self.twin.cell_contents)
        return {Contents(self.origin).show()} if counted else set()


def is_empty(cell: CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return True
    return False


def closure_cell(s: Session, fn: FunctionType, index: int) -> CellType:
    """The twin of the `index`-th closure cell of a function from outside."""
    real = (fn.__closure__ or ())[index]
    if id(fn) in s.made:
        return real
    found = s.cells.get((id(fn), index))
    if found is not None:
        return found
    outside = s.outside
    if id(real) in outside.by_twin and id(real) not in outside.by_real:
        return real
    name = fn.__code__.co_freevars[index]
    owner = outside.origin_of(fn)
    origin: Origin = FixedPart(real, name, fn, index)
    if owner is not None and not outside.is_fixed(fn):
        origin = CellOf(owner, index, name)
    known = outside.by_real.get(id(real))
    if known is None:
        known = CellShadow(real, origin)
        outside.register(known)
    else:  # two functions share a variable: they must at every call
        s.guard(Same, origin, known.origin)
    s.cells[id(fn), index] = cell = known.twin
    return cell


@of(CellType)
class CellKind(NativeKind, MutableKind):
    """A cell: a variable that functions share, or that is itself a value."""

    def filling(self, make: Emitter, name: str, value: CellType) -> list[Row]:
        try:
            return [("set", attribute(name, "cell_contents"), make.expr(value.cell_contents))]
        except ValueError:  # it is empty
            return []

    def load(self, s: Session, real: CellType, origin: Origin) -> Any:
        s.guard(TypeIs, origin, CellType)
        return s.outside.register(CellShadow(real, origin))

    def getattr(self, s: Session, obj: CellType, name: str) -> Any:
        return self.get(s, obj) if name == "cell_contents" else getattr(obj, name)

    def setattr(self, s: Session, obj: CellType, name: str, value: Any) -> None:
        if name != "cell_contents":
            setattr(obj, name, value)  # raises in Python's words
        self.put(s, obj, value)

    def delattr(self, s: Session, obj: CellType, name: str) -> None:
        if name != "cell_contents":
            delattr(obj, name)
        self.clear(s, obj)

    def get(self, s: Session, cell: CellType) -> Any:
        """Content of a cell. Raises ValueError if it is empty."""
        shadow = s.outside.shadow(cell)
        if isinstance(shadow, CellShadow):
            shadow.touch(s)
        return cell.cell_contents

    def put(self, s: Session, cell: CellType, value: Any) -> None:
        shadow = s.outside.shadow(cell)
        if isinstance(shadow, CellShadow):
            if s.log.goes_back():  # to what is there
                shadow.touch(s)
            shadow.store(value)
        else:
            cell.cell_contents = value

    def clear(self, s: Session, cell: CellType) -> None:
        if s.outside.shadow(cell) is not None:
            raise Break("effect", "a closure variable from outside is deleted")
        del cell.cell_contents
