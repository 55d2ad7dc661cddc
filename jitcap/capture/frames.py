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
    keywords = s.outside.by_real.get(id(fn.__kwdefaults__))
    if keywords is not None:  # the program may have written to them
        s.settle(keywords.twin)
    frame.fast = bind_arguments(
        fn,
        args,
        kwargs,
        fn.__kwdefaults__ if keywords is None else keywords.twin,
        lambda field, holder, key: _default(s, fn, field, holder, key),
    )
    for i, name in enumerate(fn.__code__.co_freevars):
        frame.fast[name] = closure_cell(s, fn, i)
    return frame


def real_frame(fn: FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Frame:
    """A frame of `fn` on real values."""
    frame = Frame(fn.__code__, fn.__globals__, fn)
    frame.fast = bind_arguments(fn, args, kwargs, fn.__kwdefaults__, lambda _, held, key: held[key])
    frame.fast |= dict(zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True))
    return frame


Default = Callable[[str, Any, Any], Any]  # (which defaults, the defaults, key) -> value


def bind_arguments(
    fn: FunctionType,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    kwdefaults: dict[str, Any] | None,
    default: Default,
) -> dict[str, Any]:
    """Parameter name -> value, by Python's rules."""
    code = fn.__code__
    count, only = code.co_argcount, code.co_kwonlyargcount
    names = code.co_varnames
    slots: dict[str, Any] = dict(zip(names[:count], args, strict=False))
    if code.co_flags & VARARGS:
        slots[names[count + only]] = args[count:]
    fits = bool(code.co_flags & VARARGS) or len(args) <= count
    if kwargs or code.co_flags & VARKEYWORDS:
        fits &= _bind_keywords(code, slots, kwargs)
    missing = [n for n in names[: count + only] if n not in slots]
    defaults, kwdefaults = fn.__defaults__ or (), kwdefaults or {}
    by_name = {names[count - len(defaults) + i]: i for i in range(len(defaults))}
    if not fits or any(n not in by_name and n not in kwdefaults for n in missing):
        raise _misfit(fn, args, kwargs, kwdefaults)
    for name in missing:
        if name in by_name:
            slots[name] = default("__defaults__", defaults, by_name[name])
        else:
            slots[name] = default("__kwdefaults__", kwdefaults, name)
    return slots


def _bind_keywords(code: CodeType, slots: dict[str, Any], kwargs: dict[str, Any]) -> bool:
    """Whether they fit."""
    last = code.co_argcount + code.co_kwonlyargcount
    allowed = code.co_varnames[code.co_posonlyargcount : last]
    rest = {name: value for name, value in kwargs.items() if name not in allowed}
    named = {name: value for name, value in kwargs.items() if name in allowed}
    fits = slots.keys().isdisjoint(named)
    slots |= named
    if code.co_flags & VARKEYWORDS:
        slots[code.co_varnames[last + bool(code.co_flags & VARARGS)]] = rest
        return fits
    return fits and not rest


def _misfit(
    fn: FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any], kwdefaults: dict[str, Any]
) -> TypeError:
    """What CPython says of a call that does not fit: it is asked, with a function of the same
    signature that does nothing."""
    code = fn.__code__.replace(
        co_code=_NOTHING.co_code, co_consts=_NOTHING.co_consts, co_names=(), co_freevars=(),
        co_cellvars=(), co_exceptiontable=b"", co_linetable=_NOTHING.co_linetable,
        co_flags=fn.__code__.co_flags & (VARARGS | VARKEYWORDS) | _NOTHING.co_flags,
    )  # fmt: skip
    stub = FunctionType(code, {}, fn.__name__, fn.__defaults__)
    stub.__qualname__, stub.__kwdefaults__ = fn.__qualname__, kwdefaults
    try:
        stub(*args, **kwargs)
    except TypeError as error:
        return error.with_traceback(None)
    raise AssertionError(f"the arguments fit {fn.__qualname__}()")


_NOTHING: Final = (lambda: None).__code__


def _default(s: Session, fn: FunctionType, field: str, holder: Any, key: Any) -> Any:
    """One default value. A constant needs only that the holder is the same; others are loaded."""
    value = holder[key]
    owner: Origin | None = s.outside.origin_of(fn)
    if id(fn) in s.made:
        return value
    if field == "__kwdefaults__":
        return s.getitem(s.getattr(fn, field), key)
    place = Attribute(owner or Fixed(fn, fn.__qualname__), field)
    s.outside.guard(Is(place, s.line(), holder))
    if kind_of_class(type(value)).constant:
        return value
    return s.outside.load(value, Item(place, key))
