"""@jit over several places: one graph that is cut where values go from one to another."""

import re

import numpy as np
import pytest

import eager
import jitcap
from eager import cuda, nn
from eager.device import places
from eager.device.protocol import RaceError
from eager.nn import functional as F
from jitcap import jit
from tests.helpers.device_training import train_halves

pytest.importorskip("triton.language")
pytestmark = pytest.mark.once


@pytest.fixture(autouse=True)
def two(simulated, monkeypatch):
    """`"cuda:0"` and `"cuda:1"`."""
    monkeypatch.setenv("JITCAP_SIM_DEVICES", "2")
    return simulated, places.pool(1).device


def close(found, expected):
    assert all(
        np.allclose(a, b, rtol=1e-4, atol=1e-5) for a, b in zip(found, expected, strict=True)
    )


def agrees(fn, *make):
    """What a step of one graph gives four times beside plain Python; the step."""
    step = jit(fn)
    for i in range(4):
        found, expected = step(*[m(i) for m in make]), fn(*[m(i) for m in make])
        for a, b in zip(found, expected, strict=True):
            assert a.device == b.device
            np.testing.assert_allclose(a.cpu(), b.cpu(), rtol=1e-5)
    assert (step.stats.graphs, step.stats.splits, step.stats.fallbacks) == (1, 0, 0)
    assert not step.stats.recompiles
    return step


def on(place):
    return lambda i: (eager.arange(6.0).reshape(2, 3) + i).to(place)


def test_values_go_to_the_cpu_and_on_from_there():
    agrees(lambda x: [(x.cuda() * 2).cpu() + 1], on("cpu"))
    agrees(lambda x: [(x * 2).cpu(), x + 1, x.cpu()], on("cuda"))

    def back_and_forth(x, y):
        a = (x @ y.cuda().t()).cpu() + y.sum()
        b = (a.cuda(1) @ a.to("cuda:1")).to("cpu", eager.float64)
        return [a, b, b.cuda(0) * 2, a.cuda() + x.sum()]

    agrees(back_and_forth, on("cuda:0"), on("cpu"))
    agrees(lambda x: [x.t().to("cuda:1") + 1, x[:, 1].cpu() * 3, x[1:].to(1)], on("cuda:0"))


def test_a_number_of_a_device_may_count_for_the_cpu():
    agrees(
        lambda x, y: [y * x.sum().cpu(), (y * x.max().to("cuda:1").cpu()).cuda()],
        on("cuda"),
        on("cpu"),
    )


def test_training_over_two_devices_is_one_graph(two):
    losses, values, step = train_halves("cuda:0", "cuda:1", jit)
    expected_losses, expected, _ = train_halves("cpu", "cpu")
    close(losses, expected_losses)
    close(values, expected)
    assert (step.stats.graphs, step.stats.splits, step.stats.fallbacks) == (1, 0, 0)
    counted = [unit.counters() for unit in two]
    assert [c["copies_to_peers"] for c in counted] == [4, 4]  # forth and back, once per step


def test_training_over_the_cpu_and_a_device():
    losses, values, step = train_halves("cpu", "cuda", jit)
    expected_losses, expected, _ = train_halves("cpu", "cpu")
    close(losses, expected_losses)
    close(values, expected)
    assert (step.stats.graphs, step.stats.splits, step.stats.fallbacks) == (1, 0, 0)


def test_parts_that_need_nothing_of_each_other_overlap_and_the_host_waits_for_none(two):
    make = (
        on("cuda:0"),
        lambda i: eager.ones(3, 4, device="cuda:0"),
        lambda i: eager.ones(3, 2, device="cuda:1"),
    )
    fn = lambda x, a, b: [
        (x @ a).relu() @ (x.to("cuda:1") @ b).relu().to("cuda:0").sum(0).expand(4, 2)
    ]
    step = agrees(fn, *make)
    given = [m(0) for m in make]
    step(*given)
    before = [unit.counters() for unit in two]
    step(*given)
    for unit, counted in zip(two, before, strict=True):
        now = unit.counters()
        assert now["synchronizations"] == counted["synchronizations"]
        assert now["copies_to_host"] == counted["copies_to_host"]
        assert now["launches"] == counted["launches"]
    parts = jitcap.explain(fn)(*given)
    told = "\n".join(parts.notes)
    assert "part 0 runs on cuda:0" in told
    assert "part 1 runs on cuda:1" in told
    assert "sends float32[2, 2] to part 2 (cuda:0)" in told
    assert "receives float32[2, 2] from part 1 (cuda:1)" in told


@pytest.mark.parametrize("side", [0, 1])
def test_a_wait_that_is_missing_is_found(two, monkeypatch, side):
    """On the side of the source, which must not copy over what is still read, and of the target."""
    step = jit(lambda x: (x * 2).to("cuda:1") + 1)
    x = eager.ones(4, device="cuda:0")
    assert step(x).tolist() == [3] * 4
    stream = type(two[side].main)
    wait = stream.wait
    monkeypatch.setattr(
        stream, "wait", lambda s, event: None if s.device.index == side else wait(s, event)
    )
    with pytest.raises(RaceError, match="nothing orders the two"):
        for _ in range(3):
            step(x)


def test_what_is_written_is_read_before():
    def fn(x, y):
        old = x.to("cuda:1")  # before it is written
        x.add_(1)
        y.mul_(x.to("cuda:1") + old)
        later = y.cpu() + x.cpu()
        x.sub_(later.cuda(0))
        return [old, later]

    expected = None
    for compiled in (False, True):
        step = jit(fn) if compiled else fn
        x, y = on("cuda:0")(1), on("cuda:1")(2)
        seen = [[t.tolist() for t in (*step(x, y), x, y)] for _ in range(4)]
        if compiled:
            assert seen == expected
            assert (step.stats.graphs, step.stats.splits, step.stats.fallbacks) == (1, 0, 0)
        expected = seen


def test_a_buffer_of_the_cpu_is_read_before_it_is_written():
    def fn(count):
        before = count.cuda()
        count.add_(1)
        return [before * 2, count.cuda()]

    count = eager.zeros(2)
    step = jit(fn)
    assert [[t.tolist() for t in step(count)] for _ in range(3)] == [
        [[2.0 * i] * 2, [i + 1.0] * 2] for i in range(3)
    ]


def test_a_check_that_fails_changes_nothing_anywhere():
    """The index is looked at on the second device, when the first has computed its own."""
    table = eager.arange(4.0, device="cuda:1")
    state, there = eager.zeros(3, device="cuda:0"), eager.zeros(3, device="cuda:1")
    host = eager.zeros(3)

    @jit
    def step(x, i):
        host.add_(1)
        state.add_(x)
        there.add_(state.to("cuda:1") * 2)
        return table[i] + there.sum()

    x, good = eager.ones(3, device="cuda:0"), eager.tensor([0, 3]).cuda(1)
    bad = eager.tensor([0, 9]).cuda(1)
    values = lambda: [t.tolist() for t in (host, state, there)]
    for _ in range(3):
        step(x, good)
    before = values()
    assert before == [[3] * 3, [3] * 3, [12] * 3]
    with pytest.raises(IndexError, match=r"test_parts\.py"):
        step(x, bad).tolist()
    assert values() == before
    assert step(x, good).tolist() == [60, 63]
    assert values() == [[4] * 3, [4] * 3, [20] * 3]
    assert (step.stats.graphs, step.stats.splits, step.stats.fallbacks) == (1, 0, 0)


def test_gradients_asked_for_outside():
    a, b = (
        nn.Parameter(eager.ones(3, device="cuda:0")),
        nn.Parameter(eager.ones(3, device="cuda:1")),
    )
    c = nn.Parameter(eager.ones(3))

    def forward(x):
        return ((x * a).exp().to("cuda:1") * b).cpu() * c

    seen = []
    for fn in (forward, jit(forward)):
        x = eager.tensor([1.0, 2.0, 3.0]).cuda(0).requires_grad_()
        for t in (a, b, c):
            t.grad = None
        fn(x).sum().backward()
        seen.append([t.grad for t in (x, a, b, c)])
    for found, expected in zip(*seen, strict=True):
        assert found.device == expected.device
        assert np.allclose(found.cpu(), expected.cpu(), rtol=1e-5)


def test_the_current_device_is_guarded():
    @jit
    def step(x):
        return x.to("cuda") + eager.ones(2, device="cuda")

    x = eager.zeros(2)
    assert str(step(x).device) == "cuda:0"
    with cuda.device(1):
        assert str(step(x).device) == "cuda:1"
    assert str(step(x).device) == "cuda:0"
    assert step.stats.compiles == 2

    @jit
    def inside(x):
        with cuda.device(1):
            y = x.cuda()
        cuda.set_device(1)
        return y, x.cuda(0)

    assert [str(t.device) for t in inside(x)] == ["cuda:1", "cuda:0"]
    assert cuda.current_device() == 1


def test_mixtures_are_refused_as_without_jit():
    x, y = eager.ones(3, device="cuda:0"), eager.ones(3, device="cuda:1")
    with pytest.raises(RuntimeError, match=r"found at least two devices: .* on cuda:0.* on cuda:1"):
        jit(lambda x, y: x + y)(x, y)


def test_a_classifier_with_embeddings():
    def losses(first, second, wrap):
        eager.manual_seed(0)
        table, head = nn.Embedding(7, 5).to(first), nn.Linear(5, 7).to(second)
        optimizer = eager.optim.SGD([*table.parameters(), *head.parameters()], lr=0.5, momentum=0.9)

        def step(x, y):
            optimizer.zero_grad()
            loss = F.cross_entropy(head(table(x.to(first)).mean(1).to(second)), y.to(second))
            loss.backward()
            optimizer.step()
            return loss.detach()

        step = wrap(step)
        x, y = eager.tensor([[0, 1, 6], [2, 3, 4]]), eager.tensor([5, 0])
        found = [step(x, y).item() for _ in range(3)]
        before = [p.tolist() for p in (*table.parameters(), *head.parameters())]
        if wrap is jit:
            assert (step.stats.graphs, step.stats.splits, step.stats.fallbacks) == (1, 0, 0)
            for bad in ((x, y + 9), (x + 9, y)):
                with pytest.raises(IndexError):
                    step(*bad).item()
                assert before == [p.tolist() for p in (*table.parameters(), *head.parameters())]
        found.append(step(x, y).item())
        return found

    close(losses("cuda:0", "cuda:1", jit), losses("cpu", "cpu", lambda step: step))


def test_what_moves_in_a_loop_runs_op_by_op(recwarn):
    rows, x = eager.arange(60.0).reshape(20, 3), eager.ones(3, device="cuda")

    def fn(x):
        total = x * 1
        for row in rows:
            total = total + row.cuda() * total.sum() * 1e-4
        return total.to("cuda:1")

    assert np.allclose(jit(fn)(x).cpu(), fn(x).cpu(), rtol=1e-5)
    assert any("moved to another device in each step of a loop" in str(w.message) for w in recwarn)


def test_kernels_have_one_number_in_all_stages_of_all_parts():
    """From fusion to source and `.kernels`, whichever part: loops, products, scatters, softmax."""
    table = eager.arange(12.0).reshape(4, 3)

    def fn(x, i):
        a = (x @ x.t()).softmax(-1) + 1
        b = (a.cpu() * 2).exp().sum(0)
        c = (b.to("cuda:1") * 3).cumsum(0)
        d = c.cpu()[:2] + eager.zeros(2).index_add(0, i, table[:2, 0])
        return [a, c.sort()[0], d]

    x = eager.ones(2, 2).cuda()
    told = jitcap.explain(fn)(x, eager.tensor([0, 1]))
    names = [kernel.name for kernel in told.kernels]
    assert len({*names}) == len(names) > 5, names
    assert {name[:3] for name in names} >= {"p0_", "p1_", "p2_"}
    fused = "\n".join(text for name, text in told.stages.items() if name.startswith("fused"))
    source = "\n".join(text for name, text in told.stages.items() if name.startswith("source"))
    for name in names:
        assert re.search(rf"\b{name}(_blocks)?\(", source), name
        loops = re.match(r"p\d+_(?:b\d+_)*[kw]\d+", name)
        step = re.match(r"p\d+_([a-z]\w*?)_(v\d+)", name)
        known = rf"def {loops[0]}\(" if loops else rf"{step[2]}(, v\d+)* = {step[1]}\("
        assert re.search(known, fused), (name, known)
