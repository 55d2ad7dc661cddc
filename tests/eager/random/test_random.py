"""Random draws: the published generator, streams that can be repeated, and distributions."""

import math

import numpy as np
import pytest

eager = pytest.importorskip("eager")
from eager.ops import philox  # noqa: E402


def words(seed, ordinal, n):
    """Philox4x32-10 in plain Python, word by word (Salmon et al. 2011)."""
    out = []
    for i in range(n):
        c = [i & 0xFFFFFFFF, i >> 32, ordinal & 0xFFFFFFFF, ordinal >> 32]
        k = [seed & 0xFFFFFFFF, seed >> 32]
        for _ in range(10):
            p, q = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
            c = [(q >> 32) ^ c[1] ^ k[0], q & 0xFFFFFFFF, (p >> 32) ^ c[3] ^ k[1], p & 0xFFFFFFFF]
            k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
        out.append(c)
    return out


def test_known_answers():
    """Vectors published with the reference implementation."""
    (_, w0, w1), *_ = philox.blocks(0, 0, 1)
    assert [int(w0[0]), int(w1[0])] == [0x6627E8D5, 0xE169C58D]


@pytest.mark.parametrize(("seed", "ordinal"), [(0, 0), (7, 3), (2**64 - 1, 2**40 + 5)])
def test_words_against_plain_python(seed, ordinal):
    expected = words(seed, ordinal, 50)
    (_, w0, w1), *_ = philox.blocks(seed, ordinal, 50)
    assert w0.tolist() == [c[0] for c in expected]
    assert w1.tolist() == [c[1] for c in expected]


def test_blocks_are_one_stream():
    n = 3 * philox._BLOCK + 5
    whole = np.concatenate([w0.copy() for _, w0, _ in philox.blocks(1, 2, n)])
    assert len(whole) == n
    tail = words(1, 2, philox._BLOCK + 2)[-1][0]
    assert int(whole[philox._BLOCK + 1]) == tail


def test_uniform_formulas():
    eager.manual_seed(5)
    single, double = eager.rand(20), eager.rand(20, dtype=eager.float64)
    a, b = words(5, 0, 20), words(5, 1, 20)
    assert single.tolist() == [(c[0] >> 8) * 2**-24 for c in a]
    assert double.tolist() == [((c[0] << 21) ^ (c[1] >> 11)) * 2**-53 for c in b]


def test_normal_formula():
    eager.manual_seed(5)
    drawn = eager.randn(50).numpy()
    u = [((c[0] >> 8) * 2**-24, (c[1] >> 8) * 2**-24) for c in words(5, 0, 50)]
    expected = [math.sqrt(-2 * math.log(1 - a)) * math.cos(2 * math.pi * b) for a, b in u]
    np.testing.assert_allclose(drawn, expected, atol=2e-6)


def test_seed_repeats_and_generators_are_independent():
    eager.manual_seed(1)
    first = [eager.rand(3).tolist(), eager.randn(3).tolist()]
    eager.manual_seed(1)
    own = eager.Generator().manual_seed(99)
    eager.rand(5, generator=own)
    assert [eager.rand(3).tolist(), eager.randn(3).tolist()] == first
    assert eager.initial_seed() == 1
    state = eager.get_rng_state()
    a = eager.rand(4).tolist()
    eager.set_rng_state(state)
    assert eager.rand(4).tolist() == a


def test_distributions():
    eager.manual_seed(0)
    n = 200_000
    u = eager.rand(n).numpy()
    assert u.min() >= 0
    assert u.max() < 1
    assert abs(u.mean() - 0.5) < 0.005
    z = eager.randn(n, dtype=eager.float64).numpy()
    assert abs(z.mean()) < 0.01
    assert abs(z.std() - 1) < 0.01
    assert abs((np.abs(z) < 1).mean() - 0.6827) < 0.005
    k = eager.randint(-3, 4, (n,)).numpy()
    assert set(k.tolist()) == set(range(-3, 4))
    assert abs(np.bincount(k + 3) / n - 1 / 7).max() < 0.005
    assert sorted(eager.randperm(1000).tolist()) == list(range(1000))
    b = eager.bernoulli(eager.full((n,), 0.3))
    assert abs(b.mean().item() - 0.3) < 0.01
    x = eager.normal(2.0, 3.0, (n,)).numpy()
    assert abs(x.mean() - 2) < 0.03
    assert abs(x.std() - 3) < 0.03
    e = eager.empty(n).exponential_(2.0)
    assert abs(e.mean().item() - 0.5) < 0.01


@pytest.mark.parametrize("replacement", [True, False])
def test_multinomial(replacement):
    eager.manual_seed(0)
    weights = eager.tensor([1.0, 0.0, 3.0, 6.0]).expand(20_000, 4)
    drawn = eager.multinomial(weights, 2, replacement).numpy()
    share = np.bincount(drawn[:, 0], minlength=4) / len(drawn)
    np.testing.assert_allclose(share, [0.1, 0, 0.3, 0.6], atol=0.01)
    if not replacement:
        assert (drawn[:, 0] != drawn[:, 1]).all()
    with pytest.raises(RuntimeError):
        eager.multinomial(eager.ones(2), 3)
    with pytest.raises(RuntimeError):
        eager.multinomial(eager.ones(2), 0)


def test_16_bit_and_like():
    x = eager.zeros(3, 4, dtype=eager.bfloat16)
    assert eager.rand_like(x).dtype is eager.bfloat16
    assert eager.randn_like(x, dtype=eager.float64).dtype is eager.float64
    assert eager.randint_like(x, 5).shape == (3, 4)
    assert eager.randint_like(x, high=1).sum() == 0
    with pytest.raises(TypeError):
        eager.randint_like(x)
    with pytest.raises(NotImplementedError):
        eager.rand(2, dtype=eager.int64)


def test_complex_draws():
    """Real and imaginary part are drawn alike; a normal number has the variance of both."""
    eager.manual_seed(0)
    n = 50_000
    for drawn, middle, spread in (
        (eager.rand(n, dtype=eager.complex64), 0.5 + 0.5j, 1 / 12),
        (eager.randn(n, dtype=eager.complex64), 0, 0.5),
        (eager.zeros(n, dtype=eager.complex128).normal_(3, 2), 3 + 3j, 2),
        (eager.zeros(n, dtype=eager.complex128).uniform_(3, 5), 4 + 4j, 1 / 3),
        (eager.normal(1.0, 2.0, (n,), dtype=eager.complex64), 1 + 1j, 2),
    ):
        x = drawn.numpy()
        assert abs(x.mean() - middle) < 0.03
        np.testing.assert_allclose([x.real.var(), x.imag.var()], spread, rtol=0.03)
        assert abs(np.cov(x.real, x.imag)[0, 1]) < 0.03


def test_in_place():
    eager.manual_seed(0)
    x = eager.zeros(1000)
    x.uniform_(-2, -1)
    assert -2 <= x.min().item()
    assert x.max().item() < -1
    x.normal_(5, 0.1)
    assert abs(x.mean().item() - 5) < 0.1
    x.random_(0, 3)
    assert set(x.tolist()) == {0, 1, 2}
    x.bernoulli_(0.5)
    assert set(x.tolist()) == {0, 1}


def test_a_forked_generator_goes_back():
    eager.manual_seed(3)
    wanted = eager.rand(4)
    eager.manual_seed(3)
    with eager.random.fork_rng():
        eager.manual_seed(9)
        eager.rand(2)
    assert eager.equal(eager.rand(4), wanted)


def test_low_rank_by_random_projection():
    eager.manual_seed(0)
    for shape in ((9, 6), (6, 9)):
        x = eager.randn(shape[0], 3, dtype=eager.float64) @ eager.randn(
            3, shape[1], dtype=eager.float64
        )
        for u, s, v in (eager.svd_lowrank(x, 4), eager.pca_lowrank(x, 4, center=False)):
            assert eager.allclose(u @ s.diag() @ v.mT, x)
        u, s, v = eager.pca_lowrank(x)
        assert eager.allclose(u @ s.diag() @ v.mT, x - x.mean(0))
    with pytest.raises(ValueError, match="not greater than"):
        eager.pca_lowrank(x, 7)


@pytest.mark.parametrize("name", ["inv", "cholesky"])
def test_what_cannot_be_factored_has_an_error_of_its_own(name):
    with pytest.raises(eager.linalg.LinAlgError):
        getattr(eager.linalg, name)(eager.zeros(2, 2))
