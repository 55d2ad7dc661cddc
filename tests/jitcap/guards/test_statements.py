"""What is asked of many places alike is a loop of the entry, which sees a change at each of them."""

import numpy as np
import pytest

import eager
from eager import nn
from jitcap import config, jit
from jitcap.store import versions
from tests.jitcap.capture.harness import MISS, version_of

LAYERS = 6


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.times, self.skips, self.name = nn.Linear(2, 2), 2, True, "layer"
        self.inner.weight.data.fill_(0.25)
        self.settings = {"gain": 3, "shift": None}

    def forward(self, x):
        y = self.inner(x) * self.times * self.settings["gain"]
        if self.settings["shift"] is not None:
            y = y + self.settings["shift"]
        if self.name == "last":
            y = -y
        return x + y if self.skips else y


def network(count=LAYERS):
    eager.manual_seed(0)
    return nn.Sequential(*(Layer() for _ in range(count)))


CHANGES = {
    "an int": lambda layer: setattr(layer, "times", 5),
    "an int to an equal float": lambda layer: setattr(layer, "times", 2.0),
    "a flag": lambda layer: setattr(layer, "skips", False),
    "a text": lambda layer: setattr(layer, "name", "last"),
    "an entry": lambda layer: layer.settings.update(gain=4),
    "None": lambda layer: layer.settings.update(shift=1.0),
    "a dictionary": lambda layer: setattr(layer, "settings", {"gain": 3, "shift": 0.5}),
    "a hook": lambda layer: layer.register_forward_hook(lambda *_: eager.ones(1, 2)),
    "a hook inside": lambda layer: layer.inner.register_forward_pre_hook(lambda m, xs: xs[0] * 2),
    "a function in the instance": lambda layer: vars(layer).update(forward=lambda x: x * 7),
    "a module in the instance": lambda layer: vars(layer).update(inner=nn.Identity()),
    "a parameter's name": lambda layer: layer._buffers.update(inner=lambda x: x - 1),
    "nothing any more": lambda layer: delattr(layer, "times"),
}


def outcome(call):
    try:
        return call().tolist()
    except AttributeError as error:
        return str(error)


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_in_one_of_many(change):
    for i in (0, 3, LAYERS - 1):  # the first tells what is asked of the others
        net, x = network(), eager.tensor([[1.0, 2.0]])

        def program(x, net=net):
            return net(x)

        _, entry = version_of(program, (x,), {})
        step = jit(program, backend="eager")
        assert entry((x,), {}).tolist() == step(x).tolist() == program(x).tolist()
        CHANGES[change](net[i])
        assert entry((x,), {}) is MISS
        assert outcome(lambda: step(x)) == outcome(lambda: program(x))  # noqa: B023


def test_as_many_lines_for_more_layers():
    """Of a further layer the entry has what is read, and no tests."""
    tests = []
    for count in (10, 20):
        net = network(count)
        captured, _ = version_of(lambda x: net(x), (eager.ones(1, 2),), {})  # noqa: B023
        tests.append(captured.text.count("return MISS"))
    assert tests[0] == tests[1]


def test_a_kept_entry_asks_the_same(monkeypatch, tmp_path):
    """Its loops are asked by who looks for a version, and then by the entry."""
    monkeypatch.setenv("JITCAP_CACHE_DIR", str(tmp_path))
    recall, found, x = versions.recall, [], eager.tensor([[1.0, 2.0]])
    monkeypatch.setattr(versions, "recall", lambda *args: found.append(recall(*args)) or found[-1])

    def runs(change):
        net = network()
        if change is not None:
            CHANGES[change](net[3])

        def program(x):
            return net(x)

        step = jit(program, backend="eager")
        for _ in range(3):  # of a kept version the first is the body alone
            assert step(x).tolist() == program(x).tolist()
        CHANGES["a flag"](net[4])
        assert step(x).tolist() == program(x).tolist()
        return found[0] is not None

    with config(check=False):
        for change, again in ((None, False), (None, True), ("an int", False), ("an entry", False)):
            found.clear()
            assert runs(change) is again


def other(tensor):
    """One that looks alike."""
    return nn.Parameter(tensor.detach() + 1)


@pytest.mark.parametrize("i", [0, 5, 2 * LAYERS - 1])
def test_what_is_one_object_at_two_places(monkeypatch, tmp_path, i):
    """A model's parameters are those of its optimizer: one test for all, also of a kept entry."""
    monkeypatch.setenv("JITCAP_CACHE_DIR", str(tmp_path))

    def run(change, compiled):
        net = network()
        optimizer = eager.optim.SGD(net.parameters(), lr=0.1)

        def plain(x):
            optimizer.zero_grad()
            net(x).sum().backward()
            optimizer.step()

        params, step = optimizer.param_groups[0]["params"], jit(plain, backend="eager")
        step(eager.ones(1, 2))
        if change:
            params[i] = other(params[i])
        (step if compiled else plain)(eager.ones(1, 2))
        return [p.tolist() for p in (*params, *net.parameters())], step.stats.compiles

    with config(check=False):
        for change in (False, True, True):  # the last one begins with a kept entry
            found, compiles = run(change, compiled=True)
            assert found == run(change, compiled=False)[0]
            assert compiles == 1 + change


def test_equal_objects_are_other_objects():
    """Tuples of defaults, equal and each of its own."""

    def scaled(factor):
        def times(x, by=factor):
            return x * by

        return times

    steps = [scaled(2) for _ in range(LAYERS)]
    assert len({id(step.__defaults__) for step in steps}) == LAYERS

    @jit(backend="eager")
    def chain(x):
        for step in steps:
            x = step(x)
        return x

    assert chain(eager.ones(1)).item() == chain(eager.ones(1)).item() == 2**LAYERS
    assert not chain.stats.refusals
    assert chain.stats.compiles == 1


def test_spans_of_other_units_are_other_values():
    """Equal bytes of one class, in places that are asked alike."""
    spans = [np.timedelta64(5, unit) for unit in ("s", "D", "s", "h", "s", "ms")]
    boxes = [{"span": span} for span in spans]

    @jit(backend="eager")
    def chain(x):
        for box in boxes:
            if box["span"] > np.timedelta64(1, "h"):
                x = x * 2
        return x

    assert chain(eager.ones(1)).item() == chain(eager.ones(1)).item() == 4
    assert not chain.stats.refusals
    boxes[2]["span"] = spans[1]
    assert chain(eager.ones(1)).item() == 8
