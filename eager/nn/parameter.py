"""Tensors that a module learns. Tensor -> Parameter (the same memory, requires a gradient by
default)."""

from __future__ import annotations

from typing import Any

from eager.base import dtype as dt
from eager.core.tensor import Tensor, unmade
from eager.core.traced import UnknownValue
from eager.ops.create import empty


def _over(cls: type[Tensor], data: Tensor) -> Any:
    """A leaf of a class over the memory of `data`."""
    made = unmade(cls)
    made._array, made._storage = data._array, data._storage
    return made


class Parameter(Tensor):
    """A tensor that a `Module` registers as its parameter when it is assigned to an attribute."""

    def __new__(cls, data: Any = None, requires_grad: bool = True) -> Any:
        if data is None:
            data = Tensor()
        if not isinstance(data, Tensor):
            raise TypeError(
                f"Parameter() needs a Tensor to hold, got {type(data).__name__}: use "
                "eager.tensor(...)"
            )
        made = _over(cls, data)
        if requires_grad:
            made.requires_grad = True
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        if id(self) in memo:
            return memo[id(self)]
        copied = type(self)(self.data.clone(), self.requires_grad)
        memo[id(self)] = copied
        return copied

    def __reduce__(self) -> tuple[Any, ...]:
        return Parameter, (self.data, self.requires_grad)


class Buffer(Tensor):
    """A tensor that a `Module` registers as its buffer when it is assigned to an attribute."""

    persistent: bool

    def __new__(cls, data: Any = None, *, persistent: bool = True) -> Any:
        made = _over(cls, Tensor() if data is None else data)
        made.persistent = persistent
        return made


class UninitializedError(UnknownValue, ValueError):
    """A tensor without a shape was used; a compiled function is split there."""


class _Uninitialized(Tensor):
    """A tensor without a shape: it has a dtype, and can be moved, copied and given a shape; all
    else raises ValueError."""

    cls_to_become: type[Tensor] = Tensor
    _kind: tuple[Any, Any]  # device and dtype

    def __new__(cls, requires_grad: bool = False, device: Any = None, dtype: Any = None) -> Any:
        made = unmade(cls)
        made._kind = (device, dt.get_default_dtype() if dtype is None else dtype)
        made._requires_grad = requires_grad
        return made

    @property
    def _array(self) -> Any:
        raise UninitializedError(
            "Attempted to use an uninitialized parameter. This error happens when you are using a "
            "`LazyModule` or explicitly manipulating an `UninitializedParameter`: call the module "
            "once with an input of the right shape first"
        )

    @property
    def shape(self) -> Any:
        raise RuntimeError(
            "Can't access the shape of an uninitialized parameter or buffer. This error usually "
            "happens in `load_state_dict` when trying to load an uninitialized parameter into an "
            "initialized one. Call the module once to give its parameters their shapes."
        )

    @property
    def dtype(self) -> Any:
        return self._kind[1]

    @property
    def data(self) -> Tensor:
        """An empty tensor of the dtype: what converts it converts this one."""
        return empty((0,), device=self._kind[0], dtype=self._kind[1])

    @data.setter
    def data(self, value: Tensor) -> None:
        self._kind = (value.device, value.dtype)

    def detach(self) -> Tensor:
        return self

    def materialize(self, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Become a tensor of `shape`, with any values."""
        device, dtype = device or self._kind[0], dtype or self._kind[1]
        values = empty(tuple(shape), device=device, dtype=dtype)
        del self.__dict__["_kind"]
        self.__class__ = self.cls_to_become  # type: ignore[assignment]
        self._array, self._storage = values._array, values._storage  # type: ignore[misc]

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            memo[id(self)] = type(self)(self._requires_grad, *self._kind)
        return memo[id(self)]

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._requires_grad, *self._kind)

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return self.__reduce__()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    __str__ = __repr__


class UninitializedParameter(_Uninitialized, Parameter):
    """A parameter whose shape is not known yet: `materialize(shape)` makes it a Parameter."""

    cls_to_become = Parameter

    def __new__(cls, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> Any:
        return _Uninitialized.__new__(cls, requires_grad, device, dtype)


class UninitializedBuffer(_Uninitialized):
    """A buffer whose shape is not known yet: `materialize(shape)` makes it a tensor."""


UninitializedTensorMixin = _Uninitialized  # PyTorch's name of the base


def zero_gradient(gradient: Tensor) -> None:
    """Overwrite a gradient with zeros, off the tape. It may be a view of what others hold."""
    if gradient.grad_fn is not None:
        gradient.detach_()
    else:
        gradient.requires_grad_(False)
    gradient.zero_()
