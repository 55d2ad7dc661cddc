"""Scans on a device: their body's kernels, launched once per step, in one recording; beside the CPU."""

import numpy as np
import pytest

pytest.importorskip("triton.language")

import eager
from codegen.targets.triton.runtime import resident_data
from eager import cuda
from eager.nn import functional as F
from jitcap import jit
from jitcap.base.diagnostics import JitcapWarning
from jitcap.compile import device_parts
from tests.eager.device.test_compiled import done

pytestmark = pytest.mark.once
X = np.random.default_rng(0).standard_normal((4, 3, 3)).astype(np.float32)


def carried(x, w, reverse=False):
    """A product, a transposed carry, ys that are the carry itself, and a number in each step."""

    def body(c, row):
        new = (c.t() @ w + row * 0.5).tanh()
        return new, (c, new.t(), c.sum())

    return eager.scan(body, x[0].t(), x, reverse=reverse)


def nested(x):
    def outer(c, row):
        last, ys = eager.scan(lambda d, e: ((d * 0.5 + e).sin(), d), c, row)
        return last, ys.sum(0)

    return eager.scan(outer, eager.zeros(3, device=x.device), x)


def swapped(x):
    a, b, seen = x[0], x[1], []
    for t in range(17):
        a, b = b, F.dropout(a * 0.5, 0.3) + b.cumsum(0) * t
        seen.append(a)
    return a, b, eager.stack(seen)


def written(x):
    out = eager.zeros(16, 3, 3, device=x.device)
    c = x[0].clone()
    for t in range(16):
        c = (c @ x[1]).tanh()
        out[t] = c
        c.mul_(0.5)
    return out, c


def picked(x):
    i = eager.tensor([2, 0, 1]).to(x.device)
    return eager.scan(lambda c, k: (c + x[k], F.embedding(k, x[0])), x[1], i)


def halves(x):
    return eager.scan(lambda c, v: (c * 0.5 + v, c.sum()), x[0].bfloat16(), x.bfloat16())


def lengths(x):
    rows = [eager.scan(lambda c, v: (c + v, c), x[0], x[:n]) for n in (0, 1)]
    return [rows, eager.fori_loop(0, 3, lambda i, c: c * x[0] + i, x[1]), eager.map(eager.sin, x)]


def learned(x):
    """Gradients within each step."""
    w = eager.ones(3, 3, device=x.device)
    for _ in range(16):
        w.requires_grad_()
        (g,) = eager.autograd.grad(((x[0] @ w) ** 2).mean(), w)
        w = (w - 0.1 * g).detach()
    return w


def gradient(fn, order=1):
    def of(x):
        found = [t for t in flat(fn(x)) if t.requires_grad]
        (g,) = eager.autograd.grad(sum((t * t).sum() for t in found), x, create_graph=order > 1)
        return g if order == 1 else eager.autograd.grad((g * g).sum(), x)

    return of


def flat(value):
    if isinstance(value, list | tuple):
        return [t for part in value for t in flat(part)]
    return [value]


def programs(x):
    """All of them, as one program."""
    return [
        carried(x, x[1]), carried(x, x[2], reverse=True), nested(x), swapped(x), written(x),
        picked(x), halves(x), lengths(x), learned(x),
        *(gradient(fn)(x) for fn in (lambda x: carried(x, x[1]), nested, swapped, picked)),
        gradient(nested, order=2)(x),
    ]  # fmt: skip


def test_they_are_the_cpus_with_gradients():
    step = jit(programs)
    for _ in range(3):
        found = []
        for place, fn in (("cpu", programs), ("cuda", step)):
            eager.manual_seed(0)
            results = flat(fn(eager.tensor(X).to(place).requires_grad_()))
            found.append([t.detach().float().cpu() for t in results])
        for ours, expected in zip(found[1], found[0], strict=True):
            np.testing.assert_allclose(ours, expected, rtol=1e-3, atol=1e-4)
    assert (step.stats.graphs, step.stats.splits, step.stats.fallbacks) == (1, 0, 0)
    assert not cuda.host_runs


def test_kernels_do_not_grow_with_the_length():
    def loss(x, w):
        c = x[0]
        for row in x:
            c = (c @ w + row).tanh()
        return eager.autograd.grad(c.sum(), w)[0]

    kernels, launches = [], []
    for length in (18, 27):
        step = jit(loss)
        x, w = eager.rand(length, 3, 3).cuda(), eager.rand(3, 3).cuda().requires_grad_()
        _, first = done(lambda s=step, x=x, w=w: s(x, w))
        _, later = done(lambda s=step, x=x, w=w: [s(x, w) for _ in range(2)])
        assert (later["recordings"], later["replays"]) == (1, 2)
        kernels.append(step.stats.kernels)
        launches.append(first["launches"])
    assert kernels[0] == kernels[1]
    per_step, left = divmod(launches[1] - launches[0], 9)
    assert 1 <= per_step <= 8
    assert not left


def test_programs_with_loops_are_data():
    seen = []
    original = device_parts.compile_resident
    try:
        device_parts.compile_resident = lambda *a: seen.append(original(*a)) or seen[-1]
        jit(nested)(eager.tensor(X).cuda())
    finally:
        device_parts.compile_resident = original
    program = seen[0].run.program
    again = resident_data.from_data(resident_data.to_data(program), program.source)
    assert resident_data.to_data(again) == resident_data.to_data(program)
    parts = [b for b in program.buffers.values() if b.offset]
    assert parts
    data = resident_data.to_data(program)
    row = next(row for row in data["buffers"] if row[0] == parts[0].name)
    row[-1] += 1 << 20
    with pytest.raises(ValueError, match="lies outside"):
        resident_data.from_data(data, program.source)


def test_they_run_on_arrays_of_the_host():
    for fn in (swapped, nested):
        step = jit(fn, backend="triton")
        for _ in range(2):
            found = []
            for f in (fn, step):
                eager.manual_seed(0)
                found.append(flat(f(eager.tensor(X))))
            for ours, expected in zip(found[1], found[0], strict=True):
                np.testing.assert_allclose(ours, expected, rtol=1e-3, atol=1e-4)
        assert (step.stats.graphs, step.stats.fallbacks) == (1, 0)


def test_an_index_out_of_bounds_in_a_step_is_told():
    step = jit(lambda x, i: eager.scan(lambda c, k: (c + x[k], c), x[0], i)[0])
    x = eager.tensor(X).cuda()
    with pytest.raises(IndexError, match=r"out of bounds.*test_loops\.py"):
        step(x, eager.tensor([1, 9], device="cuda")).cpu()
    found = step(x, eager.tensor([1, 2], device="cuda")).cpu()
    np.testing.assert_allclose(found, X[0] + X[1] + X[2], rtol=1e-5)


def test_a_step_without_a_kernel_runs_op_by_op():
    def inverses(x):
        return eager.scan(lambda c, v: (c + eager.linalg.inv(v), c.sum()), x[0], x)

    step = jit(inverses)
    with pytest.warns((JitcapWarning, UserWarning), match="inv"):
        found = step(eager.tensor(X).cuda())
    for ours, expected in zip(found, inverses(eager.tensor(X)), strict=True):
        np.testing.assert_allclose(ours.cpu(), expected, rtol=1e-5, atol=1e-5)
    assert (step.stats.graphs, step.stats.splits) == (1, 0)
