"""Capture: what class a value is of, and the class statement. builtin -> handler(session, ...).

An answer rests on the order of resolution, on what is registered with abstract classes and on
what a protocol asks for. Each is guarded where it can change; no guard runs the program's code.
"""

from __future__ import annotations

import abc
import builtins
import sys
import types
import typing
from types import CellType, FunctionType, MemberDescriptorType
from typing import Any, Final

from eager.core.gradient_hooks import RemovableHandle
from eager.nn.modules.module import Module
from jitcap.base.breaks import Break
from jitcap.base.call_policy import answers_for_itself, is_library_class, is_python_class
from jitcap.capture.frames import frame_for
from jitcap.capture.kinds.base import MISSING, Session, handles, handles_each, kind_of
from jitcap.capture.kinds.cells import is_empty
from jitcap.capture.kinds.classes import (
    META_HOOKS,
    acts_by_itself,
    class_raw,
    guarded_mro,
    made_class,
    refuse_class_hooks,
    refuse_hooks,
)
from jitcap.capture.kinds.objects import own_field, touch_slot

_PROTOCOLS: Final[Any] = type(typing.Protocol)


@handles(Module.__getattr__.__code__)
def _part_of_layer(s: Session, method: Any, layer: Any, name: str) -> Any:
    """Parameter, buffer or layer of this name, found without interpreting the method."""
    own = s.getattr(layer, "__dict__")
    for table in ("_parameters", "_buffers", "_modules"):
        if s.contains(table, own) and s.contains(name, parts := s.getitem(own, table)):
            return s.getitem(parts, name)
    return s.interpret(method, (layer, name), {})  # raises


@handles(Module.__call__.__code__)
def _call_layer(s: Session, method: Any, layer: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Call a layer without the handler that trims tracebacks."""

    def run() -> Any:
        tables = ("_forward_pre_hooks", "_forward_hooks")
        hooked = any(s.truth(s.getattr(layer, table)) for table in tables)
        return s.call(s.getattr(layer, "_call_with_hooks" if hooked else "forward"), args, kwargs)

    paths = s.paths
    outer, paths.module = paths.module, paths.of(s, layer)
    try:
        return s.layers.call(layer, args, kwargs, run)
    finally:
        paths.module = outer


@handles_each(RemovableHandle.remove, RemovableHandle.__exit__)
def _remove_hook(s: Session, method: Any, handle: Any, *_: Any) -> None:
    """`remove()`, read as that of a layer's handle: its number may be one of the run."""
    s.call(s.getattr(s.getattr(handle, "hooks"), "pop"), (s.getattr(handle, "id"), None), {})


@handles_each(
    (MemberDescriptorType, "__get__"),
    (MemberDescriptorType, "__set__"),
    (MemberDescriptorType, "__delete__"),
)
def _slot(s: Session, method: Any, slot: Any, obj: Any, *given: Any) -> Any:
    """A slot is asked by its descriptor, not by its name."""
    if kind_of(obj).python:
        kind_of(obj).see(s, obj, f".{slot.__name__}")
        touch_slot(s, obj, slot.__name__, slot)
        if method[1] != "__get__":
            s.writing(obj, slot.__name__)
    elif obj is not None:
        raise Break("opaque object", f".{method[1]}() of {slot.__qualname__}")
    return getattr(slot, method[1])(obj, *given)


@handles(property)
def _property(s: Session, /, *args: Any, **kwargs: Any) -> Any:
    return s.made_inside(s.native(property, args, kwargs))


@handles(FunctionType)
def _function(s: Session, /, code: Any, space: Any, *args: Any, **kwargs: Any) -> Any:
    """A function over a dictionary, which it keeps."""
    real, origin = s.outside.key_of(space)
    if origin is None and isinstance(space, dict):
        raise Break("opcode", "a function gets a dictionary that is made inside for its globals")
    s.settle((args, kwargs))
    return s.made_inside(FunctionType(code, real, *args, **kwargs))


@handles(type)
def _type(s: Session, /, *args: Any, **kwargs: Any) -> Any:
    if len(args) == 1 and not kwargs:
        cls = kind_of(args[0]).type_of(args[0])
        if answers_for_itself(type(cls)):
            raise Break("opaque object", f"type() of a {cls.__qualname__}, whose class is compared")
        return cls
    if len(args) != 3 or not isinstance(args[1], tuple) or not isinstance(args[2], dict):
        return type(*args, **kwargs)
    meta = _most_derived(type, args[1])
    args = (kind_of(args[0]).to_native(s, args[0]), *args[1:])
    refuse_hooks(s, meta, META_HOOKS)
    refuse_class_hooks(s, meta, args[1], args[2])
    return made_class(s, type(*args, **kwargs))


@handles_each(isinstance, issubclass)
def _checked(s: Session, builtin: Any, obj: Any, classes: Any) -> Any:
    """A metaclass is asked by the interpreter, but for those of abstract classes."""
    kind_of(classes).see(s, classes, f"{builtin.__name__}()")
    if isinstance(classes, types.UnionType):
        classes = typing.get_args(classes)
    if type(classes) is tuple:
        return any(_checked(s, builtin, obj, c) for c in classes)
    name = "__instancecheck__" if builtin is isinstance else "__subclasscheck__"
    check = None if type(classes) is type else s.special(classes, name)
    if check is not None and not (
        isinstance(classes, abc.ABCMeta) and check.__globals__["__name__"] in ("abc", "typing")
    ):
        return s.truth(s.call(check, (classes, obj), {}))
    for asked in (classes, *([obj] if builtin is issubclass else [])):
        if not isinstance(asked, type):
            _refuse_bases(s, asked, builtin)
            return builtin(obj, classes)  # raises
    if builtin is issubclass:
        return _derives(s, obj, classes)
    cls = kind_of(obj).type_of(obj)
    if cls is not type(obj):  # of what stands for a value, the class of that
        answer = _derives(s, cls, classes)
        if not answer and is_python_class(cls) and acts_by_itself(s, cls):
            raise Break("opaque object", f"a {cls.__qualname__} says which class it is of")
        return answer
    if _asks_attributes(classes):
        return _meets(s, obj, classes)
    if not kind_of(obj).python:
        return _derives(s, type(obj), classes)
    return _derives(s, type(obj), classes) or _derives(s, s.getattr(obj, "__class__"), classes)


def _refuse_bases(s: Session, obj: Any, builtin: Any) -> None:
    """An object of the program may have `__bases__`, and is then as good as a class."""
    if kind_of(obj).python and (
        class_raw(s, cls := type(obj), "__bases__") is not MISSING
        or class_raw(s, cls, "__getattr__") is not MISSING
        or own_field(s, obj, "__bases__") is not MISSING
    ):
        raise Break("opaque object", f"{builtin.__name__}() of a {cls.__qualname__} with bases")


def _derives(s: Session, cls: Any, classes: type) -> bool:
    answer = issubclass(cls, classes)
    guarded_mro(s, cls)
    if isinstance(classes, abc.ABCMeta) and classes not in cls.__mro__:
        _guard_registry(s, cls, classes, answer=answer)
    return answer


def _guard_registry(s: Session, cls: type, abstract: type, *, answer: bool) -> None:
    """A class can be registered with an abstract one. A library's is asked again. One of the
    program's may have a hook, and is not: a number changes that Python counts, in this process; in
    another one it says nothing."""
    if is_library_class(abstract):
        s.guard_that(("call", "$0", "$1", "$2"), issubclass, cls, abstract, answer=answer)
        return
    if id(abstract) in s.made and all(
        id(cls := known()) in s.made or type(cls) is type
        for known in abc._get_dump(abstract)[0]  # type: ignore[attr-defined]
    ):
        return  # nobody else can register with it, or with what is
    s.bound_to = f"what is registered with {abstract.__qualname__}"
    if not answer:
        s.guard_that(("==", ("call", "$0"), abc.get_cache_token()), abc.get_cache_token)


@handles_each(abc._abc_register, abc._reset_registry, abc._reset_caches)  # type: ignore[attr-defined]
def _registers(s: Session, fn: Any, abstract: type, *cls: type) -> Any:
    """All that asks whether something is of an abstract class sees it."""
    if id(abstract) not in s.made or s.log.open:  # no snapshot of a branch or loop has it
        raise Break("effect", f"what is registered with {abstract.__qualname__} is changed")
    return fn(abstract, *cls)


@handles(abc.get_cache_token)
def _times_registered(s: Session) -> Any:
    """Cache token of `abc`, guarded: it changes when any class is registered."""
    s.bound_to = "how often classes were registered"
    token = abc.get_cache_token()
    s.guard_that(("==", ("call", "$0"), token), abc.get_cache_token)
    return token


def _asks_attributes(cls: type) -> bool:
    return isinstance(cls, _PROTOCOLS) and bool(
        getattr(cls, "_is_protocol", False) and getattr(cls, "_is_runtime_protocol", False)
    )


def _meets(s: Session, obj: Any, protocol: Any) -> bool:
    """True if an object has the members of a protocol, or its class is known to meet it."""
    if abc.ABCMeta.__instancecheck__(protocol, obj):
        return True
    _guard_registry(s, type(obj), protocol, answer=False)
    names = getattr(protocol, "__protocol_attrs__", None) or typing._get_protocol_attrs(protocol)  # type: ignore[attr-defined]
    for name in sorted(names):
        value = _found(s, obj, name)
        if value is MISSING or (value is None and callable(getattr(protocol, name, None))):
            return False
    return True


def _found(s: Session, obj: Any, name: str) -> Any:
    """Attribute of an object, or MISSING; from Python 3.12 on its class's hooks are not asked."""
    if sys.version_info >= (3, 12) and kind_of(obj).python:
        value = own_field(s, obj, name)
        return class_raw(s, type(obj), name) if value is MISSING else value
    try:
        return s.getattr(obj, name)
    except AttributeError:
        return MISSING


@handles(callable)
def _callable(s: Session, obj: Any) -> bool:
    cls = kind_of(obj).type_of(obj)
    if kind_of(obj).python or cls is not type(obj):
        return class_raw(s, cls, "__call__") is not MISSING
    return callable(obj)


# ---- the class statement


@handles(builtins.__build_class__)
def _build_class(s: Session, body: Any, name: str, /, *bases: Any, **kwargs: Any) -> Any:
    """The body is interpreted, the class is real."""
    meta = kwargs.pop("metaclass", type)
    if not all(isinstance(x, type) for x in (*bases, meta)):
        raise Break("opcode", f"class {name} has bases or a metaclass that are made")
    meta = _most_derived(meta, bases)
    refuse_hooks(s, meta, ("__prepare__", *META_HOOKS))
    frame = frame_for(s, body, (), {})
    namespace = meta.__prepare__(name, bases, **kwargs)
    if type(namespace) is not dict:
        raise Break("opcode", f"class {name} has a namespace of its own, a {type(namespace)}")
    frame.namespace = namespace
    cell = s.vm.run(frame).value
    refuse_class_hooks(s, meta, bases, namespace)
    cls = s.made_inside(meta(name, bases, namespace, **kwargs))
    if isinstance(cell, CellType) and is_empty(cell):
        cell.cell_contents = cls
    return cls


def _most_derived(meta: type, bases: tuple[Any, ...]) -> type:
    return max([meta, *map(type, bases)], key=lambda m: len(m.__mro__))
