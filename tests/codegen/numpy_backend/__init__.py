"""A fourth backend, in a folder: a kernel is a function of NumPy expressions over all its rows at
once. What it cannot say (branches, draws, checks, indices from data) it refuses."""

from codegen import FRONT, Backend, Stage
from codegen.runtime.artifact import Artifact, Kernel
from codegen.targets.python.runtime.flat import FlatProgram
from tests.codegen.numpy_backend.kernel import emit_kernel

HEADER = "import numpy as np\nfrom codegen.targets.python.runtime.prelude import *\n\n\n"


def emit(fused):
    return fused, HEADER + "\n\n\n".join(map(emit_kernel, fused.kernels()))


def load(results, target):
    fused, text = results["source"]
    functions = {}
    exec(text, functions)
    return Artifact(FlatProgram(fused, functions), (Kernel("all", text),))


BACKEND = Backend((*FRONT, Stage("source", emit)), load)
