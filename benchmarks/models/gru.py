"""A gated recurrent unit unrolled over time by a plain Python loop, with a linear head."""

from types import ModuleType
from typing import Any


def build(torch: ModuleType, width: int = 128, classes: int = 10) -> Any:
    """Model from x of shape (batch, time, width) to logits (batch, classes)."""
    nn = torch.nn

    class Unrolled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.input = nn.Linear(width, 3 * width)
            self.state = nn.Linear(width, 3 * width)
            self.head = nn.Linear(width, classes)

        def cell(self, x: Any, h: Any) -> Any:
            xr, xz, xn = self.input(x).chunk(3, dim=-1)  # each (batch, width)
            hr, hz, hn = self.state(h).chunk(3, dim=-1)
            reset = torch.sigmoid(xr + hr)
            update = torch.sigmoid(xz + hz)
            new = torch.tanh(xn + reset * hn)
            return (1.0 - update) * new + update * h

        def forward(self, x: Any) -> Any:
            h = torch.zeros(x.shape[0], width, dtype=x.dtype, device=x.device)
            for t in range(x.shape[1]):
                h = self.cell(x[:, t], h)
            return self.head(h)

    return Unrolled()
