"""`eager.einops`: tensors for einops. Imported once, `einops.rearrange` and its like take ours.

    from eager.einops import Rearrange, rearrange

The functions are those of the package (https://einops.rocks), which has to be installed; the layers
are modules of `eager.nn`. Under `@jit` patterns are read while a program is captured.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import eager
from eager import nn

try:
    from einops import (
        EinopsError,
        asnumpy,
        einsum,
        pack,
        parse_shape,
        rearrange,
        reduce,
        repeat,
        unpack,
    )
    from einops._backends import AbstractBackend, get_backend
    from einops.layers import RearrangeMixin, ReduceMixin
    from einops.layers._einmix import _EinmixMixin
except ImportError as missing:
    raise ImportError(f"eager.einops needs einops: pip install einops ({missing})") from missing

__all__ = [
    "EinMix", "EinopsError", "Rearrange", "Reduce", "asnumpy", "einsum", "pack", "parse_shape",
    "rearrange", "reduce", "repeat", "unpack",
]  # fmt: skip


class Backend(AbstractBackend):  # type: ignore[misc]
    """What einops asks of a library: found by this class, and by the name."""

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


class Rearrange(RearrangeMixin, nn.Module):  # type: ignore[misc]
    """`rearrange` with one pattern, as a layer."""

    def forward(self, input: Any) -> Any:
        return self._apply_recipe(input)


class Reduce(ReduceMixin, nn.Module):  # type: ignore[misc]
    """`reduce` with one pattern, as a layer."""

    def forward(self, input: Any) -> Any:
        return self._apply_recipe(input)


class EinMix(_EinmixMixin, nn.Module):  # type: ignore[misc]
    """A linear layer by patterns: which axes are mixed, and the shapes of weight and bias."""

    def _create_parameters(
        self, weight_shape: Any, weight_bound: float, bias_shape: Any, bias_bound: float
    ) -> None:
        def uniform(shape: Any, bound: float) -> Any:
            return nn.Parameter(eager.zeros(shape).uniform_(-bound, bound))

        self.weight = uniform(weight_shape, weight_bound)
        self.bias = None if bias_shape is None else uniform(bias_shape, bias_bound)

    def _create_rearrange_layers(
        self, before: str | None, before_lengths: Any, after: str | None, after_lengths: Any
    ) -> None:
        self.pre_rearrange = None if before is None else Rearrange(before, **before_lengths)  # type: ignore[call-arg]
        self.post_rearrange = None if after is None else Rearrange(after, **after_lengths)  # type: ignore[call-arg]

    def forward(self, input: Any) -> Any:
        if self.pre_rearrange is not None:
            input = self.pre_rearrange(input)
        result = eager.einsum(self.einsum_pattern, input, self.weight)
        if self.bias is not None:
            result = result + self.bias
        return result if self.post_rearrange is None else self.post_rearrange(result)


for _kind in (eager.Tensor(), nn.Parameter()):  # einops remembers: it looks for no other library
    get_backend(_kind)
