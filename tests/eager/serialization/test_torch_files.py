"""Files of torch.save: what PyTorch wrote is read, with its memory; the rest is refused by name."""

import argparse
import io
import pickle
import warnings
import zipfile
from collections import Counter, OrderedDict

import checkpoints
import numpy as np
import pytest
from hostile_files import SAMPLE, P, S, call, storage, tensor, torch_file, tuple_of, word

import eager
from eager import serialization

KINDS = "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128"


def through_a_file(torch, value, **options):
    file = io.BytesIO()
    torch.save(value, file, **options)
    file.seek(0)
    return eager.load(file)


def same(ours, theirs):
    """Shape, strides, dtype, flags and bits of a tensor; structure and values of all else."""
    if hasattr(theirs, "untyped_storage"):
        assert tuple(ours.shape) == tuple(theirs.shape)
        assert ours.stride() == theirs.stride()
        assert ours.dtype.name == str(theirs.dtype).removeprefix("torch.")
        assert ours.requires_grad == theirs.requires_grad
        assert isinstance(ours, eager.nn.Parameter) == (type(theirs).__name__ == "Parameter")
        assert ours.tolist() == theirs.tolist()
    elif isinstance(theirs, dict):
        assert type(ours) is type(theirs)
        assert list(ours) == list(theirs)
        for key in theirs:
            same(ours[key], theirs[key])
        if hasattr(theirs, "_metadata"):
            same(ours._metadata, theirs._metadata)
    elif isinstance(theirs, list | tuple):
        assert len(ours) == len(theirs)
        for mine, other in zip(ours, theirs, strict=True):
            same(mine, other)
    elif type(theirs).__module__.startswith("torch"):
        assert str(ours) == str(theirs).replace("torch", "eager")
    else:
        assert type(ours) is type(theirs)
        assert ours == theirs


def test_a_file_of_torch_2_13():
    """Written by PyTorch 2.13: a model, an Adam state, views of one memory, plain values."""
    value = eager.load(SAMPLE)
    model = eager.nn.Sequential(eager.nn.Linear(3, 2), eager.nn.BatchNorm1d(2))
    assert str(model.load_state_dict(value["model"])) == "<All keys matched successfully>"
    optimizer = eager.optim.Adam(model.parameters())
    optimizer.load_state_dict(value["optimizer"])
    assert optimizer.param_groups[0]["lr"] == 0.5
    whole, turned, part = value["shared"]
    part[0] = 9.0
    assert whole.tolist() == [0, 1, 9, 3, 4, 5]
    assert turned.tolist() == [[0, 3], [1, 4], [9, 5]]
    assert value["parameter"].tolist() == [1, 2]
    assert not value["parameter"].requires_grad
    assert value["half"].dtype is value["dtype"] is eager.bfloat16
    assert value["size"] == eager.Size([2, 3])
    assert (value["epoch"], value["bytes"], value["set"]) == (3, b"\0\xff", {1, 2})


@pytest.mark.parametrize("kind", KINDS.split())
def test_every_dtype(kind):
    torch = pytest.importorskip("torch")
    x = torch.tensor([[0, 1, -3], [2, 5, 100]]).to(getattr(torch, kind))
    views = [x, x.t(), x[:, 1:], x[1], x[0, 0], x.expand(3, 2, 3), x[:0], torch.empty(0).to(x)]
    same(through_a_file(torch, views), views)


def test_checkpoints():
    torch = pytest.importorskip("torch")
    model = torch.nn.TransformerEncoderLayer(8, 2, 16)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(2, 3, 8)).sum().backward()
    optimizer.step()
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 3)
    value = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "schedule": {k: v for k, v in schedule.state_dict().items() if k != "_get_lr_called"},
        "rng": torch.get_rng_state(),
        "parameters": list(model.parameters()),
        "tied": torch.nn.ParameterList([model.linear1.weight] * 2).state_dict(),
    }
    same(through_a_file(torch, value), value)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_plain_values(protocol):
    torch = pytest.importorskip("torch")
    value = {
        "none": None, "numbers": [True, 0, -1, 255, 70000, 2**40, -(2**80), 0.1, float("inf"), 1 - 2j],
        "text": ["", "ä€😀", "x" * 70000], "bytes": [b"", b"\0\xff", bytearray(b"ab")],
        "tuple": ((), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)), (1, "key"): {2: 3},
        "sets": [set(), {1, 2}, frozenset({3})], "counts": Counter("abca"),
        "ordered": OrderedDict(b=1, a=2), "size": torch.Size([3, 4]), "device": torch.device("cpu"),
        "dtype": [torch.float32, torch.bool], "x": torch.arange(3.0),
    }  # fmt: skip
    loaded = through_a_file(torch, value, pickle_protocol=protocol)
    assert {type(x) for x in loaded["sets"]} == {set, frozenset}
    same(loaded, value)


def test_objects_that_are_there_twice():
    torch = pytest.importorskip("torch")
    weight, around = torch.nn.Parameter(torch.ones(2)), []
    around.append(around)
    a, b, loop = through_a_file(torch, [weight, weight, around])
    assert a is b
    assert loop[0] is loop


def test_what_pytorch_leaves_to_be_done_and_attributes():
    torch = pytest.importorskip("torch")
    z = torch.tensor([1 + 2j, 3 - 1j])
    named = torch.ones(2)
    named.note = "x"
    parameter = torch.nn.Parameter(torch.ones(1))
    parameter.scale = 2
    conj, imag, note, p, buffer = through_a_file(
        torch,
        [
            z.conj(),
            z.clone().conj().imag,
            named,
            parameter,
            torch.nn.Buffer(torch.ones(1), persistent=False),
        ],
    )
    assert conj.tolist() == [1 - 2j, 3 + 1j]
    assert imag.tolist() == [-2, 1]
    assert (note.note, p.scale, buffer.persistent) == ("x", 2, False)
    assert isinstance(buffer, eager.nn.Buffer)


def test_storages():
    torch = pytest.importorskip("torch")
    x = torch.arange(3, dtype=torch.uint8)
    untyped, y = through_a_file(torch, [x.untyped_storage(), x[1:]])
    assert isinstance(untyped, eager.UntypedStorage)
    assert untyped.tolist() == [0, 1, 2]
    untyped[1] = 7
    assert y.tolist() == [7, 2]


def test_where_tensors_go():
    there = torch_file(P + tensor(storage(where=word("cuda:1"))) + S)
    with pytest.raises(serialization.LoadError, match=r"map_location='cpu'"):
        eager.load(io.BytesIO(there))
    for place in ("cpu", eager.device("cpu"), {"cuda:1": "cpu"}, lambda memory, place: memory):
        assert eager.load(io.BytesIO(there), place).tolist() == [0] * 4
    with pytest.raises(RuntimeError, match="cpu"):
        eager.load(io.BytesIO(there), "cuda:0")
    with pytest.raises(RuntimeError, match="moon"):
        eager.load(io.BytesIO(there), {"cuda:1": "moon"})
    with pytest.raises(ZeroDivisionError):  # the user's own error, as it is
        eager.load(io.BytesIO(there), lambda memory, place: 1 / 0)


def test_bytes_of_the_other_order():
    import sys

    other = b"big" if sys.byteorder == "little" else b"little"
    data = {"0": np.arange(4, dtype=">f4" if other == b"big" else "<f4").tobytes()}
    file = torch_file(P + tensor() + S, data).replace(b"little", b"big   ")
    parts = {"a/data.pkl": P + tensor() + S, "a/byteorder": other, "a/data/0": data["0"]}
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as out:
        for name, content in parts.items():
            out.writestr(name, content)
    assert eager.load(file).tolist() == [0, 1, 2, 3]


class Options:
    def __init__(self):
        raise AssertionError("never called when a file is read")


class Runs:
    def __reduce__(self):
        return run, (1,)


ran = []


def run(value):
    ran.append(value)


def test_what_the_user_allows():
    torch = pytest.importorskip("torch")
    options = Options.__new__(Options)
    options.rate = 0.5
    value = {"args": argparse.Namespace(lr=0.1), "options": options, "class": Options}
    file = io.BytesIO()
    torch.save(value, file)
    for weights_only in (None, True):
        file.seek(0)
        with pytest.raises(pickle.UnpicklingError, match=r"Options.*add_safe_globals"):
            eager.load(file, weights_only=weights_only)
    with serialization.safe_globals([Options]):
        assert set(serialization.get_safe_globals()) == {Options}
        file.seek(0)
        back = eager.load(file)
        assert (back["args"].lr, back["options"].rate, back["class"]) == (0.1, 0.5, Options)
    assert not serialization.get_safe_globals()
    with serialization.safe_globals([(argparse.Namespace, "torch.hub.load")]):
        eager.load(io.BytesIO(torch_file(P + call("torch.hub", "load") + S)))
    with pytest.raises(ValueError, match="run anything"):
        serialization.add_safe_globals([eval])
    with pytest.raises(ValueError, match="run anything"):
        serialization.add_safe_globals([(eval, "builtins.dict")])
    with serialization.safe_globals([dict, list]):  # which run nothing
        assert {*serialization.get_safe_globals()} == {dict, list}


def test_the_users_own_errors_come_out():
    def fails(*args):
        raise ZeroDivisionError("mine")

    with (
        serialization.safe_globals([(fails, "my.fails")]),
        pytest.raises(ZeroDivisionError, match="mine"),
    ):
        eager.load(io.BytesIO(torch_file(P + call("my", "fails") + S)))


def test_refusals_say_what_where_and_what_to_do(tmp_path):
    path = tmp_path / "model.pth"
    path.write_bytes(torch_file(P + call("os", "system", word("id")) + S))
    with pytest.raises(serialization.LoadError) as caught:
        eager.load(path)
    text = str(caught.value)
    assert str(path) in text
    assert "archive/data.pkl byte 2" in text
    assert "'os.system'" in text
    assert "nothing was run" in text
    path.write_bytes(torch_file(P + tensor(size=tuple_of(b"K\x09")) + S))
    with pytest.raises(RuntimeError, match=r"ends at byte 36 of a memory of 16 bytes; .*damaged"):
        eager.load(path)


SOME = ("Linear", "BatchNorm1d", "LSTM", "Adam", "LBFGS", "OneCycleLR", "GradScaler")


def sample(T):
    """Of `scripts/checkpoints`: what is quick to make."""
    yield from checkpoints.plain()
    yield from checkpoints.tensors(T)
    T.manual_seed(0)
    for name, value in checkpoints.states(T, SOME):
        yield name, value


def test_checkpoints_of_either_library_are_read_by_both():
    torch = pytest.importorskip("torch")
    checkpoints.allowed(torch)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for writer, reader in ((torch, eager), (eager, torch), (eager, eager)):
                for name, value in sample(writer):
                    trusted = (
                        {"weights_only": False}
                        if reader is torch and name in checkpoints.REFUSED
                        else {}
                    )
                    back = checkpoints.through(
                        writer.save, lambda f: reader.load(f, **trusted), value
                    )
                    checkpoints.same(back, value, f"{writer.__name__} {name}")
    finally:
        torch.serialization.clear_safe_globals()


@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_values_of_the_library_and_of_numpy_by_any_protocol(protocol):
    for name, value in checkpoints.plain():
        program = pickle.dumps(value, protocol)
        checkpoints.same(eager.load(io.BytesIO(torch_file(program))), value, name)
    program = pickle.dumps(np.ones(2), protocol)
    assert eager.load(io.BytesIO(torch_file(program))).dtype is np.dtype("float64")


def test_files_of_before_1_6():
    torch = pytest.importorskip("torch")
    weight = torch.nn.Parameter(torch.arange(6.0).reshape(2, 3))
    value = [weight, weight[:, 1:].detach(), torch.tensor([True]), {"epoch": 3}, weight]
    file = io.BytesIO()
    torch.save(value, file, _use_new_zipfile_serialization=False)
    loaded = through_the_old(file, value)
    assert loaded[0] is loaded[4]
    loaded[0].data[0, 1] = 9.0
    assert loaded[1][0, 0].item() == 9.0
    with pytest.raises(pickle.UnpicklingError, match="before PyTorch 0.1.10"):
        eager.load(io.BytesIO(bytes(257) + b"ustar"))


def through_the_old(file, value):
    for weights_only in (False, True):
        file.seek(0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            loaded = eager.load(file, weights_only=weights_only)
        checkpoints.same(loaded, value)
    return loaded


def test_a_file_that_is_trusted_runs_what_it_says():
    file = io.BytesIO()
    eager.save([Runs(), eager.ones(1)], file)
    for weights_only in (None, True, 1):
        file.seek(0)
        with pytest.raises(pickle.UnpicklingError, match="add_safe_globals"):
            eager.load(file, weights_only=weights_only)
    assert not ran
    file.seek(0)
    with pytest.warns(UserWarning, match="only what you trust") as caught:
        assert eager.load(file, weights_only=False)[1].tolist() == [1]
    assert ran == [1]
    assert caught[0].filename == __file__
    broken = io.BytesIO(torch_file(P + call("operator", "truediv", b"K\x01", b"K\0") + S))
    with (
        pytest.warns(UserWarning, match="trust"),
        pytest.raises(ZeroDivisionError),
    ):  # the file's own, as it is
        eager.load(broken, weights_only=False)
    with (
        pytest.warns(UserWarning, match="trust"),
        pytest.raises(pickle.UnpicklingError, match="torch.nn"),
    ):
        eager.load(io.BytesIO(torch_file(P + b"ctorch.nn\nLinear\n.")), weights_only=False)


class Net(eager.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = eager.nn.Sequential(eager.nn.Linear(2, 3), eager.nn.BatchNorm1d(3))
        self.act = eager.nn.functional.relu

    def forward(self, x):
        return self.act(self.body(x))


def test_whole_modules_are_named_as_users_name_them():
    model = Net()
    optimizer = eager.optim.Adam(model.parameters())
    schedule = eager.optim.lr_scheduler.StepLR(optimizer, 2)
    normal = eager.distributions.Normal(eager.zeros(2), eager.ones(2))
    file = io.BytesIO()
    eager.save([model, optimizer, schedule, normal], file)
    with zipfile.ZipFile(file) as archive:
        text = archive.read("archive/data.pkl")
    named = {line for line in text.split(b"\n") if b"ceager" in line}
    assert all(name.rpartition(b"ceager")[2] in HOMES for name in named), named
    file.seek(0)
    with pytest.warns(UserWarning, match="trust"):
        again, steps, _, _ = eager.load(file, weights_only=False)
    checkpoints.same(again.state_dict(), model.state_dict())
    again(eager.ones(4, 2)).sum().backward()
    steps.step()
    file.seek(0)
    with pytest.raises(pickle.UnpicklingError, match=r"Net.*add_safe_globals"):
        eager.load(file)
    file = io.BytesIO()
    eager.save(model, file)
    used = [
        Net,
        eager.nn.Sequential,
        eager.nn.Linear,
        eager.nn.BatchNorm1d,
        eager.nn.functional.relu,
    ]
    with serialization.safe_globals(used):
        assert serialization.get_safe_globals() == used
        checkpoints.same(eager.load(file).state_dict(), model.state_dict())


HOMES = {b"", b".nn", b".nn.functional", b".optim", b".optim.lr_scheduler", b".distributions"}


def test_every_public_class_has_a_public_name():
    from eager.serialization.torch_write import public_name

    for home in ("nn", "optim", "optim.lr_scheduler", "distributions", "utils.data", "sparse"):
        module = eager
        for part in home.split("."):
            module = getattr(module, part)
        for name, cls in vars(module).items():
            if isinstance(cls, type) and cls.__module__.startswith("eager") and name[0] != "_":
                where, known = public_name(cls)
                assert known == name, cls
                assert f"eager.{home}".startswith(where), cls


def test_tensors_that_lie_in_the_file(tmp_path):
    path = tmp_path / "a.pt"
    eager.save({"x": (x := eager.arange(1000.0)), "y": x[10:20], "e": eager.zeros(0)}, path)
    before = path.read_bytes()
    value = eager.load(path, mmap=True)
    assert "memmap" in bases(value["x"])
    assert value["x"].tolist() == x.tolist()
    value["x"].add_(1)
    assert value["y"][0].item() == 11
    assert path.read_bytes() == before
    with pytest.raises(ValueError, match="path"):
        eager.load(io.BytesIO(before), mmap=True)


def bases(tensor):
    array = tensor.numpy()
    while array is not None:
        yield type(array).__name__
        array = getattr(array, "base", None)
