"""Whole fused kernels and whole training steps: interpreted against eager, compiled for sm_90, number of kernels, machine code."""

import functools

import numpy as np
import pytest

pytest.importorskip("triton.language")

import triton_helpers as helpers
from triton_machine_code import instruction_counts, usage
from triton_races import watching

import eager
from codegen.op_kernels import compile_op
from codegen.targets.triton.runtime.build import DEFAULT_TARGET
from codegen.targets.triton.tile import DEFAULT, Sizes
from eager.core.dispatch import apply
from eager.core.op import REGISTRY
from eager.core.tensor import Tensor
from eager.device.plan import Operand
from eager.nn import functional as F
from eager.sizes.aval import Aval

rng = np.random.default_rng(0)
TINY = Sizes(flat=16, tile=64, longest=16, loop=8, plane=8, column=4, programs=64)


def floats(*shape):
    return eager.tensor(rng.standard_normal(shape).astype(np.float32))


def labels(n, classes):
    return eager.tensor(rng.integers(0, classes, n))


def leaf(x):
    return x.detach().requires_grad_()


def softmax(x):
    return F.softmax(x, -1)


def layer_norm(x, w, b):
    return F.layer_norm(x, x.shape[-1:], w, b)


def layer_norm_backward(x, w, b, g):
    x, w, b = leaf(x), leaf(w), leaf(b)
    return eager.autograd.grad(layer_norm(x, w, b), (x, w, b), g)


def cross_entropy(x, target):
    x = leaf(x)
    loss = F.cross_entropy(x, target)
    return (loss, *eager.autograd.grad(loss, (x,)))


def adamw(lr, step, *state):
    """torch.optim.AdamW's update of parameters, gradients and two moments, in place."""
    for p, g, m, v in zip(*[iter(state)] * 4, strict=True):
        p.mul_(1 - lr * 0.01)
        m.mul_(0.9).add_(g, alpha=0.1)
        v.mul_(0.999).add_(g * g * 0.001)
        p.sub_(lr / (1 - 0.9**step) * m / ((v / (1 - 0.999**step)).sqrt() + 1e-8))
    return ()


def dropout(x):
    """Draw number 7 of the generator seeded with 3, as eager's dropout uses it."""
    draws = apply(REGISTRY["random"], 3, 7, shape=x.shape, dtype=eager.float32, dist="uniform")
    return x * (draws >= 0.25) / 0.75 + 1


def mlp_step(x, target, *weights):
    """Forward, backward and a gradient step, in place."""
    w1, b1, w2, b2 = map(leaf, weights)
    loss = F.cross_entropy(F.linear(F.gelu(F.linear(x, w1, b1)), w2, b2), target)
    for w, g in zip((w1, b1, w2, b2), eager.autograd.grad(loss, (w1, b1, w2, b2)), strict=True):
        w.detach().sub_(g, alpha=0.1)
    return (loss,)


def matmul16(a, b):
    """16-bit operands go to the tensor cores as they are."""
    return F.relu(a.to(eager.bfloat16) @ b.to(eager.bfloat16))


def overwrite_factor(w, x):
    """The product's kernel must not write the factor that its other tiles still read."""
    w.sub_((w @ x) * 0.1)
    return ()


def attention(q, k, v):
    return F.softmax(q @ k.transpose(-1, -2) * 0.125, -1) @ v


def embedding_backward(table, tokens):
    table = leaf(table)
    return eager.autograd.grad((F.embedding(tokens, table) ** 2).sum(), (table,))


def convolution_step(x, w, g):
    x, w = leaf(x), leaf(w)
    return eager.autograd.grad(F.relu(F.conv2d(x, w, padding=1)), (x, w), g)


def moments(*shapes):
    """For each parameter: value, gradient, two moments (the second positive)."""
    return [t for s in shapes for t in (floats(*s), floats(*s), floats(*s), floats(*s).abs())]


# name: (function, arguments, launches at most)
CASES = {
    "softmax": (softmax, lambda: (floats(37, 100),), 1),
    "softmax_long": (softmax, lambda: (floats(3, 9000),), None),
    "softmax_down": (lambda x: F.softmax(x, 0), lambda: (floats(50, 70),), 1),
    "layer_norm": (layer_norm, lambda: (floats(50, 96), floats(96), floats(96)), 1),
    "layer_norm_backward": (
        layer_norm_backward,
        lambda: (floats(20, 96), floats(96), floats(96), floats(20, 96)),
        None,
    ),
    "cross_entropy": (cross_entropy, lambda: (floats(33, 10), labels(33, 10)), 3),
    "adamw": (adamw, lambda: (0.01, 3, *moments((5, 7), (100,), (64, 64), (3,))), 1),
    "dropout": (dropout, lambda: (floats(1000),), 1),
    "gelu_tail": (F.gelu, lambda: (floats(3003),), 1),
    "sum_of_all": (lambda x: (x.sum(), (x * x).mean(0)), lambda: (floats(300, 70),), None),
    "argmax_of_all": (lambda x: (x.argmax(), x.argmin(0)), lambda: (floats(200, 90),), None),
    "transpose": (lambda x: x.t() * 2, lambda: (floats(100, 300),), 1),
    "mlp_step": (
        mlp_step,
        lambda: (
            floats(33, 20),
            labels(33, 10),
            floats(64, 20),
            floats(64),
            floats(10, 64),
            floats(10),
        ),
        None,
    ),
    "attention": (
        attention,
        lambda: (floats(2, 3, 40, 64), floats(2, 3, 40, 64), floats(2, 3, 40, 64)),
        3,
    ),
    "matmul16": (matmul16, lambda: (floats(40, 70), floats(70, 50)), None),
    "linear_gelu": (
        lambda x, w, b: F.gelu(F.linear(x, w, b)),
        lambda: (floats(2, 33, 20), floats(50, 20), floats(50)),
        1,
    ),
    "product_of_itself": (overwrite_factor, lambda: (floats(70, 70), floats(70, 70)), 2),
    "embedding_backward": (embedding_backward, lambda: (floats(20, 8), labels(30, 20)), None),
    "convolution_step": (
        convolution_step,
        lambda: (floats(2, 3, 5, 6), floats(4, 3, 3, 3), floats(2, 4, 5, 6)),
        None,
    ),
}


def copied(values):
    return tuple(eager.tensor(v.numpy().copy()) if isinstance(v, Tensor) else v for v in values)


def arrays(values):
    return [v.detach().numpy() for v in values if isinstance(v, Tensor)]


@pytest.mark.parametrize("sizes", [DEFAULT, TINY], ids=["default", "tiny"])
@pytest.mark.parametrize("name", CASES)
def test_interpreted(name, sizes, record_property):
    """Results and arguments written in place are eager's."""
    fn, make, launches = CASES[name]
    args = make()
    if sizes is TINY and max(a.size for a in arrays(args)) > 5000:
        pytest.skip("thousands of tiny programs take minutes; the small cases cover the same paths")
    plain, compiled = copied(args), copied(args)
    expected = [t.detach().numpy() for t in helpers.leaves(fn(*plain))] + arrays(plain)
    got, program = helpers.run(fn, compiled, sizes=sizes)
    for g, e in zip([*got, *arrays(compiled)], expected, strict=True):
        assert g.dtype == e.dtype
        assert g.shape == e.shape
        rtol = 1e-2 if e.dtype.itemsize == 2 else 2e-5
        np.testing.assert_allclose(g.astype(np.float64), e.astype(np.float64), rtol=rtol, atol=2e-5)
    if sizes is DEFAULT:
        record_property("fused", 1)
        assert launches is None or len(program.launches) <= launches, program.source


@functools.cache
def compiled_case(name):
    """(source, record and machine code by kernel): several tests look at them."""
    fn, make, _ = CASES[name]
    program, _ = helpers.program_of(fn, make())
    return program.source, helpers.compile_program(program)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_compiles_without_spills(name, record_property):
    _, compiled = compiled_case(name)
    for kernel, (_, cubin) in compiled.items():
        used = usage(cubin)
        assert used.local == 0, kernel
        assert used.stack <= 32, kernel  # a call, as of a 64-bit division, takes a few bytes
    record_property("compiled", len(compiled))


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["softmax", "layer_norm", "adamw", "dropout", "gelu_tail", "transpose"]
)
def test_memory_is_moved_16_bytes_at_a_time(name):
    """Also where the size is no multiple of the block: full blocks run unmasked."""
    source, compiled = compiled_case(name)
    for _, cubin in compiled.values():
        counts = instruction_counts(cubin)
        assert counts["store128"] > 0, source
        assert counts["load128"] > 0 or name == "transpose", source


@pytest.mark.slow
def test_16_bit_products_use_the_tensor_cores():
    program, _ = helpers.program_of(matmul16, (floats(256, 128), floats(128, 256)))
    compiled = helpers.compile_program(program)
    assert any(instruction_counts(cubin)["matrix"] for _, cubin in compiled.values())


def test_the_same_draws_as_eager():
    """Masks are equal bit by bit, whatever is fused around them."""
    x = floats(5000)
    got, _ = helpers.run(dropout, (x,))
    np.testing.assert_array_equal(got[0], dropout(x).numpy())


def test_an_index_out_of_bounds_raises_and_names_its_line():
    table, tokens = floats(5, 4), eager.tensor([0, 5])
    with pytest.raises(
        IndexError, match=r"out of bounds for dimension 0 with size 5 \(.*test_kernels.py:\d+\)"
    ):
        helpers.run(lambda t, i: t[i] * 2, (table, tokens))


def test_equal_kernels_are_emitted_once():
    program, _ = helpers.program_of(
        lambda x: F.softmax(F.softmax(x, -1).t().contiguous().t() * 1.0, -1), (floats(40, 40),)
    )
    assert len(program.kernels) <= len(program.launches)


def test_a_length_that_comes_again_behind_another():
    """Its positions are its own, not those of the wider tile in between."""

    def fn(x, y):
        top = x.amax(1, keepdim=True)
        return (x * (y * top).sum(1, keepdim=True)).argmax(1)

    args = floats(30, 5), floats(30, 300)
    got, program = helpers.run(fn, args)
    assert len(program.launches) == 1
    np.testing.assert_array_equal(got[0], fn(*args).numpy())


def test_empty_and_scalar_tensors():
    for args in ((floats(0, 3),), (floats(),)):
        got, _ = helpers.run(lambda x: (x * 2 + 1, x.sum()), args)
        np.testing.assert_allclose(got[0], args[0].numpy() * 2 + 1)
        np.testing.assert_allclose(got[1], args[0].numpy().sum())


def test_large_index_spaces_count_in_64_bits():
    """Nothing this large is run: the text must widen its counters."""
    x = eager.zeros(1, 1).expand(2**16, 2**16)
    program, _ = helpers.program_of(lambda x: (x + 1, x.cumsum(0)), (x,))
    assert program.source.count("tl.program_id(0).to(tl.int64)") == 2
    assert "start + tl.arange(0, 2048).to(tl.int64)" in program.source
    tall = Aval((2**27, 32), eager.float32, "cuda:0")  # columns that lie 2**27 apart, as of x.t()
    sides = Operand(tall, (1, 2**27)), Operand(Aval((32, 16), eager.float32, "cuda:0"), (16, 1))
    (step,) = compile_op(
        REGISTRY["dot"], sides, {}, [Aval((2**27, 16), eager.float32, "cuda:0")]
    ).steps
    assert "k = tl.arange(0, 32).to(tl.int64)" in step.kernel.source


def every(x):
    return x[:, None].expand(2**16, 2**16).reshape(-1)[:: 3 * 2**16 + 3] * 2


def ramp_on_a_product(x):
    y = x[:1600].reshape(40, 40)
    return y @ y + eager.arange(0, 40 * 300_000_000, 300_000_000)


@pytest.mark.parametrize("fn", [every, ramp_on_a_product])
def test_indices_on_the_way_may_need_64_bits(fn):
    """What is divided may be larger than what is left; what is added to a product is no address."""
    x = eager.arange(2**16, dtype=eager.float32) / 2**16
    expected = fn(x) if fn is ramp_on_a_product else x[np.arange(21846) * (3 * 2**16 + 3) >> 16] * 2
    got, _ = helpers.run(fn, (x,))
    np.testing.assert_allclose(got[0], expected.numpy(), rtol=1e-5)


def test_a_transposition_beyond_32_bits():
    n = 2**16
    aval = Aval((n, n), eager.int8, "cuda:0")
    turned, target = Operand(aval, (1, n)), Operand(aval, (n, 1))
    (step,) = compile_op(REGISTRY["clone"], [turned], {}, [aval], target).steps
    assert "pid_c = (tl.program_id(0) % 2048).to(tl.int64)" in step.kernel.source
    step.kernel.compiled(DEFAULT_TARGET)


def test_a_last_block_ends_within_32_bits():
    """Counters of the last block reach beyond what is computed, and must not wrap around there."""
    for n in (2**31 - 2**15, 2**31 - 2):
        program, _ = helpers.program_of(lambda x: x + 1, (eager.zeros(1).expand(n),))
        assert (".to(tl.int64)" in program.source) == (n > 2**31 - 2**14)


def rescaled(x, s):
    """A scale of each row is replaced by what the row gave: all warps of a row read the old one."""
    y = F.softmax(x, -1)
    z = y * s
    s.copy_(y.amax(-1, keepdim=True))
    return z


def moved_on(*pairs):
    """Differences in 16 bits: a thread reads 8 neighbours for them, and stores 4 of 32 bits."""
    out = []
    for h, x in zip(pairs[::2], pairs[1::2], strict=True):
        out.append((h - x).half())
        h.copy_(x)
    return tuple(out)


IN_PLACE = {
    "one for each row": (rescaled, (64, 100), (64, 1)),
    "one for each block": (rescaled, (300, 5000), (300, 1)),
    "one for the tile": (rescaled, (1, 3000), (1, 1)),
    "after a loop": (rescaled, (300, 9000), (300, 1)),
    "elements of other threads": (moved_on, (5000,), (5000,)),
    "the same of a group": (moved_on, (100, 5), (100, 5), (300,), (300,)),
}


@pytest.mark.parametrize("name", IN_PLACE)
def test_a_store_does_not_overtake_the_reads_of_what_it_replaces(name):
    """Warps run at their own pace: where one may store what another has still to read, all wait."""
    fn, *shapes = IN_PLACE[name]
    program, _ = helpers.program_of(fn, [floats(*shape) for shape in shapes])
    (text,) = [k.source for k in program.kernels.values() if "tl.debug_barrier()" in k.source]
    *_, reads, stores = text.split("tl.debug_barrier()")
    assert "tl.load" in reads.rsplit("\n    else:", 1)[-1], text
    assert "tl.store" in stores and "tl.load" not in stores, text


@pytest.mark.parametrize("sizes", [DEFAULT, TINY], ids=["default", "tiny"])
@pytest.mark.parametrize("name", ["one for each row", "one for the tile", "adamw", "batch_norm"])
def test_what_hardware_does_not_order_does_not_matter(name, sizes, monkeypatch):
    made = {"adamw": (adamw, 0.1, 3), "batch_norm": (batch_norm,)}
    if name in IN_PLACE:
        fn, *shapes = IN_PLACE[name]
        args = [floats(*shape) for shape in shapes]
    else:
        fn, *numbers = made[name]
        args = [*numbers, *(floats(20) for _ in range(4))]
    with watching(monkeypatch) as watch:
        helpers.run(fn, args, sizes=sizes)
    assert watch.kernel is not None
    assert not watch.found


def batch_norm(w, b, mean, var):
    x = (w[:, None] * b).reshape(4, 20, 5)
    return F.batch_norm(x, mean, var, w, b, training=True) + mean[:, None]


def test_updates_of_elements_do_not_wait():
    """The thread that read an element stores it."""
    state = [floats(100, 20) for _ in range(8)]
    for fn, args in ((adamw, (0.1, 3, *state)), (lambda x: x.copy_(F.gelu(x)), state[:1])):
        program, _ = helpers.program_of(fn, args)
        assert "debug_barrier" not in program.source


def test_of_many_parts_each_has_few_conditions():
    """So the text grows with the parts, not with their square."""
    parts = [floats(3) for _ in range(200)]
    program, _ = helpers.program_of(lambda *xs: eager.cat(xs), parts)
    assert program.source.count("tl.load(") == 200
    assert max(line.count("&") for line in program.source.splitlines()) <= 8
    got, _ = helpers.run(lambda *xs: eager.cat(xs), parts[:9])
    np.testing.assert_array_equal(got[0], np.concatenate([x.numpy() for x in parts[:9]]))
