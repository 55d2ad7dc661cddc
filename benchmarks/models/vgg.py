"""VGG-11 with batch norm (Simonyan and Zisserman 2014) for 32x32 images."""

from types import ModuleType
from typing import Any

PLAN = (64, 0, 128, 0, 256, 256, 0, 512, 512, 0, 512, 512, 0)  # 0: halve by a max-pool


def build(torch: ModuleType, plan: tuple[int, ...] = PLAN) -> Any:
    """Model from x of shape (batch, 3, 32, 32) to logits (batch, 10)."""
    nn = torch.nn
    layers: list[Any] = []
    fan_in = 3
    for width in plan:
        if width:
            layers += [nn.Conv2d(fan_in, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU()]
            fan_in = width
        else:
            layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(fan_in, 10))
