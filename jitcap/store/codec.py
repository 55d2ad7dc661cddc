"""Kept versions: the objects that generated code and guards name, as JSON. value <-> JSON.

JSON's own values stand for themselves, everything else is a list that begins with a tag, but for
many records at once: those of one class are columns (`Writer.table`). Reading makes numbers,
containers, arrays and the records of `families`, each field checked against its annotation.
Functions, classes and modules are looked up by name (`names`); those of the program must be made of
the same text. An object of the program that has no name is found at its place by the version itself
(`Names.found`). Everything else refuses: a copy of it would not be it.
"""

from __future__ import annotations

import base64
import collections
import enum
import math
import operator
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import count, repeat
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final

import numpy as np

from eager import random
from eager.base import dtype as dt
from eager.base import lazy_imports
from eager.base.dtype import DType, NamedType
from eager.core import attributes, tape
from eager.core.op import REGISTRY, Op
from eager.device import Size, device, places
from eager.device import default as default_device
from eager.sizes.symint import SymInt
from jitcap.base.call_policy import is_library_module
from jitcap.base.origin import Origin
from jitcap.compile.graph_cache import DTYPES
from jitcap.graph import graph as ir
from jitcap.graph.codec import graph_data, graph_of
from jitcap.graph.graph import Graph, GraphOp
from jitcap.graph.symbols import Sizes
from jitcap.guards.class_guard import ABSENT, Classes
from jitcap.guards.guard import Guard
from jitcap.guards.size_guard import LastSizes
from jitcap.guards.tensor_guard import Seen
from jitcap.store import records
from jitcap.store.allowlist import (
    MEMBERS,
    Unreadable,
    is_library_name,
    is_open,
    library_place,
    look_up,
    may_name,
    module_of,
    text_of_home,
)
from jitcap.store.fingerprint import Unkept, fingerprint

_OWN: Final = {
    "sys.modules": sys.modules,
    "mode": tape.mode,
    "default dtype": dt._default,
    "default device": default_device,
    "default generator": random.default_generator,
    "sys.exception": sys.exception,
    "absent": ABSENT,
}
_OWN_NAMES: Final = {id(value): name for name, value in _OWN.items()}
_INT_BITS: Final = 10_000  # beyond, Python does not read the digits
_PLAIN: Final = (type(None), bool, int, float, str)
_TOLD_APART: Final = ({bool}, {int}, {str})  # types whose values are equal if they are the same
_CONTAINERS: Final[dict[type, str]] = {
    list: "list", tuple: "tuple", set: "set", frozenset: "frozenset", Size: "Size",
}  # fmt: skip
_MAKE: Final[dict[str, Callable[[Iterable[Any]], Any]]] = {n: t for t, n in _CONTAINERS.items()}


# ---- to disk


class Writer:
    """Values to JSON, those of one file: what is one object is written once. `known`: id -> name of
    the objects that the reader is given."""

    def __init__(self, known: Mapping[int, str], codes: set[CodeType]) -> None:
        self.known = known
        self._codes = codes  # takes those whose text is compared
        self._written: dict[int, int] = {}
        self._rows: dict[Any, int] = {}  # guards and origins of a table
        self._keep: list[Any] = []
        self._families = records.names()

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
        family = self._families.get(kind)
        if isinstance(value, Guard | Origin) and value in self._rows:
            return ["again", self._rows[value]]
        try:
            if family is not None:
                parts = records.columns(kind, (value,))
                written: list[Any] = ["record", family, *[self.write(x) for (x,) in parts]]
            else:
                written = [*self._parts(value, kind)]
        except RecursionError:
            raise Unkept("what is nested too deeply") from None
        self._written[id(value)] = len(self._keep)
        self._keep.append(value)
        return written

    def table(self, guards: Sequence[Guard]) -> list[Any]:
        """JSON of guards, those of one class as columns, behind the places that they refer to; and
        the number of each. Raises Unkept."""
        groups: list[Any] = []
        try:
            self._group(guards, groups)
        except RecursionError:
            raise Unkept("what is nested too deeply") from None
        return [groups, [*map(self._rows.__getitem__, guards)]]

    def _group(self, rows: Iterable[Guard | Origin], groups: list[Any]) -> None:
        classes: dict[type, list[Any]] = {}
        for row in dict.fromkeys(rows):
            if row not in self._rows:
                classes.setdefault(type(row), []).append(row)
        for cls, found in classes.items():
            if cls not in self._families:
                raise Unkept(f"a {cls.__qualname__}")
            columns = records.columns(cls, found)
            for column in filter(self._are_places, columns):
                self._group(column, groups)
            new = [row for row in found if row not in self._rows]
            if len(new) < len(found):  # some of them refer to the others
                columns = records.columns(cls, new)
            if new:
                group = [self._families[cls], *map(self._column, columns, count())]
                groups += [group] if columns else [group] * len(new)
                self._rows.update(zip(new, count(len(self._keep)), strict=False))
                self._keep += new

    def _are_places(self, values: Sequence[Any]) -> bool:
        """True for origins, which are told apart by identity."""
        return isinstance(values[0], Origin) and {*map(type, values)} <= self._families.keys()

    def _column(self, values: Sequence[Any], at: int) -> list[Any]:
        """A field of many rows, the first field `at` 0: the value that all have, or what each has:
        the numbers of places, or the different values, and numbers among these."""
        if at and all(map(operator.is_, values, repeat(values[0]))):
            return [self.write(values[0])]
        if self._are_places(values):
            return [None, [*map(self._rows.__getitem__, values)]]
        keys = values if {*map(type, values)} in _TOLD_APART else [*map(id, values)]
        different = dict(zip(keys, values, strict=True))
        numbers = dict(zip(different, count(), strict=False))
        return [[*map(self.write, different.values())], [*map(numbers.__getitem__, keys)]]

    def _parts(self, value: Any, kind: type) -> Iterator[Any]:
        if id(value) in _OWN_NAMES:
            return iter(("own", _OWN_NAMES[id(value)]))
        if kind is tuple and value and self._are_places(value):
            numbers = [*map(self._rows.get, value)]
            if None not in numbers:
                return iter(("places", *numbers))
        if kind in _CONTAINERS:
            items = sorted(value, key=repr) if kind in (set, frozenset) else value
            return iter((_CONTAINERS[kind], *map(self.write, items)))
        write = _write_sizes if isinstance(value, Sizes) else _WRITE.get(kind)
        if write is not None:
            return iter(write(self, value))
        return iter(self._by_name(value, kind))

    def _by_name(self, value: Any, kind: type) -> tuple[Any, ...]:
        if isinstance(value, Op):
            return ("graph op" if isinstance(value, GraphOp) else "op", _op_name(value))
        if isinstance(value, enum.Enum):
            return ("member", self.write(kind), value.name)
        if isinstance(value, np.generic):
            return ("scalar", *_array_parts(np.asarray(value)))
        if issubclass(kind, np.dtype):
            name = str(value)
            if DTYPES.get(name) is not value:
                raise Unkept(f"the dtype {name}")
            return ("dtype", name)
        if is_library_name(value):
            return ("library", *library_place(value), text_of_home(value))
        if not isinstance(value, FunctionType | type):
            raise Unkept(f"a {kind.__module__}.{kind.__qualname__}")
        place = value.__module__, value.__qualname__
        if look_up(*place) is not value or is_library_module(place[0]):
            raise Unkept(f"{value.__qualname__}, which no module holds")
        return ("program", *place, fingerprint(value, self._codes))


def _write_dict(writer: Writer, value: dict[Any, Any]) -> tuple[Any, ...]:
    module = module_of(value)
    if module:
        return ("vars", module)
    pairs = ([writer.write(k), writer.write(v)] for k, v in value.items())
    return ("dict", *pairs)


def _write_module(writer: Writer, value: ModuleType) -> tuple[Any, ...]:
    name = value.__name__
    if sys.modules.get(name) is not value or not may_name(name):
        raise Unkept(f"the module {name}")
    return ("module", name)


def _write_seen(writer: Writer, value: Seen) -> tuple[Any, ...]:
    if value.arrays.count(None) != len(value.arrays):
        raise Unkept("arrays that were seen")
    each = {layout: i for i, layout in enumerate(dict.fromkeys(value.layouts))}
    layouts = [[shape, str(dtype), *rest] for shape, dtype, *rest in each]
    return ("seen", writer.write(value.arrays), layouts, [each[row] for row in value.layouts])


def _write_graph(writer: Writer, graph: Graph) -> tuple[Any, ...]:
    try:
        return "graph", graph_data(graph, writer.write)
    except ValueError as error:
        raise Unkept(str(error)) from error


def _write_sizes(writer: Writer, scope: Sizes) -> tuple[Any, ...]:
    """The symbols of sizes that data decide, and what is known of them, as it was learnt."""
    symbols = scope.symbols.values()
    if scope.answers or not all(s.of_data for s in symbols):
        raise Unkept("sizes that are read at each call")
    known = ([r, attributes.encode(SymInt(t)), yes] for (r, t), yes in scope.assumed.items())
    return ("sizes", [[s.name, s.hint, s.lo, s.hi] for s in symbols], [*known])


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


def _write_generator(writer: Writer, value: random.Generator) -> tuple[Any, ...]:
    """The default one of a device; any other is the program's."""
    name = str(value.device)
    if random.default_generators.get(name) is not value:
        raise Unkept("a Generator")
    return "generator", name


_WRITE: Final[dict[type, Callable[[Writer, Any], tuple[Any, ...]]]] = {
    dict: _write_dict,
    bytes: lambda w, v: ("bytes", v.decode("latin-1")),
    complex: lambda w, v: ("complex", v.real, v.imag),
    type(...): lambda w, v: ("...",),
    range: lambda w, v: ("range", v.start, v.stop, v.step),
    slice: lambda w, v: ("slice", w.write(v.start), w.write(v.stop), w.write(v.step)),
    re.Pattern: lambda w, v: ("pattern", w.write(v.pattern), v.flags),
    DType: lambda w, v: ("DType", v.name),
    NamedType: lambda w, v: ("NamedType", v.name),
    device: lambda w, v: ("device", v.type, v.index),
    np.ndarray: lambda w, v: ("array", *_array_parts(v)),
    ModuleType: _write_module,
    Seen: _write_seen,
    Classes: lambda w, v: ("classes",),
    LastSizes: lambda w, v: ("last sizes",),
    Graph: _write_graph,
    random.Generator: _write_generator,
    SymInt: lambda w, v: ("size", w.write(v.scope), attributes.encode(v)),
}


def has_copies(value: Any) -> bool:
    """True if reading makes another object of `value`, equal to it."""
    if type(value) is dict:
        return id(value) not in _OWN_NAMES and not module_of(value)
    return type(value) in (list, tuple, set, bytearray, collections.deque, np.ndarray, slice)


def _op_name(op: Op) -> str:
    known = ir.GRAPH_OPS if isinstance(op, GraphOp) else REGISTRY
    if known.get(op.name) is not op:
        raise Unkept(f"the op {op.name}")
    return op.name


# ---- from disk

_FAULTS: Final = (
    TypeError, ValueError, LookupError, AttributeError, RecursionError, OverflowError, MemoryError,
    Unkept,
)  # fmt: skip


class Reader:
    """Decoder of what a `Writer` wrote. `known`: the objects that it was told of, by name."""

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

    def table(self, data: Any) -> list[Any]:
        """The records of a `Writer.table`. Raises Unreadable."""
        try:
            groups, numbers = data
            for name, *columns in groups:
                self._values += records.made(name, [self._column(*column) for column in columns])
            return [self._values[_index(n)] for n in numbers]
        except _FAULTS as error:
            raise Unreadable(f"{type(error).__name__}: {error}") from error

    def _column(self, given: Any, *numbers: Any) -> list[Any]:
        if not numbers:
            return [self._read(given)]
        values = self._values if given is None else [*map(self._read, given)]
        return [values[_index(n)] for n in numbers[0]]


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
    elif type(value) not in (*_PLAIN, bytes, complex, DType, NamedType):
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
    (record,) = records.made(name, [[reader._read(part)] for part in parts])
    return record


# NumPy's for arrays of the host, eager's for those on a device.
_LAYOUT_DTYPES: Final = DTYPES | {str(d): d for d in dt.ALL}


def _read_seen(reader: Reader, arrays: Any, rows: list[Any], numbers: list[Any]) -> Seen:
    layouts = []
    for shape, name, strides, *flags in rows:
        if any(type(n) is not int for n in (*shape, *strides)):
            raise Unreadable("no layout")
        dtype = _LAYOUT_DTYPES[name]
        contiguous, normal = (_only(bool, flag) for flag in flags)
        layouts.append((tuple(shape), dtype, tuple(strides), contiguous, normal))
    seen = Seen()
    seen.arrays = _only(list, reader._read(arrays))
    seen.layouts = [layouts[_index(number)] for number in numbers]
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
    found = None if is_library_module(module) else look_up(module, name)
    if found is None or fingerprint(found) != text:
        raise Unreadable(f"{module}.{name} is another text")
    return found


def _read_library(reader: Reader, module: str, name: str, text: str = "") -> Any:
    found = look_up(module, name)
    if found is None or not is_open(module, name, found):
        raise Unreadable(f"{module}.{name} is not kept by name")
    if library_place(found) != (module, name) or text_of_home(found) != text:
        raise Unreadable(f"{module}.{name} was replaced")
    return found


def _read_module(reader: Reader, name: str) -> ModuleType:
    lazy_imports.ensure(name)
    module = sys.modules[name] if may_name(name) else None
    if type(module) is not ModuleType:
        raise Unreadable(f"the module {name}")
    return module


def _read_device(reader: Reader, kind: str, index: int | None) -> device:
    return device(_only(str, kind), None if index is None else _index(index))


def _read_sizes(reader: Reader, symbols: list[Any], known: list[Any]) -> Sizes:
    scope = Sizes()
    for name, hint, lo, hi in symbols:
        if not all(type(n) is int or n in (-math.inf, math.inf) for n in (hint, lo, hi)):
            raise Unreadable("no symbol")
        scope.symbol(_only(str, name), _only(int, hint), lo, hi, of_data=True)
    for relation, data, yes in known:
        size = attributes.decode_size(data, scope.symbols)
        if relation not in ("==", ">=") or type(size) is int:
            raise Unreadable("nothing that is known of sizes")
        scope.know(relation, size, _only(bool, yes))
    return scope


def _read_generator(reader: Reader, kind: Any) -> random.Generator:
    if kind != "cpu" and kind not in (f"cuda:{i}" for i in range(places.count())):
        raise Unreadable("no device with a generator")
    return random.generator_of(kind)


def _read_size(reader: Reader, scope: Any, data: Any) -> Any:
    sizes = reader._read(scope)
    if type(sizes) is not Sizes:
        raise Unreadable("no sizes")
    return attributes.decode_size(data, sizes.symbols)


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
    "NamedType": lambda r, name: dt.named_type(name),
    "device": _read_device,
    "dtype": lambda r, name: DTYPES[name],
    "array": _read_array,
    "scalar": lambda r, *parts: _read_array(r, *parts)[()],
    "record": _read_record,
    "places": lambda r, *numbers: tuple([r._values[_index(n)] for n in numbers]),
    "seen": _read_seen,
    "sizes": _read_sizes,
    "size": _read_size,
    "generator": _read_generator,
    "classes": lambda r: Classes(),
    "last sizes": lambda r: LastSizes(),
    "member": _read_member,
    "op": lambda r, name: REGISTRY[name],
    "graph op": lambda r, name: ir.GRAPH_OPS[name],
    "graph": lambda r, data: graph_of(data, r._read),
    "program": _read_program,
    "library": _read_library,
}
