"""Capture: which functions run natively, which classes are read. function, class -> yes or no.

All of `eager` does, since its state lives in its arguments, except what is written like user code:
layers, optimizers, data loading, distributions. Those are read from bytecode like the user's own.
"""

from __future__ import annotations

import os
import sys
import types
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from types import FunctionType, MethodType
from typing import Any, Final, TypeVar

_RANKS: Final = (
    "collectives", "data_parallel", "device_mesh", "draws", "fsdp", "functional", "groups",
    "nn.functional", "objects", "optim", "shards", "state_dict", "subgroups", "sync_batch_norm",
    "work",
)  # fmt: skip
_READ: Final = (
    "eager.nn.modules", "eager.nn.utils", "eager.optim", "eager.utils", "eager.amp",
    "eager.checks", "eager.distributions", "eager.einops", "eager.random.fork", "eager.sparse",
    *(f"eager.distributed.{name}" for name in _RANKS),
)  # fmt: skip
_OWN: Final = frozenset({"eager", "jitcap", "codegen", "numpy"})
_STDLIB: Final = f"{Path(os.__file__).parent}{os.sep}"
_OURS: Final = frozenset({
    "jitcap.capture.interpret", "jitcap.capture.kinds.symbolic.sequences",
    "jitcap.capture.kinds.iterators", "jitcap.capture.control.for_loops",
})  # fmt: skip
# Decimals are not among them: they read and write a context.
PURE_MODULES: Final = frozenset({
    "_abc", "_bisect", "_collections", "_collections_abc", "_functools", "_heapq",
    "_operator", "_string", "_struct", "_typing", "abc", "builtins", "cmath", "collections",
    "copy", "datetime", "enum", "fractions", "functools", "itertools", "math",
    "numbers", "numpy", "operator", "re", "string", "struct", "textwrap", "types", "typing",
    "unicodedata",
})  # fmt: skip
# Modules of NumPy that read files or settings, or write them.
OF_THE_HOST: Final = frozenset({
    "_npyio_impl", "npyio", "_format_impl", "format", "_datasource", "memmap", "arrayprint",
    "_ufunc_config", "_utils_impl", "utils", "__config__",
})  # fmt: skip
HOST_MODULES: Final = frozenset({"logging", "tqdm", "warnings"})
SEQUENCE: Final = 1 << 5  # of a class: what `match` takes it for
MAPPING: Final = 1 << 6
HEAP_TYPE: Final = 1 << 9
IMMUTABLE_TYPE: Final = 1 << 8
_CLASSES: Final = 4096  # that are remembered


T = TypeVar("T")


Known = dict[int, tuple[Any, T]]  # an answer by the id of a class, with the class


def per_class(answer: Callable[[Any], T], known: Known[T] | None = None) -> Callable[[Any], T]:
    """`answer(cls)`, kept for the next time, by the identity of the class: a metaclass of the
    program may hash and compare its classes itself. `known`: where it is kept."""
    known = {} if known is None else known

    def ask(cls: Any) -> T:
        found = known.get(id(cls))
        if found is None:
            if len(known) >= _CLASSES:
                known.clear()
            found = known[id(cls)] = cls, answer(cls)
        return found[1]

    return ask


_SLOTS: Final = (
    types.WrapperDescriptorType, types.MethodDescriptorType, types.ClassMethodDescriptorType,
    types.GetSetDescriptorType, types.MemberDescriptorType, types.MethodWrapperType,
    types.BuiltinFunctionType, types.NoneType,
)  # fmt: skip


def is_slot(member: Any) -> bool:
    """True if a member of a class is one of C's, or None, which says that there is none."""
    return isinstance(member, _SLOTS)


def answers_for_itself(cls: Any) -> bool:
    """True if instances of a class are hashed or compared by the program's methods."""
    return not is_slot(cls.__hash__) or not is_slot(cls.__eq__)


@lru_cache(maxsize=4096)
def is_native_module(name: str) -> bool:
    """True if functions of the module `name` are called, not interpreted."""
    if name in _OURS:
        return True
    return name.partition(".")[0] == "eager" and not name.startswith(_READ)


def is_library_module(name: str) -> bool:
    """True if a module's functions are taken as fixed: ours, NumPy's, the standard library's. A
    user's `profile.py` is none of them."""
    top = name.partition(".")[0]
    if top not in sys.stdlib_module_names:
        return top in _OWN
    module = sys.modules.get(top)
    file = getattr(module, "__file__", None)
    if type(file) is str:
        return file.startswith(_STDLIB) and "-packages" not in file
    return getattr(module, "__spec__", None) is not None  # it is built in


def is_library_space(space: dict[str, Any]) -> bool:
    """True if a function's globals are those of a library's module."""
    name = space.get("__name__")
    if type(name) is not str or not is_library_module(name):
        return False
    module = sys.modules.get(name)
    return module is not None and vars(module) is space


def is_library_class(cls: type) -> bool:
    """True if a class is one of a library's module."""
    if not is_library_module(cls.__module__):
        return False
    module = sys.modules.get(cls.__module__)
    return module is not None and cls.__qualname__.partition(".")[0] in vars(module)


@per_class
def is_programs_class(cls: type) -> bool:
    """True if an instance runs code that is neither a library's nor an installed package's."""
    return any(_is_programs_module(b.__module__) for b in cls.__mro__ if is_python_class(b))


def _is_programs_module(name: str) -> bool:
    file = getattr(sys.modules.get(name), "__file__", None)
    return not is_library_module(name) and "-packages" not in (file or "")


def name_of(fn: Any) -> str:
    """Name of a callable in messages. An object of the program is not asked."""
    cls = type(fn)
    name: str = cls.__qualname__
    return name if is_programs_class(cls) else getattr(fn, "__qualname__", name)


def function_of(fn: Any) -> tuple[FunctionType, tuple[Any, ...]] | None:
    """The Python function behind `fn` and what is bound to it; None for other callables."""
    if type(fn) is FunctionType:
        return fn, ()
    if type(fn) is MethodType and type(fn.__func__) is FunctionType:
        return fn.__func__, (fn.__self__,)
    return None


def is_programs(value: Any) -> bool:
    """True if a function, or the class of any other object, is the program's."""
    if type(value) is FunctionType:
        return _is_programs_module(value.__module__)
    return is_programs_class(type(value))


def is_native(fn: FunctionType, around: tuple[FunctionType, ...] = ()) -> bool:
    """True if `fn` is called natively. A closure with the user's functions is interpreted, also
    where they are in one that it holds: `vmap(grad(f))`. `around`: those that hold it."""
    if not is_native_module(fn.__globals__.get("__name__", "")):
        return False
    if not fn.__closure__ or fn in around:
        return True
    return not any(_holds_user_code(cell, (*around, fn)) for cell in fn.__closure__)


def is_interpreted(fn: FunctionType) -> bool:
    """True if a call of `fn` reads its bytecode."""
    return not is_native(fn) and fn.__globals__.get("__name__", "").partition(".")[0] != "numpy"


def _holds_user_code(cell: Any, around: tuple[FunctionType, ...] = ()) -> bool:
    try:
        held = cell.cell_contents
    except ValueError:
        return False
    cls = type(held)
    if cls is FunctionType:
        return not is_native(held, around)
    return callable(held) and not issubclass(cls, type) and not is_native_class(cls)


@per_class
def is_python_class(cls: type) -> bool:
    """A class whose statements are Python: instances keep their state in a dictionary or slots.

    The values that stand for something else during a capture are none of the program's objects."""
    if cls is types.SimpleNamespace:  # an empty class in all but name
        return True
    flags = cls.__flags__
    if cls.__module__ == "eager.core.sym" or cls.__module__.startswith("jitcap.capture."):
        return False
    made = flags & HEAP_TYPE and not flags & IMMUTABLE_TYPE and "__module__" in vars(cls)
    return bool(made) and not any(_is_written_in_c(cls, v) for v in vars(cls).values())


def _is_written_in_c(cls: type, value: Any) -> bool:
    """True if a member of a class is a method in C of its own, as an extension's classes have: they
    are heap types, too."""
    owner = "__self__" if type(value) is types.BuiltinFunctionType else "__objclass__"
    methods = (types.MethodDescriptorType, types.WrapperDescriptorType, types.BuiltinFunctionType)
    return type(value) in methods and getattr(value, owner, None) is cls


def shown(cls: type) -> str:
    """A class as Python's errors name it: one that is written in C by its module, too."""
    written = is_python_class(cls) and cls is not types.SimpleNamespace
    if written or cls.__module__ == "builtins":
        return cls.__name__
    return f"{cls.__module__}.{cls.__name__}"


def is_native_class(cls: type) -> bool:
    """True if the methods of `cls` are called natively."""
    return is_native_module(cls.__module__)
