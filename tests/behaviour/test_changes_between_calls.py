"""Programs that change what a step sees between its calls: plain Python and @jit, value by value.

A program is a generator of results. It is run twice, once with a `jit` that does nothing, and must
yield the same. `backend="eager"` runs the captured graph without compiling: capture is meant here.
"""

import collections
import contextlib
import copy
import functools
import gc
import json
import random
import re
import types
import warnings
import weakref

import numpy as np
import pytest

import eager
from eager import nn
from jitcap import JitcapWarning, jit

PROGRAMS, SPLITTING = [], []
compiled = functools.partial(jit, backend="eager")


def program(function):
    PROGRAMS.append(function)
    return function


def splitting(function):
    """A program that is announced to be split."""
    SPLITTING.append(function)
    return function


def plainly(function):
    return function


def plain(value):
    """A yielded value as something that `==` compares, and that later writes do not change."""
    if isinstance(value, eager.Tensor):
        return value.tolist()
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    return copy.deepcopy(value)


@program
def members_of_classes(jit):
    """A nearer class hides a member, or one appears where there was none."""

    class Base:
        scale = 2

    class Derived(Base):
        def __init__(self):
            self.own = 1

    thing, other = Derived(), Derived()

    @jit
    def step(x):
        return x * thing.scale, thing == other, bool(thing), getattr(thing, "late", "none")

    @jit
    def store(it):
        it.field = 3
        return it.field

    x = eager.tensor([1.0])
    yield step(x)
    Derived.scale = 5
    yield step(x)
    thing.scale = 7
    yield step(x)
    del thing.scale, Derived.scale
    yield step(x)
    Base.__eq__ = lambda a, b: True
    yield step(x)
    Derived.__bool__ = lambda self: False
    yield step(x)
    Base.late = "late"
    yield step(x)
    Derived.late = property(lambda self: self.own)
    yield step(x)
    yield store(thing)
    Base.__setattr__ = lambda self, name, value: object.__setattr__(self, name, 2 * value)
    yield store(thing)


@program
def parameters_that_come_to_share_memory(jit):
    """What was told apart when it was captured is the same memory in a later call."""
    first, second, third = (nn.Parameter(eager.ones(3) * i) for i in range(3))

    @jit
    def step():
        with eager.no_grad():
            first.add_(second)
            second.mul_(3)
            return first + third

    yield step(), first, second
    third.data = eager.ones(3)
    yield step(), first, second, third
    with warnings.catch_warnings():  # written through two parameters: runs as plain Python
        warnings.simplefilter("ignore", JitcapWarning)
        third.data = second.data
        yield step(), first, second, third
        second.data = first.data
        yield step(), first, second
        yield step(), first, second


@program
def functions_in_a_list(jit):
    """Functions of the library share their code with others."""
    chain = [eager.sin, eager.neg]
    step = jit(lambda x: [f(x) for f in chain])
    x = eager.tensor([1.0])
    yield step(x)
    chain[0] = eager.cos
    yield step(x)


@program
def hooks_of_a_parameter(jit):
    log = []
    w = nn.Parameter(eager.ones(2))

    @jit
    def step(x):
        (w * x).sum().backward()

    def doubled(grad):
        log.append("hook")
        return grad * 2

    x = eager.tensor([1.0, 3.0])
    step(x)
    yield w.grad, log
    handle = w.register_hook(doubled)
    step(x)
    yield w.grad, log
    w.register_post_accumulate_grad_hook(lambda p: log.append("after"))
    step(x)
    yield w.grad, log
    handle.remove()
    step(x)
    yield w.grad, log


@program
def hooks_of_a_parameter_whose_gradient_is_asked_for_outside(jit):
    log = []
    w = nn.Parameter(eager.ones(1))
    forward = jit(lambda x: (w * x).sum())
    handle = w.register_hook(lambda grad: log.append(float(grad)) or grad * 2)
    for _ in range(2):
        forward(eager.tensor([3.0])).backward()
        yield w.grad, log
    handle.remove()
    forward(eager.tensor([3.0])).backward()
    yield w.grad, log


@program
def a_metaclass_that_decides_what_is_an_instance(jit):
    class Meta(type):
        def __instancecheck__(cls, obj):
            return hasattr(obj, "made")

        def __subclasscheck__(cls, other):
            return other.__name__ == "Thing"

    class Checked(metaclass=Meta):
        pass

    class Thing:
        pass

    thing = Thing()
    step = jit(lambda it: (isinstance(it, (int, Checked)), issubclass(type(it), Checked)))
    yield step(thing)
    thing.made = True
    yield step(thing)


@program
def attributes_of_a_tensor(jit):
    step = jit(lambda x: x * getattr(x, "gain", 1))
    x = eager.tensor([2.0])
    yield step(x)
    x.gain = 5
    yield step(x)


@program
def objects_told_apart_by_identity(jit):
    """The same object twice, where first there were two."""

    class Thing:
        pass

    @jit
    def step(a, b):
        counted = {a}
        counted.add(b)
        named = {a: 1}
        named[b] = 2
        return (
            [len({a, b}), len({a: 1, b: 2}), len(counted), len(named), a in {b}, {b: 5}.get(a)],
            [len({x for x in (a, b)}), len(set([a, b])), len({(a, 1), (b, 1)}), a in [b], a == b],
            [[a].count(b)],
        )

    @jit
    def once(layers):
        seen = set()
        return sum(
            p.sum() for q in layers for p in q.parameters() if not (p in seen or seen.add(p))
        )

    a, b = Thing(), Thing()
    yield step(a, b), step(a, a)
    one, two = nn.Linear(1, 1), nn.Linear(1, 1)
    for layer in (one, two):
        for p in layer.parameters():
            nn.init.ones_(p)
    yield once([one, two]), once([one, one])
    two.weight = one.weight
    yield once([one, two])


@program
def functions_that_share_a_variable_or_do_not(jit):
    def make(n):
        return (lambda x: x * n), (lambda x: x + n)

    (times2, plus2), (times5, plus5) = make(2), make(5)
    step = jit(lambda x, f: times2(x) + f(x))
    yield step(eager.ones(1), plus2)
    yield step(eager.ones(1), plus5)
    code = (lambda x: x * FACTOR).__code__  # noqa: F821
    here, there = (types.FunctionType(code, {"FACTOR": n}) for n in (2, 5))
    yield step(eager.ones(1), here), step(eager.ones(1), there)
    both = jit(lambda x, f, g: f(x) + g(x))
    for f, g in ((times2, plus2), (times2, plus5), (times5, plus2)):
        yield both(eager.ones(1), f, g)


@program
def a_cached_function_that_is_replaced(jit):
    def cached(factor):
        return functools.lru_cache(lambda n: n * factor)

    scale = cached(2.0)
    step = jit(lambda x: x * scale(3))
    yield step(eager.ones(2))
    scale = cached(5.0)
    yield step(eager.ones(2))


@program
def a_namespace_as_configuration(jit):
    config = types.SimpleNamespace(rate=0.5, n=2, inner=types.SimpleNamespace(log=[1]))

    @jit
    def step(x):
        config.n += 1
        config.inner.log.append(config.n)
        made = types.SimpleNamespace(x=x, y=config.n)
        del made.x
        return x * config.rate * config.n, hasattr(config, "late"), vars(made), repr(made)

    for _ in range(3):
        yield step(eager.ones(1)), vars(config.inner), config.n
        config.rate += 1
    config.late = True
    yield step(eager.ones(1))


@program
def ordered_dictionary_from_outside(jit):
    table = collections.OrderedDict(a=1)

    @jit
    def step(x):
        table["n"] = x
        table.move_to_end("a")

    step(eager.ones(1))
    yield list(table)


class Text(str):
    __slots__ = ()

    def __new__(cls, text):
        return super().__new__(cls, text + "!")


class Whole(int):
    pass


class Window(collections.deque):
    def __init__(self, values):
        super().__init__(values, 2)


class Problem(Exception):
    def __init__(self, code, extra):
        super().__init__(code)
        self.extra = extra


@splitting
def subclasses_of_builtin_types(jit):
    @jit
    def step(x):
        try:
            raise Problem(3, x)
        except Problem as error:
            made = [Text("a"), Whole(4), Window([1, 2, 3]), bytearray(b"ab"), error.args, error]
        return made, complex(x.shape[0], 2), int("11", 2), dict.fromkeys("ab", 0)

    for _ in range(2):
        made, *rest = step(eager.ones(2))
        *made, error = made
        yield [type(m).__name__ for m in made], [repr(m) for m in made], rest, error.extra


@program
def regular_expressions_and_json(jit):
    pattern = re.compile(r"(\w+)=(\d+)")

    @jit
    def step(x, text):
        found = pattern.match(text)
        read = json.loads('{"k": [1, null]}')
        return x * int(found.group(2)), re.sub("l", "m", text), json.dumps([text, x.shape[0]]), read

    yield step(eager.ones(1), "lr=3"), step(eager.ones(1), "lr=3"), step(eager.ones(1), "mom=5")


@program
def generators_left_in_the_middle(jit):
    log = []

    @contextlib.contextmanager
    def opened(name):
        log.append(name)
        try:
            yield name
        finally:
            log.append(f"closed {name}")

    def numbers():
        with opened("outer"), opened("inner"):
            yield from range(5)

    @jit
    def step(x):
        for n in numbers():
            if n == 1:
                break
        log.append("after the loop")
        next(numbers())
        log.append("after next")
        kept = numbers()
        return x + next(kept)

    for _ in range(2):
        yield step(eager.ones(1)), log


@program
def arguments_come_back_as_they_are(jit):
    given = [
        10**30,
        b"bytes",
        "a word",
        (1, "x"),
        frozenset([1]),
        slice(1, 2),
        range(3),
        1 + 2j,
        0.5,
    ]
    step = jit(lambda *values: values)
    for _ in range(2):
        given = [*map(copy.deepcopy, given[:-1]), 0.5]
        yield [a is b for a, b in zip(step(*given), given, strict=True)]


@splitting
def hooks_of_a_value_whose_gradient_is_asked_for_outside(jit):
    log, scale = [], [2.0]

    def noted(grad):
        log.append(float(grad.sum()))

    def scaled(grad):
        return grad * scale[0]

    for hook in (noted, log.append, scaled, lambda grad: grad.clamp(-1, 1) * 3):

        @jit
        def step(x, hook=hook):
            y = x * 2
            y.register_hook(hook)
            return (y * y).sum()

        for factor in (2.0, 3.0):
            x = eager.tensor([1.0, 3.0], requires_grad=True)
            loss = step(x)
            scale[0] = factor  # read by the hook, in backward
            yield log
            loss.backward()
            yield x.grad, log


@splitting
def a_function_of_ones_own_counts_and_reads_what_is_outside(jit):
    log, scale = [], [2.0]

    class Scaled(eager.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            log.append("forward")
            ctx.scale = scale[0]
            return x * scale[0]

        @staticmethod
        def backward(ctx, grad):
            log.append("backward")
            return grad * ctx.scale

    outside = jit(lambda x: Scaled.apply(x).sum())
    inside = jit(lambda x: Scaled.apply(x).sum().backward())
    for scale[0] in (2.0, 2.0, 3.0):
        x = eager.tensor([1.0, 3.0], requires_grad=True)
        loss = outside(x)
        yield loss, log
        loss.backward()
        yield x.grad, log
        inside(x)
        yield x.grad, log


@splitting
def a_value_that_keeps_its_gradient(jit):
    @jit
    def step(x):
        y = x * 2
        y.retain_grad()
        return y, (y * y).sum()

    for _ in range(2):
        y, loss = step(eager.tensor([1.0, 3.0], requires_grad=True))
        loss.backward()
        yield y.grad


class Doubling:
    @compiled
    def __call__(self, x):
        return x * 2


@program
def a_callable_with_a_jitted_call(jit):
    yield jit(Doubling())(eager.ones(1))


@program
def generic_functions_and_attributes_of_lists(jit):
    """A generic function learns another class; a list's subclass has attributes."""

    @functools.singledispatch
    def scaled(factor, x):
        return x

    @jit
    def step(x, factor):
        return scaled(factor, x)

    yield step(eager.ones(2), 3.0)
    scaled.register(float, lambda factor, x: x * factor)
    yield step(eager.ones(2), 3.0)

    class Stack(list):
        pass

    stack = Stack([1.0])

    @jit
    def labelled(x):
        return x * stack.weight, vars(stack)

    for stack.weight in (2.0, 3.0):
        yield labelled(eager.ones(2))


@program
def numbers_are_drawn_by_every_call(jit):
    """`random` and NumPy leave their generators where plain Python does, also when unused."""
    own, numpys = random.Random(5), np.random.default_rng(4)
    random.seed(3)
    np.random.seed(3)

    @jit
    def mix(x, alpha):
        share = np.random.beta(alpha, alpha)
        random.random()
        noise = own.uniform(-1, 1) + numpys.normal(0.0, 2.0) + random.gauss(0, 1)
        keep = float(random.random() > 0.5)
        return x * share + keep * noise, share, keep, random.randint(0, 9)

    for alpha in (0.4, 0.4, 0.7):
        yield mix(eager.ones(2, dtype=eager.float64), alpha)
    assert jit is plainly or (mix.stats.compiles <= 2 and mix.stats.splits == 0)
    yield random.random(), np.random.rand(), own.random(), numpys.random()


@pytest.mark.parametrize("run", PROGRAMS, ids=lambda run: run.__name__)
def test_same(run):
    assert list(map(plain, run(compiled))) == list(map(plain, run(plainly)))


@pytest.mark.parametrize("run", SPLITTING, ids=lambda run: run.__name__)
def test_same_in_parts(run, recwarn):
    assert [plain(v) for v in run(compiled)] == [plain(v) for v in run(plainly)]


def test_a_batch_is_freed_without_a_collection():
    step = compiled(lambda x: x.sum())
    batch = eager.ones(4)
    alive = weakref.ref(batch)
    gc.disable()
    try:
        step(batch)
        del batch
        assert alive() is None
    finally:
        gc.enable()


def test_a_class_is_made_by_every_call():
    @compiled
    def make(x):
        class Result:
            made = 0

        result = Result()
        result.value = x * 2
        return result

    with pytest.warns(JitcapWarning, match="the class .*Result, made by every call, escapes"):
        results = [make(eager.ones(2)) for _ in range(3)]
    type(results[0]).made += 1
    assert [r.made for r in results] == [1, 0, 0]
    assert results[2].value.tolist() == [2, 2]


def test_a_hook_without_effects_is_in_the_graph_of_a_gradient_asked_for_later():
    @compiled
    def step(x):
        y = x * 2
        y.register_hook(lambda grad: eager.clamp(grad, -1, 1) * eager.tensor([3.0, 0.5]))
        return (y * y).sum()

    x = eager.tensor([1.0, 3.0], requires_grad=True)
    step(x).backward()
    assert x.grad.tolist() == [6, 1]
    assert (step.stats.graphs, step.stats.splits, step.stats.fallbacks) == (1, 0, 0)
