"""Capture: iterators and generators."""

from __future__ import annotations

from types import GeneratorType
from typing import Any

from jitcap.capture.kinds.base import Args, Kwargs, Session, kind_of
from jitcap.capture.kinds.constants import OPAQUE, NativeKind
from jitcap.capture.origin import Origin


class IteratorKind(NativeKind):
    """An iterator of a builtin type, made inside; one from outside is opaque."""

    def load(self, s: Session, real: Any, origin: Origin) -> Any:
        return OPAQUE.load(s, real, origin)


class GeneratorKind(NativeKind):
    """A generator whose body is interpreted."""

    def type_of(self, value: Any) -> type:
        return GeneratorType

    def iter(self, s: Session, obj: Any) -> Any:
        return obj

    def call(self, s: Session, fn: Any, args: Args, kwargs: Kwargs) -> Any:
        raise TypeError("'generator' object is not callable")


class InterpretedIterator:
    """An iterator of a Python class in the hands of native code."""

    def __init__(self, s: Session, iterator: Any) -> None:
        self._session = s
        self._iterator = iterator

    def __iter__(self) -> InterpretedIterator:
        return self

    def __next__(self) -> Any:
        return kind_of(self._iterator).next(self._session, self._iterator)


def driven(s: Session, iterator: Any) -> Any:
    """An iterator, for native code to drive."""
    if kind_of(iterator).python:
        return InterpretedIterator(s, iterator)
    return iterator
