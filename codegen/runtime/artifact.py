"""End of codegen: what every backend returns. Kernels, plan, stages and a callable -> Artifact."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, Final

import numpy as np

from codegen.ir.sizes import Shape, Size
from eager.base.dataclass import dataclass

Array = np.ndarray[Any, np.dtype[Any]]


class CheckFailed(Exception):
    """A check of the program failed while it ran, before it wrote an input: what it gave is no
    result. `place` is the user's "file:line"."""

    def __init__(self, what: str, place: str = "") -> None:
        super().__init__(f"{what} (at {place})" if place else what)
        self.place = place

    def without_frames(self) -> CheckFailed:
        """Itself, and what it was raised from, without the frames passed through: those lead to
        every frame that called them, so that one which keeps the failure is kept by it."""
        link: BaseException | None = self
        while link is not None:
            link = link.with_traceback(None).__context__
        return self


class HalfDone(RuntimeError):
    """A run failed between its collectives, of which the other ranks know: it is not given up."""


def between(error: BaseException) -> HalfDone:
    """The error of a run that failed behind its first and before its last collective."""
    return HalfDone(
        f"a step failed between its collectives, for which the other ranks wait: {error}"
    )


class OutOfRange(CheckFailed, IndexError):
    """An index that data give lies outside its dimension."""


def failure(site: str, value: int, bound: int) -> CheckFailed:
    """The exception of a failed check. `site`: "what was expected|file:line", or "file:line" alone:
    that of an index `value` for a dimension of size `bound`."""
    what, _, place = site.replace(SIZE, str(bound)).rpartition("|")
    if not what:
        return OutOfRange(f"index {value} is out of range for a dimension of size {bound}", place)
    if INDEX_SITE not in what:
        return CheckFailed(what, place)
    return OutOfRange(what.replace(INDEX_SITE, f"index {value} is out of bounds"), place)


def broken(message: str, place: str) -> CheckFailed:
    """The exception of a check that failed on a device, by its message."""
    return (OutOfRange if INDEX_SITE in message else CheckFailed)(message, place)


INDEX_SITE: Final = "index out of bounds"
SIZE: Final = "{bound}"  # in a site: a size that is known at run time


@dataclass(frozen=True, slots=True)
class Kernel:
    """One emitted kernel, for `explain`: its source, and what was fused into it or refused."""

    name: str
    source: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Spec:
    """Shape and element type of one array."""

    shape: Shape
    dtype: np.dtype[Any]

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


@dataclass(frozen=True, slots=True)
class Host:
    """A kernel that stays in Python, called from compiled code: arrays in, arrays out."""

    call: Callable[..., Any]
    inputs: tuple[Spec, ...]
    outputs: tuple[Spec, ...]


@dataclass(frozen=True, slots=True)
class Exchange:
    """A collective that compiled code starts and waits for itself: its op, what it takes and gives,
    and the user's line. `beside`: the kernels and steps that run between start and wait."""

    op: Any
    attrs: Mapping[str, Any]
    operand: Spec
    result: Spec
    where: str = ""
    beside: tuple[str, ...] = ()

    def __str__(self) -> str:
        """A line for people; of sizes that a run decides there is no number of bytes."""
        x, name = self.operand, self.op.name.removeprefix("start_")
        numel = math.prod(x.shape)
        size = f"{numel * x.dtype.itemsize} bytes" if type(numel) is int else f"{numel} elements"
        place = f" (at {self.where})" if self.where else ""
        names = (f"{k} ({n} times)" if n > 1 else k for k, n in Counter(self.beside).items())
        return f"{name} of {size}{place} beside {', '.join(names) or 'nothing'}"


@dataclass(frozen=True, slots=True)
class Signature:
    """Calling convention of one compiled entry.

    `kinds` has one letter per input: "t" an array, "f" a float, "i" an int (bools too). Buffers are
    numbered: the arrays among the inputs in their order, then `outputs`, then (if there are
    `blocks`) the table of the temporaries' offsets, then `hosts`: functions, and the records of
    collectives. `sites[k]` is the user's
    "file:line" of the k-th place that can fail.

    `symbols` are the names of those in the shapes, and which inputs their values are. `blocks` are
    the temporaries of symbolic sizes: (first item, last item, bytes).
    """

    kinds: str
    outputs: tuple[Spec, ...]
    arena_bytes: int = 0
    sites: tuple[str, ...] = ()
    hosts: tuple[Host | Exchange, ...] = ()
    symbols: tuple[tuple[str, int], ...] = ()
    blocks: tuple[tuple[int, int, Size], ...] = ()

    @property
    def callbacks(self) -> tuple[str, ...]:
        """Names of the functions that are called back, for people."""
        return tuple(str(host.call) for host in self.hosts if isinstance(host, Host))

    @property
    def exchanges(self) -> tuple[Exchange, ...]:
        return tuple(host for host in self.hosts if isinstance(host, Exchange))


@dataclass(eq=False, slots=True)
class Runs:
    """Counts of what a program on a device did so far: vectors of sizes that it made room for, runs
    whose launches were queued one by one, recordings of them, and runs that were one replay."""

    sizes: int = 0
    queued: int = 0
    recordings: int = 0
    replays: int = 0


@dataclass(eq=False, slots=True)
class Artifact:
    """A compiled program. `run(inputs)` takes the program's inputs in order (arrays, and numbers
    for run-time scalars) as a list and returns its outputs; written inputs are updated in place."""

    run: Callable[[list[Any]], list[Array]]
    kernels: tuple[Kernel, ...] = ()
    stages: Mapping[str, str] = field(default_factory=dict)
    plan: Mapping[str, int] = field(default_factory=dict)
    callbacks: tuple[str, ...] = ()  # NumPy kernels that the code calls: "op (at file:line)"
    runs: Runs | None = None  # on a device
    exchanges: tuple[Exchange, ...] = ()  # collectives that the code does
