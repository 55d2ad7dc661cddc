"""A GPT that reads one token at a time: keys and values of those before it lie in a cache."""

from types import ModuleType
from typing import Any

from benchmarks.models import gpt


def empty_cache(torch: ModuleType, config: gpt.Config, batch: int) -> list[tuple[Any, Any]]:
    """Keys and values of each layer, of shape (batch, heads, context, width / heads)."""
    shape = batch, config.heads, config.context, config.width // config.heads
    return [(torch.zeros(shape), torch.zeros(shape)) for _ in range(config.layers)]


def next_token(torch: ModuleType, model: Any, cache: Any, ids: Any, place: Any) -> Any:
    """The likeliest tokens (batch, 1) behind ids (batch, 1) at `place` (1); writes the cache."""
    F = torch.nn.functional
    mask = (torch.arange(cache[0][0].shape[2], device=ids.device) <= place).view(1, -1)
    x = model.tokens(ids) + model.places(place)
    for layer, (keys, values) in zip(model.blocks, cache, strict=True):
        b, t, c = x.shape
        parts = layer.attn.qkv(layer.ln1(x)).view(b, t, 3, keys.shape[1], keys.shape[3])
        q, k, v = parts.permute(2, 0, 3, 1, 4).unbind(0)  # each (b, heads, 1, c / heads)
        keys.index_copy_(2, place, k)
        values.index_copy_(2, place, v)
        y = F.scaled_dot_product_attention(q, keys, values, attn_mask=mask)
        x = x + layer.attn.out(y.transpose(1, 2).reshape(b, t, c))
        x = x + layer.down(layer.act(layer.up(layer.ln2(x))))
    return model.head(model.ln(x)).argmax(dim=-1)
