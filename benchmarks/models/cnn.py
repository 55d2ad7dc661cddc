"""A small convolutional network for 8x8 digits: two blocks with batch norm, and a linear head."""

from types import ModuleType
from typing import Any


def build(torch: ModuleType) -> Any:
    """Model from rows of 64 pixels to logits (batch, 10)."""
    nn, F = torch.nn, torch.nn.functional

    class CNN(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv1 = nn.Conv2d(1, 16, 3, padding=1)
            self.bn1 = nn.BatchNorm2d(16)
            self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
            self.bn2 = nn.BatchNorm2d(32)
            self.head = nn.Linear(128, 10)

        def forward(self, x: Any) -> Any:
            x = x.view(-1, 1, 8, 8)
            x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 2)  # (batch, 16, 4, 4)
            x = F.max_pool2d(F.relu(self.bn2(self.conv2(x))), 2)  # (batch, 32, 2, 2)
            return self.head(x.flatten(1))

    return CNN()
