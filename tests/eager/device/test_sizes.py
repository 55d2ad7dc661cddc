"""@jit on tensors of a device whose sizes vary: one version, kernels that take sizes, recordings of each."""

import numpy as np
import pytest

import eager
import jitcap
from codegen.targets.triton.runtime import resident
from eager import cuda, nn
from eager.device import places
from eager.nn import functional as F
from jitcap import jit

pytest.importorskip("triton.language")
pytestmark = pytest.mark.once
SIZES = (4, 7, 5, 7, 7, 4, 33, 5, 7, 2)


def drawn(n):
    rng = np.random.default_rng(n)
    x = rng.standard_normal((n, 6)).astype(np.float32)
    return eager.tensor(x), eager.tensor(rng.integers(0, 3, n))


def done(fn):
    """What `fn` gives, and what the device did meanwhile."""
    before = cuda.counters()
    found = fn()
    return found, {k: n - before[k] for k, n in cuda.counters().items() if n != before[k]}


def trainer(place, compiled=True, moves=False):
    eager.manual_seed(0)
    layers = nn.Linear(6, 5), nn.LayerNorm(5), nn.GELU(), nn.Dropout(0.1), nn.Linear(5, 3)
    model = nn.Sequential(*layers).to(place)
    eager.manual_seed(1)
    optimizer = eager.optim.AdamW(model.parameters(), lr=0.1)

    def step(x, y):
        if moves:
            x, y = x.to(place), y.to(place)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return model, jit(step) if compiled else step


@pytest.mark.parametrize("moves", [False, True])
def test_a_training_step_compiles_twice_for_all_sizes(moves):
    model, step = trainer("cuda", moves=moves)
    plain_model, plain = trainer("cpu", compiled=False)
    recorded = replayed = 0
    for n in SIZES:
        x, y = drawn(n)
        given = (x, y) if moves else (x.cuda(), y.cuda())
        loss, counted = done(lambda: step(*given))  # noqa: B023
        recorded += counted.get("recordings", 0)
        replayed += counted.get("replays", 0)
        assert np.allclose(loss.item(), plain(x, y).item(), atol=1e-5)
    for p, q in zip(model.parameters(), plain_model.parameters(), strict=True):
        assert np.allclose(p.detach().cpu(), q.detach(), atol=1e-3)
    stats = step.stats
    assert (stats.compiles, stats.graphs, stats.splits, stats.fallbacks) == (2, 2, 0, 0)
    assert 2 <= recorded
    assert (stats.recordings, stats.replays) == (recorded, replayed)
    assert sum(runs.queued for runs in stats.programs) == len(SIZES) - replayed
    assert f"{recorded} recordings, {replayed} replays, for 6 sizes" in str(stats)
    x, y = drawn(7)
    given = (x, y) if moves else (x.cuda(), y.cuda())
    for _ in range(3):
        _, counted = done(lambda: step(*given))
    assert counted["replays"] == 1
    assert "launches" not in counted
    assert "recordings" not in counted


def attention_and_norms(x, w):
    y = F.layer_norm(x @ w, (6,))
    scores = F.softmax(y @ y.t() * 0.3, -1)
    return scores @ y, y.mean(0), (y * y).sum(), y[1:] - y[:-1], y.argmax(0), eager.cat([x, y], 0)


def test_programs_of_one_text_for_all_sizes():
    """Also where rows, and what is reduced, have the length that varies."""
    w = eager.tensor(np.random.default_rng(0).standard_normal((6, 6)).astype(np.float32))
    texts = []
    for sizes in ((3, 17, 5, 64), (70, 12, 130)):
        step = jit(attention_and_norms)
        for n in sizes:
            x, _ = drawn(n)
            found = step(x.cuda(), w.cuda())
            for got, want in zip(found, attention_and_norms(x, w), strict=True):
                assert got.is_cuda
                assert np.allclose(got.cpu(), want, atol=2e-5)
        assert (step.stats.compiles, step.stats.fallbacks) == (2, 0)
        told = jitcap.explain(attention_and_norms, dynamic=True)(x.cuda(), w.cuda())
        texts.append([k.source for k in told.kernels])
        assert any("the second call of each size on" in note for note in told.notes)
    assert texts[0] == texts[1]


def test_few_recordings_are_kept(monkeypatch):
    monkeypatch.setattr(resident, "VECTORS", 3)
    step = jit(lambda x: (x * 2).sum(0), dynamic=True)
    held = []
    for n in (*range(2, 40), 2, 2):
        x, _ = drawn(n)
        assert np.allclose(step(x.cuda()).cpu(), (x * 2).sum(0), atol=1e-5)
        held.append(sum(h.held for h in places.pool(0).holders))
    assert step.stats.compiles == 1
    assert max(held[10:]) <= held[2] + 8 * 1024


def test_what_is_kept_of_runs_that_nobody_waits_for_does_not_grow(monkeypatch):
    monkeypatch.setattr(resident, "UNSETTLED", 8)
    table = eager.ones(5, 2, device="cuda")
    step = jit(lambda i: table[i] * 2, dynamic=True)
    given = [eager.zeros(n, dtype=eager.int64).cuda() for n in range(2, 6)]
    for k in range(40):
        step(given[k % 4])
    (program,) = [h for h in places.pool(0).holders if h.sites]
    assert 0 < len(program.vectors) <= 8
    step(given[0] + 9)
    with pytest.raises(IndexError, match="size 5"):
        for k in range(40):
            step(given[k % 4])


def test_results_of_one_size_outlive_calls_with_another():
    step = jit(lambda x: x * 2, dynamic=True)
    kept = [step(eager.full((n,), float(i), device="cuda")) for i, n in enumerate((3, 5, 3, 5, 3))]
    assert [k.tolist() for k in kept] == [[2.0 * i] * n for i, n in enumerate((3, 5, 3, 5, 3))]


def test_an_index_out_of_bounds_stops_calls_of_other_sizes_behind_it():
    table = eager.ones(5, 2, device="cuda")

    def update(tokens):
        table[tokens] -= 1.0
        return table.sum() + tokens[tokens].sum()

    step = jit(update, dynamic=True)
    for n in (3, 4):
        step(eager.zeros(n, dtype=eager.int64).cuda())
    before = table.cpu().clone()
    step(eager.tensor([0, 4, 1]).cuda())  # 4 is in the table, and not among three tokens
    step(eager.zeros(4, dtype=eager.int64).cuda())
    with pytest.raises(IndexError, match="out of bounds for dimension 0 with size 3 "):
        cuda.synchronize()
    assert np.array_equal(table.cpu(), before)
    step(eager.zeros(4, dtype=eager.int64).cuda())
    assert table[0, 0].item() == before[0, 0].item() - 1


@pytest.mark.parametrize("steps", [3])
def test_gradients_that_are_asked_for_outside(steps):
    eager.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 5), nn.GELU(), nn.Linear(5, 3))
    there = nn.Sequential(nn.Linear(6, 5), nn.GELU(), nn.Linear(5, 3))
    there.load_state_dict(model.state_dict())
    there.to("cuda")
    loss_of = jit(lambda m, x, y: F.cross_entropy(m(x), y))
    for n in (4, 9, 6, 9):
        x, y = drawn(n)
        for m, place in ((model, "cpu"), (there, "cuda")):
            m.zero_grad()
            loss = F.cross_entropy(m(x), y) if place == "cpu" else loss_of(m, x.cuda(), y.cuda())
            loss.backward()
        for p, q in zip(model.parameters(), there.parameters(), strict=True):
            assert np.allclose(p.grad, q.grad.cpu(), atol=1e-5)
    assert (loss_of.stats.compiles, loss_of.stats.fallbacks) == (2, 0)
