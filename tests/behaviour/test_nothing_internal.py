"""Odd programs that ordinary people write: right, and no record says that capture itself failed."""

import abc
import collections
import copy
import functools
import struct
import types
import urllib.parse

import numpy as np
import pytest

import eager
import jitcap
from eager import autograd
from jitcap import JitcapWarning, jit

PROGRAMS = []
LEAF = eager.ones(2, requires_grad=True)


def program(fn):
    PROGRAMS.append(fn)
    return fn


@program
def a_module_of_its_own_class(x):
    class Settings(types.ModuleType):
        pass

    found = Settings("a")
    found.y = x
    return found.y + 1


@program
def keywords_of_fromkeys(x):
    found = collections.OrderedDict.fromkeys("ab", value=x)
    with pytest.raises(TypeError):
        dict.fromkeys("ab", value=x)
    return found["a"] + 1, list(found)


@program
def the_text_of_a_tensor_is_raised(x):
    class Mine(Exception):
        pass

    try:
        raise Mine(str(x * 2))
    except Mine as error:
        return str(error), x + 1


class Wrong(autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        return a * b

    @staticmethod
    def backward(ctx, g):
        return g


@program
def too_few_gradients_that_nobody_asks_for(x):
    return Wrong.apply(x, LEAF)


@program
def one_dictionary_of_locals(x):
    first = locals()
    y = x + 1
    stale = "y" in first
    same = locals() is first
    del y
    return same, stale, sorted(first), sorted(locals()), vars() is locals(), x


@program
def a_module_whose_property_raises(x):
    class Settings(types.ModuleType):
        k = property()

        def __getattr__(self, name):
            return name

    return Settings("a").k, x


@program
def super_with_a_keyword(x):
    try:
        return super(value=1)
    except TypeError:
        return x + 1


@program
def partials_with_attributes(x):
    inner = functools.partial(lambda a, b, c: a + b + c, x)
    inner.name = "inner"
    outer = functools.partial(inner, x)
    outer.other = 1
    return outer(x), outer.other, inner.name, outer.func is inner


@program
def super_is_held(x):
    class A:
        def __init__(self, v):
            self.v = v

    class B(A):
        def __init__(self, v):
            above = super()
            above.__init__(v)

    return B(x).v + 1


@program
def registered_with_a_class(x):
    class A(abc.ABC):  # noqa: B024
        pass

    class B:
        pass

    A.register(B)
    return isinstance(B(), A), x


@program
def registered_with_a_function(x):
    @functools.singledispatch
    def show(v):
        return "any"

    show.register(str, lambda v: "text")
    return show(range(3)), show("a"), x + 1


@program
def looked_up_in_a_cache_of_the_library(x):
    try:
        return urllib.parse.urlsplit([], ValueError)
    except TypeError:
        return x + 1


@program
def tensors_are_packed(x):
    packed = struct.Struct("<f").pack(x[0])
    return struct.pack(">d", x.sum()), packed, struct.pack("<i", 3), struct.Struct("b").pack(1)


@program
def an_array_made_inside_is_copied(x):
    return copy.deepcopy(x.numpy() * 2).tolist(), copy.deepcopy(np.ones(2))[0] + x


def shown(value):
    if isinstance(value, tuple | list):
        return [shown(v) for v in value]
    return value.tolist() if isinstance(value, eager.Tensor) else value


@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__)
@pytest.mark.filterwarnings("ignore::jitcap.JitcapWarning")
def test_right_and_named(fn):
    x = eager.tensor([1.0, 2.0])
    step = jit(fn, backend="eager")
    assert shown([step(x), step(x)]) == shown([fn(x), fn(x)])
    assert not [r for r in step.stats.refusals if r.startswith("internal")]


def test_wrong_gradients_are_raised_by_the_backward():
    jitcap.reset()
    with pytest.warns(JitcapWarning, match="backward.. would raise RuntimeError: function Wrong"):
        out = jit(too_few_gradients_that_nobody_asks_for, backend="eager")(eager.ones(2))
    with pytest.raises(RuntimeError, match="incorrect number of gradients"):
        out.sum().backward()
