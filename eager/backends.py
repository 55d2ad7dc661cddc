"""At the edge: `eager.backends`, switches of PyTorch's kernel libraries. They are stored and
change nothing.

Eager kernels are deterministic NumPy, so there is nothing to select.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class _CuDNN:
    """`backends.cudnn`."""

    enabled = False
    benchmark = False
    deterministic = True
    allow_tf32 = False

    def is_available(self) -> bool:
        return False

    def version(self) -> None:
        """None: no such library is used."""

    @contextmanager
    def flags(self, **switches: Any) -> Iterator[None]:
        """The switches have these values for a while."""
        before = {name: getattr(self, name) for name in switches}
        vars(self).update(switches)
        try:
            yield
        finally:
            vars(self).update(before)


class _Matmul:
    """`backends.cuda.matmul`."""

    allow_tf32 = False
    allow_fp16_reduced_precision_reduction = False
    allow_bf16_reduced_precision_reduction = False


class _CUDA:
    """`backends.cuda`."""

    def __init__(self) -> None:
        self.matmul = _Matmul()

    def is_built(self) -> bool:
        return False


class _Absent:
    """`backends.mps`, `mkl`, `mkldnn` and `openmp`."""

    def is_available(self) -> bool:
        return False

    def is_built(self) -> bool:
        return False


cudnn = _CuDNN()
cuda = _CUDA()
mps, mkl, mkldnn, openmp = _Absent(), _Absent(), _Absent(), _Absent()
for _name in "cuda cudnn mkl mkldnn mps openmp".split():  # programs import them by name
    sys.modules[f"{__name__}.{_name}"] = globals()[_name]
