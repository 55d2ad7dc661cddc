"""The Triton backend, end: the program on a device. Stages' results -> Artifact."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from codegen.ir import Target
from codegen.runtime import triton_device
from codegen.runtime.artifact import Artifact


def load(results: Mapping[str, Any], target: Target) -> Artifact:
    return triton_device.load(results["source"], target.isa)
