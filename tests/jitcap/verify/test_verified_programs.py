"""`verify=True` finds nothing wrong with healthy programs, and the call is the plain one."""

import contextlib
import io
import logging
import random
import sys
import warnings

import numpy as np
import pytest

import eager
from eager import nn
from jitcap import config, jit
from jitcap.passes.dead import dead_code
from jitcap.verify import tolerance
from jitcap.verify.compare import Comparison, Leaf
from jitcap.verify.copies import Copies

F = nn.functional
LOGGER = logging.getLogger("somewhere")


def verified(fn, backend="eager"):
    return jit(fn, verify=True, backend=backend)


class Scaled:
    def __init__(self, factor):
        self.factor = factor
        self.seen = []


def scale(x, settings):
    y = x * settings.factor
    return y + 1


def two_writes(x, box):
    box["last"] = x.sum()
    box["n"] = 1
    del box["old"]
    return x * 2


def moved_to_the_end(x, table):
    table["a"] = table.pop("a") + 1
    table["b"] = table["b"] + 1
    return x


def drawn(x):
    noise = eager.rand(3)
    return x + noise + eager.rand(3)


def reports(x):
    print("before")
    print("the sum is", x.sum().item())
    return x


def loss_of(x, w):
    hidden = (x * w).tanh()
    loss = hidden.sum()
    loss.backward()
    return loss


def forward_only(x, w):
    return (x * w).tanh().sum()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(4, 8), nn.Linear(8, 2)
        self.drop, self.norm = nn.Dropout(0.2), nn.BatchNorm1d(8)
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return self.two(self.drop(self.norm(self.one(x)).relu()))


@pytest.mark.parametrize("backend", ["eager", "cpp"])
def test_training_is_left_alone(backend):
    """AdamW, dropout, batch norm, clipping, a schedule: the steps are those of plain Python."""

    def train(wrap):
        eager.manual_seed(3)
        net = Net()
        opt = eager.optim.AdamW(net.parameters(), lr=1e-2)
        schedule = eager.optim.lr_scheduler.StepLR(opt, 2)
        losses = []

        def step(x, y):
            loss = F.cross_entropy(net(x), y)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            opt.step()
            schedule.step()
            losses.append(loss.item())
            return loss

        step = wrap(step)
        for _ in range(4):
            step(eager.randn(16, 4), eager.randint(0, 2, (16,)))
        return losses, net.calls

    assert train(lambda fn: verified(fn, backend)) == train(lambda fn: fn)


def prints(x, log):
    print(f"{x.sum().item():.3f}", x.mean().item())
    print("done", end="!\n")
    LOGGER.warning("at %s", 3)
    log.append(x.max().item())
    return len(log)


def generators(x):
    def numbers(n):
        for i in range(n):
            yield x * i

    a, *rest = numbers(4)
    return {"first": a, "rest": rest, "total": sum(rest)}


def views(x):
    y = x * 2
    z = y.view(6)
    z[0] = 5
    return y, z, y.t(), x.reshape(3, 2), x[0]


def split(x, log):
    y = x * 2
    if y.sum() > 0:
        log.append("positive")
        y = y + 1
    for name, value in {"a": 1, "b": 2}.items():
        y = y + value
        log.append(name)
    return y.tolist()


def chance(x):
    return x * random.random() + random.gauss(0.0, 1.0) + np.random.rand()


def in_place(x):
    x.add_(1)
    x[0] = 0
    x.grad = x * 2
    x.note = "seen"
    return x


def cells():
    total = 0
    history = []

    def add(x):
        nonlocal total
        total = total + 1
        history.append((total, x.sum()))
        return history[-1]

    return add


def rounding(x):
    y = x - x.mean()
    return (y / (y.abs() + 1e-12)).sum(), (x @ x.t()).softmax(-1), (y.sum() > 0)


def warns(x):
    warnings.warn("slow", stacklevel=1)
    return x


def logs_to_a_stream(x):
    """What the handler writes is no print of the program's."""
    LOGGER.warning("%(a)s", {"a": 1})
    return x


LOGGER.addHandler(logging.StreamHandler())


def notes(x):
    x.count = getattr(x, "count", 0) + 1
    return x.count


class Key:
    """Its hash may run when a table is written, not when it is copied to be compared."""

    def __hash__(self):
        return 1


def keyed(x, table):
    return [x * factor for factor in table.values()]


def limits(x):
    return x, sys.getrecursionlimit()


@pytest.mark.parametrize(
    ("fn", "args"),
    [
        (logs_to_a_stream, lambda: (eager.ones(3),)),
        (notes, lambda: (eager.ones(3),)),
        (keyed, lambda: (eager.ones(3), {Key(): 1, "b": 2})),
        (limits, lambda: (eager.ones(3),)),
        (prints, lambda: (eager.randn(5), [])),
        (generators, lambda: (eager.randn(3),)),
        (views, lambda: (eager.randn(2, 3),)),
        (split, lambda: (eager.ones(3), [])),
        (chance, lambda: (eager.randn(3),)),
        (in_place, lambda: (eager.randn(3),)),
        (cells(), lambda: (eager.randn(3),)),
        (rounding, lambda: (eager.randn(64, 32),)),
        (two_writes, lambda: (eager.ones(3), {"old": 2})),
        (drawn, lambda: (eager.ones(3),)),
        (reports, lambda: (eager.randn(3),)),
        (loss_of, lambda: (eager.randn(3), eager.randn(3).requires_grad_())),
        (forward_only, lambda: (eager.randn(3), eager.randn(3).requires_grad_())),
        (moved_to_the_end, lambda: (eager.ones(3), {"a": 1, "b": 2})),
    ],
)  # fmt: skip
@pytest.mark.parametrize("backend", ["eager", "cpp"])
@pytest.mark.filterwarnings("ignore::jitcap.JitcapWarning")
def test_healthy_programs(fn, args, backend):
    jitted = verified(fn, backend)
    for _ in range(3):
        given = args()
        with contextlib.redirect_stdout(io.StringIO()):
            jitted(*given)


def test_warnings_are_given_once():
    with warnings.catch_warnings():  # a module's first warning makes its registry
        warnings.simplefilter("ignore")
        warns(eager.ones(3))
    jitted = verified(warns)
    with pytest.warns(UserWarning, match="slow") as caught:
        jitted(eager.ones(3))
    assert len(caught) == 1


def test_the_call_is_the_plain_one():
    """Host draws, generators and effects happen once; the result is the function's own object."""
    log, x = [], eager.ones(3)

    def fn(x):
        log.append(random.random())
        return log

    random.seed(5)
    expected = [random.random() for _ in range(3)]
    random.seed(5)
    jitted = verified(fn)
    for _ in range(3):
        assert jitted(x) is log
    assert log == expected


def test_the_exception_of_the_program_is_raised():
    def fn(x, key):
        return {"a": x}[key]

    jitted = verified(fn)
    jitted(eager.ones(2), "a")
    with pytest.raises(KeyError, match="b"):
        jitted(eager.ones(2), "b")


@pytest.mark.filterwarnings("ignore::jitcap.JitcapWarning")
def test_an_exception_of_the_host_is_raised():
    def fn(x):
        print("a", "b", sep=1)
        return x

    with pytest.raises(TypeError, match="sep must be"):
        verified(fn)(eager.ones(2))


def test_a_nested_jit_runs_plainly():
    inner = jit(scale, backend="eager")

    def outer(x, settings):
        return inner(x, settings) * 2

    jitted = verified(outer)
    for _ in range(2):
        assert jitted(eager.ones(2), Scaled(2)).tolist() == [6.0, 6.0]
    assert inner.stats.compiles == 0


# ---- the parts


def test_copies_are_laid_out_like_the_originals():
    base = np.arange(24.0).reshape(2, 3, 4)
    arrays = [base, base[:, ::-1], base.transpose(2, 0, 1), np.broadcast_to(base[0, 0], (5, 4))]
    copies = Copies(arrays)
    for a in arrays:
        np.testing.assert_array_equal(copies.of(a), a)
        assert copies.of(a).strides == a.strides
        assert (copies.of(a).ctypes.data - a.ctypes.data) % 64 == 0
    copies.of(base)[0, 0, 0] = 99
    assert copies.of(arrays[1])[0, 2, 0] == 99
    assert copies.of(arrays[3])[4, 0] == 99
    assert base[0, 0, 0] == 0
    assert copies.again().of(base)[0, 0, 0] == 99


def test_noise_is_measured_per_element():
    """What cancels may differ, what does not may not."""

    def fn(x):
        return (x + 1e4) - 1e4, x * 1.5

    trail = verified(fn)
    trail(eager.tensor([1e-3, 1.0]))
    (compiled,) = trail._entries.compiled.values()
    graph = dead_code(compiled.graph)
    inputs = [np.array([1e-3, 1.0], np.float32)]
    first = tolerance.disturbed(graph, inputs, 0.0, 0)
    spread = [
        np.max([np.abs(s[i] - first[i]) for s in
                (tolerance.disturbed(graph, inputs, 1.0, seed) for seed in range(1, 9))], axis=0)
        for i in range(2)
    ]  # fmt: skip
    assert (spread[0] > 1e-4).all()
    assert (spread[1] < 1e-6).all()
    with config(tolerance=32.0):
        trail(eager.tensor([1e-3, 1.0]))


def test_what_equality_does_not_see():
    """0.0 and -0.0 are two numbers, 1 and True two members, and ranges with equal elements two."""
    comparison = Comparison({})
    comparison.match("a", {1, 2}, {True, 2})
    comparison.match("b", range(0, 3, 2), range(0, 4, 2))
    assert [d.path for d in comparison.differences] == ["a", "b"]
    assert "-0.0 in the compiled version" in tolerance.judge(
        Leaf("c", -0.0, 0.0, "c"), lambda _: iter(())
    )
    assert not tolerance.far(np.array([-0.0]), np.array([0.0])).any()


@pytest.mark.parametrize("backend", ["python", "cpp"])
def test_rounding_is_measured_at_the_sizes_of_the_call(monkeypatch, backend):
    """In a version whose sizes are symbols, too."""
    monkeypatch.setattr(tolerance, "FREE", 0)  # so that all that is rounded is measured
    weight = eager.randn(8, 8)

    def fn(x):
        order = eager.arange(x.shape[0]).flip(0)
        y = (x @ weight).softmax(-1) + x[order]
        return y.reshape(-1, 4).mean(0), y[: x.shape[0] // 2].cumsum(0), eager.zeros(x.shape[0])

    step = verified(fn, backend)
    for n in (4, 6, 9, 12):
        step(eager.randn(n, 8))
    assert step.stats.compiles == 2


def test_a_place_that_held_another_tensor_before(monkeypatch):
    """What rounding does to the one is not taken for what it does to the other."""
    monkeypatch.setattr(tolerance, "FREE", 0)
    weight, box = eager.randn(16, 16), [None]

    def fn(x):
        y = (x @ weight).tanh() @ weight
        box[0] = (y, y * 2)
        return y.sum()

    step = verified(fn, "cpp")
    for n in (3, 3, 5):
        step(eager.randn(n, 16))
    assert step.stats.fallbacks == 0
