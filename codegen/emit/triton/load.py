"""The Triton backend, end: the program on a device, for arrays that live there, or for those of the
host. Stages' results -> Artifact."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from codegen.emit.triton.guard import guard
from codegen.emit.triton.runtime.program import TritonProgram
from codegen.ir import Target, Unsupported
from codegen.resident import resident
from codegen.runtime.artifact import Artifact
from eager.device.protocol import DeviceUnavailable


def load(results: Mapping[str, Any], target: Target) -> Artifact:
    """The program on the GPU. Raises Unsupported, saying why, when there is none."""
    program: TritonProgram = results["source"]
    if target.place:
        checks = results["fused"].program.checks
        return resident(guard(program, checks), target.place, target.name)
    try:
        return resident(program, "cuda:0", "a program of the host", host=True)
    except DeviceUnavailable as error:
        raise Unsupported(f"the triton backend has no device: {error}") from error
