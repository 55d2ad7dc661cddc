"""Cases of `fully_shard` and `ZeroRedundancyOptimizer`, run by every rank: see `ranks`."""

import copy
import weakref

import numpy as np
from ranks import _raises, main
from sized_models import GPT, Recurrent

import eager
import eager.distributed as dist
from eager import nn
from eager.core.storage import owner_of
from eager.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, Unit, fully_shard
from eager.distributed.optim import ZeroRedundancyOptimizer
from eager.distributed.shards import full_tensor, marked, shard_of
from eager.distributed.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)
from eager.nn import functional as F
from eager.nn.parallel import DistributedDataParallel
from jitcap import jit

WHOLE = StateDictOptions(full_state_dict=True)


def mlp():
    return nn.Sequential(nn.Linear(5, 7), nn.GELU(), nn.Linear(7, 6), nn.LayerNorm(6), nn.Linear(6, 3))  # fmt: skip


def cnn():
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4), nn.ReLU(), nn.Flatten(), nn.Linear(36, 3)
    )


def inputs(kind, rows, seed):
    rng = np.random.default_rng(seed)
    if kind in (mlp, cnn):
        x = rng.normal(size=(rows, 5) if kind is mlp else (rows, 1, 5, 5))
        return eager.from_numpy(x), eager.from_numpy(rng.integers(0, 3, rows))
    words = eager.from_numpy(rng.integers(0, 31, (rows, 7)))
    return words[:, :-1], words[:, 1:]


def gru():
    return Recurrent(nn.GRU)


KINDS = (mlp, cnn, gru, GPT)


def made(kind, seed=3):
    eager.manual_seed(seed)
    return kind().double()


def shard_all(model, **how):
    """Each layer that has parameters of its own, or each block; then the rest."""
    for layer in model.blocks if isinstance(model, GPT) else model.children():
        if [*layer.parameters()]:
            fully_shard(layer, **how)
    return fully_shard(model, **how)


def loss_of(model, x, y):
    out = model(x)
    return F.cross_entropy(out.reshape(-1, out.shape[-1]), y.reshape(-1))


def trained(model, opt, kind, r, n, steps=4, compiled=None, rows=(3, 2), clips=True):
    """Losses of steps on this rank's part of batches, of each size in turn."""

    def step(x, y):
        opt.zero_grad()
        loss = loss_of(model, x, y)
        loss.backward()
        if clips:
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        opt.step()
        return loss

    run = jit(step, backend=compiled) if compiled else step
    losses = []
    for k in range(steps):
        each = rows[k % len(rows)]
        x, y = inputs(kind, each * n, k)
        losses.append(run(x[each * r : each * (r + 1)], y[each * r : each * (r + 1)]).detach())
    if compiled:
        s = run.stats
        assert (s.graphs, s.splits, s.fallbacks) == (s.compiles, 0, 0), s.refusals
        assert s.compiles == len(rows), s.recompiles
    return losses


def apart(a, b):
    return max((x - y).abs().max().item() for x, y in zip(a, b, strict=True) if x.numel())


def whole(model):
    return [full_tensor(p.detach() if shard_of(p) is None else p) for p in model.parameters()]


def training(r, n):
    """Steps on parts of a batch, parameters spread, are steps of one process on the whole."""
    for kind in KINDS:
        alone, rows = made(kind), (3, 2) if kind in (mlp, GPT) else (3,)
        all_rows = [n * each for each in rows]
        trained(alone, eager.optim.AdamW(alone.parameters(), 1e-2), kind, 0, 1, rows=all_rows)
        for compiled in (None, "python"):
            model = shard_all(made(kind))
            opt = eager.optim.AdamW(model.parameters(), 1e-2)
            trained(model, opt, kind, r, n, compiled=compiled, rows=rows)
            assert apart(whole(model), alone.parameters()) < 1e-10, (kind, compiled)
            held = sum(p.numel() for p in model.parameters())
            assert held < sum(p.numel() for p in alone.parameters()) * 1.2 / n + 60


def memory(r, n):
    """Whole parameters live from a layer's call to its end, and again while its derivative is
    taken."""
    arrays, most = [], []
    gather = Unit.gather

    def watched(self, rows):
        found = gather(self, rows)
        arrays.extend(weakref.ref(owner_of(w._array)) for w in found)
        most.append(sum(ref() is not None for ref in arrays))
        return found

    model = shard_all(nn.Sequential(*(nn.Linear(6, 6) for _ in range(5))))
    Unit.gather = watched
    try:
        y = model(eager.ones(2, 6))
        assert not any(ref() is not None for ref in arrays) and len(arrays) == 10
        y.sum().backward()
        assert not any(ref() is not None for ref in arrays) and len(arrays) == 18  # not the first
        assert max(most) <= 4, most
        fully_shard(kept := nn.Linear(6, 6), reshard_after_forward=False)
        y = kept(eager.ones(2, 6).requires_grad_())
        assert arrays[-2]() is not None
        y.sum().backward()
        assert len(arrays) == 20 and not any(ref() is not None for ref in arrays)
    finally:
        Unit.gather = gather
    for layer in (*model, kept):
        assert layer.weight.grad.shape == layer.weight.shape == shard_of(layer.weight).sizes
        assert layer.weight.shape[0] <= -(-6 // n) and isinstance(layer, FSDPModule)


def accumulation(r, n):
    """Gradients of two parts of a batch add up on each rank, and are reduced once."""
    alone, model = made(mlp), shard_all(made(mlp))
    x, y = inputs(mlp, 4 * n, 0)
    loss_of(alone, x, y).backward()
    mine, theirs = slice(4 * r, 4 * r + 2), slice(4 * r + 2, 4 * r + 4)
    model.set_requires_gradient_sync(False)
    (loss_of(model, x[mine], y[mine]) / 2).backward()
    assert all(p.grad is None for p in model.parameters())
    model.set_requires_gradient_sync(True)
    (loss_of(model, x[theirs], y[theirs]) / 2).backward()
    for p, q in zip(model.parameters(), alone.parameters(), strict=True):
        shard = shard_of(p)
        own = q.grad[shard.offsets[0] : shard.offsets[0] + shard.sizes[0]]
        assert p.grad.shape == own.shape and (not own.numel() or (p.grad - own).abs().max() < 1e-12)
    for order in (2, 1, float("inf")):
        total = nn.utils.clip_grad_norm_(model.parameters(), 1e9, order)
        assert abs(total - nn.utils.clip_grad_norm_(alone.parameters(), 1e9, order)) < 1e-12
        by_hand = nn.utils.get_total_norm([p.grad for p in model.parameters()], order)
        assert abs(total - by_hand) < 1e-12
    expected = nn.utils.clip_grad_norm_(alone.parameters(), 0.1)
    assert abs(model.clip_grad_norm_(0.1) - expected) < 1e-12
    assert abs(nn.utils.clip_grad_norm_(model.parameters(), 1.0) - 0.1) < 1e-6
    with eager.no_grad():
        assert apart([model(x)], [alone(x)]) < 1e-12


class Odd(nn.Module):
    """A frozen layer, one that is not used, one that is called twice, and weights that are tied."""

    def __init__(self):
        super().__init__()
        self.words, self.head = nn.Embedding(5, 4), nn.Linear(4, 5, bias=False)
        self.head.weight = self.words.weight
        self.frozen, self.unused, self.twice = (nn.Linear(4, 4) for _ in range(3))
        self.frozen.requires_grad_(False)
        self.extra = nn.Parameter(eager.ones(3))

    def forward(self, x):
        h = self.twice(self.frozen(self.twice(self.words(x)).tanh()))
        return self.head(h)


def odd_parameters(r, n):
    x = eager.from_numpy(np.random.default_rng(0).integers(0, 5, 2 * n))
    alone = made(Odd)
    results = []
    for layers in ((), ("frozen", "twice", "unused"), None):
        model = alone if layers is None else made(Odd)
        if layers is not None:
            for name in layers:
                fully_shard(getattr(model, name))
            fully_shard(model)
        opt = eager.optim.AdamW(model.parameters(), 1e-2)
        for _ in range(3):
            opt.zero_grad()
            part = x if layers is None else x[2 * r : 2 * r + 2]
            F.cross_entropy(model(part), part).backward()
            opt.step()
        unused = [k for k, p in model.named_parameters() if p.requires_grad and p.grad is None]
        assert unused == ["extra", "unused.weight", "unused.bias"]
        assert model.head.weight is model.words.weight
        results.append(whole(model))
    assert apart(results[0], results[2]) < 1e-12 and apart(results[1], results[2]) < 1e-12


def mixed_precision(r, n):
    seen = []

    class Looks(nn.Linear):
        def forward(self, x):
            seen.append((x.dtype, self.weight.dtype))
            return super().forward(x)

    policy = MixedPrecisionPolicy(eager.bfloat16, eager.float32, eager.float32)
    eager.manual_seed(0)
    model = fully_shard(Looks(6, 5), mp_policy=policy)
    x = eager.arange(6.0).reshape(1, 6) + r
    y = model(x)
    y.sum().backward()
    assert seen == [(eager.bfloat16, eager.bfloat16)] and y.dtype is eager.float32
    assert model.weight.dtype is model.weight.grad.dtype is eager.float32
    rows = full_tensor(marked(model.weight.grad, shard_of(model.weight)))
    assert np.allclose(rows.numpy(), (np.arange(6) + (n - 1) / 2)[None].repeat(5, 0))


def states(r, n):
    """Parts and whole states, of the model and of its optimizer, go to a process of its own and
    back."""
    alone, model = made(mlp), shard_all(made(mlp))
    opts = [eager.optim.AdamW(m.parameters(), 1e-2) for m in (alone, model)]
    trained(alone, opts[0], mlp, 0, 1, steps=2, rows=(2 * n,))
    trained(model, opts[1], mlp, r, n, steps=2, rows=(2,))
    parts = model.state_dict()
    assert [*parts] == [*alone.state_dict()] and shard_of(parts["0.weight"]).shape == (7, 5)
    full = get_model_state_dict(model, options=WHOLE)
    assert apart(full.values(), alone.state_dict().values()) < 1e-12
    kept = get_model_state_dict(model, options=StateDictOptions(True, cpu_offload=True))
    assert len(kept) == (0 if r else len(full))
    of_opt = get_optimizer_state_dict(model, opts[1], options=WHOLE)
    theirs = get_optimizer_state_dict(alone, opts[0])
    assert of_opt["param_groups"] == theirs["param_groups"]
    for name, values in theirs["state"].items():
        assert apart(values.values(), of_opt["state"][name].values()) < 1e-12
    part = get_optimizer_state_dict(model, opts[1])["state"]["0.weight"]["exp_avg"]
    assert shard_of(part) == shard_of(parts["0.weight"])

    again = shard_all(made(mlp, seed=5))
    opt = eager.optim.AdamW(again.parameters(), 1.0)
    given = (kept, of_opt if r == 0 else {})
    from_first = StateDictOptions(True, broadcast_from_rank0=True)
    assert not any(set_model_state_dict(again, given[0], options=from_first))
    set_optimizer_state_dict(again, opt, given[1], options=from_first)
    for m, o in ((again, opt), (model, opts[1])):
        trained(m, o, mlp, r, n, steps=2, rows=(2,))
    assert apart(again.parameters(), model.parameters()) == 0
    again.load_state_dict(parts)  # parts of the same places
    assert apart(again.state_dict().values(), parts.values()) == 0


def by_hand(r, n):
    """Whole parameters between `unshard()` and `reshard()`; no stale ones in the next call."""
    model = fully_shard(made(mlp))
    opt = eager.optim.SGD(model.parameters(), 0.5)
    x, y = inputs(mlp, 3, 0)
    model.unshard(async_op=True).wait()
    assert model[0].weight.shape == (7, 5)
    model.reshard()
    assert model[0].weight.shape == shard_of(model[0].weight).sizes
    model.unshard()
    loss_of(model, x, y).backward()
    opt.step()
    model.unshard()
    opt.step()
    alone = made(mlp)
    set_model_state_dict(alone, get_model_state_dict(model, options=WHOLE))
    assert apart([model(x)], [alone(x)]) < 1e-12


def overflow(r, n):
    """An overflow on one rank skips the step on all."""
    for spreads in (True, False):
        model = nn.Linear(4, 4 * n)
        if spreads:
            opt = eager.optim.SGD(fully_shard(model).parameters(), 0.1)
        else:
            sgd = eager.optim.SGD
            opt = ZeroRedundancyOptimizer(model.parameters(), sgd, lr=0.1, reduce_gradients=True)
        scaler = eager.amp.GradScaler("cpu")
        model(eager.ones(1, 4)).sum().backward()
        if r == n - 1:
            model.weight.grad[0] = float("inf")
        before = model.weight.clone()
        scaler.unscale_(opt)
        scaler.step(opt)
        scaler.update()
        assert (model.weight == before).all() and scaler.get_scale() == 2.0**15


class Scaled(nn.Sequential):
    """Fewer rows than ranks, no rows, and no dimensions."""

    def __init__(self):
        super().__init__(*mlp())
        self.one, self.none = nn.Parameter(eager.ones(1, 3)), nn.Parameter(eager.zeros(0, 2))
        self.scale = nn.Parameter(eager.tensor(1.5))

    def forward(self, x):
        return super().forward(x) * self.scale * self.one + self.none.sum()


def scaled():
    return Scaled()


def zero_by_rows(r, n):
    """State spread by rows: with gradients of data parallel, and with each rank's own."""
    alone = made(scaled)
    own = eager.optim.AdamW(alone.parameters(), 1e-2)
    trained(alone, own, mlp, 0, 1, rows=(3 * n, 2 * n))
    for reduces in (False, True):
        for compiled in (None, "python"):
            model, how = made(scaled), {}
            if reduces:
                how = {"reduce_gradients": True, "max_norm": 0.5}
            net = model if reduces else DistributedDataParallel(model)
            opt = ZeroRedundancyOptimizer(model.parameters(), eager.optim.AdamW, lr=1e-2, **how)
            trained(net, opt, mlp, r, n, compiled=compiled, clips=not reduces)
            assert apart(model.parameters(), alone.parameters()) < 1e-12
            opt.consolidate_state_dict(n - 1)
            if r == n - 1:
                found, expected = (o.state_dict()["state"] for o in (opt, own))
                assert found.keys() == expected.keys()
                for i, values in expected.items():
                    assert apart(found[i].values(), values.values()) < 1e-12
    rows = [s["exp_avg"] for s in opt.optim.state.values()]
    assert sum(t.numel() for t in rows) < 1.4 / n * sum(p.numel() for p in alone.parameters())
    _whole_and_parts(opt, model, r)
    _raises(ValueError, "give it max_norm", nn.utils.clip_grad_norm_, model.parameters(), 1.0)
    _raises(RuntimeError, "is not copied", copy.deepcopy, opt)
    _raises(ValueError, "max_norm is for reduce_gradients", ZeroRedundancyOptimizer,
            model.parameters(), eager.optim.SGD, max_norm=1.0)  # fmt: skip


def _whole_and_parts(opt, model, r):
    """States by name, as `get_optimizer_state_dict` gives them, are loaded into another one."""
    given = [get_optimizer_state_dict(model, opt, options=how) for how in (None, WHOLE)]
    first = given[0]["state"]["0.weight"]["exp_avg"]
    assert shard_of(first).shape == (7, 5) and given[1]["state"]["0.weight"]["exp_avg"].shape == (
        7,
        5,
    )
    for state in given:
        other = made(scaled, seed=8)
        again = ZeroRedundancyOptimizer(other.parameters(), eager.optim.AdamW, lr=1.0)
        set_optimizer_state_dict(other, again, state)
        assert again.param_groups[0]["lr"] == 1e-2
        theirs, ours = again.own_state_dict()["state"], opt.own_state_dict()["state"]
        for i, values in ours.items():
            assert all((theirs[i][k] == v).all() for k, v in values.items())


class Norms(eager.optim.Optimizer):
    """One that does not say that it updates each element for itself: it does not."""

    def __init__(self, params, lr):
        super().__init__(params, {"lr": lr})

    def update(self, parameter, gradient, state, group):
        parameter.sub_(gradient / gradient.norm() * group["lr"])


def zero_by_owners(r, n):
    """An optimizer that looks at whole parameters has them."""
    for kind, said in ((eager.optim.Muon, "updates each"), (Norms, "by_element = True")):
        weights = [
            [nn.Parameter(eager.arange(6.0).reshape(2, 3) + k) for k in range(2 * n)] for _ in "ab"
        ]
        opts = [ZeroRedundancyOptimizer(weights[0], kind, lr=0.1), kind(weights[1], lr=0.1)]
        for opt, those in zip(opts, weights, strict=True):
            for k, w in enumerate(those):
                w.grad = eager.arange(6.0).reshape(2, 3) * (k + 1)
            opt.step()
        assert apart(*weights) < 1e-6
        _raises(ValueError, said, ZeroRedundancyOptimizer, weights[0], kind, lr=0.1,
                reduce_gradients=True)  # fmt: skip
        opts[0].consolidate_state_dict()
        if r == 0 and kind is not Norms:
            assert len(opts[0].optim.state) == 2
            assert [*opts[0].state_dict()["state"]] == [*range(2 * n)]


def sharding_mistakes(r, n):
    layer = fully_shard(nn.Linear(4, 4))
    _raises(ValueError, "sharded already", fully_shard, layer)
    _raises(ValueError, "shard the modules in it", fully_shard, nn.ModuleList([nn.Linear(2, 2)]))
    tied = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    tied[1].weight = tied[0].weight
    fully_shard(tied[0])
    _raises(ValueError, "1.weight is a parameter of a sharded module, too", fully_shard, tied)
    scaled = nn.PReLU()
    scaled.weight = nn.Parameter(eager.tensor(0.5))
    _raises(ValueError, "weight has no dimensions", fully_shard, scaled)
    _raises(RuntimeError, "is not copied", copy.deepcopy, nn.Sequential(layer))
    _raises(ValueError, "sharded already", ZeroRedundancyOptimizer, [layer.weight],
            eager.optim.SGD)  # fmt: skip
    _raises(ValueError, "looks at whole parameters", eager.optim.Muon, [layer.weight])
    y = layer(eager.ones(1, 4).requires_grad_())
    with eager.no_grad():
        layer.weight.add_(1)
    _raises(RuntimeError, "modified by an inplace operation", y.sum().backward)
    ways = fully_shard(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)))
    ways.forward = lambda x: ways[min(r, 1)](x)
    _raises(
        dist.DistBackendError,
        "rank 0: .*without 1.weight, 1.bias.*rank 1: .*without 0.weight, 0.bias",
        ways(eager.ones(1, 2)).sum().backward,
    )


CASES = (training, memory, accumulation, odd_parameters, mixed_precision, states, by_hand, overflow,
         zero_by_rows, zero_by_owners, sharding_mistakes)  # fmt: skip

if __name__ == "__main__":
    main(CASES)
