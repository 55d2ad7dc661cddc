"""At the edge: `eager.backends`, switches of PyTorch's kernel libraries. They are stored and
change nothing.

Eager kernels are deterministic NumPy, so there is nothing to select.
"""

from __future__ import annotations


class _CuDNN:
    """`backends.cudnn`."""

    enabled = False
    benchmark = False
    deterministic = True
    allow_tf32 = False

    def is_available(self) -> bool:
        return False


class _Matmul:
    """`backends.cuda.matmul`."""

    allow_tf32 = False


class _CUDA:
    """`backends.cuda`."""

    def __init__(self) -> None:
        self.matmul = _Matmul()

    def is_built(self) -> bool:
        return False


class _MPS:
    """`backends.mps`."""

    def is_available(self) -> bool:
        return False

    def is_built(self) -> bool:
        return False


cudnn = _CuDNN()
cuda = _CUDA()
mps = _MPS()
