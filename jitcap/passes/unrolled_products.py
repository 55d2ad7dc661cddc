"""Passes: matrix products of an unrolled loop over time, made one product. Graph -> Graph.

A recurrent network in plain Python multiplies x[:, 0], x[:, 1], ... by the same weights, and its
backward adds one small product per step to the gradient of the weights. The first are one product
with more rows (`hoist_products`); the second are one product with a longer sum (`sum_products`),
which rounds differently from a chain of additions, and less.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eager.core.op import REGISTRY
from eager.ops.contract import DOT
from eager.ops.pointwise import ADD
from eager.ops.view import PERMUTE, SELECT
from eager.sizes.symint import hint, known_eq
from jitcap.graph.graph import Arg, Graph, Node, Rewriter
from jitcap.passes.join_parts import trees_of_additions

Pair = tuple[Node, Node]


def hoist_products(graph: Graph) -> Graph:
    """dot(x[:, t], w) for most t: dot of all rows of x at once, before the loop."""
    groups = _groups(graph)
    if not groups:
        return graph
    r = Rewriter(graph)
    made: dict[Any, Node] = {}
    for n in graph.nodes:
        key = _step_of(n)
        if key is None or key[0] not in groups:
            r.mapped[n] = r.keep(n, r.args(n))
            continue
        group, index = key
        if group not in made:
            made[group] = _all_steps(r, n)
        r.mapped[n] = r.emit(REGISTRY["select"], (made[group],), {"dim": 0, "index": index}, n)
    return r.finish()


def _step_of(n: Node) -> tuple[Any, int] | None:
    """((source, dimension, right operand), step) of a product with a step of a 3-d tensor."""
    if n.op is not DOT or n.aval.ndim != 2:
        return None
    a, b = n.args
    if not isinstance(a, Node) or a.op is not SELECT or not isinstance(a.args[0], Node):
        return None
    return (a.args[0], a.attrs["dim"], b), a.attrs["index"]


def _groups(graph: Graph) -> set[Any]:
    """The groups that use at least half of the steps."""
    steps: dict[Any, set[int]] = {}
    for n in graph.nodes:
        key = _step_of(n)
        if key is not None:
            steps.setdefault(key[0], set()).add(key[1])
    return {
        g
        for g, used in steps.items()
        if len(used) > 1 and 2 * len(used) >= hint(g[0].aval.shape[g[1]])
    }


def _all_steps(r: Rewriter, n: Node) -> Node:
    """The product of every step with the right operand: [steps, rows, columns]."""
    step, right = n.parents
    rows = _by_step(r, step, n)
    count = step.parents[0].aval.shape[step.attrs["dim"]]
    product = r.emit(n.op, (rows, r.lookup(right)), n.attrs, n)
    return r.emit(REGISTRY["reshape"], (product,), {"shape": (count, *n.aval.shape)}, n)


def _by_step(r: Rewriter, step: Node, like: Node) -> Node:
    """The source of a step as [steps * rows, width], steps first."""
    (source,) = step.parents
    dim, shape = step.attrs["dim"], source.aval.shape
    order = (dim, *(d for d in range(3) if d != dim))
    first = r.emit(REGISTRY["permute"], (r.lookup(source),), {"dims": order}, like)
    rows = {"shape": (shape[order[0]] * shape[order[1]], shape[order[2]])}
    return r.emit(REGISTRY["reshape"], (first,), rows, like)


# --------------------------------------------------------------------------- sums of products


def sum_products(graph: Graph) -> Graph:
    """dot(a0, b0) + dot(a1, b1) + ...: the product of the concatenations."""
    additions = (n for n in graph.nodes if n.op is ADD)
    if not any(type(a) is Node and a.op is DOT for n in additions for a in n.args):
        return graph
    users = graph.users()
    outputs = set(graph.outputs)
    found: dict[Node, tuple[list[Pair], list[Arg]]] = {}
    for root, terms in trees_of_additions(graph, users):
        pairs, rest = _pairs(terms, users, outputs)
        if _worth(pairs):
            found[root] = (pairs, rest)
    if not found:
        return graph
    r = Rewriter(graph)
    for n in graph.nodes:
        sums = found.get(n)
        r.mapped[n] = r.keep(n, r.args(n)) if sums is None else _one_product(r, n, *sums)
    return r.finish()


def _pairs(
    terms: list[Arg], users: dict[Node, list[Node]], outputs: set[Node]
) -> tuple[list[Pair], list[Arg]]:
    """The operands of the terms that are products of matrices used here only, and the rest."""
    pairs: list[Pair] = []
    rest: list[Arg] = []
    for t in terms:
        plain = isinstance(t, Node) and t.op is DOT and t.aval.ndim == 2
        if isinstance(t, Node) and plain and len(users[t]) == 1 and t not in outputs:
            pairs.append((t.parents[0], t.parents[-1]))
        else:
            rest.append(t)
    return pairs, rest


def _worth(pairs: list[Pair]) -> bool:
    """True if copying the operands together moves less than adding the products one by one."""
    if len(pairs) < 2:
        return False
    rows, columns = pairs[0][0].aval.shape[0], pairs[0][1].aval.shape[1]
    copied = sum(a.aval.numel + b.aval.numel for a, b in pairs)
    same = len({a.aval.dtype for pair in pairs for a in pair}) == 1
    return same and hint(copied) <= len(pairs) * hint(rows * columns)


def _one_product(r: Rewriter, root: Node, pairs: list[Pair], rest: list[Arg]) -> Arg:
    if all(map(_is_transposed, (a for a, _ in pairs))):
        steps = [a.parents[0] for a, _ in pairs]
        order = _order(steps)
        left = _concatenated(r, [steps[i] for i in order], root)
        left = r.emit(REGISTRY["permute"], (left,), {"dims": (1, 0)}, root)
    else:
        order = list(range(len(pairs)))
        parts = tuple(r.lookup(a) for a, _ in pairs)
        left = r.emit(REGISTRY["cat"], parts, {"dim": 1}, root)
    right = _concatenated(r, [pairs[i][1] for i in order], root)
    total: Arg = r.emit(REGISTRY["dot"], (left, right), {}, root)
    for term in rest:
        total = r.emit(root.op, (total, r.lookup(term)), {}, root)
    return total


def _is_transposed(a: Node) -> bool:
    return a.op is PERMUTE and a.attrs["dims"] == (1, 0)


def _order(steps: Sequence[Node]) -> list[int]:
    """The steps of one tensor by time; other operands as they come."""
    if not _steps_of_one(steps):
        return list(range(len(steps)))
    return sorted(range(len(steps)), key=lambda i: steps[i].attrs["index"])


def _steps_of_one(steps: Sequence[Node]) -> bool:
    """True if these are all the steps of one tensor, each once."""
    if any(s.op is not SELECT or len(s.parents) != 1 for s in steps):
        return False
    (source,), dim = steps[0].parents, steps[0].attrs["dim"]
    one = all(s.parents[0] is source and s.attrs["dim"] == dim for s in steps)
    indices = sorted(s.attrs["index"] for s in steps)
    all_of = known_eq(len(indices), source.aval.shape[dim]) is True
    return one and all_of and indices == list(range(len(indices)))


def _concatenated(r: Rewriter, parts: Sequence[Node], like: Node) -> Node:
    """The parts below each other; the steps of one tensor in order are that tensor."""
    if _steps_of_one(parts) and [p.attrs["index"] for p in parts] == list(range(len(parts))):
        return _by_step(r, parts[0], like)
    return r.emit(REGISTRY["cat"], tuple(r.lookup(p) for p in parts), {"dim": 0}, like)
