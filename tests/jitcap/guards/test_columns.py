"""What an entry reads of many places alike is lists, which see a change at each of the places."""

import re

import numpy as np
import pytest

import eager
from eager import nn
from jitcap import config, jit
from jitcap.base.origin import entries_of, items_of
from jitcap.guards import columns
from jitcap.store import versions
from tests.behaviour import test_changes_between_calls as changes
from tests.jitcap.capture.harness import MISS, version_of
from tests.never_wrong.harness import CASES, check
from tests.never_wrong.language import training_steps

LAYERS = 12
TRAINING = [name for name in CASES if hasattr(training_steps, name)]


def network(count):
    eager.manual_seed(0)
    parts = [m for _ in range(count) for m in (nn.Linear(3, 3), nn.LayerNorm(3), nn.Tanh())]
    return nn.Sequential(*parts)


def training(count):
    model = network(count)
    optimizer = eager.optim.Adam(model.parameters(), lr=0.1)

    def step(x):
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return step, model, optimizer


def entry(count):
    """The text of a training step's entry."""
    step, _, _ = training(count)
    return version_of(step, (eager.ones(2, 3),), {})[0].text


def test_the_text_grows_by_few_names_for_a_layer():
    few, many = (len(re.findall(r"\b[a-zA-Z_]\w*", entry(n))) for n in (16, 32))
    assert many - few <= 16 * 40, "a layer has four parameters, each with three tensors of state"


def test_what_a_step_does_is_what_it_does_plainly():
    found = []
    for wrap in (lambda step: step, jit):
        step, model, _ = training(LAYERS)
        step = wrap(step)
        losses = [step(eager.ones(2, 3)).item() for _ in range(4)]
        found.append((losses, [p.detach().numpy() for p in model.parameters()]))
    (plain, weights), (compiled, others) = found
    np.testing.assert_allclose(compiled, plain, rtol=1e-5)
    for a, b in zip(weights, others, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-6)


def _of(step, optimizer, i):
    return list(optimizer.state.values())[i]


CHANGES = {
    "another parameter": lambda m, o: setattr(m[18], "weight", nn.Parameter(eager.ones(3, 3))),
    "no bias": lambda m, o: setattr(m[18], "bias", None),
    "another module": lambda m, o: m.__setitem__(20, nn.ReLU()),
    "another shape of state": lambda m, o: _of(m, o, 17).update(exp_avg=eager.zeros(1)),
    "a missing state": lambda m, o: o.state.pop(m[18].weight),
    "another state": lambda m, o: _of(m, o, 17).update(more=1),
    "state that is a number": lambda m, o: _of(m, o, 17).update(exp_avg_sq=0.5),
    "a parameter less": lambda m, o: o.param_groups[0]["params"].pop(),
    "two parameters changed": lambda m, o: o.param_groups[0]["params"].reverse(),
    "a frozen parameter": lambda m, o: m[18].weight.requires_grad_(False),
    "memory of another": lambda m, o: setattr(m[18].weight, "data", m[21].weight.data),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_at_one_of_many_places_is_seen(change):
    step, model, optimizer = training(LAYERS)
    step(eager.ones(2, 3))
    captured, call = version_of(step, (eager.ones(2, 3),), {})
    assert len(re.findall(r"^ +[mu]\d+ = ", captured.text, re.M)) > 5
    assert call((eager.ones(2, 3),), {}) is not MISS
    change(model, optimizer)
    assert call((eager.ones(2, 3),), {}) is MISS


def returned(x):
    many = tuple(x * i for i in range(40))
    listed = [y + 1 for y in many]
    return many, listed, {i: y for i, y in enumerate(listed)}


def test_what_is_returned_is_what_it_was():
    x = eager.ones(2)
    many, listed, table = jit(returned)(x)
    assert type(many) is tuple and type(listed) is list and type(table) is dict
    assert [y[0].item() for y in many] == [*range(40)]
    assert all(table[i] is y for i, y in enumerate(listed))


def test_numbers_of_many_objects():
    class Part:
        def __init__(self, i):
            self.gain, self.label = float(i), {"shift": i}

    parts = [Part(i) for i in range(50)]

    @jit
    def scaled(x):
        for part in parts:
            x = x * part.gain + part.label["shift"]
            part.last = x
        return x

    def plain(x):
        for part in parts:
            x = x * part.gain + part.label["shift"]
        return x

    x = eager.full((2,), 0.5, dtype=eager.float64)
    for _ in range(2):
        np.testing.assert_allclose(scaled(x).numpy(), plain(x).numpy())
        parts[33].gain = 0.25
        parts[40].label["shift"] = 7
        np.testing.assert_allclose(scaled(x).numpy(), plain(x).numpy())
        parts.append(Part(1))


def test_many_reads_of_one_element_of_a_list():
    class Part:
        def __init__(self, i):
            self.gain, self.table = float(i), {k: float(k * i) for k in range(40)}

    parts = [Part(i) for i in range(40)]

    def step(x):
        for part in parts:
            x = x * part.gain + len(part.table)
        for k in range(40):
            x = x + parts[7].table[k]
        return x

    x = eager.full((2,), 0.5, dtype=eager.float64)
    compiled = jit(step)
    for _ in range(2):
        np.testing.assert_allclose(compiled(x).numpy(), step(x).numpy())
        parts[7].table[33] = 0.25


@pytest.fixture
def everywhere(monkeypatch, tmp_path):
    """Two reads alike are a list, and versions are kept; the list of those that were found."""
    found = []
    recall = versions.recall
    monkeypatch.setattr(columns, "MANY", 2)
    monkeypatch.setattr(columns, "SHORT", 1)
    monkeypatch.setattr(versions, "recall", lambda *args: found.append(recall(*args)) or found[-1])
    monkeypatch.setenv("JITCAP_CACHE_DIR", str(tmp_path / "cache"))
    with config(check=False):
        yield found


@pytest.mark.parametrize("run", changes.PROGRAMS, ids=lambda run: run.__name__)
def test_programs_with_lists_for_everything(run, everywhere, monkeypatch):
    said = []
    monkeypatch.setattr(versions, "say", said.append)
    expected = [changes.plain(v) for v in run(changes.plainly)]
    for _ in range(2):
        with config(debug=2):
            assert [changes.plain(v) for v in run(changes.compiled)] == expected
    assert not [text for text in said if "Unreadable" in text], "what was written is read"


@pytest.mark.parametrize("name", TRAINING)
def test_training_with_lists_for_everything(name, everywhere, tmp_path):
    wrong = check(name, tmp_path)
    assert not wrong, wrong


def test_a_deep_model_is_found_again(everywhere, monkeypatch):
    monkeypatch.setattr(columns, "MANY", 32)
    losses = []
    for _ in range(2):
        step, _, _ = training(LAYERS)
        step = jit(step)
        losses.append([step(eager.ones(2, 3)).item() for _ in range(5)])
    assert losses[0] == losses[1]
    assert any(made is not None for made in everywhere)


@pytest.mark.parametrize("seed", range(20))
def test_ranges(seed):
    r = np.random.default_rng(seed)
    step, count = int(r.integers(1, 12)), int(r.integers(1, 60))
    own = sorted({int(n) for n in r.integers(0, step + 1, r.integers(1, step + 2))})
    at = [i * step + n for i in range(count) for n in own]
    mixed = [int(n) for n in r.permutation(count)]
    for places in (at, at[:-1] or at, mixed, [3, 3, 5, 5, 7], [0]):
        assert [i for each in columns._ranges(places, free=False) for i in each] == places
        ordered = sorted(places)
        free = columns._ranges(ordered, free=True)
        assert sorted(i for each in free for i in each) == ordered


def test_what_reads_many_at_once():
    assert columns.woven([1, 2], [3, 4], [5, 6]) == [1, 3, 5, 2, 4, 6]
    with pytest.raises(ValueError, match="size"):
        columns.woven([1, 2], [3])
    assert items_of([5, 6, 7], range(1, 3)) == [6, 7]
    assert items_of({"a": 1, "b": 2}, ("b", "a")) == [2, 1]
    with pytest.raises(IndexError):
        items_of([5, 6, 7], range(1, 4))
    assert entries_of({1: 2, 3: 4}, (3, 1)) == [4, 2]
    with pytest.raises(KeyError):
        entries_of({1: 2}, (1, 3))
