"""Memory that is read-only is written by no version: what eager raises is raised, and nothing is changed."""

import numpy as np
import pytest

import eager
from eager import nn
from jitcap import config, export, jit
from jitcap.store import versions

pytestmark = pytest.mark.filterwarnings("ignore:from_numpy. the array is not writable")


def flagged(values):
    values.setflags(write=False)
    return values


def mapped(values, folder):
    np.save(folder / "values.npy", values)
    return np.load(folder / "values.npy", mmap_mode="r")


MEMORY = {
    "flag": lambda values, _: flagged(values),
    "bytes": lambda values, _: np.frombuffer(values.tobytes(), values.dtype),
    "file": mapped,
    "broadcast": lambda values, _: np.broadcast_to(values[:1], values.shape),
    "part": lambda values, _: flagged(np.stack([values, values]))[1],
}


def values():
    return np.arange(1, 9, dtype=np.float32)


def adds(t):
    t.add_(1)
    return t.sum()


def sets_a_part(t):
    t.view(2, 4)[0] = 5.0


def fills(t):
    t.detach().data.copy_(eager.ones(8))


def into(t):
    eager.add(eager.ones(8), 1, out=t)


def masked(t):
    t[t > 3] = 0.0


def draws(t):
    t.uniform_()


def in_a_loop(t):
    for i in range(5):
        t.mul_(i)


def in_a_branch(t):
    if t.sum() > 0:
        t.add_(1)
    return t * 2


WAYS = (adds, sets_a_part, fills, into, masked, draws, in_a_loop, in_a_branch)


@pytest.mark.parametrize("kind", MEMORY)
def test_no_way_writes_what_is_read_only(kind, tmp_path):
    for way in WAYS:
        step = jit(way, backend="python")
        for writable in (False, True, False):
            array = values() if writable else MEMORY[kind](values(), tmp_path)
            before = array.tobytes()
            if writable:
                step(eager.from_numpy(array))
                assert array.tobytes() != before
                continue
            with pytest.raises(RuntimeError, match="clone"):
                step(eager.from_numpy(array))
            assert array.tobytes() == before
        assert step.stats.compiles == 1 + (way is in_a_branch)  # a way that would raise


@pytest.mark.filterwarnings("ignore:@jit")  # whose warning may be an error
def test_arrays_of_the_program():
    step = jit(lambda a: eager.from_numpy(a).add_(1), backend="python")
    for array in (values(), flagged(values())):
        if array.flags.writeable:
            step(array)
            assert array[0] == 2
        else:
            with pytest.raises(RuntimeError, match="read-only"):
                step(array)
            assert array[0] == 1


def test_the_program_may_catch_it():
    @jit(fullgraph=True, backend="python")
    def step(t):
        try:
            t.add_(1)
        except RuntimeError:
            return t.sum() * 100
        return t.sum()

    def of(array):
        return step(eager.from_numpy(array)).item()

    found = [of(flagged(values())), of(values()), of(flagged(values())), of(values())]
    assert found == [3600.0, 44.0, 3600.0, 44.0]
    assert step.stats.compiles == 2


def test_only_reading_is_for_both():
    step = jit(lambda t: (t * 2, t.clone().add_(1)), backend="python")
    for array in (flagged(values()), values(), flagged(values())):
        step(eager.from_numpy(array))
    assert step.stats.compiles == 1


@pytest.mark.parametrize("part", ["weight", "grad", "running_mean", "exp_avg"])
def test_what_a_training_step_writes(part):
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    optimizer = eager.optim.Adam(model.parameters())

    @jit(backend="python")
    def step(x):
        optimizer.zero_grad(set_to_none=False)
        model(x).square().sum().backward()
        optimizer.step()

    x = eager.randn(4, 2)
    for _ in range(3):
        step(x)
    known = step.stats.compiles
    weight = model[0].weight
    for writable in (False, True):
        array = np.ones((2,) if part == "running_mean" else (2, 2), np.float32)
        array.setflags(write=writable)
        tensor = eager.from_numpy(array)
        if part == "weight":
            weight.data = tensor
        elif part == "grad":
            weight.grad = tensor
        elif part == "running_mean":
            model[1].running_mean = tensor
        else:
            optimizer.state[weight]["exp_avg"] = tensor
        if writable:
            step(x)
            assert (array != 1).any()
        else:
            with pytest.raises(RuntimeError, match="read-only"):
                step(x)
            assert (array == 1).all()
    assert step.stats.compiles == known


def test_a_version_from_disk_and_compiled_code(monkeypatch, tmp_path):
    found = []
    recall = versions.recall
    monkeypatch.setattr(versions, "recall", lambda *args: found.append(recall(*args)) or found[-1])
    monkeypatch.setenv("JITCAP_CACHE_DIR", str(tmp_path))
    held = eager.ones(8)

    def step(t):
        held.add_(1)
        t.add_(held)

    with config(check=False):
        jit(step)(eager.ones(8))
        again = jit(step)
        again(eager.ones(8))
        assert found[-1] is not None
        for _ in range(2):
            array = flagged(values())
            with pytest.raises(RuntimeError, match="read-only"):
                again(eager.from_numpy(array))
            assert array.tobytes() == values().tobytes()
        held.data = eager.from_numpy(flagged(values()))
        with pytest.raises(RuntimeError, match="read-only"):
            again(eager.ones(8))
        assert held.tolist() == values().tolist()


def test_an_exported_program():
    exported = export(adds, (eager.ones(8),))
    array = flagged(values())
    with pytest.raises(RuntimeError, match="read-only"):
        exported(eager.from_numpy(array))
    assert array.tobytes() == values().tobytes()
