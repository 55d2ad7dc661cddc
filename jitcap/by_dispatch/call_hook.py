"""Tracing by dispatch: what the program calls while it runs. a call -> what it names, or a refusal.

CPython says by `sys.setprofile` which function begins and which function written in C is about to
be called. At the beginning of one of the program's, the globals that its code names are borrowed,
before any of it runs. A call whose effect or answer no trace can keep (a print, the time, a file)
is refused before it is made: the trace is given up, and nothing has happened.
"""

from __future__ import annotations

import abc
import builtins
import dis
import sys
from collections.abc import Iterator
from functools import lru_cache, singledispatch
from types import BuiltinFunctionType, CodeType, FrameType, FunctionType, ModuleType
from typing import Any, Final

from eager import compiler
from eager.autograd import register_hook
from eager.base import lazy_imports
from eager.base.compat_warnings import OURS
from eager.core.printing import tensor_repr
from eager.core.tensor import Tensor
from eager.core.traced import Traced
from eager.ops.updates import is_written
from eager.optim import Optimizer
from jitcap.base import marks
from jitcap.base.breaks import Break
from jitcap.base.call_policy import OF_THE_HOST, PURE_MODULES, is_library_space, is_python_class
from jitcap.base.origin import Fixed, MembersOf, result_of
from jitcap.by_dispatch.session import DispatchSession, Refused
from jitcap.capture.kinds.base import HANDLERS
from jitcap.capture.kinds.constants import GENERATORS
from jitcap.guards.class_guard import ABSENT, Member
from jitcap.guards.guard import Absent, Equals

_PURE: Final = PURE_MODULES | {
    "_weakrefset", "contextlib", "dataclasses", "json", "keyword", "reprlib", "statistics", "_json",
    "_sre", "__future__",
}  # fmt: skip
_HOST_BUILTINS: Final = frozenset(
    {"print", "input", "open", "breakpoint", "__import__", "id", "hash", "globals", "exit", "quit"}
) | {"__build_class__"}  # which is another class at each call
_LOOKS: Final = frozenset({"getattr", "hasattr", "vars", "dir", "setattr", "delattr"})
_SINGLETONS: Final = (None, True, False, Ellipsis)
_STAYING: Final = (FunctionType, BuiltinFunctionType, type, ModuleType)  # parts of the text
_CLOCKS: Final = frozenset({"now", "today", "utcnow"})
# What a borrowed tensor does not know of itself.
_UNKNOWN: Final = frozenset({
    "data_ptr", "_version", "_base", "_view", "is_leaf", "grad_fn", "output_nr", "__array__",
    "untyped_storage", "storage", "storage_offset", "is_shared", "const_data_ptr",
    "ordinal", "seed_value",
})  # fmt: skip
# What belongs to functions and classes themselves.
_PARTS: Final = frozenset({
    "__defaults__", "__kwdefaults__", "__code__", "__annotations__", "__globals__", "__bases__",
    "__subclasses__", "__builtins__", "__dict__", "__closure__", "cell_contents", "__name__",
    "__qualname__", "__doc__", "__module__",
})  # fmt: skip
# Functions of the library whose effects or answers are those of a run, not of a program.
_STATEFUL: Final = frozenset({
    "eager.random", "eager.random.in_place", "eager.base.dtype", "eager.core.printing",
    "eager.serialization",
})  # fmt: skip
_REFUSED: Final = {
    fn.__code__: f"{fn.__module__}.{fn.__qualname__}()"
    for fn in HANDLERS
    if type(fn) is FunctionType and (fn.__module__ in _STATEFUL or fn.__module__ == "random")
}
_DISPATCH: Final = singledispatch(len).dispatch.__code__  # of every generic function
_OPERATORS: Final = frozenset(
    f"__{side}{name}__"
    for name in "add sub mul truediv floordiv mod pow matmul and or xor".split()
    for side in ("", "r", "i")
) | {"__neg__", "__getitem__", "__setitem__", "__eq__", "__lt__", "__gt__", "__le__", "__ge__"}
_ABSTRACT: Final = frozenset({  # what they answer changes when a class is registered
    abc.ABCMeta.__instancecheck__.__code__, abc.ABCMeta.__subclasscheck__.__code__,
})  # fmt: skip
_TEXT: Final = tensor_repr.__code__
_ASKED: Final = {
    Optimizer._allocate_again.__code__: "the state of an optimizer is allocated anew",
    is_written.__code__: "an optimizer is asked for the state of what it stepped",
}
_OPENED: Final = {
    marks.graph_break.__code__: "graph_break()",
    compiler.disable(len).__code__: "a function marked by disable()",
}


class Watch:
    """Context manager that the program runs inside: the call hook."""

    def __init__(self, session: DispatchSession) -> None:
        self.s = session
        self.borrower = session.borrower
        self.later = False  # whether it is a backward that runs, which is asked for later
        self.compares = False  # whether it asks which of two equal constants an object is
        self.looks = False  # whether it asks which attributes there are
        self.hooked = False  # whether a hook is registered on a value of the program
        self.names_type = False  # whether code that ran asks for the type of something
        self._seen: set[tuple[int, int]] = set()
        self._modules: dict[int, set[str]] = {}  # of libraries: what is guarded of each
        self._used: set[str] = set()  # attributes that code that ran names
        self._outer: Any = None

    def __enter__(self) -> Watch:
        self._outer = sys.getprofile()
        sys.setprofile(self._event)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(self._outer)

    def _event(self, frame: FrameType, event: str, arg: Any) -> None:
        if event == "call":
            code = frame.f_code
            key = id(code), id(frame.f_globals)
            if key in self._seen and not self.later:
                return
            act: Any = self._begins
        elif event == "c_call" and self.s.is_user(frame.f_globals):
            act = self._native
        else:
            return
        try:
            act(frame, arg)
        except Break as refusal:
            self.s.note(refusal, frame.f_back if event == "call" else frame)
            raise Refused(refusal) from refusal

    # ---- Python functions

    def _begins(self, frame: FrameType, _: Any) -> None:
        code, space, caller = frame.f_code, frame.f_globals, frame.f_back
        called = caller is not None and self.s.is_user(caller.f_globals)
        if code in _OPENED:
            raise Break("requested", f"{_OPENED[code]} is called")
        if not self.s.is_user(space):
            self.hooked |= code is register_hook.__code__
            if code in _ABSTRACT:
                token = result_of(abc.get_cache_token)
                self.s.guards.add(Equals(token, self.s.line(), abc.get_cache_token()))
            if code is _DISPATCH:
                raise Break("unknown call", f"{code.co_qualname}() looks into a table of its own")
            if code is _TEXT and type(frame.f_locals["self"]._array) is Traced:
                raise Break("data dependent", "text is made of a tensor")
            if code in _ASKED:
                raise Break("effect", _ASKED[code])
            if called:
                _check_library(code, space)
            elif code is not _TEXT:
                self._seen.add((id(code), id(space)))
            return
        if self.later:
            self._check_later(frame)
        self._seen.add((id(code), id(space)))
        self.borrower._keep.append(code)
        if id(code) in self.borrower.closed:
            raise Break("requested", f"{code.co_qualname}() is called")
        if not self.borrower.code_is_known(code):
            what = f"{code.co_qualname}() is reached in a way that no guard can follow"
            raise Break("unknown call", what)
        self._learn(code, space)

    def _check_later(self, frame: FrameType) -> None:
        """Code that a later backward runs reads nothing that may be another one by then."""
        code, names = frame.f_code, names_of(frame.f_code)[0]
        read = {n: frame.f_globals[n] for n in names if n in frame.f_globals}
        read |= {n: frame.f_locals[n] for n in code.co_freevars if n in frame.f_locals}
        for name, value in read.items():
            if not isinstance(value, _STAYING):
                raise Break("later effect", f"{code.co_qualname}() of a backward reads {name}")

    def _learn(self, code: CodeType, space: dict[str, Any]) -> None:
        """Load what the code of a function names."""
        for inner in nested(code):
            self.borrower.codes.setdefault(id(inner), None)
        names, attributes, imports = names_of(code)
        self.compares |= compares_identity(code)
        self._use(attributes)
        shadow = self.borrower.space(space, self._owner(space))
        table = Fixed(vars(builtins), "builtins")
        for name in sorted(names):
            if name in space:
                if is_drawing(space[name]):
                    raise Break("time and chance", f"{name} may draw numbers, or has a context")
                shadow.touch(self.s, name)
            elif hasattr(builtins, name):
                self.s.guards.add(Member(table, self.s.line(), name, vars(builtins)[name]))
                self.s.guards.add(Absent(shadow.origin, self.s.line(), name))
                self.names_type |= name == "type"
            else:
                self.s.guards.add(Member(table, self.s.line(), name, ABSENT))
                shadow.touch(self.s, name)
        for name in imports:
            self._import(name)
        pending = [*self.borrower.modules.values()]
        while pending:
            before = len(self.borrower.modules)
            self._members_of(pending.pop(0))
            pending += [*self.borrower.modules.values()][before:]
        for name in self.borrower.idle.keys() & self._used:
            raise Break("opaque object", self.borrower.idle[name])

    def _owner(self, space: dict[str, Any]) -> FunctionType | None:
        """A function by which a dictionary is found that is no module's."""
        module = sys.modules.get(space.get("__name__", ""))
        if module is not None and vars(module) is space:
            return None
        return next((f for f in self.s.reached.values() if f.__globals__ is space), None)

    def _use(self, attributes: frozenset[str]) -> None:
        """Code that runs names these attributes."""
        self._used |= attributes
        table = self.s.namespaces.setdefault(id(Tensor), MembersOf.of(Tensor))
        for name in sorted(attributes | _OPERATORS):
            held = vars(Tensor).get(name, ABSENT)
            self.s.guards.add(Member(table, self.s.line(), name, held))
        unknown = attributes & _UNKNOWN
        if unknown:
            raise Break("data dependent", f".{min(unknown)} is read, which a tensor does not know")
        if parts := attributes & _PARTS:
            raise Break("opaque object", f".{min(parts)} is named, of which no guard can be made")

    def _members_of(self, module: ModuleType) -> None:
        """Guard or load the members of a module that code that ran may read."""
        space = vars(module)
        if is_library_space(space):
            self._library(module)
            return
        if type(module) is not ModuleType or "__getattr__" in space:
            raise Break("opaque object", f"the module {module.__name__} answers by code of its own")
        shadow = self.borrower.space(space, None)
        for name in sorted(self._used - shadow.known):
            shadow.touch(self.s, name)

    def _library(self, module: ModuleType) -> None:
        """Guard that the members of a library's module that code names stay."""
        space, seen = vars(module), self._modules.setdefault(id(module), set())
        place = Fixed(space, module.__name__)
        for name in self._used:
            lazy_imports.load(module, name)
        for name in sorted((self._used & space.keys()) - seen):
            seen.add(name)
            value = space[name]
            if is_drawing(value):
                raise Break("time and chance", f"{module.__name__}.{name} may draw numbers")
            if isinstance(value, list | dict | set):
                raise Break("opaque object", f"{module.__name__}.{name} belongs to a library")
            self.s.guards.add(Member(place, self.s.line(), name, value))
            if isinstance(value, ModuleType):
                self.borrower.modules[id(value)] = value

    def _import(self, name: str) -> None:
        """A function imports a module: a library's, which has been imported before."""
        lazy_imports.ensure(name)
        found = sys.modules.get(name)
        if found is None or not is_library_space(vars(found)):
            raise Break("effect", f"import of {name} in a function")
        self.borrower.modules[id(found)] = found

    # ---- functions written in C

    def _native(self, frame: FrameType, fn: Any) -> None:
        name, owner = getattr(fn, "__name__", ""), getattr(fn, "__self__", None)
        if owner is None or isinstance(owner, ModuleType):
            module = getattr(fn, "__module__", None) or getattr(owner, "__name__", "")
            if module == "builtins":
                self._builtin(name)
            elif module not in _PURE:
                raise Break("unknown call", f"{module}.{name}() is called")
            return
        cls = owner if isinstance(owner, type) else type(owner)
        if isinstance(owner, type) and cls.__module__ == "datetime" and name in _CLOCKS:
            raise Break("time and chance", f"datetime.{name}() is called")
        held = (b for b in cls.__mro__ if name in vars(b) and not is_python_class(b))
        native = next(held, cls)  # whose method it is
        if issubclass(cls, Tensor) or native.__module__ in _PURE:
            return
        raise Break("unknown call", f".{name}() of a {cls.__module__}.{cls.__qualname__}")

    def _builtin(self, name: str) -> None:
        if name in _HOST_BUILTINS:
            raise Break("unknown call", f"{name}() is called")
        self.looks |= name in _LOOKS
        if name in _LOOKS and self.borrower.idle:
            first = next(iter(self.borrower.idle.values()))
            raise Break("opaque object", f"{name}() may find what cannot be guarded: {first}")


def _check_library(code: CodeType, space: dict[str, Any]) -> None:
    """A Python function of a library that the program calls."""
    if code in _REFUSED:
        raise Break("unknown call", f"{_REFUSED[code]} is called")
    module = str(space.get("__name__", ""))
    top, last = module.partition(".")[0], module.rpartition(".")[2]
    if top in OURS:
        if module.startswith(("eager.serialization", "eager.utils.tensorboard")):
            raise Break("unknown call", f"{module}.{code.co_qualname}() is called")
        return
    if top == "numpy" and last not in OF_THE_HOST and "random" not in module:
        return
    if module not in _PURE and top not in ("json", "collections", "re", "importlib", "enum"):
        raise Break("unknown call", f"{module}.{code.co_qualname}() is called")


def is_drawing(value: Any) -> bool:
    """True if it may draw numbers (a generator's method): CPython may not report its calls."""
    if getattr(value, "__module__", None) == "decimal" or value is sys.modules.get("decimal"):
        return True  # it reads and writes a context
    owner = getattr(value, "__self__", value)
    return type(owner) in GENERATORS or type(value).__name__ == "cython_function_or_method"


def nested(code: CodeType) -> Iterator[CodeType]:
    """The codes of functions, classes and comprehensions inside one."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from nested(constant)


@lru_cache(maxsize=4096)
def compares_identity(code: CodeType) -> bool:
    """True if a code has an `is` whose right operand is none of `_SINGLETONS`."""
    last = None
    for each in dis.get_instructions(code):
        constant = last is not None and "CONST" in last.opname and last.argval in _SINGLETONS
        if each.opname == "IS_OP" and not constant:
            return True
        last = each
    return False


@lru_cache(maxsize=4096)
def names_of(code: CodeType) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
    """(globals, attributes, imported modules) that a code names, itself and what is inside.

    By the names of the operations, which newer versions have kept; a name of another operation is
    taken for a global."""
    attributes: set[str] = set()
    imports: set[str] = set()
    others: set[str] = set()
    for each in dis.get_instructions(code):
        name = each.argval
        if type(name) is not str or name not in code.co_names:
            continue
        if "IMPORT_NAME" in each.opname:
            imports.add(name)
        elif "ATTR" in each.opname or "METHOD" in each.opname or "IMPORT" in each.opname:
            attributes.add(name)
        else:
            others.add(name)
    others |= {*code.co_names} - attributes - imports
    if others & _LOOKS:  # it may look for what its texts say
        attributes |= {c for c in code.co_consts if type(c) is str and c.isidentifier()}
    return frozenset(others), frozenset(attributes), frozenset(imports)
