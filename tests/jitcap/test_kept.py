"""Kept versions: what another process (or a second decoration in this one) starts from is right."""

import sys
import types

import pytest

import eager
from jitcap import config, jit, stance
from jitcap.kept import versions
from tests.behaviour import test_changes_between_calls as changes


@pytest.fixture
def recalled(monkeypatch):
    """Versions are kept, as they are outside of tests; the list of those that were found again."""
    found = []
    recall = versions.recall

    def counted(*args):
        made = recall(*args)
        found.append(made)
        return made

    monkeypatch.setattr(versions, "recall", counted)
    with config(check=False):
        yield found


@pytest.mark.parametrize("run", changes.PROGRAMS, ids=lambda run: run.__name__)
def test_programs_that_change_what_a_step_sees(run, recalled):
    expected = [changes.plain(v) for v in run(changes.plainly)]
    assert [changes.plain(v) for v in run(changes.compiled)] == expected
    first = len(recalled)
    assert [changes.plain(v) for v in run(changes.compiled)] == expected
    print(run.__name__, len(recalled[first:]), sum(v is not None for v in recalled[first:]))


# Everything that `step` reads, in the ways that programs read things; an edit changes one of them.
MODULE = """
import collections, dataclasses, enum, functools, math
import eager
from eager import nn
from eager.nn.functional import relu as activation
from jitcap import jit

FACTOR = 2.0
TABLE = {"a": [1, 2], "b": (3, 4.5)}

Pair = collections.namedtuple("Pair", "first second")

class Mode(enum.Enum):
    FAST = 3

@dataclasses.dataclass(frozen=True)
class Settings:
    width: int = 2
    names: tuple = ("x", "y")

class Base(nn.Module):
    bias = 0.25
    def gain(self):
        return 1.5

class Model(Base):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(eager.full((3,), 2.0, dtype=eager.float64))
    @property
    def twice(self):
        return self.weight * 2
    @staticmethod
    def shift(x):
        return x + 7
    @classmethod
    def named(cls, x):
        return x * len(cls.__name__)
    @functools.cached_property
    def cached(self):
        return 11
    def forward(self, x):
        return self.named(self.shift(activation(x * self.twice))) * self.gain() + self.bias

class Own(eager.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 13
    @staticmethod
    def backward(ctx, g):
        return g * 17

@functools.lru_cache
def looked_up(n):
    return n * 19.0

def with_default(x, by=23, *, less=0.5):
    return x * by - less

def around(fn):
    @functools.wraps(fn)
    def inner(x):
        return fn(x) + 29
    return inner

@around
def wrapped(x):
    return x * 31

@jit
def nested(x):
    return x * 37

def counted(n):
    for i in range(n):
        yield i * 41

by_name = {"square": lambda x: x * 43}

def maker(scale):
    class Local(Base):
        def forward(self, x):
            return x * scale * 47
    def inner(x):
        return Local()(x) + scale
    return inner

def make():
    model, settings, closed = Model(), Settings(), maker(3)
    def step(x):
        out = model(x) * FACTOR + TABLE["a"][1] + TABLE["b"][1] + Mode.FAST.value
        out = out + settings.width * len(settings.names) + model.cached
        out = with_default(wrapped(nested(out))) + looked_up(2) + sum(counted(3))
        out = by_name["square"](out) + closed(x) + math.tau * Pair(1, 2).second
        loss = Own.apply(out).sum()
        loss.backward()
        return loss, model.weight.grad
    return step
"""
EDITS = {
    "FACTOR = 2.0": "FACTOR = 3.0",
    "[1, 2]": "[1, 9]",
    "(3, 4.5)": "(3, 5.5)",
    "FAST = 3": "FAST = 4",
    "width: int = 2": "width: int = 5",
    '("x", "y")': '("x", "z", "w")',
    "bias = 0.25": "bias = 0.75",
    "return 1.5": "return 1.25",
    "self.weight * 2": "self.weight * 3",
    "x + 7": "x - 7",
    "len(cls.__name__)": "len(cls.__name__ * 2)",
    "return 11": "return 12",
    "relu as": "gelu as",
    "x * 13": "x * 14",
    "g * 17": "g * 18",
    "n * 19.0": "n * 20.0",
    "by=23": "by=24",
    "less=0.5": "less=0.75",
    "fn(x) + 29": "fn(x) + 30",
    "x * 31": "x * 32",
    "x * 37": "x * 38",
    "i * 41": "i * 42",
    "x * 43": "x * 44",
    "scale * 47": "scale * 48",
    "maker(3)": "maker(4)",
    "math.tau": "math.pi",
}


def imported(source):
    """The module of this text, as if this were the first process that imports it."""
    module = sys.modules["kept_sample"] = types.ModuleType("kept_sample")
    exec(compile(source, "kept_sample.py", "exec"), vars(module))
    return module


def results(source, how):
    """The step's result, compiled or plain, and whether a kept version was found."""
    step = jit(imported(source).make(), backend="eager", fullgraph=True)
    with stance(how):
        return [v.tolist() for v in step(eager.tensor([1.0, -2.0, 3.0], dtype=eager.float64))]


def test_an_edit_between_two_processes_is_seen(recalled, monkeypatch):
    monkeypatch.setitem(sys.modules, "kept_sample", None)
    whole = results(MODULE, "eager")
    assert results(MODULE, "default") == whole == results(MODULE, "default")
    assert [found is not None for found in recalled] == [False, True]
    for old, new in EDITS.items():
        assert MODULE.count(old) == 1, old
        source = MODULE.replace(old, new)
        expected = results(source, "eager")
        recalled.clear()
        assert expected != whole
        assert results(source, "default") == expected == results(source, "default"), old
        assert recalled[1] is not None, f"{old} -> {new}"


def test_a_namespace_that_no_module_holds(recalled):
    text = "def step(x):\n    log.append(len(log))\n    return x * len(log)"
    for found in (False, True):
        scope = {"log": []}
        exec(compile(text, "kept_scope.py", "exec"), scope)
        step = jit(scope["step"], backend="eager")
        assert [step(eager.ones(1)).item() for _ in range(2)] == [1, 2]
        assert scope["log"] == [0, 1]
        assert (recalled[-1] is not None) == found
        recalled.clear()


def test_a_gradient_asked_for_outside(recalled):
    def square(x):
        return (x * x).sum()

    for found in (False, True):
        x = eager.tensor([1.0, 3.0], requires_grad=True)
        jit(square)(x).backward()
        assert x.grad.tolist() == [2, 6]
        assert (recalled[-1] is not None) == found


def test_objects_that_were_different_and_are_one_now(recalled):
    def make(n):
        return lambda x: x * n

    def program(f, g):
        return jit(lambda x: (f(x), g(x), f is g), backend="eager")

    x, one, other = eager.ones(1), make(2), make(2)
    for f, g in ((one, other), (one, one), (other, one), (other, other)):
        assert program(f, g)(x)[2] is (f is g)
    assert [found is not None for found in recalled] == [False, False, True, True]
