"""Beside the pipeline: a graph compiled before, by any process. Graph -> Artifact from disk.

The key is the printed graph (lines included: errors name them), the strides and writes, the target,
the compiler, and the files of the packages that generate code. What is kept is data (JSON and the
shared object); the texts of the stages are made again when somebody asks for them.
"""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

import codegen
from codegen import Program, Target
from codegen.emit import cpp
from codegen.runtime import build, cache, cpu
from codegen.runtime.artifact import Artifact, Host, Kernel, Signature, Spec
from codegen.runtime.callback import ARRAY, NUMBER, Callback
from eager import dtype as dt
from jitcap.graph import Graph
from jitcap.show import show

ROOT: Final = Path(__file__).resolve().parent.parent.parent
PACKAGES: Final = ("eager", "codegen", "jitcap")
DTYPES: Final = {d.np.name: d.np for d in dt.ALL} | {
    np.dtype(name).name: np.dtype(name) for name in ("u2", "u4", "u8")
}
_BYTES: Final = 1 << 48


@functools.cache
def package_build() -> str:
    """Changes with every change of our own code."""
    rows: list[str] = []
    folders = [f"{ROOT}/{package}" for package in PACKAGES]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.name.endswith(".py"):
                    found = entry.stat()
                    rows.append(f"{entry.path} {found.st_size} {found.st_mtime_ns}")
                elif "." not in entry.name and entry.is_dir() and entry.name != "__pycache__":
                    folders.append(entry.path)
    return cache.digest(*sorted(rows))


def key_of(graph: Graph, layout: Sequence[Any], target: Target) -> str | None:
    """The name of a compiled graph on disk; None where nothing is kept (no compiler, another
    backend). `layout`: the inputs' strides and the writes."""
    if target.backend != "cpp":
        return None
    try:
        machine = build.fingerprint()
    except build.NoCompiler:
        return None
    files = [n.where.file for n in graph.nodes]  # errors name the line, the print the last part
    devices = [a.device for n in graph.everything() for a in n.avals]
    rest = map(repr, (target, layout, _runs(files), _runs(devices)))
    return cache.digest("graph", package_build(), machine, *rest, show(graph))


def _runs(values: Sequence[str]) -> list[tuple[str, int]]:
    """Equal neighbours as one: nearly always there is but one value."""
    return [(value, len([*run])) for value, run in itertools.groupby(values)]


def recall(key: str, program: Callable[[], Program] | None, target: Target) -> Artifact | None:
    """The artifact kept under `key`, without texts if there is no `program` to make them from.
    Never raises for what is on disk."""
    entry = cache.default().get(key)
    if entry is None:
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
    texts = None if program is None else _Stages(stages, program, target)
    return Artifact(runner, kernels, texts or {}, plan, runner.signature.callbacks)


def _signature(data: dict[str, Any]) -> Signature:
    """How native code is called. Raises ValueError if it is not this."""
    outputs = [(tuple(shape), DTYPES[name]) for shape, name in data["outputs"]]
    sizes = [data["arena_bytes"], *itertools.chain.from_iterable(shape for shape, _ in outputs)]
    if any(type(n) is not int or not 0 <= n < _BYTES for n in sizes):
        raise ValueError("no sizes")
    specs = tuple(Spec(shape, kind) for shape, kind in outputs)
    sites = tuple(map(_text, data["sites"]))
    hosts = tuple(map(_host, data["hosts"]))
    return Signature(_text(data["kinds"]), specs, data["arena_bytes"], sites, hosts)


def _host(data: dict[str, Any]) -> Host:
    """A NumPy kernel that native code calls: an op of the library, and the memory that it gets."""
    inputs, outputs = (tuple(map(_spec, data[name])) for name in ("inputs", "outputs"))
    call = Callback.of_data(data["call"])
    counted = sum(x in (ARRAY, NUMBER) for x in call.operands), len(call.outs)
    if counted != (len(inputs), len(outputs)):
        raise ValueError("no callback")
    return Host(call, inputs, outputs)


def _spec(data: Any) -> Spec:
    shape, name = data
    if any(type(n) is not int or not 0 <= n < _BYTES for n in shape):
        raise ValueError("no sizes")
    return Spec(tuple(shape), DTYPES[name])


def _host_data(host: Host) -> dict[str, Any] | None:
    """What `_host` reads; None for what another process does not have."""
    call = host.call.as_data() if isinstance(host.call, Callback) else None
    specs = {"inputs": host.inputs, "outputs": host.outputs}
    data = {name: [[list(s.shape), s.dtype.name] for s in each] for name, each in specs.items()}
    return None if call is None else {"call": call, **data}


def _text(value: Any) -> str:
    if type(value) is not str:
        raise ValueError("no text")
    return value


def remember(key: str, artifact: Artifact) -> bool:
    """Keep an artifact of native code, which may call the library's NumPy kernels back, but not the
    user's functions; whether it is kept."""
    run = artifact.run
    if not isinstance(run, cpu.Runner) or run.signature.shapes is not None:
        return False
    signature = run.signature
    hosts = list(map(_host_data, signature.hosts))
    if None in hosts:
        return False
    data = {
        "kinds": signature.kinds,
        "outputs": [[list(s.shape), s.dtype.name] for s in signature.outputs],
        "arena_bytes": signature.arena_bytes,
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


class _Stages(Mapping[str, str]):
    """The texts of codegen's stages, which are run again at the first question."""

    def __init__(
        self, names: tuple[str, ...], program: Callable[[], Program], target: Target
    ) -> None:
        self._names = names
        self._program = program
        self._target = target

    @functools.cached_property
    def _texts(self) -> Mapping[str, str]:
        return codegen.compile(self._program(), self._target).stages

    def __getitem__(self, name: str) -> str:
        if name not in self._names:
            raise KeyError(name)
        return self._texts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
