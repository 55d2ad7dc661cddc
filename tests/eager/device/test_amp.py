"""Mixed precision on a device: types by PyTorch's lists for GPUs, and the whole loop beside the CPU's."""

import numpy as np
import pytest

import eager
from eager import nn
from eager.nn import functional as F
from jitcap import jit

pytest.importorskip("triton.language")
pytestmark = pytest.mark.once

# What a call on x (float32) and h (float16, a product) gives under autocast of GPUs.
TYPES = {
    "float16": {
        "linear": lambda x, h: F.linear(x, h),
        "conv": lambda x, h: F.conv2d(x[None, None], x[None, None, :2, :2]),
        "einsum": lambda x, h: eager.einsum("ij,jk->ik", x, x),
        "attention": lambda x, h: F.scaled_dot_product_attention(x[None], h[None], h[None]),
        "relu": lambda x, h: h.relu(),
        "gelu": lambda x, h: F.gelu(h),
        "sigmoid": lambda x, h: h.sigmoid(),
        "tanh": lambda x, h: h.tanh(),
        "mean": lambda x, h: h.mean(),
        "batch_norm": lambda x, h: F.batch_norm(h, None, None, training=True),
        "in place": lambda x, h: h.clone().exp_(),
        "quotient": lambda x, h: h / 2,
        "prelu": lambda x, h: F.prelu(x, x[0, :1]),
        "addmv": lambda x, h: eager.addmv(x[0], x, x[1]),
        "addr": lambda x, h: eager.addr(x, x[0], x[1]),
        "mv": lambda x, h: x.mv(x[0]),
        "vecdot": lambda x, h: eager.linalg.vecdot(x, x),
        "multi_dot": lambda x, h: eager.linalg.multi_dot([x, x, x]),
        "row sums by einsum": lambda x, h: eager.einsum("ij->i", x),
        "sums of rows by einsum": lambda x, h: eager.einsum("ij->i", h),
        "trace": lambda x, h: h.trace(),
        "log_ndtr": lambda x, h: eager.special.log_ndtr(h),
        "grid_sample": lambda x, h: F.grid_sample(
            h[None, None], h.reshape(1, 4, 2, 2), align_corners=False
        ),
        "avg_pool3d": lambda x, h: F.avg_pool3d(h.expand(1, 2, 4, 4), 2),
        "adaptive_avg_pool3d": lambda x, h: F.adaptive_avg_pool3d(h.expand(1, 3, 4, 4), 2),
        "cell of an RNN": lambda x, h: nn.RNNCell(4, 3).cuda()(x),
        "cell of an LSTM": lambda x, h: nn.LSTMCell(4, 3).cuda()(x)[1],
        "GRU": lambda x, h: nn.GRU(4, 3).cuda()(x)[0],
        "state of an LSTM": lambda x, h: nn.LSTM(4, 3, proj_size=2).cuda()(x)[1][0],
    },
    "float32": {
        "softmax": lambda x, h: h.softmax(-1),
        "log_softmax": lambda x, h: F.log_softmax(h, -1),
        "layer_norm": lambda x, h: F.layer_norm(h, (4,)),
        "exp": lambda x, h: h.exp(),
        "log": lambda x, h: eager.log(h.abs() + 1),
        "power": lambda x, h: h**2,
        "reciprocal": lambda x, h: 1 / (h + 3),
        "sum": lambda x, h: h.sum(),
        "cumsum": lambda x, h: h.cumsum(0),
        "norm": lambda x, h: eager.linalg.vector_norm(h),
        "cross_entropy": lambda x, h: F.cross_entropy(h, eager.arange(4, device=h.device)),
        "mse_loss": lambda x, h: F.mse_loss(h, h * 2),
        "added": lambda x, h: x + h,
        "joined": lambda x, h: eager.cat([x, h]),
        "rms_norm": lambda x, h: F.rms_norm(h, (4,)),
        "adaptive_avg_pool2d": lambda x, h: F.adaptive_avg_pool2d(x[None], 3),
        "adaptive_avg_pool3d": lambda x, h: F.adaptive_avg_pool3d(x.expand(1, 3, 4, 4), 2),
        "bilinear": lambda x, h: F.bilinear(h, x, h.expand(2, 4, 4), x[0, :2]),
        "dot": lambda x, h: h[0].dot(x[0]),
        "vdot": lambda x, h: eager.vdot(x[0], h[0]),
        "tensordot": lambda x, h: eager.tensordot(x, h, 1),
        "grid_sample": lambda x, h: F.grid_sample(
            h[None, None], x.reshape(1, 4, 2, 2), align_corners=False
        ),
        "scatter_add": lambda x, h: x.scatter_add(0, (x > 0).long(), h),
        "index_put": lambda x, h: h.index_put(((x[0] > 0).long(),), x),
    },
    "float64": {"float64": lambda x, h: x.double() @ x.double()},
}


def test_types_are_those_of_torch_on_gpus():
    x = eager.linspace(-1, 1, 16).reshape(4, 4).cuda()
    with eager.autocast("cuda"):
        h = x @ x
        for expected, calls in TYPES.items():
            for name, call in calls.items():
                assert str(call(x, h).dtype) == f"eager.{expected}", name
        assert eager.is_autocast_enabled() and eager.is_autocast_enabled("cuda")  # noqa: PT018
        assert (x.cpu() @ x.cpu()).dtype is eager.float32  # of another device
        with eager.autocast("cpu", dtype=eager.bfloat16):
            assert (x.cpu() @ x.cpu()).dtype is eager.bfloat16
            assert (x @ x).dtype is eager.float16
            with eager.autocast("cuda", enabled=False):
                assert (x @ x).dtype is eager.float32
        assert (h * 300).square().isfinite().all()  # a power: beyond the range of float16
    assert not eager.is_autocast_enabled()
    assert eager.get_autocast_dtype("cuda") is eager.float16


def test_a_decorated_function_may_call_itself():
    @eager.autocast("cuda", dtype=eager.bfloat16)
    def f(x, n):
        return f(x, n - 1) if n else x @ x

    assert f(eager.ones(2, 2, device="cuda"), 2).dtype is eager.bfloat16
    assert not eager.is_autocast_enabled()


def losses(place, wrap, dtype):
    """Of a whole loop, with the scales; the second step overflows."""
    eager.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(),
        nn.Linear(64, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 5),
    ).to(place)  # fmt: skip
    optimizer = eager.optim.AdamW(model.parameters(), lr=1e-2)
    scaler = eager.amp.GradScaler(place, init_scale=8.0, growth_interval=2)
    x, y = eager.randn(8, 1, 4, 4).to(place), eager.randint(0, 5, (8,)).to(place)

    def step(x, y, factor):
        optimizer.zero_grad(set_to_none=True)
        with eager.autocast(place, dtype=dtype):
            out = model(x)
            loss = F.cross_entropy(out, y)
        scaler.scale(loss * factor).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        return loss.detach(), out

    step = wrap(step)
    seen = []
    for factor in (1.0, float("inf"), 1.0, 1.0):
        loss, out = step(x, y, eager.tensor(factor, device=place))
        assert out.dtype is dtype
        seen += [loss.item(), scaler.get_scale()]
    return seen


@pytest.mark.filterwarnings("ignore::jitcap.base.diagnostics.JitcapWarning")
def test_a_loop_with_a_scaler_is_the_cpus():
    for dtype in (eager.float16, eager.bfloat16):
        expected = losses("cpu", lambda f: f, dtype)
        assert expected[1::2] == [8.0, 4.0, 4.0, 8.0]
        assert expected[6] < expected[0]
        np.testing.assert_allclose(losses("cuda", lambda f: f, dtype), expected, rtol=3e-3)
        compiled = []
        found = losses("cuda", lambda f: compiled.append(jit(f)) or compiled[0], dtype)
        np.testing.assert_allclose(found, expected, rtol=3e-3)
        stats = compiled[0].stats
        counted = stats.graphs, stats.splits, stats.fallbacks
        assert counted == (3, 1, 0)  # before, the step, behind


def test_autocast_around_a_jitted_function_is_guarded():
    product = jit(lambda x: x @ x)
    x = eager.ones(2, 2, device="cuda")
    for dtype in (eager.bfloat16, eager.float16, None, eager.bfloat16):
        with eager.autocast("cuda", dtype=dtype or eager.bfloat16, enabled=dtype is not None):
            assert product(x).dtype is (dtype or eager.float32)
    assert product.stats.compiles == 3
