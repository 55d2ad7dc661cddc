"""Capture: how values that escape are made again at every call. captured values -> source.

What came from outside is the outside object itself; new objects are built anew (shared ones once,
cycles included); tensors and run-time numbers become outputs of the graph.
"""

from __future__ import annotations

import collections
import enum
import functools
import re
import sys
import types
from collections.abc import Iterable
from types import BuiltinFunctionType, CellType, FunctionType, MethodType, SimpleNamespace
from typing import Any, Final

import numpy as np

from eager.device import Size, device
from eager.dispatch import apply
from eager.dtype import DType
from eager.sym import SymNumber
from eager.tensor import Tensor, wrap
from eager.traced import Traced, TracedStorage
from jitcap.capture import numbers
from jitcap.capture.breaks import Break
from jitcap.capture.interpret import Generator, Null
from jitcap.capture.kinds.functions import base_method
from jitcap.capture.kinds.objects import slots_of
from jitcap.capture.kinds.tensors import TENSOR_FIELDS
from jitcap.capture.kinds.text import Deferred
from jitcap.capture.native import is_python_class
from jitcap.capture.session import Session
from jitcap.graph import Node
from jitcap.guards import Names

_LITERALS: Final = (int, str, bytes)
_CONSTANTS: Final = (
    float, complex, range, DType, device, np.generic, np.dtype, type, types.ModuleType,
    enum.Enum, property, types.MethodDescriptorType,
    types.WrapperDescriptorType, types.GenericAlias, types.CodeType, types.TracebackType, Null,
    re.Pattern, re.Match,
)  # fmt: skip
_VALUES: Final = (int, float, complex, str, bytes)
_BASES: Final = (object, dict, list, set, collections.OrderedDict, SimpleNamespace)
_EMPTY: Final[tuple[Any, ...]] = ([], (), range(0), {}, {}.values(), {}.items(), set(), "")
_ITERATORS: Final[tuple[Any, ...]] = (
    *(type(iter(x)) for x in _EMPTY), enumerate, zip, reversed, type(reversed([])),
)  # fmt: skip


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

    # ---- by type

    def _new(self, value: Any, cls: type) -> str:
        made = value if isinstance(value, type) else cls
        if id(made) in self.session.made:
            raise Break("effect", f"the class {made.__qualname__}, made by every call, escapes")
        if isinstance(value, Tensor):
            return self._tensor(value)
        if cls is SymNumber:
            return self._number(value)
        if cls is Deferred:
            keywords = "".join(f", {k}={self.expr(v)}" for k, v in value.kwargs.items())
            return self.let(f"{self.expr(value.fn)}({self.all(value.args)}{keywords})")
        if isinstance(value, _CONSTANTS):
            return self.names.bind(value)
        if isinstance(value, BuiltinFunctionType | types.MethodWrapperType):
            return self._builtin(value)
        if id(value) in self._busy:
            self._early.add(id(value))
            raise _Cycle
        self._busy.add(id(value))
        try:
            return self._object(value, cls)
        finally:
            self._busy.discard(id(value))

    def _object(self, value: Any, cls: type) -> str:
        if cls in (tuple, Size) or isinstance(value, tuple):
            return self._tuple(value, cls)
        if cls is slice:
            return f"slice({self.all((value.start, value.stop, value.step))})"
        if cls is frozenset:
            return self.let(f"frozenset(({self.all(value)}{',' if value else ''}))")
        if cls is FunctionType:
            return self._function(value)
        if cls is MethodType:
            make = self.names.bind(MethodType)
            return self.let(f"{make}({self.expr(value.__func__)}, {self.expr(value.__self__)})")
        if cls is functools.partial:
            return self._partial(value)
        if isinstance(value, BaseException):
            return self._exception(value, cls)
        if isinstance(value, _ITERATORS):
            return self._iterator(value)
        return self._mutable(value, cls)

    def _exception(self, value: BaseException, cls: type) -> str:
        native: Any = next(b for b in cls.__mro__ if not is_python_class(b))  # OSError, groups ...
        make, init = self.names.bind(native.__new__), self.names.bind(native.__init__)
        name = self.let(f"{make}({self.all((cls, *value.args))})")
        self.lines.append(f"{init}({', '.join([name, *map(self.expr, value.args)])})")
        self.lines.append(f"{name}.args = ({self.all(value.args)}{',' if value.args else ''})")
        for field in ("__cause__", "__context__", "__suppress_context__"):
            if getattr(value, field):
                self.lines.append(f"{name}.{field} = {self.expr(getattr(value, field))}")
        fields = {k: v for k, v in value.__dict__.items() if not k.startswith("__jitcap")}
        if fields:
            self.lines.append(f"{name}.__dict__.update({self.expr(fields)})")
        return name

    def _mutable(self, value: Any, cls: type) -> str:
        """Objects that can contain themselves."""
        if id(value) in self._early:
            name = self.let(self._empty(value, cls))
            self.memo[id(value)] = name
            self.late += self._filling(name, value, cls)
            return name
        if cls is list:
            return self.let(f"[{self.all(value)}]")
        if cls is dict:
            pairs = (f"{self.expr(k)}: {self.expr(v)}" for k, v in value.items())
            return self.let(f"{{{', '.join(pairs)}}}")
        filling_of = self._filling  # children first, then the object
        probe = filling_of("_", value, cls)
        name = self.let(self._empty(value, cls))
        self.lines += [line.replace("_", name, 1) for line in probe]
        return name

    def _empty(self, value: Any, cls: type) -> str:
        kind = self.names.bind(cls)
        if cls is collections.deque:
            return f"{kind}(maxlen={value.maxlen})"
        if cls is bytearray:
            return f"{kind}({bytes(value)!r})"
        if cls is collections.defaultdict:
            return f"{kind}({self.expr(value.default_factory)})"
        if cls in (list, dict, set, collections.OrderedDict, CellType, object):
            return f"{kind}()"
        if isinstance(value, Generator) or not is_python_class(cls):
            raise Break("generator" if isinstance(value, Generator) else "effect", _escapes(cls))
        base: Any = next(b for b in cls.__mro__ if not is_python_class(b) or b is SimpleNamespace)
        make = f"{self.names.bind(base)}.__new__({kind}"
        if base in _VALUES:
            return f"{make}, {self.names.bind(base(value))})"
        if base is collections.deque:
            return f"{self.names.bind(_empty_deque)}({kind}, {value.maxlen})"
        if base not in _BASES:
            raise Break("effect", _escapes(cls))
        return f"{make})"

    def _filling(self, name: str, value: Any, cls: type) -> list[str]:
        """Statements that fill the empty object `name`."""
        lines: list[str] = []
        if cls is CellType:
            content = _content(value)
            return [f"{name}.cell_contents = {self.expr(content[0])}"] if content else []
        if isinstance(value, list | collections.deque):
            extend = self.names.bind(
                (list if isinstance(value, list) else collections.deque).extend
            )
            lines.append(f"{extend}({name}, [{self.all(value)}])" if value else "")
        elif isinstance(value, set):
            lines.append(f"{name}.update([{self.all(value)}])" if value else "")
        elif isinstance(value, dict):
            ordered = isinstance(value, collections.OrderedDict)
            kind: Any = collections.OrderedDict if ordered else dict
            put = self.names.bind(kind.__setitem__)
            for k, v in kind.items(value):
                lines.append(f"{put}({name}, {self.expr(k)}, {self.expr(v)})")
        if is_python_class(cls):
            put = self.names.bind(object.__setattr__)
            fields = getattr(value, "__dict__", {})
            if fields:
                pairs = (f"{k!r}: {self.expr(v)}" for k, v in fields.items())
                lines.append(f"{name}.__dict__.update({{{', '.join(pairs)}}})")
            for slot, descriptor in slots_of(cls):
                held = _slot(descriptor, value)
                lines += [f"{put}({name}, {slot!r}, {self.expr(held[0])})"] if held else []
        return [line for line in lines if line]

    def _tuple(self, value: tuple[Any, ...], cls: type) -> str:
        if all(type(v) in (int, str, bool, type(None)) for v in value):
            return self.names.bind(value)
        text = f"({self.all(value)},)" if len(value) else "()"
        if cls is tuple:
            return self.let(text)
        return self.let(f"{self.names.bind(tuple.__new__)}({self.names.bind(cls)}, {text})")

    def _function(self, fn: FunctionType) -> str:
        if self.session.outside.is_fixed(fn) or _importable(fn):
            return self.names.bind(fn)
        code, scope = self.names.bind(fn.__code__), self.names.bind(fn.__globals__)
        cells = f"({self.all(fn.__closure__)},)" if fn.__closure__ else "None"
        make = self.names.bind(FunctionType)
        defaults = self.expr(fn.__defaults__)
        name = self.let(f"{make}({code}, {scope}, {fn.__name__!r}, {defaults}, {cells})")
        for field in ("__qualname__", "__doc__", "__module__"):
            self.lines.append(f"{name}.{field} = {getattr(fn, field)!r}")
        if fn.__kwdefaults__:
            self.lines.append(f"{name}.__kwdefaults__ = {self.expr(fn.__kwdefaults__)}")
        if fn.__dict__:
            self.lines.append(f"{name}.__dict__.update({self.expr(dict(fn.__dict__))})")
        return name

    def _builtin(self, fn: Any) -> str:
        """A builtin function, or a method of a builtin type bound to its object."""
        owner = getattr(fn, "__self__", None)
        if owner is None or isinstance(owner, type | types.ModuleType):
            return self.names.bind(fn)
        if self.session.outside.shadow(owner) is None and is_python_class(type(owner)):
            return self.names.bind(fn)  # of a library's own object: `random.random`
        if is_python_class(type(owner)):  # the base's own method, whatever overrides it
            return self.let(
                f"{self.names.bind(base_method(owner, fn))}.__get__({self.expr(owner)})"
            )
        return self.let(f"{self.let(self.expr(owner))}.{fn.__name__}")

    def _partial(self, value: functools.partial[Any]) -> str:
        keywords = "".join(f", {k}={self.expr(v)}" for k, v in value.keywords.items())
        return self.let(
            f"{self.names.bind(functools.partial)}({self.all((value.func, *value.args))}{keywords})"
        )

    def _iterator(self, value: Any) -> str:
        """An iterator in its present state."""
        make, args, *state = value.__reduce__()
        name = self.let(f"{self.names.bind(make)}({self.all(args)})")
        if state and state[0] is not None:
            self.lines.append(f"{name}.__setstate__({self.expr(state[0])})")
        return name

    # ---- run-time values

    def _number(self, number: SymNumber) -> str:
        origin = numbers.origin_of(self.session, number.handle)
        if origin is not None:
            return self.names.var(origin)
        index = self.output(number.handle)
        return self.let(f"{self.names.bind(number.pytype)}(o[{index}])")

    def _tensor(self, tensor: Tensor) -> str:
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


def _empty_deque(cls: Any, maxlen: int | None) -> Any:
    """An empty deque of a subclass, whose own `__init__` may take other arguments."""
    made = collections.deque.__new__(cls)
    collections.deque.__init__(made, (), maxlen)
    return made


def _is_interned(value: Any) -> bool:
    """Whether equal values of this kind are usually one object."""
    if type(value) is str:
        return value.isidentifier()
    return type(value) is int and -5 <= value <= 256


def _escapes(cls: type) -> str:
    return f"a {cls.__module__}.{cls.__qualname__} made inside is returned or stored"


def _content(cell: CellType) -> tuple[Any, ...]:
    try:
        return (cell.cell_contents,)
    except ValueError:
        return ()


def _slot(descriptor: Any, value: Any) -> tuple[Any, ...]:
    try:
        return (descriptor.__get__(value, type(value)),)
    except AttributeError:
        return ()


def _importable(fn: FunctionType) -> bool:
    """Whether a module holds this very function under its name."""
    found: Any = sys.modules.get(fn.__module__ or "")
    for part in fn.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is fn


CYCLE: Final = _Cycle
