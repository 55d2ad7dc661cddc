"""Train an MLP and a small CNN on scikit-learn's digits, eagerly and under @jit, and compare.

The two runs of a model start from the same weights and see the same batches in the same order, so
their loss curves must agree; the compiled one must be faster. Prints a table, saves both curves.

`--device cuda` runs @jit there instead, for the first 50 steps, beside the CPU's eager ones, and
prints what each step asked of the device (with JITCAP_DEVICE=sim a simulated one).
"""

import argparse
import itertools
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from sklearn.datasets import load_digits
from tqdm import tqdm

import eager as torch
from eager import nn
from eager.nn import functional as F
from eager.utils.data import DataLoader, TensorDataset
from jitcap import jit

BATCH, SIMULATED_BATCH = 64, 8  # a simulated device runs each kernel on NumPy
MIN_ACCURACY = 0.97
MAX_LOSS_GAP = 1e-4
COMPARED_STEPS = 50
COUNTED = (
    "launches", "recordings", "replays", "bytes_to_device", "bytes_to_host", "synchronizations",
)  # fmt: skip


class CNN(nn.Module):
    """Two blocks of convolution, batch norm, ReLU and pooling, then a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1)
        self.bn1 = nn.BatchNorm2d(16)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.bn2 = nn.BatchNorm2d(32)
        self.head = nn.Linear(32 * 2 * 2, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.view(-1, 1, 8, 8)
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 2)  # (batch, 16, 4, 4)
        x = F.max_pool2d(F.relu(self.bn2(self.conv2(x))), 2)  # (batch, 32, 2, 2)
        return self.head(x.flatten(1))


def mlp() -> nn.Module:
    return nn.Sequential(
        nn.Linear(64, 256),
        nn.ReLU(),
        nn.Linear(256, 256),
        nn.ReLU(),
        nn.Linear(256, 10),
    )


@dataclass(frozen=True)
class Data:
    """Standardised rows of 64 pixels with labels, 80 % to train on."""

    x: torch.Tensor
    y: torch.Tensor
    x_test: torch.Tensor
    y_test: torch.Tensor


def load() -> Data:
    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.target))
    train, test = np.split(order, [int(0.8 * len(order))])
    pixels = digits.data.astype(np.float32)
    mean, std = pixels[train].mean(0), pixels[train].std(0)
    pixels = (pixels - mean) / (std + 1e-6)
    labels = digits.target.astype(np.int64)
    return Data(
        torch.from_numpy(pixels[train]),
        torch.from_numpy(labels[train]),
        torch.from_numpy(pixels[test]),
        torch.from_numpy(labels[test]),
    )


@dataclass
class Run:
    """What one training run showed."""

    losses: list[float]
    step_seconds: list[float]
    accuracy: float
    stats: Any = None
    asked: list[tuple[int, ...]] = field(default_factory=list)  # of the device: COUNTED, per step

    @property
    def ms(self) -> float:
        """Median milliseconds per step."""
        return statistics.median(self.step_seconds) * 1e3


def train(
    make: Callable[[], nn.Module],
    data: Data,
    epochs: int,
    compiled: bool,
    title: str,
    place: str = "cpu",
    most: int | None = None,
    batch: int = BATCH,
) -> Run:
    """Train from a fixed seed with AdamW and a cosine schedule; at `most` so many steps."""
    torch.manual_seed(0)
    model = make().to(place)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-2)
    loader = DataLoader(TensorDataset(data.x, data.y), batch, shuffle=True, drop_last=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * len(loader))

    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x.to(place)), y.to(place))
        loss.backward()
        optimizer.step()
        return loss

    if compiled:
        step = jit(step)
    losses, seconds, asked = [], [], [counted(place)]
    batches = itertools.islice(
        (batch for _ in range(epochs) for batch in loader), most or epochs * len(loader)
    )
    with tqdm(total=most or epochs * len(loader), desc=title, mininterval=0.25) as bar:
        for x, y in batches:
            start = time.perf_counter()
            loss = step(x, y).item()
            seconds.append(time.perf_counter() - start)
            schedule.step()
            losses.append(loss)
            asked.append(counted(place))
            bar.set_postfix(loss=f"{loss:.4f}", refresh=False)
            bar.update()
    stats = step.stats if compiled else None
    score = accuracy(model, data) if most is None else 0.0
    per_step = [
        tuple(now - then for now, then in zip(b, a, strict=True))
        for a, b in itertools.pairwise(asked)
    ]
    return Run(losses, seconds, score, stats, per_step)


def counted(place: str) -> tuple[int, ...]:
    """What was asked of the device so far."""
    if place == "cpu":
        return ()
    counts = torch.cuda.counters()
    return tuple(int(counts[name]) for name in COUNTED)


def accuracy(model: nn.Module, data: Data) -> float:
    """Share of the test images that the model names rightly."""
    model.eval()
    with torch.no_grad():
        guesses = model(data.x_test).argmax(dim=1)
    return (guesses == data.y_test).float().mean().item()


def loss_gap(eager: Run, compiled: Run) -> float:
    """Largest relative difference of the two curves over their first steps."""
    pairs = list(zip(eager.losses, compiled.losses, strict=True))[:COMPARED_STEPS]
    return max(abs(a - b) / abs(a) for a, b in pairs)


def report(results: dict[str, tuple[Run, Run]]) -> str:
    """One row per model."""
    head = ("model", "eager ms", "@jit ms", "ratio", "compile s", "graphs", "splits", "kernels")
    head += ("accuracy eager", "@jit", "loss gap")
    rows = [head]
    for name, (eager, compiled) in results.items():
        stats = compiled.stats
        rows.append(
            (
                name,
                f"{eager.ms:.3f}",
                f"{compiled.ms:.3f}",
                f"{eager.ms / compiled.ms:.1f}x",
                f"{stats.compile_seconds:.2f}",
                str(stats.graphs),
                str(stats.splits),
                str(stats.kernels),
                f"{eager.accuracy:.2%}",
                f"{compiled.accuracy:.2%}",
                f"{loss_gap(eager, compiled):.1e}",
            )
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(c.rjust(w) for c, w in zip(row, widths, strict=True)) for row in rows]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])


def device_report(results: dict[str, tuple[Run, Run]]) -> str:
    """What each step asked of the device; equal steps are one row."""
    head = ("model", "steps", "launches", "recordings", "replays")
    head += ("bytes to it", "bytes to the host", "waits")
    rows = [head]
    for name, (_, there) in results.items():
        first = 1
        for counts, group in itertools.groupby(there.asked):
            last = first + len([*group]) - 1
            steps = f"{first}" if first == last else f"{first}-{last}"
            rows.append((name, steps, *map(str, counts)))
            first = last + 1
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(c.rjust(w) for c, w in zip(row, widths, strict=True)) for row in rows]
    lines.insert(1, "-" * len(lines[0]))
    for name, (host, there) in results.items():
        stats, steps = there.stats, len(there.losses)
        gap = f"loss gap {loss_gap(host, there):.1e} over {steps} steps"
        lines.append(f"{name}: {stats.graphs} graph, {stats.splits} splits, {gap}")
    return "\n".join(lines)


def save_curves(path: Path, results: dict[str, tuple[Run, Run]]) -> None:
    mpl.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(results), figsize=(5 * len(results), 3.5), squeeze=False)
    for axis, (name, (eager, compiled)) in zip(axes[0], results.items(), strict=True):
        axis.plot(eager.losses, label="eager", linewidth=3, alpha=0.4)
        axis.plot(compiled.losses, label="@jit", linewidth=1)
        axis.set(title=name, xlabel="step", ylabel="loss", yscale="log")
        axis.legend()
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def faults(results: dict[str, tuple[Run, Run]]) -> list[str]:
    """What is not as it must be: accuracy, agreement, one graph without splits."""
    found = []
    for name, (eager, compiled) in results.items():
        if not compiled.asked[0] and min(eager.accuracy, compiled.accuracy) < MIN_ACCURACY:
            found.append(f"{name}: accuracy below {MIN_ACCURACY:.0%}")
        if not loss_gap(eager, compiled) <= MAX_LOSS_GAP:
            found.append(f"{name}: the loss curves differ by more than {MAX_LOSS_GAP:g}")
        if (compiled.stats.graphs, compiled.stats.splits) != (1, 0):
            found.append(f"{name}: the step is not one graph without splits")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mlp-epochs", type=int, default=20)
    parser.add_argument("--cnn-epochs", type=int, default=10)
    parser.add_argument("--png", type=Path, default=Path("digits.png"))
    parser.add_argument("--device", default="cpu", help="where @jit runs, for 50 steps")
    args = parser.parse_args()
    data = load()
    results, most, batch = {}, None, BATCH
    if args.device != "cpu":
        most = COMPARED_STEPS
        if torch.cuda.get_device_properties(args.device).is_simulated:
            batch = SIMULATED_BATCH
    for name, make, epochs in (("MLP", mlp, args.mlp_epochs), ("CNN", CNN, args.cnn_epochs)):
        results[name] = (
            train(make, data, epochs, False, f"{name} eager", "cpu", most, batch),
            train(make, data, epochs, True, f"{name} @jit", args.device, most, batch),
        )
    print(report(results) if most is None else device_report(results))
    save_curves(args.png, results)
    print(f"loss curves: {args.png}")
    found = faults(results)
    print("\n".join(found), file=sys.stderr, end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
