"""A vision transformer (Dosovitskiy et al. 2020): patches as tokens; ViT-Ti/16 by default."""

from types import ModuleType
from typing import Any


def build(
    torch: ModuleType, image: int = 224, patch: int = 16, width: int = 192, layers: int = 12,
    heads: int = 3, classes: int = 10,
) -> Any:  # fmt: skip
    """Model from x of shape (batch, 3, image, image) to logits (batch, classes)."""
    nn, F = torch.nn, torch.nn.functional

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm1 = nn.LayerNorm(width)
            self.qkv = nn.Linear(width, 3 * width)
            self.out = nn.Linear(width, width)
            self.norm2 = nn.LayerNorm(width)
            self.mlp = nn.Sequential(
                nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
            )

        def forward(self, x: Any) -> Any:
            b, t, c = x.shape
            # (b, t, 3 c) -> 3 of (b, heads, t, c / heads)
            qkv = self.qkv(self.norm1(x)).view(b, t, 3, heads, c // heads)
            q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
            y = F.scaled_dot_product_attention(q, k, v)
            x = x + self.out(y.transpose(1, 2).reshape(b, t, c))
            return x + self.mlp(self.norm2(x))

    class ViT(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.patches = nn.Conv2d(3, width, patch, stride=patch)
            self.first = nn.Parameter(torch.zeros(1, 1, width))
            self.places = nn.Parameter(torch.zeros(1, (image // patch) ** 2 + 1, width))
            self.blocks = nn.Sequential(*(Block() for _ in range(layers)))
            self.norm = nn.LayerNorm(width)
            self.head = nn.Linear(width, classes)

        def forward(self, x: Any) -> Any:
            x = self.patches(x).flatten(2).transpose(1, 2)  # (b, patches, width)
            x = torch.cat([self.first.expand(x.shape[0], -1, -1), x], dim=1) + self.places
            return self.head(self.norm(self.blocks(x))[:, 0])

    return ViT()
