"""`verify=True`: a version whose every call is compared with plain Python. call -> Python's result.

    record    the guards are checked, the compiled code runs on copies, and what it gives and would
              change is kept as data: nothing of the user's is touched
    plain     the function itself runs: this is the call, its result, exceptions and effects are
              the ones that the user gets
    compare   the value, everything that was read or written, random generators, the host's output,
              and the gradients that the results would pass on
    blame     a difference is searched for its cause (`bisect.py`) and raised as VerifyError

A program that is split is verified segment by segment: the plain run of a segment executes its
instructions one by one.
"""

from __future__ import annotations

import random
import sys
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import count
from types import CellType, SimpleNamespace
from typing import Any, Final

import numpy as np

from codegen import CheckFailed
from eager import autograd
from eager.core.tensor import Tensor, wrap
from jitcap.autodiff.compiled_function import OutputNode, Region, RegionNode
from jitcap.autodiff.joint import Joint, runs_python
from jitcap.base.call_policy import is_library_space
from jitcap.base.module_path import readable
from jitcap.base.origin import Drawn, Item, Origin
from jitcap.capture.result import Captured, link
from jitcap.compile.suspect import Suspect, SuspectCall
from jitcap.graph.graph import CHECK, Graph, Node
from jitcap.passes.dead import dead_code
from jitcap.verify.bisect import Blame
from jitcap.verify.case import Begun, Case, Outcome, Run
from jitcap.verify.compare import Comparison, Difference, same_namespace
from jitcap.verify.copies import Copies, owner_of
from jitcap.verify.host import Heard, expected, listening, streams_of, told
from jitcap.verify.snapshot import all_again, all_contents, contents
from jitcap.verify.tolerance import Samples, disturbed, far, judge
from jitcap.versions.plain import Plain
from jitcap.versions.version import MISS, STANCE, Suspects

VALUE: Final = "the returned value"
CALL: Final = "the call"
DERIVATIVE: Final = "derivative"  # a fault of a graph: one under capture is not that of the tape
GRADIENT: Final = "the gradient of"
# What a run of compiled code raises that is no answer of the version: `check_nans` tells the user.
GIVEN_UP: Final = (FloatingPointError, CheckFailed)
_ATOMS: Final = (type(None), bool, int, float, complex, str, bytes, tuple, frozenset, type)


class _Attachments(threading.local):
    """Stand-in for a Region: remembers what it puts on the tape, and where gradients go."""

    def __init__(self, region: Region | None) -> None:
        self.region = region
        self.trial = False  # a run of samples: there is no backward
        self.leaves: list[Tensor] = []
        self.outputs: list[Tensor] = []

    def begin(self, sizes: tuple[int, ...] = ()) -> RegionNode:
        assert self.region is not None
        return _Watched(self.region, sizes, self.outputs)

    def attach(
        self,
        node: RegionNode,
        inputs: Sequence[Any],
        leaves: Sequence[Tensor],
        outputs: Sequence[Any],
        extra: Sequence[Any],
    ) -> None:
        assert self.region is not None
        self.leaves = [leaves[i] for i in self.region.joint.leaves]
        if not self.trial:
            self.region.attach(node, inputs, leaves, outputs, extra)


class _Watched(RegionNode):
    """Remembers the results by slot."""

    __slots__ = ("results",)

    def __init__(self, region: Region, sizes: tuple[int, ...], results: list[Tensor]) -> None:
        super().__init__(region, region.looks(sizes))
        self.results = results

    def edge(
        self, slot: int, output: OutputNode, index: int, tensor: Tensor
    ) -> tuple[autograd.Node, int]:
        self.results.append(tensor)  # they are put there in order
        return super().edge(slot, output, index, tensor)


class Verified:
    """The call of one version."""

    def __init__(
        self,
        captured: Captured,
        run: Run,
        region: Region | None,
        plain: Plain,
        compile_again: Callable[[Graph], Run],
        compiled: Suspect,
        differs: Callable[[Exception, Suspects], BaseException],
    ) -> None:
        """`compiled` is the graph that `run` runs; `differs` makes of a difference, and of the
        graphs that may be why, what is raised."""
        self.captured = captured
        self.compiled = compiled
        self.differs = differs
        self.plain = plain
        self.region = region
        self.graph = dead_code(captured.graph)
        self.joint: Joint | None = None
        if region is not None:
            self.joint = replace(region.joint, graph=dead_code(region.joint.graph))
        self.compile_again = compile_again
        self.attachments = _Attachments(region)
        self._run = run
        text = captured.recorder()
        code = compile(text, f"<verified entry of {captured.name}>", "exec")
        self.places = captured.places()
        names = captured.names
        self._entry = link(code, names.namespace, Begun, MISS, self.attachments)  # type: ignore[arg-type]
        drawn = [o.method.__self__ for o in names.variables if isinstance(o, Drawn)]
        self._generators = list({id(g): g for g in drawn}.values())
        self._used = False

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        before = [state_of(g) for g in self._generators]
        begun = self._entry(args, kwargs)
        if begun is MISS:
            return MISS
        drawn = [state_of(g) for g in self._generators]
        for generator, state in zip(self._generators, before, strict=True):
            set_state(generator, state)
        call = VerifiedCall(self, begun, args, kwargs)
        if self._used:
            limit = sys.getrecursionlimit()
            call.fresh = self.plain.capture(args, kwargs)
            sys.setrecursionlimit(limit)
        self._used = True
        error = call.run_compiled(self._evaluate)
        value = call.run_plainly(lambda: self.plain.run(args, kwargs), error)
        if [_flat(state_of(g)) for g in self._generators] != [_flat(s) for s in drawn]:
            shown = " or ".join(type(g).__name__ for g in self._generators)
            call.differ(f"the state of {shown}", "another number of draws in the compiled version")
        call.conclude(value)
        return value

    def _evaluate(self, inputs: list[Any]) -> list[Any]:
        """The compiled graph: all outputs, those that are written to inputs too."""
        results = iter(self._run(inputs))
        written = {o: i for i, o in self.captured.writes}
        total = len(self.captured.epilogue.outputs)
        outputs = [inputs[written[o]] if o in written else next(results) for o in range(total)]
        return [*outputs, *results]

    def evaluate_graph(self, inputs: list[Any], amplitude: float, seed: int) -> list[Any]:
        """The captured graph op by op, disturbed by so many roundings."""
        values = disturbed(self.graph, inputs, amplitude, seed)
        for i, o in self.captured.writes:
            np.copyto(inputs[i], values[o])
        shown = [v for n, v in zip(self.graph.outputs, values, strict=True) if n.op is not CHECK]
        return [v.copy() if isinstance(v, np.ndarray) else v for v in shown]


class VerifiedCall:
    """One call of a version: what was there before, and the two runs."""

    def __init__(
        self, version: Verified, begun: Begun, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        self.version = version
        self.begun = begun
        self.given = args, kwargs
        self.fresh: Captured | None = None
        self.differences: list[Difference] = []
        tensors = [x for x in begun.found.values() if isinstance(x, Tensor)]
        arrays = [t._array for t in tensors]
        arrays += [x for x in begun.inputs if isinstance(x, np.ndarray)]
        self.pristine = Copies(arrays)
        self.held = all_contents(begun.found, self.pristine)
        self.arrays = arrays
        self.old: dict[int, str] = {}
        for name, x in begun.found.items():
            shown = readable(version.places[name].show())
            if isinstance(x, Tensor):
                self.old.setdefault(id(owner_of(x._array)), f"that of {shown}")
            if not isinstance(x, _ATOMS):
                self.old.setdefault(id(x), shown)
        self.tangents: list[Any] = []
        self.outcome: Outcome | None = None
        self.wanted, self.heard, self.watched = Heard(), Heard(), dict[int, str]()
        self._value: Any = None

    def differ(self, path: str, what: str) -> None:
        self.differences.append(Difference(path, what))

    # ---- the two runs

    def attempt(self, evaluate: Run) -> Outcome:
        """Run the graph in some way on copies, and end the call on copies."""
        arrays = self.pristine.again()
        inputs = [arrays.of(x) for x in self.begun.inputs]
        outputs = evaluate(inputs)
        held = all_again(self.held, arrays)
        attachments = self.version.attachments
        attachments.outputs = []
        value, calls = self.begun.finish(outputs, held)
        return Outcome(value, calls, held, outputs, arrays, attachments.outputs)

    def run_compiled(self, evaluate: Run) -> Exception | None:
        """The compiled version; the exception that it raises."""
        try:
            self.outcome = self.attempt(evaluate)
            self._gradients(self.outcome)
            self.wanted = expected(self.outcome.calls)
        except GIVEN_UP:
            raise
        except Exception as error:  # noqa: BLE001 - Python must raise it too
            return error
        return None

    def run_plainly(self, run: Callable[[], Any], error: Exception | None) -> Any:
        """The function itself, with everything compiled inside it turned off."""
        calls = self.outcome.calls if self.outcome is not None else ()
        token = STANCE.set("eager")
        try:
            with listening(streams_of(calls)) as (self.heard, self.watched):
                self._value = run()
        except Exception as raised:
            if type(error) is type(raised):
                raise
            told = "nothing" if error is None else repr(error)
            self.differ(CALL, f"Python raises {raised!r}, the compiled version {told}")
            raise self._blame() from raised
        finally:
            STANCE.reset(token)
        if error is not None:
            self.differ(CALL, f"the compiled version raises {error!r}, Python nothing")
            raise self._blame() from error
        return self._value

    def _gradients(self, outcome: Outcome) -> None:
        """Backpropagate through results with a history, for incoming gradients drawn at random."""
        region, attachments = self.version.region, self.version.attachments
        outs, leaves = outcome.tracked, attachments.leaves
        outs[:] = [t for t in outs if not _raises(t)]
        if region is None or not outs:
            return
        if any(t._hooks or t._accumulate_hooks or not t.requires_grad for t in leaves):
            return  # they would be called; it is to require one only afterwards
        if runs_python(leaves):
            return
        chance = np.random.default_rng(0)
        self.tangents = [
            np.asarray(chance.standard_normal(t._array.shape)).astype(t._array.dtype) for t in outs
        ]
        outcome.gradients = self._named(_gradients(outs, leaves, self.tangents), region.joint)

    def _named(self, gradients: Sequence[Any], joint: Joint) -> dict[str, Any]:
        names = [self.version.captured.epilogue.leaves[i] for i in joint.leaves]
        origins = [self.version.places.get(name) for name in names]
        shown = [
            f"a leaf that is made inside ({i})" if o is None else readable(o.show())
            for i, o in enumerate(origins)
        ]
        return {f"{GRADIENT} {s}": g for s, g in zip(shown, gradients, strict=True)}

    # ---- the comparison

    def conclude(self, value: Any) -> None:
        """Compare everything. Raises VerifyError."""
        outcome = self.outcome
        assert outcome is not None
        comparison = self.compare(outcome)
        if outcome.gradients and not comparison.differences:
            self._compare_gradients(outcome, comparison)
        self.differences += comparison.differences
        self._compare_host(comparison)
        doubtful = [leaf for leaf in comparison.leaves if _is_doubtful(leaf.got, leaf.want)]
        samples = self.samples({leaf.key for leaf in doubtful})
        for leaf in doubtful:
            wrong = judge(leaf, samples)
            if wrong:
                self.differences.append(Difference(leaf.path, wrong, leaf.got, number=True))
        if self.differences:
            raise self._blame()

    def compare(self, outcome: Outcome) -> Comparison:
        """The value and the places of an outcome with those of the plain run."""
        comparison = Comparison(self.old)
        for x in self.arrays:
            comparison.share(outcome.arrays.of(x), x)
        comparison.match(VALUE, outcome.value, self._value)
        tensors = [x for x in self.begun.found.values() if isinstance(x, Tensor)]
        seen = {id(t.__dict__) for t in tensors}  # the tensor itself is compared
        for name, origin in self.version.places.items():
            obj = self.begun.found[name]
            if id(obj) not in seen and not _is_library(obj):
                seen.add(id(obj))
                self._compare_place(comparison, origin, outcome.held[name], contents(obj), name)
        return comparison

    def _compare_place(self, c: Comparison, origin: Origin, a: Any, b: Any, name: str) -> None:
        path = readable(origin.show())
        if isinstance(a, SimpleNamespace):
            same_namespace(c, path, a, b)
            if "_storage" in vars(a):
                start = self.held[name]._storage.version
                counts = [x._storage.version > start for x in (a, b)]
                if counts[0] is not counts[1]:
                    who = ("Python", "the compiled version")[counts[0]]
                    c.differ(path, f"only {who} writes to its memory")
        elif isinstance(a, OrderedDict | dict):
            slots = not isinstance(self.begun.found[name], dict)

            def label(key: Any) -> str:
                if slots:
                    return f"{path}.{key}"
                return readable(Item(origin, key).show()) if type(key) is str else f"{path}[...]"

            c.entries(path, list(a.items()), list(b.items()), label)
        elif isinstance(a, list | deque):
            c.sequence(path, a, b)
        elif isinstance(a, set):
            c.set_of(path, a, b)
        elif isinstance(a, CellType):
            c.match(path, *(contents_of(x) for x in (a, b)))

    def _compare_gradients(self, outcome: Outcome, comparison: Comparison) -> None:
        region, attachments = self.version.region, self.version.attachments
        assert region is not None
        theirs = [comparison.tensors.get(id(t)) for t in outcome.tracked]
        if any(t is None or t._node is None for t in theirs) or runs_python(theirs):  # type: ignore[arg-type]
            return
        leaves = [comparison.tensors.get(id(t)) or t for t in attachments.leaves]
        wanted = self._named(_gradients(theirs, leaves, self.tangents), region.joint)  # type: ignore[arg-type]
        for path, got in outcome.gradients.items():
            want = wanted[path]
            if got is None or want is None:
                zero = all(x is None or not x.any() for x in (got, want))
                if not zero:
                    comparison.differ(path, "a gradient on one side only")
            elif got.shape != want.shape or got.dtype != want.dtype:
                shown = f"{got.dtype}{list(got.shape)}", f"{want.dtype}{list(want.shape)}"
                comparison.differ(path, f"{shown[0]} in the compiled version, {shown[1]} in Python")
            else:
                comparison.leaf(path, got, want)

    def _compare_host(self, comparison: Comparison) -> None:
        """Compare what was printed, logged and warned of."""
        heard, watched, wanted = self.heard, self.watched, self.wanted
        if len(wanted.logged) != len(heard.logged):
            counts = f"{len(wanted.logged)} in the compiled version, {len(heard.logged)} in Python"
            self.differ("the log", f"{counts} records")
        theirs = told(heard, watched)
        for path, got in told(wanted, watched).items():
            comparison.match(path, got, theirs.get(path, ""))
        for text, category in heard.warned:  # Python shows one once per place
            if not any(c == category for _, c in wanted.warned):
                self.differ("the warnings", f"Python shows {category} {text!r}")

    # ---- samples

    def samples(self, paths: set[str]) -> Samples:
        """Samples of the leaves at these paths under rounding: the first is not disturbed."""
        kept: dict[float, list[dict[str, Any]]] = {}

        def take(amplitude: float) -> Iterator[dict[str, Any]]:
            known = kept.setdefault(amplitude, [])
            for i in count():
                if i == len(known):
                    found = self._sample(amplitude if i else 0.0, i)
                    known.append({p: found[p] for p in paths if p in found})
                yield known[i]

        return take

    def _sample(self, amplitude: float, seed: int) -> dict[str, Any]:
        version, attachments = self.version, self.version.attachments
        attachments.trial = True
        try:
            outcome = self.attempt(lambda x: version.evaluate_graph(x, amplitude, seed))
        finally:
            attachments.trial = False
        found = {leaf.key: leaf.got for leaf in self.compare(outcome).leaves}
        found |= told(expected(outcome.calls), self.watched)
        if self.tangents:
            found |= self._sample_gradients(amplitude, seed)
        return found

    def _sample_gradients(self, amplitude: float, seed: int) -> dict[str, Any]:
        arrays = self.pristine.again()
        inputs = [arrays.of(x) for x in self.begun.inputs]
        joint = self.version.joint
        assert joint is not None
        values = disturbed(joint.graph, [*inputs, *self.tangents], amplitude, seed)
        return self._named(values[joint.outputs :], joint)

    def _blame(self) -> BaseException:
        version = self.version
        case = Case(
            version.captured, version.graph, version.joint, version.places, version.plain.place,
            version.compile_again, self.begun.inputs, self.pristine, self.tangents, self.fresh,
            self.outcome, self.heard, self.differences,
        )  # fmt: skip
        with np.errstate(all="ignore"):
            blame = Blame(case)
            error = blame.error()
            suspects = [*self._suspects(blame.derivative)]
        return version.differs(error, suspects)

    def _suspects(self, derivative: Node | None) -> Iterator[Suspect | SuspectCall]:
        """Graphs that may be compiled wrongly, or have a wrong derivative, with the values of this
        call; and the call, which may be captured wrongly."""
        first = self.differences[0]
        if first.number or first.path == CALL:
            yield from self._graphs(derivative)
        plain, (args, kwargs) = self.version.plain, self.given
        if plain.called is not None:
            backend = self.version.compiled.backend
            held = {id(x): self.held[name] for name, x in self.begun.found.items()}
            yield SuspectCall(plain.called, args, kwargs, backend, plain.place, held)

    def _graphs(self, derivative: Node | None) -> Iterator[Suspect]:
        first = self.differences[0]
        arrays = self.pristine.again()
        inputs = [arrays.of(x) for x in self.begun.inputs]
        if derivative is not None:
            graph = self.version.graph.with_(outputs=(derivative,))
            yield Suspect(graph, inputs, (), None, "eager", DERIVATIVE)
            return
        joint = self.version.joint
        alone = joint is not None and not any(n.op.ordered for n in joint.graph.nodes)
        if alone and self.tangents and first.path.startswith(GRADIENT):
            yield self._backward(inputs)
        yield replace(self.version.compiled, values=inputs)

    def _backward(self, inputs: list[Any]) -> Suspect:
        """The backward pass, with what it is given."""
        region = self.version.region
        assert region is not None
        graph, part = region.joint.graph, region.partition
        given = [*inputs, *self.tangents]
        values = dict(zip(graph.inputs, given, strict=True)) | dict(graph.steps(given))
        saved = [values[n] for n in part.saved]
        whole = Suspect(part.backward, [*saved, *self.tangents], (), None, "")
        return replace(whole, backend=self.version.compiled.backend)


def _raises(out: Tensor) -> bool:
    node = out._node
    return isinstance(node, OutputNode) and node.raises(out._index)


def _gradients(outs: list[Tensor], leaves: list[Tensor], tangents: list[Any]) -> list[Any]:
    given: list[Tensor] = [wrap(t) for t in tangents]
    grads = autograd.grad(outs, leaves, given, retain_graph=True, allow_unused=True)
    return [None if g is None else g._array for g in grads]


def _is_doubtful(got: Any, want: Any) -> bool:
    if isinstance(got, str | bytes):
        return bool(got != want)
    return bool(far(got, want).any())


def _is_library(obj: Any) -> bool:
    """A module table, or the globals of a library: not the user's."""
    if obj is sys.modules:
        return True
    return isinstance(obj, dict) and is_library_space(obj)


def contents_of(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return None


def state_of(generator: Any) -> Any:
    """The state of a host's random generator."""
    if isinstance(generator, random.Random):
        return generator.getstate()
    if isinstance(generator, np.random.RandomState):
        return generator.get_state(legacy=False)
    return generator.bit_generator.state


def set_state(generator: Any, state: Any) -> None:
    if isinstance(generator, random.Random):
        generator.setstate(state)
    elif isinstance(generator, np.random.RandomState):
        generator.set_state(state)
    else:
        generator.bit_generator.state = state


def _flat(state: Any) -> Any:
    """A state as something that compares."""
    if isinstance(state, dict):
        return {k: _flat(v) for k, v in state.items()}
    return state.tobytes() if isinstance(state, np.ndarray) else state
