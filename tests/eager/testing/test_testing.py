"""`eager.testing.assert_close` says yes and no where torch's does."""

import numpy as np
import pytest

import eager

torch = pytest.importorskip("torch")
NAN = float("nan")
PAIRS = {
    "equal": lambda L: (L.ones(3), L.ones(3)),
    "close": lambda L: (L.ones(3), L.ones(3) + 1e-6),
    "far": lambda L: (L.ones(3), L.ones(3) + 1e-3),
    "near for bfloat16": lambda L: (
        L.ones(3, dtype=L.bfloat16),
        L.ones(3, dtype=L.bfloat16) * 1.0078125,
    ),
    "another shape": lambda L: (L.ones(3), L.ones(1, 3)),
    "another dtype": lambda L: (L.ones(3), L.ones(3, dtype=L.float64)),
    "integers": lambda L: (L.arange(3), L.arange(3)),
    "other integers": lambda L: (L.arange(3), L.arange(3) + 1),
    "nan": lambda L: (L.tensor([NAN]), L.tensor([NAN])),
    "infinite": lambda L: (L.tensor([float("inf")]), L.tensor([float("inf")])),
    "complex": lambda L: (L.tensor([1 + 1j]), L.tensor([1 + 1.01j])),
    "numbers": lambda L: (1.0, 1.0 + 1e-9),
    "lists": lambda L: ([L.ones(2), L.zeros(1)], [L.ones(2), L.ones(1)]),
    "lengths": lambda L: ([L.ones(2)], [L.ones(2), L.ones(1)]),
    "mappings": lambda L: ({"a": L.ones(2)}, {"a": L.ones(2)}),
    "keys": lambda L: ({"a": L.ones(2)}, {"b": L.ones(2)}),
    "tracked": lambda L: (L.ones(2, requires_grad=True) * 2, L.ones(2) * 2),
}


@pytest.mark.parametrize("options", [{}, {"equal_nan": True}, {"rtol": 1e-2, "atol": 0.0}])
@pytest.mark.parametrize("name", PAIRS)
def test_verdict(name, options):
    verdicts = []
    for library in (eager, torch):
        try:
            library.testing.assert_close(*PAIRS[name](library), **options)
            verdicts.append(True)
        except AssertionError:
            verdicts.append(False)
    assert verdicts[0] is verdicts[1]


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("name", ["equal", "close", "far", "another shape", "another dtype", "nan"])
def test_former_verdict(name):
    verdicts = []
    for library in (eager, torch):
        try:
            library.testing.assert_allclose(*PAIRS[name](library))
            verdicts.append(True)
        except AssertionError:
            verdicts.append(False)
    assert verdicts[0] is verdicts[1]


def test_message_names_the_worst_element():
    with pytest.raises(AssertionError, match=r"at \['w'\]: 2 of 4 elements.*\(1, 0\): 4.0 and 1.0"):
        eager.testing.assert_close(
            {"w": eager.tensor([[1.0, 2.0], [4.0, 1.0]])}, {"w": eager.ones(2, 2)}
        )
    with pytest.raises(ValueError, match="both"):
        eager.testing.assert_close(1.0, 1.0, rtol=1e-3)


def test_marks_of_torchscript_and_of_mixed_precision_change_nothing():
    from eager.cuda.amp import GradScaler, autocast

    @eager.jit.script
    def double(x):
        return x * 2

    @eager.jit.ignore(drop=True)
    def triple(x):
        return x * 3

    with pytest.warns(FutureWarning, match=r"use amp\.autocast"):
        off = autocast(enabled=False)
    with off:
        assert double(3) == 6
        assert triple(3) == 9
    with pytest.warns(FutureWarning), pytest.warns(UserWarning, match="there is no GPU"):
        assert not GradScaler(init_scale=2.0, enabled=True).is_enabled()
    assert not eager.jit.is_scripting()


def test_sync_batch_norm_of_one_process_is_batch_norm():
    x = eager.tensor(np.random.default_rng(0).standard_normal((4, 3, 5), dtype=np.float32))
    plain, synced = eager.nn.BatchNorm1d(3), eager.nn.SyncBatchNorm(3)
    eager.testing.assert_close(synced(x), plain(x))
    assert {*synced.state_dict()} == {*plain.state_dict()}
    convert = eager.nn.SyncBatchNorm.convert_sync_batchnorm
    alone = convert(plain.eval())
    assert type(alone) is eager.nn.SyncBatchNorm and not alone.training and convert(alone) is alone
    assert alone.weight is plain.weight and alone.running_var is plain.running_var


@pytest.mark.parametrize("name", ["float32", "float64", "int64", "uint8", "bool", "complex64"])
@pytest.mark.parametrize("noncontiguous", [False, True])
def test_make_tensor(name, noncontiguous):
    options = {"device": "cpu", "noncontiguous": noncontiguous}
    ours = eager.testing.make_tensor((3, 4), dtype=getattr(eager, name), **options)
    theirs = torch.testing.make_tensor((3, 4), dtype=getattr(torch, name), **options)
    assert tuple(ours.shape) == tuple(theirs.shape)
    assert str(ours.dtype) == str(theirs.dtype).replace("torch", "eager")
    assert ours.is_contiguous() is theirs.is_contiguous()
    bounds = {"low": -1, "high": 2, "exclude_zero": True, "device": "cpu"}
    whole = eager.testing.make_tensor(50, dtype=eager.int64, **bounds)
    assert set(whole.tolist()) == {-1, 1}
