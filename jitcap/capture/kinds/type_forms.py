"""Capture: `List`, `Optional` and the like, which make types. form, parameters -> an alias.

The `typing` module makes aliases in Python, and packages replace parts of it: it is not read, where
what it gets are types and constants.
"""

from __future__ import annotations

import typing
from typing import Any

from jitcap.capture.kinds.base import Args, Kwargs, Session, kind_of, of
from jitcap.capture.kinds.constants import StaticKind

_ALIAS: Any = type(typing.List[int])  # noqa: UP006 - what `typing` makes


@of(*{type(form) for form in (typing.List, typing.Tuple, typing.Callable, typing.Literal,  # noqa: UP006
                              typing.Optional, typing.ClassVar)})  # fmt: skip
class FormKind(StaticKind):
    """A form of `typing`: it never changes."""

    def getitem(self, s: Session, obj: Any, key: Any) -> Any:
        return obj[key] if _is_known(s, key) else super().getitem(s, obj, key)

    def call(self, s: Session, fn: Any, args: Args, kwargs: Kwargs) -> Any:
        own: Any = type(fn).__call__
        return s.interpret(own, (fn, *args), kwargs)


def _is_known(s: Session, key: Any) -> bool:
    """True if parameters of a type are those of the program, not what stands for them."""
    if isinstance(key, tuple | list):
        return type(key) in (tuple, list) and all(_is_known(s, each) for each in key)
    if isinstance(key, type):
        return id(key) not in s.made
    if isinstance(key, _ALIAS) and not hasattr(key, "__metadata__"):
        made_here = s.outside.shadow(key) is None
        return made_here and _is_known(s, (key.__origin__, *key.__args__))
    return kind_of(key).constant
