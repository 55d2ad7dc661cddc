"""Kept versions: the objects that generated code and guards name, as JSON. value <-> JSON.

JSON's own values stand for themselves, everything else is a list that begins with a tag. Reading
makes numbers, containers, arrays and the records of `_families`, each field checked against its
annotation. Functions, classes and modules are looked up by name, in dictionaries of modules that
are imported and of their classes: nothing is imported, and nothing of what is found runs. Of the
libraries only those of `_LIBRARIES` are looked at; a function or class of the program must be made
of the same text. An object of the program that has no name is found at its place by the version
itself (`Names.found`). Everything else refuses: a copy of it would not be it.
"""

from __future__ import annotations

import base64
import collections
import enum
import functools
import itertools
import math
import re
import sys
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Final

import numpy as np

from eager import dtype as dt
from eager import random, tape
from eager.aval import Aval
from eager.device import Size, device
from eager.dtype import DType
from eager.op import REGISTRY, Op
from jitcap import graph as ir
from jitcap.capture.native import is_library_module
from jitcap.capture.origin import Origin
from jitcap.graph import Graph, GraphOp, Node
from jitcap.guards import Guard
from jitcap.joint import Joint
from jitcap.kept.fingerprint import Unkept, fingerprint, library_name
from jitcap.kept.graphs import DTYPES
from jitcap.tensor_guard import Seen


class Unreadable(Exception):
    """This is not what `write` writes, or names what is not there now."""


_OWN: Final = {
    "sys.modules": sys.modules,
    "mode": tape.mode,
    "default dtype": dt._default,
    "default generator": random.default_generator,
    "sys.exception": sys.exception,
}
_OWN_NAMES: Final = {id(value): name for name, value in _OWN.items()}
_LIBRARIES: Final = frozenset(
    "eager jitcap codegen numpy builtins math cmath collections contextlib copy dataclasses "
    "decimal enum fractions functools itertools logging numbers operator random re statistics "
    "string time types typing warnings weakref abc _collections _functools _operator "
    "_random".split()
)
_UNNAMED: Final = frozenset(
    "open eval exec compile __import__ input breakpoint help exit quit memoryview".split()
)
_DESCRIPTORS: Final = (
    types.MethodDescriptorType, types.WrapperDescriptorType, types.ClassMethodDescriptorType,
    types.GetSetDescriptorType, types.MemberDescriptorType,
)  # fmt: skip
NAMED: Final = (FunctionType, BuiltinFunctionType, MethodType, type, np.ufunc, *_DESCRIPTORS)
_INT_BITS: Final = 10_000  # beyond, Python does not read the digits
_PLAIN: Final = (type(None), bool, int, float, str)
_GRAPH_OPS: Final[dict[str, Op]] = {op.name: op for op in (ir.INPUT, ir.AS_NUMBER, ir.ITEM)}
MRO: Final = type.__dict__["__mro__"]  # read past what a metaclass may say
MEMBERS: Final = type.__dict__["__dict__"]
_CONTAINERS: Final[dict[type, str]] = {
    list: "list", tuple: "tuple", set: "set", frozenset: "frozenset", Size: "Size",
}  # fmt: skip
_MAKE: Final[dict[str, Callable[[list[Any]], Any]]] = {n: t for t, n in _CONTAINERS.items()}


@functools.cache
def _families() -> dict[str, type]:
    """The records: guards, origins, and what they are made of."""
    found: dict[str, type] = {"Aval": Aval, "Joint": Joint, "Where": ir.Where}
    stack: list[type] = [Guard, Origin]
    while stack:
        cls = stack.pop()
        stack += cls.__subclasses__()
        if cls.__module__.startswith("jitcap."):  # a slotted class lives beside its first draft
            own = vars(sys.modules[cls.__module__])[cls.__qualname__]
            found[f"{cls.__module__}.{cls.__qualname__}"] = own
    return found


@functools.cache
def _family_names() -> dict[type, str]:
    return {cls: name for name, cls in _families().items()}


# ---- to disk


class Writer:
    """Values to JSON, those of one file: what is one object is written once. `known`: id -> name of
    the objects that the reader is given."""

    def __init__(self, known: Mapping[int, str], codes: set[CodeType]) -> None:
        self.known = known
        self._codes = codes  # takes those whose text is compared
        self._written: dict[int, int] = {}
        self._keep: list[Any] = []

    def write(self, value: Any) -> Any:
        """JSON of `value`. Raises Unkept."""
        kind = type(value)
        if kind in _PLAIN:
            if kind is int and value.bit_length() > _INT_BITS:
                raise Unkept("a very large int")
            return value
        name = self.known.get(id(value))
        if name is not None:
            return ["known", name]
        number = self._written.get(id(value))
        if number is not None:
            return ["again", number]
        try:
            tag, *parts = self._parts(value, kind)
        except RecursionError:
            raise Unkept("what is nested too deeply") from None
        self._written[id(value)] = len(self._written)
        self._keep.append(value)
        return [tag, *parts]

    def _parts(self, value: Any, kind: type) -> Iterator[Any]:
        if id(value) in _OWN_NAMES:
            return iter(("own", _OWN_NAMES[id(value)]))
        if kind in _CONTAINERS:
            items = sorted(value, key=repr) if kind in (set, frozenset) else value
            return iter((_CONTAINERS[kind], *map(self.write, items)))
        write = _WRITE.get(kind)
        if write is not None:
            return iter(write(self, value))
        if kind in _family_names():
            names = _fields(kind)
            parts = (self.write(getattr(value, name)) for name in names)
            return itertools.chain(("record", _family_names()[kind]), parts)
        return iter(self._by_name(value, kind))

    def _by_name(self, value: Any, kind: type) -> tuple[Any, ...]:
        if isinstance(value, Op):
            return ("graph op" if isinstance(value, GraphOp) else "op", _op_name(value))
        if isinstance(value, enum.Enum):
            return ("member", self.write(kind), value.name)
        if isinstance(value, np.generic):
            return ("scalar", *_array_parts(np.asarray(value)))
        if isinstance(value, np.dtype):
            if DTYPES.get(value.name) is not value:
                raise Unkept(f"the dtype {value!r}")
            return ("dtype", value.name)
        if not isinstance(value, NAMED):
            raise Unkept(f"a {kind.__module__}.{kind.__qualname__}")
        if isinstance(value, FunctionType | type) and not is_library_module(value.__module__ or ""):
            place: tuple[str, str] = value.__module__, value.__qualname__
            if _look_up(*place) is not value:
                raise Unkept(f"{value.__qualname__}, which no module holds")
            return ("program", *place, fingerprint(value, self._codes))
        place = _library_place(value)
        if _look_up(*place) is not value or not _is_open(*place, value):
            raise Unkept(".".join(place))
        return ("library", *place)


def _library_place(value: Any) -> tuple[str, str]:
    owner = getattr(value, "__objclass__", None) or getattr(value, "__self__", None)
    if isinstance(owner, type):  # a descriptor, a static method of a type in C
        module, name = library_name(owner)
        return module, f"{name}.{value.__name__}"
    return library_name(value)


def _write_dict(writer: Writer, value: dict[Any, Any]) -> tuple[Any, ...]:
    module = _module_of(value)
    if module:
        return ("vars", module)
    pairs = ([writer.write(k), writer.write(v)] for k, v in value.items())
    return ("dict", *pairs)


def _write_module(writer: Writer, value: ModuleType) -> tuple[Any, ...]:
    name = value.__name__
    if sys.modules.get(name) is not value or not _may_name(name):
        raise Unkept(f"the module {name}")
    return ("module", name)


def _write_seen(writer: Writer, value: Seen) -> tuple[Any, ...]:
    if value.arrays.count(None) != len(value.arrays):
        raise Unkept("arrays that were seen")
    layouts = ([shape, dtype.name, strides, any_] for shape, dtype, strides, any_ in value.layouts)
    return ("seen", writer.write(value.arrays), *layouts)


def _write_graph(writer: Writer, graph: Graph) -> tuple[Any, ...]:
    """What a graph computes, without nesting: as rows, with arguments by number (a deep one would
    not fit the stack)."""
    needed = ir.reachable(graph.outputs)
    nodes = [*graph.inputs, *(n for n in graph.nodes if n in needed)]
    number = {n: i for i, n in enumerate(nodes)}
    rows = [
        [
            writer.write(n.op),
            [["node", number[a]] if isinstance(a, Node) else writer.write(a) for a in n.args],
            writer.write(dict(n.attrs)), [writer.write(a) for a in n.avals], [*n.where],
        ]
        for n in nodes
    ]  # fmt: skip
    return ("graph", graph.name, len(graph.inputs), rows, [number[o] for o in graph.outputs])


def _array_parts(array: np.ndarray) -> tuple[Any, ...]:
    """Type, shape, order of the axes in memory, bytes."""
    if array.dtype.name not in DTYPES or type(array) is not np.ndarray:
        raise Unkept(f"a {type(array).__qualname__} of {array.dtype}")
    order = [*range(array.ndim)]
    if not array.flags.c_contiguous:
        order.sort(key=lambda axis: -array.strides[axis])
    straight = array.transpose(order)
    if not straight.flags.c_contiguous:
        raise Unkept("an array with gaps")
    data = base64.b64encode(straight.tobytes()).decode()
    return array.dtype.name, [*straight.shape], order, data


_WRITE: Final[dict[type, Callable[[Writer, Any], tuple[Any, ...]]]] = {
    dict: _write_dict,
    bytes: lambda w, v: ("bytes", v.decode("latin-1")),
    complex: lambda w, v: ("complex", v.real, v.imag),
    type(...): lambda w, v: ("...",),
    range: lambda w, v: ("range", v.start, v.stop, v.step),
    slice: lambda w, v: ("slice", w.write(v.start), w.write(v.stop), w.write(v.step)),
    re.Pattern: lambda w, v: ("pattern", w.write(v.pattern), v.flags),
    DType: lambda w, v: ("DType", v.name),
    device: lambda w, v: ("device", v.type, v.index),
    np.ndarray: lambda w, v: ("array", *_array_parts(v)),
    ModuleType: _write_module,
    Seen: _write_seen,
    Graph: _write_graph,
}


def has_copies(value: Any) -> bool:
    """Whether reading makes another object of `value`, equal to it."""
    if type(value) is dict:
        return id(value) not in _OWN_NAMES and not _module_of(value)
    return type(value) in (list, tuple, set, bytearray, collections.deque, np.ndarray, slice)


def _module_of(value: dict[Any, Any]) -> str:
    """The name of the module whose dictionary this is, or ""."""
    for name in (value.get("__name__"), getattr(value.get("__spec__"), "name", None)):
        module = sys.modules.get(name) if isinstance(name, str) else None
        if module is not None and vars(module) is value and _may_name(str(name)):
            return str(name)
    return ""


def _op_name(op: Op) -> str:
    known = _GRAPH_OPS if isinstance(op, GraphOp) else REGISTRY
    if known.get(op.name) is not op:
        raise Unkept(f"the op {op.name}")
    return op.name


def _may_name(module: str) -> bool:
    """Whether a module of this name can be looked at: the program's, or one of the libraries'."""
    return module.partition(".")[0] in _LIBRARIES or not is_library_module(module)


def _is_open(module: str, name: str, value: Any) -> bool:
    """Whether what a library holds under a name can be kept by it, and is a part of it."""
    home = value.__module__ if isinstance(value, FunctionType | type) else module
    tops = {module.partition(".")[0], str(home).partition(".")[0]}
    builtin = {home, module} == {"builtins"} and name in _UNNAMED
    if isinstance(value, BuiltinFunctionType) and isinstance(value.__self__, ModuleType):
        tops.add(value.__self__.__name__.partition(".")[0])
        builtin = value.__self__.__name__ == "builtins" and value.__name__ in _UNNAMED
    return tops <= _LIBRARIES and not builtin


@functools.cache
def _called() -> frozenset[int]:
    """The functions and types that an entry calls, by id (they live as long as their modules)."""
    found: list[Any] = [sys.exception]
    for module, names in _CALLED.items():
        members = vars(sys.modules[module])
        found += [members[name] for name in (names.split() or members) if name in members]
    return frozenset(id(f) for f in found if callable(f))


_CALLED: Final = {
    "builtins": "abs bool bytearray bytes complex dict divmod enumerate float format frozenset "
    "hash id int iter len list max min object pow print range repr reversed round set slice str "
    "sum tuple zip",
    "math": "",
    "collections": "OrderedDict defaultdict deque",
    "functools": "partial",
    "operator": "add sub mul truediv floordiv mod pow neg abs",
    "random": "betavariate expovariate gammavariate gauss lognormvariate normalvariate "
    "paretovariate randint randrange triangular uniform vonmisesvariate weibullvariate",
    "time": "sleep",
    "types": "CellType FunctionType MethodType SimpleNamespace",
    "eager.dispatch": "apply",
    "eager.tensor": "wrap",
    "jitcap.capture.arrays": "_input",
    "jitcap.capture.located": "warn_above",
    "jitcap.capture.rebuild": "_empty_deque",
    "jitcap.capture.result": "_freed",
    "jitcap.tensor_guard": "memory_of",
}
_CALLED_METHODS: Final = frozenset(
    "__setattr__ __delattr__ __setitem__ __delitem__ __init__ clear update extend append".split()
)
_CALLED_TYPES: Final = (object, dict, list, set, collections.OrderedDict, collections.deque)


def may_call(value: Any) -> bool:
    """Whether an entry that is read may call this: a helper of ours, or a builtin that makes or
    changes a container, a number, a text, an exception."""
    kind = type(value)
    if kind in (types.MethodDescriptorType, types.WrapperDescriptorType):
        owner = value.__objclass__
        known = owner in _CALLED_TYPES or issubclass(owner, BaseException)
        return known and value.__name__ in _CALLED_METHODS
    if kind is BuiltinFunctionType and issubclass(type(value.__self__), type):
        return value.__name__ == "__new__" and value.__self__.__module__ in _HOMES
    if issubclass(kind, type) and issubclass(value, BaseException):
        return value.__module__ == "builtins"
    return id(value) in _called()


_HOMES: Final = ("builtins", "collections", "types")


def _look_up(module: str, name: str) -> Any:
    """The function or class that an imported module holds under a name, or one of its classes, or
    None. Runs nothing."""
    found: Any = sys.modules.get(module)
    if type(found) is not ModuleType:
        return None
    first, *rest = name.split(".")
    found = ModuleType.__getattribute__(found, "__dict__").get(first)
    for part in rest:
        if not issubclass(type(found), type):
            return None
        owners = (MEMBERS.__get__(c) for c in MRO.__get__(found))
        member = next((names[part] for names in owners if part in names), None)
        found = member.__func__ if type(member) is staticmethod else member
    return found if issubclass(type(found), NAMED) else None


# ---- from disk

_FAULTS: Final = (
    TypeError, ValueError, LookupError, AttributeError, RecursionError, OverflowError, MemoryError,
    Unkept,
)  # fmt: skip


class Reader:
    """What a `Writer` wrote. `known`: the objects that it was told of, by name."""

    def __init__(self, known: Mapping[str, Any]) -> None:
        self.known = known
        self._values: list[Any] = []

    def read(self, data: Any) -> Any:
        """The value that `data` describes. Raises Unreadable if it describes none."""
        try:
            return self._read(data)
        except _FAULTS as error:
            raise Unreadable(f"{type(error).__name__}: {error}") from error

    def _read(self, data: Any) -> Any:
        if type(data) in _PLAIN:
            return data
        if type(data) is not list or type(data[0]) is not str:
            raise Unreadable("no record")
        tag, *parts = data
        if tag == "known":
            return self.known[_only(str, *parts)]
        if tag == "again":
            return self._values[_index(*parts)]
        if tag in _MAKE:
            items = [self._read(part) for part in parts]
            value = _MAKE[tag](map(_key, items) if tag in ("set", "frozenset") else items)
        else:
            value = _READ[tag](self, *parts)
        self._values.append(value)
        return value


def _only(kind: type, value: Any) -> Any:
    if type(value) is not kind:
        raise Unreadable(f"no {kind.__name__}")
    return value


def _index(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise Unreadable("no index")
    return value


def _key(value: Any) -> Any:
    """`value`, as a key: hashing it runs nothing."""
    if type(value) in (tuple, frozenset):
        for part in value:
            _key(part)
    elif type(value) not in (*_PLAIN, bytes, complex, DType):
        raise Unreadable("no key")
    return value


def _read_dict(reader: Reader, *pairs: Any) -> dict[Any, Any]:
    return {_key(reader._read(k)): reader._read(v) for k, v in pairs}


def _read_array(reader: Reader, name: str, shape: list[Any], order: list[Any], text: str) -> Any:
    data = bytearray(base64.b64decode(_only(str, text), validate=True))
    sizes = [*map(_index, shape)]
    kind = DTYPES[name]
    if math.prod(sizes) * kind.itemsize != len(data) or sorted(order) != [*range(len(sizes))]:
        raise Unreadable("no array")
    return np.frombuffer(data, kind).reshape(sizes).transpose(np.argsort(order))


def _read_record(reader: Reader, name: str, *parts: Any) -> Any:
    cls = _families()[name]
    values = [reader._read(part) for part in parts]
    hints = _hints(cls)
    if len(values) != len(hints) or not all(map(_fits, values, hints)):
        raise Unreadable(f"no {name}")
    return cls(*values)


@functools.cache
def _fields(cls: type) -> tuple[str, ...]:
    """The names of a record's fields, in order."""
    return tuple(getattr(cls, "_fields", ())) or tuple(f.name for f in fields(cls))


@functools.cache
def _hints(cls: type) -> tuple[Any, ...]:
    hints = typing.get_type_hints(cls)
    return tuple(hints[name] for name in _fields(cls))


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value is of an annotation's type."""
    if hint is Any:
        return True
    whole, parts = typing.get_origin(hint), typing.get_args(hint)
    if whole is types.UnionType or whole is typing.Union:
        return any(_fits(value, part) for part in parts)
    if whole is tuple and parts[-1:] == (...,):
        return type(value) is tuple and all(_fits(v, parts[0]) for v in value)
    if whole is tuple:
        fits = type(value) is tuple and len(value) == len(parts)
        return fits and all(map(_fits, value, parts))
    if type(value) is bool or hint is bool:
        return type(value) is hint
    return issubclass(type(value), whole or hint)


def _read_seen(reader: Reader, arrays: Any, *layouts: Any) -> Seen:
    seen = Seen()
    seen.arrays = _only(list, reader._read(arrays))
    for shape, name, strides, contiguous in layouts:
        if any(type(n) is not int for n in (*shape, *strides)):
            raise Unreadable("no layout")
        layout = tuple(shape), DTYPES[name], tuple(strides), _only(bool, contiguous)
        seen.layouts.append(layout)
    if seen.arrays != [None] * len(seen.layouts):
        raise Unreadable("no arrays seen")
    return seen


def _read_member(reader: Reader, cls: Any, name: str) -> Any:
    kind = reader._read(cls)
    if not issubclass(type(kind), enum.EnumMeta):
        raise Unreadable("no enumeration")
    return MEMBERS.__get__(kind)["_member_map_"][_only(str, name)]


def _read_pattern(reader: Reader, text: Any, flags: int) -> re.Pattern[Any]:
    if flags & re.DEBUG:  # it prints
        raise Unreadable("no pattern")
    try:
        return re.compile(reader._read(text), flags)
    except re.error as error:
        raise Unreadable(str(error)) from error


def _read_program(reader: Reader, module: str, name: str, text: str) -> Any:
    found = None if is_library_module(module) else _look_up(module, name)
    if found is None or fingerprint(found) != text:
        raise Unreadable(f"{module}.{name} is another text")
    return found


def _read_library(reader: Reader, module: str, name: str) -> Any:
    found = _look_up(module, name)
    if found is None or not _is_open(module, name, found):
        raise Unreadable(f"{module}.{name} is not kept by name")
    return found


def _read_module(reader: Reader, name: str) -> ModuleType:
    module = sys.modules[name] if _may_name(name) else None
    if type(module) is not ModuleType:
        raise Unreadable(f"the module {name}")
    return module


def _read_device(reader: Reader, kind: str, index: int | None) -> device:
    return device(_only(str, kind), None if index is None else _index(index))


def _read_graph(
    reader: Reader, name: str, inputs: int, rows: list[Any], outputs: list[Any]
) -> Graph:
    nodes: list[Node] = []
    for op, args, attrs, avals, where in rows:
        record = reader._read(op)
        given = tuple(
            nodes[_index(a[1])] if type(a) is list and a[0] == "node" else reader._read(a)
            for a in args
        )
        fields = _only(dict, reader._read(attrs))
        types = tuple(reader._read(a) for a in avals)
        place = ir.Where(*where)
        fit = isinstance(record, Op) and all(type(a) is Aval for a in types)
        if not fit or not all(map(_fits, place, (str, int, str))):
            raise Unreadable("no node")
        nodes.append(Node(record, given, fields, types, place))
    count = _index(inputs)
    if any((n.op is ir.INPUT) != (i < count) for i, n in enumerate(nodes)):
        raise Unreadable("no graph")
    ends = tuple(nodes[_index(i)] for i in outputs)
    return Graph(tuple(nodes[:count]), tuple(nodes[count:]), ends, _only(str, name))


_READ: Final[dict[str, Callable[..., Any]]] = {
    "own": lambda r, name: _OWN[name],
    "dict": _read_dict,
    "vars": lambda r, name: vars(_read_module(r, name)),
    "module": _read_module,
    "bytes": lambda r, text: _only(str, text).encode("latin-1"),
    "complex": lambda r, real, imag: complex(_only(float, real), _only(float, imag)),
    "...": lambda r: ...,
    "range": lambda r, *parts: range(*parts),
    "slice": lambda r, *parts: slice(*map(r._read, parts)),
    "pattern": _read_pattern,
    "DType": lambda r, name: dt.by_name(name),
    "device": _read_device,
    "dtype": lambda r, name: DTYPES[name],
    "array": _read_array,
    "scalar": lambda r, *parts: _read_array(r, *parts)[()],
    "record": _read_record,
    "seen": _read_seen,
    "member": _read_member,
    "op": lambda r, name: REGISTRY[name],
    "graph op": lambda r, name: _GRAPH_OPS[name],
    "graph": _read_graph,
    "program": _read_program,
    "library": _read_library,
}
