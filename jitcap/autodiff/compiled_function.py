"""After the joint graph: a compiled region on eager's tape. Joint -> forward, tape nodes, backward.

`Region` is what the calls of one version share: `partition` cuts the joint graph in two, and the
backward compiles when it is first run. Each call has a `RegionNode`; its results hang on it by
`OutputNode`s, under the names that their histories had inside.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from codegen import CheckFailed
from eager import autograd
from eager.autograd.graph import at_end_of_backward
from eager.base import dtype as dt
from eager.base.dataclass import dataclass
from eager.core import on_device
from eager.core.gradient_hooks import BEFORE
from eager.core.saved import stale
from eager.core.tape import FREED
from eager.core.tensor import Tensor, refresh, wrap
from eager.core.traced import Traced
from eager.device import transfer
from eager.device.array import DeviceArray
from eager.sizes.aval import Aval
from eager.sizes.substitute import substitute
from jitcap.autodiff.backward_cache import Backwards, Compile
from jitcap.autodiff.double_backward import retrace, view
from jitcap.autodiff.joint import Joint
from jitcap.base.diagnostics import announce
from jitcap.graph.graph import Graph, Node, aval_at, data_sizes, needed_by
from jitcap.graph.partition import Partition, partition


class _Compiled(autograd.Node):
    """A node of a compiled call, which has one derivative for all its operations."""

    __slots__ = ()

    def register_hook(self, fn: Any) -> Any:
        raise RuntimeError(
            f"{self.name()} stands for a whole compiled call: a hook cannot see the gradients of "
            "one operation's operands. Use Tensor.register_hook, or register it inside the call"
        )

    register_prehook = register_hook


class OutputNode(_Compiled):
    """The history of tensors that leave a region, by the name that it had inside."""

    __slots__ = ("label", "places")

    def __init__(self, label: str, outs: int) -> None:
        super().__init__((), (_NONE,) * outs)
        self.sequence: float = 0
        self.label = label
        self.places: tuple[int, ...] = ()  # for each edge, the output that it belongs to

    def name(self) -> str:
        return self.label

    register_prehook = autograd.Node.register_prehook

    def put(
        self, tensor: Tensor, index: int, region: RegionNode | None = None, slot: int = 0
    ) -> None:
        """`tensor` is output `index` of this node, and `slot` of the region: the first that is,
        else it only has the history of that one (no region)."""
        tensor._node, tensor._index, tensor._requires_grad = self, index, True
        if region is not None:
            self.edges = (*self.edges, region.edge(slot, self, index, tensor))
            self.sequence = max(self.sequence, region.sequence_of(slot))
            self.avals = (*self.avals, region.outs[slot])
            self.places = (*self.places, index)

    def watches(self, index: int, wanted: set[tuple[int, int]] | None) -> bool:
        """True if somebody wants to see the gradient of an output."""
        return bool(
            (self.hooks and (self.hooks.get(index) or BEFORE in self.hooks))
            or (self.retained and index in self.retained)
            or (wanted is not None and (id(self), index) in wanted)
        )

    def vjp(self, grads: list[Any]) -> Sequence[Any]:
        return [grads[i] for i in self.places]

    def raises(self, index: int) -> bool:
        """True if an op behind an output has no derivative."""
        for edge, place in zip(self.edges, self.places, strict=True):
            assert edge is not None
            node, slot = edge
            if isinstance(node, StageNode):
                region, slot = node.region, node.slot
            else:
                region = node
            if place == index and region.region.joint.segments[slot].raises:
                return True
        return False


class SpentNode(_Compiled):
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
LOOKS: Final = 256  # of one region, that are remembered: then all go, for new sizes never end


@dataclass(frozen=True, slots=True, eq=False)
class Looks:
    """Metadata of the tensors of a region in calls with these `sizes`, by symbol: eager's tape
    knows ints only. `outs` of the slots; the other fields are those of `Joint`."""

    sizes: Mapping[str, int]
    outs: tuple[Aval, ...]
    avals: tuple[Aval, ...]
    strides: tuple[tuple[int, ...] | None, ...]
    passed: Mapping[int, tuple[int, tuple[Any, ...]]]

    @staticmethod
    def of(joint: Joint, sizes: Mapping[str, int]) -> Looks:
        slots = joint.graph.inputs[joint.primals :]
        return Looks(
            sizes,
            tuple(aval_at(n.aval, sizes) for n in slots),
            tuple(aval_at(a, sizes) for a in joint.avals),
            substitute(joint.strides, sizes),
            substitute(joint.passed, sizes),
        )


class Region:
    """A partitioned joint graph: what its tape nodes share. The backward compiles when run."""

    def __init__(
        self, joint: Joint, writes: Sequence[tuple[int, int]], compile_backward: Compile
    ) -> None:
        """`writes` pairs (input index, output index) of what the forward writes in place."""
        self.joint = joint
        graph = joint.graph
        primals = graph.inputs[: joint.primals]
        found = data_sizes(graph.nodes)
        self.found = len(found)  # sizes that data decide
        sizes = (*(n for n in primals if "symbol" in n.attrs), *found)
        self.symbols = tuple(n.attrs["symbol"] for n in sizes)
        self._looks: dict[tuple[int, ...], Looks] = {}
        self.name = f"{graph.name.removesuffix('_joint')}Backward"
        self.watchable = any(s.behind for s in joint.segments)
        written = frozenset(i for i, _ in writes)
        places = self._sources(written, frozenset(o for _, o in writes))
        self.partition: Partition = partition(graph, joint.primals, joint.outputs, alive=places)
        saved = self.partition.saved
        needed = needed_by(graph, joint.tape.ends(graph))
        again = [(i, n) for i, n in enumerate(primals) if n in needed or "symbol" in n.attrs]
        kept = dict.fromkeys((*found, *(n for n in saved if n not in places)))
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
        self._backwards = Backwards(self.partition, joint.passed, compile_backward)

    @property
    def forward(self) -> Graph:
        """primals -> outputs, then the values that are kept beside them."""
        graph, count = self.joint.graph, self.joint.primals
        ends = (*graph.outputs[: self.joint.outputs], *self.extra)
        needed = needed_by(graph, ends)
        nodes = tuple(n for n in graph.nodes if n in needed)
        return Graph(graph.inputs[:count], nodes, ends, self.partition.forward.name)

    def _sources(
        self, written: frozenset[int], replaced: frozenset[int]
    ) -> dict[Node, tuple[str, int]]:
        """Places of values after the forward, in memory that nobody may write before the backward:
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
        self, arrived: tuple[int, ...], kept: Saved, grads: list[Any], looks: Looks, *, exact: bool
    ) -> list[Any]:
        """The gradients of the leaves (None where none flows), from what is `kept` and the
        gradients of the slots that `arrived`; `exact`: with the strides that eager gives them."""
        backward = self._backwards.get(arrived, looks.sizes)
        results: list[Any] = [None] * len(self.joint.leaves)
        if backward.run is not None:
            first, strides = len(self.saved), looks.strides
            values = [
                kept.get(self.saved[i]) if i < first else grads[i - first]._array
                for i in backward.inputs
            ]
            found = backward.run(list(map(_contiguous, values)))
            for i, value in zip(backward.outputs, found, strict=True):
                array, layout = _array(value), strides[i]
                results[i] = wrap(_strided(array, layout) if exact and layout else array)
        for i, (slot, chain) in looks.passed.items():
            if slot in arrived:
                results[i] = view(grads[slot], chain, record=False)
        return results

    def looks(self, values: tuple[int, ...]) -> Looks:
        """Metadata of the tensors where the symbols have these values (a memo)."""
        found = self._looks.get(values)
        if found is None:
            found = Looks.of(self.joint, dict(zip(self.symbols, values, strict=True)))
            if len(self._looks) >= LOOKS:
                self._looks = {}
            self._looks[values] = found
        return found

    def begin(self, sizes: tuple[int, ...] = ()) -> RegionNode:
        """The tape node of one call, for the outputs to hang on. `sizes`: the values of `symbols`
        in that call."""
        return RegionNode(self, self.looks(tuple(map(int, sizes))))

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
        extra = [*map(int, extra[: self.found]), *extra[self.found :]]
        table = {"input": inputs, "output": outputs, "extra": extra}
        node.edges = tuple([_edge(leaves[i]) for i in self.joint.leaves])
        node.avals = node.looks.avals
        for stage in node.stages:
            stage.complete()
        node.kept = Saved([table[kind][i] for kind, i in self._kept])
        node.leaves = leaves


def _edge(leaf: Tensor) -> tuple[Any, int]:
    if leaf._view is not None:
        refresh(leaf)  # its base may have been written
    return (leaf, 0) if leaf._node is None else (leaf._node, leaf._index)


def _may_lead(edge: tuple[Any, int], wanted: set[tuple[int, int]] | None) -> bool:
    leaf = isinstance(edge[0], Tensor)
    return wanted is None or not leaf or (id(edge[0]), edge[1]) in wanted


class Saved:
    """Values that one call saves for backward: arrays and numbers, and the versions of the tensors
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


_NOTHING: Final = Saved(())


class RegionNode(_Compiled):
    """One call of a compiled forward, on eager's tape."""

    __slots__ = (
        "arrived", "freed", "kept", "leaves", "looks", "outputs", "region", "stages",
    )  # fmt: skip

    def __init__(self, region: Region, looks: Looks) -> None:
        super().__init__((), looks.outs)
        self.region = region
        self.looks = looks
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
        """The edge of an output: to this node, or to a stage if other outputs are behind it."""
        if not self.region.joint.segments[slot].behind:
            if self.region.watchable:
                self.outputs[slot] = output, index
            return self, slot
        self.outputs[slot] = output, index
        self.stages.append(StageNode(self, slot))
        return self.stages[-1], 0

    def sequence_of(self, slot: int, *, stage: bool = False) -> float:
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
        if raises := next((w for i in self.arrived if (w := segments[i].raises)), ""):
            if wanted is None:
                raise RuntimeError(raises)
            roots = list(zip(self.arrived, tangents, strict=True))
            found = self.again(roots, (), "an op without a derivative", wanted)
            return [found[i] for i in self.region.joint.leaves]
        if autograd.is_grad_enabled() or any(isinstance(t._array, Traced) for t in tangents):
            roots = list(zip(self.arrived, tangents, strict=True))
            found = self.again(roots, (), "create_graph=True")
            return [found[i] for i in self.region.joint.leaves]
        exact = wanted is not None  # else they are added to `.grad`
        try:
            return self.region.run_backward(self.arrived, self.kept, grads, self.looks, exact=exact)
        except CheckFailed:  # op by op, to raise what the op raises
            roots = list(zip(self.arrived, tangents, strict=True))
            found = self.again(roots, (), "a check that failed")
            return [found[i] for i in self.region.joint.leaves]

    def check(self, *parts: frozenset[int]) -> None:
        """Raise for a history that was freed."""
        if not all(map(self.freed.isdisjoint, parts)):
            raise RuntimeError(FREED)

    def again(
        self,
        roots: Sequence[tuple[int, Tensor]],
        cuts: Sequence[int],
        why: str,
        wanted: set[tuple[int, int]] | None = None,
    ) -> list[Tensor | None]:
        """The gradients of all leaves (not of one beside the `wanted`), then of the slots `cuts`,
        from those of the `roots`: by the forward on the tape."""
        announce(
            ("again", self.region, why),
            f"{self.name()}: {why} from outside the compiled region runs it again op by op; call "
            "backward() inside @jit to have it compiled",
        )
        joint = self.region.joint
        primals = {i: self.kept.get(number) for i, number in self.region.primals}
        edges = map(_edge, self.leaves)
        goals = [e if _may_lead(e, wanted) else None for e in edges]
        goals += [self.outputs[i] for i in cuts]
        places = {joint.tape.slots[i]: len(self.leaves) + k for k, i in enumerate(cuts)}
        return retrace(joint.graph, joint.tape, primals, goals, roots, places)

    def release(self) -> None:
        segments = self.region.joint.segments
        self.free(frozenset().union(*(segments[i].whole for i in self.arrived)))

    def free(self, parts: frozenset[int]) -> None:
        """Forget parts of the history; all, when no output has the whole of its own any more."""
        self.freed |= parts
        if all(not self.freed.isdisjoint(s.whole) for s in self.region.joint.segments):
            self.kept, self.leaves = _NOTHING, ()


class StageNode(_Compiled):
    """The way from an output of a region to other outputs behind it. The compiled backward does not
    go by them; where somebody wants to see their gradients, the tape does."""

    __slots__ = ("region", "slot", "watched")

    def __init__(self, region: RegionNode, slot: int) -> None:
        super().__init__((), (region.outs[slot],))
        self.sequence: float = region.sequence_of(slot, stage=True)
        self.region = region
        self.slot = slot
        self.watched = False

    def complete(self) -> None:
        """The outputs before this one, the whole region, and its leaves."""
        region, before = self.region, self.region.region.joint.segments[self.slot].before
        outs = region.outs
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
        if region.kept is _NOTHING:
            raise RuntimeError(FREED)
        why = "a gradient asked for at an output that others are computed from"
        given = region.again([(self.slot, grads[0])], segment.before, why, wanted)
        first = len(region.leaves)
        return [*given[first:], None, *(given[i] for i in leaves)]

    def release(self) -> None:
        """In the end: other outputs, whose gradients may yet come, share parts with this one."""
        if self.watched:
            parts = self.region.region.joint.segments[self.slot].parts
            at_end_of_backward(lambda: self.region.free(parts))


def _array(value: Any) -> Any:
    return value if type(value) is DeviceArray else np.asarray(value)


def _contiguous(value: Any) -> Any:
    if type(value) is DeviceArray:
        return value if value.is_contiguous() else on_device.contiguous(value)
    return np.asarray(value, order="C") if isinstance(value, np.ndarray) else value


def _strided(array: Any, strides: tuple[int, ...]) -> Any:
    """A copy of `array` laid out with `strides` (in elements)."""
    if type(array) is DeviceArray:
        there = transfer.strided(array.aval, strides)
        on_device.store(there, array)
        return there
    extent = sum((n - 1) * s for n, s in zip(array.shape, strides, strict=True)) + 1
    memory = np.empty(max(extent, 0) if array.size else 0, array.dtype)
    steps = tuple(s * array.itemsize for s in strides)
    out: np.ndarray = np.lib.stride_tricks.as_strided(memory, array.shape, steps)
    np.copyto(out, array)
    return out
