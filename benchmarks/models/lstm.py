"""A word-level language model of two LSTM layers (Zaremba et al. 2014), without dropout."""

from types import ModuleType
from typing import Any


def build(torch: ModuleType, words: int = 10_000, width: int = 256, layers: int = 2) -> Any:
    """Model from ids (batch, time) to logits (batch, time, words)."""
    nn = torch.nn

    class Language(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(words, width)
            self.lstm = nn.LSTM(width, width, layers, batch_first=True)
            self.head = nn.Linear(width, words)

        def forward(self, ids: Any) -> Any:
            out, _ = self.lstm(self.words(ids))
            return self.head(out)

    return Language()
