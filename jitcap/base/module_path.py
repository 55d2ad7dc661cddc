"""Beside capture and profiles: the path of a module, as `named_modules()` would have it below the
name that the program has for the model. origin as text -> "model.layers.3.mlp".
"""

from __future__ import annotations

import re
from typing import Final

_CHILD: Final = re.compile(r"\._modules\['([^']+)'\]")


def dotted(name: str) -> str:
    """The path, where `name` says how the program reads the module."""
    return _CHILD.sub(r".\1", name)


def readable(name: str) -> str:
    """A place as the user writes it: `model._modules['fc']._parameters['w']` is model.fc.w."""
    return re.sub(r"\._(?:modules|parameters|buffers)\['(\w+)'\]", r".\1", name)


def moved(path: str, old: str, new: str) -> str:
    """The path that is to the module `new` what `path` is to `old`, a module that is alike: one
    part of their paths differs. `moved("m.1.mlp", "m.0.norm", "m.4.norm")` is "m.5.mlp"."""
    parts, before, after = path.split("."), old.split("."), new.split(".")
    differ = [i for i, (a, b) in enumerate(zip(before, after, strict=False)) if a != b]
    if len(before) != len(after) or len(differ) != 1:
        return new + path.removeprefix(old) if f"{path}.".startswith(f"{old}.") else path
    (at,) = differ
    if len(parts) <= at or parts[:at] != before[:at]:
        return path
    part, a, b = parts[at], before[at], after[at]
    if part == a:
        parts[at] = b
    elif part.isdecimal() and a.isdecimal() and b.isdecimal():
        parts[at] = str(int(part) + int(b) - int(a))
    return ".".join(parts)
