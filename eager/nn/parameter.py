"""Tensors that a module learns. Tensor -> Parameter (the same memory, requires a gradient by
default)."""

from __future__ import annotations

from typing import Any

from eager.tensor import Tensor


class Parameter(Tensor):
    """A tensor that a `Module` registers as its parameter when it is assigned to an attribute."""

    def __init__(self, data: Any = None, requires_grad: bool = True) -> None:
        if data is None:
            data = Tensor()
        if not isinstance(data, Tensor):
            raise TypeError(
                f"Parameter() needs a Tensor to hold, got {type(data).__name__}: use "
                "eager.tensor(...)"
            )
        self._array = data._array
        self._storage = data._storage
        if requires_grad:
            self.requires_grad = True

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        if id(self) in memo:
            return memo[id(self)]
        copied = Parameter(self.data.clone(), self.requires_grad)
        memo[id(self)] = copied
        return copied

    def __reduce__(self) -> tuple[Any, ...]:
        return Parameter, (self.data, self.requires_grad)


class Buffer(Tensor):
    """A tensor that a `Module` registers as its buffer when it is assigned to an attribute."""

    persistent: bool

    def __init__(self, data: Any = None, *, persistent: bool = True) -> None:
        source = Tensor() if data is None else data
        self._array = source._array
        self._storage = source._storage
        self.persistent = persistent
