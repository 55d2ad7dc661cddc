"""What users tell capture from inside their programs: marks on functions and tensors.

None of these changes what a program computes. Every size compiles a version of its own, so
`assume_static` has nothing to add, and `mark_dynamic` is not there yet and says so.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from eager.tensor import Tensor
from jitcap.record import announce

NO_CAPTURE = "__jitcap_disable__"


def no_capture(fn: Callable[..., Any]) -> Callable[..., Any]:
    """`fn` with a mark that capture respects: the program splits around its calls."""

    @functools.wraps(fn)
    def plainly(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    setattr(plainly, NO_CAPTURE, True)
    return plainly


def graph_break() -> None:
    """Split the compiled program here."""


setattr(graph_break, NO_CAPTURE, True)


def mark_dynamic(tensor: Tensor, dim: int | tuple[int, ...]) -> Tensor:
    """The size of `dim` will vary: not there yet. A new size compiles anew, after a warning."""
    announce(
        "mark_dynamic",
        "mark_dynamic() has no effect: every size compiles a version of its own. Pad to few sizes, "
        "or raise config.entries",
    )
    return _mark(tensor, dim)


def assume_static(tensor: Tensor, dim: int | tuple[int, ...]) -> Tensor:
    """The size of `dim` stays what it is, as all sizes do in a compiled version."""
    return _mark(tensor, dim)


def _mark(tensor: Tensor, dim: int | tuple[int, ...]) -> Tensor:
    if not isinstance(tensor, Tensor):
        raise TypeError(f"expected a Tensor, got {type(tensor).__name__}")
    for d in (dim,) if isinstance(dim, int) else dim:
        if not -tensor.ndim <= d < tensor.ndim:
            raise IndexError(f"dimension {d} of a tensor with {tensor.ndim} dimensions")
    return tensor
