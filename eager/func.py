"""The operators: what Python's syntax calls on tensors. `x + y` -> `add(x, y)`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from eager.dispatch import apply
from eager.ops import pointwise as p
from eager.sym import SymNumber
from eager.tensor import Tensor

_OPERANDS = (Tensor, bool, int, float, complex, SymNumber, np.generic)


def _operators(fn: Callable[[Any, Any], Any]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """`__op__` and `__rop__`; anything but tensors and numbers is the other operand's business."""

    def forward(self: Tensor, other: Any) -> Any:
        return fn(self, other) if isinstance(other, _OPERANDS) else NotImplemented

    def reflected(self: Tensor, other: Any) -> Any:
        return fn(other, self) if isinstance(other, _OPERANDS) else NotImplemented

    return forward, reflected


def _comparison(name: str) -> Callable[[Tensor, Any], Any]:
    op = p.COMPARE[name]

    def compare(self: Tensor, other: Any) -> Any:
        return apply(op, self, other) if isinstance(other, _OPERANDS) else NotImplemented

    return compare


def _inplace(fn: Callable[[Any, Any], Any]) -> Callable[[Tensor, Any], Any]:
    def update(self: Tensor, other: Any) -> Any:
        return fn(self, other) if isinstance(other, _OPERANDS) else NotImplemented

    return update


_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda x, y: apply(p.ADD, x, y),
    "sub": lambda x, y: apply(p.SUB, x, y),
    "mul": lambda x, y: apply(p.MUL, x, y),
    "truediv": lambda x, y: apply(p.DIV, x, y),
    "floordiv": p.floor_divide,
    "mod": p.remainder,
    "pow": p.pow_,
    "and": p.bitwise_and,
    "or": p.bitwise_or,
    "xor": p.bitwise_xor,
    "lshift": p.bitwise_left_shift,
    "rshift": p.bitwise_right_shift,
}
_INPLACE = {"add": "add_", "sub": "sub_", "mul": "mul_", "truediv": "div_", "floordiv": "floor_divide_",
            "mod": "remainder_", "pow": "pow_", "and": "bitwise_and_", "or": "bitwise_or_",
            "xor": "bitwise_xor_"}  # fmt: skip


def _install() -> None:
    for name, fn in _BINARY.items():
        forward, reflected = _operators(fn)
        setattr(Tensor, f"__{name}__", forward)
        setattr(Tensor, f"__r{name}__", reflected)
    for name, method in _INPLACE.items():
        setattr(Tensor, f"__i{name}__", _inplace(getattr(Tensor, method)))
    for name in p.COMPARE:
        setattr(Tensor, f"__{name}__", _comparison(name))
    for name, unary in (
        ("neg", p.neg),
        ("pos", p.positive),
        ("abs", p.abs_),
        ("invert", p.bitwise_not),
    ):
        setattr(Tensor, f"__{name}__", unary)


_install()
