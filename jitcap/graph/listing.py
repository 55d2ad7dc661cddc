"""Beside the graph: its print for people, in which equal layers stand once. Graph -> a file.

Of a graph without repetition it is `module(graph)`. Else the inputs are fetched one by one
(`given(aval)`), and loops over families of values (`dot[6*i + 2]`) say what repeats. The file runs
on its own, and capturing it gives the same graph, as its loops are Python's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

import numpy as np

from eager.base.fold_text import Fixed, fold_text
from jitcap.graph.graph import Graph, Node
from jitcap.graph.show import (
    example_of,
    function_lines,
    function_name,
    header,
    module,
    name_nodes,
    statement,
    symbol_hints,
)

FOOTER: Final = '\n\nif __name__ == "__main__":\n    print({name}(draw({sizes})))\n'


def listing(graph: Graph) -> str:
    """A file that runs on its own, on random inputs of the sizes of now; what repeats is a loop."""
    folded = fold_text([*_lines(graph, _numbered(name_nodes(graph)))])
    if not folded.families:
        return module(graph)
    name = function_name(graph)
    sizes = ", ".join(f"{s}={hint}" for s, hint in symbol_hints(graph).items())
    lines = [
        header(graph).rstrip(),
        "from jitcap.graph.listing import draw\n\n",
        f"def {name}(given):  # given(aval): the next input",
        *_dictionaries(folded.families.values()),
        folded.text,
        "    return tuple(results)",
        FOOTER.format(name=name, sizes=sizes),
    ]
    return "\n".join(lines)


def _numbered(names: dict[Node, str]) -> dict[Node, str]:
    """The first of a family gets a number, too: `add` beside `add_1` is `add_0`."""
    taken = set(names.values())

    def full(name: str) -> str:
        return f"{name}_0" if f"{name}_1" in taken and f"{name}_0" not in taken else name

    return {n: name if "symbol" in n.attrs else full(name) for n, name in names.items()}


def _lines(graph: Graph, names: dict[Node, str]) -> Iterator[str]:
    for n in graph.inputs:
        symbol = "symbol" in n.attrs
        source = f"given.size({names[n]!r})" if symbol else f'given("{n.aval!r}")'
        yield f"    {names[n]} = {source}"
    yield from _statements(graph, names)
    yield "    results = []"
    for n in graph.outputs:
        yield f"    results += [{names[n]}]"


def _statements(graph: Graph, names: dict[Node, str]) -> Iterator[str]:
    """The statements of all nodes; functions are apart from what calls them."""
    inner: dict[Graph, str] = {}
    for n in graph.nodes:
        known = len(inner)
        lines = statement(n, names, inner, function=_function)
        start = next(k for k, line in enumerate(lines) if line.startswith(f"    {names[n]} = "))
        if len(inner) > known:
            yield Fixed("\n".join(lines[:start]))
        yield "\n".join(lines[start:])


def _function(graph: Graph, name: str, lines: bool) -> list[str]:
    """A graph in a node. Its inputs stay arguments with their avals, from which it is captured."""
    names = _numbered(name_nodes(graph))
    body = [*_statements(graph, names), "    results = []"]
    folded = fold_text([*body, *(f"    results += [{names[n]}]" for n in graph.outputs)])
    if not folded.families:
        return function_lines(graph, name, lines)
    members = []
    for (before, after), family in folded.families.items():
        found = (re.fullmatch(rf"{before}(\d+){after}", names[n]) for n in graph.inputs)
        members.append(f"    {family} = {{{', '.join(f'{x[1]}: {x[0]}' for x in found if x)}}}")
    return [
        f"def {name}(",
        *(f'    {names[n]}: "{n.aval!r}",' for n in graph.inputs),
        "):",
        *members,
        *folded.text.split("\n"),
        "    return tuple(results)",
    ]


def _dictionaries(families: Iterable[str]) -> Iterator[str]:
    """Lines that make a dictionary of each family."""
    names = [*families]
    for k in range(0, len(names), 8):
        some = names[k : k + 8]
        yield f"    {', '.join(some)} = {', '.join('{}' for _ in some)}"


class draw:
    """Random inputs for a listing, one at a call, by their avals and the `sizes` of symbols."""

    def __init__(self, seed: int = 0, **sizes: int) -> None:
        self.rng, self.sizes = np.random.default_rng(seed), sizes

    def __call__(self, aval: str) -> Any:
        return example_of(aval, self.rng, self.sizes)

    def size(self, name: str) -> int:
        return self.sizes[name]
