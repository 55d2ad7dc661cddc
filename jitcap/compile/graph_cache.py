"""Beside the pipeline: a graph compiled before, by any process. Graph -> Artifact from disk.

The key is the graph (lines included: errors name them), the strides and writes, the target,
the processor, and the sources of the packages that generate code. What is kept is data (JSON and
the shared object); the texts of the stages are made again when somebody asks for them.

Of a graph whose sizes are symbols the key has what was known of them, too, since compiling relies
on it, and about how large they are, by which it reckons. What compiling asked about sizes is
written down under the key, and the artifact under that and the answers: who has the graph finds it
if the answers hold, and makes guards of them; who has a version finds the one that its guards were
made for, whatever was compiled since.
"""

from __future__ import annotations

import functools
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from math import inf
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np

import codegen
from codegen import Program, Target
from codegen.runtime import cache
from codegen.runtime.artifact import Artifact, Exchange, Host, Kernel, Signature, Spec
from codegen.runtime.callback import ARRAY, NUMBER, Callback
from codegen.targets import cpp
from codegen.targets.cpp.runtime import build, cpu
from eager.base import dtype as dt
from eager.base.dataclass import dataclass
from eager.base.process import threads
from eager.base.process.locks import cached_property
from eager.core import attributes
from eager.core.attributes import Unasked
from eager.core.op import REGISTRY, Op
from eager.sizes.aval import Aval
from eager.sizes.polynomial import Scope
from eager.sizes.symint import SymInt
from jitcap.graph.graph import Graph
from jitcap.graph.key import key_text
from jitcap.graph.subgraphs import everywhere
from jitcap.graph.symbols import holds, symbols_in

ROOT: Final = Path(__file__).resolve().parent.parent.parent
PACKAGES: Final = ("eager", "codegen", "jitcap")
DTYPES: Final = {d.np.name: d.np for d in dt.ALL} | {
    np.dtype(name).name: np.dtype(name) for name in ("u2", "u4", "u8")
}
PARTS: Final = "wiring"  # an entry of this is of a device (`cut_cache.py`)
_BYTES: Final = 1 << 48
_IMPORTED: Final = time.time()
T = TypeVar("T")


@functools.cache
def package_build() -> str:
    """A digest of our own code: equal for equal sources, wherever and whenever they were installed.
    It is read once for an install, and kept under the places, sizes and times of its files. Where
    one was edited since the import, what runs is in no file, and the digest is this process's."""
    place = next((place for place in (ROOT, *ROOT.parents) if place.is_file()), None)
    files = _sources() if place is None else [(str(place), place.stat())]
    rows = sorted(f"{path} {found.st_size} {found.st_mtime_ns}" for path, found in files)
    if any(_IMPORTED < found.st_mtime <= time.time() for _, found in files):
        return cache.digest("edited", str(os.getpid()), str(_IMPORTED), *rows)
    key, store = cache.digest("package", *rows), cache.default()
    entry = store.get(key)
    if entry is not None and type(entry.data.get("build")) is str:
        return entry.data["build"]
    build = cache.digest(*(_zipped(place) if place else _contents(path for path, _ in files)))
    if store.is_writable():
        with suppress(OSError):
            store.put(key, {"build": build}, {})
    return build


def _sources() -> list[tuple[str, os.stat_result]]:
    """The Python files of our packages."""
    files = []
    folders = [f"{ROOT}/{package}" for package in PACKAGES]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.name.endswith(".py"):
                    files.append((entry.path, entry.stat()))
                elif "." not in entry.name and entry.is_dir() and entry.name != "__pycache__":
                    folders.append(entry.path)
    return files


def _contents(paths: Iterable[str]) -> Iterator[str | bytes]:
    """Name within the packages and bytes of each file, in order."""
    for path in sorted(paths):
        yield path[len(str(ROOT)) + 1 :]
        yield Path(path).read_bytes()


def _zipped(place: Path) -> Iterator[str | bytes]:
    """Names and bytes of the files of packages in a zip file."""
    from zipfile import ZipFile  # slow to import

    prefix = f"{ROOT.relative_to(place).as_posix()}/".removeprefix("./")
    with ZipFile(place) as archive:
        for name in sorted(archive.namelist()):
            inner = name.removeprefix(prefix)
            if inner.endswith((".py", ".pyc")) and inner.startswith(
                tuple(f"{p}/" for p in PACKAGES)
            ):
                yield inner
                yield archive.read(name)


def key_of(graph: Graph, layout: Sequence[Any], target: Target) -> str | None:
    """The name of a compiled graph on disk; None where nothing is kept (another backend).
    `layout`: the inputs' strides and the writes."""
    if target.backend != "cpp":
        return None
    return digest_of(graph, (target, threads.room(), layout, known(graph)))


def digest_of(graph: Graph, rest: Sequence[Any]) -> str:
    """A name for a graph on this machine, with the rest of what is compiled."""
    parts = map(repr, rest)
    return cache.digest("graph", package_build(), build.fingerprint(), *parts, key_text(graph))


def known(graph: Graph) -> list[Any]:
    """Facts about the symbols in a graph: their ranges, what was answered about sizes (or is
    checked), and how large they are, by which costs are reckoned."""
    scope = _scope(graph) if graph.has_symbols else None
    if scope is None:
        return []
    ranges = sorted((s.name, s.lo, s.hi, s.hint.bit_length()) for s in scope.symbols.values())
    answers = (*scope.answers.items(), *scope.assumed.items())
    return [ranges, *(_answer_data((r, SymInt(t), truth)) for (r, t), truth in answers)]


@dataclass(frozen=True, eq=False, slots=True)
class Place:
    """Location on disk of the artifact of a graph. `scope`: of its symbols; `known`: number of
    answers that it had before compiling asked for more."""

    key: str
    target: Target
    scope: Scope | None
    known: int

    def recall(self, program: Callable[[], Program]) -> tuple[Artifact, str] | None:
        """The artifact and its name. What compiling it asked about sizes is guarded again; None
        where the answers are others now."""
        return self.found(lambda name: recall(name, program, self.target))

    def found(self, by_name: Callable[[str], T | None]) -> tuple[T, str] | None:
        """The value that `by_name` finds, and its name; the answers are guarded as in `recall`."""
        asked = [] if self.scope is None else self._asked()
        if asked is None:
            return None
        name = self.key
        if self.scope is not None:
            name = _answered(self.key, [*map(_answer_data, asked)])
        found = by_name(name)
        if found is None:
            return None
        for relation, size, _ in asked:
            size.scope.answer(relation, size)
        return found, name

    def _asked(self) -> list[tuple[str, SymInt, bool]] | None:
        """Questions that compiling this graph asked, with their answers; None if it was not
        compiled, or if the answers are others now."""
        assert self.scope is not None
        entry = cache.default().get(self.key)
        if entry is None:
            return None
        try:
            asked = [_answer(row, self.scope.symbols) for row in entry.data["answers"]]
            fits = all(holds(relation, size, {}) is truth for relation, size, truth in asked)
        except (*cache.DAMAGED, ArithmeticError):
            cache.default().delete(self.key)
            return None
        return asked if fits else None

    def answers(self) -> list[Any]:
        """Answers about sizes since then, as data."""
        asked = [] if self.scope is None else [*self.scope.answers.items()][self.known :]
        return [_answer_data((r, SymInt(terms), truth)) for (r, terms), truth in asked]

    def remember(self, artifact: Artifact, answers: list[Any]) -> str | None:
        """Keep what was compiled for these answers; its name, or None if it is not kept."""
        return self.keep(lambda name: remember(name, artifact), answers)

    def keep(self, by_name: Callable[[str], bool], answers: list[Any]) -> str | None:
        """Store an artifact by `by_name`, which says if it did; its name, or None if it did not."""
        if self.scope is None:
            return self.key if by_name(self.key) else None
        name = _answered(self.key, answers)
        if not by_name(name):
            return None
        with suppress(OSError):  # a full disk: who has the graph compiles it again
            cache.default().put(self.key, {"answers": answers}, {})
        return name


def place_of(graph: Graph, layout: Sequence[Any], target: Target) -> Place | None:
    """The place of a graph on disk, by `key_of`."""
    key = key_of(graph, layout, target)
    return None if key is None else place(key, graph, target)


def place(key: str, graph: Graph, target: Target) -> Place:
    scope = _scope(graph) if graph.has_symbols else None
    return Place(key, target, scope, len(scope.answers) if scope else 0)


def _scope(graph: Graph) -> Scope | None:
    """Whom questions about the sizes of a graph go to; None where no size has a symbol."""
    sized = (v for n in everywhere(graph) for v in (n.attrs, *(a.shape for a in n.avals)))
    return next((s.scope for v in sized for s in symbols_in((v,))), None)


def _answered(key: str, rows: list[Any]) -> str:
    """The name of the artifact of a graph for these answers about its sizes."""
    return cache.digest(key, json.dumps(rows))


def _answer_data(answer: tuple[str, SymInt, bool]) -> list[Any]:
    relation, size, truth = answer
    return [relation, attributes.encode(size), truth]


def _answer(row: Any, symbols: attributes.Symbols) -> tuple[str, SymInt, bool]:
    """Inverse of `_answer_data`."""
    relation, data, truth = row
    size = attributes.decode_size(data, symbols)
    if relation not in ("==", ">=") or type(size) is int or type(truth) is not bool:
        raise ValueError("no answer")
    return relation, size, truth


def recall(key: str, program: Callable[[], Program] | None, target: Target) -> Artifact | None:
    """The artifact kept under `key`, without texts if there is no `program` to make them from.
    Never raises for what is on disk."""
    entry = cache.default().get(key)
    if entry is None or PARTS in entry.data:
        return None
    try:
        data = entry.data
        kernels = tuple(
            Kernel(_text(n), _text(source), tuple(map(_text, notes)))
            for n, source, notes in data["kernels"]
        )
        stages, plan = tuple(map(_text, data["stages"])), dict(data["plan"])
        runner = cpu.load(entry.file("graph.so")).runner(cpp.ENTRY, _signature(data))
    except cache.DAMAGED:
        cache.default().delete(key)
        return None
    texts: Mapping[str, str] = {}
    if program is not None:
        texts = Stages(stages, lambda: codegen.run_stages(program(), target.backend)[1])
        runner.clocked = functools.partial(codegen.clocked, program, target)
    told = runner.signature
    return Artifact(runner, kernels, texts, plan, told.callbacks, exchanges=told.exchanges)


def _signature(data: dict[str, Any]) -> Signature:
    """Signature of native code. Raises what is in `cache.DAMAGED` for other data."""
    kinds, scope = _text(data["kinds"]), Unasked()
    places = tuple((_text(name), _count(i)) for name, i in data["symbols"])
    for name, i in places:
        if kinds[i] != "i" or name in scope.symbols:
            raise ValueError("no symbol")
        scope.symbol(name, 0, -inf)
    symbols = scope.symbols
    outputs = tuple(_spec(each, symbols) for each in data["outputs"])
    blocks = tuple(
        (_count(first), _count(last), _size(size, symbols)) for first, last, size in data["blocks"]
    )
    sites = tuple(map(_text, data["sites"]))
    hosts = tuple(_host(each, symbols) for each in data["hosts"])
    return Signature(kinds, outputs, _count(data["arena_bytes"]), sites, hosts, places, blocks)


def _count(value: Any) -> int:
    """A number of bytes, or elements. Raises ValueError."""
    if type(value) is not int or not 0 <= value < _BYTES:
        raise ValueError("no sizes")
    return value


def _size(data: Any, symbols: attributes.Symbols) -> Any:
    return attributes.decode_size(data, symbols) if type(data) is list else _count(data)


def _size_data(sizes: Iterable[Any]) -> list[Any]:
    return [*map(attributes.encode, sizes)]


def _host(data: dict[str, Any], symbols: attributes.Symbols) -> Host | Exchange:
    """A NumPy kernel that native code calls: an op of the library, and the memory that it gets. Or
    a collective."""
    if "operand" in data:
        op, attrs = _op(data["op"]), _attrs(data["attrs"], symbols)
        if op.half != "start":
            raise ValueError("no collective")
        operand, result = (_spec(data[name], symbols) for name in ("operand", "result"))
        beside = tuple(map(_text, data["beside"]))
        return Exchange(op, attrs, operand, result, _text(data["where"]), beside)
    inputs, outputs = (
        tuple(_spec(each, symbols) for each in data[name]) for name in ("inputs", "outputs")
    )
    call = _call(data["call"], symbols)
    counted = sum(x in (ARRAY, NUMBER) for x in call.operands), len(call.outs)
    if counted != (len(inputs), len(outputs)):
        raise ValueError("no callback")
    return Host(call, inputs, outputs)


def _call(data: Mapping[str, Any], symbols: attributes.Symbols) -> Callback:
    """Inverse of `_call_data`. Raises LookupError, TypeError or ValueError for other data."""
    op, attrs = _op(data["op"]), _attrs(data["attrs"], symbols)
    outs = tuple(
        Aval(tuple(_size(n, symbols) for n in shape), dt.by_name(kind), str(device))
        for shape, kind, device in data["outs"]
    )
    operands = tuple(map(attributes.decode, data["operands"]))
    return Callback(op, attrs, operands, outs, str(data["where"]))


def _op(name: str) -> Op:
    op = REGISTRY[name]
    if not type(op).__module__.startswith("eager."):
        raise ValueError(f"{name} is not the library's own")
    return op


def _attrs(data: Mapping[str, Any], symbols: attributes.Symbols) -> dict[str, Any]:
    return {name: attributes.decode(value, symbols) for name, value in data.items()}


def _call_data(call: Any) -> dict[str, Any] | None:
    """A callback as JSON data; None for a function or an op of the user's, or an attribute that
    is no data."""
    if not isinstance(call, Callback) or not type(call.op).__module__.startswith("eager."):
        return None
    try:
        attrs = {name: attributes.encode(value) for name, value in call.attrs.items()}
        operands = list(map(attributes.encode, call.operands))
    except ValueError:
        return None
    outs = [[_size_data(a.shape), a.dtype.name, a.device] for a in call.outs]
    return {
        "op": call.op.name, "attrs": attrs, "operands": operands, "outs": outs,
        "where": call.where,
    }  # fmt: skip


def _spec(data: Any, symbols: attributes.Symbols) -> Spec:
    shape, name = data
    return Spec(tuple(_size(n, symbols) for n in shape), DTYPES[name])


def _spec_data(spec: Spec) -> list[Any]:
    return [_size_data(spec.shape), spec.dtype.name]


def _host_data(host: Host | Exchange) -> dict[str, Any] | None:
    """Data that `_host` reads; None for what another process does not have."""
    if isinstance(host, Exchange):
        return {
            "op": host.op.name, "operand": _spec_data(host.operand), "where": host.where,
            "attrs": {name: attributes.encode(value) for name, value in host.attrs.items()},
            "result": _spec_data(host.result), "beside": list(host.beside),
        }  # fmt: skip
    call = _call_data(host.call)
    specs = {"inputs": host.inputs, "outputs": host.outputs}
    data = {name: [*map(_spec_data, each)] for name, each in specs.items()}
    return None if call is None else {"call": call, **data}


def _text(value: Any) -> str:
    if type(value) is not str:
        raise ValueError("no text")
    return value


def remember(key: str, artifact: Artifact) -> bool:
    """Keep an artifact of native code, which may call the library's NumPy kernels back, but not the
    user's functions; whether it is kept."""
    run = artifact.run
    if not isinstance(run, cpu.Runner):
        return False
    signature = run.signature
    hosts = list(map(_host_data, signature.hosts))
    if None in hosts:
        return False
    data = {
        "kinds": signature.kinds,
        "outputs": [*map(_spec_data, signature.outputs)],
        "arena_bytes": signature.arena_bytes,
        "symbols": [[*row] for row in signature.symbols],
        "blocks": [[first, last, attributes.encode(n)] for first, last, n in signature.blocks],
        "sites": list(signature.sites),
        "hosts": hosts,
        "kernels": [[k.name, k.source, list(k.notes)] for k in artifact.kernels],
        "stages": list(artifact.stages),
        "plan": {k: v for k, v in artifact.plan.items() if not k.endswith("_us")},
    }
    try:
        cache.default().put(key, data, {"graph.so": run.module.path})
    except OSError:
        return False  # a full disk: the next process compiles again
    return True


class Stages(Mapping[str, str]):
    """The texts of codegen's stages, which are run again at the first question."""

    def __init__(self, names: tuple[str, ...], run: Callable[[], Mapping[str, str]]) -> None:
        self._names = names
        self._run = run

    @cached_property
    def _texts(self) -> Mapping[str, str]:
        return self._run()

    @property
    def results(self) -> Mapping[str, Any]:
        """Results of the stages."""
        return getattr(self._texts, "results", {})

    def __getitem__(self, name: str) -> str:
        if name not in self._names:
            raise KeyError(name)
        return self._texts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
