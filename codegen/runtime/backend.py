"""Beside the stages: what a backend is. An ordered table of transformations, and how their last
result is loaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from codegen.ir.schema import Target
from codegen.runtime.artifact import Artifact
from codegen.runtime.pending import Pending
from eager.base.dataclass import dataclass

Results = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Stage:
    """One transformation: `run` of the results named in `of`, or of the stage before."""

    name: str
    run: Callable[..., Any]
    of: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Backend:
    """`load` makes the artifact of all stages' results, or begins it. `symbolic`: its code takes
    sizes at run time. `resident`: it runs in a device's memory. `anticipate`: a program of the
    host that multiplies matrices is being captured."""

    stages: tuple[Stage, ...]
    load: Callable[[Results, Target], Artifact | Pending[Artifact]]
    symbolic: bool = False
    resident: bool = False
    anticipate: Callable[[], None] = lambda: None

    @property
    def bodies(self) -> bool:
        """True if its steps may hold programs."""
        return any(stage.name == "bodies" for stage in self.stages)
