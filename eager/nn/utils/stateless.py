"""Beside the modules: a call with other parameters than its own. (module, tensors) -> output."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from eager.core.tensor import Tensor
from eager.nn.modules.module import Module


def functional_call(
    module: Module,
    parameter_and_buffer_dicts: dict[str, Tensor] | Sequence[dict[str, Tensor]],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """`module(*args, **kwargs)` with the given tensors in the places of its parameters and buffers
    (by their names in `named_parameters`), which are put back afterwards.

    A parameter that is in several places is replaced in all of them (`tie_weights`). With `strict`,
    RuntimeError for names that the module lacks, which are left out otherwise, or that are not
    given. ValueError for a name in two dictionaries."""
    positional = () if args is None else args if isinstance(args, tuple) else (args,)
    table = _table(parameter_and_buffer_dicts)
    with _reparametrize_module(module, table, tie_weights=tie_weights, strict=strict):
        return module(*positional, **(kwargs or {}))


@contextmanager
def _reparametrize_module(
    module: Module, table: dict[str, Tensor], *, tie_weights: bool = False, strict: bool = False
) -> Iterator[None]:
    """`with`, in which the module has these tensors; by PyTorch's name, which libraries import."""
    places = _entries(module)
    unknown = [name for name in table if name not in places]
    missing = [name for name in places if name not in table]
    if strict and (unknown or missing):
        raise RuntimeError(
            f"Error(s) in loading state_dict for {type(module).__name__}: unexpected key(s) "
            f"{unknown}, missing key(s) {missing}"
        )
    new = {
        id(places[name][1][places[name][2]]): value
        for name, value in table.items()
        if name in places
    }
    before = []
    for name, (_, slots, key) in places.items():
        old = slots[key]
        value = table.get(name, new.get(id(old)) if tie_weights else None)
        if value is not None:
            before.append((slots, key, old))
            slots[key] = value
    try:
        yield
    finally:
        for slots, key, old in before:
            slots[key] = old


def _table(given: Any) -> dict[str, Tensor]:
    """One dictionary of those that `functional_call` takes."""
    dicts = given if isinstance(given, list | tuple) else (given,)
    if not all(isinstance(d, dict) for d in dicts):
        raise ValueError(
            "Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got "
            f"{type(given)}"
        )
    table: dict[str, Tensor] = {}
    for d in dicts:
        if twice := [name for name in d if name in table]:
            raise ValueError(
                f"{twice} appeared in multiple dictionaries; behavior of functional call is "
                "ambiguous"
            )
        table.update(d)
    for name, value in table.items():
        if not isinstance(value, Tensor):
            raise TypeError(f"{name}: {value!r} is not an instance of Tensor")
    return table


def _entries(module: Module) -> dict[str, Any]:
    """Qualified name -> (module, its table, key), of all parameters and buffers."""
    return {
        f"{prefix}.{key}" if prefix else key: (each, slots, key)
        for prefix, each in module.named_modules(remove_duplicate=False)
        for slots in (each._parameters, each._buffers)
        for key, value in slots.items()
        if value is not None
    }
