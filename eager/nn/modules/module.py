"""The base of models: named parameters, buffers and submodules. attribute assignments -> a tree
with a state.

Three plain dicts hold the tree (`_parameters`, `_buffers`, `_modules`), as in PyTorch, and
everything else walks them. `__call__` is deliberately short: it is what the compiler reads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeVar

from eager.base.compilation import compile
from eager.base.dtype import DType, bfloat16, float16, float32, float64, named
from eager.base.tracebacks import trim
from eager.core.tensor import Tensor
from eager.nn.modules.hooks import EVERY_MODULE, Hooked
from eager.nn.modules.hooks import (
    register_module_backward_hook as register_module_backward_hook,
)
from eager.nn.modules.hooks import (
    register_module_forward_hook as register_module_forward_hook,
)
from eager.nn.modules.hooks import (
    register_module_forward_pre_hook as register_module_forward_pre_hook,
)
from eager.nn.modules.hooks import (
    register_module_full_backward_hook as register_module_full_backward_hook,
)
from eager.nn.modules.hooks import (
    register_module_full_backward_pre_hook as register_module_full_backward_pre_hook,
)
from eager.nn.modules.state import EXTRA as _EXTRA_STATE_KEY_SUFFIX  # noqa: F401
from eager.nn.modules.state import IncompatibleKeys as IncompatibleKeys
from eager.nn.modules.state import IncompatibleKeys as _IncompatibleKeys  # noqa: F401
from eager.nn.modules.state import State
from eager.nn.parameter import Buffer, Parameter, zero_gradient
from eager.ops.create import empty_like

M = TypeVar("M", bound="Module")


def to_arguments(*args: Any, **kwargs: Any) -> tuple[Any, DType | None, bool]:
    """The device, the dtype and `non_blocking` of what is given to `to(...)`."""
    dtype = kwargs.get("dtype")
    device = kwargs.get("device")
    flags = [a for a in args if isinstance(a, bool)]
    for given in args:
        if isinstance(given, Tensor):
            dtype, device = given.dtype, given.device
        elif isinstance(given, (DType, type)):
            dtype = given
        elif given is not None and not isinstance(given, bool):
            device = given
    return device, named(dtype), bool(kwargs.get("non_blocking", flags and flags[0]))


class Module(Hooked, State):
    """Base class of models and layers. A subclass calls `super().__init__()`, assigns layers and
    parameters, and defines `forward`."""

    training: bool
    _shown: ClassVar[tuple[str, ...]] = ()  # settings that `extra_repr` tells, by name

    def __init__(self) -> None:
        # Past our own __setattr__, which needs the dicts to exist.
        own = self.__dict__
        own["training"] = True
        own["_parameters"] = {}
        own["_buffers"] = {}
        own["_non_persistent_buffers_set"] = set()
        own["_modules"] = {}
        own["_forward_hooks"] = {}
        own["_forward_pre_hooks"] = {}

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(
            f'Module [{type(self).__name__}] is missing the required "forward" function: '
            "define it in the class"
        )

    # ------------------------------------------------------------------------------- calling
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            if self._forward_pre_hooks or self._forward_hooks:
                return self._call_with_hooks(*args, **kwargs)
            return self.forward(*args, **kwargs)
        except Exception as error:
            trim(error)
            raise

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compile the calls of this module, in place, as `eager.compile` does."""
        compile(self, *args, **kwargs)

    # ------------------------------------------------------------------------- registration
    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter. KeyError for a name that is taken or unusable; TypeError for anything
        else than a Parameter."""
        if "_parameters" not in self.__dict__:
            raise _too_early("parameter")
        self._check_name("parameter", name, self._parameters)
        if param is not None:
            if not isinstance(param, Parameter):
                raise TypeError(
                    f"cannot assign '{type(param).__name__}' object to parameter '{name}' "
                    "(nn.Parameter or None required)"
                )
            if param.grad_fn is not None:
                raise ValueError(
                    f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must "
                    "be "
                    f"created explicitly. To express '{name}' as a function of another Tensor, "
                    "compute the value in the forward() method."
                )
        self._parameters[name] = param

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a tensor that is part of the state but not learned; `persistent=False` leaves it out
        of `state_dict`."""
        if "_buffers" not in self.__dict__:
            raise _too_early("buffer")
        self._check_name("buffer", name, self._buffers)
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"cannot assign '{type(tensor).__name__}' object to buffer '{name}' "
                "(Tensor or None required)"
            )
        self._buffers[name] = tensor
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def add_module(self, name: str, module: Module | None) -> None:
        """Add a submodule under `name`."""
        if module is not None and not isinstance(module, Module):
            hint = ": unpack it with *" if isinstance(module, list | tuple) else ""
            raise TypeError(f"{type(module).__name__} is not a Module subclass{hint}")
        self._check_name("module", name, self._modules)
        self._modules[name] = module

    register_module = add_module

    def _check_name(self, what: str, name: Any, taken: Mapping[str, Any]) -> None:
        if not isinstance(name, str):
            raise TypeError(f"{what} name should be a string. Got {type(name).__name__}")
        if "." in name:
            raise KeyError(f'{what} name can\'t contain "."')
        if not name:
            raise KeyError(f'{what} name can\'t be empty string ""')
        if name not in taken and hasattr(self, name):
            raise KeyError(f"attribute '{name}' already exists")

    # --------------------------------------------------------------------------- attributes
    def __getattr__(self, name: str) -> Any:
        own = self.__dict__
        if "_parameters" in own and name in own["_parameters"]:
            return own["_parameters"][name]
        if "_buffers" in own and name in own["_buffers"]:
            return own["_buffers"][name]
        if "_modules" in own and name in own["_modules"]:
            return own["_modules"][name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __setattr__(self, name: str, value: Any) -> None:
        own = self.__dict__
        if isinstance(value, Parameter):
            if "_parameters" not in own:
                raise _too_early("parameters")
            _forget(name, own, own["_buffers"], own["_modules"])
            self.register_parameter(name, value)
        elif isinstance(value, Module):
            if "_modules" not in own:
                raise _too_early("module")
            _forget(name, own, own["_parameters"], own["_buffers"])
            own["_modules"][name] = value
        elif isinstance(value, Buffer):
            _forget(name, own, own["_parameters"], own["_modules"])
            self.register_buffer(name, value, value.persistent)
        elif "_parameters" in own and name in own["_parameters"]:
            _only_none("parameter", "nn.Parameter", name, value)
            own["_parameters"][name] = None
        elif "_modules" in own and name in own["_modules"]:
            _only_none("child module", "nn.Module", name, value)
            own["_modules"][name] = None
        elif "_buffers" in own and name in own["_buffers"]:
            if not isinstance(value, Tensor):
                _only_none("buffer", "Tensor", name, value)
            own["_buffers"][name] = value
        else:
            object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        if name in self._parameters:
            del self._parameters[name]
        elif name in self._buffers:
            del self._buffers[name]
            self._non_persistent_buffers_set.discard(name)
        elif name in self._modules:
            del self._modules[name]
        else:
            object.__delattr__(self, name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._parameters, *self._buffers, *self._modules})

    # ----------------------------------------------------------------------------- changing
    def apply(self: M, fn: Callable[[Module], None]) -> M:
        """Call `fn` on every module of the tree, children first."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def _apply(self: M, fn: Callable[[Tensor], Tensor]) -> M:
        """Replace the data of every parameter, its gradient and every buffer by `fn` of it;
        Parameters stay the same objects."""
        for module in self.children():
            module._apply(fn)
        for parameter in self._parameters.values():
            if parameter is not None:
                gradient = parameter.grad
                parameter.data = fn(parameter.data)
                if gradient is not None:
                    parameter.grad = fn(gradient)
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    def to(self: M, *args: Any, **kwargs: Any) -> M:
        """Move and convert in place: `to(device)`, `to(dtype)`, `to(device, dtype)`. Only floating
        tensors change dtype."""
        device, dtype, non_blocking = to_arguments(*args, **kwargs)
        if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError(
                "nn.Module.to only accepts floating point or complex dtypes, but got desired "
                f"dtype={dtype}"
            )

        def convert(t: Tensor) -> Tensor:
            if device is not None:
                t = t.to(device, None, non_blocking)
            return t.to(dtype) if dtype is not None and t.dtype.is_floating_point else t

        return self._apply(convert)

    def type(self: M, dst_type: DType) -> M:
        return self._apply(lambda t: t.to(dst_type))

    def float(self: M) -> M:
        return self.to(float32)

    def double(self: M) -> M:
        return self.to(float64)

    def half(self: M) -> M:
        return self.to(float16)

    def bfloat16(self: M) -> M:
        return self.to(bfloat16)

    def cpu(self: M) -> M:
        return self.to("cpu")

    def cuda(self: M, device: Any = None) -> M:
        place = "cuda" if device is None else device
        return self.to(f"cuda:{place}" if isinstance(place, int) else place)

    def to_empty(self: M, *, device: Any, recurse: bool = True) -> M:
        """Move in place, to memory with any values. Parameters and buffers of submodules as well,
        if `recurse`."""
        modules = self.modules() if recurse else (self,)
        for module in modules:
            for tensors in (module._parameters, module._buffers):
                for name, tensor in tensors.items():
                    if tensor is not None:
                        moved = empty_like(tensor.detach(), device=device)
                        if isinstance(tensor, Parameter):
                            tensor.data = moved
                        else:
                            tensors[name] = moved
        return self

    def share_memory(self: M) -> M:
        """Put parameters and buffers where processes that are forked write the same memory."""
        for tensor in (*self.parameters(), *self.buffers()):
            tensor.share_memory_()
        return self

    def train(self: M, mode: bool = True) -> M:
        """Set training mode here and below: it is what dropout and batch normalisation look at."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")  # noqa: TRY004
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self: M) -> M:
        return self.train(False)

    def requires_grad_(self: M, requires_grad: bool = True) -> M:
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters (or overwrite them with zeros)."""
        for parameter in self.parameters():
            if set_to_none:
                parameter.grad = None
            elif parameter.grad is not None:
                zero_gradient(parameter.grad)

    # ------------------------------------------------------------------------------ printing
    def _get_name(self) -> str:
        return self.__class__.__name__

    def extra_repr(self) -> str:
        """Text to print between the parentheses; subclasses override it."""
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in self._shown)

    def _children_text(self) -> list[str]:
        return [f"({name}): {indent(repr(module))}" for name, module in self._modules.items()]

    def __repr__(self) -> str:
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        children = self._children_text()
        if len(lines) == 1 and not children:
            return f"{self._get_name()}({lines[0]})"
        body = lines + children
        if not body:
            return f"{self._get_name()}()"
        return f"{self._get_name()}(\n  " + "\n  ".join(body) + "\n)"


EVERY_MODULE.module, EVERY_MODULE.plain = Module, Module.__call__


def _too_early(what: str) -> AttributeError:
    return AttributeError(
        f"cannot assign {what} before Module.__init__() call: call super().__init__() first"
    )


def indent(text: str) -> str:
    return text.replace("\n", "\n  ")


def _forget(name: str, *holders: dict[str, Any]) -> None:
    for holder in holders:
        holder.pop(name, None)


def _only_none(what: str, wanted: str, name: str, value: Any) -> None:
    if value is not None:
        cure = (
            f": wrap it, {wanted}(x), or copy_() it under no_grad()" if what == "parameter" else ""
        )
        raise TypeError(
            f"cannot assign '{type(value).__name__}' as {what} '{name}' "
            f"({wanted} or None expected){cure}"
        )
