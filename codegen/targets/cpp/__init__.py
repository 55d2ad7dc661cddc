"""The C++ backend: kernels with explicit SIMD, one shared object per program. Tiled -> Artifact."""

from codegen.targets.cpp.epilogue import fits
from codegen.targets.cpp.load import anticipate, clocked, load
from codegen.targets.cpp.program import ENTRY, Source, batch, emit, plan, plan_body, spell

__all__ = [
    "ENTRY", "Source", "anticipate", "batch", "clocked", "emit", "fits", "load", "plan",
    "plan_body", "spell",
]  # fmt: skip
