"""Train an MLP on scikit-learn's digits, each step one compiled graph; started again, it goes on
behind its last checkpoint, with another number of processes, too.

    python examples/one_process.py out/digits
    python -m jitcap.launch -n 4 examples/ranks.py out/digits    (or: mpiexec -n 4 python ...)

`ranks.py` is `one_process.py` but for three lines, which say what is spread over the processes. A
batch is, so that any number of them trains the same model.
"""

import argparse
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

import eager as torch
from eager import nn
from eager.distributed import checkpoint as dcp
from eager.nn import functional as F
from eager.utils.data import DataLoader, DistributedSampler, TensorDataset
from jitcap import jit

BATCH = 128


def make_model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 10))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="of the checkpoints")
    parser.add_argument("--epochs", type=int, default=6)
    given = parser.parse_args()
    torch.distributed.init_process_group("mpi")
    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.target))
    x = torch.from_numpy(digits.data[order].astype(np.float32)) / 16
    y = torch.from_numpy(digits.target[order])
    data, held_out = TensorDataset(x[:1536], y[:1536]), (x[1536:], y[1536:])
    model = nn.parallel.DistributedDataParallel(make_model())
    sampler = DistributedSampler(data)
    loader = DataLoader(data, BATCH // sampler.num_replicas, sampler=sampler, drop_last=True)
    opt = torch.optim.AdamW(model.parameters(), 5e-3)

    @jit
    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        opt.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        opt.step()
        return loss

    state = {"model": model, "opt": opt, "epoch": 0}
    last = dcp.latest(given.folder)
    if last is not None:
        dcp.load(state, checkpoint_id=last)
    begin = state["epoch"]
    for epoch in range(begin, given.epochs):
        sampler.set_epoch(epoch)
        for batch in loader:
            step(*batch)
        state["epoch"] = epoch + 1
        dcp.save(state, checkpoint_id=given.folder / f"epoch_{epoch + 1}", keep=2)
    with torch.no_grad():
        scores = model(held_out[0])
        loss = F.cross_entropy(scores, held_out[1]).item()
        accuracy = (scores.argmax(1) == held_out[1]).float().mean().item()
    print(
        f"rank {sampler.rank} of {sampler.num_replicas}, epochs {begin} to {given.epochs}: loss "
        f"{loss:.6f}, accuracy {accuracy:.4f}, {step.stats.graphs} graph, "
        f"{step.stats.splits} splits"
    )


if __name__ == "__main__":
    main()
