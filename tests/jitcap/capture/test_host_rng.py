"""Arrays that NumPy draws inside a program, and tensors made of arrays: one graph, plain Python's
values and the same draws at each call."""

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import eager
from jitcap import jit

GENERATOR = np.random.default_rng(0)
OWN = random.Random(0)
ROWS = np.linspace(0, 1, 12).reshape(4, 3)


def of_a_size(x: Any) -> Any:
    return eager.FloatTensor(np.random.normal(0, 1, (x.shape[0], 3))) * x


def of_a_shape(x: Any) -> Any:
    noise = eager.as_tensor(np.random.uniform(-1, 1, size=x.shape), dtype=eager.float32)
    return x + noise, eager.Tensor(np.random.rand(4, 1)) * x


def of_a_generator(x: Any) -> Any:
    drawn = GENERATOR.standard_normal((4, 3)).astype("float32")
    return x * eager.from_numpy(drawn), drawn


def of_ints(x: Any) -> Any:
    some = np.random.choice(4, 2, replace=False)
    return x[np.random.permutation(4)], x[eager.tensor(some)], eager.LongTensor(some)


def written_in_place(x: Any) -> Any:
    drawn = np.random.rand(4, 3)
    eager.from_numpy(drawn).mul_(2)
    return drawn, eager.from_numpy(drawn) * x


def in_a_loop(x: Any) -> Any:
    for _ in range(3):
        x = x + eager.FloatTensor(np.random.normal(size=(4, 3)))
    return x, np.random.rand()


def of_an_array_of_a_tensor(x: Any) -> Any:
    y = x * 2
    eager.from_numpy(y.numpy()).add_(1)
    return y, y.numpy().astype(np.float64)


def one_of(x: Any) -> Any:
    return x * random.choice([0.5, 1.0, 2.0]), x[random.choice(range(4))]


def some_of(x: Any) -> Any:
    chosen = random.sample(range(4), 2)
    return x[chosen], chosen, OWN.choices([1, 2, 3], weights=[1, 0, 4], k=2)


def in_another_order(x: Any) -> Any:
    order = list(range(len(x)))
    OWN.shuffle(order)
    return x[order], order, random.random()


def at_a_drawn_place(x: Any) -> Any:
    i, j = random.randrange(4), random.randint(-3, 2)
    y = x.clone()
    y[i, j] = 100
    return y * x[i], x[i : i + 2].sum()


PROGRAMS = [
    of_a_size, of_a_shape, of_a_generator, of_ints, written_in_place, in_a_loop,
    of_an_array_of_a_tensor, one_of, some_of, in_another_order, at_a_drawn_place,
]  # fmt: skip


def run(step: Callable[[Any], Any]) -> list[Any]:
    np.random.seed(0)
    random.seed(0)
    OWN.seed(1)
    GENERATOR.bit_generator.state = np.random.PCG64(7).state
    x = eager.arange(12.0).reshape(4, 3)
    made = [step(x) for _ in range(3)]
    return [np.asarray(y) for each in made for y in (each if type(each) is tuple else (each,))]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_programs(program: Callable[[Any], Any]) -> None:
    step = jit(program, backend="python", fullgraph=True)
    for a, b in zip(run(step), run(program), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=1e-6)
    assert step.stats.compiles == 1


def test_constructors_of_an_array_from_outside() -> None:
    step = jit(lambda x: (eager.FloatTensor(ROWS) * x, eager.Tensor(ROWS)), fullgraph=True)
    product, copy = step(eager.ones(4, 3))
    assert product.dtype is copy.dtype is eager.float32
    ROWS[0, 0] = 5  # what is in it is read at each call
    assert step(eager.ones(4, 3))[0][0, 0].item() == 5
    assert copy[0, 0].item() == 0


@pytest.mark.filterwarnings("ignore::jitcap.JitcapWarning")
def test_a_shuffled_list_from_outside_is_no_version_for_each_order() -> None:
    order = [0, 1, 2, 3]

    def step(x: Any) -> Any:
        random.shuffle(order)
        return x * order[0]

    jitted = jit(step, backend="python")
    random.seed(0)
    for _ in range(6):
        jitted(eager.ones(2))
    assert jitted.stats.compiles <= 2
