"""Beside the functions of `eager.nn.functional`: their entry in the table of public functions.
function -> the function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from eager.base.compat_warnings import warn
from eager.core.op import Samples
from eager.core.registry import public
from eager.core.tensor import Tensor
from eager.sizes.symint import integer

F = TypeVar("F", bound=Callable[..., Any])


def functional(samples: Samples | None = None) -> Callable[[F], F]:
    """Register a function whose reference is `torch.nn.functional.<name>`. It is neither a method
    nor in `eager`."""

    def register(fn: F) -> F:
        reference = f"nn.functional.{fn.__name__}"
        make = public(torch=reference, samples=samples, method=False, namespace=False)
        return make(fn)

    return register


def per_dim(value: Any, n: int) -> tuple[int, ...]:
    """An int for all of n spatial dimensions, or one int each. Raises RuntimeError for another
    count."""
    if isinstance(value, tuple | list):
        if len(value) == 1:
            return (integer(value[0]),) * n
        if len(value) != n:
            raise RuntimeError(f"expected a single int or a list of {n} ints, got {list(value)}")
        return tuple(map(integer, value))
    return (integer(value),) * n


def wide(x: Tensor) -> Tensor:
    """x in the type that statistics are computed in: 16-bit floats in float32."""
    return x if x.dtype.compute is x.dtype else x.to(x.dtype.compute)


def reduced(loss: Tensor, reduction: str) -> Tensor:
    """The `reduction` argument of losses. Raises ValueError for another word."""
    if reduction == "mean":
        return loss.mean()
    if reduction == "sum":
        return loss.sum()
    if reduction == "elementwise_mean":
        warn("reduction='elementwise_mean' is the old name of reduction='mean'")
        return loss.mean()
    if reduction != "none":
        raise ValueError(
            f"{reduction!r} is not a valid value for reduction: it is 'mean', 'sum' or 'none'"
        )
    return loss


def warn_of_sizes(input: Tensor, target: Tensor) -> None:
    """A loss of each pair of elements: where sizes differ, most pairs were not meant."""
    if input.shape != target.shape:
        warn(
            f"the target has size {tuple(target.shape)} and the input {tuple(input.shape)}: they "
            "broadcast, and the loss is likely wrong. Make both the same size, for example by "
            "input.squeeze(-1) or target.unsqueeze(-1)"
        )


def legacy_reduction(size_average: Any, reduce: Any, reduction: str) -> str:
    """The words of PyTorch's deprecated `size_average` and `reduce`, when given."""
    if size_average is None and reduce is None:
        return reduction
    word = "none" if reduce is False else "sum" if size_average is False else "mean"
    warn(f"size_average and reduce are deprecated: use reduction={word!r} instead")
    return word
