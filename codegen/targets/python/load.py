"""The Python backend, end: the text executed. Stages' results -> Artifact."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from codegen.ir.schema import Target
from codegen.runtime.artifact import Artifact, Kernel
from codegen.targets.python.program import Source
from codegen.targets.python.runtime.flat import FlatProgram


def load(results: Mapping[str, Any], target: Target) -> Artifact:
    source: Source = results["source"]
    functions: dict[str, Any] = {}
    exec(compile(source.text, "<codegen python>", "exec"), functions)
    run = FlatProgram(source.fused, functions)
    return Artifact(run, (Kernel("loops", source.text),), plan={"arena_bytes": 0})
