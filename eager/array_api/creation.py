"""Arrays of the array API standard: their dtypes, and how they are made. numbers -> tensors."""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, Final

from eager.base import dtype as dt
from eager.base.dtype import DType, bool_, finfo, iinfo
from eager.construct import interop
from eager.core.op import aval_of as _aval_of
from eager.core.registry import PUBLIC
from eager.core.tensor import Tensor
from eager.device import CPU
from eager.sizes.aval import result_type as _result_type

_FLOATS: Final = {d.name: d for d in (dt.float32, dt.float64)}
_COMPLEX: Final = {d.name: d for d in (dt.complex64, dt.complex128)}
_SIGNED: Final = {d.name: d for d in (dt.int8, dt.int16, dt.int32, dt.int64)}
_UNSIGNED: Final = {dt.uint8.name: dt.uint8}
_DTYPES: Final = {"bool": bool_, **_SIGNED, **_UNSIGNED, **_FLOATS, **_COMPLEX}
_KINDS: Final[dict[str, dict[str, DType]]] = {
    "bool": {"bool": bool_},
    "signed integer": _SIGNED,
    "unsigned integer": _UNSIGNED,
    "integral": _SIGNED | _UNSIGNED,
    "real floating": _FLOATS,
    "complex floating": _COMPLEX,
    "numeric": _SIGNED | _UNSIGNED | _FLOATS | _COMPLEX,
}


class _Functions:
    """PyTorch's functions by name, from the registry."""

    def __getattr__(self, name: str) -> Any:
        return PUBLIC[name].fn


functions: Final[Any] = _Functions()
globals().update(_DTYPES)
INTEGERS: Final = tuple((_SIGNED | _UNSIGNED).values())
e, pi, inf, nan, newaxis = math.e, math.pi, math.inf, math.nan, None

__all__ = [  # noqa: PLE0604
    *_DTYPES,
    "arange", "asarray", "astype", "can_cast", "e", "empty", "empty_like", "eye", "finfo",
    "from_dlpack", "full", "full_like", "iinfo", "inf", "isdtype", "linspace", "meshgrid", "nan",
    "newaxis", "ones", "ones_like", "pi", "result_type", "tril", "triu", "zeros", "zeros_like",
]  # fmt: skip


# ---- arrays and their dtypes


def __array_namespace_info__() -> SimpleNamespace:
    """Description of the namespace: capabilities, devices, dtypes."""
    return SimpleNamespace(
        capabilities=lambda: {
            "boolean indexing": True, "data-dependent shapes": True, "max dimensions": None,
        },
        default_device=lambda: CPU,
        default_dtypes=lambda *, device=None: {
            "real floating": dt.get_default_dtype(), "complex floating": dt.default_complex(),
            "integral": dt.int64, "indexing": dt.int64,
        },
        devices=lambda: [CPU],
        dtypes=lambda *, device=None, kind=None: _of_kind(kind),
    )  # fmt: skip


def _of_kind(kind: str | tuple[str, ...] | None) -> dict[str, DType]:
    if kind is None:
        return dict(_DTYPES)
    if isinstance(kind, tuple):
        return {name: d for each in kind for name, d in _of_kind(each).items()}
    if kind not in _KINDS:
        raise ValueError(f"{kind!r} is no kind of dtype; there are {', '.join(map(repr, _KINDS))}")
    return dict(_KINDS[kind])


def isdtype(dtype: DType, kind: DType | str | tuple[DType | str, ...]) -> bool:
    """True if a dtype is of a kind ("integral", "real floating", ...), or of one of several."""
    if isinstance(kind, tuple):
        return builtins.any(isdtype(dtype, each) for each in kind)
    return dtype is kind if isinstance(kind, DType) else dtype in _of_kind(kind).values()


def astype(x: Tensor, dtype: DType, /, *, copy: bool = True, device: Any = None) -> Tensor:
    """`x` in a dtype; itself where it has that and `copy` is false."""
    if x.dtype.is_complex and not dtype.is_complex and dtype is not bool_:
        raise TypeError(f"astype: a {x.dtype} array has no {dtype} values; take real() or abs()")
    return _on(x, device).to(dtype, copy=copy)


def can_cast(from_: Tensor | DType, to: DType, /) -> bool:
    """True if promotion leads from one dtype (or an array's) to another."""
    source = from_.dtype if isinstance(from_, Tensor) else from_
    return dt.promote_types(source, to) is to


def result_type(*arrays_and_dtypes: Any) -> DType:
    """The dtype of arithmetic on arrays, dtypes and Python numbers."""
    if not arrays_and_dtypes:
        raise ValueError("result_type() needs an array or a dtype")
    whole = [x for x in arrays_and_dtypes if isinstance(x, DType)]
    others = [
        x.aval if isinstance(x, Tensor) else _aval_of(x)
        for x in arrays_and_dtypes
        if not isinstance(x, DType)
    ]
    found = _result_type(others) if others else whole.pop()
    numbers = not builtins.any(isinstance(x, Tensor) for x in arrays_and_dtypes)
    if numbers and others and whole:  # a Python number takes the dtype's side within its kind
        first = whole.pop()
        found = first if found.category <= first.category else dt.promote_types(first, found)
    for each in whole:
        found = dt.promote_types(found, each)
    return found


# ---- creation


def asarray(
    obj: Any, /, *, dtype: Any = None, device: Any = None, copy: bool | None = None
) -> Tensor:
    """An array of nested sequences, numbers, an array or a buffer."""
    return interop.asarray(obj, dtype=dtype, device=device, copy=copy)


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """An array that shares the memory of another library's; with `copy`, one of its own."""
    return _on(interop.from_dlpack(x, copy=copy), device)


def arange(
    start: Any, /, stop: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None
) -> Tensor:
    """Evenly spaced values in [start, stop); [0, start) where `stop` is None."""
    low, high = (0, start) if stop is None else (start, stop)
    if step != 0 and (high - low) / step <= 0:
        return zeros(0, dtype=dtype or _arange_dtype(low, high, step), device=device)
    return functions.arange(low, high, step, dtype=dtype, device=device)


def _arange_dtype(*bounds: Any) -> DType:
    whole = builtins.all(isinstance(v, int) for v in bounds)
    return dt.int64 if whole else dt.get_default_dtype()


def linspace(
    start: Any,
    stop: Any,
    /,
    num: int,
    *,
    dtype: Any = None,
    device: Any = None,
    endpoint: bool = True,
) -> Tensor:
    """`num` evenly spaced values from `start` to `stop`, which `endpoint` includes."""
    if endpoint:
        return functions.linspace(start, stop, num, dtype=dtype, device=device)
    return functions.linspace(start, stop, num + 1, dtype=dtype, device=device)[:num]


def real_of(dtype: DType) -> DType:
    """The dtype of a complex one's parts; another itself."""
    return {dt.complex64: dt.float32, dt.complex128: dt.float64}.get(dtype, dtype)


def eye(
    n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: Any = None, device: Any = None
) -> Tensor:
    """Ones on the k-th diagonal, zeros elsewhere."""
    size = n_rows, n_rows if n_cols is None else n_cols
    rows, columns = (arange(n, device=device) for n in size)
    return (columns - rows[:, None] == k).to(dtype or dt.get_default_dtype())


def _filled(name: str) -> Any:
    def create(shape: int | tuple[int, ...], *, dtype: Any = None, device: Any = None) -> Tensor:
        return getattr(functions, name)(_shape(shape), dtype=dtype, device=device)

    create.__name__ = create.__qualname__ = name
    create.__doc__ = f"An array of a shape: `{name}`."
    return create


def _like(name: str) -> Any:
    def create(x: Tensor, /, *, dtype: Any = None, device: Any = None) -> Tensor:
        return getattr(functions, name)(x, dtype=dtype, device=device)

    create.__name__ = create.__qualname__ = name
    create.__doc__ = f"An array of the shape and dtype of `x`: `{name}`."
    return create


empty, zeros, ones = map(_filled, ("empty", "zeros", "ones"))
empty_like, zeros_like, ones_like = map(_like, ("empty_like", "zeros_like", "ones_like"))


def full(
    shape: int | tuple[int, ...], fill_value: Any, *, dtype: Any = None, device: Any = None
) -> Tensor:
    """An array filled with a number."""
    return functions.full(_shape(shape), fill_value, dtype=dtype, device=device)


def full_like(x: Tensor, /, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """An array of the shape and dtype of `x`, filled with a number."""
    return functions.full_like(x, fill_value, dtype=dtype, device=device)


def meshgrid(*arrays: Tensor, indexing: str = "xy") -> tuple[Tensor, ...]:
    """Coordinates of a grid."""
    return tuple(functions.meshgrid(*arrays, indexing=indexing)) if arrays else ()


def tril(x: Tensor, /, *, k: int = 0) -> Tensor:
    """The part on and below the k-th diagonal."""
    return functions.tril(x, k)


def triu(x: Tensor, /, *, k: int = 0) -> Tensor:
    """The part on and above the k-th diagonal."""
    return functions.triu(x, k)


def _shape(shape: int | Sequence[int]) -> tuple[int, ...]:
    return (shape,) if isinstance(shape, int) else tuple(shape)


def _on(x: Tensor, device: Any) -> Tensor:
    return x if device is None else x.to(device)
