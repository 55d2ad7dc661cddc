"""Capture: operators, subscripts, truth and identity. (operation, values) -> value.

Tensors and run-time numbers do these natively (that is how nodes are made); instances of Python
classes have their methods interpreted; everything else is Python's own on values of this capture.
"""

from __future__ import annotations

import collections
import operator
from collections.abc import Callable
from types import FunctionType, SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from eager.sym import SymNumber
from eager.tensor import Tensor, wrap
from eager.traced import Traced, fresh
from jitcap.capture import arrays, attributes, deferred
from jitcap.capture.breaks import Break
from jitcap.capture.deferred import Deferred
from jitcap.capture.outside import is_python_class
from jitcap.capture.shadow import MISSING, DictShadow, ListShadow
from jitcap.guards import Same

if TYPE_CHECKING:
    from jitcap.capture.world import World

_BINARY: Final[dict[str, tuple[Callable[[Any, Any], Any], str]]] = {
    "+": (operator.add, "add"), "-": (operator.sub, "sub"), "*": (operator.mul, "mul"),
    "/": (operator.truediv, "truediv"), "//": (operator.floordiv, "floordiv"),
    "%": (operator.mod, "mod"), "**": (operator.pow, "pow"), "@": (operator.matmul, "matmul"),
    "&": (operator.and_, "and"), "|": (operator.or_, "or"), "^": (operator.xor, "xor"),
    "<<": (operator.lshift, "lshift"), ">>": (operator.rshift, "rshift"),
    "divmod": (divmod, "divmod"),
}  # fmt: skip
_INPLACE: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "+=": operator.iadd, "-=": operator.isub, "*=": operator.imul, "/=": operator.itruediv,
    "//=": operator.ifloordiv, "%=": operator.imod, "**=": operator.ipow, "@=": operator.imatmul,
    "&=": operator.iand, "|=": operator.ior, "^=": operator.ixor, "<<=": operator.ilshift,
    ">>=": operator.irshift,
}  # fmt: skip
_COMPARE: Final[dict[str, tuple[Callable[[Any, Any], Any], str, str]]] = {
    "<": (operator.lt, "__lt__", "__gt__"), "<=": (operator.le, "__le__", "__ge__"),
    ">": (operator.gt, "__gt__", "__lt__"), ">=": (operator.ge, "__ge__", "__le__"),
    "==": (operator.eq, "__eq__", "__eq__"), "!=": (operator.ne, "__ne__", "__ne__"),
}  # fmt: skip
_UNARY: Final[dict[str, tuple[Callable[[Any], Any], str]]] = {
    "UNARY_NEGATIVE": (operator.neg, "__neg__"),
    "UNARY_INVERT": (operator.invert, "__invert__"),
    "UNARY_POSITIVE": (operator.pos, "__pos__"),
}
_BITWISE: Final = frozenset({"&", "|", "^", "<<", ">>"})  # run-time numbers do not have these
_PLAIN: Final = frozenset({int, float, str, bool, type(None), bytes, SymNumber})


def binary(world: World, op: str, a: Any, b: Any) -> Any:
    """`a op b`, also in place (`+=`)."""
    if op.endswith("=") and op in _INPLACE:
        return _inplace(world, op, a, b)
    plain, name = _BINARY[op]
    if type(a) in _PLAIN and type(b) in _PLAIN:
        if op in _BITWISE:
            a, b = world.known(a), world.known(b)
        if op == "%" and type(a) is str and mentions_runtime(b):
            return Deferred(operator.mod, (a, b))
        return _numbers_or_values(world, plain, a, b)
    found = _interpreted(world, a, b, f"__{name}__", f"__r{name}__")
    if found is not MISSING:
        return found
    return _native_binary(world, plain, a, b)


def _native_binary(world: World, plain: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
    for x, y in ((a, b), (b, a)):
        if isinstance(x, np.ndarray) and isinstance(y, Tensor):
            raise Break("numpy", "an operation on a NumPy array and a tensor")
        world.see(x, "an operand")
    world.settle(a)
    world.settle(b)
    if isinstance(a, Deferred) or isinstance(b, Deferred):
        if plain is operator.add:
            return joined([a, b])
        return Deferred(plain, (a, b))
    if plain is operator.mod and isinstance(a, str) and mentions_runtime(b):
        return Deferred(operator.mod, (a, b))
    return _numbers_or_values(world, plain, a, b)


def _numbers_or_values(world: World, plain: Callable[..., Any], *values: Any) -> Any:
    """`plain(*values)`; what run-time numbers cannot do is done with their values."""
    try:
        return plain(*values)
    except (TypeError, ZeroDivisionError):  # in Python's words: of the values
        if not any(isinstance(v, SymNumber) for v in values):
            raise
    return plain(*map(world.known, values))


def _inplace(world: World, op: str, a: Any, b: Any) -> Any:
    if type(a) in _PLAIN:
        return binary(world, op[:-1], a, b)
    name = _BINARY[op[:-1]][1]
    if _python_class(a):
        method = attributes.class_raw(world, type(a), f"__i{name}__")
        if isinstance(method, FunctionType):
            result = world.call(method, (a, b), {})
            if result is not NotImplemented:
                return result
        return binary(world, op[:-1], a, b)
    if isinstance(a, list | collections.deque) and op == "+=":
        b = world.list_of(b)
        if type(a) in (list, collections.deque):  # it only stores: nothing is looked at
            a += b
            return a
    return _native_binary(world, _INPLACE[op], a, b)


def _python_class(value: Any) -> bool:
    return is_python_class(type(value)) and not isinstance(value, Tensor)


def _interpreted(world: World, a: Any, b: Any, name: str, reflected: str) -> Any:
    """The result of the operands' Python methods, or MISSING when neither has one."""
    order = [(a, b, name), (b, a, reflected)]
    if type(b) is not type(a) and isinstance(b, type(a)):
        order.reverse()
    asked = False
    for x, y, method_name in order:
        if not _python_class(x):
            if asked or not _python_class(y):
                continue
            result = _native_method(x, method_name, y)
            if result is not NotImplemented:
                return result
            continue
        method = attributes.class_raw(world, type(x), method_name)
        if isinstance(method, FunctionType):
            asked = True
            result = world.call(method, (x, y), {})
            if result is not NotImplemented:
                return result
    if asked:
        raise TypeError(
            f"unsupported operand type(s): {type(a).__name__!r} and {type(b).__name__!r}"
        )
    return MISSING


def _native_method(x: Any, name: str, y: Any) -> Any:
    method = getattr(type(x), name, None)
    if method is None or isinstance(x, Tensor):
        return NotImplemented
    return method(x, y)


def unary(world: World, op: str, a: Any) -> Any:
    plain, name = _UNARY[op]
    if _python_class(a):
        method = attributes.class_raw(world, type(a), name)
        if isinstance(method, FunctionType):
            return world.call(method, (a,), {})
    return _numbers_or_values(world, plain, a)


def compare(world: World, op: str, a: Any, b: Any) -> Any:
    """`a op b`. For == and != the default is identity, as in Python."""
    plain, name, reflected = _COMPARE[op]
    if type(a) in _PLAIN and type(b) in _PLAIN:
        return _numbers_or_values(world, plain, a, b)
    if _python_class(a) or _python_class(b):
        found = _compared(world, op, a, b, (name, reflected))
        if found is not MISSING:
            return found
        if op in ("==", "!=") and _compares_identity(a) and _compares_identity(b):
            return same(world, a, b) is (op == "==")
    return _native_binary(world, plain, a, b)


def _compares_identity(value: Any) -> bool:
    return getattr(type(value), "__eq__", None) is object.__eq__


def _compared(world: World, op: str, a: Any, b: Any, names: tuple[str, str]) -> Any:
    for x, y, name in ((a, b, names[0]), (b, a, names[1])):
        if _python_class(x):
            method = attributes.class_raw(world, type(x), name)
            if not isinstance(method, FunctionType) and op == "!=":
                equal = attributes.class_raw(world, type(x), "__eq__")
                if isinstance(equal, FunctionType):
                    result = world.call(equal, (x, y), {})
                    if result is not NotImplemented:
                        return not world.truth(result)
            if isinstance(method, FunctionType):
                result = world.call(method, (x, y), {})
                if result is not NotImplemented:
                    return result
    return MISSING


def contains(world: World, item: Any, container: Any) -> Any:
    """`item in container`."""
    if _python_class(container):
        method = attributes.class_raw(world, type(container), "__contains__")
        if isinstance(method, FunctionType):
            return world.truth(world.call(method, (container, item), {}))
        if not isinstance(container, list | tuple | dict | set | frozenset | str | type):
            return any(
                same(world, v, item) or world.truth(compare(world, "==", v, item))
                for v in world.values_of(container)
            )
    world.see(container, "a membership test")
    shadow = world.outside.shadow(container)
    if isinstance(container, dict | set | frozenset):
        item = world.known(item)
        if shadow is None:
            world.hashing((item,))
    if isinstance(shadow, DictShadow) and not shadow.whole:
        shadow.touch(world, item)
        return item in container
    world.settle(container)
    if isinstance(container, list | tuple) and (
        _python_class(item) or any(_python_class(v) for v in container)
    ):
        return any(
            same(world, v, item) or world.truth(compare(world, "==", v, item)) for v in container
        )
    return item in container


def truth(world: World, a: Any) -> bool:
    """`bool(a)`."""
    if a is True or a is False or a is None:
        return bool(a)
    if _python_class(a):
        for name in ("__bool__", "__len__"):
            method = attributes.class_raw(world, type(a), name)
            if isinstance(method, FunctionType):
                return bool(world.call(method, (a,), {}))
        if not isinstance(a, list | tuple | dict | set | str | int):
            return True
    world.see(a, "the truth")
    shadow = world.outside.shadow(a)
    if isinstance(shadow, DictShadow | ListShadow):
        return bool(shadow.size(world) > 0)
    if isinstance(a, Deferred):
        raise Break("data dependent", "text made of run-time values decides a branch")
    return bool(a)


def same(world: World, a: Any, b: Any) -> bool:
    """`a is b`; two objects from outside that differ stay different (or the guard fails)."""
    if a is b:
        return True
    if a is None or b is None or type(a) is bool or type(b) is bool:
        return False
    if isinstance(a, SymNumber) or isinstance(b, SymNumber):
        raise Break("data dependent", "the identity of a number is asked for")
    first, second = world.outside.shadow(a), world.outside.shadow(b)
    if first is not None and second is not None and type(a) is type(b):
        world.guards.add(Same(first.origin, world.line(), second.origin, same=False))
    return False


# ---- subscripts


def getitem(world: World, obj: Any, key: Any) -> Any:
    """`obj[key]`."""
    key = world.known(key) if isinstance(obj, dict) else key
    if _python_class(obj):
        method = attributes.class_raw(world, type(obj), "__getitem__")
        if isinstance(method, FunctionType):
            return world.call(method, (obj, key), {})
    if isinstance(obj, type):
        return _class_item(world, obj, key)
    shadow = world.outside.shadow(obj)
    if isinstance(shadow, DictShadow) or (
        isinstance(shadow, ListShadow) and type(key) is int and type(obj) is list
    ):
        shadow.touch(world, key)
    elif shadow is not None and type(obj) is np.ndarray:
        return arrays.item(world, obj, key)
    else:
        world.see(obj, "an item")
        world.settle(obj)
    if isinstance(obj, dict):
        if shadow is None:
            world.hashing((key,))
        return _dict_item(world, obj, key)
    if isinstance(obj, Tensor):
        key = _index(world, key)
    return obj[key]


def _dict_item(world: World, obj: dict[Any, Any], key: Any) -> Any:
    if not dict.__contains__(obj, key) and type(obj) is not dict:
        missing = attributes.class_raw(world, type(obj), "__missing__")
        if isinstance(missing, FunctionType):
            return world.call(missing, (obj, key), {})
        factory = getattr(obj, "default_factory", None)
        if factory is not None:
            value = world.call(factory, (), {})
            setitem(world, obj, key, value)
            return value
    return dict.__getitem__(obj, key)


def _class_item(world: World, cls: type, key: Any) -> Any:
    """`Color["RED"]`, `list[int]`."""
    method = attributes.class_raw(world, type(cls), "__getitem__")
    if isinstance(method, FunctionType) and type(cls).__module__ != "enum":
        return world.call(method, (cls, key), {})
    return cls[key]  # type: ignore[index]


def _index(world: World, key: Any) -> Any:
    """What a tensor is indexed with, all of it loaded."""
    key = arrays.index_of(world, key)
    world.settle(key)
    world.see_within(key, "an index")
    return key


def setitem(world: World, obj: Any, key: Any, value: Any) -> None:
    """`obj[key] = value`."""
    key = world.known(key) if isinstance(obj, dict) else key
    if _python_class(obj):
        method = attributes.class_raw(world, type(obj), "__setitem__")
        if isinstance(method, FunctionType):
            world.call(method, (obj, key, value), {})
            return
    shadow = world.outside.shadow(obj)
    if isinstance(shadow, DictShadow):
        if not shadow.whole:
            shadow.known.add(key)
        shadow.kind.__setitem__(obj, key, value)
        return
    world.see(obj, "an item")
    if isinstance(obj, dict):
        world.hashing((key,))
    if isinstance(shadow, ListShadow):
        shadow.complete(world)
    if isinstance(obj, Tensor):
        key = _index(world, key)
    obj[key] = value


def delitem(world: World, obj: Any, key: Any) -> None:
    """`del obj[key]`."""
    key = world.known(key) if isinstance(obj, dict) else key
    if _python_class(obj):
        method = attributes.class_raw(world, type(obj), "__delitem__")
        if isinstance(method, FunctionType):
            world.call(method, (obj, key), {})
            return
    shadow = world.outside.shadow(obj)
    if isinstance(shadow, DictShadow):
        shadow.before_delete(world, key)
    else:
        world.see(obj, "an item")
        world.settle(obj)
    del obj[key]


# ---- text and run-time values


def mentions_runtime(value: Any, depth: int = 0) -> bool:
    """Whether text about `value` needs run-time values."""
    if isinstance(value, Tensor | SymNumber | Deferred):
        return True
    if type(value) in (list, tuple, set) and depth < 4:
        return any(mentions_runtime(v, depth + 1) for v in value)
    if type(value) is SimpleNamespace:
        value = vars(value)
    if type(value) is dict and depth < 4:
        return any(mentions_runtime(v, depth + 1) for v in value.values())
    return False


def joined(parts: list[Any]) -> Any:
    """The pieces of an f-string."""
    if any(isinstance(p, Deferred) for p in parts):
        return Deferred(deferred.join, tuple(parts))
    return "".join(parts)


def frozen(tensor: Tensor) -> Tensor:
    """The tensor as it is now: later in-place writes do not show."""
    array = tensor._array
    if type(array) is not Traced:
        return tensor
    out: Tensor = wrap(fresh(array.storage.tracer, array.read(), array.aval))
    out._requires_grad, out._node, out._index = tensor._requires_grad, tensor._node, tensor._index
    return out
