"""Capture: how a call's arguments become a frame's locals. (function, args, kwargs) -> Frame."""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any, Final

from jitcap.capture.interpret import Frame
from jitcap.capture.kinds.base import Session, kind_of_class
from jitcap.capture.kinds.cells import closure_cell
from jitcap.capture.origin import Attribute, Fixed, Item, Origin
from jitcap.guards import Is

VARARGS: Final = 0x04
VARKEYWORDS: Final = 0x08


def frame_for(s: Session, fn: FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Frame:
    """A frame of `fn`, arguments bound, closure in place. Raises TypeError as Python."""
    frame = Frame(fn.__code__, fn.__globals__, fn)
    frame.fast = bind_arguments(
        fn, args, kwargs, lambda field, holder, key: _default(s, fn, field, holder, key)
    )
    for i, name in enumerate(fn.__code__.co_freevars):
        frame.fast[name] = closure_cell(s, fn, i)
    return frame


def real_frame(fn: FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Frame:
    """A frame of `fn` on real values."""
    frame = Frame(fn.__code__, fn.__globals__, fn)
    frame.fast = bind_arguments(fn, args, kwargs, lambda field, holder, key: holder[key])
    frame.fast |= dict(zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True))
    return frame


Default = Callable[[str, Any, Any], Any]  # (which defaults, the defaults, key) -> value


def bind_arguments(
    fn: FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any], default: Default
) -> dict[str, Any]:
    """Parameter name -> value, by Python's rules."""
    code = fn.__code__
    count, only = code.co_argcount, code.co_kwonlyargcount
    names = code.co_varnames
    slots: dict[str, Any] = dict(zip(names[:count], args, strict=False))
    if code.co_flags & VARARGS:
        slots[names[count + only]] = args[count:]
    elif len(args) > count:
        raise TypeError(
            f"{fn.__qualname__}() takes {count} positional arguments but {len(args)} were given"
        )
    _bind_keywords(fn, slots, kwargs)
    missing = [n for n in names[: count + only] if n not in slots]
    if missing:
        _bind_defaults(fn, slots, missing, default)
    return slots


def _bind_keywords(fn: FunctionType, slots: dict[str, Any], kwargs: dict[str, Any]) -> None:
    code = fn.__code__
    last = code.co_argcount + code.co_kwonlyargcount
    allowed = code.co_varnames[code.co_posonlyargcount : last]
    rest: dict[str, Any] = {}
    for name, value in kwargs.items():
        if name not in allowed:
            rest[name] = value
        elif name in slots:
            raise TypeError(f"{fn.__qualname__}() got multiple values for argument {name!r}")
        else:
            slots[name] = value
    if code.co_flags & VARKEYWORDS:
        slots[code.co_varnames[last + bool(code.co_flags & VARARGS)]] = rest
    elif rest:
        raise TypeError(
            f"{fn.__qualname__}() got an unexpected keyword argument {next(iter(rest))!r}"
        )


def _bind_defaults(
    fn: FunctionType, slots: dict[str, Any], missing: list[str], default: Default
) -> None:
    code: CodeType = fn.__code__
    defaults = fn.__defaults__ or ()
    first = code.co_argcount - len(defaults)
    by_name = {code.co_varnames[first + i]: i for i in range(len(defaults))}
    kwdefaults = fn.__kwdefaults__ or {}
    unbound = [n for n in missing if n not in by_name and n not in kwdefaults]
    if unbound:
        raise _missing(fn, unbound)
    for name in missing:
        if name in by_name:
            slots[name] = default("__defaults__", defaults, by_name[name])
        else:
            slots[name] = default("__kwdefaults__", kwdefaults, name)


def _missing(fn: FunctionType, unbound: list[str]) -> TypeError:
    """The error of a call without these arguments, in CPython's words."""
    positional = [n for n in unbound if n in fn.__code__.co_varnames[: fn.__code__.co_argcount]]
    kind, names = ("positional", positional) if positional else ("keyword-only", unbound)
    quoted = [repr(n) for n in names]
    shown = (
        " and ".join(quoted) if len(quoted) < 3 else f"{', '.join(quoted[:-1])}, and {quoted[-1]}"
    )
    plural = "s" if len(names) > 1 else ""
    return TypeError(
        f"{fn.__qualname__}() missing {len(names)} required {kind} argument{plural}: {shown}"
    )


def _default(s: Session, fn: FunctionType, field: str, holder: Any, key: Any) -> Any:
    """One default value. A constant needs only that the holder is the same; others are loaded."""
    value = holder[key]
    owner: Origin | None = s.outside.origin_of(fn)
    if id(fn) in s.made:
        return value
    place = Attribute(owner or Fixed(fn, fn.__qualname__), field)
    s.outside.guard(Is(place, s.line(), holder))
    if kind_of_class(type(value)).constant and isinstance(holder, tuple):
        return value
    return s.outside.load(value, Item(place, key))
