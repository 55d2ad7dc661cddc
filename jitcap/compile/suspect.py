"""Beside compiling: a graph that was perhaps not compiled as it should be, as data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

from eager.base.dataclass import dataclass
from jitcap.compile.generate import Layout, Writes
from jitcap.graph.graph import Graph


@dataclass(frozen=True, slots=True)
class Suspect:
    """A graph as `compile_graph` was given it, with the values of its inputs (None: not known).
    `shows` is the kind of fault that it is looked at for, where it is not how it is compiled."""

    graph: Graph
    values: Sequence[Any] | None
    writes: Writes
    strides: Layout
    backend: str
    shows: str = ""


@dataclass(frozen=True, slots=True)
class SuspectCall:
    """A call that was perhaps not captured as it should be, and where the function stands. `before`
    says what lists, dictionaries and sets held when it began, by id, where that is known."""

    fn: Callable[..., Any]
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    backend: str
    place: str
    before: Mapping[int, Any] = field(default_factory=dict)
