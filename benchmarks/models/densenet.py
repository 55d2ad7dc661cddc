"""DenseNet-121 (Huang et al. 2016) for 32x32 images: each layer reads all that were before it."""

from types import ModuleType
from typing import Any


def build(torch: ModuleType, blocks: tuple[int, ...] = (6, 12, 24, 16), growth: int = 32) -> Any:
    """Model from x of shape (batch, 3, h, w) to logits (batch, 10); `blocks` counts layers."""
    nn, F = torch.nn, torch.nn.functional

    class Layer(nn.Module):
        def __init__(self, fan_in: int) -> None:
            super().__init__()
            self.norm1 = nn.BatchNorm2d(fan_in)
            self.conv1 = nn.Conv2d(fan_in, 4 * growth, 1, bias=False)
            self.norm2 = nn.BatchNorm2d(4 * growth)
            self.conv2 = nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False)

        def forward(self, x: Any) -> Any:
            y = self.conv1(F.relu(self.norm1(x)))
            return torch.cat([x, self.conv2(F.relu(self.norm2(y)))], dim=1)

    fan_in = 2 * growth
    layers: list[Any] = [nn.Conv2d(3, fan_in, 3, padding=1, bias=False)]
    for number, count in enumerate(blocks):
        if number:  # a transition: half the channels, half the size
            norm, conv = nn.BatchNorm2d(fan_in), nn.Conv2d(fan_in, fan_in // 2, 1, bias=False)
            layers += [norm, nn.ReLU(), conv, nn.AvgPool2d(2)]
            fan_in //= 2
        for _ in range(count):
            layers.append(Layer(fan_in))
            fan_in += growth
    head = (nn.BatchNorm2d(fan_in), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    return nn.Sequential(*layers, *head, nn.Linear(fan_in, 10))
