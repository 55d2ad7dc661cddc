"""Choices on tensors: `cond`, `switch`. functions of trees -> a tree. Loops:
`eager.control_flow.while_loop`.

In eager they run Python: the arm that is taken. Under capture, where the value that decides is not
known, the tracer records each function once as a graph of its own (`Tracer.part`), and a node that
holds these graphs (`choice`).

Results are tensors of their own: they never share memory with an operand, or with anything else
that a function gives back. The gradient of a choice is a choice of gradients (`ChoiceNode`): each
arm's part of the tape is gone over backwards in an arm of its own.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from eager.autograd.vmap_control_flow import chosen, differs, holds, same_for_all
from eager.base.dtype import bool_ as BOOL
from eager.base.dtype import int64
from eager.base.tree import Structure, flatten
from eager.core.grad_fn_names import put_name
from eager.core.sym import NUMBERS, SymNumber
from eager.core.tape import (
    FREED,
    Node,
    differentiable,
    edge_of,
    full,
    mode,
    sequence_now,
    sweep,
)
from eager.core.tensor import Tensor, wrap
from eager.core.traced import Traced, UnknownValue, fresh
from eager.sizes.aval import Aval, scalar_aval

Thunk = Callable[[], Any]


class Disagreement(TypeError):
    """Error for functions given to control flow whose results do not fit together."""


def cond(
    pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: Any = ()
) -> Any:
    """`true_fn(*operands)` if `pred` holds, else `false_fn(*operands)`.

    `pred` is a bool or a tensor of one element. Operands and results are trees: tuples, lists and
    dictionaries of tensors and numbers. In eager only the function that is chosen runs; under
    `@jit`, if `pred` is known only when the program runs, both are captured, and one runs.

    Raises TypeError, under capture, where the two results differ in structure, shape, dtype or
    device; RuntimeError where `pred` has not one element. In `vmap`, where `pred` differs by
    example, both run, and each example has the result of its own.
    """
    arms = [_bind(f, operands) for f in (false_fn, true_fn)]
    names = ("false_fn", "true_fn")
    if differs(pred):
        return _every_way("cond", holds(pred).to(int64), names, arms)
    tracer, pick = decide(pred)
    if tracer is None:
        return own_tree(checked_tree("cond", arms[pick]()))
    return _choose("cond", tracer, pick, names, arms)


def switch(index: Any, branches: Sequence[Callable[..., Any]], *operands: Any) -> Any:
    """`branches[index](*operands)`; an index outside the list takes its nearest end.

    `index` is an int or a tensor of one integer. Otherwise as `cond`. Raises ValueError without
    branches.
    """
    if not branches:
        raise ValueError("switch() needs at least one branch")
    last = len(branches) - 1
    arms = [_bind(f, operands) for f in branches]
    names = tuple(f"branch {i}" for i in range(last + 1))
    if differs(index):
        return _every_way("switch", index.reshape(()).to(int64).clamp(0, last), names, arms)
    tracer, pick = _branch_index(index, last)
    if tracer is None:
        return own_tree(checked_tree("switch", arms[pick]()))
    return _choose("switch", tracer, pick, names, arms)


# ---------------------------------------------------------------------------- what decides


def _bind(fn: Callable[..., Any], operands: Any) -> Thunk:
    return lambda: fn(*operands)


def decide(pred: Any) -> tuple[Any, Any]:
    """(None, 0 or 1) of what is known; else the tracer, and the truth as a value of its graph."""
    pred = same_for_all(pred)
    if isinstance(pred, SymNumber):
        holds = pred.tracer.decide(operator.truth, pred)
        if holds is not None:
            return None, int(holds)
        return pred.tracer, (pred if pred.pytype is bool else pred != 0).handle
    if isinstance(pred, Tensor):
        if pred.numel() != 1:
            raise RuntimeError(f"a condition needs one element, got a tensor of {pred.aval!r}")
        array = pred._array
        if type(array) is Traced and array.storage.tracer.value(array.read()) is None:
            scalar = pred.detach().reshape(())
            truth = scalar if scalar.dtype.name == "bool" else scalar != 0
            return array.storage.tracer, truth._array.read()
    return None, int(bool(pred))


def _branch_index(index: Any, last: int) -> tuple[Any, Any]:
    """Index of a branch in a list of `last` + 1, clamped: (tracer, handle) if only the run knows
    it, else (None, int)."""
    index = same_for_all(index)
    if isinstance(index, Tensor):
        if index.numel() != 1 or index.dtype.is_floating_point or index.dtype.is_complex:
            raise RuntimeError(f"switch() needs the index of a branch, got {index.aval!r}")
        array = index._array
        if type(array) is Traced and array.storage.tracer.value(array.read()) is None:
            place = index.detach().reshape(()).to(full(0, scalar_aval(0)).dtype).clamp(0, last)
            return array.storage.tracer, place._array.read()
        index = index.item()
    return None, min(max(operator.index(index), 0), last)


def _every_way(what: str, pick: Tensor, names: Sequence[str], arms: Sequence[Thunk]) -> Any:
    """The results of all arms, of which each example of `vmap` has that of its own."""
    trees = [checked_tree(what, arm()) for arm in arms]
    for name, tree in zip(names[1:], trees[1:], strict=True):
        agree(what, (names[0], name), (trees[0], tree))
    rows, structure = [flatten(tree)[0] for tree in trees], flatten(trees[0])[1]
    results = rows[-1]
    for i in range(len(arms) - 1):
        results = chosen(pick == i, rows[i], results)
    columns = zip(results, *rows, strict=True)
    return structure.build([row[0] if _constant(row) else x for x, *row in columns])


# ---------------------------------------------------------------------------- results


def checked_tree(what: str, tree: Any) -> Any:
    """The tree itself. Raises TypeError if a leaf is neither tensor nor number."""
    for leaf in flatten(tree)[0]:
        if not isinstance(leaf, (Tensor, SymNumber, *NUMBERS)):
            kind = type(leaf).__name__
            raise Disagreement(f"{what}: results are tensors and numbers, got a {kind}")
    return tree


def name_copies(results: Sequence[Any]) -> None:
    """Name the nodes of tensors `CloneBackward0`, as `own_tree` makes them."""
    for x in results:
        if isinstance(x, Tensor):
            put_name(x, "CloneBackward0")


def own_tree(tree: Any) -> Any:
    """The tree with tensors that share memory with no other."""
    leaves, structure = flatten(tree)
    return structure.build([x.clone() if isinstance(x, Tensor) else x for x in leaves])


def kind_of(leaf: Any) -> Any:
    """The type that two results must have in common: a tensor's aval, a number's type."""
    if isinstance(leaf, Tensor):
        return leaf.aval
    return leaf.pytype if isinstance(leaf, SymNumber) else type(leaf)


def _shown(leaf: Any) -> str:
    kind = kind_of(leaf)
    if isinstance(kind, Aval):
        return f"{kind!r}" + ("" if kind.device == "cpu" else f" on {kind.device}")
    return f"a number ({kind.__name__})"


def agree(what: str, names: Sequence[str], trees: Sequence[Any]) -> None:
    """Raise Disagreement, which names both, unless two trees have one structure and leaves of the
    same kinds."""
    (one, first), (two, second) = map(flatten, trees)
    if first != second:
        raise Disagreement(
            f"{what}: {names[0]} gives {first}, {names[1]} gives {second}: the structures differ"
        )
    for i, (a, b) in enumerate(zip(one, two, strict=True)):
        if kind_of(a) != kind_of(b):
            place = "" if first.kind is None else f" as result {i}"
            raise Disagreement(
                f"{what}: {names[0]} gives {_shown(a)}, {names[1]} gives {_shown(b)}{place}"
            )


def agree_in(what: str, before: Any, after: Any) -> None:
    agree(what, ("what is carried", "the body"), (before, after))
    checked_tree(what, after)


# ---------------------------------------------------------------------------- under capture


class _Arm:
    """A function that was recorded as a part: its results, and what it put on the tape."""

    def __init__(self, tracer: Any, fn: Thunk, what: str) -> None:
        self.leaves: list[Any] = []
        self.structure: Structure | None = None

        def run() -> list[Any]:
            start = sequence_now()
            self.leaves, self.structure = flatten(checked_tree(what, fn()))
            self.span = start, sequence_now()
            return [handle_of(tracer, x) for x in self.leaves]

        self.handles, self.part = tracer.part(run)

    def tree(self) -> Any:
        assert self.structure is not None
        return self.structure.build(self.leaves)


def handle_of(tracer: Any, leaf: Any) -> Any:
    """The graph value of a tensor or a run-time number; any other number itself."""
    if isinstance(leaf, Tensor):
        array = leaf._array if type(leaf._array) is Traced else tracer.lift(leaf)
        return array.read()
    return leaf.handle if isinstance(leaf, SymNumber) else leaf


def _choose(what: str, tracer: Any, pick: Any, names: Sequence[str], fns: Sequence[Thunk]) -> Any:
    """Record every arm, and the choice of one."""
    arms = [_Arm(tracer, fn, what) for fn in fns]
    for name, arm in zip(names[1:], arms[1:], strict=True):
        agree(what, (names[0], name), (arms[0].tree(), arm.tree()))
    first = arms[0]
    assert first.structure is not None
    results = _joined(tracer, pick, [a.leaves for a in arms], arms, [a.span for a in arms])
    name_copies(results)
    return first.structure.build(results)


def _joined(
    tracer: Any,
    pick: Any,
    rows: Sequence[Sequence[Any]],
    arms: Sequence[_Arm],
    spans: Sequence[Any],
) -> list[Any]:
    """The results of a choice: for each leaf one value of all arms. Numbers that all arms give
    alike stay numbers."""
    columns = list(zip(*rows, strict=True))
    varying = [i for i, column in enumerate(columns) if not _constant(column)]
    for i in varying:
        if len({isinstance(x, Tensor) and x._storage.inference for x in columns[i]}) > 1:
            raise UnknownValue("cond: one arm gives an inference tensor, another a normal one")
    outputs = [[arm.handles[i] for i in varying] for arm in arms]
    avals = [aval_of(columns[i][0]) for i in varying]
    handles = tracer.choice(pick, [arm.part for arm in arms], outputs, avals)
    results = [column[0] for column in columns]
    for i, handle, aval in zip(varying, handles, avals, strict=True):
        results[i] = value_of(tracer, columns[i][0], handle, aval)
    tensors = [i for i in varying if isinstance(results[i], Tensor)]
    record(tracer, pick, [[row[i] for i in tensors] for row in rows], spans,
           [results[i] for i in tensors])  # fmt: skip
    return results


def _constant(column: Sequence[Any]) -> bool:
    """True if all branches give the same number (0.0 and -0.0 are two)."""
    if any(isinstance(x, Tensor | SymNumber) for x in column):
        return all(x is column[0] for x in column) and not isinstance(column[0], Tensor)
    return len({(type(x), repr(x)) for x in column}) == 1


def aval_of(leaf: Any) -> Aval:
    return leaf.aval if isinstance(leaf, Tensor) else scalar_aval(leaf)


def value_of(tracer: Any, like: Any, handle: Any, aval: Aval) -> Any:
    """A value of the graph, as the tensor or number that `like` is."""
    if isinstance(like, Tensor):
        return wrap(fresh(tracer, handle, aval), like._storage.like())
    return SymNumber(tracer, like.pytype if isinstance(like, SymNumber) else type(like), handle)


def truth(pred: Any) -> Any:
    """A condition as a number."""
    tracer, holds = decide(pred)
    return bool(holds) if tracer is None else wrap(fresh(tracer, holds, Aval((), BOOL)))


# ---------------------------------------------------------------------------- the tape


def record(
    tracer: Any,
    pick: Any,
    rows: Sequence[Sequence[Tensor]],
    spans: Sequence[Any],
    results: Sequence[Tensor],
) -> None:
    """Put the choice of one of `rows` on the tape, as the history of `results`. `spans`: for each
    row the sequence numbers, from and to, of what was recorded in its arm."""
    alike = [differentiable(t.dtype) and any(row[i].requires_grad for row in rows)
             for i, t in enumerate(results)]  # fmt: skip
    if not mode.enabled or not any(alike):
        return
    chosen = [i for i, on in enumerate(alike) if on]
    node = ChoiceNode(
        tracer, pick, [[row[i] for i in chosen] for row in rows], spans,
        tuple(results[i].aval for i in chosen),
    )  # fmt: skip
    for index, i in enumerate(chosen):
        t = results[i]
        t._node, t._index, t._requires_grad = node, index, True


Span = tuple[float, float]


class ChoiceNode(Node):
    """A choice on the tape. `rows` are the results of each arm, with their histories inside it;
    `spans` the sequence numbers of what is inside. The edges are all that lies just outside of any
    arm."""

    __slots__ = ("pick", "rows", "saved", "spans", "tracer")

    def __init__(
        self,
        tracer: Any,
        pick: Any,
        rows: Sequence[Sequence[Tensor]],
        spans: Sequence[tuple[Span, ...] | Span],
        outs: tuple[Aval, ...],
    ) -> None:
        super().__init__((), outs)
        self.tracer = tracer
        self.pick = pick
        self.rows = rows
        self.saved: Any = {}  # None when it was freed, or what is inside
        self.spans = [s if isinstance(s[0], tuple) else (s,) for s in spans]
        found: dict[Any, None] = {}
        for row, spans_ in zip(rows, self.spans, strict=True):
            edges, inside = _walk(row, spans_)
            found.update(dict.fromkeys(edges))
            if any(getattr(n, "saved", ()) is None for n in inside):
                self.saved = None
        self.edges = tuple(found)
        self.avals = tuple(aval_at(e) for e in self.edges)

    def name(self) -> str:
        return "CloneBackward0"

    def vjp(self, grads: list[Any]) -> Sequence[Any]:
        """A choice of the arms' gradients; zeros for what one arm does not touch, and none for what
        only results without a gradient are made of."""
        if self.saved is None:
            raise RuntimeError(FREED)
        arms, reached = [], set[Any]()
        for row, spans in zip(self.rows, self.spans, strict=True):
            used = [t for t, g in zip(row, grads, strict=True) if g is not None]
            reached.update(outer_edges(used, spans))
        places = [i for i, edge in enumerate(self.edges) if edge in reached]
        edges, avals = [self.edges[i] for i in places], [self.avals[i] for i in places]
        for row, spans in zip(self.rows, self.spans, strict=True):
            fn = _Backward(row, spans, grads, edges, avals)
            arms.append(_Arm(self.tracer, fn, "cond"))
        after = [(*inner, arm.span) for inner, arm in zip(self.spans, arms, strict=True)]
        given = _joined(self.tracer, self.pick, [a.leaves for a in arms], arms, after)
        found = dict(zip(places, given, strict=True))
        return [found.get(i) for i in range(len(self.edges))]

    def release(self) -> None:
        if any(_saves(row, s) for row, s in zip(self.rows, self.spans, strict=True)):
            self.saved = None


class _Backward:
    """The gradients of one arm, as a function for a part."""

    def __init__(
        self,
        row: Sequence[Tensor],
        spans: tuple[Span, ...],
        grads: Sequence[Any],
        edges: Sequence[Any],
        avals: Sequence[Aval],
    ) -> None:
        self.row, self.spans, self.grads = row, spans, grads
        self.edges, self.avals = edges, avals

    def __call__(self) -> list[Tensor]:
        create = mode.enabled
        roots = [
            (edge_of(t), g)
            for t, g in zip(self.row, self.grads, strict=True)
            if g is not None and t.requires_grad
        ]
        found = sweep_inside(roots, self.spans, self.edges, create=create)
        return [
            full(0, aval) if grad is None else grad.to(aval.dtype)
            for grad, aval in zip(found, self.avals, strict=True)
        ]


def _inside(node: Any, spans: tuple[Span, ...]) -> bool:
    return any(start <= node.sequence <= stop for start, stop in spans)


def outer_edges(results: Sequence[Tensor], spans: tuple[Span, ...]) -> list[Any]:
    """Edges from the histories of `results` to the outside of the spans: (node, output), (leaf,
    0)."""
    return _walk(results, spans)[0]


def inner_nodes(results: Sequence[Tensor], spans: tuple[Span, ...]) -> list[Node]:
    """The nodes of the tape inside the spans."""
    return _walk(results, spans)[1]


def _saves(results: Sequence[Tensor], spans: tuple[Span, ...]) -> bool:
    """True if a node inside the spans saves something for its derivative."""
    inside = _walk(results, spans)[1]
    return any(type(n) is ChoiceNode or getattr(n, "saved", True) for n in inside)


def _walk(results: Sequence[Tensor], spans: tuple[Span, ...]) -> tuple[list[Any], list[Node]]:
    """The edges that leave the spans, and the nodes inside."""
    found: dict[Any, None] = {}
    seen: dict[Node, None] = {}
    stack = [e for t in results if (e := edge_of(t)) is not None]
    while stack:
        target, index = stack.pop()
        if isinstance(target, Tensor) or not _inside(target, spans):
            found[target, index] = None
        elif target not in seen:
            seen[target] = None
            stack += [e for e in target.edges if e is not None]
    return list(found), list(seen)


def sweep_inside(
    roots: Sequence[tuple[Any, Tensor]],
    spans: tuple[Span, ...],
    edges: Sequence[Any],
    *,
    create: bool,
) -> list[Tensor | None]:
    """The gradients that arrive at `edges`, by the tape inside the spans alone."""
    found, leaves = sweep(
        roots, None, keep=True, create=create, ends=lambda node: not _inside(node, spans)
    )
    return [
        leaves[id(target)][1] if id(target) in leaves else found.get((id(target), index))
        for target, index in edges
    ]


def aval_at(edge: Any) -> Aval:
    target, index = edge
    aval: Aval = target.aval if isinstance(target, Tensor) else target.outs[index]
    return aval
