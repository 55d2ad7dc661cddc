"""Fourier transforms, complex arithmetic, searches and running logarithms of sums in compiled code:
against eager, and without a callback."""

import math

import numpy as np
import pytest

import eager
from codegen.targets.cpp.signal import factors
from jitcap import explain, jit

inf, nan = math.inf, math.nan
REAL = (eager.float32, eager.float64)


def compare(fn, *args, rtol=3e-6, callbacks=0):
    """Results of compiled code and of eager; the largest error against the largest element."""
    step = jit(fn)
    mine, expected = step(*args), fn(*args)
    for i, (a, b) in enumerate(zip(mine, expected, strict=True)):
        assert a.dtype is b.dtype, i
        assert a.shape == b.shape, i
        x, y = a.detach().numpy(), b.detach().numpy()
        scale = np.abs(y[np.isfinite(y)]).max(initial=1e-30)
        tight = rtol if a.dtype in (eager.float32, eager.complex64) else min(rtol, 3e-14)
        np.testing.assert_allclose(x, y, rtol=tight, atol=tight * scale, err_msg=str(i))
    assert step.stats.fallbacks == 0
    assert step.stats.callbacks == callbacks, explain(fn)(*args).callbacks


def complex_of(*shape, dtype=eager.float32):
    return eager.complex(eager.randn(*shape, dtype=dtype), eager.randn(*shape, dtype=dtype))


@pytest.mark.parametrize("n", [1, 2, 3, 4, 8, 12, 30, 64, 67, 97, 131, 210, 256, 1031])
def test_transforms_of_any_length(n):
    """Powers, products of small primes, and lengths with a large prime."""
    eager.manual_seed(n)
    x, z = eager.randn(3, n), complex_of(2, n, 3, dtype=eager.float64)

    def transforms(x, z):
        fft = eager.fft
        return (
            fft.rfft(x), fft.fft(x), fft.fft(z, dim=1), fft.ifft(z, dim=1, norm="ortho"),
            fft.irfft(z, n=n, dim=1), fft.irfft(z, n=n + 1, dim=1), fft.fft(z, dim=1, norm="forward"),
        )  # fmt: skip

    compare(transforms, x, z, rtol=1e-6)


@pytest.mark.parametrize("dtype", REAL)
@pytest.mark.parametrize("lines", [1, 2, 5, 16, 33])
def test_any_number_of_real_lines(lines, dtype):
    """Several are transformed at a time; what one holds does not reach another."""
    eager.manual_seed(lines)
    x, z = eager.randn(lines, 12, dtype=dtype), complex_of(lines, 7, dtype=dtype)

    def transforms(x, z):
        fft = eager.fft
        return (
            fft.rfft(x), fft.rfft(x, n=9), fft.rfft(x, n=20), fft.irfft(z), fft.irfft(z, n=13),
            fft.irfft(z, n=5), fft.irfft(z, n=30), fft.rfft(x, dim=0), fft.irfft(z, n=lines, dim=0),
        )  # fmt: skip

    compare(transforms, x, z, rtol=1e-6)
    x[0], z[0] = inf, nan
    for mine, expected in zip(jit(transforms)(x, z)[:7], transforms(x, z)[:7], strict=True):
        assert (mine.isfinite() == expected.isfinite()).all()


def test_transforms_of_several_dimensions():
    eager.manual_seed(0)
    x, z = eager.randn(4, 6, 5), complex_of(4, 6, 5)

    def transforms(x, z):
        fft = eager.fft
        return (
            fft.fft2(z), fft.ifft2(z, norm="ortho"), fft.fftn(z, dim=(2, 0)), fft.rfftn(x),
            fft.rfft2(x.transpose(0, 2)), fft.irfftn(z), fft.irfft2(z, s=(4, 7)), fft.hfft(z),
            fft.ihfft(x), fft.ifftn(z.transpose(0, 1)), fft.fftshift(fft.fft(z)),
        )  # fmt: skip

    compare(transforms, x, z, rtol=1e-6)


def test_factors():
    for n in range(1, 3000):
        found = factors(n)
        assert math.prod(found) == n
        assert all(f == 4 or all(f % d for d in range(2, math.isqrt(f) + 1)) for f in found)


@pytest.mark.parametrize("dtype", REAL, ids=str)
def test_complex_arithmetic(dtype):
    eager.manual_seed(1)
    z, w, x = (
        complex_of(3, 4, dtype=dtype),
        complex_of(4, dtype=dtype),
        eager.randn(3, 4, dtype=dtype),
    )
    halves = [0.0, -0.0, inf, -inf, nan, 1, 1e30, 0.0], [0.0, 0.0, 1, inf, inf, nan, 1e30, inf]
    odd = eager.complex(*(eager.tensor(part, dtype=dtype) for part in halves))

    def arithmetic(z, w, x, odd):
        return (
            z + w, z - w, z * w, z / w, w / z, z * x, x - z, z * 2.5, (1 - 2j) * z, z + 1, -z, z.abs(),
            z.angle(), z.conj(), z.real, z.imag, odd.abs(), odd.angle(), x.to(z.dtype), (x > 0).to(z.dtype),
            x.half().to(z.dtype), z.to(eager.complex128), z.real.double() + z, eager.polar(x.abs(), x),
            eager.view_as_real(z), eager.view_as_complex(x.reshape(6, 2)), z.sum() * z,
            eager.zeros(0, 3, dtype=z.dtype) + 1, (z / (z - z)).isnan(),
        )  # fmt: skip

    with np.errstate(all="ignore"):
        compare(arithmetic, z, w, x, odd, callbacks=1)  # isnan


@pytest.mark.parametrize("dtype", REAL, ids=str)
def test_complex_functions_of_many(dtype):
    """More than a vector of them, and a rest."""
    eager.manual_seed(2)
    z = complex_of(37, dtype=dtype)
    compare(lambda z: (z.angle(), z.square(), z.reciprocal(), 2 / z, z - 1j, 1j - z), z, callbacks=0)


def test_complex_numbers_are_moved():
    eager.manual_seed(2)
    z, w, x = complex_of(3, 4), complex_of(4), eager.randn(3, 4)

    def moves(z, w, x):
        return (
            z.t(), z[1:, ::2], z.flip(0), eager.cat([z, z]), eager.stack([w, w]), z[[2, 0]], z.sum(),
            z.sum(0), eager.where(x > 0, z, z.conj()), eager.full((2,), 1 + 2j), w.expand(3, 4) * 1,
            eager.nn.functional.pad(z, (1, 1)), z.clone(), z, z.reshape(2, 6), z.gather(1, (x > 0).long()),
        )  # fmt: skip

    compare(moves, z, w, x)


@pytest.mark.parametrize("dtype", REAL, ids=str)
def test_complex_numbers_that_lie_apart(dtype):
    columns, same = complex_of(3, 4, dtype=dtype).t(), complex_of(1, dtype=dtype).expand(6)

    def read(z, w):
        return z.real, z[1:].imag, w.real, z.abs(), z * z, w.sum(), w.exp()

    compare(read, columns, same, callbacks=1)  # exp


def test_complex_products_at_shared_places():
    """A product is not made of those of the real and of the imaginary parts, as a sum is."""
    z, w, at = complex_of(6), complex_of(3), eager.tensor([0, 1, 0, 1, 0, 2])

    def products(z, w, at):
        return (
            w.scatter_reduce(0, at, z, "prod"), w.scatter_reduce(0, at, z, "prod", include_self=False),
            w.scatter(0, at, z, reduce="multiply"), w.scatter_reduce(0, at, z, "sum"),
            w.scatter_reduce(0, at, z, "mean"),
        )  # fmt: skip

    compare(products, z, w, at, callbacks=2)


def test_gradients_of_complex_programs():
    def loss(a, b):
        z = eager.complex(a, b)
        y = eager.fft.fft(z * z, dim=0)
        return (
            (y * y.conj()).real.sum() + z.angle().sum() + eager.fft.irfft(z, dim=0).square().sum()
        )

    def step(a, b):
        return eager.autograd.grad(loss(a, b), (a, b))

    eager.manual_seed(3)
    a, b = (eager.randn(4, 3, dtype=eager.float64, requires_grad=True) for _ in range(2))
    compare(step, a, b)


@pytest.mark.parametrize("kind", ["float32", "float64", "int64", "int32", "int16", "uint8"])
def test_searches(kind):
    dtype = getattr(eager, kind)
    bounds = eager.tensor([1, 3, 3, 7, 9]).to(dtype)
    values = eager.tensor([[0, 1, 2], [3, 9, 10]]).to(dtype)
    rows = eager.stack([bounds, bounds + 1])

    def searches(bounds, values, rows):
        return (
            eager.searchsorted(bounds, values), eager.searchsorted(bounds, values, right=True),
            eager.searchsorted(rows, values), eager.searchsorted(rows, values, right=True, out_int32=True),
            eager.bucketize(values, bounds), eager.searchsorted(bounds, values[0, 1]),
            eager.searchsorted(bounds[:0], values),
        )  # fmt: skip

    compare(searches, bounds, values, rows)


def test_searches_among_what_is_not_finite():
    def searches(bounds, values):
        return eager.searchsorted(bounds, values), eager.searchsorted(bounds, values, right=True)

    compare(searches, eager.tensor([-inf, 1.0, 2.0, nan]), eager.tensor([nan, 0.0, 2.0, inf, -inf]))


@pytest.mark.parametrize("kind", ["float32", "float64", "float16", "bfloat16"])
def test_running_logarithms_of_sums(kind):
    rows = [[0.5, -inf, 3, inf, 1], [-inf, -inf, -inf, 2, 700], [1, nan, 2, 3, 4]]
    x = eager.tensor(rows).to(getattr(eager, kind))
    rtol = {"float16": 2e-3, "bfloat16": 1e-2}.get(kind, 1e-6)
    compare(lambda x: [x.logcumsumexp(0).float(), x.logcumsumexp(1).float()], x, rtol=rtol)


@pytest.mark.parametrize("backend", ["python", "eager"])
def test_the_other_backends_agree(backend):
    eager.manual_seed(4)
    z = complex_of(2, 6)

    def program(z):
        return eager.fft.fft(z * z.conj())[:, 1:].abs() + z.real.logcumsumexp(1)[:, 1:]

    np.testing.assert_allclose(
        jit(program, backend=backend)(z).numpy(), program(z).numpy(), rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize("dtype", REAL, ids=str)
def test_numbers_by_their_bits(dtype):
    """Zeros of both signs, subnormals, the largest, what is not finite: exactly eager's."""
    values = np.array(
        [0.0, -0.0, 1, -1, inf, -inf, nan, 1e-45, 5e-324, 3.4028234663852886e38, 1e-310, -2.5]
    )
    with np.errstate(all="ignore"):
        x = eager.tensor(values, dtype=dtype)

    def program(x, y):
        return eager.nextafter(x, y), *eager.frexp(x)

    step = jit(program)
    for a, b in zip(step(x.reshape(-1, 1), x), program(x.reshape(-1, 1), x), strict=True):
        assert a.dtype is b.dtype
        np.testing.assert_array_equal(a.numpy(), b.numpy())
        assert (np.signbit(a.numpy()) == np.signbit(b.numpy())).all()
    assert step.stats.callbacks == 0
