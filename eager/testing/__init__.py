"""At the edge: `eager.testing`, comparing tensors in tests. Two values -> nothing, or an error.

The default tolerances are PyTorch's, by dtype.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from eager import random as rng
from eager.base import dtype as dt
from eager.base.compat_warnings import refuse
from eager.base.dtype import DType
from eager.construct.interop import as_tensor, tensor
from eager.core.tensor import Tensor
from eager.ops.complex import make_complex

# dtype -> (rtol, atol); exact for all others.
TOLERANCES: dict[DType, tuple[float, float]] = {
    dt.float16: (1e-3, 1e-5),
    dt.bfloat16: (1.6e-2, 1e-5),
    dt.float32: (1.3e-6, 1e-5),
    dt.float64: (1e-7, 1e-7),
    dt.complex64: (1.3e-6, 1e-5),
    dt.complex128: (1e-7, 1e-7),
}
_FORMER_TOLERANCES: dict[DType, tuple[float, float]] = {
    dt.float16: (1e-3, 1e-3),
    dt.float32: (1e-4, 1e-5),
    dt.float64: (1e-5, 1e-8),
}


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: Any = None,
) -> None:
    """|actual - expected| <= atol + rtol * |expected| everywhere, with equal shapes and dtypes.

    Tensors, arrays, numbers, and sequences and mappings of them. AssertionError says where they
    differ most; ValueError if one tolerance is given without the other."""
    if not allow_subclasses:
        refuse("assert_close", "compare the types", allow_subclasses="False")
    if (rtol is None) is not (atol is None):
        raise ValueError("rtol and atol must both be specified or both be unspecified")
    options = (rtol, atol, equal_nan, check_device, check_dtype, check_stride)
    problem = _difference(actual, expected, "", options)
    if problem:
        raise AssertionError(msg(problem) if callable(msg) else msg or problem)


def assert_allclose(
    actual: Any,
    expected: Any,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = True,
    msg: str = "",
) -> None:
    """`assert_close` by its former name, with wider tolerances and without a look at dtypes."""
    warnings.warn("assert_allclose() is deprecated: use assert_close()", FutureWarning, 2)
    a = actual if isinstance(actual, Tensor) else tensor(actual)
    b = expected if isinstance(expected, Tensor) else tensor(expected, dtype=a.dtype)
    if rtol is None and atol is None:
        wide = [_FORMER_TOLERANCES.get(x.dtype, (0.0, 0.0)) for x in (a, b)]
        rtol, atol = (max(each) for each in zip(*wide, strict=True))
    assert_close(
        a, b, rtol=rtol, atol=atol, equal_nan=equal_nan, check_dtype=False, msg=msg or None
    )


def _difference(actual: Any, expected: Any, place: str, options: tuple[Any, ...]) -> str:
    """Message about the difference, or ""."""
    if isinstance(actual, Mapping) and isinstance(expected, Mapping):
        if {*actual} != {*expected}:
            return f"The keys{place} do not match: {[*actual]} and {[*expected]}"
        pairs = [(f"[{k!r}]", actual[k], expected[k]) for k in actual]
    elif isinstance(actual, list | tuple) and isinstance(expected, list | tuple):
        if len(actual) != len(expected):
            return f"The lengths{place} do not match: {len(actual)} and {len(expected)}"
        each = zip(actual, expected, strict=True)
        pairs = [(f"[{i}]", a, b) for i, (a, b) in enumerate(each)]
    elif actual is None and expected is None:
        return ""
    else:
        return _of_tensors(actual, expected, place, *options)
    found = (_difference(a, b, f"{place or ' at '}{key}", options) for key, a, b in pairs)
    return next((text for text in found if text), "")


def _of_tensors(
    actual: Any,
    expected: Any,
    place: str,
    rtol: float | None,
    atol: float | None,
    equal_nan: bool,
    check_device: bool,
    check_dtype: bool,
    check_stride: bool,
) -> str:
    numbers = not isinstance(actual, Tensor | np.ndarray)
    a, b = (as_tensor(x).detach() for x in (actual, expected))
    if a.shape != b.shape:
        return f"The shapes{place} do not match: {[*a.shape]} and {[*b.shape]}"
    if check_device and not numbers and a.device != b.device:
        return f"The devices{place} do not match: {a.device} and {b.device}"
    if check_dtype and not numbers and a.dtype is not b.dtype:
        return f"The dtypes{place} do not match: {a.dtype} and {b.dtype}"
    if check_stride and a.stride() != b.stride():
        return f"The strides{place} do not match: {a.stride()} and {b.stride()}"
    if rtol is None or atol is None:
        wide = max((a.dtype, b.dtype), key=lambda d: TOLERANCES.get(d, (0.0, 0.0)))
        rtol, atol = TOLERANCES.get(wide, (0.0, 0.0))
    kind = complex if a.is_complex() or b.is_complex() else np.float64
    exact = not {a.dtype, b.dtype} & {*TOLERANCES}
    x, y = (t.cpu().numpy() if exact else np.asarray(t.cpu().numpy(), kind) for t in (a, b))
    close = x == y if exact else np.isclose(x, y, rtol, atol, equal_nan)
    if close.all():
        return ""
    wrong = int(close.size - close.sum())
    with np.errstate(all="ignore"):
        off = np.where(close, 0, np.nan_to_num(np.abs(x.astype(kind) - y.astype(kind)), nan=np.inf))
    worst = np.unravel_index(int(off.argmax()), off.shape)
    return (
        f"Tensor-likes are not close{place}: {wrong} of {close.size} elements differ, most at "
        f"{tuple(map(int, worst))}: {x[worst]} and {y[worst]} (rtol {rtol}, atol {atol})"
    )


def make_tensor(
    *shape: Any,
    dtype: DType,
    device: Any,
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
) -> Tensor:
    """A tensor of random values in [low, high): of floats in [-9, 9), of ints in [-9, 10), of
    unsigned ones in [0, 10), of bools both.

    With `noncontiguous` its elements are apart; with `exclude_zero` zeros are replaced by ones."""
    sizes = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], Sequence) else shape
    stored = (*sizes[:-1], 2 * sizes[-1]) if noncontiguous and sizes else sizes
    whole = dtype.category < dt.FLOAT
    least = 0 if dtype in (dt.bool_, dt.uint8) else -9
    most = 2 if dtype is dt.bool_ else 10 if whole else 9
    low, high = least if low is None else low, most if high is None else high
    if whole:
        out = rng.randint(math.ceil(low), math.ceil(high), stored).to(dtype)
    else:
        part = dt.float64 if dtype in (dt.float64, dt.complex128) else dt.float32
        out = rng.rand(stored, dtype=part) * (high - low) + low
        if dtype.is_complex:
            out = make_complex(out, rng.rand(stored, dtype=part) * (high - low) + low)
        out = out.to(dtype)
    if noncontiguous and sizes:
        out = out[..., ::2]
    if exclude_zero:
        out.masked_fill_(out == 0, 1)
    out = out.to(device)
    return out.requires_grad_() if requires_grad else out
