"""save and load: any structure of tensors and plain values comes back, and nothing in a file runs."""

import io
import json
import math
import pickle
import zipfile
from collections import OrderedDict

import numpy as np
import pytest

eager = pytest.importorskip("eager")


@pytest.fixture(params=["torch", "eager"])
def through_a_file(request):
    def through(value):
        file = io.BytesIO()
        eager.save(value, file, format=request.param)
        file.seek(0)
        return eager.load(file)

    return through


@pytest.mark.parametrize(
    "dtype", ["bool", "uint8", "int64", "float16", "bfloat16", "float32", "complex64"]
)
def test_every_dtype(dtype, through_a_file):
    kind = getattr(eager, dtype)
    x = eager.tensor([[0, 1], [1, 0]]).to(kind)
    y = through_a_file(x)
    assert y.dtype is kind
    assert y.tolist() == x.tolist()


def test_structures(through_a_file):
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


def test_shared_memory_stays_shared(through_a_file):
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
    for format in ("torch", "eager"):
        with pytest.raises(TypeError, match=r"the object\['f'\]\[1\] is a function"):
            eager.save({"f": [0, lambda: 0]}, io.BytesIO(), format=format)


def test_deep_values():
    value = []
    for _ in range(1000):
        value = [value]
    file = io.BytesIO()
    eager.save(value, file)
    back = eager.load(file)
    while back:
        (back,) = back
    for _ in range(100_000):
        value = [value]
    with pytest.raises(TypeError, match="too deep"):
        eager.save(value, io.BytesIO())


def test_pickles_and_damaged_files_are_refused():
    file = io.BytesIO(pickle.dumps([1]))
    with pytest.raises(RuntimeError):
        eager.load(file)
    file = io.BytesIO()
    eager.save(eager.zeros(2), file, format="eager")
    bad = io.BytesIO()
    with zipfile.ZipFile(file) as source, zipfile.ZipFile(bad, "w") as out:
        text = source.read("value.json").decode().replace('"shape": [2]', '"shape": [200]')
        out.writestr("value.json", text)
        out.writestr("memory/0.npy", source.read("memory/0.npy"))
    with pytest.raises(RuntimeError, match="damaged"):
        eager.load(bad)


def test_objects_that_are_there_twice_are_one(through_a_file):
    weight, inner = eager.nn.Parameter(eager.ones(2)), [1]
    loop = {"self": None}
    loop["self"] = loop
    a, b, c, d, e, array, same_array = through_a_file(
        [weight, inner, weight, inner, loop, array := np.arange(2), array]
    )
    assert a is c
    assert b is d
    assert e["self"] is e
    assert array is same_array


def test_strides_and_memory_come_back(through_a_file):
    fortran = eager.from_numpy(np.asfortranarray(np.arange(6.0).reshape(2, 3)))
    views = [
        fortran, fortran.t(), fortran[:, 1:], eager.arange(3.0).expand(2, 3),
        eager.arange(24.0).reshape(2, 3, 4).permute(2, 0, 1), eager.tensor(1.5),
        eager.zeros(0, 3), eager.arange(10)[::3],
    ]  # fmt: skip
    loaded = through_a_file(views)
    for x, y in zip(views, loaded, strict=True):
        assert x.tolist() == y.tolist()
        assert x.stride() == y.stride()
    loaded[0][0, 0] = 9.0
    assert loaded[1][0, 0].item() == 9.0


def test_parts_of_a_large_memory_share_it_and_no_more_is_kept():
    whole = eager.arange(100_000)
    file = io.BytesIO()
    halves = eager.from_numpy(whole.numpy().view(np.int32))
    eager.save([whole[500:510], whole[505:515], halves[1016:1018]], file)
    assert len(file.getvalue()) < 2000
    a, b, c = eager.load(file)
    b[0] = -1
    assert a.tolist() == [500, 501, 502, 503, 504, -1, 506, 507, 508, 509]
    assert c.tolist() == [508, 0]


def test_memory_of_one_address_and_two_lengths(through_a_file):
    memory = bytearray(np.arange(4.0, dtype=np.float32).tobytes())
    short = eager.frombuffer(memory, dtype=eager.float32, count=2)
    assert [
        x.tolist() for x in through_a_file([short, eager.frombuffer(memory, dtype=eager.float32)])
    ] == [
        [0, 1],
        [0, 1, 2, 3],
    ]


def test_attributes_of_an_ordered_dictionary(through_a_file):
    state = OrderedDict(a=eager.ones(1))
    state._metadata = OrderedDict({"": {"version": 1}})
    back = through_a_file(state)
    assert back._metadata[""] == {"version": 1}
    assert back["a"].tolist() == [1]


def test_files_of_the_first_format_are_read():
    value = {"kind": "list", "of": [1, {"kind": "tensor", "memory": 0, "dtype": "int16", "shape": [2],
             "strides": [1], "offset": 1, "requires_grad": False, "parameter": False}]}  # fmt: skip
    file, npy = io.BytesIO(), io.BytesIO()
    np.save(npy, np.arange(4, dtype=np.int16).view(np.uint8))
    with zipfile.ZipFile(file, "w") as out:
        out.writestr("value.json", json.dumps({"format": 1, "value": value}))
        out.writestr("memory/0.npy", npy.getvalue())
    assert eager.load(file)[1].tolist() == [1, 2]


def test_storages_and_buffers():
    x = eager.arange(6.0).reshape(2, 3)
    storage = x[1].untyped_storage()
    assert storage.data_ptr() == x.data_ptr() == x.storage().data_ptr()
    assert (storage.nbytes(), x.storage().size(), len(storage)) == (24, 6, 24)
    assert eager.asarray(storage[4:8]).tolist() == storage.tolist()[4:8] == [0, 0, 128, 63]
    before = x._version
    storage[:4] = storage[4:8].clone()
    assert x[0, 0].item() == 1
    assert x._version == before + 1
    shared = bytearray(8)
    eager.frombuffer(shared, dtype=eager.int32, offset=4).fill_(-1)
    assert shared == bytearray(b"\0" * 4 + b"\xff" * 4)
    for options in ({"offset": 9}, {"count": 3}, {"offset": 1}, {"count": 0}):
        with pytest.raises(ValueError):
            eager.frombuffer(shared, dtype=eager.int32, **options)
