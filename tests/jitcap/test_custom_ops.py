"""`custom_op`: what it takes and gives, plainly and compiled; what it refuses."""

import numpy as np
import pytest

import eager
from jitcap import custom_op, jit


@custom_op("tests::scaled")
def scaled(xs, weights, shift=0.0, *, mode="mul"):
    """Sum of products."""
    assert mode in ("mul", "div")
    pairs = zip(xs, weights, strict=True)
    return sum(x * w if mode == "mul" else x / w for x, w in pairs) + shift


def _keep(ctx, inputs, output):
    ctx.xs, ctx.weights, ctx.shift, ctx.mode = inputs


def _back(ctx, g):
    assert ctx.needs_input_grad == (True, True, False, False)
    if ctx.mode == "mul":
        return [g * w for w in ctx.weights], [(g * x).sum() for x in ctx.xs], None, None
    return [g / w for w in ctx.weights], [-(g * x / w**2).sum() for x, w in _pairs(ctx)], None, None


def _pairs(ctx):
    return zip(ctx.xs, ctx.weights, strict=True)


scaled.register_autograd(_back, setup_context=_keep)


@custom_op("tests::largest")
def largest(x, k: int) -> tuple[eager.Tensor, eager.Tensor]:
    return x.topk(k)


@custom_op("tests::count", mutates_args="total")
def count(total, x) -> None:
    total.add_(x.sum())


@custom_op("tests::tenfold", mutates_args="total")
def tenfold(total, x):
    total.add_(1)
    return x * 10


tenfold.register_autograd(lambda ctx, g: (None, g * 10))


def program(a, b, w, n, total):
    y = scaled([a, b], (w, 2.0), n) + scaled([b, a], (2.0, w), mode="div")
    values, places = largest(y.detach(), 2)
    count(total, y.detach())
    inner = y.detach() * 0
    count(inner, y.detach())
    loss = tenfold(total, y).square().sum() + values.sum()
    loss.backward()
    return loss, places, inner


@pytest.mark.parametrize("backend", ["cpp", "python", "eager"])
def test_arguments_results_and_gradients(backend):
    found = []
    for fn in (program, jit(program, fullgraph=True, backend=backend)):
        eager.manual_seed(0)
        a = eager.randn(4, requires_grad=True)
        b, w = eager.randn(4), eager.tensor(1.5, requires_grad=True)
        total = eager.tensor(1.0)
        for n in (0.5, 1.5):
            results = fn(a, b, w, n, total)
        found.append([t.tolist() for t in (*results, a.grad, w.grad, total)])
    for plain, compiled in zip(*found, strict=True):
        np.testing.assert_allclose(compiled, plain, rtol=1e-5)
    assert fn.stats.compiles == 2  # `.grad` is there at the second call
    assert fn.stats.discards == 0


def test_ints_are_part_of_the_program_without_a_fake():
    step = jit(lambda x, k: largest(x * 1, k)[0], fullgraph=True)
    for k in (1, 3):
        assert step(eager.arange(5.0), k).tolist() == [4.0, 3.0, 2.0][:k]
    assert scaled.__name__ == "scaled"
    assert scaled.__doc__ == "Sum of products."


def test_with_a_fake_sizes_and_ints_vary():
    calls = []

    @custom_op("tests::shifted")
    def shifted(x, n):
        calls.append(n)
        return x + n

    shifted.register_fake(lambda x, n: eager.empty_like(x))
    step = jit(lambda x, n: shifted(x * 2, n), fullgraph=True, dynamic=True)
    for size, n in ((3, 1), (4, 2), (5, 3)):
        assert step(eager.ones(size), n).tolist() == [2.0 + n] * size
    assert step.stats.compiles == 2
    assert calls == [1, 2, 3]


X = eager.arange(3.0)


@custom_op("tests::itself")
def itself(x):
    return x[1:]


@custom_op("tests::writes")
def writes(x):
    x.numpy()[0] = 7
    return x.clone()


@custom_op("tests::number")
def number(x):
    return 3.0


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (itself, RuntimeError, "tests::itself gives memory of an argument"),
        (writes, RuntimeError, "tests::writes writes an argument: name it in mutates_args="),
        (number, TypeError, "tests::number is to give 1 tensors, gave float"),
        (lambda x: scaled({1: x}, [2.0]), TypeError, r"tests::scaled\(\): xs is a dict"),
        (lambda x: scaled([x]), TypeError, "missing a required argument: 'weights'"),
        (lambda x: count(2.0, x), TypeError, "total is written; it is a float"),
        (
            lambda x: count(eager.ones((), requires_grad=True), x),
            RuntimeError, "total requires a gradient and is written",
        ),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore::jitcap.base.diagnostics.JitcapWarning")
def test_refusals(call, error, text):
    for fn in (call, jit(lambda x: call(x), backend="eager")):
        with pytest.raises(error, match=text):
            fn(X)
        assert X.tolist() == [0.0, 1.0, 2.0]


@pytest.mark.filterwarnings("ignore::jitcap.base.diagnostics.JitcapWarning")
def test_a_fake_that_is_wrong_is_found():
    @custom_op("tests::wrong_fake")
    def wrong(x):
        return x.double()

    wrong.register_fake(eager.empty_like)
    step = jit(lambda x: wrong(x * 1) + 1)
    found = step(eager.ones(2))
    assert (found.dtype, found.tolist()) == (eager.float64, [2, 2])
    assert step.stats.discards == 1


def test_names():
    for name, text in (("plain", "'library::name'"), ("tests::scaled", "there is an operation")):
        with pytest.raises(ValueError, match=text):
            custom_op(name, lambda x: x)
    with pytest.raises(ValueError, match="mutates_args names no argument: 'y'"):
        custom_op("tests::unknown", lambda x: x, mutates_args=("y",))


def test_a_tuple_of_no_length_in_an_annotation_says_nothing():
    def halves(x: eager.Tensor) -> tuple[eager.Tensor, ...]:
        return x / 2, x / 2, x / 1

    three = custom_op("tests::halves", halves, outputs=3)
    assert [t.item() for t in three(eager.tensor(4.0))] == [2, 2, 4]
    with pytest.raises(TypeError, match="1"):
        custom_op("tests::halves_of_one", halves)(eager.tensor(4.0))


def _mm(input: eager.Tensor, weight: eager.Tensor, ends: eager.Tensor) -> eager.Tensor:
    """Rows up to each end times the matrix of their group, as libraries write it."""
    out, start = eager.zeros(input.size(0), weight.size(2)), 0
    for i, end in enumerate(ends.tolist()):
        eager.mm(input[start:end], weight[i], out=out[start:end])
        start = end
    return out


def _mm_back(ctx, g):
    (input, weight), ends = ctx.saved_tensors, ctx.ends
    gw = eager.stack([input[:1].T @ g[:1], input[1:].T @ g[1:]])
    return eager.ops.tests.grouped.default(g, weight.mT, ends), gw, None


def test_operations_under_the_names_of_pytorch():
    library = eager.library

    def keep(ctx, inputs, output):
        ctx.save_for_backward(*inputs[:2])
        ctx.ends = inputs[2]

    library.custom_op("tests::grouped", _mm, mutates_args=(), schema="(Tensor, Tensor) -> Tensor")

    @library.register_fake("tests::grouped")
    def fake(input, weight, ends):
        return eager.empty(input.size(0), weight.size(2))

    library.register_autograd("tests::grouped", _mm_back, setup_context=keep)

    @library.custom_op("tests::both", mutates_args=())
    def both(x: eager.Tensor) -> tuple[eager.Tensor, eager.Tensor]:
        return x + 1, x * 2

    both.register_fake(lambda x: (eager.empty_like(x), eager.empty_like(x)))

    def step(x, w):
        out = eager.ops.tests.grouped(x, w, eager.tensor([1, 3]))
        out.sin().sum().backward()
        return out, both(out.detach())

    x, w = (eager.randn(*s, requires_grad=True) for s in ((3, 2), (2, 2, 4)))
    compiled = jit(step)
    for _ in range(2):
        out, pair = compiled(x, w)
        grads, x.grad, w.grad = (x.grad, w.grad), None, None
        plain, twice = step(x, w)
        assert eager.equal(out, plain) and all(map(eager.equal, pair, twice))
        assert all(eager.allclose(g, p.grad) for g, p in zip(grads, (x, w), strict=True))
        x.grad = w.grad = None
    assert (compiled.stats.splits, compiled.stats.compiles) == (0, 1)
    expected = eager.cat([x[:1] @ w[0], x[1:] @ w[1]])
    assert eager.allclose(plain, expected)
    with pytest.raises(RuntimeError, match="there is no operation 'tests::none'"):
        library.register_fake("tests::none", fake)
    with pytest.raises(ValueError, match="names of arguments"):
        library.custom_op("tests::unknown", _mm, mutates_args="unknown")
    with pytest.raises(ValueError, match="there is an operation"):
        library.custom_op("tests::both", _mm, mutates_args=())


def test_a_type_that_no_tensor_has_is_a_constant():
    kinds = {eager.uint16: 1.0, eager.float8_e4m3fn: 2.0, eager.float32: 3.0}

    def step(x, kind):
        if x.dtype in (eager.uint16, eager.float8_e5m2):
            return x
        return x * kinds[x.dtype] + eager.finfo(kind).max

    compiled, x = jit(step), eager.ones(2)
    for kind in (eager.float8_e5m2, eager.float16, eager.float8_e5m2):
        assert eager.equal(compiled(x, kind), step(x, kind))
    assert (compiled.stats.splits, compiled.stats.compiles) == (0, 2)
    for refused in (lambda d: x.to(d), lambda d: eager.zeros(2, dtype=d), lambda d: x.sum(dtype=d)):
        with pytest.raises(TypeError, match="no tensors of eager.uint32"):
            jit(lambda refused=refused: refused(eager.uint32))()
