"""Beside the passes: every rewrite of a graph once more, one by one. Graph -> what each changed.

Passes are functions of the graph, so that nothing is kept while they run: who wants to see them has
them run again. A node keeps its name from one graph to the next, and so does one that takes the
place of a node of the same op and line: a difference shows what was rewritten, not renumbered.
"""

from __future__ import annotations

import difflib
from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
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


class _Names:
    """The names of nodes, over the graphs that passes make of one."""

    def __init__(self, graph: Graph) -> None:
        self.names: dict[Node, str] = {}
        self.counts = Counter[str]()
        for each in (graph, *_bodies(graph)):
            self.names |= name_nodes(each)
        self.counts.update(name.rpartition("_")[0] or name for name in self.names.values())
        self.said: dict[Node, tuple[list[Any], list[str]]] = {}  # by the names that are in it
        self.lines = [*self._lines(graph)]

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
        lines, self.lines = self.lines, [*self._lines(graph)]
        changes = difflib.unified_diff(lines, self.lines, lineterm="", n=NEAR)
        return "\n".join(line for line in changes if not line.startswith(("--- ", "+++ ")))

    def _new(self, node: Node) -> str:
        base = str(node.attrs.get("name", node.op.name))
        self.counts[base] += 1
        return f"{base}_{self.counts[base]}"

    def _lines(self, graph: Graph) -> Iterator[str]:
        """A function for each graph, those that nodes hold first."""
        bodies = _bodies(graph)
        inner = {each: f"{function_name(each)}_{i}" for i, each in enumerate(bodies)}
        for each in (*bodies, graph):
            name = inner.get(each) or function_name(each)
            yield f"def {name}({self._listed(each.inputs)}):"
            for node in each.nodes:
                yield from self._statement(node, inner)
            yield f"    return {self._listed(each.outputs)}"

    def _statement(self, node: Node, inner: dict[Graph, str]) -> list[str]:
        """The lines of a node; most nodes say in a graph what they said in the one before."""
        if subgraphs(node):
            return statement(node, self.names, inner)
        names = [self.names[node], *(self.names[a] for a in node.parents)]
        known = self.said.get(node)
        if known is None or known[0] != names:
            known = self.said[node] = names, statement(node, self.names, inner)
        return known[1]

    def _listed(self, nodes: Sequence[Node]) -> str:
        more = [f"... {len(nodes) - LISTED} more"] if len(nodes) > LISTED else []
        return ", ".join([*(self.names[n] for n in nodes[:LISTED]), *more])


def _bodies(graph: Graph) -> list[Graph]:
    """The graphs that nodes hold, each once, inner ones first."""
    return [*dict.fromkeys(g for n in everywhere(graph) for g in subgraphs(n))]


def _kind(node: Node) -> Any:
    return node.op.name, node.where, node.avals, node.attrs.get("name")
