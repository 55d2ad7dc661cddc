"""Between passes and lowering, where values live on a device: Graph -> the host's part and the
device's.

What no value of the device goes into is the host's: numbers (a learning rate, a count of steps),
and tensors of the CPU. It runs first, and hands numbers, and tensors that are moved, to the
device's part; nothing goes back but results. Each part is an ordinary graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Literal

from codegen import CheckFailed, Unsupported
from eager.dataclass import dataclass
from eager.device.array import DeviceArray
from eager.sized import symbols_in
from jitcap.graph import CHECK, MOVE, Arg, Graph, Node, placeholder, with_args

CPU: Final = "cpu"
# "free": made of numbers alone, as a mask is; computed wherever it is read.
Side = Literal["host", "there", "free"]


def place_of(graph: Graph) -> str:
    """The device that values of a graph live on; "cpu" where none does. Raises Unsupported for
    several."""
    found = {a.device for n in graph.everything() for a in n.avals if not a.weak} - {CPU}
    if len(found) > 1:
        raise Unsupported(f"tensors on {' and '.join(sorted(found))} in one graph")
    return next(iter(found), CPU)


@dataclass(frozen=True, slots=True, eq=False)
class Ends:
    """Which inputs of the whole a part takes, and what it writes back: (input index, output
    index)."""

    takes: tuple[int, ...]
    writes: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """The graph of a part."""

    graph: Graph
    ends: Ends

    @property
    def takes(self) -> tuple[int, ...]:
        return self.ends.takes

    @property
    def writes(self) -> tuple[tuple[int, int], ...]:
        return self.ends.writes


@dataclass(frozen=True, slots=True, eq=False)
class Wiring:
    """How values go between the parts. `there` takes inputs of the whole, then what `host` gives
    after its `host_results` first. `results`: of the whole, in order, by part and number."""

    host: Ends | None
    there: Ends | None
    host_results: int
    results: tuple[tuple[Side, int], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Split:
    """The parts of a graph (None where there is none), and how values go between them."""

    host: Part | None
    there: Part | None
    wiring: Wiring


def split(graph: Graph, writes: Sequence[tuple[int, int]] = ()) -> Split:
    """The two parts. Raises Unsupported where the host would need what the device computes."""
    side = _sides(graph)
    written = {o: i for i, o in writes}
    ends: dict[Side, list[int]] = {"host": [], "there": []}
    for o, n in enumerate(graph.outputs):
        ends[_side_of_end(graph, side, n, written.get(o))].append(o)
    there = _Builder(graph, side, "there")
    outs = [there.get(graph.outputs[o]) for o in ends["there"]]
    targets = {o: there.get(graph.inputs[written[o]]) for o in ends["there"] if o in written}
    crossing = [n for n in there.crossing if n not in graph.inputs]
    host = _Builder(graph, side, "host")
    results = [o for o in ends["host"] if o not in written and graph.outputs[o].op is not CHECK]
    rest = [o for o in ends["host"] if o not in results]
    host_outs = [
        *(host.get(graph.outputs[o]) for o in results),
        *(host.get(n) for n in crossing),
        *(host.get(graph.outputs[o]) for o in rest),
    ]
    host_order = [*results, *(-1 for _ in crossing), *rest]
    plain = [o for o in ends["there"] if o not in written and graph.outputs[o].op is not CHECK]
    order = [("host" if o in results else "there", o) for o in sorted((*results, *plain))]
    numbers = {o: k for k, o in enumerate(results)} | {o: k for k, o in enumerate(plain)}
    at = {n: i for i, n in enumerate(graph.inputs)}
    for built in (there, host):
        built.take_sizes()
    first = _part(host, at, graph, host_outs, host_order, written, f"{graph.name}_on_host")
    second = _part(there, at, graph, outs, ends["there"], written, graph.name, targets, crossing)
    wiring = Wiring(
        None if first is None else first.ends,
        None if second is None else second.ends,
        len(results),
        tuple((s, numbers[o]) for s, o in order),  # type: ignore[misc]
    )
    return Split(first, second, wiring)


def _part(
    built: _Builder,
    at: dict[Node, int],
    graph: Graph,
    outs: Sequence[Node],
    order: Sequence[int],
    written: dict[int, int],
    name: str,
    targets: dict[int, Node] | None = None,
    crossing: Sequence[Node] = (),
) -> Part | None:
    if not outs:
        return None
    targets = targets or {o: built.get(graph.inputs[written[o]]) for o in order if o in written}
    own = [n for n in built.inputs if n in at]
    inputs = [built.inputs[n] for n in (*own, *crossing)]
    index = {n: i for i, n in enumerate(inputs)}
    writes = tuple((index[targets[o]], k) for k, o in enumerate(order) if o in written)
    made = Graph(tuple(inputs), tuple(built.nodes), tuple(outs), name)
    return Part(made, Ends(tuple(at[n] for n in own), writes))


def _sides(graph: Graph) -> dict[Node, Side]:
    side: dict[Node, Side] = {}
    for n in graph.inputs:
        side[n] = "host" if n.aval.weak or n.aval.device == CPU else "there"
    for n in graph.nodes:
        parents = n.parents
        weak = all(a.weak for a in n.avals)
        of_there = any(not p.avals[0].weak and p.avals[0].device != CPU for p in parents)
        if n.op is MOVE or any(side[p] == "there" for p in parents) or (weak and of_there):
            side[n] = "there"  # also a number, or a check, of what is made there of numbers alone
        elif weak or not all(p.avals[0].weak or side[p] == "free" for p in parents):
            side[n] = "host"
        else:
            side[n] = "free"
    return side


def _side_of_end(graph: Graph, side: dict[Node, Side], n: Node, target: int | None) -> Side:
    """Which part gives an output."""
    own = side[n]
    wanted: Side
    if target is not None:
        wanted = "host" if graph.inputs[target].aval.device == CPU else "there"
    elif n.avals[0].weak:
        wanted = "host" if own == "free" else own
    else:
        wanted = "host" if n.avals[0].device == CPU else "there"
    if wanted == "host" and own == "there":
        where = f" (at {n.where.place})" if n.where.place else ""
        raise Unsupported(f"a tensor of the CPU is computed from one of a device{where}")
    return wanted


class _Builder:
    """One part: its nodes in terms of its own inputs."""

    def __init__(self, graph: Graph, side: dict[Node, Side], own: Side) -> None:
        self.graph = graph
        self.side = side
        self.own = own
        self.given = frozenset(graph.inputs)
        self.inputs: dict[Node, Node] = {}  # by what they stand for
        self.crossing: list[Node] = []  # of the host's values those that are taken
        self.nodes: list[Node] = []
        self.mapped: dict[Node, Node] = {}

    def get(self, value: Node) -> Node:
        """A value of the whole in this part."""
        stack = [value]
        while stack:
            n = stack[-1]
            if n in self.mapped:
                stack.pop()
            elif n in self.given or self.side[n] not in (self.own, "free"):
                self._take(stack.pop())
            else:
                missing = [p for p in n.parents if p not in self.mapped]
                stack += missing
                if not missing:
                    self._add(stack.pop())
        return self.mapped[value]

    def take_sizes(self) -> None:
        """Have the symbols in its sizes among its inputs."""
        values = [*self.nodes, *self.inputs.values()]
        sizes = ((n.attrs, *(a.shape for a in n.avals)) for n in values)
        used = {symbol.name for symbol in symbols_in(sizes)}
        for n in self.graph.inputs:
            if n.attrs.get("symbol") in used:
                self.get(n)

    def _take(self, n: Node) -> None:
        made = n if n in self.given else placeholder(f"h{len(self.inputs)}", n.avals[0])
        self.inputs[n] = self.mapped[n] = made
        if n not in self.given:
            self.crossing.append(n)

    def _add(self, n: Node) -> None:
        args: tuple[Arg, ...] = tuple(self.mapped[a] if isinstance(a, Node) else a for a in n.args)
        if n.op is MOVE:  # what was the host's is an input, which is copied there
            (found,) = args
            assert isinstance(found, Node)
            self.mapped[n] = found
            return
        made = self.mapped[n] = with_args(n, args)
        self.nodes.append(made)


# ---------------------------------------------------------------------------------- the run

Run = Callable[..., list[Any]]


@dataclass(frozen=True, slots=True)
class Placed:
    """Runs the host's part, and queues the device's."""

    wiring: Wiring
    host: Run | None
    there: Run | None

    def __call__(self, inputs: list[Any], replaced: Sequence[Any] = ()) -> list[Any]:
        """`replaced`: tensors whose gradient is replaced by a result. Raises CheckFailed with
        nothing written."""
        found: list[Any] = []
        undo = None
        if self.host is not None and self.wiring.host is not None:
            part = self.wiring.host
            given = [inputs[i] for i in part.takes]
            undo = _undoing([given[i] for i, _ in part.writes])
            found = self.host(given)
        results: list[Any] = []
        if self.there is not None and self.wiring.there is not None:
            given = [inputs[i] for i in self.wiring.there.takes]
            given += map(_plain, found[self.wiring.host_results :])
            try:
                results = self.there(given, replaced, undo)
            except CheckFailed:
                if undo is not None:
                    undo()
                raise
        return [(found if side == "host" else results)[k] for side, k in self.wiring.results]


def _plain(value: Any) -> Any:
    """A number of the host's part as Python's."""
    return value.item() if value.ndim == 0 and type(value) is not DeviceArray else value


def _undoing(arrays: Iterable[Any]) -> Callable[[], None] | None:
    kept = [(array, array.copy()) for array in arrays]
    if not kept:
        return None

    def undo() -> None:
        for array, before in kept:
            array[...] = before

    return undo
