"""Loops of unknown length: `while_loop`, `fori_loop`. functions, what is carried -> the last of it.

In eager they are Python loops. Under capture a round is recorded once, as a part, and the loop is
one node (`Tracer.loop`) where nothing has a gradient. Where something has, that node only counts
the rounds; the values are those of a loop of so many steps (`eager.control_flow.scan`), and so are
gradients.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from eager.autograd.vmap_control_flow import (
    as_tensors,
    chosen,
    differs,
    in_any,
    plain,
    plainly,
    raised,
    recorded_plain,
)
from eager.base.tree import flatten
from eager.control_flow.cond import (
    agree_in,
    aval_of,
    checked_tree,
    decide,
    handle_of,
    name_copies,
    outer_edges,
    own_tree,
    truth,
    value_of,
)
from eager.control_flow.scan import Leaves, Loop
from eager.core.dispatch import tracing
from eager.core.stand_in import check_kinds
from eager.core.sym import SymNumber
from eager.core.tape import Node, differentiable, edge_of, full, mode
from eager.core.tensor import Tensor, bare
from eager.core.traced import UnknownValue
from eager.sizes.aval import Aval

LONGEST = 4  # rounds that are looked at for where gradients go
Round = Callable[[list[Any]], tuple[Any, list[Any]]]  # carried -> whether to go on, and the next


def while_loop(
    cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried_inputs: Any
) -> Any:
    """Repeat `carried = body_fn(*carried)` while `cond_fn(*carried)` holds; the last `carried`.

    `carried_inputs` is a tuple or list of trees; `body_fn` gives as many, of the same structures,
    shapes, dtypes and devices. In eager the loop is a Python loop, and gradients of any order go
    through it. So they do under `@jit`, where the loop is a node as soon as its condition is not
    known; only in the body or arm of other control flow asking for one raises RuntimeError there:
    the memory for what a backward needs has no bound that is known before.

    In `vmap`, where the condition differs by example, there are as many rounds as for the longest.

    Raises TypeError if `body_fn` gives something else than it gets.
    """
    return _rounds(cond_fn, body_fn, tuple(carried_inputs))


def _rounds(cond_fn: Any, body_fn: Any, carried: tuple[Any, ...], mapped: bool = True) -> Any:
    """`mapped`: whether the condition may differ by example of `vmap`."""
    while True:
        go = cond_fn(*carried)
        if mapped and mode.levels and isinstance(go, Tensor) and (differs(go) or tracing()):
            return _of_examples(go, cond_fn, body_fn, carried)
        tracer, holds = decide(go)
        if tracer is not None:
            return _recorded(tracer, holds, cond_fn, body_fn, carried)
        if not holds:
            return own_tree(carried)
        new = body_fn(*carried)
        agree_in("while_loop", carried, new := tuple(new) if isinstance(new, list) else new)
        carried = new


def _of_examples(go: Tensor, cond_fn: Any, body_fn: Any, carried: tuple[Any, ...]) -> Any:
    """A loop as long as it goes on for any example; the others keep what they have."""
    leaves, structure = flatten(checked_tree("while_loop", carried))
    start = as_tensors(leaves)

    def again(go: Any, values: list[Any]) -> list[Any]:
        now = structure.build(values)
        new = body_fn(*now)
        agree_in("while_loop", now, new := tuple(new) if isinstance(new, list) else new)
        return chosen(go, flatten(new)[0], values)

    if not tracing():
        while in_any(go):
            start = again(go, start)
            go = cond_fn(*structure.build(start))
        return own_tree(structure.build(start))
    if not recorded_plain(start):
        raise UnknownValue("while_loop: a gradient inside of vmap goes through its rounds")

    def refuse() -> None:
        raise UnknownValue("while_loop: a gradient inside of vmap goes through its rounds")

    body = plainly(lambda values: (again(cond_fn(*structure.build(values)), values),), refuse)
    last = _rounds(
        lambda *values: in_any(cond_fn(*structure.build(raised(values)))),
        lambda *values: tuple(body(values)[0]),
        tuple(plain(start)),
        mapped=False,
    )
    return structure.build(raised(last))


def fori_loop(lower: Any, upper: Any, body_fun: Callable[..., Any], init_val: Any) -> Any:
    """`for i in range(lower, upper): init_val = body_fun(i, init_val)`; the last value.

    Bounds are ints, or tensors of one integer, for which it is a `while_loop`, and `i` a tensor.
    Raises TypeError if `body_fun` gives something else than it gets.
    """
    if not isinstance(lower, Tensor) and not isinstance(upper, Tensor):
        value = init_val
        for i in range(operator.index(lower), operator.index(upper)):
            new = body_fun(i, value)
            agree_in("fori_loop", value, new)
            value = new
        return own_tree(checked_tree("fori_loop", value))

    def body(i: Any, value: Any) -> tuple[Any, Any]:
        return i + 1, body_fun(i, value)

    start = lower if isinstance(lower, Tensor) else full(lower, upper.aval)
    return while_loop(lambda i, _: i < upper, body, (start, init_val))[1]


def _recorded(
    tracer: Any,
    go: Any,
    cond_fn: Callable[..., Any],
    body_fn: Callable[..., Any],
    carried: tuple[Any, ...],
) -> Any:
    leaves, structure = flatten(checked_tree("while_loop", carried))

    def step(values: list[Any]) -> tuple[Any, list[Any]]:
        new = body_fn(*structure.build(values))
        new = tuple(new) if isinstance(new, list) else new
        agree_in("while_loop", carried, new)
        return truth(cond_fn(*new)), flatten(new)[0]

    results = record_rounds(tracer, go, leaves, step)
    name_copies(results)
    return structure.build(results)


def record_rounds(
    tracer: Any,
    go: Any,
    start: Sequence[Any],
    step: Round,
    least: Callable[[Rounds], int] = lambda _: 0,
) -> list[Any]:
    """The last of what is carried, tensors and numbers, as results of a loop in the graph. `go`:
    whether there is a first round; `least`: how many there must be, else the run is given up."""
    needs = [mode.enabled and _has_history(x) for x in start]
    if not any(needs) or not tracer.counts_rounds:
        before, mode.enabled = mode.enabled, mode.enabled and not any(needs)
        try:
            plain = _Plain(tracer, start, step)
        finally:
            mode.enabled = before
        later = [a or _has_history(x) for a, x in zip(needs, plain.ends, strict=True)]
        if not any(later) or not tracer.counts_rounds:
            return plain.results(go, refused=any(later))
        needs = later
    while True:
        rounds = Rounds(tracer, start)
        rounds.record_round(step, needs)
        later = [a or t.requires_grad for a, t in zip(needs, rounds.ends, strict=True)]
        if later == needs:
            return rounds.counted(go, needs, least(rounds))
        needs = later  # what the first round carries on has a history, if not what it begins with


def _are_tensors(values: Sequence[Any]) -> bool:
    return all(isinstance(x, Tensor) for x in values)


def _has_history(x: Any) -> bool:
    return isinstance(x, Tensor) and differentiable(x.dtype) and x.requires_grad


class _Plain:
    """A loop without a gradient: a node that holds a round."""

    def __init__(self, tracer: Any, start: Sequence[Any], step: Round) -> None:
        self.tracer, self.start = tracer, start
        self.avals = [aval_of(x) for x in start]
        loop = Loop(tracer, [], [], 0, False)
        stands = [
            loop.step_value(f"carry{i}", x.aval, False)
            if isinstance(x, Tensor)
            else value_of(tracer, x, tracer.placeholder(f"carry{i}", aval), aval)
            for i, (x, aval) in enumerate(zip(start, self.avals, strict=True))
        ]
        self.places = [handle_of(tracer, x) for x in stands]
        self.ends: list[Any] = []

        def run() -> list[Any]:
            again, self.ends = step(stands)
            return [handle_of(tracer, x) for x in (again, *self.ends)]

        self.handles, self.part = tracer.body(run)
        rows = [row for row in zip(stands, start, self.ends, strict=True) if _are_tensors(row)]
        check_kinds([end for _, _, end in rows], *rows)

    def results(self, go: Any, *, refused: bool) -> list[Any]:
        """Final values of the carries. `refused`: a gradient of one is an error."""
        first = [handle_of(self.tracer, x) for x in self.start]
        handles = self.tracer.loop(go, self.part, self.handles, self.places, first, self.avals)
        kinds = [
            b if isinstance(b, Tensor) else a for a, b in zip(self.start, self.ends, strict=True)
        ]
        rows = zip(kinds, handles, self.avals, strict=True)
        results = [value_of(self.tracer, *row) for row in rows]
        tensors = [t for t in results if isinstance(t, Tensor) and differentiable(t.dtype)]
        if refused and tensors:
            node = LoopNode(
                [x for x in self.start if isinstance(x, Tensor)], tuple(t.aval for t in tensors)
            )
            for i, t in enumerate(tensors):
                t._node, t._index, t._requires_grad = node, i, True
        return results


class LoopNode(Node):
    """A loop of unknown length on the tape: its gradient is refused."""

    __slots__ = ()

    def name(self) -> str:
        return "WhileLoopBackward0"

    def vjp(self, grads: list[Any]) -> Sequence[Any]:
        raise RuntimeError(
            "the gradient of a while_loop inside other control flow, or where sizes that data "
            "decide are not taken: its length is known only when it runs, and what its backward "
            "needs has no bound. Use fori_loop with ints, or scan over a known length, or detach() "
            "what the loop carries"
        )


class Rounds(Loop):
    """A loop with a gradient. All that it carries are tensors; the program sees the numbers among
    them as such."""

    def __init__(self, tracer: Any, start: Sequence[Any]) -> None:
        self.kinds = start
        self.ends_anywhere: list[bool] | None = None  # what is carried has a history in the end
        tensors = [x if isinstance(x, Tensor) else _as_tensor(x) for x in start]
        super().__init__(tracer, tensors, [], 0, False)

    def record_round(self, step: Round, needs: Sequence[bool]) -> None:
        def run(carries: Leaves, _: Leaves) -> tuple[Leaves, Leaves]:
            again, ends = step(self._as_given(carries))
            self.again = handle_of(self.tracer, again)
            return [x if isinstance(x, Tensor) else _as_tensor(x) for x in ends], []

        self.record(run, needs)

    def settles(self) -> int | None:
        """From how many rounds on the gradients of all that is carried go to the same places; None
        if that changes for longer."""
        slots = {id(t): k for k, t in enumerate(self.carries)}
        leads = [outer_edges((t,), (self.span,)) if t.requires_grad else [] for t in self.ends]
        own = [{slots[id(e[0])] for e in edges if id(e[0]) in slots} for edges in leads]
        outer = [{e for e in edges if id(e[0]) not in slots} for edges in leads]
        reach = [{edge_of(t)} - {None} for t in self.start]
        for count in range(LONGEST):
            more = [outer[k].union(*(reach[j] for j in own[k])) for k in range(len(reach))]
            if more == reach:
                self.ends_anywhere = [*map(bool, reach)]
                return count
            reach = more
        return None

    def counted(self, go: Any, needs: Sequence[bool], least: int) -> list[Any]:
        """Final values of the carries: the rounds are counted first."""
        self.least = least
        self.length, self.part = self.tracer.rounds(
            go,
            least,
            self.part,
            [self.again, *self.handles],
            [t._array.handle for t in self.carries],
            [handle_of(self.tracer, t) for t in self.start],
            [t.aval for t in self.start],
        )
        self.first = go
        last = self.finish(needs)[0]
        if self.ends_anywhere is not None:  # what only the first rounds had a history for
            rows = zip(last, self.ends_anywhere, strict=True)
            last = [t if anywhere else bare(t) for t, anywhere in rows]
        return self._as_given(last)

    def _as_given(self, values: Leaves) -> list[Any]:
        """Tensors, with numbers where the program has numbers."""
        rows = zip(self.kinds, values, strict=True)
        return [t if isinstance(x, Tensor) else self._number(x, t) for x, t in rows]

    def _number(self, x: Any, t: Tensor) -> SymNumber:
        """A tensor as the number that `x` is."""
        kind = x.pytype if isinstance(x, SymNumber) else type(x)
        return SymNumber(self.tracer, kind, self.tracer.item(t._array).leaf)


def _as_tensor(x: Any) -> Tensor:
    weak = aval_of(x)
    return full(x, Aval((), weak.dtype))
