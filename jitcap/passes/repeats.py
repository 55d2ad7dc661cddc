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

import bisect
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
Nodes = tuple[Node, ...]
At = Mapping[Any, int]  # the positions of nodes
Predicate = Callable[[Node], bool]


def share_repeats(graph: Graph) -> Graph:
    """Calls for what repeats, if that is worth it."""
    if graph.has_symbols or len(graph.nodes) < SAVED:
        return graph
    found = find(graph.nodes)
    if not found:
        return graph
    at = dict(zip(graph.nodes, itertools.count(), strict=False))
    stretches = [x for each in found if (x := Stretch.of(graph.nodes, at, *each)) is not None]
    return _Outline(graph, at, stretches).run() if stretches else graph


# ---------------------------------------------------------------------------- where it repeats
Repeat = tuple[int, int, int]  # first node, nodes of a copy, length


def find(nodes: Sequence[Node]) -> list[Repeat]:
    """Repeats in order and disjoint; of those that overlap, the one that saves most."""
    tokens = _tokens(nodes)
    found: list[Repeat] = []
    left = [(0, len(nodes))]  # where none was found yet
    while left:
        start, end = left.pop()
        best = max(_repeats(tokens[start:end]), key=_saved, default=None)
        if best is not None:
            at, period, length = start + best[0], *best[1:]
            found.append((at, period, length))
            left += [(start, at), (at + length, end)]
    return sorted(found)


def _tokens(nodes: Sequence[Node]) -> Any:
    """A number for each node, of their own for those that stay where they are."""
    numbers: dict[Any, int] = {}
    seen: dict[Any, int] = {}  # by what a node holds, where many hold the very same
    tokens = [0] * len(nodes)
    for i, n in enumerate(nodes):
        where = n.where[:3] if n.op is CHECK or n.op.raises else 0
        own: Any = len(n.args)
        for x in n.args:
            if type(x) is not Node:
                own = tuple([0 if type(x) is Node else id(x) for x in n.args])
                break
        key = n.op, id(n.attrs) if n.attrs else 0, id(n.avals), where, own
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
    rows: list[Nodes]
    args: list[tuple[int | Column, ...]]
    given: dict[Column, None] = field(default_factory=dict)  # what each copy is handed
    again: dict[Column, tuple[Column, ...]] = field(default_factory=dict)  # computed in it again
    kept: dict[int, None] = field(default_factory=dict)  # the rows that others read

    @classmethod
    def of(cls, nodes: Nodes, at: At, start: int, period: int, length: int) -> Stretch | None:
        """The copies that are wired alike, if they are many and calls of them are no slower."""
        slack = range(start, start + length % period + 1)
        start = next((i for i in slack if _is_before_product(nodes, i)), start)
        made = cls.wired(nodes, at, start, period, length // period)
        good = len(made.rows[0]) >= COPIES
        return made if good and made.is_uniform() and made.pays() and made.checks_early() else None

    @classmethod
    def wired(cls, nodes: Nodes, at: At, start: int, period: int, copies: int = 1) -> Stretch:
        """The copies that are wired as the one in the middle, and stand around it."""
        middle = copies // 2
        first, low, high = start + middle * period, 0, copies
        rows = [nodes[k : start + copies * period : period] for k in range(start, start + period)]
        args: list[list[int | Column]] = []
        for row in rows:
            args.append([])
            for column in zip(*[n.args for n in row], strict=True):
                k = at.get(column[middle], -1) - first
                if k < 0:  # from outside
                    args[-1].append(column)
                    places = zip(
                        map(at.get, column, itertools.repeat(-1)), itertools.count(start, period)
                    )
                    odd = [c for c, (x, own) in enumerate(places) if x >= own]
                else:
                    args[-1].append(k)
                    same = column == rows[k]
                    odd = [] if same else [c for c, x in enumerate(column) if x is not rows[k][c]]
                for c in odd:
                    low, high = (max(low, c + 1), high) if c < middle else (low, min(high, c))
        return cls(
            start + low * period,
            [row[low:high] for row in rows],
            [tuple([x[low:high] if isinstance(x, tuple) else x for x in own]) for own in args],
        )

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

    def settle(self, in_memory: Predicate, is_element: Predicate) -> None:
        """Choose, for a copy in the middle, the values from which all that it reads can be computed
        at the least cost; the others do likewise."""
        middle = len(self.rows[0]) // 2
        read = [x for column in self.columns() if isinstance(x := column[middle], Node)]
        carried = _cut(read, in_memory, is_element)
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


def _cut(read: Sequence[Node], in_memory: Predicate, is_element: Predicate) -> set[Node]:
    """The cheapest values from which all that is `read` can be computed: a minimum cut, as in
    `jitcap.graph.partition`. Those that are in memory anyway cost next to nothing."""
    number: dict[Node, int] = {}
    again: set[Node] = set()
    front = [*read]
    for depth in range(LONGEST + 1):
        fresh = [n for n in dict.fromkeys(front) if n not in number]
        number |= {n: len(number) + i for i, n in enumerate(fresh)}
        if depth < LONGEST:
            again |= {n for n in fresh if _is_again(n, in_memory, is_element)}
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


def _is_again(n: Node, in_memory: Predicate, is_element: Predicate) -> bool:
    """True if a value may be recomputed in each copy."""
    return n.op is not ITEM and not in_memory(n) and (is_element(n) or is_light(n))


class _Values:
    """Values that fusion has in memory, and those that it recomputes. Of the copies between the
    first and the last of a stretch one is looked at: its nodes stand for those of their `row`."""

    def __init__(self, graph: Graph, at: At, parts: Sequence[tuple[Stretch, bool]]) -> None:
        self.at, self.parts = at, parts
        self.starts = [part.start for part, _ in parts]
        self.outputs = {*graph.outputs}
        self.typical: list[Node] = []
        for part, _ in parts:
            end = len(part.rows[0])
            for copy in sorted({0, 1, end // 2, end - 2, end - 1}.intersection(range(end))):
                self.typical += [row[copy] for row in part.rows]
        self.elements = self._elements()
        self.stored: set[Any] = self._stored() - self.elements
        self.stored |= {*graph.inputs, *graph.outputs}

    def row(self, n: Node) -> Any:
        """Equal for nodes that copies have in one place; of the first and the last itself."""
        at = self.at.get(n, -1)
        number = bisect.bisect(self.starts, at) - 1
        part = self.parts[number][0]
        copy, k = divmod(at - part.start, len(part.rows))
        return (number, k) if at >= 0 and 0 < copy < len(part.rows[0]) - 1 else n

    def is_stored(self, n: Node) -> bool:
        return n in self.stored or self.row(n) in self.stored

    def is_there(self, n: Node) -> bool:
        """True behind the copies: it is stored, or no value of theirs."""
        number = bisect.bisect(self.starts, self.at.get(n, -1)) - 1
        return number < 0 or not self.parts[number][1] or self.is_stored(n)

    def is_element(self, n: Node) -> bool:
        return self.row(n) in self.elements

    def _elements(self) -> set[Any]:
        """Values that `codegen.fuse.row_blocks` recomputes rather than stores: the scores of
        attention, and what is made of them."""
        found: set[Any] = set()
        for n in self.typical:
            if n.op is DOT:
                if is_shallow(n.aval, aval_of(n.args[0]).shape[-1]):
                    found.add(self.row(n))
            elif (
                n.op.kind in ("pointwise", "cast", "copy", "view")
                and len(n.avals) == 1
                and any(self.row(p) in found and p.aval.numel == n.aval.numel for p in n.parents)
            ):
                found.add(self.row(n))
        return found.difference(self.row(n) for n in self.typical if n in self.outputs)

    def _stored(self) -> set[Any]:
        """Values that fusion stores in memory in any case: results of products and the like, and
        what these read, up to where it is moved."""
        found: set[Any] = set()
        readers: dict[Any, set[Any]] = {}
        moved = {}  # products that may be computed the other way round
        for n in self.typical:
            for p in n.parents:
                readers.setdefault(self.row(p), set()).add(self.row(n))
            if n.op.kind in HEAVY:
                found.add(self.row(n))
                found.update(self.row(_in_memory(p)) for p in n.parents)
            elif n.op is PERMUTE and n.parents[0].op.kind == "contract":
                moved[self.row(n.parents[0])] = self.row(n)
        for product, instead in moved.items():
            if readers[product] == {instead}:
                found.remove(product)
                found.add(instead)
        return found


def _in_memory(operand: Node) -> Node:
    """The node whose memory `operand` is a strided view of, or itself."""
    chain = [operand]
    while chain[-1].op.keeps_order or chain[-1].op in (PERMUTE, SLICE):
        chain.append(chain[-1].parents[0])
    if len(chain) == 1:
        return operand
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

    def __init__(self, graph: Graph, at: At, stretches: Sequence[Stretch]) -> None:
        self.graph, self.at = graph, at
        self.parts: list[tuple[Stretch, bool]] = []  # and whether it is one of copies
        done = 0
        for each in (*stretches, None):
            end = len(graph.nodes) if each is None else each.start
            if done < end:
                between = Stretch.wired(graph.nodes, at, done, end - done)
                self.parts.append((between, False))
            if each is not None:
                self.parts.append((each, True))
                done = each.end
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
        values = _Values(self.graph, self.at, self.parts)
        read: list[Arg] = []
        for part, repeats in self.parts:
            is_free = values.is_stored if repeats else values.is_there
            part.settle(is_free, values.is_element)
            given = [*itertools.chain.from_iterable(part.given)]
            values.stored.update(given)
            read += given
        read += self.graph.outputs
        places = np.array([self.at.get(x, -1) for x in read])
        for part, repeats in self.parts:
            if repeats:
                own = places[(places >= part.start) & (places < part.end)] - part.start
                rows = dict.fromkeys((own % len(part.rows)).tolist())
                part.kept = {k: None for k in rows if part.rows[k][0].op is not CHECK}

    def _made(self, values: Iterable[Arg]) -> tuple[Arg, ...]:
        return tuple([self.made[x] if type(x) is Node else x for x in values])

    def _check(self, part: Stretch, name: str) -> None:
        """The checks of all copies, before the copies, as soon as they can: inputs are written when
        all checks are done."""
        if not part.checks():
            return
        (graph, columns), rows = part.early(name)
        read = {x for column in columns for x in column}
        place = self.first if read.issubset(self.graph.inputs) else self.nodes
        for copy, first in enumerate(part.rows[rows[0][0]]):
            handles = self._calls(place, graph, [x[copy] for x in columns], first.where)
            for handle, same in zip(handles, rows, strict=True):
                n = part.rows[same[0]][copy]
                check = Node(CHECK, (handle,), n.attrs, n.avals, n.where)
                place.append(check)
                self.made.update((part.rows[k][copy], check) for k in same)

    def _call(self, part: Stretch, name: str) -> None:
        graph, columns = part.body(name)
        kept = [part.rows[k] for k in part.kept]
        for copy, n in enumerate(part.rows[0]):
            handles = self._calls(self.nodes, graph, [x[copy] for x in columns], n.where)
            self.made.update(zip([row[copy] for row in kept], handles, strict=True))

    def _calls(
        self, place: list[Node], body: Graph, given: Iterable[Arg], where: Where
    ) -> tuple[Node, ...]:
        """Results of a call of the body for a copy; the nodes are appended to `place`."""
        avals = tuple([o.aval for o in body.outputs])
        call = Node(CALL, self._made(given), {"graphs": (body,)}, avals, where)
        handles = items(call)
        place += dict.fromkeys((call, *handles))
        return handles

    def _between(self, part: Stretch) -> None:
        given = self._made([column[0] for column in part.given])
        made: dict[int | Column, Arg] = dict(zip(part.given, given, strict=True))
        self.nodes += part.compute(made, 0)
        for k, ((n,), args) in enumerate(zip(part.rows, part.args, strict=True)):
            made[k] = self.made[n] = new = _copied(n, args, made, 0)
            self.nodes.append(new)


_AND: Final = REGISTRY["logical_and"]
