"""Hand-written kernels that exercise what the stock interpreter gets wrong. Imported by test_interpreter and test_build."""

import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def pointwise(x_ptr, y_ptr, o_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = offs < n
    x = tl.load(x_ptr + offs, mask=m).to(tl.float32)
    y = tl.load(y_ptr + offs, mask=m).to(tl.float32)
    tl.store(o_ptr + offs, (tl.exp(x) * y + 1.0).to(o_ptr.dtype.element_ty), mask=m)


@triton.jit
def add_full_blocks(x_ptr, y_ptr, o_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    offs = pid * BLOCK + tl.arange(0, BLOCK)
    if (pid + 1) * BLOCK <= n:
        tl.store(o_ptr + offs, tl.load(x_ptr + offs) + tl.load(y_ptr + offs))
    else:
        m = offs < n
        tl.store(
            o_ptr + offs, tl.load(x_ptr + offs, mask=m) + tl.load(y_ptr + offs, mask=m), mask=m
        )


@triton.jit
def arithmetic_in_type(x_ptr, y_ptr, o_ptr, s_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    y = tl.load(y_ptr + offs)
    tl.store(o_ptr + offs, tl.where(x < y, tl.maximum(x + y, x * y), -x))
    tl.store(s_ptr, tl.max(x, axis=0))


@triton.jit
def dot(a_ptr, b_ptr, c_ptr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    i = tl.arange(0, BM)[:, None]
    j = tl.arange(0, BN)[None, :]
    k = tl.arange(0, BK)
    a = tl.load(a_ptr + i * BK + k[None, :])
    b = tl.load(b_ptr + k[:, None] * BN + j)
    tl.store(c_ptr + i * BN + j, tl.dot(a, b, input_precision="ieee"))


@triton.jit
def unmasked(x_ptr, o_ptr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o_ptr + offs, tl.load(x_ptr + offs))


@triton.jit
def nan_max(a, b):
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def reduce_by_function(x_ptr, o_ptr, R: tl.constexpr, C: tl.constexpr):
    p = tl.arange(0, R)[:, None] * C + tl.arange(0, C)[None, :]
    tl.store(o_ptr + tl.arange(0, R), tl.reduce(tl.load(x_ptr + p), 1, nan_max))


@triton.jit
def first_larger(av, ai, bv, bi):
    take = (av > bv) | ((av == bv) & (ai < bi))
    return tl.where(take, av, bv), tl.where(take, ai, bi)


@triton.jit
def argmax_by_function(x_ptr, v_ptr, i_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    v, i = tl.reduce((tl.load(x_ptr + offs), offs), 0, first_larger)
    tl.store(v_ptr, v)
    tl.store(i_ptr, i)


@triton.jit
def add(a, b):
    return a + b


@triton.jit
def scan_by_function(x_ptr, o_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    tl.store(o_ptr + offs, tl.associative_scan(tl.load(x_ptr + offs), 0, add))


@triton.jit
def argmax_rows(x_ptr, v_ptr, i_ptr, R: tl.constexpr, C: tl.constexpr):
    p = tl.arange(0, R)[:, None] * C + tl.arange(0, C)[None, :]
    v, i = tl.max(tl.load(x_ptr + p), axis=1, return_indices=True)
    tl.store(v_ptr + tl.arange(0, R), v)
    tl.store(i_ptr + tl.arange(0, R), i)


@triton.jit
def loop_over(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    acc = tl.zeros((BLOCK,), tl.float32)
    for i in range(0, n, BLOCK):
        offs = i + tl.arange(0, BLOCK)
        acc += tl.load(x_ptr + offs, mask=offs < n, other=0.0)
    tl.store(o_ptr, tl.sum(acc, 0))


@triton.jit
def integers(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n, other=0)
    tl.store(o_ptr + offs, tl.where(x > 0, x // 3 + (x % 5), -x), mask=offs < n)


@triton.jit
def special(x_ptr, o_ptr, which: tl.constexpr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    if which == "erf":
        y = libdevice.erf(x)
    elif which == "lgamma":
        y = libdevice.lgamma(x)
    else:
        y = libdevice.expm1(x)
    tl.store(o_ptr + offs, y)


@triton.jit
def scalars(o_ptr, f32, f64, i32, i64, flag, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    value = tl.where(flag, f64 + i64, f32.to(tl.float64))
    tl.store(o_ptr + offs, value + i32)


@triton.jit
def through_a_table(table_ptr, o_ptr, BLOCK: tl.constexpr):
    """Each program reads the address of its array from a table."""
    pid = tl.program_id(0)
    x_ptr = tl.load(table_ptr + pid).to(tl.pointer_type(tl.float32))
    offs = tl.arange(0, BLOCK)
    tl.store(o_ptr + pid * BLOCK + offs, tl.load(x_ptr + offs) * 2)


@triton.jit
def philox_words(o_ptr, seed, ordinal, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    zero = offs * 0
    lo = (ordinal & 0xFFFFFFFF).to(tl.uint32)
    hi = ((ordinal >> 32) & 0xFFFFFFFF).to(tl.uint32)
    a, b, c, d = tl.philox(
        seed,
        offs.to(tl.uint32),
        zero.to(tl.uint32),
        zero.to(tl.uint32) + lo,
        zero.to(tl.uint32) + hi,
    )
    tl.store(o_ptr + offs, a.to(tl.int64))


@triton.jit
def scalar_comparison(x_ptr, y_ptr, o_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    tl.store(o_ptr + offs, (x > 0.0) & (tl.load(y_ptr) > 0.0))
