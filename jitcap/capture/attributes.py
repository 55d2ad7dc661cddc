"""Capture: attributes as CPython has them, a guard for every read. (object, name) -> value."""

from __future__ import annotations

import functools
import io
import types
from types import FunctionType, MemberDescriptorType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from eager.sym import SymNumber
from eager.tensor import Tensor
from jitcap.capture import arrays
from jitcap.capture.breaks import Break
from jitcap.capture.deferred import Deferred
from jitcap.capture.native import is_native_class
from jitcap.capture.origin import Attribute, DictOf, Fixed, Item
from jitcap.capture.outside import TensorShadow, is_python_class
from jitcap.capture.shadow import MISSING, DictShadow, ObjectShadow
from jitcap.guards import Absent, CodeIs, Is, Length

if TYPE_CHECKING:
    from jitcap.capture.world import World

_DESCRIPTORS: Final[tuple[Any, ...]] = (
    staticmethod, classmethod, property, functools.cached_property, MemberDescriptorType,
    types.GetSetDescriptorType, types.WrapperDescriptorType, types.MethodDescriptorType,
    types.ClassMethodDescriptorType, types.BuiltinFunctionType,
)  # fmt: skip
_FUNCTION_FIELDS: Final = frozenset({"__name__", "__qualname__", "__doc__", "__module__"})


def get(world: World, obj: Any, name: str) -> Any:
    """`obj.name`. Raises AttributeError as Python does."""
    cls = type(obj)
    if isinstance(obj, Tensor):
        return _tensor_attribute(world, obj, name)
    if cls is Deferred:
        raise Break("data dependent", f".{name} of text made of run-time values")
    if cls is SymNumber:
        return _number_attribute(world, obj, name)
    if isinstance(obj, type):
        return _class_attribute(world, obj, name)
    if cls is ModuleType or isinstance(obj, ModuleType):
        return _module_attribute(world, obj, name)
    if cls is FunctionType:
        return _function_attribute(world, obj, name)
    if cls is Super:
        return super_get(world, obj.cls, obj.obj, name)
    if is_python_class(cls) and cls is not functools.partial and not world.is_opaque(obj):
        return _instance_attribute(world, obj, name)
    if isinstance(obj, io.TextIOBase) and name in ("write", "writelines", "flush"):
        return getattr(obj, name)
    if cls is np.ndarray and world.outside.shadow(obj) is not None:
        return arrays.attribute(world, obj, name)
    world.see(obj, f".{name}")
    return getattr(obj, name)


class Super:
    """What `super(cls, obj)` gives."""

    def __init__(self, cls: type, obj: Any) -> None:
        self.cls = cls
        self.obj = obj


def super_get(world: World, cls: type, obj: Any, name: str) -> Any:
    """`super(cls, obj).name`: the lookup starts after `cls` in the order of resolution."""
    start = obj if isinstance(obj, type) and issubclass(obj, cls) else type(obj)
    mro = start.__mro__
    owner = next((c for c in mro[mro.index(cls) + 1 :] if name in vars(c)), None)
    if owner is None:
        raise AttributeError(f"'super' object has no attribute {name!r}")
    raw = _guarded_raw(world, owner, owner, name)
    instance = None if start is obj else obj
    if isinstance(raw, classmethod):
        return MethodType(raw.__func__, start)
    return bind(world, raw, instance, start)


# ---- classes


def class_raw(world: World, cls: type, name: str) -> Any:
    """What the class or a base holds under `name` (unbound), or MISSING. Guarded, also against a
    class nearer in the order of resolution that gets a member of this name later."""
    nearer: list[type] = []
    for owner in cls.__mro__:
        if name in vars(owner):
            raw = _guarded_raw(world, cls, owner, name)
            if not isinstance(raw, FunctionType):  # those are guarded as read through `cls`
                _guard_members(world, nearer)
            return raw
        nearer.append(owner)
    _guard_members(world, nearer)
    return MISSING


def _guard_members(world: World, classes: list[type]) -> None:
    """These classes get no further members. A library's are taken as they are."""
    for cls in classes:
        if id(cls) in world.measured_classes or id(cls) in world.made:
            continue
        world.measured_classes[id(cls)] = cls
        if is_python_class(cls) and not world.is_library(cls.__module__):
            members = Attribute(Fixed(cls, cls.__qualname__), "__dict__")
            world.guards.add(Length(members, world.line(), len(vars(cls))))


def _guarded_raw(world: World, cls: type, owner: type, name: str) -> Any:
    raw = vars(owner)[name]
    if not is_python_class(owner) or id(cls) in world.made or id(owner) in world.made:
        return raw
    key = (id(cls), name)
    if key in world.class_reads:
        return world.class_reads[key][1]
    value = _load_class_value(world, cls, owner, name, raw)
    world.class_reads[key] = (cls, value)
    return value


def _load_class_value(world: World, cls: type, owner: type, name: str, raw: Any) -> Any:
    if is_native_class(owner):
        return raw
    if isinstance(raw, FunctionType):
        origin = Attribute(Fixed(cls, cls.__qualname__), name)
        world.guards.add(Is(origin, world.line(), raw))
        world.fixed[id(raw)] = raw
        if not world.is_library(owner.__module__):
            world.guards.add(CodeIs(Fixed(raw, raw.__qualname__), world.line(), raw.__code__))
        return raw
    place = Item(Attribute(Fixed(owner, owner.__qualname__), "__dict__"), name)
    if isinstance(raw, _DESCRIPTORS):
        if not name.startswith("__") or name == "__new__":
            world.guards.add(Is(place, world.line(), raw))
        return raw
    return world.outside.load(raw, place)


def _class_attribute(world: World, cls: type, name: str) -> Any:
    """`cls.name`: metaclass data descriptors, then the class and its bases, then the metaclass."""
    if name == "__dict__":
        if id(cls) not in world.made:
            raise Break("opaque object", f"the dictionary of the class {cls.__qualname__}")
        return cls.__dict__
    meta = type(cls)
    above = class_raw(world, meta, name) if meta is not type else MISSING
    if isinstance(above, property):
        return world.call(above.fget, (cls,), {})
    raw = class_raw(world, cls, name)
    if raw is not MISSING:
        return (
            MethodType(raw.__func__, cls)
            if isinstance(raw, classmethod)
            else bind(world, raw, None, cls)
        )
    if above is not MISSING:
        return bind(world, above, cls, meta)
    fallback = class_raw(world, meta, "__getattr__") if meta is not type else MISSING
    if isinstance(fallback, FunctionType) and not hasattr(type, name):
        return world.call(fallback, (cls, name), {})
    return getattr(cls, name)  # __name__, __mro__, __dict__ ...: fixed for a class


# ---- instances


def _instance_attribute(world: World, obj: Any, name: str) -> Any:
    cls = type(obj)
    custom = class_raw(world, cls, "__getattribute__")
    if isinstance(custom, FunctionType):
        return world.call(custom, (obj, name), {})
    try:
        return default_get(world, obj, name)
    except AttributeError:
        fallback = class_raw(world, cls, "__getattr__")
        if not isinstance(fallback, FunctionType):
            raise
    return world.call(fallback, (obj, name), {})


def default_get(world: World, obj: Any, name: str) -> Any:
    """`object.__getattribute__(obj, name)`."""
    cls = type(obj)
    if name == "__class__":
        return cls
    raw = class_raw(world, cls, name)
    if isinstance(raw, property):
        if raw.fget is None:
            raise AttributeError(f"property {name!r} of {cls.__name__!r} object has no getter")
        return world.call(raw.fget, (obj,), {})
    if isinstance(raw, MemberDescriptorType):
        return _slot(world, obj, name, raw)
    if name == "__dict__" and hasattr(obj, "__dict__"):
        return obj.__dict__
    if _has_method(type(raw), "__set__") and not isinstance(raw, types.GetSetDescriptorType):
        return bind(world, raw, obj, cls)
    value = _own(world, obj, name)
    if value is not MISSING:
        return value
    if isinstance(raw, functools.cached_property):
        value = world.call(raw.func, (obj,), {})
        store_field(world, obj, name, value)
        return value
    if raw is not MISSING:
        return bind(world, raw, obj, cls)
    raise AttributeError(f"{cls.__name__!r} object has no attribute {name!r}")


def _own(world: World, obj: Any, name: str) -> Any:
    """The entry of the instance dictionary, or MISSING."""
    fields = getattr(obj, "__dict__", None)
    if fields is None:
        return MISSING
    touch_dict(world, fields, name)
    return fields.get(name, MISSING)


def touch_dict(world: World, mapping: Any, key: Any) -> None:
    """Load one entry of a dictionary from outside."""
    shadow = world.outside.shadow(mapping)
    if isinstance(shadow, DictShadow):
        shadow.touch(world, key)


def _slot(world: World, obj: Any, name: str, descriptor: Any) -> Any:
    shadow = world.outside.shadow(obj)
    if isinstance(shadow, ObjectShadow):
        shadow.touch_slot(world, name, descriptor)
    return descriptor.__get__(obj, type(obj))


def _has_method(cls: type, name: str) -> bool:
    return any(name in vars(c) for c in cls.__mro__)


def bind(world: World, raw: Any, obj: Any, cls: type) -> Any:
    """What a class attribute becomes when read through an instance (or, obj=None, the class)."""
    if isinstance(raw, FunctionType):
        return raw if obj is None else MethodType(raw, obj)
    if isinstance(raw, staticmethod):
        return raw.__func__
    if isinstance(raw, classmethod):
        return MethodType(raw.__func__, cls)
    if isinstance(raw, property):
        return raw if obj is None else world.call(raw.fget, (obj,), {})
    if isinstance(raw, types.ClassMethodDescriptorType):
        return raw.__get__(None, cls)
    if isinstance(raw, _DESCRIPTORS):
        return raw if obj is None else raw.__get__(obj, cls)
    if is_python_class(type(raw)):
        getter = class_raw(world, type(raw), "__get__")
        if isinstance(getter, FunctionType):
            return world.call(getter, (raw, obj, cls), {})
    elif obj is not None and hasattr(type(raw), "__get__"):
        return raw.__get__(obj, cls)
    return raw


# ---- modules, functions, tensors, numbers


def _module_attribute(world: World, module: ModuleType, name: str) -> Any:
    if name == "__dict__":
        return world.globals_of(vars(module))
    if name in vars(module):
        return world.module_value(vars(module), name, own=False)
    return getattr(module, name)


def _function_attribute(world: World, fn: FunctionType, name: str) -> Any:
    if name in _FUNCTION_FIELDS or (name.startswith("__") and name != "__dict__"):
        return getattr(fn, name)
    if world.outside.origin_of(fn) is None and id(fn) not in world.fixed:
        return getattr(fn, name)
    return _own_of_function(world, fn, name)


def _own_of_function(world: World, fn: FunctionType, name: str) -> Any:
    """An attribute that the user put on a function (`fn.calls += 1`)."""
    fields = world.function_fields(fn)
    if name == "__dict__":
        return fields
    touch_dict(world, fields, name)
    if name not in fields:
        raise AttributeError(f"'function' object has no attribute {name!r}")
    return fields[name]


TENSOR_FIELDS: Final = frozenset(
    {"_array", "_storage", "_requires_grad", "_node", "_index", "_grad", "_view", "_hooks",
     "_accumulate_hooks", "_retains"}
)  # fmt: skip


def _tensor_attribute(world: World, tensor: Tensor, name: str) -> Any:
    """Tensors answer natively; what the user put on one from outside is loaded first."""
    shadow = world.outside.shadow(tensor)
    if isinstance(shadow, TensorShadow) and name not in tensor.__dict__:
        if name in shadow.real.__dict__ and name not in TENSOR_FIELDS:
            place = Item(DictOf(shadow.origin), name)
            value = world.outside.load(shadow.real.__dict__[name], place)
            shadow.extra[name] = tensor.__dict__[name] = value
        elif name in ("data_ptr", "numpy", "tolist", "__array__") or (
            name == "is_leaf" and shadow.real._node is not None
        ):
            raise Break("data dependent", f".{name} of a tensor")
    raw = _user_class_attribute(world, type(tensor), name)
    if raw is not MISSING:
        return bind(world, raw, tensor, type(tensor))
    try:
        return getattr(tensor, name)
    except AttributeError:
        if isinstance(shadow, TensorShadow):
            world.guards.add(Absent(DictOf(shadow.origin), world.line(), name))
        raise


def _user_class_attribute(world: World, cls: type, name: str) -> Any:
    """What a user's subclass of Tensor adds."""
    for owner in cls.__mro__:
        if owner is Tensor or is_native_class(owner):
            return MISSING
        if name in vars(owner):
            return class_raw(world, cls, name)
    return MISSING


def _number_attribute(world: World, number: SymNumber, name: str) -> Any:
    if name in ("item", "__class__"):
        return number.item if name == "item" else number.pytype
    if name == "real":
        return number
    value = world.value_of(number)
    if number.of_numpy:
        value = np.float64(value)
    return getattr(value, name)


# ---- writes


def put(world: World, obj: Any, name: str, value: Any) -> None:
    """`obj.name = value`."""
    if isinstance(obj, Tensor):
        setattr(obj, name, value)
        return
    if isinstance(obj, ModuleType):
        world.store_name(vars(obj), name, value)
        return
    if isinstance(obj, type):
        if id(obj) not in world.made:
            raise Break("effect", f"{obj.__qualname__}.{name} = ... changes a class")
        setattr(obj, name, value)
        return
    if type(obj) is FunctionType:
        _put_on_function(world, obj, name, value)
        return
    custom = class_raw(world, type(obj), "__setattr__")
    if isinstance(custom, FunctionType):
        world.call(custom, (obj, name, value), {})
    else:
        default_put(world, obj, name, value)


def _put_on_function(world: World, fn: FunctionType, name: str, value: Any) -> None:
    if world.outside.origin_of(fn) is None and id(fn) not in world.fixed:
        setattr(fn, name, value)
    elif name.startswith("__"):
        raise Break("effect", f"{fn.__qualname__}.{name} = ... changes a function")
    else:
        world.setitem(world.function_fields(fn), name, value)


def default_put(world: World, obj: Any, name: str, value: Any) -> None:
    """`object.__setattr__(obj, name, value)`."""
    cls = type(obj)
    raw = class_raw(world, cls, name)
    if isinstance(raw, property):
        if raw.fset is None:
            raise AttributeError(f"property {name!r} of {cls.__name__!r} object has no setter")
        world.call(raw.fset, (obj, value), {})
    elif isinstance(raw, MemberDescriptorType):
        shadow = world.outside.shadow(obj)
        if isinstance(shadow, ObjectShadow):
            shadow.touch_slot(world, name, raw)
        raw.__set__(obj, value)
    elif name == "__dict__":
        raise Break("effect", "the instance dictionary is replaced")
    elif raw is not MISSING and is_python_class(type(raw)) and _has_method(type(raw), "__set__"):
        world.call(class_raw(world, type(raw), "__set__"), (raw, obj, value), {})
    elif not hasattr(obj, "__dict__"):
        raise AttributeError(f"{cls.__name__!r} object has no attribute {name!r}")
    else:
        store_field(world, obj, name, value)


def store_field(world: World, obj: Any, name: str, value: Any) -> None:
    """Write the instance dictionary."""
    if world.outside.shadow(obj) is not None and not isinstance(
        world.outside.shadow(obj.__dict__), DictShadow
    ):
        raise Break("effect", f"attribute {name!r} of a {type(obj).__qualname__} is set")
    world.setitem(obj.__dict__, name, value)


def remove(world: World, obj: Any, name: str) -> None:
    """`del obj.name`."""
    if isinstance(obj, Tensor):
        delattr(obj, name)
        return
    if isinstance(obj, type | ModuleType | FunctionType):
        raise Break("effect", f"attribute {name!r} of a {type(obj).__name__} is deleted")
    world.see(obj, f".{name}")
    custom = class_raw(world, type(obj), "__delattr__")
    if isinstance(custom, FunctionType):
        world.call(custom, (obj, name), {})
    else:
        default_remove(world, obj, name)


def default_remove(world: World, obj: Any, name: str) -> None:
    """`object.__delattr__(obj, name)`."""
    raw = class_raw(world, type(obj), name)
    if isinstance(raw, property):
        if raw.fdel is None:
            raise AttributeError(
                f"property {name!r} of {type(obj).__name__!r} object has no deleter"
            )
        world.call(raw.fdel, (obj,), {})
    elif is_python_class(type(raw)) and _has_method(type(raw), "__delete__"):
        world.call(class_raw(world, type(raw), "__delete__"), (raw, obj), {})
    elif isinstance(raw, MemberDescriptorType):
        _slot(world, obj, name, raw)
        raw.__delete__(obj)
    elif _own(world, obj, name) is MISSING:
        raise AttributeError(f"{type(obj).__name__!r} object has no attribute {name!r}")
    else:
        world.delitem(obj.__dict__, name)
