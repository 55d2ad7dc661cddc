"""Capture: how values that escape are made again at every call. captured values -> source.

What came from outside is the outside object itself; new objects are built anew (shared ones once,
cycles included); tensors and run-time numbers become outputs of the graph.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from eager.dispatch import apply
from eager.sym import SymNumber
from eager.tensor import Tensor, wrap
from eager.traced import Traced, TracedStorage
from jitcap.capture import numbers
from jitcap.capture.breaks import Break
from jitcap.capture.kinds.base import MutableKind, kind_of
from jitcap.capture.kinds.tensors import TENSOR_FIELDS
from jitcap.capture.session import Session
from jitcap.graph import Node
from jitcap.guards import Names

_LITERALS: Final = (int, str, bytes)


class _Cycle(Exception):
    """An object contains itself: it must be made empty first and filled later."""


class Rebuilder:
    """Renders values. `outputs` collects the graph outputs that the source refers to as `o[i]`."""

    def __init__(self, session: Session, names: Names) -> None:
        self.session = session
        self.names = names
        self.outputs: list[Node] = []
        self.tracked: dict[int, Tensor] = {}  # output index -> traced tensor that requires grad
        self.freed: list[Tensor] = []
        self.result_of: dict[int, str] = {}  # output index -> variable of the tensor made of it
        self.owners: dict[int, str] = {}  # the same for results without a history
        self.lines: list[str] = []
        self.late: list[str] = []  # filling of cyclic objects
        self.memo: dict[int, str] = {}
        self.bases: dict[int, str] = {}  # id of a TracedStorage -> variable of its base tensor
        self._busy: set[int] = set()
        self._early: set[int] = set()  # objects in cycles
        self._keep: list[Any] = []

    # ---- the entry points

    def expr(self, value: Any) -> str:
        """Source that gives `value`; objects with identity are made once."""
        cls = type(value)
        if value is None or cls is bool or value is Ellipsis or value is NotImplemented:
            return repr(value)
        given = self.session.outside.constants.get(id(value))
        if given is not None and not _is_interned(value):  # the very object, as in Python
            return self.names.var(given[1])
        if cls in _LITERALS:
            return repr(value)
        found = self.memo.get(id(value))
        if found is not None:
            return found
        shadow = self.session.outside.shadow(value)
        if shadow is not None:
            text = self.names.var(shadow.origin)
        else:
            text = self._new(value, cls)
        self.memo[id(value)] = text
        self._keep.append(value)
        return text

    def written_at(self, twin: Any, key: Any) -> str:
        return self.session.written_at(twin, key)

    def output(self, node: Any) -> int:
        """The index of a graph output."""
        self.outputs.append(node)
        return len(self.outputs) - 1

    def let(self, text: str) -> str:
        """A new variable with the value of `text`."""
        name = f"t{len(self.lines)}"
        self.lines.append(f"{name} = {text}")
        return name

    def all(self, values: Iterable[Any]) -> str:
        return ", ".join(map(self.expr, values))

    def is_fixed(self, value: Any) -> bool:
        return self.session.outside.is_fixed(value)

    def is_outside(self, value: Any) -> bool:
        return self.session.outside.shadow(value) is not None

    def _new(self, value: Any, cls: type) -> str:
        made = value if isinstance(value, type) else cls
        if id(made) in self.session.made:
            raise Break("effect", f"the class {made.__qualname__}, made by every call, escapes")
        if id(value) in self._busy:
            self._early.add(id(value))
            raise _Cycle
        self._busy.add(id(value))
        try:
            return kind_of(value).rebuild(self, value)
        finally:
            self._busy.discard(id(value))

    def mutable(self, kind: MutableKind, value: Any) -> str:
        """An object that can contain itself: then it is filled when everything is there."""
        if id(value) in self._early:
            name = self.let(kind.empty(self, value))
            self.memo[id(value)] = name
            self.late += kind.filling(self, name, value)
            return name
        if type(value) is list:
            return self.let(f"[{self.all(value)}]")
        if type(value) is dict:
            pairs = (f"{self.expr(k)}: {self.expr(v)}" for k, v in value.items())
            return self.let(f"{{{', '.join(pairs)}}}")
        filling = kind.filling(self, "_", value)  # children first, then the object
        name = self.let(kind.empty(self, value))
        self.lines += [line.replace("_", name, 1) for line in filling]
        return name

    # ---- run-time values

    def number(self, number: SymNumber) -> str:
        origin = numbers.origin_of(self.session, number.handle)
        if origin is not None:
            return self.names.var(origin)
        index = self.output(number.handle)
        return self.let(f"{self.names.bind(number.pytype)}(o[{index}])")

    def tensor(self, tensor: Tensor) -> str:
        array = tensor._array
        lifted = self.session.tracer.lifted(tensor)
        if type(array) is not Traced:
            if lifted is None:
                name = self._constant_tensor(tensor)
                return self._dress(name, tensor)
            array = lifted
        if self.has_history(tensor):
            return self._dress(self._tracked(tensor, array), tensor)
        storage = array.storage
        owner = self.session.owners.get(id(storage))
        if owner is not None:
            base = self.names.var(owner.origin)
            return self._dress(self._view(base, array, tensor), tensor)
        base = self.bases.get(id(storage), "")
        if not base:
            base = self._base(storage, tensor, plain=not array.chain)
            if not array.chain:
                return self._dress(base, tensor)
        return self._dress(self._view(base, array, tensor), tensor)

    def has_history(self, tensor: Tensor) -> bool:
        return bool(tensor._requires_grad and tensor._node is not None)

    def _base(self, storage: TracedStorage, tensor: Tensor, *, plain: bool) -> str:
        """The tensor that owns a new piece of memory."""
        index = self.output(storage.handle)
        cls = (
            f", None, {self.names.bind(type(tensor))}"
            if plain and type(tensor) is not Tensor
            else ""
        )
        name = self.bases[id(storage)] = self.let(f"{self.names.bind(wrap)}(o[{index}]{cls})")
        self.owners[index] = name
        self._keep.append(storage)
        return name

    def _tracked(self, tensor: Tensor, array: Traced) -> str:
        """An output whose history goes on outside."""
        index = self.output(array.read())
        cls = f", None, {self.names.bind(type(tensor))}" if type(tensor) is not Tensor else ""
        name = self.let(f"{self.names.bind(wrap)}(o[{index}]{cls})")
        self.tracked[index] = tensor
        self.result_of[index] = name
        return name

    def _view(self, base: str, array: Traced, tensor: Tensor) -> str:
        """A view (or, with no steps, an alias) of `base`'s memory."""
        text = f"{base}.detach()"
        for op, attrs in array.chain:
            pairs = "".join(f", {k}={self.names.bind(v)}" for k, v in attrs.items())
            text = f"{self.names.bind(apply)}({self.names.bind(op)}, {text}{pairs})"
        return self.let(text)

    def _constant_tensor(self, tensor: Tensor) -> str:
        data = self.names.bind(tensor._array.copy())
        cls = f", None, {self.names.bind(type(tensor))}" if type(tensor) is not Tensor else ""
        return self.let(f"{self.names.bind(wrap)}({data}.copy(){cls})")

    def _dress(self, name: str, tensor: Tensor) -> str:
        """What a new tensor carries beside its data."""
        self.memo[id(tensor)] = name
        self._keep.append(tensor)
        if tensor._requires_grad and tensor._node is None:
            self.lines.append(f"{name}._requires_grad = True")
        if tensor._hooks is not None:
            raise Break("effect", "a tensor that is made inside has hooks")
        if tensor._grad is not None:
            self.lines.append(f"{name}._grad = {self.expr(tensor._grad)}")
        for key, value in tensor.__dict__.items():
            if key not in TENSOR_FIELDS:
                self.lines.append(f"{name}.{key} = {self.expr(value)}")
        return name


def _is_interned(value: Any) -> bool:
    """Whether equal values of this kind are usually one object."""
    if type(value) is str:
        return value.isidentifier()
    return type(value) is int and -5 <= value <= 256


CYCLE: Final = _Cycle
