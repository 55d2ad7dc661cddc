"""At the edge: `torch._dynamo` and its like, which programs reach into. a name -> what is here.

Settings of PyTorch's compiler can be set, which is said once, and have no effect.
"""

from __future__ import annotations

import sys
from contextlib import nullcontext
from types import ModuleType
from typing import Any, Final

import eager
from eager.base import plugins
from eager.base.compat_warnings import warn_once
from eager.base.misspelled import unknown
from eager.base.stub_modules import absent

_OURS: Final = ("graph_break", "mark_dynamic", "reset")  # names that both compilers have
_SETTINGS: Final = ("_dynamo.config", "_functorch.config", "_inductor.config")


class _Module(ModuleType):
    """A module of PyTorch's compiler."""

    def __getattr__(self, name: str) -> Any:
        raise unknown(self.__name__, name)


class _Dynamo(_Module):
    """`torch._dynamo`: what the compiler here does."""

    disable = staticmethod(eager.compiler.disable)
    is_compiling = staticmethod(eager.compiler.is_compiling)
    allow_in_graph = staticmethod(eager.compiler.allow_in_graph)
    assume_constant_result = staticmethod(eager.compiler.assume_constant_result)

    def __getattr__(self, name: str) -> Any:
        if name not in _OURS:
            raise unknown(self.__name__, name)
        return plugins.compiler(name)

    @staticmethod
    def mark_static_address(t: eager.Tensor, guard: bool = True) -> None:
        """Nothing: compiled code is told the addresses of its tensors."""

    @staticmethod
    def optimize(backend: Any = "inductor", *, nopython: bool = False, **options: Any) -> Any:
        """`compile(backend=, fullgraph=nopython)`, as a decorator."""
        return eager.compile(backend=backend, fullgraph=nopython, **options)


class TransformGetItemToIndex(nullcontext[None]):
    """`with`, in which mapped functions take tensors as indices: they always do."""


class _Settings(_Module):
    """`torch._dynamo.config` and its like."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not name.startswith("__"):
            warn_once(
                self.__name__, f"{self.__name__} is of PyTorch's compiler: it has no effect here"
            )
        super().__setattr__(name, value)


_CHILDREN: Final[dict[str, dict[str, Any]]] = {
    "_trace_wrapped_higher_order_op": {"TransformGetItemToIndex": TransformGetItemToIndex},
    "eval_frame": {},
}


def install() -> None:
    """Give `torch` these modules, `import torch._dynamo.config` included."""
    for name in _SETTINGS:
        package, _, child = name.partition(".")
        if package not in vars(eager):
            kind = _Dynamo if package == "_dynamo" else _Module
            vars(eager)[package] = sys.modules[f"torch.{package}"] = kind(f"torch.{package}")
            vars(eager)[package].__path__ = []
        module = _Settings(f"torch.{name}")
        sys.modules[f"torch.{name}"] = vars(eager)[package].__dict__[child] = module
    for child, names in _CHILDREN.items():
        inner = absent(f"_dynamo.{child}", "an inner part of PyTorch's compiler", "")
        vars(inner).update(names)
        sys.modules[f"torch._dynamo.{child}"] = vars(eager)["_dynamo"].__dict__[child] = inner
