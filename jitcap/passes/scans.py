"""Passes: loops of a known length. Graph -> Graph.

`share_scans` makes one loop of those that carry the same values: the backward asks its forward for
more of what that computes. `trim_scan` drops what nobody reads, and takes out of a body what no
step changes. `split_scans` takes out the matrix products that the carried values do not wait for:
those of the sequences are done before the loop, those that only its results are made of after it,
for all steps at once. `accumulate` adds up in the loop what would be stacked only to be summed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from eager.base.dataclass import dataclass
from eager.core.op import REGISTRY
from eager.ops.contract import DOT
from eager.ops.create import FULL
from eager.ops.reduce import SUM
from eager.ops.view import EXPAND
from eager.sizes.aval import same_aval
from eager.sizes.symint import is_one, known_lt
from jitcap.base.walks import reach
from jitcap.graph.graph import (
    INPUT,
    ITEM,
    Arg,
    Graph,
    Node,
    Rewriter,
    aval_of,
    items,
    placeholder,
    reachable,
    size_inputs,
    stand_in,
)
from jitcap.graph.loops import SCAN, body_of, split
from jitcap.passes.batching import batch, can_batch
from jitcap.passes.common_subexpressions import call_key
from jitcap.passes.dead import dead_code

Results = dict[int, Arg]  # by the number of the output


def has_scans(graph: Graph) -> bool:
    return any(n.op is SCAN for n in graph.nodes)


def rewrite_scans(graph: Graph, rule: Callable[[Rewriter, Node], Results | None]) -> Graph:
    """`rule(rewriter, scan)`: what its outputs become, or None to keep it."""
    if not has_scans(graph):
        return graph
    r = Rewriter(graph)
    results: dict[Node, Results] = {}
    for n in graph.nodes:
        if n.op is ITEM and n.parents[0] in results:
            found = results[n.parents[0]].get(n.attrs["index"])
            if found is not None:
                r.mapped[n] = found
            continue
        made = rule(r, n) if n.op is SCAN else None
        if made is None:
            r.mapped[n] = r.keep(n, r.args(n))
            continue
        results[n] = made
        if len(n.avals) == 1:
            r.mapped[n] = made[0]
    return r.finish()


@dataclass(eq=False, slots=True)
class Body:
    """A scan taken apart: (input of the body, operand) by what it is."""

    carries: list[tuple[Node, Arg]]
    sequences: list[tuple[Node, Arg]]
    constants: list[tuple[Node, Arg]]
    counters: list[tuple[Node, Arg, int]]
    graph: Graph
    length: int
    reverse: bool

    @classmethod
    def of(cls, n: Node, args: Sequence[Arg]) -> Body:
        body = body_of(n)
        places, given = split(body.inputs, n.attrs), split(args, n.attrs)
        carries, sequences, constants, counters = (
            list(zip(a, b, strict=True)) for a, b in zip(places, given, strict=True)
        )
        counting = [(p, x, s) for (p, x), s in zip(counters, n.attrs["steps"], strict=True)]
        return cls(
            carries, sequences, constants, counting, body, n.attrs["length"], n.attrs["reverse"]
        )

    @property
    def ends(self) -> tuple[Node, ...]:
        return self.graph.outputs[: len(self.carries)]

    @property
    def ys(self) -> tuple[Node, ...]:
        return self.graph.outputs[len(self.carries) :]

    def append(self, r: Rewriter, like: Node) -> Sequence[Node]:
        """The scan, without inputs that the body does not read; handles of its outputs."""
        read = {*self.graph.outputs, *(p for n in self.graph.nodes for p in n.parents)}
        sequences = _once([(p, x) for p, x in self.sequences if p in read])
        constants = _once([(p, x) for p, x in self.constants if p in read])
        counters = [c for c in self.counters if c[0] in read]
        constants += self._sizes(r, sequences, constants)
        by = _joined(self.sequences, sequences) | _joined(self.constants, constants)
        graph = substitute(self.graph, by)
        rows = [*self.carries, *sequences, *constants, *((p, x) for p, x, _ in counters)]
        attrs = {
            "graphs": (graph.with_(inputs=tuple(p for p, _ in rows)),),
            "carried": len(self.carries),
            "sequences": len(sequences),
            "length": self.length,
            "reverse": self.reverse,
            "steps": tuple(s for _, _, s in counters),
        }
        handles = items(r.emit(SCAN, tuple(x for _, x in rows), attrs, like))
        if len(handles) > 1:
            r.nodes.extend(handles)
        return handles

    def _sizes(self, r: Rewriter, *given: list[tuple[Node, Arg]]) -> list[tuple[Node, Arg]]:
        """The symbols that sizes are made of, and that are no operand yet. Those that data decide
        are constants of the body already, which it may not read."""
        there = {x for rows in given for _, x in rows if isinstance(x, Node)}
        shapes = [p.aval.shape for rows in (self.carries, *given) for p, _ in rows]
        own = {p: x for p, x in self.constants if isinstance(x, Node)}
        rows = [
            (stand_in(n, "unread"), n)
            for n in size_inputs(r.graph.inputs, self.graph.nodes, *shapes)
        ]
        rows += [(p, own[p]) for p in size_inputs(own, self.graph.nodes, *shapes)]
        return _once([(p, x) for p, x in rows if x not in there])


def _once(rows: list[tuple[Node, Arg]]) -> list[tuple[Node, Arg]]:
    """One input for each operand."""
    return list({_key(x): (p, x) for p, x in reversed(rows)}.values())[::-1]


def _key(x: Arg) -> Any:
    return x if isinstance(x, Node) else (type(x), repr(x))


def _joined(rows: list[tuple[Node, Arg]], kept: list[tuple[Node, Arg]]) -> dict[Node, Arg]:
    first = {_key(x): p for p, x in kept}
    return {p: first[_key(x)] for p, x in rows if first.get(_key(x), p) is not p}


def substitute(graph: Graph, by: dict[Node, Arg]) -> Graph:
    """The graph with other values in the place of inputs."""
    if not by:
        return graph
    r = _inner(graph)
    r.mapped.update(by)
    for n in graph.nodes:
        r.mapped[n] = r.keep(n, r.args(n))
    outputs = tuple(r.mapped[o] for o in graph.outputs)
    assert all(isinstance(o, Node) for o in outputs)
    return graph.with_(nodes=tuple(r.nodes), outputs=outputs)


def _inner(graph: Graph) -> Rewriter:
    """A rewriter of a body, which may read inputs that are not listed yet."""
    r = Rewriter(graph)
    read = (*(p for n in graph.nodes for p in n.parents), *graph.outputs)
    r.mapped.update({p: p for p in read if p.op is INPUT})
    return r


# ---------------------------------------------------------------------------- one of several


def share_scans(graph: Graph) -> Graph:
    """Loops over the same carried values become one, where the first stands."""
    groups = _groups(graph)
    if not groups:
        return graph
    first = {n: group for group in groups for n in group}
    done: dict[Node, Results] = {}

    def rule(r: Rewriter, n: Node) -> Results | None:
        group = first.get(n)
        if group is None:
            return None
        if n is group[0]:
            done.update(_united(r, group))
        return done[n]

    return rewrite_scans(graph, rule)


def _groups(graph: Graph) -> list[list[Node]]:
    """Scans whose carried values are the same, and whose operands are there at the first."""
    if not has_scans(graph):
        return []
    position = {n: i for i, n in enumerate(graph.everything())}
    numbers: dict[Any, int] = {}
    found: dict[Any, list[Node]] = {}
    for n in graph.nodes:
        if n.op is SCAN and n.attrs["carried"]:
            group = found.setdefault(_carried_key(n, numbers), [])
            at = position[group[0]] if group else 0
            if not group or all(position[p] < at for p in n.parents):
                group.append(n)
    return [group for group in found.values() if len(group) > 1]


def _carried_key(n: Node, numbers: dict[Any, int]) -> Any:
    """Equal for scans whose carries are the same values at every step."""
    body = Body.of(n, n.args)
    known: dict[Node, Any] = {p: ("carry", i) for i, (p, _) in enumerate(body.carries)}
    known |= {p: ("step of", _key(x)) for p, x in body.sequences}
    known |= {p: ("value", _key(x)) for p, x in body.constants}
    known |= {p: ("counter", _key(x), step) for p, x, step in body.counters}
    for each in dead_code(body.graph.with_(outputs=body.ends)).nodes:
        op, _, attrs, avals = call_key(each, ())
        args = tuple([known[a] if isinstance(a, Node) else _key(a) for a in each.args])
        known[each] = numbers.setdefault((op, args, attrs, avals), len(numbers))
    start = tuple(_key(x) for _, x in body.carries)
    return body.length, body.reverse, start, tuple(known[o] for o in body.ends)


def _united(r: Rewriter, group: list[Node]) -> dict[Node, Results]:
    """One scan with the outputs of all of them."""
    bodies = [Body.of(n, r.args(n)) for n in group]
    whole, count = bodies[0], len(bodies[0].carries)
    nodes, ys = list(whole.graph.nodes), list(whole.ys)
    places = [range(len(ys))]
    for other in bodies[1:]:
        pairs = zip(other.carries, whole.carries, strict=True)
        by: dict[Node, Arg] = {p: q for (p, _), (q, _) in pairs}
        graph = substitute(other.graph, by)
        nodes += graph.nodes
        more = graph.outputs[count:]
        places.append(range(len(ys), len(ys) + len(more)))
        ys += more
        whole.sequences += other.sequences
        whole.constants += other.constants
        whole.counters += other.counters
    whole.graph = whole.graph.with_(nodes=tuple(nodes), outputs=(*whole.ends, *ys))
    handles = whole.append(r, group[0])
    return {
        n: {
            **{k: handles[k] for k in range(count)},
            **{count + j: handles[count + i] for j, i in enumerate(place)},
        }
        for n, place in zip(group, places, strict=True)
    }


# ---------------------------------------------------------------------------- what is not needed


def trim_scan(r: Rewriter, n: Node, read: Sequence[int]) -> Results:
    """Outputs of a scan that are `read`; nothing is carried or computed for the others."""
    body = Body.of(n, r.args(n))
    count = len(body.carries)
    results: Results = {}
    _constant_steps(r, n, body)
    live = _live(body, read)
    still = [k for k in live if body.ends[k] is body.carries[k][0]]
    for k in still:  # it stays what it was at first
        results[k] = body.carries[k][1]
        body.constants.append(body.carries[k])
    kept = [k for k in live if k not in still]
    ys = [i for i in read if i >= count]
    given = dict(body.sequences)
    for i in ys:  # handed on as they are
        whole = given.get(body.graph.outputs[i])
        if isinstance(whole, Node) and same_aval(whole.aval, n.avals[i]):
            results[i] = whole
    ys = [i for i in ys if i not in results]
    outputs = [body.graph.outputs[i] for i in (*kept, *ys)]
    body.carries = [body.carries[k] for k in kept]
    body.graph = dead_code(body.graph.with_(outputs=tuple(outputs)))
    if not outputs:
        return results
    _take_out(r, n, body)
    where: dict[Any, int] = {}  # one place for each y
    distinct = list(body.ends)
    for i, y in zip(ys, body.ys, strict=True):
        if y not in where:
            where[y] = len(distinct)
            distinct.append(y)
        results[i] = where[y]
    body.graph = body.graph.with_(outputs=tuple(distinct))
    handles = body.append(r, n)
    for i in ys:
        results[i] = handles[results[i]]  # type: ignore[index]
    return results | dict(zip(kept, handles, strict=False))


def _live(body: Body, read: Sequence[int]) -> list[int]:
    """The carries that the outputs `read` depend on."""
    count = len(body.carries)
    live = {k for k in read if k < count}
    while True:
        wanted = [*(body.ends[k] for k in live), *(body.graph.outputs[i] for i in read)]
        needed = reachable(wanted)
        more = {k for k in range(count) if body.carries[k][0] in needed} - live
        if not more:
            return sorted(live)
        live |= more


def _constant_steps(r: Rewriter, n: Node, body: Body) -> None:
    """A sequence whose steps are all the same is a constant; a constant number is one there."""
    by: dict[Node, Arg] = {}
    sequences = []
    for place, x in body.sequences:
        if isinstance(x, Node) and _repeats(x):
            one = r.emit(_SELECT, (x,), {"dim": 0, "index": 0}, n)
            body.constants.append((place, one))
        else:
            sequences.append((place, x))
    body.sequences = sequences
    constants: list[tuple[Node, Arg]] = []
    fills: list[Node] = []
    for place, x in body.constants:
        if not isinstance(x, Node):
            by[place] = x
        elif x.op is FULL and not x.parents:
            fills.append(Node(x.op, x.args, x.attrs, x.avals, x.where))
            by[place] = fills[-1]
        else:
            constants.append((place, x))
    body.constants = constants
    if any(o in by for o in body.graph.outputs if not isinstance(by.get(o), Node)):
        return  # a number is no output
    graph = substitute(body.graph, by)
    body.graph = graph.with_(nodes=(*fills, *graph.nodes))


def _repeats(x: Node) -> bool:
    """True if all steps of `x` are the same."""
    if x.op is FULL:
        return True
    if x.op is not EXPAND:
        return False
    (source,) = x.parents
    return source.aval.ndim < x.aval.ndim or is_one(source.aval.shape[0])


def _take_out(r: Rewriter, n: Node, body: Body) -> None:
    """Hoist loop-invariant values out of the body."""
    outside: dict[Node, Arg] = dict(body.constants)
    ends = set(body.graph.outputs)
    moved: dict[Node, Arg] = {}
    for each in body.graph.nodes:
        fixed = each.parents and all(p in outside for p in each.parents)
        if fixed and each not in ends and len(each.avals) == 1 and not each.op.raises:
            args = tuple(outside[a] if isinstance(a, Node) else a for a in each.args)
            made = r.append(Node(each.op, args, each.attrs, each.avals, each.where))
            outside[each] = moved[each] = made
    if not moved:
        return
    rest = [m for m in body.graph.nodes if m not in moved]
    read = {p for m in rest for p in m.parents}
    given = {m: placeholder("x", m.aval) for m in moved if m in read}
    body.constants += [(given[m], moved[m]) for m in given]
    rewriter = _inner(body.graph)
    rewriter.mapped.update(given)
    for m in rest:
        rewriter.mapped[m] = rewriter.keep(m, rewriter.args(m))
    body.graph = rewriter.finish()


# ---------------------------------------------------------------------------- products


def split_scans(graph: Graph) -> Graph:
    """Products that the carried values do not wait for leave their loops."""
    return rewrite_scans(graph, _split)


def _split(r: Rewriter, n: Node) -> Results | None:
    if known_lt(n.attrs["length"], 2):
        return None
    splitter = _Splitter(r, n)
    return splitter.run()


class _Splitter:
    """One scan: which nodes of the body go before the loop, and which behind it."""

    def __init__(self, r: Rewriter, n: Node) -> None:
        self.r, self.n = r, n
        self.body = body = Body.of(n, r.args(n))
        self.outside: dict[Node, tuple[Arg, bool]] = {p: (x, True) for p, x in body.sequences}
        self.outside |= {p: (x, False) for p, x in body.constants}
        self.needed = reachable(body.ends)
        self.free: set[Node] = set(self.outside)  # of the carried values
        for each in body.graph.nodes:
            if all(p in self.free for p in each.parents):
                self.free.add(each)

    def run(self) -> Results | None:
        before, after = self.before(), self.after()
        if not before and not after:
            return None
        self.hoist(before)
        return self.sink(after)

    def before(self) -> list[Node]:
        """Products of the sequences."""
        return [
            d for d in self.body.graph.nodes if d.op is DOT and d in self.free and self.can_leave(d)
        ]

    def can_leave(self, n: Node) -> bool:
        """True if a node, and all that it is made of, can be computed for all steps at once."""
        every = reach([n], lambda each: () if each in self.outside else each.parents)
        return all(m in self.outside or not m.parents or can_batch(m) for m in every)

    def after(self) -> set[Node]:
        """Products that no carry is made of, and all that is made of them."""
        users = self.body.graph.users()
        found: set[Node] = set()
        for d in self.body.graph.nodes:
            if d.op is DOT and d not in self.needed and d not in self.free:
                reached = _descendants(d, users)
                if self.can_follow(reached):
                    found |= reached
        if found:  # sums of what leaves the loop anyway
            leaving = {p for m in found for p in m.parents} - found
            leaving = {_base(p) for p in leaving} | set(self.body.ys) | set(self.outside)
            for m in self.body.graph.nodes:
                alone = m.op is SUM and m not in self.needed and m not in found
                if alone and _base(m.parents[0]) in leaving and can_batch(m):
                    reached = _descendants(m, users)
                    if self.can_follow(reached):
                        found |= reached
        return found

    def can_follow(self, reached: set[Node]) -> bool:
        """True if they can be computed for all steps at once, behind the loop. The numbers of all
        steps are a tensor there, which promotes as one: what reads a number of its step stays."""
        read = {p for m in reached for p in m.parents} - reached
        numbers = any(p.aval.weak and p not in self.outside for p in read)
        return not numbers and all(map(can_batch, reached))

    def hoist(self, products: Sequence[Node]) -> None:
        """Compute them before the loop: they become sequences."""
        given: dict[Node, Node] = {}
        for d in products:
            stack, every = self.all_steps(d)
            if every:
                given[d] = placeholder("x", d.aval)
                self.body.sequences.append((given[d], stack))
        if not given:
            return
        w = _inner(self.body.graph)
        for m in self.body.graph.nodes:
            w.mapped[m] = given[m] if m in given else w.keep(m, w.args(m))
        old = self.body.graph
        self.body.graph = w.finish()
        self.renamed = {m: w.mapped[m] for m in old.nodes}

    renamed: dict[Node, Arg] | None = None

    def all_steps(self, n: Node) -> tuple[Arg, bool]:
        """A value of the body for all steps, outside of it; and whether it has steps."""
        if n in self.outside:
            return self.outside[n]
        operands = [self.all_steps(a) if isinstance(a, Node) else (a, False) for a in n.args]
        if any(every for _, every in operands):
            made: Arg = batch(self.r, n, operands, self.body.length)
            found = made, True
        else:
            args = tuple(x for x, _ in operands)
            found = self.r.append(Node(n.op, args, n.attrs, n.avals, n.where)), False
        self.outside[n] = found
        return found

    def sink(self, leaving: set[Node]) -> Results:
        """The loop without them, then they for all steps."""
        body, count = self.body, len(self.body.carries)
        old = body_of(self.n)
        wanted = [y for y in old.outputs[count:] if y in leaving]
        stacked = self.boundary(leaving)
        kept = [i for i in range(count, len(old.outputs)) if old.outputs[i] not in leaving]

        def now(m: Node) -> Node:
            found = m if self.renamed is None else self.renamed.get(m, m)
            assert isinstance(found, Node)
            return found

        ends = (*body.ends, *(now(old.outputs[i]) for i in kept), *map(now, stacked))
        body.graph = dead_code(body.graph.with_(outputs=ends))
        handles = body.append(self.r, self.n)
        results: Results = dict(zip((*range(count), *kept), handles, strict=False))
        for m, handle in zip(stacked, handles[count + len(kept) :], strict=True):
            self.outside[m] = handle, True
        for y in dict.fromkeys(wanted):
            value, every = self.all_steps(y)
            if not every:
                shape = (body.length, *aval_of(value).shape)
                value = self.r.emit(_EXPAND, (value,), {"shape": shape}, self.n)
            results.update({i: value for i in range(count, len(old.outputs))
                            if old.outputs[i] is y})  # fmt: skip
        return results

    def boundary(self, leaving: set[Node]) -> list[Node]:
        """Values that stay and that `leaving` reads: beneath views, which are done again."""
        found: dict[Node, None] = {}
        stack = [p for m in leaving for p in m.parents if p not in leaving]
        while stack:
            m = stack.pop()
            if m in self.outside:
                continue
            if m.op.kind == "view" and can_batch(m):
                stack += [p for p in m.parents if p not in leaving]
            elif m.parents or m in self.body.graph.inputs or m in body_of(self.n).inputs:
                found[m] = None
        position = {m: i for i, m in enumerate(body_of(self.n).everything())}
        return sorted(found, key=position.__getitem__)


def _descendants(n: Node, users: dict[Node, list[Node]]) -> set[Node]:
    return {*reach([n], users.__getitem__)}


def _base(n: Node) -> Node:
    while n.op.kind == "view":
        (n,) = n.parents
    return n


# ---------------------------------------------------------------------------- sums over time


def accumulate(graph: Graph) -> Graph:
    """Add up in the loop what is stacked only to be summed over the steps."""
    if not has_scans(graph):
        return graph
    users = graph.users()
    outputs = set(graph.outputs)
    sums: dict[Node, Node] = {}  # the stack -> its sum
    for n in graph.nodes:
        stack = n.parents[0] if n.op is SUM else None
        if stack is None or stack.op is not ITEM or stack.parents[0].op is not SCAN:
            continue
        alone = users[stack] == [n] and stack not in outputs
        whole = n.attrs["dim"] == (0,) and not n.attrs["keepdim"] and n.aval.ndim
        if alone and whole and stack.aval.dtype is n.aval.dtype:
            sums[stack] = n
    if not sums:
        return graph
    by_scan: dict[Node, dict[int, Node]] = {}
    for stack in sums:
        by_scan.setdefault(stack.parents[0], {})[stack.attrs["index"]] = stack

    def rule(r: Rewriter, n: Node) -> Results | None:
        wanted = by_scan.get(n)
        return None if wanted is None else _added_up(r, n, sorted(wanted))

    done = rewrite_scans(graph, rule)
    return done


def _added_up(r: Rewriter, n: Node, which: Sequence[int]) -> Results:
    body, count = Body.of(n, r.args(n)), len(n.avals)
    old, carried = body.graph.outputs, len(body.carries)
    nodes, ends = list(body.graph.nodes), []
    for i in which:
        y = old[i]
        total = placeholder("total", y.aval)
        zeros = r.emit(_FULL, (0,), {"shape": y.aval.shape, "dtype": y.aval.dtype}, n)
        nodes.append(Node(_ADD, (total, y), {}, (y.aval,), n.where))
        ends.append(nodes[-1])
        body.carries.append((total, zeros))
    kept = [i for i in range(carried, count) if i not in which]
    outputs = (*old[:carried], *ends, *(old[i] for i in kept))
    body.graph = body.graph.with_(nodes=tuple(nodes), outputs=outputs)
    handles = body.append(r, n)
    results: Results = dict(zip(range(carried), handles, strict=False))
    for i, total in zip(which, handles[carried:], strict=False):
        shape = (1, *total.aval.shape)  # its sum over one step
        results[i] = r.emit(_RESHAPE, (total,), {"shape": shape}, n)
    results |= dict(zip(kept, handles[carried + len(which) :], strict=True))
    return results


_SELECT: Final = REGISTRY["select"]
_EXPAND: Final = REGISTRY["expand"]
_RESHAPE: Final = REGISTRY["reshape"]
_FULL: Final = REGISTRY["full"]
_ADD: Final = REGISTRY["add"]
