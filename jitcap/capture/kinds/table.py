"""Capture: which kind the values of a type are. Exact types by a table, others by rules."""

from __future__ import annotations

import collections
import datetime as dt
import enum
import functools
import io
import operator
import random
import re
import types
from collections.abc import Iterator
from types import CellType, FunctionType, MethodType, ModuleType
from typing import Any, Final

import numpy as np

from eager.device import Size, device
from eager.dtype import DType
from eager.sym import SymNumber
from eager.tensor import Tensor
from eager.utils.data import DataLoader
from jitcap.capture.interpret import Generator, Null
from jitcap.capture.kinds.base import KINDS, RULES, Identity, Kind, kind_of_class
from jitcap.capture.kinds.caches import CacheKind
from jitcap.capture.kinds.cells import CellKind
from jitcap.capture.kinds.classes import ClassKind, Super, SuperKind
from jitcap.capture.kinds.constants import (
    MADE,
    OPAQUE,
    ConstantKind,
    ExceptionKind,
    FileKind,
    FixedKind,
    ForeignKind,
    FrameKind,
    IdentityKind,
    NativeKind,
    Opaque,
    SingletonKind,
    SliceKind,
    StaticKind,
)
from jitcap.capture.kinds.counted import COUNTED
from jitcap.capture.kinds.functions import (
    BuiltinKind,
    CustomKind,
    DispatchedKind,
    EnumKind,
    FunctionKind,
    GetterKind,
    HostKind,
    JittedKind,
    LoaderKind,
    MethodKind,
    PartialKind,
    Reentry,
    ReentryKind,
    UfuncKind,
    UnboundKind,
)
from jitcap.capture.kinds.iterators import (
    GeneratorKind,
    InterpretedIterator,
    IteratorKind,
    Lazy,
    LazyKind,
    ReversedIterator,
)
from jitcap.capture.kinds.lent import Lent
from jitcap.capture.kinds.mappings import DictKind
from jitcap.capture.kinds.modules import ModuleKind
from jitcap.capture.kinds.objects import ObjectKind, PlainKind
from jitcap.capture.kinds.sequences import FrozensetKind, ListKind, SetKind, TupleKind
from jitcap.capture.kinds.tensors import (
    ARRAY,
    FloatKind,
    IntKind,
    MadeArrayKind,
    NumberKind,
    OutsideArray,
    TensorKind,
)
from jitcap.capture.kinds.text import Deferred, DeferredKind
from jitcap.capture.native import HOST_MODULES, is_python_class

CELLS: Final = CellKind()
GENERATORS: Final = (random.Random, np.random.RandomState, np.random.Generator)
_ROWS: Final[tuple[tuple[Kind, tuple[Any, ...]], ...]] = (
    (SingletonKind(), (type(None), bool, type(Ellipsis), type(NotImplemented))),
    (ConstantKind(), (str, bytes, complex, range, DType, device, re.Pattern)),
    (MADE, (dt.date, dt.time, dt.datetime, dt.timedelta)),
    (SliceKind(), (slice,)),
    (FrameKind(), (types.FrameType, types.TracebackType)),
    (IntKind(), (int,)),
    (FloatKind(), (float, np.float64)),  # the second: what NumPy computes for a schedule
    (StaticKind(), (
        types.GetSetDescriptorType, types.MemberDescriptorType, types.CodeType, property,
        types.GenericAlias, types.UnionType, functools.cached_property, Null,
    )),
    (FixedKind(), GENERATORS),
    (PlainKind(), (object,)),
    (UnboundKind(), (
        types.WrapperDescriptorType, types.MethodDescriptorType, types.ClassMethodDescriptorType,
    )),
    (BuiltinKind(), (types.BuiltinFunctionType, types.MethodWrapperType)),
    (UfuncKind(), (np.ufunc,)),
    (DispatchedKind(), (type(np.prod),)),
    (GetterKind(), (operator.itemgetter, operator.attrgetter, operator.methodcaller)),
    (CacheKind(), (functools._lru_cache_wrapper,)),
    (FunctionKind(), (FunctionType,)),
    (MethodKind(), (MethodType,)),
    (PartialKind(), (functools.partial,)),
    (ReentryKind(), (Reentry,)),
    (ModuleKind(), (ModuleType,)),
    (CELLS, (CellType,)),
    (TupleKind(), (tuple, Size)),
    (ListKind(), (list, collections.deque)),
    (DictKind(), (dict, collections.OrderedDict, collections.defaultdict)),
    (SetKind(), (set,)),
    (FrozensetKind(), (frozenset,)),
    (NumberKind(), (SymNumber,)),
    (DeferredKind(), (Deferred,)),
    (OPAQUE, (Opaque,)),
    (IdentityKind(), (Identity,)),
    (ARRAY, (OutsideArray,)),
    (MadeArrayKind(), (np.ndarray,)),
    (GeneratorKind(), (Generator,)),
    (NativeKind(), (InterpretedIterator,)),
    (LazyKind(), (Lazy, ReversedIterator)),
    (SuperKind(), (Super,)),
    *COUNTED,
)  # fmt: skip
for _kind, _types in _ROWS:
    KINDS.update(dict.fromkeys(_types, _kind))

_BY_BASE: Final[tuple[tuple[Any, Kind], ...]] = (
    (Lent, OPAQUE),
    (Tensor, TensorKind()),
    (type, ClassKind()),
    (ModuleType, KINDS[ModuleType]),
    (functools.partial, KINDS[functools.partial]),
    (types.BuiltinFunctionType, KINDS[types.BuiltinFunctionType]),
)
_FOREIGN: Final[tuple[tuple[Any, Kind], ...]] = (
    (tuple, KINDS[tuple]),
    (np.generic, MADE),
    (np.dtype | int | float | complex | str | bytes, KINDS[str]),
    (BaseException, ExceptionKind()),
    (io.TextIOBase, FileKind()),
    (Iterator, IteratorKind()),
    (object, ForeignKind()),
)


def _by_base(cls: type) -> Kind | None:
    return next((kind for base, kind in _BY_BASE if issubclass(cls, base)), None)


def _python(cls: type) -> Kind | None:
    """An instance of a Python class; NumPy's own methods are not interpreted."""
    top = cls.__module__.partition(".")[0]
    if not is_python_class(cls) or (top == "numpy" and not issubclass(cls, tuple | enum.Enum)):
        return None
    builtin = next((b for b in cls.__mro__ if not is_python_class(b)), object)
    base = kind_of_class(builtin)
    if issubclass(cls, enum.Enum):
        return EnumKind(base)
    if (cls.__module__, cls.__name__) == ("jitcap.api", "Jitted"):
        return JittedKind(base)
    if (cls.__module__, cls.__name__) == ("jitcap.custom", "CustomOp"):
        return CustomKind(base)
    if cls.__module__ in ("eager.random", "jitcap.api") or top in HOST_MODULES:
        return HostKind(base)
    return LoaderKind(base) if issubclass(cls, DataLoader) else ObjectKind(base)


def _foreign(cls: type) -> Kind | None:
    return next(kind for base, kind in _FOREIGN if issubclass(cls, base))


RULES[:] = [_by_base, _python, _foreign]
