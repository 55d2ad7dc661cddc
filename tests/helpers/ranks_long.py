"""Twenty steps of four models on every rank, in each of three ways, compiled by C++: see `ranks`.

Data parallel, with the optimizer's state on the owners of rows, and with all of it spread: the
parameters of one process that has the whole batch (float64), and its losses (float32).
"""

import ranks
from ranks_sharded import KINDS, apart, inputs, loss_of, made, shard_all, whole

import eager
import eager.distributed as dist
from eager.distributed.optim import ZeroRedundancyOptimizer
from eager.nn.parallel import DistributedDataParallel
from jitcap import jit

STEPS, ROWS = 20, (3, 3, 2, 4)  # examples of a rank, in turn: the second size makes a symbol
HOW = {"lr": 1e-2, "weight_decay": 0.1}


def data_parallel(model):
    return DistributedDataParallel(model), eager.optim.AdamW(model.parameters(), **HOW)


def state_by_rows(model):
    """ZeRO-1."""
    opt = ZeroRedundancyOptimizer(model.parameters(), eager.optim.AdamW, **HOW)
    return DistributedDataParallel(model), opt


def all_spread(model):
    model = shard_all(model)
    return model, eager.optim.AdamW(model.parameters(), **HOW)


def losses_of(model, opt, kind, dtype, r, n, every, compiled):
    """Losses on the `r`-th of `n` parts of each batch, which is one for `every` ranks."""

    def step(x, y):
        opt.zero_grad()
        loss = loss_of(model, x, y)
        loss.backward()
        opt.step()
        return loss.detach()

    run = jit(step) if compiled else step
    losses = []
    for k in range(STEPS):
        each = ROWS[k % len(ROWS)]
        x, y = inputs(kind, each * every, k)
        x = x.to(dtype) if x.dtype.is_floating_point else x
        rows = len(x) // n
        mine = slice(rows * r, rows * (r + 1))
        losses.append(run(x[mine], y[mine]))
    if compiled:
        s = run.stats
        said = (kind.__name__, s, s.refusals, s.recompiles)
        assert (s.graphs, s.compiles, s.splits, s.callbacks, s.fallbacks) == (2, 2, 0, 0, 0), said
    return eager.stack(losses)


def as_one_process(r, n):
    for dtype, kind in ((d, k) for d in (eager.float64, eager.float32) for k in KINDS):
        alone = made(kind).to(dtype)
        opt = eager.optim.AdamW(alone.parameters(), **HOW)
        theirs = losses_of(alone, opt, kind, dtype, 0, 1, n, compiled=False)
        for way in (data_parallel, state_by_rows, all_spread):
            model = made(kind).to(dtype)
            trained, opt = way(model)
            ours = losses_of(trained, opt, kind, dtype, r, n, n, compiled=True)
            dist.all_reduce(ours, dist.ReduceOp.AVG)
            off = (ours - theirs).abs().max().item()
            parameters = apart(whole(model), alone.parameters())
            if r == 0:
                print(f"{n} ranks, {kind.__name__}, {way.__name__}, {dtype}: losses {off:.1e}, parameters {parameters:.1e}")  # fmt: skip
            assert off < (1e-10 if dtype is eager.float64 else 1e-4), (kind, way)
            assert dtype is eager.float32 or parameters < 1e-10, (kind, way)


def branch_by_rank(r, n):
    """Ranks that take different ways before the same collectives: each has a version of its own."""
    alone, model = made(KINDS[0]), made(KINDS[0])
    shared = DistributedDataParallel(model)
    runs = []
    for each, ranks_of in ((alone, range(n)), (shared, (r,))):
        opt = eager.optim.AdamW(each.parameters(), **HOW)

        def step(parts, each=each, opt=opt, ranks_of=ranks_of):
            opt.zero_grad()
            total = 0
            for k, (x, y) in zip(ranks_of, parts, strict=True):
                total = total + loss_of(each, x.sin() if k % 2 else x * 2, y)
            (total / len(parts)).backward()
            opt.step()

        runs.append(jit(step) if each is shared else step)
    for k in range(STEPS):
        x, y = inputs(KINDS[0], 3 * n, k)
        parts = [(x[3 * i : 3 * i + 3], y[3 * i : 3 * i + 3]) for i in range(n)]
        runs[0](parts)
        runs[1](parts[r : r + 1])
    assert apart(model.parameters(), alone.parameters()) < 1e-10
    assert (runs[1].stats.compiles, runs[1].stats.splits) == (1, 0)


CASES = (as_one_process, branch_by_rank)

if __name__ == "__main__":
    ranks.main(CASES)
