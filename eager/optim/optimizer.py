"""The base of optimizers: parameter groups and state. parameters with gradients -> parameters
changed in place.

State is allocated when a parameter group is added (zeros cost nothing until they are touched), so
that the first step is the same program as all later ones. PyTorch allocates at the first step of a
parameter: who reads `state` finds what was stepped, and the rest is dropped then. If the parameters
get another dtype before the first step (`model.double()`), or go to another device, it is allocated
anew, in the dtype that they have then, and where they are. `state_dict` has PyTorch's structure.
"""

from __future__ import annotations

import copy
import functools
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from eager.autograd import enable_grad, no_grad
from eager.base.compat_warnings import warn
from eager.base.tracebacks import trim
from eager.core.tensor import Tensor
from eager.nn.modules.hooks import RemovableHandle, add_hook
from eager.nn.parameter import zero_gradient
from eager.ops.complex import view_as_complex, view_as_real
from eager.ops.updates import is_elsewhere, is_unusual, is_written
from eager.optim.private_names import _capturable_doc as _capturable_doc
from eager.optim.private_names import _default_to_fused_or_foreach as _default_to_fused_or_foreach
from eager.optim.private_names import _device_has_foreach_support as _device_has_foreach_support
from eager.optim.private_names import _differentiable_doc as _differentiable_doc
from eager.optim.private_names import (
    _disable_dynamo_if_unsupported as _disable_dynamo_if_unsupported,
)
from eager.optim.private_names import _dispatch_sqrt as _dispatch_sqrt
from eager.optim.private_names import _foreach_doc as _foreach_doc
from eager.optim.private_names import _fused_doc as _fused_doc
from eager.optim.private_names import (
    _get_capturable_supported_devices as _get_capturable_supported_devices,
)
from eager.optim.private_names import (
    _get_foreach_kernels_supported_devices as _get_foreach_kernels_supported_devices,
)
from eager.optim.private_names import (
    _get_fused_kernels_supported_devices as _get_fused_kernels_supported_devices,
)
from eager.optim.private_names import _get_scalar_dtype as _get_scalar_dtype
from eager.optim.private_names import _get_value as _get_value
from eager.optim.private_names import (
    _group_tensors_by_device_and_dtype as _group_tensors_by_device_and_dtype,
)
from eager.optim.private_names import _has_foreach_support as _has_foreach_support
from eager.optim.private_names import _maximize_doc as _maximize_doc
from eager.optim.private_names import _params_doc as _params_doc
from eager.optim.private_names import _stack_if_compiling as _stack_if_compiling
from eager.optim.private_names import _to_scalar as _to_scalar
from eager.optim.private_names import _use_grad_for_differentiable as _use_grad_for_differentiable
from eager.optim.private_names import _view_as_real as _view_as_real

Params = Iterable[Any]
ParamsT = Params  # its name in annotations of programs
_NUMBERS: Final = frozenset({"mu_product", "eta", "mu"})  # of a state: of no element


class _RequiredParameter:
    """The default of a setting that every group must give."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _RequiredParameter()


class _Hooked:
    """The hooks of an optimizer. A class whose steps have none is as it was written: its `step`
    calls hooks from the first one on that is registered."""

    _hooks: Mapping[str, dict[int, Any]] = {}

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` before each step; what it returns, if anything, are
        the arguments of `step`."""
        _call_hooks_around_step(type(self))
        return self._add_hook("before step", hook)

    def register_step_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` after each step."""
        _call_hooks_around_step(type(self))
        return self._add_hook("after step", hook)

    def register_state_dict_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(optimizer)` before `state_dict`."""
        return self._add_hook("before state_dict", hook, prepend)

    def register_state_dict_post_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)` after `state_dict`; what it returns, if anything,
        takes the place of the dict."""
        return self._add_hook("after state_dict", hook, prepend)

    def register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)` before `load_state_dict`; what it returns, if
        anything, is loaded."""
        return self._add_hook("before load_state_dict", hook, prepend)

    def register_load_state_dict_post_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(optimizer)` after `load_state_dict`."""
        return self._add_hook("after load_state_dict", hook, prepend)

    def _patch_step_function(self) -> None:
        """Nothing: what wraps an optimizer without `__init__` calls it in PyTorch for its hooks."""

    def _add_hook(
        self, when: str, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        self._hooks = {**self._hooks, when: self._hooks.get(when, {})}
        return add_hook(self._hooks[when], hook, prepend, None)

    def _after_hooks(self, when: str, value: Any) -> Any:
        """`value`, or what the last hook returned that takes it and returned anything."""
        for hook, _ in list(self._hooks.get(when, {}).values()):
            again = hook(self, value)
            value = value if again is None else again
        return value


def _call_hooks_around_step(kind: Any) -> None:
    """Let `kind.step` call the hooks of its optimizer."""
    step = kind.step
    if getattr(step, "calls_hooks", False):
        return

    @functools.wraps(step)
    def hooked(self: Any, *args: Any, **kwargs: Any) -> Any:
        for hook, _ in list(self._hooks.get("before step", {}).values()):
            again = hook(self, args, kwargs)
            if again is not None:
                args, kwargs = again
        result = step(self, *args, **kwargs)
        for hook, _ in list(self._hooks.get("after step", {}).values()):
            hook(self, args, kwargs)
        return result

    hooked.calls_hooks = True  # type: ignore[attr-defined]
    kind.step = hooked


class Optimizer(_Hooked):
    """Holds `param_groups` (dicts with "params" and settings) and `state` (parameter -> dict).

    A subclass defines `update(parameter, gradient, state, group)`, and `allocate(parameter, group)`
    for its state; or it defines `step` itself, as in PyTorch."""

    like_parameter = ""  # the name of state that has its parameter's dtype
    # True: each element is updated for itself, and a rank does it for the rows that it has. False:
    # it looks at whole parameters. None: a class of its own `step` or `update` does not say.
    by_element: bool | None = None
    _opt_called = False  # whether a step was tried, which schedulers ask
    _slots: Any = None  # parameter -> dict: `state`, and what is allocated ahead
    # What is allocated ahead, to know it by; None once `state` was read, and nothing is any more.
    _ahead: dict[Tensor, tuple[Tensor, ...]] | None = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "step" in vars(cls):  # which does not say so
            cls._opt_called = True
        if "by_element" not in vars(cls) and vars(cls).keys() & {"step", "update"}:
            cls.by_element = None if cls.by_element else cls.by_element

    def __init__(self, params: Params, defaults: dict[str, Any]) -> None:
        try:
            self._begin(params, defaults)
        except Exception as error:
            trim(error)
            raise

    def _begin(self, params: Params, defaults: dict[str, Any]) -> None:
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or "
                "dicts, but "
                "got a Tensor"
            )
        if hasattr(params, "parameters") and not isinstance(params, Iterable):
            raise TypeError(
                f"{type(params).__name__!r} object is not iterable over parameters: pass "
                "model.parameters()"
            )
        self.defaults = defaults
        self._opt_called = type(self)._opt_called  # here: a step under `if` is to add no attribute
        self._forget()
        self.param_groups: list[dict[str, Any]] = []
        groups: list[Any] = list(params)
        if not groups:
            raise ValueError(
                "optimizer got an empty parameter list: layers in a plain list or dict are not the "
                "model's, use nn.ModuleList or nn.ModuleDict"
            )
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters with settings of their own. Raises ValueError for a parameter that is in
        another group, TypeError for what is no dict."""
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        group = dict(param_group)
        given = group["params"]
        if isinstance(given, set):
            raise TypeError(
                "optimizer parameters need to be organized in ordered collections, but the "
                "ordering of "
                "tensors in sets will change between runs. Please use a list instead."
            )
        listed: list[Any] = [given] if isinstance(given, Tensor) else list(given)
        named = [isinstance(p, tuple) for p in listed]
        if any(named):
            if not all(named):
                raise ValueError(
                    "all optimizer params should be with/without names. Some param names are "
                    "missing"
                )
            group["param_names"] = [name for name, _ in listed]
            listed = [parameter for _, parameter in listed]
        if any(("param_names" in group) != ("param_names" in g) for g in self.param_groups):
            raise ValueError(
                "all optimizer param groups should be with/without names. cannot add param group "
                f"{'with' if 'param_names' in group else 'without'} names to the optimizer"
            )
        group["params"] = listed
        _check_parameters(group["params"], bool(self.defaults.get("differentiable")))
        if self.by_element is False and any(p._shard is not None for p in group["params"]):
            raise ValueError(
                f"{type(self).__name__} looks at whole parameters, and of those under fully_shard "
                "each rank has rows: use one that updates each element for itself, as AdamW does"
            )
        for name, default in self.defaults.items():
            if default is required and name not in group:
                raise ValueError(
                    "parameter group didn't specify a value of required optimization parameter "
                    f"{name}"
                )
            group.setdefault(name, default)
        taken = {id(p) for other in self.param_groups for p in other["params"]}
        if any(id(p) in taken for p in group["params"]):
            raise ValueError("some parameters appear in more than one parameter group")
        self.param_groups.append(group)
        for parameter in group["params"] if self._ahead is not None else ():
            self._put_allocated(parameter, group)

    # ---------------------------------------------------------------- what a subclass defines
    def allocate(self, parameter: Tensor, group: dict[str, Any]) -> dict[str, Any] | None:
        """The state of a parameter before its first step; None if it never has any."""
        return {}

    def update(
        self, parameter: Tensor, gradient: Tensor, state: dict[str, Any], group: dict[str, Any]
    ) -> None:
        """Change one parameter and its state in place."""
        raise NotImplementedError

    # ------------------------------------------------------------------- state of a parameter
    @property
    def state(self) -> Any:
        """Parameter -> dict, of those that were stepped; a `defaultdict(dict)`."""
        if self._slots is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute 'state'")
        if self._ahead is not None:
            self._drop_ahead()
        return self._slots

    @state.setter
    def state(self, value: Any) -> None:
        self._slots, self._ahead = value, None

    def _forget(self) -> None:
        self._slots = defaultdict(dict)
        self._ahead = None if type(self).allocate is Optimizer.allocate else {}

    def _put_allocated(self, parameter: Tensor, group: dict[str, Any]) -> None:
        state = self.allocate(parameter, group)
        if state:
            self._slots[parameter] = state
            count_writes = all(isinstance(value, Tensor) for value in state.values())
            if self._ahead is not None and count_writes:
                self._ahead[parameter] = tuple(state.values())

    def _first_state(self, parameter: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        """The state of a parameter that has none: not allocated ahead, or dropped."""
        first = self.allocate(parameter, group)
        if first is None:
            return {}
        state: dict[str, Any] = self._slots[parameter]
        state.update(first)
        return state

    def _is_ahead(self, parameter: Any) -> bool:
        """True if a parameter's state is as it was allocated ahead: no tensor replaced, nor
        written."""
        first = self._ahead and self._ahead.get(parameter)
        if not first:
            return False
        now = self._slots[parameter].values()
        return len(now) == len(first) and all(
            value is old and not is_written(old) for value, old in zip(now, first, strict=True)
        )

    def _drop_ahead(self) -> None:
        """From here on, `_slots` has what PyTorch has. A function of its own, so that one sees when
        it is done."""
        for parameter in [p for p in self._slots if self._is_ahead(p)]:
            del self._slots[parameter]
        self._ahead = None

    # -------------------------------------------------------------------------------- running
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update all parameters that have a gradient. `closure` computes the loss anew, and its
        value is returned."""
        if type(self).update is Optimizer.update:
            raise NotImplementedError("step() of a class that defines neither it nor update()")
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        # Looked up once: a model has hundreds of parameters, and capture reads this loop.
        states, update, like = self._slots, self.update, self.like_parameter
        with enable_grad() if self.defaults.get("differentiable") else no_grad():
            for group in self.param_groups:
                for parameter in group["params"]:
                    gradient = parameter.grad
                    if gradient is not None:
                        state = states.get(parameter) or self._first_state(parameter, group)
                        if is_unusual(parameter, gradient, state.get(like)):
                            self._update_unusual(parameter, gradient, state, group)
                        else:
                            update(parameter, gradient, state, group)
        self._opt_called = True
        return loss

    def _update_unusual(
        self, parameter: Tensor, gradient: Tensor, state: dict[str, Any], group: dict[str, Any]
    ) -> None:
        if self._is_outdated(parameter, state):
            self._allocate_again()
            state = self._slots[parameter]
        if gradient.dtype.is_complex:
            self._update_parts(parameter, gradient, state, group)
        else:
            self.update(parameter, gradient, state, group)

    def _update_parts(
        self, parameter: Tensor, gradient: Tensor, state: dict[str, Any], group: dict[str, Any]
    ) -> None:
        """A complex parameter is updated as its real and imaginary parts, each by itself."""
        parts = {name: _as_real(value) for name, value in state.items()}
        self.update(_as_real(parameter), _as_real(gradient), parts, group)
        for name, value in parts.items():
            if name not in state:
                state[name] = view_as_complex(value)

    def _is_outdated(self, parameter: Tensor, state: dict[str, Any]) -> bool:
        """True if the state was allocated for another dtype or device and never used."""
        return is_elsewhere(parameter, state.get(self.like_parameter)) and self._is_ahead(parameter)

    def _allocate_again(self) -> None:
        for group in self.param_groups:
            for parameter in group["params"]:
                if self._is_outdated(parameter, self._slots.get(parameter, {})):
                    self._put_allocated(parameter, group)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients (without reading them), or overwrite them with zeros."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if set_to_none:
                    parameter.grad = None
                elif parameter.grad is not None:
                    zero_gradient(parameter.grad)

    # ---------------------------------------------------------------------------------- state
    def state_dict(self) -> dict[str, Any]:
        """{"state": {index: {...}}, "param_groups": [{..., "params": [index, ...]}]}; the tensors
        are shared."""
        for hook, _ in list(self._hooks.get("before state_dict", {}).values()):
            hook(self)
        numbers: dict[int, int] = {}
        groups = []
        for group in self.param_groups:
            packed = {name: value for name, value in group.items() if name != "params"}
            packed["params"] = [numbers.setdefault(id(p), len(numbers)) for p in group["params"]]
            groups.append(packed)
        state = {
            numbers.get(id(p), p): value
            for p, value in self._slots.items()
            if not self._is_ahead(p)
        }
        return self._after_hooks("after state_dict", {"state": state, "param_groups": groups})

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take settings and state from what `state_dict` returned. Raises ValueError for groups of
        other sizes."""
        state_dict = self._after_hooks("before load_state_dict", dict(state_dict))
        saved = copy.deepcopy(list(state_dict["param_groups"]))
        if len(saved) != len(self.param_groups):
            raise ValueError("loaded state dict has a different number of parameter groups")
        by_number: dict[Any, Tensor] = {}
        for group, own in zip(saved, self.param_groups, strict=True):
            if len(group["params"]) != len(own["params"]):
                raise ValueError(
                    "loaded state dict contains a parameter group that doesn't match the size of "
                    "optimizer's group"
                )
            by_number.update(zip(group["params"], own["params"], strict=True))
        self._forget()
        for group, own in zip(saved, self.param_groups, strict=True):
            own.update({name: value for name, value in group.items() if name != "params"})
            for parameter in own["params"] if self._ahead is not None else ():
                self._put_allocated(parameter, own)
        for number, values in state_dict["state"].items():
            parameter = by_number.get(number)
            if parameter is None:
                self._slots[number] = copy.deepcopy(values)
            else:
                self._slots[parameter] = {k: _like(parameter, k, v) for k, v in values.items()}
                self._opt_called = True
        for hook, _ in list(self._hooks.get("after load_state_dict", {}).values()):
            hook(self)

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for i, group in enumerate(self.param_groups):
            lines.append(f"\nParameter Group {i}" if i else "Parameter Group 0")
            lines.extend(f"    {k}: {group[k]}" for k in sorted(group) if k != "params")
        return "\n".join([*lines, ")"])

    def __getstate__(self) -> dict[str, Any]:
        state = {name: value for name, value in self.__dict__.items() if name != "_hooks"}
        if self._ahead is not None:  # copies of tensors have not counted their writes
            state["_ahead"] = {p: first for p, first in self._ahead.items() if self._is_ahead(p)}
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take what `__getstate__` gave. Subclasses add settings that older files lack."""
        for name, value in state.items():
            setattr(self, name, value)


def _check_parameters(parameters: list[Any], differentiable: bool) -> None:
    for parameter in parameters:
        if not isinstance(parameter, Tensor):
            raise TypeError(
                "optimizer can only optimize Tensors, but one of the params is "
                f"{type(parameter).__name__}"
            )
        if not (parameter.is_leaf or differentiable):
            raise ValueError(
                "can't optimize a non-leaf Tensor: it was computed, and has no .grad; pass the "
                "tensor with requires_grad=True itself, or x.detach().requires_grad_()"
            )
    if len({id(p) for p in parameters}) != len(parameters):
        warn(
            "optimizer contains a parameter group with duplicate parameters; in future, this will "
            "cause an error",
            UserWarning,
        )


def _like(parameter: Tensor, name: str, value: Any) -> Any:
    """A state value, in the parameter's dtype and beside it (but the step count, and what else
    `_NUMBERS` has, keeps its own, and stays where it is); a tensor that is so already is shared, as
    in PyTorch."""
    if isinstance(value, dict):
        return {k: _like(parameter, name, v) for k, v in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_like(parameter, name, v) for v in value)
    if not isinstance(value, Tensor):
        return value
    is_number = name == "step" or (name in _NUMBERS and not value.ndim)
    if is_number or not parameter.dtype.is_floating_point:
        return value
    return value.to(parameter.device, parameter.dtype)


def _as_real(value: Any) -> Any:
    return view_as_real(value) if isinstance(value, Tensor) and value.is_complex() else value


def zeros_like(parameter: Tensor) -> Tensor:
    """State of the parameter's shape and dtype."""
    return Tensor._full(0, parameter.aval)


def parts_full(value: float, parameter: Tensor) -> Tensor:
    """State of the parameter's shape and dtype: `value`, also as the imaginary part."""
    both = complex(value, value) if parameter.is_complex() else value
    return Tensor._full(both, parameter.aval)


def settings(arguments: dict[str, Any], last: str = "") -> dict[str, Any]:
    """The settings among the arguments of an `__init__`, which are its `locals()`: in that order,
    but for those that PyTorch's groups have at their end. RuntimeError for two ways of computing at
    once."""
    if arguments.get("fused") and arguments.get("foreach"):
        raise RuntimeError("`fused` and `foreach` cannot be `True` together.")
    end = last.split()
    first = (k for k in arguments if k not in ("self", "params", "__class__", *end))
    return {k: arguments[k] for k in (*first, *end)}


def check(name: str, value: Any, ok: Any) -> None:
    """ValueError in PyTorch's words for a setting out of range, or a tensor of several."""
    if isinstance(value, Tensor) and value.numel() != 1:
        raise ValueError(f"Invalid {name}: Tensor must be 1-element, got {value}")
    if not ok:
        raise ValueError(f"Invalid {name}: {value}")
