"""Beside the modules: a call with other parameters than its own. (module, tensors) -> output."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eager.nn.modules.module import Module
from eager.tensor import Tensor


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

    A parameter that is in several places is replaced in all of them (`tie_weights`). Raises
    RuntimeError for names that the module lacks or, if `strict`, that are not given."""
    given = parameter_and_buffer_dicts
    table = dict(given) if isinstance(given, dict) else {k: v for d in given for k, v in d.items()}
    places = _places(module)
    unknown = [name for name in table if name not in places]
    missing = [name for name in places if name not in table]
    if unknown or (strict and missing):
        raise RuntimeError(
            f"Error(s) in loading state_dict for {type(module).__name__}: unexpected key(s) "
            f"{unknown}, missing key(s) {missing if strict else []}"
        )
    new = {id(places[name][1][places[name][2]]): value for name, value in table.items()}
    before = []
    for name, (_, slots, key) in places.items():
        old = slots[key]
        value = table.get(name, new.get(id(old)) if tie_weights else None)
        if value is not None:
            before.append((slots, key, old))
            slots[key] = value
    positional = () if args is None else args if isinstance(args, tuple) else (args,)
    try:
        return module(*positional, **(kwargs or {}))
    finally:
        for slots, key, old in before:
            slots[key] = old


def _places(module: Module) -> dict[str, Any]:
    """Qualified name -> (module, its table, key), of all parameters and buffers."""
    return {
        f"{prefix}.{key}" if prefix else key: (each, slots, key)
        for prefix, each in module.named_modules(remove_duplicate=False)
        for slots in (each._parameters, each._buffers)
        for key, value in slots.items()
        if value is not None
    }
