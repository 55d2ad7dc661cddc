"""Beside the passes: every rewrite of a graph once more, one by one. Graph -> what each changed.

Passes are functions of the graph, so that nothing is kept while they run: who wants to see them has
them run again. A node keeps its name from one graph to the next, and so does one that takes the
place of a node of the same op and line: a difference shows what was rewritten, not renumbered.
"""

from __future__ import annotations

import difflib
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import partial
from typing import Any, Final

from eager.base.dataclass import dataclass
from jitcap.graph.graph import Arg, Graph, Node, Where
from jitcap.graph.show import function_name, name_nodes, statement
from jitcap.graph.subgraphs import everywhere, subgraphs
from jitcap.passes import PASSES, inside
from jitcap.passes.repeats import share_repeats
from jitcap.passes.rules import Rule
from jitcap.passes.simplify import simplify

NEAR: Final = 2  # lines around a change
LONGEST: Final = 60_000  # letters of a difference
LISTED: Final = 12  # inputs and outputs of a graph
SHOWN: Final = 4  # lines that a rule is shown with


@dataclass(frozen=True, slots=True)
class Rewrite:
    """One pass that changed a graph, or, by its name `body`, a graph inside a node. `fired`: the
    rules that replaced nodes, each with what it says and the lines of those nodes."""

    name: str
    why: str
    body: str
    diff: str
    fired: Mapping[tuple[str, str], Sequence[Where]] = field(default_factory=dict)

    @property
    def title(self) -> str:
        return f"{self.name} in {self.body}" if self.body else self.name

    def __str__(self) -> str:
        """Text of what was done, by which rules, and the difference that it made."""
        lines = [f"# {self.title}: {self.why}"]
        for (rule, says), places in sorted(self.fired.items(), key=lambda item: -len(item[1])):
            known = [place for place in dict.fromkeys(p.place for p in places) if place]
            more = f" and {len(known) - SHOWN} more" if len(known) > SHOWN else ""
            named = f"{rule}: {says}" if says else rule
            lines.append(f"# {len(places)} × {named}  at {', '.join(known[:SHOWN])}{more}")
        return "\n".join([*lines, self.diff])


def rewrites(graph: Graph, *, shares: bool) -> list[Rewrite]:
    """Changes of each pass, in order. `shares`: equal layers become calls first."""
    found: list[Rewrite] = []
    names = _Names(graph)
    if shares:
        before, graph = graph, share_repeats(graph)
        if graph is not before:
            why = "equal layers are calls of one graph, which is compiled once"
            found.append(Rewrite("share_repeats", why, "", names.follow(graph)))
    _passes(graph, names, "", found)
    return [each for each in found if each.diff or each.fired]


def _passes(graph: Graph, names: _Names, body: str, found: list[Rewrite]) -> Graph:
    """The graph after all passes; each that changes it is added to `found`."""
    for each, why in PASSES:
        before, fired = graph, dict[tuple[str, str], list[Where]]()
        if each is simplify:
            graph = simplify(graph, partial(_note, fired))
        elif each is inside:
            graph = inside(graph, lambda g: _passes(g, _Names(g), function_name(g), found))
        else:
            graph = each(graph)
        if graph is not before:
            found.append(Rewrite(each.__name__, why, body, names.follow(graph), fired))
    return graph


def _note(fired: dict[tuple[str, str], list[Where]], rule: Rule, before: Node, after: Arg) -> None:
    says = " ".join((rule.__doc__ or "").split())
    name = getattr(rule, "__name__", str(rule)).lstrip("_")
    fired.setdefault((name, says), []).append(before.where)


Row = tuple[int, Callable[[], str]]  # a number, equal for equal lines, and what they are


def _said(node: Node, names: dict[Node, str], inner: dict[Graph, str]) -> str:
    return "\n".join(statement(node, names, inner))


def _difference(before: Sequence[Row], after: Sequence[Row]) -> str:
    """The difference in lines, of which only those near a change are made, up to `LONGEST`
    letters."""
    lines, letters, left = list[str](), 0, 0
    for sign, said in _changes(before, after):
        if letters > LONGEST:
            left += 1
            continue
        lines += [sign + line for line in said().split("\n")]
        letters += len(lines[-1])
    more = [f"# … {left} more lines"] if left else []
    return "\n".join([*lines, *more])


def _changes(
    before: Sequence[Row], after: Sequence[Row]
) -> Iterator[tuple[str, Callable[[], str]]]:
    """The lines of a difference: their signs, and what makes them."""
    old, new = ([number for number, _ in rows] for rows in (before, after))
    matcher = difflib.SequenceMatcher(a=old, b=new)
    for group in matcher.get_grouped_opcodes(NEAR):
        (_, i, _, j, _), (_, _, k, _, n) = group[0], group[-1]
        head = f"@@ -{i + 1},{k - i} +{j + 1},{n - j} @@"
        yield "", lambda head=head: head  # type: ignore[misc]
        for tag, start, end, other, stop in group:
            if tag == "equal":
                yield from ((" ", said) for _, said in after[other:stop])
            else:
                yield from (("-", said) for _, said in before[start:end])
                yield from (("+", said) for _, said in after[other:stop])


class _Names:
    """The names of nodes, over the graphs that passes make of one."""

    def __init__(self, graph: Graph) -> None:
        self.names: dict[Node, str] = {}
        self.counts = Counter[str]()
        for each in (graph, *_bodies(graph)):
            self.names |= name_nodes(each)
        self.counts.update(name.rpartition("_")[0] or name for name in self.names.values())
        self.numbers: dict[Any, int] = {}  # of what lines say, by that
        self.made: dict[Graph, Sequence[Row]] = {}
        self.texts: dict[int, tuple[Any, str]] = {}  # of attributes and avals, by their ids
        self.rows = [*self._rows(graph)]

    def follow(self, graph: Graph) -> str:
        """The difference from the graph before, in lines."""
        nodes = dict.fromkeys(everywhere(graph))
        gone: dict[Any, deque[str]] = defaultdict(deque)
        for node, name in self.names.items():
            if node not in nodes:
                gone[_kind(node)].append(name)
        before, self.names = self.names, {}
        for node in nodes:
            left = gone[_kind(node)]
            self.names[node] = before.get(node) or (left.popleft() if left else self._new(node))
        rows, self.rows = self.rows, [*self._rows(graph)]
        return _difference(rows, self.rows)

    def _new(self, node: Node) -> str:
        base = str(node.attrs.get("name", node.op.name))
        self.counts[base] += 1
        return f"{base}_{self.counts[base]}"

    def _rows(self, graph: Graph) -> Iterator[Row]:
        """A function for each graph, those that nodes hold first."""
        bodies = _bodies(graph)
        inner = {each: f"{function_name(each)}_{i}" for i, each in enumerate(bodies)}
        for each in (*bodies, graph):
            name = inner.get(each) or function_name(each)
            yield self._row(f"def {name}({self._listed(each.inputs)}):")
            rows = self.made.get(each)  # names of nodes stay
            if rows is None:
                rows = [*self._statements(each, inner)]
                if not any(map(subgraphs, each.nodes)):
                    self.made[each] = rows
            yield from rows
            yield self._row(f"    return {self._listed(each.outputs)}")

    def _statements(self, graph: Graph, inner: dict[Graph, str]) -> Iterator[Row]:
        names = self.names
        for node in graph.nodes:
            if subgraphs(node):
                yield self._row(_said(node, names, inner))
                continue
            said = (
                names[node], node.op.name, node.where[:2],
                tuple([names[x] if type(x) is Node else (type(x), repr(x)) for x in node.args]),
                self._text(node.attrs), self._text(node.avals),
            )  # fmt: skip
            number = self.numbers.setdefault(said, len(self.numbers))
            yield number, partial(_said, node, names, inner)

    def _row(self, text: str) -> Row:
        return self.numbers.setdefault(text, len(self.numbers)), lambda: text

    def _text(self, value: Any) -> str:
        known = self.texts.get(id(value))
        if known is None:
            known = self.texts[id(value)] = value, repr(value)
        return known[1]

    def _listed(self, nodes: Sequence[Node]) -> str:
        more = [f"... {len(nodes) - LISTED} more"] if len(nodes) > LISTED else []
        return ", ".join([*(self.names[n] for n in nodes[:LISTED]), *more])


def _bodies(graph: Graph) -> list[Graph]:
    """The graphs that nodes hold, each once, inner ones first."""
    return [*dict.fromkeys(g for n in everywhere(graph) for g in subgraphs(n))]


def _kind(node: Node) -> Any:
    return node.op.name, node.where, node.avals, node.attrs.get("name")
