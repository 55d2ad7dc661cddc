"""Verified calls: why the compiled version was not what Python did. differences -> VerifyError.

Asked in this order: was the version meant for this call at all (a new capture of the call has other
guards, another graph or other effects)? Does the captured graph, op by op, give Python's answer
(then a pass or a kernel is wrong: the first one that is)? If it does not, is a derivative other
under capture than on the tape?
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any, Final

import numpy as np

from eager import autograd
from eager.core.dispatch import apply
from eager.core.tensor import Tensor, wrap
from jitcap.base.module_path import readable
from jitcap.capture.epilogue_writes import Effect
from jitcap.graph.graph import INPUT, ITEM, Graph, Node, reachable
from jitcap.graph.tracer import trace
from jitcap.guards.guard import Guard
from jitcap.passes import PASSES
from jitcap.passes.dead import dead_code
from jitcap.verify.case import Case
from jitcap.verify.compare import Leaf
from jitcap.verify.copies import owner_of
from jitcap.verify.host import first_other
from jitcap.verify.tolerance import disturbed, far, judge

SHOWN: Final = 5  # differences in the message
HOST: Final = ("what is printed", "log record", "the log", "the warnings")


class VerifyError(AssertionError):
    """The compiled version and Python disagree, found by `verify=True`: a bug of this library.

    `what` differs, `where` (the operation, or the place that is read or written, with the user's
    line), and `why`; `file` is the one that shows it (and how far it is reduced), or why there is
    none."""

    def __init__(self, name: str, what: str, where: str, why: str) -> None:
        super().__init__(f"{name}: {what}\n  where: {where}\n  why: {why}")
        self.name, self.what, self.where, self.why, self.file = name, what, where, why, ""

    def add_file(self, told: str) -> None:
        """Add what became of the file that shows the fault."""
        self.file = told
        if told:
            self.args = (f"{self.args[0]}\n  file: {told}",)


class Blame:
    """The search for the cause of one call's differences."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.captured = case.captured
        self.graph = case.graph
        self.first = case.differences[0]
        self.derivative: Node | None = None  # an operation whose derivative is wrong

    def error(self) -> VerifyError:
        shown = [f"{d.path}: {d.what}" for d in self.case.differences[:SHOWN]]
        more = len(self.case.differences) - len(shown)
        what = "\n  and ".join(shown + ([f"{more} more"] if more > 0 else []))
        where, why = self._stale() or self._computed() or (self._location(), self._effect())
        return VerifyError(self.captured.name, what, where, why)

    # ---- a version that was not meant for this call

    def _stale(self) -> tuple[str, str] | None:
        """First difference between the version and a new capture of this very call."""
        fresh = self.case.fresh
        if fresh is None:
            return None
        fresh.render()
        guard = _other_guard(self.captured.guards.items, fresh.guards.items)
        if guard is not None:
            known = [g for g in self.captured.guards.items if _same_place(g, guard)]
            had = f"expected {known[0].expected()}" if known else "has no guard there"
            place = f"{readable(guard.origin.show())}, read at {guard.where}"
            why = f"a version is used that is not for this call: it {had}, found {guard.expected()}"
            return place, why
        nodes = _other_nodes(self.graph, dead_code(fresh.graph))
        if nodes is not None:
            there = f"a capture of this call has {_shown(nodes[1])}"
            return _shown(nodes[0]), f"{there}: the version relies on what is not guarded"
        effect = next(
            (b for a, b in _pairs(self.captured.epilogue.effects, fresh.epilogue.effects)
             if _key(a) != _key(b)), None,
        )  # fmt: skip
        if effect is not None:
            place = f"{readable(effect.show())}, written at {effect.where or 'an unknown line'}"
            return place, "a capture of this call has another effect there"
        return None

    # ---- a wrong number

    def _computed(self) -> tuple[str, str] | None:
        """The operation that made the number that differs."""
        if not self.first.number:
            return None
        if self.first.path.startswith("the gradient of"):
            return self._gradient()
        index = self._output()
        if index is None or self.case.outcome is None:
            return None
        node = self.graph.outputs[index]
        got = self.case.outcome.outputs[index]
        want = self._run(self.graph)[index]
        if not self._off(node, got, want):
            return self._wrong_capture(node)
        return self._wrong_pass(index, got, want) or self._wrong_kernel(index, node)

    def _output(self) -> int | None:
        """Index of the graph's output that the array or number is, or lies in."""
        array, outcome = self.first.array, self.case.outcome
        if array is None or outcome is None:
            return None
        outputs = outcome.outputs[: len(self.graph.outputs)]
        for i, value in enumerate(outputs):
            if isinstance(array, np.ndarray):
                if isinstance(value, np.ndarray) and owner_of(value) is owner_of(array):
                    return i
            elif not np.shape(value) and np.asarray(value).item() == array:
                return i
        return None

    def _run(self, graph: Graph) -> list[Any]:
        return disturbed(graph, self.case.arguments(), 0.0, 0)

    def _off(self, node: Node, got: Any, want: Any) -> bool:
        """True if a value of `node` differs, by more than rounding, from the graph's op by op."""
        if np.shape(got) != np.shape(want) or np.asarray(got).dtype != np.asarray(want).dtype:
            return True
        graph = self.graph.with_(outputs=(node,))
        return bool(far(got, want).any() and judge(Leaf("", got, want, ""), self._samples(graph)))

    def _samples(self, graph: Graph) -> Callable[[float], Iterator[dict[str, Any]]]:
        def samples(amplitude: float) -> Iterator[dict[str, Any]]:
            for seed in count():
                moved = amplitude if seed else 0.0
                yield {"": disturbed(graph, self.case.arguments(), moved, seed)[0]}

        return samples

    def _wrong_pass(self, index: int, got: Any, want: Any) -> tuple[str, str] | None:
        """The first graph pass after which the graph gives another value."""
        graph = self.graph
        for each, _ in PASSES:
            before, graph = graph, each(graph)
            value = self._run(graph)[index]
            if graph is not before and self._off(self.graph.outputs[index], value, want):
                node = self._first_new(before, graph, index)
                return _shown(node), f"the pass {each.__name__} changes what the graph computes"
        return None

    def _first_new(self, before: Graph, after: Graph, index: int) -> Node:
        """The first operation that a pass made whose value the graph did not have."""
        known: dict[Any, list[Any]] = {}
        for n, value in before.steps(self.case.arguments()):
            if not isinstance(value, tuple):
                known.setdefault(n.avals, []).append(value)
        old, needed = set(before.nodes), reachable([after.outputs[index]])
        for n, value in after.steps(self.case.arguments()):
            if n in old or n not in needed or isinstance(value, tuple):
                continue
            if not any(not far(value, v).any() for v in known.get(n.avals, ())):
                return n
        return after.outputs[index]

    def _wrong_kernel(self, index: int, node: Node) -> tuple[str, str]:
        """The first operation that is wrong when it is compiled as the end of the graph."""
        graph = self.graph
        needed = reachable([node])
        chain = [n for n in graph.nodes if n in needed and len(n.avals) == 1]
        low, high = 0, len(chain) - 1
        if not chain or not self._compiles_wrong(chain[high]):
            return _shown(node), "its kernel is wrong (only as a part of the whole program)"
        while low < high:
            middle = (low + high) // 2
            if self._compiles_wrong(chain[middle]):
                high = middle
            else:
                low = middle + 1
        return _shown(chain[high]), "its kernel is wrong: op by op the graph gives Python's value"

    def _compiles_wrong(self, node: Node) -> bool:
        graph = self.graph.with_(outputs=(node,))
        (got,) = self.case.compile_again(graph)(self.case.arguments())
        return self._off(node, got, self._run(graph)[0])

    def _wrong_capture(self, node: Node) -> tuple[str, str]:
        n = self.derivative = wrong_derivative(self.graph, self.case.arguments())
        if n is not None:
            return _shown(n), "its derivative is another under capture than on the tape"
        return _shown(node), "the captured graph is not what Python computes"

    def _gradient(self) -> tuple[str, str]:
        """A gradient that a result would pass on: of the joint graph, or of its kernels."""
        joint, outcome = self.case.joint, self.case.outcome
        assert joint is not None
        assert outcome is not None
        index = joint.outputs + list(outcome.gradients).index(self.first.path)
        inputs = [*self.case.arguments(), *self.case.tangents]
        want = disturbed(joint.graph, inputs, 0.0, 0)[index]
        if far(outcome.gradients[self.first.path], want).any():
            return _shown(joint.graph.outputs[index]), "the kernel of its backward pass is wrong"
        return self._wrong_capture(joint.graph.outputs[index])

    # ---- a place

    def _location(self) -> str:
        """The place that differs, and the user's line about it."""
        path = self.first.path
        effect = self._written()
        if effect is not None:
            line = effect.where or self._read_at(path) or "an unknown line"
            return f"{path}, written at {line}"
        index = self._output()
        if index is not None:
            return f"{path}: {_shown(self.graph.outputs[index])}"
        report = self._report()
        if report:
            return f"{path}, at {report}"
        read = self._read_at(path)
        return f"{path}, read at {read}" if read else f"{path} of {self.case.place}"

    def _written(self) -> Effect | None:
        """The last effect on the place that differs, or on what is a part of it."""
        path = self.first.path
        shown = {readable(e.show()): e for e in self.captured.epilogue.effects}
        found = [name for name in shown if path.startswith(name)]
        return shown[max(found, key=len)] if found else None

    def _report(self) -> str:
        """The line of the host call that said something else."""
        if not self.first.path.startswith(HOST) or self.case.outcome is None:
            return ""
        index = first_other(self.first.path, self.case.outcome.calls, self.case.heard)
        reports = self.captured.epilogue.calls
        return reports[index].where if index is not None and reports else ""

    def _read_at(self, path: str) -> str:
        """The line that first read the place, or what it is a part of."""
        best = ""
        line = ""
        for guard in self.captured.guards.items:
            shown = readable(guard.origin.show())
            if path.startswith(shown) and len(shown) > len(best):
                best, line = shown, guard.where
        return line

    def _effect(self) -> str:
        path = self.first.path
        if path.startswith(HOST):
            return "the host would have heard something else"
        if self._written() is not None:
            return "the effects that the version replays lead to something else"
        places = self.case.places.values()
        if any(path.startswith(readable(o.show())) for o in places):
            return "Python changes it, and the version has no such effect"
        return "the value is put together in another way"


def wrong_derivative(graph: Graph, inputs: Sequence[Any]) -> Node | None:
    """The first operation whose derivative is another under capture than on the tape."""
    values: dict[Node, Any] = dict(zip(graph.inputs, inputs, strict=True))
    values |= dict(graph.steps(inputs))
    for n in graph.nodes:
        if n.op.vjp is not None and len(n.avals) == 1 and n.aval.dtype.category == 2:
            arrays = [values[a] if isinstance(a, Node) else a for a in n.args]
            if not _derivatives_agree(n, arrays):
                return n
    return None


def _derivatives_agree(n: Node, arrays: Sequence[Any]) -> bool:
    """The derivative of one operation on the tape, and traced."""
    floats = [
        i for i, a in enumerate(arrays)
        if isinstance(a, np.ndarray) and isinstance(n.args[i], Node) and _floats(a)
    ]  # fmt: skip
    if not floats:
        return True

    def gradients(*given: Tensor) -> tuple[Any, ...]:
        *values, tangent = given
        operands = [wrap(a) if isinstance(a, np.ndarray) else a for a in arrays]
        for i, v in zip(floats, values, strict=True):
            operands[i] = v.detach().requires_grad_()
        out = apply(n.op, *operands, **n.attrs)
        wanted = [operands[i] for i in floats]
        grads = autograd.grad([out], wanted, [tangent], allow_unused=True)
        return tuple(g if g is not None else wrap(np.zeros(())) for g in grads)

    chance = np.random.default_rng(0)
    tangent = np.asarray(chance.standard_normal(n.aval.shape)).astype(n.aval.dtype.np)
    given: list[Tensor] = [wrap(np.array(x)) for x in (*(arrays[i] for i in floats), tangent)]
    try:
        plain = [g._array for g in gradients(*given)]
        traced = trace(gradients, *given)
        constants = [t._array for t in traced.constants]
        values = traced.graph.run([*(t._array for t in given), *constants])
    except Exception:  # noqa: BLE001 - a derivative that cannot be taken alone tells nothing
        return True
    return not any(
        np.shape(a) != np.shape(b) or far(np.asarray(a), np.asarray(b)).any()
        for a, b in zip(plain, values, strict=False)
    )


def _floats(array: Any) -> bool:
    return array.dtype.kind in "fc"


def _shown(node: Node) -> str:
    if node.op is INPUT:
        return f"the input {node.attrs.get('name', '')}"
    op = node.parents[0].op if node.op is ITEM else node.op
    where = node.where
    return f"{op.name} at {where}" if where.file else f"{op.name}{where.function}"


def _other_guard(had: Sequence[Guard], now: Sequence[Guard]) -> Guard | None:
    """The first guard of a new capture that the version does not have."""
    known = {_guard_key(g) for g in had}
    return next((g for g in now if _guard_key(g) not in known), None)


def _guard_key(guard: Guard) -> tuple[Any, ...]:
    return type(guard), guard.origin.show(), guard.expected()


def _same_place(a: Guard, b: Guard) -> bool:
    return a.origin.show() == b.origin.show() and type(a) is type(b)


def _other_nodes(had: Graph, now: Graph) -> tuple[Node, Node] | None:
    """The first operation of `had` that is not as in `now`, and what is there now."""
    numbers = [{n: i for i, n in enumerate(g.everything())} for g in (had, now)]
    for a, b in zip(had.nodes, now.nodes, strict=False):
        args = [
            [numbers[k][x] if isinstance(x, Node) else (type(x), repr(x)) for x in node.args]
            for k, node in enumerate((a, b))
        ]
        if a.op is not b.op or args[0] != args[1] or repr(a.attrs) != repr(b.attrs):
            return a, b
    if len(had.nodes) != len(now.nodes):
        last = [g.nodes[-1] if g.nodes else g.outputs[0] for g in (had, now)]
        return last[0], last[1]
    return None


def _pairs(a: Sequence[Effect], b: Sequence[Effect]) -> Iterator[tuple[Any, Any]]:
    for i in range(max(len(a), len(b))):
        x = a[i] if i < len(a) else None
        y = b[i] if i < len(b) else None
        yield x, y if y is not None else x


def _key(effect: Effect | None) -> Any:
    return None if effect is None else (effect.form, effect.show(), effect.value)
