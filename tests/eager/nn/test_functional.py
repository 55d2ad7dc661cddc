"""Functions whose behaviour samples cannot show: random ones, masks, errors, in-place statistics,
gradients that are cut."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
import eager  # noqa: E402
from jitcap import jit  # noqa: E402

F, TF = eager.nn.functional, torch.nn.functional


def both(*shapes, seed=0):
    rng = np.random.default_rng(seed)
    arrays = [rng.normal(size=s).astype(np.float32) for s in shapes]
    return [eager.tensor(a) for a in arrays], [torch.tensor(a) for a in arrays]


def same(a, b, tol=1e-5):
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=tol, atol=tol)


@pytest.mark.parametrize(
    "name",
    ["dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout"],
)
def test_dropout(name):
    fn = getattr(F, name)
    x = eager.ones(64, 32, 4, 4)
    assert fn(x, 0.3, training=False) is x
    out = fn(x, 0.3, training=True)
    if "alpha" in name:  # keeps mean and variance
        out = fn(eager.randn(64, 32, 4, 4), 0.3, training=True)
        assert abs(out.mean().item()) < 0.1
        assert abs(out.std().item() - 1) < 0.1
    else:
        assert abs(out.mean().item() - 1) < 0.05
    if name.endswith("d"):
        planes = out.numpy().reshape(64 * 32, -1)
        assert (planes == planes[:, :1]).all()
    if "alpha" not in name:
        kept = out.numpy() != 0
        assert abs(kept.mean() - 0.7) < 0.05
        np.testing.assert_allclose(out.numpy()[kept], 1 / 0.7, rtol=1e-6)
        assert fn(x, 1.0, training=True).abs().sum().item() == 0
    with pytest.raises(ValueError):
        fn(x, 1.5)


def test_dropout_gradient_uses_the_mask_of_the_forward_pass():
    x = eager.ones(1000).requires_grad_()
    out = F.dropout(x, 0.5)
    out.sum().backward()
    assert np.array_equal(x.grad.numpy(), out.detach().numpy())


def test_embedding_padding_and_max_norm():
    (w,), (v,) = both((6, 3))
    index = np.array([[0, 2], [2, 5]])
    w.requires_grad_()
    v.requires_grad_()
    F.embedding(eager.tensor(index), w, padding_idx=2).sum().backward()
    TF.embedding(torch.tensor(index), v, padding_idx=2).sum().backward()
    same(w.grad, v.grad)
    a, b = w.detach().clone(), v.detach().clone()
    same(
        F.embedding(eager.tensor(index), a, max_norm=0.5),
        TF.embedding(torch.tensor(index), b, max_norm=0.5),
    )
    same(a, b)
    with pytest.raises(IndexError):
        F.embedding(eager.tensor([6]), w)


def test_attention_masks():
    q, t = both((2, 3, 5, 4), (2, 3, 6, 4), (2, 3, 6, 7))
    mask = np.random.default_rng(0).random((2, 1, 5, 6)) > 0.4
    same(
        F.scaled_dot_product_attention(*q, attn_mask=eager.tensor(mask)),
        TF.scaled_dot_product_attention(*t, attn_mask=torch.tensor(mask)),
    )
    grouped, expected = both((2, 6, 5, 4), (2, 3, 5, 4), (2, 3, 5, 4))
    same(
        F.scaled_dot_product_attention(*grouped, is_causal=True, enable_gqa=True),
        TF.scaled_dot_product_attention(*expected, is_causal=True, enable_gqa=True),
    )
    with pytest.raises(RuntimeError):
        F.scaled_dot_product_attention(*q, attn_mask=eager.tensor(mask), is_causal=True)


def test_batch_norm_moves_running_statistics():
    (x, m, v), (tx, tm, tv) = both((4, 3, 2), (3,), (3,))
    v, tv = v.abs(), tv.abs()
    same(
        F.batch_norm(x, m, v, training=True, momentum=0.3),
        TF.batch_norm(tx, tm, tv, training=True, momentum=0.3),
    )
    same(m, tm)
    same(v, tv)
    with pytest.raises(ValueError, match="more than 1 value"):
        F.batch_norm(eager.ones(1, 3), m, v, training=True)


@pytest.mark.parametrize("training", [True, False])
def test_relu_in_place_after_a_norm_without_parameters(training):
    grads = []
    for library in (eager, torch):
        (x,) = both((4, 3, 5))[0 if library is eager else 1]
        x.requires_grad_()
        norm = library.nn.InstanceNorm1d(3).train(training)
        library.nn.ReLU(inplace=True)(norm(x)).square().sum().backward()
        grads.append(x.grad)
    same(*grads, tol=1e-4)


def test_cross_entropy_of_a_large_loss_and_all_ignored():
    x = eager.tensor([[1e4, -1e4, 0.0]]).requires_grad_()
    loss = F.cross_entropy(x, eager.tensor([1]))
    assert loss.item() == 2e4
    loss.backward()
    assert x.grad.tolist() == [[1.0, -1.0, 0.0]]
    assert np.isnan(F.cross_entropy(x, eager.tensor([-100])).item())
    with pytest.raises(IndexError):
        F.cross_entropy(x, eager.tensor([3]))
    with pytest.raises(ValueError, match="batch_size"):
        F.cross_entropy(x, eager.tensor([1, 2]))


def test_cross_entropy_gradient_with_ignored_targets():
    (x,), (tx,) = both((6, 5))
    target = np.array([0, -100, 3, 4, -100, 1])
    x.requires_grad_()
    tx.requires_grad_()
    F.cross_entropy(x, eager.tensor(target)).backward()
    TF.cross_entropy(tx, torch.tensor(target)).backward()
    same(x.grad, tx.grad)


def test_gumbel_softmax():
    logits = eager.zeros(2000, 3)
    logits[:, 0] = 1.0
    hard = F.gumbel_softmax(logits, hard=True)
    assert np.allclose(hard.sum(-1).numpy(), 1)
    share = hard.mean(0).numpy()
    np.testing.assert_allclose(share, np.array([2.718, 1, 1]) / 4.718, atol=0.05)
    soft = F.gumbel_softmax(logits.requires_grad_(), tau=0.5)
    soft.square().sum().backward()
    assert logits.grad.abs().sum().item() > 0


def test_fold_undoes_unfold_up_to_counts():
    (x,), (tx,) = both((2, 3, 6, 7))
    columns = F.unfold(x, 3, padding=1)
    same(columns, TF.unfold(tx, 3, padding=1))
    same(
        F.fold(columns, (6, 7), 3, padding=1),
        TF.fold(TF.unfold(tx, 3, padding=1), (6, 7), 3, padding=1),
    )


def test_max_unpool():
    (x,), (tx,) = both((2, 3, 6, 6))
    same(
        F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2),
        TF.max_unpool2d(*TF.max_pool2d(tx, 2, return_indices=True), 2),
    )


def test_max_pool_takes_nan():
    x = eager.tensor([[[[1.0, float("nan")], [2.0, 3.0]]]])
    assert np.isnan(F.max_pool2d(x, 2).item())


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: F.linear(eager.ones(2, 3), eager.ones(4, 5)), RuntimeError),
        (lambda: F.conv2d(eager.ones(1, 3, 4, 4), eager.ones(2, 4, 3, 3)), RuntimeError),
        (lambda: F.conv2d(eager.ones(1, 3, 2, 2), eager.ones(2, 3, 3, 3)), RuntimeError),
        (lambda: F.conv2d(eager.ones(3, 2), eager.ones(2, 3, 3, 3)), RuntimeError),
        (lambda: F.max_pool2d(eager.ones(1, 1, 4, 4), 2, padding=2), RuntimeError),
        (lambda: F.layer_norm(eager.ones(2, 3), (4,)), RuntimeError),
        (lambda: F.pad(eager.ones(2, 3), (1, 1, 1)), RuntimeError),
        (lambda: F.mse_loss(eager.ones(2), eager.ones(2), reduction="avg"), ValueError),
        (lambda: F.binary_cross_entropy(eager.ones(2), eager.ones(3)), ValueError),
        (lambda: F.interpolate(eager.ones(1, 1, 2, 2)), ValueError),
        (lambda: F.one_hot(eager.ones(2), 3), RuntimeError),
        (lambda: F.glu(eager.ones(3)), RuntimeError),
        (lambda: eager.ones(2, 3) @ eager.ones(2, 3), RuntimeError),
        (lambda: eager.einsum("ij,jk->ik", eager.ones(2, 3), eager.ones(4, 5)), RuntimeError),
        (lambda: eager.gather(eager.ones(2, 3), 0, eager.tensor([[2]])), RuntimeError),
        (lambda: eager.topk(eager.ones(3), 4), RuntimeError),
    ],
)
def test_errors(call, error):
    with pytest.raises(error):
        call()


def test_clipping():
    ours, theirs = both((3, 4), (5,))
    ps = [eager.nn.Parameter(p) for p in ours]
    qs = [torch.nn.Parameter(q) for q in theirs]
    for norm_type in (2.0, 1.0, float("inf")):
        for p, q in zip(ps, qs, strict=True):
            p.grad, q.grad = p.detach() * 3, q.detach() * 3
        same(
            eager.nn.utils.clip_grad_norm_(ps, 1.5, norm_type),
            torch.nn.utils.clip_grad_norm_(qs, 1.5, norm_type),
        )
        for p, q in zip(ps, qs, strict=True):
            same(p.grad, q.grad)
    for lib, those in ((eager, ps), (torch, qs)):
        total = lib.nn.utils.get_total_norm([p.grad for p in those], 3.0)
        lib.nn.utils.clip_grads_with_norm_(those, 0.7, total)
    for p, q in zip(ps, qs, strict=True):
        same(p, q)
        same(p.grad, q.grad)
    eager.nn.utils.clip_grad_value_(ps, 0.05)
    assert max(p.grad.abs().max().item() for p in ps) <= 0.05 + 1e-7
    ps[0].grad.fill_(float("inf"))
    with pytest.raises(RuntimeError, match="non-finite"):
        eager.nn.utils.clip_grad_norm_(ps, 1.0, error_if_nonfinite=True)


def test_vectors_and_padding():
    ps = [eager.nn.Parameter(eager.arange(4.0).reshape(2, 2)), eager.nn.Parameter(eager.ones(1))]
    vector = eager.nn.utils.parameters_to_vector(ps)
    assert vector.tolist() == [0, 1, 2, 3, 1]
    eager.nn.utils.vector_to_parameters(vector.detach() * 2, ps)
    assert ps[0].tolist() == [[0, 2], [4, 6]]
    padded = eager.nn.utils.rnn.pad_sequence(
        [eager.ones(2), eager.ones(3)], batch_first=True, padding_value=-1
    )
    assert padded.tolist() == [[1, 1, -1], [1, 1, 1]]


def test_older_names_of_initialisations():
    with pytest.warns(FutureWarning, match=r"in favor of nn.init.constant_"):
        got = eager.nn.init.constant(eager.empty(2, 2), 3.0)
    assert (got == 3).all()
    x = eager.ones(4, requires_grad=True)
    x.grad = eager.ones(4)
    with pytest.warns(FutureWarning, match="in favor of clip_grad_norm_"):
        assert eager.nn.utils.clip_grad_norm([x], 1.0) == 2
    np.testing.assert_allclose(x.grad.numpy(), 0.5, rtol=1e-5)


def test_initialisations():
    w = eager.empty(200, 300)
    eager.nn.init.orthogonal_(w)
    same(w @ w.t(), torch.eye(200), 1e-4)
    eager.nn.init.xavier_normal_(w, 2.0)
    assert abs(w.std().item() - 2 * (2 / 500) ** 0.5) < 0.003
    eager.nn.init.kaiming_normal_(w, nonlinearity="relu", mode="fan_out")
    assert abs(w.std().item() - (2 / 200) ** 0.5) < 0.003
    eager.nn.init.trunc_normal_(w, std=1.0, a=-0.5, b=1.0)
    assert -0.5 <= w.min().item()
    assert w.max().item() <= 1.0
    same(eager.nn.init.eye_(eager.empty(2, 3)), torch.eye(2, 3))
    same(
        eager.nn.init.dirac_(eager.empty(4, 2, 3), 2), torch.nn.init.dirac_(torch.empty(4, 2, 3), 2)
    )
    sparse = eager.nn.init.sparse_(eager.empty(10, 4), 0.3)
    assert ((sparse == 0).sum(0) == 3).all()
    assert eager.nn.init.calculate_gain("leaky_relu", 0.2) == torch.nn.init.calculate_gain(
        "leaky_relu", 0.2
    )
    with pytest.raises(ValueError):
        eager.nn.init.xavier_uniform_(eager.empty(3))


@pytest.mark.parametrize(
    "call",
    ["celu_", "elu_", "hardtanh_", "leaky_relu_", "relu_", "selu_", "threshold_"]
    + ["relu6", "hardsigmoid", "hardswish", "mish", "silu", "leaky_relu", "elu", "threshold"],
)
def test_activations_in_place(call):
    """The input becomes the result, and its gradient is that of the value it had."""
    (x,), (y,) = both((40,))
    arguments = (0.1, 0.5) if "threshold" in call else ()
    keywords = {} if call.endswith("_") else {"inplace": True}
    for lib, z in ((F, x.requires_grad_()), (TF, y.requires_grad_())):
        middle = z * 3
        assert getattr(lib, call)(middle, *arguments, **keywords) is middle
        (middle * middle).sum().backward()
    same(x.grad, y.grad)


@pytest.mark.filterwarnings("ignore:utils.checkpoint saves no memory")
def test_checkpoint():
    """PyTorch's call for recomputation gives what the function gives."""
    checkpoint = eager.utils.checkpoint
    x = eager.ones(2, requires_grad=True)
    y = checkpoint.checkpoint(lambda a, *, by: a * a * by, x, by=3, use_reentrant=False)
    layers = eager.nn.Sequential(eager.nn.ReLU(), eager.nn.Flatten(0))
    checkpoint.checkpoint_sequential(layers, 2, y, use_reentrant=True).sum().backward()
    assert x.grad.tolist() == [6, 6]


def _pooled(lib, n, **kwargs):
    rng = np.random.default_rng(n)
    x, draws = rng.standard_normal((2, 3, *(7, 9, 6)[:n])), rng.random((2, 3, n))
    pool = getattr(lib.nn, f"FractionalMaxPool{n}d")
    x = lib.tensor(x).requires_grad_()
    out, where = pool(2, return_indices=True, _random_samples=lib.tensor(draws), **kwargs)(x)
    (out * out).sum().backward()
    return [t.detach().numpy() for t in (out, where, x.grad)]


@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("kwargs", [{"output_size": 3}, {"output_size": 1}, {"output_ratio": 0.5}])
def test_fractional_pools(n, kwargs):
    for ours, theirs in zip(_pooled(eager, n, **kwargs), _pooled(torch, n, **kwargs), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_fractional_pools_draw_where_windows_begin():
    eager.manual_seed(0)
    x = eager.randn(1, 1, 40, 40)
    pool = eager.nn.FractionalMaxPool2d(2, output_ratio=0.7)
    first, second = pool(x), pool(x)
    assert first.shape == (1, 1, 28, 28)
    assert not first.equal(second)
    for bad in ({}, {"output_size": 3, "output_ratio": 0.5}, {"output_ratio": 1.5}):
        with pytest.raises(ValueError, match="ratio"):
            eager.nn.FractionalMaxPool2d(2, **bad)
    with pytest.raises(RuntimeError, match="too large"):
        eager.nn.functional.fractional_max_pool2d(x, 4, output_size=38)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("zero_infinity", [False, True])
def test_ctc_of_lengths_that_differ(reduction, zero_infinity):
    """Also a target that is too long for its input, an empty one, and an input of no length."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((7, 5, 4))
    targets = rng.integers(1, 4, (5, 3))
    results = []
    for lib in (eager, torch):
        given = lib.tensor(x).requires_grad_()
        module = lib.nn.CTCLoss(reduction=reduction, zero_infinity=zero_infinity)
        loss = module(given.log_softmax(-1), lib.tensor(targets), (7, 2, 5, 6, 0), (3, 3, 0, 2, 0))
        loss.sum().backward()
        results.append((loss.detach().numpy(), given.grad.numpy()))
    (ours, mine), (theirs, wanted) = results
    np.testing.assert_allclose(ours, theirs, rtol=1e-12)
    if zero_infinity:
        np.testing.assert_allclose(mine, wanted, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("times", "labels", "blank", "said"),
    [
        ((5, 9), (1, 1), 0, "at most 6"),
        ((5,), (1, 1), 0, "input_lengths must be of size batch_size"),
        ((5, 5), (1.0, 1.0), 0, "target_lengths must be of integral type"),
        ((5, 5), (4, 1), 0, "to have size at least .* at dimension 1, got size 3"),
        ((5, 5), (1, 1), 9, "blank must be in label range"),
    ],
)
def test_ctc_of_lengths_that_do_not_fit(times, labels, blank, said):
    for lib in (eager, torch):
        scores = lib.zeros(6, 2, 4)
        targets = lib.ones(2, 3, dtype=lib.int64)
        lengths = [lib.tensor(v) for v in (times, labels)]
        with pytest.raises(RuntimeError, match=said if lib is eager else None):
            lib.nn.functional.ctc_loss(scores, targets, *lengths, blank=blank)


def test_embedding_gradient_by_frequency():
    index = np.array([[1, 1, 2], [0, 1, 4]])
    value = np.random.default_rng(0).standard_normal((5, 3)).astype(np.float32)
    theirs = torch.tensor(value, requires_grad=True)
    (TF.embedding(torch.tensor(index), theirs, 2, scale_grad_by_freq=True) ** 2).sum().backward()

    def step(weight, index):
        out = F.embedding(index, weight, 2, scale_grad_by_freq=True)
        (out**2).sum().backward()
        return weight.grad

    for run in (step, jit(step)):
        got = run(eager.tensor(value, requires_grad=True), eager.tensor(index))
        np.testing.assert_allclose(got.numpy(), theirs.grad.numpy(), rtol=1e-6)
    with pytest.raises(ValueError, match="max mode does not support scaling"):
        F.embedding_bag(eager.tensor(index), theirs, mode="max", scale_grad_by_freq=True)


# Results that keep every element in its place: new tensors all the same.
IN_PLACE = {
    "nearest": lambda t, x: t.nn.functional.interpolate(x, size=(3, 4)),
    "nearest_of_one": lambda t, x: t.nn.functional.interpolate(x[..., :1, :1], size=(3, 4)),
    "nearest_exact": lambda t, x: t.nn.functional.interpolate(x, scale_factor=1),
    "upsample": lambda t, x: t.nn.Upsample(scale_factor=1)(x),
    "pixel_shuffle": lambda t, x: t.nn.functional.pixel_shuffle(x, 1),
    "pixel_shuffle_of_one": lambda t, x: t.nn.functional.pixel_shuffle(x[:, :, :1, :1], 2),
    "pixel_unshuffle": lambda t, x: t.nn.functional.pixel_unshuffle(x, 1),
    "channel_shuffle": lambda t, x: t.nn.functional.channel_shuffle(x, 1),
    "unfold": lambda t, x: t.nn.functional.unfold(x, 1),
    "unpad": lambda t, x: t.nn.utils.rnn.unpad_sequence(x[0], t.tensor([3, 3, 3]))[0],
    "ravel": lambda t, x: x[0, 0, 0, ::2].ravel(),
    "matrix_power": lambda t, x: t.linalg.matrix_power(x[..., :3], 1),
    "edges": lambda t, x: t.histogram(x, x[0, 0, 0])[1],
}


@pytest.mark.parametrize(
    "wrap", [lambda f: f, lambda f: jit(f, backend="eager")], ids=["eager", "jit"]
)
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("name", IN_PLACE)
def test_what_moves_nothing_is_a_new_tensor(name, turned, wrap):
    values = np.arange(48, dtype=np.float32).reshape(1, 4, 3, 4)

    def step(t, x):
        out = IN_PLACE[name](t, x)
        out -= 1
        return out

    found = []
    for t in (torch, eager):
        x = t.tensor(values)
        x = x.transpose(0, 1).contiguous().transpose(0, 1) if turned else x
        out = (wrap(step) if t is eager else step)(t, x)
        assert x.numpy().tolist() == values.tolist()
        found.append((out.tolist(), tuple(out.stride())))
    assert found[0] == found[1]
