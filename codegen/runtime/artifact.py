"""End of codegen: what every backend returns. Kernels, plan, stages and a callable -> Artifact."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True)
class Kernel:
    """One emitted kernel, for `explain`: its source, and what was fused into it or refused."""

    name: str
    source: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Spec:
    """Shape and element type of one array; `shape` holds ints."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def nbytes(self) -> int:
        size = self.dtype.itemsize
        for n in self.shape:
            size *= n
        return size


@dataclass(frozen=True, slots=True)
class Host:
    """A kernel that stays in Python, called from compiled code: arrays in, arrays out."""

    call: Callable[..., Any]
    inputs: tuple[Spec, ...]
    outputs: tuple[Spec, ...]


@dataclass(frozen=True, slots=True)
class Signature:
    """How one compiled entry is called.

    `kinds` has one letter per input: "t" an array, "f" a float, "i" an int (bools too). Buffers are
    numbered: the arrays among the inputs in their order, then `outputs`, then `hosts`. `shapes`
    computes output shapes from the inputs when they are symbolic. `sites[k]` is the user's
    "file:line" of the k-th place that can fail.
    """

    kinds: str
    outputs: tuple[Spec, ...]
    arena_bytes: int = 0
    sites: tuple[str, ...] = ()
    hosts: tuple[Host, ...] = ()
    shapes: Callable[[Sequence[Any]], Sequence[tuple[int, ...]]] | None = None


@dataclass(eq=False, slots=True)
class Artifact:
    """A compiled program. `run(inputs)` takes the program's inputs in order (arrays, and numbers
    for run-time scalars) as a list and returns its outputs; written inputs are updated in place."""

    run: Callable[[list[Any]], list[Array]]
    kernels: tuple[Kernel, ...] = ()
    stages: Mapping[str, str] = field(default_factory=dict)
    plan: Mapping[str, int] = field(default_factory=dict)
