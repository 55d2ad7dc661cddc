"""Pass: the parts of a tensor, put together at once. Graph -> Graph.

The backward of slicing pads a gradient with zeros, and the uses of one tensor are summed: for n
slices n - 1 additions of whole tensors that are mostly zero. A tree of such additions whose parts
do not overlap is a concatenation. (Where eager adds 0.0 to a -0.0 and gets 0.0, this keeps -0.0.)
So is a table that was filled part by part, where only the last of its copies is read.
One sweep from the roots of the trees, and from the last writes: O(n log n).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, Final

from eager.base.dataclass import dataclass
from eager.core.op import REGISTRY
from eager.ops.move import SELECT_SCATTER, SLICE_SCATTER
from eager.ops.pointwise import ADD
from eager.sizes.aval import same, same_aval
from eager.sizes.symint import known_le, known_lt, of_data
from jitcap.graph.graph import Arg, Graph, Node, Rewriter
from jitcap.passes.rules import constant

FILLED: Final = 4  # writes: of fewer each element is chosen


@dataclass(frozen=True, slots=True)
class SliceWrite:
    """`node` at [start, stop) of dimension `dim`, which has `size`, in a copy of `base`. `node`
    lacks `dim` if `flat`."""

    base: Arg
    node: Node
    dim: int
    start: int
    stop: int
    size: int
    flat: bool


def join_parts(graph: Graph) -> Graph:
    """Replace trees of additions of disjoint parts, and tables filled with such, by one `cat`
    each."""
    if not any(n.op is SLICE_SCATTER or n.op is SELECT_SCATTER for n in graph.nodes):
        return graph
    trees = {**_trees(graph), **_tables(graph)}
    if not trees:
        return graph
    r = Rewriter(graph)
    for n in graph.nodes:
        tree = trees.get(n)
        r.mapped[n] = r.keep(n, r.args(n)) if tree is None else _join(r, n, tree)
    return r.finish()


Joined = tuple[list[SliceWrite], Any, list[Arg]]  # what stands between the parts; what is added


def _trees(graph: Graph) -> dict[Node, Joined]:
    """Disjoint parts and other terms of each tree of additions that has enough of them, by root."""
    found: dict[Node, Joined] = {}
    for root, terms in trees_of_additions(graph, graph.users()):
        split = _disjoint(terms)
        if split is not None:
            found[root] = (split[0], 0, split[1])
    return found


def _tables(graph: Graph) -> dict[Node, Joined]:
    """Parts that are written into a tensor of one number, by the last write. (Of any other tensor,
    which may be updated where it lies, all has to be written.)"""
    users, outputs = graph.users(), set(graph.outputs)
    found: dict[Node, Joined] = {}
    inside: set[Node] = set()
    for n in reversed(graph.nodes):
        if n in inside or _written(n) is None:
            continue
        parts: list[SliceWrite] = []
        base: Arg = n
        while isinstance(base, Node) and (part := _written(base)) is not None:
            if parts and (part.dim != parts[0].dim or len(users[base]) > 1 or base in outputs):
                break
            inside.add(base)
            parts.append(part)
            base = part.base
        ordered = _in_order(parts) if len(parts) >= FILLED else None
        if ordered is not None:
            number, filled = constant(base), sum(p.stop - p.start for p in parts)
            if number is not None or same((filled,), (parts[0].size,)):
                found[n] = (ordered, number, [])
    return found


def trees_of_additions(
    graph: Graph, users: dict[Node, list[Node]]
) -> Iterator[tuple[Node, list[Arg]]]:
    """The root and the leaves (in order) of every largest tree of additions used nowhere else."""
    outputs = set(graph.outputs)
    inside: set[Node] = set()
    for n in reversed(graph.nodes):
        if n.op is ADD and n not in inside and not n.aval.weak:
            yield n, _terms(n, users, outputs, inside)


def _terms(
    root: Node, users: dict[Node, list[Node]], outputs: set[Node], inside: set[Node]
) -> list[Arg]:
    """The leaves of the tree of additions below `root`, in order."""
    terms: list[Arg] = []
    stack: list[Arg] = [root]
    while stack:
        a = stack.pop()
        is_sum = isinstance(a, Node) and a.op is ADD and same_aval(a.aval, root.aval)
        alone = a is root or (isinstance(a, Node) and len(users[a]) == 1 and a not in outputs)
        if isinstance(a, Node) and is_sum and alone:
            inside.add(a)
            stack.extend(reversed(a.args))
        else:
            terms.append(a)
    return terms


def _disjoint(terms: list[Arg]) -> tuple[list[SliceWrite], list[Arg]] | None:
    """The parts of one dimension that do not overlap (at least two), and what is left."""
    parts: list[SliceWrite] = []
    rest: list[Arg] = []
    for t in terms:
        part = _write_to_zeros(t)
        if part is None or (parts and part.dim != parts[0].dim):
            rest.append(t)
        else:
            parts.append(part)
    ordered = _in_order(parts)
    return None if ordered is None or len(parts) < 2 else (ordered, rest)


def _in_order(parts: list[SliceWrite]) -> list[SliceWrite] | None:
    """Parts by their start; None if some overlap, or sizes decide that: a pass makes no guard."""
    if all(type(p.start) is type(p.stop) is type(p.size) is int for p in parts):
        ordered = sorted(parts, key=lambda p: p.start)
        overlap = any(a.stop > b.start for a, b in itertools.pairwise(ordered))
        return None if overlap else ordered
    ordered = []
    for p in parts:
        before = sum(known_le(other.stop, p.start) is True for other in ordered)
        if not all(known_le(p.stop, other.start) for other in ordered[before:]):
            return None
        ordered.insert(before, p)
    starts = [p.start for p in ordered] + [p.size for p in ordered[-1:]]
    gaps = zip([0, *(p.stop for p in ordered)], starts, strict=True)
    return None if any(known_lt(stop, start) is None for stop, start in gaps) else ordered


def _write_to_zeros(a: Arg) -> SliceWrite | None:
    """The part that `a` writes into zeros, if it does that."""
    part = _written(a)
    return part if part is not None and constant(part.base) == 0 else None


def _written(a: Arg) -> SliceWrite | None:
    """The part of a tensor that `a` replaces, if it does that."""
    if not isinstance(a, Node) or a.op not in (SLICE_SCATTER, SELECT_SCATTER):
        return None
    base, source = a.args
    if not isinstance(source, Node) or a.attrs.get("step", 1) != 1:
        return None
    dim = a.attrs["dim"]
    if a.op is SELECT_SCATTER:
        at = a.attrs["index"]
        return SliceWrite(base, source, dim, at, at + 1, a.aval.shape[dim], flat=True)
    start = a.attrs["start"]
    if of_data(start) or of_data(source.aval.shape[dim]):  # no order is known
        return None
    stop = start + source.aval.shape[dim]
    return SliceWrite(base, source, dim, start, stop, a.aval.shape[dim], flat=False)


def _join(r: Rewriter, root: Node, tree: Joined) -> Arg:
    """cat of the parts and of what is between them, plus the other terms."""
    parts, between, rest = tree
    dim, shape = parts[0].dim, root.aval.shape
    pieces: list[Arg] = []
    at: Any = 0
    for p in (*parts, None):
        start = shape[dim] if p is None else p.start
        if known_lt(at, start):
            size = (*shape[:dim], start - at, *shape[dim + 1 :])
            attrs = {"shape": size, "dtype": root.aval.dtype}
            pieces.append(r.emit(_FULL, (between,), attrs, root))
        if p is not None:
            pieces.append(_operand(r, p, shape, root))
            at = p.stop
    total: Arg = pieces[0]
    if len(pieces) > 1:
        total = r.emit(_CAT, tuple(pieces), {"dim": dim}, root)
    for term in rest:
        total = r.emit(root.op, (total, r.lookup(term)), {}, root)
    return total


def _operand(r: Rewriter, p: SliceWrite, shape: tuple[int, ...], root: Node) -> Arg:
    source = r.lookup(p.node)
    if not p.flat:
        return source
    size = (*shape[: p.dim], 1, *shape[p.dim + 1 :])
    return r.emit(_RESHAPE, (source,), {"shape": size}, root)


_FULL: Final = REGISTRY["full"]
_CAT: Final = REGISTRY["cat"]
_RESHAPE: Final = REGISTRY["reshape"]
