"""Versions for a device on disk: what another process starts from."""

import functools
import json

import numpy as np
import pytest

import eager
from codegen.runtime import cache
from codegen.targets.triton.runtime.resident_data import from_data, look, to_data
from eager import nn
from eager.nn import functional as F
from jitcap import config, jit
from jitcap.compile import device_parts
from jitcap.store import versions

pytest.importorskip("triton.language")
pytestmark = pytest.mark.once


@pytest.fixture
def recalled(monkeypatch, tmp_path):
    """Versions are kept, as they are outside of tests; the list of those that were found again."""
    found = []
    recall = versions.recall

    def counted(*args):
        found.append(recall(*args))
        return found[-1]

    monkeypatch.setattr(versions, "recall", counted)
    monkeypatch.setenv("JITCAP_CACHE_DIR", str(tmp_path / "cache"))
    with config(check=False):
        yield found


def losses(x, y):
    """Of a step with draws, state, replaced gradients and a schedule."""
    eager.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 5), nn.Dropout(0.3), nn.Linear(5, 3)).cuda()
    optimizer = eager.optim.AdamW(model.parameters(), lr=0.1)
    schedule = eager.optim.lr_scheduler.CosineAnnealingLR(optimizer, 4)

    @jit
    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    found = []
    for _ in range(3):
        found.append(step(x, y))
        schedule.step()
    return [loss.item() for loss in found], step


def test_a_step_is_found_again_and_nothing_is_compiled(recalled, monkeypatch):
    rng = np.random.default_rng(0)
    x = eager.tensor(rng.standard_normal((4, 6)).astype(np.float32)).cuda()
    y = eager.tensor([0, 1, 2, 1]).cuda()
    expected, first = losses(x, y)
    for name in ("split", "lower", "compile_resident"):
        monkeypatch.setattr(device_parts, name, None)
    found, again = losses(x, y)
    assert [made is not None for made in recalled] == [False, True]
    assert found == expected
    assert again.stats.kernels == first.stats.kernels > 0
    with pytest.raises(IndexError, match="test_kept.py"):  # its line is kept, too
        again(x, eager.tensor([0, 1, 7, 1]).cuda()).item()


def test_a_step_over_two_devices_is_found_again(recalled, monkeypatch):
    monkeypatch.setenv("JITCAP_SIM_DEVICES", "2")

    def found():
        eager.manual_seed(0)
        one, other = nn.Linear(3, 4).to("cuda:0"), nn.Linear(4, 2).to("cuda:1")
        optimizer = eager.optim.AdamW([*one.parameters(), *other.parameters()], lr=0.1)

        @jit
        def step(x):
            optimizer.zero_grad()
            loss = other(one(x).relu().to("cuda:1")).square().mean()
            loss.backward()
            optimizer.step()
            return loss.detach().cpu()

        x = eager.ones(2, 3, device="cuda:0")
        return [step(x).item() for _ in range(3)], step.stats.kernels

    expected = found()
    for name in ("split", "lower", "compile_resident"):
        monkeypatch.setattr(device_parts, name, None)
    assert found() == expected
    assert [made is not None for made in recalled] == [False, True]


def test_a_gradient_asked_for_outside(recalled, monkeypatch):
    def square(x):
        return (x * x).sum()

    for again in (False, True):
        x = eager.tensor([1.0, 3.0], device="cuda", requires_grad=True)
        jit(square)(x).backward()
        assert x.grad.tolist() == [2, 6]
        assert (recalled[-1] is not None) == again
        monkeypatch.setattr(device_parts, "compile_resident", None)


def test_a_version_for_any_size_begins_with_another_one(recalled, monkeypatch):
    def standardise(x, scale):
        return ((x - x.mean(0)) * scale, x.t() * x.shape[0], x[1:].sum())

    scale = eager.tensor(np.float32(3))
    for sizes in ((4, 7, 5), (9, 2, 7)):
        step = jit(standardise, dynamic=True)
        for n in sizes:
            x = eager.arange(3.0 * n).reshape(n, 3)
            found = step(x.cuda(), scale)
            for got, want in zip(found, standardise(x, scale), strict=True):
                assert np.allclose(got.cpu(), want, atol=1e-5)
        assert [made is not None for made in recalled] == [False, True][: len(recalled)]
        for name in ("split", "lower", "compile_resident"):
            monkeypatch.setattr(device_parts, name, None)
    assert len(recalled) == 2


def kept_program():
    """What is kept of the one program that was compiled."""
    store = cache.default()
    entries = [store.get(path.name) for path in store.roots[0].glob("??/*")]
    (entry,) = [e for e in entries if e is not None and "wiring" in e.data]
    ((number, data),) = [(k, p) for k, (_, p, _) in enumerate(entry.data["parts"]) if p is not None]
    source = entry.file(f"kernels{number}.py").read_text()
    assert json.loads(json.dumps(to_data(from_data(data, source)))) == data
    return data, source


def test_what_no_program_is_is_not_taken(recalled):
    """Data that name memory which is not there, sizes that do not fit, what has other types."""
    jit(lambda x: (x.exp().sum(0), x @ x))(eager.ones(3, 3, device="cuda"))
    data, source = kept_program()

    def changed(*path):
        new = json.loads(json.dumps(data))
        *path, last, value = path
        functools.reduce(lambda part, key: part[key], path, new)[last] = value
        return new

    for path in (
        ("launches", 0, 0, "other"), ("launches", 0, 1, ["other"]), ("launches", 0, 2, -1),
        ("launches", 0, 3, [1]), ("buffers", 0, 1, "float7"), ("buffers", 0, 3, "none"),
        ("buffers", 0, 4, "other"), ("arena_bytes", -1), ("inputs", 0, 0, 77), ("written", [9]),
        ("outputs", 0, 0, 1, 10**6), ("outputs", 0, 0, 2, [10**6, 3]), ("outputs", 0, 1, 0, "x"),
        ("kernels", 0, 3, None), ("arena", [["v0", 1 << 40]]), ("arena", 5), ("buffers", []),
    ):  # fmt: skip
        with pytest.raises(cache.DAMAGED):
            from_data(changed(*path), source)


def test_sizes_that_do_not_fit_are_found_when_they_are_known(recalled):
    x = eager.ones(3, 3, device="cuda")
    jit(lambda x: (x + x[0]).sum(0), dynamic=True)(x)
    data, source = kept_program()
    at = {symbol: 3 for *_, symbol in data["inputs"] if symbol}
    assert at
    look(from_data(data, source).at(at))
    for size in (
        ["s", [-1, next(iter(at))]],
        ["s", [1, "dim7"]],
        ["s", [1, ["//", 3, 0]]],
        None,
        -1,
    ):
        data["buffers"][-1][2] = size
        with pytest.raises(cache.DAMAGED):
            look(from_data(data, source).at(at))


def test_a_tensor_of_the_cpu_is_another_version(recalled):
    def twice(x):
        return x * 2

    x = eager.ones(3)
    for found in (False, True):
        for each in (x, x.cuda(), x.cuda().double()):
            y = jit(twice)(each)
            assert (y.device, y.dtype, y.tolist()) == (each.device, each.dtype, [2, 2, 2])
            assert (recalled.pop() is not None) == found
