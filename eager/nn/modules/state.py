"""The base of models, part two: the state. module <-> a dict of dotted names and tensors."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, NamedTuple

from eager.autograd import no_grad
from eager.nn.modules.tree import Tree
from eager.nn.parameter import Parameter
from eager.tensor import Tensor


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


class State(Tree):
    """Saving and loading parameters and persistent buffers."""

    _non_persistent_buffers_set: set[str]

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
