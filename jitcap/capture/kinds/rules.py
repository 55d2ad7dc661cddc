"""Capture: which kind the values of a type are that no kind names (`base.of`): rules, in order."""

from __future__ import annotations

import enum
import functools
import io
import types
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, Final

import numpy as np

from eager.core.op import Op
from eager.core.tensor import Tensor
from jitcap.base.breaks import Break
from jitcap.base.call_policy import HOST_MODULES, answers_for_itself, is_python_class
from jitcap.base.origin import Origin
from jitcap.base.terms import Term
from jitcap.capture.epilogue_writes import Emitter
from jitcap.capture.kinds import caches, proxies, sets, type_forms  # noqa: F401 - they fill KINDS, as the others do
from jitcap.capture.kinds.base import KINDS, RULES, Kind, Session, kind_of_class
from jitcap.capture.kinds.classes import ClassKind
from jitcap.capture.kinds.constants import (
    MADE,
    OPAQUE,
    ConstantKind,
    ExceptionKind,
    FileKind,
    ForeignKind,
    OpaqueKind,
)
from jitcap.capture.kinds.functions import CustomKind, EnumKind, HostKind, JittedKind, LoaderKind
from jitcap.capture.kinds.iterators import IteratorKind
from jitcap.capture.kinds.native_proxies import NativeProxy
from jitcap.capture.kinds.objects import NamespaceKind, ObjectKind
from jitcap.capture.kinds.symbolic import scalars, sequences, texts  # noqa: F401 - as above
from jitcap.capture.kinds.tensors import TensorKind


class DtypeKind(ConstantKind):
    """A dtype of NumPy: a constant, unless it has fields, which can get other names."""

    def load(self, s: Session, real: Any, origin: Origin) -> Any:
        if real.names is None:
            return super().load(s, real, origin)
        return OPAQUE.load(s, real, origin)

    def rebuild(self, make: Emitter, value: Any) -> Term:
        if value.names is None:
            return super().rebuild(make, value)
        return Kind.rebuild(self, make, value)


class FlagsKind(ForeignKind):
    """Flags of an array, which they do not name: what is written to them is written to it."""

    def setattr(self, s: Session, obj: Any, name: str, value: Any) -> None:
        raise Break("effect", "flags of an array change")

    def setitem(self, s: Session, obj: Any, key: Any, value: Any) -> None:
        self.setattr(s, obj, "", value)


class LentKind(OpaqueKind):
    """An instance of the program that native code put where the program finds it."""

    def load(self, s: Session, real: Any, origin: Origin) -> Any:
        return real._value  # of this capture: no outside

    def rebuild(self, make: Emitter, value: Any) -> Term:
        return make.expr(value._value)


_BY_BASE: Final[tuple[tuple[Any, Kind], ...]] = (
    (NativeProxy, LentKind()),
    (Tensor, TensorKind()),
    (Op, KINDS[types.CodeType]),  # a record of the library
    (type, ClassKind()),
    (ModuleType, KINDS[ModuleType]),
    (functools.partial, KINDS[functools.partial]),
    (types.BuiltinFunctionType, KINDS[types.BuiltinFunctionType]),
)
_FOREIGN: Final[tuple[tuple[Any, Kind], ...]] = (
    (tuple, KINDS[tuple]),
    (np.void, ForeignKind()),  # a record, which can be written
    (np.generic, MADE),
    (np.dtype, DtypeKind()),
    (type(np.empty(0).flags), FlagsKind()),
    (int | float | complex | str | bytes, KINDS[str]),
    (BaseException, ExceptionKind()),
    (io.TextIOBase, FileKind()),
    (Iterator, IteratorKind()),
    (object, ForeignKind()),
)


NAMESPACE: Final = NamespaceKind()


_LOADERS: Final = {
    ("eager.utils.data.dataloader", "DataLoader"),
    ("eager.utils.data.iterators", "BatchIterator"),
}


def _told_apart_by_the_program(cls: type) -> Kind | None:
    """Classes that a metaclass of the program hashes or compares, and their instances: tables of
    capture would run it."""
    own = answers_for_itself(type(cls)) or (issubclass(cls, type) and answers_for_itself(cls))
    return OPAQUE if own else None


def _by_base(table: tuple[tuple[Any, Kind], ...]) -> Callable[[type], Kind | None]:
    return lambda cls: next((kind for base, kind in table if issubclass(cls, base)), None)


def _python(cls: type) -> Kind | None:
    """An instance of a Python class; NumPy's own methods are not interpreted."""
    top = cls.__module__.partition(".")[0]
    if not is_python_class(cls) or (top == "numpy" and not issubclass(cls, tuple | enum.Enum)):
        return None
    builtin = next((b for b in cls.__mro__ if not is_python_class(b)), object)
    base = NAMESPACE if issubclass(cls, types.SimpleNamespace) else kind_of_class(builtin)
    if issubclass(cls, enum.Enum):
        return EnumKind(base)
    if (cls.__module__, cls.__name__) == ("jitcap.api", "Jitted"):
        return JittedKind(base)
    if (cls.__module__, cls.__name__) == ("jitcap.custom", "CustomOp"):
        return CustomKind(base)
    if cls.__module__ in ("eager.random", "jitcap.api") or top in HOST_MODULES:
        return HostKind(base)
    return LoaderKind(base) if _loads_data(cls) else ObjectKind(base)


def _loads_data(cls: type) -> bool:
    """True for a loader and its iterators, whose modules are imported by those who have one."""
    return any((c.__module__, c.__name__) in _LOADERS for c in cls.__mro__)


RULES[:] = [_told_apart_by_the_program, _by_base(_BY_BASE), _python, _by_base(_FOREIGN)]
