"""Checkpoints as programs write them, by PyTorch or by ours: name -> value. `python checkpoints.py`
writes each with one library and reads it with the other.
"""

import argparse
import collections
import datetime
import decimal
import enum
import fractions
import io
import pathlib
import types
import uuid

import numpy as np

KINDS = "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128"


class Colour(enum.Enum):
    RED = 1


def modules(T, names=None):
    nn = T.nn
    make = {
        "Linear": (3, 2), "Bilinear": (2, 3, 4), "Conv1d": (2, 3, 3), "Conv2d": (2, 4, 3), "Conv3d": (1, 2, 2),
        "ConvTranspose1d": (2, 3, 3), "ConvTranspose2d": (2, 3, 3), "BatchNorm1d": (3,),
        "BatchNorm2d": (3,), "BatchNorm3d": (3,), "LayerNorm": (4,), "GroupNorm": (2, 4),
        "RMSNorm": (4,), "PReLU": (3,), "Embedding": (5, 3), "EmbeddingBag": (5, 3), "RNN": (3, 4),
        "LSTM": (3, 4, 2), "GRU": (3, 4), "LSTMCell": (3, 4), "MultiheadAttention": (8, 2),
        "TransformerEncoderLayer": (8, 2, 16), "TransformerDecoderLayer": (8, 2, 16),
    }  # fmt: skip
    for name in names or make:
        if name in make:
            yield name, getattr(nn, name)(*make[name])
    if names is not None:
        return
    yield "InstanceNorm2d", nn.InstanceNorm2d(3, affine=True, track_running_stats=True)
    tied = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
    tied[2].weight = tied[0].weight
    yield "tied", tied
    yield "weight_norm", nn.utils.parametrizations.weight_norm(nn.Linear(3, 2))
    yield (
        "ParameterDict",
        nn.ParameterDict({"a": nn.Parameter(T.ones(2)), "b": nn.Parameter(T.ones(1))}),
    )


OPTIMIZERS = {
    "SGD": {"momentum": 0.9}, "Adam": {"amsgrad": True}, "AdamW": {}, "Adamax": {}, "NAdam": {},
    "RAdam": {}, "Adagrad": {}, "Adadelta": {}, "ASGD": {}, "RMSprop": {"momentum": 0.1, "centered": True},
    "Rprop": {}, "Adafactor": {}, "LBFGS": {},
}  # fmt: skip


def optimizers(T, names=None):
    for name in (n for n in names or OPTIMIZERS if n in OPTIMIZERS):
        model = T.nn.Linear(3, 2)
        optimizer = getattr(T.optim, name)(model.parameters(), lr=0.1, **OPTIMIZERS[name])

        def closure(model=model, optimizer=optimizer):
            optimizer.zero_grad()
            loss = model(T.ones(4, 3)).pow(2).sum()
            loss.backward()
            return loss

        for _ in range(2):
            optimizer.step(closure)
        yield name, optimizer


def schedulers(T, names=None):
    L = T.optim.lr_scheduler
    make = {
        "StepLR": (2,), "MultiStepLR": ([1, 3],), "ConstantLR": (), "LinearLR": (), "ExponentialLR": (0.9,),
        "CosineAnnealingLR": (5,), "PolynomialLR": (), "OneCycleLR": (0.1, 10), "CosineAnnealingWarmRestarts": (3,),
        "CyclicLR": (0.01, 0.1), "ReduceLROnPlateau": (), "LambdaLR": (lambda epoch: 0.9**epoch,),
    }  # fmt: skip
    for name in (n for n in names or make if n in make):
        optimizer = T.optim.SGD(T.nn.Linear(2, 1).parameters(), lr=0.1, momentum=0.9)
        scheduler = getattr(L, name)(optimizer, *make[name])
        optimizer.step()
        scheduler.step(*[0.5] * (name == "ReduceLROnPlateau"))
        yield name, scheduler


def plain():
    yield (
        "numbers",
        [True, 0, -1, 255, 70000, 2**40, -(2**80), 0.1, float("inf"), 1 - 2j, None, ...],
    )
    yield "text", ["", "ä€😀", "x" * 70000, b"", b"\0\xff", bytearray(b"ab")]
    yield "containers", {(1, "key"): [(), (1,), (1, 2, 3, 4)], "s": {1, 2}, "f": frozenset({3})}
    yield "collections", [
        collections.OrderedDict(b=1, a=2), collections.Counter("abca"),
        collections.defaultdict(list, a=[1]), collections.defaultdict(int, {1: 2}),
        collections.deque([1, 2], 3), collections.deque(),
    ]  # fmt: skip
    yield "numpy scalars", [
        np.float64(2.5), np.float32(0.1), np.int64(-3), np.bool_(True), np.uint8(7), np.complex64(1j),
        np.float16(0.5), np.str_("text"), np.datetime64("2024-02-29T12:00", "us"), np.timedelta64(3, "D"),
    ]  # fmt: skip
    yield "numpy arrays", [
        np.arange(6.0).reshape(2, 3), np.asfortranarray(np.eye(3)),
        np.zeros((0, 2)), np.array(3), np.array(["a", "bcd"]), np.array([True]), np.dtype("float32"),
        np.array(["2024-01-01"], "M8[D]"), np.float32, np.dtype(">f8"),
    ]  # fmt: skip
    yield "best metrics", {"loss": np.float64(0.25), "epoch": 3, "random": np.random.get_state()}
    yield "library", [
        argparse.Namespace(lr=0.1, layers=[1, 2]), types.SimpleNamespace(a=1),
        pathlib.PurePosixPath("/a/b"), pathlib.Path("c"), pathlib.PureWindowsPath("d\\e"),
        decimal.Decimal("1.50"), fractions.Fraction(3, 7), uuid.UUID(int=5), range(1, 9, 2),
        slice(1, None, 2), Colour.RED,
    ]  # fmt: skip
    day = datetime.datetime(2024, 2, 29, 12, 30, 1, 5)
    zone = datetime.timezone(datetime.timedelta(hours=2), "here")
    yield "times", [day.date(), day.time(), day, day.replace(tzinfo=zone), datetime.timedelta(1, 2, 3),
                    zone, datetime.timezone.utc]  # fmt: skip


def tensors(T):
    for kind in KINDS.split():
        x = T.tensor([[0, 1, -3], [2, 5, 100]]).to(getattr(T, kind))
        yield kind, [x, x.t(), x[:, 1:], x[1], x[0, 0], x.expand(3, 2, 3), x[:0], T.empty(0).to(x)]
    whole = T.arange(24.0).reshape(2, 3, 4)
    yield "views", [whole, whole.permute(2, 0, 1), whole[1, :, ::2], whole.reshape(-1)[5:9],
                    T.as_strided(whole, (2, 2), (5, 3), 1)]  # fmt: skip
    parameter = T.nn.Parameter(T.ones(2), requires_grad=False)
    parameter.scale = 2
    named = T.ones(3)
    named.note = "x"
    yield "flags", [
        T.ones(2, requires_grad=True), T.nn.Parameter(T.ones(1)), parameter, named,
        T.nn.Buffer(T.ones(1)), T.nn.Buffer(T.ones(1), persistent=False), [T.ones(1, requires_grad=True) * 2],
    ]  # fmt: skip
    yield "objects", [T.Size([2, 3]), T.float32, T.bfloat16, T.device("cpu"), T.zeros(2, 3).shape]
    one, around = T.ones(2), []
    around.append(around)
    yield "twice", [one, one, (one,), {"a": one}, around]
    yield "coo", T.sparse_coo_tensor([[0, 1, 1], [2, 0, 2]], [3.0, 4.0, 5.0], (2, 4))
    yield (
        "coalesced",
        T.sparse_coo_tensor([[1, 0, 1], [2, 0, 2]], [3.0, 4.0, 5.0], (2, 4)).coalesce(),
    )
    yield "csr", T.sparse_csr_tensor([0, 2, 3], [0, 2, 1], [1.0, 2.0, 3.0], (2, 3))
    yield "csc", T.sparse_csc_tensor([0, 2, 3, 3], [0, 1, 1], [1.0, 2.0, 3.0], (2, 3))
    yield (
        "storages",
        [T.arange(3, dtype=T.uint8).untyped_storage(), T.arange(2.0).untyped_storage()],
    )


def states(T, names=None):
    """Modules, optimizers and schedulers: of each its state."""
    for make in (modules, optimizers, schedulers):
        for name, thing in make(T, names):
            yield f"state of {name}", thing.state_dict()
    yield "state of GradScaler", T.amp.GradScaler("cpu").state_dict()


def values(T):
    """Every checkpoint of a library: name, value."""
    T.manual_seed(0)
    yield from states(T)
    yield from plain()
    yield from tensors(T)


def same(a, b, where="value"):
    """AssertionError where two values differ, which may be of two libraries."""
    kind = type(b).__name__
    if "sparse" in str(getattr(b, "layout", "")):
        assert str(a.layout).split(".")[1] == str(b.layout).split(".")[1], where
        same(a.to_dense(), b.to_dense(), where)
        if "coo" in str(b.layout):
            assert a.is_coalesced() == b.is_coalesced(), where
            assert a._indices().tolist() == b._indices().tolist(), where
            same(a._values(), b._values(), where)
    elif hasattr(b, "untyped_storage"):
        assert (tuple(a.shape), a.stride()) == (tuple(b.shape), b.stride()), where
        assert str(a.dtype).split(".")[1] == str(b.dtype).split(".")[1], where
        assert a.requires_grad == b.requires_grad, where
        assert type(a).__name__.replace("Buffer", "Tensor") == kind.replace("Buffer", "Tensor"), (
            where
        )
        assert repr(a.tolist()) == repr(b.tolist()), where  # NaN is NaN
        same(public(a), public(b), where + ".__dict__")
    elif hasattr(b, "nbytes") and "Storage" in kind:
        assert a.tolist() == b.tolist(), where
    elif isinstance(b, dict):
        assert type(a) is type(b), where
        assert list(a) == list(b), where
        for key in b:
            same(a[key], b[key], f"{where}[{key!r}]")
        assert getattr(a, "default_factory", None) is getattr(b, "default_factory", None), where
        same(getattr(a, "_metadata", 0), getattr(b, "_metadata", 0), where)
    elif isinstance(b, list | tuple) and type(b) in (list, tuple):
        assert (type(a), len(a)) == (type(b), len(b)), where
        for i, (one, other) in enumerate(zip(a, b, strict=True)):
            if one is not a:
                same(one, other, f"{where}[{i}]")
    elif isinstance(b, np.ndarray):
        assert (a.dtype, a.flags.f_contiguous) == (b.dtype, b.flags.f_contiguous), where
        np.testing.assert_array_equal(a, b, where)
    elif type(b).__module__.startswith(("torch", "eager")):
        assert str(a).replace("torch", "eager") == str(b).replace("torch", "eager"), where
    else:
        assert type(a) is type(b), where
        assert a == b, where


def public(tensor):
    """What a user put on a tensor."""
    return {k: v for k, v in vars(tensor).items() if not k.startswith("_")}


def through(save, load, value, **options):
    file = io.BytesIO()
    save(value, file, **options)
    file.seek(0)
    return load(file)


def allowed(torch):
    """What torch.load has to be told of Python's library and NumPy, to read it."""
    numpy = [np._core.multiarray.scalar, np._core.multiarray._reconstruct, np.dtype, np.ndarray]
    numpy += [type(np.dtype(code)) for code in "?bBhHiIlLqQefdgFDGSUmM"] + [np.float32]
    library = [collections.deque, argparse.Namespace, types.SimpleNamespace, decimal.Decimal, range, slice,
               fractions.Fraction, uuid.UUID, Colour, collections.defaultdict, list, int,
               datetime.date, datetime.time, datetime.datetime, datetime.timezone, datetime.timedelta,
               pathlib.PurePosixPath, pathlib.PosixPath, pathlib.PureWindowsPath,
               (range, "__builtin__.xrange"), (range, "builtins.xrange")]  # fmt: skip
    torch.serialization.add_safe_globals(numpy + library)


REFUSED = {"numbers", "containers", "collections"}


def main():
    import torch

    import eager

    allowed(torch)
    for writer, reader in ((torch, eager), (eager, torch), (eager, eager)):
        count, faults = 0, []
        for name, value in values(writer):
            count += 1
            options = {}
            if reader is torch and name in REFUSED:  # by PyTorch, whoever wrote it
                options["weights_only"] = False
            try:
                same(through(writer.save, lambda f: reader.load(f, **options), value), value)
            except Exception as error:
                faults.append(f"  {name}: {type(error).__name__}: {str(error)[:300]}")
        print(f"{writer.__name__} -> {reader.__name__}: {count} checkpoints, {len(faults)} differ")
        print("\n".join(faults))


if __name__ == "__main__":
    main()
