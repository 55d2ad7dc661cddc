"""Beside the region: its compiled backwards. A partition, which gradients arrived -> what to run.

A backward compiles when it is first run, long after the entry was made. What that asks about sizes
is no guard of the entry any more, so each backward has its own: it runs for the sizes for which
they hold, and for others another one is compiled, up to a limit, beyond which they run op by op.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from eager.base.dataclass import dataclass
from eager.base.process.locks import lock
from eager.sizes.polynomial import add, of_atom
from eager.sizes.substitute import symbols_in
from jitcap.base.diagnostics import announce, note_fault
from jitcap.compile.executable import op_by_op
from jitcap.graph.graph import Graph, at_sizes
from jitcap.graph.partition import Partition, without
from jitcap.graph.subgraphs import everywhere
from jitcap.graph.symbols import Question, Sizes, holds

Run = Callable[[list[Any]], list[Any]]
Compile = Callable[[Graph], Run]
VARIANTS: Final = 16  # for the same slots and different answers about sizes: each is a compile


@dataclass(frozen=True, slots=True, eq=False)
class Backward:
    """The gradients of some slots: for sizes that answer the `questions` like this, what to run
    (None: no gradient goes anywhere), and which inputs and outputs of the whole backward it has."""

    questions: Sequence[Question]
    run: Run | None
    inputs: Sequence[int]
    outputs: Sequence[int]

    def fits(self, sizes: Mapping[str, int]) -> bool:
        return all(holds(relation, x, sizes) is yes for relation, x, yes in self.questions)


class Backwards:
    """The backwards of one region. `passed`: the outputs that are not computed."""

    def __init__(self, partition: Partition, passed: Container[int], compile_: Compile) -> None:
        self._whole = partition.backward
        self._slots = partition.backward.inputs[len(partition.saved) :]
        self._wanted = [i for i in range(len(self._whole.outputs)) if i not in passed]
        self._compile = compile_
        self._found: dict[tuple[int, ...], tuple[Backward, ...]] = {}  # by slots, replaced
        self._lock = lock()

    def get(self, arrived: tuple[int, ...], sizes: Mapping[str, int]) -> Backward:
        """The backward for gradients of the slots that `arrived`, in a call with these `sizes`."""
        found = self._fitting(arrived, sizes)
        if found is None:
            with self._lock:
                found = self._fitting(arrived, sizes)
                if found is None:
                    found = self._make(arrived, sizes)
                    self._found[arrived] = (found, *self._found.get(arrived, ()))
        return found

    def _fitting(self, arrived: tuple[int, ...], sizes: Mapping[str, int]) -> Backward | None:
        return next((b for b in self._found.get(arrived, ()) if b.fits(sizes)), None)

    def _make(self, arrived: tuple[int, ...], sizes: Mapping[str, int]) -> Backward:
        whole = self._whole.with_(outputs=tuple(self._whole.outputs[i] for i in self._wanted))
        absent = {n for i, n in enumerate(self._slots) if i not in arrived}
        scope = _scope_of(whole)
        if scope is None:
            graph, left = without(whole, self._slots, absent)
            return self._backward((), self._compile(graph) if left else None, graph, left)
        if any(s.of_data for s in scope.symbols.values()):
            with suppress(Exception), scope.asking(sizes, of_data=False) as questions:
                graph, left = without(whole, self._slots, absent)
                run = self._compile(graph) if left else None
                return self._backward(questions, run, graph, left)
        count = len(self._found.get(arrived, ()))
        with scope.asking(sizes) as questions:
            graph, left = without(whole, self._slots, absent)
            if not left:
                return self._backward(questions, None, graph, left)
            if count >= VARIANTS:
                what = f"a backward of {whole.name} runs op by op: {count} are compiled already"
                announce(("backwards", self), what)
                return self._backward(questions, op_by_op(graph, ()), graph, left)
            try:
                return self._backward(questions, self._compile(graph), graph, left)
            except Exception as refusal:  # noqa: BLE001 - raised again below, if sizes are not why
                note_fault(whole.name, refusal)
        fixed = [
            ("==", add(of_atom(symbol), sizes[name], -1), True)
            for name, symbol in scope.symbols.items()
            if name in sizes
        ]
        run = self._compile(at_sizes(graph, sizes))
        return self._backward(fixed, run, graph, left)

    def _backward(
        self, questions: Sequence[Question], run: Run | None, graph: Graph, left: Sequence[int]
    ) -> Backward:
        number = {n: i for i, n in enumerate(self._whole.inputs)}
        inputs = [number[n] for n in graph.inputs]
        return Backward(questions, run, inputs, [self._wanted[i] for i in left])


def _scope_of(graph: Graph) -> Sizes | None:
    """Whom the symbols of a graph ask; None if it has none."""
    if not any("symbol" in n.attrs for n in graph.inputs):
        return None
    symbols = symbols_in((n.attrs, *(a.shape for a in n.avals)) for n in everywhere(graph))
    scope: Any = next((s.scope for s in symbols), None)
    return scope  # of a program's symbols, it is no other Scope
