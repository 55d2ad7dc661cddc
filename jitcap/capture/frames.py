"""Capture: how a call's arguments become a frame's locals. (function, args, kwargs) -> Frame."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from types import CodeType, FunctionType
from typing import Any, Final, NamedTuple

from jitcap.base.origin import Attribute, Fixed, Item, Origin
from jitcap.capture.interpret import Frame
from jitcap.capture.kinds.base import Session, kind_of_class
from jitcap.capture.kinds.cells import closure_cell
from jitcap.guards.guard import Is

VARARGS: Final = 0x04
VARKEYWORDS: Final = 0x08


def frame_for(s: Session, fn: FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Frame:
    """A frame of `fn`, arguments bound, closure in place. Raises TypeError as Python."""
    frame = Frame(fn.__code__, fn.__globals__, fn)
    keywords = s.outside.by_real.get(id(fn.__kwdefaults__))
    if keywords is not None:  # the program may have written to them
        s.settle(keywords.twin)
    elif id(fn) in s.made and fn.__kwdefaults__ is not None:
        s.settle(fn.__kwdefaults__)  # it may be given those of another function
    named = fn.__kwdefaults__ if keywords is None else keywords.twin
    try:
        frame.fast = bind_arguments(fn, args, kwargs, named, partial(_default, s, fn))
    except TypeError:
        _rely_on_absence(s, fn)
        raise
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


class _Left(NamedTuple):
    """Stands for the default of a parameter that the call leaves out."""

    field: str
    holder: Any
    key: Any


def bind_arguments(
    fn: FunctionType,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    kwdefaults: dict[str, Any] | None,
    default: Default,
) -> dict[str, Any]:
    """Parameter name -> value, by Python's rules and in its words: it is asked, with a function of
    the same signature that gives its locals."""
    code = fn.__code__
    fits = len(args) == code.co_argcount and not (kwargs or code.co_kwonlyargcount)
    if fits and not code.co_flags & (VARARGS | VARKEYWORDS):  # most calls
        return dict(zip(code.co_varnames, args, strict=False))
    given, named = fn.__defaults__ or (), kwdefaults or {}
    defaults = tuple(_Left("__defaults__", given, i) for i in range(len(given)))
    binder = FunctionType(_binding(code), _SPACE, fn.__name__, defaults)
    binder.__kwdefaults__ = {name: _Left("__kwdefaults__", named, name) for name in named}
    binder.__qualname__ = fn.__qualname__
    try:
        bound = binder(*args, **kwargs)
    except TypeError as error:
        raise error.with_traceback(None) from None
    return {name: default(*v) if type(v) is _Left else v for name, v in bound.items()}


@lru_cache(maxsize=4096)
def _binding(code: CodeType) -> CodeType:
    flags = code.co_flags & (VARARGS | VARKEYWORDS) | _GIVING.co_flags
    return code.replace(
        co_code=_GIVING.co_code, co_consts=_GIVING.co_consts, co_names=_GIVING.co_names,
        co_freevars=(), co_cellvars=(), co_exceptiontable=b"", co_linetable=_GIVING.co_linetable,
        co_flags=flags, co_stacksize=_GIVING.co_stacksize,
    )  # fmt: skip


_GIVING: Final = (lambda: locals()).__code__  # noqa: PLW0108 - its code is wanted
_SPACE: Final = {"locals": locals}


def _default(s: Session, fn: FunctionType, field: str, holder: Any, key: Any) -> Any:
    """One default value. A constant needs only that the holder is the same; others are loaded."""
    value = holder[key]
    if id(fn) in s.made:
        return value
    if field == "__kwdefaults__":
        return s.getitem(s.getattr(fn, field), key)
    place = _defaults_of(s, fn)
    s.guard(Is, place, holder)
    if kind_of_class(type(value)).constant:
        return value
    return s.outside.load(value, Item(place, key))


def _defaults_of(s: Session, fn: FunctionType) -> Origin:
    place = s.defaults.get(id(fn))
    if place is None:
        owner: Origin = s.outside.origin_of(fn) or Fixed(fn, fn.__qualname__)
        place = s.defaults[id(fn)] = Attribute(owner, "__defaults__")
    return place


def _rely_on_absence(s: Session, fn: FunctionType) -> None:
    """Guards for a call that does not fit: there are no defaults that would make it fit."""
    if id(fn) in s.made:
        return
    s.guard(Is, _defaults_of(s, fn), fn.__defaults__)
    held, code = s.getattr(fn, "__kwdefaults__"), fn.__code__
    if held is not None:
        for name in code.co_varnames[code.co_argcount :][: code.co_kwonlyargcount]:
            s.contains(name, held)
