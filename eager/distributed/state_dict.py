"""`eager.distributed.state_dict`: the states of models and optimizers of several ranks. a model and
its optimizers <-> dictionaries by dotted names, of each rank's parts or of the whole.

    state = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True))

Names are those of the model alone, also in the states of optimizers, so that a state fits any
number of ranks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from eager.base.dataclass import dataclass
from eager.base.tree import mapped
from eager.core.tensor import Tensor
from eager.distributed.collectives import broadcast
from eager.distributed.data_parallel import unwrapped
from eager.distributed.groups import get_rank
from eager.distributed.objects import broadcast_object_list
from eager.distributed.optim import ZeroRedundancyOptimizer
from eager.distributed.shards import full_tensor, placed_as, rows_as
from eager.nn.modules.module import IncompatibleKeys, Module
from eager.ops.create import empty
from eager.optim import Optimizer

Optimizers = Optimizer | Iterable[Optimizer]


@dataclass(frozen=True)
class StateDictOptions:
    """Form of a state: `full_state_dict`, whole tensors and not this rank's parts; with
    `cpu_offload` on the first rank alone (the others get an empty one). `broadcast_from_rank0`: a
    state that is set is the first rank's. `ignore_frozen_params`: without parameters that need no
    gradient. `strict`: names that are missing, or too many, raise."""

    full_state_dict: bool = False
    cpu_offload: bool = False
    ignore_frozen_params: bool = False
    strict: bool = True
    broadcast_from_rank0: bool = False


def get_model_state_dict(
    model: Module, *, options: StateDictOptions | None = None
) -> dict[str, Any]:
    """`model.state_dict()`, of parts, which `shard_of` knows, or of whole tensors. All ranks call
    it."""
    how, model = options or StateDictOptions(), unwrapped(model)
    learned = model.named_parameters(remove_duplicate=False)
    skip = {n for n, p in learned if how.ignore_frozen_params and not p.requires_grad}
    state = {name: value for name, value in model.state_dict().items() if name not in skip}
    return _formed(state, how)


def set_model_state_dict(
    model: Module,
    model_state_dict: Mapping[str, Any],
    *,
    options: StateDictOptions | None = None,
) -> IncompatibleKeys:
    """Load a state of whole tensors, of which each rank takes its rows, or of parts. All ranks call
    it where it is broadcast. RuntimeError as of `load_state_dict`."""
    how, model = options or StateDictOptions(), unwrapped(model)
    state = dict(_received(dict(model_state_dict), how))
    for name, own in model.state_dict().items():
        if name in state:
            state[name] = rows_as(own, state[name])
    return model.load_state_dict(state, strict=how.strict and not how.ignore_frozen_params)


def get_optimizer_state_dict(
    model: Module, optimizers: Optimizers, *, options: StateDictOptions | None = None
) -> dict[str, Any]:
    """The optimizers' `state_dict()` with names for numbers: {"state": {name: ...}, "param_groups":
    [{"params": [name, ...], ...}]}. All ranks call it."""
    how, names = options or StateDictOptions(), _names(model)
    state: dict[str, Any] = {}
    groups: list[dict[str, Any]] = []
    for each in _listed(optimizers):
        given = _state_of(each)
        everything = [p for g in each.param_groups for p in g["params"]]
        for i, values in given["state"].items():
            state[names[id(everything[i])]] = mapped(partial(placed_as, everything[i]), values)
        start = 0
        for group in given["param_groups"]:
            stop = start + len(group["params"])
            groups.append({**group, "params": [names[id(p)] for p in everything[start:stop]]})
            start = stop
    return _formed({"state": state, "param_groups": groups}, how)


def set_optimizer_state_dict(
    model: Module,
    optimizers: Optimizers,
    optim_state_dict: Mapping[str, Any],
    *,
    options: StateDictOptions | None = None,
) -> None:
    """Load what `get_optimizer_state_dict` gave on any number of ranks. All ranks call it where it
    is broadcast. KeyError for a parameter that the state does not name; ValueError for other
    groups."""
    how, names = options or StateDictOptions(), _names(model)
    given = _received(dict(optim_state_dict), how)
    by_name = {name: group for group in given["param_groups"] for name in group["params"]}
    for each in _listed(optimizers):
        own = _state_of(each)
        everything = [p for g in each.param_groups for p in g["params"]]
        state = {}
        for i, p in enumerate(everything):
            values = given["state"].get(names[id(p)])
            if values is not None:
                state[i] = mapped(partial(_part_of_state, p), values)
        groups = [
            {**by_name[names[id(owner["params"][0])]], "params": group["params"]}
            for owner, group in zip(each.param_groups, own["param_groups"], strict=True)
        ]
        each.load_state_dict({"state": state, "param_groups": groups})


def get_state_dict(
    model: Module, optimizers: Optimizers, *, options: StateDictOptions | None = None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The states of the model and of its optimizers."""
    state = get_model_state_dict(model, options=options)
    return state, get_optimizer_state_dict(model, optimizers, options=options)


def set_state_dict(
    model: Module,
    optimizers: Optimizers,
    *,
    model_state_dict: Mapping[str, Any],
    optim_state_dict: Mapping[str, Any],
    options: StateDictOptions | None = None,
) -> IncompatibleKeys:
    """Load the states of the model and of its optimizers."""
    found = set_model_state_dict(model, model_state_dict, options=options)
    set_optimizer_state_dict(model, optimizers, optim_state_dict, options=options)
    return found


# ------------------------------------------------------------------------------- pieces of it
def _names(model: Module) -> dict[int, str]:
    return {id(p): name for name, p in unwrapped(model).named_parameters()}


def _listed(optimizers: Optimizers) -> list[Optimizer]:
    return [optimizers] if isinstance(optimizers, Optimizer) else [*optimizers]


def _state_of(optimizer: Optimizer) -> dict[str, Any]:
    """Its `state_dict()`; of what is spread by rows, this rank's."""
    if isinstance(optimizer, ZeroRedundancyOptimizer) and optimizer.by_rows:
        return optimizer.own_state_dict()
    return optimizer.state_dict()


def _formed(state: dict[str, Any], how: StateDictOptions) -> dict[str, Any]:
    """The state as it is asked for."""
    if not how.full_state_dict:
        return state
    kept = not how.cpu_offload or get_rank() == 0

    def formed(value: Any) -> Any:
        whole = full_tensor(value) if isinstance(value, Tensor) else value
        return whole if kept else None  # each is freed before the next is gathered

    found = mapped(formed, state)
    return found if kept else {}


def _part_of_state(p: Tensor, value: Any) -> Any:
    part = rows_as(p, value)
    return part.clone() if isinstance(part, Tensor) else part  # the optimizer takes it as it is


def _received(state: dict[str, Any], how: StateDictOptions) -> dict[str, Any]:
    """The state that the first rank gives, on all."""
    if not how.broadcast_from_rank0:
        return state
    first, tensors = get_rank() == 0, list[Tensor]()

    def sent(value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        tensors.append(value)
        return _Sent(tuple(value.shape), value.dtype)

    given = [mapped(sent, state) if first else None]
    broadcast_object_list(given, 0)
    left = iter(tensors)

    def got(value: Any) -> Any:
        if not isinstance(value, _Sent):
            return value
        made = next(left) if first else empty(value.shape, dtype=value.dtype)
        broadcast(made, 0)
        return made

    return mapped(got, given[0])


@dataclass(frozen=True)
class _Sent:
    """A tensor that follows."""

    shape: tuple[int, ...]
    dtype: Any
