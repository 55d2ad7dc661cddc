"""Cutting a graph along a colouring: which piece has which value -> the graph of each piece.

`cut_by_size.py` colours by when the sizes are known, `cut_by_device.py` by where values live. What
a piece does not compute itself it takes: from the whole's inputs, or from other pieces.
"""

from __future__ import annotations

from collections.abc import Iterable

from eager.sizes.aval import Aval
from eager.sizes.substitute import symbols_in
from eager.sizes.symint import Symbol, SymInt
from jitcap.graph.graph import Arg, Graph, Node, placeholder, with_args


class Section:
    """A piece while it is cut out: its nodes in terms of its own inputs."""

    def __init__(self, whole: Graph) -> None:
        self.whole = whole
        self.given = frozenset(whole.inputs)
        self.inputs: dict[Node | SymInt, Node] = {}  # by what they stand for
        self.nodes: list[Node] = []
        self.mapped: dict[Node, Node] = {}

    def computes(self, n: Node) -> bool:
        """True if a value of the whole is computed in this piece."""
        raise NotImplementedError

    def get(self, value: Node) -> Node:
        """A value of the whole in this piece, with all that it is computed from here."""
        stack = [value]
        while stack:
            n = stack[-1]
            if n in self.mapped:
                stack.pop()
            elif not self.computes(n):
                self.take(stack.pop())
            elif missing := [p for p in n.parents if p not in self.mapped]:
                stack += reversed(missing)
            else:
                self.add(
                    stack.pop(),
                    tuple(self.mapped[a] if isinstance(a, Node) else a for a in n.args),
                )
        return self.mapped[value]

    def take(self, n: Node) -> None:
        """Have a value of the whole among the inputs."""
        aval = self.seen(n.avals[0])
        kept = n in self.given and aval is n.avals[0]
        made = n if kept else placeholder(f"v{len(self.inputs)}", aval)
        self.inputs[n] = self.mapped[n] = made

    def seen(self, aval: Aval) -> Aval:
        """The input that stands for such a value."""
        return aval

    def add(self, n: Node, args: tuple[Arg, ...]) -> None:
        """Compute a value of the whole from these operands."""
        self.mapped[n] = with_args(n, args)
        self.nodes.append(self.mapped[n])

    def take_symbols(self) -> list[Symbol]:
        """Have the symbols in its sizes among its inputs; those that are none of the whole."""
        values = (*self.inputs.values(), *self.nodes)
        used = symbols_in((n.attrs, *(a.shape for a in n.avals)) for n in values)
        given = {n.attrs["symbol"]: n for n in self.whole.inputs if "symbol" in n.attrs}
        found = sorted(used, key=lambda s: s.name)
        for s in found:
            if s.name in given:
                self.get(given[s.name])
        return [s for s in found if s.name not in given]

    @property
    def crossing(self) -> list[Node]:
        """Values that come from other pieces."""
        return [n for n in self.inputs if isinstance(n, Node) and n not in self.given]

    @property
    def takes(self) -> tuple[Node | SymInt, ...]:
        """Meaning of the inputs, in order."""
        return tuple(self.inputs)

    def graph(self, outputs: Iterable[Node], name: str) -> Graph:
        """The piece, which gives these values of the whole."""
        return Graph(
            tuple(self.inputs[x] for x in self.takes),
            tuple(self.nodes),
            tuple(self.mapped[n] for n in outputs),
            name,
        )
