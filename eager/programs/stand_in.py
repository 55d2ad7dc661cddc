"""At the edge: this library under PyTorch's name. `import torch.x` -> the module `eager.x`.

Both names are one module, so a class is one class whichever name a program, or a package that it
uses, takes. PyTorch itself is never imported, installed or not.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Final

import eager
from eager.programs import missing

API: Final = "2.13.0"  # of PyTorch: programs ask for the version, to know which names there are


def install() -> None:
    """Let `import torch` mean `eager` in this process, from now on."""
    sys.meta_path.insert(0, _Finder())
    vars(eager)["__version__"] = API
    for name, module in list(sys.modules.items()):  # with those that are no files
        if name.partition(".")[0] == "eager":
            sys.modules["torch" + name.removeprefix("eager")] = module


class _Finder(MetaPathFinder):
    """Among the finders of `sys.meta_path`: all names below `torch`."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if not name.startswith("torch."):
            return None
        ours = "eager" + name.removeprefix("torch")
        try:
            module = import_module(ours)
        except ModuleNotFoundError as error:
            if error.name is None or not ours.startswith(error.name):
                raise
            missing.note(name)
            raise ModuleNotFoundError(f"No module named {name!r}", name=name) from None
        return ModuleSpec(name, _Loader(module), is_package=hasattr(module, "__path__"))


class _Loader(Loader):
    """Gives the module that is there, as it is."""

    def __init__(self, module: ModuleType) -> None:
        self.module = module
        self.spec = module.__spec__

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self.module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self.spec
