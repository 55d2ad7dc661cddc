"""Pass: equal layers become calls of one graph. Graph -> Graph.

A stack of layers, their gradients and the updates of their parameters stand in the graph as
stretches of nodes that repeat: the same operations with the same attributes, wired alike, on other
parameters. Each copy becomes a `CALL` of one graph, so that what comes after (passes, fusion, code)
is done once for all of them; a call is handed its own parameters, gradients and state.

    find        where the sequence of operations repeats, and with what period
    Stretch     the copies that are wired alike, by columns: (the node in each copy)
    settle      what each copy is handed; what is cheap to compute from values that are in memory
                anyway is computed in it again, as fusion would do
    _Outline    the calls

Copies of cheap operations that hand each other values stay: they are one kernel. So do products
that share a weight, which `unrolled_products` makes one.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import field
from typing import Any, Final

import numpy as np

from codegen.fuse.row_groups import is_shallow
from eager.base.dataclass import dataclass
from eager.core.op import REGISTRY
from eager.ops.contract import DOT
from eager.ops.kinds import reshape_strides
from eager.ops.view import PERMUTE, SLICE
from eager.sizes.aval import contiguous_strides, scalar_aval
from jitcap.graph.graph import CHECK, ITEM, Arg, Graph, Node, Where, aval_of, items, placeholder
from jitcap.graph.loops import is_light
from jitcap.graph.partition import INFINITE, Flow, is_cheap
from jitcap.graph.subgraphs import CALL
from jitcap.passes.common_subexpressions import call_key
from jitcap.passes.dead import dead_code

COPIES: Final = 8  # fewer layers stay inlined: they fuse with each other, one kernel updates all
SAVED: Final = 200  # operations that are compiled less, at least
SHORTEST: Final = 16  # operations of a copy
ALIKE: Final = 64  # equal operations in a row that tell of a period
LONGEST: Final = 16  # operations one behind the other that are computed again: layers add up
HEAVY: Final = frozenset({"contract", "window", "sort", "scan", "extern"})
_ODD: Final = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F], np.uint64)  # for hashes
Column = tuple[Arg, ...]  # a value in each copy


def share_repeats(graph: Graph) -> Graph:
    """Calls for what repeats, if that is worth it."""
    if graph.has_symbols or len(graph.nodes) < SAVED:
        return graph
    found = (Stretch.of(graph.nodes, *each) for each in find(graph.nodes))
    stretches = [each for each in found if each is not None]
    return _Outline(graph, stretches).run() if stretches else graph


# ---------------------------------------------------------------------------- where it repeats
Repeat = tuple[int, int, int]  # first node, nodes of a copy, length


def find(nodes: Sequence[Node]) -> list[Repeat]:
    """Repeats in order and disjoint; of those that overlap, the one that saves most."""
    tokens = _tokens(nodes)
    found: list[Repeat] = []
    while best := max(_repeats(tokens), key=_saved, default=None):
        found.append(best)
        start, _, length = best
        tokens[start : start + length] = -1 - np.arange(start, start + length)
    return sorted(found)


def _tokens(nodes: Sequence[Node]) -> Any:
    """A number for each node, of their own for those that stay where they are."""
    numbers: dict[Any, int] = {}
    seen: dict[Any, int] = {}  # by what a node holds, where many hold the very same
    tokens = [0] * len(nodes)
    for i, n in enumerate(nodes):
        where = n.where[:3] if n.op is CHECK or n.op.raises else 0
        own = [0 if type(x) is Node else id(x) for x in n.args]
        key = n.op, id(n.attrs) if n.attrs else 0, id(n.avals), where, *own
        found = seen.get(key)
        if found is None:
            alone = "graphs" in n.attrs or (n.op is CHECK and not n.parents)
            found = -1 - i if alone else numbers.setdefault(_kind(n), len(numbers))
            if not alone:
                seen[key] = found
        tokens[i] = found
    return np.array(tokens, np.int64)


def _kind(n: Node) -> Any:
    """Equal for nodes that differ in what they read only; draws also in their ordinals, and what
    may fail says the same line."""
    op, operands, *rest = call_key(n, n.args)
    draws = n.op.kind == "random"
    rest += [n.where[:3]] * (n.op is CHECK or n.op.raises)  # whichever the module
    return op, tuple([None if draws or type(x) is Node else x for x in operands]), *rest


def _repeats(tokens: Any) -> Iterator[Repeat]:
    """The longest stretches of every likely period."""
    for period in _periods(tokens):
        same = np.concatenate([[False], tokens[:-period] == tokens[period:], [False]])
        for start, end in np.flatnonzero(same[1:] != same[:-1]).reshape(-1, 2).tolist():
            repeat = start, period, end - start + period
            if repeat[2] >= COPIES * period and _saved(repeat) >= SAVED:
                yield repeat


def _saved(repeat: Repeat) -> int:
    _, period, length = repeat
    return (length // period - 1) * period


def _periods(tokens: Any) -> list[int]:
    """The most frequent distances between neighbours that begin `ALIKE` equal operations."""
    hashes, span = tokens.astype(np.uint64) * _ODD[0], 1
    while span < ALIKE and len(hashes) > span:  # each of the next `span` tokens
        hashes, span = hashes[:-span] * _ODD[1] + hashes[span:], 2 * span
        hashes ^= hashes >> np.uint64(29)
    order = np.argsort(hashes, kind="stable")
    distances = np.diff(order)[np.diff(hashes[order]) == 0]
    counts = Counter(distances[distances >= SHORTEST].tolist())
    return [period for period, _ in counts.most_common(16)]


# ---------------------------------------------------------------------------- what is repeated


@dataclass(eq=False, slots=True)
class Stretch:
    """Copies of the same nodes, one behind the other. `rows[k]`: the k-th node of each; `args[k]`:
    its arguments, a number for the row of the same copy that computes it, or a column."""

    start: int
    rows: list[tuple[Node, ...]]
    args: list[tuple[int | Column, ...]]
    given: dict[Column, None] = field(default_factory=dict)  # what each copy is handed
    again: dict[Column, tuple[Column, ...]] = field(default_factory=dict)  # computed in it again
    kept: dict[int, None] = field(default_factory=dict)  # the rows that others read

    @classmethod
    def of(cls, nodes: Sequence[Node], start: int, period: int, length: int) -> Stretch | None:
        """The copies that are wired alike, if they are many and calls of them are no slower."""
        slack = range(start, start + length % period + 1)
        start = next((i for i in slack if _is_before_product(nodes, i)), start)
        wiring = [
            _wired(nodes[i : i + period])
            for i in range(start, start + length // period * period, period)
        ]
        groups = itertools.groupby(range(len(wiring)), key=wiring.__getitem__)
        copies = max(([*group] for _, group in groups), key=len)
        start, end = (start + i * period for i in (copies[0], copies[-1] + 1))
        made = cls.wired(start, nodes[start:end], wiring[copies[0]])
        good = len(copies) >= COPIES and made.is_uniform() and made.pays() and made.checks_early()
        return made if good else None

    @classmethod
    def wired(cls, start: int, nodes: Sequence[Node], wiring: Wiring) -> Stretch:
        rows = [tuple(nodes[k :: len(wiring)]) for k in range(len(wiring))]
        args = [
            tuple([tuple([n.args[i] for n in row]) if k is None else k for i, k in enumerate(ks)])
            for row, ks in zip(rows, wiring, strict=True)
        ]
        return cls(start, rows, args)

    @property
    def end(self) -> int:
        return self.start + len(self.rows) * len(self.rows[0])

    def columns(self) -> dict[Column, None]:
        """Columns that the copies read from each other, and from outside."""
        return dict.fromkeys(x for args in self.args for x in args if type(x) is tuple)

    def is_uniform(self) -> bool:
        """True if each column that the copies read has one aval."""
        for column in self.columns():
            first = aval_of(column[0]) if _is_value(column[0]) else None
            for x in column:
                if not _is_value(x) or ((aval := aval_of(x)) is not first and aval != first):
                    return False
        return True

    def pays(self) -> bool:
        """True if no fusion is lost, and no product of all copies at once."""
        heavy = [k for k, row in enumerate(self.rows) if row[0].op.kind in HEAVY]
        if not heavy:
            own = {n for row in self.rows for n in row}
            return own.isdisjoint(x for column in self.columns() for x in column)
        return not any(self._is_shared(x) for k in heavy for x in self.args[k])

    def checks_early(self) -> bool:
        """True if what is checked can be computed twice: before anything is written, too."""
        stack: list[int | Column] = [x for k in self.checks() for x in self.args[k]]
        seen: set[int | Column] = set()
        while stack:
            k = stack.pop()
            if type(k) is int and k not in seen:
                seen.add(k)
                stack += self.args[k]
                if not is_cheap(self.rows[k][0]):
                    return False
        return True

    def checks(self) -> list[int]:
        """The rows that are checks."""
        return [k for k, row in enumerate(self.rows) if row[0].op is CHECK]

    def _is_shared(self, x: int | Column) -> bool:
        """True if all copies read the same tensor, or what is computed of it alone."""
        while type(x) is int and is_light(self.rows[x][0]) and len(self.args[x]) == 1:
            (x,) = self.args[x]
        return type(x) is tuple and len({*x}) == 1 and isinstance(x[0], Node)

    # ---- what each copy is handed

    def settle(self, in_memory: Callable[[Node], bool], elements: Container[Node]) -> None:
        """Choose, for a copy in the middle, the values from which all that it reads can be computed
        at the least cost; the others do likewise."""
        middle = len(self.rows[0]) // 2
        read = [x for column in self.columns() if isinstance(x := column[middle], Node)]
        carried = _cut(read, in_memory, elements)
        for column in self.columns():
            self._hand(column, middle, carried)

    def _hand(self, column: Column, middle: int, carried: set[Node]) -> None:
        """Hand a column to the copies, or what it is computed from."""
        stack = [column]
        while stack:
            top = stack[-1]
            n = top[middle]
            if top in self.given or top in self.again or _is_literal(top):
                stack.pop()
            elif not isinstance(n, Node) or n in carried or not _are_alike(top):
                self.given[stack.pop()] = None
            else:
                args = tuple(zip(*(x.args for x in top), strict=True))  # type: ignore[union-attr]
                more = [
                    x for x in args if not (x in self.given or x in self.again or _is_literal(x))
                ]
                stack += more
                if not more:
                    self.again[stack.pop()] = args

    # ---- as a graph

    def body(self, name: str) -> Body:
        """A copy: what others read of it."""
        made, nodes = self._copy()
        return self._closed(made, nodes, [made[k] for k in self.kept], name)

    def early(self, name: str) -> tuple[Body, list[list[int]]]:
        """The truths that are checked in a copy, those of one check in the program together; and
        the rows that they are of."""
        made, nodes = self._copy()
        truths: dict[Any, Arg] = {}
        rows: dict[Any, list[int]] = {}
        for k in self.checks():
            n = self.rows[k][0]
            key = n.attrs["what"], n.where[:3]
            rows.setdefault(key, []).append(k)
            for truth in made[k].parents:  # type: ignore[union-attr]
                if key in truths:
                    truth = Node(_AND, (truths[key], truth), {}, (scalar_aval(True),), n.where)
                    nodes.append(truth)
                truths[key] = truth
        return self._closed(made, nodes, [*truths.values()], name), [*rows.values()]

    def _copy(self) -> tuple[dict[int | Column, Arg], list[Node]]:
        """The values of a copy, and the operations among them."""
        made: dict[int | Column, Arg] = {
            column: placeholder(f"x{i}", aval_of(column[0])) for i, column in enumerate(self.given)
        }
        nodes = self.compute(made, 0)
        for k, (row, args) in enumerate(zip(self.rows, self.args, strict=True)):
            made[k] = new = _copied(row[0], args, made, 0)
            nodes.append(new)
        return made, nodes

    def compute(self, made: dict[int | Column, Arg], copy: int) -> list[Node]:
        """New nodes for the values that a copy recomputes; they are added to `made`."""
        nodes = []
        for column, args in self.again.items():
            made[column] = new = _copied(column[copy], args, made, copy)
            nodes.append(new)
        return nodes

    def _closed(
        self, made: dict[int | Column, Arg], nodes: list[Node], ends: list[Any], name: str
    ) -> Body:
        """`ends` as a graph of the columns that they need."""
        graph = dead_code(Graph((), tuple(nodes), tuple(ends), name))
        read = {*ends, *(p for n in graph.nodes for p in n.parents)}
        columns = [column for column in self.given if made[column] in read]
        return graph.with_(inputs=tuple(made[column] for column in columns)), columns


Body = tuple[Graph, list[Column]]
Wiring = tuple[tuple[int | None, ...], ...]  # the number of the node in the copy, by argument


def _wired(nodes: Sequence[Node]) -> Wiring:
    """Index of the node that computes each argument of each node; None from outside the copy."""
    at: dict[Arg, int] = {n: k for k, n in enumerate(nodes)}
    return tuple([tuple([at.get(a) if type(a) is Node else None for a in n.args]) for n in nodes])


def _copied(n: Any, args: Iterable[Any], made: dict[Any, Arg], copy: int) -> Node:
    """The node, reading what was `made`."""
    new = tuple([x[copy] if type(x) is tuple and _is_literal(x) else made[x] for x in args])
    return Node(n.op, new, n.attrs, n.avals, n.where)


def _is_literal(column: Column) -> bool:
    """True if a column is the same number in each copy, known now."""
    first = column[0]
    return not isinstance(first, Node) and all(
        type(x) is type(first) and repr(x) == repr(first) for x in column
    )


def _is_value(x: Arg) -> bool:
    return not isinstance(x, Node) or len(x.avals) == 1


def _are_alike(column: Column) -> bool:
    """True if these are equal operations, on equal kinds of values: `x + y` may broadcast in
    one."""
    nodes = [x for x in column if isinstance(x, Node)]
    kinds = ((_kind(x), [a.avals if isinstance(a, Node) else None for a in x.args]) for x in nodes)
    first = next(kinds, None)
    return len(nodes) == len(column) and all(kind == first for kind in kinds)


def _is_before_product(nodes: Sequence[Node], i: int) -> bool:
    """A good place to begin: a product reads memory, whoever computed what it reads."""
    return next((n.op.kind == "contract" for n in nodes[i:] if n.op.kind != "view"), False)


# ---------------------------------------------------------------------------- what is handed on


def _cut(
    read: Sequence[Node], in_memory: Callable[[Node], bool], elements: Container[Node]
) -> set[Node]:
    """The cheapest values from which all that is `read` can be computed: a minimum cut, as in
    `jitcap.graph.partition`. Those that are in memory anyway cost next to nothing."""
    number: dict[Node, int] = {}
    again: set[Node] = set()
    front = [*read]
    for depth in range(LONGEST + 1):
        fresh = [n for n in dict.fromkeys(front) if n not in number]
        number |= {n: len(number) + i for i, n in enumerate(fresh)}
        if depth < LONGEST:
            again |= {n for n in fresh if _is_again(n, in_memory, elements)}
        front = [p for n in fresh if n in again for p in n.parents]
    source, sink = 2 * len(number), 2 * len(number) + 1
    flow = Flow(2 * len(number) + 2)
    for n, i in number.items():
        flow.edge(2 * i, 2 * i + 1, 1 if in_memory(n) else n.aval.nbytes + 1)
        if n in again:
            for p in dict.fromkeys(n.parents):
                flow.edge(2 * number[p] + 1, 2 * i, INFINITE)
        else:
            flow.edge(source, 2 * i, INFINITE)
    for n in dict.fromkeys(read):
        flow.edge(2 * number[n] + 1, sink, INFINITE)
    reached = flow.cut(source, sink)
    return {n for n, i in number.items() if 2 * i in reached and 2 * i + 1 not in reached}


def _is_again(n: Node, in_memory: Callable[[Node], bool], elements: Container[Node]) -> bool:
    """True if a value may be recomputed in each copy."""
    return n.op is not ITEM and not in_memory(n) and (n in elements or is_light(n))


def _elements(graph: Graph) -> set[Node]:
    """Values that `codegen.fuse.row_blocks` recomputes rather than stores: the scores of attention,
    and what is made of them."""
    found: set[Node] = set()
    for n in graph.nodes:
        if n.op is DOT:
            if is_shallow(n.aval, aval_of(n.args[0]).shape[-1]):
                found.add(n)
        elif (
            not found.isdisjoint(n.args)  # few are
            and n.op.kind in ("pointwise", "cast", "copy", "view")
            and len(n.avals) == 1
            and any(p in found and p.aval.numel == n.aval.numel for p in n.parents)
        ):
            found.add(n)
    return found - {*graph.outputs}


def _stored(graph: Graph) -> set[Node]:
    """Values that fusion stores in memory in any case: outputs, results of products and the like,
    and what these read, up to where it is moved."""
    found = {*graph.inputs, *graph.outputs}
    products = {n for n in graph.nodes if n.op.kind == "contract"}
    readers: dict[Node, list[Node]] = {}
    for n in graph.nodes:
        if not products.isdisjoint(n.args):
            for p in n.parents:
                if p in products:
                    readers.setdefault(p, []).append(n)
        if n.op.kind in HEAVY:
            found.add(n)
            found.update(map(_in_memory, n.parents))
    for n, (first, *more) in readers.items():
        if first.op is PERMUTE and not more:  # the product is computed the other way round
            found.remove(n)
            found.add(first)
    return found


def _in_memory(operand: Node) -> Node:
    """The node whose memory `operand` is a strided view of, or itself."""
    chain = [operand]
    while chain[-1].op.keeps_order or chain[-1].op in (PERMUTE, SLICE):
        chain.append(chain[-1].parents[0])
    first = len(chain) - 1
    shape = chain[-1].aval.shape
    strides: tuple[Any, ...] = contiguous_strides(shape)
    for i in reversed(range(len(chain) - 1)):
        n, moved = chain[i], None
        if n.op is PERMUTE:
            moved = tuple(strides[d] for d in n.attrs["dims"])
        elif n.op is SLICE:
            step = n.attrs["step"]
            moved = tuple(s * step if d == n.attrs["dim"] else s for d, s in enumerate(strides))
        else:
            moved = reshape_strides(shape, strides, n.aval.shape)
        shape = n.aval.shape
        if moved is None:
            first = i
        strides = contiguous_strides(shape) if moved is None else moved
    return chain[first]


# ---------------------------------------------------------------------------- the calls


class _Outline:
    """Stretches and what stands between them, which is handed what it reads in the same way."""

    def __init__(self, graph: Graph, stretches: Sequence[Stretch]) -> None:
        self.graph = graph
        self.inside = {
            n: (each, k) for each in stretches for k, row in enumerate(each.rows) for n in row
        }
        self.parts: list[tuple[Stretch, bool]] = []  # and whether it is one of copies
        at = 0
        for each in (*stretches, None):
            end = len(graph.nodes) if each is None else each.start
            if at < end:
                between = graph.nodes[at:end]
                self.parts.append((Stretch.wired(at, between, _wired(between)), False))
            if each is not None:
                self.parts.append((each, True))
                at = each.end
        self.first: list[Node] = []  # that read inputs only
        self.nodes: list[Node] = []
        self.made: dict[Node, Arg] = {n: n for n in graph.inputs}

    def run(self) -> Graph:
        self._settle()
        for i, (part, repeats) in enumerate(self.parts):
            if repeats:
                self._check(part, f"checks_{i}")
                self._call(part, f"part_{i}")
            else:
                self._between(part)
        outputs = tuple(self.made[o] for o in self.graph.outputs)
        return self.graph.with_(nodes=(*self.first, *self.nodes), outputs=outputs)

    def _settle(self) -> None:
        elements = _elements(self.graph)
        stored = _stored(self.graph) - elements
        for part, repeats in self.parts:
            part.settle(
                stored.__contains__ if repeats else lambda n: n in stored or n not in self.inside,
                elements,
            )
            stored.update(x for column in part.given for x in column if isinstance(x, Node))
        read = [x for part, _ in self.parts for column in part.given for x in column]
        for n in (*read, *self.graph.outputs):
            if n in self.inside and n.op is not CHECK:
                stretch, k = self.inside[n]
                stretch.kept[k] = None

    def _of(self, column: Column, copy: int) -> Arg:
        x = column[copy]
        return self.made[x] if isinstance(x, Node) else x

    def _check(self, part: Stretch, name: str) -> None:
        """The checks of all copies, before the copies, as soon as they can: inputs are written when
        all checks are done."""
        if not part.checks():
            return
        body, rows = part.early(name)
        given = {self._of(column, copy) for column in body[1] for copy in range(len(part.rows[0]))}
        place = self.first if given.issubset(self.graph.inputs) else self.nodes
        for copy in range(len(part.rows[0])):
            handles = self._calls(place, body, copy, part.rows[rows[0][0]][copy].where)
            for handle, same in zip(handles, rows, strict=True):
                n = part.rows[same[0]][copy]
                check = Node(CHECK, (handle,), n.attrs, n.avals, n.where)
                place.append(check)
                self.made.update((part.rows[k][copy], check) for k in same)

    def _call(self, part: Stretch, name: str) -> None:
        body = part.body(name)
        for copy in range(len(part.rows[0])):
            handles = self._calls(self.nodes, body, copy, part.rows[0][copy].where)
            self.made.update(
                (part.rows[k][copy], x) for k, x in zip(part.kept, handles, strict=True)
            )

    def _calls(self, place: list[Node], body: Body, copy: int, where: Where) -> tuple[Node, ...]:
        """Results of a call of the body for a copy; the nodes are appended to `place`."""
        graph, columns = body
        args = tuple(self._of(column, copy) for column in columns)
        avals = tuple(o.aval for o in graph.outputs)
        call = Node(CALL, args, {"graphs": (graph,)}, avals, where)
        handles = items(call)
        place += dict.fromkeys((call, *handles))
        return handles

    def _between(self, part: Stretch) -> None:
        made: dict[int | Column, Arg] = {column: self._of(column, 0) for column in part.given}
        self.nodes += part.compute(made, 0)
        for k, ((n,), args) in enumerate(zip(part.rows, part.args, strict=True)):
            made[k] = self.made[n] = new = _copied(n, args, made, 0)
            self.nodes.append(new)


_AND: Final = REGISTRY["logical_and"]
