"""Capture: values that are made of others, for `branch` and `while_loops`. a value <-> its entries.

Tuples (named ones, too), lists, dictionaries, and instances of classes of the program's whose state
is their fields. Where two ways of a branch, or the rounds of a loop, make such a value of one shape
each, it is one value, and its entries are chosen or carried.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import SimpleNamespace
from typing import Any, Final

from eager.control_flow import cond as control_flow
from eager.core.sym import SymNumber
from eager.core.tensor import Tensor
from eager.random import Generator
from eager.sizes.aval import same_aval
from jitcap.base.call_policy import is_library_module, is_python_class, per_class
from jitcap.base.origin import is_unset
from jitcap.capture.control.arm_compatibility import CONSTANTS
from jitcap.capture.control.log import known_elsewhere
from jitcap.capture.control.loop_iterables import same_constant
from jitcap.capture.interpret import Frame
from jitcap.capture.kinds.contents import namespace_of
from jitcap.capture.kinds.objects import slots_of
from jitcap.capture.numbers import INT64

Entries = dict[Any, Any]
_NUMBERS: Final = (bool, int, float)


@per_class
def is_tuple(cls: type) -> bool:
    """A tuple, or one of a class that is no more than names for its entries."""
    classes = [c for c in cls.__mro__ if c is not tuple and c is not object]
    if not issubclass(cls, tuple) or (classes and cls.__dictoffset__):
        return False
    return all(is_python_class(c) and ("__new__" not in vars(c) or "_fields" in vars(c))
               for c in classes)  # fmt: skip


@per_class
def is_mutable(cls: type) -> bool:
    """True if instances of a class hold entries that can be replaced."""
    *classes, last = cls.__mro__
    if cls is list or cls is dict or cls is SimpleNamespace:
        return True
    own = last is object and not issubclass(cls, Tensor | Generator | type)
    return own and not is_library_module(cls.__module__) and all(map(is_python_class, classes))


def entries(value: Any) -> Entries | None:
    """Entries of a value, by index, key or name; None if it is not looked into."""
    cls = type(value)
    if is_tuple(cls) or cls is list:
        return dict(enumerate(value))
    if not is_mutable(cls):
        return None
    if cls is dict:
        return dict(value)
    slots = {k: x.__get__(value) for k, x in slots_of(cls) if not is_unset(x, value)}
    return {k: v for table in (*namespace_of(value), slots) for k, v in table.items()}


def same_keys(a: Entries, b: Entries) -> bool:
    """True if two values have the same keys, in the same order."""
    return len(a) == len(b) and all(
        x is y or (type(x) in CONSTANTS and same_constant(x, y)) for x, y in zip(a, b, strict=True)
    )


def empty_like(value: Any) -> Any:
    """An object of its class, for `refill`; of a tuple, that."""
    cls: Any = type(value)
    if is_tuple(cls):
        return value
    base = SimpleNamespace if issubclass(cls, SimpleNamespace) else object
    return cls() if cls is list or cls is dict else base.__new__(cls)


def refill(value: Any, new: Entries) -> Any:
    """The container with other entries; another one of a tuple."""
    cls = type(value)
    if is_tuple(cls):
        return tuple.__new__(cls, new.values())
    if cls is list:
        value[:] = new.values()
    elif cls is dict:
        value.update(new)
    else:
        slots, fields = dict(slots_of(cls)), getattr(value, "__dict__", {})
        for name, each in new.items():
            if name in slots:
                slots[name].__set__(value, each)
            else:
                fields[name] = each
    return value


# ---- what a loop carries


def is_leaf(value: Any) -> bool:
    """A tensor, or a number of the graph's."""
    if isinstance(value, SymNumber):
        return value.pytype in _NUMBERS
    if type(value) is int:
        return value in INT64
    return isinstance(value, Tensor) or (
        isinstance(value, bool | int | float) and type(value) in _NUMBERS
    )


def leaves_of(tree: Any) -> list[Any]:
    """The tensors and numbers in it."""
    if is_leaf(tree):
        return [tree]
    return [leaf for part in (entries(tree) or {}).values() for leaf in leaves_of(part)]


def fill(tree: Any, leaves: Iterable[Any]) -> Any:
    """Copy of a tree with other leaves, in objects of its own."""
    return _fill(tree, iter(leaves))


def _fill(tree: Any, leaves: Iterator[Any]) -> Any:
    if is_leaf(tree):
        return next(leaves)
    held = entries(tree)
    if held is None:
        return tree
    return refill(empty_like(tree), {k: _fill(v, leaves) for k, v in held.items()})


def can_be_carried(value: Any) -> bool:
    """A leaf, or a tree with some, none of whose objects is in it twice."""
    objects = objects_in(value)
    return len({*map(id, objects)}) == len(objects) and bool(leaves_of(value))


def objects_in(tree: Any, found: list[Any] | None = None) -> list[Any]:
    """The mutable objects that it is made of, as often as they are there; `found`: those before."""
    found = [] if found is None else found
    held = None if is_leaf(tree) else entries(tree)
    if held and not is_tuple(type(tree)):
        again = any(tree is x for x in found)
        found.append(tree)
        held = {} if again else held
    for part in (held or {}).values():
        objects_in(part, found)
    return found


def ids_in(tree: Any) -> set[int]:
    """The ids of these objects, and of what they keep their entries in."""
    return {i for x in objects_in(tree) for i in (id(x), id(getattr(x, "__dict__", x)))}


def are_own(s: Any, frame: Frame, names: set[str], live: frozenset[str]) -> bool:
    """True if the mutable objects in these locals are theirs alone; `live`: the live locals."""
    objects: list[Any] = []
    for name in names:
        objects_in(frame.fast.get(name), objects)
    if len({*map(id, objects)}) < len(objects):
        return False
    if not objects or any(s.outside.shadow(x) is not None for x in objects):
        return not objects
    rest = {n: frame.fast[n] for n in live - names if n in frame.fast}
    return not known_elsewhere(s, frame, rest, objects)


def wholes_in(trees: Iterable[Any]) -> list[Any]:
    """Values in trees that hold others, in preorder."""
    found: list[Any] = []
    for tree in trees:
        held = None if is_leaf(tree) else entries(tree)
        found += [tree, *wholes_in(held.values())] if held else []
    return found


def can_follow(before: Any, after: Any) -> bool:
    """True if a round may find `after` where the one before found `before`."""
    if is_leaf(before) or is_leaf(after):
        return is_leaf(before) and is_leaf(after) and _is_like(before, after)
    first, second = entries(before), entries(after)
    if type(before) is not type(after) or first is None or second is None:
        return before is after or (type(before) in CONSTANTS and same_constant(before, after))
    return same_keys(first, second) and all(map(can_follow, first.values(), second.values()))


def _is_like(a: Any, b: Any) -> bool:
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return same_aval(a.aval, b.aval)
    return bool(control_flow.kind_of(a) == control_flow.kind_of(b))
