"""Kept versions: a compiled version on disk, for the next process. Compiled <-> cache entry.

    remember    Compiled -> entry code, its constants, guards and graph, under the call's key
    recall      a call -> the versions kept for calls like it, whose guards hold for it

What is kept is the entry as it was generated, guards included, as data (`entry_ir`). Its constants
are read back (`codec`), or taken from the live program (the function itself, and what the guards
find) if they are made of the same text (`fingerprint`). Reading runs and imports nothing. A version
that depends on something of its process (an id, the order of a set of strings), or names an object
that has no place, is not kept.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import CodeType, FunctionType, MethodType
from typing import Any, Final, NamedTuple

import numpy as np

from codegen.runtime import cache
from codegen.targets.cpp.runtime import build
from eager.base import dtype as dt
from eager.base.config import config
from eager.base.dtype import _default as default_dtype
from eager.base.process import threads
from eager.base.process.locks import cached_property
from eager.core.tape import Autocast
from eager.core.tensor import Tensor
from eager.device import device
from jitcap.autodiff.compiled_function import Region
from jitcap.autodiff.joint import Joint
from jitcap.base.call_policy import name_of
from jitcap.base.diagnostics import Trail, say
from jitcap.base.marks import any_static, marks_of
from jitcap.base.modes import ANY, Modes
from jitcap.base.terms import defined_by, names_in
from jitcap.capture.kinds.modules import builtins_are_replaced
from jitcap.capture.result import Captured, entry_source, linked
from jitcap.capture.sizes import is_name
from jitcap.compile import graph_cache as graphs
from jitcap.compile.compile_graph import compile_graph
from jitcap.compile.compile_graph import recall as recall_executable
from jitcap.compile.lower import Strides
from jitcap.graph.graph import Graph
from jitcap.guards.guard import Guard, Guards, Names
from jitcap.store.allowlist import Unreadable, is_library_name
from jitcap.store.codec import Reader, Writer, has_copies
from jitcap.store.entry_ir import ATOMS, BUILTINS, Source, find, variable
from jitcap.store.fingerprint import Unkept, fingerprint
from jitcap.store.row_order import in_order, needed
from jitcap.versions.version import MISS, Call, Compiled, Options

SLOTS: Final = 8  # versions for calls that look alike: of several models with one step, say
UNREADABLE: Final = (Unreadable, Unkept, SyntaxError, ArithmeticError, *cache.DAMAGED)


class Keys(NamedTuple):
    """The names of all versions for calls like one: those for its sizes, and those for any. `any`
    is "" while there are tensors with sizes that are compiled one by one."""

    exact: str
    any: str

    def slots(self) -> Iterator[str]:
        """The names of what may fit, the closest first."""
        for key in self:
            yield from (_slot(key, i) for i in range(SLOTS if key else 0))


def keys_of(
    fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any], options: Options, varying: set[str]
) -> Keys | None:
    """Keys of the versions for calls like this one. None if nothing tells the function, or while
    somebody reads the stages of compiles or checks them."""
    looking = config.check or config.dump or config.debug >= 3
    if looking or options.verify or options.check_nans or not _takes_kept[0]:
        return None
    try:
        text = fingerprint(fn if type(fn) in (FunctionType, MethodType) else type(fn))
    except Unkept:
        return None
    flags = (config.backend, config.isa, threads.room(), config.recompute)
    state = (Modes.now(), default_dtype[0])
    versions = (sys.version, np.__version__, graphs.package_build(), build.fingerprint())
    common = (text, *map(repr, (versions, flags, options, state)))
    exact = cache.digest("version", *common, repr((sorted(varying), _call(args, kwargs, _look))))
    general = _call(args, kwargs, _glance)
    return Keys(exact, "" if any_static() else cache.digest("sizes", *common, repr(general)))


_takes_kept: Final = [True]


def take_kept(flag: bool) -> None:
    """Set if versions of earlier processes are looked for, and kept for later ones, from now on."""
    _takes_kept[0] = flag


def _call(args: tuple[Any, ...], kwargs: dict[str, Any], look: Callable[[Any], Any]) -> list[Any]:
    return [*map(look, args), *((k, look(v)) for k, v in kwargs.items())]


def _look(value: Any) -> Any:
    """Key of an argument for its sizes: of a tensor shape, dtype, requires_grad and marks."""
    if issubclass(type(value), Tensor):  # no __class__ of the program's is asked
        return tuple(value._array.shape), *_glance(value)[1:], marks_of(value)
    return type(value).__qualname__


def _glance(value: Any) -> Any:
    """Key of an argument for any size: of a tensor rank, dtype and requires_grad."""
    if issubclass(type(value), Tensor):
        return value._array.ndim, str(value._array.dtype), value._requires_grad
    return type(value).__qualname__


# ---- to disk


class Files(NamedTuple):
    """Stored data of a version: `start`, which a call needs (but for the name of the executable),
    and `rest`, which is read when somebody asks. Both are empty for a version that no other process
    can use."""

    start: dict[str, Any]
    rest: bytes
    has_graph: bool  # in the place of an executable on disk


def prepare(fn: Any, varying: frozenset[str], captured: Captured, has_graph: bool) -> Files:
    """Data to store of a version that is being compiled, or was just compiled. Raises nothing for
    what cannot be kept."""
    try:
        return _files(captured, fn, varying, has_graph or captured.joint is not None)
    except Unkept as reason:
        if config.debug >= 2:
            say(f"{captured.name} is captured again by the next process: it needs {reason}")
    except Exception:
        if config.strict:
            raise
    return Files({}, b"", has_graph)


def remember(keys: Keys, fn: Any, made: Compiled) -> None:
    """Keep a version that was just made, and was not called yet."""
    captured, files, executable = made.captured, made.files, made.executable.key
    assert isinstance(captured, Captured)
    if files is None or (files.start and executable is None and not files.has_graph):
        files = prepare(fn, made.varying, captured, executable is None)
    if not files.start:
        return
    start = files.start | {"executable": None if files.has_graph else executable}
    key = keys.any if keys.any and captured.graph.takes_symbols else keys.exact
    names = [_slot(key, i) for i in range(SLOTS)]
    store = cache.default()
    free = [name for name in names if store.get(name) is None]
    if not free:  # the oldest makes room
        store.delete(names[0])
        free = names
    try:
        store.put(free[0], {}, {"start": json.dumps(start).encode(), "rest": files.rest})
    except OSError:
        return  # a full disk: the next process captures again


def _slot(key: str, index: int) -> str:
    return cache.digest(key, str(index))


def _files(captured: Captured, fn: Any, varying: frozenset[str], has_graph: bool) -> Files:
    """Raises Unkept."""
    if captured.bound_to:
        raise Unkept(captured.bound_to)
    checks, body = captured.rows
    used = {id(row): names_in(row) for row in (*checks, *body)}
    taken = {name for name in captured.names.found if not _has_name(captured.names.namespace[name])}
    guards, names = needed(in_order(checks, taken, used), body, taken, used)
    namespace = {name: v for name, v in captured.names.namespace.items() if name in names}
    codes: set[CodeType] = set()
    roots = {id(value): name for name, value in _roots(fn).items()}
    places = {name: roots[id(v)] for name, v in namespace.items() if id(v) in roots}
    found = {n: fingerprint(namespace[n], codes) for n in sorted({*places, *(taken & names)})}
    constants = {name: value for name, value in namespace.items() if name not in found}
    for name in captured.names.fixed & constants.keys():
        if has_copies(namespace[name]):
            raise Unkept(f"a {type(namespace[name]).__qualname__} that no module holds")
    writer = Writer({}, codes)
    written = {name: writer.write(value) for name, value in constants.items()}
    if has_graph and captured.graph.takes_symbols:
        raise Unkept("a graph with symbols, which has no compiled code")
    start: dict[str, Any] = {
        "name": captured.name,
        "shape": [captured.shape[0], [*captured.shape[1]]],
        "state": _state_data(captured.modes),
        "roots": places,
        "found": found,
        "constants": written,
        "guards": guards,
        "body": body,
        "varying": sorted(varying),
        "writes": captured.writes,
        "strides": captured.strides if has_graph else [],
    }
    unknown = next((code for code in captured.read if code not in codes), None)
    if unknown is not None:
        raise Unkept(f"{unknown.co_qualname}(), whose text it does not compare")
    read, made = ([n for row in rows for n in defined_by(row)] for rows in (guards, body))
    try:  # what is not known here is not kept
        Source(namespace, read, prints=False).guards(guards)
        Source(namespace | dict.fromkeys(read), made, prints=False).body(body)
    except Unreadable as reason:
        raise Unkept(f"{reason} in its entry") from reason
    known = Writer({id(value): name for name, value in namespace.items()}, codes)
    graph = captured.joint or captured.graph if has_graph else None
    rest = {
        "guards": known.table(captured.guards.items),
        "graph": known.write(graph),
    }
    return Files(start, json.dumps(rest).encode(), has_graph)


def _state_data(modes: Modes) -> list[Any]:
    types = None if modes.autocast is None else [d and d.name for d in modes.autocast]
    places = [p and str(p) for p in (modes.place, *modes.blocks)]
    return [modes.grad, modes.inference, types, modes.current, places, modes.rows]


def _state(data: Any) -> Modes:
    grad, inference, types, current, (place, *blocks), rows = data
    if any(type(flag) is not bool for flag in (grad, inference)) or type(current) is not int:
        raise Unreadable("no state")
    autocast: Autocast | None = None
    if types is not None:
        cpu, cuda = (None if name is None else dt.by_name(name) for name in types)
        autocast = cpu, cuda
    if rows is not None and rows != ANY:
        number, parts = rows
        if type(number) is not int or type(parts) is not int:
            raise Unreadable("no rows")
        rows = number, parts
    around = tuple(map(_device, blocks))
    return Modes(grad, inference, autocast, _device(place), current, around, rows)


def _device(name: Any) -> device | None:
    if name is None:
        return None
    if type(name) is not str:
        raise Unreadable("no device")
    return device(name)


def _has_name(value: Any) -> bool:
    """True if another process need not look for a library's function or class at a place."""
    with suppress(Unkept):
        return is_library_name(value)
    return False


def _roots(fn: Any) -> dict[str, Any]:
    """The objects that every call of `fn` begins with."""
    if type(fn) is MethodType:
        return {"fn": fn, "function": fn.__func__}
    return {"fn": fn}


# ---- from disk


class Recalled:
    """A version from disk, in the place of a `Captured`. The guards are read when needed.

    Raises what is in UNREADABLE for what no version is."""

    def __init__(self, start: dict[str, Any], rest: bytes) -> None:
        count, keywords = start["shape"]
        self.modes = _state(start["state"])
        names = (start["name"], *keywords)
        if type(count) is not int or any(type(name) is not str for name in names):
            raise Unreadable("no version")
        self.name: str = start["name"]
        self.shape = count, tuple(keywords)
        self.varying = frozenset(start["varying"])
        if not all(type(name) is str and is_name(name) for name in self.varying):
            raise Unreadable("no names of what varies")
        self.writes = _writes(start["writes"])
        self.strides = _strides(start["strides"])
        self.names: dict[str, Any] = {}  # the objects that the entry names
        self.body: list[str] = []
        self.attaches = False  # to a region
        self.start = start
        self._rest = rest

    @cached_property
    def read(self) -> tuple[list[Guard], Graph | Joint | None]:
        """The guards; the graph, if there is no executable on disk."""
        data = json.loads(self._rest)
        reader = Reader(self.names)
        guards = reader.table(data["guards"])
        graph = reader.read(data["graph"])
        if not all(isinstance(g, Guard) for g in guards):
            raise Unreadable("no guards")
        return guards, graph

    @cached_property
    def guards(self) -> Guards:
        """The guards, of which an explanation runs the tests; none, where one is no guard."""
        with suppress(*UNREADABLE):
            guards, names = self.read[0], Names()
            tests = [("hold", guard.test(names)) for guard in guards]
            Source(names.namespace).guards([*names.rows, *tests])
            return Guards(guards)
        return Guards()

    def find(self, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any] | None:
        """The values that the entry works with; None if the call does not fit."""
        reader = Reader({})
        constants = self.start["constants"].items()
        names = {variable(name, "C"): reader.read(data) for name, data in constants}
        found, roots = self.start["found"], _roots(fn)
        distinct = set(map(id, names.values()))

        def take(name: str, value: Any) -> None:
            """The object at one of its places: everywhere the same, and no other's."""
            new = name not in names and id(value) not in distinct
            if new and fingerprint(value) == found[name]:
                names[name] = value
                distinct.add(id(value))
            if names.get(name) is not value:
                raise LookupError(f"{name} is another object")

        for name, place in self.start["roots"].items():
            take(variable(name, "C"), roots[place])
        values = find(
            self.start["guards"], {**ATOMS, **names, "args": args, "kwargs": kwargs}, take
        )
        if values is not None:
            source = Source(values)
            self.body = source.body(self.start["body"])
            self.attaches = source.attaches
        self.names = names
        return values

    def source(self) -> str:
        """The whole entry, as capture wrote it."""
        return entry_source(Source(self.names).guards(self.start["guards"]), self.body)


def _writes(data: Any) -> tuple[tuple[int, int], ...]:
    pairs = tuple((i, o) for i, o in data)
    if any(type(n) is not int for pair in pairs for n in pair):
        raise Unreadable("no writes")
    return pairs


def _strides(data: Any) -> list[Strides | None]:
    rows: list[Strides | None] = [None if row is None else tuple(row) for row in data]
    if any(type(n) is not int for row in rows if row is not None for n in row):
        raise Unreadable("no strides")
    return rows


MakeRegion = Callable[[Joint, tuple[tuple[int, int], ...], Trail], Region]


def recall(
    keys: Keys,
    fn: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    options: Options,
    make_region: MakeRegion,
) -> Compiled | None:
    """A version that is kept there whose guards hold for this call. Raises nothing.

    `make_region` is for a version whose gradient can be asked for later."""
    for name in keys.slots():
        entry = cache.default().get(name)
        if entry is None:
            continue
        try:
            trail = Trail(name_of(fn))
            with trail.stage("recall"):
                start = json.loads(entry.file("start").read_bytes())
                version = Recalled(start, entry.file("rest").read_bytes())
                values = version.find(fn, args, kwargs)
            if values is not None:
                return _compiled(version, values, (args, kwargs), options, make_region, trail)
        except Exception as fault:  # the call is captured, as if nothing were kept
            if config.strict and not isinstance(fault, UNREADABLE):
                raise
            if config.debug >= 2:
                say(f"a kept version is not taken: {type(fault).__name__}: {fault}")
    return None


def _compiled(
    version: Recalled,
    values: dict[str, Any],
    call: tuple[Any, Any],
    options: Options,
    make_region: MakeRegion,
    trail: Trail,
) -> Compiled:
    """A recalled version with its executable: from disk as well, or from the graph. Raises
    Unreadable if it is gone."""
    region: Region | None = None
    name = version.start["executable"]
    if name is not None:
        executable = recall_executable(name, trail)
        if executable is None:
            raise Unreadable("the executable is gone")
    else:
        _, graph = version.read
        if isinstance(graph, Joint):
            region = make_region(graph, version.writes, trail)
            graph = region.forward
        if not isinstance(graph, Graph):
            raise Unreadable("no graph")
        executable = compile_graph(
            graph, version.writes, backend=options.backend, strides=version.strides, trail=trail
        )
    if version.attaches and region is None:
        raise Unreadable("there is no region")
    entry = late(version, values, call, linked(executable.run, MISS, region))
    return Compiled(entry, version, executable, trail, varying=version.varying)


def late(
    version: Recalled, values: dict[str, Any], call: tuple[Any, Any], space: dict[str, Any]
) -> Call:
    """The entry of a version whose guards were just seen to hold for `call`: for that one only the
    body is compiled, which works with the `values` found; from the second on all of it. (A process
    that is started for few calls does not wait for thousands of lines.)"""
    scope = {**version.names, **space}
    pending = [(call, values)]

    def begin(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if builtins_are_replaced():
            return MISS
        known, found = pending.pop() if pending else ((None, None), {})
        if known[0] is args and known[1] is kwargs:
            text = "\n ".join(["def body():", *version.body])
            return _define(text, version, {**found, **space})()
        try:
            text = version.source()
        except UNREADABLE:
            return MISS
        entry.__code__ = _define(text, version, scope).__code__
        return entry(args, kwargs)

    scope["begin"] = begin
    entry = _define("def entry(args, kwargs): return begin(args, kwargs)", version, scope)
    return entry


def _define(text: str, version: Recalled, scope: dict[str, Any]) -> Any:
    """The one function that a text defines, among these names."""
    code = compile(text, f"<entry of {version.name}>", "exec")
    scope["__builtins__"] = BUILTINS
    made: dict[str, Any] = {}
    exec(code, scope, made)
    return made.popitem()[1]
