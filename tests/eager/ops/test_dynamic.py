"""A seeded slice of the registry's samples on one trace with symbols; `scripts/dynamic` runs all."""

import random

import dynamic
import numpy as np
import op_harness as harness
import pytest

import eager
from eager.core.op import Sample
from eager.core.registry import PUBLIC

pytestmark = pytest.mark.filterwarnings("ignore")
OPS = 90
CHOSEN = sorted(random.Random(4).sample([p.torch for p in dynamic.cases()], OPS))


@pytest.mark.parametrize("name", CHOSEN)
def test_one_trace_at_two_sizes(name):
    """Values and gradients are eager's at both sizes; what specialises has a reason."""
    for p in (p for p in dynamic.cases() if p.torch == name):
        for sample in harness.samples(p):
            for outcome in dynamic.outcomes(p, sample):
                assert dynamic.accepted(name, outcome), outcome


@pytest.mark.parametrize("name", random.Random(5).sample(CHOSEN, 30))
def test_one_compile_at_two_sizes(name, monkeypatch):
    """The same by code generation."""
    monkeypatch.setattr(dynamic, "BACKEND", "python")
    test_one_trace_at_two_sizes(name)


def test_reasons_are_of_ops():
    """The table names ops that there are."""
    names = {p.torch for p in dynamic.cases()}
    assert set(dynamic.SPECIALISE) <= names
    assert set(dynamic.VALUES) <= names


def _outcome(fn, *args):
    p = PUBLIC["exp"]
    found = dynamic.outcomes(p.__class__("f", fn, "f", None, True), Sample(args))
    assert len(found) == 1
    return found[0]


def test_the_comparison_sees_faults():
    """A size that is fixed, one that gets into the program unseen, and a fault at one size."""
    x = np.arange(12.0).reshape(3, 4)
    assert _outcome(lambda x: x * 2, x).what == "right"
    assert _outcome(lambda x: x * int(x.shape[0]), x).what == "specialised"
    assert _outcome(lambda x: x * eager.sizes.symint.hint(x.shape[0]), x).what == "wrong"
    assert _outcome(lambda x: x.new_zeros(eager.sizes.symint.hint(x.shape[0])), x).what == "wrong"
    assert _outcome(lambda x: x + eager.sizes.symint.hint(x.shape[0]) * 0 + 1, x).what == "right"


def _traced_at(fn, arrays, at, symbols=None):
    """`fn` of tensors traced with dimensions as symbols (all of them, or those of these sizes), and
    its results at other arrays."""

    def program(args, kwargs):
        found = fn(*args)
        return list(found) if isinstance(found, tuple) else [found]

    traced = dynamic.Traced(
        program, (list(arrays), {}), symbols or sorted({n for a in arrays for n in a.shape}), False
    )
    sizes = {
        n: m for a, b in zip(arrays, at, strict=True) for n, m in zip(a.shape, b.shape, strict=True)
    }
    assert not traced.broken(sizes), traced.broken(sizes)
    return traced.run((list(at), {}), sizes), [
        t.numpy() for t in program([eager.tensor(b) for b in at], {})
    ]


PROGRAMS = {
    "slices": lambda x: (x[1:], x[:-1], x[..., None], x[:, ::2], x[-2:], x[: x.shape[0] // 2 + 1]),
    "a cache": lambda x: (x[:, : x.shape[1] - 1].sum(1), x[:, x.shape[1] - 1]),
    "merged and split": lambda x: x.reshape(-1).view(x.shape[0], -1).unflatten(1, (-1, 1)).flatten(),
    "halves": lambda x: eager.cat([x, x]).chunk(2)[1] + eager.cat([x, x], 1).chunk(2, 1)[0],
    "created": lambda x: eager.zeros(x.shape) + eager.ones(x.shape[0], 1) * eager.arange(x.shape[1]),
    "filled": lambda x: x.new_full((x.shape[1], 2), 3.0) * eager.eye(x.shape[1])[:, :2],
    "a mask": lambda x: eager.tril(x @ x.T) + eager.ones(x.shape[0], x.shape[0]).triu(1),
    "repeated": lambda x: x.repeat(2, 3).roll(1, 0).flip(1),
    "sizes as numbers": lambda x: x * x.shape[0] / x.shape[1] + eager.tensor(x.shape).sum(),
    "a mean by hand": lambda x: x.sum() / x.numel() + x.sum(0) * (1.0 / len(x.shape)),
    "windows": lambda x: eager.nn.functional.max_pool1d(x[None], 3, 2, 1, ceil_mode=True),
    "positions": lambda x: eager.linspace(0, 1, x.shape[0])[:, None] + eager.meshgrid(
        eager.arange(x.shape[0]), eager.arange(x.shape[1]), indexing="ij")[0],
    "written": lambda x: x.clone().index_fill_(0, eager.arange(2), 1.0).fill_diagonal_(0.5),
}  # fmt: skip


@pytest.mark.parametrize("backend", ["", "python", "cpp"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_over_sizes(name, backend, monkeypatch):
    """What people write with sizes, on one trace."""
    monkeypatch.setattr(dynamic, "BACKEND", backend)
    rng = np.random.default_rng(0)
    found, expected = _traced_at(
        PROGRAMS[name], [rng.standard_normal((5, 6))], [rng.standard_normal((8, 11))]
    )
    assert not dynamic.different(found, expected)


def _grads(model, out):
    return [out.detach(), *eager.autograd.grad((out * out).sum(), list(model.parameters()))]


def _model(name):
    nn = eager.nn
    eager.manual_seed(0)
    if name == "conv":
        return nn.Sequential(
            nn.Conv2d(3, 4, 3, padding=1), nn.GroupNorm(2, 4), nn.ReLU(), nn.MaxPool2d(2),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2),
        )  # fmt: skip
    if name == "gru":
        return nn.GRU(4, 3, batch_first=True)
    if name == "lstm":
        return nn.LSTM(4, 3)
    if name == "attention":
        return nn.MultiheadAttention(4, 2, batch_first=True)
    return nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True)


MODELS = {  # name: sizes of its input, and others; None: static
    "conv": ((5, 3, 9, 8), (7, 3, 12, 16)),
    "gru": ((5, 3, 4), (9, 3, 4)),
    "lstm": ((3, 5, 4), (3, 8, 4)),
    "attention": ((5, 7, 4), (6, 9, 4)),
    "transformer": ((5, 7, 4), (6, 9, 4)),
}


@pytest.mark.parametrize("backend", ["", "cpp"])
@pytest.mark.parametrize("name", MODELS)
def test_modules_over_sizes(name, backend, monkeypatch):
    """Modules with static features and symbolic batches, lengths and images; gradients too."""
    monkeypatch.setattr(dynamic, "BACKEND", backend)
    model = _model(name).double()
    now, later = MODELS[name]

    def step(x):
        out = model(x, x, x)[0] if name == "attention" else model(x)
        return tuple(_grads(model, out[0] if isinstance(out, tuple) else out))

    rng = np.random.default_rng(0)
    given = [rng.standard_normal(now)], [rng.standard_normal(later)]
    changed = sorted({n for n, m in zip(now, later, strict=True) if n != m})
    found, expected = _traced_at(step, *given, changed)
    assert not dynamic.different(found, expected)
