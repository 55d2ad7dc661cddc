"""Kept versions: functions, classes and modules by name. (module, name) <-> object.

A name is looked up in dictionaries, of modules that are imported and of their classes: nothing is
imported, and nothing of what is found runs. Of the libraries only those of `_LIBRARIES` are looked
at, and an entry calls only what `may_call` knows.
"""

from __future__ import annotations

import collections
import functools
import sys
import types
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, Final

import numpy as np

from eager.base import lazy_imports
from jitcap.base.call_policy import is_library_module
from jitcap.store.fingerprint import library_name


class Unreadable(Exception):
    """This is not what `write` writes, or names what is not there now."""


_LIBRARIES: Final = frozenset(
    "eager jitcap codegen numpy builtins math cmath collections contextlib copy dataclasses "
    "decimal enum fractions functools itertools logging numbers operator random re statistics "
    "string time types typing warnings weakref abc _collections _functools _operator "
    "_random".split()
)
_UNNAMED: Final = frozenset(
    "open eval exec compile __import__ input breakpoint help exit quit memoryview".split()
)
_DESCRIPTORS: Final = (
    types.MethodDescriptorType, types.WrapperDescriptorType, types.ClassMethodDescriptorType,
    types.GetSetDescriptorType, types.MemberDescriptorType,
)  # fmt: skip
NAMED: Final = (
    FunctionType,
    BuiltinFunctionType,
    MethodType,
    type,
    property,
    np.ufunc,
    *_DESCRIPTORS,
)
MRO: Final = type.__dict__["__mro__"]  # read past what a metaclass may say
MEMBERS: Final = type.__dict__["__dict__"]


def library_place(value: Any) -> tuple[str, str]:
    """The module and the name of a part of a library. Raises Unkept if there is none."""
    if isinstance(value, property) and value.fget is not None:
        return value.fget.__module__, value.fget.__qualname__
    owner = getattr(value, "__objclass__", None) or getattr(value, "__self__", None)
    if isinstance(owner, type):  # a descriptor, a static method of a type in C
        module, name = library_name(owner)
        return module, f"{name}.{value.__name__}"
    return library_name(value)


def text_of_home(value: Any) -> str:
    """Position of a library function's source, as text: the name that finds it may hold another
    function by then, which says that it is the same one (`functools.wraps`)."""
    parts = (value.fget, value.fset, value.fdel) if isinstance(value, property) else (value,)
    codes = [(p.__code__, p.__globals__) for p in parts if isinstance(p, FunctionType)]
    return " ".join(f"{space['__name__']}:{c.co_qualname}:{c.co_firstlineno}" for c, space in codes)


def is_library_name(value: Any) -> bool:
    """True if a name finds this function, class or descriptor of a library."""
    home = value.fget if isinstance(value, property) else value
    plain = isinstance(home, FunctionType | type)
    if not isinstance(home, NAMED) or (plain and not is_library_module(home.__module__ or "")):
        return False
    place = library_place(value)
    return look_up(*place) is value and is_open(*place, value)


def module_of(value: dict[Any, Any]) -> str:
    """The name of the module whose dictionary this is, or ""."""
    for name in (value.get("__name__"), getattr(value.get("__spec__"), "name", None)):
        module = sys.modules.get(name) if isinstance(name, str) else None
        if module is not None and vars(module) is value and may_name(str(name)):
            return str(name)
    return ""


def may_name(module: str) -> bool:
    """True if a module of this name may be looked at: the program's, or one of the libraries'."""
    return module.partition(".")[0] in _LIBRARIES or not is_library_module(module)


def is_open(module: str, name: str, value: Any) -> bool:
    """True if `value`, which `module` holds under `name`, is a library's and may be stored by
    name."""
    home = value.__module__ if isinstance(value, FunctionType | type) else module
    tops = {module.partition(".")[0], str(home).partition(".")[0]}
    builtin = {home, module} == {"builtins"} and name in _UNNAMED
    if isinstance(value, BuiltinFunctionType) and isinstance(value.__self__, ModuleType):
        tops.add(value.__self__.__name__.partition(".")[0])
        builtin = value.__self__.__name__ == "builtins" and value.__name__ in _UNNAMED
    return tops <= _LIBRARIES and not builtin


def _members(table: dict[str, str]) -> frozenset[int]:
    """Functions and types, by id (they live as long as their modules)."""
    found: list[Any] = []
    for module, names in table.items():
        members = vars(sys.modules[module])
        found += [members[name] for name in (names.split() or members) if name in members]
    return frozenset(id(f) for f in found if callable(f))


# What guards call: it changes nothing.
_ASKED: Final = {
    "builtins": "abs bool complex divmod float frozenset id int len max min pow range round",
    "math": "",
    "operator": "add sub mul truediv floordiv mod pow neg pos abs invert and_ or_ xor lshift "
    "rshift lt le eq ne gt ge is_ is_not not_ truth index",
    "jitcap.capture.builtins.containers": "implementation",
    "jitcap.capture.host": "prints_by_library warns_by_library",
    "jitcap.capture.kinds.caches": "kept",
    "jitcap.capture.kinds.proxies": "mapping_of",
    "jitcap.capture.kinds.tensors": "_input own_names",
    "jitcap.base.origin": "entry_of entries_of get_slot is_unset items_of partial_dict",
    "jitcap.graph.scalars": "total",
    "jitcap.base.equality": "all_are are_same lacks same_items same_keys same_members same_scalar "
    "same_set text_of",
    "jitcap.guards.columns": "woven",
    "jitcap.guards.tensor_guard": "memory_of",
}
# What the rest of an entry calls, besides.
_CALLED: Final = {
    "builtins": "bytearray bytes dict enumerate format hash iter list object print repr reversed "
    "set slice str sum tuple zip",
    "collections": "OrderedDict defaultdict deque",
    "functools": "partial",
    "operator": "itemgetter",
    "random": "betavariate expovariate gammavariate gauss lognormvariate normalvariate "
    "paretovariate randint randrange triangular uniform vonmisesvariate weibullvariate",
    "time": "monotonic monotonic_ns perf_counter perf_counter_ns process_time process_time_ns "
    "sleep thread_time thread_time_ns time time_ns",
    "types": "CellType FunctionType MethodType SimpleNamespace",
    "eager.core.dispatch": "apply",
    "eager.core.storage": "InferenceStorage Storage",
    "eager.core.tensor": "wrap wrap_all",
    "eager.core.tape": "retain_grad",
    "eager.autograd": "retain_grad",
    "jitcap.capture.builtins.host_rng": "run_once states",
    "jitcap.capture.kinds.constants": "_again _exception",
    "jitcap.capture.kinds.objects": "_empty_deque",
    "jitcap.capture.tracebacks": "warn_above",
    "jitcap.autodiff.compiled_function": "OutputNode SpentNode",
    "jitcap.autodiff.double_backward": "view",
}
_ASKED_METHODS: Final = frozenset(
    "__getattribute__ __getitem__ __len__ __contains__ keys values items".split()
)
_CALLED_METHODS: Final = frozenset(
    "__setattr__ __delattr__ __setitem__ __delitem__ __init__ clear update extend append".split()
)
_CALLED_TYPES: Final = (
    object, dict, list, tuple, set, collections.OrderedDict, collections.defaultdict,
    collections.deque, str,
)  # fmt: skip


_asked = functools.cache(lambda: _members(_ASKED) | {id(sys.exception)})
_called = functools.cache(lambda: _members(_CALLED))


def may_ask(value: Any) -> bool:
    """True if a guard that is read may call this: a helper of ours, or a builtin that looks at a
    number, a text, a container."""
    if type(value) in (types.MethodDescriptorType, types.WrapperDescriptorType):
        return value.__objclass__ in _CALLED_TYPES and value.__name__ in _ASKED_METHODS
    return id(value) in _asked()


def may_call(value: Any) -> bool:
    """True if an entry that is read may call this: also what makes or changes a container, a text,
    an exception, and what the host does."""
    kind = type(value)
    if may_ask(value) or id(value) in _called():
        return True
    if kind in (types.MethodDescriptorType, types.WrapperDescriptorType):
        owner = value.__objclass__
        known = owner in _CALLED_TYPES or issubclass(owner, BaseException)
        return known and value.__name__ in _CALLED_METHODS
    if kind is BuiltinFunctionType and issubclass(type(value.__self__), type):
        return value.__name__ == "__new__" and value.__self__.__module__ in _HOMES
    if issubclass(kind, type) and issubclass(value, BaseException):
        return value.__module__ == "builtins"
    return False


_HOMES: Final = ("builtins", "collections", "types")


def look_up(module: str, name: str) -> Any:
    """The function or class that an imported module holds under a name, or one of its classes, or
    None. Runs nothing but imports of our own."""
    lazy_imports.ensure(module)
    found: Any = sys.modules.get(module)
    if not issubclass(type(found), ModuleType):
        return None
    first, *rest = name.split(".")
    found = ModuleType.__getattribute__(found, "__dict__").get(first)
    for part in rest:
        if not issubclass(type(found), type):
            return None
        owners = (MEMBERS.__get__(c) for c in MRO.__get__(found))
        member = next((names[part] for names in owners if part in names), None)
        found = member.__func__ if type(member) is staticmethod else member
    return found if issubclass(type(found), NAMED) else None
