"""`eager.fft` against PyTorch: gradients of any order of complex signals, errors, under @jit."""

import numpy as np
import pytest

import eager
import eager.fft
from eager.fft import fft2, irfft, rfft
from jitcap import jit

pytestmark = pytest.mark.once

SIGNAL = np.random.default_rng(0).standard_normal((3, 5))


def programs():
    yield lambda t, x: t.fft.fft(x, norm="ortho")
    yield lambda t, x: t.fft.ifft(t.complex(x, x * x), 7)
    yield lambda t, x: t.fft.rfft(x, 6) * t.fft.rfft(x * x, 6)
    yield lambda t, x: t.fft.irfft(t.fft.rfft(x) ** 2, 5)
    yield lambda t, x: t.fft.irfft(t.complex(x, x.sin()))
    yield lambda t, x: t.fft.hfft(t.complex(x, x.sin()), 6)
    yield lambda t, x: t.fft.ihfft(x, 4) * 2
    yield lambda t, x: t.fft.irfft2(t.complex(x, x.sin()), (2, 7), norm="forward")
    yield lambda t, x: t.fft.rfftn(x, (4, 3))
    yield lambda t, x: t.fft.fftshift(t.fft.ifftn(t.complex(x, x.cos()), dim=(0,)))


@pytest.mark.parametrize("program", [*programs()])
def test_gradients_of_two_orders(program):
    torch = pytest.importorskip("torch")

    def run(t):
        x = t.tensor(SIGNAL, dtype=t.float64, requires_grad=True)
        y = program(t, x)
        loss = (y.real**3).sum() + ((y.imag**2).sum() if y.dtype.is_complex else 0)
        (g,) = t.autograd.grad(loss, x, create_graph=True)
        (g**2).sum().backward()
        return [np.asarray(v.detach()) for v in (y, g, x.grad)]

    for mine, reference in zip(run(eager), run(torch), strict=True):
        assert mine.dtype == reference.dtype
        np.testing.assert_allclose(mine, reference, rtol=1e-9, atol=1e-9)


def test_one_graph_under_jit():
    @jit
    def step(x, weight):
        spectrum = rfft(x) * weight
        y = irfft(spectrum, x.shape[-1]) + fft2(x).abs()
        y.square().mean().backward()
        return y, eager.fft.rfftfreq(x.shape[-1], 0.5)

    def leaves():
        x = eager.tensor(SIGNAL, dtype=eager.float32, requires_grad=True)
        return x, eager.complex(eager.ones(3), -eager.ones(3)).requires_grad_()

    mine, plain = leaves(), leaves()
    for a, b in zip(step(*mine), step.original(*plain), strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-5)
        assert a.dtype is b.dtype is eager.float32
    for a, b in zip(mine, plain, strict=True):
        assert a.grad.dtype is a.dtype
        np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=1e-4, atol=1e-6)
    assert (step.stats.graphs, step.stats.splits, step.stats.fallbacks) == (1, 0, 0)


@pytest.mark.parametrize(
    "call",
    [
        lambda t: t.fft.rfft(t.ones(4, dtype=t.complex64)),
        lambda t: t.fft.rfftn(t.ones(4, dtype=t.complex64)),
        lambda t: t.fft.fft(t.ones(4), 0),
        lambda t: t.fft.irfft(t.ones(1)),
        lambda t: t.fft.fft(t.ones(4), dim=3),
        lambda t: t.fft.fft(t.ones(4), norm="a"),
        lambda t: t.fft.fft(t.ones(4, dtype=t.float16)),
        lambda t: t.fft.fft(t.tensor(1.0)),
        lambda t: t.fft.fft2(t.ones(4)),
        lambda t: t.fft.fftn(t.ones(4), (1, 2)),
        lambda t: t.fft.fftn(t.ones(4), (1, 2), (0,)),
        lambda t: t.fft.fftn(t.ones(4, 4), dim=(0, 0)),
        lambda t: t.fft.irfftn(t.tensor(1.0)),
        lambda t: t.fft.fftfreq(5, dtype=t.int64),
    ],
)
def test_errors(call):
    torch = pytest.importorskip("torch")
    with pytest.raises((RuntimeError, IndexError)) as reference:
        call(torch)
    with pytest.raises(reference.type) as mine:
        call(eager)
    assert str(reference.value) in str(mine.value)
