"""Tensors of the device "meta": everything but values, as in PyTorch."""

import copy

import pytest

import eager
import jitcap
from eager import nn

CASES = {}


def case(fn):
    CASES[fn.__name__] = fn
    return fn


@case
def constructors(t):
    meta = t.device("meta")
    made = [t.empty(2, 3, device=meta), t.randn(4, device=meta), t.tensor([1, 2], device="meta")]
    made += [t.arange(5, device=meta), t.eye(3, device=meta), t.ones(2).to("meta")]
    made += [t.zeros_like(made[0]), made[0].new_ones(3), t.ones(2, dtype=t.float64, device=meta)]
    return [(repr(x), x.device, x.is_meta, x.is_cpu, x.stride()) for x in made]


@case
def operations(t):
    x = t.empty(4, 6, device="meta")
    found = [x.t(), x[1:, ::2], x.view(2, 12), x.T.contiguous(), x.sum(0), x @ x.T, t.cat([x, x])]
    found += [x.softmax(1), x.max(1)[1], x.sort()[0], t.where(x > 0, x, 0.0), x.to(t.bfloat16)]
    found += [t.einsum("ij,kj->ik", x, x), x.cumsum(0), x + t.tensor(1.0), x.std()]
    return [(y.shape, y.dtype, y.stride(), y.device) for y in found]


@case
def writes(t):
    x = t.empty(4, 6, device="meta")
    x[0] = 1
    x[:, 1] += 2
    x.add_(1).fill_(2).copy_(t.ones(4, 6))
    return x.shape, x.device


@case
def a_module_is_trained(t):
    with t.device("meta"):
        m = t.nn.Sequential(t.nn.Conv2d(3, 4, 3), t.nn.BatchNorm2d(4), t.nn.Flatten())
        m.append(t.nn.TransformerEncoderLayer(144, 2, 16, batch_first=True))
        x = t.randn(2, 3, 8, 8)
    optimizer = t.optim.AdamW(m.parameters())
    m(x).sum().backward()
    optimizer.step()
    return [(p.shape, p.grad.shape, p.grad.device) for p in m.parameters()]


@case
def it_gets_values(t):
    m = t.nn.Linear(2, 3, device="meta")
    moved = copy.deepcopy(m).to_empty(device="cpu")
    m.load_state_dict(t.nn.Linear(2, 3).state_dict(), assign=True)
    base = t.nn.Linear(2, 2).to("meta")
    called = t.func.functional_call(
        base, {"weight": t.ones(2, 2), "bias": t.zeros(2)}, t.ones(1, 2)
    )
    return moved.weight.device, m.weight.device, m.weight.requires_grad, called.tolist()


@case
def draws_are_not_counted(t):
    t.manual_seed(0)
    first = t.rand(1).item()
    t.manual_seed(0)
    t.nn.Linear(3, 3, device="meta")
    return first == t.rand(1).item()


@pytest.mark.parametrize("name", CASES)
def test_like_pytorch(name):
    torch = pytest.importorskip("torch")
    ours, theirs = (str(CASES[name](t)).replace("eager.", "torch.") for t in (eager, torch))
    assert ours == theirs


@pytest.mark.parametrize(
    "read",
    [
        lambda x: x.cpu(),
        lambda x: x.sum().item(),
        lambda x: bool(x.sum()),
        lambda x: x.tolist(),
        lambda x: x.nonzero(),
        lambda x: x[x > 0],
        lambda x: eager.ones(2) + x,
        lambda x: nn.Linear(2, 2, device=x.device).to("cpu"),
    ],
)
def test_values_cannot_be_read(read):
    with pytest.raises(RuntimeError, match=r"meta"):
        read(eager.ones(2, device="meta"))


@pytest.mark.parametrize("backend", [None, "cpp", "eager"])
def test_compiled(backend):
    """A graph with such tensors runs op by op: there is nothing to compile."""
    layer = nn.Linear(2, 3, device="meta")

    def step(x):
        loss = layer(x.to("meta")).square().sum()
        loss.backward()
        return loss, x * 2

    compiled = jitcap.jit(step, backend=backend)
    for _ in range(2):
        loss, y = compiled(eager.ones(4, 2))
        assert str(loss) == str(step(eager.ones(4, 2))[0])
        assert loss.is_meta and layer.weight.grad.is_meta and y.tolist() == [[2.0, 2.0]] * 4
    assert compiled.stats.splits == compiled.stats.fallbacks == 0
