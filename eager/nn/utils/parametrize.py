"""`eager.nn.utils.parametrize`: a parameter that modules compute from others whenever it is read.
(module, name, parametrization) -> the module, of a class with a property of that name.

`module.parametrizations.<name>` holds the modules and what the first of them is called with:
`original`, or `original0`, `original1`, ... where its `right_inverse` gives several. The class is
a subclass of the module's own, one for each class and set of names, and is made again when a
module is copied or read from a pickle.
"""

from __future__ import annotations

import contextlib
import copyreg
import functools
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from eager.autograd import no_grad
from eager.core.tensor import Tensor
from eager.nn.modules import ModuleDict, ModuleList
from eager.nn.modules.module import Module
from eager.nn.parameter import Parameter

__all__ = [
    "ParametrizationList",
    "cached",
    "is_parametrized",
    "register_parametrization",
    "remove_parametrizations",
    "transfer_parametrizations_and_params",
    "type_before_parametrizations",
]

M = TypeVar("M", bound=Module)


class _Cache:
    """Tensors computed since the outermost `cached()` began, by ParametrizationList."""

    def __init__(self) -> None:
        self.depth = 0
        self.values: dict[Module, Tensor] = {}


_cache = _Cache()


@contextlib.contextmanager
def cached() -> Iterator[None]:
    """Context in which each parametrized tensor is computed once, when it is first read."""
    _cache.depth += 1
    try:
        yield
    finally:
        _cache.depth -= 1
        if not _cache.depth:
            _cache.values = {}


# --------------------------------------------------------------------------- one parameter
def _require_like(value: Any, like: Tensor, what: str) -> None:
    """ValueError unless `value` is a tensor with the dtype and shape of `like`."""
    if not isinstance(value, Tensor):
        raise ValueError(f"{what} must return a tensor. Got {type(value).__name__}.")  # noqa: TRY004
    for name in ("dtype", "shape"):
        before, after = getattr(like, name), getattr(value, name)
        if before != after:
            raise ValueError(
                f"{what} may not change the {name} of the tensor, from {before} to {after}: pass "
                "unsafe=True where that is meant"
            )


def _put(module: Module, name: str, value: Tensor) -> None:
    if isinstance(value, Parameter):
        module.register_parameter(name, value)
    else:
        module.register_buffer(name, value)


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor, in order, and what the first of them is called with."""

    def __init__(self, modules: Sequence[Module], original: Tensor, unsafe: bool = False) -> None:
        if not modules:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        before = original.detach().clone()
        given = self._inverse(original)
        self.is_tensor = isinstance(given, Tensor)
        self.ntensors = 1 if self.is_tensor else len(given)
        if isinstance(given, Tensor):
            if given.dtype != original.dtype:
                raise ValueError(
                    "When `right_inverse` outputs one tensor, it may not change the dtype, from "
                    f"{original.dtype} to {given.dtype}."
                )
            original.data = given.data  # the optimizer knows the parameter: it stays that object
            _put(self, "original", original)
        else:
            for name, part in zip(self._names(), given, strict=True):
                needs = original.requires_grad
                learned = isinstance(original, Parameter)
                _put(self, name, Parameter(part, needs) if learned else part.requires_grad_(needs))
        if not unsafe:
            _require_like(self(), before, "Registering a parametrization")

    def _inverse(self, original: Tensor) -> Any:
        """Value that the parametrizations make `original` from; they are the identity where they
        have no inverse."""
        given: Any = original
        with no_grad():
            for module in reversed(list(self)):
                if hasattr(module, "right_inverse"):
                    with contextlib.suppress(NotImplementedError):
                        given = module.right_inverse(given)
        several = isinstance(given, Sequence) and all(isinstance(t, Tensor) for t in given)
        if not (isinstance(given, Tensor) or several):
            raise ValueError(
                "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). "
                f"Got {type(given).__name__}"
            )
        return given

    def _names(self) -> list[str]:
        """The attributes that hold what the first parametrization is called with."""
        return ["original"] if self.is_tensor else [f"original{i}" for i in range(self.ntensors)]

    def originals(self) -> list[Tensor]:
        return [getattr(self, name) for name in self._names()]

    def right_inverse(self, value: Any) -> None:
        """Set the originals so that the result is `value`."""
        with no_grad():
            for module in reversed(list(self)):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(
                        f"parametrization {type(module).__name__} does not implement right_inverse."
                    )
                value = module.right_inverse(value)
            given = [value] if self.is_tensor else value
            if not isinstance(given, Sequence) or len(given) != self.ntensors:
                raise ValueError(
                    f"'right_inverse' must return a sequence of tensors of length {self.ntensors}. "
                    f"Got {type(value).__name__}."
                )
            for name, old, new in zip(self._names(), self.originals(), given, strict=True):
                if not isinstance(new, Tensor) or new.dtype != old.dtype:
                    kind = new.dtype if isinstance(new, Tensor) else type(new).__name__
                    raise ValueError(
                        f"`right_inverse` gave {kind} for `{name}`, which is of dtype {old.dtype}"
                    )
                old.data = new.data

    def forward(self) -> Any:
        modules = list(self)
        value = modules[0](*self.originals())
        for module in modules[1:]:
            value = module(value)
        return value


# ------------------------------------------------------------------------------- the class
class _Parametrized(Module):
    """Base class of parametrized modules, beside the class that they are made from."""

    _before: type[Module]
    _names: frozenset[str]

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _as_before, (self._before, self._names), dict(self.__dict__)


def _as_before(before: type[Module], names: frozenset[str]) -> Any:
    return copyreg.__newobj__(_class(before, names))  # type: ignore[attr-defined, arg-type]


@functools.cache
def _class(before: type[Module], names: frozenset[str]) -> type[Module]:
    """The subclass of `before` with a property for each of `names`."""
    world: dict[str, Any] = {name: _property(name) for name in sorted(names)}
    world |= {"_before": before, "_names": names, "__module__": before.__module__}
    return type(f"Parametrized{before.__name__}", (_Parametrized, before), world)


def _property(name: str) -> property:
    def get(self: Any) -> Any:
        parametrization = self._modules["parametrizations"]._modules[name]
        if not _cache.depth:
            return parametrization()
        if parametrization not in _cache.values:
            _cache.values[parametrization] = parametrization()
        return _cache.values[parametrization]

    def put(self: Any, value: Any) -> None:
        self._modules["parametrizations"]._modules[name].right_inverse(value)

    return property(get, put)


def _set_class(module: Module, names: frozenset[str]) -> None:
    before = type_before_parametrizations(module)
    module.__class__ = _class(before, names) if names else before


# --------------------------------------------------------------------------- the functions
def type_before_parametrizations(module: Module) -> type:
    """The module's class, as it was if the module is parametrized."""
    return getattr(type(module), "_before", type(module))


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """True if the tensor (or any) of the module is parametrized."""
    held = getattr(module, "parametrizations", None)
    if not isinstance(held, ModuleDict):
        return False
    return len(held) > 0 if tensor_name is None else tensor_name in held


def register_parametrization(
    module: M, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> M:
    """From now on `module.<tensor_name>` is `parametrization` of what it is now (or of what its
    `right_inverse` makes of that). ValueError where it changes dtype or shape, unless `unsafe`."""
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        if not unsafe:
            _require_composes(module, tensor_name, parametrization)
        held = module.parametrizations[tensor_name]
        held.append(parametrization)
        held.unsafe |= unsafe
        return module
    if tensor_name not in module._buffers and tensor_name not in module._parameters:
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element "
            f"with name '{tensor_name}'"
        )
    held = ParametrizationList([parametrization], getattr(module, tensor_name), unsafe)
    delattr(module, tensor_name)
    if not is_parametrized(module):
        module.parametrizations = ModuleDict()
    module.parametrizations[tensor_name] = held
    _set_class(module, frozenset(module.parametrizations))
    return module


def _require_composes(module: Module, name: str, parametrization: Any) -> None:
    """ValueError unless another parametrization, and its inverse, keep dtype and shape."""
    now = getattr(module, name)
    after = parametrization(now)
    _require_like(after, now, "A parametrization")
    if hasattr(parametrization, "right_inverse"):
        with contextlib.suppress(NotImplementedError):
            back = parametrization.right_inverse(after)
            _require_like(back, now, "parametrization.right_inverse")


def remove_parametrizations(module: M, tensor_name: str, leave_parametrized: bool = True) -> M:
    """The tensor is a parameter or buffer again: as it was last computed, or (with
    `leave_parametrized=False`) its original."""
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    held = module.parametrizations[tensor_name]
    if held.is_tensor:
        value = held.original
        if leave_parametrized:
            with no_grad():
                value.data = getattr(module, tensor_name).data
    elif leave_parametrized:
        computed = getattr(module, tensor_name)
        value = Parameter(computed.detach()) if computed.requires_grad else computed
    else:
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is "
            "parametrized in terms of a sequence of tensors."
        )
    del module.parametrizations[tensor_name]
    _set_class(module, frozenset(module.parametrizations))
    if not len(module.parametrizations):
        del module.parametrizations
    _put(module, tensor_name, value)
    return module


def transfer_parametrizations_and_params(
    from_module: Module, to_module: M, tensor_name: str | None = None
) -> M:
    """The parametrizations of one module (of one tensor, or of all), and their originals, also for
    another."""
    if not is_parametrized(from_module):
        return to_module
    for name in list(from_module.parametrizations) if tensor_name is None else [tensor_name]:
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(getattr(from_module, name).detach()))
        held = from_module.parametrizations[name]
        for parametrization in held:
            register_parametrization(to_module, name, parametrization)
        for part in held._names():
            setattr(to_module.parametrizations[name], part, getattr(held, part))
    return to_module
