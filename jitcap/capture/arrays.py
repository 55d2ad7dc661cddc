"""Capture: NumPy arrays from outside, where `eager` makes tensors of them. array -> tensor.

An array that is converted or picks elements is an input of the graph, read anew at every call:
`from_numpy(batch)`, `tensor(batch)`, `x[places]`. What NumPy itself does with it splits the
program, but for parts and shapes of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from eager import dtype as dt
from eager.interop import from_numpy
from eager.tensor import Tensor
from jitcap.capture.origin import Attribute, Bind, Item, Origin, Step, Variable

if TYPE_CHECKING:
    from jitcap.capture.world import World

_KNOWN = frozenset(d.np for d in dt.ALL)


@dataclass(frozen=True, slots=True, eq=False)
class AsTensor(Step):
    """The tensor that shares an array's memory: another object at every call."""

    def expr(self, var: Variable, bind: Bind) -> str:
        return f"{bind(_input)}({var(self.base)})"

    def show(self) -> str:
        return f"from_numpy({self.base.show()})"


def _input(array: Any) -> Tensor | None:
    """The input that a guard checks: None where there is no tensor of the array."""
    if (
        type(array) is not np.ndarray
        or array.dtype not in _KNOWN
        or min(array.strides, default=0) < 0
    ):
        return None
    return from_numpy(array)


def tensor_of(world: World, value: Any) -> Any:
    """The tensor that shares the memory of an array from outside; any other value as it is."""
    origin = world.outside.origin_of(value) if type(value) is np.ndarray else None
    if origin is None:
        return value
    known = world.arrays.get(id(value))
    if known is None:
        made = _input(value)
        if made is None:
            return value
        known = world.arrays[id(value)] = world.outside.load(made, AsTensor(origin))
    return known.detach()


def item(world: World, array: Any, key: Any) -> Any:
    """`array[key]` for an array from outside. Raises Break unless `key` is made of ints."""
    origin = _origin(world, array)
    key = _known(world, key)
    part = array[key] if _is_plain(key) else None
    if type(part) is not np.ndarray:  # a number may be another one by now
        world.see(array, "an item")
    return world.outside.load(part, Item(origin, key))


def _known(world: World, key: Any) -> Any:
    if type(key) is slice:
        return slice(*map(world.known, (key.start, key.stop, key.step)))
    return tuple(_known(world, k) for k in key) if type(key) is tuple else world.known(key)


def _is_plain(key: Any) -> bool:
    if type(key) is slice:
        key = (key.start, key.stop, key.step)
    if type(key) is tuple:
        return all(map(_is_plain, key))
    return key is None or key is Ellipsis or type(key) is int


def attribute(world: World, array: Any, name: str) -> Any:
    """`array.name` for an array from outside. Raises Break unless that is part of its layout."""
    origin = _origin(world, array)
    if name not in ("shape", "ndim", "size", "dtype", "T"):
        world.see(array, f".{name}")
    return world.outside.load(getattr(array, name), Attribute(origin, name))


def _origin(world: World, array: Any) -> Origin:
    origin = world.outside.origin_of(array)
    assert origin is not None
    return origin


def index_of(world: World, key: Any) -> Any:
    """`key` of `x[key]` with tensors for the arrays in it."""
    if type(key) is tuple:
        return tuple(tensor_of(world, k) for k in key)
    return tensor_of(world, key)
