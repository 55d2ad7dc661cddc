"""The Triton backend, end: the program on a device, for arrays that live there, or for those of the
host. Stages' results -> Artifact."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from codegen.ir.schema import Target, Unsupported
from codegen.runtime.artifact import Artifact
from codegen.targets.triton.guard import guard
from codegen.targets.triton.runtime.program import TritonProgram
from codegen.targets.triton.runtime.resident import resident
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
