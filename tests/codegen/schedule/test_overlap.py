"""Collectives beside kernels: where starts and waits stand, and that memory is nobody else's between
them. The engine of `late_engine` reads and writes as late as it may."""

import random
import warnings

import late_engine
import numpy as np
import pytest

import eager
import eager.distributed as dist
from codegen.targets.cpp.runtime.arena import arena
from codegen.targets.cpp.runtime.cpu import RUNNERS
from eager import nn
from eager.distributed import functional
from eager.nn.parallel import DistributedDataParallel
from jitcap import explain, export, jit, load

pytestmark = pytest.mark.once
F = nn.functional


@pytest.fixture
def engine():
    made = late_engine.LateEngine()
    late_engine.world(made, timeout=0.2)
    dist.set_debug_level("OFF")
    yield made
    dist.set_debug_level("DETAIL")
    dist.destroy_process_group()


def test_buckets_are_reduced_beside_the_backward_and_in_their_order(engine):
    layers = [nn.Linear(64, 64) for _ in range(6)]
    model = DistributedDataParallel(
        nn.Sequential(*layers), bucket_cap_mb=0.03, init_sync=False, broadcast_buffers=False
    )
    opt = eager.optim.AdamW(model.parameters(), 1e-3)

    def step(x):
        opt.zero_grad()
        model(x).square().mean().backward()
        opt.step()

    report = explain(step)(eager.ones(8, 64))
    flags, *buckets = report.notes
    sizes = [int(note.split()[2]) for note in buckets]
    assert len(sizes) == 6 and sum(sizes) == 6 * 65 * 64 * 4
    assert flags.startswith("all_reduce of 48 bytes")
    assert all("dot" in note for note in buckets[:-1])  # products of the layers before
    assert "beside nothing" in buckets[-1]


def test_memory_decides_how_early_a_start_may_be(engine):
    """Of weights that are gathered when they are needed, one is on its way while one is used."""

    def step(x, *parts):
        for part in parts:
            whole = eager.zeros(256, 256)
            dist.all_gather_into_tensor(whole, part)
            x = (x @ whole).tanh()
        large = x.sum() * eager.arange(3 * 256 * 256.0)  # what is alive here decides
        return large.view(768, 256) @ parts[0].t()

    given = [eager.full((128, 256), 0.01 * i) for i in range(1, 7)]
    plain, run = step(eager.ones(4, 256), *given), jit(step)
    assert eager.allclose(run(eager.ones(4, 256), *given), plain, atol=1e-5)
    notes = explain(step)(eager.ones(4, 256), *given).notes
    assert len(notes) == 6 and all("dot" in note for note in notes[1:])
    (compiled,) = run._entries.compiled.values()
    assert compiled.executable.artifact.plan["arena_bytes"] < 3.5 * 256 * 256 * 4


def test_a_late_rank_is_named_with_its_line(engine):
    run = jit(lambda x: (dist.all_reduce(x), x * 2)[1])
    run(eager.ones(3))
    other = jit(lambda x: (x @ x.t()).tanh() @ x)
    other(eager.ones(3, 3))
    engine.latency = 30
    with pytest.raises(dist.DistTimeoutError, match=r"all_reduce of \[3\] float32, reduction sum "
                       r"\(at .*test_overlap.py:\d+\) of ProcessGroup.* waited for 0.2 s"):  # fmt: skip
        run(eager.ones(3))
    engine.latency, engine.idle_at = 0, 0
    assert run(eager.ones(3)).tolist() == [4] * 3
    other(eager.ones(3, 3))
    states = [vars(runner._local).get("state") for runner in tuple(RUNNERS)]
    assert {s.arena for s in states if s} == {arena()}  # the old one may be written by others


def test_a_failure_between_collectives_is_not_done_again(engine):
    def step(x):
        dist.all_reduce(x)
        y = eager.linalg.eigvals(x.view(1, 1)).real.clone()
        dist.all_reduce(y)
        return y

    run = jit(step)
    assert run(eager.ones(1)).item() == 4
    for again in (run, jit(step, backend="eager")):
        engine.started.clear()
        with pytest.raises(RuntimeError, match="between its collectives.*eig"):
            again(eager.tensor([eager.nan]))
        assert engine.started == ["all_reduce"]


def test_plain_and_compiled_say_the_same(engine, monkeypatch):
    """The ranks compare what they came to, one by one or all of a step: it is one text."""
    said = []

    def agrees(group, what):
        said.extend(what.split("\n"))
        return True

    monkeypatch.setattr("eager.distributed.groups.agrees", agrees)
    monkeypatch.setattr("eager.distributed.compiled.agrees", agrees)
    dist.set_debug_level("DETAIL")

    def step(x, whole, bits):
        dist.all_reduce(x, dist.ReduceOp.AVG)
        dist.all_reduce(bits, dist.ReduceOp.MAX)
        dist.broadcast(x, 1)
        half = x.to(eager.bfloat16)
        dist.all_reduce(half, dist.ReduceOp.AVG)
        dist.all_gather_into_tensor(whole, x)
        dist.barrier()
        part = eager.zeros(3, 2)
        dist.reduce_scatter_tensor(part, whole, dist.ReduceOp.AVG)
        dist.all_to_all_single(whole, whole + 1)
        y = functional.all_gather_tensor(x * part.sum(), 1)
        y = functional.reduce_scatter_tensor(y.t().contiguous(), "sum")
        y = functional.all_to_all_single(y, [1, 1], [1, 1])
        return functional.broadcast(y, 0) + half.sum().float()

    texts = []
    for run in (step, jit(step), jit(step, backend="python")):
        run(eager.ones(3, 2), eager.zeros(6, 2), eager.ones(2, dtype=eager.int64))
        texts.append([*said])
        said.clear()
    assert texts[0] == texts[1] == texts[2] and len(texts[0]) == 12
    assert texts[0][:2] == ["all_reduce of [3, 2] float32, reduction avg",
                            "all_reduce of [2] int64, reduction max"]  # fmt: skip


def program(rng):
    """The text of a random step of four (8, 8) tensors, which it may write."""
    names, lines = ["p", "q", "u", "v"], []

    def pick():
        return rng.choice(names)

    forms = (
        "{t} = {a} * 2 + {b}", "{t} = ({a} - {b}).tanh()", "{t} = {a} @ {b} * 0.1",
        "{t} = {a}.t().tanh()", "{t} = {a}.clone(); dist.all_reduce({t})",
        "{t} = {a} + 1; dist.all_reduce({t}, dist.ReduceOp.AVG)",
        "dist.all_reduce({a}); {t} = {b} + 0", "{a}.mul_(0.5).add_({b}.tanh()); {t} = {a} * 1",
        "{t} = eager.zeros(16, 8); dist.all_gather_into_tensor({t}, {a}); {t} = {t}[:8] - {t}[8:]",
        "{t} = eager.zeros(4, 8); dist.reduce_scatter_tensor({t}, {a}); {t} = {t}.repeat(2, 1)",
        "{t} = eager.zeros(8, 8); dist.all_to_all_single({t}, {a})",
        "{t} = eager.cat([{a}, ({a} @ {b}).tanh()]); dist.all_reduce({t}); {t} = {t}[:8] + {t}[8:]",
        "{t} = {a}.tanh(); dist.broadcast({t}, 0, async_op=True).wait()",
    )  # fmt: skip
    for i in range(rng.randint(8, 16)):
        line = rng.choice(forms).format(t=f"t{i}", a=pick(), b=pick())
        lines.append(f"    {line}")
        names.append(f"t{i}")
    return "\n".join(["def step(p, q, u, v):", *lines, f"    return {', '.join(names[-3:])}", ""])


@pytest.mark.parametrize("seed", range(4))
def test_random_programs(engine, seed):
    text, scope = program(random.Random(seed)), {"eager": eager, "dist": dist}
    exec(text, scope)
    step = scope["step"]

    def given():
        rng = np.random.default_rng(seed)
        return [eager.from_numpy(rng.normal(size=(8, 8)) * 0.3).float() for _ in range(4)]

    mine, theirs = given(), given()
    expected, started = step(*theirs), [*engine.started]
    engine.started.clear()
    run = jit(step)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = run(*mine)
    assert engine.started == started and run.stats.splits == 0, text
    for a, b in zip((*found, *mine), (*expected, *theirs), strict=True):
        assert eager.allclose(a, b, rtol=1e-4, atol=1e-4), text


def test_what_is_exported_has_its_collectives(engine, tmp_path):
    def step(x):
        y = x * 2
        dist.all_reduce(y, dist.ReduceOp.AVG)
        return y.sin()

    export(step, (eager.ones(3),)).save(tmp_path / "step.jc")
    engine.started.clear()
    assert eager.equal(load(tmp_path / "step.jc")(eager.ones(3)), (eager.ones(3) * 2).sin())
    assert engine.started == ["all_reduce"]
