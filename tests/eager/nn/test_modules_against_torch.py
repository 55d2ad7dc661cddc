"""Every module against torch's: same weights in, same result, same gradients, same state keys, same
repr."""

import copy
import functools

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from nn_cases import CASES, arrays, flat, tensors  # noqa: E402

import eager  # noqa: E402
from jitcap import jit  # noqa: E402


def build(name, args, kwargs):
    """torch's module and ours with its weights, in float64."""
    torch.manual_seed(0)
    theirs = getattr(torch.nn, name)(*args, **kwargs).double()
    ours = getattr(eager.nn, name)(*args, **kwargs).double()
    state = {k: eager.tensor(v.numpy().copy()) for k, v in theirs.state_dict().items()}
    assert list(state) == list(ours.state_dict())
    ours.load_state_dict(state)
    return ours, theirs


def assert_same(ours, theirs):
    a, b = ours.detach().numpy(), theirs.detach().numpy()
    assert a.shape == b.shape
    np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7)


def run(module, inputs):
    outs = flat(module(*inputs))
    total = sum((t * t).sum() for t in outs if t.dtype.is_floating_point)
    if total.requires_grad:
        total.backward()
    return outs


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize(("name", "args", "kwargs", "specs"), CASES, ids=lambda v: str(v)[:60])
def test_module(name, args, kwargs, specs, training):
    if training and name == "RReLU":
        pytest.skip("random slopes")
    ours, theirs = build(name, args, kwargs)
    ours.train(training)
    theirs.train(training)
    given = arrays(specs)
    mine, yours = tensors(eager, given, name), tensors(torch, given, name)
    for a, b in zip(run(ours, mine), run(theirs, yours), strict=True):
        assert_same(a, b)
    for a, b in zip(mine, yours, strict=True):
        if b.grad is not None:
            assert_same(a.grad, b.grad)
    for (key, a), (_, b) in zip(ours.named_parameters(), theirs.named_parameters(), strict=True):
        assert (a.grad is None) == (b.grad is None), key
        if b.grad is not None:
            assert_same(a.grad, b.grad)
    for a, b in zip(ours.state_dict().values(), theirs.state_dict().values(), strict=True):
        assert_same(a, b)


@pytest.mark.parametrize(("name", "args", "kwargs", "specs"), CASES, ids=lambda v: str(v)[:60])
def test_copies_and_state(name, args, kwargs, specs):
    module = getattr(eager.nn, name)(*args, **kwargs)
    module.load_state_dict(copy.deepcopy(module).state_dict())
    theirs = getattr(torch.nn, name)(*args, **kwargs)
    assert [k for k, _ in module.named_modules()] == [k for k, _ in theirs.named_modules()]
    ours_shapes = {k: tuple(p.shape) for k, p in module.named_parameters()}
    assert ours_shapes == {k: tuple(p.shape) for k, p in theirs.named_parameters()}


SIMPLE = [c for c in CASES if "Transformer" not in c[0] and "Multihead" not in c[0]]


@pytest.mark.parametrize(("name", "args", "kwargs", "specs"), SIMPLE, ids=lambda v: str(v)[:60])
def test_repr(name, args, kwargs, specs):
    ours = repr(getattr(eager.nn, name)(*args, **kwargs))
    assert ours == repr(getattr(torch.nn, name)(*args, **kwargs))


@pytest.mark.parametrize(
    "name", ["Linear", "Conv2d", "Embedding", "LSTM", "GRUCell", "MultiheadAttention"]
)
def test_initial_values_have_the_same_spread(name):
    args = {
        "Linear": (300, 200),
        "Conv2d": (32, 48, 5),
        "Embedding": (300, 100),
        "LSTM": (64, 80),
        "GRUCell": (64, 80),
        "MultiheadAttention": (120, 4),
    }[name]
    torch.manual_seed(0)
    eager.manual_seed(0)
    ours, theirs = getattr(eager.nn, name)(*args), getattr(torch.nn, name)(*args)
    for (key, a), (_, b) in zip(ours.named_parameters(), theirs.named_parameters(), strict=True):
        a, b = a.detach().numpy(), b.detach().numpy()
        assert abs(a.std() - b.std()) <= 0.1 * b.std() + 1e-12, key
        assert abs(a.max() - b.max()) <= 0.25 * abs(b.max()) + 1e-12, key


@pytest.mark.filterwarnings("ignore:.*is deprecated:FutureWarning")
@pytest.mark.parametrize("name", ["weight_norm", "weight_norm of all", "spectral_norm"])
def test_norms_of_weights(name):
    """Parameters, three compiled steps of descent, and the layer without the norm again."""
    kind, _, dim = name.partition(" ")
    results = []
    for lib in (torch, eager):
        layer = getattr(lib.nn, "ConvTranspose2d" if kind == "spectral_norm" else "Conv2d")(2, 3, 2)
        with lib.no_grad():
            for i, p in enumerate(layer.parameters()):
                p.copy_(lib.linspace(-1, 2 + i, p.numel()).view(p.shape))
        make = getattr(lib.nn.utils, kind)
        make(layer, **({"dim": None} if dim else {}))
        with pytest.raises(RuntimeError, match="two"):
            make(layer)
        for key, buffer in layer.named_buffers():
            buffer.copy_(lib.nn.functional.normalize(lib.ones(buffer.shape), dim=0))
        names = list(layer.state_dict())

        def step(x, layer=layer):
            layer.zero_grad()
            out = layer(x)
            (out * out).mean().backward()
            return out.detach(), [p.grad.clone() for p in layer.parameters()]

        x = lib.linspace(-1, 1, 36).view(2, 2, 3, 3)
        run = jit(step) if lib is eager else step
        steps = [run(x) for _ in range(2)]
        getattr(lib.nn.utils, f"remove_{kind}")(layer.eval())
        results.append((names, list(layer.state_dict()), [*steps[0][1], *steps[1][1], layer(x)]))
    (names, after, want), (our_names, our_after, got) = results
    assert (names, sorted(after)) == (our_names, sorted(our_after))
    for ours, theirs in zip(got, want, strict=True):
        np.testing.assert_allclose(ours.detach(), theirs.detach(), rtol=1e-4, atol=1e-5)


@pytest.mark.filterwarnings("ignore:Full backward hook is firing")
def test_backward_hooks_see_and_change_gradients():
    def run(lib, jitted=lambda f: f):
        m = lib.nn.Sequential(lib.nn.Linear(2, 2), lib.nn.Tanh(), lib.nn.Linear(2, 1))
        with lib.no_grad():
            for i, p in enumerate(m.parameters()):
                p.copy_(lib.arange(p.numel()).reshape(p.shape) / 4 - i)
        seen = []
        for each in m:
            each.register_full_backward_hook(lambda mod, i, o: seen.append([*i, *o]))
        m[1].register_full_backward_pre_hook(lambda mod, o: (o[0] * 0.5,))
        handle = m[2].register_full_backward_hook(lambda mod, i, o: (i[0] * 3,))

        @jitted
        def step(x):
            m.zero_grad()
            m(x).pow(2).sum().backward()
            return [p.grad for p in m.parameters()]

        grads = [step(lib.tensor([[1.0, 2.0], [0.5, -1.0]]))]
        handle.remove()
        seen.append(step(lib.tensor([[1.0, 2.0], [0.5, -1.0]])))
        given = [None if g is None else g.tolist() for g in sum(seen + grads, [])]
        return np.array([v for g in given if g is not None for v in np.ravel(g)]), given

    theirs, shape = run(torch)
    for jitted in (lambda f: f, functools.partial(jit, backend="eager")):
        ours, mine = run(eager, jitted)
        assert [g is None for g in mine] == [g is None for g in shape]
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("kind", "sorts"), [("LSTM", False), ("GRU", True)])
def test_packed_sequences(kind, sorts):
    theirs = getattr(torch.nn, kind)(2, 3, 2, bidirectional=True)
    ours = getattr(eager.nn, kind)(2, 3, 2, bidirectional=True)
    ours.load_state_dict({k: eager.tensor(v.numpy()) for k, v in theirs.state_dict().items()})
    lengths = [4, 3, 1] if sorts else [2, 4, 3]
    data = np.random.default_rng(0).standard_normal((4, 3, 2), dtype=np.float32)
    state = np.random.default_rng(1).standard_normal((4, 3, 3), dtype=np.float32)

    def run(lib, layer, x, h):
        rnn = lib.nn.utils.rnn
        given = rnn.pack_padded_sequence(x, lengths, enforce_sorted=sorts)
        out, last = layer(given, (h, h) if kind == "LSTM" else h)
        padded, sizes = rnn.pad_packed_sequence(out, padding_value=-1.0, total_length=5)
        last = last if kind == "LSTM" else (last,)
        (padded.sum() + last[-1].sum()).backward()
        parts = rnn.unpack_sequence(
            rnn.pack_sequence([x[:n, i] for i, n in enumerate(lengths)], sorts)
        )
        first, _ = rnn.pad_packed_sequence(given.double(), batch_first=True)
        assert first.is_contiguous() != sorts  # so that `view` has its rows
        return [given.data, given.batch_sizes, padded, sizes, *last, x.grad, *parts, first]

    expected = run(torch, theirs, torch.tensor(data, requires_grad=True), torch.tensor(state))
    step = jit(run, backend="eager")
    for call in (run, step):
        got = call(eager, ours, eager.tensor(data, requires_grad=True), eager.tensor(state))
        for a, b in zip(got, expected, strict=True):
            np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-4, atol=1e-6)
    assert (step.stats.compiles, step.stats.splits, step.stats.fallbacks) == (1, 0, 0)
    if not sorts:
        with pytest.raises(RuntimeError, match="sorted in decreasing order"):
            eager.nn.utils.rnn.pack_padded_sequence(eager.tensor(data), lengths)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("spread", [0.1, 3.0], ids=["some clusters", "all"])
def test_adaptive_softmax(spread):
    """All log probabilities and the best class; a split step has the same gradients."""
    ours, theirs = build("AdaptiveLogSoftmaxWithLoss", (8, 20, [4, 10, 15]), {"div_value": 1.5})
    draw = np.random.default_rng(0)
    x, t = draw.standard_normal((9, 8)) * spread, draw.integers(0, 20, 9)
    assert_same(ours.log_prob(eager.tensor(x)), theirs.log_prob(torch.from_numpy(x)))
    assert_same(ours.predict(eager.tensor(x)), theirs.predict(torch.from_numpy(x)))
    for bad in (ours, theirs):
        make = eager.tensor if bad is ours else torch.tensor
        with pytest.raises(RuntimeError, match=r"should be in \[0, 19\]"):
            bad(make(x), make([20] * 9))
    step = jit(lambda x, t: ours(x, t).loss.backward(), backend="python")
    for _ in range(2):  # the first may go a way that is not compiled: then it is split there
        step(eager.tensor(x), eager.tensor(t))
        theirs(torch.from_numpy(x), torch.from_numpy(t)).loss.backward()
        for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
            assert (a.grad is None) == (b.grad is None)
            if b.grad is not None:
                assert_same(a.grad, b.grad)
    assert step.stats.splits
