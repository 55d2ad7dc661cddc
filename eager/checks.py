"""At the edge: `eager._check(...)` and its like, what code that PyTorch traces writes for `assert`
and `raise`. a condition -> an error, or nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from eager.base.dtype import bool_
from eager.core.tensor import Tensor

_SAID: Final = "Expected cond to be True, but got False."


def _assert(condition: Any, message: str) -> None:
    """`assert`, as programs that PyTorch traces write it."""
    if not condition:
        raise AssertionError(message)


def _assert_async(
    condition: Any, message: str = "Expected Tensor with single nonzero value, but got zero"
) -> None:
    """Raise RuntimeError unless a tensor of one element is true: at once, on any device."""
    if not condition:
        raise RuntimeError(message)


def _check_of(kind: type[Exception], name: str) -> Callable[..., None]:
    def check(cond: Any, message: Callable[[], str] | None = None) -> None:
        if isinstance(cond, Tensor):
            raise TypeError("cond must be a bool, but got a Tensor: eager._check_tensor_all()")
        if not isinstance(cond, bool):
            raise TypeError(f"cond must be a bool, but got {type(cond)}")
        _check_all(kind, cond, message)

    check.__name__ = check.__qualname__ = name
    check.__doc__ = f"Raise {kind.__name__}, with what `message()` says, unless `cond` is true."
    return check


def _check_all(kind: type[Exception], cond: Any, message: Callable[[], str] | None) -> None:
    if not cond:
        if message is not None and not callable(message):
            raise TypeError("message must be a callable")
        raise kind(_SAID if message is None else message())


def _check_tensor_all(cond: Any, message: Callable[[], str] | None = None) -> None:
    """Raise RuntimeError, with what `message()` says, unless all elements are true."""
    if not isinstance(cond, Tensor):
        raise TypeError(f"cond must be a tensor, but got {type(cond)}")
    if cond.dtype is not bool_:
        raise TypeError(f"cond tensor must have dtype bool, but got {cond.dtype}")
    _check_all(RuntimeError, cond.all(), message)


CHECKS: Final[dict[str, Any]] = {
    "_assert": _assert,
    "_assert_async": _assert_async,
    "_check": _check_of(RuntimeError, "_check"),
    "_check_index": _check_of(IndexError, "_check_index"),
    "_check_not_implemented": _check_of(NotImplementedError, "_check_not_implemented"),
    "_check_tensor_all": _check_tensor_all,
    "_check_type": _check_of(TypeError, "_check_type"),
    "_check_value": _check_of(ValueError, "_check_value"),
}
