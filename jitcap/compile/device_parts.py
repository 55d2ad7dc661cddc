"""A graph with values on devices, part by part: Graph -> Executable.

Each part (`jitcap/graph/cut_by_device.py`) is compiled for the one place where it runs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence

from codegen import Program, Target, Unsupported, compile_resident, run_stages
from codegen.runtime.artifact import Artifact
from codegen.runtime.pending import Pending
from codegen.targets.triton.runtime.resident import Resident, resident
from eager.base.byte_text import byte_text
from eager.base.config import config
from jitcap.base.breaks import Break
from jitcap.base.diagnostics import Trail
from jitcap.compile import cut_cache
from jitcap.compile import graph_cache as graphs
from jitcap.compile.backends import HOST
from jitcap.compile.executable import Executable, keep_artifact
from jitcap.compile.generate import Layout, Writes, generate, or_op_by_op, recall
from jitcap.compile.lower import Strides, lower
from jitcap.compile.optimise import optimise
from jitcap.graph.cut_by_device import (
    CPU,
    WHOLE,
    Part,
    Placed,
    Split,
    Wiring,
    first_write_behind,
    must_wait,
    split,
)
from jitcap.graph.graph import MOVE, Graph, Node
from jitcap.graph.listing import listing
from jitcap.graph.loops import SCAN
from jitcap.graph.subgraphs import SubgraphOp, subgraphs


def in_parts(
    graph: Graph, writes: Writes, strides: Layout, target: Target, trail: Trail
) -> Pending[Executable]:
    """Each part of the graph where it belongs; from disk, where it was compiled before."""
    if any(n.op is MOVE for x in graph.nodes for part in subgraphs(x) for n in _nodes(part)):
        raise Unsupported("a tensor is moved to another device in each step of a loop")
    layout = strides or [None] * len(graph.inputs)
    kept_at = None
    if not config.check:  # else verify every stage, every time
        kept_at = cut_cache.place_of(graph, (strides, writes, config.recompute), target)
        texts = functools.partial(_texts_there, graph, writes, layout, target)
        found = kept_at.found(lambda key: recall_parts(key, trail, texts))
        if found is not None:
            return Pending.of(found[0])
    parts = split(graph, writes)
    made = _parts(parts, layout, target, trail)
    checked = [isinstance(x, Executable) or bool(_resident(x).sites) for x in made]
    late = first_write_behind(parts.parts, checked)
    if late:  # a check may fail behind a part that has written
        parts = split(graph, writes, late)
        made = _parts(parts, layout, target, trail)
    notes = tuple(_where(parts, made))
    key = None
    names = [x.key if isinstance(x, Executable) else "" for x in made]
    if kept_at is not None and None not in names:
        kept_parts = tuple(
            cut_cache.KeptPart(x.key, None)
            if isinstance(x, Executable)
            else cut_cache.KeptPart(None, _resident(x).program, tuple(x.stages))
            for x in made
        )
        kept = cut_cache.Kept(parts.wiring, kept_parts, notes)
        key = kept_at.keep(lambda name: cut_cache.remember(name, kept), kept_at.answers())
    return Pending.of(_parts_joined(parts.wiring, made, notes, key, trail))


def _parts(
    parts: Split, layout: Sequence[Strides | None], target: Target, trail: Trail
) -> list[Executable | Artifact]:
    """Each part compiled: those of the host, and the programs of devices."""
    made: list[Executable | Artifact] = []
    for number, part in enumerate(parts.parts):
        place, graph, prefix = part.ends.place, part.graph, _prefix(parts, number, target)
        if place == CPU:
            own = _own_layout(part, layout)
            host = Target(HOST, config.isa, prefix=prefix)
            optimised = optimise(graph, trail, HOST)
            begun = or_op_by_op(generate, optimised, part.ends.writes, own, host, trail)
            made.append(begun.result())
            continue
        trail.keep(f"on {place}", functools.partial(listing, graph))
        try:
            with trail.stage("codegen"):
                program = _program_there(part, layout, prefix)
                made.append(compile_resident(program, place, trail.name))
        except Unsupported as refusal:
            if not _is_straight(graph):  # not op by op either
                raise Break("device", str(refusal)) from refusal
            raise
    return made


def _own_layout(part: Part, layout: Sequence[Strides | None]) -> list[Strides | None]:
    """Known strides of a part's inputs: what comes to the host from a device is copied."""
    at_home = part.ends.place == CPU
    return [
        layout[i] if source == WHOLE and not (at_home and i in part.received) else None
        for source, i in part.ends.takes
    ]


def _prefix(parts: Split, number: int, target: Target) -> str:
    """Prefix of the names of a part's kernels, which are those of no other part."""
    return f"{target.prefix}p{number}_" if len(parts.parts) > 1 else target.prefix


def _program_there(part: Part, layout: Sequence[Strides | None], prefix: str) -> Program:
    """A device's part, lowered."""
    own = _own_layout(part, layout)
    return lower(part.graph, part.ends.writes, own, resident=True, prefix=prefix)


def _resident(artifact: Artifact) -> Resident:
    assert isinstance(artifact.run, Resident)
    return artifact.run


def _nodes(graph: Graph) -> Iterator[Node]:
    """Those of a graph, and of the graphs in it."""
    for n in graph.nodes:
        yield n
        for part in subgraphs(n):
            yield from _nodes(part)


def _is_straight(graph: Graph) -> bool:
    """True if no value decides what runs."""
    return all(
        not isinstance(n.op, SubgraphOp) or (n.op is SCAN and all(map(_is_straight, subgraphs(n))))
        for n in graph.nodes
    )


def recall_parts(
    key: str, trail: Trail, texts: Callable[[Wiring, int], Mapping[str, str]] | None
) -> Executable | None:
    """The executable that `in_parts` stored under `key`. `texts`: of the stages of a part."""
    with trail.stage("codegen"):
        kept = cut_cache.recall(key)
    if kept is None:
        return None
    made: list[Executable | Artifact] = []
    for number, (part, ends) in enumerate(zip(kept.parts, kept.wiring.parts, strict=True)):
        if part.program is None:
            on_host = recall(part.host or "", trail)
            if on_host is None:
                return None
            made.append(on_host)
            continue
        stages: Mapping[str, str] = {}
        if texts is not None:
            told = functools.partial(texts, kept.wiring, number)
            stages = graphs.Stages(part.stages, told)
        with trail.stage("codegen"):
            artifact = resident(part.program, ends.place, trail.name)
            artifact.stages = stages
            made.append(artifact)
    return _parts_joined(kept.wiring, made, kept.notes, key, trail)


def _texts_there(
    graph: Graph,
    writes: Sequence[tuple[int, int]],
    layout: Sequence[Strides | None],
    target: Target,
    wiring: Wiring,
    number: int,
) -> Mapping[str, str]:
    """Texts of the stages of a part that was found on disk: it is lowered again."""
    parts = split(graph, writes, wiring.first_write)
    prefix = _prefix(parts, number, target)
    return run_stages(_program_there(parts.parts[number], layout, prefix), "triton")[1]


def _parts_joined(
    wiring: Wiring,
    made: Sequence[Executable | Artifact],
    notes: Sequence[str],
    key: str | None,
    trail: Trail,
) -> Executable:
    """The executable that runs all parts."""
    programs = [x for x in made if isinstance(x, Artifact)]
    for artifact in programs:
        keep_artifact(artifact, trail)
    trail.notes.extend(notes)
    for k, x in enumerate(made[:-1]):
        if isinstance(x, Artifact) and _resident(x).sites and must_wait(wiring, k):
            _resident(x).prompt = True
    prompt = [isinstance(x, Artifact) and _resident(x).prompt for x in made[:-1]]
    return Executable(
        Placed(wiring, tuple(x.run for x in made), (*prompt, False)),
        "triton",
        tuple(kernel for x in made for kernel in x.kernels),
        callbacks=tuple(name for x in made for name in x.callbacks),
        key=key,
        runs=tuple(x.runs for x in programs if x.runs is not None),
    )


def _where(parts: Split, made: Sequence[Executable | Artifact]) -> Iterator[str]:
    """Lines for `explain`: where a graph runs, and what its parts hand over."""
    programs = [x for x in made if isinstance(x, Artifact)]
    host = "its part on the host" if len(programs) < len(made) else "nothing on the host"
    if not programs:
        yield f"no kernel on a device; {host}"
    for k, (part, x) in enumerate(zip(parts.parts, made, strict=True)):
        several = len(programs) > 1
        if isinstance(x, Artifact):
            name = f"part {k} " if several else ""
            rest = "; ".join(_exchanged(parts, k)) if several else host
            yield f"{name}runs on {part.ends.place}: {_launches(part, x)}; {rest}"
        elif several:
            yield f"part {k} runs on the host: {'; '.join(_exchanged(parts, k))}"


def _launches(part: Part, artifact: Artifact) -> str:
    inputs = part.graph.inputs
    numbers = sum(n.aval.weak for n in inputs)
    moved = sum(not n.aval.weak and n.aval.device == CPU for n in inputs)
    times = "of each size " if any("symbol" in n.attrs for n in inputs) else ""
    room = byte_text(artifact.plan["arena_bytes"])
    if artifact.plan["symbolic_bytes"]:
        room = "as many bytes as these ask for"
    return (
        f"{artifact.plan['launches']} launches, from the second call {times}on replayed as one; "
        f"{room} of temporaries; {numbers} numbers and {moved} tensors are copied there per call"
    )


def _exchanged(parts: Split, number: int) -> Iterator[str]:
    """Lines that say what a part receives from others, and sends to them."""
    every = [*enumerate(parts.parts)]
    for verb, preposition in (("receives", "from"), ("sends", "to")):
        for k, other in every:
            taker, giver = (parts.parts[number], k) if verb == "receives" else (other, number)
            pairs = zip(taker.graph.inputs, taker.ends.takes, strict=True)
            values = [repr(n.aval) for n, (source, _) in pairs if source == giver]
            if values and k != number:
                shown = ", ".join(values)
                yield f"{verb} {shown} {preposition} part {k} ({other.ends.place})"
