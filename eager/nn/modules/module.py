"""The base of models: named parameters, buffers and submodules. attribute assignments -> a tree
with a state.

Three plain dicts hold the tree (`_parameters`, `_buffers`, `_modules`), as in PyTorch, and
everything else walks them. `__call__` is deliberately short: it is what the compiler reads.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

from eager.autograd import no_grad
from eager.dtype import DType, bfloat16, float16, float32, float64
from eager.nn.modules.hooks import RemovableHandle, add_hook
from eager.nn.parameter import Buffer, Parameter
from eager.tensor import Tensor

M = TypeVar("M", bound="Module")


class IncompatibleKeys(NamedTuple):
    """What `load_state_dict` did not find, and what it could not place."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return (
            f"IncompatibleKeys(missing_keys={self.missing_keys}, "
            f"unexpected_keys={self.unexpected_keys})"
        )


class Module:
    """Base class of models and layers. A subclass calls `super().__init__()`, assigns layers and
    parameters, and defines `forward`."""

    training: bool

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
            f'Module [{type(self).__name__}] is missing the required "forward" function'
        )

    # ------------------------------------------------------------------------------- calling
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._forward_pre_hooks or self._forward_hooks:
            return self._call_with_hooks(args, kwargs)
        return self.forward(*args, **kwargs)

    def _call_with_hooks(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        for hook, with_kwargs in list(self._forward_pre_hooks.values()):
            if with_kwargs:
                changed = hook(self, args, kwargs)
                if changed is not None:
                    args, kwargs = changed
            else:
                changed = hook(self, args)
                if changed is not None:
                    args = changed if isinstance(changed, tuple) else (changed,)
        result = self.forward(*args, **kwargs)
        for hook, with_kwargs in list(self._forward_hooks.values()):
            changed = hook(self, args, kwargs, result) if with_kwargs else hook(self, args, result)
            if changed is not None:
                result = changed
        return result

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """`hook(module, args)` runs before `forward` and may return other arguments."""
        return add_hook(self._forward_pre_hooks, hook, prepend, with_kwargs)

    def register_forward_hook(
        self,
        hook: Callable[..., Any],
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:
        """`hook(module, args, output)` runs after `forward` and may return another output."""
        return add_hook(self._forward_hooks, hook, prepend, with_kwargs)

    # ------------------------------------------------------------------------- registration
    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter. KeyError for a name that is taken or unusable; TypeError for anything
        else than a Parameter."""
        if "_parameters" not in self.__dict__:
            raise AttributeError("cannot assign parameter before Module.__init__() call")
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
            raise AttributeError("cannot assign buffer before Module.__init__() call")
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
            raise TypeError(f"{type(module).__name__} is not a Module subclass")
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
                raise AttributeError("cannot assign parameters before Module.__init__() call")
            _forget(name, own, own["_buffers"], own["_modules"])
            self.register_parameter(name, value)
        elif isinstance(value, Module):
            if "_modules" not in own:
                raise AttributeError("cannot assign module before Module.__init__() call")
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

    # ------------------------------------------------------------------------------ walking
    def named_modules(
        self, memo: set[Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """All modules of the tree, this one first, with dotted names; each once."""
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                below = prefix + ("." if prefix else "") + name
                yield from module.named_modules(memo, below, remove_duplicate)

    def modules(self) -> Iterator[Module]:
        for _, module in self.named_modules():
            yield module

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The direct submodules; each once."""
        seen = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def children(self) -> Iterator[Module]:
        for _, module in self.named_children():
            yield module

    def _named(
        self, which: str, prefix: str, recurse: bool, remove_duplicate: bool
    ) -> Iterator[tuple[str, Any]]:
        tree = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
        seen = set()
        for module_name, module in tree if recurse else [(prefix, self)]:
            for name, value in getattr(module, which).items():
                if value is None or id(value) in seen:
                    continue
                if remove_duplicate:
                    seen.add(id(value))
                yield module_name + ("." if module_name else "") + name, value

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """(dotted name, parameter) of the whole tree (of this module alone without `recurse`);
        shared ones once."""
        return self._named("_parameters", prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        for _, parameter in self.named_parameters(recurse=recurse):
            yield parameter

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """(dotted name, buffer) of the whole tree."""
        return self._named("_buffers", prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def get_submodule(self, target: str) -> Module:
        """The submodule at a dotted path. Raises AttributeError."""
        module = self
        for part in target.split(".") if target else ():
            if part not in module._modules:
                raise AttributeError(f"{type(module).__name__} has no attribute `{part}`")
            module = module._modules[part]
        return module

    def get_parameter(self, target: str) -> Parameter:
        """The parameter at a dotted path. Raises AttributeError."""
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if name not in module._parameters:
            raise AttributeError(f"`{name}` is not an nn.Parameter")
        return module._parameters[name]

    def get_buffer(self, target: str) -> Tensor:
        """The buffer at a dotted path. Raises AttributeError."""
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if name not in module._buffers:
            raise AttributeError(f"`{name}` is not a buffer")
        return module._buffers[name]

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
        dtype = kwargs.get("dtype")
        device = kwargs.get("device")
        for given in args:
            if isinstance(given, Tensor):
                dtype, device = given.dtype, given.device
            elif isinstance(given, DType):
                dtype = given
            elif given is not None and not isinstance(given, bool):
                device = given
        if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError(
                "nn.Module.to only accepts floating point or complex dtypes, but got desired "
                f"dtype={dtype}"
            )

        def convert(t: Tensor) -> Tensor:
            if device is not None:
                t = t.to(device)
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
        return self.to("cuda" if device is None else device)

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
                parameter.grad.detach_()
                parameter.grad.zero_()

    # -------------------------------------------------------------------------------- state
    def state_dict(
        self,
        *,
        destination: dict[str, Any] | None = None,
        prefix: str = "",
        keep_vars: bool = False,
    ) -> dict[str, Any]:
        """Dotted name -> tensor (detached, sharing memory) for all parameters and persistent
        buffers."""
        out: dict[str, Any] = OrderedDict() if destination is None else destination
        self._save_to_state_dict(out, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(destination=out, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        return out

    def _save_to_state_dict(
        self, destination: dict[str, Any], prefix: str, keep_vars: bool
    ) -> None:
        for name, value in self._own_state().items():
            destination[prefix + name] = value if keep_vars else value.detach()

    def _own_state(self) -> dict[str, Tensor]:
        """This module's own parameters and persistent buffers that are not None."""
        own = {**self._parameters, **self._buffers}
        skip = self._non_persistent_buffers_set
        return {
            name: value for name, value in own.items() if value is not None and name not in skip
        }

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> IncompatibleKeys:
        """Copy the tensors of `state_dict` into the parameters and buffers of the same names.

        Raises RuntimeError listing missing and unexpected keys (if `strict`) and shapes that differ
        (always)."""
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        missing: list[str] = []
        errors: list[str] = []
        known = set()
        for prefix, module in self.named_modules(remove_duplicate=False):
            start = prefix + "." if prefix else ""
            for name in module._own_state():
                known.add(start + name)
                if start + name not in state_dict:
                    missing.append(start + name)
            module._load_from_state_dict(state_dict, start, assign, errors)
        unexpected = [key for key in state_dict if key not in known]
        if strict and unexpected:
            listed = ", ".join(f'"{k}"' for k in unexpected)
            errors.insert(0, f"Unexpected key(s) in state_dict: {listed}. ")
        if strict and missing:
            listed = ", ".join(f'"{k}"' for k in missing)
            errors.insert(0, f"Missing key(s) in state_dict: {listed}. ")
        if errors:
            raise RuntimeError(
                f"Error(s) in loading state_dict for {type(self).__name__}:\n\t"
                + "\n\t".join(errors)
            )
        return IncompatibleKeys(missing, unexpected)

    def _load_from_state_dict(
        self, state_dict: Mapping[str, Any], prefix: str, assign: bool, errors: list[str]
    ) -> None:
        for name, value in self._own_state().items():
            given = state_dict.get(prefix + name)
            if given is None:
                continue
            if tuple(given.shape) != tuple(value.shape):
                errors.append(
                    f"size mismatch for {prefix + name}: copying a param with shape {given.shape} "
                    "from "
                    f"checkpoint, the shape in current model is {value.shape}."
                )
            elif assign:
                keep = isinstance(value, Parameter)
                setattr(self, name, Parameter(given, value.requires_grad) if keep else given)
            else:
                with no_grad():
                    value.copy_(given)

    # ------------------------------------------------------------------------------ printing
    def _get_name(self) -> str:
        return self.__class__.__name__

    def extra_repr(self) -> str:
        """What to print between the parentheses; subclasses override it."""
        return ""

    def __repr__(self) -> str:
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        children = [f"({name}): {_indent(repr(module))}" for name, module in self._modules.items()]
        if len(lines) == 1 and not children:
            return f"{self._get_name()}({lines[0]})"
        body = lines + children
        if not body:
            return f"{self._get_name()}()"
        return f"{self._get_name()}(\n  " + "\n  ".join(body) + "\n)"


def _indent(text: str) -> str:
    return text.replace("\n", "\n  ")


def _forget(name: str, *holders: dict[str, Any]) -> None:
    for holder in holders:
        holder.pop(name, None)


def _only_none(what: str, wanted: str, name: str, value: Any) -> None:
    if value is not None:
        raise TypeError(
            f"cannot assign '{type(value).__name__}' as {what} '{name}' ({wanted} or None expected)"
        )
