"""Parameters as one flat vector, and back. parameters <-> vector."""

from __future__ import annotations

from collections.abc import Iterable

from eager.core.tensor import Tensor
from eager.ops.move import cat


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All elements of all parameters, one after the other."""
    return cat([p.reshape(-1) for p in parameters])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Make the parameters views of consecutive parts of `vec`."""
    if not isinstance(vec, Tensor):
        raise TypeError(f"expected Tensor, but got: {type(vec).__name__}")
    start = 0
    for parameter in parameters:
        n = parameter.numel()
        parameter.data = vec[start : start + n].reshape(parameter.shape).data
        start += n
