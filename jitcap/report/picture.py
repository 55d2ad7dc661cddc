"""Graphs of the page, as pictures that fold. Graph -> nodes, and groups of them.

Nodes in a row that come from one function are a group, and so are stretches that repeat, as equal
layers do. A group is a stretch of the program, so that a picture of groups has no cycles.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from jitcap.graph.graph import INPUT, ITEM, Graph, Node, Where
from jitcap.graph.show import function_name, name_nodes
from jitcap.graph.subgraphs import subgraphs

LEAST: Final = 3  # repetitions that are one group
LONGEST: Final = 200  # groups, or nodes, in a repetition
SHORTEST: Final = 4  # nodes in one
DERIVATIVE: Final = ", derivative of "
Group = list[Any]  # [label, kind, first node, end, groups]


class Pictures:
    """Graphs as data: each once, those inside nodes by their numbers."""

    def __init__(self, number_of: Callable[[Where], int]) -> None:
        self.number_of = number_of
        self.made: list[dict[str, Any]] = []
        self._known: dict[Graph, int] = {}

    def add(self, graph: Graph) -> int:
        """The number of a graph."""
        if graph not in self._known:
            inner = {g: self.add(g) for n in graph.nodes for g in subgraphs(n)}
            self._known[graph] = len(self.made)
            self.made.append(self._picture(graph, inner))
        return self._known[graph]

    def _picture(self, graph: Graph, inner: dict[Graph, int]) -> dict[str, Any]:
        names = name_nodes(graph)
        shown = [n for n in graph.nodes if n.op is not ITEM]
        number = {n: i for i, n in enumerate(shown)} | {
            n: -1 - i for i, n in enumerate(graph.inputs)
        }
        nodes = []
        for n in shown:
            bodies = [inner[g] for g in subgraphs(n)]
            label = f"{names[n]}: {_function_of(subgraphs(n)[0].nodes)}" if bodies else names[n]
            read = dict.fromkeys(number[_whole(a)] for a in n.parents)
            types = ", ".join(map(repr, n.avals[:4])) + ", …" * (len(n.avals) > 4)
            nodes.append([label, n.op.name, types, self.number_of(n.where), [*read], bodies])
        return {
            "name": function_name(graph),
            "inputs": [[names[n], ", ".join(map(repr, n.avals))] for n in graph.inputs],
            "nodes": nodes,
            "groups": groups(shown),
        }


def _whole(n: Node) -> Node:
    """The node that a value is one of the outputs of."""
    while n.op is ITEM:
        (n,) = n.parents
    return n


def groups(nodes: Sequence[Node]) -> Group:
    """The group of all nodes: stretches by function, in derivatives by what they are of, and what
    repeats among stretches or in one."""
    names = [_short(n.where.function) for n in nodes]
    outer = [name.partition(DERIVATIVE)[0] + ", backward" * (DERIVATIVE in name) for name in names]
    kinds = [*map(_kind, nodes)]
    found = _repeated(_runs(outer, 0, len(nodes)), kinds)
    for group in _leaves(found):
        inner = _runs(names, group[2], group[3])
        if len(inner) == 1:
            inner = [[names[i], "node", i, i + 1, []] for i in range(group[2], group[3])]
            group[4] = [g for g in _repeated(inner, kinds, SHORTEST) if g[1] != "node"]
        else:
            group[4] = _several(_repeated(inner, kinds))
    return ["", "graph", 0, len(nodes), _several(found)]


def _runs(names: Sequence[str], first: int, end: int) -> list[Group]:
    """Stretches of one name."""
    found: list[Group] = []
    for i in range(first, end):
        if found and found[-1][0] == names[i]:
            found[-1][3] = i + 1
        else:
            found.append([names[i], "function", i, i + 1, []])
    return found


def _leaves(found: Iterable[Group]) -> Iterator[Group]:
    """The stretches in groups of repetitions, and those in none."""
    for group in found:
        if group[1] == "function":
            yield group
        yield from _leaves(group[4])


def _repeated(runs: list[Group], kinds: Sequence[object], shortest: int = 1) -> list[Group]:
    """The stretches, with groups of those that repeat."""
    known: dict[object, int] = {}
    numbers = [known.setdefault(tuple(kinds[r[2] : r[3]]), len(known)) for r in runs]
    whole: list[Group] = []
    at = 0
    for start, period, count in repeats(numbers, shortest):
        whole += runs[at:start]
        at = start + period * count
        label = _most_of(runs[start : start + period])
        copies = [runs[k : k + period] for k in range(start, at, period)]
        each = [
            [f"{label} {k}", "copy", c[0][2], c[-1][3], [g for g in c if g[1] != "node"]]
            for k, c in enumerate(copies)
        ]
        first, end = runs[start][2], runs[at - 1][3]
        whole.append([f"{count} × {label}", "repeat", first, end, each])
    return whole + runs[at:]


def repeats(kinds: Sequence[int], shortest: int = 1) -> Iterator[tuple[int, int, int]]:
    """Stretches that repeat: (start, length of one, how many), in order and disjoint."""
    at = 0
    while at < len(kinds):
        best = (0, 0, 0)  # covered, -period, count
        for period in range(shortest, min(LONGEST, (len(kinds) - at) // LEAST) + 1):
            count = 1
            while _is_copy(kinds, at, period, count):
                count += 1
            if count >= LEAST:
                best = max(best, (period * count, -period, count))
        if best[2]:
            yield at, -best[1], best[2]
        at += best[0] or 1


def _is_copy(kinds: Sequence[int], at: int, period: int, count: int) -> bool:
    start = at + period * count
    if start >= len(kinds) or kinds[at] != kinds[start]:
        return False
    return kinds[at : at + period] == kinds[start : start + period]


def _most_of(runs: Sequence[Group]) -> str:
    """The name that most nodes have."""
    counts = Counter[str]()
    for name, _, first, end, _ in runs:
        counts[name] += end - first
    return counts.most_common(1)[0][0]


def _several(found: list[Group]) -> list[Group]:
    """Groups of several nodes: one alone is seen as itself."""
    several = [g for g in found if g[3] - g[2] > 1]
    for group in several:
        group[4] = _several(group[4])
    return several


def _kind(n: Node) -> object:
    return n.op.name, n.avals, tuple(map(id, subgraphs(n)))


def _function_of(nodes: Sequence[Node]) -> str:
    """The function that most nodes come from."""
    counts = Counter(_short(n.where.function) for n in nodes if n.op is not INPUT)
    return counts.most_common(1)[0][0] if counts else ""


def _short(function: str) -> str:
    return function.rpartition("<locals>.")[2] or "(no line)"
