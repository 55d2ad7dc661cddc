"""`stft` and `istft` beside what their samples show: gradients, errors, compiled; against torch."""

import numpy as np
import pytest

import eager
from jitcap import jit

SIGNAL = np.random.default_rng(0).standard_normal((2, 60))
WINDOW = np.hanning(13)[:12]


def _loss(t, x, w):
    spectrum = t.stft(x, 12, 4, window=w, return_complex=True)
    back = t.istft(spectrum * 2, 12, 4, window=w, length=60)
    return spectrum.abs().square().mean() + (back**3).mean()


def _gradients(t, run):
    x, w = (t.tensor(a, requires_grad=True) for a in (SIGNAL, WINDOW))
    loss = run(t, x, w)
    loss.backward()
    return [v.detach().numpy() for v in (loss, x.grad, w.grad)]


def test_gradients():
    torch = pytest.importorskip("torch")
    for ours, theirs in zip(_gradients(eager, _loss), _gradients(torch, _loss), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-10)


@pytest.mark.once
def test_compiled():
    step = jit(lambda x, w: _loss(eager, x, w), fullgraph=True)
    plain = _gradients(eager, _loss)
    compiled = _gradients(eager, lambda t, x, w: step(x, w))
    for ours, wanted in zip(compiled, plain, strict=True):
        np.testing.assert_allclose(ours, wanted, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("pad_mode", ["reflect", "constant", "replicate", "circular"])
def test_the_signal_comes_back(pad_mode):
    x, w = eager.tensor(SIGNAL), eager.hann_window(12, dtype=eager.float64)
    spectrum = x.stft(12, window=w, pad_mode=pad_mode, return_complex=True)
    np.testing.assert_allclose(spectrum.istft(12, window=w, length=60), x, atol=1e-12)


REFUSED = [
    lambda t, x, w: t.stft(x, 12),
    lambda t, x, w: t.stft(x, 90, center=False, return_complex=True),
    lambda t, x, w: t.stft(x, 12, 0, return_complex=True),
    lambda t, x, w: t.stft(x, 12, win_length=13, return_complex=True),
    lambda t, x, w: t.stft(x, 12, window=w[:5], return_complex=True),
    lambda t, x, w: t.stft(x.unsqueeze(0).unsqueeze(0), 12, return_complex=True),
    lambda t, x, w: t.stft(x, 12, align_to_window=True, return_complex=True),
    lambda t, x, w: t.istft(x, 12),
    lambda t, x, w: t.istft(t.complex(x, x), 12),
    lambda t, x, w: t.istft(t.complex(x, x)[:, :7], 12, 13, 12),
    lambda t, x, w: t.istft(t.complex(x, x).reshape(2, 5, 12)[:, :2], 2, window=w[:2] * 0),
]


@pytest.mark.filterwarnings("ignore:A window was not provided")
@pytest.mark.parametrize("call", REFUSED)
def test_what_torch_refuses(call):
    torch = pytest.importorskip("torch")
    for t in (eager, torch):
        with pytest.raises(RuntimeError):
            call(t, t.tensor(SIGNAL), t.tensor(WINDOW))
