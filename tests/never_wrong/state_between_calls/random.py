"""Random numbers that the host draws, by every kind of generator."""

import random

import numpy as np

import eager
from tests.never_wrong.harness import case
from tests.never_wrong.scene import nothing, rows, scene


@case("random")
def a_generator_of_random():
    r = random.Random(3)

    def step(x):
        return x * r.random(), r.random()

    return scene(step, nothing, lambda: r.seed(3), observe=lambda: r.getstate()[1][-1])


@case("random")
def getrandbits_after_uniform():
    r = random.Random(3)

    def step(x):
        a = r.uniform(1.0, 2.0)
        return x * a, r.getrandbits(8)

    return scene(step, nothing)


@case("random")
def another_generator_at_the_same_place():
    class State:
        r = None

    state = State()
    state.r = random.Random(3)

    def step(x):
        return x * state.r.random()

    return scene(step, nothing, lambda: setattr(state, "r", random.Random(3)))


@case("random")
def a_generator_of_random_is_an_argument():
    def step(x, r):
        return x * r.random()

    x, a, b = eager.ones(2), random.Random(1), random.Random(2)
    return rows(step, (x, a), (x, b), (x, a))


@case("random")
def a_generator_is_seeded_inside():
    r = random.Random(3)

    def step(x):
        r.seed(5)
        return x * r.random()

    return scene(step, nothing, observe=lambda: random.Random(r.random()).random())


@case("random")
def a_generator_shuffles_and_samples():
    r, items = random.Random(3), [1, 2, 3, 4]

    def step(x):
        r.shuffle(items)
        return x * r.choice(items), r.sample(items, 2), r.choices(items, k=2)

    return scene(step, nothing, observe=lambda: list(items))


@case("random")
def a_state_is_kept_and_restored():
    r = random.Random(3)

    def step(x):
        state = r.getstate()
        a = r.random()
        r.setstate(state)
        return x * a, r.random() == a

    return scene(step, nothing)


@case("random")
def randint_chooses_a_branch():
    r = random.Random(3)

    def step(x):
        if r.randint(0, 1):
            return x + 1
        return x - r.random()

    return scene(step, nothing, nothing, nothing, nothing)


@case("random")
def gauss_keeps_a_spare():
    r = random.Random(3)

    def step(x):
        return x * r.gauss(0.0, 1.0)

    return scene(step, nothing, lambda: r.seed(3), nothing, observe=lambda: r.getstate()[2])


@case("random")
def a_subclass_of_random():
    class Half(random.Random):
        def random(self):
            return super().random() / 2

    r = Half(3)

    def step(x):
        return x * r.random(), r.uniform(0, 1)

    return scene(step, nothing)


@case("random")
def a_generator_of_numpy():
    r = np.random.default_rng(3)

    def step(x):
        return x * r.random() + r.normal(), int(r.integers(10))

    return scene(step, nothing, observe=lambda: r.bit_generator.state["state"]["state"])


@case("random")
def an_old_generator_of_numpy():
    r = np.random.RandomState(3)

    def step(x):
        return x * r.rand(), r.randint(5), r.permutation(3)

    return scene(step, nothing)


@case("random")
def arrays_are_drawn():
    r = np.random.default_rng(3)

    def step(x):
        return x * eager.from_numpy(r.random(3))

    return scene(step, nothing)


@case("random")
def the_bits_beneath_a_generator():
    bits = np.random.PCG64(3)
    a, b = np.random.Generator(bits), np.random.Generator(bits)

    def step(x):
        return x * a.random() + b.random()

    return scene(step, nothing)


@case("random")
def a_draw_in_an_expression_that_is_not_used():
    r = random.Random(3)

    def step(x):
        r.random()
        return x * 2

    return scene(step, nothing, observe=lambda: r.getstate()[1][-1])


@case("random")
def a_draw_under_an_exception():
    r = random.Random(3)

    def step(x):
        a = r.random()
        if a < 2:
            raise ValueError("stop")
        return x

    return scene(step, nothing, observe=lambda: r.getstate()[1][-1])


@case("random")
def a_generator_of_eager():
    g = eager.Generator().manual_seed(3)

    def step(x):
        return x * eager.rand(3, generator=g), g.initial_seed()

    return scene(step, nothing, lambda: g.manual_seed(4))


@case("random")
def the_global_state_is_saved():
    def step(x):
        state = eager.get_rng_state()
        a = eager.rand(2)
        eager.set_rng_state(state)
        return a, eager.rand(2)

    return scene(step, nothing)


@case("random")
def draws_interleave():
    r = random.Random(3)

    def step(x):
        a = r.random()
        x = x + eager.rand(3)
        b = r.random()
        return x * a * b, a < b

    return scene(step, nothing, nothing)
