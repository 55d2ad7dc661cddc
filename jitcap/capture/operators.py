"""Capture: operators of one and two operands, and identity. (operator, values) -> value.

Which operand is asked first, and what a refusal of one means, is Python's rule and written here;
what an operand answers is its kind's.
"""

from __future__ import annotations

import collections
import operator
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from eager.sym import SymNumber
from eager.tensor import Tensor
from jitcap.capture.breaks import Break
from jitcap.capture.kinds.base import MISSING, Session, kind_of
from jitcap.capture.kinds.tensors import OutsideArray
from jitcap.capture.kinds.text import Deferred, joined, mentions_runtime
from jitcap.guards import Same

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


def binary(s: Session, op: str, a: Any, b: Any) -> Any:
    """`a op b`, also in place (`+=`)."""
    if op.endswith("=") and op in _INPLACE:
        return _inplace(s, op, a, b)
    plain, name = _BINARY[op]
    if type(a) in _PLAIN and type(b) in _PLAIN:
        if op in _BITWISE:
            a, b = s.known(a), s.known(b)
        if op == "%" and type(a) is str and mentions_runtime(b):
            return Deferred(operator.mod, (a, b))
        return _numbers_or_values(s, plain, a, b)
    found = _interpreted(s, a, b, f"__{name}__", f"__r{name}__")
    if found is not MISSING:
        return found
    return _native_binary(s, plain, a, b)


def _native_binary(s: Session, plain: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
    for x, y in ((a, b), (b, a)):
        if isinstance(x, np.ndarray | OutsideArray) and isinstance(y, Tensor):
            raise Break("numpy", "an operation on a NumPy array and a tensor")
    for x in (a, b):
        kind_of(x).see(s, x, "an operand")
        s.settle(x)
    if isinstance(a, Deferred) or isinstance(b, Deferred):
        if plain is operator.add:
            return joined([a, b])
        return Deferred(plain, (a, b))
    if plain is operator.mod and isinstance(a, str) and mentions_runtime(b):
        return Deferred(operator.mod, (a, b))
    return _numbers_or_values(s, plain, a, b)


def _numbers_or_values(s: Session, plain: Callable[..., Any], *values: Any) -> Any:
    """`plain(*values)`; what run-time numbers cannot do is done with their values."""
    try:
        return plain(*values)
    except (TypeError, ZeroDivisionError):  # in Python's words: of the values
        if not any(isinstance(v, SymNumber) for v in values):
            raise
    return plain(*map(s.known, values))


def _inplace(s: Session, op: str, a: Any, b: Any) -> Any:
    if type(a) in _PLAIN:
        return binary(s, op[:-1], a, b)
    kind, name = kind_of(a), _BINARY[op[:-1]][1]
    method = kind.special(s, a, f"__i{name}__")
    if method is not None:
        result = s.call(method, (a, b), {})
        if result is not NotImplemented:
            return result
    if kind.python or method is not None:
        return binary(s, op[:-1], a, b)
    if isinstance(a, list | collections.deque) and op == "+=":
        b = s.list_of(b)
        if type(a) in (list, collections.deque):  # it only stores: nothing is looked at
            a += b
            return a
    return _native_binary(s, _INPLACE[op], a, b)


def _interpreted(s: Session, a: Any, b: Any, name: str, reflected: str) -> Any:
    """The result of the operands' Python methods, or MISSING when neither has one."""
    order = [(a, b, name), (b, a, reflected)]
    if type(b) is not type(a) and isinstance(b, type(a)):
        order.reverse()
    asked = False
    for x, y, method_name in order:
        kind = kind_of(x)
        method = kind.special(s, x, method_name)
        if method is None and not kind.python:
            if asked or not kind_of(y).python:
                if isinstance(x, Tensor) and isinstance(y, Tensor):
                    break  # it answers, whatever the other one defines
                continue
            result = _native_method(x, method_name, y)
            if result is not NotImplemented:
                return result
            continue
        if method is not None:
            asked = True
            result = s.call(method, (x, y), {})
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


def unary(s: Session, op: str, a: Any) -> Any:
    plain, name = _UNARY[op]
    method = kind_of(a).special(s, a, name)
    if method is not None:
        return s.call(method, (a,), {})
    return _numbers_or_values(s, plain, a)


def compare(s: Session, op: str, a: Any, b: Any) -> Any:
    """`a op b`. For == and != the default is identity, as in Python."""
    plain, name, reflected = _COMPARE[op]
    if type(a) in _PLAIN and type(b) in _PLAIN:
        return _numbers_or_values(s, plain, a, b)
    if kind_of(a).python or kind_of(b).python or isinstance(a, Tensor) or isinstance(b, Tensor):
        found = _compared(s, op, a, b, (name, reflected))
        if found is not MISSING:
            return found
        if op in ("==", "!=") and _compares_identity(a) and _compares_identity(b):
            return same(s, a, b) is (op == "==")
    return _native_binary(s, plain, a, b)


def _compares_identity(value: Any) -> bool:
    return getattr(type(value), "__eq__", None) is object.__eq__


def _compared(s: Session, op: str, a: Any, b: Any, names: tuple[str, str]) -> Any:
    for x, y, name in ((a, b, names[0]), (b, a, names[1])):
        kind = kind_of(x)
        method = kind.special(s, x, name)
        equal = kind.special(s, x, "__eq__") if method is None and op == "!=" else None
        found = method or equal
        if found is None and isinstance(x, Tensor) and isinstance(y, Tensor):
            break
        if found is not None:
            result = s.call(found, (x, y), {})
            if result is not NotImplemented:
                return result if method is not None else not s.truth(result)
    return MISSING


def same(s: Session, a: Any, b: Any) -> bool:
    """`a is b`; two objects from outside that differ stay different (or the guard fails)."""
    if a is b:
        return True
    if a is None or b is None or type(a) is bool or type(b) is bool:
        return False
    if isinstance(a, SymNumber) or isinstance(b, SymNumber):
        raise Break("data dependent", "the identity of a number is asked for")
    first, second = s.outside.shadow(a), s.outside.shadow(b)
    if first is not None and second is not None and type(a) is type(b):
        s.guards.add(Same(first.origin, s.line(), second.origin, same=False))
    return False
