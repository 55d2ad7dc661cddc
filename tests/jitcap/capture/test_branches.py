"""Branches on tensors: programs run plainly and under @jit, with both outcomes, and compared: values,
effects, gradients, draws, exceptions. Those of ONE are one graph; those of SPLITS are not, and as
right."""

import copy
import math
import sys

import numpy as np
import pytest

import eager
from jitcap import jit
from jitcap.base.diagnostics import JitcapWarning
from jitcap.capture.control import branch, while_loops
from tests.jitcap.capture.branch_programs_returns import LAST
from tests.jitcap.capture.branch_programs_writes import ONE, SPLITS


def flat(value):
    """A value as data: arrays, whether they have a gradient, and of what history."""
    if isinstance(value, eager.Tensor):
        name = value.grad_fn.name() if value.grad_fn is not None else None
        return value.detach().numpy().copy(), value.requires_grad, name, value.is_contiguous()
    if isinstance(value, list | tuple):
        return [flat(x) for x in value]
    if isinstance(value, dict):
        return {k: flat(v) for k, v in value.items()}
    return value if not hasattr(value, "__dict__") else flat(vars(value))


def copied(world, sign):
    """Arguments of a call, the first with this sign, and the tensors made for it."""
    x, *rest = (copy.deepcopy(a) if isinstance(a, eager.Tensor) else a for a in world)
    return [x * sign, *rest], [a for a in (x, *rest) if isinstance(a, eager.Tensor)]


def run(fn, make, signs, step):
    """All that calls with these signs give and leave behind."""
    eager.manual_seed(3)
    world, found = make(), []
    for sign in signs:
        args, leaves = copied(world, sign)
        try:
            result = step(*args)
            found.append([flat(result), [result is a for a in args]])
        except (ValueError, AssertionError, AttributeError) as error:
            found.append([type(error).__name__, str(error)])
        found.append([flat(args), flat([a.grad for a in leaves])])
    return [*found, eager.rand(1).item()]


def compare(found, expected, path=""):
    if isinstance(expected, list | tuple) and not isinstance(expected, np.ndarray):
        assert len(found) == len(expected), path
        for i, (a, b) in enumerate(zip(found, expected, strict=True)):
            compare(a, b, f"{path}[{i}]")
    elif isinstance(expected, dict):
        assert list(found) == list(expected), path
        for key in expected:
            compare(found[key], expected[key], f"{path}[{key!r}]")
    elif isinstance(expected, np.ndarray | float):
        np.testing.assert_allclose(found, expected, rtol=3e-6, atol=1e-7, err_msg=path)
        assert type(found) is type(expected), path
        assert getattr(found, "dtype", 0) == getattr(expected, "dtype", 0), path
    else:
        assert found == expected, path
        assert type(found) is type(expected), path


SIGNS = [(1, -1, 1, -1), (-1, 1, -1, 1)]
ORDERS = [
    pytest.param(SIGNS[0], id="true first"),
    pytest.param(SIGNS[1], id="false first", marks=pytest.mark.once),
]


def check(fn, make, signs, **options):
    step = jit(fn, **options)
    compare(run(fn, make, signs, step), run(fn, make, signs, fn))
    return step


@pytest.mark.parametrize("name", [*ONE, *LAST])
@pytest.mark.parametrize("signs", ORDERS)
def test_one_graph(name, signs):
    fn, make = {**ONE, **LAST}[name]
    step = check(fn, make, signs, backend="python")
    assert step.stats.splits == step.stats.fallbacks == 0
    assert step.stats.graphs <= step.stats.compiles <= 2


TOGETHER = 8  # programs in one graph


@pytest.mark.once
@pytest.mark.parametrize("first", range(0, len(ONE), TOGETHER))
def test_compiled_code(first):
    parts = list(ONE.values())[first : first + TOGETHER]

    def step(worlds):
        return [fn(*world) for (fn, _), world in zip(parts, worlds, strict=True)]

    def outcomes(step):
        eager.manual_seed(3)
        made, found = [make() for _, make in parts], []
        for sign in SIGNS[0]:
            worlds, leaves = zip(*(copied(world, sign) for world in made), strict=True)
            result = flat(step(worlds))
            found.append([result, flat(worlds), [flat(a.grad) for own in leaves for a in own]])
        return [*found, eager.rand(1).item()]

    compiled = jit(step, backend="cpp")
    compare(outcomes(compiled), outcomes(step))
    assert compiled.stats.splits == compiled.stats.fallbacks == 0


@pytest.mark.parametrize("name", SPLITS)
@pytest.mark.parametrize("signs", ORDERS)
@pytest.mark.filterwarnings("ignore::jitcap.base.diagnostics.JitcapWarning")
def test_what_splits_is_right(name, signs):
    fn, make = SPLITS[name]
    check(fn, make, signs, backend="python")


@pytest.mark.parametrize("name", [*ONE, *LAST, *SPLITS])
@pytest.mark.filterwarnings("ignore::jitcap.base.diagnostics.JitcapWarning")
def test_op_by_op(name):
    fn, make = {**ONE, **LAST, **SPLITS}[name]
    check(fn, make, SIGNS[0], backend="eager")


OPTIMIZERS = {
    "SGD": {"lr": 0.01}, "SGD with momentum": {"lr": 0.01, "momentum": 0.9}, "Adam": {"lr": 0.01},
    "AdamW": {"lr": 0.01}, "RMSprop": {"lr": 0.01},
}  # fmt: skip


def scaled_steps(optimizer, wrap):
    """Twelve steps with a GradScaler, from an optimizer that has no state yet; some overflow."""
    eager.manual_seed(0)
    net = eager.nn.Linear(3, 2)
    opt = getattr(eager.optim, optimizer.split()[0])(net.parameters(), **OPTIMIZERS[optimizer])
    scaler = eager.amp.GradScaler("cpu", init_scale=64.0, growth_interval=3)

    def step(x):
        opt.zero_grad()
        loss = net(x).square().mean()
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        eager.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        scaler.step(opt)
        scaler.update()
        return loss

    fn, rows = wrap(step), []
    bad = {0: float("inf"), 3: float("nan"), 4: float("-inf")}
    for k in range(12):
        loss = fn(eager.full((4, 3), bad.get(k, 1 + k / 4)))
        state = [flat(held) for held in opt.state_dict()["state"].values()]
        counts = [p._version for p in net.parameters()]
        scale = [scaler.get_scale(), scaler._growth_tracker.item()]
        rows.append([flat(loss), flat([*net.parameters()]), state, counts, scale, opt._opt_called])
    return rows, fn


@pytest.mark.filterwarnings("ignore::jitcap.base.diagnostics.JitcapWarning")
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_step_skipped_is_one_graph(optimizer):
    """GradScaler: the optimizer's step is taken or not by what the gradients are. One that was
    never taken leaves no state."""
    expected, _ = scaled_steps(optimizer, lambda f: f)
    found, fn = scaled_steps(optimizer, lambda f: jit(f, backend="python"))
    compare(found, expected)
    assert expected[0][2] == []
    assert (fn.stats.splits, fn.stats.fallbacks, fn.stats.graphs, fn.stats.compiles) == (0, 0, 1, 1)


def test_a_step_under_if_splits_nothing():
    """The optimizer's first step may be one that is not taken."""
    rows = []
    for wrap in (lambda f: f, lambda f: jit(f, backend="python")):
        w = eager.nn.Parameter(eager.ones(3))
        opt = eager.optim.Adam([w])

        def step(x, w=w, opt=opt):
            opt.zero_grad()
            loss = (w * x).sum()
            loss.backward()
            if loss.isfinite():
                opt.step()
            return loss

        fn = wrap(step)
        values = (float("inf"), 1.0, float("nan"), 2.0)
        seen = [(fn(eager.full((3,), v)), len(opt.state_dict()["state"])) for v in values]
        rows.append([flat(seen), flat(w), w._version, opt._opt_called])
    compare(rows[1], rows[0])
    assert fn.stats.splits == 0 and fn.stats.graphs <= 2


def test_tensors_that_one_way_is_the_first_to_name_count_its_writes():
    def one(b, n):
        if n > 0:
            b[0].add_(1)

    def each(b, n):
        if n > 1:
            b[0].add_(1)
            if n > 2:
                b[1].mul_(2).add_(1)
        else:
            b[2].add_(1).mul_(2)

    def a_part(b, n):
        if n > 1:
            b[0][0].add_(1)
        b[0].mul_(2)

    def rounds(b, n):
        i = eager.tensor(0.0)
        while i < n:
            i = i + 1
            b[0].add_(1)
            if i > 1:
                b[1].add_(i)

    for body in (one, each, a_part, rounds):
        fn = jit(body, backend="python")
        a, b = [[eager.zeros(3) for _ in range(3)] for _ in range(2)]
        for n in (0.0, 1.0, 3.0, 2.0, 0.0):
            body(a, eager.tensor(n))
            fn(b, eager.tensor(n))
            assert [x._version for x in b] == [x._version for x in a], (body.__name__, n)
        compare(flat(b), flat(a))
        assert fn.stats.splits == 0 and fn.stats.graphs == 1


@pytest.mark.filterwarnings("ignore::jitcap.base.diagnostics.JitcapWarning")
def test_second_derivatives_from_outside():
    def fn(x, w):
        if x.sum() > 0:
            with eager.no_grad():
                c = w * 2
            return (w * w * w * c).sum()
        return ((w * 2).exp() * x).sum()

    found = []
    for step in (fn, jit(fn)):
        for sign in (1, -1):
            w = eager.tensor([0.5, -0.25], requires_grad=True)
            (g,) = eager.autograd.grad(step(eager.ones(2) * sign, w), [w], create_graph=True)
            (h,) = eager.autograd.grad((g * g).sum(), [w])
            found.append([g.detach().numpy(), h.numpy()])
    compare(found[2:], found[:2])


def test_the_record_says_why():
    def fn(x, log):
        if x.sum() > 0:
            log.append(1)
        return x * 2

    with pytest.warns(JitcapWarning, match="a list has another length|log is changed in one way"):
        jit(fn)(eager.ones(2), [])


def test_the_record_of_branches_in_branches_says_it_once():
    def step(x, log):
        if x[0] > 0:
            x = x + 1
            if x[1] > 0:
                if x[0] > 1:
                    log.append(len(log))
        return x

    with pytest.warns(JitcapWarning) as said:
        assert jit(step, backend="eager")(eager.ones(2), []).tolist() == [2, 2]
    assert max(str(warning.message).count("in one way, ") for warning in said) == 1


def one_of_two(x, y):
    if x.sum() > 0:
        b = x if x[0] > 3 else y
    else:
        b = y if x[1] > 3 else x * 2
    return b, y


def new_twice(x, y):
    a, b = (x, y) if x.sum() > 0 else (t := x * 2, t)
    return a, b


def new_inside(x, y):
    b = c = x
    if x.sum() > 0:
        t = x * 2
        b = t if x[0] > 3 else b
        c = t
    return b, c


def three_times(x, y):
    for _ in range(3):
        if x[0] > 0:
            x = x if y[0] > 0 else x + 1 if y[1] > 0 else y
    return x


def a_loop_in_a_branch(x, y):
    if x.sum() > 0:
        while x.sum() < 10:
            x = x * 2
    if y[1] > 0:
        x = y
    return x


def the_best_so_far(x, y):
    best, v = x, y
    while v.sum() < 20:
        v = v + 5
        if v[0] > 12:
            best = v * 2
    return best, v


def the_one_before(x, y):
    old = x
    if y[0] > 0:
        while x.sum() < 10:
            old, x = x, x * 2
    return old, x


def either_or(x, y):
    if (x.sum() > 5 and x[0] < 3) or x[1] > 9:
        x = x * 2
    return x


WHOLE = (one_of_two, three_times, a_loop_in_a_branch, the_best_so_far, the_one_before, either_or)


@pytest.mark.parametrize("fn", [*WHOLE, new_twice, new_inside], ids=lambda fn: fn.__name__)
@pytest.mark.filterwarnings("ignore::jitcap.base.diagnostics.JitcapWarning")
def test_which_object_comes_back(fn):
    def told(step, *given):
        x, y = map(eager.tensor, given)
        found = step(x, y)
        found = found if isinstance(found, tuple) else (found,)
        same = [[a is b for b in (x, y, *found)] for a in found]
        return [t.tolist() for t in (*found, x, y)], same

    step = jit(fn, backend="eager")
    for x in ([1.0, 1.0, 1.0], [5.0, -1.0, 0.0], [-5.0, 4.0, 0.0], [3.0, 1.0, 4.0]):
        for y in ([1.0, 1.0, 1.0], [-1.0, 2.0, 3.0], [-1.0, -1.0, -1.0], [9.0, 9.0, 9.0]):
            assert told(step, x, y) == told(fn, x, y)
    assert step.stats.fallbacks == 0
    assert step.stats.splits == (fn not in WHOLE)


def test_branches_in_front_of_a_loop_are_none_of_its_tests(monkeypatch):
    """Each is read up to where its own ways meet, so their number counts, and no power of two."""
    space, read = {}, []
    run = branch._Branch.run
    monkeypatch.setattr(branch._Branch, "run", lambda self: read.append(1) or run(self))
    text = ["def f(x):", "    if x.sum() > 0:"]
    text += [f"        if x[0] > {i}:\n            x = x + {i}" for i in range(8)]
    text += ["    while x.sum() < 50:", "        x = x * 2"]
    exec("\n".join([*text, "    return x"]), space)
    step = jit(space["f"], backend="eager")
    for start in ([1.0, 2.0, 3.0], [8.0, 1.0, -1.0], [1.0, -4.0, 60.0]):
        x = eager.tensor(start)
        assert step(x).tolist() == space["f"](x).tolist()
    assert step.stats.graphs == 1
    assert not step.stats.splits
    assert len(read) < 30


def test_a_loop_that_is_none_is_not_tried_at_each_turn(monkeypatch):
    made = []
    before = while_loops.Checkpoint
    monkeypatch.setattr(while_loops, "Checkpoint", lambda *args: made.append(1) or before(*args))

    def chain(x, n):
        last = None
        for i in range(n):
            last = (i, last)
        return x, last

    def counted(x, n):
        last, i = None, 0
        while i < n:
            last, i = (i, last), i + 1
        return x, last

    x = eager.ones(2)
    for fn in (chain, counted):
        step = jit(fn, backend="eager")
        for n in (10, 20, 30, 40):
            assert step(x, n)[1] == fn(x, n)[1]
    assert len(made) < 30


def test_a_number_too_long_for_text_in_both_ways():
    long = 10**5000

    def step(x):
        n = long if x.sum() > 0 else long + 0
        return x, n == long

    compiled = jit(step, backend="python", fullgraph=True)
    assert [compiled(eager.ones(2) * k)[1] for k in (1, -1)] == [True, True]


@pytest.mark.parametrize("optimizer", ["SGD", "Adam"])
@pytest.mark.parametrize("early", [False, True])
def test_steps_that_are_left_out(optimizer, early):
    """The first step makes gradients and the optimizer's state: it is compiled for that alone."""
    found = []
    for wrap in (lambda f: f, lambda f: jit(f, backend="eager")):
        eager.manual_seed(0)
        net = eager.nn.Linear(3, 2)
        opt = getattr(eager.optim, optimizer)(net.parameters(), lr=0.01)
        skipped = [0]

        def step(x, net=net, opt=opt, skipped=skipped):
            loss = net(x).square().mean()
            if eager.isfinite(loss):
                opt.zero_grad()
                loss.backward()
                opt.step()
            elif early:
                return None
            else:
                skipped[0] += 1
            return loss.detach()

        run, losses = wrap(step), []
        for i in range(6):
            losses.append(flat(run(eager.randn(4, 3) * (math.inf if i in (3, 4) else 1))))
        found.append([losses, flat(list(net.parameters())), skipped])
    compare(found[1], found[0])
    assert run.stats.splits == run.stats.discards == run.stats.fallbacks == 0
    assert run.stats.compiles <= 3


@pytest.mark.filterwarnings("ignore::jitcap.base.diagnostics.JitcapWarning")
def test_a_loss_that_ends_the_program(capsys):
    def step(x, log):
        log[0] += 1
        if not math.isfinite(value := x.sum().item()):
            print(f"Loss is {value}, stopping training")
            sys.exit(1)
        return x * 2

    fn, log = jit(step, backend="eager"), [0]
    assert fn(eager.ones(2), log).tolist() == [2, 2]
    with pytest.raises(SystemExit) as ended:
        fn(eager.ones(2) * math.inf, log)
    assert ended.value.code == 1
    assert capsys.readouterr().out == "Loss is inf, stopping training\n"
    assert fn(eager.ones(2), log).tolist() == [2, 2]
    assert log == [3]
    assert (fn.stats.splits, fn.stats.discards) == (0, 1)
