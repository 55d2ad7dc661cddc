"""Updates of many parameters: what two recorded is copied for those that are alike, and only these."""

import numpy as np
import pytest

import eager
from eager import nn
from jitcap import jit, stance
from jitcap.capture.capture import capture
from jitcap.capture.memo.templates import Template
from tests.helpers.work import calls_made

pytestmark = pytest.mark.once
SHAPES = [(3, 4), (4,), (), (4, 3)] * 4


@pytest.fixture
def copies(monkeypatch):
    """The calls whose nodes were copied."""
    seen, copy = [], Template.copy
    monkeypatch.setattr(Template, "copy", lambda *args: seen.append(args) or copy(*args))
    return seen


class Halved(nn.Parameter):
    """A parameter that does something of its own."""

    def mul_(self, other):
        return super().mul_(other * 0.5)


def plain(parameters):
    return eager.optim.AdamW(parameters, lr=0.1)


def grouped(parameters):
    groups = [{"params": parameters[::2], "lr": 0.3}, {"params": parameters[1::2], "eps": 1e-3}]
    return eager.optim.Adam(groups, lr=0.1, weight_decay=0.2)


def largest(parameters):
    return eager.optim.AdamW(parameters, lr=0.1, amsgrad=True, maximize=True)


def tensor_rate(parameters):
    return eager.optim.AdamW(parameters, lr=eager.tensor(0.1))


def shared_state(parameters):
    """State that is that of another, that is one tensor, and that lies otherwise in memory."""
    optimizer = eager.optim.AdamW(parameters, lr=0.1)
    for p in parameters:
        p.grad = p.detach() * 0
    optimizer.step()  # from which on there is state
    state = optimizer.state
    state[parameters[8]]["exp_avg"] = state[parameters[4]]["exp_avg"]
    state[parameters[9]]["exp_avg_sq"] = state[parameters[9]]["exp_avg"]
    state[parameters[10]]["step"] = state[parameters[6]]["step"]
    state[parameters[12]]["exp_avg"] = eager.zeros(4, 3).t()
    state[parameters[13]]["exp_avg"] = eager.zeros(8)[::2]
    return optimizer


def half_ones(parameters):
    return eager.optim.AdamW(parameters, lr=0.1)


def run(make, mode, kind=nn.Parameter):
    rng = np.random.default_rng(0)
    values = [rng.standard_normal(shape).astype(np.float32) for shape in SHAPES]
    parameters = [kind(eager.tensor(v)) if i in (5, 9, 12) else nn.Parameter(eager.tensor(v))
                  for i, v in enumerate(values)]  # fmt: skip
    optimizer = make(parameters)

    @jit
    def step(x):
        optimizer.zero_grad()
        loss = sum((p * p * x).sum() + p.t().cos().sum() for p in parameters)
        loss.backward()
        optimizer.step()
        return loss

    with stance(mode):
        losses = []
        for i in range(4):
            if i == 3:
                for group in optimizer.param_groups:
                    group["lr"] *= 0.5
            losses.append(step(eager.tensor(0.5 + i)))
    state = [x for p in parameters for x in optimizer.state[p].values()]
    return [x.detach().numpy() for x in (*losses, *parameters, *state)], step.stats


@pytest.mark.parametrize(
    ("make", "kind", "least"),
    [
        (plain, nn.Parameter, 8), (grouped, nn.Parameter, 4), (largest, nn.Parameter, 8),
        (tensor_rate, nn.Parameter, 0), (shared_state, nn.Parameter, 4), (half_ones, Halved, 5),
    ],
)  # fmt: skip
def test_updates_are_those_of_eager(make, kind, least, copies):
    found, stats = run(make, "default", kind)
    assert not stats.splits and not stats.fallbacks
    assert len(copies) >= least
    expected, _ = run(make, "eager", kind)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5)


def captured(count):
    """The calls that capturing a step with so many parameters takes, of which there is state."""
    parameters = [nn.Parameter(eager.ones(3)) for _ in range(count)]
    optimizer = eager.optim.AdamW(parameters, lr=0.1)

    def step():
        for p in parameters:
            p.grad = p.detach() * 2
        optimizer.step()

    step()
    return calls_made(lambda: capture(step, (), {}, dynamic=frozenset()))


def test_an_update_that_is_copied_costs_little():
    captured(4)
    few, many = map(captured, (20, 40))
    assert many - few < 20 * 2300  # half of them are tests' own, of what is logged


def test_a_check_of_a_copy_is_made():
    """A count of steps that has no square root, in the last of equal parameters."""
    parameters = [nn.Parameter(eager.ones(3)) for _ in range(6)]
    optimizer = eager.optim.AdamW(parameters, lr=0.1)

    @jit
    def step():
        for p in parameters:
            p.grad = p.detach() * 2
        optimizer.step()

    step()
    optimizer.state[parameters[5]]["step"].fill_(-5.0)
    before = [p.detach().clone() for p in parameters]
    with pytest.raises(ValueError, match="math domain"):
        step()
    assert all((p != b).any() for p, b in zip(parameters[:5], before, strict=False))
