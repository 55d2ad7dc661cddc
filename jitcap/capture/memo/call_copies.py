"""Capture: nodes that a recorded call appended, and their copies. nodes and a history -> the same,
of other operands.

The nodes are kept with their operands by place: one of the nodes, one of what the call was given,
or a number. A copy of a result has one node on the tape for all of the call. Its derivative is that
of the recorded call, of which the tape is there: it is taken once, and copied like the nodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from eager.autograd.function import FunctionNode
from eager.base.dtype import get_default_dtype
from eager.core import tape
from eager.core.sym import SymNumber
from eager.core.tape import Edge, edge_of, mode, sweep
from eager.core.tensor import Tensor, wrap
from eager.core.traced import Traced, TracedStorage
from jitcap.base.breaks import Again
from jitcap.base.modes import Modes
from jitcap.base.module_path import moved
from jitcap.capture.memo.templates import Code, Program, state_of
from jitcap.capture.tracing import LARGEST
from jitcap.graph.graph import Node, Where, placeholder

# Tables of what a call makes for itself, and of tapes, which those of a copy do without.
APART: Final = frozenset({"recorded", "starts", "functions", "written", "made", "reached"})
_OTHERWISE: Final = frozenset({"random", "dynamic", "extern"})  # more than a node is made
Given = list[Any]  # tensors and numbers that a call reads, in the order in which they are found
Places = dict[Node, Code]


class Recorded:
    """Nodes that a call appended, of what was `given`. Its history begins at `since`."""

    def __init__(self, session: Any, nodes: list[Node], given: Given, since: int) -> None:
        self.session = session
        self.nodes, self.given, self.since = nodes, given, since
        self.module = session.paths.module
        self.handles = [*map(handle_of, given)]
        self.rows: Any = ()
        self.program: Copies | None = None  # of the rows, when they are first copied
        self.out: tuple[Any, Any, Any] = None, None, None  # (node, aval, strides) of the result
        self.edge: Edge = None  # the history of the result
        self.ends: list[int] = []  # the given tensors that it leads to
        self.derived: dict[Any, Any] = {}  # the derivative, by the look of a gradient and the line

    def is_closed(self, result: Tensor) -> bool:
        """Note the result, which is plain; False if the call read more than it was given, or a part
        of its history is the program's own."""
        self.rows = _rows(self.nodes, _places(self.nodes, self.handles))
        self.out = _out(result, self.nodes)
        if self.rows is None or self.out[0] is None:
            return False
        if result._node is not None:
            self.edge = result._node, result._index
            return self._lead(result._node)
        return not result._requires_grad

    def _lead(self, first: Any) -> bool:
        """Find the given tensors to which the history leads; False if it leads elsewhere, too."""
        number: dict[Any, int] = {}
        for i, x in enumerate(self.given):
            edge = edge_of(x) if isinstance(x, Tensor) else None
            if edge is not None and number.setdefault(_key(edge), i) != i:
                return False
        stack, seen, ends = [first], {first}, dict[int, None]()
        while stack:
            node = stack.pop()
            if node.hooks or node.retained or not _is_library(node):
                return False
            for edge in filter(None, node.edges):
                behind = edge[0]
                if isinstance(behind, tape.Node) and behind.sequence >= self.since:
                    stack += {behind} - seen
                    seen.add(behind)
                elif _key(edge) in number:
                    ends[number[_key(edge)]] = None
                else:
                    return False
        self.ends = [*ends]
        return True

    def is_like(self, nodes: list[Node], given: Given, result: Tensor) -> bool:
        """True if a call with its own `given` appended the same, for a plain result."""
        rows = _rows(nodes, _places(nodes, [*map(handle_of, given)]))
        recorded = (result._node is None) is (self.edge is None)
        same = recorded and rows is not None and _out(result, nodes) == self.out
        return same and _shown(rows) == _shown(self.rows)

    # ---- copies

    def copy(self, given: Given) -> Tensor:
        """Append a copy of the nodes; the result."""
        tracer, module = self.session.tracer, self.session.paths.module
        handles = [*map(handle_of, given)]
        self.program = self.program or Copies(self.rows, {"given": 0}, len(handles))
        made = self.program.moved(tracer, handles, self.module, module)
        place, aval, strides = self.out
        memory = TracedStorage(tracer, made[place], aval, 0, tracer.inside)
        result: Tensor = wrap(Traced(aval, memory, made[place], (), strides))
        if self.edge is not None:
            node = CopyNode(self, [*given, result], handles, made, module)
            result._node, result._index = node, 0
            result._requires_grad = True
        self.pass_on(given)
        return result

    def pass_on(self, given: Given) -> None:
        """Ask of the memory of another call's tensors what was asked of those of this one."""
        for old, new in zip(self.given, given, strict=False):
            kind = getattr(old._counts, "kind", None) if isinstance(old, Tensor) else None
            if kind is not None:
                new._counts.kind.asked |= kind.asked

    def derivative(
        self, gradient: Tensor, handles: list[Any], made: list[Node], module: str
    ) -> list[Tensor | None]:
        """Gradients at the ends of a copy, the call of `module`, given that of its result."""
        tracer, array = self.session.tracer, gradient._array
        key = array.aval, array.strides, self.session.where(), Modes.now(), get_default_dtype()
        if key not in self.derived:
            self.derived[key] = self._derive(array.aval, array.strides)
        program, memories, results = self.derived[key]
        seed = [array.read()]
        own = program.moved(tracer, [*handles, *made, *seed], self.module, module)
        by_kind = {"own": own, "given": handles, "made": made, "gradient": seed}
        homes = [array.storage]
        for (kind, x), aval in memories:
            homes.append(TracedStorage(tracer, by_kind[kind][x], aval, 0, tracer.inside))
        tensors: dict[int, Tensor | None] = {-1: None, 0: gradient}
        for number, home, (kind, x), aval, strides, offset, chain in results:
            if number not in tensors:
                if not home:  # a part of the gradient that arrived
                    chain, offset = (*array.chain, *chain), array.offset + offset
                view = Traced(aval, homes[home], by_kind[kind][x], chain, strides, offset)
                tensors[number] = wrap(view)
        return [tensors[number] for number, *_ in results]

    def _derive(self, aval: Any, strides: Any) -> Any:
        """Take the derivative of the recorded call: its nodes, which leave the graph again, and
        what `_results` says of the gradients. Hooks that it got since are of that call alone."""
        s, tracer = self.session, self.session.tracer
        if self.edge is None or not self._lead(self.edge[0]):
            raise Again
        seed = placeholder("gradient", aval)
        memory = TracedStorage(tracer, seed, aval, 0, tracer.inside)
        gradient: Tensor = wrap(Traced(aval, memory, seed, (), strides))
        start, rest, state = len(tracer.nodes), rest_of(s), state_of(s, APART)
        try:
            found, leaves = sweep(
                [(self.edge, gradient)], None, keep=True, create=False,
                ends=lambda node: node.sequence < self.since,
            )  # fmt: skip
        except Exception as error:  # the program's, which knows its line
            raise Again from error
        nodes = tracer.nodes[start:]
        del tracer.nodes[start:]
        places = _places(nodes, self.handles)
        places |= {n: ("made", k) for k, n in enumerate(self.nodes)} | {seed: ("gradient", 0)}
        arrived = []
        for i in self.ends:
            target, index = edge_of(self.given[i]) or (None, 0)
            leaf = leaves.get(id(target), (None, None))[1]
            arrived.append(leaf if isinstance(target, Tensor) else found.get((id(target), index)))
        rows, results = _rows(nodes, places), _results(gradient, arrived, places)
        if rows is None or results is None or rest != rest_of(s) or state != state_of(s, APART):
            raise Again
        made = len(self.handles)
        starts = {"given": 0, "made": made, "gradient": made + len(self.nodes)}
        return Copies(rows, starts, starts["gradient"] + 1), *results


class CopyNode(tape.Node):
    """The history of the result of a copy."""

    __slots__ = ("call", "given", "handles", "made", "module", "versions")

    def __init__(
        self, call: Recorded, given: Given, handles: list[Any], made: list[Node], module: str
    ) -> None:
        super().__init__([given[i] for i in call.ends], (call.out[1],))
        self.call: Recorded | None = call
        self.module = module
        self.given, self.handles, self.made = given, handles, made  # the result is given last
        tensors = [x for x in given if isinstance(x, Tensor)]
        self.versions = [(x._storage, x._storage.version) for x in tensors]

    def name(self) -> str:
        raise Again

    next_functions = property(name)

    def vjp(self, grads: list[Any]) -> Sequence[Any]:
        stale = any(storage.version != version for storage, version in self.versions)
        stale = stale or any(map(_is_other, self.given, self.handles))  # by `.data`
        if self.call is None or stale or mode.enabled:
            raise Again
        found = self.call.derivative(grads[0], self.handles, self.made, self.module)
        self.call.pass_on(self.given)
        return found

    def release(self) -> None:
        self.call = None


def require_no_copies(slots: Sequence[Tensor]) -> None:
    """Start again without copies if one is in the history of tensors that leave with it."""
    stack, seen = [t._node for t in slots], set[Any]()
    while stack:
        node = stack.pop()
        if type(node) is CopyNode:
            raise Again
        if isinstance(node, tape.Node) and node not in seen:
            seen.add(node)
            stack += [edge[0] for edge in node.edges if edge is not None]


def rest_of(s: Any) -> Any:
    """State that a call could change, and a copy would not."""
    tracer = s.tracer
    drawn = [(draws.count, draws.seed) for draws in tracer.draws.values()]
    lengths = [len(x) for x in (tracer.checks, s.host_calls, s.drawn, tracer.constant_arrays)]
    return drawn, lengths, Modes.now(), mode.levels, mode.saved_hooks, get_default_dtype()


def handle_of(x: Any) -> Any:
    """The node of what is given; None for a number that is not in the graph."""
    if isinstance(x, Tensor):
        return x._array.handle
    return x.node if type(x) is SymNumber else None


def _is_other(x: Any, handle: Any) -> bool:
    """True if a tensor has another value than the one that a call was given."""
    return isinstance(x, Tensor) and (type(x._array) is not Traced or x._array.read() is not handle)


def _key(edge: Any) -> tuple[int, int]:
    return id(edge[0]), edge[1]


def _is_library(node: Any) -> bool:
    """True if the derivative of a node runs none of the program's code."""
    if isinstance(node, FunctionNode):
        function: Any = getattr(node.function, "original", node.function)
        return str(function.__module__).startswith("eager.nn.functional.")
    return isinstance(node, tape.OpNode | tape.CopySlicesNode)


def _out(result: Tensor, nodes: list[Node]) -> tuple[Any, Any, Any]:
    array = result._array
    own = {n: k for k, n in enumerate(nodes)}
    return own.get(array.handle), array.aval, array.strides


def _places(nodes: list[Node], handles: list[Any]) -> Places:
    """The codes of nodes as operands: of those that a call appended, and of what it was given."""
    places: Places = {}
    for i, h in enumerate(handles):
        if isinstance(h, Node):
            places.setdefault(h, ("given", i))
    return places | {n: ("own", k) for k, n in enumerate(nodes)}


def _rows(nodes: list[Node], places: Places) -> Any:
    """The nodes, with their operands by place; None if there is another."""
    rows = []
    for n in nodes:
        codes = [places.get(x) if isinstance(x, Node) else ("fixed", x) for x in n.args]
        plain = n.op.kind not in _OTHERWISE and not n.op.raises and "graphs" not in n.attrs
        if None in codes or not plain:
            return None
        rows.append((n.op, tuple(codes), n.attrs, n.avals, n.where))
    return rows


def _shown(rows: Any) -> Any:
    """Equal for rows that are alike, whichever module they are of."""

    def code(x: Code) -> Any:
        return x if x[0] != "fixed" else (type(x[1]), repr(x[1]))

    return [(op, [*map(code, xs)], repr(at), outs, where[:3]) for op, xs, at, outs, where in rows]


class Copies(Program):
    """Those of a call, each of which has a line, in a module."""

    def __init__(self, rows: Sequence[Any], starts: Mapping[str, int], count: int) -> None:
        super().__init__([row[:4] for row in rows], starts, count)
        numbers: dict[Where, int] = {}
        self.at = [numbers.setdefault(where, len(numbers)) for *_, where in rows]
        self.places = [*numbers]
        self.modules = {where.module for where in self.places}

    def moved(self, tracer: Any, given: Sequence[Any], old: str, new: str) -> list[Node]:
        """Append a copy in the call of the module `new`, where the recorded one was of `old`."""
        if len(tracer.nodes) + len(self.rows) > LARGEST:  # said where the operation stands
            raise Again
        to = {module: moved(module, old, new) for module in self.modules}
        there = [
            Where(file, line, function, to[module], forward)
            for file, line, function, module, forward in self.places
        ]
        return self.append(tracer, given, [there[i] for i in self.at])


def _results(gradient: Tensor, arrived: list[Tensor | None], places: Places) -> Any:
    """Memories, after that of `gradient`, and the gradients in them: by number of the tensor (-1:
    there is none) its memory, value, and how it lies there. None if one is not made here. Two may
    be one tensor, or lie in one memory."""
    tensors, homes = {id(gradient): 0}, {id(gradient._array.storage): 0}
    memories, results = list[Any](), list[Any]()
    for t in arrived:
        if t is None:
            results.append((-1, 0, ("fixed", 0), None, None, 0, ()))
            continue
        array = t._array
        if type(array) is not Traced:
            return None
        code, storage = places.get(array.read()), array.storage
        whole = places.get(storage.handle)
        if code is None or whole is None:
            return None
        if id(storage) not in homes:
            homes[id(storage)] = len(homes)
            memories.append((whole, storage.aval))
        number, home = tensors.setdefault(id(t), len(tensors)), homes[id(storage)]
        results.append((number, home, code, array.aval, array.strides, array.offset, array.chain))
    return memories, results
