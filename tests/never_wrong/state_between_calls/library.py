"""What is taken for granted of libraries: constants, functions, classes."""

import builtins
import collections
import functools
import importlib
import itertools
import json
import math
import operator
import re
import string
import sys
import textwrap
import types

import eager
from eager import nn
from tests.never_wrong.harness import case
from tests.never_wrong.scene import module, nothing, rows, scene


def patched(step, owner, name, *values, observe=nothing):
    """`owner.name` takes each of `values` in turn, then has its own value again."""
    original = getattr(owner, name)
    changes = [functools.partial(setattr, owner, name, v) for v in (*values, original)]
    program = scene(step, *changes, observe=observe)
    program.close = functools.partial(setattr, owner, name, original)
    return program


@case("library")
def a_constant_of_math_is_replaced():
    return patched(lambda x: x * math.pi, math, "pi", 3.0, 3)


@case("library")
def a_constant_of_string_is_replaced():
    return patched(lambda x: (len(string.digits), string.digits[:2]), string, "digits", "ab")


@case("library")
def a_constant_of_eager_is_replaced():
    return patched(lambda x: x * eager.pi, eager, "pi", 3.0)


@case("library")
def a_constant_of_sys_is_replaced():
    return patched(lambda x: x * (sys.maxsize % 100), sys, "maxsize", 5)


@case("library")
def a_function_of_the_standard_library_is_replaced():
    return patched(lambda x: textwrap.dedent("  a"), textwrap, "dedent", lambda t: "patched")


@case("library")
def a_function_that_the_standard_library_uses_is_replaced():
    def step(x):
        return textwrap.indent("a", "-"), textwrap.shorten("a b c d e f g h", 12)

    return patched(step, textwrap.TextWrapper, "fill", lambda self, text: "patched")


@case("library")
def a_module_in_a_global_is_replaced_by_another():
    m = module("import json\ndef step(x): return json.dumps({'a': 1}), x\n")
    fake = types.SimpleNamespace(dumps=lambda value: "patched")
    return scene(m.step, lambda: setattr(m, "json", fake))


@case("library")
def a_class_of_collections_gets_a_member():
    def step(x):
        return collections.UserDict(a=1).get("a"), getattr(collections.UserDict, "never_wrong", 0)

    def add():
        collections.UserDict.never_wrong = 5

    def replace():
        collections.UserDict.get = lambda self, key: "patched"

    original = collections.UserDict.get
    program = scene(step, add, replace)

    def close():
        vars(collections.UserDict).get("never_wrong") and delattr(
            collections.UserDict, "never_wrong"
        )
        collections.UserDict.get = original

    program.close = close
    return program


@case("library")
def a_default_of_a_library_function_is_replaced():
    function = nn.functional.leaky_relu.__wrapped__
    original = function.__defaults__

    def step(x):
        return nn.functional.leaky_relu(x - 2)

    def change():
        function.__defaults__ = (0.5, *original[1:])

    program = scene(step, change)

    def close():
        function.__defaults__ = original

    program.close = close
    return program


@case("library")
def a_module_that_is_called_like_one_of_the_library():
    """A script of the user's may well be called profile.py or code.py."""
    space = {"__name__": "profile", "SCALE": 2}
    exec("def helper(x): return x * SCALE\ndef step(x): return helper(x) + SCALE\n", space)

    def helper():
        exec("def helper(x): return x * 100\n", space)

    return scene(space["step"], lambda: space.update(SCALE=3), helper)


@case("library")
def a_module_that_is_called_like_ours():
    space = {"__name__": "eager_utils", "SCALE": 2}
    exec("def helper(x): return x * SCALE\ndef step(x): return helper(x) + SCALE\n", space)
    return scene(space["step"], lambda: space.update(SCALE=3))


@case("library")
def functions_without_a_module_name():
    space = {"SCALE": 2}
    exec("def step(x): return x * SCALE, __name__\n", space)
    return scene(space["step"], lambda: space.update(SCALE=3), lambda: space.update(__name__="n"))


@case("library")
def an_initializer_of_a_layer_is_replaced():
    original = nn.Linear.reset_parameters

    def step(x):
        layer = nn.Linear(3, 1)
        return layer(x).detach()

    def change():
        nn.Linear.reset_parameters = lambda self: (
            self.weight.data.fill_(1),
            self.bias.data.zero_(),
        )

    program = scene(step, change)

    def close():
        nn.Linear.reset_parameters = original

    program.close = close
    return program


@case("library")
def a_class_attribute_of_a_layer_is_set():
    layer = nn.LeakyReLU(0.5)
    program = scene(
        lambda x: (layer(x - 2), getattr(layer, "never_wrong", 1)),
        lambda: setattr(nn.LeakyReLU, "never_wrong", 2),
        lambda: setattr(nn.Module, "never_wrong", 3),
        lambda: delattr(nn.LeakyReLU, "never_wrong"),
    )

    def close():
        for cls in (nn.LeakyReLU, nn.Module):
            if "never_wrong" in vars(cls):
                delattr(cls, "never_wrong")

    program.close = close
    return program


@case("library")
def the_import_function_is_replaced():
    original = builtins.__import__

    def step(x):
        import math as m

        return x * m.floor(2.5)

    def change():
        fake = types.SimpleNamespace(floor=lambda v: 7)
        builtins.__import__ = lambda name, *a: fake if name == "math" else original(name, *a)

    return scene(step, change, lambda: setattr(builtins, "__import__", original))


@case("library")
def the_class_builder_is_replaced():
    original = builtins.__build_class__

    def step(x):
        class Box:
            n = 2

        return x * Box.n

    def change():
        def build(body, name, *bases, **kwargs):
            made = original(body, name, *bases, **kwargs)
            made.n = 9
            return made

        builtins.__build_class__ = build

    return scene(step, change, lambda: setattr(builtins, "__build_class__", original))


@case("library")
def native_code_asks_a_metaclass():
    """Which is as the program's as the class of an instance is."""
    log, state = [], {"size": 2}

    class Meta(type):
        def __iter__(cls):
            log.append("iter")
            return iter(range(state["size"]))

        def __len__(cls):
            log.append("len")
            return state["size"]

        def __index__(cls):
            log.append("index")
            return state["size"]

        def __lt__(cls, other):
            log.append("lt")
            return True

        def __neg__(cls):
            log.append("neg")
            return -state["size"]

        def __repr__(cls):
            log.append("repr")
            return f"Sized({state['size']})"

    class Sized(metaclass=Meta):
        pass

    class Made(str):
        __slots__ = ()

        def __new__(cls, _):
            log.append("new")
            return str.__new__(cls, state["size"])

    asks = (
        lambda: list(Sized), lambda: (set(Sized), collections.deque(Sized)), lambda: bytes(Sized),
        lambda: sorted([Sized, Sized])[0] is Sized, lambda: f"{[Sized]}", lambda: Sized < Sized,
        lambda: -Sized, lambda: "abc"[Sized], lambda: (Sized == Sized, Sized != Made),
        lambda: re.sub("b", Made, "abc"), lambda: operator.call(Made, "").upper(),
        lambda: sorted("ab", key=functools.cmp_to_key(lambda a, b: -Sized)),
        lambda: json.loads("[1]", parse_int=Made),
    )  # fmt: skip
    return rows(lambda ask: ask(), *((ask,) for ask in asks for _ in "ab"), observe=lambda: log)


@case("library")
def a_module_of_c_is_loaded_twice():
    """What it has then is another function, or class, than the one of that name."""

    def again(name):
        held = sys.modules.pop(name)
        module = importlib.import_module(name)
        sys.modules[name] = held
        return module

    counts, partial = again("_operator").length_hint, again("_functools").partial

    def step(x):
        return x * 2, counts(iter([1, 2])), partial(step, x).func is step

    return scene(step)


@case("library")
def iterators_are_asked_by_what_they_ask():
    """C's may be, but for those of `tee`."""
    makes = (
        itertools.chain, itertools.accumulate, lambda it: itertools.takewhile(bool, it),
        lambda it: itertools.compress(it, "abcdef"), lambda it: itertools.tee(it)[0],
        lambda it: itertools.filterfalse(lambda v: v % 2, it), lambda it: map(abs, it),
    )  # fmt: skip

    def step(make):
        seen, around = [], []

        def source():
            for value in range(6):
                seen.append(value)
                yield value

        class Asks:
            def __init__(self):
                self.values, self.begun = source(), False

            def __iter__(self):
                return self

            def __next__(self):
                if self.begun:
                    self.begun = False
                    seen.append(next(around[0], "end"))
                self.begun = not seen
                return next(self.values)

        around.append(make(Asks()))
        try:
            return [*around[0]], seen
        except RuntimeError as error:
            return str(error), seen

    return rows(step, *((make,) for make in makes))
