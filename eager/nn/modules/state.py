"""The base of models, part two: the state. module <-> a dict of dotted names and tensors."""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from eager.autograd import no_grad
from eager.core.tensor import Tensor
from eager.nn.modules.hooks import RemovableHandle, add_hook
from eager.nn.modules.tree import Tree
from eager.nn.parameter import Parameter


class IncompatibleKeys(NamedTuple):
    """Keys that `load_state_dict` did not find, and keys that it could not place."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return (
            f"_IncompatibleKeys(missing_keys={self.missing_keys}, "
            f"unexpected_keys={self.unexpected_keys})"
        )


EXTRA = "_extra_state"
_ASSIGN = "assign_to_params_buffers"  # in what `_load_from_state_dict` is told


class State(Tree):
    """Saving and loading parameters and persistent buffers."""

    _version = 1  # of a class: another where the form of its state has changed
    _non_persistent_buffers_set: set[str]

    # --------------------------------------------------------------------------------- hooks
    def _state_hooks(self, when: str) -> dict[int, Any]:
        """The table of hooks for one moment; it exists from the first such hook on."""
        return self.__dict__.setdefault("_hooks_of_state", {}).setdefault(when, {})

    def _hooks_at(self, when: str) -> list[tuple[Callable[..., Any], Any]]:
        return list(self.__dict__.get("_hooks_of_state", {}).get(when, {}).values())

    def _run_state_hooks(self, when: str, *args: Any) -> None:
        for hook, _ in self._hooks_at(when):
            hook(*args)

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """`hook(module, prefix, keep_vars)` runs before the module's state is collected."""
        return add_hook(self._state_hooks("before saving"), hook, False, None)

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """`hook(module, state_dict, prefix, local_metadata)` runs when it is, and may change it."""
        return add_hook(self._state_hooks("after saving"), hook, False, True)

    def _register_state_dict_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """The older form, whose hook may return another dictionary."""
        return add_hook(self._state_hooks("after saving"), hook, False, False)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """`hook(module, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
        error_msgs)` runs before the module is loaded, and may change the (copied) state_dict."""
        return add_hook(self._state_hooks("before loading"), hook, False, None)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """`hook(module, incompatible_keys)` runs when the module and all below are loaded."""
        return add_hook(self._state_hooks("after loading"), hook, False, None)

    def _register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], with_module: bool = False
    ) -> RemovableHandle:
        """The older form, whose hook is not given the module."""
        if not with_module:
            hook = functools.partial(_without_module, hook)
        return self.register_load_state_dict_pre_hook(hook)

    # -------------------------------------------------------------------- what is no tensor
    def get_extra_state(self) -> Any:
        """A subclass returns here what its state dict is to hold besides tensors."""
        raise RuntimeError("get_extra_state() is defined by a subclass, with set_extra_state()")

    def set_extra_state(self, state: Any) -> None:
        """A subclass takes here what its `get_extra_state` returned."""
        raise RuntimeError("set_extra_state() is defined by a subclass, with get_extra_state()")

    def state_dict(
        self,
        *,
        destination: dict[str, Any] | None = None,
        prefix: str = "",
        keep_vars: bool = False,
    ) -> dict[str, Any]:
        """Dotted name -> tensor (detached, sharing memory) for all parameters and persistent
        buffers. The versions of the modules are in its attribute `_metadata`."""
        out: Any = OrderedDict() if destination is None else destination
        if destination is None:
            out._metadata = OrderedDict()
        about = {"version": self._version}
        if hasattr(out, "_metadata"):
            out._metadata[prefix[:-1]] = about
        self._run_state_hooks("before saving", self, prefix, keep_vars)
        self._save_to_state_dict(out, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(destination=out, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        for hook, public in self._hooks_at("after saving"):
            changed = hook(self, out, prefix, about)
            if public and changed is not None:
                raise RuntimeError("state_dict post-hook must return None")
            out = out if changed is None else changed
        state: dict[str, Any] = out
        return state

    def _save_to_state_dict(
        self, destination: dict[str, Any], prefix: str, keep_vars: bool
    ) -> None:
        """This module's own part of the state. A subclass may have another."""
        for name, value in self._own_state().items():
            destination[prefix + name] = value if keep_vars else value.detach()
        if type(self).get_extra_state is not State.get_extra_state:
            destination[prefix + EXTRA] = self.get_extra_state()

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
        metadata: Mapping[str, Any] = getattr(state_dict, "_metadata", {})
        missing: list[str] = []
        unexpected: list[str] = []
        errors: list[str] = []
        found = IncompatibleKeys(missing, unexpected)

        def load(module: State, state: dict[str, Any], prefix: str) -> None:
            about = {**metadata.get(prefix[:-1], {}), _ASSIGN: assign}
            module._load_from_state_dict(state, prefix, about, True, missing, unexpected, errors)
            for name, child in module._modules.items():
                start = f"{prefix}{name}."
                if child is not None:
                    load(child, {k: v for k, v in state.items() if k.startswith(start)}, start)
            module._run_state_hooks("after loading", module, found)

        load(self, OrderedDict(state_dict), "")
        if strict and unexpected:
            listed = ", ".join(f'"{k}"' for k in unexpected)
            errors.insert(0, f"Unexpected key(s) in state_dict: {listed}. ")
        if strict and missing:
            listed = ", ".join(f'"{k}"' for k in missing)
            errors.insert(0, f"Missing key(s) in state_dict: {listed}. ")
        if strict and missing and unexpected:
            errors.append(_hint(missing, unexpected))
        if errors:
            raise RuntimeError(
                f"Error(s) in loading state_dict for {type(self).__name__}:\n\t"
                + "\n\t".join(errors)
            )
        return found

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Take this module's own part of the state, and note what is not as it should be. A
        subclass may read an older form: `local_metadata["version"]` is the `_version` that its
        class had when it was saved."""
        notes = (local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        self._run_state_hooks("before loading", self, state_dict, prefix, *notes)
        own = self._own_state()
        for name, value in own.items():
            if prefix + name in state_dict:
                given, assign = state_dict[prefix + name], local_metadata.get(_ASSIGN, False)
                self._take(name, prefix + name, value, given, assign, error_msgs)
            elif strict:
                missing_keys.append(prefix + name)
        takes_extra = type(self).set_extra_state is not State.set_extra_state
        if takes_extra and prefix + EXTRA in state_dict:
            self.set_extra_state(state_dict[prefix + EXTRA])
        elif takes_extra and strict:
            missing_keys.append(prefix + EXTRA)
        known = {*own, *([EXTRA] if takes_extra else ())}
        for key in state_dict if strict else ():
            name, dot, _ = key.removeprefix(prefix).partition(".")
            if key.startswith(prefix) and name not in (self._modules if dot else known):
                unexpected_keys.append(key)

    def _take(
        self, name: str, key: str, value: Tensor, given: Any, assign: bool, errors: list[str]
    ) -> None:
        """One tensor of the state into the parameter or buffer of its name."""
        if not isinstance(given, Tensor):
            errors.append(
                f'While copying the parameter named "{key}", expected Tensor or Tensor-like object '
                f"from checkpoint but received {type(given)}"
            )
            return
        if not value.ndim and given.ndim == 1:  # as older files have numbers
            given = given[0]
        if tuple(given.shape) != tuple(value.shape):
            errors.append(
                f"size mismatch for {key}: copying a param with shape {given.shape} from "
                f"checkpoint, the shape in current model is {value.shape}."
            )
        elif assign:
            keep = isinstance(value, Parameter)
            setattr(self, name, Parameter(given, value.requires_grad) if keep else given)
        else:
            with no_grad():
                value.copy_(given)


def _without_module(hook: Callable[..., Any], module: Any, *args: Any) -> None:
    del module
    hook(*args)


def _hint(missing: list[str], unexpected: list[str]) -> str:
    """Advice about missing and unexpected keys: often one prefix is too much (`module.`,
    `_orig_mod.`)."""
    ends = {k[: -len(missing[0])] for k in unexpected if k.endswith("." + missing[0])}
    if len(ends) == 1:
        prefix = ends.pop()
        return (
            f"The keys begin with {prefix!r}: use "
            f"{{k.removeprefix({prefix!r}): v for k, v in state_dict.items()}}"
        )
    return "load_state_dict(..., strict=False) leaves out what does not fit"
