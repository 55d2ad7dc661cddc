"""Multi-layer perceptron 64-256-256-10."""

from types import ModuleType
from typing import Any


def build(torch: ModuleType) -> Any:
    """The model, in the namespace `torch`."""
    nn = torch.nn
    return nn.Sequential(
        nn.Linear(64, 256),
        nn.ReLU(),
        nn.Linear(256, 256),
        nn.ReLU(),
        nn.Linear(256, 10),
    )
