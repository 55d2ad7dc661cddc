"""From a public function's samples to comparable results of ours and of the reference.

A sample's arrays become tensors of the wanted dtype on both sides; everything else is passed as it is.
"""

import functools
import importlib
import itertools
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pytest
import share

import eager
from eager.base import dtype as dt
from eager.core.op import Sample
from eager.core.registry import PUBLIC, Public

try:  # the newer Pythons run what needs no reference
    torch: Any = importlib.import_module("torch")
except ImportError:
    torch = None
needs_reference = pytest.mark.skipif(torch is None, reason="torch is not installed")

FLOATS = (eager.float32, eager.float64)
HALVES = (eager.float16, eager.bfloat16)
PLACES = 20  # of an operand, at which the gradient is compared with differences
# Relative and absolute error of one rounding or so of the result in each dtype.
TOLERANCE = {
    "float64": (1e-10, 1e-12),
    "float32": (2e-5, 2e-6),
    "float16": (2e-3, 2e-3),
    "bfloat16": (1.6e-2, 1.6e-2),
    "complex64": (2e-5, 2e-6),
    "complex128": (1e-10, 1e-12),
}


def cases() -> list[Public]:
    """Every public function with samples."""
    return [p for _, p in sorted(PUBLIC.items()) if p.samples is not None]


@functools.cache
def _reference(path: str) -> Any:
    found: Any = torch
    for part in path.split("."):
        found = getattr(found, part, None)
    return found


def reference(p: Public) -> Any:
    """PyTorch's function, else the one that the entry brings."""
    return in_torch(p) or (p.reference and functools.partial(_on_arrays, p.reference))


def _on_arrays(fn: Any, *args: Any, **kwargs: Any) -> Any:
    """A function of NumPy arrays, computed in float64, on the reference's tensors and for them."""
    dtypes: list[Any] = []

    def array(x: Any) -> Any:
        if not isinstance(x, torch.Tensor):
            return x
        dtypes.append(x.dtype)
        return x.detach().to(torch.float64 if x.dtype.is_floating_point else x.dtype).numpy()

    result = fn(*map(array, args), **{name: array(x) for name, x in kwargs.items()})
    dtype = next((d for d in dtypes if d.is_floating_point), None)
    made = [torch.from_numpy(np.asarray(r)) for r in flat(result)]
    made = [t.to(dtype) if t.dtype.is_floating_point else t for t in made]
    return tuple(made) if isinstance(result, tuple) else made[0]


def in_torch(p: Public) -> Any:
    return (
        _reference(p.torch)
        or _reference(f"Tensor.{p.torch}")
        or _reference(f"nn.functional.{p.torch}")
    )


def samples(p: Public) -> list[Sample]:
    return list(p.samples())


def each(samples: Iterable[Sample], dtypes: Iterable[Any] = (None,)) -> Iterator[Any]:
    """Each of the samples, with each of the dtypes if there are some. Every one sees the same random
    numbers; the last that is printed is the one that a test fails with."""
    for sample, dtype in itertools.product(samples, dtypes):
        eager.manual_seed(0)
        print(", ".join(map(_label, sample.args)), *sample.kwargs, dtype or "")
        yield sample if dtype is None else (sample, dtype)


def _label(x: Any) -> str:
    return f"{x.dtype}{list(x.shape)}" if isinstance(x, np.ndarray) else type(x).__name__


def is_float(x: Any) -> bool:
    return isinstance(x, np.ndarray) and x.dtype.kind == "f"


def _float_list(x: Any) -> bool:
    """A nested list of floats: data spelled by hand."""
    while isinstance(x, list) and x:
        x = x[0]
    return isinstance(x, float)


def convert(x: Any, make: Any) -> Any:
    """Arrays (also in lists and tuples) by `make`; the rest stays."""
    if isinstance(x, list) and _float_list(x):
        x = np.array(x)
    if isinstance(x, np.ndarray | np.generic):
        return make(np.asarray(x))
    if isinstance(x, list):
        return [convert(y, make) for y in x]
    if isinstance(x, tuple):
        return tuple(convert(y, make) for y in x)
    return x


def ours(x: np.ndarray, dtype: Any, grad: bool = False) -> Any:
    """A tensor with the array's strides: transposed samples stay transposed."""
    if x.dtype.kind != "f":
        return eager.from_numpy(x)
    t = eager.from_numpy(x.astype(dtype.np, order="K"))
    return t.requires_grad_() if grad else t


def theirs(x: np.ndarray, dtype: Any, grad: bool = False) -> Any:
    if x.dtype.kind != "f":
        return torch.from_numpy(x)
    t = torch.from_numpy(np.array(x, order="K")).to(getattr(torch, dtype.name))
    return t.requires_grad_() if grad else t


def widened(x: Any) -> Any:
    """The reference's tensor, already rounded to 16 bits, in float64."""
    return x.double() if x.dtype.is_floating_point else x


def call(fn: Any, sample: Sample, make: Any) -> tuple[Any, list[Any]]:
    """The result, and the tensors made for the call in order."""
    made: list[Any] = []

    def remember(x: np.ndarray) -> Any:
        made.append(make(x))
        return made[-1]

    args = convert(tuple(sample.args), remember)
    kwargs = {k: convert(v, remember) for k, v in sample.kwargs.items()}
    return fn(*args, **kwargs), made


def flat(result: Any) -> list[Any]:
    """The tensors of a result, in order."""
    if isinstance(result, tuple | list):
        return [t for part in result for t in flat(part)]
    return [result]


def to_numpy(t: Any) -> Any:
    if torch is not None and isinstance(t, torch.Tensor):
        t = t.detach()
        return (
            t.float().numpy() if t.dtype == torch.bfloat16 else t.resolve_conj().numpy(force=True)
        )
    if isinstance(t, eager.Tensor):
        a = t.detach().numpy()
        return a.astype(np.float32) if t.dtype is eager.bfloat16 else a
    return np.asarray(t)


def dtype_name(t: Any) -> str:
    if torch is not None and isinstance(t, torch.Tensor):
        return str(t.dtype).removeprefix("torch.")
    return t.dtype.name if isinstance(t, eager.Tensor) else type(t).__name__


def assert_same(mine: Any, reference: Any, sample: Sample, dtype: Any, loosen: float = 1.0) -> None:
    """Same structure, dtypes, shapes and (within rounding) values."""
    a, b = flat(mine), flat(reference)
    assert len(a) == len(b), (len(a), len(b))
    for x, y in zip(a, b, strict=True):
        assert dtype_name(x) == dtype_name(y)
        p, q = to_numpy(x), to_numpy(y)
        assert p.shape == q.shape
        rtol, atol = tolerance(dtype_name(y), sample, dtype, loosen)
        np.testing.assert_allclose(p, q, rtol=rtol, atol=atol)


def tolerance(result: str, sample: Sample, dtype: Any, loosen: float) -> tuple[float, float]:
    """Relative and absolute error allowed in a result of that dtype of a call on `dtype`."""
    rtol, atol = TOLERANCE.get(result, (0.0, 0.0))
    if dtype in HALVES and result in TOLERANCE:
        rtol, atol = TOLERANCE[dtype.name]
    return sample.rtol or rtol * loosen, sample.atol or atol * loosen


def nearest(mine: Any, reference: Any, wide: Any) -> Any:
    """Per element, whichever of the reference and its result in float64 is nearer to ours.

    On some machines the reference adds up 16-bit numbers in 16 bits; ours is compared with the
    exact sum there.
    """
    out = []
    for x, y, z in zip(flat(mine), flat(reference), flat(wide), strict=True):
        p, q, r = to_numpy(x), to_numpy(y), to_numpy(z)
        if q.dtype.kind != "f" or p.shape != q.shape:
            out.append(y)
            continue
        closer = np.abs(p - r) < np.abs(p - q)  # False where a NaN is
        out.append(torch.from_numpy(np.where(closer, r, q)).to(y.dtype))
    return out


def weighted_sum(result: Any, module: Any) -> Any:
    """One number that depends on every floating point output with a weight of its own."""
    total: Any = None
    for k, t in enumerate(flat(result)):
        if not hasattr(t, "dtype") or not t.dtype.is_floating_point or not t.requires_grad:
            continue
        weights = np.asarray(
            np.linspace(0.5, 1.5, int(np.prod(tuple(t.shape)))).reshape(tuple(t.shape)) + k
        )
        w = ours(weights, eager.float64) if module is eager else theirs(weights, eager.float64)
        part = (t * w.to(t.dtype)).sum()
        total = part if total is None else total + part
    return total


def gradients(p: Public, fn: Any, sample: Sample, module: Any, dtype: Any) -> list[Any] | None:
    """Gradients of the weighted sum in all float operands, or None when nothing requires one."""
    make = ours if module is eager else theirs
    result, made = call(fn, sample, lambda x: make(x, dtype, True))
    total = weighted_sum(result, module)
    if total is None:
        return None
    if not made or not total.requires_grad:
        return None
    leaves = [t for t in made if t.requires_grad]
    return list(module.autograd.grad(total, leaves, allow_unused=True, materialize_grads=True))


def finite_differences(
    p: Public, sample: Sample, step: float = 1e-6
) -> list[dict[tuple[int, ...], float]]:
    """Central differences of the weighted sum in float64, for each float operand by places of it."""
    arrays = []
    convert((tuple(sample.args), tuple(sample.kwargs.values())), arrays.append)
    floats = [i for i, a in enumerate(arrays) if is_float(a)]
    return [
        {
            place: _difference(p, sample, arrays, i, place, step)
            for place in share.of(np.ndindex(arrays[i].shape), PLACES)
        }
        for i in floats
    ]


def _difference(
    p: Public, sample: Sample, arrays: list[Any], which: int, place: tuple[int, ...], step: float
) -> float:
    values = []
    for sign in (1.0, -1.0):
        moved = np.array(arrays[which])
        moved[place] += sign * step
        values.append(_value_with(p, sample, which, moved))
    return (values[0] - values[1]) / (2 * step)


def _value_with(p: Public, sample: Sample, which: int, array: np.ndarray) -> float:
    """The weighted sum with the `which`-th array replaced."""
    count = iter(range(10**6))

    def make(x: np.ndarray) -> Any:
        return ours(array if next(count) == which else x, eager.float64, True)

    result, _ = call(p.fn, sample, make)
    return float(weighted_sum(result, eager).item())


_ = dt
