"""Between capture and the entry: one compiled version of a function, and what was asked for.

A `Compiled` comes from the whole road (`entry.compile_call`) or from disk (`versions.recall`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import field
from typing import Any, Final, Protocol

from eager.base.dataclass import dataclass
from jitcap.base.diagnostics import Trail
from jitcap.capture.result import Version
from jitcap.compile.executable import Executable, Run
from jitcap.compile.suspect import Suspect, SuspectCall
from jitcap.graph.graph import Graph


class _Miss:
    """Marker that a version returns when the call does not fit it."""

    def __repr__(self) -> str:
        return "<miss>"


MISS: Final = _Miss()
SHOWN: Final = 8  # inputs of a graph in a line about it
STANCE: Final[ContextVar[str]] = ContextVar("stance", default="default")  # see `jitcap.stance`
Call = Callable[[tuple[Any, ...], dict[str, Any]], Any]


Suspects = Sequence[Suspect | SuspectCall]


class Watch(Protocol):
    """Observer of all that is compiled and run: see `jitcap.commands.bisect`."""

    def around(self, run: Run, suspect: Suspect) -> Run:
        """The function that runs in the place of a compiled graph."""

    def differs(self, error: Exception, suspects: Suspects) -> BaseException:
        """The exception for a call that was not what Python did."""


@dataclass(frozen=True, slots=True)
class Options:
    """Options of a compilation: the arguments of `jit`, and who watches. `mode` changes nothing of
    what is made."""

    fullgraph: bool = False
    dynamic: bool | None = None
    backend: str | None = None
    verify: bool = False
    check_nans: bool = False
    watch: Watch | None = None
    mode: str | None = field(default=None, repr=False)


class Room:
    """Limit on versions: one more is made where there are as many as are kept, or tried where so
    many attempts failed, for the 1st, 2nd, 4th, 8th … call that fits none, so that a program that
    moves on is compiled again, and one that never repeats does not compile at every call."""

    __slots__ = ("misses",)

    def __init__(self) -> None:
        self.misses = 0

    def admits(self, held: int, most: int) -> bool:
        if held < most:
            return True
        self.misses += 1
        return self.misses & (self.misses - 1) == 0


@dataclass(slots=True, eq=False)
class Compiled:
    """One version: which calls it is for, what was made of it, the log, the graph that was
    captured (None: by an earlier process), what was known to vary then, and what of it is to be
    kept on disk, if that was made ready."""

    call: Call
    captured: Version
    executable: Executable
    trail: Trail
    graph: Graph | None = None
    varying: frozenset[str] = frozenset()
    files: Any = None  # `versions.Files`

    def about(self) -> str:
        """One line: what it takes, and how much it is."""
        kernels = f"{len(self.executable.kernels)} kernels"
        if self.graph is None:
            return f"from disk, {kernels}"
        nodes = self.graph.inputs
        given = [
            f"{n.attrs['name']} {str(n.aval.dtype).removeprefix('eager.')}{[*n.aval.shape]}"
            for n in nodes
            if "name" in n.attrs
        ]
        more = [f"{len(given) - SHOWN} more"] if len(given) > SHOWN else []
        return f"({', '.join(given[:SHOWN] + more)}) {len(self.graph)} ops, {kernels}"
