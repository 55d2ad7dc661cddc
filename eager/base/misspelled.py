"""At the edge: a name that a module does not have. (module, name) -> an error with the near names.

Python suggests names by itself where a program ends, but not in notebooks, and not for modules
with many names.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

observers: Final[list[Callable[[str, str], object]]] = []  # of what modules do not have
reasons: Final[list[Callable[[str, str], str]]] = []  # why a module does not have a name, if known
_ELSEWHERE: Final = ("eager", "eager.nn", "eager.nn.functional", "eager.optim", "eager.linalg")


def missing(module: str) -> Callable[[str], Any]:
    """A module's `__getattr__`, which has nothing to give."""

    def __getattr__(name: str) -> Any:
        raise unknown(module, name)

    return __getattr__


def unknown(module: str, name: str) -> AttributeError:
    """The error, of which the observers hear. It has the module's name and the wrong one, and no
    object, so that Python does not suggest once more."""
    for tell in observers:
        tell(module, name)
    why = next((found for ask in reasons if (found := ask(module, name))), "")
    after = f": {why}" if why else _hint(module, name)
    return AttributeError(f"module {module!r} has no attribute {name!r}{after}", name=name)


@lru_cache(maxsize=256)
def _hint(module: str, name: str) -> str:
    if name.startswith("__"):
        return ""
    others = [m for m in _ELSEWHERE if m != module]
    near = [f"{m}.{name}" for m in others if name in vars(sys.modules[m])]
    near = near or _near(dir(sys.modules[module]), name)
    near = near or [f"{m}.{n}" for m in others for n in _near(vars(sys.modules[m]), name)]
    return f". Did you mean {' or '.join(map(repr, near[:3]))}?" if near else ""


def _near(names: Any, name: str) -> list[str]:
    """Public names like this one, the nearest first; upper and lower case are alike."""
    spelled: dict[str, str] = {}
    for each in names:
        if not each.startswith("_"):
            spelled.setdefault(each.lower(), each)
    found = difflib.get_close_matches(name.lower(), spelled, 3, 0.75)
    return [spelled[each] for each in found]
