"""The operators: what Python's syntax calls on tensors. `x + y` -> `add(x, y)`."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from eager.dispatch import apply
from eager.ops import pointwise as p
from eager.sym import SymNumber
from eager.tensor import Tensor

_NUMERIC = (Tensor, bool, int, float, complex, SymNumber)


def _operators(op: Any) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """`__op__` and `__rop__`."""

    def forward(self: Tensor, other: Any) -> Any:
        return apply(op, self, other)

    def backward(self: Tensor, other: Any) -> Any:
        return apply(op, other, self)

    return forward, backward


def _install() -> None:
    for name, op in {"add": p.ADD, "sub": p.SUB, "mul": p.MUL, "truediv": p.DIV}.items():
        forward, backward = _operators(op)
        setattr(Tensor, f"__{name}__", forward)
        setattr(Tensor, f"__r{name}__", backward)
    for name, op in p.COMPARE.items():
        setattr(Tensor, f"__{name}__", _operators(op)[0])
    for name in ("add", "sub", "mul"):
        setattr(Tensor, f"__i{name}__", getattr(Tensor, name + "_"))
    setattr(Tensor, "__itruediv__", Tensor.div_)  # noqa: B010
    setattr(Tensor, "__neg__", p.neg)  # noqa: B010


_install()
_ = operator
