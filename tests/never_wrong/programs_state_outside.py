"""State that lies outside Python's dictionaries: caches, contexts, builtins, generators, streams."""

import abc
import builtins
import collections
import contextlib
import contextvars
import decimal
import functools
import io
import locale
import operator
import os
import random
import sys
import threading
import time
import typing

import numpy as np

import eager
from eager import nn
from eager.nn import functional as F

from .harness import Call, Program, case
from .scene import module, nothing, rows, scene

# ---- caches of functools


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

        @functools.cache
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
    class Shape(abc.ABC):
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


# ---- decimals


@case("contexts")
def the_precision_of_decimals_changes():
    saved = decimal.getcontext().copy()

    def step(x):
        return x * float(decimal.Decimal(1) / decimal.Decimal(3))

    def coarse():
        decimal.getcontext().prec = 3

    return scene(step, coarse, lambda: decimal.setcontext(saved))


@case("contexts")
def the_rounding_of_decimals_changes():
    saved, half = decimal.getcontext().copy(), decimal.Decimal("2.5")

    def step(x):
        return half.to_integral_value(), half.quantize(decimal.Decimal(1)), round(half)

    def up():
        decimal.getcontext().rounding = decimal.ROUND_UP

    return scene(step, up, lambda: decimal.setcontext(saved))


@case("contexts")
def a_trap_of_decimals_is_set():
    saved = decimal.getcontext().copy()

    def step(x):
        return x * float(decimal.Decimal("0.1") + decimal.Decimal("0.2"))

    def trap():
        decimal.getcontext().prec = 1
        decimal.getcontext().traps[decimal.Inexact] = True

    return scene(step, trap, lambda: decimal.setcontext(saved))


@case("contexts")
def a_local_context_inside():
    def step(x):
        with decimal.localcontext() as context:
            context.prec = 4
            third = decimal.Decimal(1) / 3
        return str(third), str(decimal.Decimal(1) / 7)

    return scene(step, nothing)


@case("contexts")
def the_flags_of_decimals_are_raised():
    decimal.getcontext().clear_flags()

    def step(x):
        return x * float(decimal.Decimal(1) / decimal.Decimal(3))

    return scene(
        step,
        lambda: decimal.getcontext().clear_flags(),
        observe=lambda: bool(decimal.getcontext().flags[decimal.Inexact]),
    )


@case("contexts")
def a_context_variable_is_set_between_calls():
    scale = contextvars.ContextVar("scale", default=2)

    def step(x):
        return x * scale.get()

    return scene(step, lambda: scale.set(3), lambda: scale.set(4))


@case("contexts")
def a_context_variable_is_set_inside():
    depth = contextvars.ContextVar("depth", default=0)

    def step(x):
        token = depth.set(depth.get() + 1)
        inner = depth.get()
        depth.reset(token)
        depth.set(inner + 1)
        return x * inner

    return scene(step, nothing, nothing, observe=depth.get)


@case("contexts")
def a_function_runs_in_a_copied_context():
    scale = contextvars.ContextVar("scale", default=2)

    def work():
        scale.set(scale.get() * 2)
        return scale.get()

    def step(x):
        return x * contextvars.copy_context().run(work), scale.get()

    return scene(step, lambda: scale.set(5))


@case("contexts")
def a_thread_local_is_set_between_calls():
    local = threading.local()
    local.scale = 2

    def step(x):
        return x * local.scale

    return scene(step, lambda: setattr(local, "scale", 3), lambda: delattr(local, "scale"))


@case("contexts")
def a_thread_local_is_written_inside():
    local = threading.local()

    def step(x):
        local.count = getattr(local, "count", 0) + 1
        return x * local.count

    return scene(step, nothing, nothing, observe=lambda: local.count)


@case("contexts")
def a_thread_local_in_another_thread():
    local = threading.local()
    local.scale = 2

    def scale():
        return getattr(local, "scale", 7)

    def step(x):
        return x * scale()

    def run(x):
        found = []
        worker = threading.Thread(target=lambda: found.append(step(x)))
        worker.start()
        worker.join()
        return found[0], step(x)

    return scene(run, nothing)


@case("contexts")
def the_environment_is_read():
    os.environ["NEVER_WRONG"] = "2"

    def step(x):
        return x * int(os.environ["NEVER_WRONG"]), os.getenv("NEVER_WRONG_ABSENT", "none")

    def add():
        os.environ["NEVER_WRONG_ABSENT"] = "there"

    return scene(
        step,
        lambda: os.environ.__setitem__("NEVER_WRONG", "3"),
        add,
        lambda: os.environ.pop("NEVER_WRONG"),
        lambda: os.environ.pop("NEVER_WRONG_ABSENT"),
    )


@case("contexts")
def the_environment_is_written_inside():
    os.environ.pop("NEVER_WRONG", None)

    def step(x):
        count = int(os.environ.get("NEVER_WRONG", "0"))
        os.environ["NEVER_WRONG"] = str(count + 1)
        return x * count

    return scene(
        step, nothing, nothing, observe=lambda: (os.environ["NEVER_WRONG"], os.getenv("NEVER_WRONG"))
    )


@case("contexts")
def the_working_directory_changes(here=os.sep):
    place = os.getcwd()

    def step(x):
        return x * (2 if os.getcwd() == here else 3)

    return scene(step, lambda: os.chdir(here), lambda: os.chdir(place))


@case("contexts")
def a_clock_is_replaced():
    ticks = iter(range(100))
    m = module("import types\ntime = types.SimpleNamespace()\ndef step(x): return x * time.time()\n")
    m.time.time = lambda: float(next(ticks))
    return scene(m.step, nothing, nothing)


@case("contexts")
def the_locale_is_asked():
    def step(x):
        return f"{1234567.5:n}", locale.localeconv()["decimal_point"]

    return scene(step, nothing)


# ---- classes that are told about others


@case("registration")
def a_class_is_registered_later():
    class Shape(abc.ABC):
        pass

    class Square:
        pass

    square = Square()

    def step(x):
        return x * (2 if isinstance(square, Shape) else 3)

    return scene(step, lambda: Shape.register(Square))


@case("registration")
def issubclass_of_a_class_that_is_registered_later():
    class Shape(abc.ABC):
        pass

    class Square:
        pass

    def step(x):
        return issubclass(Square, Shape), isinstance(Square(), (str, Shape))

    return scene(step, lambda: Shape.register(Square))


@case("registration")
def a_class_becomes_a_sequence():
    class Row:
        pass

    row = Row()

    def step(x):
        match row:
            case [*_]:
                return "sequence"
        return isinstance(row, collections.abc.Sequence)

    return scene(step, lambda: collections.abc.Sequence.register(Row))


@case("registration")
def a_runtime_protocol_is_met_later():
    @typing.runtime_checkable
    class Closes(typing.Protocol):
        def close(self): ...

    class Door:
        pass

    door = Door()

    def step(x):
        return x * (2 if isinstance(door, Closes) else 3)

    return scene(
        step,
        lambda: setattr(Door, "close", lambda self: None),
        lambda: delattr(Door, "close"),
        lambda: setattr(door, "close", print),
    )


@case("registration")
def a_data_protocol_is_met_by_an_attribute():
    @typing.runtime_checkable
    class Named(typing.Protocol):
        name: str

    class Thing:
        pass

    thing = Thing()

    def step(x):
        return isinstance(thing, Named)

    return scene(
        step, lambda: setattr(thing, "name", "a"), lambda: delattr(thing, "name")
    )


@case("registration")
def a_subclass_hook_changes_its_mind():
    answers = [True]

    class Shape(abc.ABC):
        @classmethod
        def __subclasshook__(cls, other):
            return answers[0]

    class Square:
        pass

    def change():
        answers[0] = False
        Shape.register(type("Other", (), {}))

    def step(x):
        return issubclass(Square, Shape)

    return scene(step, change)


@case("registration")
def becoming_hashable_callable_iterable():
    class Thing:
        pass

    thing = Thing()

    def step(x):
        return callable(thing), isinstance(thing, collections.abc.Iterable)

    return scene(
        step,
        lambda: setattr(Thing, "__call__", lambda self: 1),
        lambda: setattr(Thing, "__iter__", lambda self: iter([])),
    )


@case("registration")
def an_abstract_method_is_implemented_later():
    class Shape(abc.ABC):
        @abc.abstractmethod
        def area(self): ...

    class Square(Shape):
        pass

    def change():
        Square.area = lambda self: 4
        abc.update_abstractmethods(Square)

    def step(x):
        return x * Square().area()

    return scene(step, change)


# ---- builtins and names


@case("builtins")
def a_builtin_is_replaced():
    original = builtins.abs

    def step(x):
        return x * abs(-2)

    return scene(
        step,
        lambda: setattr(builtins, "abs", lambda v: 10),
        lambda: setattr(builtins, "abs", original),
    )


@case("builtins")
def a_replaced_builtin_counts_its_calls():
    original, log = builtins.len, []

    def counted(value):
        log.append(1)
        return original(value)

    def step(x):
        return x * len([1, 2])

    return scene(
        step,
        lambda: setattr(builtins, "len", counted),
        nothing,
        lambda: setattr(builtins, "len", original),
        observe=lambda: log.copy(),
    )


@case("builtins")
def print_is_replaced():
    original, log = builtins.print, []

    def step(x):
        print("hello", len(x))
        return x + 1

    return scene(
        step,
        lambda: setattr(builtins, "print", lambda *a: log.append(a)),
        lambda: setattr(builtins, "print", original),
        observe=lambda: list(log),
    )


@case("builtins")
def a_builtin_is_added_and_removed():
    def step(x):
        try:
            return x * never_wrong_name  # noqa: F821
        except NameError as error:
            return str(error)

    return scene(
        step,
        lambda: setattr(builtins, "never_wrong_name", 2),
        lambda: setattr(builtins, "never_wrong_name", 3),
        lambda: delattr(builtins, "never_wrong_name"),
    )


@case("builtins")
def a_global_shadows_a_builtin():
    m = module("def step(x): return x * max(2, 3)\n")
    return scene(m.step, lambda: setattr(m, "max", min), lambda: delattr(m, "max"))


@case("builtins")
def a_module_with_builtins_of_its_own():
    m = module("def step(x): return x * abs(-2)\n")
    return scene(m.step, lambda: vars(m)["__builtins__"].__class__ and None)


@case("builtins")
def builtins_of_a_function_are_a_copy():
    space = {"__builtins__": {"abs": lambda v: 5, "len": len}}
    exec("def step(x): return x * abs(-2) + len('ab')", space)

    def change():
        space["__builtins__"]["abs"] = lambda v: 6

    return scene(space["step"], change)


@case("builtins")
def isinstance_is_replaced():
    original = builtins.isinstance

    def step(x):
        return isinstance(x, eager.Tensor)

    def lie():
        builtins.isinstance = lambda value, kind: "lied"

    return scene(step, lie, lambda: setattr(builtins, "isinstance", original))


@case("builtins")
def the_class_of_exceptions_is_shadowed():
    m = module(
        "class Error(ValueError): pass\n"
        "def step(x):\n"
        "  try: raise ValueError('v')\n"
        "  except Error: return x\n"
        "  except Exception as e: return type(e).__name__\n"
    )
    return scene(m.step, lambda: setattr(m, "Error", ValueError))


@case("builtins")
def a_function_of_math_is_replaced():
    m = module("import math\ndef step(x): return x * math.floor(2.5)\n")
    fake = type(m)("fake")
    fake.floor = lambda v: 7
    return scene(m.step, lambda: setattr(m, "math", fake))


@case("builtins")
def a_function_of_operator_is_replaced():
    original = operator.add

    def step(x):
        return operator.add(x, 1)

    return scene(
        step,
        lambda: setattr(operator, "add", operator.mul),
        lambda: setattr(operator, "add", original),
    )


# ---- what the library's own names hold


@case("replaced")
def a_method_of_tensors_is_replaced():
    original = eager.Tensor.relu

    def step(x):
        return (x - 2).relu()

    return scene(
        step,
        lambda: setattr(eager.Tensor, "relu", lambda self: self * 10),
        lambda: setattr(eager.Tensor, "relu", original),
    )


@case("replaced")
def an_operator_of_tensors_is_replaced():
    original = eager.Tensor.__add__

    def step(x):
        return x + 1

    return scene(
        step,
        lambda: setattr(eager.Tensor, "__add__", lambda self, other: self * 10),
        lambda: setattr(eager.Tensor, "__add__", original),
    )


@case("replaced")
def a_method_is_added_to_tensors():
    def step(x):
        return x.never_wrong() if hasattr(x, "never_wrong") else x

    return scene(
        step,
        lambda: setattr(eager.Tensor, "never_wrong", lambda self: self * 2, None)
        if False
        else setattr(eager.Tensor, "never_wrong", lambda self: self * 2),
        lambda: setattr(eager.Tensor, "never_wrong", lambda self: self * 3),
        lambda: delattr(eager.Tensor, "never_wrong"),
    )


@case("replaced")
def a_class_attribute_of_tensors_is_seen():
    def step(x):
        return getattr(x, "never_wrong", 1) * x

    return scene(
        step,
        lambda: setattr(eager.Tensor, "never_wrong", 5),
        lambda: delattr(eager.Tensor, "never_wrong"),
    )


@case("replaced")
def a_function_of_eager_is_replaced():
    original = eager.exp

    def step(x):
        return eager.exp(x * 0)

    return scene(
        step,
        lambda: setattr(eager, "exp", lambda v: v + 5),
        lambda: setattr(eager, "exp", original),
    )


@case("replaced")
def a_function_of_functional_is_replaced():
    original = F.relu
    layer = nn.Sequential(nn.ReLU())

    def step(x):
        return F.relu(x - 2), layer(x - 2)

    return scene(
        step,
        lambda: setattr(F, "relu", lambda v, inplace=False: v * 10),
        lambda: setattr(F, "relu", original),
    )


@case("replaced")
def the_forward_of_a_library_layer_is_replaced():
    original, layer = nn.ReLU.forward, nn.ReLU()

    def step(x):
        return layer(x - 2)

    return scene(
        step,
        lambda: setattr(nn.ReLU, "forward", lambda self, v: v * 10),
        lambda: setattr(nn.ReLU, "forward", original),
    )


@case("replaced")
def the_forward_of_one_layer_is_replaced():
    layer = nn.ReLU()

    def step(x):
        return layer(x - 2)

    return scene(
        step,
        lambda: setattr(layer, "forward", lambda v: v * 10),
        lambda: delattr(layer, "forward"),
    )


@case("replaced")
def the_step_of_an_optimizer_is_replaced():
    w = eager.ones(3, requires_grad=True)
    optimizer = eager.optim.SGD([w], lr=0.5)
    log = []

    def step(x):
        optimizer.zero_grad()
        (w * x).sum().backward()
        optimizer.step()
        return w.detach().clone()

    return scene(
        step,
        lambda: setattr(optimizer, "step", lambda: log.append("step")),
        lambda: delattr(optimizer, "step"),
        observe=lambda: (w, list(log)),
    )


@case("replaced")
def a_bound_name_of_a_function_survives_a_replacement():
    exp, original = eager.exp, eager.exp

    def step(x):
        return exp(x), eager.exp(x) if eager.exp is not exp else None

    return scene(
        step,
        lambda: setattr(eager, "exp", eager.sin),
        lambda: setattr(eager, "exp", original),
    )


@case("replaced")
def the_call_of_modules_is_replaced():
    original, layer = nn.Module.__call__, nn.ReLU()

    def step(x):
        return layer(x - 2)

    def twice(self, *args):
        return original(self, *args) * 2

    return scene(
        step,
        lambda: setattr(nn.Module, "__call__", twice),
        lambda: setattr(nn.Module, "__call__", original),
    )


@case("replaced")
def a_method_of_a_user_class_is_replaced():
    class Layer:
        def __call__(self, x):
            return self.run(x)

        def run(self, x):
            return x * 2

    layer = Layer()
    return scene(
        lambda x: layer(x),
        lambda: setattr(Layer, "run", lambda self, x: x * 3),
        lambda: setattr(layer, "run", lambda x: x * 4),
        lambda: setattr(Layer, "__call__", lambda self, x: x * 5),
    )


# ---- the function itself


@case("function")
def attributes_on_the_function_itself():
    def step(x):
        step.calls = getattr(step, "calls", 0) + 1
        return x * step.calls

    return scene(
        step, nothing, lambda: setattr(step, "calls", 10), observe=lambda: vars(step).get("calls")
    )


@case("function")
def an_attribute_of_a_helper_changes():
    def helper(x):
        return x * helper.scale

    helper.scale = 2
    return scene(
        lambda x: helper(x), lambda: setattr(helper, "scale", 3), lambda: delattr(helper, "scale")
    )


@case("function")
def the_name_of_a_helper_changes():
    def helper(x):
        """first"""
        return x

    def step(x):
        return helper.__name__, helper.__doc__, helper.__qualname__.rpartition(".")[2]

    def rename():
        helper.__name__, helper.__doc__, helper.__qualname__ = "renamed", "second", "renamed"

    return scene(step, rename)


@case("function")
def the_code_of_a_helper_is_replaced():
    def helper(x):
        return x * 2

    def other(x):
        return x * 3

    def swap():
        helper.__code__ = other.__code__

    return scene(lambda x: helper(x), swap)


@case("function")
def the_defaults_of_a_helper_are_replaced():
    def helper(x, scale=2, *, shift=1):
        return x * scale + shift

    def positional():
        helper.__defaults__ = (3,)

    def keyword():
        helper.__kwdefaults__ = {"shift": 5}

    def none():
        helper.__kwdefaults__["shift"] = 7

    return scene(lambda x: helper(x), positional, keyword, none)


@case("function")
def the_defaults_of_the_step_are_replaced():
    def step(x, scale=2, *, shift=1):
        return x * scale + shift

    def positional():
        step.__defaults__ = (3,)

    def keyword():
        step.__kwdefaults__["shift"] = 7

    return scene(step, positional, keyword)


@case("function")
def a_default_is_a_list_that_grows():
    def step(x, seen=[]):  # noqa: B006
        seen.append(len(seen))
        return x * len(seen), list(seen)

    return scene(step, nothing, nothing, observe=lambda: step.__defaults__)


@case("function")
def the_order_of_keyword_arguments():
    def step(**kwargs):
        return list(kwargs), [v for v in kwargs.values()]

    x = eager.ones(1)
    return Program(
        step,
        calls=[
            Call((), {"a": x, "b": 2}),
            Call((), {"b": 2, "a": x}),
            Call((), {"b": 2}),
            Call((), {"a": x, "b": 2}),
        ],
        observe=nothing,
    )


@case("function")
def keyword_arguments_in_another_order_are_passed_on():
    def order(**kwargs):
        return "".join(kwargs)

    def step(x, **kwargs):
        return order(**kwargs), order(z=1, **kwargs), dict(kwargs)

    x = eager.ones(1)
    return Program(
        step,
        calls=[Call((x,), {"p": 1, "q": 2}), Call((x,), {"q": 2, "p": 1})],
        observe=nothing,
    )


@case("function")
def an_argument_by_name_then_by_position():
    def step(x, scale=2):
        return x * scale

    x = eager.ones(2)
    return Program(
        step,
        calls=[Call((x, 3)), Call((x,), {"scale": 4}), Call((), {"scale": 5, "x": x}), Call((x,))],
        observe=nothing,
    )


@case("function")
def the_arguments_do_not_fit():
    def step(x, scale, *, shift=0):
        return x * scale + shift

    x = eager.ones(2)
    return Program(
        step,
        calls=[
            Call((x,)),
            Call((x, 1, 2)),
            Call((x, 1), {"scale": 2}),
            Call((x, 1), {"other": 2}),
            Call((x, 1)),
        ],
        observe=nothing,
    )


@case("function")
def an_unused_number_changes():
    def step(x, epoch, note=""):
        return x * 2

    x = eager.ones(2)
    return rows(step, (x, 1), (x, 2, "b"), (x, 10**30), (x, 1.5), (x, None), (x, x))


@case("function")
def a_number_becomes_a_tensor():
    def step(x, scale):
        return x * scale

    x = eager.ones(2)
    return rows(step, (x, 2), (x, eager.tensor([1.0, 2.0])), (x, 2.0), (x, True), (x, 2))


@case("function")
def a_global_number_becomes_a_tensor_and_none():
    m = module("S = 2\ndef step(x): return x if S is None else x * S\n")
    return scene(
        m.step,
        lambda: setattr(m, "S", eager.tensor([1.0, 2.0, 3.0])),
        lambda: setattr(m, "S", None),
        lambda: setattr(m, "S", "no"),
        lambda: setattr(m, "S", 2),
    )


@case("function")
def an_attribute_becomes_an_array():
    class State:
        scale = 2

    state = State()

    def step(x):
        return x * 2 if isinstance(state.scale, int) else x * 3

    return scene(
        step,
        lambda: setattr(state, "scale", np.ones(3)),
        lambda: setattr(state, "scale", [2]),
        lambda: setattr(state, "scale", 2),
    )


@case("function")
def a_function_is_jitted_with_a_wrapper():
    log = []

    def traced(fn):
        @functools.wraps(fn)
        def wrapper(*args):
            log.append(fn.__name__)
            return fn(*args)

        return wrapper

    @traced
    def step(x):
        return x * 2

    return scene(step, nothing, observe=lambda: list(log))


# ---- random numbers of the host


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
def a_generator_is_an_argument():
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


# ---- streams


@case("streams")
def stdout_is_redirected_between_calls():
    text, saved = io.StringIO(), []

    def step(x):
        print("hello", len(x))
        return x + 1

    def redirect():
        saved.append(sys.stdout)
        sys.stdout = text

    def back():
        sys.stdout = saved.pop()

    return scene(step, redirect, back, observe=text.getvalue)


@case("streams")
def stdout_is_redirected_inside():
    def step(x):
        text = io.StringIO()
        with contextlib.redirect_stdout(text):
            print("inner")
        print("outer")
        return x + 1, text.getvalue()

    return scene(step, nothing)


@case("streams")
def a_stream_is_bound_early():
    text = io.StringIO()

    def step(x):
        print("a", file=text)
        text.write("b")
        return x + 1, text.tell()

    return scene(step, nothing, observe=text.getvalue)


@case("streams")
def the_stream_is_a_user_object():
    class Tee:
        def __init__(self):
            self.parts = []

        def write(self, part):
            self.parts.append(part)

        def flush(self):
            self.parts.append("flush")

    tee = Tee()

    def step(x):
        print("a", 1, file=tee, flush=True)
        return x + 1

    return scene(step, nothing, observe=lambda: list(tee.parts))


@case("streams")
def stdout_is_read_inside():
    def step(x):
        sys.stdout.write("text\n")
        sys.stderr.write("error\n")
        return x + 1, sys.stdout is sys.__stdout__

    return scene(step, nothing)


@case("streams")
def print_of_a_value_that_changes_later():
    items = [1]

    def step(x):
        print(items, x.sum().item())
        items.append(2)
        x.add_(1)
        print(items, x.sum().item())
        return x

    return scene(step, nothing, observe=lambda: list(items))


@case("streams")
def a_replaced_display_hook_and_argv():
    saved = sys.argv

    def step(x):
        return x * len(sys.argv[0:1]), sys.argv is saved

    return scene(
        step, lambda: setattr(sys, "argv", ["other"]), lambda: setattr(sys, "argv", saved)
    )


@case("streams")
def a_string_is_read_step_by_step():
    text = io.StringIO("one\ntwo\nthree\n")

    def step(x):
        return x + 1, text.readline()

    return scene(step, nothing, nothing, nothing, observe=text.tell)


@case("streams")
def a_file_is_iterated():
    text = io.StringIO("1\n2\n3\n")

    def step(x):
        for line in text:
            return x * int(line)
        return x

    return scene(step, nothing, nothing, nothing)


@case("streams")
def print_with_separators_of_another_type():
    def step(x):
        print(1, 2, sep=3)
        return x

    return scene(step)


@case("streams")
def a_clock_sleeps_and_counts():
    log = []
    saved = time.sleep

    def step(x):
        time.sleep(0)
        return x + 1

    return scene(
        step,
        lambda: setattr(time, "sleep", log.append),
        lambda: setattr(time, "sleep", saved),
        observe=lambda: list(log),
    )
