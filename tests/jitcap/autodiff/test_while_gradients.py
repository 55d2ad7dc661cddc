"""Gradients through loops of unknown length: those of the Python loop, in one graph."""

import pytest

import eager
from eager import nn
from jitcap import jit, stance

pytestmark = pytest.mark.filterwarnings("ignore::jitcap.base.diagnostics.JitcapWarning")
LIMITS = (8.0, 30.0, 400.0)  # one round, a few, many


def solved(x, w, limit):
    """Carries an int, a bool, a float and a tensor."""

    def step(n, low, size, y):
        y = (y * w).sin().abs() + 1.1 * y
        return n + 1, y.sum() < 20, size * 0.5, y

    def goes_on(n, low, size, y):
        return y.abs().sum() < limit

    return eager.while_loop(goes_on, step, (0, eager.tensor(True), 1.0, x))


def explicit(x, w, limit):
    n, low, size, y = solved(x, w, limit)
    (y * y).sum().backward()
    return y.detach(), n, low, size


def plain(x, w, limit):
    n, y = 0, x
    while y.abs().sum() < limit:
        y, n = (y * w).sin().abs() + 1.1 * y, n + 1
    (y.sum() + n).backward()
    return y.detach(), n


def not_at_first(x, w, limit):
    y = x.detach() * 0 + 1
    while y.abs().sum() < limit:
        y = y + (x * w).abs() + 0.1
    y.prod().backward()
    return (y.detach(),)


def twice(x, w, limit):
    y = x * 1
    while y.abs().sum() < limit:
        y = (y * w).sin().abs() + 1.1 * y
    (g,) = eager.autograd.grad((y * y).sum(), w, create_graph=True)
    ((g * g).sum() / 100).backward()
    return (g.detach(),)


def nested(x, w, limit):
    """Two levels: the inner one splits, as it has no size inside a round."""
    y = x * 1
    while y.sum() < limit:
        y = y * w * w
        while y.max() > 1000:
            y = y / 2
        y = y + 1
    y.sum().backward()
    return (y.detach(),)


def answer(fn, limit):
    x = eager.tensor([1.0, 2.0, 3.0], dtype=eager.float64).requires_grad_(True)
    w = eager.tensor([1.2, 1.5, 0.7], dtype=eager.float64).requires_grad_(True)
    found = [eager.as_tensor(v).clone() for v in fn(x, w, eager.tensor(limit))]
    return [*found, x.grad, w.grad]


def check(fn, compiled, limits=LIMITS):
    for limit in limits:
        for a, b in zip(answer(fn, limit), answer(compiled, limit), strict=True):
            if a is None or b is None:
                assert a is b, limit
            else:
                assert a.dtype == b.dtype, limit
                a, b = a.double(), b.double()
                assert eager.allclose(a, b, rtol=1e-9, atol=1e-12), limit


def decided_by_a_number(x, w, limit):
    """The backward of a round is given a number of its own."""
    y, n = x, 0
    while y.abs().sum() < limit:
        y = y * w * 1.5 if n < 2 else y * 3 + w
        n += 1
    y.sum().backward()
    return y.detach(), n


def of_a_for(x, w, limit):
    y = x
    for i in range(9):
        y = y * 1.5 + w * i
        if y.abs().sum() > limit * 2:
            break
    y.sum().backward()
    return y.detach(), i


ROWS = [
    (explicit, "python"), (plain, "python"), (not_at_first, "python"), (twice, "cpp"),
    (decided_by_a_number, "cpp"), (of_a_for, "cpp"),
]  # fmt: skip


@pytest.mark.parametrize(("fn", "backend"), ROWS, ids=lambda x: getattr(x, "__name__", x))
def test_one_graph(fn, backend):
    compiled = jit(fn, backend=backend, fullgraph=True)
    check(fn, compiled)
    assert (compiled.stats.compiles, compiled.stats.graphs, compiled.stats.fallbacks) == (1, 1, 0)


@pytest.mark.parametrize("fn", [plain, nested], ids=lambda f: f.__name__)
def test_no_round_has_pythons_gradients(fn):
    """None, not zeros, for what a round alone would have used; and the start itself comes back."""
    check(fn, jit(fn, backend="eager"), (8.0, 1.0, 30.0, 2.0, 400.0))


def test_no_round_of_while_loop_gives_zeros():
    compiled = jit(explicit, backend="eager", fullgraph=True)
    *_, x, w = answer(compiled, 1.0)
    assert x.tolist() == [2.0, 4.0, 6.0] and w.tolist() == [0.0, 0.0, 0.0]


def test_from_outside():
    def forward(x, w, limit):
        y = x * 1
        while y.abs().sum() < limit:
            y = (y * w).sin().abs() + 1.1 * y
        return (y * y).sum()

    def step(fn):
        def run(x, w, limit):
            grads = eager.autograd.grad(fn(x, w, limit), [x, w], create_graph=True)
            sum(g.sum() for g in grads).backward()
            return [g.detach() for g in grads]

        return run

    compiled = jit(forward, backend="python", fullgraph=True)
    check(step(forward), step(compiled))


def test_a_training_step_is_one_graph():
    def make():
        eager.manual_seed(0)
        model = nn.Linear(4, 4)
        return model, eager.optim.Adam(model.parameters(), lr=0.05)

    def step(model, opt, x, target):
        opt.zero_grad()
        h, error, rounds = x, eager.tensor(1.0), 0
        while error > 1e-3 and rounds < 40:  # a fixed point
            new = (0.2 * model(h) + x).tanh()
            error, h, rounds = (new - h).abs().max(), new, rounds + 1
        loss = (h - target).square().mean()
        loss.backward()
        opt.step()
        return loss.detach(), rounds

    compiled, losses = jit(step, backend="cpp", fullgraph=True), []
    for fn in (step, compiled):
        given = make()
        eager.manual_seed(1)
        x = eager.randn(3, 4)
        losses.append([[float(v) for v in fn(*given, x * k, x.sin())] for k in (1, 2, 3, 0.1)])
    assert eager.allclose(*map(eager.tensor, losses), rtol=1e-4)
    assert (compiled.stats.graphs, compiled.stats.splits) == (1, 0)


def test_a_loop_that_is_none_is_given_up_soon():
    """A carried shape that grows: a round or two are read, and the reason says it."""

    def grows(x):
        while x.sum() < 50:
            x = eager.cat([x, x * 1.5])
        return x

    with stance("fail_on_split"), pytest.raises(Exception, match="another shape, dtype or type"):
        jit(grows, fullgraph=True)(eager.ones(3))
