"""Caches: those of functools, and those that a program fills at its first call."""

import abc
import functools
import random

import eager
from eager import nn
from tests.never_wrong.harness import Call, Program, case
from tests.never_wrong.scene import module, nothing, rows, scene


@case("caches")
def an_lru_cache_is_called():
    log = []

    @functools.lru_cache
    def table(n):
        log.append(n)
        return eager.randn(n)

    def step(x):
        return x + table(3)

    return scene(step, nothing, nothing, observe=lambda: (log, tuple(table.cache_info())))


@case("caches")
def an_lru_cache_is_cleared():
    log = []

    @functools.lru_cache
    def table(n):
        log.append(n)
        return len(log)

    def step(x):
        return x * table(3)

    return scene(step, nothing, table.cache_clear, observe=lambda: list(log))


@case("caches")
def an_lru_cache_of_tensors():
    w, pair = eager.ones(2), [eager.ones(2), eager.ones(2)]

    @functools.lru_cache
    def kept(v, k=1):
        return [k]

    def step(x):
        kept(w), kept(2, k=pair[0]), kept((pair[1], 3))
        w.add_(1)
        kept(w)
        pair[0].mul_(x)
        return x * 2

    def another():
        pair[0] = eager.ones(2)

    return scene(step, nothing, another, observe=lambda: (w, pair, kept.cache_info()))


@case("caches")
def an_lru_cache_compares_no_tensors():
    pair = [eager.ones(2)]

    @functools.lru_cache
    def kept(v):
        return [1]

    def step(x):
        return x * 2, kept(pair[0])

    def another():
        pair[0] = eager.ones(2)

    return scene(step, nothing, another, nothing, nothing, observe=kept.cache_info)


@case("caches")
def an_lru_cache_evicts():
    log = []

    @functools.lru_cache(maxsize=1)
    def scale(n):
        log.append(n)
        return float(n)

    def step(x, n):
        return x * scale(n) + scale(n + 1)

    x = eager.ones(2)
    return rows(step, (x, 1), (x, 1), (x, 2), observe=lambda: (list(log), scale.cache_info()[:2]))


@case("caches")
def an_lru_cache_answers_dictionaries():
    @functools.lru_cache
    def options(name):
        return {"abc": len(name), "ab": 7.0}

    first = options("abc"), options("ab")

    def step(x):
        one, two = options("abc"), options("ab")
        return x * one["abc"] + two["abc"], one is first[0], two is first[1]

    return scene(step, nothing)


@case("caches")
def a_cache_was_filled_before():
    @functools.cache
    def sample():
        return random.Random(3).random()

    first = sample()

    def step(x):
        return x * sample(), sample() is first

    return scene(step, nothing)


@case("caches")
def a_cache_returns_the_very_list():
    @functools.cache
    def shared(n):
        return [n]

    def step(x):
        shared(1).append(len(shared(1)))
        return x + len(shared(1)), shared(1)

    return scene(step, nothing, nothing, observe=lambda: shared(1))


@case("caches")
def a_cache_of_a_random_table():
    @functools.cache
    def noise(n):
        return eager.rand(n)

    def step(x):
        return x * noise(3), eager.rand(2)

    return scene(step, nothing, noise.cache_clear)


@case("caches")
def a_cached_function_reads_a_global_that_changes():
    m = module(
        "import functools\nSCALE = 2\n@functools.cache\ndef scale(): return SCALE\n"
        "def step(x): return x * scale()\n"
    )
    return scene(m.step, lambda: setattr(m, "SCALE", 3), m.scale.cache_clear)


@case("caches")
def a_typed_cache_tells_int_from_float():
    log = []

    @functools.lru_cache(typed=True)
    def kind(n):
        log.append(type(n).__name__)
        return type(n).__name__

    def step(x):
        return kind(1), kind(1.0), kind(True)

    return scene(step, nothing, observe=lambda: list(log))


@case("caches")
def an_untyped_cache_takes_one_for_true():
    @functools.lru_cache
    def kind(n):
        return type(n).__name__

    def step(x):
        return kind(1), kind(True), kind(1.0)

    return scene(step, nothing)


@case("caches")
def a_cached_function_that_raises_is_called_again():
    log = []

    @functools.cache
    def fragile(n):
        log.append(n)
        if len(log) < 3:
            raise ValueError(f"try {len(log)}")
        return len(log)

    def step(x):
        return x * fragile(1)

    return scene(step, nothing, nothing, nothing, observe=lambda: list(log))


@case("caches")
def the_cache_of_an_unhashable_argument():
    @functools.cache
    def total(xs):
        return sum(xs)

    def step(x):
        return x * total([1, 2])

    return scene(step)


@case("caches")
def a_cached_method_is_shared_by_equal_objects():
    class Key:
        def __init__(self, n):
            self.n = n

        def __eq__(self, other):
            return True

        def __hash__(self):
            return 1

        @functools.cache  # noqa: B019
        def value(self):
            return self.n

    a, b = Key(1), Key(2)

    def step(x):
        return x * a.value() + b.value()

    return scene(step, nothing)


@case("caches")
def cache_info_is_read_inside():
    @functools.lru_cache
    def square(n):
        return n * n

    def step(x, n):
        return x * square(n), square.cache_info().hits, square.cache_info().misses

    x = eager.ones(2)
    return rows(step, (x, 2), (x, 2), (x, 3), (x, 2))


@case("caches")
def cache_clear_is_called_inside():
    log = []

    @functools.cache
    def square(n):
        log.append(n)
        return n * n

    def step(x):
        square.cache_clear()
        return x * square(3) * square(3)

    return scene(step, nothing, observe=lambda: (list(log), square.cache_info()[:2]))


@case("caches")
def cache_parameters_and_wrapped():
    @functools.lru_cache(maxsize=7)
    def square(n):
        return n * n

    def step(x):
        return square.cache_parameters()["maxsize"], square.__wrapped__(3), square.cache_info()[0]

    return scene(step, nothing)


@case("caches")
def a_cached_property_is_computed_once():
    log = []

    class Layer:
        scale = 2

        @functools.cached_property
        def table(self):
            log.append("made")
            return eager.rand(3) * self.scale

    layer = Layer()

    def step(x):
        return x + layer.table, layer.table is layer.table

    def forget():
        del layer.table

    return scene(step, nothing, forget, nothing, observe=lambda: (list(log), sorted(vars(layer))))


@case("caches")
def a_cached_property_is_overwritten():
    class Layer:
        @functools.cached_property
        def n(self):
            return 2

    layer = Layer()

    def step(x):
        return x * layer.n

    return scene(step, lambda: setattr(layer, "n", 5), lambda: vars(layer).clear())


@case("caches")
def singledispatch_registers_later():
    @functools.singledispatch
    def show(value):
        return "thing"

    def step(x, value):
        return show(value)

    x = eager.ones(1)
    return Program(
        step,
        calls=[
            Call((x, 1)),
            Call((x, 1), before=lambda: show.register(int, lambda value: "int")),
            Call((x, True)),
            Call((x, True), before=lambda: show.register(bool, lambda value: "bool")),
        ],
        observe=nothing,
    )


@case("caches")
def singledispatch_after_an_abstract_registration():
    class Shape(abc.ABC):  # noqa: B024
        pass

    class Square:
        pass

    @functools.singledispatch
    def area(value):
        return 1

    area.register(Shape, lambda value: 4)
    square = Square()

    def step(x):
        return x * area(square)

    return scene(step, lambda: Shape.register(Square))


@case("caches")
def singledispatchmethod_registers_later():
    class Shower:
        @functools.singledispatchmethod
        def show(self, value):
            return "thing"

    shower = Shower()

    def register():
        vars(Shower)["show"].register(int, lambda self, value: "int")

    def step(x):
        return shower.show(3)

    return scene(step, register)


@case("caches")
def a_dictionary_that_is_filled_at_the_first_call():
    cache = {}

    def table(n):
        if n not in cache:
            cache[n] = eager.arange(n) * 2.0
        return cache[n]

    def step(x):
        return x + table(3)

    return scene(step, nothing, cache.clear, nothing, observe=lambda: dict(cache))


@case("caches")
def an_attribute_that_is_filled_at_the_first_call():
    class Rotary(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = None

        def forward(self, x):
            if self.table is None or self.table.shape[0] < x.shape[0]:
                self.table = eager.rand(x.shape[0])
            return x * self.table[: x.shape[0]]

    layer = Rotary()
    return rows(
        lambda x: layer(x),
        (eager.ones(2),),
        (eager.ones(2),),
        (eager.ones(3),),
        (eager.ones(2),),
        observe=lambda: layer.table,
    )


@case("caches")
def setdefault_makes_a_default_once():
    cache, log = {}, []

    def made():
        log.append(1)
        return len(log)

    def step(x):
        return x * cache.setdefault("scale", made())

    return scene(step, nothing, cache.clear, observe=lambda: (dict(cache), list(log)))


@case("caches")
def cmp_to_key_and_reduce():
    signs = [1]

    def compare(a, b):
        return signs[0] * (a - b)

    def step(x):
        ordered = sorted([3, 1, 2], key=functools.cmp_to_key(compare))
        return x * functools.reduce(lambda a, b: 2 * a + b, ordered)

    return scene(step, lambda: signs.__setitem__(0, -1))


@case("caches")
def an_lru_cache_that_a_size_asks():
    @functools.lru_cache
    def mask(n, device, dtype):
        return eager.ones(n, n, device=device, dtype=dtype).tril()

    @functools.cache
    def table(n, m):
        return eager.arange(n * m).reshape(n, m), n + m

    def step(x):
        values, more = table(*x.shape)
        return x * mask(x.shape[0], x.device, x.dtype) + values * more

    def given(n):
        mask(n, eager.device("cpu"), eager.float32), table(n, n)
        return (eager.ones(n, n),)

    return Program(step, [given(n) for n in (3, 3, 4, 5, 5, 3, 6)])
