"""Beside `import einops`: what einops asks of a library, for our tensors. It is imported as soon as
both packages are (`lazy_imports.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from einops._backends import AbstractBackend, get_backend

import eager


class Backend(AbstractBackend):  # type: ignore[misc]
    """Functions that einops asks of a library: found by this class, and by the name."""

    framework_name = "eager"

    def is_appropriate_type(self, tensor: Any) -> bool:
        return isinstance(tensor, eager.Tensor)

    def from_numpy(self, x: Any) -> Any:
        return eager.from_numpy(x)

    def to_numpy(self, x: Any) -> Any:
        return x.detach().cpu().numpy()

    def arange(self, start: int, stop: int) -> Any:
        return eager.arange(start, stop)

    def reduce(self, x: Any, operation: str, axes: Any) -> Any:
        if operation in ("min", "max"):
            return (x.amin if operation == "min" else x.amax)(dim=axes)
        if operation in ("sum", "mean"):
            return getattr(x, operation)(dim=axes)
        for axis in sorted(axes, reverse=True):  # any, all, prod
            x = getattr(x, operation)(dim=axis)
        return x

    def transpose(self, x: Any, axes: Any) -> Any:
        return x.permute(axes)

    def stack_on_zeroth_dimension(self, tensors: list[Any]) -> Any:
        return eager.stack(tensors)

    def add_axes(self, x: Any, n_axes: int, pos2len: Mapping[int, int]) -> Any:
        sizes = [-1] * n_axes
        for position, length in pos2len.items():
            x = self.add_axis(x, position)
            sizes[position] = length
        return x.expand(sizes)

    def add_axis(self, x: Any, new_position: int) -> Any:
        return x.unsqueeze(new_position)

    def tile(self, x: Any, repeats: Any) -> Any:
        return x.repeat(repeats)

    def concat(self, tensors: list[Any], axis: int) -> Any:
        return eager.cat(tensors, dim=axis)

    def is_float_type(self, x: Any) -> bool:
        return bool(x.dtype.is_floating_point)

    def einsum(self, pattern: str, *x: Any) -> Any:
        return eager.einsum(pattern, *x)


for _kind in (eager.Tensor(), eager.nn.Parameter()):  # einops remembers: it looks no further
    get_backend(_kind)
