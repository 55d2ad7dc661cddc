"""`eager.einops`: einops' functions, and its layers as modules of ours.

    from eager.einops import Rearrange, rearrange

The functions are those of the package (https://einops.rocks), which has to be installed; imported
from there they take our tensors, too (`einops_backend.py`). The layers are modules of `eager.nn`.
Under `@jit` patterns are read while a program is captured.
"""

from __future__ import annotations

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
    from einops.layers import RearrangeMixin, ReduceMixin
    from einops.layers._einmix import _EinmixMixin
except ImportError as missing:
    raise ImportError(f"eager.einops needs einops: pip install einops ({missing})") from missing

__all__ = [
    "EinMix", "EinopsError", "Rearrange", "Reduce", "asnumpy", "einsum", "pack", "parse_shape",
    "rearrange", "reduce", "repeat", "unpack",
]  # fmt: skip


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
