"""At the edge: `eager.overrides`, what code that was copied from PyTorch asks before it calls a
function. values -> False: no type has operations of its own."""

from __future__ import annotations

from typing import Any, NoReturn

from eager.core.tensor import Tensor

__all__ = [
    "TorchFunctionMode", "handle_torch_function", "has_torch_function", "has_torch_function_unary",
    "has_torch_function_variadic", "is_tensor_like",
]  # fmt: skip


def has_torch_function(relevant_args: Any) -> bool:
    """True if one of the values has operations of its own: never."""
    return False


def has_torch_function_unary(arg: Any) -> bool:
    """True if the value has operations of its own: never."""
    return False


def has_torch_function_variadic(*args: Any) -> bool:
    """True if one of the values has operations of its own: never."""
    return False


def handle_torch_function(
    public_api: Any, relevant_args: Any, *args: Any, **kwargs: Any
) -> NoReturn:
    """Raises TypeError: no value has operations of its own."""
    raise TypeError(f"no implementation found for {public_api!r}: no type has one of its own here")


def is_tensor_like(inp: Any) -> bool:
    """True for a tensor."""
    return isinstance(inp, Tensor)


class TorchFunctionMode:
    """The base of classes that PyTorch asks at each call of a function: they can be defined here,
    and not entered."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise NotImplementedError

    def __enter__(self) -> NoReturn:
        raise RuntimeError(
            f"{type(self).__name__}: calls of functions cannot be changed from outside here; "
            "hooks of modules see their calls, and the profiler the operations"
        )

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        """Nothing: it was not entered."""
