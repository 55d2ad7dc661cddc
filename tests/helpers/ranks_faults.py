"""A training that goes on where its last checkpoint is: FOLDER STEPS [fault] of `faults.py`.

Each rank appends its losses to FOLDER/losses.RANK, every bit of them, its process to FOLDER/pids,
and the files of the memory that it shares to FOLDER/shared.
"""

import errno
import os
import sys
import time
from datetime import timedelta
from pathlib import Path

import numpy as np

import eager
import eager.distributed as dist
import eager.distributed.checkpoint as dcp
from eager import nn
from eager.distributed.checkpoint import saving
from eager.nn.parallel import DistributedDataParallel
from eager.utils.data import DistributedSampler
from jitcap import jit
from jitcap.launch import shared_memory

AT, TIMEOUT = 3, 4.0  # the step of a fault, and seconds after which a rank is missed


def main():
    folder, steps, *fault = Path(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:]
    is_faulty = os.environ["RANK"] == "1" and fault
    kind = fault[0] if is_faulty else ""
    with (folder / "pids").open("a") as pids:
        pids.write(f"{os.getpid()}\n")
    with (folder / "shared").open("a") as shared:
        shared.writelines(f"{file}\n" for file in shared_memory())
    if kind == "packages":
        np.__version__ = "1.0"
    seconds = TIMEOUT if fault else 60
    dist.init_process_group("mpi", timeout=timedelta(seconds=seconds))
    r, n = dist.get_rank(), dist.get_world_size()
    eager.manual_seed(0)
    width = 9 if kind == "shapes" else 8
    layers = nn.Linear(6, width), nn.BatchNorm1d(width), nn.Dropout(0.3), nn.Linear(width, 1)
    model = DistributedDataParallel(nn.Sequential(*layers))
    opt = eager.optim.AdamW(model.parameters(), 0.01)
    data = eager.from_numpy(np.random.default_rng(0).normal(size=(64, 6))).float()

    def step(x):
        opt.zero_grad()
        loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
        loss.backward()
        opt.step()
        return loss

    run = jit(step) if "compile" in fault else step
    state = {"model": model, "opt": opt, "streams": dcp.RandomStreams(), "done": 0}
    last = dcp.latest(folder / "run")
    if last is not None:
        dcp.load(state, checkpoint_id=last)
    with (folder / f"losses.{r}").open("a") as losses:
        for done in range(state["done"], steps):
            if done == AT:
                happen(kind)
            rows = [*DistributedSampler(data, n, r, seed=done)][:8]
            losses.write(f"{done} {run(data[rows]).item().hex()}\n")
            losses.flush()
            if done % 2:
                save = dcp.async_save if "async" in fault or done % 4 == 1 else dcp.save
                save({**state, "done": done + 1}, checkpoint_id=folder / f"run/{done}", keep=2)


def happen(kind):
    """What goes wrong on this rank."""
    if kind == "step":
        os.kill(os.getpid(), 9)
    if kind == "slow":
        time.sleep(10 * TIMEOUT)
    if kind in ("save", "async", "full"):
        write = saving.write_unchecked

        def fails(tensors, metadata, file):
            file.write(b"the beginning of a file")
            if kind != "full":
                os.kill(os.getpid(), 9)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), file.name)

        saving.write_unchecked = fails
        assert write is not fails


if __name__ == "__main__":
    main()
