"""Beside the readers: how a file is refused. a fault -> an error that says what, where, what to do.

`DAMAGE` lists what a reader may run into while it follows bytes that nobody wrote on purpose;
`eager.load` turns each into a `LoadError`.
"""

from __future__ import annotations

import struct
import zipfile
import zlib
from pickle import UnpicklingError
from typing import Any

DAMAGED = "the file is damaged: get or write it again"
DAMAGE = (
    zipfile.BadZipFile, zlib.error, struct.error, EOFError,
    LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RuntimeError,
)  # fmt: skip


class LoadError(RuntimeError, UnpicklingError):
    """A file that is not read: what is wrong, where in the file, and what to do.

    PyTorch raises RuntimeError for some faults and UnpicklingError for others; this is both."""

    def __init__(self, what: str, where: str = "", advice: str = DAMAGED) -> None:
        super().__init__(what, where, advice)
        self.file = "the file"

    def __str__(self) -> str:
        what, where, advice = self.args
        return f"eager.load: {self.file}{where and ', '}{where}: {what}; {advice}"


class UsersError(Exception):
    """Carries an exception of a user's own function (`map_location=`, an allowed class) outside."""

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error


def size_of(value: Any, what: str) -> int:
    """A count that a file states: an int that is not negative."""
    if type(value) is not int or value < 0:
        raise LoadError(f"{what} is {value!r:.80}, not a count")
    return value


def hashable(key: Any) -> Any:
    """`key`, which may be a key or a member of a set: nested tuples are walked once, not deeply.

    A small file can hold a tuple of tuples whose hash takes years or all of the stack."""
    rest, seen = [key], 0
    while rest:
        each = rest.pop()
        seen += 1
        if isinstance(each, tuple | frozenset):
            rest.extend(each)
        if seen + len(rest) > 10_000:
            raise LoadError("a key is a tuple of more than 10000 nested values")
    return key


def give_attributes(value: Any, attributes: Any) -> None:
    """Attributes that a file states for an object; none may hide what its class has."""
    for name in attributes:
        if type(name) is not str or hasattr(value, name):
            raise LoadError(f"the attribute {name!r:.80} of a {type(value).__name__} is not free")
    vars(value).update(attributes)
