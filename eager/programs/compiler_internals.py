"""At the edge: `torch._dynamo`, `torch._C` and their like, which programs reach into. a name ->
what is here.

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
from eager.base.stub_modules import Absent, absent
from eager.core.mode import mode
from eager.nn.modules.module import to_arguments
from eager.optim.private_names import _group_tensors_by_device_and_dtype

_OURS: Final = ("graph_break", "mark_dynamic", "reset")  # names that both compilers have
_SETTINGS: Final = ("_dynamo.config", "_functorch.config", "_inductor.config")


class _Module(ModuleType):
    """A module of PyTorch's compiler."""

    def __getattr__(self, name: str) -> Any:
        raise unknown(self.__name__, name)


class OptimizedModule(eager.nn.Module):
    """A module as PyTorch's compiler makes it. Here a module comes back as itself: none is one."""


class TorchDynamoException(RuntimeError):
    """Exceptions of PyTorch's compiler, for `except`: here none is raised."""


class Unsupported(TorchDynamoException):
    """A program that it does not read."""


class BackendCompilerFailed(TorchDynamoException):
    """A program that it does not build."""


class _Dynamo(_Module):
    """`torch._dynamo`: what the compiler here does."""

    OptimizedModule = OptimizedModule
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


class _Functions(_Module):
    """`torch._C._nn`: functions of modules."""

    def __getattr__(self, name: str) -> Any:
        return getattr(eager.nn.functional, name)

    @staticmethod
    def _parse_to(*args: Any, **kwargs: Any) -> tuple[Any, Any, bool, Any]:
        """The device, dtype, `non_blocking` and memory format of what is given to `to(...)`."""
        form = kwargs.pop("memory_format", None)
        device, dtype, non_blocking = to_arguments(*args, **kwargs)
        return None if device is None else eager.device(device), dtype, non_blocking, form


class _Core(_Module):
    """`torch._C`: of what PyTorch has in C++, what packages name."""

    _TensorBase = TensorBase = eager.Tensor
    Generator, Size, device, dtype = eager.Generator, eager.Size, eager.device, eager.dtype
    _nn, _VariableFunctions = _Functions("torch._C._nn"), eager
    _TensorMeta = type(eager.Tensor)
    DisableTorchFunction = DisableTorchFunctionSubclass = nullcontext
    _group_tensors_by_device_and_dtype = staticmethod(_group_tensors_by_device_and_dtype)
    Graph, Node, Value = (  # in annotations
        Absent(f"_C.{name}", "jitcap.explain shows a graph") for name in ("Graph", "Node", "Value")
    )

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_jit_"):
            raise unknown(self.__name__, name)
        return lambda *on: warn_once(
            name, f"{self.__name__}.{name} is of TorchScript's compiler: it has no effect here"
        )

    @staticmethod
    def _log_api_usage_once(name: str) -> None:
        """Nothing: PyTorch counts uses there."""

    @staticmethod
    def _are_functorch_transforms_active() -> bool:
        """True in a mapped function."""
        return bool(mode.levels)

    @staticmethod
    def _disabled_torch_function_impl(
        func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Result of a function, for a class of tensors that has none of its own."""
        return func(*args, **(kwargs or {}))

    @staticmethod
    def _get_default_device() -> str:
        return str(eager.get_default_device())

    @staticmethod
    def _get_tracing_state() -> None:
        """None: no TorchScript is being traced."""

    @staticmethod
    def _get_privateuse1_backend_name() -> str:
        return "privateuseone"


class _Settings(_Module):
    """`torch._dynamo.config` and its like."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not name.startswith("__"):
            warn_once(
                self.__name__, f"{self.__name__} is of PyTorch's compiler: it has no effect here"
            )
        super().__setattr__(name, value)


# Parts that are not here, and what they answer to those who ask.
_ABSENT: Final[dict[str, dict[str, Any]]] = {
    "_dynamo._trace_wrapped_higher_order_op": {"TransformGetItemToIndex": TransformGetItemToIndex},
    "_dynamo.eval_frame": {"OptimizedModule": OptimizedModule, "is_dynamo_supported": lambda: True},
    "_dynamo.exc": {
        e.__name__: e for e in (TorchDynamoException, Unsupported, BackendCompilerFailed)
    },
    "_subclasses": {},
    "_subclasses.fake_tensor": {"is_fake": lambda tensor: False},
    "fx.experimental": {},
    "fx.experimental.proxy_tensor": {"get_proxy_mode": lambda: None},
    "fx.experimental.symbolic_shapes": dict.fromkeys(
        ("guard_or_false", "guard_or_true", "statically_known_true"), bool
    ),
}


def install() -> None:
    """Give `torch` these modules, `import torch._dynamo.config` included."""
    vars(eager)["_C"] = sys.modules["torch._C"] = _Core("torch._C")
    for name in _SETTINGS:
        package, _, child = name.partition(".")
        if package not in vars(eager):
            kind = _Dynamo if package == "_dynamo" else _Module
            vars(eager)[package] = sys.modules[f"torch.{package}"] = kind(f"torch.{package}")
            vars(eager)[package].__path__ = []
        module = _Settings(f"torch.{name}")
        sys.modules[f"torch.{name}"] = vars(eager)[package].__dict__[child] = module
    for name, answers in _ABSENT.items():
        parent, _, child = name.rpartition(".")
        inner = absent(name, "an inner part of PyTorch's compiler", "")
        vars(inner).update(answers)
        home = sys.modules[f"torch.{parent}"] if parent else eager
        sys.modules[f"torch.{name}"] = vars(home)[child] = inner
