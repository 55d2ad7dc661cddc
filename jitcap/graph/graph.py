"""The graph level, between capture and codegen: pure operations on abstract values. nodes -> Graph.

A `Node` is one operation of eager's registry applied to other nodes and Python numbers; its
attributes are the op's static ones, its avals what it gives. A few ops exist only here: `INPUT` (a
tensor or, with a weak aval, a run-time scalar handed to the graph: some are the symbols that sizes
are made of), `MOVE` (a value on another device), `BIND` (a number becomes the symbol of a size),
`SIZE` (a size as a number), `ITEM` (one output of a node that has several, so that every argument
is a Node), `AS_NUMBER` (`.item()`) and `CHECK` (truths without which the run is given up; it is an
output, after the others). Values are pure: views have left in `eager.core.traced`, in-place writes
are outputs that the caller writes back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from operator import is_
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from codegen import CheckFailed
from codegen.runtime.artifact import between
from eager.base.dataclass import dataclass
from eager.core import on_device
from eager.core.op import Attrs, Op
from eager.device import CPU, device, transfer
from eager.device.array import DeviceArray
from eager.sizes.aval import Aval, scalar_aval
from eager.sizes.substitute import substitute, symbols_in
from eager.sizes.symint import SymInt, symbols_of

Number: TypeAlias = bool | int | float | complex


class Where(NamedTuple):
    """The user's line that an operation comes from, and the path of the module whose call that is
    in. `forward`: in a derivative, the line ("file:line") of what it is the derivative of."""

    file: str
    line: int
    function: str
    module: str = ""
    forward: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line} in {self.function}"

    @property
    def place(self) -> str:
        """The line alone. It stands in comments of what is compiled, so it is one line there, too,
        whatever a file is called."""
        file = self.file if self.file.isprintable() else ascii(self.file)
        return f"{file}:{self.line}" if file else ""


NOWHERE: Final = Where("", 0, "")


@dataclass(frozen=True, eq=False)
class GraphOp(Op):
    """An op of the graph level only: not in eager's registry, so never dispatched."""

    kind = "graph"
    rounds = False

    def __post_init__(self) -> None:
        """Stay out of the registry."""


@dataclass(frozen=True, eq=False)
class _Item(GraphOp):
    """`item(node, index=i)`: the i-th output of a node with several."""

    def compute(
        self, arrays: tuple[Any, ...], attrs: Attrs, outs: tuple[Aval, ...]
    ) -> tuple[Any, ...]:
        return (arrays[0][attrs["index"]],)


@dataclass(frozen=True, eq=False)
class _AsNumber(GraphOp):
    """`as_number(x)`: the element of a one-element tensor as a run-time Python number."""

    def abstract(self, avals: tuple[Aval, ...], attrs: Attrs) -> tuple[Aval, ...]:
        (a,) = avals
        return (scalar_aval(ZEROS[a.dtype.category], a.device),)

    def compute(
        self, arrays: tuple[Any, ...], attrs: Attrs, outs: tuple[Aval, ...]
    ) -> tuple[Any, ...]:
        return (np.asarray(arrays[0], dtype=outs[0].dtype.np).reshape(()),)


@dataclass(frozen=True, eq=False)
class _Move(GraphOp):
    """`move(x, device="cuda:0")`: a value on another device, or on the CPU."""

    def compute(
        self, arrays: tuple[Any, ...], attrs: Attrs, outs: tuple[Aval, ...]
    ) -> tuple[Any, ...]:
        array, place = arrays[0], device(attrs["device"])
        if type(array) is DeviceArray:
            return (on_device.brought(array, place),)
        array = np.asarray(array)
        return (array if place == CPU else transfer.upload(array, place),)


@dataclass(frozen=True, eq=False)
class _Check(GraphOp):
    """`check(condition, ..., what="...")`: true; if a condition is not, the run fails before it has
    written an input. `what` says what was expected. Or, without conditions, of sizes that data
    decide: that `size == 0` or `size >= 0` (`relation`) holds, or does not (`holds`)."""

    def abstract(self, avals: tuple[Aval, ...], attrs: Attrs) -> tuple[Aval, ...]:
        return (scalar_aval(True),)

    def compute(
        self, arrays: tuple[Any, ...], attrs: Attrs, outs: tuple[Aval, ...]
    ) -> tuple[Any, ...]:
        if not all(map(bool, arrays)):
            raise CheckFailed(attrs["what"])
        if "size" in attrs:
            value = attrs["size"]
            found = value == 0 if attrs["relation"] == "==" else value >= 0
            if found is not attrs["holds"]:
                raise CheckFailed(attrs["what"])
        return (True,)


@dataclass(frozen=True, eq=False)
class _Bind(GraphOp):
    """`bind(n, size=s)`: the symbol `s` of sizes is the number `n` from here on."""

    def compute(
        self, arrays: tuple[Any, ...], attrs: Attrs, outs: tuple[Aval, ...]
    ) -> tuple[Any, ...]:
        return (int(arrays[0]),)


@dataclass(frozen=True, eq=False)
class _Size(GraphOp):
    """`size(x, ..., size=s)`: the size `s` as a number. The operands define its symbols."""

    def compute(
        self, arrays: tuple[Any, ...], attrs: Attrs, outs: tuple[Aval, ...]
    ) -> tuple[Any, ...]:
        return (attrs["size"],)


ZEROS: Final[tuple[Number, ...]] = (False, 0, 0.0, 0j)  # by dtype category
INPUT: Final = GraphOp("input", ())
AS_NUMBER: Final = _AsNumber("as_number", ("x",))
ITEM: Final = _Item("item", ("values",))
MOVE: Final = _Move("move", ("x",))
CHECK: Final = _Check("check", ("*conditions",))
BIND: Final = _Bind("bind", ("x",))
SIZE: Final = _Size("size", ("*definers",))
GRAPH_OPS: Final[dict[str, Op]] = {
    op.name: op for op in (INPUT, AS_NUMBER, ITEM, MOVE, CHECK, BIND, SIZE)
}


class Node:
    """One operation. Compared and hashed by identity; `args` are nodes and Python numbers."""

    __slots__ = ("args", "attrs", "avals", "op", "where")

    def __init__(
        self,
        op: Op,
        args: tuple[Arg, ...],
        attrs: Attrs,
        avals: tuple[Aval, ...],
        where: Where = NOWHERE,
    ) -> None:
        self.op = op
        self.args = args
        self.attrs = attrs
        self.avals = avals
        self.where = where

    @property
    def aval(self) -> Aval:
        """The abstract value of a node with one output."""
        (aval,) = self.avals
        return aval

    @property
    def parents(self) -> tuple[Node, ...]:
        """The argument nodes, in order, numbers left out."""
        return tuple([a for a in self.args if type(a) is Node])

    def __repr__(self) -> str:
        shown = ", ".join("%" if isinstance(a, Node) else repr(a) for a in self.args)
        return f"<{self.op.name}({shown}) -> {', '.join(map(repr, self.avals))}>"


Arg: TypeAlias = Node | bool | int | float | complex


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """`inputs`: INPUT nodes; `nodes`: operations, defined before use; `outputs`: any of both. An
    output that is a CHECK is none to the caller of what is compiled: it gets no value for it."""

    inputs: tuple[Node, ...]
    nodes: tuple[Node, ...]
    outputs: tuple[Node, ...]
    name: str = field(default="graph")

    def __len__(self) -> int:
        return len(self.nodes)

    def everything(self) -> Iterator[Node]:
        """Inputs, then operations."""
        yield from self.inputs
        yield from self.nodes

    def users(self) -> dict[Node, list[Node]]:
        """Readers of each node (once per reader); outputs are not readers."""
        users: dict[Node, list[Node]] = {n: [] for n in self.everything()}
        for n in self.nodes:
            for a in dict.fromkeys(n.parents):
                users[a].append(n)
        return users

    @property
    def has_symbols(self) -> bool:
        """True if some sizes are known at run time only."""
        return self.takes_symbols or self.has_data_sizes

    @property
    def takes_symbols(self) -> bool:
        """True if sizes are among the inputs."""
        return any("symbol" in n.attrs for n in self.inputs)

    @property
    def has_data_sizes(self) -> bool:
        """True if data decide sizes."""
        return any(map(defines_size, {n.op for n in self.nodes}))

    def with_(self, **changes: Any) -> Graph:
        """A copy with some fields replaced."""
        return replace(self, **changes)

    def run(self, args: Sequence[Any]) -> list[Any]:
        """Evaluate op by op with the eager kernels: the oracle, and backend="eager".

        `args` are NumPy arrays, and Python numbers for run-time scalars; so are the results. An
        output may share memory with an argument where it is a view of it. Raises CheckFailed where
        an operation cannot be done.
        """
        env: dict[Node, Any] = dict(zip(self.inputs, args, strict=True))
        for _ in _evaluate(self, env):
            pass
        return [env[o] for o in self.outputs]

    def steps(self, args: Sequence[Any]) -> Iterator[tuple[Node, Any]]:
        """Every node with its value as it is computed (a tuple for a node with several outputs)."""
        return _evaluate(self, dict(zip(self.inputs, args, strict=True)))


def _evaluate(graph: Graph, env: dict[Node, Any]) -> Iterator[tuple[Node, Any]]:
    """Each (node, value), with `env` as the store. Values are dropped after their last use."""
    dead, sizes = last_uses(graph), sizes_of(graph, env)
    collectives = [n for n in graph.nodes if n.op.ordered]
    begun: set[Node] = set()
    for n in graph.nodes:
        arrays = tuple(env[a] if isinstance(a, Node) else a for a in n.args)
        if n.op.ordered:
            begun.add(n)
        try:
            env[n] = evaluate(sized(n, sizes), arrays)
        except Exception as error:
            if n.op.ordered:
                raise
            what = n.attrs["what"] if n.op is CHECK else f"{n.op.name} raised {error!r}"
            # No local holds it: with its traceback it would keep the frames, and what they hold.
            if 0 < len(begun) < len(collectives):
                raise between(CheckFailed(what, n.where.place)) from error
            give_up(begun)
            raise CheckFailed(what, n.where.place) from error
        if is_definer(n):
            sizes |= sizes_found(n, env[n] if len(n.avals) > 1 else (env[n],))
        yield n, env[n]
        for d in dead.get(n, ()):
            env.pop(d, None)


def give_up(nodes: Iterable[Node]) -> None:
    """Note that results of the collectives among some nodes are dropped: plain Python will take
    them again, which the ranks compare."""
    taken = [n for n in nodes if n.op.ordered and "group" in n.attrs]
    if taken:
        op: Any = taken[0].op
        op.compiled.give_up(op.compiled.groups_of(taken))


def defines_size(op: Op) -> bool:
    """True if nodes of an op define a symbol of sizes, their attribute `size`."""
    return op is BIND or op.kind == "dynamic"


def is_definer(node: Node) -> bool:
    return defines_size(node.op)


def sizes_found(node: Node, results: Sequence[Any]) -> dict[str, int]:
    """The value of the symbol that a node made, by name: its results have that size."""
    size = node.attrs["size"]
    (symbol,) = symbols_of(size)
    if node.op is BIND:
        return {symbol.name: results[0]}
    pairs = (
        (s, n)
        for aval, array in zip(node.avals, results, strict=True)
        for s, n in zip(aval.shape, array.shape, strict=True)
    )
    value = next(n for s, n in pairs if isinstance(s, SymInt) and s.terms == size.terms)
    return {symbol.name: int(value)}


def sizes_of(graph: Graph, env: Mapping[Node, Any]) -> dict[str, int]:
    """The values of a graph's symbols, by name, among those of its inputs."""
    return {n.attrs["symbol"]: int(env[n]) for n in graph.inputs if "symbol" in n.attrs}


def sized(node: Node, sizes: Mapping[str, int]) -> Node:
    """`node` where symbols have these values."""
    if not sizes:
        return node
    avals = tuple(aval_at(a, sizes) for a in node.avals)
    return Node(node.op, node.args, substitute(node.attrs, sizes), avals, node.where)


def aval_at(aval: Aval, sizes: Mapping[str, int]) -> Aval:
    """`aval` where symbols have these values."""
    return replace(aval, shape=substitute(aval.shape, sizes)) if sizes else aval


def at_sizes(graph: Graph, sizes: Mapping[str, int]) -> Graph:
    """`graph` for these values of its symbols, which it is still given, as plain numbers."""
    r = Rewriter(graph)
    inputs = tuple(placeholder(n.attrs["name"], sized(n, sizes).aval) for n in graph.inputs)
    r.mapped.update(zip(graph.inputs, inputs, strict=True))
    for n in graph.nodes:
        new = with_args(sized(n, sizes), r.args(n))
        if "graphs" in n.attrs:
            inner = tuple(at_sizes(g, sizes) for g in n.attrs["graphs"])
            new = Node(new.op, new.args, {**new.attrs, "graphs": inner}, new.avals, new.where)
        r.mapped[n] = r.append(new)
    return r.finish().with_(inputs=inputs)


def evaluate(node: Node, arrays: tuple[Any, ...]) -> Any:
    """The value of one operation by the eager kernels (a tuple for several outputs)."""
    if DeviceArray in map(type, arrays) or "device" in node.attrs:
        return _evaluate_there(node, arrays)
    return evaluate_on_host(node, arrays)


def evaluate_on_host(node: Node, arrays: tuple[Any, ...]) -> Any:
    """The result of `evaluate` from arrays of the host, wherever the node's values live."""
    if node.op is MOVE:
        return arrays[0]
    results = node.op.compute(arrays, node.attrs, node.avals)
    results = tuple(_plain(r, a) for r, a in zip(results, node.avals, strict=True))
    return results if len(node.avals) != 1 else results[0]


def _evaluate_there(node: Node, arrays: tuple[Any, ...]) -> Any:
    """The result of `evaluate` where an operand, or the result, lives on a device."""
    op, attrs = node.op, node.attrs
    if op.kind == "view":
        (array,) = arrays
        found = array.view(op, attrs)
        return on_device.contiguous(array).view(op, attrs) if found is None else found
    if isinstance(op, GraphOp):
        given = (
            arrays if op in (ITEM, MOVE) or op.kind == "control" else tuple(map(_on_host, arrays))
        )
        results = op.compute(given, attrs, node.avals)
        results = tuple(_plain(r, a) for r, a in zip(results, node.avals, strict=True))
    else:
        place = device(node.avals[0].device)  # what a write brings there is not moved by a node
        there = (transfer.upload(x, place) if isinstance(x, np.ndarray) else x for x in arrays)
        results = on_device.run(op, tuple(there), attrs)
    return results if len(node.avals) != 1 else results[0]


def _on_host(value: Any) -> Any:
    return transfer.download(value) if type(value) is DeviceArray else value


def _plain(value: Any, aval: Aval) -> Any:
    """A run-time scalar is a Python number; anything else an array."""
    if aval.weak:
        return value.item() if isinstance(value, np.ndarray | np.generic) else value
    # A scalar is no array: the next op would take it for a Python number, which it may have been.
    scalar = isinstance(value, np.generic | int | float | complex)
    return np.asarray(value, aval.dtype.np) if scalar else value


def last_uses(graph: Graph) -> dict[Node, list[Node]]:
    """Values by the operation after which nobody reads them (graph outputs never die)."""
    keep = set(graph.outputs)
    seen: set[Node] = set(keep)
    dead: dict[Node, list[Node]] = {}
    for n in reversed(graph.nodes):
        for a in (*n.parents, n):
            if a not in seen:
                seen.add(a)
                dead.setdefault(n, []).append(a)
    return dead


def placeholder(name: str, aval: Aval) -> Node:
    """A new graph input."""
    return Node(INPUT, (), {"name": name}, (aval,))


def symbol(size: SymInt) -> Node:
    """A new graph input: the value of a size's symbol."""
    (name,) = (s.name for s in symbols_of(size))
    return Node(INPUT, (), {"name": name, "symbol": name}, (scalar_aval(0),))


def stand_in(value: Node, name: str) -> Node:
    """An input for an outer value; a symbol stays what it is."""
    own = value.attrs.get("symbol")
    attrs = {"name": own, "symbol": own} if own else {"name": name}
    return Node(INPUT, (), attrs, (value.aval,))


def size_inputs(inputs: Iterable[Node], nodes: Iterable[Node], *more: Any) -> list[Node]:
    """The symbols among `inputs` that the sizes of `nodes`, and those in `more`, are made of."""
    symbols = [n for n in inputs if "symbol" in n.attrs]
    if not symbols:
        return []
    found = symbols_in((*((n.attrs, *(a.shape for a in n.avals)) for n in nodes), *more))
    names = {symbol.name for symbol in found}
    return [n for n in symbols if n.attrs["symbol"] in names]


def items(node: Node) -> tuple[Node, ...]:
    """The handles of a node's outputs: itself, or one ITEM node per output when it has several."""
    if len(node.avals) == 1:
        return (node,)
    return tuple(
        Node(ITEM, (node,), {"index": i}, (aval,), node.where) for i, aval in enumerate(node.avals)
    )


def with_args(node: Node, args: tuple[Arg, ...]) -> Node:
    """`node` with other arguments; the same object when they are the same (1 is not 1.0)."""
    if args is node.args:
        return node
    for a, b in zip(args, node.args, strict=True):
        if a is not b:
            return Node(node.op, args, node.attrs, node.avals, node.where)
    return node


class Rewriter:
    """Rebuilds a graph node by node: what every pass shares. `lookup`: old argument -> new."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.nodes: list[Node] = []
        self.mapped: dict[Node, Arg] = {n: n for n in graph.inputs}

    def lookup(self, arg: Arg) -> Arg:
        return self.mapped[arg] if isinstance(arg, Node) else arg

    def args(self, node: Node) -> tuple[Arg, ...]:
        """`node`'s arguments in the new graph; the same object when they are the same."""
        mapped, args = self.mapped, node.args
        if node.op is ITEM:  # calls have thousands
            one = mapped[args[0]]  # type: ignore[index]
            return args if one is args[0] else (one,)
        new = tuple([mapped[a] if type(a) is Node else a for a in args])
        return args if all(map(is_, new, args)) else new

    def emit(self, op: Op, args: tuple[Arg, ...], attrs: Attrs, like: Node) -> Node:
        """A new node whose avals the op's own rule gives; `like` lends its line and its device."""
        return self.append(node_like(like, op, args, attrs))

    def append(self, node: Node) -> Node:
        self.nodes.append(node)
        return node

    def keep(self, node: Node, args: tuple[Arg, ...]) -> Node:
        """`node` with new arguments; the same object when nothing changed."""
        return self.append(with_args(node, args))

    def finish(self) -> Graph:
        """The new graph; the same object when nothing changed."""
        graph, nodes = self.graph, tuple(self.nodes)
        outputs = tuple([self.mapped[o] for o in graph.outputs])
        assert all(isinstance(o, Node) for o in outputs)
        if nodes == graph.nodes and outputs == graph.outputs:  # nodes are compared by identity
            return graph
        return graph.with_(nodes=nodes, outputs=outputs)


def node_like(like: Node, op: Op, args: tuple[Arg, ...], attrs: Attrs) -> Node:
    """A node whose avals the op's own rule gives; `like` lends its line and its device."""
    avals, place = op.abstract(tuple(aval_of(a) for a in args), attrs), like.avals[0].device
    if place != "cpu":
        attrs = {**attrs, "device": place} if op.kind == "create" else attrs
        avals = tuple(a if a.weak else on_device.at(a, place) for a in avals)
    return Node(op, args, attrs, avals, like.where)


def rewrite(graph: Graph, rule: Callable[[Rewriter, Node, tuple[Arg, ...]], Arg | None]) -> Graph:
    """`rule(rewriter, node, new args)` on each node: its replacement, or None to keep it."""
    r = Rewriter(graph)
    for n in graph.nodes:
        args = r.args(n)
        new = rule(r, n, args)
        r.mapped[n] = r.keep(n, args) if new is None else new
    return r.finish()


def aval_of(arg: Arg) -> Aval:
    """The abstract value of an argument; of a Python number the weak one."""
    return arg.aval if isinstance(arg, Node) else scalar_aval(arg)


def reachable(outputs: Iterable[Node]) -> set[Node]:
    """Every node that `outputs` depend on, themselves included."""
    seen = set(outputs)
    stack = [*seen]
    while stack:
        for arg in stack.pop().args:
            if type(arg) is Node and arg not in seen:
                seen.add(arg)
                stack.append(arg)
    return seen


def needed_by(graph: Graph, outputs: Iterable[Node]) -> set[Node]:
    """Nodes that `outputs` depend on, with those that define the symbols that occur in sizes."""
    needed = reachable(outputs)
    return with_definers(graph.nodes, needed) if graph.has_data_sizes else needed


def with_definers(nodes: Sequence[Node], needed: set[Node]) -> set[Node]:
    """`needed`, and the nodes that define the symbols in its sizes, with what they depend on."""
    found, names = set(needed), set[str]()
    for n in reversed(nodes):
        defined = {s.name for s in symbols_of(n.attrs["size"])} if is_definer(n) else set()
        if n not in found and not names.isdisjoint(defined):
            found |= reachable((n,))
        if n in found:
            names.update(s.name for s in symbols_in((n.attrs, *(a.shape for a in n.avals))))
    return found


def data_sizes(nodes: Iterable[Node]) -> tuple[Node, ...]:
    """The symbols that data decide, as numbers."""
    return tuple(n for n in nodes if n.op is SIZE and "symbol" in n.attrs)


def is_number(arg: Arg) -> bool:
    """True if an argument is a Python number, known at compile time."""
    return not isinstance(arg, Node)
