"""Reproducing: what a written file calls. A printed graph, its inputs -> is the fault there?

The graph is compiled and run in a child process: a crash or an endless loop of generated code ends
that one alone. Beside it the graph runs op by op; numbers may lie apart by what rounding explains.
Nothing is taken from the cache of compiled code.
"""

from __future__ import annotations

import faulthandler
import json
import os
import resource
import select
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any, Final

import numpy as np

from eager.base.config import config
from eager.base.dataclass import dataclass
from jitcap.base.stack import own_file
from jitcap.compile.compile_graph import compile_graph
from jitcap.graph.graph import CHECK, INPUT, Graph
from jitcap.graph.show import parse_sized
from jitcap.graph.symbols import Sizes
from jitcap.graph.tracer import trace
from jitcap.passes import PASSES
from jitcap.passes.repeats import share_repeats
from jitcap.verify.bisect import wrong_derivative
from jitcap.verify.compare import Leaf
from jitcap.verify.nans import copy_of, first_made, is_endless
from jitcap.verify.tolerance import disturbed, far, judge
from jitcap.verify.verified import DERIVATIVE

WRONG, HANG, NAN = "wrong", "hang", "nan"
INVALID: Final = "invalid"  # no program: it does not run op by op
COMPILING: Final = 300.0  # seconds: the C++ compiler has this deadline, too
RUNNING: Final = 5.0  # seconds, and what follows many times as long as op by op
TIMES: Final = 200
STAGES: Final = {NAN: "none: the operation itself makes it", DERIVATIVE: "capture"}
LEVELS: Final = {
    "eager": "the run op by op: no pass changes what the graph computes",
    "python": "lowering or fusion: the kernels are wrong as Python loops, too",
    "cpp": "a C++ kernel: as Python loops the kernels are right",
    "triton": "a Triton kernel: as Python loops the kernels are right",
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome of one try: which `fault` is there ("": none), in words, and, where it is a pass that
    changes the graph, which one."""

    fault: str
    text: str = ""
    stage: str = ""


class Shown:
    """Fault that a file shows, in a child process: which one (`shows`), under which `settings` of
    `jitcap.config`."""

    def __init__(self, shows: str, backend: str, settings: dict[str, Any] | None) -> None:
        self.shows = shows
        self.backend = backend
        self.settings = settings or {}

    def stage(self, outcome: Outcome) -> str:
        """Stage of the compiler that is at fault."""
        raise NotImplementedError

    def _found(self, backend: str, say: Callable[..., None]) -> Outcome:
        """The fault, in the child; `say` a phase and how many seconds it may take."""
        raise NotImplementedError

    def main(self) -> None:
        """Say if the fault is there, and where. The process ends: 1 if it is, 0 if it is mended, 2
        if something else is wrong."""
        outcome = self.outcome()
        if not outcome.fault:
            print("The fault is not there.")  # noqa: T201
            sys.exit(0)
        print(f"{outcome.text}\n  stage: {self.stage(outcome)}")  # noqa: T201
        if outcome.fault != self.shows:
            print(f"  (it was: {self.shows})")  # noqa: T201
        sys.exit(1 if outcome.fault == self.shows else 2)

    def outcome(self, backend: str = "") -> Outcome:
        """Run it in a child process, with another backend than its own if one is given."""
        ours, theirs = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # threads of BLAS, which know forks
            pid = os.fork()
        if not pid:
            try:
                os.close(ours)
                resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
                self._tell(theirs, backend or self.backend)
            finally:
                os._exit(0)
        os.close(theirs)
        try:
            return _awaited(pid, ours)
        finally:
            os.close(ours)

    def _tell(self, pipe: int, backend: str) -> None:
        def say(*message: Any) -> None:
            os.write(pipe, json.dumps(message).encode() + b"\n")

        faulthandler.disable()  # a signal is told of
        try:
            os.environ["CHECK"] = "1"
            settings = {"strict": True, "check": True, "reproduce": 0, "traceback": "full"}
            settings |= self.settings
            with config(**settings), np.errstate(all="ignore"):
                found = self._found(backend, say)
        except BaseException as error:  # noqa: BLE001 - it is told
            found = Outcome(INVALID, f"{type(error).__name__}: {error}")
        say("end", found.fault, found.text, found.stage)


class Fault(Shown):
    """A graph that was not compiled as it should be.

    `program` is the graph as it prints, `inputs` makes its arguments, `shows` says which fault it
    is: "wrong", "nan", "derivative", "hang", a signal, or which exception is raised where. `writes`
    and `strides` are those of `compile_graph`, `sizes` the values of symbols, `settings` those of
    `jitcap.config`.
    """

    def __init__(
        self,
        program: Callable[..., Any],
        inputs: Callable[[], list[Any]],
        *,
        shows: str,
        backend: str = "cpp",
        writes: Sequence[tuple[int, int]] = (),
        strides: Sequence[tuple[int, ...] | None] | None = None,
        sizes: dict[str, int] | None = None,
        settings: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(shows, backend, settings)
        self.program = program
        self.inputs = inputs
        self.writes = tuple(writes)
        self.strides = strides
        self.sizes = sizes or {}

    def stage(self, outcome: Outcome) -> str:
        """Stage of the compiler that is at fault."""
        if outcome.fault in STAGES:
            return STAGES[outcome.fault]
        if outcome.fault.startswith("raises"):
            return outcome.stage
        for level in dict.fromkeys(("eager", "python", self.backend)):
            found = outcome if level == self.backend else self.outcome(level)
            if found.fault not in ("", INVALID):
                return found.stage or LEVELS[level]
        return "not found"

    def _found(self, backend: str, say: Callable[..., None]) -> Outcome:
        values = self.inputs()
        graph = self._graph()
        if self.shows == NAN:
            return _nan(graph, values)
        if self.shows == DERIVATIVE:
            return _derivative(graph, values)
        say("compiling", COMPILING)
        try:
            strides = None if self.strides is None else [*self.strides]
            made = compile_graph(graph, self.writes, backend=backend, strides=strides)
        except Exception as error:  # noqa: BLE001 - it is told
            return raised(error)
        say("op by op", COMPILING)
        start = time.perf_counter()
        want = graph.run([copy_of(x) for x in values])
        seconds = time.perf_counter() - start
        arrays = [_laid(x, s) for x, s in zip(values, strides or [None] * len(values), strict=True)]
        say("running", RUNNING + TIMES * seconds)
        try:
            results = iter(made.run([*arrays]))
        except Exception as error:  # noqa: BLE001 - it is told
            return raised(error)
        say("comparing", COMPILING)
        written = {o: arrays[i] for i, o in self.writes}
        for o, node in enumerate(graph.outputs):
            if node.op is not CHECK:
                got = written[o] if o in written else next(results)
                wrong = differs(graph, o, got, want[o], values)
                if wrong:
                    at = wrong_pass(graph, o, want[o], values) if backend == "eager" else ""
                    shown = "input" if node.op is INPUT else node.op.name
                    return Outcome(WRONG, f"the result of {shown}: {wrong}", at)
        return Outcome("")

    def _graph(self) -> Graph:
        """The graph that the program prints."""
        scope = Sizes()
        symbols = {name: scope.symbol(name, value) for name, value in self.sizes.items()}
        annotations = self.program.__annotations__.items()
        given = [symbols.get(name) or parse_sized(text, symbols) for name, text in annotations]
        return trace(self.program, *given).graph


def _awaited(pid: int, pipe: int) -> Outcome:
    """The outcome that a child tells of; that it does not, if it ends or takes too long."""
    phase, limit, left = "starting", COMPILING, b""
    while True:
        if not select.select([pipe], [], [], limit)[0]:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return Outcome(HANG, f"{phase} does not end (within {limit:.0f} s)")
        data = os.read(pipe, 1 << 16)
        *lines, left = (left + data).split(b"\n")
        for line in lines:
            phase, *rest = json.loads(line)
            if phase == "end":
                os.waitpid(pid, 0)
                return Outcome(*rest)
            (limit,) = rest
        if not data:
            _, status = os.waitpid(pid, 0)
            if not os.WIFSIGNALED(status):
                return Outcome("exit", f"{phase} ends the process with {status >> 8}")
            name = signal.Signals(os.WTERMSIG(status)).name
            return Outcome(name, f"{phase} ends the process by {name}")


def raised(error: Exception) -> Outcome:
    """An exception of the compiler, or of compiled code."""
    frames = traceback.extract_tb(error.__traceback__)
    last = frames[-1] if frames else None
    for frame in frames:
        if "/jitcap/passes/" in frame.filename or "/codegen/" in frame.filename:
            last = frame  # the innermost of ours: what it calls may be anything
    where = f"{_within(last.filename)} in {last.name}" if last else "?"
    line = f"{_within(last.filename)}:{last.lineno} in {last.name}" if last else "?"
    text = f"{type(error).__name__}: {error}"
    return Outcome(f"raises {type(error).__name__} at {where}", text, line)


def _within(path: str) -> str:
    """The last folders of a path: those of our tree."""
    parts = Path(own_file(path)).parts
    ours = [i for i, part in enumerate(parts) if part in ("jitcap", "codegen", "eager")]
    return "/".join(parts[ours[-1] if ours else -1 :])


def differs(graph: Graph, output: int, got: Any, want: Any, values: Sequence[Any]) -> str:
    """Description of how a result differs from that of the graph op by op, "" if rounding explains
    it."""
    a, b = np.asarray(got), np.asarray(want)
    if a.shape != b.shape or a.dtype != b.dtype:
        return f"{a.dtype}{list(a.shape)} instead of {b.dtype}{list(b.shape)}"
    if not far(got, want).any():
        return ""
    one = graph.with_(outputs=(graph.outputs[output],))

    def samples(amplitude: float) -> Iterator[dict[str, Any]]:
        for seed in count():
            moved = amplitude if seed else 0.0
            yield {"": disturbed(one, [copy_of(x) for x in values], moved, seed)[0]}

    return judge(Leaf("", got, want, ""), samples)


def wrong_pass(graph: Graph, output: int, want: Any, values: Sequence[Any]) -> str:
    """The first pass after which a result of the graph, op by op, is another."""
    after = graph
    for each in (share_repeats, *(each for each, _ in PASSES)):
        after = each(after)
        got = after.run([copy_of(x) for x in values])[output]
        if differs(graph, output, got, want, values):
            return f"the pass {each.__name__} changes what the graph computes"
    return ""


def _nan(graph: Graph, values: Sequence[Any]) -> Outcome:
    node = first_made(graph, values, is_endless, numbers=True)
    return (
        Outcome(NAN, f"{node.op.name} makes a NaN or Inf of finite values") if node else Outcome("")
    )


def _derivative(graph: Graph, values: Sequence[Any]) -> Outcome:
    node = wrong_derivative(graph, values)
    if node is None:
        return Outcome("")
    what = f"the derivative of {node.op.name} is another under capture than on the tape"
    return Outcome(DERIVATIVE, what)


def _laid(value: Any, strides: tuple[int, ...] | None) -> Any:
    """A copy, with these strides (in elements; None: contiguous)."""
    if not isinstance(value, np.ndarray):
        return value
    if strides is None:
        return np.array(value, order="C")
    spans = [(n - 1) * s for n, s in zip(value.shape, strides, strict=True) if n]
    first = -sum(min(x, 0) for x in spans)
    block = np.zeros(first + sum(max(x, 0) for x in spans) + 1, value.dtype)
    bytes_ = tuple(s * value.itemsize for s in strides)
    laid = np.lib.stride_tricks.as_strided(block[first:], value.shape, bytes_)
    laid[...] = value
    return laid
