"""Sizes that vary in and around loops and branches: values of their bodies have them, too."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

import eager
import eager.nn.functional as F
from eager import nn
from jitcap import explain, jit

SIZES = (5, 7, 4, 13)


def floats(*shape: int, seed: int = 0) -> Any:
    data = 0.4 * np.random.default_rng(seed).standard_normal(shape)
    return eager.tensor(data).requires_grad_(True)


def batch(n: int) -> tuple[Any, ...]:
    """A first carry, six steps for it, a weight."""
    return floats(n, 4), floats(6, n, 4, seed=n), floats(4, 4, seed=2)


def with_gradients(fn: Callable[..., Any]) -> Callable[..., Any]:
    def step(*given: Any) -> Any:
        found = fn(*given)
        sum(x.sin().sum() for x in found if x.requires_grad).backward()
        return (*found, *(t.grad for t in given))

    return step


def check(
    fn: Callable[..., Any],
    given: Callable[[int], tuple[Any, ...]] = batch,
    sizes: Iterable[int] = SIZES,
    compiles: int = 2,
    **options: Any,
) -> Any:
    """The same as eager at every size, with few compiles."""
    step = jit(fn, **{"backend": "python", **options})
    for n in sizes:
        eager.manual_seed(n)
        want, after = fn(*given(n)), eager.rand(1)
        eager.manual_seed(n)
        got = step(*given(n))
        assert eager.rand(1).item() == after.item(), n
        for a, b in zip(want, got, strict=True):
            if a is None or b is None:  # compiled, an arm that did not run gives zeros
                assert a is None and (b is None or not b.any())
                continue
            assert a.shape == b.shape and a.dtype == b.dtype, n
            assert eager.allclose(a, b, rtol=1e-9, atol=1e-9), n
    assert step.stats.compiles <= compiles, [r.reason for r in step.stats.recompiles]
    assert not step.stats.fallbacks and not step.stats.splits
    return step


# ---------------------------------------------------------------------------- bodies


def scanned(h: Any, xs: Any, w: Any) -> Any:
    n = h.shape[0]

    def step(h: Any, x: Any) -> Any:
        h = (h @ w + x[: n - 1].sum(0) * eager.ones(n, 1)).tanh() / n
        return h, (h[1:], eager.arange(n))

    last, (ys, counted) = eager.scan(step, h, xs, reverse=True)
    return last, ys, counted, *eager.map(lambda x: (x @ w).softmax(0), xs)


def chosen(h: Any, xs: Any, w: Any) -> Any:
    def both(h: Any) -> Any:
        return eager.scan(lambda c, x: ((c @ w + x).tanh(), c.mean(0)), h, xs)

    y, z = eager.cond(h.sum() > 0, both, lambda h: (h.cumsum(0), xs[:, 0] * h.shape[0]), (h,))
    place = (y.detach().sum() * 10).to(eager.int64) % 3
    arms = [lambda x: x @ w, lambda x: x + 1, lambda x: x.flip(0)]
    return z, eager.switch(place, arms, y)


def looped(h: Any, xs: Any, w: Any) -> Any:
    def body(i: Any, x: Any) -> Any:
        return i + 1, (x @ w.detach() - x.shape[0]).cumsum(0)

    start = eager.tensor(0), h.detach()
    rounds, x = eager.while_loop(lambda i, x: (x.sum() > -50) & (i < 5), body, start)
    more = eager.fori_loop(0, rounds, lambda i, x: (x @ w.detach()).tanh() + i, h.detach())
    pairs = eager.associative_scan(lambda a, b: a * b + a, h, 1)
    return x, more, pairs, eager.fori_loop(0, 3, lambda i, x: (x @ w).tanh() * i, h)


def called_back(h: Any, xs: Any, w: Any) -> Any:
    """Steps with scratch memory, and a function of NumPy's."""

    def step(h: Any, x: Any) -> Any:
        ordered, places = (h @ (h.T @ x).softmax(-1)).sort(0)
        h = ordered + h.flip(0) @ w.T
        values = eager.linalg.svdvals(h.detach()[:4] + 0.1)
        return h[places[:, 0]] * 0.3, (values, h.T.cumsum(1))

    last, ys = eager.scan(step, h, xs)
    return last, *ys


def dropped(h: Any, xs: Any, w: Any) -> Any:
    def step(h: Any, x: Any) -> Any:
        h = F.dropout((h @ w + x).tanh(), 0.2) + eager.rand(h.shape[0], 1) * 0.1
        return h, F.dropout(h, 0.5)

    last, ys = eager.scan(step, F.dropout(h, 0.3), xs.transpose(0, 1).transpose(0, 1))
    return F.dropout(last, 0.5), ys


BODIES = (scanned, chosen, looped, called_back, dropped)


@pytest.mark.parametrize("fn", BODIES, ids=lambda fn: fn.__name__)
def test_bodies_have_sizes_that_vary(fn: Callable[..., Any]) -> None:
    check(with_gradients(fn))


@pytest.mark.once
def test_bodies_in_native_code() -> None:
    def most_of_them(h: Any, xs: Any, w: Any) -> Any:
        found = [x for fn in (scanned, chosen, looped) for x in fn(h, xs.detach(), w.detach())]
        return [x.detach() for x in (*found, *called_back(h, xs, w))]

    check(most_of_them, backend="cpp", dynamic=True, compiles=1)


def test_gradients_from_outside_through_bodies() -> None:
    def loss(h: Any, xs: Any, w: Any) -> Any:
        last, ys = scanned(h, xs, w)[:2]
        return last.sin().sum() + ys.sin().sum() + chosen(h, xs, w)[0].sum()

    step = jit(loss, backend="python")
    for n in SIZES:
        found = []
        for fn in (loss, step):
            given = batch(n)
            grads = eager.autograd.grad(fn(*given), given)
            found.append(grads)
        assert all(eager.allclose(a, b, atol=1e-9) for a, b in zip(*found, strict=True)), n
    assert step.stats.compiles == 2 and not step.stats.fallbacks


# ---------------------------------------------------------------------------- lengths


def sequence(n: int) -> tuple[Any, ...]:
    """A first carry, n steps for it, a weight."""
    return floats(3, 4), floats(3, n, 4, seed=n), floats(4, 4, seed=2)


def there_and_back(h: Any, x: Any, w: Any) -> Any:
    for t in range(x.shape[1]):
        h = (h @ w + x[:, t] * (t + 1) / 7.5).tanh()
    for t in reversed(range(x.shape[1])):
        h = (h @ w + x[:, t] * x[:, x.shape[1] - 1 - t] + x[:, -1 - t]).tanh()
    wide = eager.cat([x, x * 2], 1)
    for t in range(1, wide.shape[1], 2):
        h = (h @ w + wide[:, t] * wide[:, t - wide.shape[1]]).tanh()
    return h, t * h


def collected(h: Any, x: Any, w: Any) -> Any:
    found, sums, turned = [h * 2], [], []
    for t in range(x.shape[1]):
        before, h = h, (h @ w + x[:, t]).tanh()
        found.append(h)
        sums.append(h.sum() * h * 2)
    for t in range(x.shape[1] - 1, -1, -1):
        h = h @ w * 0.5 + x[:, t]
        turned.append(h)
    turned.reverse()
    sums.append(before)
    n = len(found)
    return eager.stack(found, 1) / n, sums[-2] + sums[0], eager.cat(sums, -1), eager.stack(turned)


def kept(h: Any, x: Any, w: Any) -> Any:
    """An object that a list and a local hold is one."""
    before, given, after = [], [], []
    for t in range(x.shape[1]):
        before.append(h)
        given.append(x[:, t])
        h = (h @ w + x[:, t]).tanh()
        after.append(h)
    one = after[-1] is h and before[0] is not after[0]
    after.reverse()
    scale = 2 if one and after[0] is h else 3
    return eager.stack(before), eager.cat(given), eager.stack(after) * scale, before[-1]


def another_kind_at_first(h: Any, x: Any, w: Any) -> Any:
    state = None
    for t in range(x.shape[1]):
        state = x[:, t] @ w if state is None else (state + x[:, t]) @ w
    numbers = iter(range(x.shape[1] + 1))
    h = h * (next(numbers) + 2)
    for t in numbers:
        h = (h @ w + x[:, t - 1]).tanh()
    return state, h * next(numbers, 5)


def draws(h: Any, x: Any, w: Any) -> Any:
    for t in range(x.shape[1]):
        h = F.dropout((h @ w + x[:, t]).tanh(), 0.2)
    for t in range(x.shape[1]):
        for k in range(x.shape[1]):
            h = F.dropout(h @ w + x[:, k], 0.1)
        h = F.dropout(h + x[:, t], 0.3)
    return F.dropout(h, 0.5), h + eager.rand(3, 4)


def scans(h: Any, x: Any, w: Any) -> Any:
    def step(h: Any, y: Any) -> Any:
        h = F.dropout((h @ w + y).tanh(), 0.1)
        return h, h * x.shape[1]

    last, ys = eager.scan(step, h, x, dim=1)
    more = eager.scan(lambda h, _: (h @ w, h), h, length=x.shape[1])
    return last, ys, *more, eager.map(lambda y: (y @ w).sin(), x.transpose(0, 1))


def listed(h: Any, x: Any, w: Any) -> Any:
    """Comprehensions, what goes through them and through rows, and sums of rows."""
    rows = x.transpose(0, 1)
    for row in reversed(rows):
        h = (h @ w + row).tanh()
    seen = [(row @ w).sin() for row in rows]
    more = [rows[t] * t for t in range(x.shape[1])]
    for each in seen:
        h = (h + each).tanh()
    both = [a * b + i for i, (a, b) in enumerate(zip(seen, more, strict=False))]
    return h, eager.stack(both) / len(both), sum(rows) + sum(seen) + more[-1], eager.cat(more)


LENGTHS = (there_and_back, collected, kept, another_kind_at_first, draws, scans, listed)


@pytest.mark.parametrize("fn", LENGTHS, ids=lambda fn: fn.__name__)
def test_loops_of_lengths_that_vary(fn: Callable[..., Any]) -> None:
    check(with_gradients(fn), sequence)


@pytest.mark.once
def test_loops_of_lengths_that_vary_in_native_code() -> None:
    def all_of_them(h: Any, x: Any, w: Any) -> Any:
        return [y.detach() for fn in (there_and_back, collected, draws) for y in fn(h, x, w)]

    check(all_of_them, sequence, dynamic=True, compiles=1)


def test_a_scan_of_several_steps_at_once_has_a_version_for_each_rest() -> None:
    def fn(h: Any, x: Any, w: Any) -> Any:
        last, ys = eager.scan(lambda h, y: ((h @ w + y).tanh(), h), h, x, dim=1, unroll=3)
        return last, ys

    check(with_gradients(fn), sequence, (5, 7, 10, 13, 8, 11), compiles=3)


def flat_and_nested(x: Any) -> Any:
    flat = [a * b.sum() for a in x for b in x]
    nested = [eager.stack([a * b for b in x]) for a in x]
    return eager.stack(flat), eager.stack(nested)


def with_effects(x: Any) -> Any:
    log: list[int] = []
    found = [(log.append(i), row * 2)[1] for i, row in enumerate(x)]
    total = x[0] * 0
    sums = [total := total * 0.5 + row for row in x]
    return eager.stack(found) * len(log) * log[-1], eager.stack(sums), total


def elements_that_are_written(x: Any) -> Any:
    rows = [row * 1 for row in x]
    for row in rows:
        row.mul_(2)
    return eager.stack(rows), eager.stack([row for i, row in enumerate(x) if i % 2])


@pytest.mark.parametrize("fn", [flat_and_nested, with_effects, elements_that_are_written])
def test_comprehensions_that_are_no_scans(fn: Callable[..., Any]) -> None:
    check(with_gradients(fn), lambda n: (floats(n, 3, seed=n),), (5, 7, 4), 3)


def test_a_comprehension_of_many_products_is_a_scan() -> None:
    def fn(x: Any, w: Any) -> Any:
        return (eager.stack([x @ w * i for i in range(40)]),)

    (note,) = explain(fn)(floats(3, 4), floats(4, 4)).notes
    assert note.endswith("a loop of 40 steps is one scan")
    check(with_gradients(fn), lambda n: (floats(n, 4, seed=n), floats(4, 4, seed=2)))


def test_prefixes_have_a_version_for_many_lengths() -> None:
    def fn(x: Any) -> Any:
        return (eager.associative_scan(lambda a, b: a * b + b, x, 1, reverse=True),)

    check(with_gradients(fn), lambda n: (floats(2, n, seed=n),), (9, 20, 21, 22, 23))


def test_loops_that_need_the_length_are_compiled_for_each() -> None:
    """What stands in for a range, or for a list, is never seen."""

    def fn(h: Any, x: Any, w: Any) -> Any:
        found: list[Any] = []
        for t in range(x.shape[1]):
            h = (h @ w + x[:, t]).tanh()
            found.append(h)
        known = [h * 2]
        also = {"a": known}
        for t in range(x.shape[1]):
            h = h @ w + x[:, t]
            known.append(h)
        for t in range(x.shape[1]):
            h = h @ w if t % 2 else h + x[:, t]
        steps = range(x.shape[1])
        assert type(steps) is range and steps[-1] == len(steps) - 1 and list(steps) == [*steps]
        assert steps == range(len(steps)) and 1 in steps and isinstance(steps, range)
        weights = [h * i for i in steps]
        return *found, *also["a"], *weights, *(h * (i + sum(steps)) for i, _ in enumerate(steps))

    check(fn, sequence, (5, 7, 4), compiles=3)


def test_what_a_loop_appended_is_written_to_later() -> None:
    def last(h: Any, x: Any, w: Any) -> Any:
        found = []
        for t in range(x.shape[1]):
            h = (h @ w + x[:, t]).tanh()
            found.append(h)
        h.mul_(2)
        return eager.stack(found), h

    def given(h: Any, x: Any, w: Any) -> Any:
        found, y = [], x * 1
        for t in reversed(range(y.shape[1])):
            h = (h @ w + y[:, t]).tanh()
            found.append(y[:, t])
        y.mul_(2)
        return eager.stack(found), h, found[0]

    def between(h: Any, x: Any, w: Any) -> Any:
        before, after = [], []
        for t in range(x.shape[1]):
            before.append(h)
            h = (h @ w + x[:, t]).tanh()
            after.append(h)
        after[0].add_(1)
        return eager.stack(before), eager.cat(after), h

    def detached(n: int) -> tuple[Any, ...]:
        return tuple(t.detach() for t in sequence(n))

    for fn in (last, given, between):
        check(fn, detached, (5, 7, 4), compiles=3)


def test_gradients_at_values_of_steps_leave_the_loop_as_it_stands() -> None:
    def before_the_last(h: Any, x: Any, w: Any) -> Any:
        for t in range(x.shape[1]):
            before, h = h, (h @ w + x[:, t]).tanh()
        return eager.autograd.grad(h.sum(), before)

    def of_the_list(h: Any, x: Any, w: Any) -> Any:
        found = []
        for t in range(x.shape[1]):
            h = (h @ w + x[:, t]).tanh()
            found.append(h)
        h.retain_grad()
        found[0].register_hook(lambda g: g * 2)
        eager.stack(found).sin().sum().backward()
        return h.grad, x.grad

    for fn in (before_the_last, of_the_list):
        check(fn, sequence, (5, 7, 20), compiles=3)


def test_what_is_gone_through() -> None:
    """`unbind` is one loop, a list turned round stays whole, a `for` is left where data say so, and
    parts of half a size."""

    def step(x: Any, y: Any) -> tuple[Any, ...]:
        h, out = x[0], []
        for a, b in zip(x.unbind(0), y.unbind(), strict=False):
            h = h * 0.9 + a * b
            out.append(h)
        for i in range(x.shape[0] - 1, -1, -1):
            h = h * 0.5 + x[i]
        total = eager.zeros(4)
        for row in y.detach():
            total = total + row.abs()
            if total.sum() > 3:
                break
        first, second = eager.cat([x, y]).split(x.shape[0])
        return h, eager.stack(out[::-1]), total, first * second

    check(with_gradients(step), lambda n: (floats(n, 4), floats(n, 4, seed=n)))


class Recurrent(nn.Module):
    """A language model."""

    def __init__(self, kind: Any, **options: Any) -> None:
        super().__init__()
        self.words, self.drop = nn.Embedding(31, 8), nn.Dropout(0.2)
        self.core = kind(8, 12, batch_first=True, **options)
        self.head = nn.Linear(12 * (1 + self.core.bidirectional), 31)

    def forward(self, x: Any) -> Any:
        return self.head(self.drop(self.core(self.drop(self.words(x)))[0]))


MODELS: dict[str, Callable[[], Recurrent]] = {
    "lstm": lambda: Recurrent(nn.LSTM, num_layers=2, dropout=0.3),
    "gru": lambda: Recurrent(nn.GRU, bidirectional=True),
}


@pytest.mark.once
@pytest.mark.parametrize("name", MODELS)
def test_recurrent_models_over_lengths(name: str) -> None:
    def training(backend: str | None) -> tuple[Any, Any]:
        eager.manual_seed(0)
        model = MODELS[name]()
        optimizer = eager.optim.AdamW(model.parameters(), lr=1e-2)

        def step(x: Any, y: Any) -> Any:
            loss = F.cross_entropy(model(x).reshape(-1, 31), y.reshape(-1))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss

        return step if backend is None else jit(step, backend=backend)

    plain, step = training(None), training("python")
    for n in (5, 7, 2, 12):
        x, y = (eager.from_numpy(np.random.default_rng(n).integers(0, 31, (3, n))) for _ in "xy")
        results = []
        for fn in (plain, step):
            eager.manual_seed(n)
            results.append((fn(x, y).item(), eager.rand(1).item()))
        assert results[0][1] == results[1][1]
        assert abs(results[0][0] - results[1][0]) < 1e-5
    assert step.stats.compiles == 2 and not step.stats.fallbacks


def test_what_is_appended_in_a_branch() -> None:
    def rows(xs: Any, w: Any) -> Any:
        out = []
        for x in xs:
            if x.sum() > 0:
                out.append((x * w).exp())
            else:
                out.append(x.abs() * w)
        return (eager.stack(out),)

    check(with_gradients(rows), lambda n: (floats(n, 4, seed=n), floats(4)))
