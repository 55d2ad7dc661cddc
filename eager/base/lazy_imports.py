"""Parts of the library that few programs use: they are imported when they are first named, not by
`import eager`. the name of a module -> that module.

A package that has such parts answers for them with `__getattr__` and `__dir__`. What reads a
module's dictionary, as capture does, or `sys.modules`, asks here first. What another package has to
know of ours is imported when both are there.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any, Final

from eager.base.misspelled import unknown

PARTS: Final = {
    "eager": ("array_api", "distributed", "distributions", "hub", "multiprocessing", "overrides"),
    "eager.utils": ("benchmark", "collect_env", "data", "model_zoo", "tensorboard"),
    "codegen.targets": ("triton",),
    "jitcap.compile": ("device_parts",),
    "jitcap": ("by_dispatch", "exporting", "profiling", "report", "reproduce", "verify"),
}
# Another's module: what it is to know of us.
FOLLOWS: Final = {"einops._backends": "eager.utils.einops_backend"}
_NAMES: Final = tuple(f"{package}.{name}" for package, names in PARTS.items() for name in names)


def submodule(package: str, name: str) -> Any:
    """The module that `name` means in a package. Raises AttributeError if it is none of its
    parts."""
    if name in PARTS[package]:
        return import_module(f"{package}.{name}")
    raise unknown(package, name)


def load(module: ModuleType, name: str) -> None:
    """Import what `module.name` means, where it is such a part: the module's dictionary has it."""
    for package, names in PARTS.items():
        if name in names and module is sys.modules.get(package):
            import_module(f"{package}.{name}")


def ensure(module: Any) -> None:
    """Import the part that a module of this name is, or lies in. All else is left alone."""
    if type(module) is str and module.startswith(_NAMES):
        for name in _NAMES:
            if module == name or module.startswith(name + "."):
                import_module(name)


class _Finder:
    """Among the finders of `sys.meta_path`: after a module of `FOLLOWS`, ours is imported."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """The spec that another finder finds, with a loader of this module around its own."""
        if name in FOLLOWS:
            for finder in sys.meta_path:
                spec = None if finder is self else finder.find_spec(name, path, target)
                if spec is not None and spec.loader is not None:
                    spec.loader = _Loader(spec.loader)  # type: ignore[assignment]
                    return spec
        return None


class _Loader:
    def __init__(self, own: Any) -> None:
        self.own = own

    def create_module(self, spec: Any) -> Any:
        return self.own.create_module(spec)

    def exec_module(self, module: Any) -> None:
        module.__loader__ = module.__spec__.loader = self.own
        self.own.exec_module(module)
        import_module(FOLLOWS[module.__name__])


def follow() -> None:
    """Import what the modules of others need that are imported already, and later the rest."""
    sys.meta_path.insert(0, _Finder())
    for other, ours in FOLLOWS.items():
        if other in sys.modules:
            import_module(ours)
