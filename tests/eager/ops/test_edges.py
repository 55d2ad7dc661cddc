"""Values and gradients where formulas break: infinities, NaN, zeros, nothing at all, complex
numbers. The same program on eager and on the reference."""

import numpy as np
import pytest

import eager
from eager.nn import functional as F
from eager.nn.modules.utils import _pair
from jitcap import jit

torch = pytest.importorskip("torch")

INF, NAN = float("inf"), float("nan")
WIDE = [1e20, -1e20, INF, -INF, NAN, 1e-30, 0.0, 3.0]
Z = [complex(-1, 0.5), complex(2, -0.3)]
W = [[1 + 2j, 0.5j], [0.3, 1 - 1j]]


def both(program, *values):
    """`program(m, *tensors)` on both libraries: its results and the gradients of its operands."""
    outcome = []
    for m in (torch, eager):
        given = [m.tensor(v, dtype=getattr(m, np.asarray(v).dtype.name)) for v in values]
        given = [x.requires_grad_(not x.dtype == m.int64) for x in given]
        results = program(m, *given)
        results = list(results) if isinstance(results, tuple) else [results]
        for out in results:
            if out.requires_grad:
                out = m.view_as_real(out * 1) if out.dtype.is_complex else out
                weights = m.arange(out.numel(), dtype=out.dtype).reshape(out.shape) + 1
                (out * weights).sum().backward(retain_graph=True)
        outcome.append([*results, *(x.grad for x in given if x.grad is not None)])
    for a, b in zip(*outcome, strict=True):
        assert str(a.dtype).partition(".")[2] == str(b.dtype).partition(".")[2]
        expected = a.detach().resolve_conj().numpy(force=True)
        np.testing.assert_allclose(b.detach().numpy(), expected, rtol=1e-6, atol=1e-9)


VALUES = {
    "asinh": lambda m, x: x.detach().asinh(),
    "acosh": lambda m, x: x.detach().acosh(),
    "digamma": lambda m, x: x.detach()[2:].digamma(),
    "hardshrink": lambda m, x: m.nn.functional.hardshrink(x.detach()),
    "softshrink": lambda m, x: m.nn.functional.softshrink(x.detach()),
    "threshold": lambda m, x: m.nn.functional.threshold(x.detach(), 0.1, 20.0),
    "quantile": lambda m, x: x.detach().quantile(0.3),
    "nanquantile": lambda m, x: x.detach()[4:].nanquantile(m.tensor([0.3, 0.9]).double()),
    "nanmedian": lambda m, x: (x.nanmedian(), x.reshape(2, 4).nanmedian(1, True).values),
    "passed on": lambda m, x: (
        m.nn.functional.relu(x),
        m.nn.functional.threshold(x, 0.1, 20.0),
        m.nn.functional.hardtanh(x),
        m.nn.functional.rrelu(x),
        x.abs(),
    ),
    "powers of a number": lambda m, x: (2.0**x, 0.5**x),
    "mode": lambda m, x: tuple((x.detach() > 1).double().reshape(2, 4).mode(0)),
    "trapezoid": lambda m, x: (
        m.trapezoid(x.detach()[1:3]),
        m.trapezoid(x.detach().reshape(4, 2), dx=2),
    ),
    "windows of their own": lambda m, x: (
        m.nn.functional.adaptive_avg_pool1d(x.reshape(1, 8), 3),
        m.nn.functional.adaptive_avg_pool2d(x.reshape(1, 2, 4), (2, 3)),
        m.nn.functional.interpolate(x.reshape(1, 1, 8), 5, mode="area"),
    ),
    "sum of exponentials": lambda m, x: (
        m.logaddexp(x, x.detach() * 0 + 1),
        m.logaddexp2(x, 2 * x),
    ),
    "near the top of sinc": lambda m, x: (
        x[5:] * m.tensor([1.0, 1e-170, 0.1], dtype=x.dtype)
    ).sinc(),
    "exponential of a matrix": lambda m, x: m.matrix_exp(x.detach().reshape(2, 2, 2)),
    "nothing of a product": lambda m, x: m.addcmul(x, x * 1e200, x * 1e200, value=0).detach(),
}


@pytest.mark.parametrize("name", VALUES)
def test_infinite_and_not_a_number(name):
    both(VALUES[name], np.array(WIDE))


EMPTY = {
    "logsumexp": lambda m, x: (x.logsumexp(0), x.logsumexp((0, 1), keepdim=True)),
    "median": lambda m, x: x.median(),
    "diff": lambda m, x: (x.diff(dim=0), x.t().diff(2)),
    "trapezoid": lambda m, x: m.trapezoid(x, dim=0).detach(),
    "chunk": lambda m, x: x.chunk(3),
    "cov": lambda m, x: x.t().cov().detach(),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", EMPTY)
def test_of_nothing(name):
    both(EMPTY[name], np.zeros((0, 3)))


ZEROS = {
    "p-norm": lambda m, x: (x.norm(3, -1), x.norm(1.5)),
    "cosine": lambda m, x: m.nn.functional.cosine_similarity(x, x.detach() + 1, 1),
    "std": lambda m, x: x.detach().std(0, correction=2),
    "cov": lambda m, x: (x[:1].cov(), x[:1].corrcoef().detach()),
    "0-dim": lambda m, x: (
        x[0, 0][m.tensor(True)],
        x[0, 0][m.tensor(False)],
        x[0, 1].quantile(0.5, 0, True),
        x[0, 1].index_fill(0, m.tensor([0]), 2.0),
    ),
    "counts": lambda m, x: x.histc(3, 0, 2),
    "angle of nothing": lambda m, x: (m.atan2(x, x.detach()), m.atan2(x * 0, x)),
    "saturated probability": lambda m, x: tuple(
        m.nn.functional.binary_cross_entropy((x * scale).sigmoid(), x.detach() * 0 + target)
        + m.nn.functional.binary_cross_entropy(x * 0 + p, x.detach() * 0 + target)
        for scale in (1, 1e3, -1e3)
        for target, p in ((0.0, 1.0), (1.0, 0.0), (0.5, 1.0), (1.0, 1.0))
    ),
    "NumPy's names": lambda m, x: (
        x.mean(axis=1, keepdims=True),
        m.sum(x, axis=0, keepdims=True),
        x.max(axis=1)[0],
        m.cat([x, x], axis=1),
        x.softmax(axis=0),
    ),
    "ties": lambda m, x: (x.median(), x.flatten()[1:].nanmedian(), x[1].nanmedian()),
    "factors": lambda m, x: tuple(
        x[row].scatter_reduce(0, m.tensor([0, 0, 1]), x[other], "prod", include_self=own)
        for row, other, own in ((0, 1, True), (1, 0, True), (0, 1, False), (0, 0, True))
    ),
    "one zero": lambda m, x: x[:, 0].scatter_reduce(0, m.tensor([1, 0]), x[:, 0], "prod"),
    "signs": lambda m, x: (
        1 / m.full((3,), -0.0),
        1 / m.full_like(x, -0.0),
        1 / x.detach().clone().fill_(-0.0),
        1 / x.new_full((2,), 0.0),
    ),
    "sums that do not fit": lambda m, x: (
        m.trapezoid(x.to(m.int8) * 60 + 60, dim=0),
        m.trapezoid(m.tensor([2**31 - 1, 5, 9], dtype=m.int32)),
    ),
    "powers": lambda m, x: (
        m.vander(x.to(m.uint8)[0] * 100),
        m.vander(x[0].bool()),
        m.vander(x[0], 0),
        m.vander(x[0, :0].int()),
    ),
    "small dtypes": lambda m, x: (
        x.to(m.uint8).sum(dtype=m.int32),
        x.to(m.int8).cumsum(0, dtype=m.int16),
        x.bool().diff(),
    ),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ZEROS)
def test_zeros_and_dtypes(name):
    both(ZEROS[name], np.array([[0.5, 1.0, 2.0], [0.0, 0.0, 0.0]]))


@pytest.mark.filterwarnings("ignore")
def test_bytes_as_an_index_are_a_mask():
    both(lambda m, x: x[m.tensor([0, 1], dtype=m.uint8)], np.array([1.0, 2.0]))


def test_minus_is_not_for_bools():
    """Two bools, one and a negation: the same type of error, with the same text."""
    programs = (
        lambda m, x: (x > 0) - (x < 0),
        lambda m, x: x - (x < 0),
        lambda m, x: 1 - (x > 0),
        lambda m, x: x.sub_(True),
        lambda m, x: -(x > 0),
    )
    for program in programs:
        said = []
        for m in (torch, eager):
            with pytest.raises(RuntimeError) as error:
                program(m, m.tensor([1.0, -2.0]))
            said.append(str(error.value))
        assert said[0] == said[1]


def test_conversion_to_a_number_needs_one_element():
    for convert in (int, float):
        with pytest.raises(ValueError, match="only one element"):
            convert(eager.ones(2))
    for fn in (eager.trace, eager.diag):
        with pytest.raises(RuntimeError):
            fn(eager.ones(2, 2, 2))


COMPLEX = {
    "functions": lambda m, z, w: (z.exp(), z.sqrt(), z.sin(), z.log(), z.acosh(), z**2.5),
    "parts": lambda m, z, w: (z.abs(), z.angle(), z.sgn(), z.real * z.imag, 1 / z.conj()),
    "arithmetic": lambda m, z, w: (z * w, w / z, z.cumprod(0), w.prod(0), z**w, 2 * z * 1j),
    "products": lambda m, z, w: (w @ z, w @ w @ w.mH, m.einsum("ij,j->i", w, z), w.H, w.adjoint()),
    "moves": lambda m, z, w: (m.cat([w, z[None]]), m.where(z.real > 0, z, w), w.flip(0).t()),
    "mixed with reals": lambda m, z, w: m.complex(z.real, 2 * z.real.exp()) * w.real,
    "statistics": lambda m, z, w: (w.var(0), w.std(), w.norm(), w.norm(3, 1), w.mean(1)),
    "activations": lambda m, z, w: (m.nn.functional.softsign(z), m.nn.functional.tanhshrink(w)),
    "shared places": lambda m, z, w: tuple(
        z.detach().scatter_reduce(0, m.tensor([0, 0]), z.detach()[:2], how, include_self=own)
        for how in ("sum", "mean", "prod")
        for own in (True, False)
    ),
}


@pytest.mark.parametrize("name", COMPLEX)
def test_complex_numbers(name):
    both(COMPLEX[name], np.array(Z), np.array(W))


def test_rotary_embedding_by_complex_numbers():
    """The gradient of a product is the other factor's conjugate."""

    def program(m, x):
        turns = m.polar(m.ones(2, dtype=m.float64), m.tensor([0.3, 1.1], dtype=m.float64))
        return m.view_as_real(m.view_as_complex(x.reshape(2, 2, 2)) * turns).flatten(1)

    both(program, np.arange(8.0).reshape(2, 4))


WRITTEN = {
    "flipped": lambda m, x: (x[:, :1].flip(1).mul_(2), x * 1),
    "scattered": lambda m, x: x.scatter_add(1, m.zeros_like(x).long(), x).div_(2),
    "reduced": lambda m, x: x.scatter_reduce(0, m.zeros_like(x).long(), x, "amax") * 2,
    "interpolated": lambda m, x: _then(x * 1, lambda y: m.lerp(y, x, 0.3), lambda y: y.zero_()),
    "largest": lambda m, x: x.topk(2, 1)[0].view(-1),
}


def _then(start, made, written):
    out = made(start)
    written(start)
    return out


@pytest.mark.parametrize("name", WRITTEN)
def test_memory_and_what_is_kept_are_the_reference_s(name):
    both(WRITTEN[name], np.array([[0.5, 1.0, 2.0], [3.0, -1.0, 0.7]]))


@pytest.mark.parametrize("padding_mode", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("size", [5, 8])
def test_sampling_on_the_pixels_and_the_border(padding_mode, size):
    """The identity flow: one bit of a coordinate decides between two neighbours."""

    def sampled(m, image, shift):
        line = m.linspace(-1, 1, size)
        y, x = m.meshgrid(line, line, indexing="ij")
        grid = m.stack([x, y], -1)[None] + shift
        kwargs = {"padding_mode": padding_mode, "align_corners": True}
        return m.nn.functional.grid_sample(image, grid, **kwargs)

    image = np.arange(size * size, dtype=np.float32).reshape((1, 1, size, size)) % 7  # exact sums
    both(sampled, image, np.zeros((1, size, size, 2), np.float32))


@pytest.mark.parametrize("padding_mode", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_sampling_of_and_at_what_is_not_finite(padding_mode, mode):
    """Pixels that are not finite stay where they are, and places that are not numbers are read.
    (Values alone: PyTorch's gradient writes out of bounds there, and dies.)"""
    nan, inf = float("nan"), float("inf")
    image = np.arange(16, dtype=np.float32).reshape((1, 1, 4, 4))
    image[0, 0, 0, 0], image[0, 0, 3, 3] = inf, nan
    places = [[-3, -3], [0.2, 0.1], [3, 3], [nan, 0], [0, nan], [inf, 0], [0, -inf], [-0.7, 0.3]]
    read = []
    for m in (torch, eager):
        grid = m.tensor(places)[None, None]
        sample = m.nn.functional.grid_sample
        read.append(sample(m.tensor(image), grid, mode, padding_mode, align_corners=False).numpy())
    np.testing.assert_allclose(read[1], read[0], rtol=1e-5)


def test_linspace_is_rounded_as_torchs():
    """Which fuses its products with its sums where the processor can: but for one rounding."""
    for start, end, steps in ((-1, 1, 8), (0, 2 * np.pi, 31), (1e-4, 0.02, 1000), (3, -7, 7)):
        theirs, ours = (m.linspace(start, end, steps).numpy() for m in (torch, eager))
        assert ours[[0, -1]].tolist() == theirs[[0, -1]].tolist()
        rounding = np.finfo(np.float32).eps * max(abs(start), abs(end))
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=rounding)


def test_alpha_takes_the_type_of_the_operands():
    mask, i = eager.tensor([True, False]), eager.tensor([1])
    for alpha, expected in ((2, [True, True]), (0, [True, False])):
        out = mask.add(~mask, alpha=alpha)
        assert out.dtype is eager.bool
        assert out.tolist() == expected
    assert mask.add(True, alpha=2).dtype is eager.bool
    assert i.add(1.5, alpha=2.5).tolist() == [4.75]
    for wrong in (i.add, i.sub, i.add_, lambda x, alpha: eager.rsub(i, x, alpha=alpha), mask.add):
        with pytest.raises(RuntimeError, match="alpha must not be a floating point"):
            wrong(1, alpha=2.5)


def test_complex_of_infinite_parts():
    one, inf = eager.tensor([1.0]), eager.tensor([float("inf")])
    out = eager.view_as_real(eager.cat([eager.complex(one, inf), eager.complex(inf, one)]))
    assert out.tolist() == [[1.0, float("inf")], [float("inf"), 1.0]]


def test_sizes_may_be_tensors_and_masks_bytes():
    two, x = eager.tensor(2), eager.tensor([3.0, 1.0, 2.0])
    assert eager.nn.functional.one_hot(eager.tensor([1, 0]), two).tolist() == [[0, 1], [1, 0]]
    assert x.topk(two).values.tolist() == [3, 2]
    assert x.kthvalue(two).values.item() == 2
    assert x.roll(two).tolist() == [1, 2, 3]
    assert eager.linspace(0, 1, two).tolist() == [0, 1]
    mask = eager.tensor([1, 0, 1], dtype=eager.uint8)
    with pytest.warns(UserWarning, match="uint8 is deprecated"):
        assert eager.where(mask, x, -x).tolist() == [3, -1, 2]
    assert _pair(3) == _pair([3, 3]) == (3, 3)


def test_out_takes_the_result():
    a, b = eager.tensor([1.0, 5.0]), eager.tensor([3.0, 2.0])
    assert eager.max(a, b, out=a) is a
    assert a.tolist() == [3, 5]
    values, places = eager.zeros(2), eager.zeros(0, dtype=eager.int64)
    with pytest.warns(UserWarning, match=r"shape \(2,\) and is resized"):
        found = eager.sort(eager.tensor([2.0, 1.0, 3.0]), descending=True, out=(values, places))
    assert found.indices is places
    assert (values.tolist(), places.tolist()) == ([3, 2, 1], [2, 0, 1])
    assert eager.cat([a, b], out=None).tolist() == [3, 5, 3, 2]
    with pytest.raises(RuntimeError, match="automatic differentiation"):
        eager.mul(a.clone().requires_grad_(), b, out=b)
    with eager.no_grad():
        eager.mul(a.clone().requires_grad_(), b, out=b)
    assert b.tolist() == [9, 10]
    jitted = jit(lambda x, y: eager.addcmul(x, x, y, out=y) + y, backend="eager")
    assert jitted(a, b).tolist() == [60, 110]
    assert b.tolist() == [30, 55]
    assert jitted.stats.splits == 0


@pytest.mark.parametrize(
    "step",
    [
        lambda x: eager.add(x[:-1], 1, out=x[1:]),
        lambda x: eager.add(x[:3], x[:1], out=x[2:5]),
        lambda x: eager.cat([x[:2], x[2:]], out=x),
        lambda x: eager.mul(x[:1], 2, out=x[:1].expand(2)),
    ],
)
def test_out_may_not_overlap_what_is_read(step):
    for run in (step, jit(step, backend="eager")):
        x = eager.arange(5.0)
        with pytest.raises(RuntimeError, match="single memory location"):
            run(x)
        assert x.tolist() == [0, 1, 2, 3, 4]
    apart = jit(lambda x: eager.add(x[:2], 1, out=x[2:4]), backend="eager")
    assert apart(x).tolist() == [1, 2]
    assert eager.add(x, 1, out=x).tolist() == [1, 2, 2, 3, 5]


WITHIN = {
    "forth": (slice(1, None), slice(None, -1)),
    "back": (slice(None, -1), slice(1, None)),
    "apart": (slice(None, None, 2), slice(None, 4000)),
    "together": (slice(None, 4000), slice(None, None, 2)),
    "behind": (slice(1, None, 2), slice(2000, 6000)),
}


@pytest.mark.parametrize("name", WITHIN)
def test_what_is_copied_within_a_tensor_is_what_it_was(name):
    to, source = WITHIN[name]

    def step(x):
        x[to] = x[source]
        return x

    expected = np.arange(8000.0)
    expected[to] = expected[source].copy()
    for run in (step, jit(step, backend="eager")):
        assert np.array_equal(run(eager.arange(8000.0, dtype=eager.float64)).numpy(), expected)


ASSIGNED = "+= -= *= //= %= **= &= |= ^= <<= >>=".split()


@pytest.mark.parametrize("operator", ASSIGNED)
def test_assignments_with_an_operator_write_the_tensor(operator):
    names = {}
    exec(f"def step(x, y):\n    z = x\n    z {operator} y\n    return z is x, z", names)
    for run in (names["step"], jit(names["step"], backend="eager")):
        for other in (2, [1, 2, 3]):
            same, found = {}, {}
            for m in (torch, eager):
                x, by = m.tensor([5, -7, 100]), other if other == 2 else m.tensor(other)
                step = names["step"] if m is torch else run
                same[m], z = step(x[:], by)
                found[m] = x.tolist(), z.tolist()
            assert same[torch] and same[eager]
            assert found[torch] == found[eager]


def test_the_gradient_of_a_write_to_shared_places_is_refused():
    x = eager.arange(6.0).requires_grad_()
    y = x * 1
    eager.as_strided(y, (4, 2), (1, 1))[0, 1] = x[5] * 9
    assert y.tolist() == [0, 45, 2, 3, 4, 5]
    with pytest.raises(RuntimeError, match="elements share their memory"):
        y.sum().backward()


def test_the_sign_of_bools_has_its_own_memory():
    for sign in (eager.sign, eager.sgn):
        x = eager.tensor([True, False])
        sign(x).fill_(True)
        assert x.tolist() == [True, False]


def test_numbers_may_come_before_the_tensor_as_they_once_did():
    x, y = eager.tensor([4.0]), eager.tensor([3.0])
    assert x.add(2, y).item() == eager.add(x, 2, y).item() == x.clone().add_(2, y).item() == 10
    assert x.sub(2, y).item() == -2
    assert x.clone().addcmul_(2, y, y).item() == 22
    assert x.addcdiv(2, y, y).item() == 6


def test_the_type_of_dtypes_in_annotations():
    assert isinstance(eager.float32, eager.dtype | None)
    assert isinstance(None, None | eager.dtype)
    assert not isinstance(3, eager.dtype | None)


VIEWS_OF_BITS = [
    lambda t, x: x.view(t.int16),
    lambda t, x: x.view(t.uint8),
    lambda t, x: x.view(t.float64),
    lambda t, x: x[:, 2:].view(t.int64),
    lambda t, x: x.t().view(t.float32),
    lambda t, x: x[:, ::2].view(t.int16),
    lambda t, x: x[:, :3].view(t.int64),
    lambda t, x: x[:, 1:3].view(t.int64),
    lambda t, x: x[0, 0].view(t.int16),
    lambda t, x: t.arange(15, dtype=t.int32).reshape(3, 5)[:, :4].view(t.int64),
]


@pytest.mark.parametrize("call", VIEWS_OF_BITS)
def test_the_same_memory_as_another_type(call):
    """Of another size too: values, shape, strides, memory; and what is refused."""
    torch = pytest.importorskip("torch")

    def run(t):
        x = t.arange(12, dtype=t.int32).reshape(3, 4)
        try:
            view = call(t, x)
        except RuntimeError as error:
            return str(error).split(" to view")[0]
        shared = view.data_ptr() - x.data_ptr()
        return view.numpy().tobytes(), tuple(view.shape), tuple(view.stride()), shared

    ours, theirs = run(eager), run(torch)
    if isinstance(ours, tuple) and ours[3] > 16:  # memory of its own
        ours, theirs = ours[:3], theirs[:3]
    assert ours == theirs


@pytest.mark.parametrize("shape", [(0, 3), (2, 0, 3), (3, 0), (0,)])
def test_strides_of_nothing(shape):
    torch = pytest.importorskip("torch")
    assert eager.zeros(shape).stride() == torch.zeros(shape).stride()


def test_questions_of_dtypes_and_views():
    for dtype in ("bool_", "uint8", "int32", "float32", "complex64"):
        x = eager.zeros(2, dtype=getattr(eager, dtype))
        assert x.is_signed() == eager.is_signed(x) == (dtype not in ("bool_", "uint8"))
        assert not x.conj().is_conj()
        assert not eager.is_neg(x)
    x = eager.tensor([[2.0, 1.0], [1.0, 1.0]])
    assert eager.matrix_power(x, 3).equal(x.matrix_power(3))
    with pytest.raises(ValueError, match="integer dtype"):
        eager.unravel_index(eager.zeros(2), (2, 3))


def test_sizes_that_cannot_be_are_refused():
    one = eager.ones(1)
    for call in (
        lambda: eager.zeros(-1), lambda: eager.full((2, -3), 1.0), lambda: eager.rand(-1),
        lambda: eager.randint(3, (-1,)), lambda: eager.randperm(-1), lambda: one.new_zeros(-1),
        lambda: one.repeat(-1), lambda: one.tile(-2), lambda: one.resize_(-1),
    ):  # fmt: skip
        with pytest.raises(RuntimeError, match="negative dimension -"):
            call()
    with pytest.raises(RuntimeError, match="negative dimension -1"):
        jit(lambda: eager.zeros(2) + eager.zeros(-1))()
    with pytest.raises(RuntimeError, match="row must be non-negative"):
        eager.tril_indices(-1, 2)
    with pytest.raises(RuntimeError, match="stride must be at least 1"):
        F.conv1d(eager.ones(1, 1, 3), eager.ones(1, 1, 1), stride=0)
    for name in ("stride", "dilation"):
        with pytest.raises(RuntimeError, match=f"{name} must be at least 1"):
            F.conv_transpose1d(eager.ones(1, 1, 3), eager.ones(1, 1, 1), **{name: 0})


def _said(m):
    """Calls that PyTorch refuses -> the type of its error."""
    f, image, columns = m.nn.functional, m.ones(1, 2, 4, 4), m.ones(1, 8, 9)
    ints, x = m.tensor([1, 2]), m.ones(3, 4)
    heads, q = m.nn.MultiheadAttention(8, 2), m.ones(3, 2, 8)
    calls = (
        *(lambda how=how: f.interpolate(image, size=-1, mode=how)
          for how in ("nearest", "bilinear", "bicubic", "area", "nearest-exact")),
        lambda: f.interpolate(image, size=(2, 0)), lambda: f.interpolate(image, size=(2, 2, 2)),
        lambda: f.interpolate(image, scale_factor=0.1), lambda: f.interpolate(m.ones(1, 1, 0, 4), size=2),
        lambda: f.unfold(image, 2, stride=0), lambda: f.unfold(image, 0), lambda: f.unfold(image, 2, dilation=0),
        lambda: f.unfold(image, 2, padding=-1), lambda: f.fold(columns, 4, 2, stride=0),
        lambda: f.fold(columns, 4, 0), lambda: f.fold(columns, 4, 2, dilation=0),
        lambda: m.full((2,), "a"), lambda: m.full((2,), None), lambda: m.full((2,), [1]),
        lambda: m.bincount(m.tensor([-1])), lambda: m.bincount(m.tensor([1.5])),
        lambda: m.bincount(ints, minlength=-1), lambda: m.bincount(ints, weights=m.ones(3)),
        lambda: m.histc(x, bins=0), lambda: m.histc(x, 4, 2, 1), lambda: m.histc(ints),
        lambda: m.histc(x, 3, float("nan")), lambda: m.histc(m.tensor([float("inf")]), 3),
        lambda: x.gather(0, m.tensor([[5]])), lambda: x.gather(1, m.tensor([[-1]])),
        lambda: x.gather(0, m.tensor([[0.0]])), lambda: x.scatter(0, m.tensor([[9]]), x),
        lambda: x.index_select(0, m.tensor([0.5])), lambda: x.index_select(0, m.tensor([7])),
        lambda: x.index_copy(0, m.tensor([0]), m.ones(2, 4)), lambda: f.embedding(m.tensor([7]), x),
        lambda: f.cross_entropy(x, m.tensor([0, 4, 1])), lambda: heads(q, q, q, is_causal=True),
        lambda: heads(q, q, q, attn_mask=m.ones(2, 3)), lambda: heads(m.ones(3, 2, 7), q, q),
        lambda: m.linalg.solve(m.eye(3), m.ones(4)), lambda: m.searchsorted(m.ones(2, 3), m.ones(3, 3)),
        lambda: heads(q, q, q, key_padding_mask=m.zeros(3, 2, dtype=m.bool)),
    )  # fmt: skip
    said = []
    for call in calls:
        with pytest.raises(Exception) as raised:  # noqa: B017, PT011 - compared with theirs
            call()
        said.append(next(t for t in type(raised.value).__mro__ if t.__module__ == "builtins"))
    return said


def test_the_errors_are_of_the_reference_s_types():
    assert _said(eager) == _said(torch)
    assert eager.full((2,), 1j).dtype is eager.complex64


def test_losses_and_norms_say_what_does_not_fit():
    x = eager.ones(2, 3)
    with pytest.raises(RuntimeError, match="running_mean should contain 3 elements not 1"):
        F.batch_norm(x, eager.ones(1), eager.ones(1), training=True)
    with pytest.raises(RuntimeError, match="1D target tensor expects 2D input"):
        F.cosine_embedding_loss(x[0], x[0], eager.ones(3))
    with pytest.raises(RuntimeError, match="same number of dimensions"):
        F.triplet_margin_loss(x, x[0], x)
    with pytest.raises(RuntimeError, match="int64 or uint8, got eager.float32"):
        F.nll_loss(x, eager.ones(2))
    with pytest.raises(RuntimeError, match="int64 or uint8, got eager.int32"):
        F.cross_entropy(x, eager.ones(2).to(eager.int32))
    for norm in (F.layer_norm, F.rms_norm):
        with pytest.raises(RuntimeError, match="Expected weight to be of same shape"):
            norm(x, (3,), eager.ones(1))
    with pytest.raises(NotImplementedError, match="floating point"):
        eager.arange(3).softmax(0)


@pytest.mark.parametrize("compiled", [False, True])
def test_the_long_side_of_a_triangle_does_not_overflow(compiled):
    x = eager.tensor([3.0, 1e25, 1e-30, 0.0, INF, NAN])
    y = eager.tensor([4.0, 1e25, 1e-30, 0.0, NAN, 1.0])
    out = (jit(lambda x, y: eager.hypot(x, y)) if compiled else eager.hypot)(x, y)
    expected = [5.0, 2**0.5 * 1e25, 2**0.5 * 1e-30, 0.0, INF, NAN]
    np.testing.assert_allclose(out.numpy(), np.float32(expected), rtol=1e-6)


def test_nan_is_distinct_from_nan():
    given = [NAN, 1.0, NAN, 1.0, -0.0, 0.0]
    found = eager.tensor(given).unique(return_inverse=True, return_counts=True)
    expected = torch.tensor(given).unique(return_inverse=True, return_counts=True)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(ours.numpy(), theirs.numpy())


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("antialias", [False, True])
def test_images_of_bytes_are_resized_in_fixed_point(mode, antialias):
    """To the bit: half a unit in the last binary place decides how a byte is rounded."""
    image = np.random.default_rng(0).integers(0, 256, (1, 3, 17, 23)).astype(np.uint8)
    how = {"mode": mode, "antialias": antialias}
    for size in ((9, 31), (40, 23), (5, 6)):
        want = torch.nn.functional.interpolate(torch.from_numpy(image), size, **how).numpy()

        def resize(x, size=size):
            return eager.nn.functional.interpolate(x, size, **how)

        got = [
            resize(eager.from_numpy(image)),
            jit(resize, backend="python")(eager.from_numpy(image)),
        ]
        for each in got:
            np.testing.assert_array_equal(each.numpy(), want)
