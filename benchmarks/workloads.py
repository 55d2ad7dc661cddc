"""The workloads, written against the PyTorch API: namespace -> Program.

Of the eight that run by default four are single expressions, four are whole training steps with
AdamW. `benchmarks/more.py` has others.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import data
from benchmarks.models import gpt, gru, mlp, resnet

LEARNING_RATE = 1e-3
WEIGHT_DECAY = 1e-2


@dataclass(frozen=True)
class Program:
    """What a competitor runs: `loss(*args)`, and for a training step also model and optimizer.

    What is compiled is called by `drive(compiled, *args)` where that is more than one call.
    """

    loss: Callable[..., Any]
    args: tuple[Any, ...]
    model: Any = None
    optimizer: Any = None
    drive: Callable[..., Any] | None = None

    def runner(self, step: Callable[..., Any]) -> Callable[[], Any]:
        """`step`, which is `loss` or has it inside, as a call without arguments."""
        drive = self.drive
        if drive is None:
            return lambda: step(*self.args)
        return lambda: drive(step, *self.args)


@dataclass(frozen=True)
class Workload:
    """A name, one line about it, and how to build it in a namespace (`torch` or `eager`).

    `tolerance` is how far first results may be from each other, as a part of the largest value.
    """

    name: str
    what: str
    build: Callable[..., Program]
    tolerance: float = 1e-3
    in_jax: bool = True


def rng_floats(*shape: int, seed: int = 0) -> NDArray[np.float32]:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def tiny(torch: ModuleType) -> Program:
    a, b = (torch.from_numpy(rng_floats(16, seed=seed)) for seed in (0, 1))
    return Program(lambda a, b: (a * b + a).sin() * b, (a, b))


def gelu(torch: ModuleType, size: int = 1 << 24) -> Program:
    F = torch.nn.functional
    a, b = (torch.from_numpy(rng_floats(size, seed=seed)) for seed in (0, 1))
    return Program(lambda a, b: F.gelu(a * b + a, approximate="tanh") * b, (a, b))


def softmax(torch: ModuleType, rows: int = 4096, columns: int = 4096) -> Program:
    a = torch.from_numpy(rng_floats(rows, columns))
    return Program(lambda a: torch.softmax(a * 0.5 + 1, dim=-1), (a,))


def layernorm(torch: ModuleType, rows: int = 8192, width: int = 1024) -> Program:
    F = torch.nn.functional
    a = torch.from_numpy(rng_floats(rows, width))
    return Program(lambda a: F.layer_norm(a + 1, (width,)), (a,))


def training(torch: ModuleType, model: Any, batch: tuple[Any, Any]) -> Program:
    """Cross-entropy of `model` on one batch, with AdamW."""
    F = torch.nn.functional

    def loss(x: Any, y: Any) -> Any:
        logits = model(x)
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), y.view(-1))

    return trained(torch, model, loss, batch)


def trained(
    torch: ModuleType, model: Any, loss: Callable[..., Any], batch: tuple[Any, ...]
) -> Program:
    """Any loss of `model`, with AdamW; the weights are the same everywhere."""
    set_weights(torch, model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY)
    return Program(loss, tuple(torch.from_numpy(part) for part in batch), model, optimizer)


def set_weights(torch: ModuleType, model: Any) -> None:
    """Weights from NumPy, so that every competitor starts from the same: scaled normal, no bias."""
    rng = np.random.default_rng(0)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            shape = tuple(parameter.shape)
            if len(shape) > 1:
                scale = 1 / math.sqrt(math.prod(shape[1:]))
                draw = rng.standard_normal(shape, dtype=np.float32) * np.float32(scale)
                parameter.copy_(torch.from_numpy(draw))
            elif "bias" in name.rpartition(".")[2]:
                parameter.zero_()


def training_step(program: Program) -> Callable[..., Any]:
    """The whole step as a user writes it: forward, loss, backward, update, clear."""
    loss_of, optimizer = program.loss, program.optimizer

    def step(*batch: Any) -> Any:
        optimizer.zero_grad()
        loss = loss_of(*batch)
        loss.backward()
        optimizer.step()
        return loss

    return step


WORKLOADS = (
    Workload("tiny", "((a*b+a).sin()*b), 16 floats", tiny),
    Workload("gelu", "gelu(a*b+a, tanh)*b, 16 Mi floats", gelu),
    Workload("softmax", "softmax(a*0.5+1), 4096x4096", softmax),
    Workload("layernorm", "layer_norm(a+1), 8192x1024", layernorm),
    Workload(
        "mlp",
        "64-256-256-10, batch 64, AdamW step",
        lambda torch: training(torch, mlp.build(torch), data.digits_batch(64)),
    ),
    Workload(
        "gru",
        "d=128, 32 steps unrolled, batch 32, AdamW step",
        lambda torch: training(torch, gru.build(torch), data.sequence_batch(32, 32, 128)),
    ),
    Workload(
        "resnet",
        "ResNet-20, 32x3x32x32, AdamW step",
        lambda torch: training(torch, resnet.build(torch), data.image_batch(32)),
    ),
    Workload(
        "gpt",
        "6 layers, 6 heads, d=384, T=256, batch 8, AdamW step",
        lambda torch: training(torch, gpt.build(torch), data.text_batch(8, 256)),
    ),
)
BY_NAME = {workload.name: workload for workload in WORKLOADS}
