"""Random tensor programs: views, arithmetic and in-place writes in random order, on any library.

A program is a list of steps drawn from a seed; running it with the same seed on two libraries does
the same. Steps that a library refuses are noted and skipped.
"""

import random

import numpy as np

STEPS = {
    "add": lambda m, x, y: x + y,
    "mul": lambda m, x, y: x * y,
    "centre": lambda m, x, y: x - y.mean(),
    "sin": lambda m, x, y: (x * 0.3).sin(),
    "exp": lambda m, x, y: (x * 0.1).exp(),
    "transpose": lambda m, x, y: x.transpose(0, -1),
    "flatten": lambda m, x, y: x.reshape(-1),
    "fold": lambda m, x, y: x.reshape(4, -1) if x.numel() % 4 == 0 else x * 1,
    "tail": lambda m, x, y: x[1:],
    "last": lambda m, x, y: x[..., 0],
    "new axis": lambda m, x, y: x[None],
    "row sums": lambda m, x, y: x.sum(-1, keepdim=True),
    "mean": lambda m, x, y: x.mean(0),
    "softmax": lambda m, x, y: x.softmax(-1),
    "cumsum": lambda m, x, y: x.cumsum(0),
    "cat": lambda m, x, y: m.cat([x, x], 0),
    "stack": lambda m, x, y: m.stack([x, x * 2], -1),
    "clamp": lambda m, x, y: x.clamp(-1, 1),
    "where": lambda m, x, y: m.where(x > y.mean() + 1e-3, x, x * 0.5),  # where all are equal, too
    "flip": lambda m, x, y: x.flip(0),
    "roll": lambda m, x, y: x.roll(1, 0),
    "expand": lambda m, x, y: x.unsqueeze(0).expand(2, *x.shape),
    "std": lambda m, x, y: x.std(0),
    "norm": lambda m, x, y: x.norm(dim=-1),
    "max": lambda m, x, y: x.max(0)[0],
    "sort": lambda m, x, y: x.sort(0)[0],
    "first": lambda m, x, y: x.select(0, 0),
    "half": lambda m, x, y: x.narrow(0, 0, (x.shape[0] + 1) // 2),
    "squeeze": lambda m, x, y: x.squeeze(),
    "diagonal": lambda m, x, y: x.diagonal() if x.ndim >= 2 else x * 1,
    "prod": lambda m, x, y: x.prod(-1),
    "logsumexp": lambda m, x, y: x.logsumexp(0),
    "var": lambda m, x, y: x.var(-1, unbiased=False),
    "pad": lambda m, x, y: m.nn.functional.pad(x, (1, 2)),
    "repeat": lambda m, x, y: x.repeat(2, *[1] * (x.ndim - 1)),
    "tril": lambda m, x, y: x.tril() if x.ndim >= 2 else x * 1,
    "gelu": lambda m, x, y: m.nn.functional.gelu(x),
    "gather": lambda m, x, y: x.gather(0, m.zeros_like(x, dtype=m.int64)),
    "matmul": lambda m, x, y: x @ x.transpose(-1, -2) if x.ndim >= 2 else x.dot(x).reshape(1),
}
WRITES = {
    "mul_": lambda m, x, y: x.mul_(0.5),
    "add_": lambda m, x, y: x.add_(y.mean()),
    "row mul_": lambda m, x, y: x[0].mul_(2),
    "set row": lambda m, x, y: x.__setitem__(0, 1.5),
    "column add_": lambda m, x, y: x[..., -1].add_(1),
    "every other": lambda m, x, y: x.reshape(-1)[::2].zero_() if x.is_contiguous() else None,
    "transposed fill_": lambda m, x, y: x.transpose(0, -1)[0].fill_(0.3),
    "clamp_": lambda m, x, y: x.clamp_(-2, 2),
    "sin_": lambda m, x, y: x.sin_(),
    "mask": lambda m, x, y: x.__setitem__(x > 1, 0.0),
    "copy_": lambda m, x, y: x.copy_(y.mean()),
    "set tail": lambda m, x, y: x.__setitem__((slice(1, None),), y.sum()),
    "masked_fill_": lambda m, x, y: x.masked_fill_(x < -1, 0.2),
    "through views": lambda m, x, y: x.unsqueeze(0)[0].sub_(0.1),
    "tanh_": lambda m, x, y: x.tanh_(),
}
REFUSALS = (RuntimeError, IndexError, TypeError, ValueError)


def draw(seed):
    """The starting arrays and the steps: (name, which tensor, which other)."""
    rng, numbers = random.Random(seed), np.random.RandomState(seed)
    arrays = [numbers.uniform(-1, 1, shape) for shape in ((3, 4), (4,), (2, 3, 4))]
    count, steps = len(arrays), []
    for _ in range(rng.randint(3, 9)):
        table = STEPS if rng.random() < 0.7 else WRITES
        steps.append((rng.choice(sorted(table)), rng.randrange(count), rng.randrange(count)))
        count += table is STEPS
    return arrays, steps


def execute(m, tensors, steps):
    """All tensors after the steps, and what was refused."""
    values, refused = [t * 1 for t in tensors], []
    for name, i, j in steps:
        try:
            made = (STEPS.get(name) or WRITES[name])(m, values[i], values[j])
        except REFUSALS:
            refused.append(name)
            made = values[i] * 1
        if name in STEPS:
            values.append(made if made.numel() < 300 else values[i] * 1)
    return values, refused


def total(values):
    """One number that depends on all of them."""
    return sum((v * (k + 1)).sum() for k, v in enumerate(values))
