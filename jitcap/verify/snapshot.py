"""Verified calls: what an object holds, as a plain copy on which effects can be done.

The same is taken of the real object after the plain run, and the two are compared. No code of the
user's runs: contents are read by the builtin types' own methods.
"""

from __future__ import annotations

import collections
from types import CellType, SimpleNamespace
from typing import Any

from eager.autograd import mode
from eager.core.tensor import UNREAD, Tensor
from eager.device import default as default_place
from eager.random import Generator
from jitcap.base.call_policy import is_python_class
from jitcap.capture.kinds.objects import slots_of
from jitcap.capture.kinds.tensors import TENSOR_FIELDS
from jitcap.verify.copies import Copies


def contents(obj: Any, copies: Copies | None = None) -> Any:
    """A copy of what `obj` holds, or None for an object without contents that can be looked at.

    Of tensors the arrays are those of `copies`, if given."""
    if isinstance(obj, Tensor):
        return _of_tensor(obj, copies)
    if isinstance(obj, collections.OrderedDict):
        return collections.OrderedDict(collections.OrderedDict.items(obj))
    if isinstance(obj, dict):
        return dict.copy(obj)  # runs no __hash__ of the user's
    if isinstance(obj, list):
        return list(list.__iter__(obj))
    if isinstance(obj, collections.deque):
        return collections.deque(collections.deque.__iter__(obj), obj.maxlen)
    if type(obj) is set:
        return set(obj)
    if type(obj) is CellType:
        return _of_cell(obj)
    if isinstance(obj, Generator):
        return SimpleNamespace(seed_value=obj.seed_value, ordinal=obj.ordinal)
    if obj is mode:
        return SimpleNamespace(
            enabled=mode.enabled,
            inference=mode.inference,
            autocast=mode.autocast,
            rows=mode.rows,
        )
    if obj is default_place:
        return SimpleNamespace(place=default_place.place, before=[*default_place.before])
    if is_python_class(type(obj)) and not isinstance(obj, type):
        return _of_slots(obj)
    return None


def all_contents(found: dict[str, Any], copies: Copies) -> dict[str, Any]:
    """The contents of what is found at each place; tensors of one memory count its writes once."""
    held = {name: contents(x, copies) for name, x in found.items()}
    _share_storages(held)
    return held


def all_again(held: dict[str, Any], copies: Copies) -> dict[str, Any]:
    """Copies of all contents; the arrays of tensors are those of `copies`."""
    new = {name: _again(x, copies) for name, x in held.items()}
    _share_storages(new)
    return new


def _again(held: Any, copies: Copies) -> Any:
    if not isinstance(held, SimpleNamespace):
        return contents(held)
    fields = dict(vars(held))
    if "_array" in fields:
        fields["_array"] = copies.of(fields["real_array"])
        fields["_storage"] = SimpleNamespace(**vars(held._storage))
    return SimpleNamespace(**fields)


def _share_storages(held: dict[str, Any]) -> None:
    storages: dict[int, SimpleNamespace] = {}
    for x in held.values():
        if isinstance(x, SimpleNamespace) and "_storage" in vars(x):
            x._storage = storages.setdefault(x._storage.memory, x._storage)


def _of_tensor(tensor: Tensor, copies: Copies | None) -> SimpleNamespace:
    array = tensor._array
    extra = {k: v for k, v in tensor.__dict__.items() if k not in TENSOR_FIELDS}
    return SimpleNamespace(
        **extra,
        real_array=array,
        _array=array if copies is None else copies.of(array),
        _storage=SimpleNamespace(version=tensor._storage.version, memory=id(tensor._storage)),
        _requires_grad=tensor._requires_grad,
        _grad=None if tensor._grad is UNREAD else tensor._grad,
    )


def _of_cell(cell: CellType) -> CellType:
    try:
        return CellType(cell.cell_contents)
    except ValueError:
        return CellType()


def _of_slots(obj: Any) -> dict[str, Any] | None:
    """The slots that are set; None for a class that has none."""
    held: dict[str, Any] | None = None
    for name, descriptor in slots_of(type(obj)):
        held = {} if held is None else held
        try:
            held[name] = descriptor.__get__(obj, type(obj))
        except AttributeError:
            continue
    return held
