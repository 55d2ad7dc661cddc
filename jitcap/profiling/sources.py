"""Around the entries while a profile runs: calls of jitted functions, the ops of graphs that run op
by op, and compiles. -> spans.

A version that an earlier process compiled has no graph here, and so no second build: it is captured
again, at the first call in the profile that it fits.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from eager.base.recorder import Recorder, Work, clock, now, recorder
from eager.core.op_clocks import work_of
from eager.device.array import DeviceArray
from jitcap.api import Jitted
from jitcap.base.diagnostics import Trail
from jitcap.base.stack import passed_over
from jitcap.capture.result import Version, misfit
from jitcap.entry import Entries, capture_again
from jitcap.graph import graph
from jitcap.guards.guard import failing
from jitcap.guards.tensor_guard import TensorLike
from jitcap.versions.version import STANCE

OP_BY_OP: Final = Work("graphs that run op by op: what is no op", "launch")
_plain: Final = Jitted.__call__, Trail.stage
# Captures instead of versions from disk: one for each, whatever guards say of it afterwards.
_again: Final[weakref.WeakKeyDictionary[Entries, int]] = weakref.WeakKeyDictionary()
_plain_graph: Final = graph.Graph.run, graph.evaluate


@passed_over
def _called(self: Jitted, /, *args: Any, **kwargs: Any) -> Any:
    entries = self._entries
    kept = sum(made.graph is None for made in tuple(entries.compiled.values()))
    if kept > _again.get(entries, 0) and STANCE.get() == "default":
        start = now()
        _capture_again(entries, args, kwargs)
        recorder.own(start)
    start = now()
    try:
        return _plain[0](self, *args, **kwargs)
    finally:
        recorder.add(Work(entries.name, "call"), start)


def _capture_again(entries: Entries, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Make a version that has its graph, if one from disk may fit the call, and none of ours."""
    made = [entries.compiled[v] for v in entries.versions if v in entries.compiled]
    known = [m.captured for m in made if m.graph is not None]
    kept = [m.captured for m in made if m.graph is None]
    if any(misfit(version, args, kwargs) == 0 for version in known):
        return
    if any(_may_fit(version, args, kwargs) for version in kept):
        _again[entries] = _again.get(entries, 0) + 1
        capture_again(entries, args, kwargs)


def _may_fit(version: Version, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """True if the tensors are those of a version from disk; a guard of it on something else may
    hold and not look so, for what it names is bound in the entry alone."""
    if misfit(version, args, kwargs) == math.inf:
        return False
    fails = failing(version.guards.items, args, kwargs)
    return not any(isinstance(guard, TensorLike) for guard in fails)


@contextmanager
def _stage(trail: Trail, name: str) -> Iterator[None]:
    start = now()
    try:
        with _plain[1](trail, name):
            yield
    finally:
        recorder.add(Work(f"{name} of {trail.name}", "compile"), start)


def _evaluated(node: graph.Node, arrays: tuple[Any, ...]) -> Any:
    """One op of a graph; those on devices, and what computes nothing, have no clock here."""
    is_op = not isinstance(node.op, graph.GraphOp) and node.op.kind != "view"
    if not is_op or "device" in node.attrs or DeviceArray in map(type, arrays):
        return _plain_graph[1](node, arrays)
    start, result = now(), None
    try:
        result = _plain_graph[1](node, arrays)
    finally:
        end = now()
        recorder.add(work_of(node.op.name, arrays, result, node.where.place), start, end)
    return result


def install(_: Recorder) -> None:
    """Calls, ops and compiles from now on are timed."""
    Jitted.__call__ = _called  # type: ignore[method-assign]
    Trail.stage = _stage  # type: ignore[method-assign, assignment]
    graph.Graph.run = clock(lambda *_: OP_BY_OP, _plain_graph[0])  # type: ignore[method-assign]
    graph.evaluate = _evaluated


def remove(_: Recorder) -> None:
    """Calls, ops and compiles from now on are as if there had been no profile."""
    Jitted.__call__, Trail.stage = _plain  # type: ignore[method-assign]
    graph.Graph.run, graph.evaluate = _plain_graph  # type: ignore[method-assign]
