"""Pools, scans, sorts and scatters as library steps. Writer -> calls of jitcap_{pool,...}.h."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from codegen.ir.monoid import COMBINE
from codegen.ir.sizes import hint, is_static, numel, same
from codegen.runtime.artifact import SIZE
from codegen.targets.cpp.step import Writer, array, three
from codegen.targets.cpp.table import BOOL_MONOIDS, MEMORY, MONOIDS, REGISTER, any_text, size_text
from eager.base import dtype as dt
from eager.base.dtype import DType
from eager.base.process import threads
from eager.sizes.aval import broadcast_shapes, contiguous_strides

# ---------------------------------------------------------------------------------- pools


def _pool(name: str, *, grad: bool = False) -> Callable[[Writer], None]:
    """The rule of a pool over (N, C, *S); `grad`: from the results back to what they are of."""

    def write(w: Writer) -> None:
        x, out, attrs = w.aval(0).shape, w.step.out_avals[0].shape, w.step.attrs
        x, out = (out, x) if grad else (x, out)
        source = w.dense(0)
        fields = (
            three(x[2:], 1), three(out[2:], 1), three(attrs["kernel"], 1),
            three(attrs["stride"], 1), three(attrs["padding"], 0),
            three(attrs.get("dilation", ()), 1),
        )  # fmt: skip
        sizes = ", ".join(map(array, fields))
        w.constant("Pool", "p", f"{{{size_text(x[0] * x[1])}, {sizes}}}")
        w.call(f"{name}<{w.ctype(0)}>", "p", source, *map(w.out, range(len(w.step.outs))))

    return write


max_pool, sum_pool = _pool("max_pool"), _pool("sum_pool")
sum_pool_grad = _pool("sum_pool_grad", grad=True)


# ---------------------------------------------------------------------------------- scans and sorts


def around(shape: tuple[int, ...], dim: int) -> tuple[int, int, int]:
    """A shape as (outer, n, inner) around dimension `dim`; a 0-dim tensor is one element."""
    if not shape:
        return 1, 1, 1
    return numel(shape[:dim]), shape[dim], numel(shape[dim + 1 :])


def _lines(w: Writer) -> str:
    return ", ".join(map(size_text, around(w.aval(0).shape, w.step.attrs["dim"])))


def _name(w: Writer, dtype: DType) -> str:
    """The type in memory; bool as a byte, where it is counted or compared."""
    return "u8" if dtype is dt.bool_ else MEMORY[dtype.name]


def scan(w: Writer) -> None:
    """cumsum, cumprod; cummax, cummin with two results."""
    dtype, out = w.aval(0).dtype, w.step.out_avals[0].dtype
    kind, monoid = _name(w, dtype), w.step.op.monoid  # type: ignore[attr-defined]
    source = f"({kind} *)({w.dense(0)})"
    if len(w.step.outs) == 2:
        most = str(monoid == "max").lower()
        values = f"({kind} *)({w.out(0)})"
        w.call(f"scan_extreme<{most}, {kind}>", _lines(w), source, values, w.out(1))
    else:
        w.call(f"scan<{MONOIDS[monoid]}, {REGISTER[out.name]}>", _lines(w), source, w.out())


def sort(w: Writer) -> None:
    dtype = w.aval(0).dtype
    kind = _name(w, dtype)
    source, values = f"({kind} *)({w.dense(0)})", f"({kind} *)({w.out(0)})"
    _, n, _ = around(w.aval(0).shape, w.step.attrs["dim"])
    item = 16 if dtype.itemsize == 8 else 8  # a key and a 32-bit place
    room = w.take(threads.room() * 2 * n * item)
    descending = str(bool(w.step.attrs["descending"])).lower()
    keep = w.step.attrs.get("keep", n)
    w.call(f"sort<{kind}>", _lines(w), keep, descending, source, values, w.out(1), room)


# ---------------------------------------------------------------------------------- scatters


def _where(w: Writer, dim: int, size: int) -> int:
    said = size if is_static((size,)) else SIZE
    text = (
        f"{w.step.op.name}: index out of bounds for dimension {dim} with size {said}|{w.step.where}"
    )
    return w.site(text)


def _reduction(dtype: DType, name: str) -> str:
    monoid = COMBINE[name]
    structs = BOOL_MONOIDS if dtype is dt.bool_ else MONOIDS
    return "Keep" if monoid is None else structs[monoid.name]


def _shared(sizes: list[int]) -> int:
    """The position of the largest size, by which a team divides the work; -1 if there is none."""
    return max(range(len(sizes)), key=lambda d: hint(sizes[d]), default=-1)


def scatter(w: Writer) -> None:
    """out = x, with src combined in at the places of index along `dim`."""
    x, index, src = (w.aval(i) for i in range(3))
    at = [w.dense(i) for i in range(3)]
    dim, sizes = w.step.attrs["dim"] if x.shape else 0, index.shape or (1,)
    rows = [contiguous_strides(a.shape or (1,)) for a in (index, x, src)]
    w.table("ScatterDim", "dims", [array(values) for values in zip(sizes, *rows, strict=True)])
    free = [1 if d == dim else n for d, n in enumerate(sizes)]
    cut = _shared(free)
    extent = (x.shape or (1,))[dim]
    numbers = (len(sizes), dim, cut if hint(free[cut]) > 1 else -1, extent, x.numel)
    op = _reduction(x.dtype, w.step.attrs["reduce"])
    w.call(f"scatter<{op}>", "dims", *numbers, *at, w.out(), "arena", _where(w, dim, extent))


def index_add(w: Writer) -> None:
    """out = x, with slice i of src added to slice index[i] along `dim`."""
    x, n, dim = w.aval(0), w.aval(1).numel, w.step.attrs["dim"]
    outer, size, inner = around(x.shape, dim)
    at = [w.dense(i) for i in range(3)]
    kind = _name(w, x.dtype)
    wide = MEMORY[x.dtype.compute.name] if x.dtype is not dt.bool_ else kind
    room = f"({wide} *){w.take(x.numel * 4)}" if wide != kind else f"({wide} *)0"
    source, added, out = (f"({kind} *)({p})" for p in (at[0], at[2], w.out()))
    name = f"index_add<{_reduction(x.dtype, 'add')}, {wide}>"
    site = _where(w, dim, size)
    w.call(name, outer, size, n, inner, source, at[1], added, out, room, "arena", site)


def index_put(w: Writer) -> None:
    """out = x, with value written (or added) where advanced indexing along `dims` would read."""
    x, value, dims = w.aval(0), w.aval(1), w.step.attrs["dims"]
    source, values = w.dense(0), w.dense(1)
    steps = contiguous_strides(x.shape)
    picked = broadcast_shapes(*(w.aval(i).shape for i in range(2, 2 + len(dims))))
    rest = [d for d in range(x.ndim) if d not in dims]
    front = dims[0] if dims == tuple(range(dims[0], dims[0] + len(dims))) else 0
    value_steps = _aligned(value.shape, len(picked) + len(rest))
    inside = slice(front, front + len(picked))  # where the picked dimensions stand in the value
    count = numel(picked)
    for name in ("places", "from"):
        w.lines.append(f"i64 *{name} = (i64 *){w.take(8 * count)};")
    w.call("__builtin_memset", "places", 0, 8 * count)
    w.table("i64", "all", (*picked, *value_steps[inside]))
    w.call("spread_places", "from", "all", len(picked))
    checks = [_add_index(w, 2 + i, dim, picked, steps[dim]) for i, dim in enumerate(dims)]
    own = value_steps[: inside.start] + value_steps[inside.stop :]
    sizes = [x.shape[d] for d in rest]
    w.table("PutDim", "rest", map(array, zip(sizes, [steps[d] for d in rest], own, strict=True)))
    op = _reduction(x.dtype, "add" if w.step.attrs["accumulate"] else "set")
    w.lines.append(f"if ({' && '.join(checks)})")
    numbers = (len(rest), _shared(sizes), x.numel)
    name = f"index_put<{op}>"
    w.call(name, count, "places", "from", "rest", *numbers, source, values, w.out())


def _add_index(w: Writer, i: int, dim: int, picked: tuple[int, ...], step: int) -> str:
    """The call that adds index operand `i` to all places; false for an index out of range."""
    shape, size, table = w.aval(i).shape, w.aval(0).shape[dim], f"index{i}"
    pointer = w.dense(i)
    w.table("i64", table, (*picked, *_aligned(shape, len(picked))))
    numbers = ", ".join(map(any_text, (numel(shape), size, step, "arena", _where(w, dim, size))))
    return f"add_places(places, {table}, {len(picked)}, {pointer}, {numbers})"


def _aligned(shape: tuple[int, ...], ndim: int) -> tuple[int, ...]:
    """Strides of a contiguous `shape` broadcast to `ndim` dimensions: 0 where it repeats."""
    steps = contiguous_strides(shape)
    own: tuple[Any, ...] = tuple(0 if same(n, 1) else s for n, s in zip(shape, steps, strict=True))
    return (0,) * (ndim - len(shape)) + own
