"""Capture: builtins on numbers and text, and the operator module. builtin -> handler(s, ...).

Registered beside those of `objects.py`, for the same table.
"""

from __future__ import annotations

import json
import math
import operator
import re
import struct
from types import BuiltinFunctionType, MethodType, MethodWrapperType
from typing import Any, Final

import numpy as np

import eager
from eager.base.dtype import get_default_dtype
from eager.construct.interop import (
    as_tensor,
    asarray,
    copied,
    from_numpy,
    number,
    numpy,
    tensor,
    tolist,
)
from eager.construct.typed_constructors import LEGACY_CONSTRUCTORS
from eager.core.sym import NUMBERS, SymNumber
from eager.core.tensor import Tensor
from eager.core.traced import Traced
from eager.nn.modules.module import Module
from jitcap.base.breaks import Break
from jitcap.capture import numbers
from jitcap.capture.builtins.objects import identity
from jitcap.capture.control.minmax import called
from jitcap.capture.kinds.base import (
    HANDLERS,
    MISSING,
    Session,
    checked,
    handles,
    handles_each,
    hashes_identity,
    is_method,
    kind_of,
)
from jitcap.capture.kinds.constants import refuse_own_text
from jitcap.capture.kinds.deferred import Deferred, defer
from jitcap.capture.kinds.tensors import tensor_of, warn_of_array
from jitcap.capture.operations import BINARY, COMPARE, INPLACE, UNARY


@handles_each(int, float, complex)
def _number(s: Session, cls: type, /, *args: Any, **kwargs: Any) -> Any:
    if len(args) > 1 or kwargs:  # complex(re, im), int(text, base)
        s.see_within((*args, *kwargs.values()), f"{cls.__name__}()")
        return s.pure(cls, args, kwargs)
    if args and isinstance(args[0], SymNumber):
        return numbers.cast(args[0], cls)
    if args and isinstance(args[0], Tensor):
        return numbers.cast(number(args[0]), cls)
    name = f"__{cls.__name__}__"
    method = s.special(args[0], name) if args else None
    if method is not None:
        return checked(cls, args[0], name, s.call(method, args, kwargs))
    s.see_within(args, f"{cls.__name__}()")
    return s.call_native(cls, args, kwargs)


@handles(bool)
def _bool(s: Session, value: Any = False, /) -> Any:
    if isinstance(value, SymNumber):  # nothing is decided yet
        return numbers.cast(s.compare("!=", value, 0), bool)  # of one of NumPy, NumPy answers
    return s.as_bool(value)


@handles_each(hash, operator.index)
def _by_method(s: Session, fn: Any, value: Any, *rest: Any) -> Any:
    """A builtin that asks its first argument."""
    name = f"__{fn.__name__}__"
    method = s.special(value, name)
    if method is not None and not isinstance(value, Tensor):
        answer = s.call(method, (value, *rest), {})
        return checked(fn, value, name, answer) if fn in (hash, operator.index) else answer
    if fn is hash:
        s.bound_to = "hash()"
        if hashes_identity(value):
            return identity(s, value, hash)
        if _hashes_places(value):
            raise Break("data dependent", "hash() of objects that are told apart by identity")
    return s.native(fn, tuple(map(s.known, (value, *rest))), {})


def _hashes_places(value: Any) -> bool:
    if type(value) in (MethodType, BuiltinFunctionType, MethodWrapperType):
        return True
    return type(value) is tuple and any(hashes_identity(v) or _hashes_places(v) for v in value)


@handles_each(math.floor, math.ceil, math.trunc)
def _rounded(s: Session, fn: Any, value: Any, *digits: Any) -> Any:
    if isinstance(value, SymNumber):
        return s.tracer.number(fn, (value, *map(s.known, digits)))
    return _by_method(s, fn, value, *digits)


@handles(abs)
def _abs(s: Session, value: Any) -> Any:
    found = s.asked(value, "__abs__")
    if found is not MISSING:
        return found
    kind_of(value).see(s, value, "abs()")
    return abs(value)


@handles(pow)
def _power(s: Session, base: Any, exp: Any, mod: Any = None) -> Any:
    if mod is None:
        return s.binary("**", base, exp)
    if all(isinstance(x, SymNumber | int) for x in (base, exp, mod)) and any(
        isinstance(x, SymNumber) for x in (base, exp, mod)
    ):
        return s.tracer.number(pow, (base, exp, mod))
    return _by_method(s, pow, base, exp, mod)


@handles(round)
def _round(s: Session, /, number: Any, ndigits: Any = MISSING) -> Any:
    return _rounded(s, round, number, *(() if ndigits is MISSING else (ndigits,)))


@handles_each(max, min)
def _extreme(s: Session, builtin: Any, /, *args: Any, **kwargs: Any) -> Any:
    return called(s, builtin, args, kwargs)


@handles_each(str, repr)
def _text(s: Session, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
    if not args and "object" in kwargs:
        args = (kwargs.pop("object"),)
    if len(args) != 1 or kwargs:
        return s.pure(fn, args, kwargs)
    method = s.special(args[0], name := f"__{fn.__name__}__")
    if method is None and fn is str and is_method(type(args[0]), "__str__", object):
        method = s.special(args[0], name := "__repr__")
    if method is not None and not isinstance(args[0], Tensor):
        answer = s.call(method, (args[0],), {})
        return answer if type(answer) is str else checked(fn, args[0], name, answer)
    return kind_of(args[0]).text(s, fn, args, kwargs)


@handles(ascii)
def _ascii(s: Session, value: Any, /) -> Any:
    text = s.call(repr, (value,), {})
    if not isinstance(text, str):
        return defer(s, ascii, (value,))
    return str.encode(text, "ascii", "backslashreplace").decode("ascii")


@handles_each(
    re.compile, re.escape, re.findall, re.finditer, re.fullmatch, re.match, re.search,
    re.split, re.sub, re.subn,
)  # fmt: skip
def _pure(s: Session, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
    return s.pure(fn, args, kwargs)


@handles_each(struct.pack, struct.pack_into)
def _pack(s: Session, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
    if any(isinstance(a, Tensor) for a in args):  # it hides what their `__float__` raises
        raise Break("data dependent", f"{fn.__name__}() of a tensor")
    return s.pure(fn, args, kwargs)


for _name in ("pack", "pack_into"):
    HANDLERS[struct.Struct, _name] = lambda s, owner, /, *args, _name=_name, **kwargs: _pack(
        s, getattr(owner, _name), *args, **kwargs
    )


@handles(json.loads)
def _loads(s: Session, /, *args: Any, **kwargs: Any) -> Any:
    if any(isinstance(v, type) for v in kwargs.values()):
        raise Break("unknown call", "json.loads() with a class is called")
    return s.pure(json.loads, args, kwargs)


@handles(json.dumps)
def _dumps(s: Session, /, obj: Any, **options: Any) -> Any:
    if any(callable(v) for v in options.values()):
        raise Break("unknown call", "json.dumps() with functions is called")
    s.settle(obj)
    s.see_within(obj, "json.dumps()")
    return kind_of(obj).text(s, json.dumps, (obj,), options)


@handles(format)
def _format(s: Session, value: Any, spec: Any = "") -> Any:
    if isinstance(spec, Deferred):
        refuse_own_text(s, (value,))
        return defer(s, format, (value, spec))
    method = s.special(value, "__format__")
    if method is not None:
        answer = s.call(method, (value, spec), {})
        return answer if type(answer) is str else checked(format, value, "__format__", answer)
    if is_method(type(value), "__format__", object) and kind_of(value).python and not spec:
        return s.call(str, (value,), {})
    return kind_of(value).text(s, format, (value, spec), {})


_MATH: Final = (
    "sqrt exp log sin cos tan tanh sinh cosh atan asin acos log1p expm1 log2 log10 fabs erf pow "
    "atan2 hypot fmod copysign isnan isinf isfinite degrees radians cbrt exp2 gamma lgamma erfc "
    "asinh acosh atanh remainder"
).split()


@handles_each(*(getattr(math, name) for name in _MATH))
def _math(s: Session, fn: Any, *args: Any) -> Any:
    args = tuple(map(_number_of, args))
    numbers = [isinstance(x, NUMBERS) and not kind_of(x).python for x in args]
    if any(isinstance(x, SymNumber) for x in args) and all(numbers):
        return s.tracer.number(fn, args)
    return s.pure(fn, args, {})


def _number_of(value: Any) -> Any:
    return value.item() if isinstance(value, Tensor) and value.numel() == 1 else value


for _op, _fn in (BINARY | INPLACE).items():
    HANDLERS[_fn] = lambda s, a, b, /, *, _op=_op: s.binary(_op, a, b)
for _op, _fn in COMPARE.items():
    HANDLERS[_fn] = lambda s, a, b, /, *, _op=_op: s.compare(_op, a, b)
for _op, _fn in UNARY.items():
    HANDLERS[_fn] = lambda s, a, /, *, _op=_op: s.unary(_op, a)
HANDLERS[divmod] = lambda s, a, b, /: s.binary("divmod", a, b)
HANDLERS[operator.getitem] = Session.getitem
HANDLERS[operator.setitem] = Session.setitem
HANDLERS[operator.is_] = lambda s, a, b, /: s.same(a, b)
HANDLERS[operator.contains] = lambda s, a, b, /: s.contains(b, a)
HANDLERS[operator.truth] = Session.truth
HANDLERS[operator.call] = lambda s, fn, /, *args, **kwargs: s.call(fn, args, kwargs)
HANDLERS[operator.not_] = lambda s, a, /: not s.truth(a)


# ---- tensors of arrays


_OF_DATA: Final = (as_tensor, asarray, tensor, eager.as_tensor, eager.asarray, eager.tensor)


@handles_each(*_OF_DATA, from_numpy, Tensor, *LEGACY_CONSTRUCTORS)
def _converted(s: Session, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
    given = args[0] if args else None
    shared = _data(s, given)
    if shared is given:
        return s.native(fn, args, kwargs)
    if fn is from_numpy:
        warn_of_array(s, given)
        return shared
    if fn is Tensor:
        return s.native(copied, (shared, *args[1:]), {**kwargs, "dtype": get_default_dtype()})
    if fn is tensor or fn is eager.tensor:
        fn = copied
    return s.native(fn, (shared, *args[1:]), kwargs)


def _data(s: Session, given: Any) -> Any:
    """The data of a new tensor. A module in native code's hands can be called, and no more."""
    if isinstance(given, Module):
        raise Break("opaque object", f"a tensor made of a {type(given).__qualname__}")
    return tensor_of(s, given)


_NEW_TENSOR: Final[Any] = vars(Tensor)["new_tensor"]


@handles(_NEW_TENSOR)
def _new_tensor(s: Session, like: Tensor, /, *args: Any, **kwargs: Any) -> Any:
    given = args[0] if args else kwargs.get("data")
    data = _data(s, given)
    if data is given:
        return s.native(_NEW_TENSOR, (like, *args), kwargs)
    given = {k: v for k, v in kwargs.items() if k != "data" and v is not None}
    return s.native(copied, (data,), {"dtype": like.dtype, "device": like.device, **given})


# ---- what the host makes of tensors


@handles(tolist)
def _tolist(s: Session, tensor: Tensor) -> Any:
    array = tensor._array
    if type(array) is not Traced or tensor.ndim == 0 or s.tracer.value(array.read()) is not None:
        return s.native(tolist, (tensor,), {})
    return Deferred(tolist, (tensor.detach(),), cls=list)


@handles(numpy)
def _numpy(s: Session, tensor: Tensor, *, force: bool = False) -> Any:
    """The array shares the tensor's memory: it is made of an alias, which shows later writes."""
    if type(tensor._array) is not Traced or (tensor.requires_grad and not s.truth(force)):
        return s.native(numpy, (tensor,), {"force": force})
    return Deferred(numpy, (tensor.detach(),), cls=np.ndarray)
