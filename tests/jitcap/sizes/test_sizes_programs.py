"""What people write over sizes that vary: eager's answers and gradients, one compile for all."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from sized_models import BACKENDS, close, floats

import eager
import eager.nn.functional as F
from eager import nn
from jitcap import jit

SIZES = (5, 7, 6, 9, 4, 12)
Program = Callable[[Any], Any]


def middle(x: Any) -> Any:
    n = x.shape[0]
    return x[n // 4 : n - n // 4].mean(0), x[::2].sum(0), x[-(n // 3 + 1) :], x[1::2]


def halves(x: Any) -> Any:
    n = x.shape[0]
    a, b = x.split([n // 2, n - n // 2])
    return a.sum(0) * b.prod(0), eager.cat([x[n // 2 :], x[: n // 2]]), x.roll(n // 2, 0).flip(0)


def largest(x: Any) -> Any:
    n = x.shape[0]
    values, indices = x.topk(n // 2, 0)
    return values, indices, x.sort(0, descending=True)[0][: n // 2], x.kthvalue(n // 2, 0)[0]


def running(x: Any) -> Any:
    counts = eager.arange(1, x.shape[0] + 1)[:, None]
    return x.cumsum(0) / counts, x.cummax(0)[0], x.logcumsumexp(0), x.std(0) / math.sqrt(x.shape[0])


def padding_and_masks(x: Any) -> Any:
    n = x.shape[0]
    lengths = eager.tensor([2, n, n - 1])
    batch = eager.stack([x, x * 2, x.sin()])
    mask = eager.arange(n) < lengths[:, None]
    means = (batch * mask[..., None]).sum(1) / lengths[:, None]
    scores = (batch @ batch.transpose(1, 2)).masked_fill(~mask[:, None], -1e9)
    last = batch.gather(1, (lengths - 1)[:, None, None].expand(-1, 1, 4))
    return means, scores.softmax(-1) @ batch, last, batch[mask].sin().sum(0)


def a_cache(x: Any) -> Any:
    room = x.new_zeros(16, 4)
    room[2 : 2 + x.shape[0]] = x
    keys = eager.cat([room[:2], x])
    return (x @ keys.t()).softmax(-1) @ keys, room.sum(0)


def attention(x: Any) -> Any:
    n = x.shape[0]
    i = eager.arange(n)
    causal = eager.ones(n, n, dtype=eager.bool).tril()
    scores = (x @ x.t()) / n**0.5 - (i[:, None] - i).abs()
    angles = eager.outer(i.float(), eager.tensor([1.0, 0.1]))
    a, b = x.chunk(2, 1)
    turned = eager.cat(
        [a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()], 1
    )
    return scores.masked_fill(~causal, -math.inf).softmax(-1) @ turned


def reshaped(x: Any) -> Any:
    n, d = x.shape
    image = eager.cat([x, x]).view(1, 1, n * 2, d)
    patches = image.view(1, 1, n, 2, d // 2, 2).permute(0, 1, 3, 5, 2, 4).reshape(1, 4, n, d // 2)
    tiled = x.repeat(n, 1).view(n, -1).sum(1)
    return patches.sum(-1), tiled, eager.einsum("nd,md->nm", x, x).reshape(-1).view(n, n).diagonal()


def resized(x: Any) -> Any:
    image = x.view(1, 1, -1, 4)
    small = F.interpolate(image, size=(x.shape[0] // 2, 8), mode="bilinear", align_corners=False)
    pooled = F.interpolate(F.max_pool2d(image, 2), size=image.shape[2:])
    return (
        F.interpolate(small, size=image.shape[2:]) + image,
        pooled,
        F.adaptive_avg_pool2d(image, 3),
    )


def recurrences(x: Any) -> Any:
    h = half = other = x[0]
    for t in range(x.shape[0]):
        h = (h * 0.9 + x[t]).tanh()
    for t in range(1, x.shape[0] // 2 + 1):
        half = half * x[t]
    for t in range(0, x.shape[0], 2):
        other = other + x[t].sin()
    total: Any = 0
    for i in range(x.shape[0] - 1):
        total = total + (x[i] * x[i + 1]).sum()
    for _ in range(len(x)):
        total = total * 0.5 + 1
    return h, half, other, total


def decoding(x: Any) -> Any:
    moves = eager.ones(4, 4).triu()
    best = total = x[0]
    back = []
    for t in range(1, x.shape[0]):
        best, came = (best[:, None] + moves).max(0)
        best = best + x[t]
        back.append(came)
    for row in x[1:]:
        total = (total[:, None] + moves).logsumexp(0) + row
    beams, found = x.log_softmax(-1).reshape(-1).topk(x.shape[0] // 2)
    return best, eager.stack(back), total.logsumexp(0), beams, found // 4, found % 4


def pairs(x: Any) -> Any:
    i, j = eager.triu_indices(x.shape[0], x.shape[0], 1)
    near = F.cross_entropy(x @ x.t(), eager.arange(x.shape[0]))
    return (x[i] - x[j]).abs().mean(), near, (x @ x.t()).fill_diagonal_(0.0), eager.cdist(x, x + 1)


def written(x: Any) -> Any:
    y = x.clone()
    y[::2] = y[::2] * 2
    y[-1] = 0
    groups = x.new_zeros(3, 4).index_add(0, eager.arange(x.shape[0]) % 3, x)
    return y, groups, x.new_zeros(4).scatter_add(0, x.argmax(1), x.sum(1))


def drawn(x: Any) -> Any:
    eager.manual_seed(3)
    return x[eager.randperm(x.shape[0])].cumsum(0), F.dropout(x, 0.3).sum(0)


def searched(x: Any) -> Any:
    values = x[:, 0].detach().sort()[0]
    quarter = x.quantile(0.3, dim=0), x.median(0)[0]
    return eager.searchsorted(values, x[:, 1].detach()), *quarter, eager.block_diag(x, x[:2]).sum(0)


GRU = nn.GRU(4, 3)


def modules(x: Any) -> Any:
    out, last = GRU(x.unsqueeze(1))
    smooth = F.conv1d(x.t().unsqueeze(0), eager.ones(4, 4, 3) / 9, padding="same")
    return out.sum(0), last, smooth, x.unfold(0, 3, 2).mean(-1)


PROGRAMS: tuple[Program, ...] = (
    middle, halves, largest, running, padding_and_masks, a_cache, attention, reshaped, resized,
    recurrences, decoding, pairs, written, drawn, searched, modules,
)  # fmt: skip


def with_gradients(program: Program) -> Program:
    def step(x: Any) -> Any:
        found = program(x)
        found = found if isinstance(found, tuple) else (found,)
        live = [t for t in found if t.requires_grad]
        (gradient,) = eager.autograd.grad(sum([(t * t).sum() for t in live]), [x])
        return *(t.detach() for t in found), gradient

    return step


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_one_compile_for_all_sizes(program: Program, dynamic: bool | None) -> None:
    plain = with_gradients(program)
    step = jit(plain, dynamic=dynamic, backend="eager" if dynamic else "python")
    for n in SIZES if dynamic else SIZES[:3]:
        x = floats(n, 4).requires_grad_()
        assert all(map(close, step(x), plain(x))), n
    stats = step.stats
    assert stats.compiles <= 2, [r.reason for r in stats.recompiles]
    assert (stats.fallbacks, stats.splits, stats.discards) == (0, 0, 0)


def padded(x: Any, others: Any) -> Any:
    n = x.shape[0]
    most = 1 << (n - 1).bit_length()
    blocks = F.pad(x, (0, 0, 0, most - n)).view(2, -1, 4).sum(1)
    ragged = nn.utils.rnn.pad_sequence([x, *others], batch_first=True)
    ends = (
        eager.hann_window(n)[:, None] * x,
        eager.signal.windows.gaussian(n),
        eager.kaiser_window(n),
    )
    found = blocks, ragged, F.one_hot(eager.arange(n)) * 2, *ends
    gradients = eager.autograd.grad(blocks.sum() + (ragged * ragged).sum(), [x, *others])
    return *(t.detach() for t in found), *gradients


@pytest.mark.once
@pytest.mark.parametrize("backend", BACKENDS)
def test_what_is_padded_to_a_size(backend: str) -> None:
    step = jit(padded, backend=backend)
    for n in (5, 7, 6, 9, 12) if backend != "python" else (5, 7, 9):
        x, *others = (floats(m, 4).requires_grad_() for m in (n, n // 2 + 1, n - 1))
        assert all(map(close, step(x, others), padded(x, others)))
    assert step.stats.compiles <= 2 and not step.stats.fallbacks and not step.stats.splits


def test_as_many_classes_as_the_largest_index_needs() -> None:
    step = jit(lambda x: F.one_hot(x).sum(0) * 2, backend="python")
    for found in ([0, 1, 2], [3, 1], [5, 5, 5, 5], [0, 0]):
        assert (
            step(eager.tensor(found)).tolist()
            == (F.one_hot(eager.tensor(found)).sum(0) * 2).tolist()
        )
    with pytest.raises(RuntimeError, match="non-negative"):
        step(eager.tensor([1, -2]))
    assert (step.stats.compiles, step.stats.splits, step.stats.discards) == (2, 0, 1)


def test_a_recompile_names_the_version_that_lacks_least() -> None:
    """Not the one for a row of one, whose guard on the tensor hides those of its sizes."""
    step = jit(lambda x: x[:, :-1].flatten(0, 1), backend="eager")
    for shape in ((8, 6), (7, 5), (1, 5), (2, 2)):  # the last leaves one column: a version
        step(floats(*shape))
    assert "expected 2 >= x.shape[1] to be False, got True" in str(step.stats.recompiles[-1])
