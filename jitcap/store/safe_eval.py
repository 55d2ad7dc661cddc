"""Kept versions: what guards do, without running anything of the program. operand -> value.

Guards that come from disk are not known to be those that capture wrote. So while a version is
looked for, each of their operations looks first at who would answer: a type in C, or a class of the
libraries. Where a class of the program would, with an `__eq__`, `__getattr__` or property of its
own, the version does not fit.
"""

from __future__ import annotations

import collections
import functools
from types import (
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodDescriptorType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any, Final

import numpy as np

from eager.core.tensor import Tensor
from jitcap.base.call_policy import is_library_module
from jitcap.base.equality import all_are, are_same, text_of
from jitcap.base.origin import entries_of, entry_of, get_slot, is_unset, items_of
from jitcap.guards.columns import woven
from jitcap.store.allowlist import MEMBERS, MRO

_BUILTIN: Final = frozenset({
    type(None), bool, int, float, complex, str, bytes, list, tuple, dict, set, frozenset,
    FunctionType, collections.OrderedDict, collections.defaultdict, collections.deque,
})  # fmt: skip
_COMPARED: Final = (tuple, list)  # what is equal, or hashed, if its parts are
_TEXTUAL: Final = (int, float, complex, str, bytes)
_PAST: Final = (WrapperDescriptorType, MethodDescriptorType)
METHODS: Final = tuple(
    "update extend clear difference_update detach copy append put".split()
)  # that entries call of containers, and of tensors and histories that they made
_NUMBERS: Final = frozenset({bool, int, float, complex})
_OF_ROWS: Final = (all_are, are_same, woven)  # what asks nothing of what is in rows
_FIELDS: Final = (GetSetDescriptorType, MemberDescriptorType)
_ITSELF: Final = (FunctionType, property, MethodDescriptorType, WrapperDescriptorType, *_FIELDS)
_ABSENT: Final = object()


class Foreign(LookupError):
    """An operation would run code of the program."""


def _member(cls: type, name: str) -> Any:
    """Member of a class, or of a base of it, under a name; `_ABSENT` if there is none."""
    for base in MRO.__get__(cls):
        found = MEMBERS.__get__(base).get(name, _ABSENT)
        if found is not _ABSENT:
            return found
    return _ABSENT


def _check(value: Any, *methods: str) -> Any:
    """`value`, if none of the methods is the program's."""
    cls: Any = type(value)
    if cls in _BUILTIN:
        if cls in _COMPARED and "__eq__" in methods:
            for part in value:
                _check(part, *methods)
    else:
        for name in methods:
            found = _member(cls, name)
            if isinstance(found, FunctionType):
                module = found.__globals__.get("__name__")
                if not isinstance(module, str) or not is_library_module(module):
                    raise Foreign(f"{cls.__qualname__}.{name}")
            elif found is not _ABSENT and not _is_native(found):
                raise Foreign(f"{cls.__qualname__}.{name}")
    return value


def _is_native(member: Any) -> bool:
    cls: Any = type(member)
    return member is None or _is_ours(cls)


def attribute(value: Any, name: str) -> Any:
    """`value.name`: a slot, an entry of the dictionary, a member of a class or a module."""
    cls: Any = type(value)
    if cls is Tensor:
        return getattr(value, name)
    if issubclass(cls, type):
        found = _member(cls, name)
        if type(found) not in _FIELDS:
            found = _member(value, name)
            if type(found) is staticmethod:
                return found.__func__
            if found is not _ABSENT and not _is_descriptor(found):
                return found
    elif cls is ModuleType:
        return ModuleType.__getattribute__(value, "__dict__")[name]
    elif _is_ours(cls):
        return getattr(value, name)
    return _instance_attribute(value, cls, name)


@functools.lru_cache(maxsize=4096)
def _is_ours(cls: Any) -> bool:
    """True if a class is a library's."""
    return is_library_module(_home(cls))


def _home(cls: type) -> str:
    """The module of a class; types in C do not say."""
    module = MEMBERS.__get__(cls).get("__module__", "builtins")
    return module if type(module) is str else ""


def _is_descriptor(member: Any) -> bool:
    """True if reading a member of a class may give something else than the member itself."""
    kind = type(member)
    return kind not in _ITSELF and _member(kind, "__get__") is not _ABSENT


def _instance_attribute(value: Any, cls: type, name: str) -> Any:
    found = _member(cls, name)
    if type(found) in _FIELDS:
        return found.__get__(value, cls)
    space = _member(cls, "__dict__")
    fields = space.__get__(value, cls) if type(space) is GetSetDescriptorType else {}
    if found is _ABSENT or _member(type(found), "__set__") is _ABSENT:
        if name in fields:
            return fields[name]
        if found is not _ABSENT and _member(type(found), "__get__") is _ABSENT:
            return found
    raise Foreign(f"{cls.__qualname__}.{name}")


def item(value: Any, key: Any) -> Any:
    cls: Any = type(value)
    if cls not in _BUILTIN or type(key) not in (str, int):
        _check(value, "__getitem__", "__missing__")
        _check(key, "__hash__", "__eq__")
    if issubclass(cls, dict) and key not in value:  # nothing is made for it
        raise KeyError(key)
    return value[key]


def equal(a: Any, b: Any) -> bool:
    return bool(_check(a, "__eq__") == _check(b, "__eq__"))


def unequal(a: Any, b: Any) -> bool:
    return bool(_check(a, "__eq__", "__ne__") != _check(b, "__eq__", "__ne__"))


def contains(value: Any, key: Any) -> bool:
    return _check(key, "__hash__", "__eq__") in _check(value, "__contains__", "__iter__")


def lacks(value: Any, key: Any) -> bool:
    return not contains(value, key)


def part(value: Any, bounds: slice) -> Any:
    """Part of a list."""
    if type(value) is not list:
        raise Foreign(f"a {type(value).__qualname__}")
    return value[bounds]


def items(value: Any) -> Any:
    return iter(_check(value, "__iter__", "__getitem__"))


def length(value: Any) -> int:
    return len(_check(value, "__len__"))


def truth(value: Any) -> bool:
    return bool(_check(value, "__bool__", "__len__"))


def number(value: Any) -> Any:
    """An operand of arithmetic, or of an order."""
    if type(value) not in _NUMBERS and not issubclass(type(value), np.generic):
        raise Foreign(f"a {type(value).__qualname__}")
    return value


def numbers(values: Any) -> list[Any]:
    """Members of a set."""
    return [*map(number, items(values))]


def known(value: Any) -> Any:
    """An argument of a helper: a number, a library's own object, a tensor, or a row of these."""
    cls: Any = type(value)
    if cls in (tuple, list):
        for part in value:
            known(part)
    elif not _is_ours(cls):
        if not issubclass(cls, Tensor):
            raise Foreign(f"a {cls.__qualname__}")
        _check(value, "__getattribute__")
        if type(_member(cls, "_array")) is not MemberDescriptorType:
            raise Foreign(f"{cls.__qualname__}._array")
    return value


def container(value: Any) -> None:
    """Raises Foreign for what has methods of the program's own."""
    _check(value, *METHODS)


def called(fn: Any, *args: Any) -> Any:
    """A helper's answer. What a builtin type does past the program's classes is done to all."""
    if fn is object.__getattribute__:
        return attribute(*args)
    if fn is text_of:
        return text_of(_told(args[0]))
    if fn in _OF_ROWS and {*map(type, args[fn is all_are :])} <= {tuple, list}:
        return fn(*args)
    if fn is get_slot or fn is is_unset:
        if type(args[0]) is not MemberDescriptorType:
            raise Foreign("no slot")
        return fn(*args)
    if fn is items_of:
        base, keys = args
        return [item(base, key) for key in items(keys)]
    if type(fn) not in _PAST and fn is not entry_of and fn is not entries_of:
        return fn(*map(known, args))
    for arg in args[1] if fn is entries_of else args[1:]:
        if type(arg) is not str:
            _check(arg, "__hash__", "__eq__")
    return fn(*args)


def _told(value: Any) -> Any:
    """A value that is told by its text: the one that a builtin type gives it."""
    if not issubclass(type(value), _TEXTUAL):
        known(value)
        if type(value) in (tuple, list, dict, set, frozenset):
            raise Foreign("a container")
    return value


def has(value: Any, name: str) -> bool:
    """`hasattr(value, name)`."""
    try:
        attribute(value, name)
    except (LookupError, AttributeError):
        _check(value, "__getattr__", "__getattribute__")
        return False
    return True
