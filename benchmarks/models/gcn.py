"""A graph convolutional network (Kipf and Welling 2017) over a list of edges, three layers."""

from types import ModuleType
from typing import Any


def build(torch: ModuleType, features: int = 128, width: int = 128, classes: int = 10) -> Any:
    """Model from nodes (n, features) and edges (2, m) to logits (n, classes)."""
    nn, F = torch.nn, torch.nn.functional

    class Layer(nn.Module):
        def __init__(self, fan_in: int, fan_out: int) -> None:
            super().__init__()
            self.linear = nn.Linear(fan_in, fan_out)

        def forward(self, x: Any, source: Any, target: Any, weight: Any) -> Any:
            messages = self.linear(x)[source] * weight.unsqueeze(1)  # (m, fan_out)
            out = torch.zeros(x.shape[0], messages.shape[1], device=x.device)
            return out.index_add(0, target, messages)

    class GCN(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(
                [Layer(features, width), Layer(width, width), Layer(width, classes)]
            )

        def forward(self, x: Any, edges: Any) -> Any:
            source, target = edges
            ones = torch.ones(edges.shape[1], device=x.device)
            degree = torch.zeros(x.shape[0], device=x.device).index_add(0, target, ones)
            scale = degree.clamp(min=1.0).rsqrt()
            weight = scale[source] * scale[target]
            for layer in self.layers[:-1]:
                x = F.relu(layer(x, source, target, weight))
            return self.layers[-1](x, source, target, weight)

    return GCN()
