"""The end of compiling a graph: Artifact -> Executable, which arrays and numbers are given to.

A graph can also run op by op: what codegen refuses, and `backend="eager"`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any, Final

import numpy as np

from codegen.runtime.artifact import Artifact, Runs
from eager.base.dataclass import dataclass
from eager.core import on_device
from eager.device.array import DeviceArray
from jitcap.base.diagnostics import Trail
from jitcap.graph.graph import CHECK, Graph

Run = Callable[[list[Any]], list[Any]]
LEVELS: Final = {"fused": 4, "program": 5, "loops": 5, "source": 5}  # of JITCAP_DEBUG, by stage


@dataclass(frozen=True, slots=True)
class Executable:
    """A compiled graph. `run` takes arrays and numbers in the order of the graph's inputs and gives
    the outputs that are not written back, in order; written inputs are updated in place."""

    run: Run
    backend: str
    kernels: tuple[Any, ...] = ()
    refused: str = ""
    callbacks: tuple[str, ...] = ()  # NumPy kernels that compiled code calls
    key: str | None = None  # under which the artifact is kept on disk
    artifact: Any = field(default=None, repr=False)
    runs: tuple[Runs, ...] = field(default=(), repr=False)  # of programs on devices


def of_artifact(artifact: Artifact, backend: str, key: str | None) -> Executable:
    """Executable of what codegen made."""
    return Executable(
        artifact.run, backend, artifact.kernels, callbacks=artifact.callbacks, key=key,
        artifact=artifact,
    )  # fmt: skip


def keep_artifact(artifact: Artifact, trail: Trail) -> None:
    """Codegen's own stages, rendered when somebody asks."""
    for name in artifact.stages:
        text = functools.partial(artifact.stages.__getitem__, name)
        trail.keep(name, text, LEVELS.get(name, 6), artifact.stages)
    for name, microseconds in artifact.plan.items():
        if name.endswith("_us"):
            trail.spend(name.removesuffix("_us"), microseconds / 1e6, "codegen")
    trail.kernels.extend(artifact.kernels)
    trail.callbacks.extend(artifact.callbacks)
    trail.notes.extend(map(str, artifact.exchanges))


def op_by_op(graph: Graph, writes: Sequence[tuple[int, int]]) -> Run:
    """backend="eager": the graph with eager's own kernels. Results share memory with nothing."""
    hidden = {o for _, o in writes} | {o for o, n in enumerate(graph.outputs) if n.op is CHECK}

    def run(arrays: list[Any], replaced: Sequence[Any] = ()) -> list[Any]:
        del replaced  # they keep memory of their own
        with np.errstate(all="ignore"):
            values = [_own(v) for v in graph.run(arrays)]
        for i, o in writes:
            if type(arrays[i]) is DeviceArray:
                on_device.store(arrays[i], values[o])
            else:
                np.copyto(arrays[i], values[o])
        return [v for o, v in enumerate(values) if o not in hidden]

    return run


def _own(value: Any) -> Any:
    """A value in memory of its own: an output may be a view of an input, or be the input."""
    if type(value) is DeviceArray:
        return on_device.contiguous(value)
    return value.copy() if isinstance(value, np.ndarray) else value
