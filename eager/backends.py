"""At the edge: `eager.backends`, switches of PyTorch's kernel libraries. They are stored and
change nothing.

Eager kernels are deterministic NumPy, so there is nothing to select.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class _Precision:
    """Precision of products of float32: always float32."""

    fp32_precision = "ieee"


class _CuDNN:
    """`backends.cudnn`."""

    enabled = False
    benchmark = False
    benchmark_limit = 10
    deterministic = True
    allow_tf32 = False

    def __init__(self) -> None:
        self.conv, self.rnn = _Precision(), _Precision()

    def is_available(self) -> bool:
        return False

    def is_acceptable(self, tensor: Any) -> bool:
        return False

    def set_flags(self, **switches: Any) -> None:
        vars(self).update(switches)

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


class _Matmul(_Precision):
    """`backends.cuda.matmul`."""

    allow_tf32 = False
    allow_fp16_reduced_precision_reduction = False
    allow_bf16_reduced_precision_reduction = False


class _CUDA:
    """`backends.cuda`. PyTorch's attention kernels all compute the same: the choice is stored."""

    def __init__(self) -> None:
        self.matmul = _Matmul()
        self._attention = dict.fromkeys(("flash", "mem_efficient", "math", "cudnn"), True)

    def is_built(self) -> bool:
        return False

    def is_flash_attention_available(self) -> bool:
        return False

    def flash_sdp_enabled(self) -> bool:
        return self._attention["flash"]

    def mem_efficient_sdp_enabled(self) -> bool:
        return self._attention["mem_efficient"]

    def math_sdp_enabled(self) -> bool:
        return self._attention["math"]

    def cudnn_sdp_enabled(self) -> bool:
        return self._attention["cudnn"]

    def enable_flash_sdp(self, enabled: bool) -> None:
        self._attention["flash"] = enabled

    def enable_mem_efficient_sdp(self, enabled: bool) -> None:
        self._attention["mem_efficient"] = enabled

    def enable_math_sdp(self, enabled: bool) -> None:
        self._attention["math"] = enabled

    def enable_cudnn_sdp(self, enabled: bool) -> None:
        self._attention["cudnn"] = enabled

    @contextmanager
    def sdp_kernel(
        self,
        enable_flash: bool = True,
        enable_math: bool = True,
        enable_mem_efficient: bool = True,
        enable_cudnn: bool = True,
    ) -> Iterator[None]:
        """Say for a while which of PyTorch's kernels for attention may run."""
        before = self._attention
        self._attention = {
            "flash": enable_flash, "mem_efficient": enable_mem_efficient,
            "math": enable_math, "cudnn": enable_cudnn,
        }  # fmt: skip
        try:
            yield
        finally:
            self._attention = before


class _Einsum:
    """`backends.opt_einsum`: products go from left to right."""

    enabled = False
    strategy = None

    def is_available(self) -> bool:
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
opt_einsum = _Einsum()
for _name in "cuda cudnn mkl mkldnn mps openmp opt_einsum".split():  # programs import them by name
    sys.modules[f"{__name__}.{_name}"] = globals()[_name]
