"""A U-Net with group norm and SiLU, as in diffusion models (Ho et al. 2020), two levels."""

from types import ModuleType
from typing import Any


def build(torch: ModuleType, width: int = 32, groups: int = 8) -> Any:
    """Model from x of shape (batch, 3, h, w) to the same shape; h and w are multiples of 4."""
    nn, F = torch.nn, torch.nn.functional

    class Block(nn.Module):
        def __init__(self, fan_in: int, fan_out: int) -> None:
            super().__init__()
            self.conv1 = nn.Conv2d(fan_in, fan_out, 3, padding=1)
            self.norm1 = nn.GroupNorm(groups, fan_out)
            self.conv2 = nn.Conv2d(fan_out, fan_out, 3, padding=1)
            self.norm2 = nn.GroupNorm(groups, fan_out)
            self.skip = nn.Identity() if fan_in == fan_out else nn.Conv2d(fan_in, fan_out, 1)

        def forward(self, x: Any) -> Any:
            y = F.silu(self.norm1(self.conv1(x)))
            return F.silu(self.norm2(self.conv2(y))) + self.skip(x)

    class UNet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Conv2d(3, width, 3, padding=1)
            self.down = nn.ModuleList([Block(width, width), Block(width, 2 * width)])
            self.middle = Block(2 * width, 4 * width)
            self.up = nn.ModuleList([Block(6 * width, 2 * width), Block(3 * width, width)])
            self.last = nn.Conv2d(width, 3, 1)

        def forward(self, x: Any) -> Any:
            x = self.first(x)
            skips = []
            for part in self.down:
                skips.append(part(x))
                x = F.avg_pool2d(skips[-1], 2)
            x = self.middle(x)
            for part in self.up:
                x = F.interpolate(x, scale_factor=2.0, mode="nearest")
                x = part(torch.cat([x, skips.pop()], dim=1))
            return self.last(x)

    return UNet()
