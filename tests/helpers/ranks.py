"""Cases of `eager.distributed`, run by every rank: `mpiexec -n N python ranks.py [case]`.

All cases without a name, else one that ends badly. Rank 0 prints the failures as JSON, by case.
"""

import itertools
import json
import os
import signal
import sys
import tempfile
import threading
import time
import traceback
import warnings
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
import ranks_compiled
import ranks_draws

import eager
import eager.distributed as dist
import eager.distributed.checkpoint as dcp
from eager import nn
from eager.distributed import functional as F
from eager.distributed.optim import ZeroRedundancyOptimizer
from eager.nn.parallel import DistributedDataParallel
from eager.utils.data import DistributedSampler
from jitcap import explain, jit

NOWHERE = Path(tempfile.gettempdir()) / "nowhere"
DTYPES = "bfloat16 float16 float32 float64 int64 uint8 bool complex64".split()


def reductions(r, n):
    for name in DTYPES:
        dtype = getattr(eager, name)
        x = (eager.arange(6) + r).to(dtype).reshape(3, 2)
        mine = [(eager.arange(6) + k).to(dtype).reshape(3, 2) for k in range(n)]
        total = mine[0].clone()
        for other in mine[1:]:
            total = (total + other) if name != "bool" else total | other
        for y in (x.clone(), x.t().contiguous().t()):  # the second is not contiguous
            assert dist.all_reduce(y) is None
            assert (y == total.to(dtype)).all(), name
        into = x.clone()
        dist.reduce(into, 1)
        assert (into == (total.to(dtype) if r == 1 else x)).all()
    for op, expected in (("MAX", n), ("MIN", 1), ("PRODUCT", np.prod(range(1, n + 1)))):
        x = eager.tensor([float(r + 1)])
        dist.all_reduce(x, getattr(dist.ReduceOp, op))
        assert x.item() == expected
    x = eager.tensor([1 << r])
    dist.all_reduce(x, dist.ReduceOp.BOR)
    assert x.item() == 2**n - 1
    x = eager.tensor([r + 1.0])
    work = dist.all_reduce(x, dist.ReduceOp.AVG, async_op=True)
    assert work.wait() and work.is_completed() and x.item() == (n + 1) / 2
    x = eager.tensor([1.0 + r])
    saved = (eager.ones(1, requires_grad=True) * x).sum()
    dist.all_reduce(x)
    _raises(RuntimeError, "modified by an inplace operation", saved.backward)


def moves(r, n):
    each = [eager.zeros(2) for _ in range(n)]
    dist.all_gather(each, eager.full((2,), float(r)))
    assert [t[0].item() for t in each] == [*range(n)]
    out = eager.zeros(2 * n, 3)
    dist.all_gather_into_tensor(out, eager.full((2, 3), float(r)))
    assert out[:, 0].tolist() == [i // 2 for i in range(2 * n)]
    out = eager.zeros(3)
    dist.reduce_scatter_tensor(out, eager.arange(3.0 * n), op=dist.ReduceOp.AVG)
    assert out.tolist() == [3 * r, 3 * r + 1, 3 * r + 2]
    dist.reduce_scatter(out, [eager.full((3,), float(i)) for i in range(n)])
    assert out.tolist() == [n * r] * 3
    x = eager.full((2, 2), float(r)).t()
    dist.broadcast(x, 1)
    assert (x == 1).all()
    rows = [eager.zeros(1) for _ in range(n)] if r == 0 else None
    dist.gather(eager.tensor([float(r)]), rows)
    assert rows is None or [t.item() for t in rows] == [*range(n)]
    one = eager.zeros(1)
    dist.scatter(one, [eager.tensor([i + 0.5]) for i in range(n)] if r == 1 else None, src=1)
    assert one.item() == r + 0.5
    out = eager.zeros(n)
    dist.all_to_all_single(out, eager.arange(float(n)))
    assert out.tolist() == [r] * n
    out, sent = eager.zeros(n * (r + 1), 2), eager.full((sum(range(1, n + 1)), 2), float(r))
    dist.all_to_all_single(out, sent, [r + 1] * n, [*range(1, n + 1)])
    assert out[:, 1].tolist() == [float(i) for i in range(n) for _ in range(r + 1)]
    outs = [eager.zeros(i + r + 1) for i in range(n)]
    dist.all_to_all(outs, [eager.full((i + r + 1,), float(r)) for i in range(n)])
    assert [t[0].item() for t in outs] == [*range(n)]
    to, source = (r + 1) % n, (r - 1) % n
    got = eager.zeros(1)
    pair = [
        dist.P2POp(dist.isend, eager.tensor([float(r)]), to),
        dist.P2POp(dist.irecv, got, source),
    ]
    for work in dist.batch_isend_irecv(pair):
        work.wait()
    assert got.item() == source
    if r == 0:
        dist.send(eager.tensor([7.0]), 1)
    elif r == 1:
        assert dist.recv(got) == 0 and got.item() == 7
    dist.monitored_barrier()
    dist.barrier()


def objects(r, n):
    found = [None] * n
    dist.all_gather_object(found, {"rank": r, "more": "x" * r})
    assert [f["rank"] for f in found] == [*range(n)] and found[-1]["more"] == "x" * (n - 1)
    shared = [{"a": (1, 2)}, r] if r == 0 else [None, None]
    dist.broadcast_object_list(shared)
    assert shared == [{"a": (1, 2)}, 0]
    mine = [None]
    dist.scatter_object_list(mine, [str(i) for i in range(n)] if r == 0 else None)
    assert mine == [str(r)]
    gathered = [None] * n if r == 2 else None
    dist.gather_object(r * r, gathered, dst=2)
    assert gathered is None or gathered == [i * i for i in range(n)]


def groups(r, n):
    pair = dist.new_group([1, 0])
    x = eager.ones(1)
    if r > 1:
        assert pair is dist.GroupMember.NON_GROUP_MEMBER and dist.get_rank(pair) == -1
        dist.all_reduce(x, group=pair)
        assert x.item() == 1
    else:
        dist.all_reduce(x, group=pair)
        assert x.item() == 2 and dist.get_process_group_ranks(pair) == [0, 1]
        assert dist.get_group_rank(pair, 1) == dist.get_global_rank(pair, 1) == 1
        _raises(ValueError, "not in ProcessGroup", dist.broadcast, x, 2, pair)
        dist.destroy_process_group(pair)
        _raises(dist.DistError, "destroyed", dist.all_reduce, x, group=pair)
    assert dist.group.WORLD.size() == n == dist.get_world_size() and dist.get_backend() == "mpi"


def derivatives(r, n):
    """Of a loss that all ranks add to: the gradients of the sum of them."""
    everyone = n * (n + 1) / 2
    p = eager.tensor([1.0, 2.0], requires_grad=True)
    (F.all_reduce(p * (r + 1)) * (r + 1)).sum().backward()
    assert p.grad.tolist() == [(r + 1) * everyone] * 2
    p = eager.ones(2, 3, requires_grad=True)
    y = F.all_gather_tensor(p, 1)
    (y * (r + 1)).sum().backward()
    assert y.shape == (2, 3 * n) and (p.grad == everyone).all()
    p = eager.ones(2, n, requires_grad=True)
    y = F.reduce_scatter_tensor(p, "avg", 1)
    (y * (r + 1)).sum().backward()
    assert y.shape == (2, 1) and np.allclose(p.grad.numpy(), [[(i + 1) / n for i in range(n)]] * 2)
    p = eager.ones(n, 2, requires_grad=True)
    (F.all_to_all_single(p) * eager.arange(1.0, n + 1)[:, None]).sum().backward()
    assert (p.grad == r + 1).all()
    _uneven_exchange(r, n)
    p = eager.ones(2, requires_grad=True)
    (F.broadcast(p * 3, 1) * (r + 1)).sum().backward()
    assert p.grad.tolist() == [3 * everyone if r == 1 else 0] * 2
    for wrap in (lambda fn: fn, jit):  # no NaN for who has no part in it
        p = eager.zeros(2, requires_grad=True)
        wrap(lambda p: F.broadcast(p, 1).sqrt().sum().backward())(p)
        assert p.grad.tolist() == [float("inf") if r == 1 else 0] * 2
    p = eager.ones(2, requires_grad=True)
    _raises(RuntimeError, "has no derivative", F.all_reduce(p, "max").sum().backward)


def data_parallel(r, n):
    """Training on parts of a batch is training on the whole; so it is with sums of two parts."""

    def model():
        eager.manual_seed(3 + r)  # the first rank's is given to all
        return nn.Sequential(nn.Linear(5, 7), nn.GELU(), nn.Linear(7, 3)).double()

    ours = DistributedDataParallel(model(), bucket_cap_mb=1e-4)
    eager.manual_seed(3)
    alone = nn.Sequential(nn.Linear(5, 7), nn.GELU(), nn.Linear(7, 3)).double()
    opt = eager.optim.AdamW(ours.parameters(), 1e-2)
    own = eager.optim.AdamW(alone.parameters(), 1e-2)

    def loss(of, x, y):
        return ((of(x) - y) ** 2).mean()

    for step in range(4):
        rng = np.random.default_rng(step)
        x, y = (eager.from_numpy(rng.normal(size=(4 * n, d))) for d in (5, 3))
        mine = slice(4 * r, 4 * r + 2), slice(4 * r + 2, 4 * r + 4)
        opt.zero_grad()
        with ours.no_sync():
            (loss(ours, x[mine[0]], y[mine[0]]) / 2).backward()
        (loss(ours, x[mine[1]], y[mine[1]]) / 2).backward()
        nn.utils.clip_grad_norm_(ours.parameters(), 0.1)
        opt.step()
        own.zero_grad()
        loss(alone, x, y).backward()
        nn.utils.clip_grad_norm_(alone.parameters(), 0.1)
        own.step()
    for a, b in zip(ours.module.parameters(), alone.parameters(), strict=True):
        assert (a - b).abs().max() < 1e-12
    assert [*ours.state_dict()][0] == "module.0.weight"


def interrupted_backward(r, n):
    """A backward that raises is over: the next one is reduced, and no other tells its end."""
    model = DistributedDataParallel(nn.Linear(1, 1, bias=False))
    handle = model.module.weight.register_post_accumulate_grad_hook(lambda p: 1 / 0)
    _raises(ZeroDivisionError, "division", model(eager.ones(1, 1)).sum().backward)
    handle.remove()
    if r == 0:  # alone
        eager.ones(1, requires_grad=True).sum().backward()
    model.zero_grad()
    model(eager.full((1, 1), r + 1.0)).sum().backward()
    assert model.module.weight.grad.item() == (n + 1) / 2


def shared_memory(r, n):
    """An input may be a part of the output, and have no dimension."""
    out = eager.zeros(2 * n)
    out[2 * r : 2 * r + 2] = r
    dist.all_gather_into_tensor(out, out[2 * r : 2 * r + 2])
    assert out.tolist() == [i // 2 for i in range(2 * n)]
    x = eager.arange(float(n))
    dist.all_to_all_single(x, x)
    assert x.tolist() == [r] * n
    x = eager.arange(float(n))
    dist.reduce_scatter_tensor(x[r : r + 1], x)
    assert x[r] == r * n
    gathered = jit(lambda out, x: dist.all_gather_into_tensor(out, x))
    for collect in (dist.all_gather_into_tensor, gathered):
        out = eager.zeros(n)
        collect(out, eager.tensor(r + 0.5))
        assert out.tolist() == [i + 0.5 for i in range(n)]


def dropped_handles(r, n):
    """What nobody waits for is received all the same, into memory that is kept until then."""
    to, source = (r + 1) % n, (r - 1) % n
    for _ in range(3):
        dist.isend(eager.full((1 << 16,), float(r)), to)
    others = [eager.zeros(1 << 16) for _ in range(50)]
    for _ in range(3):
        got = eager.zeros(1 << 16)
        dist.recv(got, source)
        assert (got == source).all()
    assert not any(t.any() for t in others)


def unused_parameters(r, n):
    class Ways(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.c = (nn.Linear(2, 1) for _ in range(3))

        def forward(self, x):
            return self.a(x) if r == 0 else self.b(x)

    ways = DistributedDataParallel(Ways())
    ways(eager.ones(1, 2)).sum().backward()
    assert ways.module.c.weight.grad is None
    assert np.allclose(ways.module.a.weight.grad.numpy(), 1 / n)
    assert np.allclose(ways.module.b.weight.grad.numpy(), (n - 1) / n)
    _raises(RuntimeError, "not needed", DistributedDataParallel, nn.ReLU())
    _raises(dist.DistError, r"rank 1's model is not that of rank 0", DistributedDataParallel,
            nn.Linear(2, 1 + r))  # fmt: skip


def data(r, n):
    sampler = DistributedSampler(range(10), shuffle=False)
    assert [*sampler] == [i % 10 for i in range(r, -(-10 // n) * n, n)]


def under_jit(r, n):
    """Collectives are nodes of one graph, in their order; ranks are guarded numbers."""

    @jit
    def step(x, everyone):
        y = x * 2
        dist.all_reduce(y)
        dist.broadcast(y, 1)
        dist.all_gather_into_tensor(everyone, y.exp() + dist.get_rank())
        work = dist.all_reduce(y, dist.ReduceOp.AVG, async_op=True)
        dist.barrier()
        work.wait()
        mine, swapped = eager.zeros(1), eager.zeros(n)
        dist.reduce_scatter_tensor(mine, y[:1].repeat(n))
        uneven = eager.zeros(2)  # of (2, n): its rows make no equal parts, its elements do
        dist.reduce_scatter_tensor(uneven, eager.ones(2, n))
        mine += uneven.sum() - 2 * n
        dist.all_to_all_single(swapped, eager.arange(float(n)))
        for _ in range(3):
            dist.all_reduce(mine)
        return y, mine, swapped

    for k in range(3):
        everyone = eager.zeros(2 * n)
        y, mine, swapped = step(eager.ones(2) + k, everyone)
        value = 2 * (1 + k) * n
        assert y.tolist() == [value] * 2 and mine.tolist() == [value * n**4]
        assert swapped.tolist() == [r] * n
        ranks = np.repeat(np.arange(n), 2)
        assert np.allclose(everyone.numpy(), np.exp(value) + ranks, rtol=1e-5)
    assert (step.stats.graphs, step.stats.splits) == (1, 0), step.stats.refusals
    assert "all_reduce" in str(explain(step)(eager.ones(2), eager.zeros(2 * n)))

    @jit
    def branches(x):
        if x.sum() > 0:
            dist.all_reduce(x)
        return x

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert branches(eager.ones(2)).tolist() == [n, n]
    assert "all_reduce in a branch or loop that data decide" in str(branches.stats.refusals)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4)
        self.cell, self.out = nn.GRU(4, 4, batch_first=True), nn.Linear(4, 3)

    def forward(self, x):
        h = self.norm(self.conv(x)).relu()
        return self.out(self.cell(h.flatten(2).transpose(1, 2))[0].mean(1))


def data_parallel_under_jit(r, n):
    """One graph on each rank, with the buffers' broadcasts, the sums and the update."""

    def trained(compiled):
        eager.manual_seed(1)
        model = DistributedDataParallel(Net().double(), bucket_cap_mb=1e-3)
        opt = eager.optim.AdamW(model.parameters(), 1e-3)

        def step(x, y):
            opt.zero_grad()
            with model.no_sync():
                nn.functional.cross_entropy(model(x[:2]), y[:2]).backward()
            nn.functional.cross_entropy(model(x[2:]), y[2:]).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.1)
            opt.step()

        run = jit(step, backend="python") if compiled else step
        for k in range(3):
            rng = np.random.default_rng(9 * k + r)
            x = eager.from_numpy(rng.normal(size=(4, 1, 5, 5)))
            run(x, eager.from_numpy(rng.integers(0, 3, 4)))
        if compiled:
            assert (run.stats.graphs, run.stats.splits) == (1, 0), run.stats.refusals
        state = [t.detach().clone() for t in (*model.parameters(), *model.buffers())]
        if r == 0:  # without gradients a rank may run alone
            with eager.no_grad():
                model(x)
        return state

    for a, b in zip(trained(True), trained(False), strict=True):
        assert (a - b).abs().max() < 1e-9


def zero_redundancy(r, n):
    """The state of each parameter on one rank; training as with all of it, also in one graph."""
    made, steps = [], []
    for sharded in (True, False, "jit"):
        eager.manual_seed(2)
        model = DistributedDataParallel(nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 2)))
        groups = [
            {"params": [*model.parameters()][:1], "lr": 0.02},
            {"params": [*model.parameters()][1:]},
        ]
        if sharded:
            opt = ZeroRedundancyOptimizer(groups, eager.optim.AdamW, lr=0.01, weight_decay=0.1)
        else:
            opt = eager.optim.AdamW(groups, lr=0.01, weight_decay=0.1)
        schedule = eager.optim.lr_scheduler.StepLR(opt, 2, 0.5)

        def step(x):
            opt.zero_grad()
            model(x).square().mean().backward()
            opt.step()

        run = jit(step, backend="python") if sharded == "jit" else step
        for k in range(4):
            run(eager.from_numpy(np.random.default_rng(n * k + r).normal(size=(3, 6))).float())
            schedule.step()
        if sharded == "jit":
            assert run.stats.splits == 0, run.stats.refusals
        elif sharded:
            held = sum(t.numel() for s in opt.optim.state.values() for t in s.values())
            every = [None] * n
            dist.all_gather_object(every, held)
            assert max(every) < 0.8 * sum(every)
            _raises(RuntimeError, "consolidate_state_dict", opt.state_dict)
            opt.consolidate_state_dict(1)
        made.append([*model.parameters()])
        steps.append(opt)
    for other in made[1:]:
        assert max((a - b).abs().max().item() for a, b in zip(made[0], other, strict=True)) < 1e-6
    said = [steps[0].state_dict() if r == 1 else None]
    dist.broadcast_object_list(said, 1)
    theirs = steps[1].state_dict()
    assert said[0]["param_groups"] == theirs["param_groups"]
    for i, values in theirs["state"].items():
        assert eager.allclose(values["exp_avg"], said[0]["state"][i]["exp_avg"], atol=1e-6)
    steps[2].load_state_dict(theirs)
    again = steps[2].optim.state_dict()["state"]
    for i, values in theirs["state"].items():
        rows = -(-len(values["exp_avg"]) // n)
        assert (again[i]["exp_avg"] == values["exp_avg"][r * rows : (r + 1) * rows]).all()


def mistakes(r, n):
    _raises(RuntimeError, "twice", dist.init_process_group)
    _raises(RuntimeError, "AVG is not there for", dist.all_reduce, eager.ones(1).long(),
            dist.ReduceOp.AVG)  # fmt: skip
    _raises(
        ValueError,
        "belongs to one of 3 elements",
        dist.all_gather_into_tensor,
        eager.ones(1),
        eager.ones(1),
    )
    _raises(TypeError, "a Tensor is needed", dist.all_reduce, 3)
    _raises(ValueError, "without dimensions", F.all_gather_tensor, eager.tensor(1.0))
    _raises(ValueError, "equal parts", dist.all_to_all_single, eager.ones(n), eager.ones(n + 1))
    _raises(dist.DistBackendError, r"rank 0: all_reduce of \[1\].*rank 1: all_reduce of \[2\]",
            dist.all_reduce, eager.ones(1 + (r > 0)))  # fmt: skip
    objects_that_meet(r, n)


def objects_that_meet(r, n):
    """Two calls that are not the same, and one that only another rank's is."""
    some = [1] if r == 0 else [None]
    calls = {
        "all_gather_object": lambda: dist.all_gather_object([None] * n, r),
        "broadcast_object_list of 1 from 0": lambda: dist.broadcast_object_list(some),
        "broadcast_object_list of 1 from 1": lambda: dist.broadcast_object_list(some, 1),
        "broadcast_object_list of 2 from 0": lambda: dist.broadcast_object_list(some * 2),
        "scatter_object_list from 0": lambda: dist.scatter_object_list([0], [1] * n),
        "gather_object to 1": lambda: dist.gather_object(r, [0] * n, 1),
        "gather_object to 0": lambda: dist.gather_object(r, [0] * n, 0),
        "saving a checkpoint": lambda: dcp.save({}, checkpoint_id=NOWHERE),
        "loading a checkpoint": lambda: dcp.load({}, checkpoint_id=NOWHERE),
        "DistributedDataParallel's check": lambda: DistributedDataParallel(nn.Linear(1, 1)),
    }
    for (ours, call), (theirs, other) in itertools.pairwise(calls.items()):
        text = rf"rank 0: {ours}.* \(number (\d+) of objects\); rank 1: {theirs}.* \(number \1"
        _raises(dist.DistBackendError, text, call if r == 0 else other)
    if r == 1:  # alone
        _raises(Exception, "pickle", dist.all_gather_object, [None] * n, lambda: 0)
    _raises(dist.DistBackendError, r"rank 0: all_gather_object \(number (\d+) .*; rank 1: all_g",
            calls["all_gather_object"])  # fmt: skip
    dist.group.WORLD.object_calls += r != 1


def _uneven_exchange(r, n):
    """Each rank has its own number of rows; on some of them the parts may happen to be equal."""
    table = [[1 if i == 0 else i + j for j in range(n)] for i in range(n)]  # from i to j
    sent, received = table[r], [row[r] for row in table]
    x = eager.arange(2.0 * sum(sent)).view(-1, 2)

    def exchange(x):
        return F.all_to_all_single(x * 2, received, sent) + r

    for run in (exchange, jit(exchange)):
        p = x.clone().requires_grad_()
        y = run(p)
        starts = [sum(row[:r]) for row in table]
        found = [
            2.0 * x0 + r
            for s, k in zip(starts, received, strict=True)
            for x0 in range(2 * s, 2 * (s + k))
        ]
        assert y.flatten().tolist() == found
        y.sum().backward()
        assert (p.grad == 2).all()
    _raises(ValueError, "or none", F.all_to_all_single, x, None, sent)
    more = [*sent[:-1], sent[-1] + 1] if r == 0 else sent  # rank 0 has a row more for the last
    y = eager.zeros(sum(received), 2)
    wrong = rf"rank {n - 1}: all_to_all, to which rank 0 sends \d and \d are expected"
    for exchange in (
        lambda x: F.all_to_all_single(x, received, more),
        jit(lambda x: F.all_to_all_single(x, received, more)),
        lambda x: dist.all_to_all_single(y, x, received, more),
        lambda x: dist.all_to_all([*y.split(received)], [*x.split(more)]),
    ):
        _raises(dist.DistBackendError, wrong, exchange, eager.zeros(sum(more), 2))


def _raises(kind, text, fn, *args, **kwargs):
    with pytest.raises(kind, match=text):
        fn(*args, **kwargs)


CASES = (reductions, moves, objects, groups, derivatives, data_parallel,
         interrupted_backward, shared_memory, dropped_handles, unused_parameters, data, under_jit, data_parallel_under_jit, zero_redundancy, *ranks_compiled.CASES, *ranks_draws.CASES, mistakes)  # fmt: skip


def ends_badly(case, r):
    if r == 1:
        {
            "raise": lambda: eager.ones(2).reshape(3),
            "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
            "hang": lambda: time.sleep(60),
            "Ctrl-C": lambda: time.sleep(60),
        }[case]()
    if case == "Ctrl-C":
        signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    else:
        try:
            dist.all_reduce(eager.ones(2))
        except dist.DistTimeoutError as error:
            print(error, file=sys.stderr)
    jit(lambda x: dist.all_reduce(x))(eager.ones(2))


def main(cases=CASES, backend="mpi"):
    case = sys.argv[1] if len(sys.argv) > 1 else ""
    dist.init_process_group(backend, timeout=timedelta(seconds=1 if case == "hang" else 60))
    r, n = dist.get_rank(), dist.get_world_size()
    if case:
        return ends_badly(case, r)
    failures = {}
    for each in cases:
        error = ""
        try:
            each(r, n)
        except Exception:
            error = traceback.format_exc()
        said = [None] * n
        dist.all_gather_object(said, error)
        if any(said):
            failures[each.__name__] = said
            break  # the ranks may be at different places
    if r == 0:
        print(json.dumps(failures))
    dist.destroy_process_group()
    return None


if __name__ == "__main__":
    main()
