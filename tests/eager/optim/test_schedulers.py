"""Learning rate schedules against torch: the same rates at every epoch."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
import eager  # noqa: E402
from jitcap import jit  # noqa: E402

CASES = [
    ("LambdaLR", {"lr_lambda": lambda epoch: 0.95**epoch}),
    ("MultiplicativeLR", {"lr_lambda": lambda epoch: 0.9 + 0.001 * epoch}),
    ("StepLR", {"step_size": 3, "gamma": 0.5}),
    ("MultiStepLR", {"milestones": [2, 5, 5, 9], "gamma": 0.3}),
    ("ConstantLR", {"factor": 0.25, "total_iters": 4}),
    ("LinearLR", {"start_factor": 0.2, "end_factor": 0.9, "total_iters": 6}),
    ("ExponentialLR", {"gamma": 0.9}),
    ("PolynomialLR", {"total_iters": 7, "power": 2.0}),
    ("CosineAnnealingLR", {"T_max": 5, "eta_min": 0.01}),
    ("CosineAnnealingWarmRestarts", {"T_0": 3, "T_mult": 2, "eta_min": 0.01}),
    ("CosineAnnealingWarmRestarts", {"T_0": 4}),
    ("CyclicLR", {"base_lr": 0.01, "max_lr": 0.4, "step_size_up": 3, "step_size_down": 4}),
    ("CyclicLR", {"base_lr": 0.1, "max_lr": [0.4, 0.2], "step_size_up": 3, "mode": "triangular2"}),
    (
        "CyclicLR",
        {
            "base_lr": 0.1,
            "max_lr": 0.4,
            "step_size_up": 4,
            "mode": "exp_range",
            "gamma": 0.9,
            "cycle_momentum": False,
        },
    ),
    (
        "CyclicLR",
        {
            "base_lr": 0.1,
            "max_lr": 0.4,
            "step_size_up": 4,
            "max_momentum": 0.95,
            "scale_fn": lambda x: 0.8**x,
            "scale_mode": "iterations",
        },
    ),
    ("OneCycleLR", {"max_lr": 0.4, "total_steps": 25}),
    ("OneCycleLR", {"max_lr": [0.4, 0.2], "total_steps": 25, "anneal_strategy": "linear"}),
    ("OneCycleLR", {"max_lr": 0.4, "epochs": 5, "steps_per_epoch": 5, "three_phase": True}),
]


def optimizer_of(library, kind="SGD"):
    p, q = (library.nn.Parameter(library.zeros(2)) for _ in range(2))
    more = {"momentum": 0.9} if kind == "SGD" else {}
    return getattr(library.optim, kind)(
        [{"params": [p]}, {"params": [q], "lr": 0.05}], lr=0.1, **more
    )


def rates(library, make, epochs=20, kind="SGD"):
    optimizer = optimizer_of(library, kind)
    scheduler = make(library.optim.lr_scheduler, optimizer)
    seen = []
    for _ in range(epochs):
        optimizer.step()
        seen.append([g["lr"] for g in optimizer.param_groups])
        seen.append([g.get("momentum") for g in optimizer.param_groups])
        seen.append([g.get("betas") for g in optimizer.param_groups])
        scheduler.step()
        seen.append(scheduler.get_last_lr())
    return seen


@pytest.mark.parametrize("kind", ["SGD", "Adam"])
@pytest.mark.parametrize(
    ("name", "settings"), CASES, ids=[f"{name}-{'-'.join(settings)}" for name, settings in CASES]
)
def test_same_rates(name, settings, kind):
    def make(schedulers, optimizer):
        return getattr(schedulers, name)(optimizer, **settings)

    assert rates(eager, make, kind=kind) == rates(torch, make, kind=kind)


@pytest.mark.parametrize("kind", ["SGD", "Adam"])
def test_a_cycle_without_momentum_keeps_no_momenta(kind):
    for settings in ({}, {"cycle_momentum": False}, {"mode": "exp_range"}):
        ours, theirs = (
            L.optim.lr_scheduler.CyclicLR(optimizer_of(L, kind), 0.1, 1.0, **settings).state_dict()
            for L in (eager, torch)
        )
        assert ours.items() <= theirs.items()
        assert ("use_beta1" in ours) == ("use_beta1" in theirs)


@pytest.mark.filterwarnings("ignore")
def test_sequential():
    def make(s, optimizer):
        warm = s.LinearLR(optimizer, 0.1, total_iters=4)
        cosine = s.CosineAnnealingLR(optimizer, 6)
        last = s.ExponentialLR(optimizer, 0.9)
        return s.SequentialLR(optimizer, [warm, cosine, last], [4, 10])

    def nested(s, optimizer):
        warm = [s.LinearLR(optimizer, 0.1, total_iters=3), s.ExponentialLR(optimizer, 0.9)]
        return s.SequentialLR(optimizer, [s.ChainedScheduler(warm), s.StepLR(optimizer, 2)], [4])

    assert rates(eager, make) == rates(torch, make)
    assert rates(eager, nested) == rates(torch, nested)
    for library in (eager, torch):
        s, a, b = library.optim.lr_scheduler, optimizer_of(library), optimizer_of(library)
        apart = [s.StepLR(a, 2), s.StepLR(b, 2)]
        for call in (
            lambda: s.ChainedScheduler(apart),  # noqa: B023 - called here
            lambda: s.SequentialLR(a, apart, [2]),  # noqa: B023
            lambda: s.ChainedScheduler([s.ReduceLROnPlateau(a)]),  # noqa: B023
        ):
            with pytest.raises(ValueError, match="belong to the same optimizer|does not support"):
                call()


def test_chained():
    def make(s, optimizer):
        return s.ChainedScheduler(
            [s.ConstantLR(optimizer, 0.1, 3), s.ExponentialLR(optimizer, 0.9)]
        )

    assert rates(eager, make) == rates(torch, make)


@pytest.mark.parametrize(
    "settings", [{}, {"mode": "max"}, {"threshold_mode": "abs", "cooldown": 2}]
)
def test_plateau(settings):
    measures = [1.0, 0.9, 0.95, 0.91, 0.92, 0.89, 0.95, 0.99, 1.0, 1.0, 1.1, 1.2, 1.3]
    seen = []
    for library in (eager, torch):
        optimizer = optimizer_of(library)
        scheduler = library.optim.lr_scheduler.ReduceLROnPlateau(
            optimizer, factor=0.5, patience=1, min_lr=0.01, **settings
        )
        for measure in measures:
            scheduler.step(measure)
            seen.append([g["lr"] for g in optimizer.param_groups])
    assert seen[: len(measures)] == seen[len(measures) :]


def test_state_round_trip():
    optimizer = optimizer_of(eager)
    scheduler = eager.optim.lr_scheduler.CosineAnnealingLR(optimizer, 9)
    optimizer.step()
    for _ in range(4):
        scheduler.step()
    other = optimizer_of(eager)
    again = eager.optim.lr_scheduler.CosineAnnealingLR(other, 3)
    again.load_state_dict(scheduler.state_dict())
    other.load_state_dict(optimizer.state_dict())
    for _ in range(4):
        scheduler.step()
        again.step()
    assert again.get_last_lr() == scheduler.get_last_lr()


def test_errors():
    with pytest.raises(TypeError):
        eager.optim.lr_scheduler.StepLR(1, 2)
    with pytest.raises(ValueError):
        eager.optim.lr_scheduler.LambdaLR(optimizer_of(eager), [lambda e: 1.0])


def test_a_compiled_step_needs_no_version_for_each_epoch():
    x = eager.zeros(3, requires_grad=True)
    optimizer = eager.optim.SGD([x], lr=1.0)
    scheduler = eager.optim.lr_scheduler.MultiStepLR(optimizer, [3, 7], gamma=0.5)
    other, seen = {"epoch": 0}, []

    @jit
    def step():
        x.grad = eager.ones(3)
        optimizer.step()
        scheduler.step()
        other["epoch"] += 1
        seen.append(other["epoch"] in {4, 6})

    for _ in range(10):
        step()
    assert x[0].item() == -(3 * 1 + 4 * 0.5 + 3 * 0.25)
    assert seen == [n in (4, 6) for n in range(1, 11)]
    assert step.stats.compiles <= 7, step.stats


class Decays:
    def __init__(self, rate):
        self.rate = rate

    def __call__(self, epoch):
        return self.rate**epoch


def test_the_state_of_callable_objects_is_saved():
    def made(*functions):
        groups = [{"params": [eager.ones(1, requires_grad=True)]} for _ in functions]
        optimizer = eager.optim.SGD(groups, 0.1)
        return eager.optim.lr_scheduler.LambdaLR(optimizer, [*functions])

    state = made(Decays(0.5), lambda epoch: 1.0).state_dict()
    assert state["lr_lambdas"] == [{"rate": 0.5}, None]
    other = made(Decays(0.9), lambda epoch: 1.0)
    other.load_state_dict(state)
    assert other.lr_lambdas[0].rate == 0.5


def rates_in_a_tensor(library, make):
    """What a scheduler does to the tensor that is the rate, and tells of it."""
    rate, p = library.tensor(0.1), library.nn.Parameter(library.ones(2))
    optimizer = library.optim.Adam([p], lr=rate)
    scheduler = make(library.optim.lr_scheduler, optimizer)
    seen = []
    for _ in range(4):
        p.sum().backward()
        optimizer.step()
        scheduler.step()
        kept = optimizer.param_groups[0]["lr"] is rate
        seen.append((kept, rate.item(), float(scheduler.get_last_lr()[0]), *p.tolist()))
    return seen


@pytest.mark.parametrize(
    "make",
    [
        lambda of, o: of.StepLR(o, 2, 0.5),
        lambda of, o: of.CosineAnnealingLR(o, 3),
        lambda of, o: of.OneCycleLR(o, 0.2, 9),
        lambda of, o: of.CyclicLR(o, 0.01, 0.2, 2, cycle_momentum=False),
        lambda of, o: of.SequentialLR(o, [of.ConstantLR(o, 0.5, 2), of.ExponentialLR(o, 0.9)], [2]),
        lambda of, o: of.ChainedScheduler([of.ConstantLR(o, 0.5, 2), of.ExponentialLR(o, 0.9)]),
    ],
)
def test_a_rate_that_is_a_tensor_is_written_in_place(make):
    ours, theirs = rates_in_a_tensor(eager, make), rates_in_a_tensor(torch, make)
    np.testing.assert_allclose(np.array(ours, float), np.array(theirs, float), rtol=1e-6)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", ["ASGD", "Rprop"])
def test_the_first_step_has_the_rate_of_its_time(name, compiled):
    """State that begins with the rate begins with that of the first step, not of construction."""
    seen = []
    for library in (torch, eager):
        p = library.nn.Parameter(library.ones(3))
        optimizer = getattr(library.optim, name)([p], lr=0.1)
        scheduler = library.optim.lr_scheduler.ConstantLR(optimizer, 0.3, 2)

        def step(p=p, optimizer=optimizer):
            optimizer.zero_grad()
            (p * p).sum().backward()
            optimizer.step()

        step = jit(step) if compiled and library is eager else step
        for _ in range(4):
            step()
            scheduler.step()
            seen.append(p.tolist())
    np.testing.assert_allclose(seen[4:], seen[:4], rtol=1e-6)
