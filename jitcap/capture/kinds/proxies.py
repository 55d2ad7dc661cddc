"""Capture: read-only views of mappings, `types.MappingProxyType`. view -> what its mapping answers.

A signature's parameters are one. The mapping behind it, which only C reaches, is an object from
outside like any other, so a view shows what the program has written to it.
"""

from __future__ import annotations

import gc
from types import MappingProxyType
from typing import Any, Final

from jitcap.base.origin import Origin, result_of
from jitcap.base.terms import Term
from jitcap.capture.epilogue_writes import Emitter
from jitcap.capture.inputs import Shadow
from jitcap.capture.kinds.base import Session, kind_of, of
from jitcap.capture.kinds.constants import OPAQUE, NativeKind
from jitcap.guards.guard import TypeIs

_OF_CLASSES: Final = {"__module__", "__doc__"}  # names that the namespace of each class has


def mapping_of(view: Any) -> Any:
    """The mapping that a view shows: all that it refers to."""
    (held,) = gc.get_referents(view)
    return held


@of(MappingProxyType)
class ProxyKind(NativeKind):
    """A read-only view of a mapping."""

    contains_values = True

    def load(self, s: Session, real: Any, origin: Origin) -> Any:
        if real.keys() >= _OF_CLASSES:  # the attributes of a class have a kind of their own
            return OPAQUE.load(s, real, origin)
        s.guard(TypeIs, origin, MappingProxyType)
        held = s.outside.load(mapping_of(real), result_of(mapping_of, origin))
        return s.outside.register(Shadow(real, origin, MappingProxyType(held)))

    def settle(self, s: Session, value: Any, depth: int) -> None:
        held = mapping_of(value)
        kind_of(held).settle(s, held, depth)

    def rebuild(self, make: Emitter, value: Any) -> Term:
        return make.call(MappingProxyType, mapping_of(value))

    def getattr(self, s: Session, obj: Any, name: str) -> Any:
        if name.startswith("__") or not hasattr(MappingProxyType, name):
            return super().getattr(s, obj, name)
        return s.getattr(mapping_of(obj), name)

    def getitem(self, s: Session, obj: Any, key: Any) -> Any:
        return s.getitem(mapping_of(obj), key)

    def contains(self, s: Session, obj: Any, item: Any) -> Any:
        return s.contains(item, mapping_of(obj))

    def length(self, s: Session, obj: Any) -> Any:
        return s.length(mapping_of(obj))

    def truth(self, s: Session, obj: Any) -> bool:
        return s.truth(mapping_of(obj))

    def iter(self, s: Session, obj: Any) -> Any:
        return s.iter(mapping_of(obj))
