"""Cases of `distributed.checkpoint`, run by every rank: `mpiexec -n N python ranks_checkpoint.py FOLDER`.

Rank 0 prints the failures as JSON, by case. FOLDER keeps "run/step_3", for another number of ranks.
"""

import errno
import json
import os
import sys
import traceback
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

import eager
import eager.distributed as dist
import eager.distributed.checkpoint as dcp
from eager import nn
from eager.amp import GradScaler
from eager.distributed import shards
from eager.distributed.checkpoint import saving
from eager.distributed.checkpoint.state_dict import (
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)
from eager.distributed.fsdp import fully_shard
from eager.distributed.optim import ZeroRedundancyOptimizer
from eager.nn.parallel import DistributedDataParallel
from eager.utils.data import DistributedSampler


class Program:
    """A training whose next losses depend on everything that it has."""

    def __init__(self, seed=0, wrap=DistributedDataParallel):
        eager.manual_seed(seed)
        layers = nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 1)
        self.model = wrap(nn.Sequential(*layers))
        self.opt = eager.optim.AdamW(self.model.parameters(), 0.05)
        self.schedule = eager.optim.lr_scheduler.StepLR(self.opt, 2, 0.5)
        self.scaler = GradScaler("cpu", init_scale=8.0, growth_interval=2)
        self.streams, self.done = dcp.RandomStreams(), 0

    def state(self):
        kept = {name: getattr(self, name) for name in "model opt schedule scaler streams".split()}
        return {**kept, "done": self.done, "tied": [next(iter(self.model.parameters())).detach()]}

    def train(self, steps, r, n):
        losses = []
        for _ in range(steps):
            rows = [*DistributedSampler(range(64), n, r, seed=self.done)][: 16 // n]
            x = eager.from_numpy(np.random.default_rng(3).normal(size=(64, 6))).float()[rows]
            self.opt.zero_grad()
            loss = (self.model(x) - x.sum(1, keepdim=True)).square().mean()
            self.scaler.scale(loss).backward()
            self.scaler.step(self.opt)
            self.scaler.update()
            self.schedule.step()
            self.done += 1
            losses.append(loss.item())
        return losses


def resume_is_bitwise(r, n, at):
    program = Program()
    program.train(3, r, n)
    dcp.save(program.state(), checkpoint_id=at / "run" / "step_3")
    losses = program.train(3, r, n)
    other = Program(seed=9)
    state = other.state()
    dcp.load(state, checkpoint_id=dcp.latest(at / "run"))
    other.done = state["done"]
    assert other.done == 3 and other.train(3, r, n) == losses
    for a, b in zip(program.model.parameters(), other.model.parameters(), strict=True):
        assert (a == b).all()
    files = [*(at / "run" / "step_3").glob("*.safetensors")]
    assert len(files) == n  # of what all have, each writes a part
    sizes = [f.stat().st_size for f in files]
    assert max(sizes) < 0.7 * sum(sizes)


def part_of(whole, group):
    """Rows of a tensor, as a sharded module has them."""
    shard = shards.own_shard(tuple(whole.shape), group)
    return shards.marked(shards.part_of(whole, shard).clone(), shard)


def another_number_of_ranks(r, n, at):
    """Fewer ranks, and one alone, read the parts of all."""
    whole = eager.arange(3.0 * (2 * n - 1)).reshape(2 * n - 1, 3)
    world = dist.group.WORLD
    given = {
        "x": part_of(whole, world),
        "empty": eager.zeros(0, 2),
        "one": part_of(whole[:1], world),
    }
    dcp.save(given, checkpoint_id=at / "parts")
    pair = dist.new_group([0, 1])
    if r < 2:
        half, one = part_of(whole * 0, pair), part_of(whole[:1] * 0, pair)
        dcp.load({"x": half, "one": one}, checkpoint_id=at / "parts", process_group=pair)
        assert (half == part_of(whole, pair)).all() and (one == part_of(whole[:1], pair)).all()
    alone = eager.zeros(2 * n - 1, 3)
    dcp.load({"x": alone}, checkpoint_id=at / "parts", no_dist=True)
    assert (alone == whole).all()


def sharded(seed):
    eager.manual_seed(seed)
    model = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 1))
    fully_shard(model)
    return model, eager.optim.AdamW(model.parameters(), 0.05)


def spread(seed, group=None):
    eager.manual_seed(seed)
    model = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 1))
    model = DistributedDataParallel(model, process_group=group)
    return model, ZeroRedundancyOptimizer(model.parameters(), eager.optim.AdamW, group, lr=0.05)


def parts_of_models_and_optimizers(r, n, at):
    """Of `fully_shard` and of `ZeroRedundancyOptimizer`; one process has it all."""

    def trained(model, opt, x):
        losses = []
        for _ in range(2):
            opt.zero_grad()
            loss = (model(x) - 1).square().mean()
            loss.backward()
            opt.step()
            losses.append(loss.item())
        return losses

    for made in (sharded, spread):
        model, opt = made(0)
        x = eager.from_numpy(np.random.default_rng(r).normal(size=(4, 6))).float()
        trained(model, opt, x)
        dcp.save({"model": model, "opt": opt}, checkpoint_id=at / made.__name__)
        first = next(iter(model.parameters()))
        moments = [s for s in getattr(opt, "optim", opt).state.values() if "exp_avg" in s]
        assert moments
        whole = shards.full_tensor(first).detach().clone()
        losses = trained(model, opt, x)
        other = made(7)
        dcp.load({"model": other[0], "opt": other[1]}, checkpoint_id=at / made.__name__)
        assert trained(*other, x) == losses
        alone = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 1))
        own = eager.optim.AdamW(alone.parameters(), 0.1)
        state = {"model": alone, "opt": own}
        dcp.load(state, checkpoint_id=at / made.__name__, no_dist=True)
        assert own.param_groups[0]["lr"] == 0.05, own.param_groups[0]
        assert (alone[0].weight == whole).all()
        assert all(own.state[p]["exp_avg"].shape == p.shape for p in alone.parameters())
        if made is spread:  # each rank's rows, which two ranks share another way
            assert len([*(at / "spread").glob("*.safetensors")]) == n
            pair = dist.new_group([0, 1])
            if r < 2:
                model, opt = made(5, pair)
                state = {"model": model, "opt": opt}
                dcp.load(state, checkpoint_id=at / "spread", process_group=pair)
                found = opt.own_state_dict()["state"]
                for i, p in enumerate(alone.parameters()):
                    moments = shards.full_tensor(found[i]["exp_avg"])
                    assert (moments == own.state[p]["exp_avg"]).all()
        if made is sharded:
            other = nn.Sequential(nn.Linear(6, 5 + n))
            fully_shard(other)
            with pytest.raises(dcp.CheckpointException, match=r"model.0.weight: it has the shape"):
                dcp.load({"model": other}, checkpoint_id=at / made.__name__)
        if made is sharded:  # by names, as PyTorch's programs do
            model, opt = made(3)
            trained(model, opt, x)
            parts = {"m": get_model_state_dict(model), "o": get_optimizer_state_dict(model, opt)}
            dcp.save(parts, checkpoint_id=at / "named")
            losses, (model, opt) = trained(model, opt, x), made(4)
            trained(model, opt, x)
            parts = {"m": get_model_state_dict(model), "o": get_optimizer_state_dict(model, opt)}
            dcp.load(parts, checkpoint_id=at / "named")
            set_model_state_dict(model, parts["m"])
            set_optimizer_state_dict(model, opt, parts["o"])
            assert trained(model, opt, x) == losses


def a_full_disk(r, n, at):
    """One rank cannot write: all say so, and the checkpoint is what it was."""
    program = Program()
    write = saving.write_file

    def full(path, how):
        if path.name.endswith("00001.safetensors"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        write(path, how)

    dcp.save(program.state(), checkpoint_id=at / "full")
    before = {p.name: p.read_bytes() for p in (at / "full").iterdir()}
    saving.write_file = full
    program.train(1, r, n)
    for name in "full", "new":
        with pytest.raises(dcp.CheckpointException, match="rank 1: OSError: .*No space left"):
            dcp.save(program.state(), checkpoint_id=at / name)
    saving.write_file = write
    dist.barrier()
    assert before == {p.name: p.read_bytes() for p in (at / "full").iterdir()}
    assert not (at / "new").exists() and not [*at.glob(".*.part")]
    dist.barrier()
    dcp.save(program.state(), checkpoint_id=at / "full")  # in the place of the old one
    losses, fresh = program.train(2, r, n), Program(seed=5)
    fresh.done = program.done - 2
    dcp.load(fresh.state(), checkpoint_id=at / "full")
    assert fresh.train(2, r, n) == losses
    assert len([*(at / "full").iterdir()]) == n + 1


def beside_the_program(r, n, at):
    """`async_save`: what was when it was called is there when it ends, on all ranks or none."""
    program = Program()
    program.train(2, r, n)
    future = dcp.async_save(program.state(), checkpoint_id=at / "async" / "2", keep=2)
    losses = program.train(2, r, n)
    if r == 1:  # who wants to know
        assert future.result() is None and future.done()
    fresh = Program(seed=5)
    dcp.load(fresh.state(), checkpoint_id=at / "async" / "2")  # waits for it
    fresh.done = 2
    assert fresh.train(2, r, n) == losses
    old = eager.full((3,), 1.0)
    state = {"x": old}
    dcp.save(state, checkpoint_id=at / "async" / "3")

    def fails(rank):
        true = saving.write_file

        def full(path, how):
            if r == rank and (rank or path.name == "metadata.json"):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
            true(path, how)

        saving.write_file = full
        new = {"x": old + 1, "more": [eager.ones(3) for _ in range(n)]}  # each writes something
        future = dcp.async_save(new, checkpoint_id=at / "async" / "3")
        with pytest.raises(dcp.CheckpointException, match=f"async/3: rank {rank}: OSError: .*No s"):
            future.result()
        saving.write_file = true
        found = eager.zeros(3)
        dcp.load({"x": found}, checkpoint_id=at / "async" / "3")
        assert (found == 1).all()

    for rank in range(n):
        fails(rank)
    true = saving.Saving.write
    saving.Saving.write = lambda self: 1 / 0 if r == 2 else true(self)
    dcp.async_save(state, checkpoint_id=at / "async" / "4")
    said = r"rank 0: the asynchronous save before it failed: .*async/4: rank 2: ZeroDivisionError"
    with pytest.raises(dcp.CheckpointException, match=said):
        dcp.save(state, checkpoint_id=at / "async" / "5")
    saving.Saving.write = true
    dcp.async_save(state, checkpoint_id=at / "async" / "5", keep=2)
    dcp.async_save({"x": old * 7}, checkpoint_id=at / "async" / "6", keep=2)
    dcp.load({"x": old}, checkpoint_id=at / "async" / "6")
    assert (old == 7).all()
    assert sorted(p.name for p in (at / "async").iterdir()) == ["5", "6"]
    dist.barrier()
    dcp.async_save({"step": 3}, checkpoint_id=at / "plain").result()  # no rank has a tensor
    with pytest.raises(dcp.CheckpointException, match="x has shape"):
        dcp.async_save({"x": eager.zeros(1 + r)}, checkpoint_id=at / "async" / "7")


def what_does_not_fit(r, n, at):
    for state, said in (
        ({"x": r}, r"x is 1 on rank 1, and 0 on rank 0"),
        ({"x": eager.zeros(1 + r)}, r"x has shape \(2,\) on rank 1, and \(1,\) on rank 0"),
        ({"x": object() if r else 1}, r"rank 1: TypeError: x is a object"),
    ):
        with pytest.raises(dcp.CheckpointException, match=said):
            dcp.save(state, checkpoint_id=at / "none")
    dcp.save({"x": eager.zeros(2), f"of {r}": r}, checkpoint_id=at / "some")
    state = {f"of {r}": None, f"of {(r + 1) % n}": None}
    dcp.load(state, checkpoint_id=at / "some")
    assert [*state.values()] == [r, (r + 1) % n]
    with pytest.raises(dcp.CheckpointException, match=r"metadata.json, x: it has the shape \[2\]"):
        dcp.load({"x": eager.zeros(2 + r)}, checkpoint_id=at / "some")
    with pytest.raises(dcp.CheckpointException, match="rank 1: .*there is no 'y' in it"):
        dcp.load({"y" if r else "x": eager.zeros(2)}, checkpoint_id=at / "some")
    with pytest.warns(UserWarning, match="'x' differ") if r == 0 else pytest.MonkeyPatch.context():
        dcp.save({"x": eager.full((2,), float(r))}, checkpoint_id=at / "some")
    first = eager.ones(2)
    dcp.load({"x": first}, checkpoint_id=at / "some")
    assert not first.any()


CASES = (
    resume_is_bitwise,
    another_number_of_ranks,
    parts_of_models_and_optimizers,
    a_full_disk,
    beside_the_program,
    what_does_not_fit,
)


def main():
    at = Path(sys.argv[1])
    dist.init_process_group("mpi", timeout=timedelta(seconds=20))
    r, n = dist.get_rank(), dist.get_world_size()
    failures = {}
    for each in CASES:
        error = ""
        try:
            each(r, n, at)
        except BaseException:
            error = traceback.format_exc()
        said = [None] * n
        dist.all_gather_object(said, error)
        if any(said):
            failures[each.__name__] = said
            break
    if r == 0:
        print(json.dumps(failures))


if __name__ == "__main__":
    main()
