"""The Python backend: loops over flat arrays, the reference of the others. Fused -> Artifact."""

from codegen.targets.python.load import load
from codegen.targets.python.program import Source, emit

__all__ = ["Source", "emit", "load"]
