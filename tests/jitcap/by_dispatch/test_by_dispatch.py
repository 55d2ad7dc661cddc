"""A CPython whose bytecode is not known: calls are traced by dispatch, with plain Python's answers."""

import contextlib
import time

import numpy as np
import pytest
from by_dispatch import close, run, same, unknown_python  # noqa: F401 - a fixture

import eager
import eager.nn.functional as F
import jitcap
from eager import nn
from jitcap import JitcapWarning, jit
from jitcap.base.breaks import Break


def training(model, loss, optimizer=eager.optim.AdamW):
    """A whole training step."""

    def build():
        net = model()
        opt = optimizer(net.parameters(), lr=1e-2)

        def step(x, y):
            opt.zero_grad()
            out = loss(net(x), y)
            out.backward()
            opt.step()
            return out

        return step, lambda: [*net.state_dict().values(), *(p.grad for p in net.parameters())]

    return build


def batches(count, *shape, classes=3):
    eager.manual_seed(3)
    return [(eager.randn(*shape), eager.randint(0, classes, shape[:1])) for _ in range(count)]


# ---- whole training steps


@pytest.mark.parametrize(
    "optimizer", ["SGD", "Adam", "AdamW", "RMSprop", "NAdam", "RAdam", "Adagrad"]
)
def test_mlp(optimizer):
    def model():
        return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 3))

    kind = getattr(eager.optim, optimizer)
    stats = same(training(model, F.cross_entropy, kind), batches(5, 6, 4))
    assert stats.graphs == 1


@pytest.mark.once
def test_cnn():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(1, 4, 3, padding=1, bias=False)  # the norm undoes it
            self.norm = nn.BatchNorm2d(4)
            self.head = nn.Linear(4, 3)

        def forward(self, x):
            x = F.max_pool2d(F.relu(self.norm(self.conv(x))), 2)
            return self.head(x.mean((2, 3)))

    same(training(Net, F.cross_entropy), batches(4, 2, 1, 6, 6))


@pytest.mark.once
def test_gru():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.gru = nn.GRU(3, 5, batch_first=True)
            self.head = nn.Linear(5, 3)

        def forward(self, x):
            out, _ = self.gru(x)
            return self.head(out[:, -1])

    same(training(Net, F.cross_entropy), batches(3, 2, 4, 3))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        )

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(self.norm1(x)).chunk(3, dim=-1)
        q, k, v = (z.reshape(b, t, self.heads, c // self.heads).transpose(1, 2) for z in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, c))
        return x + self.mlp(self.norm2(x))


@pytest.mark.once
def test_gpt_with_clipping_and_a_schedule():
    """The step counts its calls, and the rate changes with them."""

    class Gpt(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.places = nn.Embedding(11, 8), nn.Embedding(6, 8)
            self.blocks = nn.ModuleList(Block(8, 2) for _ in range(2))
            self.head = nn.Linear(8, 11, bias=False)

        def forward(self, ids):
            x = self.tokens(ids) + self.places(eager.arange(ids.shape[1]))
            for block in self.blocks:
                x = block(x)
            return self.head(x)

    def build():
        net = Gpt()
        opt = eager.optim.SGD(net.parameters(), lr=1e-2, momentum=0.9)  # of zero gradients, zero

        def step(ids):
            logits = net(ids[:, :-1])
            loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            opt.step()
            opt.zero_grad()
            opt.param_groups[0]["lr"] *= 0.9
            return loss.item()

        return step, lambda: list(net.state_dict().values())

    eager.manual_seed(2)
    calls = [(eager.randint(0, 11, (2, 6)),) for _ in range(6)]
    same(build, calls, compiles=2)


def test_backward_outside():
    """The joint graph, as of any other version."""

    def build():
        net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
        return (lambda x: net(x).sum()), lambda: list(net.parameters()), net

    grads = []
    for wrap in (lambda f: f, lambda f: jit(f, backend="python")):
        eager.manual_seed(0)
        forward, look, _ = build()
        forward = wrap(forward)
        for x in (eager.ones(2, 3), eager.full((2, 3), 0.5)):
            forward(x).backward()
        grads.append([p.grad for p in look()])
    close(*grads)


# ---- what is like any other version


def test_fullgraph_stance_explain_and_verify():
    def step(x):
        return (x * 2).relu().sum()

    def branches(x):
        return x if x.sum() > 0 else -x

    x = eager.ones(3)
    assert jit(step, fullgraph=True, backend="python")(x).item() == 6
    assert jit(step, verify=True, backend="python")(x).item() == 6
    shown = jitcap.explain(step, backend="python")(x)
    assert len(shown.graphs) == 1 and any("float32[3]" in g for g in shown.guards)
    with pytest.raises(Break, match="bool"):
        jit(branches, fullgraph=True)(x)
    with jitcap.stance("fail_on_split"), pytest.raises(Break, match="bool"):
        jit(branches)(x)


def test_it_is_said_once():
    jitcap.reset()
    with pytest.warns(JitcapWarning, match="traced by dispatch") as said:
        assert [jit(lambda x, k=k: x * k)(eager.ones(1)).item() for k in range(3)] == [0, 1, 2]
    assert len(said) == 1


READS = {
    "bool": lambda x: x if x.sum() else -x,
    "if": lambda x: x if x.sum() > 1 else -x,
    "float": lambda x: x * float(x.sum()),
    "numpy": lambda x: x + int(x.numpy()[0]),
    "tolist": lambda x: x * x.tolist()[0],
    "caught": lambda x: caught(x),
}


def caught(x):
    """The refusal stands, whatever the program makes of it."""
    with contextlib.suppress(Exception):
        return x * x.detach().numpy().sum()
    return x * 0


@pytest.mark.parametrize("name", READS)
def test_a_read_of_a_value_runs_plainly(name):
    step = jit(READS[name])
    with pytest.warns(JitcapWarning, match="data dependent"):
        close(step(eager.ones(3)), READS[name](eager.ones(3)))
    assert step.stats.fallbacks == 1 and step.stats.compiles == 0


def test_a_number_of_the_graph_is_returned():
    def step(x):
        n = x.sum().item()
        return (n * 2, isinstance(n, float), [n])

    jitted = jit(step, backend="python")
    assert [jitted(eager.ones(k + 2) * k) for k in (1, 2)] == [
        step(eager.ones(k + 2) * k) for k in (1, 2)
    ]
    assert jitted.stats.fallbacks == 0


EFFECTS = {
    "print": lambda x: (print("once a call"), x + 1)[1],  # noqa: T201
    "time": lambda x: x + 0 * time.time(),
    "drawn": lambda x: x + 0 * float(np.random.rand()),  # noqa: NPY002
    "id": lambda x: x + 0 * id(x),
    "array": lambda x: x + float(ARRAY.sum()),
    "disabled": lambda x: plainly(x),
}
ARRAY = np.ones(2)
plainly = jitcap.disable(lambda x: x + 1)


@pytest.mark.parametrize("name", EFFECTS)
def test_what_no_trace_can_keep_is_not_called(name, capsys):
    """Refused before it is called, then the function runs plainly: once a call."""
    step = jit(EFFECTS[name])
    with pytest.warns(JitcapWarning, match="runs as plain Python"):
        results = [step(eager.ones(2)).tolist() for _ in range(2)]
    assert len(results) == 2
    assert step.stats.compiles == 0
    assert capsys.readouterr().out.count("once") == (2 if name == "print" else 0)


def test_generators_inside():
    def build():
        def halves(x):
            while x.shape[0] > 1:
                x = x[: x.shape[0] // 2] * 2
                yield x

        def step(x):
            return sum(h.sum() for h in halves(x)), [h for h in halves(x)][-1]

        return step, list

    same(build, [(eager.arange(8.0),), (eager.ones(8),)])


def test_a_generator_function_runs_plainly():
    def step(x):
        yield x + 1

    jitted = jit(step)
    with pytest.warns(JitcapWarning, match="generator"):
        (got,) = jitted(eager.ones(1))
    assert got.item() == 2


def test_an_error_is_pythons_and_leaves_nothing():
    seen, weight = [], eager.ones(2)

    def step(x):
        seen.append(1)
        weight.add_(x)
        return x @ eager.ones(5)

    jitted = jit(step)
    with pytest.raises(RuntimeError):
        jitted(eager.ones(2))
    assert seen == [1]
    assert weight.tolist() == [2, 2]
    assert type(weight._array) is np.ndarray


def test_an_error_that_is_caught():
    def build():
        def step(x):
            try:
                return x @ eager.ones(x.shape[0] + 1)
            except RuntimeError:
                return x * 2

        return step, list

    same(build, [(eager.ones(2),), (eager.ones(2),)])


@pytest.mark.filterwarnings("ignore:from_numpy. the array is not writable")
def test_memory_that_is_read_only():
    step = jit(lambda t: t.add_(1), backend="python")
    step(eager.ones(4))
    array = np.ones(4, np.float32)
    array.setflags(write=False)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="read-only"):
            step(eager.from_numpy(array))
    assert array.tolist() == [1.0] * 4
    assert (step.stats.compiles, step.stats.fallbacks) == (1, 0), str(step.stats)
