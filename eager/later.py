"""Parts of the library that few programs use: they are imported when they are first named, not by
`import eager`. the name of a module -> that module.

A package that has such parts answers for them with `__getattr__` and `__dir__`. What reads a
module's dictionary, as capture does, or `sys.modules`, asks here first.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any, Final

PARTS: Final = {
    "eager": ("array_api", "distributions", "hub"),
    "eager.utils": ("data", "model_zoo", "tensorboard"),
}
_NAMES: Final = tuple(f"{package}.{name}" for package, names in PARTS.items() for name in names)


def part(package: str, name: str) -> Any:
    """The module that `name` means in a package. Raises AttributeError if it is none of its
    parts."""
    if name in PARTS[package]:
        return import_module(f"{package}.{name}")
    raise AttributeError(f"module {package!r} has no attribute {name!r}", name=name)


def load(module: ModuleType, name: str) -> None:
    """Import what `module.name` means, where it is such a part: the module's dictionary has it."""
    for package, names in PARTS.items():
        if name in names and module is sys.modules[package]:
            import_module(f"{package}.{name}")


def ensure(module: Any) -> None:
    """Import the part that a module of this name is, or lies in. All else is left alone."""
    if type(module) is str and module.startswith(_NAMES):
        for name in _NAMES:
            if module == name or module.startswith(name + "."):
                import_module(name)
