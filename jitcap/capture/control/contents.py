"""Capture: the contents of objects that a program can change. an object -> what it has, and holds.

`mark_of` is equal as long as an object is not changed, `contents_of` can be compared and put back,
`parts_of` are the objects that it leads to. What is only loaded from outside is no change: of a
twin the difference to what was loaded is looked at, of an object that was made inside its contents.
"""

from __future__ import annotations

import collections
import functools
import gc
import itertools
import warnings
from collections.abc import Iterable
from contextlib import suppress
from types import BuiltinMethodType, CellType, FunctionType, MethodType
from typing import Any, Final

import numpy as np

from eager import random
from eager.core.storage import Storage
from eager.core.tensor import Tensor
from jitcap.base.call_policy import is_python_class
from jitcap.base.origin import is_unset
from jitcap.capture.control.histories import place_of
from jitcap.capture.interpret import Frame, Generator
from jitcap.capture.kinds.base import MISSING
from jitcap.capture.kinds.base import parts_of as items_of
from jitcap.capture.kinds.cells import CellShadow, is_empty
from jitcap.capture.kinds.iterators import Lazy
from jitcap.capture.kinds.mappings import DictShadow
from jitcap.capture.kinds.objects import slots_of
from jitcap.capture.kinds.tensors import TENSOR_FIELDS, TensorShadow
from jitcap.capture.outside import Shadow

Mark = tuple[Any, ...]
_ROUNDS: Final = (
    itertools.product, itertools.permutations, itertools.combinations,
    itertools.combinations_with_replacement, itertools.cycle,
)  # fmt: skip


def reachable(session: Any, obj: Any) -> list[Any]:
    """Values that an object of the program refers to."""
    if isinstance(obj, FunctionType) and id(obj) not in session.made:
        return []  # a function from outside has twins of its cells
    if isinstance(obj, type) and id(obj) in session.made:
        return [*vars(obj).values()]
    shadow = session.outside.by_twin.get(id(obj))
    found: list[Any] | None = None if shadow is None else shadow.reachable()
    return parts_of(obj) if found is None else found


def mark_of_part(x: Any) -> Mark | None:
    """Contents as in `mark_of`, also of a shadow, a tensor (all that eager keeps of it, but for its
    counters), and these counters."""
    if isinstance(x, Storage):
        return x.version, x.history
    if isinstance(x, TensorShadow):
        return tuple(pair for pair in x.mark() if pair[0] != "_storage")
    if isinstance(x, Shadow):
        return x.mark()
    return _mark_of_tensor(x) if isinstance(x, Tensor) else mark_of(x)


def _mark_of_tensor(t: Tensor) -> Mark:
    fields = fields_of_instance(t)
    fields.pop("_counts")
    return tuple((k, id(v)) for k, v in fields.items())


def mark_of(obj: Any) -> Mark | None:
    """The contents of an object that can change, by identity; None for what cannot."""
    if isinstance(obj, list | collections.deque):
        return *own_of(obj), *map(id, items_of(obj))
    if isinstance(obj, dict):
        return *own_of(obj), *((_name(k), id(v)) for k, v in _items(obj))
    if isinstance(obj, set):
        return *own_of(obj), frozenset(map(_name, items_of(obj)))
    if isinstance(obj, bytearray):
        return *own_of(obj), bytes(obj)
    if isinstance(obj, np.ndarray):
        return obj.shape, obj.strides, obj.dtype, obj.tobytes()
    if isinstance(obj, BaseException):
        return *own_of(obj), *((k, id(v)) for k, v in fields_of_instance(obj).items())
    if isinstance(obj, CellType):
        return () if is_empty(obj) else (id(obj.cell_contents),)
    if isinstance(obj, Frame):
        return obj.pc, tuple(map(id, obj.stack)), tuple((k, id(v)) for k, v in obj.fast.items())
    if isinstance(obj, Generator):
        return obj.started, obj.running, id(obj.frame)
    if isinstance(obj, random.Generator):
        return obj.seed_value, obj.ordinal
    if isinstance(obj, FunctionType):
        parts = obj.__defaults__, obj.__kwdefaults__, obj.__code__, obj.__name__, obj.__doc__
        return tuple(map(id, parts))
    if isinstance(obj, type):
        return tuple((k, id(v)) for k, v in vars(obj).items()) if is_python_class(obj) else None
    if isinstance(obj, functools.partial):
        return tuple((k, id(v)) for k, v in obj.__dict__.items())
    if is_python_class(type(obj)):
        return tuple((k, id(v)) for k, v in fields_of_instance(obj).items())
    return (_position(obj),) if hasattr(type(obj), "__next__") else None


def own_of(obj: Any) -> tuple[int, ...]:
    """Parts of a container or an error besides its entries or attributes, by identity."""
    return tuple(map(id, _beside(obj)))


def _beside(obj: Any) -> list[Any]:
    """Slots, which the program's classes may have; the arguments of an error, and its cause; what
    makes the entries that a dictionary lacks."""
    own: list[Any] = []
    if isinstance(obj, BaseException):
        own = [obj.args, obj.__cause__, obj.__suppress_context__]
    elif isinstance(obj, collections.defaultdict):
        own = [obj.default_factory]
    return [*own, *slots_in(obj).values()] if is_python_class(type(obj)) else own


def _items(table: dict[Any, Any]) -> Iterable[tuple[Any, Any]]:
    """The entries in their order, which an `OrderedDict` keeps beside that of the dictionary."""
    if isinstance(table, collections.OrderedDict):
        return collections.OrderedDict.items(table)
    return dict.items(table)


def _position(iterator: Any) -> Any:
    """Place of a builtin iterator: its length hint, or what a copy of it would begin with; None if
    it has none, but for what it goes through."""
    if type(iterator) is Lazy:
        return iterator.moves
    if type(iterator) is itertools.count:
        return repr(iterator)
    if type(iterator) in _ROUNDS:
        _, given, *rest = _reduced(iterator)
        if type(iterator) is itertools.cycle:
            return _position(given[0])
        return [len(pool) for pool in given if type(pool) is tuple], rest
    hint = getattr(iterator, "__length_hint__", None)
    return hint() if hint is not None else None


def _reduced(iterator: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # from 3.12 on
        return iterator.__reduce__()


def driven_by(iterator: Any) -> list[Any]:
    """The iterators that a builtin one goes through."""
    held = gc.get_referents(iterator)
    held += [x for each in held if type(each) is tuple for x in each]
    return [x for x in held if hasattr(type(x), "__next__")]


def fields_of_instance(obj: Any) -> dict[str, Any]:
    """The dictionary and the slots of an instance."""
    fields: dict[str, Any] = {}
    with suppress(AttributeError):
        fields.update(object.__getattribute__(obj, "__dict__"))
    return fields | slots_in(obj)


def slots_in(obj: Any) -> dict[str, Any]:
    """The slots of an instance."""
    return {
        name: MISSING if is_unset(descriptor, obj) else descriptor.__get__(obj)
        for name, descriptor in slots_of(type(obj))
    }


def fields_in(obj: Any) -> dict[str, Any] | None:
    """The dictionary of an instance; None where it has none."""
    if isinstance(obj, type) or not is_python_class(type(obj)):
        return None
    with suppress(AttributeError):
        found: dict[str, Any] = object.__getattribute__(obj, "__dict__")
        return found
    return None


def _name(key: Any) -> Any:
    return key if type(key) in (int, str) else id(key)


class Holder:
    """An object of the capture's own, in a frame of the program, that the program fills."""

    def held(self) -> list[Any]:
        raise NotImplementedError


def parts_of(obj: Any) -> list[Any]:
    """Values that an object refers to."""
    if isinstance(obj, Holder):
        return obj.held()
    if isinstance(obj, dict):
        return [*dict.keys(obj), *dict.values(obj), *_of_class(obj)]
    if isinstance(obj, list | collections.deque | tuple | set | frozenset):
        return [*items_of(obj), *_of_class(obj)]
    if isinstance(obj, BaseException):
        return [*_beside(obj), obj.__dict__]
    if isinstance(obj, np.ndarray):
        return [obj.base]
    if isinstance(obj, CellType):
        return [] if is_empty(obj) else [obj.cell_contents]
    if isinstance(obj, Frame):
        return [*obj.stack, *obj.fast.values(), obj.namespace, *obj.handled, obj.function]
    if isinstance(obj, Generator):
        return [obj.frame]
    if isinstance(obj, FunctionType):
        return [*(obj.__closure__ or ()), obj.__defaults__, obj.__kwdefaults__, obj.__dict__]
    if isinstance(obj, MethodType):
        return [obj.__self__, obj.__func__]
    if isinstance(obj, functools.partial):
        return [obj.func, obj.args, obj.keywords, obj.__dict__]
    if isinstance(obj, BuiltinMethodType):
        return [obj.__self__]
    if isinstance(obj, Tensor):
        view = obj._view
        hooks = [obj._hooks, obj._accumulate_hooks]
        own = [v for k, v in vars(obj).items() if k not in TENSOR_FIELDS]
        return [obj._grad, *hooks, *([] if view is None else [view.base]), *own]
    if isinstance(obj, type) or not is_python_class(type(obj)):
        return driven_by(obj) if hasattr(type(obj), "__next__") else []
    return [*fields_of_instance(obj).values()]


def _of_class(obj: Any) -> list[Any]:
    """The dictionary and the slots of an instance whose class derives from a container."""
    fields = fields_in(obj)
    return [*_beside(obj), *([] if fields is None else [fields])]


def has_fields(obj: Any) -> bool:
    """An instance whose state is its dictionary."""
    cls = type(obj)
    return (
        is_python_class(cls)
        and not isinstance(obj, type | dict | list | Tensor | Shadow | Frame)
        and "__dict__" in dir(cls)
        and type(getattr(obj, "__dict__", None)) is dict
        and not any("__slots__" in vars(base) for base in cls.__mro__[:-1])
    )


def contents_of(x: Any) -> Any:
    """Snapshot of what an object (of one from outside its shadow) has, to compare and to put back:
    entries by their keys; None for a kind that has none."""
    if isinstance(x, DictShadow):
        return dict(x.twin), frozenset(x.known)
    if isinstance(x, CellShadow):
        return x.twin.cell_contents if x.changed() else MISSING
    if isinstance(x, TensorShadow):
        return contents_of(x.twin)
    if isinstance(x, Tensor):
        return fields_of_instance(x), x._grad, place_of(x)
    if isinstance(x, Storage):
        return x.version, x.history
    return dict(vars(x)) if isinstance(x, type) else entries_of(x)


def entries_of(obj: Any) -> dict[Any, Any]:
    """Entries of a dictionary, a list, a cell or an instance that was made inside."""
    if isinstance(obj, dict):
        return dict(_items(obj))
    if isinstance(obj, list):
        return dict(enumerate(list.__iter__(obj)))
    if isinstance(obj, CellType):
        return {} if is_empty(obj) else {"cell_contents": obj.cell_contents}
    return dict(object.__getattribute__(obj, "__dict__")) if has_fields(obj) else {}
