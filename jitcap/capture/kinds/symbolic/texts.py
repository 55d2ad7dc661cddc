"""Capture: text. (str, origin) -> a constant; where the call's text varies, what stands for it.

A name of a file, an id or a caption that comes with a batch is another one at each call, and only
handed on: formatted, printed, stored, returned. Text that varies is taken to be such, and the entry
reads it. The first look into it refuses, with the lesson that it is a constant after all."""

from __future__ import annotations

from typing import Any, NoReturn

from jitcap.base.assumed import Assumed
from jitcap.base.breaks import Break
from jitcap.base.origin import Item, ItemBy, Keyword, Origin, Positional
from jitcap.base.terms import Term
from jitcap.capture.epilogue_writes import Emitter
from jitcap.capture.kinds.base import Session, of
from jitcap.capture.kinds.constants import ConstantKind
from jitcap.capture.kinds.deferred import Deferred, DeferredKind
from jitcap.guards.guard import TypeIs


class Text(Deferred):
    """A text from outside that nobody looks into."""

    __slots__ = ("origin", "samples")

    def __init__(self, real: str, origin: Origin) -> None:
        super().__init__(str, (real,))
        self.origin = origin
        self.samples = ("", real, "ab")

    def refusal(self) -> Break:
        name = self.show()
        what = f"{name}, a text that varies, is looked into"
        return Break("data dependent", what).unless(Assumed(asked=frozenset({name})))

    def show(self) -> str:
        return self.origin.show()


@of(str)
class TextKind(ConstantKind):
    """A text: of a class of its own while it stands for others."""

    def load(self, s: Session, real: str, origin: Origin) -> Any:
        name = origin.show()
        if name in s.outside.assumed.asked or not (_is_given(origin) and s.outside.varies(origin)):
            return super().load(s, real, origin)
        s.guard(TypeIs, origin, str)
        s.outside.texts.add(name)
        return Text(real, origin)


def _is_given(origin: Origin) -> bool:
    """True if this is an argument, or stands in one: what objects hold, the library reads, too."""
    while isinstance(origin, Item | ItemBy):
        origin = origin.base
    return isinstance(origin, Positional | Keyword) or origin.in_frame


@of(Text)
class HandedOnKind(DeferredKind):
    """A text that is handed on."""

    def rebuild(self, make: Emitter, value: Any) -> Term:
        return make.names.var(value.origin)

    def refuse(self, obj: Any, what: str) -> NoReturn:
        raise obj.refusal()
