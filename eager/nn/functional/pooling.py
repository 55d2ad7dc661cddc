"""nn.functional: pooling. tensor -> maxima, means or p-norms of windows, sliding or as many as the
result has places."""

from __future__ import annotations

from typing import Any

from eager.base import dtype as dt
from eager.core.casts import full_precision, given_precision, on_gpus, rounded_once
from eager.core.dispatch import apply
from eager.core.op import Sample
from eager.core.tensor import Tensor
from eager.nn.functional.register import functional, per_dim
from eager.ops import samples as s
from eager.ops.index import SCATTER, TAKE
from eager.ops.index_and_sort import iota
from eager.ops.pointwise import where
from eager.ops.window import MAX_POOL, SUM_POOL
from eager.sizes.aval import Aval
from eager.sizes.symint import Ints, integer, integral


def _batched(name: str, input: Tensor, n: int) -> tuple[Tensor, bool]:
    if input.ndim not in (n + 1, n + 2):
        raise RuntimeError(
            f"{name}(): Expected {n + 1}D or {n + 2}D tensor as input, got {list(input.shape)}"
        )
    if 0 in input.shape[-n - 1 :]:
        raise RuntimeError(
            f"{name}(): Expected {n + 1}D or {n + 2}D (batch mode) tensor with optional 0 dim "
            f"batch size for input, but got: {list(input.shape)}"
        )
    return (input.unsqueeze(0), True) if input.ndim == n + 1 else (input, False)


def _unbatch(out: Any, single: bool) -> Any:
    if not single:
        return out
    return tuple(x.squeeze(0) for x in out) if isinstance(out, tuple) else out.squeeze(0)


def _geometry(
    kernel_size: Ints, stride: Any, padding: Ints, ceil_mode: bool, n: int
) -> dict[str, Any]:
    kernel = per_dim(kernel_size, n)
    unset = stride is None or (isinstance(stride, tuple | list) and not stride)
    found: dict[str, Any] = {
        "kernel": kernel,
        "stride": kernel if unset else per_dim(stride, n),
        "padding": per_dim(padding, n),
        "ceil": bool(ceil_mode),
    }
    for name in ("kernel", "stride", "padding"):  # each element of a window is a step of the code
        found[name] = tuple(map(int, found[name]))
    for name, least in (("kernel", 1), ("stride", 1), ("padding", 0)):
        if min(found[name]) < least:
            said = "greater than zero" if least else "non-negative"
            raise RuntimeError(f"pooling: {name} must be {said}, but got {found[name]}")
    return found


def _image(n: int, size: int = 5) -> Any:
    return s.values((2, 3, *(size,) * n))


# ------------------------------------------------------------------------------------- max
def _max_pool(n: int) -> Any:
    def pool(
        input: Tensor,
        kernel_size: Ints,
        stride: Ints | None = None,
        padding: Ints = 0,
        dilation: Ints = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:
        x, single = _batched(f"max_pool{n}d", input, n)
        geometry = _geometry(kernel_size, stride, padding, ceil_mode, n)
        spread = per_dim(dilation, n)
        if min(spread) < 1:
            raise RuntimeError(f"max_pool{n}d() dilation must be greater than zero, got {spread}")
        out = apply(MAX_POOL, x, dilation=spread, **geometry)
        return _unbatch(out if return_indices else out[0], single)

    pool.__name__ = pool.__qualname__ = f"max_pool{n}d"
    pool.__doc__ = (
        "The largest value of each window; with `return_indices` also its flat place in the plane."
    )
    size = 5 if n < 3 else 3
    return functional(
        lambda: [
            Sample((_image(n, size), 2)),
            Sample((_image(n, size), 3), {"stride": 2, "padding": 1, "ceil_mode": True}),
        ]
    )(pool)


max_pool1d = _max_pool(1)
max_pool2d = _max_pool(2)
max_pool3d = _max_pool(3)


def _with_indices(n: int) -> Any:
    pool = (max_pool1d, max_pool2d, max_pool3d)[n - 1]

    def with_indices(
        input: Tensor,
        kernel_size: Ints,
        stride: Ints | None = None,
        padding: Ints = 0,
        dilation: Ints = 1,
        ceil_mode: bool = False,
        return_indices: bool = True,  # both come back either way, as in PyTorch
    ) -> Any:
        both = return_indices or True
        return pool(input, kernel_size, stride, padding, dilation, ceil_mode, both)

    with_indices.__name__ = with_indices.__qualname__ = f"max_pool{n}d_with_indices"
    with_indices.__doc__ = f"`max_pool{n}d` with `return_indices`."
    return functional()(with_indices)


max_pool1d_with_indices = _with_indices(1)
max_pool2d_with_indices = _with_indices(2)
max_pool3d_with_indices = _with_indices(3)


def _max_unpool(n: int) -> Any:
    def unpool(
        input: Tensor,
        indices: Tensor,
        kernel_size: Ints,
        stride: Ints | None = None,
        padding: Ints = 0,
        output_size: Ints | None = None,
    ) -> Tensor:
        x, single = _batched(f"max_unpool{n}d", input, n)
        if indices.shape != input.shape:
            raise RuntimeError(
                f"Expected shape of indices to be same as that of the input tensor "
                f"({list(input.shape)}) but got indices tensor with shape: {list(indices.shape)}"
            )
        places = indices.unsqueeze(0) if single else indices
        geo = _geometry(kernel_size, stride, padding, False, n)
        size = [
            (i - 1) * t - 2 * p + k
            for i, t, p, k in zip(
                x.shape[2:], geo["stride"], geo["padding"], geo["kernel"], strict=True
            )
        ]
        if output_size is not None:
            size = list(output_size)[-n:]
        zeros = Tensor._full(0, Aval((*x.shape[:2], _product(size)), x.dtype, x.aval.device))
        flat = (x.shape[0], x.shape[1], -1)
        out = apply(SCATTER, zeros, places.reshape(flat), x.reshape(flat), dim=2, reduce="set")
        return _unbatch(out.reshape((*x.shape[:2], *size)), single)

    unpool.__name__ = unpool.__qualname__ = f"max_unpool{n}d"
    unpool.__doc__ = "The values back at the places `max_pool` took them from, zeros elsewhere."
    return functional()(unpool)


def _product(sizes: Any) -> int:
    total = 1
    for size in sizes:
        total *= size
    return total


max_unpool1d = _max_unpool(1)
max_unpool2d = _max_unpool(2)
max_unpool3d = _max_unpool(3)


# ------------------------------------------------------------------------------------ mean
@rounded_once
def _avg_pool(
    input: Tensor, n: int, geometry: dict[str, Any], count_include_pad: bool, divisor: int | None
) -> Tensor:
    x, single = _batched(f"avg_pool{n}d", input, n)
    total = apply(SUM_POOL, x, **geometry)
    if divisor == 0:
        raise RuntimeError("divisor must be not zero")
    by: Any = divisor
    if by is None and not geometry["ceil"] and (count_include_pad or not any(geometry["padding"])):
        by = _product(geometry["kernel"])
    elif by is None:
        by = _counts(x, geometry, count_include_pad)
        for d in range(2, 2 + n):  # in the padding, no window begins
            by = by.narrow(d, 0, total.shape[d])
    whole = x.dtype.category < dt.FLOAT
    return _unbatch(total.div(by, rounding_mode="trunc") if whole else total / by, single)


def _counts(x: Tensor, geometry: dict[str, Any], include_pad: bool) -> Tensor:
    """Number of elements that each window averages over; what hangs over the padded input never
    counts."""
    pads = geometry["padding"]
    size = tuple(x.shape[2:])
    if include_pad:
        size = tuple(n + 2 * p for n, p in zip(size, pads, strict=True))
        geometry = {**geometry, "padding": (0,) * len(pads)}
    ones = Tensor._full(1, Aval((1, 1, *size), x.dtype, x.aval.device))
    return apply(SUM_POOL, ones, **geometry)


@functional(lambda: [Sample((_image(1), 2)), Sample((_image(1), 3, 2, 1, True, False))])
def avg_pool1d(
    input: Tensor,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """The mean of each window of (N, C, L) or (C, L)."""
    geometry = _geometry(kernel_size, stride, padding, ceil_mode, 1)
    return _avg_pool(input, 1, geometry, count_include_pad, None)


@functional(
    lambda: [
        Sample((_image(2), 2)),
        Sample((_image(2), 3, 2, 1, True)),
        Sample((_image(2), 3, 2, 1, False, False)),
    ]
)
def avg_pool2d(
    input: Tensor,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """The mean of each window of (N, C, H, W) or (C, H, W)."""
    geometry = _geometry(kernel_size, stride, padding, ceil_mode, 2)
    return _avg_pool(input, 2, geometry, count_include_pad, divisor_override)


@functional(lambda: [Sample((_image(3, 3), 2)), Sample((_image(3, 3), 2, 1))])
@on_gpus("given")
@full_precision
def avg_pool3d(
    input: Tensor,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """The mean of each window of (N, C, D, H, W) or (C, D, H, W)."""
    geometry = _geometry(kernel_size, stride, padding, ceil_mode, 3)
    return _avg_pool(input, 3, geometry, count_include_pad, divisor_override)


def _lp_pool(n: int) -> Any:
    name = f"lp_pool{n}d"

    def pool(
        input: Tensor,
        norm_type: float,
        kernel_size: Ints,
        stride: Ints | None = None,
        ceil_mode: bool = False,
    ) -> Tensor:
        geometry = _geometry(kernel_size, stride, 0, ceil_mode, n)
        x, single = _batched(name, input.pow(norm_type), n)
        total = apply(SUM_POOL, x, **geometry)
        if ceil_mode:  # a window that hangs over is made up for: as in PyTorch, its mean counts
            total = total / _counts(x, geometry, True) * _product(geometry["kernel"])
        return _unbatch((total.sign() * total.abs().relu()).pow(1.0 / norm_type), single)

    pool.__name__ = pool.__qualname__ = name
    pool.__doc__ = "The p-norm of each window."
    size = (2, 3, *(4, 5, 4)[:n])
    image = s.values(size, 0.1, 2)
    return functional(lambda: [Sample((image, 2.0, 2)), Sample((image, 2.0, 2, 2, True))])(pool)


lp_pool1d = _lp_pool(1)
lp_pool2d = _lp_pool(2)
lp_pool3d = _lp_pool(3)


# -------------------------------------------------------------------------------- adaptive
def _targets(output_size: Any, input: Tensor, n: int) -> tuple[int, ...]:
    given = output_size if isinstance(output_size, tuple | list) else (output_size,) * n
    wanted = tuple(w if w is None else integral(w) for w in given)
    if len(wanted) != n:
        raise RuntimeError(f"adaptive pooling: output_size must be {n} numbers, got {wanted}")
    if input.ndim <= n and n > 1:
        raise ValueError(f"Input dimension should be at least {n + 1}")
    if any(w is not None and w < 0 for w in wanted):
        raise RuntimeError(f"adaptive pooling: output_size must not be negative, got {wanted}")
    return tuple(
        size if w is None else integer(w) for w, size in zip(wanted, input.shape[-n:], strict=True)
    )


def _regular(size: tuple[int, ...], out: tuple[int, ...]) -> bool:
    """True if windows are sure to have one size, an int."""
    return all(
        type(n) is type(o) is int and o and n % o == 0 for n, o in zip(size, out, strict=True)
    )


def _bounds(n: int, out: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """First and one past the last input of each of `out` windows over n inputs."""
    places = iota(out, like=like)
    return (places * n) // out, ((places + 1) * n + (out - 1)) // out


def _adaptive_avg(n: int) -> Any:
    def pool(input: Tensor, output_size: Any) -> Tensor:
        out = _targets(output_size, input, n)
        size = tuple(input.shape[-n:])
        if out == (1,) * n:
            return input.mean(tuple(range(-n, 0)), keepdim=True)
        if _regular(size, out):
            kernel = tuple(i // o for i, o in zip(size, out, strict=True))
            return _avg_pool(input, n, _geometry(kernel, None, 0, False, n), True, None)
        for i in range(n):
            input = _average_along(input, i - n, out[i])
        return input

    pool.__name__ = pool.__qualname__ = f"adaptive_avg_pool{n}d"
    pool.__doc__ = (
        "Means of windows spread so that the result has `output_size`; None keeps a size."
    )
    return functional(
        lambda: [Sample((_image(n, 4), 2)), Sample((_image(n, 4), 3)), Sample((_image(n, 4), 1))]
    )(on_gpus("given")(full_precision(pool)) if n == 3 else given_precision(pool))


def _average_along(x: Tensor, dim: int, out: int) -> Tensor:
    """Means over overlapping windows along one dimension. Each sees its own elements alone: a
    product with a matrix of weights would make NaN of an infinity that it weighs by 0."""
    start, stop = _bounds(x.shape[dim], out, x)
    windows = _windows_along(x, dim, out)
    size = (out, *(1,) * (-1 - dim))
    count = (stop - start).reshape(size)
    inside = iota(windows.shape[-1], like=x) < count.unsqueeze(-1)
    return where(inside, windows, 0).sum(-1) / count.to(x.dtype)


adaptive_avg_pool1d = _adaptive_avg(1)
adaptive_avg_pool2d = _adaptive_avg(2)
adaptive_avg_pool3d = _adaptive_avg(3)


def _adaptive_max(n: int) -> Any:
    def pool(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
        out = _targets(output_size, input, n)
        size = tuple(input.shape[-n:])
        if _regular(size, out):
            kernel = tuple(i // o for i, o in zip(size, out, strict=True))
            x, single = _batched(f"adaptive_max_pool{n}d", input, n)
            ones = (1,) * n
            both = apply(MAX_POOL, x, dilation=ones, **_geometry(kernel, None, 0, False, n))
            return _unbatch(both if return_indices else both[0], single)
        values, places = _irregular_max(input, out)
        return (values, places) if return_indices else values

    pool.__name__ = pool.__qualname__ = f"adaptive_max_pool{n}d"
    pool.__doc__ = (
        "Maxima of windows spread so that the result has `output_size`; None keeps a size."
    )
    return functional(lambda: [Sample((_image(n, 4), 2)), Sample((_image(n, 4), 3))])(pool)


def _windows_along(x: Tensor, dim: int, out: int) -> Tensor:
    """The windows along `dim`, which has `out` places now; their elements last. Short windows
    repeat their last element."""
    n = x.shape[dim]
    start, stop = _bounds(n, out, x)
    longest = (
        max(((i + 1) * n + out - 1) // out - i * n // out for i in range(out))
        if type(n) is type(out) is int
        else n // out + 2
    )
    places = (start.unsqueeze(1) + iota(longest, like=x)).minimum(stop.unsqueeze(1) - 1)
    d = dim % x.ndim
    return apply(TAKE, x, places, dim=d).movedim(d + 1, -1)


def _irregular_max(input: Tensor, out: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Maxima and their flat places in the input plane, from all elements of every window."""
    n = len(out)
    size = tuple(input.shape[-n:])
    windows, places = input, iota(_product(size), like=input).reshape(size)
    for i in range(n):
        windows = _windows_along(windows, i - n - i, out[i])
        places = _windows_along(places, i - n - i, out[i])
    flat = windows.reshape((*windows.shape[:-n], -1))
    best = flat.argmax(-1, keepdim=True)
    at = places.reshape((*out, -1)).expand(flat.shape).gather(-1, best).squeeze(-1)
    return flat.gather(-1, best).squeeze(-1), at.to(dt.int64)


adaptive_max_pool1d = _adaptive_max(1)
adaptive_max_pool2d = _adaptive_max(2)
adaptive_max_pool3d = _adaptive_max(3)


def _adaptive_with_indices(pool: Any) -> Any:
    def with_indices(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
        return pool(input, output_size, True)  # both come back either way, as in PyTorch

    with_indices.__name__ = with_indices.__qualname__ = f"{pool.__name__}_with_indices"
    with_indices.__doc__ = f"`{pool.__name__}`, and where each value was."
    return with_indices


adaptive_max_pool1d_with_indices = _adaptive_with_indices(adaptive_max_pool1d)
adaptive_max_pool2d_with_indices = _adaptive_with_indices(adaptive_max_pool2d)
adaptive_max_pool3d_with_indices = _adaptive_with_indices(adaptive_max_pool3d)
