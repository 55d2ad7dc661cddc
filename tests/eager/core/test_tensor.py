"""What a Tensor is: construction, promotion, layout, protocols, copies, printing, errors."""

import base64
import copy
import itertools
import pickle
import weakref

import numpy as np
import pytest

import eager
from eager.base import dtype as dt
from jitcap import jit

torch = pytest.importorskip("torch")


@pytest.mark.parametrize(
    "data",
    [
        1,
        1.5,
        True,
        [1, 2],
        [1.0, 2],
        [[True, False]],
        [],
        [[]],
        1 + 2j,
        np.float32(2),
        np.arange(3),
        [np.float64(1)],
    ],
    ids=repr,
)
def test_tensor_of(data):
    mine, reference = eager.tensor(data), torch.tensor(data)
    assert mine.dtype.name == str(reference.dtype).removeprefix("torch.")
    assert tuple(mine.shape) == tuple(reference.shape)
    np.testing.assert_array_equal(mine.numpy(), reference.numpy())


def test_legacy_constructors():
    assert eager.Tensor(2, 3).shape == (2, 3)
    assert eager.Tensor([1, 2]).dtype is eager.float32
    assert eager.Tensor([[1, 2]]).tolist() == [[1.0, 2.0]]
    assert eager.LongTensor([1, 2]).dtype is eager.int64
    assert eager.tensor(2.0).type() == "eager.FloatTensor"
    assert eager.tensor(2.0).type(eager.int64).dtype is eager.int64


KINDS = {
    "f32": lambda m: m.ones(2),
    "f64": lambda m: m.ones(2, dtype=m.float64),
    "f16": lambda m: m.ones(2, dtype=m.float16),
    "bf16": lambda m: m.ones(2, dtype=m.bfloat16),
    "i64": lambda m: m.ones(2, dtype=m.int64),
    "i32": lambda m: m.ones(2, dtype=m.int32),
    "i8": lambda m: m.ones(2, dtype=m.int8),
    "u8": lambda m: m.ones(2, dtype=m.uint8),
    "bool": lambda m: m.ones(2, dtype=m.bool),
    "f64 0-dim": lambda m: m.ones((), dtype=m.float64),
    "f32 0-dim": lambda m: m.ones(()),
    "i64 0-dim": lambda m: m.ones((), dtype=m.int64),
    "c64": lambda m: m.ones(2, dtype=m.complex64),
    "int": lambda m: 2,
    "float": lambda m: 2.5,
    "number bool": lambda m: True,
}
OPERATORS = {
    "+": lambda x, y: x + y,
    "*": lambda x, y: x * y,
    "/": lambda x, y: x / y,
    "//": lambda x, y: x // y,
    "**": lambda x, y: x**y,
    "%": lambda x, y: x % y,
    "<": lambda x, y: x < y,
    "==": lambda x, y: x == y,
}


def _promoted(m, operator, left, right):
    """Dtype and values; the type of what is raised; None for what is no tensor."""
    try:
        result = OPERATORS[operator](KINDS[left](m), KINDS[right](m))
    except (RuntimeError, NotImplementedError, TypeError) as error:
        return type(error)
    if not isinstance(result, m.Tensor):
        return None
    return str(result.dtype).rpartition(".")[2], result.to(m.complex128).reshape(-1).tolist()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("operator", OPERATORS)
def test_promotion(operator):
    wrong = []
    for left, right in itertools.product(KINDS, KINDS):
        theirs, ours = (_promoted(m, operator, left, right) for m in (torch, eager))
        refused = isinstance(theirs, type)  # what the reference refuses we may support
        if not refused and theirs != ours:
            wrong.append((left, right, theirs, ours))
    assert not wrong


def test_result_type_and_default_dtype():
    assert eager.result_type(eager.ones(2, dtype=eager.int32), 1.5) is eager.float32
    assert eager.promote_types(eager.uint8, eager.int8) is eager.int16
    eager.set_default_dtype(eager.float64)
    try:
        assert eager.tensor(1.5).dtype is eager.float64
        assert (eager.ones(2, dtype=eager.int64) / 2).dtype is eager.float64
    finally:
        eager.set_default_dtype(eager.float32)
    with pytest.raises(TypeError):
        eager.set_default_dtype(eager.int64)


def test_views_share_memory_and_versions():
    x = eager.zeros(2, 3)
    y = x.view(3, 2)
    y[0, 0] = 5
    assert x[0, 0].item() == 5
    assert x._version == y._version == 1
    assert x.t().stride() == (1, 3)
    assert not x.t().is_contiguous()
    assert x.t().contiguous().stride() == (2, 1)
    with pytest.raises(RuntimeError, match="view size is not compatible"):
        x.t().view(6)
    assert x.t().reshape(6).data_ptr() != x.data_ptr()
    assert x[1].storage_offset() == 3


def test_writing_into_expanded_memory_is_refused():
    with pytest.raises(RuntimeError, match="single memory"):
        eager.zeros(1).expand(3).add_(1)


def test_in_place_checks():
    x = eager.zeros(3, dtype=eager.int64)
    with pytest.raises(RuntimeError, match="can't be cast"):
        x.add_(1.5)
    with pytest.raises(RuntimeError, match="doesn't match the broadcast shape"):
        x.add_(eager.zeros(2, 3, dtype=eager.int64))
    x += 2
    x *= eager.tensor([1, 2, 3])
    assert x.tolist() == [2, 4, 6]
    assert x.clamp_(max=5) is x
    assert x.masked_fill_(x > 3, 0).tolist() == [2, 0, 0]
    assert x.fill_(7).tolist() == [7, 7, 7]
    assert x.zero_().tolist() == [0, 0, 0]


def test_numpy_shares_memory():
    a = np.zeros(3, np.float32)
    x = eager.from_numpy(a)
    x[0] = 1
    assert a[0] == 1
    assert x.numpy() is not None
    assert np.shares_memory(x.numpy(), a)
    with pytest.raises(RuntimeError, match="requires grad"):
        eager.ones(2, requires_grad=True).numpy()
    assert np.asarray(eager.ones(2)).tolist() == [1, 1]
    assert np.add(1, eager.ones(2).numpy()).tolist() == [2, 2]
    with pytest.raises(TypeError, match="no tensor counterpart"):
        eager.tensor(np.array(["a"]))


def test_dlpack_both_ways():
    x = eager.arange(4.0)
    y = torch.from_dlpack(x)
    y[0] = 9
    assert x[0].item() == 9
    z = eager.from_dlpack(torch.arange(3.0))
    assert z.tolist() == [0, 1, 2]


# `pickle.dumps(w, 2)` of a Parameter [1.0, 2.0] with `w.tag = "a"`, from when tensors had no slots.
_OLD_PICKLE = (
    "gAJjZWFnZXIuaW50ZXJvcApfcmVidWlsZApxAChjZWFnZXIubm4ucGFyYW1ldGVyClBhcmFtZXRlcgpxAWNudW1weS5fY29yZS5t"
    "dWx0aWFycmF5Cl9yZWNvbnN0cnVjdApxAmNudW1weQpuZGFycmF5CnEDSwCFcQRjX2NvZGVjcwplbmNvZGUKcQVYAQAAAGJxBlgG"
    "AAAAbGF0aW4xcQeGcQhScQmHcQpScQsoSwFLAoVxDGNudW1weQpkdHlwZQpxDVgCAAAAZjRxDomIh3EPUnEQKEsDWAEAAAA8cRFO"
    "Tk5K/////0r/////SwB0cRJiiWgFWAkAAAAAAMKAPwAAAEBxE2gHhnEUUnEVdHEWYoh9cRdYAwAAAHRhZ3EYWAEAAABhcRlzdHEa"
    "UnEbLg=="
)  # fmt: skip


class OwnPickle(eager.Tensor):
    """A class of the program that pickles its instances itself, by their state."""

    def __reduce_ex__(self, protocol):
        return OwnPickle, (), {"_array": self._array, "_requires_grad": True, "tag": self.tag}


class Bare(eager.Tensor):
    """Calls no `__init__` of its base."""

    __slots__ = ("extra",)

    @staticmethod
    def __new__(cls, values=(), extra=None):
        return super().__new__(cls, values)

    def __init__(self, values, extra):
        self.extra = extra


def test_the_dictionary_is_the_users():
    x = eager.ones(2, requires_grad=True)
    assert vars(x) == {}
    assert vars(eager.nn.Parameter(x)) == vars(x.detach()[:1]) == {}
    x.tag = "a"
    x.__dict__["other"] = 1
    assert (vars(x), x.other) == ({"tag": "a", "other": 1}, 1)
    x.detach().add_(1)
    assert (x._version, x.detach()._version) == (1, 1)
    assert vars(x) == {"tag": "a", "other": 1}
    assert vars(copy.copy(x)) == vars(copy.deepcopy(x)) == vars(x)
    del x.tag
    assert not hasattr(x, "tag")
    assert weakref.ref(x)() is x


def test_subclasses_that_call_no_init():
    x = Bare([1, 2], 3)
    assert (x.requires_grad, x.grad_fn, x._version, x._base, x.extra) == (False, None, 0, None, 3)
    assert (x + x).tolist() == [2, 4]
    assert type(x) is Bare
    y = Bare.__new__(Bare, [1, 2])
    assert (y * x).tolist() == [1, 4]
    assert jit(lambda t: (t * 2).tolist())(x) == [2, 4]


class Named(eager.Tensor):
    @classmethod
    def __torch_function__(cls, *args):
        raise AssertionError("called")


@pytest.mark.filterwarnings("ignore:@jit")
@pytest.mark.parametrize("compiled", [False, True])
def test_a_tensor_under_a_subclass(compiled):
    def program(x):
        y = (x * 2).as_subclass(Named)
        z = x.as_subclass(eager.nn.Parameter)
        return y, z, y.as_subclass(eager.Tensor), type(y), isinstance(z, eager.nn.Parameter)

    run = jit(program, backend="eager") if compiled else program
    for _ in range(2):
        x = eager.ones(2).requires_grad_()
        y, z, plain, kind, known = run(x)
        assert (type(y), type(z), type(plain)) == (Named, eager.nn.Parameter, eager.Tensor)
        assert (kind, known) == (Named, True)
        assert z.data_ptr() == x.data_ptr()
        assert type(y * plain) is eager.Tensor
        (y * plain).sum().backward()
        assert x.grad.tolist() == [8, 8]
    with pytest.raises(TypeError, match="inherit"):
        eager.ones(2).as_subclass(int)


def test_pickles_of_states():
    found = pickle.loads(base64.b64decode(_OLD_PICKLE))
    assert type(found) is eager.nn.Parameter
    assert (found.tolist(), found.requires_grad, found.tag) == ([1, 2], True, "a")
    x = OwnPickle([1.0, 2.0])
    x.tag = "b"
    again = pickle.loads(pickle.dumps(x))
    assert type(again) is OwnPickle
    assert (again.tolist(), again.requires_grad, again.tag) == ([1, 2], True, "b")
    assert vars(again) == {"tag": "b"}


def test_pickle_and_deepcopy():
    x = eager.randn(2, 3, requires_grad=True)
    x.tag = "kept"
    for y in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x)):
        assert y.tolist() == x.tolist()
        assert y.requires_grad
        assert y.tag == "kept"
        assert y.data_ptr() != x.data_ptr()
    with pytest.raises(RuntimeError, match="graph leaves"):
        copy.deepcopy(x * 2)
    pair = copy.deepcopy([x, x])
    assert pair[0] is pair[1]


def test_python_protocols():
    x = eager.tensor([[1.5, 2.0]])
    assert float(eager.tensor(1.5)) == 1.5
    assert int(eager.tensor(3.7)) == 3
    assert [10, 20, 30][eager.tensor(1)] == 20
    assert bool(eager.tensor([1]))
    with pytest.raises(RuntimeError, match="more than one value is ambiguous"):
        bool(x)
    with pytest.raises(RuntimeError, match="cannot be converted to Scalar"):
        x.item()
    with pytest.raises(TypeError, match="0-d"):
        len(eager.tensor(1))
    assert f"{eager.tensor(1.234):.2f}" == "1.23"
    assert (x == None) is False  # noqa: E711
    assert (x != "a") is True
    assert hash(x) == hash(x)
    assert {x: 1}[x] == 1
    with pytest.raises(TypeError):
        x + "a"
    with pytest.raises(TypeError):
        x + None


def test_shape_is_a_size():
    x = eager.zeros(2, 3)
    assert isinstance(x.shape, eager.Size)
    assert x.shape.numel() == 6
    assert x.shape[:1] + (4,) == (2, 4)
    assert isinstance(x.shape[:1], eager.Size)
    assert (x.size(-1), x.dim(), x.ndim, x.numel(), x.nelement()) == (3, 2, 2, 6, 6)
    rows, columns = x.shape
    assert (rows, columns) == (2, 3)


def test_devices():
    x = eager.zeros(2)
    assert x.device == eager.device("cpu")
    assert x.device.type == "cpu"
    assert x.to("cpu") is x
    assert x.to(eager.device("cpu"), eager.float64).dtype is eager.float64
    assert x.cpu() is x
    assert not x.is_cuda
    with pytest.raises(RuntimeError, match="not available"):
        x.cuda()
    with pytest.raises(RuntimeError, match="unknown device"):
        eager.device("tpu")


@pytest.mark.parametrize(
    "make",
    [
        lambda m: m.tensor([1.0, 2.5, 1000.0]),
        lambda m: m.tensor([[1, -2], [30, 4]]),
        lambda m: m.tensor([1e-6, 1.0]),
        lambda m: m.zeros(2, 2, 2),
        lambda m: m.tensor(2.5),
        lambda m: m.tensor([1.0], dtype=m.float64),
        lambda m: m.zeros(0),
        lambda m: m.zeros(0, 3),
        lambda m: m.arange(50),
        lambda m: m.arange(2000.0),
        lambda m: m.arange(2000).reshape(40, 50),
        lambda m: m.tensor([True, False]),
        lambda m: m.tensor([float("inf"), 1.5]),
        lambda m: m.tensor([float("-inf"), 1.0, -0.0]),
        lambda m: m.tensor([float("nan"), 0.0]),
        lambda m: m.tensor([0.1, 0.22, 123456.0]),
        lambda m: m.ones(2, dtype=m.bfloat16),
        lambda m: m.ones(2, requires_grad=True),
        lambda m: m.zeros(3, 60),  # zeros, infinities and NaN do not count: more in a line
        lambda m: m.tensor([0.0, float("nan")] * 30),
        lambda m: m.tensor([float("inf"), 0.0, 1.5] * 20),
        lambda m: m.zeros(3, 60, dtype=m.int64),
        lambda m: m.arange(60).reshape(2, 30) % 3 == 0,
        lambda m: m.randn(0, 5)[:0],
        lambda m: m.full((5,), -2.5e33, requires_grad=True),  # the words begin another line
        lambda m: m.nn.Parameter(m.full((2, 5), -2.5e33, dtype=m.float64)),
        lambda m: m.nn.Parameter(m.ones(4, dtype=m.complex128)).sin(),
    ],
)
def test_printing(make):
    assert repr(make(eager)).replace("eager.", "torch.") == repr(make(torch))


def test_creation():
    def program(m):
        return [
            m.arange(5),
            m.arange(1, 2, 0.25),
            m.arange(5, 0, -2),
            m.arange(0, 1, 0.1),
            m.linspace(-1, 1, 7),
            m.linspace(0, 1, 1),
            m.logspace(0, 2, 3),
            m.eye(3),
            m.eye(2, 4),
            m.full((2, 2), 3),
            m.full((2,), 1.5),
            m.full((2,), True),
            m.zeros(2, 3, dtype=m.int32),
            m.ones((2, 3)),
            m.zeros_like(m.ones(2, 3)),
            m.full_like(m.ones(2), 7),
            m.tril_indices(3, 4),
            m.triu_indices(3, 3, 1),
            *m.meshgrid(m.arange(3), m.arange(2), indexing="ij"),
            *m.meshgrid(m.arange(3), m.arange(2), indexing="xy"),
            m.ones(2).new_zeros(3, 2),
            m.ones(2).new_full((2,), 4.0),
            m.ones(2, dtype=m.float64).new_tensor([1, 2]),
            m.cartesian_prod(m.arange(2), m.arange(3)),
        ]

    for a, b in zip(program(eager), program(torch), strict=True):
        assert a.dtype.name == str(b.dtype).removeprefix("torch.")
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: eager.ones(2, 3) + eager.ones(4), RuntimeError, "add.*broadcast"),
        (lambda: eager.ones(2).sum(3), IndexError, "Dimension out of range"),
        (lambda: eager.ones(2, 3).reshape(4), RuntimeError, "invalid for input of size 6"),
        (
            lambda: eager.ones(2).mean(dtype=None) + eager.arange(2).mean(),
            RuntimeError,
            "floating point",
        ),
        (lambda: eager.cat([eager.ones(2), eager.ones(2, 3)]), RuntimeError, "must match"),
        (lambda: eager.stack([eager.ones(2), eager.ones(3)]), RuntimeError, "equal size"),
        (lambda: eager.ones(2, 3).expand(4, 3), RuntimeError, "must match the existing size"),
        (lambda: eager.ones(0).max(), RuntimeError, "reduction dim to be specified"),
        (lambda: eager.ones(2).sin(1), TypeError, "argument"),
        (lambda: eager.sin("a"), TypeError, "must be Tensor, not str"),
        (lambda: eager.ones(2) & 1, RuntimeError, "not implemented"),
        (lambda: eager.arange(2) ** -1, RuntimeError, "negative integer powers"),
    ],
)
def test_errors_name_what_is_wrong(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_numpy_warns_nobody():
    """Overflow and division by zero are values here, and the user's own NumPy settings stay."""
    x = eager.tensor([1.0, 0.0])
    assert (x / 0).tolist()[0] == float("inf")
    assert (x * 1000).exp().isinf().any()
    with pytest.warns(RuntimeWarning):
        np.divide(np.ones(1), 0)


def test_dtype_names_round_trip():
    for d in dt.ALL:
        assert pickle.loads(pickle.dumps(d)) is d
        assert dt.by_name(d.name) is d


def test_functions_take_the_other_names_of_their_parameters():
    x = eager.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    assert eager.cumprod(x, axis=0).tolist() == [[1, 2, 3], [4, 10, 18]]
    assert x.argmax(axis=1, keepdims=True).tolist() == [[2], [2]]
    assert eager.stack([x, x], axis=1).shape == (2, 2, 3)
    assert eager.cat([x, x], axis=-1).shape == (2, 6)
    assert x.mean(axis=0, keepdims=True).tolist() == [[2.5, 3.5, 4.5]]
    assert x.split(split_size=2, dim=1)[1].tolist() == [[3], [6]]
    assert x.cumsum_(axis=1)[0].tolist() == [1, 3, 6]
    with pytest.raises(TypeError, match="axis"):
        x.reshape(axis=1)
    with pytest.raises(TypeError, match="places"):
        eager.cat([x, x], places=1)
    joined = jit(lambda y: eager.cat([y, y], axis=1).sum(axis=1).softmax(axis=0).argmin(axis=0))
    assert joined(x) == 0 and joined.stats.splits == 0


@pytest.mark.filterwarnings("ignore:.*range is deprecated")
def test_range_has_its_end():
    for args in ((1, 4), (0, 1, 0.25), (3, 1, -1), (0, 1, 0.3)):
        assert eager.range(*args).tolist() == torch.range(*args).tolist()
    assert eager.range(1, 2, dtype=eager.int64).tolist() == [1, 2]


def test_parts_of_complex_numbers_are_written():
    def program(m):
        z = m.complex(m.ones(3), m.zeros(3))
        z.real = m.tensor([3.0, 4.0, 5.0])
        z.imag = z.real * 2
        z.real = 7
        x = m.ones(2)
        x.real = 5
        with pytest.raises(RuntimeError):
            x.imag = 1
        return z.tolist(), x.tolist(), x[m.newaxis].shape == (1, 2)

    assert program(eager) == program(torch)


@pytest.mark.filterwarnings("ignore:Using a non-tuple")
def test_results_are_shown_as_in_the_reference():
    def program(m):
        x = m.tensor([[1.0, 3.0], [2.0, 0.5]])
        several = (
            x.max(0), x.min(0), x.median(0), x.nanmedian(0), x.mode(0), x.kthvalue(1), x.sort(), x.topk(1),
            x.cummax(0), x.cummin(0), x.aminmax(), m.linalg.slogdet(x),
        )  # fmt: skip
        limits = m.finfo(m.float64), m.finfo(m.float16), m.finfo(m.bfloat16), m.iinfo(m.int8)
        listed = x[[[0, 1], [1, 0]]].tolist()  # as x[[0, 1], [1, 0]]
        return [str(r).replace("eager", "torch") for r in (*several, *limits)], listed

    assert program(eager) == program(torch)
    assert type(eager.ones(2).max(0)) is eager.return_types.max
    x = eager.tensor([[1.0, 3.0], [2.0, 0.5]])
    found = jit(lambda x: (x.max(0), x.topk(1), x.cummin(1)))(x)
    assert repr(found) == repr((x.max(0), x.topk(1), x.cummin(1)))


def test_complex_numbers_have_no_order():
    z = eager.tensor([1 + 2j, 3j])
    for call in (
        lambda: z < z, lambda: z >= 1j, lambda: eager.maximum(z, z), lambda: z // z, lambda: z % 2,
    ):  # fmt: skip
        with pytest.raises(NotImplementedError, match="complex"):
            call()
    with pytest.raises(NotImplementedError, match="bitwise_and"):
        _ = eager.ones(2) & eager.ones(2)


def test_parts_of_complex_numbers_are_views():
    def program(m, jit=lambda f: f):
        data = np.array([[1 + 2j, 3 - 1j], [0.5j, 2.0]], np.complex64)

        @jit
        def write(z, x):
            w = z.clone()
            w.real.mul_(2)
            w.imag[0] = 5
            pairs = m.view_as_real(w)
            pairs[..., 1] += 1
            m.view_as_complex(x)[0] = 1j
            z.T.imag.add_(1)
            return w, pairs, w.real, z.abs()

        @jit
        def train(z):
            y = z * (1 + 1j)
            y.real.mul_(3)
            m.view_as_real(y)[..., 1].mul_(2)
            pairs = m.view_as_real(z * 1)
            loss = (y.real**2).sum() + (y.imag * y.real).sum() + pairs.sum()
            loss.backward()
            return loss, z.grad

        z, x = m.tensor(data), m.ones(3, 2)
        out = [t.clone().numpy() for _ in range(2) for t in write(z, x)] + [z.numpy(), x.numpy()]
        leaf = m.tensor(data, requires_grad=True)
        out += [t.detach().numpy() for t in train(leaf)]
        at = [z.real.stride(), z.T.imag.stride(), z[1].imag.storage_offset(), z.real._base is z]
        shared = m.view_as_real(z)._version == z._version == z.imag._version
        for bad in (m.ones(3, 3), m.ones(2, 3).T, m.ones(3, 2, dtype=m.int64)):
            with pytest.raises(RuntimeError):
                m.view_as_complex(bad)
        with pytest.raises(RuntimeError):
            m.view_as_real(m.ones(2))
        step = (write, train)
        return out, at, shared, [f.stats.fallbacks for f in step if hasattr(f, "stats")]

    z = eager.tensor([1 + 2j])
    z.conj().zero_()
    assert z.tolist() == [1 + 2j]  # a copy
    theirs = program(torch)
    for mine in (program(eager), program(eager, jit)):
        assert theirs[1:3] == mine[1:3] and not any(mine[3])
        for a, b in zip(mine[0], theirs[0], strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6)


def test_precision_of_products_is_remembered():
    assert eager.get_float32_matmul_precision() == "highest"
    eager.set_float32_matmul_precision("high")
    assert eager.get_float32_matmul_precision() == "high"
    eager.set_float32_matmul_precision("highest")


def test_constructors_of_former_times_keep_values():
    """They are no detour through floats."""
    assert eager.LongTensor([16777217, -5]).tolist() == [16777217, -5]
    assert eager.IntTensor([2**31 - 1]).tolist() == [2**31 - 1]
    assert eager.DoubleTensor([0.1]).tolist() == [0.1]
    assert eager.LongTensor(np.array([2**40 + 1])).tolist() == [2**40 + 1]
    assert eager.LongTensor([1.7, -1.7]).tolist() == [1, -1]
    assert eager.LongTensor(2, 3).shape == (2, 3)
    assert eager.LongTensor(eager.Size([2])).dtype is eager.int64
    assert eager.FloatTensor((2, 3)).tolist() == [2, 3]
    with pytest.raises(TypeError, match="must be a sequence"):
        eager.FloatTensor(3.0)
    x = eager.ones(2, dtype=eager.int32)
    assert isinstance(x, eager.IntTensor) and x.type(eager.LongTensor).dtype is eager.int64
    assert not isinstance(x, eager.LongTensor) and not isinstance(2, eager.IntTensor)
    assert x.new([1, 2]).tolist() == [1, 2] and x.new(x.detach()).tolist() == [1, 1]
    assert [tuple(x.new(*given).shape) for given in ((), (2, 3), (x.shape,))] == [
        (0,),
        (2, 3),
        (2,),
    ]
    assert x.new([1.5]).dtype is eager.int32


def test_the_real_and_the_complex_type_of_a_dtype():
    assert eager.complex64.to_real() is eager.float32 is eager.float32.to_real()
    assert eager.float64.to_complex() is eager.complex128 is eager.complex128.to_complex()
    with pytest.raises(RuntimeError, match=r"no complex type has parts of eager\.int64"):
        eager.int64.to_complex()
