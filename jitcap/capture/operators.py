"""Capture: operators of one and two operands, and identity. (operator, values) -> value.

Which operand is asked first, and what a refusal of one means, is Python's rule and written here;
what an operand answers is its kind's.
"""

from __future__ import annotations

import collections
import datetime as dt
import operator
import warnings
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from eager.core.sym import SymNumber
from eager.core.tensor import Tensor
from jitcap.base.breaks import Break
from jitcap.base.call_policy import is_python_class
from jitcap.capture.kinds.base import MISSING, Session, kind_of
from jitcap.capture.kinds.classes import class_raw
from jitcap.capture.kinds.deferred import (
    Deferred,
    between,
    defer,
    for_numpy,
    joined,
    made_now,
    written,
)
from jitcap.capture.kinds.native_proxies import asked, is_value, stand_in
from jitcap.capture.kinds.poison import SymbolicId
from jitcap.capture.kinds.symbolic.chosen import Chosen
from jitcap.capture.kinds.symbolic.texts import Text
from jitcap.capture.kinds.tensors import OutsideArray
from jitcap.capture.operations import BINARY, COMPARE, INPLACE, NAMES, REFLECTED, UNARY
from jitcap.guards.guard import Same

_BINARY: Final[dict[str, Callable[..., Any]]] = {**BINARY, "divmod": divmod}
_COMPARISONS: Final = frozenset(COMPARE.values())
_SETS: Final = frozenset({set, frozenset, type({}.keys()), type({}.items())})
_NUMBERS: Final = (bool, int, float)
_NUMERIC: Final = (*_NUMBERS, complex, dt.date, dt.time, dt.timedelta)
_ANY_SET: Final = (set, frozenset)
_PLAIN: Final = frozenset({int, float, str, bool, type(None), bytes, SymNumber})


def binary(s: Session, op: str, a: Any, b: Any) -> Any:
    """`a op b`, also in place (`+=`)."""
    inplace = op in INPLACE
    symbol = op[:-1] if inplace else op
    plain = INPLACE[op] if inplace else _BINARY[op]
    if type(a) in _PLAIN and type(b) in _PLAIN:
        if symbol == "%" and type(a) is str and isinstance(b, SymNumber):
            return defer(s, operator.mod, (a, b))
        return _numbers_or_values(s, plain, a, b)
    s.log.giving((a, b))
    name = NAMES.get(symbol, symbol)
    if kind_of(a).python or kind_of(b).python:
        names = {f"__{name}__", f"__r{name}__", f"__i{name}__"}
        if _answers(s, a, names) or _answers(s, b, names):
            if not any(kind_of(x).python and is_value(type(x)) for x in (a, b)):
                return _of_instances(s, plain, a, b)
            found = _of_values(s, name, a, b, inplace=inplace)
            return _native_binary(s, plain, a, b) if found is MISSING else found
    elif isinstance(b, np.ndarray | np.generic):
        pass  # NumPy is asked first, also where a list is added to
    elif inplace and isinstance(a, list | collections.deque) and op == "+=":
        b = s.list_of(b)
        if type(a) in (list, collections.deque):  # it only stores: nothing is looked at
            a += b
            return a
    found = _of_tensors(s, a, b, f"__{'i' * inplace}{name}__", f"__r{name}__")
    return _native_binary(s, plain, a, b) if found is MISSING else found


def _answers(s: Session, value: Any, names: set[str]) -> bool:
    """True if the value's class, written in Python, has one of these methods."""
    return kind_of(value).python and not asked(s, type(value)).isdisjoint(names)


def _of_instances(s: Session, plain: Callable[..., Any], *operands: Any) -> Any:
    """`plain(*operands)`: CPython asks their methods, in its order and in its words."""
    given = []
    if _is_for_numpy(*operands):
        operands = tuple(for_numpy(s, x) for x in operands)
    for value in operands:
        kind_of(value).see(s, value, "an operand")
        s.settle(value)
        python = kind_of(value).python and asked(s, type(value))
        if python and _is_of_c(type(value)):
            raise Break("opaque object", f"an operand that is a {type(value).__qualname__}")
        given.append(stand_in(s, value) if python else value)
    return s.call_native(plain, tuple(given))


def _is_of_c(cls: type) -> bool:
    """True if C's own methods see instances of a class as those of a type of C, as no stand-in."""
    base = next(base for base in cls.__mro__ if not is_python_class(base))
    return base is not object and not issubclass(base, BaseException)


def _order(a: Any, b: Any, name: str, reflected: str) -> list[tuple[Any, Any, str]]:
    """Two operands in the order in which Python asks them, each with the other and its method."""
    order = [(a, b, name), (b, a, reflected)]
    first, second = kind_of(a).type_of(a), kind_of(b).type_of(b)
    return order[::-1] if first is not second and issubclass(second, first) else order


def _of_values(s: Session, name: str, a: Any, b: Any, *, inplace: bool) -> Any:
    """Result of the methods of two operands, of which one is a number, text or container of a
    class of the program: no stand-in is one for native code. MISSING where none is asked."""
    order = _order(a, b, f"__{name}__", f"__r{name}__")
    if type(a) is type(b):
        del order[1]
    if inplace:
        order.insert(0, (a, b, f"__i{name}__"))
    methods = [(s.special(x, asked_for), x, y, asked_for) for x, y, asked_for in order]
    for method, x, y, asked_for in methods:
        if method is not None:
            result = s.call(method, (x, y), {})
        else:
            result = _of_c(s, x, y, asked_for)
        if result is not NotImplemented:
            return result
    if any(method is not None for method, *_ in methods):
        raise Break("opaque object", f"operands of which none answers __{name}__()")
    return MISSING


def _of_c(s: Session, x: Any, y: Any, name: str) -> Any:
    """Answer of a method that is written in C. MISSING for one that is the operator's own, since it
    has an answer; NotImplemented where there is none, or it is asked last (lists, text)."""
    cls = kind_of(x).type_of(x)
    if not hasattr(cls, name):
        return NotImplemented
    if issubclass(cls, np.generic | np.ndarray):
        raise Break("numpy", f"an operation on NumPy's and a {type(y).__qualname__}")
    if issubclass(cls, _NUMERIC):
        return getattr(cls, name)(for_numpy(s, x), for_numpy(s, y))
    pairs: Any = ((Tensor, _NUMERIC), (dict, dict), (_ANY_SET, _ANY_SET))
    answers = any(issubclass(cls, a) and isinstance(y, b) for a, b in pairs)
    answers |= issubclass(cls, str | bytes) and name == "__mod__"
    return MISSING if answers else NotImplemented


def _of_tensors(s: Session, a: Any, b: Any, name: str, reflected: str) -> Any:
    """Result of the methods that the program put into a class of tensors, or MISSING."""
    for x, y, asked_for in _order(a, b, name, reflected):
        if not isinstance(x, Tensor):
            continue
        method = s.special(x, asked_for)
        result = NotImplemented if method is None else s.call(method, (x, y), {})
        if result is not NotImplemented:
            return result
        if method is None and x is a:
            break  # eager's own answers
    return MISSING


def _native_binary(s: Session, plain: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
    for x, y in ((a, b), (b, a)):
        if isinstance(x, np.ndarray | OutsideArray) and isinstance(y, Tensor):
            raise Break("numpy", "an operation on a NumPy array and a tensor")
    for x in (a, b):
        kind_of(x).see(s, x, "an operand")
        s.settle(x)
    if isinstance(a, Deferred) or isinstance(b, Deferred):
        if plain is operator.add and all(kind_of(x).type_of(x) is str for x in (a, b)):
            return joined([a, b])
        if plain is operator.sub and (found := between(a, b)) is not MISSING:
            return found
        for text in (a, b):
            if isinstance(text, Text):
                raise text.refusal()
        raise Break("data dependent", f"{plain.__name__}() of what is made of run-time values")
    if plain is operator.mod and isinstance(a, str):
        return written(s, operator.mod, (a, b), {})
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray) or _is_for_numpy(a, b):
        a, b = for_numpy(s, a), for_numpy(s, b)
    if plain in _COMPARISONS or type(a) in _SETS:
        s.tells_apart((a, b), equals=True)
    if s.lends(a) or s.lends(b, text=isinstance(a, str)):
        found = s.call_native(plain, (a, b), text=isinstance(a, str))
    else:
        found = _numbers_or_values(s, plain, a, b)
    return made_now(s, found) if plain is operator.mod else found


def _is_for_numpy(*values: Any) -> bool:
    """True if NumPy has one of the operands, and another is no plain number: it makes an array of
    that, or leaves the answer to a class of the program."""
    numbers = {x.pytype if type(x) is SymNumber else type(x) for x in values}
    return any(issubclass(x, np.generic) for x in numbers) and not all(
        x in _NUMBERS or issubclass(x, Tensor | np.generic) for x in numbers
    )


def _numbers_or_values(s: Session, plain: Callable[..., Any], *values: Any) -> Any:
    """`plain(*values)`; what run-time numbers cannot do is done with their values."""
    if _is_for_numpy(*values):  # no TypeError says so
        values = tuple(for_numpy(s, x) for x in values)
    try:
        return plain(*values)
    except (TypeError, ZeroDivisionError):  # in Python's words: of the values
        if not any(isinstance(v, SymNumber) for v in values):
            raise
    return plain(*map(s.known, values))


def unary(s: Session, op: str, a: Any) -> Any:
    plain = UNARY[op]
    name = f"__{plain.__name__}__"
    method = s.special(a, name) if isinstance(a, Tensor) else None
    if method is not None:
        return s.call(method, (a,), {})
    if _answers(s, a, {name}):
        return _of_instances(s, plain, a)
    if plain is operator.invert and kind_of(a).type_of(a) is bool:
        for words in _OF_INVERTED:
            s.call(warnings.warn, (words, DeprecationWarning), {})
        a = s.call(int, (a,), {})
    if isinstance(a, type):
        s.lends(a)
    return _numbers_or_values(s, plain, a)


def _of_inverted() -> list[str]:
    """Texts of the warnings that this version of Python gives where a bool is inverted."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        operator.invert(True)
    return [str(each.message) for each in found]


_OF_INVERTED: Final = _of_inverted()  # now: while a program is captured, what warns is refused


def compare(s: Session, op: str, a: Any, b: Any) -> Any:
    """`a op b`. For == and != the default is identity, as in Python."""
    plain = COMPARE[op]
    name, reflected = f"__{plain.__name__}__", f"__{COMPARE[REFLECTED[op]].__name__}__"
    if type(a) in _PLAIN and type(b) in _PLAIN:
        return _numbers_or_values(s, plain, a, b)
    if type(a) is SymbolicId and op in ("==", "!="):
        return (a == b) is (op == "==")
    equality = op in ("==", "!=")
    classes = isinstance(a, type) and isinstance(b, type)
    if kind_of(a).python or kind_of(b).python or (classes and equality):
        names = {name, reflected, "__eq__"} if op == "!=" else {name, reflected}
        if _answers(s, a, names) or _answers(s, b, names):
            if equality:
                same(s, a, b)  # what it comes to when neither has an answer
            if not any(kind_of(x).python and is_value(type(x)) for x in (a, b)):
                return _of_instances(s, plain, a, b)
            found = _compared(s, (name, reflected), a, b)
            return same(s, a, b) is (op == "==") if found is MISSING and equality else found
        if equality and _compares_identity(a) and _compares_identity(b):
            return same(s, a, b) is (op == "==")
    found = _of_tensors(s, a, b, name, reflected)
    return _native_binary(s, plain, a, b) if found is MISSING else found


def _compared(s: Session, names: tuple[str, str], a: Any, b: Any) -> Any:
    """Result of the first method of two operands that gives one. One is a number, text or container
    of a class of the program, and no stand-in is one for native code."""
    for x, y, name in _order(a, b, *names):
        result = s.call(class_raw(s, kind_of(x).type_of(x), name), (x, y), {})
        if result is not NotImplemented:
            return result
    if "__eq__" in names or "__ne__" in names:
        return MISSING
    raise Break("opaque object", f"operands of which none answers {names[0]}()")


def _compares_identity(value: Any) -> bool:
    return getattr(type(value), "__eq__", None) is object.__eq__


def _types_differ(*values: Any) -> bool:
    """True if the two are of two types in Python: they are two objects."""
    first, second = (kind_of(v).type_of(v) for v in values)
    known = not any(isinstance(v, Chosen) for v in values)
    return known and first is not second


def same(s: Session, a: Any, b: Any) -> bool:
    """`a is b`; two objects from outside that differ stay different (or the guard fails)."""
    a, b = (s.known(v) if isinstance(v, SymNumber) and v.pytype is bool else v for v in (a, b))
    if a is None or b is None or type(a) is bool or type(b) is bool:
        return a is b
    alike = any(isinstance(a, kind) and isinstance(b, kind) for kind in (Tensor, tuple))
    for loop in s.rolls if alike else ():
        loop.look("identity")
    for value in (a, b):  # equal is not enough
        if s.outside.pin(value):
            s.bound_to = "the identity of a constant"
    s.ties.compared(a, b)
    if a is b:
        return True
    for kind, what in ((SymNumber, "number"), (Text, "text")):
        if isinstance(a, kind) or isinstance(b, kind):
            if _types_differ(a, b):
                return False
            raise Break("data dependent", f"the identity of a {what} is asked for")
    first, second = s.outside.shadow(a), s.outside.shadow(b)
    if first is not None and second is not None and type(a) is type(b):
        s.guard(Same, first.origin, second.origin, same=False)
    return False
