"""Verified calls: what is known of one call, as data. `verified.py` -> `bisect.py`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Any, Protocol

from eager.base.dataclass import dataclass
from eager.core.tensor import Tensor
from jitcap.autodiff.joint import Joint
from jitcap.base.breaks import Break
from jitcap.base.call_policy import function_of, name_of
from jitcap.base.origin import Origin
from jitcap.capture.result import Captured
from jitcap.graph.graph import Graph
from jitcap.verify.compare import Difference
from jitcap.verify.copies import Copies
from jitcap.verify.host import Heard

Run = Callable[[list[Any]], list[Any]]


class Plain(Protocol):
    """Source of a version: the plain function, and how it is captured."""

    def run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The function itself."""

    def capture(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Captured | None:
        """A new capture of this call, as the version was captured; None if it is refused."""

    @property
    def place(self) -> str:
        """The function, and where it stands."""

    @property
    def called(self) -> Callable[..., Any] | None:
        """The function; None for a part of one."""


@dataclass(frozen=True, slots=True)
class Whole:
    """A function that is captured as a whole, by `way`, with `varying` sizes and numbers."""

    fn: Callable[..., Any]
    varying: frozenset[str]
    way: Callable[..., Captured]

    @property
    def place(self) -> str:
        plain = function_of(self.fn)
        code = plain[0].__code__ if plain else None
        name = name_of(self.fn)
        return f"{name} at {code.co_filename}:{code.co_firstlineno}" if code else name

    @property
    def called(self) -> Callable[..., Any]:
        return self.fn

    def run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return self.fn(*args, **kwargs)

    def capture(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Captured | None:
        try:
            return self.way(self.fn, args, kwargs, dynamic=self.varying)
        except Break:
            return None


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
