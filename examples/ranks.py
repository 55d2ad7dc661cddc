"""Train an MLP on scikit-learn's digits in several processes, each step one compiled graph.

    python -m jitcap.launch -n 4 examples/ranks.py    (or: mpiexec -n 4 python examples/ranks.py)

The lines that a program of one process does not have are numbered. A batch is spread over the
ranks, so that any number of them trains the same model.
"""

import numpy as np
from sklearn.datasets import load_digits

import eager as torch
import eager.distributed as dist
from eager import nn
from eager.nn import functional as F
from eager.nn.parallel import DistributedDataParallel
from eager.utils.data import DataLoader, DistributedSampler, TensorDataset
from jitcap import jit

BATCH, EPOCHS = 128, 6


def main() -> None:
    dist.init_process_group("mpi")  # 1
    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.target))
    x = torch.from_numpy(digits.data[order].astype(np.float32)) / 16
    y = torch.from_numpy(digits.target[order])
    data, held_out = TensorDataset(x[:1536], y[:1536]), (x[1536:], y[1536:])
    torch.manual_seed(0)
    model: nn.Module = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 10))
    model = DistributedDataParallel(model)  # 2
    sampler = DistributedSampler(data)  # 3
    loader = DataLoader(data, BATCH // dist.get_world_size(), sampler=sampler, drop_last=True)
    opt = torch.optim.AdamW(model.parameters(), 5e-3)

    @jit
    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        opt.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        opt.step()
        return loss

    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        for batch in loader:
            loss = step(*batch)
    with torch.no_grad():
        accuracy = (model(held_out[0]).argmax(1) == held_out[1]).float().mean()
    print(
        f"rank {dist.get_rank()} of {dist.get_world_size()}: loss {loss.item():.3f}, accuracy "
        f"{accuracy.item():.4f}, {step.stats.graphs} graph, {step.stats.splits} splits"
    )


if __name__ == "__main__":
    main()
