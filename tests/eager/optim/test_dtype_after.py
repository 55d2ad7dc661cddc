"""An optimizer that is built before `model.double()` updates like one that is built after it."""

import functools

import numpy as np
import pytest

import eager
from eager import nn, optim
from jitcap import jit

CASES = {
    "SGD": {"lr": 0.1},
    "momentum": {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01},
    "Adam": {"lr": 0.01},
    "amsgrad": {"lr": 0.01, "amsgrad": True, "weight_decay": 0.1},
    "AdamW": {"lr": 0.01},
    "NAdam": {"lr": 0.01},
    "RAdam": {"lr": 0.01},
    "Adamax": {"lr": 0.01},
    "Adagrad": {"lr": 0.01, "initial_accumulator_value": 0.1},
    "ASGD": {"lr": 0.1},
    "Adadelta": {"lr": 0.5},
    "Adafactor": {"lr": 0.1},
    "RMSprop": {"lr": 0.01, "momentum": 0.9, "centered": True},
    "Rprop": {"lr": 0.01},
    "LBFGS": {"lr": 0.1, "max_iter": 3},
}
NAMES = {"momentum": "SGD", "amsgrad": "Adam"}
SCHEDULES = {
    "none": lambda o: None,
    "exponential": lambda o: optim.lr_scheduler.ExponentialLR(o, 0.9),
    "one cycle": lambda o: optim.lr_scheduler.OneCycleLR(o, 0.1, total_steps=9),
    "cosine": lambda o: optim.lr_scheduler.CosineAnnealingLR(o, 5),
}


def trained(name, late, wrap, schedule="exponential", frozen=False):
    """The parameters after a few steps, and the step's function."""
    eager.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    make = functools.partial(getattr(optim, NAMES.get(name, name)), **CASES[name])
    optimizer = make(model.parameters()) if late else None
    model.double()
    optimizer = optimizer or make(model.parameters())
    scheduler = SCHEDULES[schedule](optimizer)
    x = eager.arange(12.0, dtype=eager.float64).reshape(4, 3) * 0.37 - 1

    def closure():
        optimizer.zero_grad()
        loss = (model(x) ** 2).mean()
        loss.backward()
        return loss

    @wrap
    def step():
        if name == "LBFGS":
            return optimizer.step(closure)
        loss = closure()
        optimizer.step()
        return loss

    model[2].requires_grad_(not frozen)
    for i in range(4):
        if i == 2:
            model[2].requires_grad_(True)
        step()
        if scheduler is not None:
            scheduler.step()
    return [p.detach().numpy() for p in model.parameters()], step


def same(one, other, exact=True):
    for a, b in zip(one, other, strict=True):
        assert a.dtype == b.dtype == np.float64
        assert np.array_equal(a, b) if exact else np.allclose(a, b, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("name", CASES)
def test_late_like_early(name):
    plain = lambda step: step
    early = trained(name, False, plain)[0]
    same(trained(name, True, plain)[0], early)
    same(trained(name, True, plain, frozen=True)[0], trained(name, False, plain, frozen=True)[0])


@pytest.mark.parametrize("name", [n for n in CASES if n != "LBFGS"])
def test_compiled(name):
    compiled = functools.partial(jit, backend="eager")
    early, first = trained(name, False, compiled)
    late, second = trained(name, True, compiled)
    same(late, early)
    same(late, trained(name, False, lambda step: step)[0], exact=False)
    assert second.stats.compiles - first.stats.compiles in (0, 1)  # the step that allocates again
    assert second.stats.splits == second.stats.fallbacks == 0


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_schedules(schedule):
    plain = lambda step: step
    same(trained("AdamW", True, plain, schedule)[0], trained("AdamW", False, plain, schedule)[0])


def test_loaded_state_is_kept():
    model = nn.Linear(3, 2)
    first = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    model(eager.ones(3)).sum().backward()
    first.step()
    second = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    second.load_state_dict(first.state_dict())
    model.double()
    model(eager.ones(3).double()).sum().backward()
    second.step()
    assert (second.state[model.bias]["momentum_buffer"] != 1).all()


def test_the_first_step_is_the_program_of_all():
    model = nn.Linear(3, 2)
    optimizer = optim.AdamW(model.parameters(), lr=0.1)

    @functools.partial(jit, backend="eager")
    def step(x):
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()

    for _ in range(3):
        step(eager.ones(3))
    assert step.stats.compiles == 1
