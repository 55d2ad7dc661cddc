"""Tensors from nothing: full and iota, and what is made of them. sizes and numbers -> tensors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from eager.base import dtype as dt
from eager.base.compat_warnings import options, warn
from eager.base.dtype import DType
from eager.base.process import memory
from eager.core.batched import Batched
from eager.core.dispatch import apply
from eager.core.op import REGISTRY, Attrs
from eager.core.registry import need_tensors, public
from eager.core.sym import SymNumber
from eager.core.tensor import Tensor, wrap
from eager.device import CPU, default, places
from eager.ops.kinds import Create, require_dtype
from eager.ops.view import as_ints
from eager.sizes import symint
from eager.sizes.aval import Aval, scalar_aval
from eager.sizes.symint import SymInt, is_int, most

_NUMBERS = frozenset({int, float, bool})


def _full_kernel(arrays: tuple[Any, ...], attrs: Attrs) -> Any:
    (value,) = arrays
    shape, kind = attrs["shape"], attrs["dtype"].np
    zero = type(value) in _NUMBERS and value == 0 and math.copysign(1, value) > 0
    if zero and not memory.pooled(shape, kind):
        return np.zeros(shape, kind)  # fresh pages are zero already
    out = memory.empty(shape, kind)
    value = np.float32(value) if kind == np.float16 and type(value) is float else value
    np.copyto(out, value, casting="unsafe")
    return out


FULL = Create("full", ("value",), numpy=_full_kernel, by_parts=True,
              element=lambda m, at, xs, attrs: xs[0][()])  # fmt: skip
IOTA = Create(
    "iota",
    (),
    numpy=lambda arrays, attrs: np.arange(attrs["shape"][0]).astype(attrs["dtype"].np, copy=False),
    element=lambda m, at, xs, attrs: m.number(at[0]),
)


def _full(value: Any, aval: Aval) -> Tensor:
    value = dt.stored(value, aval.dtype)
    if aval.device != "cpu":
        return apply(FULL, value, shape=aval.shape, dtype=aval.dtype, device=aval.device)
    return apply(FULL, value, shape=aval.shape, dtype=aval.dtype)


Tensor._full = staticmethod(
    _full
)  # what the tape, which is below us, makes its zeros and ones with


def made(op: Any, *operands: Any, place: Any = None, **attrs: Any) -> Tensor:
    """Result of `op` on a device: that which is asked for, or the default of this thread."""
    place = default.place if place is None else place
    if place is not None and place is not CPU:
        there = str(places.resolved(place))
        if there != "cpu":
            attrs["device"] = there
    out: Tensor = apply(op, *operands, **attrs)
    return out


def finish(out: Tensor, place: Any = None, requires_grad: bool = False) -> Tensor:
    """The `device` and `requires_grad` arguments that all constructors share."""
    place = default.place if place is None else place
    if place is not None and place is not CPU:
        out = out.to(place)
    return out.requires_grad_() if requires_grad else out


def beside(out: Tensor, like: Tensor) -> Tensor:
    """A new tensor, of its own for each example that `like` stands for: it can be written."""
    array = like._array
    if type(array) is not Batched:
        return out
    value = beside(out, array.value)
    if array.mapped:
        value = value.expand((array.level.size, *value.shape)).clone()
    return wrap(array.of(value))


def _default(dtype: DType | None) -> DType:
    return dt.get_default_dtype() if dtype is None else dtype


def _filling(value: Any, dtype: DType | None) -> tuple[Any, DType]:
    """The value that `full` fills with, and the dtype of the result."""
    if isinstance(value, Tensor):
        value = value.detach()  # a number, in PyTorch: no gradient goes to it
        found = value.dtype
    elif isinstance(value, (int, float, complex, np.generic, SymNumber, SymInt)):
        value = value.item() if isinstance(value, np.generic) else value
        found = scalar_aval(value).dtype
    else:
        kind = type(value).__name__
        raise TypeError(f"full(): argument 'fill_value' (position 2) must be Number, not {kind}")
    if dtype is not None:
        return value, dtype
    default = dt.get_default_dtype()
    if found.category == dt.COMPLEX:
        return value, found if isinstance(value, Tensor) else dt.complex_of(default)
    return value, default if found.category == dt.FLOAT else found


@public(method=False)
def full(
    size: Any,
    fill_value: Any,
    *,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
    layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """A tensor of `size` filled with one value, whose type decides the dtype unless given."""
    if layout or pin_memory:
        options("full", layout, pin_memory)
    if type(fill_value) is float:
        dtype = dtype or dt.get_default_dtype()
    elif type(fill_value) is int:
        dtype = dtype or dt.int64
    else:
        fill_value, dtype = _filling(fill_value, dtype)
    require_dtype("full", dtype)
    if type(size) is tuple and {*map(type, size)} <= _INT:
        shape = size
    else:
        shape = as_ints(size if type(size) is tuple or not is_int(size) else (size,))
    out = made(FULL, dt.stored(fill_value, dtype), place=device, shape=shape, dtype=dtype)
    return out.requires_grad_() if requires_grad else out


def _filled(name: str, value: int) -> Any:
    def make(
        *sizes: Any,
        size: Any = None,
        dtype: DType | None = None,
        device: Any = None,
        requires_grad: bool = False,
        memory_format: Any = None,
        layout: Any = None,
        pin_memory: bool = False,
    ) -> Tensor:
        if layout or pin_memory or memory_format:
            options(name, layout, pin_memory, memory_format)
        if not sizes and size is None:
            raise TypeError(f'{name}() missing 1 required positional arguments: "size"')
        place, shape = default.place if device is None else device, as_ints(sizes, size)
        kind = dt.get_default_dtype() if dtype is None else dt.named(dtype)
        if place is None or place is CPU:
            out = apply(FULL, value, shape=shape, dtype=kind)
        else:
            out = made(FULL, value, place=place, shape=shape, dtype=kind)
        return out.requires_grad_() if requires_grad else out

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"{name}(*size, dtype=None, device=None): a tensor filled with {value}."
    return public(name, method=False)(make)


zeros = _filled("zeros", 0)
ones = _filled("ones", 1)
empty = _filled("empty", 0)  # defined contents cost nothing: fresh pages are zero


def _known_number(x: Any) -> Any:
    """A number that decides a size: run-time numbers become guards."""
    x = x.item() if isinstance(x, Tensor | np.generic) else x
    if not isinstance(x, SymNumber):
        return x
    return symint.index(x) if x.pytype is int else x.pytype(x)


@public(method=False)
def arange(
    start: Any = None,
    end: Any = None,
    step: Any = 1,
    *,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
    layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """start, start + step, ... below end. int64 if all three are ints, else the default dtype."""
    if layout or pin_memory:
        options("arange", layout, pin_memory)
    if end is None:
        start, end = None, start
    if end is None:
        raise TypeError("arange() needs an end")
    start = 0 if start is None else start
    if not type(start) is type(end) is type(step) is int:
        start, end, step = map(_known_number, (start, end, step))
    if step == 0:
        raise RuntimeError("step must be nonzero")
    integral = all(map(is_int, (start, end, step)))
    if not integral and any(isinstance(x, float) and not math.isfinite(x) for x in (start, end)):
        raise RuntimeError(f"unsupported range: {start} -> {end}")
    if dtype is dt.int64 and not integral:  # numbers are cut to ints first
        start, end, step = (x if is_int(x) else int(x) for x in (start, end, step))
        integral = True
        if step == 0:
            raise ValueError("step must be nonzero")
    if (end - start) * step < 0:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    dtype = dtype or (dt.int64 if integral else dt.get_default_dtype())
    n = -((start - end) // step) if integral else math.ceil((end - start) / step)
    if dtype is dt.bool_:
        raise NotImplementedError("arange is not implemented for bool: choose another dtype")
    if dtype.category < dt.FLOAT and not integral:
        out = made(IOTA, place=device, shape=(n,), dtype=dtype)
        return finish(out * int(step) + int(start), device, requires_grad)
    if dtype.category < dt.FLOAT or integral:
        out = made(IOTA, place=device, shape=(n,), dtype=dtype)
        out = out if step == 1 else out * step
        out = out if start == 0 else out + start
        return out.requires_grad_() if requires_grad else out
    out = (made(IOTA, place=device, shape=(n,), dtype=dt.float64) * step + start).to(dtype)
    return finish(out, device, requires_grad)


@public("range", method=False)
def closed_range(
    start: Any = 0,
    end: Any = None,
    step: Any = 1,
    *,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
    layout: Any = None,
) -> Tensor:
    """start, start + step, ... up to end, which belongs to it: floats, unless a dtype is given.
    Deprecated in PyTorch: `arange` is like Python's own."""
    if end is None:
        start, end = 0, start
    options("range", layout)
    warn("range is deprecated: its end belongs to it. Use arange(start, end, step)", UserWarning)
    start, end, step = map(_known_number, (start, end, step))
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if (end - start) * step < 0:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    n = math.floor((end - start) / step) + 1
    places = made(IOTA, place=device, shape=(n,), dtype=dt.float64) * step + start
    return finish(places.to(dtype or dt.get_default_dtype()), device, requires_grad)


def _rounded(x: Any, kind: DType) -> Any:
    """A number as `kind` holds it."""
    if isinstance(x, SymNumber):
        x = full((), x, dtype=dt.float64)
    return x.to(kind).to(dt.float64) if isinstance(x, Tensor) else float(np.asarray(x, kind.np))


_INT, _REAL = frozenset({int}), frozenset({int, float})


@public(method=False)
def linspace(
    start: Any,
    end: Any,
    steps: int,
    *,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
    layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """`steps` values evenly from start to end, both included; symmetric, so that both ends are
    exact."""
    if layout or pin_memory:
        options("linspace", layout, pin_memory)
    if isinstance(steps, float):
        raise TypeError(f"linspace(): the number of steps must be an int, got {steps}")
    steps = steps if type(steps) is int else as_ints((steps,))[0]
    if steps < 0:
        raise RuntimeError("number of steps must be non-negative")
    start = start.item() if isinstance(start, Tensor | np.generic) else start
    end = end.item() if isinstance(end, Tensor | np.generic) else end
    real = dtype is not None or {type(start), type(end)} <= _REAL
    if not real and any(scalar_aval(x).dtype.is_complex for x in (start, end)):
        dtype = dt.default_complex()
    dtype = _default(dtype)
    if dtype.is_complex:
        parts = zip(_real_and_imag(start, dtype), _real_and_imag(end, dtype), strict=True)
        halves = (_evenly(a, b, steps, dt.real_of(dtype), device) for a, b in parts)
        return finish(apply(REGISTRY["complex"], *halves), device, requires_grad)
    return finish(_evenly(start, end, steps, dtype, device), device, requires_grad)


def _real_and_imag(x: Any, dtype: DType) -> tuple[Any, Any]:
    """The real and the imaginary part of a number."""
    x = full((), x, dtype=dtype) if isinstance(x, SymNumber) else x
    return x.real, x.imag


def _evenly(start: Any, end: Any, steps: int, dtype: DType, device: Any) -> Tensor:
    work = dtype if dtype.is_floating_point else dt.float64
    # As PyTorch: ends and step in the result's precision, each product and sum rounded once.
    first, last = _rounded(start, dtype), _rounded(end, dtype)
    step = _rounded(_rounded(last - first, work) / most(steps - 1, 1), work)
    i = made(IOTA, place=device, shape=(steps,), dtype=dt.float64)
    out: Any = i + first
    if steps > 1:
        below, above = i * step + first, (i - (steps - 1)) * step + last
        out = apply(REGISTRY["where"], i < steps // 2, below, above)
    return out.to(dtype)


@public(method=False)
def logspace(
    start: Any,
    end: Any,
    steps: int,
    base: float = 10.0,
    *,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
    layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """base ** linspace(start, end, steps)."""
    if layout or pin_memory:
        options("logspace", layout, pin_memory)
    exponents = linspace(start, end, steps, dtype=dt.float64, device=device)
    out = (base**exponents).to(_default(dtype))
    return finish(out, device, requires_grad)


@public(method=False)
def eye(
    n: int,
    m: int | None = None,
    *,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
    layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """1 on the diagonal of an n x m matrix, 0 elsewhere."""
    if layout or pin_memory:
        options("eye", layout, pin_memory)
    height, width = as_ints((n, n if m is None else m))
    if height < 0 or width < 0:
        raise RuntimeError(f"n and m must be greater or equal to 0, got {height} and {width}")
    columns = made(IOTA, place=device, shape=(width,), dtype=dt.int64)
    rows = made(IOTA, place=device, shape=(height,), dtype=dt.int64).reshape(height, 1)
    return finish((rows == columns).to(_default(dtype)), device, requires_grad)


# --------------------------------------------------------------------------------- like another
def _like(name: str, value: int) -> Any:
    def make(
        input: Tensor,
        *,
        dtype: DType | None = None,
        device: Any = None,
        requires_grad: bool = False,
        memory_format: Any = None,
        layout: Any = None,
        pin_memory: bool = False,
    ) -> Tensor:
        if layout or pin_memory or memory_format:
            options(name, layout, pin_memory, memory_format)
        place = input.device if device is None else device
        out = made(FULL, value, place=place, shape=tuple(input.shape), dtype=dtype or input.dtype)
        return finish(beside(out, input), place, requires_grad)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"A tensor filled with {value}, of the shape and dtype of `input`."
    return public(name, method=False)(make)


zeros_like = _like("zeros_like", 0)
ones_like = _like("ones_like", 1)
empty_like = _like("empty_like", 0)


@public(method=False)
def full_like(
    input: Tensor,
    fill_value: Any,
    *,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
    memory_format: Any = None,
    layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    if layout or pin_memory or memory_format:
        options("full_like", layout, pin_memory, memory_format)
    place = input.device if device is None else device
    shape = tuple(input.shape)
    kind = dtype or input.dtype
    out = made(FULL, dt.stored(fill_value, kind), place=place, shape=shape, dtype=kind)
    return finish(beside(out, input), place, requires_grad)


def _new(name: str, value: int) -> None:
    def make(
        self: Tensor,
        *sizes: Any,
        size: Any = None,
        dtype: DType | None = None,
        device: Any = None,
        requires_grad: bool = False,
        layout: Any = None,
        pin_memory: bool = False,
    ) -> Tensor:
        if layout or pin_memory:
            options(name, layout, pin_memory)
        place = self.device if device is None else device
        shape = as_ints(sizes, size)
        out = made(FULL, value, place=place, shape=shape, dtype=dtype or self.dtype)
        return finish(beside(out, self), place, requires_grad)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"A tensor of `size` filled with {value}, of this tensor's dtype."
    public(name, namespace=False)(make)


_new("new_zeros", 0)
_new("new_ones", 1)
_new("new_empty", 0)


@public(namespace=False)
def new_full(
    self: Tensor,
    size: Any,
    fill_value: Any,
    *,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    place = self.device if device is None else device
    shape = as_ints((size,))
    kind = dtype or self.dtype
    out = made(FULL, dt.stored(fill_value, kind), place=place, shape=shape, dtype=kind)
    return finish(beside(out, self), place, requires_grad)


# --------------------------------------------------------------------------------------- grids
@public(method=False)
def meshgrid(*tensors: Any, indexing: str | None = None) -> tuple[Tensor, ...]:
    """Coordinates of the grid spanned by vectors, one tensor per vector; "xy" exchanges the first
    two dimensions. Without `indexing` it is "ij", with a warning: NumPy's default is "xy"."""
    if indexing is None:
        warn("meshgrid: pass indexing: 'ij', which it is by default, or 'xy', which NumPy's is")
        indexing = "ij"
    if indexing not in ("ij", "xy"):
        raise RuntimeError(f"meshgrid: indexing must be one of 'xy' or 'ij', got {indexing!r}")
    axes = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)) else tensors
    need_tensors("meshgrid", axes)
    if any(x.ndim > 1 for x in axes):
        raise RuntimeError(
            f"meshgrid: expected 0-d or 1-d tensors, got shapes {[list(x.shape) for x in axes]}"
        )
    shape = [x.numel() for x in axes]
    grids = [
        x.reshape([-1 if i == d else 1 for i in range(len(axes))]).expand(shape)
        for d, x in enumerate(axes)
    ]
    return (
        tuple(g.transpose(0, 1) for g in grids)
        if indexing == "xy" and len(axes) > 1
        else tuple(grids)
    )


def _triangle(row: int, col: int, offset: int, lower: bool, dtype: DType) -> Tensor:
    for name, n in (("row", row), ("col", col)):
        if type(n) is int and n < 0:
            raise RuntimeError(f"{name} must be non-negative, got {n}")
    row, col, offset = map(symint.index, (row, col, offset))
    if any(isinstance(n, symint.SymInt) for n in (row, col, offset)):
        rows, columns = (made(IOTA, place=CPU, shape=(n,), dtype=dt.int64) for n in (row, col))
        last = rows.unsqueeze(1) + offset
        inside = columns <= last if lower else columns >= last
        return inside.nonzero().t().to(dtype)
    places = np.tril_indices(row, offset, col) if lower else np.triu_indices(row, offset, col)
    return wrap(np.stack(places).astype(dtype.np))


@public(method=False)
def tril_indices(
    row: int, col: int, offset: int = 0, *, dtype: DType = dt.int64, device: Any = None
) -> Tensor:
    """Rows and columns (2 x n) of the lower triangle of a row x col matrix."""
    return finish(_triangle(row, col, offset, True, dtype), device)


@public(method=False)
def triu_indices(
    row: int, col: int, offset: int = 0, *, dtype: DType = dt.int64, device: Any = None
) -> Tensor:
    """Rows and columns (2 x n) of the upper triangle of a row x col matrix."""
    return finish(_triangle(row, col, offset, False, dtype), device)


@public(method=False)
def cartesian_prod(*tensors: Tensor) -> Tensor:
    """All combinations of the elements of vectors, one per row."""
    need_tensors("cartesian_prod", tensors)
    if any(x.ndim > 1 for x in tensors):
        raise RuntimeError(
            f"cartesian_prod: expected vectors, got shapes {[list(x.shape) for x in tensors]}"
        )
    if len(tensors) == 1:
        return tensors[0]
    flat = [g.reshape(-1, 1) for g in meshgrid(*tensors, indexing="ij")]
    return apply(REGISTRY["cat"], *flat, dim=1)


@public(method=False)
def scalar_tensor(s: Any, **options: Any) -> Tensor:
    """A 0-dimensional tensor of a number."""
    options.setdefault("dtype", dt.get_default_dtype())
    return full((), s, **options)


@public()
def fill(input: Tensor, value: Any) -> Tensor:
    """A tensor like `input` filled with a number or a 0-dimensional tensor."""
    if not isinstance(value, Tensor):
        everywhere = Tensor._full(True, Aval((), dt.bool_))
        return apply(REGISTRY["where"], everywhere, full_like(input, value), input)
    if value.ndim:
        raise RuntimeError(
            "fill only supports 0-dimension value tensor but got tensor with "
            f"{value.ndim} dimensions."
        )
    return value.to(input.dtype).expand(input.shape).clone()
