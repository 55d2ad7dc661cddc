"""Programs as files: what is exported, how it is called, what a file may do."""

import json
import random
import time
import zipfile

import numpy as np
import pytest

import eager
import jitcap
from eager import nn
from jitcap import export, load, mark_dynamic
from jitcap.base.breaks import Break


def test_export_and_load(tmp_path):
    w = eager.tensor(np.arange(6, dtype=np.float32).reshape(3, 2))

    def fn(x):
        values, places = x.matmul(w).sort(dim=1, descending=True)
        return values * float("inf"), places

    x = eager.tensor(np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32))
    program = export(fn, [x])
    program.save(tmp_path / "p.npz")
    again = load(tmp_path / "p.npz")
    assert str(again) == str(program)
    for a, b, c in zip(fn(x), program(x), again(x), strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())
        np.testing.assert_array_equal(a.numpy(), c.numpy())
    with pytest.raises(TypeError, match="exported for"):
        again(x.t())


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(3)
        self.drop = nn.Dropout(0.5)
        self.out = nn.Linear(3, 2)
        self.register_buffer("calls", eager.zeros(()))

    def forward(self, x, scale=2.0, *, keys=("mean", "kept")):
        self.calls += 1
        y = self.drop(self.norm(x) * scale)
        if y.sum() > 0:
            y = y * 2
        return {"y": self.out(y), keys[0]: (y.mean(0), None, "text"), keys[1]: [self.calls, 3]}


def same(a, b):
    if isinstance(a, eager.Tensor):
        np.testing.assert_allclose(a.numpy(), b.detach().numpy(), rtol=1e-5, atol=1e-6)
    elif isinstance(a, dict):
        assert list(a) == list(b)
        same(list(a.values()), list(b.values()))
    elif isinstance(a, list | tuple):
        assert type(a) is type(b)
        for x, y in zip(a, b, strict=True):
            same(x, y)
    else:
        assert (type(a), a) == (type(b), b)


def test_a_model_with_state_draws_and_a_tree_of_results(tmp_path):
    eager.manual_seed(0)
    model, x = Model(), eager.randn(4, 3)
    program = export(model, (x,), {"scale": 3.0})
    assert 'out_weight: "float32[2, 3]"' in str(program).replace("fn_", "")
    assert model.calls.item() == 0
    program.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert str(again) == str(program)
    for other in (program, again):
        twin = Model()
        twin.load_state_dict(model.state_dict())
        for _ in range(3):  # means move on, draws are others
            state = eager.get_rng_state()
            expected = twin(x, scale=3.0)
            after = eager.get_rng_state()
            eager.set_rng_state(state)
            same(other(x, scale=3.0), expected)
            assert eager.get_rng_state().tolist() == after.tolist()
    assert model.calls.item() == 0


def moves(x, *, by):
    """Sizes in shapes, in operands and in Python's arithmetic, and a loop over rows."""
    h = eager.zeros(x.shape[1])
    for row in x:
        h = eager.tanh(h + row)
    places = eager.arange(x.shape[0]) * x.shape[0] ** 0.5 + by.sum() / x.shape[0]
    return h, places, x.reshape(-1, 2)[: x.shape[0] // 2]


def test_sizes_that_vary(tmp_path):
    by = eager.ones(3)
    export(moves, (eager.randn(20, 4),), {"by": by}, dynamic=True).save(tmp_path / "p")
    program = load(tmp_path / "p")
    for n, m in ((20, 4), (33, 6), (18, 8)):
        x = eager.randn(n, m)
        same(program(x, by=by), moves(x, by=by))
    with pytest.raises(TypeError, match="exported for 2 <= "):
        program(eager.randn(1, 4), by=by)
    marked = mark_dynamic(eager.randn(5, 3), 0, max=9)
    program = export(lambda x: x + 1, (marked,))
    assert program(eager.zeros(7, 3)).shape == (7, 3)
    for shape in ((12, 3), (7, 4)):
        with pytest.raises(TypeError, match="exported for"):
            program(eager.zeros(*shape))


def test_arguments_are_written():
    def fn(x, y):
        x.add_(y)
        return x.sum()

    program = export(fn, (eager.zeros(3), 2))
    for x in (eager.zeros(3), eager.zeros(3, 2)[:, 0]):
        assert (program(x, 2).item(), x.tolist(), x._version) == (6, [2, 2, 2], 1)
    with pytest.raises(TypeError, match=r"exported for \(Tensor, 2\), called with \(Tensor, 2.0\)"):
        program(eager.zeros(3), 2.0)


def test_strided_arguments():
    program = export(lambda x: x * 2, (eager.ones(2, 3),))
    assert program(eager.arange(6.0).reshape(3, 2).t()).tolist() == [[0, 4, 8], [2, 6, 10]]


def shifts(x, y):
    x.add_(1)
    return y * 2


def test_arguments_that_are_one():
    """At a call others may come: a program that takes them for one is none."""
    x, layer = eager.ones(2, 2), nn.Linear(2, 2)
    for call, args in (
        (lambda a, b: a * b, (x, x)),
        (lambda a: layer(a) + a, (layer.weight,)),
        (lambda a, b: a[0] + b[0], ([x], [x])),
    ):
        with pytest.raises(ValueError, match="is .*; give arguments of their own"):
            export(call, args)
    program, both = export(shifts, (eager.ones(3), eager.ones(3))), eager.ones(6)
    assert program(both[:3], both[3:]).tolist() == [2, 2, 2]
    for pair in ((both[:3], both[:3]), (both[:3], both[1:4])):
        with pytest.raises(TypeError, match="shares memory with another argument"):
            program(*pair)
    assert both.tolist() == [2, 2, 2, 1, 1, 1]


def test_keywords_come_in_any_order():
    program = export(
        lambda x, y, n: (x - y) * n, (), {"x": eager.ones(2), "y": eager.zeros(2), "n": 3}
    )
    x, y = eager.tensor([1.0, 2.0]), eager.tensor([3.0, 5.0])
    assert program(n=3, y=y, x=x).tolist() == [-6, -9]


STORE = []


def stores(x):
    STORE.append(1)
    return x


@pytest.mark.parametrize(
    ("fn", "error", "text"),
    [
        (stores, ValueError, r"the program changes .*STORE.*test_export.py"),
        (lambda x: print(x), ValueError, "what a call of the host does"),
        (lambda x: x.sum().item(), ValueError, "a number that the run decides is returned"),
        (lambda x: x.tolist(), Break, "run-time values"),
        (lambda x: x * random.random(), ValueError, "the host makes .*random"),
        (lambda x: x + eager.tensor(np.random.rand(3)), ValueError, "the host makes .*rand"),
        (lambda x: (x, time.time()), ValueError, "number that the run decides|the host makes"),
    ],
)
def test_what_is_refused(fn, error, text):
    with pytest.raises(error, match=text):
        export(fn, (eager.ones(3),))
    assert STORE == []


def test_export_takes_a_tuple():
    with pytest.raises(TypeError, match=r"export\(fn, \(x,\)\)"):
        jitcap.export(lambda x: x, eager.ones(2))


def test_loading_something_else(tmp_path):
    np.savez(tmp_path / "x.npz", a=np.zeros(3))
    (tmp_path / "text").write_text("hello")
    for name in ("x.npz", "text"):
        with pytest.raises(ValueError, match="not an exported program"):
            load(tmp_path / name)
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "none")


def changed(data, draw):
    """JSON with one value in it replaced, removed or repeated."""
    places = []

    def walk(value):
        for key in value if isinstance(value, dict) else range(len(value)):
            places.append((value, key))
            if isinstance(value[key], dict | list):
                walk(value[key])

    walk(data)
    inside, key = draw.choice(places)
    kind = draw.randrange(4)
    if kind == 0 and isinstance(inside, list):
        del inside[key]
    elif kind == 1 and isinstance(inside, list):
        inside.insert(key, inside[key])
    else:
        inside[key] = draw.choice([-1, 7, 1 << 70, "x", None, [], {}, [["%", 99]], 2.5])
    return data


def test_damaged_files_are_refused_or_harmless(tmp_path):
    """What is read is verified before it gets near native code."""
    eager.manual_seed(0)
    x = eager.randn(4, 3)
    export(Model(), (x,)).save(tmp_path / "whole")
    with zipfile.ZipFile(tmp_path / "whole") as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    text = str(np.load(tmp_path / "whole")["program"])
    draw, refused = random.Random(0), 0
    for _ in range(150):
        path = tmp_path / "damaged"
        arrays = {n.removesuffix(".npy"): n for n in members if n != "program.npy"}
        given = {k: np.load(tmp_path / "whole")[k] for k in arrays}
        with path.open("wb") as file:
            np.savez(file, program=np.array(json.dumps(changed(json.loads(text), draw))), **given)
        try:
            load(path)
        except ValueError:
            refused += 1
    assert refused > 60
