"""After the joint graph: a compiled region on eager's tape. Joint -> forward, tape nodes, backward.

`Region` is what the calls of one version share: `partition` cuts the joint graph in two, and the
backward compiles when it is first run. Each call has a `RegionNode`; its results hang on it by
`OutputNode`s, under the names that their histories had inside.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from codegen import CheckFailed
from eager import autograd
from eager import dtype as dt
from eager.aval import Aval
from eager.tape import FREED, stale
from eager.tensor import Tensor, wrap
from eager.traced import Traced
from jitcap.graph import Graph, Node, reachable
from jitcap.joint import Joint
from jitcap.partition import Partition, partition, without
from jitcap.record import announce
from jitcap.retrace import retrace, view


class OutputNode(autograd.Node):
    """The history of tensors that leave a region, by the name that it had inside."""

    __slots__ = ("label", "places")

    def __init__(self, label: str, outs: int) -> None:
        super().__init__((), (_NONE,) * outs)
        self.sequence: float = 0
        self.label = label
        self.places: tuple[int, ...] = ()  # for each edge, the output that it belongs to

    def name(self) -> str:
        return self.label

    def put(self, tensor: Tensor, index: int, region: RegionNode, slot: int) -> None:
        """`tensor` is output `index` of this node, and `slot` of the region."""
        self.edges = (*self.edges, region.edge(slot, self, index, tensor))
        self.sequence = max(self.sequence, region.place(slot))
        self.avals = (*self.avals, region.outs[slot])
        self.places = (*self.places, index)
        tensor._node, tensor._index, tensor._requires_grad = self, index, True

    def watches(self, index: int, wanted: set[tuple[int, int]] | None) -> bool:
        """Whether somebody wants to see the gradient of an output."""
        return bool(
            (self.hooks and self.hooks.get(index))
            or (self.retained and index in self.retained)
            or (wanted is not None and (id(self), index) in wanted)
        )

    def vjp(self, grads: list[Any]) -> Sequence[Any]:
        return [grads[i] for i in self.places]


class SpentNode(autograd.Node):
    """The history of an output that was used up inside the region: asking again raises."""

    __slots__ = ("label", "why")

    def __init__(self, label: str, outs: int, why: str) -> None:
        super().__init__((), (_NONE,) * outs)
        self.label = label
        self.why = why

    def name(self) -> str:
        return self.label

    def put(self, tensor: Tensor, index: int) -> None:
        tensor._node, tensor._index, tensor._requires_grad = self, index, True

    def vjp(self, grads: list[Any]) -> Sequence[Any]:
        raise RuntimeError(self.why)


_NONE = Aval((), dt.float32)  # nobody looks at what passes through
Backward = Callable[[list[Any]], list[Any]]
Compile = Callable[[Graph], Backward]
Variant = tuple[Backward | None, list[int], list[int]]  # to run; numbers of its inputs and outputs


class Region:
    """A partitioned joint graph: what its tape nodes share. The backward compiles when run."""

    def __init__(
        self, joint: Joint, writes: Sequence[tuple[int, int]], compile_backward: Compile
    ) -> None:
        """`writes` pairs (input index, output index) of what the forward writes in place."""
        self.joint = joint
        graph = joint.graph
        primals = graph.inputs[: joint.primals]
        self.outs: tuple[Aval, ...] = tuple(n.aval for n in graph.inputs[joint.primals :])
        self.name = f"{graph.name.removesuffix('_joint')}Backward"
        self.watchable = any(s.behind for s in joint.segments)
        written = frozenset(i for i, _ in writes)
        places = self._places(written, frozenset(o for _, o in writes))
        self.partition: Partition = partition(graph, joint.primals, joint.outputs, alive=places)
        saved = self.partition.saved
        needed = reachable(joint.tape.ends(graph))
        again = [(i, n) for i, n in enumerate(primals) if n in needed]
        kept = dict.fromkeys(n for n in saved if n not in places)
        kept.update(dict.fromkeys(n for i, n in again if i in written))
        self.extra = tuple(kept)
        number = {n: i for i, n in enumerate(kept)}
        nodes = tuple(graph.everything())
        at: dict[tuple[str, int], int] = {}  # what a call keeps: place -> number

        def keep(place: tuple[str, int]) -> int:
            return at.setdefault(place, len(at))

        self.saved = [keep(places[n] if n in places else ("extra", number[n])) for n in saved]
        self.primals = [
            (i, keep(("extra", number[n]) if i in written else ("input", i))) for i, n in again
        ]
        self.kept = [  # for each slot, what may not be written
            [keep(places[nodes[i]]) for i in sorted(s.kept) if nodes[i] in places]
            for s in joint.segments
        ]
        self._kept = tuple(at)
        self._compile = compile_backward
        self._variants: dict[tuple[int, ...], Variant] = {}
        self._lock = threading.Lock()

    @property
    def forward(self) -> Graph:
        """primals -> outputs, then the values that are kept beside them."""
        graph, count = self.joint.graph, self.joint.primals
        ends = (*graph.outputs[: self.joint.outputs], *self.extra)
        needed = reachable(ends)
        nodes = tuple(n for n in graph.nodes if n in needed)
        return Graph(graph.inputs[:count], nodes, ends, self.partition.forward.name)

    def _places(
        self, written: frozenset[int], replaced: frozenset[int]
    ) -> dict[Node, tuple[str, int]]:
        """Where values are after the forward, in memory that nobody may write before the backward:
        inputs and results that eager itself would have saved, and numbers.

        Memory that the region writes does not keep its value: such an input counts as a value of
        its own, and so does what is written to it."""
        graph, joint = self.joint.graph, self.joint
        nodes = tuple(graph.everything())
        safe = {nodes[i] for s in joint.segments for i in s.kept}
        place: dict[Node, tuple[str, int]] = {
            graph.outputs[i]: ("output", i)
            for i in joint.tensors
            if i not in replaced and graph.outputs[i] in safe
        }
        for i, n in enumerate(graph.inputs[: joint.primals]):
            if i not in written and (n in safe or n.aval.weak):
                place[n] = ("input", i)
        return place

    def run_backward(
        self, arrived: tuple[int, ...], kept: Kept, grads: list[Any], *, exact: bool
    ) -> list[Any]:
        """The gradients of the leaves (None where none flows), from what is `kept` and the
        gradients of the slots that `arrived`; `exact`: with the strides that eager gives them."""
        if arrived not in self._variants:
            with self._lock:
                if arrived not in self._variants:
                    self._variants[arrived] = self._variant(arrived)
        run, inputs, outputs = self._variants[arrived]
        results: list[Any] = [None] * len(self.joint.leaves)
        if run is not None:
            first, strides = len(self.saved), self.joint.strides
            values = [
                kept.get(self.saved[i]) if i < first else grads[i - first]._array for i in inputs
            ]
            for i, found in zip(outputs, run(list(map(_contiguous, values))), strict=True):
                array, layout = np.asarray(found), strides[i]
                results[i] = wrap(_strided(array, layout) if exact and layout else array)
        for i, (slot, chain) in self.joint.passed.items():
            if slot in arrived:
                results[i] = view(grads[slot], chain, record=False)
        return results

    def _variant(self, arrived: tuple[int, ...]) -> Variant:
        """The backward of some of the slots."""
        whole = self.partition.backward
        slots = whole.inputs[len(self.partition.saved) :]
        absent = {n for i, n in enumerate(slots) if i not in arrived}
        wanted = [i for i in range(len(whole.outputs)) if i not in self.joint.passed]
        graph, left = without(
            whole.with_(outputs=tuple(whole.outputs[i] for i in wanted)), slots, absent
        )
        number = {n: i for i, n in enumerate(whole.inputs)}
        run = self._compile(graph) if left else None
        return run, [number[n] for n in graph.inputs], [wanted[i] for i in left]

    def begin(self) -> RegionNode:
        """The tape node of one call, for the outputs to hang on."""
        return RegionNode(self)

    def attach(
        self,
        node: RegionNode,
        inputs: Sequence[Any],
        leaves: Sequence[Tensor],
        outputs: Sequence[Tensor | None],
        extra: Sequence[Any],
    ) -> None:
        """Complete the node of one call, when the effects have been replayed.

        `inputs` are the tensors and numbers of the call, `leaves` the tensors that gradients go to,
        `outputs` the result tensors by index (None where an output is none), `extra` the arrays
        that `forward` gives after them.
        """
        table = {"input": inputs, "output": outputs, "extra": extra}
        node.edges = tuple([_edge(leaves[i]) for i in self.joint.leaves])
        node.avals = self.joint.avals
        for stage in node.stages:
            stage.complete()
        node.kept = Kept([table[kind][i] for kind, i in self._kept])
        node.leaves = leaves


def _edge(leaf: Tensor) -> tuple[Any, int]:
    return (leaf, 0) if leaf._node is None else (leaf._node, leaf._index)


class Kept:
    """What one call keeps for its backward: arrays and numbers, and the versions of the tensors
    that they are of (not the tensors: their histories would make cycles)."""

    __slots__ = ("storages", "values", "versions")

    def __init__(self, values: Sequence[Any]) -> None:
        self.values = [v._array if isinstance(v, Tensor) else v for v in values]
        self.storages = [v._storage if isinstance(v, Tensor) else None for v in values]
        self.versions = [0 if s is None else s.version for s in self.storages]

    def get(self, number: int) -> Any:
        """Raises RuntimeError if a tensor was written since."""
        storage, value = self.storages[number], self.values[number]
        if storage is not None and storage.version != self.versions[number]:
            raise RuntimeError(
                stale(value.dtype, value.shape, "a compiled region", storage.version,
                      self.versions[number])
            )  # fmt: skip
        return value


_NOTHING: Final = Kept(())


class RegionNode(autograd.Node):
    """One call of a compiled forward, on eager's tape."""

    __slots__ = (
        "arrived", "freed", "kept", "leaves", "outputs", "region", "stages",
    )  # fmt: skip

    def __init__(self, region: Region) -> None:
        super().__init__((), region.outs)
        self.region = region
        self.kept = _NOTHING
        self.leaves: Sequence[Tensor] = ()
        self.outputs: dict[int, tuple[OutputNode, int]] = {}  # by slot
        self.stages: list[StageNode] = []
        self.arrived: tuple[int, ...] = ()
        self.freed: frozenset[int] = frozenset()  # parts of the history

    def name(self) -> str:
        return self.region.name

    def edge(
        self, slot: int, output: OutputNode, index: int, tensor: Tensor
    ) -> tuple[autograd.Node, int]:
        """What an output hangs on: this node, or a stage where other outputs are behind it."""
        if not self.region.joint.segments[slot].behind:
            if self.region.watchable:
                self.outputs[slot] = output, index
            return self, slot
        self.outputs[slot] = output, index
        self.stages.append(StageNode(self, slot))
        return self.stages[-1], 0

    def place(self, slot: int, *, stage: bool = False) -> float:
        """The sequence number of an output: after this node and the outputs behind it."""
        rank, count = self.region.joint.segments[slot].rank, len(self.outs)
        return self.sequence + (2 * rank + 2 - stage) / (2 * count + 2)

    def toward(self, grads: list[Any], wanted: set[tuple[int, int]] | None) -> Sequence[Any]:
        self.arrived = tuple([i for i, g in enumerate(grads) if g is not None])
        segments = self.region.joint.segments
        if self.freed:
            self.check(*(segments[i].whole for i in self.arrived))
        for i in self.arrived:
            for number in self.region.kept[i]:
                self.kept.get(number)
        tangents = [grads[i] for i in self.arrived]
        if autograd.is_grad_enabled() or any(isinstance(t._array, Traced) for t in tangents):
            roots = list(zip(self.arrived, tangents, strict=True))
            found = self.again(roots, (), "create_graph=True")
            return [found[i] for i in self.region.joint.leaves]
        exact = wanted is not None  # else they are added to `.grad`
        try:
            return self.region.run_backward(self.arrived, self.kept, grads, exact=exact)
        except CheckFailed:  # op by op, to raise what the op raises
            roots = list(zip(self.arrived, tangents, strict=True))
            found = self.again(roots, (), "a check that failed")
            return [found[i] for i in self.region.joint.leaves]

    def check(self, *parts: frozenset[int]) -> None:
        """Raise for a history that was freed."""
        if not all(map(self.freed.isdisjoint, parts)):
            raise RuntimeError(FREED)

    def again(
        self, roots: Sequence[tuple[int, Tensor]], cuts: Sequence[int], why: str
    ) -> list[Tensor | None]:
        """The gradients of all leaves, then of the slots `cuts`, from those of the `roots`: by the
        forward on the tape."""
        announce(
            ("again", self.region, why),
            f"{self.name()}: {why} from outside the compiled region runs it again op by op; call "
            "backward() inside @jit to have it compiled",
        )
        joint = self.region.joint
        primals = {i: self.kept.get(number) for i, number in self.region.primals}
        goals = [*map(_edge, self.leaves), *(self.outputs[i] for i in cuts)]
        places = {joint.tape.slots[i]: len(self.leaves) + k for k, i in enumerate(cuts)}
        return retrace(joint.graph, joint.tape, primals, goals, roots, places)

    def release(self) -> None:
        segments = self.region.joint.segments
        self.free(frozenset().union(*(segments[i].whole for i in self.arrived)))

    def free(self, parts: frozenset[int]) -> None:
        """Forget parts of the history; all, when no output has the whole of its own any more."""
        self.freed |= parts
        if all(not self.freed.isdisjoint(s.parts) for s in self.region.joint.segments):
            self.kept, self.leaves = _NOTHING, ()


class StageNode(autograd.Node):
    """The way from an output of a region to other outputs behind it. The compiled backward does not
    go by them; where somebody wants to see their gradients, the tape does."""

    __slots__ = ("region", "slot", "watched")

    def __init__(self, region: RegionNode, slot: int) -> None:
        super().__init__((), (region.outs[slot],))
        self.sequence: float = region.place(slot, stage=True)
        self.region = region
        self.slot = slot
        self.watched = False

    def complete(self) -> None:
        """The outputs before this one, the whole region, and its leaves."""
        region, before = self.region, self.region.region.joint.segments[self.slot].before
        outs = region.region.outs
        self.edges = (*(region.outputs[i] for i in before), (region, self.slot), *region.edges)
        self.avals = (*(outs[i] for i in before), outs[self.slot], *region.avals)

    def name(self) -> str:
        return self.region.name()

    def toward(self, grads: list[Any], wanted: set[tuple[int, int]] | None) -> Sequence[Any]:
        region = self.region
        segment = region.region.joint.segments[self.slot]
        found = (region.outputs[i] for i in segment.behind)
        self.watched = any(node.watches(index, wanted) for node, index in found)
        before, leaves = segment.before, region.region.joint.leaves
        if not self.watched:
            return [*(None for _ in before), grads[0], *(None for _ in leaves)]
        region.check(segment.parts)
        why = "a gradient asked for at an output that others are computed from"
        given = region.again([(self.slot, grads[0])], segment.before, why)
        first = len(region.leaves)
        return [*given[first:], None, *(given[i] for i in leaves)]

    def release(self) -> None:
        if self.watched:
            self.region.free(self.region.region.joint.segments[self.slot].parts)


def _contiguous(value: Any) -> Any:
    return np.ascontiguousarray(value) if isinstance(value, np.ndarray) else value


def _strided(array: np.ndarray, strides: tuple[int, ...]) -> np.ndarray:
    """The same values laid out with `strides` (in elements)."""
    extent = sum((n - 1) * s for n, s in zip(array.shape, strides, strict=True)) + 1
    memory = np.empty(max(extent, 0) if array.size else 0, array.dtype)
    steps = tuple(s * array.itemsize for s in strides)
    out: np.ndarray = np.lib.stride_tricks.as_strided(memory, array.shape, steps)
    np.copyto(out, array)
    return out
