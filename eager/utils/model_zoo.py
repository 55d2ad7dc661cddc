"""At the edge: `eager.utils.model_zoo`, the former name of what `eager.hub` does."""

from eager.hub import load_url

__all__ = ["load_url"]
