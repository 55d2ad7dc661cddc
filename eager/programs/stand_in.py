"""At the edge: this library under PyTorch's name. `import torch.x` -> the module `eager.x`.

Both names are one module, so a class is one class whichever name a program, or a package that it
uses, takes. PyTorch itself is never imported, installed or not. Processes that the program starts
by `multiprocessing` have the names, too, whichever way they are started.
"""

from __future__ import annotations

import multiprocessing
import sys
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from multiprocessing import spawn
from types import ModuleType
from typing import Any, Final

import eager
from eager.programs import compiler_internals, missing

API: Final = "2.13.0"  # of PyTorch: programs ask for the version, to know which names there are
PACKAGES: Final = {"torch": "eager", "functorch": "eager.programs.functorch"}  # its name -> ours
# Modules where PyTorch keeps what here lies elsewhere.
_MODULES: Final = {
    "torch._higher_order_ops": "eager.control_flow",
    "torch._higher_order_ops.associative_scan": "eager.control_flow.scan",
    "torch._higher_order_ops.cond": "eager.control_flow.cond",
    "torch._higher_order_ops.scan": "eager.control_flow.scan",
    "torch._higher_order_ops.while_loop": "eager.control_flow.while_loop",
    "torch.amp.autocast_mode": "eager.amp",
    "torch.amp.grad_scaler": "eager.amp",
    "torch.cuda.random": "eager.cuda",
    "torch.distributed._composable": "eager.distributed",
    "torch.distributed._composable.fsdp": "eager.distributed.fsdp",
    "torch.distributed._functional_collectives": "eager.distributed.functional",
    "torch.distributed._tensor": "eager.distributed.tensor",
    "torch.distributed.constants": "eager.distributed",
    "torch.distributed.distributed_c10d": "eager.distributed",
    "torch.distributed.fsdp.api": "eager.distributed.fsdp",
    "torch.distributed.fsdp.fully_sharded_data_parallel": "eager.distributed.fsdp",
    "torch.functional": "eager",
    "torch.jit.annotations": "typing",
    "torch.multiprocessing.spawn": "eager.multiprocessing",
    "torch.nn.parallel.data_parallel": "eager.nn.parallel",
    "torch.nn.parallel.distributed": "eager.nn.parallel",
    "torch.nn.parallel.scatter_gather": "eager.nn.parallel",
    "torch.utils.data._utils": "eager.utils.data",
    "torch.utils.data._utils.collate": "eager.utils.data.collate",
    "torch.utils.data._utils.pin_memory": "eager.utils.data.collate",
    "torch.utils.data._utils.worker": "eager.utils.data.worker",
    "torch.utils.tensorboard.writer": "eager.utils.tensorboard",
}


def install() -> None:
    """Let `import torch` mean `eager` in this process, from now on."""
    sys.meta_path.insert(0, _Finder())
    vars(eager).update(__name__="torch", __version__=eager.torch_version.TorchVersion(API))
    vars(eager).update(torch=eager, functional=eager)  # `torch.torch`: PyTorch imports itself
    for name, module in list(sys.modules.items()):  # with those that are no files
        if name.partition(".")[0] == "eager":
            sys.modules["torch" + name.removeprefix("eager")] = module
    compiler_internals.install()
    if spawn.get_command_line is not _command_line:
        spawn.get_command_line = _command_line
        multiprocessing.set_forkserver_preload(["eager.programs.preloaded"])


_plain_command_line = spawn.get_command_line


def _command_line(**parts: Any) -> list[str]:
    """The command of a process that `multiprocessing` starts afresh: the names come first."""
    command = _plain_command_line(**parts)
    code = command.index("-c") + 1
    command[code] = f"import eager.programs.preloaded; {command[code]}"
    return command


class _Finder(MetaPathFinder):
    """Among the finders of `sys.meta_path`: all names of PyTorch's packages."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        package, dot, rest = name.partition(".")
        if package not in PACKAGES:
            return None
        ours = _MODULES.get(name) or PACKAGES[package] + dot + rest
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

    def get_code(self, name: str) -> Any:
        """Code of the module, for `-m`; None of one that is no file."""
        if self.spec is None or self.spec.loader is None:
            return None
        return self.spec.loader.get_code(self.spec.name)  # type: ignore[attr-defined]

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self.spec
