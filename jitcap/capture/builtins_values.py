"""Capture: builtins on numbers and text, and the operator module. builtin -> handler(world, ...).

Registered beside those of `builtins.py`, for the same table.
"""

from __future__ import annotations

import json
import math
import operator
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from eager.interop import as_tensor, asarray, from_numpy, tensor
from eager.sym import SymNumber, emit_scalar
from eager.tensor import Tensor
from jitcap.capture import arrays
from jitcap.capture.breaks import Break
from jitcap.capture.builtins import HANDLERS, Handler, Identity, handles, python_method
from jitcap.capture.deferred import Deferred

if TYPE_CHECKING:
    from jitcap.capture.world import World


def _number(cls: type) -> Handler:
    def handler(world: World, *args: Any, **kwargs: Any) -> Any:
        if len(args) > 1 or kwargs:  # complex(re, im), int(text, base)
            args = tuple(map(world.known, args))
            kwargs = {k: world.known(v) for k, v in kwargs.items()}
        if args and isinstance(args[0], SymNumber):
            return world.cast_number(args[0], cls)
        if args and isinstance(args[0], Tensor):
            return world.cast_number(args[0].item(), cls)
        method = python_method(world, args[0], f"__{cls.__name__}__") if args else None
        if method is not None:
            return world.call(method, args, kwargs)
        world.see_within(args, f"{cls.__name__}()")
        return cls(*args, **kwargs)

    return handler


HANDLERS[int] = _number(int)
HANDLERS[float] = _number(float)
HANDLERS[complex] = _number(complex)


@handles(bool)
def _bool(world: World, value: Any = False) -> bool:
    return world.truth(value)


def _by_method(fn: Any, name: str) -> Handler:
    """A builtin that asks its first argument."""

    def handler(world: World, value: Any, *rest: Any) -> Any:
        method = python_method(world, value, name)
        if method is not None and not isinstance(value, Tensor):
            return world.call(method, (value, *rest), {})
        if fn is hash:
            world.bound_to = "hash()"
        if fn is hash and world.hashes_identity(value):
            return Identity(hash(value))
        return world.native(fn, tuple(map(world.known, (value, *rest))), {})

    return handler


for _fn, _name in {hash: "__hash__", math.floor: "__floor__", math.ceil: "__ceil__",
                   math.trunc: "__trunc__", operator.index: "__index__"}.items():  # fmt: skip
    HANDLERS[_fn] = _by_method(_fn, _name)


@handles(abs)
def _abs(world: World, value: Any) -> Any:
    method = python_method(world, value, "__abs__")
    if method is not None:
        return world.call(method, (value,), {})
    world.see(value, "abs()")
    return abs(value)


@handles(divmod)
def _divmod(world: World, a: Any, b: Any) -> Any:
    return world.binary("divmod", a, b)


@handles(pow)
def _power(world: World, base: Any, exp: Any, mod: Any = None) -> Any:
    if mod is None:
        return world.binary("**", base, exp)
    return _by_method(pow, "__pow__")(world, base, exp, mod)


@handles(round)
def _round(world: World, value: Any, *digits: Any, ndigits: Any = None) -> Any:
    digits = digits or (() if ndigits is None else (ndigits,))
    method = python_method(world, value, "__round__")
    if method is not None:
        return world.call(method, (value, *digits), {})
    if isinstance(value, SymNumber | Deferred):
        return Deferred(round, (value, *digits))
    return world.native(round, (value, *digits), {})


def _text(fn: Any, dunder: str) -> Handler:
    def handler(world: World, *args: Any, **kwargs: Any) -> Any:
        if not args:
            return fn(**kwargs)
        method = python_method(world, args[0], dunder)
        if method is None and dunder == "__str__":
            method = python_method(world, args[0], "__repr__")
        if method is not None and not isinstance(args[0], Tensor):
            return world.call(method, (args[0],), {})
        return world.text(fn, args, kwargs)

    return handler


HANDLERS[str] = _text(str, "__str__")
HANDLERS[repr] = _text(repr, "__repr__")


def _pure(fn: Any) -> Handler:
    def handler(world: World, *args: Any, **kwargs: Any) -> Any:
        return world.native(fn, tuple(map(world.known, args)), kwargs)

    return handler


for _name in "compile escape findall finditer fullmatch match search split sub subn".split():
    HANDLERS[getattr(re, _name)] = _pure(getattr(re, _name))


@handles(json.dumps)
def _dumps(world: World, value: Any, **options: Any) -> Any:
    if any(callable(v) for v in options.values()):
        raise Break("unknown call", "json.dumps() with functions is called")
    return world.text(json.dumps, (value,), options)


HANDLERS[json.loads] = _pure(json.loads)


@handles(format)
def _format(world: World, value: Any, spec: Any = "") -> Any:
    return world.format(value, spec)


_MATH: Final = {
    math.sqrt: "sqrt", math.exp: "exp", math.log: "log", math.sin: "sin", math.cos: "cos",
    math.tan: "tan", math.tanh: "tanh", math.sinh: "sinh", math.cosh: "cosh", math.atan: "atan",
    math.asin: "asin", math.acos: "acos", math.log1p: "log1p", math.expm1: "expm1",
    math.log2: "log2", math.fabs: "abs", math.erf: "erf",
}  # fmt: skip


def _math(fn: Any, op: str) -> Handler:
    def handler(world: World, *args: Any) -> Any:
        if len(args) == 1 and isinstance(args[0], SymNumber):
            return emit_scalar(op, float, args[0])
        return world.native(fn, tuple(map(world.known, args)), {})

    return handler


for _fn, _op in _MATH.items():
    HANDLERS[_fn] = _math(_fn, _op)


@handles(math.pow)
def _pow(world: World, x: Any, y: Any) -> Any:
    if isinstance(x, SymNumber) or isinstance(y, SymNumber):
        return world.binary("**", world.cast_number(x, float), world.cast_number(y, float))
    return math.pow(x, y)


_OPERATORS: Final = {
    operator.add: "+", operator.sub: "-", operator.mul: "*", operator.truediv: "/",
    operator.floordiv: "//", operator.mod: "%", operator.pow: "**", operator.matmul: "@",
    operator.and_: "&", operator.or_: "|", operator.xor: "^", operator.lshift: "<<",
    operator.rshift: ">>", operator.iadd: "+=", operator.isub: "-=", operator.imul: "*=",
    operator.itruediv: "/=",
}  # fmt: skip
for _operator, _op in _OPERATORS.items():
    HANDLERS[_operator] = lambda world, a, b, _op=_op: world.binary(_op, a, b)
for _compare, _op in {operator.lt: "<", operator.le: "<=", operator.eq: "==", operator.ne: "!=",
                 operator.gt: ">", operator.ge: ">="}.items():  # fmt: skip
    HANDLERS[_compare] = lambda world, a, b, _op=_op: world.compare(_op, a, b)
HANDLERS[operator.getitem] = lambda world, a, b: world.getitem(a, b)
HANDLERS[operator.setitem] = lambda world, a, b, c: world.setitem(a, b, c)
HANDLERS[operator.is_] = lambda world, a, b: world.same(a, b)
HANDLERS[operator.contains] = lambda world, a, b: world.contains(b, a)
HANDLERS[operator.truth] = lambda world, a: world.truth(a)
HANDLERS[operator.not_] = lambda world, a: not world.truth(a)
HANDLERS[operator.neg] = lambda world, a: world.unary("UNARY_NEGATIVE", a)


# ---- tensors of arrays


def _converting(fn: Callable[..., Tensor]) -> Handler:
    def handler(world: World, data: Any, *args: Any, **kwargs: Any) -> Any:
        shared = arrays.tensor_of(world, data)
        if shared is not data and fn is from_numpy:
            return shared
        return world.native(fn, (shared, *args), kwargs)

    return handler


for _fn in (as_tensor, asarray, from_numpy, tensor):
    HANDLERS[_fn] = _converting(_fn)
