"""Whole training steps under @jit against torch: same weights, twenty steps, same state after."""

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest

import eager
from benchmarks import workloads
from benchmarks.models import gpt, gru, mlp
from jitcap import jit

torch = pytest.importorskip("torch")

STEPS = 20
# Of each tensor, in norm: |ours - torch's| / |torch's|.
TOLERANCE = {"float32": 1e-4, "float64": 1e-9}
# Of its largest value, for any one element. AdamW divides a gradient that is rounding noise by its own
# size, so that in float32 another order of a sum (another processor) shows in single weights: up to
# 4.4e-4, under SGD 1e-6. Float64 has no such noise (and SGD in it nothing that AdamW has not).
ELEMENT = {
    ("sgd", "float32"): 1e-4,
    ("adamw", "float32"): 1e-3,
    ("adamw", "float64"): 1e-9,
}


def build_cnn(torch):
    """No bias before batch norm: its gradient is rounding noise, which Adam would blow up."""
    nn, F = torch.nn, torch.nn.functional

    class CNN(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1 = nn.Conv2d(1, 8, 3, padding=1, bias=False)
            self.bn1 = nn.BatchNorm2d(8)
            self.conv2 = nn.Conv2d(8, 16, 3, padding=1, stride=2, bias=False)
            self.bn2 = nn.BatchNorm2d(16)
            self.head = nn.Linear(16 * 2 * 2, 10)

        def forward(self, x):
            x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 2)
            x = F.relu(self.bn2(self.conv2(x)))
            return self.head(x.flatten(1))

    return CNN()


def classes(shape, count=10):
    """A function that draws inputs of `shape` with labels."""
    return lambda rng: (
        rng.standard_normal(shape, dtype=np.float32),
        rng.integers(0, count, shape[0]),
    )


def characters(batch, time, vocab):
    def draw(rng):
        ids = rng.integers(0, vocab, (batch, time + 1))
        return np.ascontiguousarray(ids[:, :-1]), np.ascontiguousarray(ids[:, 1:])

    return draw


# The key bias of attention has no gradient but rounding noise: see build_cnn.
SMALL_GPT = gpt.Config(layers=4, heads=2, width=32, context=16, vocab=65, qkv_bias=False)


@dataclass(frozen=True)
class Case:
    build: object
    draw: object


CASES = {
    "mlp": Case(mlp.build, classes((32, 64))),
    "cnn": Case(build_cnn, classes((16, 1, 8, 8))),
    "gru": Case(lambda torch: gru.build(torch, width=16), classes((8, 8, 16))),
    "gpt": Case(lambda torch: gpt.build(torch, SMALL_GPT), characters(4, 16, 65)),
}
OPTIMIZERS = {
    "sgd": lambda torch, p: torch.optim.SGD(p, lr=0.05, momentum=0.9),
    "adamw": lambda torch, p: torch.optim.AdamW(p, lr=1e-3, weight_decay=1e-2),
}


def make(case, optimizer, torch, dtype):
    model = case.build(torch)
    workloads.set_weights(torch, model)
    model.to(getattr(torch, dtype))
    F = torch.nn.functional

    def loss(x, y):
        logits = model(x)
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), y.view(-1))

    chosen = OPTIMIZERS[optimizer](torch, model.parameters())
    program = SimpleNamespace(loss=loss, optimizer=chosen)
    return model, chosen, workloads.training_step(program)


def close(name, ours, theirs, dtype, element):
    ours, theirs = (np.asarray(t.detach().numpy(), np.float64) for t in (ours, theirs))
    assert ours.shape == theirs.shape, name
    difference, size = ours - theirs, max(np.linalg.norm(theirs), 1e-12)
    gap = np.linalg.norm(difference) / size
    assert gap <= TOLERANCE[dtype], f"{name}: {gap:.1e} in norm"
    worst = np.abs(difference).max(initial=0.0) / max(np.abs(theirs).max(initial=0.0), 1e-12)
    assert worst <= element, f"{name}: an element is off by {worst:.1e} of the largest"


def compare_state(ours, theirs, *bounds):
    (model, optimizer), (ref_model, ref_optimizer) = ours, theirs
    reference = ref_model.state_dict()
    state = model.state_dict()
    assert list(state) == list(reference)
    for name, tensor in state.items():
        close(name, tensor, reference[name], *bounds)
    ours_by_number = optimizer.state_dict()["state"]
    for number, entries in ref_optimizer.state_dict()["state"].items():
        assert set(ours_by_number[number]) == set(entries)
        for name, value in entries.items():
            if hasattr(value, "detach"):
                close(f"optimizer {number} {name}", ours_by_number[number][name], value, *bounds)


# The bounds of AdamW in float32 are wide, and the other two have its code and its numbers.
STEPPED = [
    pytest.param(*key, marks=[pytest.mark.nightly] * (key == ("adamw", "float32")))
    for key in ELEMENT
]


@pytest.mark.parametrize(("optimizer", "dtype"), STEPPED)
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "jit"])
@pytest.mark.parametrize("name", CASES)
def test_twenty_steps(name, optimizer, compiled, dtype):
    case = CASES[name]
    model, ours, step = make(case, optimizer, eager, dtype)
    ref_model, theirs, ref_step = make(case, optimizer, torch, dtype)
    step = jit(step) if compiled else step
    bounds = dtype, ELEMENT[optimizer, dtype]
    rng = np.random.default_rng(1)
    for number in range(STEPS):
        x, y = case.draw(rng)
        x = x.astype(dtype) if x.dtype.kind == "f" else x
        loss = step(eager.from_numpy(x), eager.from_numpy(y))
        reference = ref_step(torch.from_numpy(x), torch.from_numpy(y))
        close(f"loss of step {number}", loss, reference, *bounds)
    compare_state((model, ours), (ref_model, theirs), *bounds)
    if compiled:
        stats = step.stats
        assert (stats.compiles, stats.graphs, stats.splits, stats.fallbacks) == (1, 1, 0, 0)


def test_a_schedule_compiles_once():
    """Learning rates are run-time scalars: a thousand cosine steps, one compile."""
    model = eager.nn.Linear(4, 2)
    optimizer = eager.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    schedule = eager.optim.lr_scheduler.CosineAnnealingLR(optimizer, 1000)

    @jit
    def step(x):
        optimizer.zero_grad()
        loss = (model(x) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    x = eager.ones(3, 4)
    for _ in range(1000):
        step(x)
        schedule.step()
    assert step.stats.compiles == 1
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.0, abs=1e-9)
