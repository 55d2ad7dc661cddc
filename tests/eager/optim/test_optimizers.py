"""Optimizers against torch: twenty steps from the same parameters, and the state carried across."""

import copy

import numpy as np
import pytest

torch = pytest.importorskip("torch")
import eager  # noqa: E402
import jitcap  # noqa: E402

CASES = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.3}),
    ("SGD", {"lr": 0.1, "maximize": True}),
    ("Adam", {"lr": 0.01}),
    ("Adam", {"lr": 0.01, "weight_decay": 0.1, "amsgrad": True}),
    ("Adam", {"lr": 0.01, "betas": (0.3, 0.6), "maximize": True}),
    ("AdamW", {"lr": 0.01}),
    ("AdamW", {"lr": 0.01, "amsgrad": True, "weight_decay": 0.2}),
    ("Adamax", {"lr": 0.01, "weight_decay": 0.1}),
    ("NAdam", {"lr": 0.01, "weight_decay": 0.1}),
    ("NAdam", {"lr": 0.01, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("RAdam", {"lr": 0.01, "weight_decay": 0.1}),
    ("RMSprop", {"lr": 0.01}),
    ("RMSprop", {"lr": 0.01, "momentum": 0.9, "centered": True, "weight_decay": 0.1}),
    ("Adagrad", {"lr": 0.05, "lr_decay": 0.1, "initial_accumulator_value": 0.5}),
    ("Adadelta", {"lr": 0.5, "weight_decay": 0.1}),
    ("Rprop", {"lr": 0.05, "etas": (0.4, 1.3), "step_sizes": (1e-3, 0.2)}),
    ("ASGD", {"lr": 0.05, "t0": 5, "weight_decay": 0.1}),
    ("ASGD", {"lr": 0.05, "lambd": 0.1, "maximize": True}),
    ("Adafactor", {"lr": 0.05, "weight_decay": 0.1}),
    ("Adafactor", {"lr": 0.5, "eps": (1e-4, 1e-2), "d": 1.5, "maximize": True}),
]
SHAPES = ((3, 4), (5,), ())


def parameters(library):
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=s).astype(np.float32) for s in SHAPES]
    return [library.nn.Parameter(library.tensor(a)) for a in arrays]


def loss_of(ps, i):
    """Depends on the step, so gradients vary."""
    return sum(((p - 0.3 * i) ** 2 * (1 + 0.1 * i)).sum() for p in ps) + (ps[0] * 0.5).sin().sum()


def steps(optimizer, ps, first, count):
    for i in range(first, first + count):
        optimizer.zero_grad()
        loss_of(ps, i % 4).backward()
        optimizer.step()


def assert_close(ours, theirs):
    for p, q in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(p.detach().numpy(), q.detach().numpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("name", "settings"), CASES, ids=str)
def test_twenty_steps(name, settings):
    ours, theirs = parameters(eager), parameters(torch)
    a = getattr(eager.optim, name)(ours, **settings)
    b = getattr(torch.optim, name)(theirs, **settings)
    steps(a, ours, 0, 20)
    steps(b, theirs, 0, 20)
    assert_close(ours, theirs)
    groups = [x.state_dict()["param_groups"][0] for x in (a, b)]
    assert list(groups[0]) == list(groups[1])


def converted(state_dict):
    """torch's state as ours."""
    state = {
        k: {n: eager.tensor(v.numpy().copy()) if torch.is_tensor(v) else v for n, v in s.items()}
        for k, s in state_dict["state"].items()
    }
    return {"state": state, "param_groups": copy.deepcopy(state_dict["param_groups"])}


@pytest.mark.parametrize(("name", "settings"), CASES, ids=str)
def test_takes_over_the_state_of_torch(name, settings):
    theirs = parameters(torch)
    b = getattr(torch.optim, name)(theirs, **settings)
    steps(b, theirs, 0, 7)
    ours = [eager.nn.Parameter(eager.tensor(p.detach().numpy().copy())) for p in theirs]
    a = getattr(eager.optim, name)(ours, **settings)
    a.load_state_dict(converted(b.state_dict()))
    steps(a, ours, 7, 7)
    steps(b, theirs, 7, 7)
    assert_close(ours, theirs)
    mine, yours = a.state_dict(), b.state_dict()
    assert mine["param_groups"] == yours["param_groups"]
    assert mine["state"].keys() == yours["state"].keys()
    for number, values in yours["state"].items():
        assert mine["state"][number].keys() == values.keys()


MUON = (
    {"lr": 0.02}, {"lr": 0.02, "nesterov": False, "adjust_lr_fn": "match_rms_adamw"},
)  # fmt: skip


@pytest.mark.parametrize("settings", MUON, ids=str)
@pytest.mark.parametrize("shape", [(6, 4), (3, 5)])
def test_muon(settings, shape):
    """Its products are in bfloat16, and the steps make much of what their rounding leaves."""
    start = np.random.default_rng(1).normal(size=shape).astype(np.float32)
    results = []
    for library in (eager, torch):
        p = library.nn.Parameter(library.tensor(start))
        optimizer = library.optim.Muon([p], **settings)
        for i in range(5):
            p.grad = None
            ((p - 0.3 * i) ** 2 * (p + 1)).sum().backward()
            optimizer.step()
        results.append(p.detach().numpy())
    np.testing.assert_allclose(*results, rtol=1e-4, atol=1e-4)


def test_a_rate_that_is_a_tensor_stays():
    p = eager.nn.Parameter(eager.tensor([3.0, -2.0]))
    optimizer = eager.optim.LBFGS([p], lr=eager.tensor(0.5))

    def closure():
        optimizer.zero_grad()
        loss = (p * p).sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    assert optimizer.param_groups[0]["lr"].item() == 0.5
    results = []
    for lr in (0.1, eager.tensor([0.1])):
        p = eager.nn.Parameter(eager.tensor([3.0, -2.0]))
        optimizer = eager.optim.ASGD([p], lr=lr)
        optimizer.step(closure)
        optimizer.step(closure)
        results.append(p.tolist())
    assert results[0] == results[1]


@pytest.mark.parametrize("name", ["ASGD", "Adafactor", "Muon"])
def test_one_graph_under_jit(name):
    results = []
    for wrap in (lambda fn: fn, jitcap.jit):
        p = eager.nn.Parameter(eager.arange(12.0).reshape(3, 4) / 7)
        optimizer = getattr(eager.optim, name)([p], lr=0.1)

        @wrap
        def step(x, p=p, optimizer=optimizer):
            optimizer.zero_grad()
            (p @ x).square().sum().backward()
            optimizer.step()

        for i in range(3):
            step(eager.ones(4) * (i + 1))
        state = {k: v.numpy().copy() for k, v in optimizer.state[p].items()}
        results.append((p.detach().numpy(), *state.values()))
    for got, expected in zip(*results, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)
    assert (step.stats.graphs, step.stats.splits) == (1, 0)


def test_state_dict_leaves_out_what_never_stepped():
    ps = parameters(eager)
    for name, settings in (("Adam", {}), ("SGD", {"momentum": 0.9})):
        optimizer = getattr(eager.optim, name)(ps, **settings)
        assert optimizer.state_dict()["state"] == {}
        ps[1].grad = eager.ones(5)
        optimizer.step()
        assert list(optimizer.state_dict()["state"]) == [1]
        ps[1].grad = None


def test_round_trip_of_its_own_state():
    ps = parameters(eager)
    a = eager.optim.AdamW(ps, lr=0.02)
    steps(a, ps, 0, 3)
    again = [eager.nn.Parameter(p.detach().clone()) for p in ps]
    b = eager.optim.AdamW(again)
    b.load_state_dict(copy.deepcopy(a.state_dict()))
    assert b.param_groups[0]["lr"] == 0.02
    steps(a, ps, 3, 3)
    steps(b, again, 3, 3)
    for p, q in zip(ps, again, strict=True):
        assert np.array_equal(p.detach().numpy(), q.detach().numpy())


def test_groups_with_settings_of_their_own():
    results = []
    for library in (eager, torch):
        ps = parameters(library)
        groups = [{"params": ps[:1], "lr": 0.5}, {"params": ps[1:2]}]
        optimizer = library.optim.SGD(groups, lr=0.1, momentum=0.5)
        optimizer.add_param_group({"params": ps[2:], "weight_decay": 0.1})
        steps(optimizer, ps, 0, 5)
        results.append(ps)
        assert [g["lr"] for g in optimizer.param_groups] == [0.5, 0.1, 0.1]
    assert_close(*results)


def test_closure_is_called_with_gradients_on():
    ps = parameters(eager)
    optimizer = eager.optim.SGD(ps, lr=0.1)

    def closure():
        optimizer.zero_grad()
        loss = loss_of(ps, 0)
        loss.backward()
        return loss

    first = optimizer.step(closure)
    assert float(optimizer.step(closure)) < float(first)


@pytest.mark.parametrize("name", ["Adam", "SGD", "RMSprop", "ASGD"])
def test_state_that_the_program_drops_begins_anew(name):
    settings = {"momentum": 0.9} if name == "SGD" else {}
    ends = []
    for library in (torch, eager):
        w = library.full((3,), 4.0, requires_grad=True)  # far from zero at the end, too
        optimizer = getattr(library.optim, name)([w], lr=0.01, **settings)

        def step(w=w, optimizer=optimizer):
            optimizer.zero_grad()
            (w**3).sum().backward()
            optimizer.step()

        step = step if library is torch else jitcap.jit(step, backend="eager")
        step()
        optimizer.state.clear()
        step()
        step()
        ends.append(w.detach().numpy())
    np.testing.assert_allclose(ends[1], ends[0], rtol=1e-5)


def test_parameters_without_gradient_stay():
    ps = parameters(eager)
    before = [p.detach().numpy().copy() for p in ps]
    optimizer = eager.optim.AdamW(ps, lr=0.1)
    (ps[0] * 2).sum().backward()
    optimizer.step()
    assert not np.array_equal(before[0], ps[0].detach().numpy())
    assert np.array_equal(before[1], ps[1].detach().numpy())


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda ps: eager.optim.SGD([], lr=0.1), ValueError),
        (lambda ps: eager.optim.SGD(ps[0], lr=0.1), TypeError),
        (lambda ps: eager.optim.SGD([ps[0] * 2], lr=0.1), ValueError),
        (lambda ps: eager.optim.SGD([1.0], lr=0.1), TypeError),
        (lambda ps: eager.optim.SGD([{"params": ps}, {"params": ps[:1]}]), ValueError),
        (lambda ps: eager.optim.Adam(ps, lr=-1), ValueError),
        (lambda ps: eager.optim.Adam(ps, betas=(1.0, 0.9)), ValueError),
        (lambda ps: eager.optim.SGD(ps, nesterov=True), ValueError),
    ],
)
def test_bad_settings(make, error):
    with pytest.raises(error):
        make(parameters(eager))


def test_operations_on_lists_of_tensors():
    """`torch._foreach_*`: names that begin with an underscore, and which all the world calls."""

    def run(lib):
        xs = [lib.tensor([1.0, -2.0]), lib.tensor([[3.0, 0.5]])]
        ys = [lib.tensor([0.5, 4.0]), lib.tensor([[1.0, 2.0]])]
        lib._foreach_add_(xs, ys, alpha=2)
        lib._foreach_mul_(xs, [2.0, 3.0])
        lib._foreach_lerp_(xs, ys, weight=0.25)
        lib._foreach_addcmul_(xs, ys, ys, 0.5)
        lib._foreach_addcdiv_(xs, ys, xs, scalars=[1.0, 2.0])
        lib._foreach_maximum_(xs, 0.7)
        lib._foreach_zero_(ys[:1])
        norms = lib._foreach_norm(xs, 1)
        roots = lib._foreach_sqrt(lib._foreach_pow(xs, 3))
        return [t.tolist() for t in (*xs, *ys, *norms, *roots, *lib._foreach_sub(xs, ys))]

    for ours, theirs in zip(run(eager), run(torch), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)


def test_settings_may_be_required():
    from eager.optim.optimizer import required

    class Plain(eager.optim.Optimizer):
        pass

    with pytest.raises(ValueError, match="didn't specify a value of required .* lr"):
        Plain(parameters(eager), {"lr": required})
    groups = [{"params": parameters(eager), "lr": 0.5}]
    assert Plain(groups, {"lr": required}).param_groups[0]["lr"] == 0.5


def test_a_custom_optimizer_may_define_step():
    class Plain(eager.optim.Optimizer):
        def __init__(self, params, lr):
            super().__init__(params, {"lr": lr})

        @eager.no_grad()
        def step(self, closure=None):
            for group in self.param_groups:
                for p in group["params"]:
                    state = self.state[p]
                    if len(state) == 0:
                        state["count"] = 0
                    state["count"] += 1
                    p.add_(p.grad, alpha=-group["lr"])

    ps = parameters(eager)
    optimizer = Plain(ps, 0.1)
    steps(optimizer, ps, 0, 3)
    assert optimizer.state[ps[0]]["count"] == 3
    theirs = parameters(torch)
    steps(torch.optim.SGD(theirs, lr=0.1), theirs, 0, 3)
    assert_close(ps, theirs)


def rosenbrock(p):
    return (1 - p[0]) ** 2 + 100 * (p[1] - p[0] ** 2) ** 2


@pytest.mark.parametrize("search", [None, "strong_wolfe"])
def test_lbfgs(search):
    """Step for step like torch, evaluation for evaluation."""
    ends, paths = [], []
    for library in (eager, torch):
        p = library.nn.Parameter(library.tensor([-0.3, 0.4], dtype=library.float64))
        path = []
        lr, rounds = (1.0, 5) if search else (0.05, 1)
        optimizer = library.optim.LBFGS([p], lr=lr, max_iter=20, line_search_fn=search)

        def closure():
            optimizer.zero_grad()
            loss = rosenbrock(p)
            loss.backward()
            path.append(loss.item())
            return loss

        for _ in range(rounds):
            optimizer.step(closure)
        paths.append(path)
        ends.append(p.detach().numpy())
    np.testing.assert_allclose(*ends, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(*paths, rtol=1e-5, atol=1e-9)
    if search:
        np.testing.assert_allclose(ends[0], [1, 1], atol=1e-4)


@pytest.mark.parametrize("case", range(6))
def test_lbfgs_searches_as_torch_does(case):
    """Each evaluation of a line search is at torch's place: functions that are far from quadratic,
    steps much too long and too short, a long slope, few evaluations."""
    functions = [
        lambda p: (p**4).sum() + (p[0] - p[1]).abs(),
        lambda p: (p.sin() * 3).sum() + (p**2).sum() * 0.1,
        lambda p: (-(p**2)).exp().sum().neg(),
        lambda p: p.sum() * 2 + (p**2).sum() * 1e-3,
        lambda p: (p.exp() - 2 * p).sum(),
        lambda p: rosenbrock(p) + (5 * p).cos().sum(),
    ]
    for lr, most, evaluations in ((0.01, 6, None), (1.0, 6, 25), (5.0, 5, 9), (0.3, 1, None)):
        paths = []
        for library in (eager, torch):
            p = library.tensor([0.7, -1.3], dtype=library.float64, requires_grad=True)
            optimizer = library.optim.LBFGS(
                [p], lr=lr, max_iter=most, max_eval=evaluations, line_search_fn="strong_wolfe"
            )
            path = []

            def closure(p=p, path=path, optimizer=optimizer):
                optimizer.zero_grad()
                loss = functions[case](p)
                loss.backward()
                path.append(loss.item())
                return loss

            for _ in range(3):
                optimizer.step(closure)
            state = optimizer.state[p]
            paths.append([*path, state["n_iter"], state["func_evals"], *p.tolist()])
        assert len(paths[0]) == len(paths[1]), (lr, most)
        np.testing.assert_allclose(*paths, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("search", [None, "strong_wolfe"])
def test_lbfgs_keeps_what_torch_keeps(search):
    """The names of its state and, without a line search, the values."""
    states = []
    for lib in (eager, torch):
        x = lib.tensor([1.0, 2.0], requires_grad=True)
        optimizer = lib.optim.LBFGS([x], lr=0.1, max_iter=4, line_search_fn=search)

        def closure(x=x, optimizer=optimizer):
            optimizer.zero_grad()
            loss = ((x - 3) ** 2).sum() + (x**4).sum()
            loss.backward()
            return loss

        optimizer.step(closure)
        optimizer.step(closure)
        states.append(optimizer.state[x])
    ours, theirs = states
    assert set(ours) == set(theirs) - {"al"}  # room for its recursion
    if search is None:
        for name in ("n_iter", "func_evals", "t", "prev_loss"):
            assert ours[name] == pytest.approx(theirs[name], rel=1e-5), name
        for name in ("d", "H_diag", "prev_flat_grad", "old_dirs", "old_stps", "ro"):
            pairs = (
                zip(ours[name], theirs[name], strict=True)
                if isinstance(ours[name], list)
                else [(ours[name], theirs[name])]
            )
            for a, b in pairs:
                np.testing.assert_allclose(a, b, rtol=1e-4, err_msg=name)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(("name", "settings"), [c for c in CASES if c[0] != "Adafactor"], ids=str)
def test_complex_parameters(name, settings, compiled):
    """Real and imaginary parts are scaled each by itself."""

    def run(lib):
        p = lib.nn.Parameter(lib.tensor([1 + 2j, -0.5j, 3 + 0j]))
        optimizer = getattr(lib.optim, name)([p], **settings)

        def step(x):
            optimizer.zero_grad()
            loss = ((p * x - 1).abs() ** 2).mean() + (p.real * 0.3).sum()
            loss.backward()
            optimizer.step()
            return loss

        step = jitcap.jit(step, backend="eager") if compiled and lib is eager else step
        losses = [step(lib.tensor([0.3 * i + 1j, 1 - 0.2j * i, 0.5j])).item() for i in range(6)]
        state = {k: v.detach().numpy() for k, v in optimizer.state[p].items() if v is not None}
        return losses, p.detach().numpy(), state

    (losses, p, state), (their_losses, q, their_state) = run(eager), run(torch)
    np.testing.assert_allclose(losses, their_losses, rtol=1e-4)
    np.testing.assert_allclose(p, q, rtol=1e-4, atol=1e-5)
    for key, value in their_state.items():
        np.testing.assert_allclose(state[key], value, rtol=1e-4, atol=1e-5)
        assert state[key].dtype == value.dtype


def test_adafactor_refuses_complex_parameters():
    with pytest.raises(RuntimeError, match="complex"):
        eager.optim.Adafactor([eager.nn.Parameter(eager.tensor([1j]))])


@pytest.mark.parametrize(
    "name", ["SGD", "Adam", "AdamW", "NAdam", "RAdam", "RMSprop", "Adagrad", "Adadelta", "ASGD"]
)
def test_a_differentiable_step(name):
    """Gradients through two steps, by what the gradient of the first depends on."""

    def run(lib):
        scale = lib.tensor(0.3, dtype=lib.float64).requires_grad_()
        start = lib.tensor([1.0, -2.0, 0.5], dtype=lib.float64).requires_grad_()
        moved = start * scale
        optimizer = getattr(lib.optim, name)([moved], lr=0.05, differentiable=True)
        for i in range(2):
            moved.grad = lib.tensor([0.7, 0.2, -1.1], dtype=lib.float64) * (scale + i) + start
            optimizer.step()
        found = lib.autograd.grad(((moved - 1) ** 2).sum(), [start, scale])
        return [x.detach().numpy() for x in found]

    for ours, theirs in zip(run(eager), run(torch), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)
    with pytest.raises(ValueError, match="non-leaf"):
        getattr(eager.optim, name)([eager.ones(1, requires_grad=True) * 2])


def hooked_run(lib, wrap):
    """What hooks of an optimizer are called with, around steps, `state_dict` and loading."""
    seen = []
    x = lib.ones(2, requires_grad=True)
    optimizer = lib.optim.SGD([x], lr=0.5)
    handle = optimizer.register_step_pre_hook(lambda o, args, kwargs: seen.append("before"))
    optimizer.register_step_post_hook(lambda o, args, kwargs: seen.append(x[0].item()))
    optimizer.register_state_dict_pre_hook(lambda o: seen.append("state"))
    optimizer.register_state_dict_post_hook(lambda o, state: {**state, "extra": 1})
    optimizer.register_load_state_dict_pre_hook(
        lambda o, state: {k: v for k, v in state.items() if k != "extra"}
    )
    optimizer.register_load_state_dict_post_hook(lambda o: seen.append("loaded"))

    def step():
        optimizer.zero_grad()
        (x**2).sum().backward()
        optimizer.step()

    step = wrap(step)
    step()
    step()
    handle.remove()
    state = optimizer.state_dict()
    optimizer.load_state_dict(state)
    copy.deepcopy(optimizer).step()
    step()
    return seen, sorted(state), [float(v) for v in x.detach()]


def test_hooks():
    want = hooked_run(torch, lambda f: f)
    assert hooked_run(eager, lambda f: f) == want
    assert hooked_run(eager, jitcap.jit) == want


def test_parameters_may_have_names_and_be_listed_twice():
    x = eager.ones(2, requires_grad=True)
    named = eager.optim.SGD([("x", x)], 0.1)
    assert named.state_dict()["param_groups"][0]["param_names"] == ["x"]
    with pytest.raises(ValueError, match="missing"):
        eager.optim.SGD([("x", x), x], 0.1)
    with pytest.warns(UserWarning, match="duplicate"):
        twice = eager.optim.SGD([x, x], 0.1)
    x.grad = eager.ones(2)
    twice.step()
    assert np.allclose(x.detach().numpy(), 0.8)
    with pytest.raises(TypeError, match="closure"):
        eager.optim.LBFGS([x]).step()
    assert type(eager._foreach_add([x, x], 1.0)) is tuple


@pytest.mark.parametrize("jitted", [False, True])
@pytest.mark.parametrize(("kind", "settings"), [("SGD", {"momentum": 0.9}), ("Muon", {})])
def test_momentum_of_zero_gradients_is_saved(kind, settings, jitted):
    stepped, idle = (eager.ones(2, 2, requires_grad=True) for _ in range(2))
    opt = getattr(eager.optim, kind)([stepped, idle], lr=0.1, **settings)

    def train():
        opt.zero_grad()
        (stepped * 0).sum().backward()
        opt.step()

    train = jitcap.jit(train, backend="python") if jitted else train
    for _ in range(3):
        train()
        assert [*opt.state_dict()["state"]] == [0]


def test_a_subclass_may_extend_setstate():
    class Extended(eager.optim.SGD):
        def __setstate__(self, state):
            super().__setstate__(state)
            for group in self.param_groups:
                group.setdefault("added", 1)

    opt = Extended([eager.ones(2, requires_grad=True)], lr=0.1)
    assert copy.deepcopy(opt).param_groups[0]["added"] == 1


@pytest.mark.parametrize("jitted", [False, True])
@pytest.mark.parametrize("of", ["optimizer", "module"])
def test_a_gradient_that_is_a_view_can_be_zeroed(of, jitted):
    model = eager.nn.Linear(3, 2)
    opt = eager.optim.SGD(model.parameters(), lr=0.1)

    def train(x):
        (opt if of == "optimizer" else model).zero_grad(set_to_none=False)
        grads = eager.autograd.grad(model(x).sum(), list(model.parameters()))
        for p, g in zip(model.parameters(), grads, strict=True):
            p.grad = g.t().clone().t() if g.ndim > 1 else eager.stack([g, g])[0]
        opt.step()

    train = jitcap.jit(train, backend="python") if jitted else train
    before = model.bias.detach().clone()
    for _ in range(3):
        train(eager.ones(4, 3))
    assert eager.allclose(model.bias, before - 1.2)


def test_a_group_is_a_dict():
    w = eager.nn.Parameter(eager.ones(2))
    with pytest.raises(TypeError, match="param_group must be a dict, but got <class 'list'>"):
        eager.optim.SGD([w], 0.1).add_param_group([eager.nn.Parameter(eager.ones(2))])
