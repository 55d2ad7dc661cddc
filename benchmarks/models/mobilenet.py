"""Inverted residual blocks of MobileNetV2 (Sandler et al. 2018) on 32x32 images."""

from types import ModuleType
from typing import Any

# (width, blocks, stride) of each stage
STAGES = ((16, 1, 1), (24, 2, 2), (32, 2, 2), (64, 2, 2))


def build(torch: ModuleType, stages: tuple[tuple[int, int, int], ...] = STAGES) -> Any:
    """Model from x of shape (batch, 3, h, w) to logits (batch, 10)."""
    nn = torch.nn

    def unit(fan_in: int, fan_out: int, size: int, stride: int = 1, groups: int = 1) -> Any:
        """Convolution, batch norm, ReLU6."""
        return nn.Sequential(
            nn.Conv2d(fan_in, fan_out, size, stride, size // 2, groups=groups, bias=False),
            nn.BatchNorm2d(fan_out),
            nn.ReLU6(),
        )

    class Block(nn.Module):
        def __init__(self, fan_in: int, fan_out: int, stride: int) -> None:
            super().__init__()
            wide = 6 * fan_in
            self.residual = stride == 1 and fan_in == fan_out
            self.layers = nn.Sequential(
                unit(fan_in, wide, 1),
                unit(wide, wide, 3, stride, groups=wide),
                nn.Conv2d(wide, fan_out, 1, bias=False),
                nn.BatchNorm2d(fan_out),
            )

        def forward(self, x: Any) -> Any:
            y = self.layers(x)
            return x + y if self.residual else y

    layers, fan_in = [unit(3, 16, 3)], 16
    for width, blocks, stride in stages:
        for i in range(blocks):
            layers.append(Block(fan_in, width, stride if i == 0 else 1))
            fan_in = width
    head = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(fan_in, 10))
    return nn.Sequential(*layers, *head)
