"""Loops with a carried value as functions: body, initial carry, sequences -> last carry, outputs.

In eager they are Python loops, each step on the tape as it runs, so that gradients of any order
follow. Under capture the body is recorded once, as a part (`Tracer.body`), and the loop is one node
(`Tracer.scan`), whose size does not depend on the number of steps; its gradient is a loop the other
way round over what the body's own history says (`ScanNode`). Arguments and results are tensors, or
tuples, lists and dictionaries of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from eager.autograd.vmap_control_flow import of_examples
from eager.base.tree import fill, leaves_of, structure
from eager.construct.interop import tensor
from eager.control_flow.cond import Span, aval_at, handle_of, inner_nodes, outer_edges, sweep_inside
from eager.core.dispatch import current_tracer
from eager.core.grad_fn_names import Label, joined, label_of, put_name
from eager.core.stand_in import StandInStorage, check_kinds
from eager.core.tape import FREED, Node, differentiable, edge_of, full, mode, sequence_now
from eager.core.tensor import Tensor, wrap
from eager.core.traced import Traced, TracedStorage, fresh
from eager.ops.move import cat, flip, stack
from eager.ops.view import movedim, narrow
from eager.sizes.aval import Aval
from eager.sizes.symint import SymInt, bounds, hint, index, of_data

Leaves = list[Tensor]
Step = Callable[[Leaves, Leaves], tuple[Leaves, Leaves]]


def scan(
    combine_fn: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any = None,
    *,
    dim: int = 0,
    reverse: bool = False,
    length: int | None = None,
    unroll: int | bool = 1,
) -> tuple[Any, Any]:
    """`carry, y = combine_fn(carry, x)` over the slices x of `xs` along `dim`, from `init` on: the
    last carry, and the ys stacked along `dim`.

    A carry has the structure, shapes and dtypes of `init` at every step (numbers in `init` become
    tensors); a y may be None. `reverse` begins at the last slice; ys lie where their xs do.
    `length` is needed where `xs` has no tensors. `unroll`: how many steps compiled code takes at
    once, True for all of them.

    Raises TypeError for leaves that are no tensors, or a carry of another structure; RuntimeError
    for one of another shape or dtype, or tensors of other lengths along `dim`: they name the leaf.
    """
    slices, length = _sequences("scan", xs, dim, length)
    start = [_tensor(f"scan: init{path}", leaf) for path, leaf in leaves_of(init)]
    shapes: dict[str, Any] = {}

    def step(carry: Leaves, x: Leaves) -> tuple[Leaves, Leaves]:
        found = combine_fn(fill(init, carry), fill(xs, x))
        if not isinstance(found, tuple | list) or len(found) != 2:
            raise TypeError(
                "scan: combine_fn is to return two values, the carry and the output, got "
                f"{_kind(found)}"
            )
        after, y = found
        shapes["y"] = y
        return _like_init(init, carry, after), _outputs(y)

    every = length if unroll is True else max(1, min(int(unroll), length))
    last, ys = _run(step, start, slices, length, reverse, every)
    if length:
        last = [t.clone() if any(t is x for x in start) else t for t in last]
    if "y" not in shapes:
        step(start, [full(0, Aval(tuple(x.shape[1:]), x.dtype, x.aval.device)) for x in slices])
    if not length:
        example = [leaf for _, leaf in leaves_of(shapes["y"]) if isinstance(leaf, Tensor)]
        ys = [full(0, Aval((0, *y.shape), y.dtype, y.aval.device)) for y in example]
    stacked = [movedim(y, 0, dim) if dim else y for y in ys]
    return fill(init, last), fill(shapes["y"], stacked)


def map(f: Callable[..., Any], xs: Any, *args: Any) -> Any:
    """`f(x, *args)` of each slice x of `xs` along its first dimension, stacked along the first.

    Raises TypeError for leaves of `xs` that are no tensors, RuntimeError for other lengths."""
    return scan(lambda carry, x: (carry, f(x, *args)), (), xs)[1]


def associative_scan(
    combine_fn: Callable[[Any, Any], Any],
    xs: Any,
    dim: int,
    reverse: bool = False,
    combine_mode: str = "generic",
) -> Any:
    """Slice i along `dim` is `combine_fn` of all slices up to i (`reverse`: from i on), where
    `combine_fn` is associative: it works on whole tensors of pairs, in a number of rounds that is
    twice the logarithm of the length (Blelloch 1990).

    `combine_fn` takes and gives values of the structure of `xs`, element by element along `dim`.
    `combine_mode` is "generic" or "pointwise"; both run the same. Raises as `scan` does."""
    if combine_mode not in ("generic", "pointwise"):
        raise ValueError(f"combine_mode is 'generic' or 'pointwise', got {combine_mode!r}")
    slices, length = _sequences("associative_scan", xs, dim, None)
    if not slices:
        raise TypeError("associative_scan: xs has no tensors")
    if length < 2:
        return fill(xs, [t for _, t in leaves_of(xs)])
    parts = [flip(x, 0) for x in slices] if reverse else slices

    def combine(a: Leaves, b: Leaves) -> Leaves:
        left, right = ([movedim(t, 0, dim) for t in side] for side in (a, b))
        found = combine_fn(fill(xs, left), fill(xs, right))
        return [movedim(t, dim, 0) for t in _like_xs(xs, left, found)]

    done = _prefixes(combine, parts)
    done = [flip(x, 0) for x in done] if reverse else done
    return fill(xs, [movedim(x, 0, dim) for x in done])


def _prefixes(combine: Callable[[Leaves, Leaves], Leaves], xs: Leaves) -> Leaves:
    """All prefixes along the first dimension: pairs are combined, their prefixes found in the same
    way, and those in between from them."""
    length = xs[0].shape[0]
    if length < 2:
        return xs
    pairs = combine([x[: length - 1 : 2] for x in xs], [x[1::2] for x in xs])
    odd = _prefixes(combine, pairs)  # prefixes that end at 1, 3, 5, ...
    if length > 2:
        before = [x[: (length - 1) // 2] for x in odd]
        inner = combine(before, [x[2::2] for x in xs])  # those that end at 2, 4, ...
        even = [cat([x[:1], i]) for x, i in zip(xs, inner, strict=True)]
    else:
        even = [x[:1] for x in xs]
    return [_interleaved(e, o) for e, o in zip(even, odd, strict=True)]


def _interleaved(even: Tensor, odd: Tensor) -> Tensor:
    """e0, o0, e1, o1, ...: `even` may have one more."""
    count = odd.shape[0]
    if isinstance(count, SymInt):  # who knows whether `even` has one more: as if it had
        whole = stack([even, cat([odd, odd[:1]])[: even.shape[0]]], 1)
        rows = whole.reshape((2 * even.shape[0], *even.shape[1:]))
        return rows[: even.shape[0] + count]
    pairs = stack([narrow(even, 0, 0, count), odd], 1)
    whole = pairs.reshape((2 * count, *even.shape[1:]))
    return whole if even.shape[0] == count else cat([whole, even[count:]])


# ---------------------------------------------------------------------------------- running
def _run(
    step: Step, start: Leaves, xs: Leaves, length: int, reverse: bool, unroll: int
) -> tuple[Leaves, Leaves]:
    """The last carry, and the ys stacked along their first dimension."""
    rolled = partial(_rolled, length=length, reverse=reverse, unroll=unroll)
    if not mode.levels or current_tracer.get() is None:
        return rolled(step, start, xs)
    found = of_examples(rolled, step, start, xs)
    return found or _unrolled(step, start, xs, range(length)[:: -1 if reverse else 1])


def _rolled(
    step: Step, start: Leaves, xs: Leaves, length: int, reverse: bool, unroll: int
) -> tuple[Leaves, Leaves]:
    tracer = current_tracer.get()
    if tracer is None or unroll >= length:
        return _unrolled(step, start, xs, range(length)[:: -1 if reverse else 1])
    if unroll == 1:
        return recorded(tracer, step, start, xs, length, reverse)
    count, left = divmod(length, unroll)
    whole = count * unroll
    rest = [whole + i for i in range(left)]
    chunks = [x[:whole].reshape((count, unroll, *x.shape[1:])) for x in xs]
    order = range(unroll)[:: -1 if reverse else 1]

    def several(carry: Leaves, x: Leaves) -> tuple[Leaves, Leaves]:
        return _unrolled(step, carry, x, order)

    def chunked(carry: Leaves) -> tuple[Leaves, Leaves]:
        last, ys = recorded(tracer, several, carry, chunks, count, reverse)
        return last, [y.reshape((whole, *y.shape[2:])) for y in ys]

    if not rest:
        return chunked(start)
    if not reverse:
        between, first = chunked(start)
        last, second = _unrolled(step, between, xs, rest)
    else:
        between, second = _unrolled(step, start, xs, rest[::-1])
        last, first = chunked(between)
    return last, [cat([a, b]) for a, b in zip(first, second, strict=True)]


def _unrolled(step: Step, carry: Leaves, xs: Leaves, order: Sequence[int]) -> tuple[Leaves, Leaves]:
    """The steps `order`, one after the other."""
    outputs: list[Leaves] = []
    for i in order:
        carry, y = step(carry, [x[i] for x in xs])
        outputs.append(y)
    if len(order) > 1 and order[0] > order[-1]:
        outputs.reverse()
    return carry, [stack(list(ys)) for ys in zip(*outputs, strict=True)]


# ---------------------------------------------------------------------------- under capture
def recorded(
    tracer: Any, step: Step, start: Leaves, xs: Leaves, length: int, reverse: bool
) -> tuple[Leaves, Leaves]:
    """The loop as a node of the tracer's graph: the last carry, and the ys stacked."""
    needs = [mode.enabled and differentiable(t.dtype) and t.requires_grad for t in start]
    while True:
        loop = Loop(tracer, start, xs, length, reverse)
        loop.record(step, needs)
        later = [a or t.requires_grad for a, t in zip(needs, loop.ends, strict=True)]
        if later == needs:
            break
        needs = later  # what the first step carries on has a history, if not what it begins with
    last, ys = loop.finish(needs)
    for i, t in enumerate(last):
        if not loop.source(i, hint(length))[1]:
            put_name(t, "CloneBackward0")  # see `scan`
    return last, ys


Edge = tuple[Any, int] | None
Source = tuple[Tensor, Edge, Aval]  # what stands for a slice, where gradients go, of which aval


class Loop:
    """A loop that is recorded: what stands for the carries and slices in its body, and what the
    body gives. `behind` is the loop whose gradient it is."""

    def __init__(
        self,
        tracer: Any,
        start: Leaves,
        stacks: Leaves,
        length: int,
        reverse: bool,
        behind: Loop | None = None,
    ) -> None:
        self.tracer = tracer
        self.start, self.stacks = start, stacks
        self.length, self.reverse = length, reverse
        self.behind = behind
        self.spans: tuple[Span, ...] = () if behind is None else behind.spans
        self.least = 0  # steps that there are in any case, if data decide their number
        self.first: Any = None  # then, whether there is a first one
        self.numbers: list[tuple[Any, int, int]] = []  # counters: handle, first, step
        self.inside: Any = None  # the tracer's name of its part
        self.value: Any = None  # the tracer's record of it

    def record(self, step: Step, needs: Sequence[bool]) -> None:
        """Run the body on stand-ins; `needs`: which carries have a history."""
        pairs = zip(self.start, needs, strict=True)
        self.carries = [self.step_value(f"carry{i}", t.aval, on) for i, (t, on) in enumerate(pairs)]
        self.slices = [
            self.step_value(
                f"x{i}",
                Aval(tuple(t.shape[1:]), t.dtype, t.aval.device),
                mode.enabled and differentiable(t.dtype) and t.requires_grad,
            )
            for i, t in enumerate(self.stacks)
        ]

        def run() -> list[Any]:
            self.inside, first = self.tracer.inside, sequence_now()
            self.ends, self.ys = step(list(self.carries), list(self.slices))
            self.span = first, sequence_now()
            return [handle_of(self.tracer, t) for t in (*self.ends, *self.ys)]

        self.handles, self.part = self.tracer.body(run)
        rows = zip(self.carries, self.start, self.ends, strict=True)
        check_kinds((*self.ends, *self.ys), *rows, *zip(self.slices, self.stacks, strict=False))
        inner = inner_nodes((*self.ends, *self.ys), (self.span,))
        if any(node.retained or node.hooks for node in inner):
            self.tracer.refuse_effect("retain_grad() or a hook inside the body of a loop")

    def step_value(
        self, name: str, aval: Aval, needs: bool, strides: tuple[int, ...] | None = None
    ) -> Tensor:
        """A tensor that stands for a value of each step; it may not be written."""
        handle = self.tracer.placeholder(name, aval)
        memory = TracedStorage(self.tracer, handle, aval)
        made: Tensor = wrap(Traced(aval, memory, handle, strides=strides), StandInStorage())
        made._requires_grad = needs
        return made

    def results(self) -> tuple[Leaves, Leaves]:
        """The last carries, and every y stacked."""
        self.spans = (*self.spans, self.span)
        count = len(self.carries)
        handles, self.value = self.tracer.scan(
            self.part,
            [t._array.handle for t in self.carries],
            [handle_of(self.tracer, t) for t in self.start],
            [t._array.handle for t in self.slices],
            [handle_of(self.tracer, t) for t in self.stacks],
            self.handles[:count],
            self.handles[count:],
            self.length,
            self.reverse,
            None if self.behind is None else self.behind.value,
            self.numbers,
        )
        avals = [t.aval for t in self.ends] + [self.stacked(t) for t in self.ys]
        rows = zip(handles, avals, (*self.ends, *self.ys), strict=True)
        made: Leaves = [wrap(fresh(self.tracer, h, a), t._storage.like()) for h, a, t in rows]
        return made[:count], made[count:]

    def finish(self, needs: Sequence[bool]) -> tuple[Leaves, Leaves]:
        """The results, with the history of what it begins with and goes through."""
        last, ys = self.results()
        self.put_on_tape(
            last,
            ys,
            [edge_of(t) if on else None for t, on in zip(self.start, needs, strict=True)],
            [(x, edge_of(t), t.aval) for x, t in zip(self.slices, self.stacks, strict=True)],
        )
        for i, t in enumerate(last):
            put_name(t, self._label(i))
        for t in ys:
            put_name(t, "CatBackward0")
        return last, ys

    def _label(self, i: int) -> Label:
        """The name of the history of the last of a carry, by the number of steps."""
        if not isinstance(self.length, SymInt):
            return self._label_after(i, self.length)
        least = max(self.least, bounds(self.length)[0], int(self.first is True))
        found = [self._label_after(i, least + k) for k in range(len(self.start) + 2)]
        if all(label == found[1] for label in found[1:]):
            if found[0] == found[1]:
                return found[0]
            if least == 0 and self.first is not None:
                return joined(self.first, found[:2])
        return None

    def _label_after(self, i: int, steps: int) -> Label:
        k, left = self.source(i, steps)
        return label_of(self.ends[k] if left else self.start[k])

    def source(self, i: int, steps: int) -> tuple[int, int]:
        """Origin of the final value of a carry after so many steps, as a step may hand on another
        carry: the index of the carry it was made as, and the step from the first (0: before
        that)."""
        place = {id(t): k for k, t in enumerate(self.carries)}
        while steps and id(self.ends[i]) in place:
            i, steps = place[id(self.ends[i])], steps - 1
        return i, steps

    def stacked(self, t: Tensor) -> Aval:
        """A value of every step."""
        return Aval((self.length, *t.shape), t.dtype, t.aval.device)

    def put_on_tape(
        self, last: Leaves, ys: Leaves, before: Sequence[Edge], sources: Sequence[Source]
    ) -> None:
        """Give the results the history of the loop, where the body's have one. `before`: the edges
        of the first carries."""
        inner = (*self.ends, *self.ys)
        on = [differentiable(t.dtype) and t.requires_grad for t in inner]
        if not mode.enabled or not any(on):
            return
        node = ScanNode(self, before, sources)
        given = [*zip(self.start, before, strict=True)]
        given += zip(self.stacks, [edge_of(t) for t in self.stacks], strict=True)
        leaves = [(t, edge[0]) for t, edge in given if edge and isinstance(edge[0], Tensor)]
        begins = [edge is not None for edge in before]
        self.tracer.record_scan(
            self.value, begins, [(handle_of(self.tracer, t), leaf) for t, leaf in leaves]
        )
        for place, (t, needs) in enumerate(zip((*last, *ys), on, strict=True)):
            if needs:
                t._node, t._index, t._requires_grad = node, place, True


class ScanNode(Node):
    """A loop on the tape. Its outputs are the last carries, the ys, and, for the gradient of its
    gradient, the carries that went into every step. Its edges are those of the first carries, of
    the sequences, and of what the body reads from outside."""

    __slots__ = ("loop", "outer", "saved", "sources")

    def __init__(self, loop: Loop, before: Sequence[Edge], sources: Sequence[Source]) -> None:
        whole = [loop.stacked(t) for t in (*loop.ys, *loop.carries)]
        super().__init__((), (*(t.aval for t in loop.ends), *whole))
        self.loop = loop
        self.saved: Any = {}  # None when it was freed
        self.sources = [s for s in sources if s[1] is not None and s[0].requires_grad]
        own = {id(t) for t, _, _ in sources} | {id(t) for t in loop.carries}
        found = outer_edges((*loop.ends, *loop.ys), loop.spans)
        self.outer = [e for e in found if id(e[0]) not in own]
        self.edges = (*before, *(edge for _, edge, _ in self.sources), *self.outer)
        self.avals = (
            *(t.aval for t in loop.carries),
            *(aval for _, _, aval in self.sources),
            *(aval_at(e) for e in self.outer),
        )

    def name(self) -> str:
        return "ScanBackward0"

    def release(self) -> None:
        results = (*self.loop.ends, *self.loop.ys)
        if any(getattr(n, "saved", 1) for n in inner_nodes(results, self.loop.spans)):
            self.saved = None

    def vjp(self, grads: list[Any]) -> Sequence[Any]:
        """A loop the other way round: the gradients of the carries are its carries, those of what
        the steps gave its sequences."""
        loop = self.loop
        if self.saved is None:
            raise RuntimeError(FREED)
        count, steps = len(loop.carries), len(loop.ys)
        arrived = [(i, g) for i, g in enumerate(grads[count:]) if g is not None]
        active, first_has = self._carried(grads, [i for i, _ in arrived])
        start = [grads[k] if grads[k] is not None else full(0, self.outs[k]) for k in active]
        back = Loop(
            loop.tracer, start, [g for _, g in arrived], loop.length, not loop.reverse, loop
        )
        goals = [(loop.carries[k], 0) for k in active]
        goals += [(x, 0) for x, _, _ in self.sources] + self.outer
        reached: list[int] = []

        def step(carry: Leaves, tangents: Leaves) -> tuple[Leaves, Leaves]:
            given = dict(zip([i for i, _ in arrived], tangents, strict=True))
            pairs = [(loop.ends[k], g) for k, g in zip(active, carry, strict=True)]
            pairs += [(loop.ys[i], g) for i, g in given.items() if i < steps]
            roots = [(edge_of(t), g) for t, g in pairs if t.requires_grad]
            found = sweep_inside(roots, loop.spans, goals, create=mode.enabled)
            ends = []
            for k, grad in zip(active, found, strict=False):
                more = given.get(steps + k)  # of what went into this step
                total = more if grad is None else grad if more is None else grad + more
                ends.append(_like(total, loop.carries[k].aval))
            reached[:] = [i for i in range(len(active), len(goals)) if found[i] is not None]
            rest = [_like(found[i], self._slice_aval(i - len(active))) for i in reached]
            return ends, rest

        back.record(step, [mode.enabled and differentiable(t.dtype) for t in start])
        first, stacks = back.results()
        back.put_on_tape(
            first,
            stacks,
            [None if grads[k] is None else edge_of(grads[k]) for k in active],
            [
                *((t, (self, count + steps + k), loop.stacked(t))
                  for k, t in enumerate(loop.carries)),
                *self.sources,
                *((x, edge_of(g), g.aval) for x, (_, g) in zip(back.slices, arrived, strict=True)),
            ],
        )  # fmt: skip
        result: list[Any] = [None] * len(self.edges)
        for k, grad in zip(active, first, strict=True):
            result[k] = grad if k in first_has else None
        for i, grad in zip(reached, stacks, strict=True):
            at = i - len(active)
            result[count + at] = grad if at < len(self.sources) else grad.sum(0)
        return result

    def _carried(self, grads: Sequence[Any], arrived: Sequence[int]) -> tuple[list[int], set[int]]:
        """The carries that have a gradient after some step, and those that have one before the
        first: where no gradient comes there is none, and no zeros, but for a loop of which nothing
        is known."""
        loop, steps = self.loop, len(self.loop.ys)
        place = {id(t): k for k, t in enumerate(loop.carries) if t.requires_grad}

        def reached(t: Tensor) -> set[int]:
            found = outer_edges((t,), loop.spans) if t.requires_grad else ()
            return {place[id(target)] for target, _ in found if id(target) in place}

        given = {i - steps for i in arrived if i >= steps} & {*place.values()}
        given = given.union(*(reached(loop.ys[i]) for i in arrived if i < steps))
        ways = {k: reached(loop.ends[k]) for k in place.values()}
        live = {k for k in place.values() if grads[k] is not None}
        ever = set(live)
        unknown = of_data(loop.length)
        step = 0
        while step < (loop.least if unknown else loop.length):  # most often two are enough
            step += 1
            before, live = live, given.union(*(ways[k] for k in live))
            ever |= live
            if live == before:
                break
        if unknown:
            while not (more := given.union(*(ways[k] for k in ever))) <= ever:
                ever |= more
        return sorted(ever), live if not unknown or loop.least else ever

    def _slice_aval(self, i: int) -> Aval:
        """Aval of the gradient at a source or outside, in one step."""
        if i < len(self.sources):
            return self.sources[i][0].aval
        return aval_at(self.outer[i - len(self.sources)])


def _like(grad: Any, aval: Aval) -> Tensor:
    """A gradient as an output of a step."""
    made: Tensor = full(0, aval) if grad is None else grad
    return made.to(aval.dtype)


# ------------------------------------------------------------------------------- arguments
def _kind(value: Any) -> str:
    return f"a {type(value).__name__}"


def _tensor(what: str, leaf: Any) -> Tensor:
    if isinstance(leaf, Tensor):
        return leaf
    if isinstance(leaf, bool | int | float | complex):
        made: Tensor = tensor(leaf)
        return made
    raise TypeError(f"{what} is to be a tensor or a number, got {_kind(leaf)}")


def _sequences(name: str, xs: Any, dim: int, length: int | None) -> tuple[Leaves, int]:
    """The tensors of `xs`, the dimension that is gone through in front; its length."""
    slices: Leaves = []
    first = ""
    length = None if length is None else index(length)
    for path, leaf in leaves_of(xs):
        if not isinstance(leaf, Tensor):
            raise TypeError(f"{name}: xs{path} is to be a tensor, got {_kind(leaf)}")
        if not -leaf.ndim <= dim < leaf.ndim:
            raise RuntimeError(
                f"{name}: xs{path} has shape {tuple(leaf.shape)}, which has no dimension {dim}"
            )
        size = leaf.shape[dim]
        if length is not None and size != length:
            what = f"xs{first} has" if slices else "length is"
            raise RuntimeError(
                f"{name}: xs{path} has size {size} along dimension {dim}, but {what} {length}"
            )
        first, length = (first, length) if slices else (path, size)
        slices.append(movedim(leaf, dim, 0) if dim % leaf.ndim else leaf)
    if length is None:
        raise TypeError(f"{name}: xs has no tensors: give the length")
    return slices, length


def _like_init(init: Any, carry: Leaves, after: Any) -> Leaves:
    """The leaves of a carry, which must look like the one before."""
    if structure(after) != structure(init):
        raise TypeError(
            "scan: the carry that combine_fn returns is to have the structure of init, "
            f"{_shown(init)}, got {_shown(after)}"
        )
    found = []
    for (path, leaf), before in zip(leaves_of(after), carry, strict=True):
        new = _tensor(f"scan: the carry{path} that combine_fn returns", leaf)
        if new.aval != before.aval:
            raise RuntimeError(
                f"scan: the carry{path} goes into combine_fn as {before.aval!r} and comes out as "
                f"{new.aval!r}: it must not change"
            )
        found.append(new)
    return found


def _like_xs(xs: Any, before: Leaves, found: Any) -> Leaves:
    """The leaves of what an associative function gave, which must look like its operands."""
    if structure(found) != structure(xs):
        raise TypeError(
            "associative_scan: combine_fn is to return the structure of xs, "
            f"{_shown(xs)}, got {_shown(found)}"
        )
    leaves = []
    for (path, leaf), x in zip(leaves_of(found), before, strict=True):
        if not isinstance(leaf, Tensor):
            raise TypeError(
                f"associative_scan: combine_fn returned {_kind(leaf)} for xs{path}, not a tensor"
            )
        if leaf.aval != x.aval:
            raise RuntimeError(
                f"associative_scan: combine_fn takes xs{path} as {x.aval!r} and returns "
                f"{leaf.aval!r}: it must not change"
            )
        leaves.append(leaf)
    return leaves


def _outputs(y: Any) -> Leaves:
    return [_tensor(f"scan: the output{path} of combine_fn", leaf) for path, leaf in leaves_of(y)]


def _shown(tree: Any) -> str:
    """The structure of a tree, with its leaves as dots."""
    return repr(fill(tree, [_DOT] * len(leaves_of(tree))))


class _Dot:
    def __repr__(self) -> str:
        return "*"


_DOT = _Dot()
