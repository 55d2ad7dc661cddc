"""Structure of floating point numbers: neighbours, mantissa and exponent. tensors -> tensors."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

from eager.base import dtype as dt
from eager.core.dispatch import apply
from eager.core.registry import needs_tensors, public
from eager.core.return_types import shown_as
from eager.core.tensor import Tensor, wrap
from eager.ops import samples as s
from eager.ops.kinds import Host
from eager.ops.pointwise import where
from eager.sizes.aval import Aval, broadcast_shapes, result_type

NEXTAFTER = Host(
    "nextafter",
    ("x", "y"),
    lambda g, x, y: (where(x == y, 0.0, g), None),  # PyTorch's: none to what only directs
    core=(0, 0),
    numpy=np.nextafter,
    rule=lambda x, y: (Aval(broadcast_shapes(x.shape, y.shape), result_type((x, y)), x.device),),
)


@public(inplace=True, samples=s.on_two(number=None, grad=False))
@needs_tensors("both")
def nextafter(input: Tensor, other: Tensor) -> Tensor:
    """The next number that the type has from `input` toward `other`."""
    kind = result_type((input.aval, other.aval))
    if not kind.is_floating_point:
        raise NotImplementedError("nextafter is for floating point tensors")
    return apply(NEXTAFTER, input.to(kind), other.to(kind))


@shown_as("frexp")
class Frexp(NamedTuple):
    mantissa: Tensor
    exponent: Tensor


FREXP = Host(
    "frexp",
    ("x",),
    lambda g, out1: (g[0] * 0.5 ** out1.to(g[0].dtype),),
    n_outputs=2,
    core=(0,),
    numpy=np.frexp,
    rule=lambda x: (x, Aval(x.shape, dt.int32, x.device)),
)


@public(samples=s.on(0.55, 0.95))
def frexp(input: Tensor) -> Frexp:
    """Mantissa (from 1/2 to 1) and exponent: input = mantissa * 2^exponent."""
    if not input.dtype.is_floating_point:
        raise RuntimeError("torch.frexp() only supports floating-point dtypes")
    return Frexp(*apply(FREXP, input))


# ------------------------------------------------------------------------------- histograms
@shown_as("histogram")
class Histogram(NamedTuple):
    hist: Tensor
    bin_edges: Tensor


@shown_as("histogramdd")
class HistogramOfPoints(NamedTuple):
    hist: Tensor
    bin_edges: tuple[Tensor, ...]


def _counted(points: Any, edges: list[Any], weight: Any, density: bool) -> Any:
    """points (N, D). The last bin holds its upper edge, too."""
    shape = tuple(len(e) - 1 for e in edges)
    flat, inside = np.zeros(len(points), np.int64), np.ones(len(points), bool)
    for d, e in enumerate(edges):
        x = points[:, d]
        place = np.minimum(np.searchsorted(e, x, "right") - 1, shape[d] - 1)
        inside &= (x >= e[0]) & (x <= e[-1]) & (place >= 0)
        flat = flat * shape[d] + place
    weights = None if weight is None else weight[inside]
    hist = np.bincount(flat[inside], weights, int(np.prod(shape))).reshape(shape)
    if density:
        volume = functools.reduce(np.multiply.outer, [np.diff(e) for e in edges])
        with np.errstate(all="ignore"):
            hist = hist / hist.sum() / volume
    return hist.astype(points.dtype)


HISTOGRAM = Host(
    "histogram",
    ("places", "*rest"),
    stops=True,
    numpy=lambda places, *rest, weighted, density: _counted(
        places, list(rest[weighted:]), rest[0] if weighted else None, density
    ),
    rule=lambda places, *rest, weighted, density: (
        Aval(tuple(e.shape[0] - 1 for e in rest[weighted:]), places.dtype, places.device),
    ),
)


def _edges(values: Tensor, bins: int, low: float | None, high: float | None) -> Tensor:
    """bins + 1 edges from low to high: of the data by default."""
    if low is None or high is None:
        low, high = (values.min(), values.max()) if values.numel() else (0.0, 1.0)
    low, high = float(low), float(high)
    if low > high:
        raise RuntimeError("torch.histogramdd: leftmost bin edge is greater than the rightmost")
    if low == high:
        low, high = low - 0.5, high + 0.5
    steps = np.linspace(low, high, bins + 1, dtype=values.dtype.np)
    out: Tensor = wrap(steps)
    return out.to(values.device)


def _histogram(places: Tensor, edges: list[Tensor], weight: Tensor | None, density: bool) -> Tensor:
    rest = (*(() if weight is None else (weight,)), *edges)
    return apply(HISTOGRAM, places, *rest, weighted=weight is not None, density=density)


@public(
    samples=lambda: [
        s.call(s.values((3, 6)), 4, range=(-1.9, 1.9), grad=False),
        s.call(s.values((20,)), 5, range=(-1.0, 1.5), grad=False),
    ]
)
def histogram(
    input: Tensor,
    bins: Any,
    *,
    range: tuple[float, float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> Histogram:
    """Number of elements (or sum of `weight`) in each bin, and the bins' edges."""
    low, high = (None, None) if range is None else range
    edges = bins.clone() if isinstance(bins, Tensor) else _edges(input, bins, low, high)
    flat = None if weight is None else weight.reshape(-1)
    return Histogram(_histogram(input.reshape(-1, 1), [edges], flat, density), edges)


@public(
    samples=lambda: [
        s.call(s.values((12, 2)), [3, 2], range=(-1.9, 1.9, -1.5, 1.5), grad=False),
    ]
)
def histogramdd(
    input: Tensor,
    bins: Any,
    *,
    range: Any = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> HistogramOfPoints:
    """`histogram` of points (*, D) in D dimensions."""
    d = input.shape[-1]
    given = [bins] * d if isinstance(bins, int) else list(bins)
    if len(given) != d:
        raise RuntimeError(f"histogramdd: expected bins for {d} dimensions, got {len(given)}")
    limits = [None] * (2 * d) if range is None else list(range)
    points = input.reshape(-1, d)
    edges = [
        each if isinstance(each, Tensor)
        else _edges(points[:, i], each, limits[2 * i], limits[2 * i + 1])
        for i, each in enumerate(given)
    ]  # fmt: skip
    flat = None if weight is None else weight.reshape(-1)
    return HistogramOfPoints(_histogram(points, edges, flat, density), tuple(edges))
