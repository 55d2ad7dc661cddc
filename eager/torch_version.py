"""At the edge: `eager.torch_version`, a version that can be compared. "2.13.0" -> what is greater
than "2.9" and (2, 9)."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from typing import Any, Final

__all__ = ["TorchVersion"]

_RELEASE: Final = re.compile(r"\d+(\.\d+)*")


def _numbers(version: Any) -> list[Any]:
    """(2, 9), "2.9.0" and "2.9.0a1+cpu" as [2, 9]; [] for what is no version."""
    if not isinstance(version, tuple | list):
        found = _RELEASE.match(str(version))
        version = found.group().split(".") if found else ()
    numbers = [int(each) for each in version if str(each).isdigit()]
    while numbers and not numbers[-1]:
        numbers.pop()
    return numbers


def _compared(name: str) -> Callable[[Any, Any], Any]:
    how, of_text = getattr(operator, name), getattr(str, name)

    def compare(self: str, other: Any) -> Any:
        theirs = _numbers(other)
        return how(_numbers(self), theirs) if theirs else of_text(self, other)

    return compare


class TorchVersion(str):
    """Text that is ordered by its numbers, also beside tuples of them."""

    __slots__ = ()
    __eq__, __ne__ = _compared("__eq__"), _compared("__ne__")
    __lt__, __le__ = _compared("__lt__"), _compared("__le__")
    __gt__, __ge__ = _compared("__gt__"), _compared("__ge__")
    __hash__ = str.__hash__
