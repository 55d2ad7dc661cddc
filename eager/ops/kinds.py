"""The kinds of ops: one class each, with the rules all ops of the kind share. avals -> avals,
NumPy arrays -> NumPy arrays.

Broadcasting, promotion and reduction shapes are written here once. A view op *is* its index map:
`source` takes the output's index to the input's, over anything that has + * // %; `restride` is
the same map on strides; `inverse` writes back through it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import field
from typing import Any, ClassVar

import numpy as np

from eager.base import dtype as dt
from eager.base.dataclass import dataclass
from eager.base.dtype import DType
from eager.base.scalar import NUMPY
from eager.core.op import Attrs, Op, aval_of
from eager.sizes import polynomial
from eager.sizes.aval import Aval, broadcast_shapes, contiguous_strides, result_type, same
from eager.sizes.symint import divide, expect_general, is_one, is_single, known_eq, of_data

_PYTHON_TYPES = {
    dt.BOOL: dt.bool_,
    dt.INT: dt.int64,
    dt.FLOAT: dt.float64,
    dt.COMPLEX: dt.complex128,
}
_REFUSED = {"any": (), "real": (dt.COMPLEX,), "numbers": (dt.BOOL, dt.COMPLEX)}


# ------------------------------------------------------------------------------- pointwise
@dataclass(frozen=True, eq=False)
class Pointwise(Op):
    """One scalar function of the elements at the same (broadcast) place.

    `body(m, *operands)` is over the closed vocabulary (`eager/base/scalar.py`), in one computing
    dtype. `result` says the type of the result: "promote" (the operands' common type), "float" (the
    same, with ints raised to the default float), "bool", "first" (the first operand's) or "real"
    (the real part's). The first `mask` operands are conditions: bool, and no part of promotion.
    `ufunc` is a NumPy function equal to the body on one dtype, where there is one. `of_complex` is
    the function of complex arrays, where the body holds for real numbers alone. `takes` says what
    the operands' common type may be: "any", "real" (not complex: no order, or another function) or
    "numbers" (nor bool). `refuses` says what is wrong with operands that the op does not take (""
    for those that it does), or raises. With `rounds_numbers`, numbers and 0-dim tensors beside
    16-bit floats are rounded to that type before the computation in float32, as in PyTorch; all
    other ops take them in full.
    """

    body: Callable[..., Any] = field(kw_only=True)
    result: str = "promote"
    mask: int = 0
    of_complex: Callable[..., Any] | None = None
    takes: str = "any"
    refuses: Callable[[Sequence[Aval]], str] | None = None
    rounds_numbers: bool = False
    kind: ClassVar[str] = "pointwise"
    recomputed: ClassVar[bool] = True
    _plans: dict[Any, Any] = field(default_factory=dict, init=False, repr=False)

    def common(self, avals: Sequence[Aval]) -> DType:
        """The type the operands are converted to (before widening 16-bit floats)."""
        operands = avals[self.mask :]
        if self.refuses is not None and (reason := self.refuses(operands)):
            raise RuntimeError(reason)
        if all(a.weak for a in operands) and all(a.weak for a in avals):
            common = _PYTHON_TYPES[max(a.dtype.category for a in operands)]
            default = dt.float64
        else:
            common, default = result_type(operands), dt.get_default_dtype()
            if common.category in _REFUSED[self.takes]:
                raise NotImplementedError(f'"{self.name}" not implemented for {common.name}')
        return default if self.result == "float" and common.category < dt.FLOAT else common

    def narrow(self, common: DType, aval: Aval) -> DType:
        """The dtype that an operand is rounded to before it is widened for the computation."""
        rounds = self.rounds_numbers and not aval.shape and common.compute is not common
        return common if rounds else common.compute

    def out_dtype(self, avals: Sequence[Aval], common: DType) -> DType:
        if self.result == "bool":
            return dt.bool_
        if self.result == "first":
            return avals[0].dtype
        if self.result == "real" and common.is_complex:
            return dt.float32 if common is dt.complex64 else dt.float64
        return common

    def abstract(self, avals: tuple[Aval, ...], attrs: Attrs) -> tuple[Aval, ...]:
        return self._abstract(avals, dt.get_default_dtype())

    @polynomial.remembered
    def _abstract(self, avals: tuple[Aval, ...], default: DType) -> tuple[Aval, ...]:
        """Avals of the results for a default dtype, on which they depend."""
        try:
            shape = broadcast_shapes(*(a.shape for a in avals))
        except RuntimeError as error:
            raise RuntimeError(f"{self.name}(): {error}") from None
        weak = all(a.weak for a in avals)
        return (Aval(shape, self.out_dtype(avals, self.common(avals)), avals[0].device, weak),)

    def compute(
        self, arrays: tuple[Any, ...], attrs: Attrs, outs: tuple[Aval, ...]
    ) -> tuple[Any, ...]:
        return self.run(arrays, attrs)

    def run(self, arrays: tuple[Any, ...], attrs: Attrs) -> tuple[Any, ...]:
        ufunc = self.ufunc
        if ufunc is not None:
            first = arrays[0]
            if type(first) is np.ndarray and first.dtype in _DIRECT:
                if len(arrays) == 1:
                    return (ufunc(first, order="C"),)
                second = arrays[1]
                kind = type(second)
                if (
                    kind is float
                    or kind is int
                    or (kind is np.ndarray and second.dtype is first.dtype)
                ):
                    try:
                        return (ufunc(first, second, order="C"),)
                    except ValueError:
                        pass  # shapes that do not fit: said by the rule below
        return self._general(arrays)

    def _general(self, arrays: Sequence[Any]) -> tuple[Any, ...]:
        """Convert to the computing dtype, run the body, round once to the result's dtype."""
        key = (dt.get_default_dtype(), *map(_signature, arrays))
        plan = self._plans.get(key)
        if plan is None:
            plan = self._plans[key] = self._plan(arrays)
        types, out, body, narrow = plan
        cast = [
            x if type(x) is np.ndarray and x.dtype is t else _as(x, t)
            for x, t in zip(arrays, types, strict=True)
        ]
        for i, t in narrow:
            cast[i] = _as(_as(cast[i], t), types[i])
        try:
            result = body(*cast)
        except ValueError:  # shapes that do not fit: the rule names them
            self.abstract(tuple(map(aval_of, arrays)), {})
            raise
        return (np.asarray(result, dtype=out, order="C"),)

    def _plan(self, arrays: Sequence[Any]) -> tuple[Any, ...]:
        """The NumPy types the operands are converted to, and the result's; what to call on them;
        which are rounded to what before."""
        avals = tuple(map(aval_of, arrays))
        common = self.common(avals)
        computing = common.compute.np
        types = [np.dtype(bool) if i < self.mask else computing for i in range(len(arrays))]
        body = self.of_complex if common.is_complex else None
        kinds = [self.narrow(common, a).np for a in avals]
        narrow = [(i, t) for i, t in enumerate(kinds) if t != computing and i >= self.mask]
        out = self.out_dtype(avals, common).np
        return types, out, body or functools.partial(self.body, NUMPY), narrow


_DIRECT = frozenset({np.dtype(np.float32), np.dtype(np.float64)})


def _signature(x: Any) -> Any:
    """Key that the types of a call depend on: dtype, whether it has dimensions, or the Python
    type."""
    return (x.dtype, x.ndim > 0) if isinstance(x, np.ndarray) else type(x)


def _as(x: Any, dtype: np.dtype) -> Any:
    """An array or number in the computing dtype; an int too large for it wraps around, as in C."""
    if isinstance(x, np.ndarray):
        return x if x.dtype == dtype else x.astype(dtype)
    if isinstance(x, int) and dtype.kind in "iu":
        return np.asarray(x & 0xFFFFFFFFFFFFFFFF, np.uint64).astype(dtype)
    return np.asarray(x).astype(dtype)


def need_order(name: str, aval: Aval) -> None:
    """NotImplementedError for complex numbers, which have no order."""
    if aval.dtype.is_complex:
        raise NotImplementedError(f'"{name}" not implemented for {aval.dtype.name}')


@dataclass(frozen=True, eq=False)
class Cast(Op):
    """Conversion to `dtype` (attribute). Floats to ints truncate; anything to bool is `!= 0`."""

    kind: ClassVar[str] = "cast"
    recomputed: ClassVar[bool] = True

    def abstract(self, avals: tuple[Aval, ...], attrs: Attrs) -> tuple[Aval, ...]:
        return (Aval(avals[0].shape, attrs["dtype"], avals[0].device),)

    def compute(
        self, arrays: tuple[Any, ...], attrs: Attrs, outs: tuple[Aval, ...]
    ) -> tuple[Any, ...]:
        return self.run(arrays, attrs)

    def run(self, arrays: tuple[Any, ...], attrs: Attrs) -> tuple[Any, ...]:
        dtype, array = attrs["dtype"], np.asarray(arrays[0])
        discards = array.dtype.kind == "c" and dtype.category in (dt.INT, dt.FLOAT)
        return (dt.converted(array.real if discards else array, dtype.np),)


@dataclass(frozen=True, eq=False)
class Copy(Op):
    """Copy of the values to memory of their own. In a graph it is nothing: values there do not
    alias."""

    kind: ClassVar[str] = "copy"
    rounds: ClassVar[bool] = False

    def abstract(self, avals: tuple[Aval, ...], attrs: Attrs) -> tuple[Aval, ...]:
        return (avals[0],)

    def compute(
        self, arrays: tuple[Any, ...], attrs: Attrs, outs: tuple[Aval, ...]
    ) -> tuple[Any, ...]:
        return (np.array(arrays[0], order="C"),)

    run = lambda self, arrays, attrs: (np.array(arrays[0], order="C"),)


# ------------------------------------------------------------------------ reductions, scans
_MONOIDS: dict[str, Any] = {
    "sum": np.add,
    "prod": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "any": np.logical_or,
    "all": np.logical_and,
}


def reduced_shape(shape: tuple[int, ...], dims: Sequence[int], *, keepdim: bool) -> tuple[int, ...]:
    if keepdim:
        return tuple(1 if i in dims else n for i, n in enumerate(shape))
    return tuple(n for i, n in enumerate(shape) if i not in dims)


@dataclass(frozen=True, eq=False)
class Reduce(Op):
    """`monoid` over the dimensions `dim` (a tuple); `keepdim` leaves them as 1.

    Sums and products of bool and int are int64; any and all are bool; 16-bit floats are
    accumulated in float32. max and min of nothing raise IndexError; NaN wins."""

    monoid: str = field(kw_only=True)
    kind: ClassVar[str] = "reduce"

    def abstract(self, avals: tuple[Aval, ...], attrs: Attrs) -> tuple[Aval, ...]:
        x, dims = avals[0], attrs["dim"]
        if self.monoid in ("max", "min"):
            need_order(self.name, x)
        if self.monoid in ("max", "min") and any(x.shape[d] == 0 for d in dims):
            raise IndexError(
                f"{self.name}(): Expected reduction dim {list(dims)} to have non-zero size, the "
                f"shape is {x.shape}"
            )
        return (
            Aval(
                reduced_shape(x.shape, dims, keepdim=attrs["keepdim"]),
                self._dtype(x.dtype),
                x.device,
            ),
        )

    def _dtype(self, dtype: DType) -> DType:
        if self.monoid in ("any", "all"):
            return dt.bool_
        return dt.int64 if self.monoid in ("sum", "prod") and dtype.category < dt.FLOAT else dtype

    def compute(
        self, arrays: tuple[Any, ...], attrs: Attrs, outs: tuple[Aval, ...]
    ) -> tuple[Any, ...]:
        return self.run(arrays, attrs)

    def run(self, arrays: tuple[Any, ...], attrs: Attrs) -> tuple[Any, ...]:
        (x,) = arrays
        dims, keepdim = attrs["dim"], attrs["keepdim"]
        own = dt.from_numpy(x.dtype)
        out = self._dtype(own)
        if own.is_complex:
            self.abstract((aval_of(x),), attrs)
        ufunc = _MONOIDS[self.monoid]
        try:
            if self.monoid in ("sum", "prod"):
                result = ufunc.reduce(x, axis=dims, keepdims=keepdim, dtype=out.compute.np)
            else:
                result = ufunc.reduce(x, axis=dims, keepdims=keepdim)
        except ValueError:  # the largest of nothing: the rule says so
            self.abstract((aval_of(x),), attrs)
            raise
        if type(result) is not np.ndarray:  # one number: the usual case is the short one
            return (np.asarray(result, out.np),)
        return (np.asarray(result, dtype=out.np, order="C"),)


@dataclass(frozen=True, eq=False)
class ArgReduce(Op):
    """Index of the largest or smallest element (the first such; NaN counts as extreme): int64.
    `dim` an int or None (all)."""

    monoid: str = field(kw_only=True)
    kind: ClassVar[str] = "argreduce"
    rounds: ClassVar[bool] = False

    def abstract(self, avals: tuple[Aval, ...], attrs: Attrs) -> tuple[Aval, ...]:
        x, dim = avals[0], attrs["dim"]
        need_order(self.name, x)
        dims = range(x.ndim) if dim is None else (dim,)
        if any(x.shape[d] == 0 for d in dims):
            raise IndexError(
                f"{self.name}(): Expected reduction dim {dim} to have non-zero size, the shape is "
                f"{x.shape}"
            )
        return (
            Aval(reduced_shape(x.shape, tuple(dims), keepdim=attrs["keepdim"]), dt.int64, x.device),
        )

    def compute(
        self, arrays: tuple[Any, ...], attrs: Attrs, outs: tuple[Aval, ...]
    ) -> tuple[Any, ...]:
        (x,) = arrays
        find = np.argmax if self.monoid == "max" else np.argmin
        x = x.astype(np.float32) if x.dtype == dt.bfloat16.np else x
        return (np.asarray(find(x, axis=attrs["dim"])).reshape(outs[0].shape),)


@dataclass(frozen=True, eq=False)
class Scan(Op):
    """Running sum or product along `dim`, same shape; ints become int64, 16-bit floats accumulate
    in float32."""

    monoid: str = field(kw_only=True)
    kind: ClassVar[str] = "scan"

    def abstract(self, avals: tuple[Aval, ...], attrs: Attrs) -> tuple[Aval, ...]:
        x = avals[0]
        if self.n_outputs == 2:  # the extreme so far, and where it was
            need_order(self.name, x)
            return Aval(x.shape, x.dtype, x.device), Aval(x.shape, dt.int64, x.device)
        return (Aval(x.shape, dt.int64 if x.dtype.category < dt.FLOAT else x.dtype, x.device),)

    def compute(
        self, arrays: tuple[Any, ...], attrs: Attrs, outs: tuple[Aval, ...]
    ) -> tuple[Any, ...]:
        (x,) = arrays
        out = outs[0].dtype
        if not x.shape:
            x0 = np.array(x, dtype=out.np)
            return (x0, np.zeros((), np.int64)) if self.n_outputs == 2 else (x0,)
        axis, ufunc = attrs["dim"], _MONOIDS[self.monoid]
        running = ufunc.accumulate(x.astype(out.compute.np), axis=axis)
        values = np.asarray(running, dtype=out.np, order="C")
        if self.n_outputs == 1:
            return (values,)
        place = np.arange(x.shape[axis]).reshape([-1 if i == axis else 1 for i in range(x.ndim)])
        here = (x == values) | (
            np.isnan(x.astype(out.compute.np)) if out.category == dt.FLOAT else False
        )
        return values, np.maximum.accumulate(np.where(here, place, 0), axis=axis)


# ------------------------------------------------------------------------------------ views
Placed = tuple[tuple[int, ...], int]  # strides and offset, in elements


@dataclass(frozen=True, eq=False)
class View(Op):
    """Another way to index the same memory. `shape(shape, attrs)` is the result's shape; see the
    module's first lines."""

    shape: Callable[[tuple[int, ...], Attrs], tuple[int, ...]] = field(kw_only=True)
    source: Callable[[tuple[Any, ...], tuple[int, ...], Attrs], tuple[Any, ...]] = field(
        kw_only=True
    )
    numpy: Callable[[Any, Attrs], Any] = field(kw_only=True)
    strides: Callable[[tuple[int, ...], tuple[int, ...], Attrs], Placed | None] = field(
        kw_only=True
    )
    write: Callable[[Aval, Attrs], tuple[Op, dict[str, Any], bool]] | None = None
    by_parts: bool = field(default=True, kw_only=True)
    kind: ClassVar[str] = "view"
    shares: ClassVar[bool] = True
    recomputed: ClassVar[bool] = True
    rounds: ClassVar[bool] = False

    def abstract(self, avals: tuple[Aval, ...], attrs: Attrs) -> tuple[Aval, ...]:
        x = avals[0]
        return (Aval(self.shape(x.shape, attrs), x.dtype, x.device),)

    def index_map(self, aval: Aval, attrs: Attrs) -> Callable[[tuple[Any, ...]], tuple[Any, ...]]:
        """The function from the output's index to the input's (`aval`)."""
        return lambda index: self.source(index, aval.shape, attrs)

    def restride(
        self, shape: tuple[int, ...], strides: tuple[int, ...], attrs: Attrs
    ) -> Placed | None:
        """Strides and offset of the view of (shape, strides), or None where only a copy can do it
        (reshape)."""
        return self.strides(shape, strides, attrs)

    def inverse(self, base: Aval, attrs: Attrs) -> tuple[Op, dict[str, Any], bool]:
        """(op, attributes, whether it takes the base first): the base's value after writing
        through this view."""
        if self.write is None:
            raise RuntimeError(
                f"unsupported operation: more than one element of the tensor made by {self.name} "
                "refers to a single memory "
                "location. Please clone() the tensor before performing the operation."
            )
        return self.write(base, attrs)

    def compute(
        self, arrays: tuple[Any, ...], attrs: Attrs, outs: tuple[Aval, ...]
    ) -> tuple[Any, ...]:
        return (self.numpy(arrays[0], attrs),)

    def run(self, arrays: tuple[Any, ...], attrs: Attrs) -> tuple[Any, ...]:
        return (self.numpy(arrays[0], attrs),)


# --------------------------------------------------------------------------- moves, creation
# An op in loops: element(m, at, xs, attrs) is its result at index `at`, whose parts may be anything
# that has + - * // %. `xs[k][index]` reads an operand (which has shape and ndim), `m` compares and
# chooses:
#     m.within(i, lo, hi), m.less(i, n), m.equal(i, n), m.all(a, b, ...)    truth about an index
#     m.select(a, x, y)          x if a else y; what is not taken may be out of bounds
#     m.number(i)                an index as a value
#     m.looked_up(x, at, dim, size, negative=False)    an index that tensor x has at `at`, checked
Element = Callable[[Any, tuple[Any, ...], tuple[Any, ...], Attrs], Any]


@dataclass(frozen=True, eq=False)
class Move(Op):
    """Elements to other places, unchanged. `shape(avals, attrs)` is the result's shape, `numpy`
    the kernel; `element` see `Element`."""

    shape: Callable[[tuple[Aval, ...], Attrs], tuple[int, ...]] = field(kw_only=True)
    element: Element = field(kw_only=True)
    numpy: Callable[[tuple[Any, ...], Attrs], Any] = field(kw_only=True)
    by_parts: bool = field(default=True, kw_only=True)
    kind: ClassVar[str] = "move"
    recomputed: ClassVar[bool] = True
    rounds: ClassVar[bool] = False

    def abstract(self, avals: tuple[Aval, ...], attrs: Attrs) -> tuple[Aval, ...]:
        tensors = [a for a in avals if not a.weak]
        dtype = result_type(tensors) if self.name == "cat" else avals[0].dtype
        return (Aval(self.shape(avals, attrs), dtype, avals[0].device),)

    def compute(
        self, arrays: tuple[Any, ...], attrs: Attrs, outs: tuple[Aval, ...]
    ) -> tuple[Any, ...]:
        result = np.asarray(self.numpy(arrays, attrs), dtype=outs[0].dtype.np, order="C")
        return (result.reshape(outs[0].shape),)

    def run(self, arrays: tuple[Any, ...], attrs: Attrs) -> tuple[Any, ...]:
        first = arrays[0].dtype
        if all(type(x) is np.ndarray and x.dtype is first for x in arrays):
            try:
                return (np.asarray(self.numpy(arrays, attrs), order="C"),)
            except ValueError:  # shapes that do not fit: the rule names them
                pass
        return super().run(arrays, attrs)


def require_sizes(shape: Iterable[Any]) -> None:
    """RuntimeError for a negative size of a tensor that is to be made, or more than memory has."""
    for n in shape:
        if (type(n) is int or not of_data(n)) and n < 0:
            raise RuntimeError(f"Trying to create tensor with negative dimension {n}: {[*shape]}")
    if math.prod(n for n in shape if type(n) is int) >= 1 << 60:
        raise RuntimeError(f"Storage size calculation overflowed with sizes={[*shape]}")


def require_dtype(name: str, dtype: Any) -> None:
    """TypeError for what is given as a dtype and is none."""
    if not isinstance(dtype, DType):
        raise TypeError(f"{name}: 'dtype' must be eager.DType, not {type(dtype).__name__}")


@dataclass(frozen=True, eq=False)
class Create(Op):
    """A tensor from nothing (or one number): shape and dtype are attributes."""

    element: Element = field(kw_only=True)
    numpy: Callable[[tuple[Any, ...], Attrs], Any] = field(kw_only=True)
    kind: ClassVar[str] = "create"
    recomputed: ClassVar[bool] = True
    rounds: ClassVar[bool] = False

    def abstract(self, avals: tuple[Aval, ...], attrs: Attrs) -> tuple[Aval, ...]:
        require_sizes(attrs["shape"])
        require_dtype(self.name, attrs["dtype"])
        return (Aval(tuple(attrs["shape"]), attrs["dtype"], attrs.get("device", "cpu")),)

    def compute(
        self, arrays: tuple[Any, ...], attrs: Attrs, outs: tuple[Aval, ...]
    ) -> tuple[Any, ...]:
        return (self.numpy(arrays, attrs),)

    def run(self, arrays: tuple[Any, ...], attrs: Attrs) -> tuple[Any, ...]:
        try:
            return (self.numpy(arrays, attrs),)
        except (ValueError, OverflowError):
            require_sizes(attrs["shape"])
            raise
        except AttributeError:
            require_dtype(self.name, attrs["dtype"])
            raise


@polynomial.remembered
def reshape_strides(
    shape: tuple[int, ...], strides: tuple[int, ...], new: tuple[int, ...]
) -> tuple[int, ...] | None:
    """Strides of `new` over the same memory, or None when it needs a copy. (NumPy's
    attempt_nocopy_reshape.)"""
    if any(map(of_data, (*shape, *new))):
        return _strides_of_data(shape, strides, new)
    if math.prod(shape) == 0:
        return contiguous_strides(new)
    old = [(n, s) for n, s in zip(shape, strides, strict=True) if not is_one(n)]
    out = [0] * len(new)
    j = len(new) - 1
    while old:
        size, step = old.pop()
        while old and old[-1][1] == step * size:  # a run of dimensions that is one in memory
            size *= old.pop()[0]
        while size > 1 or (j >= 0 and new[j] == 1):
            if j < 0 or size % new[j]:
                return None
            out[j] = step
            step *= new[j]
            size //= new[j]
            j -= 1
    for i in range(j, -1, -1):  # leading ones
        out[i] = 1
    return tuple(out)


def _strides_of_data(
    shape: tuple[int, ...], strides: tuple[int, ...], new: tuple[int, ...]
) -> tuple[int, ...] | None:
    """Strides of a reshape for sizes that data decide: see `reshape_strides`. What needs a copy is
    expected to have elements, and no such dimension of size 1: that would need none."""
    if same(strides, contiguous_strides(shape)):
        return contiguous_strides(new)
    out = [1] * len(new)
    j = len(new) - 1
    old = [(n, s) for n, s in zip(shape, strides, strict=True) if not is_single(n)]
    while old:
        size, step = old.pop()
        while old and known_eq(old[-1][1], step * size):
            size *= old.pop()[0]
        while not is_single(size):
            q, r = divide(size, new[j]) if j >= 0 else (0, 1)
            if known_eq(r, 0) is not True:
                for n in filter(of_data, shape):
                    expect_general(n)  # type: ignore[arg-type]
                return None
            out[j] = step
            step *= new[j]
            size, j = q, j - 1  # type: ignore[assignment]
    return tuple(out)


@dataclass(frozen=True, eq=False)
class Host(Op):
    """Op that only NumPy computes: compiled code calls back. `rule(*avals, **attrs)` gives the
    avals of the results, `numpy(*arrays, **attrs)` the results."""

    numpy: Callable[..., Any] = field(kw_only=True)
    rule: Callable[..., tuple[Aval, ...]] = field(kw_only=True)
    kind: ClassVar[str] = "extern"
    analytic: ClassVar[bool] = False

    def abstract(self, avals: tuple[Aval, ...], attrs: Attrs) -> tuple[Aval, ...]:
        return self.rule(*avals, **attrs)

    def compute(
        self, arrays: tuple[Any, ...], attrs: Attrs, outs: tuple[Aval, ...]
    ) -> tuple[Any, ...]:
        found = self.numpy(*arrays, **attrs)
        results = found if self.n_outputs > 1 else (found,)
        return tuple(
            np.asarray(r, dtype=out.dtype.np, order="C")
            for r, out in zip(results, outs, strict=True)
        )
