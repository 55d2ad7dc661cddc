"""Between passes and lowering, where data decide sizes: Graph -> pieces of it, and the run of them.

What defines a size (`nonzero`, a number that is used as one) runs between two pieces: the one
before computes its operands, the one behind has the size among its inputs, as any symbol. So a
piece is an ordinary graph and takes the ordinary road. Work is put into the latest piece that it
can be in: what lies before the last is what sizes depend on. All that is written is written by the
last, when all sizes are known and what was expected of them has been seen to hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from codegen import CheckFailed
from eager.base.dataclass import dataclass
from eager.core import on_device
from eager.device import device, places, transfer
from eager.device.array import DeviceArray
from eager.sizes.aval import scalar_aval
from eager.sizes.substitute import substitute, symbols_in
from eager.sizes.symint import Symbol, SymInt, evaluate, of_atom
from jitcap.graph.cut import Section
from jitcap.graph.graph import (
    BIND,
    CHECK,
    ITEM,
    SIZE,
    Graph,
    Node,
    give_up,
    is_definer,
    placeholder,
    sizes_found,
    symbol,
)

Run = Callable[..., list[Any]]
_NUMBER: Final = scalar_aval(0)
AGAIN: Final = frozenset({"view"})  # kinds of ops that a later piece does again: they cost nothing


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """A graph whose inputs are `takes` (values of the whole, or sizes as numbers) and whose outputs
    are `gives`; and what it writes back: (input index, output index)."""

    graph: Graph
    takes: tuple[Node | SymInt, ...]
    gives: tuple[Node, ...]
    writes: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Pieces:
    """`pieces` in order. Behind piece i run `definers[i]`, and `checks[i]` must hold. `results` are
    the outputs of the whole that its caller gets: values from before the last piece, or numbers of
    what that gives."""

    inputs: tuple[Node, ...]
    pieces: tuple[Piece, ...]
    definers: tuple[tuple[Node, ...], ...]
    checks: tuple[tuple[Node, ...], ...]
    results: tuple[Node | int, ...]
    handles: dict[Node, tuple[Node, ...]]  # of each definer: the values that it gives

    @property
    def callbacks(self) -> tuple[str, ...]:
        """Ops that NumPy computes between the pieces, with their lines, for people."""
        nodes = [n for each in self.definers for n in each if n.op is not BIND]
        return tuple(f"{n.op.name} (at {n.where.place})" for n in nodes)


def cut(graph: Graph, writes: Sequence[tuple[int, int]] = ()) -> Pieces:
    """The pieces of a graph; `writes` pairs (input index, output index) of what is written back."""
    ready, last = _levels(graph)
    place = _places(graph, ready, last)
    sections = [_Section(graph, place, i) for i in range(last + 1)]
    written = {o for _, o in writes}
    plain = [i for i, o in enumerate(graph.outputs) if i not in written and o.op is not CHECK]
    early = {
        o
        for o in (graph.outputs[i] for i in plain)
        if graph.outputs.count(o) == 1 and _is_early(place, last, o)
    }
    ends = [i for i, o in enumerate(graph.outputs) if o not in early and not _is_of_sizes(o)]
    at = {o: k for k, o in enumerate(ends)}
    for n in (*(graph.outputs[i] for i in ends), *(graph.inputs[i] for i, _ in writes)):
        sections[-1].get(n)
    wanted = dict.fromkeys(early)
    for n in filter(is_definer, graph.nodes):
        wanted.update(dict.fromkeys(n.parents))
    for section in sections:
        wanted.update(dict.fromkeys(section.crossing))
    pieces = [
        section.piece([v for v in wanted if place.get(v) == i])
        for i, section in enumerate(sections[:-1])
    ]
    whole = sections[-1].piece([graph.outputs[i] for i in ends])
    index = {x: i for i, x in enumerate(whole.takes)}
    back = [(index[graph.inputs[i]], at[o]) for i, o in writes]
    of_last = iter(range(len(plain)))  # what the last piece gives its caller, in order
    results = [graph.outputs[i] if graph.outputs[i] in early else next(of_last) for i in plain]
    checks = [o for o in dict.fromkeys(graph.outputs) if _is_of_sizes(o)]
    return Pieces(
        graph.inputs,
        (*pieces, replace(whole, writes=tuple(back))),
        tuple(_behind(filter(is_definer, graph.nodes), ready, i + 1) for i in range(last)),
        tuple(_behind(checks, ready, i + 1) for i in range(last)),
        tuple(results),
        {n: _handles(graph, n) for n in graph.nodes if is_definer(n)},
    )


def _handles(graph: Graph, definer: Node) -> tuple[Node, ...]:
    """Its values: itself, or an ITEM (or nothing that is read) for each of several."""
    if len(definer.avals) == 1:
        return (definer,)
    found = {n.attrs["index"]: n for n in graph.nodes if n.op is ITEM and n.parents[0] is definer}
    return tuple(found.get(i, definer) for i in range(len(definer.avals)))


def _levels(graph: Graph) -> tuple[dict[Node, int], int]:
    """The first piece that can have each value, and the number of the last."""
    ready: dict[Node, int] = dict.fromkeys(graph.inputs, 0)
    levels: dict[str, int] = {}  # of symbols
    for n in graph.nodes:
        level = max((ready[p] for p in n.parents), default=0)
        if is_definer(n):
            level += 1
            for s in symbols_in((n.attrs["size"],)):
                levels.setdefault(s.name, level)
        used = symbols_in((n.attrs, *(a.shape for a in n.avals)))
        ready[n] = max([level, *(levels.get(s.name, 0) for s in used)])
    return ready, max(ready.values(), default=0)


def _places(graph: Graph, ready: dict[Node, int], last: int) -> dict[Node, int]:
    """The piece of each operation that a result depends on: the last one that is early enough for
    all who read it."""
    place = {o: last for o in graph.outputs if not _is_of_sizes(o)}
    for n in reversed(graph.nodes):
        if is_definer(n):
            own = ready[n] - 1
        elif n.op is SIZE or n not in place:
            continue
        else:
            own = place[n]
        for p in n.parents:
            place[p] = min(place.get(p, last), own)
    for n in graph.nodes:
        if (n.op is ITEM or n.op.half == "wait") and n.parents[0] in place:
            place[n] = place[n.parents[0]]  # a handle is none outside of its piece
        if _is_host(n) or n.op is SIZE:
            place.pop(n, None)
    for n in graph.inputs:
        place.pop(n, None)
    return place


def _is_early(place: dict[Node, int], last: int, o: Node) -> bool:
    """True if a result exists before the last piece, in memory that no other value shares."""
    return not o.aval.weak and (_is_host(o) or place.get(o, last) < last)


def _is_host(n: Node) -> bool:
    """True if a node is computed between the pieces."""
    return is_definer(n) or (n.op is ITEM and is_definer(n.parents[0]))


def _is_of_sizes(n: Node) -> bool:
    """True if a node is a check of sizes alone."""
    return n.op is CHECK and not n.args


def _behind(nodes: Iterable[Node], ready: dict[Node, int], level: int) -> tuple[Node, ...]:
    return tuple(n for n in nodes if ready[n] == level)


class _Section(Section):
    """One piece, and the views of earlier ones that it does again."""

    def __init__(self, graph: Graph, place: dict[Node, int], number: int) -> None:
        super().__init__(graph)
        self.place, self.number = place, number
        for n in graph.nodes:
            if place.get(n) == number:
                self.get(n)

    def computes(self, n: Node) -> bool:
        again = n.op.kind in AGAIN and n in self.place
        return again or self.place.get(n) == self.number

    def take(self, n: Node) -> None:
        if n.op is SIZE:
            self.mapped[n] = self.size(n.attrs["size"])
        else:
            super().take(n)

    def size(self, size: SymInt) -> Node:
        """A size as a number among the inputs."""
        if size not in self.inputs:
            ((monomial, c), *more) = size.terms
            lone = not more and c == 1 and len(monomial) == 1 and isinstance(monomial[0], Symbol)
            made = symbol(size) if lone else placeholder(f"v{len(self.inputs)}", _NUMBER)
            self.inputs[size] = made
        return self.inputs[size]

    def piece(self, gives: Sequence[Node]) -> Piece:
        """The piece, when everything was asked for."""
        for s in self.take_symbols():
            self.size(of_atom(s))
        name = f"{self.whole.name}_{self.number}" if self.number else self.whole.name
        return Piece(self.graph(gives, name), self.takes, tuple(gives))


# ---------------------------------------------------------------------------------- the run


@dataclass(frozen=True, slots=True)
class Whole:
    """Runs compiled pieces one after the other, and between them what defines sizes. Arrays and
    numbers in, as the graph has its inputs, and the results out."""

    pieces: Pieces
    runs: tuple[Run | None, ...]  # None: of a piece without operations that gives nothing
    on_device: bool = False  # some of them

    def __call__(self, inputs: list[Any], replaced: Sequence[Any] = ()) -> list[Any]:
        """`replaced`: tensors of a device whose gradient is replaced by a result. Raises
        CheckFailed before an input is written."""
        pieces = self.pieces
        env: dict[Node, Any] = dict(zip(pieces.inputs, inputs, strict=True))
        sizes = {n.attrs["symbol"]: int(env[n]) for n in pieces.inputs if "symbol" in n.attrs}
        found: list[Any] = []
        i = 0
        try:
            for i, (piece, run) in enumerate(zip(pieces.pieces, self.runs, strict=True)):
                if i:
                    for v, value in zip(pieces.pieces[i - 1].gives, found, strict=True):
                        weak = isinstance(value, np.ndarray) and v.aval.weak
                        env[v] = value.item() if weak else value
                    self._define(i - 1, env, sizes)
                found = []
                if run is not None:
                    given = (
                        evaluate(x, sizes) if isinstance(x, SymInt) else env[x] for x in piece.takes
                    )
                    last = bool(replaced) and i == len(self.runs) - 1
                    found = run([*given], replaced) if last else run([*given])
        except CheckFailed:
            give_up(n for piece in pieces.pieces[:i] for n in piece.graph.nodes)
            raise
        return [env[o] if isinstance(o, Node) else found[o] for o in pieces.results]

    def _define(self, i: int, env: dict[Node, Any], sizes: dict[str, int]) -> None:
        """The sizes that are known behind piece `i`, and what they must be."""
        if self.on_device:
            _settle()
        with np.errstate(all="ignore"):
            for n in self.pieces.definers[i]:
                values = _defined(n, [env[a] if isinstance(a, Node) else a for a in n.args], sizes)
                sizes |= sizes_found(n, values)
                env |= zip(self.pieces.handles[n], values, strict=True)
        for n in self.pieces.checks[i]:
            try:
                n.op.compute((), substitute(n.attrs, sizes), n.avals)
            except CheckFailed as error:
                raise CheckFailed(str(error), n.where.place) from error


def _settle() -> None:
    """Raise IndexError for an index out of bounds on a device, perhaps in an earlier call: what
    such a run computed is no size."""
    try:
        for pool in places.opened():
            pool.checks.settle()
    except CheckFailed as error:  # not one of this call, which would then run as plain Python
        raise IndexError(str(error)) from error


def _defined(n: Node, arrays: Sequence[Any], sizes: Mapping[str, int]) -> tuple[Any, ...]:
    """The values of what defines a size, by NumPy, where its operands live."""
    place = n.avals[0].device
    given = tuple(transfer.download(x) if type(x) is DeviceArray else x for x in arrays)
    try:
        found = n.op.compute(given, substitute(n.attrs, sizes), n.avals)
    except Exception as error:
        raise CheckFailed(f"{n.op.name} raised {error!r}", n.where.place) from error
    if n.op is BIND:
        (symbol,) = symbols_in((n.attrs["size"],))
        if found[0] < symbol.lo:
            raise CheckFailed(f"a size of {found[0]}", n.where.place)
        return found
    values = tuple(np.asarray(x, order="C") for x in found)  # of no dimensions, too
    if place == "cpu":
        return values
    on_device.note_host_run(n.op.name, "the size of the result depends on the values")
    return tuple(transfer.upload(x, device(place)) for x in values)
