"""Kept versions: a compiled version on disk, for the next process. Compiled <-> cache entry.

    remember    Compiled -> entry code, its constants, guards and graph, under the call's key
    recall      a call -> the versions kept for calls like it, whose guards hold for it

What is kept is the entry as it was generated, guards included. Its constants are read back, or
taken from the live program where the guards find them, if they are made of the same text
(`fingerprint`). A version that depends on something of its process (an id, the order of a set of
strings), or names an object that has no place, is not kept.
"""

from __future__ import annotations

import functools
import marshal
import pickle
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from types import CodeType, FunctionType, MethodType
from typing import Any, Final

import numpy as np

from codegen.runtime import build, cache
from eager.autograd import mode
from eager.dtype import _default as default_dtype
from eager.tensor import Tensor
from jitcap.capture.result import Captured, link
from jitcap.config import config
from jitcap.graph import Graph
from jitcap.guards import READ_ERRORS, Guards
from jitcap.joint import Joint
from jitcap.kept import graphs, pickling
from jitcap.kept.fingerprint import Unkept, fingerprint
from jitcap.lower import Strides
from jitcap.pipeline import compile_graph
from jitcap.pipeline import recall as recall_executable
from jitcap.record import Trail, say
from jitcap.region import Region
from jitcap.version import MISS, Compiled, Options

SLOTS: Final = 8  # versions for calls that look alike: of several models with one step, say
UNREADABLE: Final = (pickle.UnpicklingError, ImportError, EOFError, OSError, Unkept, *READ_ERRORS)


def key_of(
    fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any], options: Options, varying: set[str]
) -> str | None:
    """The name of all versions for calls like this one. None if nothing tells the function, or
    while somebody reads the stages of compiles or checks them."""
    looking = config.check or config.dump or config.debug >= 3
    if looking or options.verify or options.check_nans:
        return None
    plain = fn.__func__ if isinstance(fn, MethodType) else fn
    machine = "no compiler"
    with suppress(build.NoCompiler):
        machine = build.fingerprint()
    try:
        text = fingerprint(plain.__code__ if isinstance(plain, FunctionType) else type(plain))
    except Unkept:
        return None
    flags = (config.backend, config.isa, config.threads, config.recompute)
    state = (mode.enabled, mode.inference, mode.autocast, default_dtype[0], sorted(varying))
    call = [*map(_look, args), *((k, _look(v)) for k, v in kwargs.items())]
    versions = (sys.version, np.__version__, graphs.package_build(), machine)
    return cache.digest("version", text, *map(repr, (versions, flags, options, state, call)))


def _look(value: Any) -> Any:
    """What calls that share a version have in common in an argument, as far as one sees at once."""
    if isinstance(value, Tensor):
        return tuple(value._array.shape), str(value._array.dtype), value._requires_grad
    return type(value).__qualname__


# ---- to disk


def remember(key: str, fn: Any, made: Compiled) -> None:
    """Keep a version that was just made, and was not called yet."""
    captured = made.captured
    assert isinstance(captured, Captured)
    try:
        files = _files(captured, fn, made.executable.key)
    except Exception as reason:
        if config.strict and not isinstance(reason, Unkept):
            raise
        if config.debug >= 2:
            say(f"{captured.name} is captured again by the next process: it needs {reason}")
        return
    names = [_slot(key, i) for i in range(SLOTS)]
    store = cache.default()
    free = [name for name in names if store.get(name) is None]
    if not free:  # the oldest makes room
        store.delete(names[0])
        free = names
    try:
        store.put(free[0], {}, files)
    except OSError:
        return  # a full disk: the next process captures again


def _slot(key: str, index: int) -> str:
    return cache.digest(key, str(index))


def _files(captured: Captured, fn: Any, executable: str | None) -> dict[str, bytes]:
    """`start`: what a call needs; `rest`: what is read when somebody asks. Raises Unkept."""
    if captured.bound_to:
        raise Unkept(captured.bound_to)
    namespace = captured.names.namespace
    codes: set[CodeType] = set()
    found = {
        name: fingerprint(namespace[name], codes)
        for name in dict.fromkeys(name for _, name, _ in captured.names.found)
    }
    constants = {name: value for name, value in namespace.items() if name not in found}
    roots = {id(value): name for name, value in _roots(fn).items()}
    for name in captured.names.fixed - found.keys():
        value = namespace[name]
        if id(value) not in roots and pickling.has_copies(value):
            raise Unkept(f"a {type(value).__qualname__} that no module holds")
    objects, named = pickling.write(constants, roots)
    texts, _ = pickling.write([(value, fingerprint(value, codes)) for value in named], roots)
    unknown = next((code for code in captured.read if code not in codes), None)
    if unknown is not None:
        raise Unkept(f"{unknown.co_qualname}(), whose text it does not compare")
    whole = captured.joint is not None or executable is None
    start = (  # the fields of _Start
        captured.name, captured.shape, captured.grad_mode, captured.inference, captured.autocast,
        found, objects, texts,
        marshal.dumps(captured.finder()), marshal.dumps(captured.code),
        captured.writes, captured.strides, None if whole else executable,
    )  # fmt: skip
    names = {id(value): name for name, value in namespace.items()}
    graph = captured.joint or captured.graph if whole else None
    rest, _ = pickling.write((captured.guards.items, graph), names)
    return {"start": pickling.write(start, {})[0], "rest": rest}


def _roots(fn: Any) -> dict[str, Any]:
    """The objects that every call of `fn` begins with."""
    plain = fn.__func__ if isinstance(fn, MethodType) else fn
    return {"fn": fn, "function": plain}


@dataclass(frozen=True, slots=True)
class _Start:
    """What is read of a kept version to call it."""

    name: str
    shape: tuple[int, tuple[str, ...]]
    grad_mode: bool
    inference: bool
    autocast: Any
    found: dict[str, str]  # name -> fingerprint of what the guards find
    objects: bytes
    texts: bytes  # fingerprints of what is read by name
    finder: bytes
    code: bytes
    writes: tuple[tuple[int, int], ...]
    strides: list[Strides | None]
    executable: str | None  # its name on disk; None: it is compiled from the graph


# ---- from disk


class Recalled:
    """A version from disk, in the place of a `Captured`. The guards are read when needed."""

    def __init__(self, start: _Start, rest: bytes, names: dict[str, Any]) -> None:
        self.shape = start.shape
        self.grad_mode = start.grad_mode
        self.inference = start.inference
        self.autocast = start.autocast
        self.names = names
        self._rest = rest

    @functools.cached_property
    def read(self) -> tuple[list[Any], Graph | Joint | None]:
        """The guards; the graph, if there is no executable on disk."""
        items, graph = pickling.read(self._rest, self.names)
        return items, graph

    @property
    def guards(self) -> Guards:
        return Guards(self.read[0])


MakeRegion = Callable[[Joint, tuple[tuple[int, int], ...], Trail], Region]


def recall(
    key: str,
    fn: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    options: Options,
    make_region: MakeRegion,
) -> Compiled | None:
    """A version kept under `key` whose guards hold for this call. Raises nothing.

    `make_region` is for a version whose gradient can be asked for later."""
    for name in (_slot(key, i) for i in range(SLOTS)):
        entry = cache.default().get(name)
        if entry is None:
            continue
        try:
            start = _Start(*pickling.read(entry.file("start").read_bytes(), {}))
            rest = entry.file("rest").read_bytes()
            trail = Trail(start.name)
            with trail.stage("recall"):
                names = _names(start, fn, args, kwargs)
            if names is not None:
                return _compiled(start, Recalled(start, rest, names), options, make_region, trail)
        except Exception as fault:  # the call is captured, as if nothing were kept
            if config.strict and not isinstance(fault, UNREADABLE):
                raise
    return None


def _compiled(
    start: _Start, version: Recalled, options: Options, make_region: MakeRegion, trail: Trail
) -> Compiled:
    """A recalled version with its executable: from disk as well, or from the graph. Raises KeyError
    if it is gone."""
    region: Region | None = None
    if start.executable is not None:
        executable = recall_executable(start.executable, trail)
        if executable is None:
            raise KeyError(start.executable)
    else:
        _, graph = version.read
        assert graph is not None
        if isinstance(graph, Joint):
            region = make_region(graph, start.writes, trail)
            graph = region.forward
        executable = compile_graph(
            graph, start.writes, backend=options.backend, strides=start.strides, trail=trail
        )
    call = link(_code(start.code), version.names, executable.run, MISS, region)
    return Compiled(call, version, executable, trail)


def _names(
    start: _Start, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, Any] | None:
    """The constants of a version, in this process; None if the call does not fit."""
    roots = _roots(fn)
    names: dict[str, Any] = pickling.read(start.objects, roots)
    for value, text in pickling.read(start.texts, roots):
        if fingerprint(value) != text:
            return None

    distinct = set(map(id, names.values()))

    def take(name: str, value: Any) -> Any:
        """The object at one of its places: everywhere the same, and no other's."""
        new = name not in names and id(value) not in distinct
        if new and fingerprint(value) == start.found[name]:
            names[name] = value
            distinct.add(id(value))
        if names.get(name) is not value:
            raise LookupError(f"{name} is another object")
        return value

    scope = dict(names, MISS=False)
    exec(_code(start.finder), scope)
    return names if scope["find"](args, kwargs, take) else None


def _code(data: bytes) -> CodeType:
    code: CodeType = marshal.loads(data)  # noqa: S302 - as trusted as the shared object beside it
    return code
