"""The Python backend: loops over flat arrays, the reference of the others. Fused -> Artifact."""

from codegen.emit.python.load import load
from codegen.emit.python.program import Source, emit

__all__ = ["Source", "emit", "load"]
