"""What the library makes beside tensors of a device lives there, too: programs, beside the CPU."""

import numpy as np
import pytest

import eager
from eager import cuda, func, nn
from eager.distributions import (
    Categorical,
    Dirichlet,
    Gumbel,
    LowRankMultivariateNormal,
    Normal,
    StudentT,
    VonMises,
    Wishart,
)  # fmt: skip
from eager.nn import functional as F
from jitcap import jit

pytest.importorskip("triton.language")
pytestmark = [
    pytest.mark.once,
    pytest.mark.filterwarnings("ignore::eager.core.on_device.HostRunWarning"),
    pytest.mark.filterwarnings("ignore::jitcap.base.diagnostics.JitcapWarning"),
]
X = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)


def indexed(x):
    y = x.clone()
    y[[0, 2]] = 5.0
    y[eager.tensor([False, True, False])] = 7.0
    y[eager.tensor([1]), 0] = eager.tensor(9.0)
    y[1:2] = eager.ones(1, 4) * y[1:2].cpu()
    y[[1]] = eager.tensor([1.0, 2, 3, 4]).to(x.device)
    y[eager.tensor([True, False, False])] = eager.arange(4.0).to(x.device)
    y[:, 3] = eager.tensor([5.0, 6, 7]).to(x.device)
    y[0, [1, 2]] = eager.tensor([8.0, 9.0]).to(x.device)
    return (
        x[[0, 2]], x[np.array([1, 0])], x[eager.tensor([2, -1])], x[[0, 1], [1, 2]],
        x[:, range(2)], x[eager.tensor([True, False, True])], y,
    )  # fmt: skip


def made(x):
    return x[0].new_tensor([4.0, 5, 6, 7]) + x, func.jacfwd(lambda v: v * v)(x[0])


def packed(x):
    eager.manual_seed(0)
    model = nn.LSTM(4, 3, batch_first=True, bidirectional=True).to(x.device)
    batch = eager.stack([x, x * 2, x + 1])
    lengths = eager.tensor([1, 3, 2])
    given = nn.utils.rnn.pack_padded_sequence(
        batch, lengths, batch_first=True, enforce_sorted=False
    )
    out, sizes = nn.utils.rnn.pad_packed_sequence(model(given)[0], batch_first=True)
    return out.detach(), sizes


def drawn(x):
    """Of the same seed, whatever was drawn before on the other device."""
    eager.manual_seed(3)
    one = eager.ones(4, 4, device=x.device).tril()
    found = [
        Normal(x, 1.0).sample(), Gumbel(x, 2.0).rsample(), StudentT(3.0 + x.abs()).sample(),
        Categorical(logits=x).sample(), Dirichlet(x.abs() + 1).sample(),
        LowRankMultivariateNormal(x[0], x.t(), x[0].abs() + 1).rsample(),
        VonMises(x, x.abs()).sample(), Wishart(x[0, 0].abs() + 5, scale_tril=one).sample(),
    ]  # fmt: skip
    found += [
        eager.normal(x, 1.0), eager.normal(0.0, x.abs()), eager.poisson(x.abs()),
        eager.binomial(x.abs().ceil(), x.sigmoid()), x.clone().exponential_(),
        x.clone().geometric_(0.3), x.clone().cauchy_(), x.clone().log_normal_(),
        x.clone().random_(7), x.clone().bernoulli_(0.4), F.gumbel_softmax(x),
        F.rrelu(x, training=True), F.feature_alpha_dropout(x[None], training=True),
        eager.trapz(x), eager.histc(x, 4), eager.bucketize(x, x[0].sort().values),
        F.one_hot(x.argmax(1), 4), eager.combinations(x[0]), eager.vander(x[0]),
        Categorical(logits=x).enumerate_support(),
    ]  # fmt: skip
    found.append(F.fractional_max_pool2d(x[None, None].expand(1, 1, 3, 4), 2, output_size=1))
    return (*found, nn.init.orthogonal_(x.clone()))


@pytest.mark.parametrize("program", [indexed, made, packed, drawn], ids=lambda p: p.__name__)
def test_a_program_is_the_cpus(program):
    expected = program(eager.tensor(X))
    for run in (program, jit(program)):
        found = run(eager.tensor(X).cuda())
        for i, (a, b) in enumerate(zip(found, expected, strict=True)):
            assert a.dtype is b.dtype, i
            assert np.allclose(a.cpu(), b, rtol=1e-4, atol=1e-5), i


def test_a_stream_that_another_reads_from():
    x, side = eager.ones(8, device="cuda"), cuda.Stream()
    side.wait_stream(cuda.current_stream())
    with cuda.stream(side):
        y = x * 2
    x.record_stream(side)
    assert (x + 1).tolist() == [2] * 8
    cuda.current_stream().wait_stream(side)
    assert y.tolist() == [2] * 8
    with pytest.raises(RuntimeError, match="on a device"):
        eager.ones(1).record_stream(side)


def test_sparse_tensors():
    """Two tensors on the device, and products of what was there."""
    places = [[0, 1, 1, 0], [2, 0, 2, 2]]
    host = eager.sparse_coo_tensor(places, [3.0, 4.0, 5.0, 1.0], (2, 3))
    there = host.to("cuda")
    assert "device='cuda:0'" in repr(there)
    assert (there @ eager.ones(3, 2, device="cuda")).cpu().tolist() == [[4, 4], [9, 9]]
    assert there.coalesce().cpu().to_dense().tolist() == host.to_dense().tolist()
