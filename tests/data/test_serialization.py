"""save and load: any structure of tensors and plain values comes back, and nothing in a file runs."""

import io
import math
import pickle
import zipfile
from collections import OrderedDict

import numpy as np
import pytest

eager = pytest.importorskip("eager")


def through_a_file(value):
    file = io.BytesIO()
    eager.save(value, file)
    file.seek(0)
    return eager.load(file)


@pytest.mark.parametrize(
    "dtype", ["bool", "uint8", "int64", "float16", "bfloat16", "float32", "complex64"]
)
def test_every_dtype(dtype):
    kind = getattr(eager, dtype)
    x = eager.tensor([[0, 1], [1, 0]]).to(kind)
    y = through_a_file(x)
    assert y.dtype is kind
    assert y.tolist() == x.tolist()


def test_structures():
    value = {
        "list": [1, 2.5, None, "text", True, 1 + 2j],
        ("a", 1): (eager.Size([2, 3]), {1, 2}),
        3: OrderedDict(x=math.inf, y=-0.0),
        "array": np.arange(3),
        "dtype": eager.float16,
        "device": eager.device("cpu"),
    }
    back = through_a_file(value)
    assert type(back[3]) is OrderedDict
    assert back[("a", 1)] == value[("a", 1)]
    assert back["list"] == value["list"]
    assert math.copysign(1, back[3]["y"]) == -1
    assert np.array_equal(back["array"], value["array"])
    assert back["dtype"] is eager.float16
    assert math.isnan(through_a_file(math.nan))


def test_shared_memory_stays_shared():
    x = eager.arange(6.0)
    a, b = through_a_file([x[:4], x.reshape(2, 3).t()])
    a[0] = 7.0
    assert b[0, 0].item() == 7.0
    assert b.shape == (3, 2)


def test_models_and_optimizers(tmp_path):
    model = eager.nn.Sequential(eager.nn.Linear(3, 4), eager.nn.BatchNorm1d(4))
    optimizer = eager.optim.AdamW(model.parameters(), lr=0.1)
    model(eager.rand(5, 3)).square().sum().backward()
    optimizer.step()
    eager.save(
        {"model": model.state_dict(), "optimizer": optimizer.state_dict()}, tmp_path / "a.pt"
    )
    back = eager.load(tmp_path / "a.pt", map_location="cpu")
    other = eager.nn.Sequential(eager.nn.Linear(3, 4), eager.nn.BatchNorm1d(4))
    assert str(other.load_state_dict(back["model"])) == "<All keys matched successfully>"
    for p, q in zip(model.state_dict().values(), other.state_dict().values(), strict=True):
        assert np.array_equal(p.numpy(), q.numpy())
    again = eager.optim.AdamW(other.parameters())
    again.load_state_dict(back["optimizer"])
    assert again.state_dict()["state"][0]["step"].item() == 1


def test_what_cannot_be_saved_is_named():
    with pytest.raises(TypeError, match=r"\['f'\].*function"):
        eager.save({"f": lambda: 0}, io.BytesIO())


def test_pickles_and_damaged_files_are_refused():
    file = io.BytesIO(pickle.dumps([1]))
    with pytest.raises(RuntimeError):
        eager.load(file)
    file = io.BytesIO()
    eager.save(eager.zeros(2), file)
    bad = io.BytesIO()
    with zipfile.ZipFile(file) as source, zipfile.ZipFile(bad, "w") as out:
        text = source.read("value.json").decode().replace('"shape": [2]', '"shape": [200]')
        out.writestr("value.json", text)
        out.writestr("memory/0.npy", source.read("memory/0.npy"))
    with pytest.raises(RuntimeError, match="damaged"):
        eager.load(bad)
