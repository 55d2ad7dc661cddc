"""Beside the pipeline: a graph compiled for a device before. Graph -> its parts from disk.

As `graphs.py` for the host: the key is the printed graph and all that compiling it depends on. What
is kept is data, the name of the host's part, and the text of the kernels, which is code: trusted by
owner, mode and checksum as native code is. Reading it runs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from codegen import Target
from codegen.runtime import cache
from codegen.targets.triton.runtime.program import TritonProgram
from codegen.targets.triton.runtime.resident_data import from_data, texts, to_data
from jitcap.compile import graph_cache as graphs
from jitcap.compile.graph_cache import PARTS
from jitcap.graph.cut_by_device import WHOLE, Ends, Wiring
from jitcap.graph.graph import Graph


class KeptPart(NamedTuple):
    """A part: the name of what the host's was compiled to, or a device's program and the names of
    the stages that it went through."""

    host: str | None
    program: TritonProgram | None
    stages: tuple[str, ...] = ()


class Kept(NamedTuple):
    """Stored form of a split graph: its wiring, its parts, and the notes for `explain`."""

    wiring: Wiring
    parts: tuple[KeptPart, ...]
    notes: tuple[str, ...]


def place_of(graph: Graph, layout: Sequence[Any], target: Target) -> graphs.Place:
    """The place of a compiled graph on disk. `layout`: the inputs' strides and the writes."""
    rest = ("placed", target, layout, graphs.known(graph))
    return graphs.place(graphs.digest_of(graph, rest), graph, target)


def remember(key: str, kept: Kept) -> bool:
    """Keep it; whether it is kept."""
    data: dict[str, Any] = {
        PARTS: _wiring_data(kept.wiring),
        "parts": [
            [part.host, None if part.program is None else to_data(part.program), [*part.stages]]
            for part in kept.parts
        ],
        "notes": [*kept.notes],
    }
    files = {
        _file(k): part.program.source.encode()
        for k, part in enumerate(kept.parts)
        if part.program is not None
    }
    try:
        cache.default().put(key, data, files)
    except OSError:
        return False  # a full disk: the next process compiles again
    return True


def recall(key: str) -> Kept | None:
    """The split graph stored under `key`, or None. Never raises for what is on disk."""
    entry = cache.default().get(key)
    if entry is None or PARTS not in entry.data:
        return None
    try:
        data = entry.data
        wiring = _wiring(data[PARTS])
        parts = []
        for k, (host, program, stages) in enumerate(data["parts"]):
            made = None
            if program is not None:
                made = from_data(program, entry.file(_file(k)).read_text(encoding="utf-8"))
            elif texts((host,)):
                made = None
            parts.append(KeptPart(host, made, texts(stages)))
        if len(parts) != len(wiring.parts):
            raise ValueError("other parts than their ends")
        return Kept(wiring, tuple(parts), texts(data["notes"]))
    except cache.DAMAGED:
        cache.default().delete(key)
        return None


def _file(number: int) -> str:
    """The file of an entry that has the kernels of a part."""
    return f"kernels{number}.py"


def _wiring_data(wiring: Wiring) -> dict[str, Any]:
    ends = [[e.place, e.takes, e.writes] for e in wiring.parts]
    return {"ends": ends, "results": wiring.results, "first_write": wiring.first_write}


def _wiring(data: Mapping[str, Any]) -> Wiring:
    parts: list[Ends] = []
    names = texts(place for place, *_ in data["ends"])
    for name, (_, takes, writes) in zip(names, data["ends"], strict=True):
        taken = tuple(_value(pair, len(parts)) for pair in takes)
        pairs = tuple((_index(i), _index(o)) for i, o in writes)
        parts.append(Ends(name, taken, pairs))
    results = tuple(_value(pair, len(parts)) for pair in data["results"])
    return Wiring(tuple(parts), results, _index(data["first_write"]))


def _value(data: Any, before: int) -> tuple[int, int]:
    """A value that a part gives before that of a number, or an input of the whole."""
    part, number = data
    if type(part) is not int or not WHOLE <= part < before:
        raise ValueError("no part")
    return part, _index(number)


def _index(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError("no index")
    return value
