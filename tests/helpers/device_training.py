"""Four training steps (MLP, CNN, GRU, GPT) with AdamW, dropout and a schedule, on a device or not."""

import numpy as np

import eager
from eager import nn
from eager.nn import functional as F


class CNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 4, 3, padding=1), nn.Conv2d(4, 8, 3)
        self.norm, self.dropout, self.head = nn.BatchNorm2d(4), nn.Dropout(0.2), nn.Linear(72, 5)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.norm(self.first(x))), 2)
        return self.head(self.dropout(F.relu(self.second(x)).flatten(1)))


class GRU(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.rnn = nn.Embedding(11, 6), nn.GRU(6, 8, batch_first=True)
        self.dropout, self.head = nn.Dropout(0.2), nn.Linear(8, 5)

    def forward(self, x):
        return self.head(self.dropout(self.rnn(self.table(x))[0][:, -1]))


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x):
        batch, length, width = x.shape
        parts = self.qkv(self.before(x)).reshape(batch, length, 3, 2, width // 2)
        q, k, v = parts.permute(2, 0, 3, 1, 4).unbind(0)
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.dropout(self.out(seen.transpose(1, 2).reshape(batch, length, width)))
        return x + self.dropout(self.down(F.gelu(self.up(self.between(x)))))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(11, 32), nn.Embedding(16, 32)
        self.blocks, self.head = nn.Sequential(Block(32), Block(32)), nn.Linear(32, 11)

    def forward(self, x):
        places = eager.arange(x.shape[1], device=x.device)
        return self.head(self.blocks(self.tokens(x) + self.places(places)))


def mlp():
    return nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Dropout(0.2), nn.Linear(16, 5))


PROGRAMS = {
    "mlp": (mlp, lambda: (eager.randn(8, 6), eager.randint(0, 5, (8,)))),
    "cnn": (CNN, lambda: (eager.randn(4, 1, 10, 10), eager.randint(0, 5, (4,)))),
    "gru": (GRU, lambda: (eager.randint(0, 11, (4, 5)), eager.randint(0, 5, (4,)))),
    "gpt": (GPT, lambda: (eager.randint(0, 11, (2, 16)), eager.randint(0, 11, (2, 16)))),
}


def train(name, place, steps, compiled=None):
    """The losses of `steps` steps. `compiled`: `jit`, to compile the step with."""
    make, data = PROGRAMS[name]
    eager.manual_seed(0)
    model, (x, y) = make().to(place), data()
    x, y = x.to(place), y.to(place)
    optimizer = eager.optim.AdamW(model.parameters(), lr=3e-3)
    schedule = eager.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    eager.manual_seed(1)

    def step(x, y):
        optimizer.zero_grad()
        out = model(x)
        loss = F.cross_entropy(out.reshape(-1, out.shape[-1]), y.reshape(-1))
        loss.backward()
        optimizer.step()
        return loss.detach()

    if compiled is not None:
        step = compiled(step)
    losses = []
    for _ in range(steps):
        losses.append(step(x, y))
        schedule.step()
    return [loss.item() for loss in losses]


class Halves(nn.Module):
    """A model of which each half lives on a device."""

    def __init__(self, first, second):
        super().__init__()
        eager.manual_seed(0)
        self.places = first, second
        self.first = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Dropout(0.1)).to(first)
        self.second = nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 3)).to(second)

    def forward(self, x):
        hidden = self.first(x.to(self.places[0]))
        return self.second(hidden.to(self.places[1]))


def train_halves(first, second, wrap=lambda step: step, steps=4):
    """Losses of a training, parameters and gradients of the last step, and the step."""
    model = Halves(first, second)
    optimizer = eager.optim.AdamW(model.parameters(), lr=0.05)
    eager.manual_seed(1)

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y.to(second))
        loss.backward()
        nn.utils.clip_grad_norm_(model.first.parameters(), 1.0)
        optimizer.step()
        return loss.detach()

    called = wrap(step)
    generator = np.random.default_rng(0)
    losses = []
    for _ in range(steps):
        x = eager.tensor(generator.standard_normal((4, 6)).astype(np.float32))
        y = eager.tensor(generator.integers(0, 3, 4))
        losses.append(called(x, y))
    parameters = [*model.parameters()]
    assert [str(p.grad.device) for p in parameters] == [str(p.device) for p in parameters]
    values = [t.cpu().tolist() for p in parameters for t in (p.detach(), p.grad)]
    return [loss.item() for loss in losses], values, called
