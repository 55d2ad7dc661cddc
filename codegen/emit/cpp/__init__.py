"""The C++ backend: kernels with explicit SIMD, one shared object per program. Tiled -> Artifact."""

from codegen.emit.cpp.load import anticipate, load, prepare
from codegen.emit.cpp.program import ENTRY, Source, batch, emit, plan, plan_body, spell

__all__ = [
    "ENTRY", "Source", "anticipate", "batch", "emit", "load", "plan", "plan_body", "prepare",
    "spell",
]  # fmt: skip
