"""The Triton backend: kernels as a Python module, launched on a GPU. Fused -> Artifact."""

from codegen.targets.triton.epilogue import fits
from codegen.targets.triton.group import batch
from codegen.targets.triton.load import load
from codegen.targets.triton.program import emit

__all__ = ["batch", "emit", "fits", "load"]
