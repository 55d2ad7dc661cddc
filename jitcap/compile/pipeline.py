"""Read this first: the compiler, every stage in order. A captured graph -> something to call.

    capture     jitcap/capture/         bytecode -> Graph, guards, effects
    passes      jitcap/passes/          Graph -> Graph
    (cut        jitcap/graph/cut_by_size.py    Graph -> Graphs, where data decide sizes)
    (cut        jitcap/graph/cut_by_device.py  Graph -> the host's and the devices')
    lower       jitcap/compile/lower.py        Graph -> Program
    codegen     codegen/                Program -> loops -> kernels -> source -> Artifact
    entry       jitcap/entry.py         guards + Artifact -> the guarded call (runs capture, too)

What is made is kept on disk, compiled graphs and whole versions (`jitcap/store/`), so that another
process captures and compiles nothing.

Regions whose gradient is asked for later, from outside, go through `jitcap/autodiff/joint.py` and
`jitcap/graph/partition.py` first, which make two graphs of one; each then takes this road.
"""

from __future__ import annotations

import difflib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, Final

import numpy as np

import codegen
from codegen import Program, Target, Unsupported, compile_resident, run_stages
from codegen.runtime.artifact import Artifact, Runs
from codegen.runtime.pending import Pending
from codegen.targets.cpp.runtime.build import NoCompiler
from codegen.targets.triton.runtime.resident import Resident, resident
from eager.base.config import config
from eager.base.dataclass import dataclass
from eager.core import on_device
from eager.device import pool
from eager.device.array import DeviceArray
from jitcap.base.breaks import Break
from jitcap.base.diagnostics import Trail, announce, say
from jitcap.compile import cut_cache
from jitcap.compile import graph_cache as graphs
from jitcap.compile.lower import Strides, lower
from jitcap.graph.cut_by_device import (
    CPU,
    WHOLE,
    Part,
    Placed,
    Split,
    Wiring,
    first_write_behind,
    must_wait,
    places_of,
    split,
)
from jitcap.graph.cut_by_size import Whole, cut
from jitcap.graph.graph import CHECK, MOVE, Graph, Node
from jitcap.graph.loops import SCAN
from jitcap.graph.show import module, show
from jitcap.graph.subgraphs import SubgraphOp, subgraphs
from jitcap.graph.verify import verify
from jitcap.passes import PASSES
from jitcap.passes.repeats import share_repeats

Run = Callable[[list[Any]], list[Any]]
HOST: Final = "cpp"  # what the host's part of a graph is compiled by


@dataclass(frozen=True, slots=True)
class Executable:
    """A compiled graph. `run` takes arrays and numbers in the order of the graph's inputs and gives
    the outputs that are not written back, in order; written inputs are updated in place."""

    run: Run
    backend: str
    kernels: tuple[Any, ...] = ()
    refused: str = ""
    callbacks: tuple[str, ...] = ()  # NumPy kernels that compiled code calls
    key: str | None = None  # under which the artifact is kept on disk
    artifact: Any = field(default=None, repr=False)
    runs: tuple[Runs, ...] = field(default=(), repr=False)  # of programs on devices


def compile_graph(
    graph: Graph,
    writes: Sequence[tuple[int, int]] = (),
    *,
    backend: str | None = None,
    strides: Sequence[Strides | None] | None = None,
    trail: Trail | None = None,
) -> Executable:
    """`begin_graph`, waited for."""
    return begin_graph(graph, writes, backend=backend, strides=strides, trail=trail).result()


def begin_graph(
    graph: Graph,
    writes: Sequence[tuple[int, int]] = (),
    *,
    backend: str | None = None,
    strides: Sequence[Strides | None] | None = None,
    trail: Trail | None = None,
) -> Pending[Executable]:
    """Passes, lowering and code generation of one graph.

    `writes` pairs (input index, output index): that input's memory takes that output's value.
    Raises ValueError for an unknown backend; what codegen refuses runs op by op, and says so once.
    The C++ compiler may be at work when this returns; waiting for it asks nothing of the graph.
    """
    trail = trail or Trail(graph.name)
    devices = places_of(graph)
    backend = choose_backend(devices, backend)
    trail.keep("graph", lambda: module(graph))
    if backend != "eager" and codegen.BACKENDS[backend].bodies:
        with trail.stage("passes"):
            graph = share_repeats(graph)
    optimised = run_passes(graph, trail)
    trail.keep("passes", lambda: module(optimised))
    if backend == "eager":
        return Pending.of(Executable(op_by_op(optimised, writes), "eager"))
    target = Target(backend, config.isa)
    try:
        if optimised.has_data_sizes:
            return Pending.of(_in_pieces(optimised, writes, strides, target, trail))
        if devices:
            return Pending.of(_in_parts(optimised, writes, strides, trail))
        with trail.stage("codegen"):
            begun = _generate(optimised, writes, strides, target)
    except Exception as fault:  # noqa: BLE001 - raised again there, if it is no refusal
        return Pending.of(_op_by_op_for(fault, optimised, writes, trail))

    def finish() -> Executable:
        try:
            with trail.stage("codegen"):
                artifact, key = begun.result()
        except Exception as fault:  # noqa: BLE001 - as above
            return _op_by_op_for(fault, optimised, writes, trail)
        _keep_artifact(artifact, trail)
        return _executable(artifact, backend, key)

    return Pending(finish, begun.close, waits=begun.waits)


def _op_by_op_for(
    fault: Exception, graph: Graph, writes: Sequence[tuple[int, int]], trail: Trail
) -> Executable:
    """In the place of code that codegen refused, or failed to make: it says so once. Raises the
    fault itself where nothing may hide it, or sizes are symbols."""
    refused = isinstance(fault, Unsupported | NoCompiler)
    hides = not (isinstance(fault, Break) or config.strict or config.check)
    if graph.has_symbols or not (refused or hides):
        raise fault
    text = str(fault) if refused else f"{type(fault).__name__}: {fault}"
    why = text if refused else f"code generation failed: {text}"
    announce(
        ("unsupported", text) if refused else ("fault", trail.name, type(fault)),
        f"{trail.name} runs op by op{':' if refused else ','} {why}",
    )
    return Executable(op_by_op(graph, writes), "eager", refused=text)


def _in_parts(
    graph: Graph,
    writes: Sequence[tuple[int, int]],
    strides: Sequence[Strides | None] | None,
    trail: Trail,
) -> Executable:
    """A graph of which values live on devices: each part where it belongs; from disk, where it was
    compiled before."""
    if any(n.op is MOVE for x in graph.nodes for part in subgraphs(x) for n in _nodes(part)):
        raise Unsupported("a tensor is moved to another device in each step of a loop")
    layout = strides or [None] * len(graph.inputs)
    kept_at = None
    if not config.check:  # else verify every stage, every time
        target = Target("triton", config.isa)
        kept_at = cut_cache.place_of(graph, (strides, writes, config.recompute), target)
        texts = functools.partial(_texts_there, graph, writes, layout)
        found = kept_at.found(lambda key: _recall_parts(key, trail, texts))
        if found is not None:
            return found[0]
    parts = split(graph, writes)
    made = _parts(parts, layout, trail)
    checked = [isinstance(x, Executable) or bool(_resident(x).sites) for x in made]
    late = first_write_behind(parts.parts, checked)
    if late:  # a check may fail behind a part that has written
        parts = split(graph, writes, late)
        made = _parts(parts, layout, trail)
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
    return _parts_joined(parts.wiring, made, notes, key, trail)


def _parts(
    parts: Split, layout: Sequence[Strides | None], trail: Trail
) -> list[Executable | Artifact]:
    """Each part compiled: those of the host, and the programs of devices."""
    made: list[Executable | Artifact] = []
    for part in parts.parts:
        place, graph = part.ends.place, part.graph
        if place == CPU:
            own = _own_layout(part, layout)
            made.append(
                compile_graph(graph, part.ends.writes, strides=own, trail=trail, backend=HOST)
            )
            continue
        trail.keep(f"on {place}", functools.partial(module, graph))
        try:
            with trail.stage("codegen"):
                made.append(compile_resident(_program_there(part, layout), place, trail.name))
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


def _program_there(part: Part, layout: Sequence[Strides | None]) -> Program:
    """A device's part, lowered."""
    return lower(part.graph, part.ends.writes, _own_layout(part, layout), resident=True)


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


def _recall_parts(
    key: str, trail: Trail, texts: Callable[[Wiring, int], Mapping[str, str]] | None
) -> Executable | None:
    """The executable that `_in_parts` stored under `key`. `texts`: of the stages of a part."""
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
    wiring: Wiring,
    number: int,
) -> Mapping[str, str]:
    """Texts of the stages of a part that was found on disk: it is lowered again."""
    parts = split(graph, writes, wiring.first_write)
    return run_stages(_program_there(parts.parts[number], layout), "triton")[1]


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
        _keep_artifact(artifact, trail)
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
    room = pool.text(artifact.plan["arena_bytes"])
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


def _in_pieces(
    graph: Graph,
    writes: Sequence[tuple[int, int]],
    strides: Sequence[Strides | None] | None,
    target: Target,
    trail: Trail,
) -> Executable:
    """A graph where data decide sizes: piece by piece."""
    pieces = cut(graph, writes)
    layout = dict(zip(graph.inputs, strides or [None] * len(graph.inputs), strict=True))
    made: list[Executable | None] = []
    for number, piece in enumerate(pieces.pieces):
        if config.check:
            verify(piece.graph, f"cutting piece {number}")
        if not piece.graph.nodes and not piece.gives:
            made.append(None)
            continue
        trail.keep(f"piece {number}", functools.partial(module, piece.graph))
        own = [layout.get(x) if isinstance(x, Node) else None for x in piece.takes]
        if places_of(piece.graph):
            made.append(_in_parts(piece.graph, piece.writes, own, trail))
            continue
        with trail.stage("codegen"):
            artifact, key = _generate(piece.graph, piece.writes, own, target).result()
        _keep_artifact(artifact, trail)
        made.append(_executable(artifact, target.backend, key))
    parts = [x for x in made if x is not None]
    return Executable(
        Whole(pieces, tuple(None if x is None else x.run for x in made), bool(places_of(graph))),
        target.backend,
        tuple(k for x in parts for k in x.kernels),
        callbacks=tuple(pieces.callbacks) + tuple(c for x in parts for c in x.callbacks),
        runs=tuple(r for x in parts for r in x.runs),
    )


def takes_symbols(asked: str | None) -> bool:
    """True if the backend's code is right for more than one size."""
    name = known_backend(asked or config.backend) or "cpp"
    return name == "eager" or codegen.BACKENDS[name].symbolic


def recall(key: str, trail: Trail) -> Executable | None:
    """The executable that `compile_graph` stored under `key`, if it is still there."""
    with trail.stage("codegen"):
        artifact = graphs.recall(key, None, Target("cpp", config.isa))
    if artifact is None:
        return _recall_parts(key, trail, None)
    _keep_artifact(artifact, trail)
    return _executable(artifact, "cpp", key)


def _executable(artifact: Artifact, backend: str, key: str | None) -> Executable:
    return Executable(
        artifact.run, backend, artifact.kernels, callbacks=artifact.callbacks, key=key,
        artifact=artifact,
    )  # fmt: skip


def _generate(
    graph: Graph,
    writes: Sequence[tuple[int, int]],
    strides: Sequence[Strides | None] | None,
    target: Target,
) -> Pending[tuple[Artifact, str | None]]:
    """Lower and compile, unless an equal graph was compiled before, here or in another process;
    the artifact, and its name on disk."""
    program = functools.partial(lower, graph, writes, strides)
    if config.check:  # verify every stage, every time
        return codegen.begin(program(), target).then(lambda artifact: (artifact, None))
    place = graphs.place_of(graph, (strides, writes), target)
    found = None if place is None else place.recall(program)
    if found is not None:
        return Pending.of(found)
    begun = codegen.begin(program(), target)
    if place is None:
        return begun.then(lambda artifact: (artifact, None))
    asked = place.answers()  # by compiling: what comes next may ask more
    return begun.then(lambda artifact: (artifact, place.remember(artifact, asked)))


LEVELS: Final = {"fused": 4, "program": 5, "loops": 5, "source": 5}  # of JITCAP_DEBUG, by stage


def _keep_artifact(artifact: Artifact, trail: Trail) -> None:
    """Codegen's own stages, rendered when somebody asks."""
    for name in artifact.stages:
        text = functools.partial(artifact.stages.__getitem__, name)
        trail.keep(name, text, LEVELS.get(name, 6))
    for name, microseconds in artifact.plan.items():
        if name.endswith("_us"):
            stage = name.removesuffix("_us")
            trail.seconds[stage] = trail.seconds.get(stage, 0.0) + microseconds / 1e6
    trail.kernels.extend(artifact.kernels)
    trail.callbacks.extend(artifact.callbacks)


def known_backend(name: str | None) -> str:
    """`name` itself ("" for none). Raises ValueError if there is no such backend."""
    known = (*codegen.BACKENDS, "eager")
    if name and name not in known:
        raise ValueError(f"unknown backend {name!r}; there are {', '.join(known)}")
    return name or ""


def choose_backend(devices: Sequence[str], asked: str | None) -> str:
    """The backend asked for (in the call, else in the settings), else by the devices. Raises
    ValueError for one that has none there."""
    backend = known_backend(asked or config.backend)
    if not devices or backend in ("", "triton", "eager"):
        return backend or ("triton" if devices else "cpp")
    there = " and ".join(devices)
    raise ValueError(f"backend={backend!r} compiles for the CPU, and tensors live on {there}")


def run_passes(graph: Graph, trail: Trail) -> Graph:
    """Every pass of the table, in order; verified between when `CHECK=1`, as a diff at DEBUG=6."""
    check, show_each, known = config.check, config.debug >= 6, set[Node]()
    if check:
        verify(graph, "capture", known)
    with trail.stage("passes"):
        for each, why in PASSES:
            before = graph
            graph = each(graph)
            if check and graph is not before:
                verify(graph, each.__name__, known)
            if show_each and graph is not before:
                say(_diff(before, graph, f"{each.__name__}: {why}"))
    return graph


def _diff(before: Graph, after: Graph, title: str) -> str:
    lines = difflib.unified_diff(
        show(before).splitlines(), show(after).splitlines(), "before", title, lineterm="", n=1
    )
    return "\n".join(lines)


def op_by_op(graph: Graph, writes: Sequence[tuple[int, int]]) -> Run:
    """backend="eager": the graph with eager's own kernels. Results share memory with nothing."""
    hidden = {o for _, o in writes} | {o for o, n in enumerate(graph.outputs) if n.op is CHECK}

    def run(arrays: list[Any], replaced: Sequence[Any] = ()) -> list[Any]:
        del replaced  # they keep memory of their own
        with np.errstate(all="ignore"):
            values = [_own(v) for v in graph.run(arrays)]
        for i, o in writes:
            if type(arrays[i]) is DeviceArray:
                on_device.store(arrays[i], values[o])
            else:
                np.copyto(arrays[i], values[o])
        return [v for o, v in enumerate(values) if o not in hidden]

    return run


def _own(value: Any) -> Any:
    """A value in memory of its own: an output may be a view of an input, or be the input."""
    if type(value) is DeviceArray:
        return on_device.contiguous(value)
    return value.copy() if isinstance(value, np.ndarray) else value
