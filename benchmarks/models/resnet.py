"""ResNet-20 for 32x32 images (He et al. 2015, section 4.2), with 1x1 convolutions as shortcuts."""

from types import ModuleType
from typing import Any


def build(torch: ModuleType, classes: int = 10, blocks: int = 3) -> Any:
    """Model from x of shape (batch, 3, 32, 32) to logits (batch, classes); `blocks` of a stage."""
    nn, F = torch.nn, torch.nn.functional

    class Block(nn.Module):
        def __init__(self, fan_in: int, fan_out: int, stride: int) -> None:
            super().__init__()
            self.conv1 = nn.Conv2d(fan_in, fan_out, 3, stride=stride, padding=1, bias=False)
            self.bn1 = nn.BatchNorm2d(fan_out)
            self.conv2 = nn.Conv2d(fan_out, fan_out, 3, padding=1, bias=False)
            self.bn2 = nn.BatchNorm2d(fan_out)
            self.shortcut = nn.Sequential()
            if stride != 1 or fan_in != fan_out:
                self.shortcut = nn.Sequential(
                    nn.Conv2d(fan_in, fan_out, 1, stride=stride, bias=False),
                    nn.BatchNorm2d(fan_out),
                )

        def forward(self, x: Any) -> Any:
            out = F.relu(self.bn1(self.conv1(x)))
            out = self.bn2(self.conv2(out))
            return F.relu(out + self.shortcut(x))

    def stage(fan_in: int, fan_out: int, stride: int) -> Any:
        first = Block(fan_in, fan_out, stride)
        return nn.Sequential(first, *(Block(fan_out, fan_out, 1) for _ in range(blocks - 1)))

    class ResNet20(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(3, 16, 3, padding=1, bias=False)
            self.bn = nn.BatchNorm2d(16)
            self.stages = nn.ModuleList([stage(16, 16, 1), stage(16, 32, 2), stage(32, 64, 2)])
            self.head = nn.Linear(64, classes)

        def forward(self, x: Any) -> Any:
            x = F.relu(self.bn(self.conv(x)))  # (batch, 16, 32, 32)
            for part in self.stages:
                x = part(x)
            return self.head(x.mean(dim=(2, 3)))  # (batch, 64, 8, 8) -> (batch, classes)

    return ResNet20()
