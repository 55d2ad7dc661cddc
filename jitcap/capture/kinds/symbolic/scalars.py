"""Capture: numbers. One from outside is a run-time number, or a constant until it varies.

(number, origin) -> the number to work with and its guard; what such numbers answer."""

from __future__ import annotations

from typing import Any

import numpy as np

from eager.core.sym import NARROW, SymNumber
from jitcap.base.call_policy import shown
from jitcap.base.origin import Origin
from jitcap.base.terms import Term
from jitcap.capture.epilogue_writes import Emitter
from jitcap.capture.kinds.base import Args, Kwargs, Session, of
from jitcap.capture.kinds.constants import MADE, ConstantKind, NativeKind
from jitcap.capture.kinds.deferred import defer
from jitcap.guards.guard import TypeIs


@of(SymNumber)
class NumberKind(ConstantKind):
    """A number whose value is known only at run time: see `eager.core.sym`."""

    later = True

    def rebuild(self, make: Emitter, value: SymNumber) -> Term:
        return make.number(value)

    def type_of(self, value: SymNumber) -> type:
        return value.pytype

    def getattr(self, s: Session, obj: SymNumber, name: str) -> Any:
        if name == "__class__":
            return obj.pytype
        if name == "item" and obj.of_numpy:
            return obj.item
        if name in ("dtype", "shape", "ndim", "size") and obj.of_numpy:
            return getattr(obj.pytype(1), name)
        if name == "real" and obj.pytype in (int, float):
            return obj
        if (name, obj.pytype) in (("bit_length", int), ("is_integer", float)):
            return getattr(obj, name)
        return getattr(s.known(obj), name)

    def getitem(self, s: Session, obj: SymNumber, key: Any) -> Any:
        if obj.of_numpy:
            raise IndexError("invalid index to scalar variable.")
        raise TypeError(f"{shown(obj.pytype)!r} object is not subscriptable")

    def length(self, s: Session, obj: SymNumber) -> Any:
        raise TypeError(f"object of type {shown(obj.pytype)!r} has no len()")

    def iter(self, s: Session, obj: SymNumber) -> Any:
        raise TypeError(f"{shown(obj.pytype)!r} object is not iterable")

    def text(self, s: Session, fn: Any, args: Args, kwargs: Kwargs) -> Any:
        return defer(s, fn, args, kwargs)


@of(float, np.float64)  # the second: what NumPy computes for a schedule
class FloatKind(NativeKind):
    """A float from outside is a run-time number, guarded by type only."""

    constant = plain = True

    def load(self, s: Session, real: complex, origin: Origin) -> Any:
        s.guard(TypeIs, origin, type(real))
        return s.number_input(real, origin)

    def rebuild(self, make: Emitter, value: float) -> Term:
        return make.names.bind(value) if type(value) is float else MADE.rebuild(make, value)


class VaryingKind(ConstantKind):
    """A constant, until it is known to vary between calls."""

    def load(self, s: Session, real: Any, origin: Origin) -> Any:
        if not s.outside.varies(origin):
            return super().load(s, real, origin)
        s.guard(TypeIs, origin, type(real))
        return s.number_input(real, origin)


@of(int)
class IntKind(VaryingKind):
    """An int."""


@of(*NARROW)
class ScalarKind(VaryingKind):
    """A number of NumPy's that is no `np.float64`."""

    def rebuild(self, make: Emitter, value: Any) -> Term:
        return MADE.rebuild(make, value)
