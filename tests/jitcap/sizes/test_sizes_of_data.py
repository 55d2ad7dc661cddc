"""Sizes that data decide are symbols of one graph: values, shapes, dtypes and gradients are eager's
where nothing, one element, some and all are chosen, in one compile and without a split."""

import numpy as np
import pytest

import eager
from jitcap import explain, jit

pytestmark = pytest.mark.once

F = eager.nn.functional
N = 6


def _places(x, w):
    i, j = (x > 0).nonzero(as_tuple=True)
    rows = (x > 0).nonzero()
    return x[i, j] * 2, rows + 1, i + j, rows.shape[0] * w.sum()


def _read(x, w):
    m = x > 0
    return x[m] * 2 + 1, x[m] - x[m] * x[m], x[m].sum(), x[m.any(1)] @ w


def _written(x, w):
    y = x.clone()
    y[x > 0.5] = 3.0
    y[x < 0] = y[x < 0] * 2
    y[x > 0] += 1
    y[(x > 0).any(1)] *= 0.5
    return y


def _selected(x, w):
    return eager.masked_select(x, x > 0).exp(), x.masked_select(x[0] > 0).cumsum(0)


def _unique(x, w):
    k = (x * 2).long()
    values, inverse, counts = eager.unique(k, return_inverse=True, return_counts=True)
    runs = eager.unique_consecutive(k.reshape(-1))
    sums = eager.zeros(values.shape[0]).index_add(0, inverse.reshape(-1), x.reshape(-1))
    return values, inverse, counts, runs * 2, sums / counts, eager.unique(k, dim=0)


def _repeated(x, w):
    counts = (x[:, 0] > 0).long() * 2 + (x[:, 1] > 0).long()
    return x.repeat_interleave(counts, dim=0) @ w


def _sliced(x, w):
    n = int((x[:, 0] > 0).sum())
    k = (x[:, 1] > 0).sum().item()
    return x[:n] * 2, x[n:].sum(0), x[:, :2][:k], eager.arange(n) + 1, eager.zeros(n, 2), x[:k] @ w


def _reduced(x, w):
    y = x[x[:, 0] > 0]
    return (
        y.sum(0), y.mean(0), y.mean(), y.softmax(-1), F.relu(y @ w), y.prod(0), (y > 0).any(0),
        (y * y).sum(1).sqrt(), eager.cat([y, x]), y.T @ y, y.shape[0], y.numel(), y.unsqueeze(1),
        y.reshape(-1), y.flatten(), y.view(-1, 2), y.cumsum(0),
    )  # fmt: skip


def _scattered(x, w):
    idx = (x[:, 0] > 0).nonzero().squeeze(-1)
    y = x[idx] @ w
    out = eager.zeros(x.shape[0], w.shape[1]).index_add(0, idx, y)
    bins = (x * 2).long().abs().reshape(-1)
    count, least = int(bins.max()) + 1, int(bins.min()) + 20
    found = eager.bincount(bins, minlength=count), eager.bincount(bins, x.detach().view(-1), least)
    return out, eager.zeros(N, w.shape[1]).index_copy(0, idx, y), out[idx], *found


def _loss(x, w):
    m = x[:, 0] > 0
    logits = x[m] @ w
    target = (x[m][:, 1] > 0).long()
    return F.cross_entropy(logits, target, reduction="sum"), F.mse_loss(logits, logits * 0.5)


def _in_arms(x, w):
    y, z = x[x > 0], x[x[:, 0] > 0]
    n = len(y)
    spread = y.std() if n > 2 else y.sum() * (n - 1)
    if w.sum() > 0:
        parts = z.sum(0) / (n + 2 * z.shape[0])
    else:
        parts = z.sum(0) * (x.shape[0] - n) + min(n, 3) + max(n - 2, 0)
    return spread, parts, n - 2 * z.shape[0]


def _found_in_arms(x, w):
    h = x * 2
    if w.sum() > 0:
        kept = h.sin()
        spread = kept[kept > 0.1].square().sum() * (h > 0).nonzero().shape[0]
    elif (x[0] > 0).any():
        spread = h[h < 0].exp().sum()
    else:
        spread = h.repeat_interleave((x[:, 0] > 0).long() + 1, dim=0).sum() + h[h > 0.1].sum()
    return spread * 1, x[x > 0].sum(), x.sum() + (x[x > 0].sum() if x.sum() > 0 else x[x < 0].sum())


PROGRAMS = {
    f.__name__.strip("_"): f
    for f in (
        _places, _read, _written, _selected, _unique, _repeated, _sliced, _reduced, _scattered,
        _loss, _in_arms, _found_in_arms,
    )
}  # fmt: skip


def data(kind):
    rng = np.random.default_rng(sum(map(ord, kind)))
    x = rng.standard_normal((N, 4)).astype(np.float32)
    if kind == "none":
        x = -np.abs(x)
    if kind == "one":
        x = -np.abs(x)
        x[2, 0] = 1.0
    if kind == "all":
        x = np.abs(x) + 0.1
    return x


KINDS = ("some", "more", "none", "one", "all")


def flat(found):
    return list(found) if isinstance(found, tuple) else [found]


def step_of(program):
    """The outputs, and the gradients of what is floating among them."""

    def step(x, w):
        x.grad = w.grad = None
        found = program(x, w)
        found = found if isinstance(found, tuple) else (found,)
        total = 0.0
        for i, t in enumerate(found):
            if isinstance(t, eager.Tensor) and t.requires_grad:
                total = total + (t * (i + 1)).sum()
        if isinstance(total, eager.Tensor):
            total.backward()
        return tuple(t.detach() if isinstance(t, eager.Tensor) else t for t in found)

    return step


def same(a, b):
    if a is None or b is None:
        assert a is b
        return
    if not isinstance(a, eager.Tensor):
        assert type(a) is type(b)
        assert a == b
        return
    assert a.shape == b.shape
    assert a.dtype is b.dtype
    np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=2e-5, atol=1e-6)


def run(step, kind, w):
    x = eager.tensor(data(kind), requires_grad=True)
    w = eager.tensor(w, requires_grad=True)
    return [*step(x, w), x.grad, w.grad]


@pytest.mark.parametrize("backend", ["eager", "python"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name, backend):
    """One graph, compiled once, right for all data."""
    w = np.random.default_rng(1).standard_normal((4, 3)).astype(np.float32)
    step = jit(step_of(PROGRAMS[name]), backend=backend, fullgraph=True)
    for kind in KINDS:
        for a, b in zip(run(step, kind, w), run(step.original, kind, w), strict=True):
            same(a, b)
    assert (step.stats.compiles, step.stats.splits, step.stats.discards) == (1, 0, 0), step.stats


def _everything(x, w):
    return tuple(t for f in PROGRAMS.values() for t in flat(f(x, w)))


def test_machine_code():
    """All of that in one graph of native code."""
    w = np.random.default_rng(1).standard_normal((4, 3)).astype(np.float32)
    step = jit(step_of(_everything), backend="cpp", fullgraph=True)
    for kind in (*KINDS, *map(str, range(9))):
        for a, b in zip(run(step, kind, w), run(step.original, kind, w), strict=True):
            same(a, b)
    assert (step.stats.compiles, step.stats.splits, step.stats.discards) == (1, 0, 0), step.stats


class Experts(eager.nn.Module):
    """Each token goes through the expert that it scores highest, and back to its place."""

    def __init__(self, d, experts):
        super().__init__()
        self.route = eager.nn.Linear(d, experts)
        self.experts = eager.nn.ModuleList(
            eager.nn.Sequential(
                eager.nn.Linear(d, 2 * d), eager.nn.ReLU(), eager.nn.Linear(2 * d, d)
            )
            for _ in range(experts)
        )

    def forward(self, x):
        share = self.route(x).softmax(-1)
        weight, best = share.max(-1)
        out = eager.zeros_like(x)
        for e, expert in enumerate(self.experts):
            (rows,) = (best == e).nonzero(as_tuple=True)
            out.index_add_(0, rows, expert(x[rows]) * weight[rows].unsqueeze(-1))
        return out


def _train(jitted, backend, make_step, batches):
    eager.manual_seed(0)
    step, model = make_step()
    step = jit(step, backend=backend, fullgraph=True) if jitted else step
    losses = [float(step(*map(eager.tensor, b))) for b in batches]
    return losses, [p.detach().numpy() for p in model.parameters()], step


def _experts():
    model = Experts(4, 5)
    optimizer = eager.optim.Adam(model.parameters(), lr=0.01)

    def step(x, y):
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step, model


def _policy():
    """A PPO step over the steps of episodes that count."""
    nn = eager.nn
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 4))
    optimizer = eager.optim.Adam(model.parameters(), lr=0.01)

    def step(x, actions, old, gain, done):
        live = ~done
        out = model(x[live])
        logits, value = out[:, :3], out[:, 3]
        log_p = logits.log_softmax(-1).gather(1, actions[live].unsqueeze(1)).squeeze(1)
        ratio = (log_p - old[live]).exp()
        g = gain[live]
        g = (g - g.mean()) / (g.std() + 1e-8)
        clipped = eager.minimum(ratio * g, ratio.clamp(0.8, 1.2) * g)
        far = (ratio - 1).abs() > 0.2
        loss = -clipped.mean() + 0.5 * F.mse_loss(value, gain[live]) + 0.01 * ratio[far].sum()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        return loss

    return step, model


def _tokens(rng):
    return rng.standard_normal((7, 4), np.float32), rng.standard_normal((7, 4), np.float32)


def _episodes(rng):
    return (
        rng.standard_normal((9, 4), np.float32), rng.integers(0, 3, 9),
        rng.standard_normal(9, np.float32) * 0.1 - 1.1, rng.standard_normal(9, np.float32),
        rng.random(9) < 0.3,
    )  # fmt: skip


@pytest.mark.parametrize("backend", ["python", "cpp"])
@pytest.mark.parametrize(("make", "batch"), [(_experts, _tokens), (_policy, _episodes)])
def test_training(make, batch, backend):
    """A mixture of experts, and PPO with masks: one graph over changing data, empty parts too."""
    rng = np.random.default_rng(3)
    batches = [batch(rng) for _ in range(6)]
    losses, weights, step = _train(True, backend, make, batches)
    expected, by_eager, _ = _train(False, backend, make, batches)
    np.testing.assert_allclose(losses, expected, rtol=1e-4)
    for a, b in zip(weights, by_eager, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5)
    assert (step.stats.compiles, step.stats.splits, step.stats.discards) == (1, 0, 0), step.stats


def _is_same(found, expected):
    assert type(found) is type(expected)
    if isinstance(found, tuple | list):
        for a, b in zip(found, expected, strict=True):
            _is_same(a, b)
    else:
        same(found, expected)


def _outcome(fn, x):
    """What is returned, or raised, and what became of the argument."""
    x = eager.tensor(x)
    try:
        return fn(x), x
    except RuntimeError as error:
        return str(error), x


def _if(x):
    return x[x > 0].sum() if (x > 0).nonzero().numel() > 2 else x.sum() - 1


def _length(x):
    y = x[x > 0]
    return (
        {0: "none", 1: "one"}.get(len(y), "many"),
        [row * 2 for row in y],
        y.tolist(),
        f"{len(y)}",
    )


def _numbers(x):
    y, n = x[x > 0], int((x < 0).sum())
    return y.shape, len(y) * 2, n / 3, (n, y.shape[0] - n)


QUESTIONS = {"if": _if, "length": _length, "numbers": _numbers}


@pytest.mark.filterwarnings("ignore::jitcap.JitcapWarning")
@pytest.mark.parametrize("options", [{}, {"dynamic": False}])
@pytest.mark.parametrize("name", QUESTIONS)
def test_what_python_asks(name, options):
    """It is right, and splits where no graph can answer (or none may have such sizes)."""
    step = jit(QUESTIONS[name], backend="eager", **options)
    for kind in KINDS:
        _is_same(_outcome(step, data(kind)), _outcome(step.original, data(kind)))
    assert bool(step.stats.splits) is (name == "length" or bool(options))


def _meet(x):
    x *= 2
    return x[x > 0] + x[x.abs() > 0.5]


def _view(x):
    return x[x > 0].view(2, -1)


def _squeezed(x):
    x += 1
    return x[x > 0].squeeze()


@pytest.mark.filterwarnings("ignore::jitcap.JitcapWarning")
@pytest.mark.parametrize("program", [_meet, _view, _squeezed])
@pytest.mark.parametrize("backend", ["eager", "python"])
def test_what_is_expected_is_checked(program, backend):
    """Before anything is written: a run that is given up leaves the argument to Python's run."""
    step = jit(program, backend=backend)
    assert step(eager.ones(4)).shape[-1]
    assert (step.stats.compiles, step.stats.splits, step.stats.discards) == (1, 0, 0)
    for x in ([1.0, -2.0, 3.0, 0.1], [-3.0], [2.0, -3.0], [1.0, 1.0, -3.0], [0.1, -4.0, 3.0]):
        x = np.array(x, np.float32)
        _is_same(_outcome(step, x), _outcome(step.original, x))
    assert step.stats.discards


def _outside(program, x, w):
    """The outputs, gradients, and gradients of gradients."""
    x, w = eager.tensor(x, requires_grad=True), eager.tensor(w, requires_grad=True)

    def total():
        found = [t for t in flat(program(x, w)) if isinstance(t, eager.Tensor) and t.requires_grad]
        return found, sum((t * t * (i + 1)).sum() for i, t in enumerate(found))

    found, loss = total()
    loss.backward()
    first = x.grad.clone(), None if w.grad is None else w.grad.clone()
    grads = eager.autograd.grad(total()[1], (x, w), create_graph=True, allow_unused=True)
    sum((g * g).sum() for g in grads if g is not None).backward()
    return [t.detach() for t in found], first, x.grad, w.grad


def _product(x, w):
    y = x[x[:, 0] > 0]
    return (y @ w).relu(), x[x > 0].exp()


@pytest.mark.filterwarnings("ignore::jitcap.JitcapWarning")
@pytest.mark.parametrize("backend", ["eager", "python"])
@pytest.mark.parametrize(
    "program",
    [_product, *(f for f in PROGRAMS.values() if f is not _places)],
)
def test_gradients_outside(program, backend):
    """Of the sizes of their call; those of second order, too."""
    w = np.random.default_rng(1).standard_normal((4, 3)).astype(np.float32)
    step = jit(program, backend=backend, fullgraph=True)
    for kind in KINDS:
        found, expected = (_outside(f, data(kind), w) for f in (step, step.original))
        _is_same(found, expected)
    assert (step.stats.compiles, step.stats.splits, step.stats.discards) == (1, 0, 0), step.stats


@pytest.mark.parametrize("find", [eager.unique, eager.unique_consecutive])
def test_of_one_element_without_dimensions(find):
    step = jit(lambda x: find(x, return_inverse=True, return_counts=True), backend="python")
    for got, expected in zip(step(eager.tensor(3)), ([3], 0, [1]), strict=True):
        assert got.tolist() == expected


def _printed(x):
    values, inverse = eager.unique((x * 2).long(), return_inverse=True)
    n = int((x > 0).sum())
    return x[x > 0].sum() * n + values.max() + x[:n].amax() + inverse.sum()


def test_the_print_runs():
    """A graph prints as Python that finds the sizes itself."""
    scope = {}
    exec(
        explain(_printed)(eager.tensor(data("some"))).stages["graph"].replace("__main__", ""), scope
    )
    for kind in ("some", "more", "all", "one"):
        x = eager.tensor(data(kind))
        same(scope["printed"](x)[0], _printed(x))


def test_equal_calls_have_results_of_their_own():
    step = jit(lambda x: (x.unique(), x.unique() * 1, x.unique()), backend="python", verify=True)
    for kind in KINDS:
        a, b, c = step(eager.tensor(data(kind)))
        a += 1
        same(b, c)


def test_found_places_lie_as_in_eager():
    """Indices of one dimension are side by side."""

    def fn(x):
        return x.gt(0).nonzero(), *eager.where(x > 0), eager.argwhere(x), *x.nonzero(as_tuple=True)

    x = eager.tensor([[1.0, -1.0, 2.0], [0.0, 3.0, 0.0]])
    step = jit(fn, backend="python")
    for got, want in zip(step(x), fn(x), strict=True):
        assert (got.tolist(), got.stride()) == (want.tolist(), want.stride())
    assert fn(x)[0].stride() == (1, 3)
    assert (step.stats.graphs, step.stats.splits) == (1, 0)


def test_how_far_a_roll_goes_is_decided_by_the_run():
    def step(x, i):
        return eager.roll(x, -int(i), -1), x.roll((int(i), 1), (0, 1)), eager.roll(x * 2, int(i))

    compiled, x = jit(step, backend="eager"), eager.arange(12.0).reshape(3, 4)
    for far in (2, 0, 7, -1, 4):
        i = eager.tensor(far)
        pairs = zip(compiled(x, i), step(x, i), strict=True)
        assert all(a.tolist() == b.tolist() and a.stride() == b.stride() for a, b in pairs)
    stats = compiled.stats
    assert (stats.splits, stats.discards, stats.compiles) == (0, 0, 1), stats


def test_the_least_length_is_not_negative():
    def count(x, less):
        return eager.bincount(x, minlength=x.max().item() - less)

    step = jit(count, backend="eager")
    for values, less in (([0, 2], 1), ([0, 2], 3), ([-1, 2], 0), ([0, 1], 0), ([4, 4], 5)):
        found, expected = (_outcome(lambda x, f=f: f(x, less), values) for f in (step, count))
        assert repr(found) == repr(expected)
