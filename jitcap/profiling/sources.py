"""Around the entries while a profile runs: calls of jitted functions, and compiles. -> spans.

A version that an earlier process compiled has no graph here, and so no second build: it is captured
again, at the first call in the profile that it fits.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from eager.base.recorder import Recorder, Work, now, recorder
from jitcap.api import Jitted
from jitcap.base.diagnostics import Trail
from jitcap.base.stack import passed_over
from jitcap.capture.result import Version, misfit
from jitcap.capture.version import STANCE
from jitcap.entry import Entries, capture_again
from jitcap.guards.guard import failing
from jitcap.guards.tensor_guard import TensorLike

_plain: Final = Jitted.__call__, Trail.stage


@passed_over
def _called(self: Jitted, /, *args: Any, **kwargs: Any) -> Any:
    entries = self._entries
    kept = any(made.graph is None for made in tuple(entries.compiled.values()))
    if kept and STANCE.get() == "default":
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


def install(_: Recorder) -> None:
    """Calls and compiles from now on are timed."""
    Jitted.__call__ = _called  # type: ignore[method-assign]
    Trail.stage = _stage  # type: ignore[method-assign, assignment]


def remove(_: Recorder) -> None:
    """Calls and compiles from now on are as if there had been no profile."""
    Jitted.__call__, Trail.stage = _plain  # type: ignore[method-assign]
