"""jit of modules: the module stays itself; training through a compiled forward is eager's training."""

import copy
import pickle

import numpy as np
import pytest

import eager
from eager import nn
from jitcap import Jitted, explain, jit
from jitcap.graph.show import reload, show
from jitcap.graph.tracer import trace

F = nn.functional


def build():
    eager.manual_seed(0)
    return nn.Sequential(
        nn.Linear(8, 16), nn.ReLU(), nn.LayerNorm(16), nn.Dropout(0.5), nn.Linear(16, 4)
    )


def batch():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((6, 8)).astype(np.float32)
    return eager.from_numpy(x), eager.from_numpy(rng.integers(0, 4, 6))


def test_the_module_is_unchanged():
    plain, compiled = build(), build()
    assert jit(compiled) is compiled
    assert type(compiled) is nn.Sequential
    assert list(compiled.state_dict()) == list(plain.state_dict())
    assert isinstance(compiled.forward, Jitted)


@pytest.mark.parametrize("clone", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_are_modules_of_their_own(clone):
    model = jit(build()).eval()
    x, _ = batch()
    before = model(x).detach().numpy()
    other = clone(model)
    with eager.no_grad():
        for p in other.parameters():
            p.mul_(0)
    np.testing.assert_array_equal(model(x).detach().numpy(), before)
    assert not np.abs(other(x).detach().numpy()).any()


def train(model, step, steps=4):
    eager.manual_seed(1)
    x, y = batch()
    losses = [step(model, x, y).item() for _ in range(steps)]
    return losses, [p.detach().numpy() for p in model.parameters()]


def plain_step(model, x, y):
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    with eager.no_grad():
        for p in model.parameters():
            p.sub_(p.grad * 0.5)
    model.zero_grad()
    return loss


@pytest.mark.parametrize("where", ["forward", "step"])
def test_training_is_eagers(where):
    expected = train(build(), plain_step)
    if where == "forward":
        model, step = jit(build()), plain_step
    else:
        model, step = build(), jit(plain_step)
    losses, parameters = train(model, step)
    np.testing.assert_allclose(losses, expected[0], rtol=1e-5)
    for a, b in zip(parameters, expected[1], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)
    stats = (model.forward if where == "forward" else step).stats
    assert (stats.compiles, stats.fallbacks) == (1, 0)


def test_the_print_of_a_training_step_captures_to_the_same_graph():
    model = build()
    optimizer = eager.optim.AdamW(model.parameters(), lr=1e-2)

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    (graph,) = explain(step, backend="eager")(*batch()).graphs
    text = show(graph, lines=False)
    again = trace(reload(text, "step"), *(n.aval for n in graph.inputs), name="step").graph
    for old, new in zip(graph.inputs, again.inputs, strict=True):
        new.attrs["name"] = old.attrs["name"]
    assert show(again, lines=False) == text


def test_train_and_eval_are_two_versions():
    model = jit(build())
    x, _ = batch()
    assert np.abs(model(x).detach().numpy() - model(x).detach().numpy()).any()
    model.eval()
    np.testing.assert_array_equal(model(x).detach().numpy(), model(x).detach().numpy())
    assert model.forward.stats.compiles == 2


def test_a_call_with_keywords_does_not_ask_for_text():
    """A call names its function only in an error, which may run a `__repr__` of the program."""

    class Model(eager.nn.Linear):
        def __repr__(self):
            raise AssertionError("nobody asked")

        def forward(self, **batch):
            return super().forward(batch["x"])

    model = Model(3, 2)
    step = jit(lambda batch: model(**batch), backend="python", fullgraph=True)
    for n in (2, 3, 4):
        assert step({"x": eager.ones(n, 3)}).shape == (n, 2)
    assert step.stats.compiles == 2
