"""Numbers as arguments: NumPy's are taken as Python's, and what is no int is refused where an int
is asked for, as in PyTorch."""

import numpy as np
import pytest

import eager
from eager import nn
from eager.nn import functional as F
from jitcap import jit

pytestmark = pytest.mark.once

NOT_INTS = [1.5, np.float64(2), True, np.bool_(True), "2", None, 2j]
TAKES_AN_INT = {
    "topk": lambda n: eager.ones(3).topk(n),
    "kthvalue": lambda n: eager.ones(3).kthvalue(n),
    "dim": lambda n: eager.ones(3, 3, 3).cumsum(n),
    "dims": lambda n: eager.ones(3, 3, 3).permute(n, 0, 1),
    "select": lambda n: eager.ones(3).select(0, n),
    "narrow": lambda n: eager.ones(3).narrow(0, 0, n),
    "roll": lambda n: eager.ones(3).roll(n),
    "rot90": lambda n: eager.ones(3, 3).rot90(n),
    "triu": lambda n: eager.triu(eager.ones(3, 3), n),
    "round": lambda n: eager.ones(3).round(decimals=n),
    "zeros": lambda n: eager.zeros(n),
    "reshape": lambda n: eager.ones(4).reshape(n, 2),
    "expand": lambda n: eager.ones(1).expand(n),
    "unfold": lambda n: eager.ones(3).unfold(0, n, 1),
    "as_strided": lambda n: eager.ones(3).as_strided((1,), (1,), n),
    "eye": lambda n: eager.eye(n),
    "linspace": lambda n: eager.linspace(0, 1, n),
    "randint": lambda n: eager.randint(n, (2,)),
    "pad": lambda n: F.pad(eager.ones(3), (n, 0)),
    "max_pool1d": lambda n: F.max_pool1d(eager.ones(1, 4), n),
    "stride": lambda n: F.conv1d(eager.ones(1, 1, 4), eager.ones(1, 1, 2), stride=n),
    "groups": lambda n: F.conv1d(eager.ones(1, 2, 4), eager.ones(2, 1, 2), groups=n),
    "one_hot": lambda n: F.one_hot(eager.tensor([0, 1]), n),
    "layer_norm": lambda n: F.layer_norm(eager.ones(2, 2), (n,)),
    "fft": lambda n: eager.fft.fft(eager.ones(4), n),
    "matrix_power": lambda n: eager.linalg.matrix_power(eager.eye(2), n),
}
MAY_BE_NONE = {"fft", "as_strided"}


@pytest.mark.parametrize("name", TAKES_AN_INT)
def test_an_int_is_an_int(name):
    call = TAKES_AN_INT[name]
    for n in (np.int64(2), np.uint8(2), eager.tensor(2)):
        eager.manual_seed(0)
        given = str(call(n))
        eager.manual_seed(0)
        assert given == str(call(2))
    for wrong in NOT_INTS:
        if wrong is None and name in MAY_BE_NONE:
            continue
        with pytest.raises(TypeError):
            call(wrong)


def test_a_size_is_of_ints():
    assert eager.Size([np.int64(2), 3]) == (2, 3)
    with pytest.raises(TypeError, match="item 1 must be int, not float"):
        eager.Size([1, 2.0])


def test_numbers_of_numpy_are_numbers():
    two, half, zero = np.int64(2), np.float32(0.5), np.int64(0)
    ints = eager.tensor([5, -5])
    cases = [
        (eager.arange(two), [0, 1], eager.int64),
        (eager.arange(0, two, half), [0, 0.5, 1, 1.5], eager.float32),
        (eager.linspace(half, two, 2), [0.5, 2], eager.float32),
        (eager.float_power(ints, two), [25, 25], eager.float64),
        (eager.div(ints, two, rounding_mode="trunc"), [2, -2], eager.int64),
        (ints // two, [2, -3], eager.int64),
        (eager.Tensor(two), [0, 0], eager.float32),
        (nn.LayerNorm(two).weight, [1, 1], eager.float32),
    ]
    for got, values, dtype in cases:
        assert got.dtype is dtype
        assert got.shape == (len(values),)
        assert got.tolist() == values or values == [0, 0]
    assert eager.result_type(ints, half) is eager.float32
    with pytest.raises(RuntimeError, match="ZeroDivision"):
        ints // zero
    with pytest.raises(RuntimeError, match="ZeroDivision"):
        eager.div(ints, zero, rounding_mode="trunc")
    with pytest.raises(RuntimeError, match="alpha"):
        eager.add(ints, ints, alpha=half)
    assert (eager.ones(2) + np.longdouble(0.5)).tolist() == [1.5, 1.5]


def test_numbers_of_numpy_are_numbers_in_compiled_code():
    def step(x, n, f):
        i = eager.arange(np.int64(3))
        return i * n, i // n, x.float_power(f), eager.linspace(f, 1, 3), x.roll(n), x.topk(n)[0]

    x = eager.tensor([1.0, 2.0, 4.0])
    compiled = jit(step, backend="python")
    for n, f in ((np.int64(2), np.float32(0.5)), (np.int64(1), np.float32(0.25)), (np.int64(3), 2)):
        for got, want in zip(compiled(x, n, f), step(x, n, f), strict=True):
            assert got.dtype is want.dtype
            np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-6)


@pytest.mark.parametrize("wrong", [1.5, True])
def test_what_is_no_int_is_refused_in_compiled_code(wrong):
    compiled = jit(lambda x, n: x.topk(n)[0] + 1, backend="python")
    assert compiled(eager.tensor([1.0, 2.0, 3.0]), 1).tolist() == [4.0]
    assert compiled(eager.tensor([1.0, 2.0, 3.0]), 2).tolist() == [4.0, 3.0]
    with pytest.raises(TypeError, match="must be int, not"):
        compiled(eager.tensor([1.0, 2.0, 3.0]), wrong)


# (what is in the list, its dtype): the promotion of all, in which Python's floats are of the default
MIXED = [
    ([np.float32(1), 2], "float32"),
    ([np.float16(1), 2], "float16"),
    ([np.float16(1), 2.5], "float32"),
    ([np.float64(1), 2.5], "float64"),
    ([1, np.float64(2)], "float64"),
    ([np.int32(1), True], "int32"),
    ([np.int32(1), 2.5], "float32"),
    ([np.int32(1), np.uint8(1)], "int32"),
    ([2.5, np.complex128(1)], "complex128"),
    ([1, 1j], "complex64"),
    ([[1], [np.array(2.0)]], "float64"),
    ([[1, 2.5], np.array([1, 2])], "float32"),
    ([True, eager.tensor(1, dtype=eager.int8)], "int8"),
    ([1, eager.tensor(1.5).double()], "float64"),
    ([1, eager.tensor(1.5).bfloat16()], "bfloat16"),
    ([eager.tensor(1.5), 1], "float32"),
    ([[], []], "float32"),
]


@pytest.mark.parametrize(("data", "dtype"), MIXED, ids=[str(d) for d, _ in MIXED])
def test_a_list_has_the_dtype_of_all_that_it_holds(data, dtype):
    assert eager.tensor(data).dtype.name == dtype
    assert eager.as_tensor(tuple(data)).dtype.name == dtype


def test_a_list_with_run_time_values_has_the_dtype_of_all():
    def step(x):
        total = x.sum()
        return (
            eager.tensor([total, 1]),
            eager.tensor([1, total.double()]),
            eager.tensor([[np.int32(1)], [total.half()]]),
            eager.tensor([np.float16(1), x.long().sum()]),
        )

    x = eager.tensor([1.0, 2.5])
    for got, want in zip(jit(step, backend="python")(x), step(x), strict=True):
        assert got.dtype is want.dtype
        assert got.tolist() == want.tolist()


def test_a_list_with_run_time_numbers_of_numpy_has_the_dtype_of_all():
    def step(x, n):
        return eager.tensor([x.sum(), n]), eager.tensor([n, 1]), eager.linspace(n, 2, 3), x * n

    compiled, x = jit(step, backend="python"), eager.tensor([1.0, 2.5])
    for n in (np.float64(0.5), np.float64(0.25), np.float64(1.5)):
        for got, want in zip(compiled(x, n), step(x, n), strict=True):
            assert got.dtype is want.dtype
            assert got.tolist() == pytest.approx(want.tolist())


def test_complex_numbers_are_no_elements_of_a_real_tensor():
    with pytest.raises(TypeError, match="real"):
        eager.tensor([1, 1j], dtype=eager.float16)


@pytest.mark.parametrize(
    ("size", "stride", "offset"),
    [((2,), (1,), -1), ((-2,), (1,), 0), ((2,), (-1,), 3), ((7,), (1,), 0), ((2, 2), (4, 1), 2)],
)
def test_a_view_by_strides_stays_within_its_memory(size, stride, offset):
    memory = eager.arange(6.0)
    for base in (memory, memory[2:]):
        with pytest.raises(RuntimeError):
            base.as_strided(size, stride, offset)
    with pytest.raises(RuntimeError):
        eager.as_strided_scatter(memory, eager.ones(2), size, stride, offset)


@pytest.mark.filterwarnings("ignore::jitcap.JitcapWarning")  # what raises runs plainly
def test_an_offset_that_varies_stays_within_the_memory():
    memory, two = eager.arange(6.0), eager.tensor([7.0, 8.0])
    compiled = jit(
        lambda x, n: eager.as_strided_scatter(x, two, (2,), (1,), n) + 0, backend="python"
    )
    for n in (0, 1, 4):
        assert compiled(memory, n)[n : n + 2].tolist() == [7, 8]
    for outside in (-1, 5):
        with pytest.raises(RuntimeError):
            compiled(memory, outside)
