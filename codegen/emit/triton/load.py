"""The Triton backend, end: the program on a device. Stages' results -> Artifact."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from codegen.emit.triton.runtime.cuda import Device, DeviceUnavailable, open_device
from codegen.emit.triton.runtime.device import DeviceProgram
from codegen.emit.triton.runtime.program import TritonProgram
from codegen.emit.triton.runtime.run import compile_program, interpreted
from codegen.ir import Target, Unsupported
from codegen.runtime.artifact import Artifact, Kernel


def load(results: Mapping[str, Any], target: Target) -> Artifact:
    """The program on the first GPU or, for isa "interpreter", on NumPy. Raises Unsupported, saying
    why, when there is no GPU (and the interpreter was not asked for)."""
    program: TritonProgram = results["source"]
    try:
        run = interpreted(program) if target.isa == "interpreter" else _on_device(program)
    except ModuleNotFoundError as error:
        raise Unsupported(
            f"the triton backend needs the package {error.name} (pip install 'jitcap[gpu]')"
        ) from error
    except DeviceUnavailable as error:
        raise Unsupported(
            f"the triton backend has no device: {error};"
            " JITCAP_ISA=interpreter runs its kernels on NumPy"
        ) from error
    kernels = tuple(Kernel(k.name, k.source, k.notes) for k in program.kernels.values())
    return Artifact(run, kernels, plan={"arena_bytes": program.arena_bytes})


def _on_device(program: TritonProgram) -> DeviceProgram:
    return DeviceProgram(program, _default_device(), compile_program(program))


@cache
def _default_device() -> Device:
    return open_device()
