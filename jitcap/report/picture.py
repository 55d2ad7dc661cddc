"""Graphs of the page, as pictures that fold. Graph -> nodes, and groups of them.

Nodes in a row that the forward of one module made are a group, inside that of the module around
it; of a derivative the module is that of what it is the derivative of. What is in no module, or in
one of several functions, is grouped by function. Stretches that repeat, as equal layers do, are a
group, too. A group is a stretch of the program, so that a picture of groups has no cycles.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from jitcap.base.module_path import moved
from jitcap.graph.graph import INPUT, ITEM, Graph, Node, Where
from jitcap.graph.show import function_name, name_nodes
from jitcap.graph.subgraphs import CALL, subgraphs

LEAST: Final = 3  # repetitions that are one group
LONGEST: Final = 200  # groups, or nodes, in a repetition
SHORTEST: Final = 4  # nodes in one
OPS: Final = 3  # that name a repetition of nodes
DERIVATIVE: Final = ", derivative of "
BACKWARD: Final = ", backward"
Group = list[Any]  # [label, kind, first node, end, groups]
Kind = tuple[str, Any, Any]  # equal for nodes that do the same
Way = tuple[tuple[str, str], ...]  # (label, kind) of the groups around a node, outer ones first


class Pictures:
    """Graphs as data: each once, those inside nodes by their numbers. `modules`: the paths that
    nodes name by number."""

    def __init__(self, number_of: Callable[[Where], int]) -> None:
        self.number_of = number_of
        self.made: list[dict[str, Any]] = []
        self.modules: dict[str, int] = {}
        self._known: dict[Graph, int] = {}
        self._callers: dict[Graph, str] = {}  # a body -> the module whose call of it comes first

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
        nodes, titles, said = [], _titles(shown), dict[Any, str]()
        for n in shown:
            bodies = [inner[g] for g in subgraphs(n)]
            modules = self._modules_of(n)
            label = f"{names[n]}: {titles[n]}" if bodies else names[n]
            read = dict.fromkeys(number[_whole(a)] for a in n.parents)
            types = said.get(n.avals)
            if types is None:
                types = ", ".join(map(repr, n.avals[:4])) + ", …" * (len(n.avals) > 4)
                said[n.avals] = types
            numbers = [self.modules.setdefault(m, len(self.modules)) for m in modules]
            place = self.number_of(n.where)
            nodes.append([label, n.op.name, types, place, [*read], bodies, numbers])
        return {
            "name": function_name(graph),
            "inputs": [[names[n], ", ".join(map(repr, n.avals))] for n in graph.inputs],
            "nodes": nodes,
            "groups": groups(shown),
        }

    def _modules_of(self, n: Node) -> list[str]:
        """The module of a node; of a call of a body those inside, as they are in this call: the
        body has those of its first one."""
        own = n.where.module
        if n.op is not CALL:
            return [own] * bool(own)
        (body,) = subgraphs(n)
        first = self._callers.setdefault(body, own)
        inside = dict.fromkeys(x.where.module for x in body.nodes if x.where.module)
        return [*dict.fromkeys(moved(module, first, own) for module in inside)]


def _titles(nodes: Sequence[Node]) -> dict[Node, str]:
    """Titles of nodes with graphs: of calls of one body the modules that tell them apart, else the
    function that most of it comes from."""
    calls: dict[Graph, list[Node]] = {}
    titles = {}
    for n in nodes:
        for graph in subgraphs(n)[:1]:
            calls.setdefault(graph, []).append(n)
    for graph, those in calls.items():
        paths = [_around(n.where.module) for n in those]
        depth = next(
            (i for i, each in enumerate(zip(*paths, strict=False)) if len({*each}) > 1), -1
        )
        function = _function_of(graph.nodes)
        for n, path in zip(those, paths, strict=True):
            titles[n] = function if depth < 0 else path[depth] + BACKWARD * bool(n.where.forward)
    return titles


def _around(module: str) -> list[str]:
    """The paths of a module and of those around it, outer ones first."""
    parts = module.split(".")
    return [".".join(parts[: i + 1]) for i in range(len(parts))]


def _whole(n: Node) -> Node:
    """The node that a value is one of the outputs of."""
    while n.op is ITEM:
        (n,) = n.parents
    return n


def groups(nodes: Sequence[Node]) -> Group:
    """The group of all nodes: stretches by module, in it by function, and what repeats among
    stretches or in one."""
    known: dict[object, Way] = {}
    ways = []
    for n in nodes:
        key = n.where.function, n.where.module, n.where.forward
        way = known.get(key)
        ways.append(known.setdefault(key, _way(n.where)) if way is None else way)
    found = _level(ways, [*map(_kind, nodes)], 0, len(nodes), 0)
    return ["", "graph", 0, len(nodes), _several(found)]


def _way(where: Where) -> Way:
    """The groups that a node is in: a module and those around it, then the function."""
    name = _short(where.function)
    function, _, behind = name.partition(DERIVATIVE)
    direction = BACKWARD * bool(behind or where.forward)
    if where.module:
        around = [(path + direction, "module") for path in _around(where.module)]
    else:
        around = [(function + direction, "function")]
    inner = (name, "function")
    return (*around, inner) if around[-1] != inner else (inner,)


def _level(
    ways: Sequence[Way], kinds: Sequence[Kind], first: int, end: int, depth: int
) -> list[Group]:
    """The groups of nodes that are in the same ones up to `depth`; single nodes are of kind "node"
    here."""
    found: list[Group] = []
    for i in range(first, end):
        label, kind = ways[i][depth] if depth < len(ways[i]) else (kinds[i][0], "node")
        if kind != "node" and found and found[-1][:2] == [label, kind]:
            found[-1][3] = i + 1
        else:
            found.append([label, kind, i, i + 1, []])
    for group in found:
        if group[1] != "node" and group[3] - group[2] > 1:
            group[4] = _level(ways, kinds, group[2], group[3], depth + 1)
            if len(group[4]) == 1:  # is named once: by the innermost module
                ((label, kind, _, _, inner),) = group[4]
                if kind == "repeat" and group[1] == "function":
                    group[:2] = f"{group[0]}: {label}", kind
                elif kind != "function":
                    group[:2] = label, kind
                group[4] = inner
    plain = all(group[1] == "node" for group in found)
    return _repeated(found, kinds, SHORTEST if plain else 1)


def _repeated(runs: list[Group], kinds: Sequence[Kind], shortest: int) -> list[Group]:
    """The stretches, with groups of those that repeat."""
    known: dict[object, int] = {}
    numbers = [known.setdefault(tuple(kinds[r[2] : r[3]]), len(known)) for r in runs]
    whole: list[Group] = []
    at = 0
    for start, period, count in repeats(numbers, shortest):
        whole += runs[at:start]
        at = start + period * count
        copies = [runs[k : k + period] for k in range(start, at, period)]
        label = _common(copies)
        each = [_copy(copy, label, k) for k, copy in enumerate(copies)]
        whole.append([f"{count} × {label}", "repeat", runs[start][2], runs[at - 1][3], each])
    return whole + runs[at:]


def _copy(runs: Sequence[Group], label: str, number: int) -> Group:
    """One of what repeats."""
    if len(runs) == 1 and runs[0][1] == "module":
        return runs[0]
    inner = [g for g in runs if g[1] != "node"]
    return [f"{label} {number}", "copy", runs[0][2], runs[-1][3], inner]


def _common(copies: Sequence[Sequence[Group]]) -> str:
    """The name of what repeats: of a copy's longest group, with a star for the part of its path
    that differs from copy to copy; of nodes alone, of the first ones."""
    first = copies[0]
    if all(group[1] == "node" for group in first):
        ops = [*dict.fromkeys(group[0] for group in first)]
        return ", ".join(ops[:OPS]) + ", …" * (len(ops) > OPS)
    k = max(range(len(first)), key=lambda i: first[i][3] - first[i][2])
    _, comma, rest = first[k][0].partition(", ")
    paths = [copy[k][0].partition(", ")[0].split(".") for copy in copies]
    if len({*map(len, paths)}) > 1:
        return str(first[k][0])
    parts = [those[0] if len({*those}) == 1 else "*" for those in zip(*paths, strict=True)]
    return ".".join(parts) + comma + rest


def repeats(kinds: Sequence[int], shortest: int = 1) -> Iterator[tuple[int, int, int]]:
    """Stretches that repeat: (start, length of one, how many), in order and disjoint."""
    places = defaultdict[int, list[int]](list)
    for i, kind in enumerate(kinds):
        places[kind].append(i)
    at = 0
    while at < len(kinds):
        best = (0, 0, 0)  # covered, -period, count
        same = places[kinds[at]]
        last = at + min(LONGEST, (len(kinds) - at) // LEAST)
        for again in same[bisect_left(same, at + shortest) : bisect_right(same, last)]:
            period, count = again - at, 1
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


def _several(found: list[Group]) -> list[Group]:
    """Groups of several nodes: one alone is seen as itself."""
    several = [g for g in found if g[3] - g[2] > 1]
    for group in several:
        group[4] = _several(group[4])
    return several


def _kind(n: Node) -> Kind:
    return n.op.name, n.avals, tuple(map(id, subgraphs(n)))


def _function_of(nodes: Sequence[Node]) -> str:
    """The function that most nodes come from."""
    counts = Counter(_short(n.where.function) for n in nodes if n.op is not INPUT)
    return counts.most_common(1)[0][0] if counts else ""


def _short(function: str) -> str:
    return function.rpartition("<locals>.")[2] or "(no line)"
