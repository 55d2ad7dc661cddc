"""@jit on tensors of a device: where its memory lies, what is copied, recordings, and failures."""

import linecache
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import eager
import jitcap
from eager import cuda, nn
from eager.device import default as default_place
from eager.device import places
from eager.device.protocol import DeviceFailure, OutOfMemoryError
from eager.nn import functional as F
from jitcap import jit
from jitcap.base.diagnostics import JitcapWarning, forget_announcements
from tests.helpers.device_training import train

pytest.importorskip("triton.language")
pytestmark = pytest.mark.once
X = np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32)


def done(fn):
    """What `fn` gives, and what the device did meanwhile."""
    before = cuda.counters()
    found = fn()
    return found, {k: n - before[k] for k, n in cuda.counters().items() if n != before[k]}


def classifier(place, compiled=True):
    """A model, and its step with AdamW on a batch."""
    eager.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.Dropout(0.1), nn.Linear(5, 3))
    model.to(place)
    eager.manual_seed(1)
    optimizer = eager.optim.AdamW(model.parameters(), lr=0.1)

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return model, optimizer, jit(step) if compiled else step


def batch(place="cpu"):
    return eager.tensor(X).to(place), eager.tensor([0, 1, 2, 1]).to(place)


def test_a_step_that_is_compiled_in_the_background():
    """Plain calls, and then replays, on the same memory: as a step that waits for its program."""
    found = []
    for mode in (None, "background"):
        model, _, plain = classifier("cuda", compiled=False)
        step = jit(plain, mode=mode)
        x, y = batch("cuda")
        losses = []
        for i in range(6):
            losses.append(step(x, y).item())
            if i == 2:
                step.wait()
        assert (step.stats.compiles, step.stats.tasks) == (1, [])
        assert step.stats.replays > 0
        found.append((losses, [p.tolist() for p in model.parameters()]))
    for mine, other in zip(*found, strict=True):
        for a, b in zip(mine, other, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_a_step_is_one_program_whose_state_stays_where_it_is():
    _, plain_optimizer, plain = classifier("cpu", compiled=False)
    model, optimizer, step = classifier("cuda")
    x, y = batch("cuda")
    places_before = [p.data_ptr() for p in (*model.parameters(), *model.buffers())]
    for i in range(5):
        plain_optimizer.param_groups[0]["lr"] = optimizer.param_groups[0]["lr"] = 0.1 / (i + 1)
        loss, counted = done(lambda: step(x, y))
        expected = plain(*batch())
        found, waited = done(loss.item)
        assert np.allclose(found, expected, atol=1e-5)
        assert loss.is_cuda
        assert waited["bytes_to_host"] == 4 + 4 * 8  # the number, and the checks' words
        if i:
            assert counted.get("launches", 0) == 0
            assert (counted["replays"], counted.get("recordings", 0)) == (1, int(i == 1))
            assert counted["copies_to_device"] == 1  # the numbers
            assert counted["bytes_to_device"] < 16 * 30  # rate, steps, seed, draw; eps, betas ...
            assert "synchronizations" not in counted
    assert places_before == [p.data_ptr() for p in (*model.parameters(), *model.buffers())]
    assert optimizer.state[model[0].weight]["step"].item() == 5
    assert (step.stats.graphs, step.stats.splits, step.stats.fallbacks) == (1, 0, 0)
    assert not step.stats.recompiles
    assert not cuda.host_runs
    assert any("runs on cuda:0" in note for note in jitcap.explain(step.original)(x, y).notes)


def test_results_are_valid_after_later_calls():
    @jit
    def step(x):
        return x * 2, x.sum()

    held = [step(eager.full((3,), float(i), device="cuda")) for i in range(6)]
    held[2][0].add_(100)  # and are memory of their own
    twice = [pair[0].tolist() for pair in held]
    assert twice == [[2.0 * i + 100 * (i == 2)] * 3 for i in range(6)]
    assert [pair[1].item() for pair in held] == [3.0 * i for i in range(6)]
    following = jit(lambda x: x * 2)  # what it gives is what it is given next
    y = eager.ones(3, device="cuda")
    for _ in range(5):
        y = following(y)
    assert y.tolist() == [32] * 3
    one, other = jit(lambda x: (x + 1, (x + 1).clone()))(eager.zeros(2, device="cuda"))
    one.zero_()
    assert other.tolist() == [1, 1]


def test_gradients_that_the_user_keeps_are_kept():
    model, _, step = classifier("cuda")
    x, y = batch("cuda")
    kept, values = [], []
    for _ in range(4):
        step(x, y)
        kept.append(model[0].weight.grad)
        values.append(model[0].weight.grad.cpu().clone())
    assert all(np.array_equal(g.cpu(), v) for g, v in zip(kept, values, strict=True))
    del kept
    _, _, other = classifier("cuda")
    _, counted = done(lambda: [other(x, y).item() for _ in range(4)])
    assert "copies_on_device" not in counted  # gradients are replaced in place, as is the loss
    assert (counted["recordings"], counted["replays"]) == (1, 3)


def test_batches_come_from_anywhere():
    _, _, plain = classifier("cpu", compiled=False)
    _, _, step = classifier("cuda")
    recordings = 0
    for i in range(5):
        x, y = eager.tensor(X + i), eager.tensor([0, 1, 2, i % 3])
        there = x.cuda(), y.cuda()  # other memory each time
        loss, counted = done(lambda: step(*there))  # noqa: B023
        recordings += counted.get("recordings", 0)
        assert np.allclose(loss.item(), plain(x, y), atol=1e-4)
    assert recordings == 1

    @jit
    def inside(x, y):
        return (x.cuda() * 2 + y.to("cuda", eager.float32).unsqueeze(1)).sum()

    for i in range(4):
        x, y = eager.tensor(X + i), eager.tensor([0, 1, 2, i])
        found, counted = done(lambda: inside(x, y))  # noqa: B023
        assert counted["bytes_to_device"] == X.nbytes + 32
        assert np.allclose(found.item(), (2 * (X + i) + y.numpy()[:, None]).sum(), rtol=1e-5)
    assert (inside.stats.graphs, inside.stats.splits) == (1, 0)


def test_a_tensor_of_the_cpu_is_another_version():
    @jit
    def f(x, w):
        return x @ w

    x, w = eager.tensor(X), eager.tensor(X.T.copy())
    for _ in range(2):
        assert f(x, w).is_cpu
        assert f(x.cuda(), w.cuda()).is_cuda
    assert f.stats.graphs == 2
    assert "on cuda:0" in f.stats.recompiles[0].reason
    with pytest.raises(RuntimeError, match="same device"):
        f(x.cuda(), w)
    scalar = eager.tensor(3.0)  # but one of no dimension goes there
    assert np.allclose(jit(lambda x: x * scalar)(x.cuda()).cpu(), 3 * X)


def test_memory_that_is_written_may_be_another():
    @jit
    def add(total, x):
        total += x
        return total * 2

    total, x = eager.zeros(3, device="cuda"), eager.ones(3, device="cuda")
    for i in range(8):
        if i in (3, 6):
            total = total.clone()
        assert add(total, x).tolist() == [2.0 * (i + 1)] * 3
    assert total.tolist() == [8, 8, 8]
    row = eager.zeros(4, 3, device="cuda")  # rows that kernels cannot take where they are
    for i in range(8):
        assert add(row[i % 4], x).tolist() == [2.0 * (1 + i // 4)] * 3
    assert row.tolist() == [[2.0] * 3] * 4
    assert add.stats.fallbacks == 0


def test_an_index_out_of_bounds_is_told_at_the_next_wait_and_changes_nothing():
    model, optimizer, step = classifier("cuda")
    x, y = batch("cuda")
    for _ in range(3):
        step(x, y)
    state = [t.detach().cpu() for t in (*model.parameters(), *model.buffers())]
    moments = [s["exp_avg"].cpu() for s in optimizer.state.values()]
    step(x, eager.tensor([0, 1, 9, 1]).cuda())
    step(x, y)  # what was queued behind it changes nothing either
    with pytest.raises(
        IndexError, match=r"index out of bounds for dimension 1 with size 3"
    ) as failure:
        cuda.synchronize()
    file, _, line = failure.value.place.rpartition(":")
    assert "cross_entropy" in linecache.getline(file, int(line))
    now = [t.detach().cpu() for t in (*model.parameters(), *model.buffers())]
    assert all(np.array_equal(a, b) for a, b in zip(state, now, strict=True))
    found = [s["exp_avg"].cpu() for s in optimizer.state.values()]
    assert all(np.array_equal(a, b) for a, b in zip(moments, found, strict=True))
    assert {s["step"].item() for s in optimizer.state.values()} == {3.0}
    again = step(x, y).item()
    assert np.isfinite(again)
    assert {s["step"].item() for s in optimizer.state.values()} == {4.0}


@pytest.mark.filterwarnings("ignore::jitcap.base.diagnostics.JitcapWarning")
def test_what_python_would_raise_is_raised():
    w = nn.Parameter(eager.ones(3, device="cuda"))

    @jit
    def f(x):
        with eager.no_grad():
            w.add_(1)
        return 1 / x.sum().item()

    assert f(eager.ones(2, device="cuda")) == 0.5
    with pytest.raises(ZeroDivisionError):
        f(eager.zeros(2, device="cuda"))
    assert w.tolist() == [3, 3, 3]  # by the function itself, once
    assert f(eager.ones(4, device="cuda")) == 0.25


@pytest.mark.filterwarnings("ignore::eager.core.on_device.HostRunWarning")
def test_what_has_no_kernel_runs_op_by_op_and_says_so_once():
    forget_announcements()
    w = nn.Parameter(eager.tensor(X).cuda())

    @jit
    def f(x):
        loss = eager.linalg.svdvals(x * w).sum()
        loss.backward()
        return loss

    with pytest.warns(JitcapWarning, match="runs op by op.*svd") as said:
        losses = [f(eager.tensor(X).cuda()).item() for _ in range(3)]
    assert len([w for w in said if issubclass(w.category, JitcapWarning)]) == 1
    assert np.allclose(losses, np.linalg.svd(X * X)[1].sum(), rtol=1e-4)
    assert w.grad.is_cuda

    def written(x):
        found = eager.linalg.svdvals(x), x > 0, x.clone()
        found[1][..., 0] = False
        found[2][1:] = eager.ones(6)
        return found

    step = jit(written)
    for a, b in zip(step(eager.tensor(X).cuda()), written(eager.tensor(X)), strict=True):
        assert np.allclose(a.cpu(), b, atol=1e-5)
    assert not step.stats.discards

    def cpu_in_the_middle(x):
        y = (x * 2).cpu()
        return y + 1

    assert np.allclose(jit(cpu_in_the_middle)(eager.tensor(X).cuda()), 2 * X + 1)


@pytest.mark.filterwarnings("ignore::jitcap.base.diagnostics.JitcapWarning")
def test_loops_are_programs_and_branches_split():
    def loop(x):
        total = x[0]
        for i in range(17):
            total = (total * x[i % 4]).tanh() + x[0]
        return total.sum()

    def branch(x):
        return x + 1 if x.sum() > 0 else x - 1

    def carried(x):
        last, rows = eager.scan(lambda c, row: ((c * row).tanh(), c * 2), x[0], x, reverse=True)
        return last.sum() + rows.sum()

    def counted(x):
        return eager.fori_loop(0, 3, lambda i, c: c * x + i, x).sum()

    def chosen(x):
        return eager.cond(x.sum() > 0, lambda a: a.sin(), lambda a: a.cos(), (x,)).sum()

    def picked(x):
        return eager.switch((x.sum() > 0).long(), [lambda a: a + 1, lambda a: a * 2], x).sum()

    def repeated(x):
        go = lambda c: c.abs().sum() < 90  # noqa: E731
        return eager.while_loop(go, lambda c: (c * 1.5 + 1,), (x,))[0].sum()

    def gradient(fn, value):
        x = value.requires_grad_()
        found = fn(x)
        found.sum().backward()
        return found.detach().cpu(), x.grad.cpu()

    cases = (  # with each way that was taken: a branch's, an arm's and what is behind it
        (loop, 1, 0), (carried, 1, 0), (counted, 1, 0), (branch, 3, 1), (chosen, 4, 1),
        (picked, 5, 1), (repeated, 5, 1),
    )  # fmt: skip
    for fn, graphs, splits in cases:
        compiled = jit(fn)
        for sign in (1, -1, 1):
            expected = gradient(fn, eager.tensor(sign * X))
            found = gradient(compiled, eager.tensor(sign * X).cuda())
            for a, b in zip(found, expected, strict=True):
                assert np.allclose(a, b, atol=1e-4), fn
        assert (compiled.stats.graphs, compiled.stats.splits) == (graphs, splits), fn
        assert not compiled.stats.fallbacks, fn


@pytest.mark.filterwarnings("ignore::jitcap.base.diagnostics.JitcapWarning")
def test_a_step_with_clipping_in_a_branch_is_two_graphs():
    def trained(place, wrap):
        w = nn.Parameter(eager.tensor(X.T.copy()).to(place))
        x = eager.tensor(X).to(place)

        def step(factor):
            loss = ((x @ w) * factor).square().sum()
            loss.backward()
            norm = w.grad.norm()
            if norm > 1.0:
                w.grad.mul_(1.0 / norm)
            with eager.no_grad():
                w.sub_(0.1 * w.grad)
            w.grad = None
            return loss.detach()

        step = wrap(step)
        return [step(eager.tensor(f, device=place)).item() for f in (1.0, 1e-3, 1.0)], step

    expected, _ = trained("cpu", lambda f: f)
    found, step = trained("cuda", jit)
    assert np.allclose(found, expected, rtol=1e-4)
    assert (step.stats.graphs, step.stats.splits, step.stats.fallbacks) == (3, 1, 0)  # both ways


def test_threads_take_turns():
    f = jit(lambda x: (x * 2).sum())
    with ThreadPoolExecutor(4) as threads:
        found = threads.map(
            lambda i: f(eager.full((5,), float(i), device="cuda")).item(), range(24)
        )
        assert [*found] == [10.0 * i for i in range(24)]


@pytest.mark.filterwarnings("ignore::jitcap.base.diagnostics.JitcapWarning")
@pytest.mark.parametrize("asked", ["verify", "check_nans"])
def test_values_that_are_looked_at_run_plainly(asked):
    f = jit(lambda x: x * 2, **{asked: True})
    assert np.array_equal(f(eager.tensor(X).cuda()).cpu(), 2 * X)
    assert (f.stats.graphs, f.stats.fallbacks) == (0, 1)
    assert asked in f.stats.refusals[0]


def test_draws_are_those_of_eager():
    def draw(x):
        return F.dropout(x, 0.5) + eager.rand(4, 6, device="cuda") + eager.rand(4, 6).cuda()

    for fn in (draw, jit(draw)):
        eager.manual_seed(3)
        values = [fn(eager.ones(4, 6, device="cuda")).cpu() for _ in range(3)]
        if fn is draw:
            expected = values
    assert all(np.array_equal(a, b) for a, b in zip(values, expected, strict=True))


def forked(x):
    with eager.random.fork_rng():
        before = eager.rand(2), eager.rand(2, device=x.device)
    return *before, eager.rand(2), eager.rand(2, device=x.device)


def seeded(x):
    cuda.manual_seed(5)
    before = eager.rand(2, device=x.device)
    state = cuda.get_rng_state()
    behind = eager.rand(2, device=x.device)
    cuda.set_rng_state(state)
    return before, behind, eager.rand(2, device=x.device), cuda.initial_seed()


def seeded_anew(x):
    cuda.manual_seed_all(6)
    return eager.rand(2, device=x.device) + x, eager.rand(2)


@pytest.mark.filterwarnings("ignore::jitcap.base.diagnostics.JitcapWarning")
@pytest.mark.parametrize("fn", [forked, seeded, seeded_anew], ids=lambda fn: fn.__name__)
def test_generators_are_set_as_in_eager(fn):
    found = []
    for step in (fn, jit(fn)):
        eager.manual_seed(0)
        results = [step(eager.ones(2, device="cuda")) for _ in range(3)]
        drawn = [*(x for r in results for x in r), eager.rand(2), eager.rand(2, device="cuda")]
        found.append([x.tolist() if isinstance(x, eager.Tensor) else x for x in drawn])
    assert found[0] == found[1]
    assert fn is not forked or found[0][:2] == found[0][2:4]


@pytest.mark.filterwarnings("ignore::jitcap.base.diagnostics.JitcapWarning")
def test_what_is_asked_of_a_device_is_asked_at_each_call():
    def step(x):
        return x + 1, cuda.memory_allocated(), cuda.max_memory_allocated()

    x, kept, last = eager.ones(2, device="cuda"), [], 0
    step = jit(step)
    for _ in range(3):
        kept.append(eager.ones(1 << 14, device="cuda"))
        _, now, most = step(x)
        assert last + (1 << 16) <= now <= most
        last = now
    assert step.stats.splits == 2


def test_a_forward_alone_has_its_backward_outside():
    model = nn.Sequential(nn.Linear(6, 5), nn.GELU(), nn.Linear(5, 3)).cuda()
    x, y = batch("cuda")
    forward = jit(lambda x: model(x))
    found = []
    for fn in (model, forward, forward, forward):
        model.zero_grad()
        loss = F.cross_entropy(fn(x), y)
        loss.backward()
        found.append((loss.item(), [p.grad.cpu() for p in model.parameters()]))
    for loss, grads in found[1:]:
        assert np.allclose(loss, found[0][0])
        assert all(np.allclose(a, b, atol=1e-6) for a, b in zip(grads, found[0][1], strict=True))


def test_streams_are_ordered_among_each_other():
    f = jit(lambda x: (x * 2).exp())
    x = eager.tensor(X).cuda()
    side = cuda.Stream()
    held = []
    for i in range(6):
        side.wait_stream(cuda.current_stream())
        with cuda.stream(side if i % 2 else cuda.current_stream()):
            held.append(f(x))
        cuda.current_stream().wait_stream(side)
    assert all(np.allclose(y.cpu(), np.exp(2 * X), rtol=1e-5) for y in held)


def test_what_holds_memory_is_told_and_programs_give_theirs_back(simulated):
    f = jit(lambda x: (x @ x.t()).exp().sum(0))
    x = eager.ones(64, 64, device="cuda")
    expected = [f(x) for _ in range(3)][-1].cpu()
    pool = places.pool(0)
    assert sum(h.held for h in pool.holders) > 4 * 64 * 64
    simulated.faults.memory = int(cuda.counters()["bytes_allocated"])
    with pytest.raises(OutOfMemoryError, match="tensors hold"):
        eager.empty(1 << 20, device="cuda")
    assert sum(h.held for h in pool.holders) == 0
    simulated.faults.memory = None
    assert np.array_equal(f(x).cpu(), expected)
    simulated.faults.launch = 0
    g = jit(lambda x: x + 5)
    with pytest.raises(DeviceFailure, match="was not launched"):
        g(x)


def test_a_call_without_memory_leaves_nothing_behind(simulated):
    """Neither places that it had put into launches, nor that a result was to move."""
    f = jit(lambda x, s: (x * s, x - 1))
    xs = [eager.full((64, 64), float(i), device="cuda") for i in range(4)]
    kept = []
    for x in xs:
        simulated.faults.memory = int(cuda.counters()["bytes_allocated"])
        places.pool(0).release()
        for _ in range(2) if kept else ():
            with pytest.raises(OutOfMemoryError, match="tensors hold"):
                f(x, 3.0)
        simulated.faults.memory = None
        kept.append(f(x, 3.0))
    for i, (y, z) in enumerate(kept):
        assert np.array_equal(y.cpu(), np.full((64, 64), 3.0 * i))
        assert np.array_equal(z.cpu(), np.full((64, 64), i - 1.0))


@pytest.mark.parametrize("name", ["mlp", "cnn"])
def test_training_is_that_of_the_cpu(name):
    (expected, found) = train(name, "cpu", 4), done(lambda: train(name, "cuda", 4, jit))
    assert np.allclose(expected, found[0], atol=1e-5)
    assert (found[1]["recordings"], found[1]["replays"]) == (1, 3)


CUDA = eager.device("cuda")


def placed(x):
    """What blocks of default devices make, before, in and behind a split."""
    with CUDA:
        a = eager.ones(3) + eager.tensor([0.0, 1, 2])
        with eager.device("cpu"):
            b = eager.zeros(2)
        for i in range(20):
            with CUDA:
                a = a + eager.full((3,), float(i))
        if x.shape[0] == 4:
            jitcap.graph_break()
        c = eager.arange(3.0)
    return a + c, b, eager.zeros(1), str(eager.get_default_device())


@pytest.mark.filterwarnings("ignore::jitcap.base.diagnostics.JitcapWarning")
def test_default_devices_are_read_changed_and_guarded():
    step = jit(placed)
    for n, counted in ((3, (2, 0)), (4, (6, 1))):
        for around in ("cpu", "cuda", "cpu"):
            for _ in range(2):
                with eager.device(around):
                    found, expected = step(eager.ones(n)), placed(eager.ones(n))
                    assert str(eager.get_default_device()) == around
                assert [t.tolist() for t in found[:3]] == [t.tolist() for t in expected[:3]]
                assert [t.device for t in found[:3]] == [t.device for t in expected[:3]]
                assert found[3] == expected[3]
                assert default_place.place is None
                assert default_place.before == []
        assert (step.stats.graphs, step.stats.splits) == counted
    assert step.stats.fallbacks == 0


def test_a_default_device_may_stay():
    made = jit(lambda: eager.ones(2) + eager.randn(2) * 0)

    @jit
    def change(name):
        eager.set_default_device(name)
        return eager.ones(2)

    try:
        for name in ("cuda", "cpu", "cuda", None):
            assert change(name).is_cuda == made().is_cuda == (name == "cuda")
    finally:
        eager.set_default_device(None)
    assert made.stats.compiles == 2
    assert made.stats.fallbacks == change.stats.fallbacks == 0
    with pytest.raises(ValueError, match="stop"):
        jit(_stopping)(eager.ones(2))
    assert (default_place.place, default_place.before) == (None, [])


def _stopping(x):
    with CUDA:
        if eager.ones(3).sum() > x.shape[0]:
            raise ValueError("stop")
    return x


def test_an_index_is_checked_behind_a_loop_of_another_size():
    """Its check is one block with the index, not with the last loop."""
    table, state = eager.arange(4.0, device="cuda"), eager.zeros(3, device="cuda")

    @jit
    def step(x, i):
        state.add_(x * 2)
        return table[i] + state.sum()

    x, i = eager.ones(3, device="cuda"), eager.tensor([0, 3]).cuda()
    assert [step(x, i).tolist() for _ in range(2)] == [[6, 9], [12, 15]]
