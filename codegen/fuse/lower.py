"""First stage of codegen: op calls -> loop nests, one rule per KIND of op. Program -> Loops.

Each value becomes a function of its index. What is not a loop over scalar expressions (matrix
products, convolutions, sorts, scatters, callbacks into NumPy) becomes a `Step`, a library routine
over whole tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from codegen.fuse.chunk_rows import DOT_ADD
from codegen.fuse.elements import Elements, Operand, axes_of, element, number, operand, tensors
from codegen.fuse.pack_once import DOT_PACKED
from codegen.ir import affine, expr
from codegen.ir.affine import Affine
from codegen.ir.expr import BUILD, Expr
from codegen.ir.monoid import ARGMAX, ARGMIN, MAX, MIN, MONOIDS, SUM, Monoid
from codegen.ir.rewrite import Rewrite
from codegen.ir.schema import Call, Loops, Nest, Program, Step, Value
from codegen.ir.sizes import Size, at_least, blocks, extent, extents, hint, is_static, same, some
from eager.base import dtype as dt
from eager.base.dtype import DType
from eager.core.op import REGISTRY
from eager.ops.contract import DOT
from eager.ops.kinds import Pointwise
from eager.ops.pointwise import CAST, WHERE
from eager.sizes.aval import Aval, scalar_aval

Item = Nest | Step
MATRIX_PRODUCTS: Final = (DOT, DOT_ADD, DOT_PACKED)
BUILDERS: Final = {d.name: expr.Builder(d) for d in dt.ALL}
# Fewer results than FEW_ROWS, each of more than LONG_ROW elements, are reduced in parts.
FEW_ROWS: Final = 16
LONG_ROW: Final = 1 << 15
CHUNK: Final = 4096
SHORT_SUM: Final = (1 << 31) >> 8  # so many bytes add up to less than 2^31
SMALL_DOT: Final = 1 << 11  # multiply-adds: below this a library call costs more than the product
# A product of longer rows, in bytes, is none of tiles (MOST_DEEP of jitcap_brick.h).
MOST_DEEP: Final = 3072
TINY_SIDE: Final = 8  # rows, columns and depth of the matrices of a batch


class _Lower:
    """The items so far, and fresh values for intermediates that no op call names."""

    def __init__(self, program: Program, *, widen: bool) -> None:
        self.items: list[Item] = []
        self.op = ""  # the op of the call that is being lowered
        self.widen = widen
        self.ids = program.free_ids()
        self.calls = {v.id: call for call in program.calls for v in call.outs}
        self.users: dict[int, list[Call]] = {}
        for call in program.calls:
            for v in tensors(call):
                self.users.setdefault(v.id, []).append(call)
        self.kept = {v.id for v in (*program.outputs, *(v for _, v in program.writes))}

    def fresh(self, aval: Aval) -> Value:
        return Value(next(self.ids), aval)

    def nest(self, value: Value, body: Callable[..., Expr], where: str, **more: Any) -> Value:
        axes = axes_of(value.aval.shape)
        made = body(axes) if some(value.aval.numel) else expr.const(0, value.aval.dtype)
        self.items.append(Nest(value, axes, made, where=where, op=self.op, **more))
        return value

    def step(self, call: Call) -> None:
        self.items.append(Step(call))


MOST_PARTS: Final = 32  # operands of `cat`: a loop for each of more is more code than it is worth


def lower(program: Program, *, widen: bool = True) -> Loops:
    """Every call by the rule of its kind. Raises Unsupported for complex numbers.

    `widen`: the backend's products of 16-bit floats have float32 results, and its convolutions
    float32 operands; tiny products are loops."""
    state = _Lower(program, widen=widen)
    for call in program.calls:
        state.op = call.op.name
        if call.op.kind not in ("extern", "control") and _is_complex(call):
            _complex(state, call)
            continue
        if widen and _has_many_parts(call):
            state.step(call)
            continue
        RULES[call.op.kind](state, call)
    program = _own_outputs(state, program)
    return Loops(_checked(state, program), tuple(state.items))


def _is_complex(call: Call) -> bool:
    return any(v.aval.dtype.is_complex for v in (*call.outs, *tensors(call)))


def _complex(s: _Lower, call: Call) -> None:
    """A call on complex numbers: the real and the imaginary parts are taken apart and joined again
    where the op allows it (`by_parts`); the rest is a step."""
    moved = tensors(call)[:1] if call.op.kind == "index" else tensors(call)
    condition = call.operands[0] if call.op is WHERE else None
    kinds = {v.aval.dtype for v in (*moved, *call.outs) if v is not condition}
    cast = call.op is CAST and all(kind.is_complex for kind in kinds)
    if not cast and (not call.op.by_parts or len(call.outs) != 1 or len(kinds) != 1):
        s.step(call)
        return
    out = call.outs[0]
    dtype = dt.real_of(out.aval.dtype)
    halves = []
    for part in ("real", "imag"):
        half = s.fresh(Aval(out.aval.shape, dtype))
        operands = tuple(
            x if x is condition else _half(s, x, part, call.where) for x in call.operands
        )
        RULES[call.op.kind](s, replace(call, operands=operands, outs=(half,)))
        halves.append(half)
    s.step(Call(REGISTRY["complex"], tuple(halves), {}, (out,), call.where))


def _half(s: _Lower, x: Value | complex, part: str, where: str) -> Value | complex:
    """The real or the imaginary part of an operand; an index is what it is."""
    if not isinstance(x, Value):
        return complex(x).real if part == "real" else complex(x).imag
    if not x.aval.dtype.is_complex:
        return x
    half = s.fresh(Aval(x.aval.shape, dt.real_of(x.aval.dtype)))
    s.step(Call(REGISTRY[part], (x,), {}, (half,), where))
    return half


def _checked(s: _Lower, program: Program) -> Program:
    """Each check as a number of its own, which is 1 or makes the run fail."""
    s.op = "check"
    checks = []
    for check in program.checks:
        own = s.fresh(Aval((), dt.int64))
        truth = expr.cast(expr.read(check.value.id, (), check.value.aval.dtype), dt.int64)
        place = check.where.rpartition("|")[2]
        s.nest(own, lambda _, x=truth, c=check: expr.checked(x, 1, 1, c.where), place)
        checks.append(replace(check, value=own))
    return replace(program, checks=tuple(checks))


def _has_many_parts(call: Call) -> bool:
    """True if the call has so many operands that a loop for each is more code than it is worth:
    NumPy copies them."""
    return call.op.kind == "move" and len(call.operands) > MOST_PARTS


def _own_outputs(state: _Lower, program: Program) -> Program:
    """Each output and each written value gets memory of its own: an input, a duplicate or a written
    value that is returned is copied."""
    inputs = {v.id for v in program.inputs}
    taken = inputs | {v.id for _, v in program.writes}
    outputs = []
    for v in program.outputs:
        own = _copied(state, v) if v.id in taken else v
        taken.add(own.id)
        outputs.append(own)
    writes: list[tuple[Value, Value]] = []
    taken = inputs.copy()
    for target, v in program.writes:
        writes.append((target, _copied(state, v) if v.id in taken else v))
        taken.add(v.id)
    return replace(program, outputs=tuple(outputs), writes=tuple(writes))


def _copied(state: _Lower, v: Value) -> Value:
    copy = state.fresh(v.aval)
    if v.aval.dtype.is_complex:
        state.step(Call(REGISTRY["clone"], (v,), {}, (copy,)))
        return copy
    return state.nest(copy, lambda axes: expr.read(v.id, axes, v.aval.dtype), "")


# ---------------------------------------------------------------------------------- pointwise


def _pointwise(s: _Lower, call: Call) -> None:
    op, out = call.op, call.outs[0]
    assert isinstance(op, Pointwise)
    avals = tuple(v.aval if isinstance(v, Value) else scalar_aval(v) for v in call.operands)
    narrow = op.common(avals)
    common = narrow.compute

    def argument(i: int, x: Any, axes: tuple[Affine, ...]) -> Expr:
        if i < op.mask:
            return operand(x, axes, dt.bool_)
        return expr.cast(operand(x, axes, op.narrow(narrow, avals[i])), common)

    def body(axes: tuple[Affine, ...]) -> Expr:
        args = [argument(i, x, axes) for i, x in enumerate(call.operands)]
        result = op.body(BUILDERS[common.name], *args)
        if not isinstance(result, Expr):
            result = number(result, common)
        return expr.cast(result, out.aval.dtype)

    s.nest(out, body, call.where)


def _copy(s: _Lower, call: Call) -> None:
    x, out = call.operands[0], call.outs[0]
    view = call.op.kind == "copy"
    s.nest(out, lambda axes: operand(x, axes, out.aval.dtype), call.where, view=view)


# ---------------------------------------------------------------------------------- reductions


def _reduce(s: _Lower, call: Call) -> None:
    x, out = call.operands[0], call.outs[0]
    assert isinstance(x, Value)
    dims, keepdim = call.attrs["dim"], call.attrs["keepdim"]
    monoid = MONOIDS[call.op.monoid]  # type: ignore[attr-defined]
    if call.op.kind == "argreduce":
        dims = tuple(range(x.aval.ndim)) if dims is None else (dims,)
        monoid = MONOIDS[f"arg{monoid.name}"]
    reduce_nest(s, x, out, tuple(dims), monoid, keepdim=keepdim, where=call.where)


def reduce_nest(
    s: _Lower,
    x: Value,
    out: Value,
    dims: tuple[int, ...],
    monoid: Monoid,
    *,
    keepdim: bool,
    where: str,
) -> None:
    """out = x reduced over `dims`; large reductions to few values go through fixed partial
    results."""
    shape = x.aval.shape
    if not all(map(some, shape)):
        dtype = out.aval.dtype
        s.nest(out, lambda _: expr.const(monoid.unit(dtype), dtype), where)
        return
    axes = axes_of(out.aval.shape)
    over = tuple(affine.axis(f"k{d}", shape[d]) for d in dims)
    inner = iter(axes)
    index: list[Affine] = []
    for d in range(len(shape)):
        if d in dims:
            index.append(over[dims.index(d)])
            if keepdim:
                next(inner)
        else:
            index.append(next(inner))
    length = extent(over)
    wide = accumulator(monoid, x.aval.dtype, out.aval.dtype, length)
    body = expr.cast(element(x, tuple(index)), wide)
    _append_reduction(s, Nest(out, axes, body, monoid, over, where=where, op=s.op), wide)


def _append_reduction(s: _Lower, nest: Nest, wide: DType) -> None:
    """`nest`, which reduces in `wide`; few long rows through partial results."""
    assert nest.monoid is not None
    few = hint(nest.value.aval.numel) <= FEW_ROWS
    if nest.monoid.of is None and few and hint(extent(nest.over)) >= LONG_ROW:
        body, over = _partial(s, nest, wide)
        nest = replace(nest, body=body, over=over)
    s.items.append(nest)


def _partial(s: _Lower, whole: Nest, wide: DType) -> tuple[Expr, tuple[Affine, ...]]:
    """(body, loops) of `whole` over results of parts of about CHUNK elements, which are computed in
    parallel. The parts depend on the sizes only, so the sum does not depend on the threads."""
    sizes, length = extents(whole.over), extent(whole.over)
    chunk = _chunk(sizes)
    count = blocks(length, chunk)
    part, inner = affine.axis("p0", count), affine.axis("q0", chunk)
    flat = part * chunk + inner
    by = affine.axes_by(whole.over, affine.unravel(flat, sizes))
    body = Rewrite(by)(whole.body)
    if not same(count * chunk, length):
        assert whole.monoid is not None
        rest = expr.const(whole.monoid.unit(wide), wide)
        body = expr.select(BUILD.lt(expr.index_of(flat), length), body, rest)
    shape = (*whole.value.aval.shape, count)
    value = s.fresh(Aval(shape, wide))
    axes = (*whole.axes, part)
    s.items.append(Nest(value, axes, body, whole.monoid, (inner,), where=whole.where, op=s.op))
    return element(value, (*whole.axes, part)), (part,)


def _chunk(sizes: Sequence[Size]) -> int:
    """Number of elements of a chunk of such loops: whole inner loops where that is about CHUNK, so
    that what is indexed by outer ones needs no quotients; else a divisor of their number."""
    if not is_static(sizes):
        return CHUNK
    inner = 1
    for n in reversed(sizes):
        few, most = blocks(CHUNK, inner), blocks(4 * CHUNK, inner)
        found = next((d for d in range(few, min(n + 1, most)) if n % d == 0), None)
        if found is not None:
            return int(inner * found)
        inner *= n
    return next((c for c in range(CHUNK, 4 * CHUNK) if inner % c == 0), CHUNK)


def accumulator(monoid: Monoid, x: DType, out: DType, length: Size) -> DType:
    """The type a reduction over `length` elements runs in. Truth as a mask has no order: its place
    is found among ints; and its sum, like that of bytes, is counted in 32 bits where it fits."""
    if x is dt.bool_ and monoid.of is not None:
        return dt.uint8
    small = x.itemsize == 1 and out is dt.int64 and at_least(SHORT_SUM, length)
    if small and monoid is SUM:
        return dt.int32
    return x.compute if monoid in (MAX, MIN, ARGMAX, ARGMIN) else out.compute


# ---------------------------------------------------------------------------------- views and moves


def _view(s: _Lower, call: Call) -> None:
    x, out, op = call.operands[0], call.outs[0], call.op
    assert isinstance(x, Value)

    def body(axes: tuple[Affine, ...]) -> Expr:
        source = op.source(axes, x.aval.shape, call.attrs)  # type: ignore[attr-defined]
        return element(x, tuple(i if isinstance(i, Affine) else affine.constant(i) for i in source))

    s.nest(out, body, call.where, view=True)


def _elements(s: _Lower, call: Call) -> None:
    """An op whose record says what each element is; the others are routines, like the reading of a
    tensor that has no dimension, or nothing."""
    out, rule = call.outs[0], call.op.element  # type: ignore[attr-defined]
    x = tensors(call)[0].aval if call.op.kind == "index" else None
    if rule is None or (x is not None and not (x.ndim and some(x.numel))):
        s.step(call)
        return
    m, xs = Elements(call), tuple(Operand(x, out.aval.dtype) for x in call.operands)
    s.nest(
        out,
        lambda axes: expr.cast(rule(m, axes, xs, call.attrs), out.aval.dtype),
        call.where,
    )


# ---------------------------------------------------------------------------------- the rest


def _contract(s: _Lower, call: Call) -> None:
    """Products in the computing type: a matrix product takes operands of 16 bits, also such as the
    program has widened; those of others are widened once. The result is rounded once, by the
    product itself where it has all sums of an element at once."""
    out = call.outs[0]
    wide = out.aval.dtype.compute
    if call.op is DOT and (_is_small(call) or (s.widen and (_is_vector(call) or _is_tiny(call)))):
        _loop_dot(s, call)
        return
    if wide.category != dt.FLOAT or not some(out.aval.numel):
        s.step(call)
        return
    if not s.widen:
        s.step(call)
        return
    given, at = tensors(call), int(call.op is DOT_ADD)  # the matrices, behind a sum
    pair = _narrow_operands(s, given[at : at + 2]) if call.op in MATRIX_PRODUCTS else None
    rounds = pair is not None and call.op is DOT and not is_deep(pair[0].aval)
    operands = tuple(_widened(s, v, wide, call.where) for v in given)
    if pair is not None:  # panels are of these, too
        operands = (*given[:at], *pair, *given[at + 2 :])
    stored = _rounded_to(s, out) if rounds else wide
    target = out if out.aval.dtype is stored else s.fresh(Aval(out.aval.shape, stored))
    s.step(Call(call.op, operands, call.attrs, (target,), call.where))
    if target is not out:
        s.nest(out, lambda axes: operand(target, axes, out.aval.dtype), call.where)


def is_deep(a: Aval) -> bool:
    """True if a product of the matrices `a` is too deep to be made in tiles."""
    size = 2 if a.dtype is dt.bfloat16 else a.dtype.compute.itemsize  # pairs are an element of 4
    return hint(a.shape[-1]) * size > MOST_DEEP


def _rounded_to(s: _Lower, v: Value) -> DType:
    """The type of 16 bits that is all that is ever seen of `v`, if there is one; else its own."""
    if v.id in s.kept or v.aval.dtype.itemsize == 2:
        return v.aval.dtype
    users, found = s.users.get(v.id, ()), set()
    for call in users:
        is_view = call.op.kind == "view"
        found.add(_rounded_to(s, call.outs[0]) if is_view else call.outs[0].aval.dtype)
        if not is_view and call.op.kind != "cast":
            return v.aval.dtype
    (kind, *others) = found or {v.aval.dtype}
    return v.aval.dtype if others or kind not in (dt.float16, dt.bfloat16) else kind


def _narrow_operands(s: _Lower, pair: Sequence[Value]) -> tuple[Value, ...] | None:
    """The operands of a product as values of 16 bits, if both have the same type of these: the sum
    of their products is in float32 all the same, and half as much memory is read."""
    found = [_narrow(s, v) for v in pair]
    kinds = {v and v.aval.dtype for v in found}
    if None in kinds or len(kinds) > 1:
        return None
    return tuple(_moved(s, v) for v in pair)


def _narrow(s: _Lower, v: Value) -> Value | None:
    """The value of 16 bits that `v` is a view of, widened to float32."""
    if v.aval.dtype in (dt.float16, dt.bfloat16):
        return v
    call = s.calls.get(v.id)
    if call is None or v.aval.dtype is not dt.float32 or call.op.kind not in ("cast", "view"):
        return None
    source = call.operands[0]
    return _narrow(s, source) if isinstance(source, Value) else None


def _moved(s: _Lower, v: Value) -> Value:
    """`v` before it was widened, seen as `v` sees it."""
    if v.aval.dtype in (dt.float16, dt.bfloat16):
        return v
    call = s.calls[v.id]
    source = call.operands[0]
    assert isinstance(source, Value)
    x = _moved(s, source)
    if call.op.kind == "cast":
        return x
    out = s.fresh(replace(v.aval, dtype=x.aval.dtype))
    _view(s, replace(call, operands=(x, *call.operands[1:]), outs=(out,)))
    return out


def _widened(s: _Lower, v: Value, wide: DType, where: str) -> Value:
    if v.aval.dtype is wide:
        return v
    return s.nest(s.fresh(Aval(v.aval.shape, wide)), lambda axes: operand(v, axes, wide), where)


def _is_small(call: Call) -> bool:
    a, _ = tensors(call)
    out = call.outs[0].aval
    return out.dtype is not dt.bool_ and (
        out.dtype.category == dt.INT or hint(out.numel * a.aval.shape[-1]) <= SMALL_DOT
    )


def _is_tiny(call: Call) -> bool:
    """True if a call of a routine for each matrix of a batch costs more than its product."""
    a, b = tensors(call)
    return max(map(hint, (*a.aval.shape[-2:], b.aval.shape[-1]))) <= TINY_SIDE


def _is_vector(call: Call) -> bool:
    """True if a side of the product is 1: every element of the matrix is read once, so a loop at
    the speed of memory (shared among threads, fused with its neighbours) is all there is to
    gain."""
    a, b = tensors(call)
    out = call.outs[0].aval
    sides = (*a.aval.shape[-2:], b.aval.shape[-1])
    return out.dtype.compute.category == dt.FLOAT and any(same(n, 1) for n in sides)


def _loop_dot(s: _Lower, call: Call) -> None:
    (a, b), out = tensors(call), call.outs[0]
    depth = a.aval.shape[-1]
    axes = axes_of(out.aval.shape)
    if not some(depth) or not some(out.aval.numel):
        s.nest(out, lambda _: expr.const(0, out.aval.dtype), call.where)
        return
    *batch, m, n = axes
    k = affine.axis("k0", depth)
    wide = out.aval.dtype.compute
    x = expr.cast(element(a, (*batch, m, k)), wide)
    y = expr.cast(element(b, (*batch, k, n)), wide)
    _append_reduction(s, Nest(out, axes, x * y, SUM, (k,), where=call.where, op=s.op), wide)


def _random(s: _Lower, call: Call) -> None:
    out = call.outs[0]
    fn = f"random_{call.attrs['dist']}"
    seed, ordinal = (operand(v, (), dt.int64) for v in call.operands)

    def body(axes: tuple[Affine, ...]) -> Expr:
        at = affine.ravel(axes, out.aval.shape)
        if "first" in call.attrs:  # a part of what is drawn
            at = axes[0] * call.attrs["stride"] + axes[1] + call.attrs["first"]
        flat = expr.index_of(at)
        return expr.random(fn, seed, ordinal, flat, out.aval.dtype)

    s.nest(out, body, call.where)


def _routine(s: _Lower, call: Call) -> None:
    s.step(call)


RULES: Final[dict[str, Callable[[_Lower, Call], None]]] = {
    "pointwise": _pointwise,
    "cast": _copy,
    "copy": _copy,
    "reduce": _reduce,
    "argreduce": _reduce,
    "view": _view,
    "move": _elements,
    "create": _elements,
    "index": _elements,
    "contract": _contract,
    "window": _routine,
    "random": _random,
    "scan": _routine,
    "sort": _routine,
    "extern": _routine,
    "dynamic": _routine,
    "control": _routine,
}
