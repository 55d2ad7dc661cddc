"""A GPT that is trained, to be explained: `step` with backward and AdamW."""

import eager as torch
import eager.nn.functional as F
import jitcap
from eager import nn


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (
            part.view(b, t, self.heads, c // self.heads).transpose(1, 2)
            for part in self.qkv(x).split(c, dim=2)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).contiguous().view(b, t, c))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = Attention(width, heads)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        return x + self.down(F.gelu(self.up(self.ln2(x))))


class GPT(nn.Module):
    def __init__(self, layers, width=32, heads=2, vocab=65, context=16):
        super().__init__()
        self.tokens = nn.Embedding(vocab, width)
        self.places = nn.Embedding(context, width)
        self.blocks = nn.ModuleList([Block(width, heads) for _ in range(layers)])
        self.ln = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab, bias=False)

    def forward(self, ids):
        x = self.tokens(ids) + self.places(torch.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.ln(x))


def trained(layers):
    """A jitted step, and its arguments."""
    model = GPT(layers)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)

    @jitcap.jit
    def step(ids, labels):
        optimizer.zero_grad()
        logits = model(ids)
        loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten())
        loss.backward()
        optimizer.step()
        return loss

    ids = torch.randint(0, 65, (4, 16))
    return step, (ids, ids.roll(-1, 1))


def again():
    """A jitted function that is compiled for two sizes, and then split."""

    @jitcap.jit(dynamic=False)
    def scaled(x, looks):
        y = torch.exp(x * 2).sum(1)
        if looks:
            y = [y, y + 1][int(y.sum() > 0)]
        return y.softmax(-1)

    for size, looks in ((4, False), (6, False), (4, True)):
        scaled(torch.ones(size, 8), looks)
    return scaled


MARKUP = "<img src=x onerror='injected=1'>"


def named_by_markup():
    """The explanation of a function whose names are markup."""
    model = nn.Sequential()
    model.add_module(MARKUP, nn.Linear(4, 4))

    def step(x):
        return model(x).sum(), "</script><img src=x onerror='injected=1'>"

    step.__qualname__ = MARKUP
    return jitcap.explain(step)(torch.ones(2, 4))
