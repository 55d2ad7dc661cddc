"""Triton testing: the meaning of Triton's operations on NumPy. block handles -> block handles,
bfloat16 and bounds right.

Triton ships an interpreter whose builder computes blocks with NumPy. This module derives the parts
that are wrong or missing there (measured on 3.6 to 3.9): bfloat16 is kept as its bit pattern and
added, compared and reduced as an integer, and rounded by truncation; libdevice functions do not
exist; nothing checks an address; a reduction or scan by a user's function runs element by element.
`interpreter.interpret` runs kernels on it. Imports triton, so it is itself imported only
when a kernel runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import ml_dtypes
import numpy as np
import triton.language as tl
import triton.runtime.interpreter as stock
from triton.language.extra import libdevice

Array = np.ndarray[Any, Any]
Handle = stock.TensorHandle
BFLOAT16: Final = np.dtype(ml_dtypes.bfloat16)
BITWISE: Final = (np.bitwise_and, np.bitwise_or, np.bitwise_xor)


def widen(bits: Array) -> Array:
    """bfloat16 bit patterns (uint16) -> the float32 values they stand for."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def narrow(values: Any) -> Array:
    """float values -> bfloat16 bit patterns, rounded to nearest even (NaN stays NaN)."""
    bits: Array = np.asarray(values, np.float32).astype(BFLOAT16).view(np.uint16)
    return bits


def block(data: Array, scalar: Any) -> Any:
    """A `tl.tensor` over `data`: 0-d blocks are scalars of one element, as the stock interpreter
    keeps them."""
    shape = data.shape
    if not shape:
        return tl.tensor(Handle(data.reshape(1), scalar), scalar)
    return tl.tensor(Handle(data, scalar), tl.block_type(scalar, list(shape)))


def is_bfloat16(handle: Any) -> bool:
    return bool(handle.dtype.scalar == tl.bfloat16)


class Bounds:
    """The address ranges a kernel may touch: those of its array arguments (overlapping ones
    merged)."""

    def __init__(self, arrays: Sequence[Array]) -> None:
        self.names = [
            (a.ctypes.data, a.ctypes.data + a.nbytes, f"{a.dtype}{list(a.shape)}") for a in arrays
        ]
        merged: list[list[int]] = []
        for low, high, _ in sorted(self.names):
            if merged and low <= merged[-1][1]:
                merged[-1][1] = max(merged[-1][1], high)
            else:
                merged.append([low, high])
        self.lows = np.array([m[0] for m in merged], np.uint64)
        self.highs = np.array([m[1] for m in merged], np.uint64)

    def check(self, addresses: Array, itemsize: int, program: tuple[int, ...]) -> None:
        """Raises IndexError naming the program and the nearest array when an address lies outside
        all of them."""
        if addresses.size == 0:
            return
        if self.lows.size:
            found = np.searchsorted(self.lows, addresses, side="right").astype(np.int64) - 1
            inside = (found >= 0) & (addresses + np.uint64(itemsize) <= self.highs[found])
            if inside.all():
                return
            addresses = addresses[~inside]
        raise IndexError(self._message(int(addresses.flat[0]), itemsize, program))

    def _message(self, address: int, itemsize: int, program: tuple[int, ...]) -> str:
        where = f"kernel program {program}: {itemsize} bytes accessed outside every array argument"
        if not self.names:
            return where + " (there is none)"
        low, _, name = min(self.names, key=lambda n: min(abs(address - n[0]), abs(address - n[1])))
        return f"{where}; nearest is {name}, {address - low} bytes from its start"


class Builder(stock.InterpreterBuilder):  # type: ignore[misc]
    """The stock builder with bfloat16 arithmetic, checked addresses and vectorised erf."""

    bounds: Bounds | None = None

    # ---- conversions
    def cast_impl(self, src: Any, dst_type: Any) -> Any:
        source, target = src.dtype.scalar, dst_type.scalar
        if target == tl.bfloat16:
            data = src.data if source == tl.bfloat16 else narrow(src.data)
        else:
            values = widen(src.data) if source == tl.bfloat16 else src.data
            data = values.astype(stock._get_np_dtype(dst_type), copy=False)
        return Handle(data, target)

    def create_fp_to_fp(self, src: Any, dst_type: Any, rounding_mode: Any) -> Any:
        scalars = src.dtype.scalar, dst_type.scalar
        if tl.bfloat16 in scalars and not any(s.is_fp8() for s in scalars):
            return self.cast_impl(src, dst_type)
        return super().create_fp_to_fp(src, dst_type, rounding_mode)

    # ---- arithmetic
    def binary_op(self, lhs: Any, rhs: Any, op: Any) -> Any:
        if not is_bfloat16(lhs) or op in BITWISE:
            result = super().binary_op(lhs, rhs, op)
        else:
            data = op(widen(lhs.data), widen(rhs.data))
            result = Handle(data if data.dtype == np.bool_ else narrow(data), tl.bfloat16)
        if result.data.dtype == np.bool_:  # a comparison; as its operands' type it splats wrongly
            result.dtype = tl.int1
        return result

    def unary_op(self, arg: Any, op: Any) -> Any:
        if is_bfloat16(arg):
            return Handle(narrow(op(widen(arg.data))), tl.bfloat16)
        return super().unary_op(arg, op)

    def create_erf(self, arg: Any) -> Any:
        return Handle(_erf(arg.data), arg.dtype.scalar)

    def create_dot(
        self, a: Any, b: Any, d: Any, input_precision: Any, max_num_imprecise_acc: Any
    ) -> Any:
        if not a.dtype.scalar.is_floating() or a.dtype.scalar.is_fp8() or b.dtype.scalar.is_fp8():
            return super().create_dot(a, b, d, input_precision, max_num_imprecise_acc)
        product = np.matmul(_dot_operand(a), _dot_operand(b)) + d.data
        return Handle(product.astype(d.data.dtype, copy=False), d.dtype.scalar)

    # ---- memory
    def _check(self, pointers: Any, mask: Any) -> None:
        if self.bounds is None:
            return
        chosen = np.broadcast_to(np.asarray(getattr(mask, "data", mask), bool), pointers.data.shape)
        itemsize = max(1, pointers.get_element_ty().primitive_bitwidth // 8)
        self.bounds.check(pointers.data[chosen], itemsize, self.grid_idx)

    def create_masked_load(self, ptrs: Any, mask: Any, *rest: Any, **kw: Any) -> Any:
        self._check(ptrs, mask)
        return super().create_masked_load(ptrs, mask, *rest, **kw)

    def create_masked_store(self, ptrs: Any, value: Any, mask: Any, *rest: Any, **kw: Any) -> Any:
        self._check(ptrs, mask)
        return super().create_masked_store(ptrs, value, mask, *rest, **kw)

    def create_atomic_rmw(self, op: Any, ptr: Any, val: Any, mask: Any, *rest: Any) -> Any:
        self._check(ptr, mask)
        return super().create_atomic_rmw(op, ptr, val, mask, *rest)

    def create_atomic_cas(self, ptr: Any, *rest: Any) -> Any:
        self._check(ptr, np.ones(ptr.data.shape, bool))
        return super().create_atomic_cas(ptr, *rest)


def _dot_operand(handle: Any) -> Array:
    """16-bit floats multiply exactly and accumulate in float32, as the tensor cores do."""
    if is_bfloat16(handle):
        return widen(handle.data)
    data: Array = handle.data
    return data.astype(np.float32) if data.dtype == np.float16 else data


# ------------------------------------------------------------------------- reductions, scans


def _decoded(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """bfloat16 blocks as float32 blocks, the others as they are."""
    return tuple(
        block(widen(v.handle.data), tl.float32) if is_bfloat16(v.handle) else v for v in values
    )


def _encoded(results: Sequence[Any], like: tuple[Any, ...]) -> list[Any]:
    """The inverse of `_decoded` on a reduction's results."""
    pairs = list(zip(results, like, strict=False))
    return [
        block(narrow(r.handle.data), tl.bfloat16)
        if is_bfloat16(v.handle) and not is_bfloat16(r.handle)
        else r
        for r, v in pairs
    ] + list(results[len(pairs) :])


def combine(
    fn: Any, left: Sequence[Array], right: Sequence[Array], types: Sequence[Any]
) -> list[Array]:
    """A user's combine function on whole blocks: one call per level of the tree instead of one per
    element."""
    out = fn(
        *(block(a, t) for a, t in zip(left, types, strict=True)),
        *(block(a, t) for a, t in zip(right, types, strict=True)),
    )
    out = out if isinstance(out, (tuple, list)) else (out,)
    return [
        np.broadcast_to(
            o.handle.data if isinstance(o, tl.tensor) else np.asarray(o), a.shape
        ).astype(a.dtype)
        for o, a in zip(out, left, strict=True)
    ]


class ReduceOps(stock.ReduceOps):  # type: ignore[misc]
    """Reductions: the stock NumPy shortcuts on decoded values, and a tree of block calls for any
    other function."""

    def apply_impl(self, input: tuple[Any, ...]) -> Any:
        result = super().apply_impl(_decoded(input))
        return _encoded(result if isinstance(result, (list, tuple)) else [result], input)

    def generic_reduce(self, input: tuple[Any, ...]) -> list[Any]:
        types = [t.dtype.scalar for t in input]
        arrays = [t.handle.data for t in input]
        rank = arrays[0].ndim
        axis = 0 if self.axis is None else self.axis % rank
        if self.axis is None:
            arrays = [a.reshape(-1) for a in arrays]
        arrays = [np.moveaxis(a, axis, 0) for a in arrays]
        while arrays[0].shape[0] > 1:  # block sizes are powers of two
            half = arrays[0].shape[0] // 2
            left, right = [a[:half] for a in arrays], [a[half:] for a in arrays]
            arrays = combine(self.combine_fn, left, right, types)
        if self.axis is None:
            kept = [a.reshape((1,) * rank) if self.keep_dims else a.reshape(()) for a in arrays]
        else:
            kept = [np.moveaxis(a, 0, axis) if self.keep_dims else a[0] for a in arrays]
        return [block(np.array(a, order="C"), t) for a, t in zip(kept, types, strict=True)]


class ScanOps(stock.ScanOps):  # type: ignore[misc]
    """Scans: as above, by the doubling of Hillis and Steele."""

    def apply_impl(self, input: tuple[Any, ...]) -> Any:
        return _encoded(super().apply_impl(_decoded(input)), input)

    def generic_scan(self, input: Sequence[Any]) -> list[Any]:
        types = [t.dtype.scalar for t in input]
        axis = self.axis % input[0].handle.data.ndim
        arrays = [np.moveaxis(t.handle.data, axis, 0) for t in input]
        step = 1
        while step < arrays[0].shape[0]:
            earlier = [
                np.roll(a, step, axis=0) for a in arrays
            ]  # blocks keep a size Triton accepts
            later = combine(self.combine_fn, earlier, arrays, types)
            arrays = [
                np.concatenate([a[:step], b[step:]]) for a, b in zip(arrays, later, strict=True)
            ]
            step *= 2
        moved = [np.array(np.moveaxis(a, 0, axis), order="C") for a in arrays]
        return [block(a, t) for a, t in zip(moved, types, strict=True)]


# ---------------------------------------------------------------------------------- libdevice


def _by_element(fn: Callable[[float], float]) -> Callable[[Array], Array]:
    """A function of Python's math module on every element; NaN for a value outside its domain."""

    def one(x: float) -> float:
        try:
            return fn(x)
        except (ValueError, OverflowError):
            return math.inf if fn in {math.lgamma, math.gamma} else math.nan

    many = np.vectorize(one, otypes=[np.float64])

    def call(x: Array) -> Array:
        result: Array = many(x).astype(np.asarray(x).dtype) if np.size(x) else np.asarray(x)
        return result

    return call


_erf = _by_element(math.erf)


_NAMED_ALIKE: Final = (
    "abs ceil copysign cos cosh exp exp2 expm1 floor fmod hypot isinf isnan log log10 log1p log2 "
    "rint signbit sin sinh sqrt tan tanh trunc"
)
LIBDEVICE: Final[dict[str, Callable[..., Any]]] = {
    **{name: getattr(np, name) for name in _NAMED_ALIKE.split()},
    **{f"a{name}": getattr(np, f"arc{name}") for name in "cos cosh sin sinh tan tan2 tanh".split()},
    "div_rn": np.divide,
    "erf": _erf,
    "erfc": _by_element(math.erfc),
    "fma": lambda a, b, c: a * b + c,
    "lgamma": _by_element(math.lgamma),
    "nearbyint": np.rint,
    "pow": np.power,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "tgamma": _by_element(math.gamma),
}


def _libdevice_function(fn: Callable[..., Any]) -> Callable[..., Any]:
    """`fn` on blocks. Predicates return int32, as libdevice's do."""

    def call(*args: Any, _semantic: Any = None) -> Any:
        like = next(a for a in args if isinstance(a, tl.tensor))
        constant = like.handle.data.dtype.type
        values = [a.handle.data if isinstance(a, tl.tensor) else constant(a) for a in args]
        result = np.asarray(fn(*values))
        scalar = tl.int32 if result.dtype == np.bool_ else like.dtype.scalar
        data = result.astype(stock._get_np_dtype(scalar), copy=False)
        shaped = tl.block_type(scalar, list(data.shape)) if like.type.is_block() else scalar
        return tl.tensor(Handle(data, scalar), shaped)

    return call


def patch_libdevice(scope: Any) -> None:
    """Puts the table where kernels find it, until `scope` is restored."""
    for name, fn in LIBDEVICE.items():
        if hasattr(libdevice, name):
            scope.set_attr(libdevice, name, _libdevice_function(fn))
