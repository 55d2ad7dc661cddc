"""Verified calls: two values side by side. what the compiled version gave, what Python gave ->
differences, and the pairs of numbers that still have to be judged.

Structure, types, identity and memory are compared exactly. Where the compiled version made an
object that Python made too, the two are a pair from then on: everywhere else the one must stand
where the other does.
"""

from __future__ import annotations

import collections
import copy
import functools
import types
from collections.abc import Iterable
from types import CellType, FunctionType, MethodType, SimpleNamespace
from typing import Any, Final

import numpy as np

from eager.base.dataclass import dataclass
from eager.core.tensor import Tensor
from eager.core.traced import Traced
from jitcap.base.call_policy import is_python_class
from jitcap.capture.kinds.objects import slots_of
from jitcap.capture.kinds.tensors import TENSOR_FIELDS
from jitcap.verify.copies import owner_of

_NUMBERS: Final = (bool, int, float, complex, np.generic)
_LEAVES: Final = (*_NUMBERS, str, bytes, np.ndarray)
# Of these one can stand for another: what is left to go through counts.
_GONE_THROUGH: Final[tuple[Any, ...]] = ([], (), {}, {}.values(), {}.items(), set(), range(0))
_ITERATORS: Final[tuple[Any, ...]] = tuple(type(iter(x)) for x in _GONE_THROUGH)
_EXACT: Final = (range, slice, np.dtype, types.GenericAlias)


@dataclass(frozen=True, slots=True)
class Difference:
    """Difference of two runs, and its place: a part of the result, or an object from outside."""

    path: str
    what: str
    array: Any = None  # of the compiled version, where it is one
    number: bool = False  # whether it is the elements, or the number, that differ


@dataclass(frozen=True, slots=True)
class Leaf:
    """Two arrays, numbers or texts at one place."""

    path: str
    got: Any
    want: Any
    key: str  # of its samples: a place may hold one object before the call and another after it


class Comparison:
    """`old`: objects and arrays that were there before the call, by id, with how they are shown."""

    def __init__(self, old: dict[int, str]) -> None:
        self.differences: list[Difference] = []
        self.leaves: list[Leaf] = []
        self._counts: collections.Counter[str] = collections.Counter()
        self.tensors: dict[int, Tensor] = {}  # id of a tensor of the compiled version -> Python's
        self._old = old
        self._pairs: dict[int, Any] = {}
        self._back: dict[int, Any] = {}
        self._memory: dict[int, tuple[int, int]] = {}  # id of owner -> id of the other's, distance
        self._memory_back: dict[int, int] = {}
        self._keep: list[Any] = []

    def leaf(self, path: str, a: Any, b: Any) -> None:
        """Note two values that rounding may keep apart."""
        count = self._counts[path]
        self._counts[path] += 1
        self.leaves.append(Leaf(path, a, b, f"{path} ({count})" if count else path))

    def differ(self, path: str, what: str, array: Any = None) -> None:
        self.differences.append(Difference(path, what, array))

    def share(self, copy: Any, array: Any) -> None:
        """`copy` is what the compiled version had in the place of `array`."""
        owner, other = owner_of(copy), owner_of(array)
        self._keep += (owner, other)
        self._memory[id(owner)] = id(other), array.ctypes.data - copy.ctypes.data
        self._memory_back[id(other)] = id(owner)

    def match(self, path: str, a: Any, b: Any) -> None:
        """Compare `a` of the compiled version with `b`."""
        if a is b:
            return
        if isinstance(a, _ITERATORS) and isinstance(b, _ITERATORS):
            self.sequence(path, list(copy.copy(a)), list(copy.copy(b)))
        elif type(a) is not type(b):
            self.differ(path, f"{_name(a)} in the compiled version, {_name(b)} in Python")
        elif isinstance(a, _LEAVES):
            self.leaf(path, a, b)
        elif isinstance(a, _EXACT):
            if repr(a) != repr(b):  # range(0, 3, 2) == range(0, 4, 2)
                self.differ(path, f"{a!r} in the compiled version, {b!r} in Python")
        elif self._pair(path, a, b):
            self._contents(path, a, b)

    def _pair(self, path: str, a: Any, b: Any) -> bool:
        """Note that `a` stands for `b`; False when that is known, or wrong."""
        if isinstance(a, tuple | frozenset):
            return True
        if id(a) in self._old or id(b) in self._old:
            shown = [self._old.get(id(x), "a new object") for x in (a, b)]
            self.differ(path, f"{shown[0]} in the compiled version, {shown[1]} in Python")
            return False
        self._keep += (a, b)
        known, back = self._pairs.get(id(a)), self._back.get(id(b))
        if known is None and back is None:
            self._pairs[id(a)], self._back[id(b)] = b, a
            if isinstance(a, Tensor):
                self.tensors[id(a)] = b
            return True
        if known is not b or back is not a:
            one = "one object in the compiled version, two in Python"
            two = "two objects in the compiled version, one in Python"
            self.differ(path, two if known is None else one)
        return False

    # ---- by type

    def _contents(self, path: str, a: Any, b: Any) -> None:
        if isinstance(a, Tensor):
            self._tensor(path, a, b)
            return
        if isinstance(a, dict):
            self._dict(path, a, b)
        elif isinstance(a, list | tuple | collections.deque):
            self.sequence(path, a, b)
        elif isinstance(a, set | frozenset):
            self.set_of(path, a, b)
        elif isinstance(a, CellType):
            self._attributes(path, a, b, ("cell_contents",))
        elif isinstance(a, FunctionType):
            names = ("__code__", "__globals__", "__defaults__", "__kwdefaults__", "__closure__")
            self._attributes(path, a, b, (*names, "__dict__"))
        elif isinstance(a, MethodType):
            self._attributes(path, a, b, ("__func__", "__self__"))
        elif isinstance(a, functools.partial):
            self._attributes(path, a, b, ("func", "args", "keywords"))
        elif isinstance(a, BaseException):
            self._attributes(path, a, b, ("args", "__cause__"))
        elif isinstance(a, types.BuiltinFunctionType | types.MethodWrapperType):
            self._attributes(path, a, b, ("__name__", "__self__"))
        elif isinstance(a, type | types.ModuleType):
            self.differ(path, f"{a!r} in the compiled version, {b!r} in Python")
        elif isinstance(a, collections.abc.Iterator) and not is_python_class(type(a)):
            self.sequence(path, _reduced(a), _reduced(b))
        if is_python_class(type(a)):
            self._instance(path, a, b)

    def sequence(self, path: str, a: Any, b: Any) -> None:
        """The elements of two lists, tuples or deques."""
        if len(a) != len(b):
            self.differ(path, f"{len(a)} elements in the compiled version, {len(b)} in Python")
            return
        for i, (x, y) in enumerate(zip(a, b, strict=True)):
            self.match(f"{path}[{i}]", x, y)

    def _dict(self, path: str, a: dict[Any, Any], b: dict[Any, Any]) -> None:
        keys, others = list(dict.keys(a)), list(dict.keys(b))
        self.entries(
            path, [(k, dict.__getitem__(a, k)) for k in keys],
            [(k, dict.__getitem__(b, k)) for k in others], lambda k: f"{path}[{show_key(k)}]",
        )  # fmt: skip

    def entries(self, path: str, a: list[Any], b: list[Any], label: Any) -> None:
        """(key, value) pairs in order; `label` names the place of a key."""
        if len(a) != len(b) or not all(map(self._same_key, a, b)):
            known = [k for k, _ in a]
            missing = [k for k, _ in b if not any(k is x or _plain_equal(k, x) for x in known)]
            there = [k for k, _ in b]
            extra = [k for k in known if not any(k is x or _plain_equal(k, x) for x in there)]
            for key in missing:
                self.differ(label(key), "set by Python, not by the compiled version")
            for key in extra:
                self.differ(label(key), "set by the compiled version, not by Python")
            if not missing and not extra:
                self.differ(path, "the keys have another order in the compiled version")
            return
        for (key, x), (other, y) in zip(a, b, strict=True):
            self.match(f"a key of {path}", key, other)
            self.match(label(key), x, y)

    def _same_key(self, a: tuple[Any, Any], b: tuple[Any, Any]) -> bool:
        plain = isinstance(a[0], _LEAVES) or isinstance(b[0], _LEAVES)
        return a[0] is b[0] or (_plain_equal(a[0], b[0]) if plain else type(a[0]) is type(b[0]))

    def set_of(self, path: str, a: Any, b: Any) -> None:
        """Elements that are constants, 1 apart from True; of others the number."""
        if all(isinstance(x, (*_NUMBERS, str, bytes, type(None))) for x in (*a, *b)):
            if {(type(x), x) for x in a} != {(type(x), x) for x in b}:
                self.differ(path, f"{a!r} in the compiled version, {b!r} in Python")
        elif len(a) != len(b):
            self.differ(path, f"{len(a)} elements in the compiled version, {len(b)} in Python")

    def _attributes(self, path: str, a: Any, b: Any, names: Iterable[str]) -> None:
        for name in names:
            self.match(f"{path}.{name}", _attribute(a, name), _attribute(b, name))

    def _instance(self, path: str, a: Any, b: Any) -> None:
        fields = getattr(type(a), "__dictoffset__", 0) != 0
        if fields:
            x, y = object.__getattribute__(a, "__dict__"), object.__getattribute__(b, "__dict__")
            self.entries(path, list(x.items()), list(y.items()), lambda k: f"{path}.{k}")
        for name, descriptor in slots_of(type(a)):
            self.match(f"{path}.{name}", _slot(descriptor, a), _slot(descriptor, b))

    # ---- tensors

    def _tensor(self, path: str, a: Tensor, b: Tensor) -> None:
        x, y = a._requires_grad, b._requires_grad
        if x is not y:
            self.differ(path, f"requires_grad is {x} in the compiled version, {y} in Python")
        if (a._node is None) is not (b._node is None):
            with_history = "has no history" if a._node is None else "has a history"
            self.differ(path, f"{with_history} in the compiled version, unlike in Python")
        self.array(path, a._array, b._array)
        self.match(f"{path}.grad", a._grad, b._grad)
        mine, theirs = (
            [(k, v) for k, v in t.__dict__.items() if k not in TENSOR_FIELDS] for t in (a, b)
        )
        self.entries(path, mine, theirs, lambda k: f"{path}.{k}")

    def array(self, path: str, a: Any, b: Any) -> None:
        """Element type, shape, layout, memory; the elements become a leaf."""
        if a is b or isinstance(b, Traced):
            return
        for what, x, y in (
            ("dtype", a.dtype, b.dtype), ("shape", a.shape, b.shape),
            ("strides", _strides(a), _strides(b)),
        ):  # fmt: skip
            if x != y:
                self.differ(path, f"{what} {x} in the compiled version, {y} in Python", a)
                return
        shown = self._owner_name(a, self._memory), self._owner_name(b, self._memory_back)
        if a.size and not self._pair_memory(a, b):
            what = f"its memory is {shown[0]} in the compiled version, {shown[1]} in Python"
            self.differ(path, what, a)
        elif id(owner_of(a)) not in self._old:
            self.leaf(path, a, b)

    def _pair_memory(self, a: Any, b: Any) -> bool:
        """True if `a` shares memory as `b` does in the plain run, at the same offsets."""
        owner, other = owner_of(a), owner_of(b)
        self._keep += (owner, other)
        distance = b.ctypes.data - a.ctypes.data
        if id(owner) in self._old:
            return owner is other and not distance
        place = self._memory.setdefault(id(owner), (id(other), distance))
        back = self._memory_back.setdefault(id(other), id(owner))
        return place == (id(other), distance) and back == id(owner)

    def _owner_name(self, array: Any, known: dict[int, Any]) -> str:
        owner = id(owner_of(array))
        return self._old.get(owner) or ("another result's" if owner in known else "its own")


def _strides(array: Any) -> tuple[int, ...]:
    """Strides, where they mean something."""
    if not array.size:
        return ()
    return tuple(s for s, n in zip(array.strides, array.shape, strict=True) if n > 1)


def show_key(key: Any) -> str:
    return repr(key) if isinstance(key, (*_NUMBERS, str, bytes, tuple)) else _name(key)


def _name(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return repr(value)
    return f"a {type(value).__qualname__}"


def _plain_equal(a: Any, b: Any) -> bool:
    return isinstance(a, _LEAVES) and type(a) is type(b) and bool(a == b)


def _attribute(value: Any, name: str) -> Any:
    """An attribute of a builtin type, None where it is unset (an empty cell)."""
    try:
        return getattr(value, name)
    except ValueError:
        return None


def _slot(descriptor: Any, obj: Any) -> Any:
    try:
        return descriptor.__get__(obj, type(obj))
    except AttributeError:
        return None


def _reduced(iterator: Any) -> tuple[Any, ...]:
    """State of an iterator, by `__reduce__`; empty if it has none."""
    try:
        return tuple(iterator.__reduce__())
    except TypeError:
        return ()


def same_namespace(
    comparison: Comparison, path: str, a: SimpleNamespace, b: SimpleNamespace
) -> None:
    """The fields of what `contents` gives for a tensor or a generator."""
    for name in dict.fromkeys((*vars(a), *vars(b))):
        if name == "_array":
            comparison.array(path, a._array, b._array)
        elif name in ("_storage", "real_array"):
            continue
        elif name not in vars(a):
            comparison.differ(f"{path}.{name}", "set by Python, not by the compiled version")
        elif name not in vars(b):
            comparison.differ(f"{path}.{name}", "set by the compiled version, not by Python")
        else:
            comparison.match(f"{path}.{name.lstrip('_')}", vars(a)[name], vars(b)[name])
