"""Equal updates of many tensors are one launch, and only where the order does not matter."""

import numpy as np

import codegen
import eager
from jitcap import explain, jit
from tests.codegen.emitted import lowered


def launches(fn, *args):
    """How many kernels each line of the entry starts, largest first."""
    lines = explain(fn)(*args).stages["batched"].splitlines()
    return sorted((len(line.split()) for line in lines), reverse=True)


def parameters(sizes, seed=0):
    rng = np.random.default_rng(seed)
    draws = [rng.standard_normal(n, dtype=np.float32) for n in sizes]
    made = [eager.nn.Parameter(eager.tensor(draw)) for draw in draws]
    for p in made:
        p.grad = eager.tensor(rng.standard_normal(p.shape, dtype=np.float32))
    return made


def test_adamw_over_all_parameters_is_one_launch_of_one_function():
    sizes = [3, 17, 1000, 4096, 100_003]
    ours, theirs = parameters(sizes), parameters(sizes)
    optimizer = eager.optim.AdamW(ours, lr=1e-2)
    assert launches(optimizer.step)[0] == len(sizes)
    reference = eager.optim.AdamW(theirs, lr=1e-2)
    step = jit(optimizer.step)
    for _ in range(3):
        step()
        reference.step()
    assert step.stats.compiles == 1
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=2e-6, atol=1e-7)


def test_an_update_that_reads_the_one_before_stays_behind_it():
    a, b, c = (eager.ones(100) * k for k in (1, 2, 3))

    def chain():
        b.add_(a)
        c.add_(b)
        a.add_(c)

    want = [t.clone() for t in (a, b, c)]
    for _ in range(2):
        want[1] += want[0]
        want[2] += want[1]
        want[0] += want[2]
    run = jit(chain)
    run()
    run()
    for got, expected in zip((a, b, c), want, strict=True):
        np.testing.assert_array_equal(got.numpy(), expected.numpy())


def test_a_value_read_before_its_update_is_the_old_one():
    a, b, x = eager.ones(64), eager.ones(64), eager.arange(64.0)

    def step(x):
        a.mul_(2.0)
        total = (b * x).flip(0)
        b.mul_(2.0)
        return total

    run = jit(step)
    np.testing.assert_array_equal(run(x).numpy(), np.arange(64.0, dtype=np.float32)[::-1])
    np.testing.assert_array_equal(run(x).numpy(), 2 * np.arange(64.0, dtype=np.float32)[::-1])


def test_what_one_launch_writes_lies_in_no_temporary():
    """The plan lets temporaries share memory by the order of items, which has none in a launch."""
    parts = parameters([3, 17, 1000, 4096, 20_000])
    optimizer = eager.optim.AdamW(parts, lr=1e-2)
    averages = [eager.zeros(p.shape) for p in parts]

    def step():
        norm = eager.nn.utils.clip_grad_norm_(parts, 1.0)
        optimizer.step()
        with eager.no_grad():
            for mean, p in zip(averages, parts, strict=True):
                mean.mul_(0.9).add_(p * norm.clamp(max=1.0), alpha=0.1)

    together = 0
    for program in lowered(step, ()):
        batched = codegen.run_stages(program)[0]["batched"]
        for batch in (batch for batch in batched.batches if len(batch) > 1):
            together += len(batch)
            for name in batched.fused.homes(name for item in batch for name in item.writes()):
                assert batched.fused.buffers[name].kind != "temp"
    assert together >= len(parts)
