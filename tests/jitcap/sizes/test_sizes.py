"""Sizes that vary between calls: one compiled version for all of them, equal to plain Python."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from sized_models import BACKENDS, GPT, Recurrent, close, cross_entropy, floats, ints

import eager
import eager.nn.functional as F
from eager import nn
from jitcap import assume_static, graph_break, jit, mark_dynamic
from jitcap.base.diagnostics import JitcapWarning
from tests.helpers.work import calls_made

Build = Callable[[], Callable[..., Any]]


def training(model: Any, loss: Callable[..., Any]) -> Callable[..., Any]:
    optimizer = eager.optim.AdamW(model.parameters(), lr=1e-2)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        value = loss(model(x), y)
        value.backward()
        optimizer.step()
        return value

    return step


def mlp() -> Callable[..., Any]:
    model = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 10))
    return training(model, F.cross_entropy)


def cnn() -> Callable[..., Any]:
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(4, 8, 3, stride=2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(8, 10),
    )  # fmt: skip
    return training(model, F.cross_entropy)


def gru() -> Callable[..., Any]:
    return training(Recurrent(nn.GRU), lambda o, y: cross_entropy(o.reshape(-1, 31), y))


def gpt() -> Callable[..., Any]:
    return training(GPT(), cross_entropy)


MANY = (32, 64, 17, 2, 3, 100, 33, 32, 5, 64, 200, 16, 15, 7)
STEPS: dict[str, tuple[Build, Callable[[int], tuple[Any, ...]], tuple[int, ...]]] = {
    "mlp": (mlp, lambda n: (floats(n, 20), ints(10, n)), MANY),
    "cnn": (cnn, lambda n: (floats(n, 1, 8, 8), ints(10, n)), MANY),
    "gru": (gru, lambda n: (ints(31, n, 6), ints(31, n, 6, seed=1)), MANY),
    "gpt": (gpt, lambda n: (ints(31, n, 6), ints(31, n, 6, seed=1)), MANY),
    "gpt of many lengths": (
        gpt, lambda n: (ints(31, 3, n), ints(31, 3, n, seed=1)), (16, 20, 2, 5, 3, 64, 100, 33),
    ),
    "gpt of many both": (
        gpt,
        lambda n: (ints(31, n % 7 + 2, n), ints(31, n % 7 + 2, n, seed=1)),
        (16, 20, 4, 5, 3, 64, 100, 33),
    ),
}  # fmt: skip


# The GPT of which both sizes vary shows what the other two do.
SHOWN = ("gpt", "gpt of many lengths")
TRAINED = [
    pytest.param(
        name, backend, marks=[pytest.mark.nightly] * (backend != "eager" and name in SHOWN)
    )
    for name in STEPS
    for backend in BACKENDS
]


@pytest.mark.once
@pytest.mark.parametrize(("name", "backend"), TRAINED)
def test_training_steps_compile_twice(name: str, backend: str) -> None:
    build, batch, sizes = STEPS[name]
    plain, compiled = _twice(build)
    compiled = jit(compiled, backend=backend, fullgraph=True)
    for n in sizes if backend != "python" else (16, 20, 2, 5):  # which is slow
        args = batch(n)
        state = eager.get_rng_state()
        want = plain(*args)
        eager.set_rng_state(state)
        assert close(compiled(*args), want), n
    reasons = "\n".join(map(str, compiled.stats.recompiles))
    assert compiled.stats.compiles <= 2, reasons


def _twice(build: Build) -> tuple[Callable[..., Any], Any]:
    made = []
    for _ in range(2):
        eager.manual_seed(0)
        made.append(build())
    eager.manual_seed(1)
    return made[0], made[1]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_cache_that_grows(backend: str) -> None:
    eager.manual_seed(0)
    weights = nn.Linear(8, 24)

    def attend(x: Any, cache: Any) -> tuple[Any, Any]:
        q, k, v = weights(x).split(8, dim=-1)
        keys = eager.cat([cache[0], k], dim=1)
        values = eager.cat([cache[1], v], dim=1)
        scores = eager.softmax(q @ keys.transpose(1, 2), dim=-1)
        return scores @ values, (keys, values)

    compiled = jit(attend, backend=backend, fullgraph=True)
    with eager.no_grad():
        mine = other = (floats(2, 5, 8), floats(2, 5, 8, seed=1))
        for i in range(20):
            x = floats(2, 1, 8, seed=i)
            a, mine = compiled(x, mine)
            b, other = attend(x, other)
            assert close(a, b), i
            assert close(mine[0], other[0]), i
    assert compiled.stats.compiles <= 3, compiled.stats.recompiles


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_part_whose_length_is_an_int(backend: str) -> None:
    def part(x: Any, n: int) -> Any:
        return x[:, :n].sum(1) * n + eager.arange(n).sum()

    compiled = jit(part, backend=backend, fullgraph=True)
    x = floats(4, 50)
    for n in (10, 20, 3, 49, 2, 7, 50):
        assert close(compiled(x, n), part(x, n)), n
    assert compiled.stats.compiles <= 3, compiled.stats.recompiles


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_decision_on_a_size_is_a_guard(backend: str) -> None:
    def decide(x: Any) -> Any:
        n = x.shape[0]
        if n % 8 == 0:
            return x.view(n // 8, 8).sum(0)
        return x[: n - n % 8].sum() + len(x) / 2 + x.size(0) ** 0.5

    compiled = jit(decide, backend=backend, fullgraph=True)
    for n in (16, 24, 17, 32, 19, 64, 41, 8):
        assert close(compiled(floats(n)), decide(floats(n))), n
    assert compiled.stats.compiles <= 4, compiled.stats.recompiles


@pytest.mark.parametrize("backend", BACKENDS)
def test_sizes_that_part_ways(backend: str) -> None:
    """Two sizes that were equal so far are told apart when they no longer are."""

    def both(x: Any, y: Any) -> Any:
        return x.sum(0) * 2, y * y.shape[0], x[:2] + y[:2]

    compiled = jit(both, backend=backend, fullgraph=True)
    for n, m in ((4, 4), (8, 8), (6, 6), (5, 9), (7, 3), (11, 12)):
        for a, b in zip(
            compiled(floats(n, 3), floats(m, 3)), both(floats(n, 3), floats(m, 3)), strict=True
        ):
            assert close(a, b), (n, m)
    assert compiled.stats.compiles <= 3, compiled.stats.recompiles


@pytest.mark.parametrize("backend", BACKENDS)
def test_returned_views_and_shapes(backend: str) -> None:
    def views(x: Any) -> Any:
        y = x * 2
        return x.shape, y.view(-1), y.t(), y[1:], x.numel(), f"{x.shape[0]} rows", y.shape[0] // 2

    compiled = jit(views, backend=backend, fullgraph=True)
    for n in (4, 6, 9, 2, 31):
        got, want = compiled(floats(n, 3)), views(floats(n, 3))
        assert got[0] == want[0]
        assert type(got[0]) is type(want[0])
        assert got[4:] == want[4:]
        for a, b in zip(got[1:4], want[1:4], strict=True):
            assert close(a, b)
            assert a.stride() == b.stride()
        assert got[1].data_ptr() == got[2].data_ptr()


@pytest.mark.parametrize("backend", BACKENDS)
def test_dynamic(backend: str) -> None:
    def f(x: Any) -> Any:
        return F.softmax(x, dim=-1).sum(0)

    always = jit(f, backend=backend, dynamic=True)
    never = jit(f, backend=backend, dynamic=False)
    for n in (5, 7, 9):
        assert close(always(floats(n, n + 1)), f(floats(n, n + 1)))
        assert close(never(floats(n, n + 1)), f(floats(n, n + 1)))
    assert always.stats.compiles == 1
    assert never.stats.compiles == 3


def test_marks() -> None:
    step = jit(lambda x: (x * 2).sum(0), backend="eager")
    first = mark_dynamic(floats(4, 3), 0, min=3, max=8)
    for x in (first, floats(7, 3), floats(8, 3)):
        assert close(step(x), (x * 2).sum(0))
    assert step.stats.compiles == 1
    for n in (9, 2):
        step(floats(n, 3))
    assert step.stats.compiles == 3
    assert "x.shape[0]" in str(step.stats.recompiles[0])

    step = jit(lambda x: (x * 2).sum(0), backend="eager")
    for n in (4, 5, 6):
        step(assume_static(floats(n, 3), 0))
    assert step.stats.compiles == 3

    with pytest.raises(IndexError, match="dimension 2 of a tensor with 2"):
        mark_dynamic(first, 2)
    with pytest.raises(TypeError, match="expected a Tensor"):
        mark_dynamic([1], 0)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="size 4, not 5 to None"):
        mark_dynamic(first, 0, min=5)


def test_an_assertion_narrows_a_size() -> None:
    def halves(x: Any) -> Any:
        if x.shape[0] % 2 or x.shape[0] < 4:  # an assertion in a test is pytest's
            raise AssertionError
        return x.view(2, x.shape[0] // 2).sum(1)

    step = jit(halves, backend="eager", fullgraph=True)
    for n in (4, 8, 6, 100):
        assert close(step(floats(n)), halves(floats(n)))
    assert step.stats.compiles == 2
    with pytest.raises(AssertionError):
        step(floats(7))


def test_a_size_of_one() -> None:
    step = jit(lambda x, y: x * 2 + y, fullgraph=True)
    for n in (4, 5, 1, 6, 0, 7, 1):
        assert close(step(floats(n, 3), floats(1, 3)), floats(n, 3) * 2 + floats(1, 3)), n
    assert step.stats.compiles == 4


def test_what_fixes_a_size() -> None:
    def unrolled(x: Any) -> Any:
        total = x[0] * 0
        for i in range(x.shape[0]):
            total = total + x[i] * {4: 1, 5: 2, 6: 3}[x.shape[0]]
        return total

    step = jit(unrolled, backend="eager", fullgraph=True)
    for n in (4, 5, 6, 5, 4):
        assert close(step(floats(n, 3)), unrolled(floats(n, 3)))
    assert step.stats.compiles == 3


LAYOUTS: dict[str, Callable[[int], Any]] = {
    "transposed": lambda n: floats(3, n).t(),
    "transposed, two sizes": lambda n: floats(n + 1, n).t(),
    "permuted": lambda n: floats(n, 1, 5).transpose(0, 2),
    "a batch of transposed": lambda n: floats(n, 7, 6).transpose(1, 2),
    "columns": lambda n: floats(16, 16)[:n, 1 : n + 1],
    "every third": lambda n: floats(48, 16)[: 3 * n : 3, ::3],
    "expanded": lambda n: floats(n, 1).expand(n, 4),
    "parts of rows that vary": lambda n: floats(3, n + 2)[:, 1:4],
    "the last column": lambda n: floats(3, n)[:, -1:],
    "all but the first": lambda n: floats(3, n + 1)[:, 1:],
    "parts of matrices that vary": lambda n: floats(4, n + 2, n + 4)[:, 1:3, 2 : n + 2],
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_tensors_with_strides(layout: str) -> None:
    def program(x: Any) -> Any:
        y = x @ x.transpose(-1, -2), x.reshape(-1) * 2 + x.shape[0], x.softmax(0)
        if layout != "expanded":
            x.mul_(3)
        return y

    step = jit(program, backend="python", fullgraph=True)
    for n in (5, 7, 4, 2, 12):
        mine, other = LAYOUTS[layout](n), LAYOUTS[layout](n)
        assert all(close(a, b) for a, b in zip(step(mine), program(other), strict=True)), n
        assert close(mine, other), n
    assert step.stats.compiles == 2


def test_a_layout_is_guarded() -> None:
    """With the same sizes, memory may lie in another way."""
    step = jit(lambda x: x * 2 + x.sum(0), backend="python")
    for n in (4, 5, 6):
        for x in (floats(3, n).t(), floats(n, 8)[:, :3], floats(n, 3), floats(n, 6)[:, ::2]):
            assert close(step(x), x * 2 + x.sum(0)), n
    assert step.stats.compiles == 7


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_program_that_is_split(backend: str) -> None:
    weight = floats(3).requires_grad_()

    def split(x: Any) -> Any:
        y = (x * weight).sum(1)
        graph_break()
        return (y[1:] + y.shape[0]).exp() if y.shape[0] > 2 else y

    step = jit(split, backend=backend)
    with pytest.warns(JitcapWarning, match="is split"):
        step(floats(4, 3))
    for n in (5, 6, 9, 3, 17):
        found = []
        for f in (split, step):
            weight.grad = None
            out = f(floats(n, 3) / 8)
            out.sum().backward()
            found.append((out, weight.grad))
        assert all(map(close, *found)), n
    assert step.stats.compiles == 4  # two parts, each for one size and for all


def test_a_part_that_takes_no_symbols() -> None:
    def split(x: Any) -> Any:
        y = x * 2
        graph_break()
        return sum(y[i] for i in range(y.shape[0]))

    step = jit(split, backend="cpp")
    with pytest.warns(JitcapWarning, match="is split"):
        step(floats(4, 3))
    for n in (5, 6):
        assert close(step(floats(n, 3)), split(floats(n, 3)))
    assert step.stats.compiles == 2 + 3


def test_the_nearest_version_is_named() -> None:
    step = jit(lambda x, y, n: x.sum() + y.sum() * n, backend="eager", dynamic=False)
    step(floats(4), floats(5), True)
    step(floats(6), floats(7), False)
    step(floats(4), floats(9), True)
    assert "y" in str(step.stats.recompiles[-1]).rpartition("read as ")[2]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_size_that_a_guard_leaves_one_value(backend: str) -> None:
    def thirds(x: Any) -> Any:
        n = x.shape[0] // 3 * 3
        return x[:n].view(3, -1).sum(1), x[:n].view(-1, 3, 3).mean(1)

    step = jit(thirds, backend=backend, fullgraph=True)
    for n in (4, 6, 9, 3, 16, 5):
        for a, b in zip(step(floats(n, 3)), thirds(floats(n, 3)), strict=True):
            assert close(a, b), n


def test_numbers_and_sizes_are_compared() -> None:
    def parts(x: Any, y: Any) -> Any:
        both = eager.cat([x, y])
        first, second = both.split([x.shape[0], y.shape[0]])
        return first * 2, second, both.shape[0] == x.shape[0] + y.shape[0], both.shape[0] == 9.0

    step = jit(parts, backend="eager", fullgraph=True)
    for n in (3, 4, 6, 7, 9):
        given = floats(n, 2), floats(n + 1, 2)
        got, want = step(*given), parts(*given)
        assert got[2:] == want[2:]
        assert close(got[0], want[0])
        assert close(got[1], want[1])
    assert step.stats.compiles <= 3


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_size_that_an_op_takes_as_a_number(backend: str) -> None:
    """It is a size in the graph, wherever the op keeps it, in its gradient, too."""

    def signal(x: Any) -> Any:
        y = eager.fft.irfft(eager.fft.rfft(x) * 3, n=x.shape[-1])
        (y * y).sum().backward()
        gradient, x.grad = x.grad, None
        return y, gradient

    step = jit(signal, backend=backend, dynamic=True)
    for n in (16, 20, 24, 16):
        x = floats(3, n).requires_grad_()
        assert all(map(close, step(x), signal(x)))
    assert (step.stats.compiles, step.stats.discards, step.stats.splits) == (1, 0, 0)


def of_many_sizes(x: Any, y: Any, n: int) -> Any:
    a = x.view(x.shape[0] // 2, 2, -1) * 2 + 1
    return a.sum(1), eager.softmax(x, dim=-1)[:n] + y.sum(0), eager.cat([x[1:], x[:-1]]).mean()


def test_sizes_of_the_last_call_are_one_comparison() -> None:
    """A call of the same sizes does what a call of static code does; others are not mistaken."""
    compiled, static = jit(of_many_sizes), jit(of_many_sizes, dynamic=False)
    data = [(floats(n, k), floats(m, k), s) for n, k, m, s in SEVERAL]
    for given in data * 2:
        for got, want in zip(compiled(*given), of_many_sizes(*given), strict=True):
            close(got, want)
    assert compiled.stats.compiles == 2
    static(*data[-1])
    for run in (static, compiled):
        run(*data[-1])
    work = [calls_made(lambda run=run: run(*data[-1])) for run in (static, compiled)]
    assert work[1] <= work[0] + 1  # the values of the symbols, beside what the call was given
    assert "== (z :=" in entry_of(compiled)


SEVERAL = ((4, 6, 5, 3), (8, 10, 7, 6), (6, 12, 9, 2), (6, 4, 9, 2), (6, 4, 9, 5), (4, 4, 9, 2))


def entry_of(compiled: Any) -> str:
    """The source of the version that was used last."""
    entries = compiled._entries
    return str(entries.compiled[entries.versions[0]].captured.text)


def test_layouts_and_types_are_told_apart_at_equal_sizes() -> None:
    def rows(x: Any, y: Any, n: int) -> Any:
        return x[:n] + y[:n] * n

    compiled = jit(rows)
    for n in (3, 5, 4):
        compiled(floats(n + 2, n), floats(n + 2, n), n)
    square = floats(4, 4), floats(4, 4)
    for given in [
        (*square, 3), (square[0].t(), square[1], 3), (*square, 3), (*square, True),
        (square[0].double(), square[1], 3), (*square, 3), (floats(4, 8)[:, ::2], square[1], 3),
    ]:  # fmt: skip
        close(compiled(*given), rows(*given))


def test_what_is_no_tensor_is_asked_nothing() -> None:
    class Sly:
        asked = 0

        @property
        def _array(self) -> Any:
            self.asked += 1
            raise AttributeError

        def __radd__(self, other: Any) -> str:
            return "another"

    compiled = jit(lambda x, y: x + y)
    for n in (3, 5, 4):
        compiled(floats(n), floats(n))
    assert len(compiled._entries.versions) == 2
    sly = Sly()
    for version in compiled._entries.versions:
        assert repr(version((floats(4), sly), {})) == "<miss>"
    assert not sly.asked


def counts_of_sizes(x: Any) -> Any:
    n = x.shape[0]
    eager.manual_seed(0)
    i, j = eager.triu_indices(n, n, 1)
    low = eager.tril_indices(n, 4)
    drawn = (
        eager.randint(0, n, (3,)),
        eager.randint(n, (2, 2)),
        eager.randperm(n),
        x[eager.randperm(n)],
    )
    largest = x.topk(n // 2, 0).values, x.topk(min(3, n), 0).indices
    padded = F.pad(x, (0, 0, 0, 8 - n % 8)), F.pad(x, (n - 1, 0), mode="replicate")
    return (
        *drawn,
        *largest,
        *padded,
        x.roll(n // 2, 0),
        x.roll((n - 1, 1), (0, 1)),
        x[i] - x[j],
        low,
    )


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_size_as_a_count(backend: str) -> None:
    step = jit(counts_of_sizes, backend=backend)
    for n in (5, 7, 3, 9, 12, 4):
        x = floats(n, 4)
        assert all(map(close, step(x), counts_of_sizes(x)))
    assert step.stats.compiles <= 2 and not step.stats.fallbacks


def computed_sizes(x: Any, scale: float) -> Any:
    """Sizes by arithmetic that sizes do not have."""
    n = x.shape[0]
    most = max(n // 3, 1), round(n * 0.3), math.ceil(n / 2)
    parts = x[: int(n * 0.5)], x[: math.floor(n * scale)], x[most[2] - 1 :], x[: int(math.sqrt(n))]
    image = x.view(1, 1, n, 4)
    resized = (
        F.interpolate(image, scale_factor=scale),
        F.interpolate(image, scale_factor=1.7, mode="bilinear", recompute_scale_factor=True),
        F.fractional_max_pool2d(image, 2, output_ratio=(0.5, 0.5)),
    )
    return *parts, *resized, eager.zeros(most[1]), eager.zeros(int(n**0.5)) + most[0]


@pytest.mark.parametrize("dynamic", [None, True])
def test_sizes_by_the_arithmetic_of_numbers(dynamic: bool | None) -> None:
    step = jit(computed_sizes, backend="python", dynamic=dynamic)
    for n in (16, 12, 9, 21, 14, 11):
        x = floats(n, 4)
        eager.manual_seed(n)
        want = computed_sizes(x, 0.6)
        eager.manual_seed(n)
        assert all(map(close, step(x, 0.6), want))
    assert step.stats.compiles <= 2 and not step.stats.fallbacks


def by_shapes(x: Any, shape: tuple[int, ...], rest: tuple[int, int]) -> Any:
    wide = x.expand(shape) * eager.arange(shape[1])
    found = x.expand(shape), F.layer_norm(wide, shape[1:]), x.new_zeros(rest)
    return (*found, eager.ones(rest[0])) if shape[1:] == (4,) else found


@pytest.mark.parametrize("dynamic", [None, True])
def test_a_tuple_of_sizes(dynamic: bool | None) -> None:
    """One of which a number varies is compared number by number."""
    step = jit(by_shapes, backend="python", dynamic=dynamic)
    for n in (5, 7, 6, 9, 4, 12):
        args = floats(n, 1), (n, n + 2), (3, n)
        found, want = step(*args), by_shapes(*args)
        assert len(found) == len(want) and all(map(close, found, want))
    assert step.stats.compiles <= 3
    args = floats(5, 1), (5, 4), (3, 5)
    assert len(step(*args)) == len(by_shapes(*args)) == 4


def through_rows(x: Any, w: Any) -> Any:
    h, seen = eager.zeros(4), []
    for row in x:
        h = (h @ w + row).tanh()
        seen.append(h)
    for i, row in enumerate(x, 1):
        h = h + row * i
    for row, other, i in zip(x, x * 2, range(x.shape[0]), strict=False):
        h = (h + row * other * i).tanh()
    (h.sum() + row.sum() * i).backward()
    return h, eager.stack(seen)


def rows_that_are_written(x: Any, w: Any) -> Any:
    y = x.detach().clone()
    for row in y:
        row.mul_(row.sum())
    it = iter(x)
    first, total = next(it), eager.zeros(4)
    for row in it:
        total = total + row
    return y, first, total, [row.sum() for row in x]


@pytest.mark.parametrize(("fn", "most"), [(through_rows, 2), (rows_that_are_written, 5)])
def test_rows_of_a_tensor(fn: Callable[..., Any], most: int) -> None:
    step, found = jit(fn, backend="eager"), []
    for n in (5, 7, 3, 9, 4):
        for run in (step, fn):
            x, w = floats(n, 4).requires_grad_(), floats(4, 4).requires_grad_()
            *tensors, last = run(x, w)
            grads = [x.grad, w.grad] if fn is through_rows else []
            found.append([*tensors, *(last if isinstance(last, list) else [last]), *grads])
        assert all(map(close, *found[-2:]))
        assert len(found[-1]) == len(found[-2])
    assert step.stats.compiles <= most and not step.stats.fallbacks


def test_a_counter_that_the_program_keeps_itself_is_a_size() -> None:
    """A cache that is filled: how much of it was is an attribute, of which nobody else says that it
    varies."""

    class Cache:
        def __init__(self) -> None:
            self.keys, self.used = eager.zeros(2, 32, 4), 0

        def add(self, x: Any) -> Any:
            self.keys[:, self.used : self.used + x.shape[1]] = x
            self.used += x.shape[1]
            return (x @ self.keys[:, : self.used].transpose(1, 2)).softmax(-1).sum(1), self.used

    plain, kept = Cache(), Cache()
    step = jit(kept.add, backend="python")
    for n in range(2, 14):
        x = eager.full((2, 1, 4), n / 8)
        (want, used), (found, also) = plain.add(x), step(x)
        assert used == also and eager.allclose(want, found)
    assert step.stats.compiles <= 3 and not step.stats.splits
