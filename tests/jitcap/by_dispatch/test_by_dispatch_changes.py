"""A CPython whose bytecode is not known: calls are traced by dispatch, when something changes."""

import sys
import threading
import types

import numpy as np
import pytest
from by_dispatch import close, run, same, unknown_python  # noqa: F401 - a fixture

import eager
import eager.nn.functional as F
import jitcap
from eager import nn
from jitcap import JitcapWarning, jit

# ---- what is guarded


def test_shapes_dtypes_strides_and_gradients():
    def build():
        def step(x):
            return x.sum(0) * 2 + x.stride(0), x.requires_grad

        return step, list

    given = [eager.ones(2, 3), eager.ones(3, 3), eager.ones(3, 2).t(), eager.ones(2, 3).double()]
    given.append(eager.ones(2, 3, requires_grad=True))
    same(build, [(x,) for x in given * 2], compiles=5)


def test_aliasing():
    def build():
        def step(x, y):
            x.add_(1)
            y.mul_(2)
            return x + y, x is y

        return step, list

    def fresh():
        a = eager.ones(3)
        b = eager.arange(6.0)
        return [(eager.ones(3), eager.ones(3)), (a, a), (b[:3], b[3:]), (b[:3], b[1:4])]

    want, _ = run(build, fresh(), jitted=False)
    with jitcap.config(strict=False):
        got, _ = run(build, fresh(), jitted=True)
    for a, b in zip(got, want, strict=True):
        close(a, b)


def test_settings_attributes_globals_and_closures_change():
    settings = types.SimpleNamespace(scale=2.0, steps=2, flags={"bias": True})
    box = [1.0]

    class Model:
        power = 1

        def __init__(self):
            self.weight = eager.ones(2)

        def __call__(self, x):
            for _ in range(settings.steps):
                x = x * settings.scale
            if settings.flags["bias"]:
                x = x + box[0]
            return x**self.power * self.weight

    model = Model()

    def step(x):
        return model(x) + SHIFT

    jitted = jit(step, backend="python")
    x = eager.tensor([1.0, 2.0])
    changes = [
        lambda: None, lambda: setattr(settings, "scale", 3.0), lambda: setattr(settings, "steps", 3),
        lambda: settings.flags.update(bias=False), lambda: settings.flags.update(bias=True),
        lambda: box.__setitem__(0, 5.0), lambda: setattr(Model, "power", 2),
        lambda: setattr(model, "power", 1), lambda: setattr(model, "weight", eager.zeros(2)),
        lambda: globals().update(SHIFT=4.0), lambda: setattr(settings, "scale", 1.5),
        lambda: setattr(Model, "__call__", lambda self, x: x * 10),
    ]  # fmt: skip
    for change in changes:
        change()
        assert jitted(x).tolist() == step(x).tolist()
    assert jitted.stats.fallbacks == 0
    globals().update(SHIFT=0.0)


SHIFT = 0.0


def test_a_number_that_varies_is_generalised():
    def step(x, rate):
        return x * rate

    jitted = jit(step, backend="python")
    for k in range(20):
        assert jitted(eager.ones(1), k / 7).item() == pytest.approx(k / 7)
    assert jitted.stats.compiles == 2


def test_training_and_evaluation_mode():
    def build():
        net = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
        modes = iter([True, False, True, False])

        def step(x):
            return net(x)

        def look():
            net.train(next(modes))
            return list(net.state_dict().values())

        return step, look

    same(build, [(eager.randn(4, 2),) for _ in range(4)], compiles=2)


# ---- what the program changes


def test_attributes_lists_and_globals_are_written():
    def build():
        class Tracker:
            def __init__(self):
                self.mean, self.count, self.last = eager.zeros(2), 0, None

        tracker, log = Tracker(), {}

        def step(x):
            tracker.mean.mul_(0.9).add_(x, alpha=0.1)
            tracker.count += 1
            tracker.last = x * 2
            log["last"] = tracker.last
            log["view"] = tracker.mean[:1]
            return x + tracker.mean

        return step, lambda: [tracker.mean, tracker.count, tracker.last, log["last"], log["view"]]

    same(build, [(eager.ones(2) * k,) for k in range(5)], compiles=2)


def test_a_list_that_grows_runs_plainly():
    losses = []

    def step(x):
        losses.append(x.sum())
        return x

    jitted = jit(step)
    with pytest.warns(JitcapWarning, match="growing list"):
        assert [jitted(eager.ones(2) * k)[0].item() for k in range(3)] == [0, 1, 2]
    assert [t.item() for t in losses] == [0, 2, 4]


def test_nothing_stays_borrowed():
    """After a call, whether it was captured or refused, every object has what it had."""
    net = nn.Linear(2, 2)
    opt = eager.optim.AdamW(net.parameters())
    before = [id(p._array) for p in net.parameters()]

    def step(x, refuse):
        loss = net(x).sum()
        loss.backward()
        opt.step()
        if refuse:
            float(loss)
        return loss

    jitted = jit(step, backend="python")
    jitted(eager.ones(1, 2), False)
    with pytest.warns(JitcapWarning, match="data dependent"):
        jitted(eager.ones(1, 2), True)
    assert [id(p._array) for p in net.parameters()] == before
    for state in opt.state.values():
        assert all(type(t._array) is np.ndarray for t in state.values())
        assert state["step"].item() == 2
    assert all(type(p.grad._array) is np.ndarray for p in net.parameters())


def test_a_tensor_that_is_hidden_is_refused():
    """One that no guard can follow is not taken for a constant."""
    hidden = iter([eager.ones(2), eager.zeros(2)])

    def step(x):
        return x + next(hidden)

    jitted = jit(step)
    with pytest.warns(JitcapWarning, match="opaque object"):
        assert [jitted(eager.ones(2)).tolist() for _ in range(2)] == [[2, 2], [1, 1]]


def test_a_loader_beside_the_weights_is_left_alone():
    class Trainer:
        def __init__(self):
            self.loader, self.weight = iter([1, 2]), eager.ones(2)

        def step(self, x):
            self.weight.add_(x)
            return self.weight * 2

        def fetch(self, x):
            return x + next(self.loader)

    trainer = Trainer()
    step = jit(trainer.step, backend="python")
    assert [step(eager.ones(2)).tolist() for _ in range(2)] == [[4, 4], [6, 6]]
    assert step.stats.compiles == 1
    fetch = jit(trainer.fetch)
    with pytest.warns(JitcapWarning, match="loader"):
        assert [fetch(eager.zeros(1)).item() for _ in range(2)] == [1, 2]


def test_draws_are_those_of_plain_python():
    def build():
        return (lambda x: (F.dropout(x, 0.5), eager.randn(3))), list

    want, _ = run(build, [(eager.ones(8),)] * 3, jitted=False)
    got, step = run(build, [(eager.ones(8),)] * 3, jitted=True)
    for a, b in zip(got, want, strict=True):
        for x, y in zip(a[0], b[0], strict=True):
            assert np.array_equal(x, y)
    assert step.stats.compiles == 1


def test_tied_weights_are_told_apart():
    """What was two tensors, and is one."""

    def step(layers):
        seen = set()
        return sum(
            p.sum() for q in layers for p in q.parameters() if not (p in seen or seen.add(p))
        )

    one, two = nn.Linear(2, 2), nn.Linear(2, 2)
    jitted = jit(step, backend="python")
    for change in (lambda: None, lambda: setattr(two, "weight", one.weight)):
        change()
        close(jitted([one, two]), step([one, two]))
    assert jitted.stats.fallbacks == 0


def test_a_hook_reads_what_changes():
    """It runs later, when what it reads may be another one."""
    scale = [2.0]

    def step(x):
        y = x * 2
        y.register_hook(lambda g: g * scale[0])
        return y.sum()

    x = eager.ones(2, requires_grad=True)
    with pytest.warns(JitcapWarning, match="later effect"):
        loss = jit(step)(x)
    scale[0] = 5.0
    loss.backward()
    assert x.grad.tolist() == [10, 10]


def test_a_function_of_the_user():
    class Double(eager.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return grad * x * 3

    def step(x):
        Double.apply(x).sum().backward()
        return x.grad

    x = eager.tensor([1.0, 2.0], requires_grad=True)
    inside = jit(step, backend="python")
    assert inside(x).tolist() == [3, 6]
    assert inside.stats.fallbacks == 0
    outside = jit(lambda x: Double.apply(x).sum())
    with pytest.warns(JitcapWarning, match="later effect"):
        outside(x).backward()
    assert x.grad.tolist() == [6, 12]


def test_control_flow_is_a_node():
    step = jit(lambda x: eager.cond(x.sum() > 0, lambda: x * 2, lambda: -x), backend="python")
    assert [step(eager.ones(2) * k).tolist() for k in (1, -1)] == [[2, 2], [1, 1]]
    assert (step.stats.compiles, step.stats.fallbacks) == (1, 0)


class Busy:
    """Something that another thread changes."""

    def __init__(self):
        self.count = 0


class Loader(Busy):
    """Of which no guard can be made."""

    def __getattribute__(self, name):
        return object.__getattribute__(self, name)


BUSY = Busy()  # a global that no code of the tests' steps names


def test_what_no_code_names_may_change_meanwhile():
    """Objects of a module, or beside a weight, are another thread's: no arm has changed them."""

    class Model:
        def __init__(self):
            self.scale = eager.ones(2)
            self.loader, self.seen = Loader(), [0]

        def __call__(self, x):
            return eager.cond(x.sum() > 0, lambda: x * self.scale, lambda: -x)

    def meanwhile():
        while not done.is_set():
            BUSY.count += 1
            model.loader.count += 1
            seen.add(model.seen[-1])

    model, seen, done = Model(), set(), threading.Event()
    thread = threading.Thread(target=meanwhile)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    thread.start()
    try:
        for _ in range(6):
            step = jit(lambda x: model(x), backend="python")
            assert [step(eager.ones(2) * k).tolist() for k in (1, -1)] == [[1, 1], [1, 1]]
            assert (step.stats.compiles, step.stats.fallbacks) == (1, 0)
    finally:
        done.set()
        thread.join()
        sys.setswitchinterval(interval)
    assert seen == {0}


def test_gradient_scaling():
    def build():
        net = nn.Linear(3, 2)
        opt, scaler = (
            eager.optim.SGD(net.parameters(), lr=0.1),
            eager.amp.GradScaler("cpu", init_scale=8.0),
        )

        def step(x):
            opt.zero_grad()
            loss = net(x).square().mean()
            scaler.scale(loss).backward()
            scaler.unscale_(opt)
            scaler.update()
            return loss

        return step, lambda: [p.grad for p in net.parameters()]

    want, _ = run(build, [(eager.ones(2, 3),)] * 2, jitted=False)
    got, _ = run(build, [(eager.ones(2, 3),)] * 2, jitted=True)
    for a, b in zip(got, want, strict=True):
        close(a, b)


def test_another_thread_is_told():
    """It sees a tensor that stands for another: loudly, and the function runs plainly."""
    weight, errors = eager.ones(2), []

    def intrude():
        try:
            weight + 1
        except RuntimeError as error:
            errors.append(str(error))

    class Intruding(nn.Module):
        def forward(self, x):
            thread_of(intrude)
            return x * weight

    step = jit(Intruding().forward)
    with pytest.warns(JitcapWarning, match="another thread|threading"):
        assert step(eager.ones(2)).tolist() == [1, 1]
    assert step.stats.compiles == 0


def thread_of(fn):
    thread = threading.Thread(target=fn)
    thread.start()
    thread.join()
