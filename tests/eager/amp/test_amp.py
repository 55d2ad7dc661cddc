"""Mixed precision on the CPU: types and values as PyTorch's, in eager and in one compiled step."""

import numpy as np
import pytest

import eager
from jitcap import jit

pytestmark = pytest.mark.once


def runs(lib):
    """name -> a call on x (4, 4) float32 and h (4, 4), a product under autocast."""
    F = lib.nn.functional
    target = lib.tensor([0, 1, 2, 3])
    return {
        "linear": lambda x, h: F.linear(x, h),
        "conv": lambda x, h: F.conv2d(x[None, None], x[None, None, :2, :2]),
        "addmm": lambda x, h: lib.addmm(x, x, h),
        "attention": lambda x, h: F.scaled_dot_product_attention(x[None], h[None], h[None]),
        "einsum": lambda x, h: lib.einsum("ij,jk->ik", x, x),
        "outer": lambda x, h: lib.einsum("i,j->ij", x[0], x[0]),
        "mv": lambda x, h: lib.mv(x, x[0]),
        "float64": lambda x, h: x.double() @ x.double(),
        "integers": lambda x, h: target[None] @ target[:, None],
        "softmax": lambda x, h: h.softmax(-1),
        "layer_norm": lambda x, h: F.layer_norm(h, (4,)),
        "added": lambda x, h: x + h,
        "joined": lambda x, h: lib.cat([x, h]),
        "cross_entropy": lambda x, h: F.cross_entropy(h, target),
        "mse_loss": lambda x, h: F.mse_loss(h, h * 2),
        "bce": lambda x, h: F.binary_cross_entropy_with_logits(h, x.sigmoid()),
        "prod": lambda x, h: h.prod(0),
        "vecdot": lambda x, h: lib.linalg.vecdot(x, x),
        "prelu": lambda x, h: F.prelu(x, x[0, :1]),
        "adaptive_avg_pool2d": lambda x, h: F.adaptive_avg_pool2d(x[None], 3),
        "adaptive_avg_pool3d": lambda x, h: F.adaptive_avg_pool3d(h.expand(1, 3, 4, 4), 2),
        "inv": lambda x, h: lib.linalg.inv(x + h + 2 * lib.eye(4)),
    }


def results(lib):
    x = lib.tensor(np.linspace(-1, 1, 16, dtype=np.float32).reshape(4, 4) ** 3)
    w = lib.ones(4, 4, requires_grad=True)
    with lib.autocast("cpu", dtype=lib.bfloat16):
        h = x @ (w * 0.7)
        out = {name: call(x, h) for name, call in runs(lib).items()}
        with lib.autocast("cpu", enabled=False):
            out["off"] = x @ x
            assert not lib.is_autocast_enabled("cpu")
        assert lib.is_autocast_enabled("cpu")
    assert not lib.is_autocast_enabled("cpu")
    h.float().sum().backward()
    return {**out, "gradient": w.grad}


def test_types_and_values_are_those_of_torch():
    torch = pytest.importorskip("torch")
    ours, theirs = results(eager), results(torch)
    for name, value in theirs.items():
        assert str(value.dtype)[6:] == str(ours[name].dtype)[6:], name
        expected, got = value.detach().double().numpy(), ours[name].detach().double().numpy()
        np.testing.assert_allclose(got, expected, rtol=0.02, atol=0.02, err_msg=name)


class Doubled(eager.autograd.Function):
    """With the marks of a device that is not there."""

    @staticmethod
    @eager.cuda.amp.custom_fwd(cast_inputs=eager.float16)
    def forward(ctx, x):
        return x * 2

    @staticmethod
    @eager.cuda.amp.custom_bwd
    def backward(ctx, g):
        return g * 2


class Halved(eager.autograd.Function):
    """A function that runs in float32 whatever autocast says, and so does its backward."""

    @staticmethod
    @eager.amp.custom_fwd(device_type="cpu", cast_inputs=eager.float32)
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x @ w / 2

    @staticmethod
    @eager.amp.custom_bwd(device_type="cpu")
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return g @ w.T / 2, x.T @ g / 2


def test_a_step_under_autocast_is_one_graph():
    def trained(jit):
        model = eager.nn.Sequential(eager.nn.Linear(3, 4), eager.nn.ReLU(), eager.nn.Linear(4, 2))
        with eager.no_grad():
            for i, p in enumerate(model.parameters()):
                p.copy_(eager.linspace(-1, 1, p.numel()).reshape(p.shape) + 0.1 * i)
        optimizer = eager.optim.SGD(model.parameters(), lr=0.1)

        @jit
        def step(x, y):
            with eager.autocast("cpu"):
                out = model(x)
                half = Halved.apply(Doubled.apply(out) / 2, model[2].weight)
                loss = eager.nn.functional.cross_entropy(out, y) + half.sum() / 8
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss, out, half, eager.is_autocast_enabled("cpu")

        x, y = eager.linspace(-1, 1, 12).reshape(4, 3), eager.tensor([0, 1, 0, 1])
        outs = [step(x, y) for _ in range(2)][-1]
        assert [t.dtype for t in outs[:3]] == [eager.float32, eager.bfloat16, eager.float32]
        assert outs[3] is False
        return step, [*outs[:3], *model.parameters()]

    step, got = trained(jit)
    _, expected = trained(lambda f: f)
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_allclose(a.detach().float(), b.detach().float(), rtol=0.02, atol=0.02)
    assert (step.stats.compiles, step.stats.splits, step.stats.fallbacks) == (1, 0, 0)


def test_autocast_around_a_jitted_function_is_guarded():
    product = jit(lambda x: x @ x, backend="eager")
    x = eager.ones(2, 2)
    for dtype in (eager.bfloat16, eager.float16, None, eager.bfloat16):
        with eager.autocast("cpu", dtype=dtype or eager.bfloat16, enabled=dtype is not None):
            assert product(x).dtype is (dtype or eager.float32)
    assert product.stats.compiles == 3


def scaled(lib, enabled=True):
    """Scales and parameters of steps, of which the third overflows."""
    w = lib.nn.Parameter(lib.ones(2))
    optimizer = lib.optim.SGD([w], lr=0.5)
    scaler = lib.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2, enabled=enabled)
    seen = []
    for i in range(5):
        optimizer.zero_grad()
        x = lib.tensor([1.0, float("inf") if i == 2 else 2.0])
        scaler.scale((w * x).sum()).backward()
        if i % 2:
            scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
        seen += [w.tolist(), w.grad.tolist(), scaler.get_scale()]
    return [*seen, scaler.state_dict()]


def test_scaler_leaves_out_steps_that_overflow():
    ours = scaled(eager)
    assert ours[8] == 8.0
    assert ours[6] == ours[3]  # the third step was not made
    torch = pytest.importorskip("torch")
    assert repr(ours) == repr(scaled(torch))
    assert scaled(eager, enabled=False)[-1] == {}


@pytest.mark.parametrize(
    ("name", "how"),
    [("gelu", {}), ("gelu", {"approximate": "tanh"}), ("silu", {}), ("mish", {})],
)
@pytest.mark.parametrize("dtype", [eager.bfloat16, eager.float16])
def test_gradients_of_activations_are_rounded_once(name, how, dtype):
    def gradient(x, g):
        x = x.detach().requires_grad_()
        return eager.autograd.grad(getattr(eager.nn.functional, name)(x, **how), x, g)[0]

    x, g = eager.linspace(-6, 6, 97).to(dtype), eager.linspace(-2, 3, 97).to(dtype)
    expected = gradient(x.float(), g.float()).to(dtype)
    for run in (gradient, jit(gradient, backend="eager")):
        found = run(x, g)
        assert found.dtype is dtype and found.tolist() == expected.tolist()
