"""Beside the pipeline: a graph compiled for a device before. Graph -> its parts from disk.

As `graphs.py` for the host: the key is the printed graph and all that compiling it depends on. What
is kept is data, the name of the host's part, and the text of the kernels, which is code: trusted by
owner, mode and checksum as native code is. Reading it runs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from codegen import Target
from codegen.emit.cpp.runtime import build
from codegen.emit.triton.runtime.program import TritonProgram
from codegen.resident_data import from_data, texts, to_data
from codegen.runtime import cache
from jitcap.graph import Graph
from jitcap.kept import graphs
from jitcap.kept.graphs import PARTS
from jitcap.placed import Ends, Side, Wiring

KERNELS = "kernels.py"  # the file of an entry


class Kept(NamedTuple):
    """What is kept of a graph: how its parts go together, the device, the name of the host's part
    (None: there is none), the device's program (the same), what `explain` says, and the names of
    the stages that it went through."""

    wiring: Wiring
    place: str
    host: str | None
    program: TritonProgram | None
    note: str
    stages: tuple[str, ...] = ()


def place_of(graph: Graph, layout: Sequence[Any], target: Target) -> graphs.Place:
    """The place of a compiled graph on disk. `layout`: the inputs' strides and the writes."""
    machine = "no compiler"
    with suppress(build.NoCompiler):
        machine = build.fingerprint()
    rest = ("placed", target, layout, graphs.known(graph))
    return graphs.place(graphs.digest_of(graph, rest, machine), graph, target)


def remember(key: str, kept: Kept) -> bool:
    """Keep it; whether it is kept."""
    data: dict[str, Any] = {
        PARTS: _wiring_data(kept.wiring),
        "place": kept.place,
        "host": kept.host,
        "program": None if kept.program is None else to_data(kept.program),
        "note": kept.note,
        "stages": [*kept.stages],
    }
    source = "" if kept.program is None else kept.program.source
    try:
        cache.default().put(key, data, {KERNELS: source.encode()})
    except OSError:
        return False  # a full disk: the next process compiles again
    return True


def recall(key: str) -> Kept | None:
    """What is kept under a name. Never raises for what is on disk."""
    entry = cache.default().get(key)
    if entry is None or PARTS not in entry.data:
        return None
    try:
        data = entry.data
        host, program = data["host"], data["program"]
        place, note, *stages = texts((data["place"], data["note"], *data["stages"]))
        if host is not None:
            texts((host,))
        made = None
        if program is not None:
            made = from_data(program, entry.file(KERNELS).read_text(encoding="utf-8"))
        return Kept(_wiring(data[PARTS]), place, host, made, note, tuple(stages))
    except cache.DAMAGED:
        cache.default().delete(key)
        return None


def _wiring_data(wiring: Wiring) -> dict[str, Any]:
    ends = {
        side: None if e is None else [e.takes, e.writes]
        for side, e in (("host", wiring.host), ("there", wiring.there))
    }
    return {**ends, "host_results": wiring.host_results, "results": wiring.results}


def _wiring(data: Mapping[str, Any]) -> Wiring:
    results: list[tuple[Side, int]] = []
    for side, number in data["results"]:
        if side not in ("host", "there"):
            raise ValueError("no side")
        results.append((side, _index(number)))
    return Wiring(
        _ends(data["host"]), _ends(data["there"]), _index(data["host_results"]), tuple(results)
    )


def _ends(data: Any) -> Ends | None:
    if data is None:
        return None
    takes, writes = data
    pairs = ((_index(i), _index(o)) for i, o in writes)
    return Ends(tuple(map(_index, takes)), tuple(pairs))


def _index(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError("no index")
    return value
