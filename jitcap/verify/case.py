"""Verified calls: what is known of one call, as data. `verified.py` -> `bisect.py`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Any

from eager.base.dataclass import dataclass
from eager.core.tensor import Tensor
from jitcap.autodiff.joint import Joint
from jitcap.base.origin import Origin
from jitcap.capture.result import Captured
from jitcap.graph.graph import Graph
from jitcap.verify.compare import Difference
from jitcap.verify.copies import Copies
from jitcap.verify.host import Heard

Run = Callable[[list[Any]], list[Any]]


@dataclass(frozen=True, slots=True)
class Begun:
    """A call whose guards hold: the inputs, what is found at each place, and how it ends."""

    inputs: list[Any]
    found: dict[str, Any]
    finish: Callable[[list[Any], dict[str, Any]], tuple[Any, tuple[Any, ...]]]


@dataclass(slots=True)
class Outcome:
    """Outcome of one way to run the graph."""

    value: Any
    calls: tuple[Any, ...]
    held: dict[str, Any]  # what would be found at each place afterwards
    outputs: list[Any]
    arrays: Copies
    tracked: list[Tensor] = field(default_factory=list)  # results with a history
    gradients: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Case:
    """A call that was not what Python did: the version, its inputs, the two runs."""

    captured: Captured
    graph: Graph  # the captured one without dead code
    joint: Joint | None
    places: dict[str, Origin]
    place: str  # of the function
    compile_again: Callable[[Graph], Run]
    inputs: list[Any]
    pristine: Copies
    tangents: list[Any]
    fresh: Captured | None
    outcome: Outcome | None
    heard: Heard
    differences: list[Difference]

    def arguments(self) -> list[Any]:
        """The inputs as they were before the call, in copies that may be written."""
        arrays = self.pristine.again()
        return [arrays.of(x) for x in self.inputs]
