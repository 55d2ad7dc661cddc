"""Between passes and lowering, where values live on devices: Graph -> parts, each of one place.

The graph is cut where a value goes from one place to another. A part is an ordinary graph for the
host or for one device, and takes what others give. Parts run in levels, in a level the host's
first; those of one level do not depend on each other, so that devices work at the same time. What a
device hands to another is copied by their streams: the host waits for what it computes with itself.

What no value of a device goes into is the host's: numbers (a learning rate, a count of steps), and
tensors of the CPU. It runs first. A part that writes an input comes behind all that read it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from codegen import CheckFailed, Unsupported
from codegen.runtime.artifact import OutOfRange
from eager.base.dataclass import dataclass
from eager.core import on_device
from eager.device import device, places
from eager.device.array import DeviceArray
from eager.sizes.aval import Aval
from eager.sizes.symint import SymInt
from jitcap.graph.cut import Section
from jitcap.graph.graph import CHECK, MOVE, Arg, Graph, Node
from jitcap.graph.subgraphs import SubgraphOp, subgraphs

CPU: Final = "cpu"
FREE: Final = ""  # made of numbers alone, as a mask is; computed wherever it is read
WHOLE: Final = -1  # in place of a part: the graph that was split
Key = tuple[int, str]  # a part's level and place, in the order in which parts run


def places_of(graph: Graph) -> tuple[str, ...]:
    """The devices that values of a graph live on, the CPU aside."""
    found = {a.device for n in graph.everything() for a in n.avals if not a.weak}
    return tuple(sorted(found - {CPU}))


@dataclass(frozen=True, slots=True, eq=False)
class Ends:
    """Device and operands of a part. `takes`: (part, index of its output), or (WHOLE, index of an
    input of the whole graph); `writes`: (input, output) of its own, written back."""

    place: str
    takes: tuple[tuple[int, int], ...]
    writes: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """The graph of a part. `received`: inputs of the whole that come to the host from a device."""

    graph: Graph
    ends: Ends
    level: int
    received: frozenset[int]


@dataclass(frozen=True, slots=True, eq=False)
class Wiring:
    """Data flow between parts. `results` of the whole graph: (part, index of its output); inputs
    are written from level `first_write` on."""

    parts: tuple[Ends, ...]
    results: tuple[tuple[int, int], ...]
    first_write: int


@dataclass(frozen=True, slots=True, eq=False)
class Split:
    """The parts of a graph in the order in which they run."""

    parts: tuple[Part, ...]
    wiring: Wiring


def split(graph: Graph, writes: Sequence[tuple[int, int]] = (), first_write: int = 0) -> Split:
    """The parts; none below the level `first_write` writes an input. Raises Unsupported for a loop
    over several places."""
    keys = _joined(graph, _keys(graph))
    written = {o: i for i, o in writes}
    ends: dict[int, Key] = {}
    for o, n in enumerate(graph.outputs):
        level, place = _end(graph, keys, n, written.get(o))
        ends[o] = (max(level, first_write) if o in written else level), place
    while True:
        built = _built(graph, keys, ends, written)
        late = _too_early(graph, built, ends, written)
        if not late:
            parts, results = _wired(graph, built, ends, written)
            return Split(parts, Wiring(tuple(p.ends for p in parts), results, first_write))
        ends |= late


# ------------------------------------------------------------------------------- which part
def _keys(graph: Graph) -> dict[Node, Key]:
    """The part of each value: as early as it can be."""
    keys: dict[Node, Key] = {}
    for n in graph.inputs:
        keys[n] = 0, CPU if n.aval.weak else n.aval.device
    given = frozenset(graph.inputs)
    for n in graph.nodes:
        place = _place(n, keys)
        found = (_level(keys[p], place) for p in n.parents if p not in given)
        keys[n] = max(found, default=0), place
        if any(set(places_of(g)) - {place} for g in subgraphs(n)):
            raise Unsupported(f"a loop or a branch over several devices{_at(n)}")
    return keys


def _place(n: Node, keys: Mapping[Node, Key]) -> str:
    if n.op is MOVE:
        return n.aval.device
    tensors = [keys[p][1] for p in n.parents if not p.avals[0].weak]
    numbers = [keys[p][1] for p in n.parents if p.avals[0].weak]
    there = [place for place in tensors if place not in (CPU, FREE)]
    if there:
        return there[0]
    computed = [place for place in numbers if place not in (CPU, FREE)]
    if all(a.weak for a in n.avals):
        return computed[0] if computed else CPU
    if computed or CPU in tensors or isinstance(n.op, SubgraphOp):
        return n.avals[0].device
    return FREE


def _level(key: Key, place: str) -> int:
    """The first level of a place in which a value can be taken."""
    level, source = key
    return level + (source not in (CPU, FREE, place) and place != FREE)


def _at(n: Node) -> str:
    return f" (at {n.where.place})" if n.where.place else ""


def _joined(graph: Graph, keys: dict[Node, Key]) -> dict[Node, Key]:
    """With little parts joined to the next of their place: those that hand nothing to others and
    have no product."""
    kept: set[Key] = {keys[n] for n in graph.nodes if n.op.kind == "contract"}
    for n in graph.nodes:
        kept |= {keys[p] for p in n.parents if keys[p][1] != keys[n][1]}
    later: dict[Key, Key] = {}
    following: dict[str, Key] = {}
    for key in sorted({keys[n] for n in graph.nodes}, reverse=True):
        if key not in kept and key[1] in following:
            later[key] = following[key[1]]
        else:
            following[key[1]] = key
    return {n: later.get(key, key) for n, key in keys.items()}


def _end(graph: Graph, keys: Mapping[Node, Key], n: Node, target: int | None) -> Key:
    """The part that gives an output."""
    level, own = keys[n]
    if target is not None:
        place = graph.inputs[target].aval.device
    elif n.avals[0].weak:
        place = own or CPU
    else:
        place = n.avals[0].device
    return (level if n in graph.inputs else _level((level, own), place)), place


def _too_early(
    graph: Graph, built: Mapping[Key, _Section], ends: Mapping[int, Key], written: dict[int, int]
) -> dict[int, Key]:
    """Outputs that would be written before another part has read what was there: when they may."""
    found: dict[int, Key] = {}
    for o, i in written.items():
        level, place = ends[o]
        for key, part in built.items():
            if key > (level, place) and graph.inputs[i] in part.inputs:
                level = key[0] + (place <= key[1])
        if level != ends[o][0]:
            found[o] = level, place
    return found


# ------------------------------------------------------------------------------- their graphs
class _Section(Section):
    """One part. What lies nowhere in particular each part computes for itself."""

    def __init__(self, graph: Graph, keys: Mapping[Node, Key], own: Key) -> None:
        super().__init__(graph)
        self.keys, self.own = keys, own
        self.handed: dict[Node, None] = {}  # what other parts take

    def computes(self, n: Node) -> bool:
        return n not in self.given and (self.keys[n] == self.own or self.keys[n][1] == FREE)

    @property
    def takes(self) -> tuple[Node | SymInt, ...]:
        """Meaning of the inputs: those of the whole come first."""
        return tuple(sorted(super().takes, key=lambda x: x not in self.given))

    def seen(self, aval: Aval) -> Aval:
        """The input: what comes to the host from a device is copied there."""
        stays = self.own[1] != CPU or aval.weak or aval.device == CPU
        return aval if stays else on_device.at(aval, CPU)

    def add(self, n: Node, args: tuple[Arg, ...]) -> None:
        if n.op is MOVE:  # what lies elsewhere is an input, which is copied there
            (found,) = args
            assert isinstance(found, Node)
            self.mapped[n] = found
            return
        super().add(n, args)
        if self.own[1] == CPU and n.avals[0].device != CPU:  # of numbers alone, for a device
            attrs = {k: v for k, v in n.attrs.items() if k != "device"}
            avals = tuple(on_device.at(a, CPU) for a in n.avals)
            self.nodes[-1] = self.mapped[n] = Node(n.op, args, attrs, avals, n.where)


def _built(
    graph: Graph, keys: Mapping[Node, Key], ends: Mapping[int, Key], written: Mapping[int, int]
) -> dict[Key, _Section]:
    """The parts, the last first: each knows by then what those behind it take."""
    built: dict[Key, _Section] = {}
    asked = {key: _Section(graph, keys, key) for key in ends.values()}
    while asked:
        key = max(asked)
        part = built[key] = asked.pop(key)
        for o, its in ends.items():
            if its == key:
                part.get(graph.outputs[o])
                if o in written:
                    part.get(graph.inputs[written[o]])
        for n in part.handed:
            part.get(n)
        part.take_symbols()
        for n in part.crossing:
            source = keys[n]
            assert source < key
            asked.setdefault(source, _Section(graph, keys, source)).handed[n] = None
    return built


def _wired(
    graph: Graph, built: Mapping[Key, _Section], ends: Mapping[int, Key], written: dict[int, int]
) -> tuple[tuple[Part, ...], tuple[tuple[int, int], ...]]:
    """The parts in order, and the results."""
    order = sorted(built)
    at: dict[Node | SymInt, tuple[int, int]] = {n: (WHOLE, i) for i, n in enumerate(graph.inputs)}
    results: dict[int, tuple[int, int]] = {}
    parts = []
    for number, key in enumerate(order):
        part = built[key]
        own = [o for o, its in ends.items() if its == key]
        given = [o for o in own if o not in written and graph.outputs[o].op is not CHECK]
        results |= {o: (number, k) for k, o in enumerate(given)}
        at |= {n: (number, len(given) + k) for k, n in enumerate(part.handed)}
        rest = [o for o in own if o not in results]
        outs = [graph.outputs[o] for o in given] + [*part.handed]
        first = len(outs)
        outs += [graph.outputs[o] for o in rest]
        taken = part.takes
        index = {n: i for i, n in enumerate(taken)}
        writes = tuple(
            (index[graph.inputs[written[o]]], first + k) for k, o in enumerate(rest) if o in written
        )
        name = graph.name + ("_on_host" if key[1] == CPU else "")
        made = part.graph(outs, name if len(order) <= 2 else f"{name}_{number}")
        takes = tuple(at[n] for n in taken)
        received = frozenset(at[n][1] for n in taken if n in part.given and part.inputs[n] is not n)
        parts.append(Part(made, Ends(key[1], takes, writes), key[0], received))
    return tuple(parts), tuple(results[o] for o in sorted(results))


# ---------------------------------------------------------------------------------- the run

Run = Callable[..., list[Any]]


def first_write_behind(parts: Sequence[Part], checked: Sequence[bool]) -> int:
    """The level from which inputs may be written, if parts before it may still fail in a check and
    others have written by then; else 0. `checked`: the parts in which a check may fail."""
    late = 0
    for k, part in enumerate(parts):
        others = [p for j, p in enumerate(parts[: k + 1]) if j != k and p.ends.writes]
        of_host = all(p.ends.place == CPU for p in others)  # which are undone
        if checked[k] and not of_host:
            late = part.level + 1
    return late


def must_wait(wiring: Wiring, number: int) -> bool:
    """True if the parts behind part `number` must not run once a check of it has failed."""
    behind = wiring.parts[number + 1 :]
    before = wiring.parts[:number]
    if any(ends.writes or ends.place == CPU for ends in behind):
        return True
    return any(ends.writes for ends in before)


@dataclass(frozen=True, slots=True)
class Placed:
    """Runs the host's parts, and queues those of devices. Those of `prompt` are waited for: a check
    of theirs may fail, and what is behind them must not be then."""

    wiring: Wiring
    runs: tuple[Run, ...]
    prompt: tuple[bool, ...]

    def __call__(self, inputs: list[Any], replaced: Sequence[Any] = ()) -> list[Any]:
        """`replaced`: tensors whose gradient is replaced by a result. Raises CheckFailed, or
        IndexError, with nothing written."""
        if any(ends.place == CPU for ends in self.wiring.parts[1:]):
            for pool in places.opened():
                pool.checks.settle()  # what ran before this call, not in the middle of it
        undo: list[Callable[[], None]] = []
        values: list[list[Any]] = []
        settled = 1 + max((k for k, waits in enumerate(self.prompt) if waits), default=-1)
        k = 0
        try:
            for k, (ends, run) in enumerate(zip(self.wiring.parts, self.runs, strict=True)):
                sources = [*values, inputs]  # WHOLE is the last
                given = [_brought(sources[part][i], part, ends.place) for part, i in ends.takes]
                if ends.place == CPU:
                    undo += _undoing([given[i] for i, _ in ends.writes])
                    values.append(run(given))
                    continue
                last = k == len(self.runs) - 1
                back = functools.partial(_undone, undo) if undo and last else None
                values.append(run(given, replaced if k >= settled else (), back))
        except CheckFailed as error:
            _undone(undo)
            if isinstance(error, OutOfRange) and self.prompt[k]:
                raise IndexError(*error.args) from None  # as where it is told at a later wait
            raise
        return [values[part][i] for part, i in self.wiring.results]


def _brought(value: Any, part: int, place: str) -> Any:
    """An operand of a part from another, as the part reads it: a number of the host's is Python's.
    What comes to the host is waited for; a program on a device copies what is not there itself."""
    if type(value) is DeviceArray:
        if place == CPU:
            return on_device.brought(value, device(CPU))
        return value if part == WHOLE or value.is_contiguous() else on_device.contiguous(value)
    if part == WHOLE or place == CPU:
        return value
    return value.item() if getattr(value, "ndim", 1) == 0 else value


def _undone(steps: list[Callable[[], None]]) -> None:
    while steps:
        steps.pop()()


def _undoing(arrays: Iterable[Any]) -> list[Callable[[], None]]:
    kept = [(array, array.copy()) for array in arrays]
    if not kept:
        return []

    def undo() -> None:
        for array, before in kept:
            array[...] = before

    return [undo]
