"""`vmap`: ops on what stands for many examples, beside one call for each, and beside torch."""

import random
import warnings

import map_ops
import numpy as np
import pytest

import eager
from eager import cond, fori_loop, scan, switch, while_loop
from jitcap import JitcapWarning, jit

pytestmark = pytest.mark.once

CHANCE = np.random.default_rng(0)
X, Y = CHANCE.standard_normal((3, 4)), CHANCE.standard_normal((4, 3))
Z, K = CHANCE.standard_normal((5, 3, 4)), CHANCE.integers(0, 3, (3, 4))


# ---------------------------------------------------------------------------------- the registry
def test_ops_of_the_registry():
    """A slice of the samples: each function mapped in one way or another, with gradients."""
    chance = random.Random(7)
    for p in map_ops.cases():
        place, first = chance.choice(map_ops.PLACES), chance.randrange(3)
        for case, found in map_ops.outcomes(p, (eager.float32,), (place,), slice(first, None, 3)):
            assert map_ops.accepted(p.torch, found), (p.torch, case, found)


def test_outcomes_are_told_apart():
    named = {p.torch: p for p in map_ops.cases()}
    found = {
        name: next(map_ops.outcomes(named[name]))[1].what
        for name in ("add", "nonzero", "hann_window")
    }
    assert [*found.values()] == ["right", "refused", "unchecked"]


# ---------------------------------------------------------------------------------- compositions
def in_place(a):
    b = a.clone()
    b[0] = a[1] * 2
    b.mul_(a)
    b[1:] += a[:-1].exp()
    return (b * b).sum()


def written(t, x):
    x = x.clone()

    def f(a, b):
        a[0] = a[1] * 2
        a.exp_()
        return b * 2  # the same memory

    return t.cat([t.vmap(f, in_dims=(1, 1))(x, x).reshape(-1), x.reshape(-1)])


def made_like(t, a):
    o, p = a.new_zeros(4), t.zeros_like(a)
    o[1:3] = a[:2]
    p += a
    return o + p * t.full_like(a, 2.0)


def by_index(t, a, k, j):
    b = a.clone()
    b[k, :, j] = 7.0
    b[:, 1, j] += 1
    b[k] *= 2
    return b + a[k, :, j].sum() + a[:, k, j].sum()


def scattered(t, a, k):
    zeros = t.zeros(4, dtype=a.dtype)
    added = zeros.scatter_add(0, k, a) + zeros.index_add(0, k, a) + a.index_select(0, k)
    return added + a.gather(0, k) + a.take(k) + t.zeros_like(a).index_put((k,), a)


def without_gradient(t, a):
    with t.no_grad():
        b = a.exp()
    return (b * a + a.detach() * a).sum()


def normed(t, a):
    return t.nn.functional.layer_norm(a, (4,)).pow(3).sum()


def trees(t, x, y):
    found = t.vmap(
        lambda d, e: {"p": d["a"][0] * e, "q": (e, d["a"][1].sum())},
        in_dims=({"a": [0, None]}, 1), out_dims={"p": 1, "q": (0, 0)},
    )({"a": [x, y]}, x.t())  # fmt: skip
    return t.cat([found["p"].reshape(-1), found["q"][0].reshape(-1), found["q"][1]])


PROGRAMS = [
    lambda t, x, y, z, k: t.vmap(t.vmap(lambda a, b: (a * b).sum(), (0, None)), (0, 1))(z, x[:1].t().expand(4, 5)),
    lambda t, x, y, z, k: t.vmap(lambda a: t.vmap(lambda b: a @ b)(a))(z),
    lambda t, x, y, z, k: t.vmap(t.func.grad(lambda w, a: (a @ w).sin().sum()), (None, 0))(y, z),
    lambda t, x, y, z, k: t.func.grad(lambda a: t.vmap(lambda r: r.exp().sum())(a).pow(2).sum())(x),
    lambda t, x, y, z, k: t.func.grad(lambda w: t.vmap(t.func.grad(lambda a: ((a @ w) ** 3).sum()))(z).pow(2).sum())(y),
    lambda t, x, y, z, k: t.vmap(t.vmap(t.func.grad(lambda a: (a**3).sum())))(z),
    lambda t, x, y, z, k: t.vmap(t.func.grad(lambda q: t.vmap(lambda a: (a**3).sum())(q).prod()))(z),
    lambda t, x, y, z, k: t.vmap(t.func.hessian(lambda a: (a**3).sum() * a[0]))(x),
    lambda t, x, y, z, k: t.vmap(t.func.jacrev(lambda a: (a @ y).sin()))(x),
    lambda t, x, y, z, k: t.vmap(t.func.jacfwd(lambda a: (a @ y).sin()))(x),
    lambda t, x, y, z, k: t.func.jacfwd(lambda q: t.vmap(lambda a: (a @ y).sin())(q))(x),
    lambda t, x, y, z, k: t.func.jacrev(lambda a: (a @ y).sin(), chunk_size=4)(x),
    lambda t, x, y, z, k: t.vmap(t.func.vjp(lambda a: (a @ y).sin(), x)[1])(t.stack([x @ y, x @ y * 2]))[0],
    lambda t, x, y, z, k: t.vmap(lambda a, b: t.func.jvp(lambda q: (q @ y).sin(), (a,), (b,))[1])(x, x * 2),
    lambda t, x, y, z, k: t.vmap(t.func.linearize(lambda q: (q @ y).sin(), x)[1])(t.stack([x, x * 2])),
    lambda t, x, y, z, k: t.vmap(t.func.grad(t.func.grad(t.func.grad(lambda a: a**4 * t.sin(a)))))(x[0]),
    lambda t, x, y, z, k: t.vmap(t.func.grad(in_place))(x),
    lambda t, x, y, z, k: t.func.grad(lambda q: t.vmap(in_place)(q).sum())(x),
    lambda t, x, y, z, k: written(t, x),
    lambda t, x, y, z, k: t.vmap(lambda a: made_like(t, a))(x),
    lambda t, x, y, z, k: t.vmap(lambda a, k: by_index(t, a, k, t.tensor([1, 0])))(
        t.stack([z, z + 1, z + 2]), k[:, :2]),
    lambda t, x, y, z, k: t.func.grad(lambda q: t.vmap(lambda a, k: (a[k] * a[:, k[0]].sum()).sum(), (None, 0))(
        q, k).pow(2).sum())(z[0]),
    lambda t, x, y, z, k: t.vmap(lambda a, k: scattered(t, a, k))(x, k),
    lambda t, x, y, z, k: t.vmap(lambda w, k: t.nn.functional.embedding(k, w))(t.stack([y, y + 1, y * 2]), k),
    lambda t, x, y, z, k: t.vmap(lambda a: t.nn.functional.log_softmax(a, -1), in_dims=2, out_dims=-1)(z),
    lambda t, x, y, z, k: t.vmap(t.func.grad(lambda k, a: t.nn.functional.conv1d(a[None], k).sin().sum()), (None, 0))(
        z[:2, :3, :3], z),
    lambda t, x, y, z, k: t.vmap(lambda k: t.nn.functional.conv1d(z, k, groups=3))(t.stack([z[:3, :1, :3], z[1:4, :1, :3]])),
    lambda t, x, y, z, k: t.vmap(lambda a: t.linalg.solve(a @ a.t() + t.eye(3, dtype=a.dtype), a) + t.linalg.det(a @ a.t()))(z),
    lambda t, x, y, z, k: t.vmap(lambda a: (a @ y).sin(), chunk_size=2, out_dims=1)(z),
    lambda t, x, y, z, k: trees(t, x, y),
    lambda t, x, y, z, k: t.vmap(lambda a: t.ones(3, dtype=a.dtype))(x),
    lambda t, x, y, z, k: t.view_as_real(t.vmap(lambda a: t.fft.fft(a * (1 + 2j)))(x)),
    lambda t, x, y, z, k: t.vmap(lambda a: t.sort(a)[0] + t.argsort(a) + a.argmax() + a.median() + a.cumsum(0))(x),
    lambda t, x, y, z, k: t.vmap(lambda a: t.nn.functional.batch_norm(a[None], None, None, training=True))(z),
    lambda t, x, y, z, k: t.func.grad(lambda q: t.vmap(lambda a: normed(t, a))(q).sum())(z),
    lambda t, x, y, z, k: t.func.grad(lambda q: t.vmap(t.func.grad(lambda a: normed(t, a)))(q).pow(2).sum())(z),
    lambda t, x, y, z, k: t.func.grad(lambda q: t.vmap(lambda a: without_gradient(t, a))(q).sum())(z),
    lambda t, x, y, z, k: t.vmap(t.func.grad(lambda a, k: t.nn.functional.cross_entropy(a, k)))(x, k[:, 0]),
    lambda t, x, y, z, k: t.vmap(lambda a: a.double() * t.ones(2, dtype=t.float32) + a.half().double())(x[0]),
    lambda t, x, y, z, k: t.vmap(lambda a: t.full((2,), float(a.dim())) + a.shape[0] + a.numel() + a.size(-1))(z),
    lambda t, x, y, z, k: t.vmap(lambda a: a.as_strided((2, 2), (1, 2)))(x),
    lambda t, x, y, z, k: t.autograd.functional.hessian(lambda a: (a**3).sum() * a[0, 0], x, vectorize=True),
    lambda t, x, y, z, k: t.vmap(lambda a: a.sum(0), in_dims=-1)(z[:0]),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("program", PROGRAMS)
def test_as_torch(program):
    torch = pytest.importorskip("torch")
    ours = program(eager, *map(eager.tensor, (X, Y, Z, K)))
    theirs = program(torch, *map(torch.tensor, (X, Y, Z, K)))
    assert (ours.shape, ours.dtype.name) == (
        tuple(theirs.shape),
        str(theirs.dtype).removeprefix("torch."),
    )
    assert not ours.requires_grad
    np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("first", range(3))
def test_compiled(first):
    """Many in one graph."""
    chosen = PROGRAMS[first::3]
    step = jit(
        lambda *args: [program(eager, *args) for program in chosen], fullgraph=True, backend="eager"
    )
    args = [*map(eager.tensor, (X, Y, Z, K))]
    for program, found in zip(chosen, step(*args), strict=True):
        np.testing.assert_allclose(found, program(eager, *args), rtol=1e-6, atol=1e-9)


# ---------------------------------------------------------------------- beside a loop over examples
def loop(f, *args):
    return eager.stack([f(*(a[i] for a in args)) for i in range(len(args[0]))])


CHOICES = [
    lambda a, i: cond(a.sum() > 0, lambda q: q * 2, lambda q: q.sin(), (a,)),
    lambda a, i: switch(i, [lambda q: q * 2, lambda q: q.sin(), lambda q: q + 1], a),
    lambda a, i: while_loop(lambda k, q: k < i, lambda k, q: (k + 1, q * 1.5), (0, a))[1],
    lambda a, i: fori_loop(0, i, lambda k, q: q * 1.5 + k, a),
    lambda a, i: scan(lambda c, r: (c * a.sum() + r, c * r), eager.zeros(()), a, reverse=True)[1],
    eager.func.grad(lambda a, i: scan(lambda c, r: ((c + r).sin(), c * r), eager.zeros(()), a)[1].sum()),
    eager.func.grad(lambda a, i: cond(a.sum() > 0, lambda q: q.exp().sum(), lambda q: q.sin().sum(), (a,))),
    lambda a, i: eager.vmap(lambda b: while_loop(lambda q: q < 10, lambda q: (q * 1.5,), (b.abs(),))[0])(a),
    lambda a, i: eager.vmap(lambda b: scan(lambda c, r: (c + r * b, c * r), b, a)[1])(a),
]  # fmt: skip


def test_control_flow_by_example():
    a, i = eager.tensor(X).float(), eager.tensor([3, 0, 5])

    @jit(fullgraph=True, backend="eager")
    def step(a, i):
        return [eager.vmap(f)(a, i) for f in CHOICES]

    for f, found in zip(CHOICES, step(a, i), strict=True):
        expected = loop(f, a, i)
        x = [a.clone().requires_grad_() for _ in range(2)]
        outs = loop(f, x[0], i), eager.vmap(f)(x[1], i)
        one, other = (
            eager.autograd.grad(out.sum(), leaf)[0] for out, leaf in zip(outs, x, strict=True)
        )
        for got, want in ((found, expected), (outs[1].detach(), expected), (other, one)):
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    rounds = eager.func.grad(
        lambda a: while_loop(lambda q: q.sum() < 9, lambda q: (q * 2,), (a.exp(),))[0].sum()
    )
    np.testing.assert_allclose(eager.vmap(rounds)(a), loop(rounds, a), rtol=1e-5)
    with pytest.warns(JitcapWarning, match="split"):
        np.testing.assert_allclose(
            jit(lambda a: eager.vmap(rounds)(a))(a), loop(rounds, a), rtol=1e-5
        )


class Tenfold(eager.autograd.Function):
    """With a derivative that is not that of its steps."""

    @staticmethod
    def forward(ctx, x, w):
        y = x * x * w
        ctx.save_for_backward(x, w, y)
        return y, w.cos()

    @staticmethod
    def backward(ctx, g, h):
        x, w, y = ctx.saved_tensors
        return g * 20 * x * w + 0 * y, g * x * x * 10 - h * w.sin() * 5


def tenfold(a, w):
    y, c = Tenfold.apply(a, w)
    return (y.exp() * c + Tenfold.apply(w, a)[1]).sum()


@pytest.mark.parametrize(
    "f", [tenfold, eager.func.grad(tenfold), eager.func.grad(tenfold, argnums=1)]
)
def test_functions_with_derivatives_of_their_own(f):
    """Their derivatives are used outside of the map and inside, twice too."""

    def gradients(mapped):
        x, w = (eager.tensor(v).float().requires_grad_() for v in (X, X[0]))
        out = mapped(x, w)
        first = eager.autograd.grad(out.pow(2).sum(), (x, w), create_graph=True)
        second = eager.autograd.grad(sum(g.pow(2).sum() for g in first), (x, w))
        return [t.detach() for t in (out, *first, *second)]

    expected = gradients(lambda x, w: eager.stack([f(row, w) for row in x]))
    mapped = eager.vmap(f, in_dims=(0, None))
    for found in (gradients(mapped), jit(lambda: gradients(mapped), backend="eager")()):
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


def test_models():
    """The gradient of each example, and several models at once: a recurrent, and one with an operation that has
    its own derivative."""
    nn = eager.nn
    layers = [nn.Linear(4, 6), nn.LayerNorm(6), nn.Linear(6, 2)]
    for model in (nn.Sequential(*layers), nn.LSTM(4, 3, batch_first=True)):
        parameters = {k: v.detach() for k, v in model.named_parameters()}

        def loss(p, a, model=model):
            out = eager.func.functional_call(model, p, (a[None],))
            return ((out[0] if isinstance(out, tuple) else out) ** 2).sum()

        gradient = eager.func.grad(loss)
        z = eager.tensor(Z).float()
        found = eager.vmap(gradient, in_dims=(None, 0))(parameters, z)
        rows = [gradient(parameters, a) for a in z]
        several = {k: eager.stack([v, v * 2]) for k, v in parameters.items()}
        losses = eager.vmap(loss, in_dims=(0, None))(several, z[0])
        np.testing.assert_allclose(
            losses[1], loss({k: v * 2 for k, v in parameters.items()}, z[0]), rtol=1e-4
        )
        for name in parameters:
            np.testing.assert_allclose(
                found[name], eager.stack([r[name] for r in rows]), rtol=1e-4, atol=1e-5
            )


def test_random_numbers_of_several_levels():
    def draws(outer, inner):
        f = eager.vmap(lambda a: a * 0 + eager.rand(8), randomness=inner)
        return eager.vmap(f, randomness=outer)(eager.zeros(2, 3, 8))

    for outer in ("same", "different"):
        for inner in ("same", "different"):
            got = draws(outer, inner)
            assert got[0].equal(got[1]) == (outer == "same")
            assert got[0, 0].equal(got[0, 1]) == (inner == "same")
    with pytest.raises(RuntimeError, match="randomness error mode"):
        draws("error", "different")
    rates = eager.full((4, 500), 3.0)
    warnings.simplefilter("ignore", UserWarning)  # one call for each
    poisson = {r: eager.vmap(eager.poisson, randomness=r)(rates) for r in ("same", "different")}
    assert poisson["same"][0].equal(poisson["same"][1])
    assert not poisson["different"][0].equal(poisson["different"][1])

    def dropped(x):
        return eager.vmap(lambda a: eager.nn.functional.dropout(a, 0.5), randomness="different")(x)

    step = jit(dropped, backend="eager")
    found = []
    for f in (dropped, step):
        eager.manual_seed(3)
        found.append(f(eager.ones(3, 50)))
    assert found[0].equal(found[1])
    chunks = eager.vmap(lambda a: a + eager.rand(3), randomness="same", chunk_size=1)(
        eager.zeros(2, 3)
    )
    assert chunks[0].equal(chunks[1])


# ----------------------------------------------------------------------------------------- in @jit
def test_one_graph_for_all_sizes():
    """Its size does not depend on that of the batch, and a size that varies is a symbol."""
    model = eager.nn.Sequential(eager.nn.Linear(4, 8), eager.nn.ReLU(), eager.nn.Linear(8, 3))
    parameters = {k: v.detach() for k, v in model.named_parameters()}

    def loss(p, x, y):
        return eager.nn.functional.cross_entropy(
            eager.func.functional_call(model, p, (x[None],)), y[None]
        )

    mapped = eager.vmap(eager.func.grad(loss), in_dims=(None, 0, 0))
    step = jit(lambda p, x, y: mapped(p, x, y), fullgraph=True, backend="python")
    for n in (4, 7, 300):
        x, y = eager.randn(n, 4), eager.randint(0, 3, (n,))
        found, expected = step(parameters, x, y), mapped(parameters, x, y)
        for name in parameters:
            np.testing.assert_allclose(found[name], expected[name], rtol=1e-4, atol=1e-5)
    assert step.stats.compiles == 2


def test_what_a_function_of_a_function_reads_is_guarded():
    """A function of the library that holds another that holds the program's reads what that reads."""
    power = {"k": 2}

    def cubed(a):
        return (a ** power["k"]).sum()

    step = jit(eager.vmap(eager.func.grad(cubed)), fullgraph=True, backend="eager")
    twice = eager.func.grad(eager.func.grad(cubed))
    held = jit(lambda x: twice(x), fullgraph=True, backend="eager")  # noqa: PLW0108 - a closure
    x = eager.tensor(X)
    for k in (2, 3):
        power["k"] = k
        np.testing.assert_allclose(step(x), k * X ** (k - 1))
        np.testing.assert_allclose(held(x[0, 0]), k * (k - 1) * X[0, 0] ** (k - 2))


def test_what_is_compiled_inside_or_split():
    """A compiled function that a mapped one calls runs plainly there; the text of what stands for many splits."""
    w = eager.tensor(X[0]).requires_grad_()
    inner = jit(lambda a: (a * w).sin().sum() + eager.rand(()), backend="eager")
    x = eager.tensor(X)
    with eager.no_grad():
        inner(x[0])
    found = eager.vmap(inner, randomness="different")(x) - eager.vmap(
        lambda a: (a * w).sin().sum()
    )(x)
    assert len({*found.tolist()}) == 3
    compiled = jit(lambda x: eager.vmap(lambda a: (a * w).sin().sum())(x), backend="eager")
    expected = (x * (x * w.detach()).cos()).sum(0)
    for f in (compiled, eager.vmap(lambda a: (a * w).sin().sum())):
        np.testing.assert_allclose(eager.autograd.grad(f(x).sum(), w)[0], expected)
    with pytest.warns(JitcapWarning, match="stands for many examples leaves its vmap"):
        jit(lambda x: eager.vmap(lambda a: (print(a), a * 2)[1])(x), backend="eager")(x)


# ------------------------------------------------------------------------------------ what is refused
def unmapped_target(t, a):
    z = t.zeros(4, dtype=a.dtype)
    z[0] = a[0]
    return z


REFUSED = [
    (lambda t, x: t.vmap(lambda a: a.sum().item())(x), "calling .item"),
    (lambda t, x: t.vmap(lambda a: a if a.sum() > 0 else -a)(x), "data-dependent control flow"),
    (lambda t, x: t.vmap(lambda a: a.nonzero())(x), "dynamic shape"),
    (lambda t, x: t.vmap(lambda a: a[a > 0])(x), "do not support batching operators"),
    (lambda t, x: t.vmap(lambda a: unmapped_target(t, a))(x), "inplace arithmetic"),
    (lambda t, x: t.vmap(lambda a: (a.requires_grad_() if t is eager else a).sum().backward())(
        x.clone().requires_grad_()), "called inside a functorch transform"),
    (lambda t, x: t.vmap(lambda a: a + t.rand(4))(x), "randomness error mode"),
    (lambda t, x: t.vmap(lambda a: a, randomness="some")(x), "Only allowed values"),
    (lambda t, x: t.vmap(lambda a: a, chunk_size=0)(x), "chunk_size"),
    (lambda t, x: t.vmap(lambda a: a, out_dims=3)(x), "Dimension out of range"),
    (lambda t, x: t.vmap(lambda a: a, out_dims=None)(x), "can not return a BatchedTensor"),
    (lambda t, x: t.vmap(lambda a: a, in_dims=-3)(x), "expected in_dim to satisfy"),
    (lambda t, x: t.vmap(lambda a: (a, a), out_dims=(0,))(x), "out_dims is not compatible"),
    (lambda t, x: t.vmap(lambda a: 3.0)(x), "must only return Tensors"),
    (lambda t, x: t.vmap(lambda a: t.autograd.grad((a * x).sum(), x))(x.clone()), "does not require grad|not require"),
]  # fmt: skip


def test_what_torch_refuses():
    torch = pytest.importorskip("torch")
    for call, said in REFUSED:
        with pytest.raises(Exception, match=said) as theirs:
            call(torch, torch.tensor(X))
        with pytest.raises(type(theirs.value), match=said):
            call(eager, eager.tensor(X))
        with pytest.raises(type(theirs.value), match=said):
            jit(lambda call=call: call(eager, eager.tensor(X)), backend="eager")()


def test_errors_are_of_one_example():
    x = eager.tensor(X)
    assert eager.vmap(lambda a: a.view(eager.int64))(x).equal(x.view(eager.int64))
    with pytest.raises(RuntimeError, match=r"shapes \(4,\) and \(3,\) do not broadcast"):
        eager.vmap(lambda a: a + eager.ones(3))(x)
    with pytest.raises(IndexError, match=r"\[-1, 0\], but got 1"):
        eager.vmap(lambda a: a.sum(1))(x)
    escaped = []
    eager.vmap(lambda a: (escaped.append(a), a)[1])(x)
    assert repr(escaped[0]).startswith(
        "tensor(<float64[4], one of 3 examples, in vmap of tensor([["
    )
    with pytest.raises(RuntimeError, match="which has ended"):
        eager.vmap(lambda a: eager.vmap(lambda b: (escaped.append(b), b)[1])(a) + escaped[-1])(x)
    with pytest.raises(RuntimeError, match="it is a captured tensor"):
        z = eager.zeros(4)
        eager.vmap(eager.func.grad(lambda w, a: (z.copy_(w) * a).sum()), (None, 0))(
            eager.ones(4), x
        )


def test_one_call_for_each_is_announced_once():
    from jitcap import custom_op

    @custom_op("tests::doubled")
    def doubled(x):
        return x * 2

    x = eager.tensor(X)
    with pytest.warns(UserWarning, match="tests_doubled is called once for each example"):
        np.testing.assert_allclose(eager.vmap(doubled)(x), X * 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        eager.vmap(doubled)(x)
