"""The operators: what Python's syntax calls on tensors. `x + y` -> `add(x, y)`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from eager.base import dtype as dt
from eager.base.tracebacks import trim
from eager.core.casts import on_gpus
from eager.core.dispatch import apply, apply_binary
from eager.core.sym import SymNumber
from eager.core.tensor import Tensor, wrap
from eager.ops import logic
from eager.ops import pointwise as p
from eager.ops.products import matmul
from eager.sizes.symint import SymInt

_COMMON = frozenset({Tensor, float, int})
_OPERANDS = (Tensor, bool, int, float, complex, SymNumber, SymInt, np.generic)


def _ufunc_operators(op: Any) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """`__op__` and `__rop__`; anything but tensors and numbers is the other operand's business."""

    def forward(self: Tensor, other: Any) -> Any:
        try:
            if type(other) in _COMMON or isinstance(other, _OPERANDS):
                return apply_binary(op, self, other)
            if isinstance(other, np.ndarray):  # takes part as a tensor
                return apply(op, self, wrap(other))
        except Exception as error:
            trim(error)
            raise
        return NotImplemented

    def reflected(self: Tensor, other: Any) -> Any:
        try:
            other = wrap(other) if isinstance(other, np.ndarray) else other
            return apply(op, other, self) if isinstance(other, _OPERANDS) else NotImplemented
        except Exception as error:
            trim(error)
            raise

    return forward, reflected


def _operators(fn: Callable[[Any, Any], Any]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Methods `__op__` and `__rop__` for operators that are more than one op."""

    def forward(self: Tensor, other: Any) -> Any:
        try:
            other = wrap(other) if isinstance(other, np.ndarray) else other
            return fn(self, other) if isinstance(other, _OPERANDS) else NotImplemented
        except Exception as error:
            trim(error)
            raise

    def reflected(self: Tensor, other: Any) -> Any:
        try:
            other = wrap(other) if isinstance(other, np.ndarray) else other
            return fn(other, self) if isinstance(other, _OPERANDS) else NotImplemented
        except Exception as error:
            trim(error)
            raise

    return forward, reflected


def _comparison(name: str) -> Callable[[Tensor, Any], Any]:
    op = p.COMPARE[name]

    def compare(self: Tensor, other: Any) -> Any:
        try:
            other = wrap(other) if isinstance(other, np.ndarray) else other
            return apply_binary(op, self, other) if isinstance(other, _OPERANDS) else NotImplemented
        except Exception as error:
            trim(error)
            raise

    return compare


def _inplace(fn: Callable[[Any, Any], Any]) -> Callable[[Tensor, Any], Any]:
    def update(self: Tensor, other: Any) -> Any:
        try:
            return fn(self, other) if isinstance(other, _OPERANDS) else NotImplemented
        except Exception as error:
            trim(error)
            raise

    return update


def _contains(self: Tensor, value: Any) -> bool:
    if not isinstance(value, _OPERANDS):
        raise RuntimeError(  # noqa: TRY004  # as in PyTorch
            "Tensor.__contains__ only supports Tensor or scalar, but you passed in a "
            f"{type(value)}."
        )
    return bool((self == value).any())


_UFUNCS = {"add": p.ADD, "sub": p.SUB, "mul": p.MUL, "truediv": p.DIV}
_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "floordiv": p.floor_divide,
    "mod": p.remainder,
    "pow": on_gpus("full")(p.pow_),
    "matmul": matmul,
    "and": logic.bitwise_and,
    "or": logic.bitwise_or,
    "xor": logic.bitwise_xor,
    "lshift": logic.bitwise_left_shift,
    "rshift": logic.bitwise_right_shift,
}
_INPLACE = {
    "add": "add_",
    "sub": "sub_",
    "mul": "mul_",
    "truediv": "div_",
    "floordiv": "floor_divide_",
    "mod": "remainder_",
    "pow": "pow_",
    "and": "bitwise_and_",
    "or": "bitwise_or_",
    "xor": "bitwise_xor_",
    "lshift": "bitwise_left_shift_",
    "rshift": "bitwise_right_shift_",
}


def _invert(self: Tensor) -> Tensor:
    if self.dtype.category >= dt.FLOAT:
        raise TypeError(
            "~ (operator.invert) is only implemented on integer and Boolean-type tensors"
        )
    return logic.bitwise_not(self)


def _install() -> None:
    pairs = {name: _ufunc_operators(op) for name, op in _UFUNCS.items()}
    pairs |= {name: _operators(fn) for name, fn in _BINARY.items()}
    for name, (forward, reflected) in pairs.items():
        setattr(Tensor, f"__{name}__", forward)
        if name == "truediv":  # a reciprocal
            reflected = on_gpus("full")(reflected)
        setattr(Tensor, f"__r{name}__", reflected)
    for name, method in _INPLACE.items():
        setattr(Tensor, f"__i{name}__", _inplace(getattr(Tensor, method)))
    for name in p.COMPARE:
        setattr(Tensor, f"__{name}__", _comparison(name))
    for name, unary in (
        ("neg", p.neg),
        ("pos", p.positive),
        ("abs", p.abs_),
        ("invert", _invert),
    ):
        setattr(Tensor, f"__{name}__", unary)
    setattr(Tensor, "__contains__", _contains)  # noqa: B010  # as all of them are


_install()
