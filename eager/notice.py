"""At the edge: options of PyTorch's that have no meaning here. an option -> a warning, or an error.

An option that changes no result is ignored and says so once; one whose ignoring would change a
result raises, and says what to use.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

_said: set[str] = set()


class IgnoredOptionWarning(UserWarning):
    """An option that means nothing here was given. Said once per option."""


def warn_once(option: str, text: str) -> None:
    """Warn at the first use of `option` in this process, at the user's own line."""
    if option in _said:
        return
    _said.add(option)
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None:
        package = frame.f_globals.get("__name__", "").partition(".")[0]
        if package not in ("eager", "codegen", "jitcap"):
            break
        frame, level = frame.f_back, level + 1
    warnings.warn(text, IgnoredOptionWarning, stacklevel=level)


def ignore(function: str, **options: Any) -> None:
    """Warn once for each option that has a value other than None and False."""
    for name, value in options.items():
        if value is not None and value is not False:
            warn_once(f"{function} {name}", f"{function}: {name}={value!r} has no effect here")


def refuse(function: str, instead: str, **options: Any) -> None:
    """NotImplementedError for an option that has a value other than None and False."""
    for name, value in options.items():
        if value is not None and value is not False:
            raise NotImplementedError(f"{function}: {name}={value!r} is not there; {instead}")


def options(
    function: str, layout: Any = None, pin_memory: bool = False, memory_format: Any = None
) -> None:
    """What tensors could be made like: there is one layout, one memory, one order of elements."""
    if layout not in (None, "eager.strided"):
        raise NotImplementedError(f"{function}: layout={layout!r}: all tensors are strided")
    ignore(function, pin_memory=pin_memory, memory_format=memory_format)
