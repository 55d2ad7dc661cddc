"""Arrangements of several tensors, windows and numeric sums over them: compositions of moves and
views."""

from __future__ import annotations

import builtins
import itertools
from typing import Any

from eager.base import dtype as dt
from eager.core.casts import rounded_once
from eager.core.dispatch import apply
from eager.core.op import REGISTRY
from eager.core.registry import need_tensors, public
from eager.core.tensor import Tensor
from eager.device import Size
from eager.ops import samples as s
from eager.ops.move import cat, stack
from eager.ops.part_views import own_dim, split
from eager.ops.pointwise import where
from eager.ops.reduce import sum
from eager.ops.scan import cumsum
from eager.ops.view import norm_dim
from eager.sizes.aval import broadcast_shapes as _broadcast
from eager.sizes.symint import Ints, integrals, is_int


def _m() -> Any:
    return s.values((4, 6))


# ------------------------------------------------------------------------------------- shapes
def _at_least(ndim: int) -> Any:
    def each(*tensors: Any) -> Any:
        if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)):
            tensors = tuple(tensors[0])
        need_tensors(each.__name__, tensors)
        done = tuple(_raised(x, ndim) for x in tensors)
        return done[0] if len(done) == 1 else done

    each.__name__ = each.__qualname__ = f"atleast_{ndim}d"
    each.__doc__ = f"Tensors with at least {ndim} dimension(s), new ones of size 1."
    shapes = ((), (3,), (2, 3))
    return public(
        each.__name__, method=False, samples=lambda: [s.call(s.values(n)) for n in shapes]
    )(each)


def _raised(x: Tensor, ndim: int) -> Tensor:
    while x.ndim < min(ndim, 2):
        x = x.unsqueeze(0)
    return x.unsqueeze(-1) if x.ndim < ndim else x


atleast_1d, atleast_2d, atleast_3d = map(_at_least, (1, 2, 3))


def _splitter(name: str, dim_of: Any) -> Any:
    least = {"hsplit": 1, "vsplit": 2, "dsplit": 3}[name]

    def sections(input: Tensor, indices_or_sections: Any) -> Any:
        if input.ndim < least:
            raise RuntimeError(
                f"torch.{name} requires a tensor with at least {least} dimension, but got a tensor "
                f"with {input.ndim} dimensions!"
            )
        size, n = input.shape[dim_of(input)], integrals(indices_or_sections)
        if is_int(n) and (n == 0 or size % n):
            raise RuntimeError(
                f"torch.{name} attempted to split along dimension {dim_of(input)}, but the size of "
                f"the dimension {size} is not divisible by the split_size {n}!"
            )
        return input.tensor_split(n, dim_of(input))

    sections.__name__ = sections.__qualname__ = name
    sections.__doc__ = f"`tensor_split` as NumPy's {name}."
    return public(name, samples=lambda: [s.call(s.values((4, 6, 2)), n) for n in (2, (1,))])(
        sections
    )


hsplit = _splitter("hsplit", lambda x: 0 if x.ndim == 1 else 1)
vsplit = _splitter("vsplit", lambda x: 0)
dsplit = _splitter("dsplit", lambda x: 2)


@public(namespace=False)
def split_with_sizes(self: Tensor, split_sizes: Any, dim: int = 0) -> Any:
    return split(self, list(split_sizes), dim)


@public(method=False)
def broadcast_shapes(*shapes: Any) -> Size:
    """The common shape of several shapes."""
    return Size(_broadcast(*((n,) if is_int(n) else tuple(n) for n in shapes)))


@public(method=False, samples=lambda: [s.call(s.values((2, 3)), s.values((1, 2), seed=1))])
def block_diag(*tensors: Tensor) -> Tensor:
    """Matrices along the diagonal of a large one, 0 elsewhere."""
    need_tensors("block_diag", tensors)
    blocks = [_raised(x, 2) for x in tensors]
    width = builtins.sum(x.shape[1] for x in blocks)
    rows, before = [], 0
    for x in blocks:
        after = width - before - x.shape[1]
        sides = [x.new_zeros(x.shape[0], before), x, x.new_zeros(x.shape[0], after)]
        rows.append(cat(sides, 1))
        before += x.shape[1]
    return cat(rows, 0)


@public(
    samples=lambda: [
        s.call(s.values((2, 3)), s.values((3, 2), seed=1)),
        s.call(s.values((2,)), s.values((2, 2), seed=1)),
    ]
)
def kron(input: Tensor, other: Tensor) -> Tensor:
    """The Kronecker product."""
    n = max(input.ndim, other.ndim)
    a = input.reshape((1,) * (n - input.ndim) + tuple(input.shape))
    b = other.reshape((1,) * (n - other.ndim) + tuple(other.shape))
    left = a.reshape([k for size in a.shape for k in (size, 1)])
    right = b.reshape([k for size in b.shape for k in (1, size)])
    return (left * right).reshape([p * q for p, q in zip(a.shape, b.shape, strict=True)])


@public(
    method=False,
    samples=lambda: [
        s.call(s.values((4,))),
        s.call(s.values((4,)), 3),
        s.call(s.values((3,)), with_replacement=True),
    ],
)
def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """All ways to take r elements of a vector, in order, one per row."""
    if input.ndim != 1:
        raise RuntimeError(f"combinations: expected a vector, but got shape {list(input.shape)}")
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    rows = list(choose(range(input.shape[0]), r))
    if not rows:
        return input.unsqueeze(1).expand(input.shape[0], r)[:0]
    return stack([stack([input[i] for i in row]) for row in rows])


# ------------------------------------------------------------------------------- numeric sums
@public(
    method=False,
    alias=("trapz",),
    samples=lambda: [
        s.call(_m()),
        s.call(_m(), dx=0.5, dim=0),
        s.call(_m(), s.values((6,), seed=1)),
    ],
)
def trapezoid(y: Tensor, x: Tensor | None = None, *, dx: float = 1.0, dim: int = -1) -> Tensor:
    """The integral of samples by the trapezoidal rule along `dim`."""
    d = own_dim(dim, y.ndim, "trapezoid", IndexError)
    _refuse_bools(y, x)
    if not y.shape[d]:
        return sum(y / 2, d)
    # PyTorch's order: an infinite end gives NaN, and ints are halved before they wrap.
    if x is None:
        return (sum(y, d) - (y.select(d, 0) + y.select(d, -1)) * 0.5) * dx
    return sum(_doubled_areas(y, x, dx, d), d) / 2


def _refuse_bools(y: Tensor, x: Tensor | None) -> None:
    if dt.bool_ in (y.dtype, None if x is None else x.dtype):
        raise RuntimeError("trapezoid: bool tensors are not supported")


def _doubled_areas(y: Tensor, x: Tensor | None, dx: float, d: int) -> Tensor:
    """Twice the areas between neighbours along dimension d, one less than samples.
    Ints stay ints."""
    _refuse_bools(y, x)
    n = y.shape[d]
    sums = y.narrow(d, 0, n - 1) + y.narrow(d, 1, n - 1)
    if x is None:
        return sums * dx
    if x.ndim == 1:
        x = x.reshape([-1 if i == d else 1 for i in range(y.ndim)])
    elif x.ndim < y.ndim:
        x = x.reshape((*(1,) * (y.ndim - x.ndim), *x.shape))
    m = x.shape[d]
    return sums * (x.narrow(d, 1, m - 1) - x.narrow(d, 0, m - 1))


@public(
    method=False,
    samples=lambda: [
        s.call(_m()),
        s.call(_m(), dx=0.5, dim=0),
        s.call(_m(), s.values((6,), seed=1)),
    ],
)
def cumulative_trapezoid(
    y: Tensor, x: Tensor | None = None, *, dx: float = 1.0, dim: int = -1
) -> Tensor:
    """The integrals by the trapezoidal rule up to each sample but the first."""
    d = own_dim(dim, y.ndim, "cumulative_trapezoid", IndexError)
    return cumsum(_doubled_areas(y, x, dx, d), d) / 2


# -------------------------------------------------------------------------------- rounding
@public(method=False)
def fake_quantize_per_tensor_affine(
    input: Tensor, scale: Any, zero_point: Any, quant_min: int, quant_max: int
) -> Tensor:
    """Result of rounding `input` to ints times `scale` beside `zero_point`, from quant_min to
    quant_max. The gradient goes through where nothing is cut off."""
    if quant_min > quant_max:
        raise RuntimeError("`quant_min` should be less than or equal to `quant_max`.")
    whole = (input.detach() * (1.0 / scale)).round() + zero_point
    inside = (whole >= quant_min) & (whole <= quant_max)
    left = (whole.clamp(quant_min, quant_max) - zero_point) * scale
    return left.to(input.dtype) + where(inside, input - input.detach(), 0.0)


@public(method=False)
def fake_quantize_per_channel_affine(
    input: Tensor, scale: Tensor, zero_point: Tensor, axis: int, quant_min: int, quant_max: int
) -> Tensor:
    """`fake_quantize_per_tensor_affine` with a scale and a zero point for each index of `axis`."""
    along = [-1 if d == norm_dim(axis, input.ndim, "axis") else 1 for d in range(input.ndim)]
    each = scale.reshape(along), zero_point.reshape(along)
    return fake_quantize_per_tensor_affine(input, *each, quant_min, quant_max)


@public(
    method=False,
    samples=lambda: [
        s.call(_m()),
        s.call(_m(), spacing=0.5, dim=0, edge_order=2),
        s.call(_m(), spacing=(0.5, 2.0), dim=(0, 1)),
        s.call(_m(), spacing=(s.values((6,), seed=1),), dim=1, edge_order=2),
    ],
)
@rounded_once
def gradient(
    input: Tensor, *, spacing: Any = 1, dim: Ints | None = None, edge_order: int = 1
) -> tuple[Tensor, ...]:
    """Derivatives of samples along each of `dim` (all by default): central differences inside,
    one-sided ones of `edge_order` at both ends.

    `spacing` is the distance, one for each dimension, or tensors with the coordinates. Raises
    RuntimeError for fewer samples than `edge_order` + 1."""
    dims = range(input.ndim) if dim is None else (dim,) if isinstance(dim, int) else dim
    along = [norm_dim(d, input.ndim, "gradient") for d in dims]
    spacing = 1 if spacing is None else spacing
    if len(set(along)) != len(along):
        raise RuntimeError(f"dim {along[0]} appears multiple times in the list of dims")
    gaps = spacing if isinstance(spacing, list | tuple) else [spacing] * len(along)
    if len(gaps) != len(along):
        raise RuntimeError(
            f"torch.gradient expected spacing to be unspecified, a scalar or a list of length "
            f"equal to 'dim', got {len(gaps)} of them for {len(along)} dimensions"
        )
    if edge_order not in (1, 2):
        raise RuntimeError("torch.gradient only supports edge_order=1 and edge_order=2.")
    if input.dtype is dt.uint8:
        raise RuntimeError("gradient does not support uint8 input: differences may be negative")
    if any(input.shape[d] < edge_order + 1 for d in along):
        raise RuntimeError(
            "torch.gradient expected each dimension size to be at least edge_order+1"
        )
    return tuple(_slope(input, d, h, edge_order) for d, h in zip(along, gaps, strict=True))


def _slope(x: Tensor, d: int, spacing: Any, edge_order: int) -> Tensor:
    n, h = x.shape[d], spacing
    even = not isinstance(spacing, Tensor) or spacing.ndim == 0
    if not even:
        h = (spacing.narrow(0, 1, n - 1) - spacing.narrow(0, 0, n - 1)).reshape(
            [-1 if i == d else 1 for i in range(x.ndim)]
        )
    steps = (x.narrow(d, 1, n - 1) - x.narrow(d, 0, n - 1)) / h  # slopes between neighbours
    first, last = steps.narrow(d, 0, 1), steps.narrow(d, n - 2, 1)
    if n == 2:
        return cat([first, last], d)
    left, right = (h, h) if even else (h.narrow(d, 0, n - 2), h.narrow(d, 1, n - 2))
    a, b = steps.narrow(d, 0, n - 2), steps.narrow(d, 1, n - 2)
    if edge_order == 2:  # of the parabola through three samples
        bend = (b - a) / (left + right)
        first = first - (bend * left).narrow(d, 0, 1)
        last = last + (bend * right).narrow(d, n - 3, 1)
    return cat([first, (a * right + b * left) / (left + right), last], d)


@public(samples=lambda: [s.call(_m()), s.call(_m(), correction=0)])
def cov(
    input: Tensor,
    *,
    correction: int = 1,
    fweights: Tensor | None = None,
    aweights: Tensor | None = None,
) -> Tensor:
    """The covariance matrix of variables (rows) over observations (columns), which count as often
    as `fweights` says (ints), and as much as `aweights` says."""
    if input.ndim > 2:
        raise RuntimeError(
            "cov(): expected input to have two or fewer dimensions but got an input with "
            f"{input.ndim} dimensions"
        )
    x = input.reshape(1, -1) if input.ndim < 2 else input
    if x.dtype is dt.bool_:
        raise RuntimeError("cov(): bool dtype is not supported for input")
    if x.dtype.category < dt.FLOAT:
        x = x.to(dt.get_default_dtype())
    weights = _observation_weights(x, fweights, aweights)
    if weights is None:
        apart = x - x.mean(1, keepdim=True)
        matrix = apart @ apart.mH / max(x.shape[1] - correction, 0)
    else:
        total = sum(weights)
        apart = x - sum(x * weights, 1, keepdim=True) / total
        norm = total
        if aweights is not None and correction:
            norm = total - correction * sum(weights * aweights) / total
        elif aweights is None:
            norm = total - correction
        matrix = (apart * weights) @ apart.mH / norm.clamp(min=0)
    return matrix.squeeze() if x.shape[0] == 1 else matrix


def _observation_weights(x: Tensor, fweights: Any, aweights: Any) -> Tensor | None:
    """The weight of each column. RuntimeError for weights of a wrong kind or number."""
    for name, w, ints in (("fweights", fweights, True), ("aweights", aweights, False)):
        if w is None:
            continue
        if w.ndim > 1 or w.numel() != x.shape[1]:
            raise RuntimeError(
                f"cov(): expected {name} to be one dimensional, with as many elements as there are "
                f"observations, got {tuple(w.shape)} for {x.shape[1]}"
            )
        if bool((w < 0).any()):
            raise RuntimeError(f"cov(): {name} cannot be negative")
        if ints == w.dtype.is_floating_point:
            kind = "integral" if ints else "floating point"
            raise RuntimeError(f"cov(): expected {name} to have {kind} dtype, got {w.dtype}")
    if fweights is None or aweights is None:
        return fweights if aweights is None else aweights
    return fweights * aweights


@public(samples=lambda: [s.call(_m())])
def corrcoef(input: Tensor) -> Tensor:
    """The correlation matrix of variables (rows) over observations (columns)."""
    c = cov(input)
    if c.ndim == 0:
        return c / c
    spread = c.diagonal().sqrt()
    found = c / spread.unsqueeze(0) / spread.unsqueeze(1)
    if not found.dtype.is_complex:
        return found.clamp(-1, 1)
    parts = found.real.clamp(-1, 1), found.imag.clamp(-1, 1)
    return apply(REGISTRY["complex"], *parts)


@public(
    method=False,
    samples=lambda: [
        s.call(s.values((3,)), grad=False),
        s.call(s.values((3,)), 4, grad=False),
        s.call(s.values((3,)), increasing=True, grad=False),
    ],
)
def vander(x: Tensor, N: int | None = None, increasing: bool = False) -> Tensor:
    """Powers of a vector's elements, one column per power."""
    if x.ndim != 1:
        raise RuntimeError(f"vander: x must be a one-dimensional tensor, got shape {list(x.shape)}")
    n = x.shape[0] if N is None else N
    x = x.to(dt.int64) if x.dtype.category < dt.FLOAT else x
    if n == 0:
        return x.new_empty((x.shape[0], 0))
    powers = range(n) if increasing else range(n - 1, -1, -1)
    return stack([x**p for p in powers], 1)
