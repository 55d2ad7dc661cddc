"""A stack of equal layers of which one differs: what is asked of all of them at once must see it."""

import functools

import numpy as np
import pytest
import share

import eager
from eager import nn
from jitcap import jit
from jitcap.capture.capture import capture
from jitcap.capture.memo.call_copies import Recorded
from jitcap.capture.memo.calls import Calls
from jitcap.graph.show import show
from jitcap.passes.dead import dead_code

pytestmark = pytest.mark.once

LAYERS, WIDTH = 12, 4
PLACES = (2, LAYERS // 2, LAYERS - 1)


def same(y):
    return y


def doubled(factor, y):
    return y * factor


def scaled_by(factor):
    return lambda y: y * factor


class Layer(nn.Module):
    def __init__(self, hidden=5):
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, hidden), nn.Linear(hidden, WIDTH)
        self.register_buffer("offset", eager.ones(hidden))
        self.flag, self.power, self.act, self.settings = False, 1, same, {"scale": 1}

    def forward(self, x):  # [n, WIDTH] -> [n, WIDTH]
        y = self.act(self.up(x) ** self.power) * self.settings["scale"]
        if self.flag:
            y = y.tanh()
        if self.training:
            y = y + self.offset
        return x + self.down(y) * 0.1


class Other(Layer):
    def forward(self, x):
        return x - super().forward(x)


def replaced(layers, i, layer):
    layers[i] = layer


def shadowed(layer):
    """An attribute of the instance goes before the part of that name."""
    other = nn.Linear(5, WIDTH)
    layer.__dict__["down"] = lambda y: other(y) * 2


def strided(layer):
    """The same values in another layout."""
    layer.up.weight = nn.Parameter(layer.up.weight.detach().T.contiguous().T)


def in_parts(layer):
    """The layer's own method stays, a part of it is made of parts."""
    layer.up = nn.Sequential(layer.up, nn.Tanh())


def renamed(layer):
    """The same parts, of which two have each other's name."""
    layer.up.weight, layer.down.weight = nn.Linear(5, 5).weight, nn.Linear(WIDTH, WIDTH).weight
    layer.up, layer.down = nn.Sequential(nn.Linear(WIDTH, 5), layer.up), nn.Linear(5, WIDTH)


CHANGES = {
    "flag": lambda layers, i: setattr(layers[i], "flag", True),
    "attribute": lambda layers, i: setattr(layers[i], "power", 2),
    "of a dictionary": lambda layers, i: layers[i].settings.update(scale=3),
    "hook": lambda layers, i: layers[i].register_forward_hook(lambda m, given, out: out * 2),
    "hook of a part": lambda layers, i: layers[i].up.register_forward_pre_hook(
        lambda m, given: (given[0] + 1,)
    ),
    "shape": lambda layers, i: replaced(layers, i, Layer(7)),
    "tied": lambda layers, i: setattr(layers[i].up, "weight", layers[0].up.weight),
    "tied within": lambda layers, i: setattr(layers[i].down, "bias", layers[0].down.bias),
    "strides": lambda layers, i: strided(layers[i]),
    "buffer of ints": lambda layers, i: setattr(layers[i], "offset", eager.arange(5)),
    "no buffer": lambda layers, i: (
        delattr(layers[i], "offset"),
        setattr(layers[i], "offset", 0.5),
    ),
    "nested": lambda layers, i: in_parts(layers[i]),
    "own attribute": lambda layers, i: shadowed(layers[i]),
    "hook of a parameter": lambda layers, i: layers[i].up.weight.register_hook(lambda g: g * 3),
    "backward hook": lambda layers, i: layers[i].register_full_backward_hook(
        lambda m, given, out: (given[0] * 2,)
    ),
    "a gradient": lambda layers, i: setattr(
        layers[i].up.weight, "grad", eager.ones_like(layers[i].up.weight)
    ),
    "shared": lambda layers, i: replaced(layers, i, layers[0]),
    "no bias": lambda layers, i: setattr(layers[i].down, "bias", None),
    "frozen": lambda layers, i: layers[i].up.weight.requires_grad_(False),
    "buffer": lambda layers, i: setattr(layers[i], "offset", eager.zeros(5)),
    "buffer of one": lambda layers, i: setattr(layers[i], "offset", eager.zeros(1)),
    "mode": lambda layers, i: layers[i].eval(),
    "names": lambda layers, i: renamed(layers[i]),
    "class": lambda layers, i: replaced(layers, i, Other()),
    "class of it": lambda layers, i: setattr(layers[i], "__class__", Other),
    "method": lambda layers, i: setattr(layers[i], "forward", lambda x: x * 2),
    "function": lambda layers, i: setattr(layers[i], "act", eager.sin),
    "closure": lambda layers, i: setattr(layers[i], "act", scaled_by(3)),
    "partial": lambda layers, i: setattr(layers[i], "act", functools.partial(doubled, 2)),
}


def program():
    eager.manual_seed(0)
    layers = nn.ModuleList([Layer() for _ in range(LAYERS)])
    return layers, eager.randn(3, WIDTH)


def step_of(layers):
    def step(x):
        for layer in layers:
            x = layer(x)
        loss = (x * x).mean()
        loss.backward()
        return loss

    return step


def results(layers, step, x):
    layers.zero_grad()
    loss = step(x)
    grads = [None if p.grad is None else p.grad.numpy() for p in layers.parameters()]
    return [loss.detach().numpy(), *grads]


def agree(found, expected):
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        assert (a is None) is (b is None)
        if a is not None:
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("name", "place"), share.in_turn(CHANGES, PLACES))
def test_one_layer_differs(name, place):
    layers, x = program()
    compiled = jit(step_of(layers), backend="eager", fullgraph=True)
    agree(results(layers, compiled, x), results(layers, step_of(layers), x))
    CHANGES[name](layers, place)  # what was compiled does not fit any more
    agree(results(layers, compiled, x), results(layers, step_of(layers), x))
    fresh = jit(step_of(layers), backend="eager", fullgraph=True)  # nor is it what was seen first
    agree(results(layers, fresh, x), results(layers, step_of(layers), x))


class Noisy(Layer):
    """Draws, and counts, and keeps what it saw."""

    def __init__(self):
        super().__init__()
        self.drop, self.calls, self.rate = nn.Dropout(0.5), 0, 0.5

    def forward(self, x):
        self.calls += 1
        self.last = x.detach().mean()
        y = eager.rand(x.shape) if self.rate > 0.6 else x
        return super().forward(self.drop(x)) + y


DRAWS = {
    "none": lambda layer: None,
    "rate": lambda layer: setattr(layer.drop, "p", 0.25),
    "one more": lambda layer: setattr(layer, "rate", 0.7),
    "evaluated": lambda layer: layer.drop.eval(),
    "counted": lambda layer: setattr(layer, "calls", 5),
    "in place": lambda layer: setattr(layer, "drop", nn.Dropout(0.5, inplace=True)),
}


@pytest.mark.parametrize(("name", "place"), share.in_turn(DRAWS, PLACES))
def test_one_layer_draws_otherwise(name, place):
    def run(transform):
        eager.manual_seed(0)
        layers, x = nn.ModuleList([Noisy() for _ in range(LAYERS)]), eager.randn(3, WIDTH)
        DRAWS[name](layers[place])
        step = transform(step_of(layers))
        found = [*results(layers, step, x), *results(layers, step, x)]
        return [*found, *((m.calls, m.last.numpy()) for m in layers), eager.rand(2).numpy()]

    found = run(functools.partial(jit, backend="eager", fullgraph=True))
    for a, b in zip(found, run(lambda step: step), strict=True):
        for one, other in zip(*((x if type(x) is tuple else (x,)) for x in (a, b)), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def step_of_optimizer(layers, x):
    optimizer = eager.optim.Adam(layers.parameters(), lr=0.01)
    first = [p for layer in layers for p in layer.parameters()]

    def step():
        optimizer.zero_grad()
        y = x
        for layer in layers:
            y = layer(y)
        y.square().mean().backward()
        optimizer.step()

    return optimizer, first, step


STATE = {
    "dtype": lambda optimizer, p: optimizer.state[p].update(
        exp_avg_sq=optimizer.state[p]["exp_avg_sq"].double()
    ),
    "step": lambda optimizer, p: optimizer.state[p].update(step=eager.tensor(7.0)),
    "group": lambda optimizer, p: (
        optimizer.param_groups[0].update(
            params=[q for q in optimizer.param_groups[0]["params"] if q is not p]
        ),
        optimizer.add_param_group({"params": [p], "lr": 0.1, "amsgrad": True}),
    ),
    "left out": lambda optimizer, p: p.requires_grad_(False),
}


@pytest.mark.parametrize(("name", "place"), share.in_turn(STATE, PLACES))
def test_one_parameter_is_updated_otherwise(name, place):
    def run(transform):
        layers, x = program()
        optimizer, parameters, step = step_of_optimizer(layers, x)
        step = transform(step)
        step()
        STATE[name](optimizer, parameters[4 * place])
        step()
        step()
        return [p.detach().numpy() for p in parameters]

    agree(run(functools.partial(jit, backend="eager", fullgraph=True)), run(lambda step: step))


class Scaled(Layer):
    """Numbers from outside are computed with, and asked about; a part is called twice."""

    def __init__(self):
        super().__init__()
        self.rate, self.norm = 0.5, nn.LayerNorm(WIDTH)

    def forward(self, x, scale=1.0, mask=None):
        x = self.norm(self.norm(x)) * (1 - self.rate) * scale
        return super().forward(x) if self.rate > 0.2 else x


@pytest.fixture
def copies(monkeypatch):
    """The calls that were copied."""
    seen, copy = [], Recorded.copy
    monkeypatch.setattr(Recorded, "copy", watched(copy, seen))
    return seen


# Whether these start again without copies: where no history leaves, they do not.
BACKWARD = {"once": False, "twice": False, "to a part": False, "of gradients": True, "none": True}


@pytest.mark.parametrize("way", BACKWARD)
def test_a_copy_is_what_interpreting_records(way, copies, monkeypatch):
    layers = nn.ModuleList([Scaled() for _ in range(6)])
    layers[4].rate = 0.25

    def step(x):
        layers.zero_grad()  # then both have their inputs in one order
        assert [*layers.buffers()]
        for i, layer in enumerate(layers):
            x = layer(x, mask=None) if i else layer(x, 2.0)
        loss = x.square().mean()
        if way == "to a part":
            return eager.autograd.grad(loss, [layers[2].up.weight])
        if way == "of gradients":
            grads = eager.autograd.grad(loss, layers.parameters(), create_graph=True)
            loss = loss + sum(g.square().sum() for g in grads)
        if way != "none":
            loss.backward(retain_graph=way == "twice")
        if way == "twice":
            loss.backward()
        return loss

    x, attempts = eager.randn(3, WIDTH), []
    monkeypatch.setattr(Calls, "__init__", watched(Calls.__init__, attempts))
    found = capture(step, (x,), {})
    assert len(copies) >= 2
    assert len(attempts) == 1 + BACKWARD[way]
    monkeypatch.setattr(Calls, "_key", lambda *args: None)
    plain = capture(step, (x,), {})
    assert {(type(g), g.origin.show(), g.expected()) for g in found.guards.items} == {
        (type(g), g.origin.show(), g.expected()) for g in plain.guards.items
    }
    assert show(dead_code(found.graph)) == show(dead_code(plain.graph))
    assert bool(found.joint) is (way == "none") is bool(plain.joint)


def watched(fn, seen):
    return lambda *args: (seen.append(args), fn(*args))[1]


INSIDE = {
    "in place": lambda i, layer, x, y: y.add_(1) if i == 4 else y,
    "in place behind": lambda i, layer, x, y: (y, x.mul_(2))[0] if i == 4 else y,
    "again": lambda i, layer, x, y: layer(y),
    "flag between": lambda i, layer, x, y: (y, setattr(layer, "flag", not layer.flag))[0],
    "parameter between": lambda i, layer, x, y: (y, layer.up.bias.data.add_(1))[0],
    "retained": lambda i, layer, x, y: (y, y.retain_grad())[0],
    "hook between": lambda i, layer, x, y: (y, y.register_hook(lambda g: g * 2))[0],
    "frozen between": lambda i, layer, x, y: (y, layer.up.bias.requires_grad_(i % 2 == 0))[0],
    "no gradient": lambda i, layer, x, y: y.detach() if i == 4 else y,
}


BEHIND = {
    "parameter": lambda layer, y: layer.down.weight.data.mul_(3),
    "another parameter": lambda layer, y: setattr(
        layer.down.weight, "data", layer.down.weight.data * 3
    ),
    "value": lambda layer, y: y.data.mul_(3),
    "frozen": lambda layer, y: layer.up.weight.requires_grad_(False),
    "hook": lambda layer, y: y.register_hook(lambda g: g * 3),
    "retained": lambda layer, y: y.retain_grad(),
}


@pytest.mark.parametrize(("name", "place"), share.in_turn(BEHIND, range(5)))
def test_the_program_does_something_before_it_goes_back(name, place):
    def run(transform):
        layers, x = program()
        layers = layers[:6]

        def step(x):
            given = []
            for layer in layers:
                given.append(x := layer(x))
            BEHIND[name](layers[place], given[place])
            loss = (x * x).mean()
            loss.backward()
            return loss

        return results(layers, transform(step), x)

    agree(run(functools.partial(jit, backend="eager")), run(lambda step: step))


@pytest.mark.parametrize("name", INSIDE)
def test_the_program_does_something_between(name):
    def run(transform):
        layers, x = program()
        layers, between = layers[:6], INSIDE[name]

        def step(x):
            for _ in range(2):
                for i, layer in enumerate(layers):
                    x = between(i, layer, x, layer(x))
            loss = (x * x).mean()
            loss.backward()
            return loss

        raised = ""
        try:
            found = results(layers, transform(step), x)
        except RuntimeError as error:
            found, raised = [], str(error)[:40]
        return [*found, *(p.detach().numpy() for p in layers.parameters())], raised

    (found, raised), (expected, as_plain) = (
        run(t) for t in (functools.partial(jit, backend="eager"), lambda step: step)
    )
    assert raised == as_plain
    agree(found, expected)
