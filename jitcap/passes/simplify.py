"""Pass: local identities, applied to each node as it is rebuilt. Graph -> Graph.

A rule is a function (Simplifier, node with simplified arguments) -> replacement or None; the tables
`RULES` of `identities`, `shapes`, `products` and `writes` say which rules an op name has. A rule
may build with `s.make(...)`, which simplifies what it builds: one forward sweep is enough. It looks
at arguments only, never at users. A replacement of another shape or dtype is refused here, so that
rules need not ask (`x * 1` where x is an int and 1 came as a float, say). One node of the graph
starts at most `FUEL` rewrites: two rules that undo each other cost time, and never a compile.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from eager.core.op import REGISTRY, Op
from eager.sizes.aval import same
from jitcap.graph.graph import (
    ITEM,
    Arg,
    Graph,
    Node,
    Rewriter,
    aval_of,
    is_number,
    node_like,
    with_args,
)
from jitcap.passes import identities, products, shapes, writes
from jitcap.passes.rules import Rule

Note = Callable[[Rule, Node, Arg], None]  # a rule, what it replaced, by what
TABLES: Final = (identities.RULES, shapes.RULES, products.RULES, writes.RULES)


def _merge(tables: tuple[Mapping[str, tuple[Rule, ...]], ...]) -> dict[str, tuple[Rule, ...]]:
    merged: dict[str, tuple[Rule, ...]] = {}
    for table in tables:
        for name, rules in table.items():
            merged[name] = (*merged.get(name, ()), *rules)
    return {name: (*rules, *identities.EVERY) for name, rules in merged.items()}


RULES: Final = _merge(TABLES)
FUEL: Final = 200  # rewrites that one node may start; the longest chain that is meant takes a dozen


class Simplifier(Rewriter):
    """A rewriter that runs the rules on whatever is built through it."""

    def __init__(self, graph: Graph, note: Note | None = None) -> None:
        super().__init__(graph)
        self.fuel = FUEL
        self.note = note

    def make(self, op: Op | str, *args: Arg, like: Node, **attrs: Any) -> Arg:
        """A simplified node for `op(*args, **attrs)`; `like` lends its line and its device."""
        op = REGISTRY[op] if isinstance(op, str) else op
        return self.add(node_like(like, op, args, attrs))

    def add(self, n: Node) -> Arg:
        """The simplest known value of a candidate node, appended if it is new."""
        self.fuel -= 1
        for rule in RULES.get(n.op.name, identities.EVERY) if self.fuel > 0 else ():
            new = rule(self, n)
            if new is not None and _same_kind(n, new):
                if self.note is not None:
                    self.note(rule, n, new)
                return new
        return self.append(n)


def _same_kind(n: Node, new: Arg) -> bool:
    """True if `new` may replace `n`: same shape, dtype and weakness."""
    a = n.aval
    if is_number(new):
        return a.weak
    b = aval_of(new)
    return same(a.shape, b.shape) and a.dtype is b.dtype and a.weak == b.weak


def simplify(graph: Graph, note: Note | None = None) -> Graph:
    """One sweep of all rules, of which `note` is told each that replaced a node. Outputs stay nodes
    even where their value is a number."""
    s = Simplifier(graph, note)
    kept = set(graph.outputs)
    for n in graph.nodes:
        candidate, s.fuel = with_args(n, s.args(n)), FUEL
        whole = n.op is ITEM or len(n.avals) > 1  # no rule is about them, and calls give thousands
        new = s.append(candidate) if whole else s.add(candidate)
        s.mapped[n] = s.append(candidate) if n in kept and is_number(new) else new
    return s.finish()
