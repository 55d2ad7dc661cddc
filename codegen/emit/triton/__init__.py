"""The Triton backend: kernels as a Python module, launched on a GPU. Fused -> Artifact."""

from codegen.emit.triton.epilogue import fuse_epilogues
from codegen.emit.triton.group import batch
from codegen.emit.triton.load import load
from codegen.emit.triton.program import emit

__all__ = ["batch", "emit", "fuse_epilogues", "load"]
