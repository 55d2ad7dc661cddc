"""Calls as programs: text that makes the objects again, and less of it."""

import ast
import collections
import math
import sysconfig
from pathlib import Path

import numpy as np
import pytest

import eager
from eager import nn
from jitcap import jit, reproduce
from jitcap.reproduce.source import Program, Statements, _is_installed, needed

SCALE = 3.0


class Box:
    def __init__(self, items):
        self.items = items

    def grow(self, x):
        return x * len(self.items) * SCALE


@jit(backend="eager")
def helper(x, *, k=math.inf):
    return min(x, k) + SCALE


def outer(shift):
    def inner(x, box):
        y = helper(x)
        box.items.append(y)
        return y + shift

    return inner


def again(value, before=None):
    """The object that the text of `value` makes, and the lines."""
    program = Program(before or {})
    text = program.text(value)
    scope = {name: getattr(reproduce, name) for name in ("new", "random", "tensor")}
    lines = [*(f"import {name}" for name in (*program.imports, "eager")), *program.lines]
    exec("\n".join([*lines, f"made = {text}"]), scope)
    return scope["made"], program.lines


def test_objects():
    shared = [1, 2.5, "text", None, float("nan")]
    table = collections.OrderedDict(a=shared, b=(shared, {3: shared}))
    made, _ = again([Box(shared), table, collections.deque([1], 4), {1, 2}])
    box, ordered, queue, known = made
    assert ordered["a"] is box.items is ordered["b"][0] is ordered["b"][1][3]
    assert (type(ordered), queue, queue.maxlen, known) == (
        type(table),
        collections.deque([1]),
        4,
        {1, 2},
    )
    assert repr(box.items) == repr(shared)
    assert box.grow(2) == 2 * 5 * SCALE


def test_models_and_optimizers():
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
    opt = eager.optim.Adam(net.parameters(), lr=0.5)
    net(eager.ones(2, 3)).sum().backward()
    opt.step()
    opt.zero_grad()
    made, other = again((net, opt))[0]
    assert [p.shape for p in made.parameters()] == [p.shape for p in net.parameters()]
    assert other.param_groups[0]["params"][0] is made[0].weight
    made(eager.ones(2, 3)).sum().backward()
    other.step()


def test_functions():
    fn = outer(7)
    made, lines = again(fn)
    box = Box([])
    assert made(1, box) == fn(1, Box([])) == 11.0
    assert "shift = 7" in lines
    assert sum("class Box" in line for line in lines) == 0  # it is met when it is called only


def test_what_was_there_before_the_call():
    items = [1]
    before = {id(items): [*items]}
    items.append(2)
    assert again(Box(items), before)[0].items == [1]


@pytest.mark.parametrize(
    "value", [lambda x: x, (x for x in "ab"), eager.ones(2).requires_grad_() + 1]
)
def test_what_has_no_text(value):
    with pytest.raises(ValueError, match=r"lambda|cannot pickle|history"):
        again(value)


def test_a_program_below_the_prefix_of_python_is_not_installed():
    below = Path(sysconfig.get_path("data")) / "src" / "app.py"
    beside = Path(eager.__file__).parents[1] / "eager_programs" / "app.py"
    assert not _is_installed(str(below))
    assert _is_installed(str(beside)) == _is_installed(
        str(beside.parents[1])
    )  # site-packages, or not
    assert all(map(_is_installed, (eager.__file__, np.__file__, ast.__file__)))


def test_statements():
    lines = ["def f(x):\n    y = x\n    if y:\n        y = 2\n    return y", "v = 3"]
    statements = Statements(lines)
    assert len(statements.all) == 4
    assert statements.keeping(statements.all) == [ast.unparse(ast.parse(x)) for x in lines]
    assert statements.keeping([]) == ["def f(x):\n    pass", "v = 3"]
    assert needed(["v = 3", "def f(x):\n    return g(v)", "def g(x): pass", "w = 4"], "f") == [
        "v = 3", "def f(x):\n    return g(v)", "def g(x): pass",
    ]  # fmt: skip
    assert np.isfinite(SCALE)
