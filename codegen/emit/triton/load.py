"""The Triton backend, end: the program on a device. Stages' results -> Artifact."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from codegen.emit.triton.runtime.device import run_of
from codegen.emit.triton.runtime.program import TritonProgram
from codegen.ir import Target, Unsupported
from codegen.runtime.artifact import Artifact, Kernel
from eager.device import places
from eager.device.protocol import DeviceUnavailable


def load(results: Mapping[str, Any], target: Target) -> Artifact:
    """The program on the GPU. Raises Unsupported, saying why, when there is none."""
    program: TritonProgram = results["source"]
    try:
        run = run_of(program, places.pool(0))
    except ModuleNotFoundError as error:
        raise Unsupported(f"the triton backend: {error}") from error
    except DeviceUnavailable as error:
        raise Unsupported(f"the triton backend has no device: {error}") from error
    kernels = tuple(Kernel(k.name, k.source, k.notes) for k in program.kernels.values())
    return Artifact(run, kernels, plan={"arena_bytes": program.arena_bytes})
