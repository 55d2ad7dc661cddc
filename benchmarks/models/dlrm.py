"""A recommendation model (DLRM, Naumov et al. 2019): embeddings, pairwise products, two MLPs."""

from itertools import pairwise
from types import ModuleType
from typing import Any


def build(torch: ModuleType, tables: int = 26, rows: int = 10_000, width: int = 16) -> Any:
    """Model from dense (batch, 13) and ids (batch, tables) to a logit for each row (batch)."""
    nn = torch.nn

    def mlp(*widths: int) -> Any:
        layers: list[Any] = []
        for fan_in, fan_out in pairwise(widths):
            layers += [nn.Linear(fan_in, fan_out), nn.ReLU()]
        return nn.Sequential(*layers)

    class DLRM(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tables = nn.ModuleList([nn.Embedding(rows, width) for _ in range(tables)])
            self.bottom = mlp(13, 512, 256, width)
            self.top = mlp(width + (tables + 1) * tables // 2, 512, 256)
            self.head = nn.Linear(256, 1)
            pairs = [(i, j) for i in range(tables + 1) for j in range(i)]
            self.register_buffer("left", torch.tensor([i for i, _ in pairs]))
            self.register_buffer("right", torch.tensor([j for _, j in pairs]))

        def forward(self, dense: Any, ids: Any) -> Any:
            x = self.bottom(dense)  # (b, width)
            features = [x, *(table(ids[:, i]) for i, table in enumerate(self.tables))]
            z = torch.stack(features, dim=1)  # (b, tables + 1, width)
            products = torch.bmm(z, z.transpose(1, 2))[:, self.left, self.right]
            return self.head(self.top(torch.cat([x, products], dim=1))).squeeze(1)

    return DLRM()
