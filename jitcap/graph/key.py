"""Beside the graph: a text that tells it from others, by which caches name it. Graph -> str.

It says what the print (`show`) says, lines included, since errors name them. But no names are made
for people, what many nodes share is a number, and the results of a node with several have no rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from eager.sizes.aval import Aval
from jitcap.graph.graph import ITEM, Graph, Node, Where
from jitcap.graph.show import function_name


def key_text(graph: Graph) -> str:
    """Equal for graphs that compile to the same, with the same lines in it."""
    shared = _Shared()
    return "\n".join([shared.graph_text(graph), *map(repr, shared.numbers)])


class _Shared:
    """Numbers of what nodes share, by its text. `known`: by the object, which the graph keeps."""

    def __init__(self) -> None:
        self.numbers: dict[str, str] = {}
        self.known: dict[int, str] = {}

    def number(self, value: Any, text: Callable[[Any], str]) -> str:
        found = self.known.get(id(value))
        if found is None:
            found = self.numbers.setdefault(text(value), str(len(self.numbers)))
            self.known[id(value)] = found
        return found

    def graph_text(self, graph: Graph) -> str:
        """The name, a row for each node, the outputs."""
        names: dict[Node, str] = {}
        rows = [function_name(graph)]
        for n in graph.everything():
            if n.op is ITEM:
                names[n] = f"{names[n.parents[0]]}[{n.attrs['index']}]"
                continue
            names[n] = f"%{len(rows)}"
            args = " ".join([names[a] if type(a) is Node else repr(a) for a in n.args])
            avals = " ".join([self.number(a, _aval) for a in n.avals])
            attrs, where = self.number(n.attrs, self.attrs), self.number(n.where, _line)
            rows.append(f"{n.op.name}({args}) {attrs} {avals} {where}")
        return "\n".join([*rows, *map(names.__getitem__, graph.outputs)])

    def attrs(self, attrs: Any) -> str:
        """The attributes; of graphs among them the numbers."""
        if "graphs" in attrs:
            attrs = {**attrs, "graphs": [self.number(g, self.graph_text) for g in attrs["graphs"]]}
        return repr(attrs)


def _aval(aval: Aval) -> str:
    return f"{aval!r} {aval.device}"


def _line(where: Where) -> str:
    return f"{where.file!r} {where.line}"
