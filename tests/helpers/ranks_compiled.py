"""Cases of `eager.distributed` under `@jit`, run by every rank: see `ranks`."""

import warnings

import numpy as np
import pytest

import eager
import eager.distributed as dist
from eager import nn
from eager.nn.parallel import DistributedDataParallel
from jitcap import JitcapWarning, explain, jit, stance
from jitcap.graph.show import reload

F = nn.functional


class Convolutional(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.out = nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4), nn.Linear(36, 3)

    def forward(self, x):
        return self.out(self.norm(self.conv(x.view(-1, 1, 5, 5))).relu().flatten(1))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.out = nn.GRU(5, 6, batch_first=True), nn.Linear(6, 3)

    def forward(self, x):
        return self.out(self.cell(x.view(-1, 5, 5))[0].mean(1))


class Block(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.norm, self.mix, self.out = nn.LayerNorm(d), nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.up, self.down = nn.Linear(d, 2 * d), nn.Linear(2 * d, d)

    def forward(self, x):
        q, k, v = self.mix(self.norm(x)).view(*x.shape[:2], 3, 2, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.norm(x))))


class GPT(nn.Module):
    def __init__(self, d=8):
        super().__init__()
        self.embed, self.blocks = nn.Linear(5, d), nn.Sequential(Block(d), Block(d))
        self.out = nn.Linear(d, 3)

    def forward(self, x):
        return self.out(self.blocks(self.embed(x.view(-1, 5, 5)))).mean(1)


def perceptron():
    return nn.Sequential(nn.Linear(25, 16), nn.GELU(), nn.Linear(16, 3))


MODELS = (perceptron, Convolutional, Recurrent, GPT)


def trains_as_one(r, n, steps=6, backends=("cpp", "eager", "eager", "eager")):
    """Parts of a batch on the ranks, and all of it in one process: the same parameters."""
    for make, backend in zip(MODELS, backends, strict=True):
        eager.manual_seed(5)
        alone = make().double()
        model = make().double()
        model.load_state_dict(alone.state_dict())
        ours = DistributedDataParallel(model, bucket_cap_mb=2e-3)
        runs = []
        for each in (ours, alone):
            opt = eager.optim.AdamW(each.parameters(), 1e-2, weight_decay=0.1)

            def step(x, y, each=each, opt=opt):
                opt.zero_grad()
                loss = F.cross_entropy(each(x), y)
                loss.backward()
                opt.step()
                return loss.detach()

            runs.append(jit(step, backend=backend) if each is ours else step)
        for k in range(steps):
            rng = np.random.default_rng(k)
            each = 2 + k % 3 if k > 2 else 2  # examples a rank: sizes become symbols
            x = eager.from_numpy(rng.normal(size=(each * n, 25)))
            y = eager.from_numpy(rng.integers(0, 3, each * n))
            part = slice(each * r, each * (r + 1))
            mine, whole = runs[0](x[part], y[part]), runs[1](x, y)
            dist.all_reduce(mine, dist.ReduceOp.AVG)
            assert abs((mine - whole).item()) < 1e-10
        for a, b in zip(model.parameters(), alone.parameters(), strict=True):
            assert (a - b).abs().max() < 1e-10, make
        stats = runs[0].stats
        assert (stats.graphs, stats.splits, stats.compiles) == (2, 0, 2), (make, stats)
        assert not stats.callbacks and not stats.fallbacks, (make, stats)


def halves(r, n):
    """Starts and waits are nodes, readable and runnable as text; dtypes; sizes that vary."""

    def step(x, out):
        y = x * 2
        dist.all_reduce(y)
        dist.all_gather_into_tensor(out, x.exp())
        z = x.t() + 1
        dist.all_reduce(z, dist.ReduceOp.AVG)
        return y.sin(), z

    run = jit(step)
    for k, rows in enumerate((2, 3, 3, 4)):
        x, out = eager.full((rows, 2), r + 1.0 + k), eager.zeros(n, rows, 2)
        y, z = run(x, out)
        values = np.arange(1.0, n + 1) + k
        assert np.allclose(y.numpy(), np.sin(2 * values.sum()), atol=1e-5)
        assert np.allclose(z.numpy(), values.mean() + 1) and z.shape == (2, rows)
        assert np.allclose(out.numpy(), np.exp(values)[:, None, None] + 0 * x.numpy(), rtol=1e-5)
    assert (run.stats.compiles, run.stats.splits, run.stats.callbacks) == (2, 0, 0)
    report = explain(step)(x, out)
    text = report.stages["passes"]
    for name in ("start_all_reduce", "start_all_gather"):
        assert f"ops.{name}(" in text
    assert text.count("ops.wait(") == 3 and "ops.all_reduce" not in text
    assert any(
        "all_reduce of 32 bytes" in note and "ranks_compiled" in note for note in report.notes
    )
    printed = reload(text.partition("\n\n\n")[2].partition("\n\n\nif __name__")[0], "step")
    given = [eager.zeros((), dtype=eager.int64) if "int64" in a else eager.ones(*map(int, a[8:-1].split(", ")))
             for a in printed.__annotations__.values()]  # fmt: skip
    plain, compiled = printed(*given), jit(printed)(*given)
    for a, b in zip(plain, compiled, strict=True):
        assert eager.allclose(a, b)


def kinds_of_elements(r, n):
    """What MPI reduces is reduced by it; the rest in Python; none at all is none."""

    @jit
    def step(xs):
        for x in xs:
            dist.all_reduce(x)
        dist.broadcast(xs[0], n - 1)
        return [x + x for x in xs]

    for shape in ((3,), (0,), ()):
        xs = [eager.full(shape, r + 1.0).to(getattr(eager, name), copy=True) for name in
              "float32 float64 int32 int64 uint8 int8 bfloat16 float16 complex64".split()]  # fmt: skip
        for y in step(xs):
            assert (y.to(eager.complex64) == n * (n + 1)).all(), y
    flags = jit(lambda x: dist.all_reduce(x))
    x = eager.tensor([r == 0, False])
    flags(x)
    assert x.tolist() == [True, False]


def other_collectives(r, n):
    """Ranks whose steps have other collectives end with what each came to."""

    def step(x, wide):
        dist.all_reduce(x)
        y = x[:1] if wide else x
        y = y * 2
        dist.all_reduce(y)
        return y

    run = jit(step)
    with pytest.raises(dist.DistBackendError, match=r"number 2 of a compiled step.*: rank 0: "
                       r"all_reduce of \[2\] float32, reduction sum.*; rank 1: all_reduce of \[1\]"):  # fmt: skip
        run(eager.ones(2), r == 1)
    assert (run(eager.ones(2), False) == 2 * n * n).all()
    if r == 0:
        with pytest.raises(dist.DistBackendError, match="came to different collectives"):
            run(eager.ones(2), False)
    else:
        with pytest.raises(dist.DistBackendError, match="came to different collectives"):
            dist.all_reduce(eager.ones(3))
    dist.set_debug_level("OFF")
    assert (run(eager.ones(2), False) == 2 * n * n).all()
    dist.set_debug_level("DETAIL")


def failed_checks(r, n):
    """A run that fails on all ranks behind its collectives is done again, plainly; what fails
    between them, on one, ends."""

    @jit
    def step(x, i):
        y = x * 1
        dist.all_reduce(y)
        return y[i]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert step(eager.ones(2), eager.tensor(1)) == n
        with pytest.raises(IndexError):
            step(eager.ones(2), eager.tensor(5))
    assert step(eager.ones(2), eager.tensor(0)) == n


def plain_beside_compiled(r, n):
    """A rank that runs plain Python takes what those of compiled code take: one collective as it
    is; before the first of several the others run plain Python, too."""

    def one(x):
        y = x * 2
        dist.all_reduce(y, dist.ReduceOp.AVG)
        return y + 1

    def several(x):
        y, mine = one(x), eager.zeros(1)
        dist.barrier()
        dist.reduce_scatter_tensor(mine, y[0].repeat(n))
        return mine

    for step, result, discards in ((one, n + 2.0, 0), (several, n * (n + 2.0), 1)):
        run = jit(step)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for plain in (n, 0, n):  # nobody, rank 0, nobody
                with stance("eager" if r == plain else "default"):
                    assert (run(eager.full((2,), r + 1.0)) == result).all()
        assert run.stats.discards == discards * (r > 0), run.stats


def in_the_background(r, n):
    """All ranks change to compiled code at the same call, so that is the first one."""

    def step(x):
        y = x * 2
        dist.all_reduce(y)
        return y + 1

    run = jit(step, mode="background")
    with pytest.warns(JitcapWarning, match="several ranks change to compiled code at one call"):
        assert (run(eager.ones(2)) == 2 * n + 1).all()
    assert (run.stats.compiles, run.stats.tasks) == (1, [])
    for _ in range(2):
        assert (run(eager.ones(2)) == 2 * n + 1).all()
    assert run.stats.discards == 0


def a_run_that_one_rank_gives_up(r, n):
    """What it takes again is not what the others take next."""

    @jit
    def step(x, i):
        y = x * 1
        dist.all_reduce(y)
        return y[i]

    step(eager.ones(2), eager.tensor(0))
    said = "rank 0: all_reduce of .2. float32, reduction sum, after a run that was given up; rank 1"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if r:
            step(eager.ones(2), eager.tensor(0))
        with pytest.raises(dist.DistBackendError, match=said):
            step(eager.ones(2), eager.tensor(5 if r == 0 else 0))
    dist.group.WORLD.given_up = 0


CASES = (
    plain_beside_compiled,
    in_the_background,
    a_run_that_one_rank_gives_up,
    halves,
    kinds_of_elements,
    other_collectives,
    failed_checks,
    trains_as_one,
)
