"""The programs. Each takes a namespace (`eager` or `torch`) and returns (step, list of argument tuples).

They are written as users write: nothing here knows of jitcap. Weights and data come from NumPy, so both libraries start equal.
"""

from __future__ import annotations

import math
from collections import OrderedDict, namedtuple
from dataclasses import dataclass
from typing import Any

import numpy as np

PROGRAMS: dict[str, Any] = {}


def program(fn: Any) -> Any:
    PROGRAMS[fn.__name__] = fn
    return fn


def data(t: Any, *shape: int, seed: int = 0, scale: float = 1.0) -> Any:
    return t.tensor((np.random.default_rng(seed).standard_normal(shape) * scale).astype(np.float32))


def labels(t: Any, n: int, classes: int, seed: int = 0) -> Any:
    return t.tensor(np.random.default_rng(seed).integers(0, classes, n))


def same_weights(t: Any, module: Any, seed: int = 1) -> Any:
    rng = np.random.default_rng(seed)
    with t.no_grad():
        for p in module.parameters():
            p.copy_(t.tensor((rng.standard_normal(tuple(p.shape)) * 0.2).astype(np.float32)))
    return module


def trainer(t: Any, model: Any, opt: Any, loss_fn: Any) -> Any:
    def step(*batch: Any) -> Any:
        opt.zero_grad()
        loss = loss_fn(model, *batch)
        loss.backward()
        opt.step()
        return loss

    return step


@program
def residual_mlp_with_layer_norm(t: Any) -> Any:
    nn, F = t.nn, t.nn.functional

    class Block(nn.Module):
        def __init__(self, d: int) -> None:
            super().__init__()
            self.norm = nn.LayerNorm(d)
            self.fc = nn.Linear(d, d)
            self.scale = nn.Parameter(t.ones(d))

        def forward(self, x: Any, skip: bool = True) -> Any:
            y = F.gelu(self.fc(self.norm(x))) * self.scale
            return x + y if skip else y

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = nn.ModuleList([Block(12) for _ in range(3)])
            self.head = nn.Linear(12, 5)

        def forward(self, x: Any) -> Any:
            for i, block in enumerate(self.blocks):
                x = block(x, skip=i != 1)
            return self.head(x)

    net = same_weights(t, Net())
    opt = t.optim.AdamW(net.parameters(), lr=1e-2, weight_decay=0.1)
    step = trainer(t, net, opt, lambda m, x, y: F.cross_entropy(m(x), y, label_smoothing=0.1))
    return step, [(data(t, 7, 12, seed=i), labels(t, 7, 5, seed=i)) for i in range(4)]


@program
def gradient_clipping_and_schedule(t: Any) -> Any:
    nn, F = t.nn, t.nn.functional
    net = same_weights(t, nn.Sequential(nn.Linear(6, 9), nn.Tanh(), nn.Linear(9, 2)))
    opt = t.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, nesterov=True, weight_decay=1e-3)

    def step(x: Any, y: Any) -> Any:
        opt.zero_grad()
        loss = F.mse_loss(net(x), y)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        opt.step()
        return loss, norm

    return step, [(data(t, 5, 6, seed=i), data(t, 5, 2, seed=9 + i)) for i in range(4)]


@program
def variational_autoencoder(t: Any) -> Any:
    nn, F = t.nn, t.nn.functional

    class VAE(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.enc = nn.Linear(10, 8)
            self.mu, self.logvar = nn.Linear(8, 3), nn.Linear(8, 3)
            self.dec = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 10))

        def forward(self, x: Any, noise: Any) -> Any:
            h = F.silu(self.enc(x))
            mu, logvar = self.mu(h), self.logvar(h)
            z = mu + noise * t.exp(0.5 * logvar)
            return t.sigmoid(self.dec(z)), mu, logvar

    net = same_weights(t, VAE())
    opt = t.optim.Adam(net.parameters(), lr=3e-3)

    def loss_fn(m: Any, x: Any, noise: Any) -> Any:
        recon, mu, logvar = m(x, noise)
        bce = F.binary_cross_entropy(recon, x, reduction="sum")
        kld = -0.5 * t.sum(1 + logvar - mu.pow(2) - logvar.exp())
        return (bce + kld) / len(x)

    batches = [(t.sigmoid(data(t, 6, 10, seed=i)), data(t, 6, 3, seed=50 + i)) for i in range(3)]
    return trainer(t, net, opt, loss_fn), batches


@program
def causal_self_attention_by_hand(t: Any) -> Any:
    nn, F = t.nn, t.nn.functional

    class Attention(nn.Module):
        def __init__(self, d: int, heads: int, length: int) -> None:
            super().__init__()
            self.heads = heads
            self.qkv = nn.Linear(d, 3 * d)
            self.proj = nn.Linear(d, d)
            self.register_buffer("mask", t.tril(t.ones(length, length)).view(1, 1, length, length))

        def forward(self, x: Any) -> Any:
            b, n, d = x.size()
            q, k, v = self.qkv(x).split(d, dim=2)
            q, k, v = (u.view(b, n, self.heads, d // self.heads).transpose(1, 2) for u in (q, k, v))
            att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
            att = att.masked_fill(self.mask[:, :, :n, :n] == 0, float("-inf"))
            y = F.softmax(att, dim=-1) @ v
            return self.proj(y.transpose(1, 2).contiguous().view(b, n, d))

    net = same_weights(t, Attention(8, 2, 16))
    opt = t.optim.AdamW(net.parameters(), lr=1e-2)
    step = trainer(t, net, opt, lambda m, x: m(x).square().mean())
    return step, [(data(t, 2, 11, 8, seed=i),) for i in range(3)]


@program
def lstm_cell_over_time(t: Any) -> Any:
    nn, F = t.nn, t.nn.functional

    class Cell(nn.Module):
        def __init__(self, i: int, h: int) -> None:
            super().__init__()
            self.x2h, self.h2h = nn.Linear(i, 4 * h), nn.Linear(h, 4 * h)

        def forward(self, x: Any, state: tuple[Any, Any]) -> tuple[Any, Any]:
            h, c = state
            i, f, g, o = (self.x2h(x) + self.h2h(h)).chunk(4, 1)
            c = t.sigmoid(f) * c + t.sigmoid(i) * t.tanh(g)
            return t.sigmoid(o) * t.tanh(c), c

    cell = same_weights(t, Cell(4, 6))
    head = same_weights(t, nn.Linear(6, 3), seed=2)
    opt = t.optim.RMSprop([*cell.parameters(), *head.parameters()], lr=1e-3)

    def step(xs: Any, y: Any) -> Any:
        state = (t.zeros(xs.shape[1], 6), t.zeros(xs.shape[1], 6))
        hidden = []
        for x in xs:
            state = cell(x, state)
            hidden.append(state[0])
        out = head(t.stack(hidden).mean(0))
        loss = F.nll_loss(F.log_softmax(out, dim=-1), y)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        return {"loss": loss, "last": hidden[-1].detach()}

    return step, [(data(t, 5, 3, 4, seed=i), labels(t, 3, 3, seed=i)) for i in range(3)]


@program
def conv_net_with_batch_norm(t: Any) -> Any:
    nn, F = t.nn, t.nn.functional

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.features = nn.Sequential(OrderedDict([
                ("conv1", nn.Conv2d(3, 6, 3, padding=1, bias=False)), ("bn1", nn.BatchNorm2d(6)), ("act1", nn.ReLU()),
                ("pool", nn.MaxPool2d(2)), ("conv2", nn.Conv2d(6, 8, 3, stride=2)), ("act2", nn.LeakyReLU(0.1)),
            ]))  # fmt: skip
            self.fc = nn.Linear(8, 4)

        def forward(self, x: Any) -> Any:
            x = self.features(x)
            return self.fc(t.flatten(F.adaptive_avg_pool2d(x, 1), 1))

    net = same_weights(t, Net())
    opt = t.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    base = trainer(t, net, opt, lambda m, x, y: F.cross_entropy(m(x), y))

    def step(x: Any, y: Any) -> Any:
        net.train()
        loss = base(x, y)
        net.eval()
        with t.no_grad():
            hits = (net(x).argmax(dim=1) == y).float().mean()
        return loss, hits, net.features.bn1.running_mean.clone()

    return step, [(data(t, 4, 3, 8, 8, seed=i), labels(t, 4, 4, seed=i)) for i in range(3)]


@program
def gradient_penalty(t: Any) -> Any:
    nn = t.nn
    critic = same_weights(t, nn.Sequential(nn.Linear(5, 8), nn.Softplus(), nn.Linear(8, 1)))
    opt = t.optim.Adam(critic.parameters(), lr=1e-3, betas=(0.5, 0.9))

    def step(real: Any, fake: Any, eps: Any) -> Any:
        mix = (eps * real + (1 - eps) * fake).requires_grad_(True)
        score = critic(mix)
        (grad,) = t.autograd.grad(score.sum(), mix, create_graph=True)
        penalty = ((grad.norm(2, dim=1) - 1) ** 2).mean()
        loss = critic(fake).mean() - critic(real).mean() + 10 * penalty
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss, penalty

    return step, [
        (data(t, 6, 5, seed=i), data(t, 6, 5, seed=20 + i), t.sigmoid(data(t, 6, 1, seed=i)))
        for i in range(3)
    ]


@program
def weight_tying_and_frozen_part(t: Any) -> Any:
    nn, F = t.nn, t.nn.functional

    class LM(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.emb = nn.Embedding(11, 6)
            self.mix = nn.Linear(6, 6)
            self.out = nn.Linear(6, 11, bias=False)
            self.out.weight = self.emb.weight

        def forward(self, ids: Any) -> Any:
            return self.out(F.relu(self.mix(self.emb(ids)).cumsum(dim=1)))

    net = LM()
    with t.no_grad():
        net.emb.weight.copy_(data(t, 11, 6, seed=3))
        net.mix.weight.copy_(data(t, 6, 6, seed=4, scale=0.3))
        net.mix.bias.zero_()
    net.mix.bias.requires_grad_(False)
    opt = t.optim.Adagrad([p for p in net.parameters() if p.requires_grad], lr=0.05)

    def loss_fn(m: Any, ids: Any) -> Any:
        logits = m(ids[:, :-1])
        return F.cross_entropy(logits.reshape(-1, 11), ids[:, 1:].reshape(-1), ignore_index=0)

    return trainer(t, net, opt, loss_fn), [
        (labels(t, 20, 11, seed=i).view(4, 5),) for i in range(3)
    ]


@program
def exponential_moving_average_in_place(t: Any) -> Any:
    F = t.nn.functional
    w = data(t, 4, 3, seed=1).requires_grad_()
    ema = w.detach().clone()
    history: list[float] = []

    def step(x: Any, y: Any, lr: float) -> Any:
        loss = F.smooth_l1_loss(x @ w, y)
        loss.backward()
        with t.no_grad():
            w.sub_(lr * w.grad)
            w.grad.zero_()
            ema.mul_(0.9).add_(w, alpha=0.1)
            ema[0] += 0.01
            ema[:, 1].clamp_(-1, 1)
        history.append(lr)
        return loss, ema.clone(), w.detach().clone(), len(history)

    return step, [
        (data(t, 8, 4, seed=i), data(t, 8, 3, seed=30 + i), 0.1 / (i + 1)) for i in range(4)
    ]


@program
def python_state_and_containers(t: Any) -> Any:
    Batch = namedtuple("Batch", "x y")

    @dataclass
    class Config:
        width: int = 4
        alpha: float = 0.3
        kinds: tuple[str, ...] = ("sin", "cos")

    class Runner:
        def __init__(self) -> None:
            self.config = Config()
            self.calls = 0
            self.totals: dict[str, Any] = {}

        @property
        def factor(self) -> float:
            return self.config.alpha * 2

        def __call__(self, batch: Any, *extra: Any, **options: Any) -> Any:
            self.calls += 1
            parts = {k: getattr(t, k)(batch.x) * self.factor for k in self.config.kinds}
            for k, v in parts.items():
                self.totals[k] = self.totals.get(k, 0.0) + v.sum()
            out = sum(parts.values(), start=batch.y)
            for e in extra:
                out = out - e
            if options.get("flip"):
                out = out.flip(0)
            name = f"call {self.calls:02d}"
            assert out.shape[-1] == self.config.width, f"bad width in {name}"
            return name, Batch(out, parts["sin"]), [self.totals["cos"] * 1.0, *sorted(parts)]

    run = Runner()

    def step(x: Any, y: Any, e: Any) -> Any:
        return run(Batch(x, y), e, flip=True)

    return step, [
        (data(t, 3, 4, seed=i), data(t, 3, 4, seed=5 + i), data(t, 4, seed=8 + i)) for i in range(3)
    ]


@program
def einsum_and_broadcast_physics(t: Any) -> Any:
    def energy(pos: Any, charge: Any) -> Any:
        diff = pos[:, None, :] - pos[None, :, :]
        r2 = (diff**2).sum(-1) + t.eye(pos.shape[0])
        pair = charge[:, None] * charge[None, :] / r2.sqrt()
        return 0.5 * t.triu(pair, diagonal=1).sum() + t.einsum("ij,ij->", pos, pos) * 0.05

    def step(pos: Any, charge: Any) -> Any:
        p = pos.clone().requires_grad_(True)
        e = energy(p, charge)
        (force,) = t.autograd.grad(-e, [p])
        return e, force, t.linalg.norm(force), p.max(dim=0).values

    return step, [(data(t, 6, 3, seed=i), data(t, 6, seed=9 + i)) for i in range(2)]


@program
def where_masks_and_indexing(t: Any) -> Any:
    def step(x: Any, idx: Any) -> Any:
        y = t.where(x > 0, x, 0.1 * x)
        z = y.clone()
        z[z > 1] = 1.0
        z[:, ::2] = z[:, ::2] * 2
        g = t.gather(z, 1, idx)
        top, where = t.topk(z, 2, dim=1)
        picked = z[t.arange(z.shape[0]), idx[:, 0]]
        onehot = t.nn.functional.one_hot(idx[:, 0], 6).float()
        return g, top, where, picked, onehot, (x.isnan() | (x.abs() < 0.1)).any(dim=1), z.std(dim=1)

    return step, [(data(t, 5, 6, seed=i), labels(t, 10, 6, seed=i).view(5, 2)) for i in range(2)]


@program
def gru_module_and_custom_function(t: Any) -> Any:
    nn = t.nn

    class Clip(t.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x.clamp(-0.5, 0.5)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (x,) = ctx.saved_tensors
            return g * (x.abs() < 1.0)

    rnn = same_weights(t, nn.GRU(4, 5, num_layers=2, batch_first=True))
    opt = t.optim.AdamW(rnn.parameters(), lr=5e-3)

    def loss_fn(m: Any, x: Any) -> Any:
        out, h = m(x)
        return (Clip.apply(out) ** 2).sum() + h.abs().mean()

    return trainer(t, rnn, opt, loss_fn), [(data(t, 2, 5, 4, seed=i),) for i in range(3)]


@program
def actor_critic(t: Any) -> Any:
    nn, F = t.nn, t.nn.functional

    class ActorCritic(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(nn.Linear(4, 16), nn.ELU())
            self.policy, self.value = nn.Linear(16, 3), nn.Linear(16, 1)

        def forward(self, s: Any) -> Any:
            h = self.body(s)
            return F.log_softmax(self.policy(h), -1), self.value(h).squeeze(-1)

    net = same_weights(t, ActorCritic())
    opt = t.optim.Adam(net.parameters(), lr=1e-2, eps=1e-5)

    def step(states: Any, actions: Any, rewards: list[float]) -> Any:
        returns, running = [], 0.0
        for r in reversed(rewards):
            running = r + 0.9 * running
            returns.insert(0, running)
        target = t.tensor(returns)
        target = (target - target.mean()) / (target.std() + 1e-6)
        logp, value = net(states)
        advantage = target - value
        chosen = logp.gather(1, actions[:, None]).squeeze(1)
        entropy = -(logp.exp() * logp).sum(-1).mean()
        loss = -(chosen * advantage.detach()).mean() + F.mse_loss(value, target) - 0.01 * entropy
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss, entropy

    rewards = [[1.0, 0.0, 2.0, -1.0], [0.5, 0.5, 0.0, 1.0], [1.0, 1.0, 1.0, 1.5]]
    return step, [(data(t, 4, 4, seed=i), labels(t, 4, 3, seed=i), rewards[i]) for i in range(3)]


@program
def shared_views_and_running_statistics(t: Any) -> Any:
    buffer = data(t, 4, 6, seed=1)
    left, right = buffer[:, :3], buffer[:, 3:]
    count = t.zeros((), dtype=t.int64)

    def step(x: Any) -> Any:
        left.add_(x)
        right.mul_(0.5)
        count.add_(1)
        buffer[1].neg_()
        total = buffer.sum(dim=0)
        return total, left @ right.T, count.clone(), buffer.view(-1)[::5].clone()

    return step, [(data(t, 4, 3, seed=i),) for i in range(3)]


@program
def unet_like_with_skip_connections(t: Any) -> Any:
    nn, F = t.nn, t.nn.functional

    class UNet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.down = nn.ModuleList(
                [nn.Conv2d(1, 4, 3, padding=1), nn.Conv2d(4, 8, 3, padding=1)]
            )
            self.up = nn.ConvTranspose2d(8, 4, 2, stride=2)
            self.norm = nn.GroupNorm(2, 4)
            self.out = nn.Conv2d(8, 1, 1)

        def forward(self, x: Any) -> Any:
            skips = []
            for conv in self.down:
                x = F.relu(conv(x))
                skips.append(x)
                x = F.avg_pool2d(x, 2)
            x = F.interpolate(x, scale_factor=2, mode="nearest")
            x = self.norm(self.up(x + skips.pop()))
            return self.out(t.cat([x, skips.pop()], dim=1))

    net = same_weights(t, UNet())
    opt = t.optim.Adam(net.parameters(), lr=1e-3)
    step = trainer(t, net, opt, lambda m, x, y: F.l1_loss(m(x), y))
    return step, [(data(t, 2, 1, 8, 8, seed=i), data(t, 2, 1, 8, 8, seed=40 + i)) for i in range(3)]


@program
def try_except_with_and_generators(t: Any) -> Any:
    class Scope:
        def __init__(self, log: list[str]) -> None:
            self.log = log

        def __enter__(self) -> Any:
            self.log.append("in")
            return self

        def __exit__(self, kind: Any, *_: Any) -> bool:
            self.log.append("out" if kind is None else kind.__name__)
            return kind is KeyError

    def scales(n: int) -> Any:
        for i in range(n):
            got = yield 1.0 / (i + 1)
            if got:
                return

    def step(x: Any, mode: str) -> Any:
        log: list[str] = []
        with Scope(log):
            if mode == "missing":
                {}["nothing"]  # noqa: B018
            x = x * 3
        try:
            x = x + {"a": 1.0, "b": 2.0}[mode]
        except KeyError as err:
            log.append(str(err))
            x = x - 1
        finally:
            log.append("done")
        parts = [x * s for s in scales(3)]
        *head, last = parts
        best = max(range(3), key=lambda i: -i)
        return (
            t.stack(head).sum(0) - last,
            log,
            best,
            {k: v for k, v in zip("ab", head, strict=False)},
        )

    return step, [
        (data(t, 3, seed=0), "a"),
        (data(t, 3, seed=1), "missing"),
        (data(t, 3, seed=2), "b"),
    ]


@program
def number_of_a_view_whose_base_was_written(t: Any) -> Any:
    def step(x: Any) -> Any:
        base = x.clone()
        first = base[0]
        base.mul_(3.0)
        return first.item() * 2, first

    return step, [(data(t, 3, seed=i),) for i in range(2)]


@program
def factorisation_machine_with_offsets_in_an_array(t: Any) -> Any:
    nn, F = t.nn, t.nn.functional

    class Fields(nn.Module):
        def __init__(self, sizes: list[int], dim: int) -> None:
            super().__init__()
            self.table = nn.Embedding(sum(sizes), dim)
            self.offsets = np.array((0, *np.cumsum(sizes)[:-1]), dtype=np.int64)

        def forward(self, x: Any) -> Any:
            e = self.table(x + x.new_tensor(self.offsets).unsqueeze(0))
            return 0.5 * (e.sum(1) ** 2 - (e**2).sum(1)).sum(1)

    net = same_weights(t, Fields([4, 6, 3], 5))
    opt = t.optim.SGD(net.parameters(), lr=0.1)

    def step(x: Any, y: Any) -> Any:
        loss = F.binary_cross_entropy_with_logits(net(x), y)
        flat = t.cat([g.view(-1) for g in t.autograd.grad(loss, list(net.parameters()))])
        opt.zero_grad()
        net.table.weight.grad = flat.view_as(net.table.weight) / flat.norm()
        opt.step()
        return loss, flat

    batches = [t.stack([labels(t, 7, n, seed=i) for n in (4, 6, 3)], 1) for i in range(3)]
    return step, [(x, labels(t, 7, 2, seed=i).float()) for i, x in enumerate(batches)]
