"""Kept versions: what an object of the program is made of, for another process. object -> digest.

Within a process a version tells functions and classes by identity. In another one they are other
objects, so they must be made of the same text: code with its constants and lines, defaults, a
class's bases and members. What a version reads beyond that (cells, globals, attributes) it guards.
"""

from __future__ import annotations

import collections
import enum
import functools
import re
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from types import CellType, CodeType, FunctionType, MappingProxyType, MethodType, ModuleType
from typing import Any, Final

import numpy as np

import eager
from codegen.runtime.cache import digest
from eager.base.dtype import DType, NamedType
from eager.core.op import REGISTRY, Op
from eager.device import device
from eager.random import Generator
from jitcap.base.call_policy import (
    HOST_MODULES,
    is_library_module,
    is_library_space,
    is_python_class,
)
from jitcap.capture.kinds.constants import GENERATORS


class Unkept(Exception):
    """This version stays in this process; the text says what cannot be found in another."""


_ATOMS: Final = (int, float, complex, str, bytes, bool, type(None), type(...), range, slice)
_TEXTS: Final = (
    *_ATOMS, FunctionType, type, property, staticmethod, classmethod, functools.cached_property,
)  # fmt: skip
_WRAPPED: Final = ("__func__", "__wrapped__", "fget", "fset", "fdel", "func", "original")
# Changes between runs, or says nothing about what the class does.
_IGNORED: Final = frozenset(
    "__dict__ __weakref__ __doc__ __static_attributes__ __firstlineno__ __annotations__ "
    "__annotate__ __annotate_func__ __annotations_cache__ _abc_impl".split()
)


def fingerprint(value: Any, codes: set[CodeType] | None = None) -> str:
    """Equal for objects of equal text; the code objects in it are added to `codes`. Raises Unkept
    for what has none."""
    pieces: list[str] = []
    try:
        _add(value, pieces, [], codes)
    except RecursionError:
        raise Unkept("what is nested too deeply") from None
    return digest(*pieces)


def _add(value: Any, pieces: list[str], within: list[Any], codes: set[CodeType] | None) -> None:
    """The text of `value` in pieces; `within` are the objects that it is part of."""
    kind = type(value)
    pieces.append(f"{kind.__module__}.{kind.__qualname__}")
    if kind in _ATOMS:
        pieces.append(repr(value))
        return
    if any(v is value for v in within):
        pieces.append("again")
        return
    if kind is CodeType and codes is not None:
        codes.add(value)
    describe = _DESCRIBE.get(kind)
    if describe is None:
        describe = next((d for c, d in _BY_BASE if issubclass(kind, c)), _other)
    within.append(value)
    for part in describe(value):
        if type(part) is _Text:
            pieces.append(part)
        else:
            _add(part, pieces, within, codes)
    within.pop()
    pieces.append("end")


class _Text(str):
    """A finished piece, not a value to look into."""

    __slots__ = ()


def _atom(value: Any) -> Iterator[Any]:
    yield _Text(repr(value))


def _sequence(value: Any) -> Iterator[Any]:
    yield from value


def _mapping(value: dict[Any, Any]) -> Iterator[Any]:
    if "__builtins__" in value:  # the globals of a program: what is read of them is guarded
        yield _Text(repr(value.get("__name__")))
        return
    for key, item in value.items():
        yield from (key, item)


def _set(value: Any) -> Iterator[Any]:
    yield from sorted(map(_Text, map(fingerprint, value)))


def _code(code: CodeType) -> Iterator[Any]:
    yield _Text(f"{code.co_qualname} {code.co_filename}:{code.co_firstlineno}")
    yield _Text(f"{code.co_argcount} {code.co_posonlyargcount} {code.co_kwonlyargcount}")
    yield _Text(f"{code.co_flags} {code.co_names} {code.co_varnames}")
    yield _Text(f"{code.co_freevars} {code.co_cellvars}")
    yield from (code.co_code, code.co_linetable, code.co_exceptiontable, code.co_consts)


def _function(fn: FunctionType) -> Iterator[Any]:
    """A library's function is known by the name under which it is held: many of eager's share one
    code, made by one decorator, and differ in what its cells hold."""
    cells = fn.__closure__ or ()
    yield _Text(f"{fn.__module__}.{fn.__qualname__} {len(cells)}")
    if is_library_space(fn.__globals__):
        held = global_name(fn)
        if held is not None and is_library_module(held[0]):
            yield _Text(repr(held))
            return
        yield from (c.cell_contents for c in cells)  # a library's are read without a guard
    yield from (fn.__code__, fn.__defaults__, fn.__kwdefaults__)
    yield from _members(vars(fn))


def _method(method: MethodType) -> Iterator[Any]:
    """The object that it is bound to is read, and guarded, as any other."""
    yield method.__func__


def _class(cls: type) -> Iterator[Any]:
    if is_library_module(cls.__module__) or not is_python_class(cls):
        yield _Text(repr(library_name(cls)))
        return
    yield _Text(f"{cls.__module__}.{cls.__qualname__}")
    yield from cls.__mro__[1:]
    yield from _members(vars(cls))


def _members(members: Mapping[str, Any]) -> Iterator[Any]:
    for name, member in sorted(members.items()):
        if name not in _IGNORED:
            yield _Text(name)
            yield member if _has_text(member) else _Text(type(member).__qualname__)


def library_name(value: Any) -> tuple[str, str]:
    """(module, name) of `value`, by `global_name`. Raises Unkept if there is none."""
    found = global_name(value)
    if found is None:
        raise Unkept(f"{getattr(value, '__qualname__', f'a {type(value)}')}, which no module holds")
    return found


def global_name(value: Any) -> tuple[str, str] | None:
    """(module, name) of a function, class or other object that a library's module holds."""
    named = value if hasattr(value, "__qualname__") else type(value)
    if look_up(named.__module__, named.__qualname__) is value:
        return named.__module__, named.__qualname__
    for place in (sys.modules.get(named.__module__), eager, eager.nn.functional, types):
        held = {} if place is None else vars(place)
        name = next((k for k, member in list(held.items()) if member is value), None)
        if name is not None:
            return held["__name__"], name
    return None


def look_up(module: str, name: str) -> Any:
    """The object that a module holds under a dotted name, or None."""
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def _has_text(member: Any) -> bool:
    return issubclass(type(member), _TEXTS)


def _named(value: Any) -> Iterator[Any]:
    yield _Text(f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', '')}")
    yield _Text(getattr(value, "__name__", ""))
    owner = getattr(value, "__objclass__", None) or getattr(value, "__self__", None)
    if owner is not None and not isinstance(owner, ModuleType):
        yield owner


def _module(value: ModuleType) -> Iterator[Any]:
    """By its own name: a module may have a `__getattr__`, which is asked for what it lacks."""
    yield _Text(repr(vars(value).get("__name__")))


def _held(value: Any) -> Iterator[Any]:
    yield _Text(repr(library_name(value)))


def _wrapper(value: Any) -> Iterator[Any]:
    """Functions inside of what is around them."""
    yield from (getattr(value, name) for name in _WRAPPED if hasattr(value, name))


def _enum(value: enum.Enum) -> Iterator[Any]:
    yield type(value)
    yield from (object.__getattribute__(value, name) for name in ("_name_", "_value_"))


def _pattern(value: re.Pattern[Any]) -> Iterator[Any]:
    yield from (value.pattern, value.flags)


def _field(value: Any) -> Iterator[Any]:
    """The place of a named tuple's field."""
    yield from value.__reduce__()[1]


def _bare(value: Any) -> Iterator[Any]:
    """Nothing more of an object whose state the version reads and guards, if it does."""
    return iter(())


def _other(value: Any) -> Iterator[Any]:
    cls = type(value)
    top = cls.__module__.partition(".")[0]
    if top in HOST_MODULES or cls.__module__ == "eager.random":
        return _bare(value)
    if (cls.__module__, cls.__name__) == ("jitcap.api", "Jitted"):
        return _wrapper(value)
    if is_library_module(cls.__module__):
        return _held(value)
    raise Unkept(f"a {cls.__module__}.{cls.__qualname__}")


def _op(value: Op) -> Iterator[Any]:
    """One of eager's operations, by its name."""
    if REGISTRY.get(value.name) is not value:
        raise Unkept(f"the op {value.name}")
    yield _Text(value.name)


_BY_BASE: Final[tuple[tuple[Any, Callable[[Any], Iterator[Any]]], ...]] = (
    (Op, _op),
    (type, _class),
    (enum.Enum, _enum),
    (np.dtype, _atom),
    (GENERATORS, _bare),
)
_DESCRIBE: Final[dict[type, Callable[[Any], Iterator[Any]]]] = {
    **dict.fromkeys((DType, NamedType, device), _atom),
    **dict.fromkeys((tuple, list), _sequence),
    **dict.fromkeys((set, frozenset), _set),
    **dict.fromkeys(
        (types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType,
         types.ClassMethodDescriptorType, types.GetSetDescriptorType, types.MemberDescriptorType),
        _named,
    ),
    **dict.fromkeys(
        (staticmethod, classmethod, property, functools.cached_property,
         functools._lru_cache_wrapper), _wrapper,
    ),
    **dict.fromkeys((CellType, MappingProxyType, object, Generator), _bare),
    dict: _mapping,
    CodeType: _code,
    FunctionType: _function,
    MethodType: _method,
    ModuleType: _module,
    np.ufunc: _held,
    re.Pattern: _pattern,
    collections._tuplegetter: _field,  # type: ignore[attr-defined]
}  # fmt: skip
