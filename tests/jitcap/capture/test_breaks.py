"""Every kind of refusal: it is met by a program, says where it is, and costs nothing but speed."""

import asyncio
import datetime
import random
import re
import time
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

import eager
import jitcap
from jitcap import disable, graph_break, jit
from jitcap.base.breaks import KINDS, Break
from jitcap.capture.capture import capture
from jitcap.capture.kinds.poison import Poison

PROGRAMS = {}
ARRAY = np.arange(3, dtype=np.float32)
NOT_COUNTED = {"iteration"}  # how a loop over a data loader runs: no split


def program(kind):
    def register(fn):
        PROGRAMS[kind, fn.__name__] = fn
        return fn

    return register


@program("data dependent")
def branch(x):
    return x if x.sum() > 0 else x[:1]


@program("data dependent")
def loop_on_a_number(x):
    while x.sum().item() < 40:
        x = eager.cat([x, x])  # of another shape in every round
    return x


@program("data dependent")
def index_by_a_value(x):
    return [10, 20, 30][int(x.max().item())]


@program("unknown call")
def evaluates(x):
    return x * eval("2 + 1")


@program("recursion")
def calls_one_that_is_deep(x):
    return x * deep(200)


def deep(n):
    return n and deep(n - 1)


@program("opaque object")
def reads_an_array(x, array=ARRAY):
    return x * float(array[1])


@program("opaque object")
def turns_a_decimal(x, price=Decimal("1.5")):
    return x * len([+price])


@program("data dependent")
def today(x):
    return x * (datetime.datetime.now().year > 2000)


@program("time and chance")
def looks_at_the_clock(x):
    y = x * 2
    return y * (time.time() > 0)


@program("time and chance")
def draws(x):
    random.seed(0)
    return x * random.random()


@program("requested")
def asks(x):
    y = x + 1
    graph_break()
    return y * 2


@disable
def hidden(x):
    return x * 3


@program("requested")
def calls_disabled(x):
    return hidden(x + 1)


@program("iteration")
def over_an_iterator(x, values=(3, 1)):
    total = x
    for v in values_of(values):
        total = total + v
    return total


def values_of(values):
    yield from values


class Changed:
    count = 0


@program("effect")
def changes_a_class(x):
    Changed.count = 5
    return x + Changed.count


@program("data dependent")
def asks_for_the_place_of_a_result(x):
    y = x + 1
    return y * (y.data_ptr() > 0)


@program("numpy")
def a_function_of_numpy(x):
    return np.sin(x * 2)


@pytest.mark.parametrize(("kind", "name"), sorted(PROGRAMS))
def test_same_answer(kind, name, recwarn):
    fn = PROGRAMS[kind, name]
    jitted = jit(fn, backend="eager")
    for _ in range(2):
        x = eager.tensor([1.0, 2.0])
        got, expected = jitted(x), fn(x)
        assert np.allclose(np.asarray(got), np.asarray(expected))
    met = {reason.partition(":")[0] for reason in jitted.stats.refusals}
    assert met == {kind} - NOT_COUNTED, jitted.stats
    assert jitted.stats.splits == len(met)
    assert jitted.stats.fallbacks == 0


@pytest.mark.parametrize(
    "name",
    [
        "branch",
        "loop_on_a_number",
        "evaluates",
        "looks_at_the_clock",
        "asks",
        "calls_disabled",
        "changes_a_class",
    ],
)
def test_the_record(name):
    kind, fn = next((k, f) for (k, n), f in PROGRAMS.items() if n == name)
    with pytest.raises(Break) as caught:
        capture(fn, (eager.tensor([1.0, 2.0]),), {})
    record = caught.value.record()
    assert record.kind == kind
    assert record.place.file == __file__
    text = str(record)
    assert "^" in text
    assert record.why in text
    assert record.hint in text


def test_no_operator_gets_at_what_is_opaque():
    """Python's numbers have these methods; a stand-in that lacks one answers in C's words."""
    methods = {name for name in vars(int) if name.startswith("__")}
    names = methods - vars(object).keys() - {"__getnewargs__"}
    assert sorted(n for n in names if n not in vars(Poison)) == []


def test_a_coroutine_is_left_alone(recwarn):
    async def step(x):
        return x * 2

    result = asyncio.run(jit(step)(eager.ones(2)))
    assert result.tolist() == [2.0, 2.0]


def test_an_unknown_kind_is_a_mistake():
    with pytest.raises(KeyError, match="no such kind"):
        Break("weather", "rain")


def test_every_kind_is_raised_and_says_something_of_its_own():
    """A kind that nothing raises is dead; one whose words are another's says nothing."""
    folder = Path(jitcap.__file__).parent
    source = "\n".join(path.read_text() for path in sorted(folder.rglob("*.py")))
    raised = re.findall(r'\b(?:Break|Record)\(\s*"([a-z ]+)"', source)
    assert {*raised} == {*KINDS}
    for words in ([k.why for k in KINDS.values()], [k.hint for k in KINDS.values()]):
        assert all(len(text) > 10 for text in words)
        assert len({*words}) == len(words)


def test_what_constants_decide_splits_nothing():
    """A grid of times, a causal mask: branches, sizes and indices that need no input are known."""

    def solve(x):
        times = eager.linspace(0, 1, 5)
        assert (times[1:] > times[:-1]).all()
        y, j = x, 1
        while j < len(times) and times[j] <= 0.5:
            y = y + (times[j] - times[j - 1]) * y.sin()
            j += 1
        mask = eager.tril(eager.ones(3, 3)) > 0
        picked = x[:3, :3][mask] if mask.any() else x
        eager.manual_seed(3)
        drawn = 1 if eager.rand(()) < 0.5 else 2  # the seed is a constant, too
        classes = eager.unique(eager.tensor([1, 2, 2, 3]))
        rows = mask.nonzero().sum() + int(mask.sum())
        return y.sum() + picked.sum() + rows, times.tolist(), len(classes), drawn, j

    x = eager.arange(16.0).reshape(4, 4) / 16
    step = jit(solve)
    for scale in (1, 2):
        (value, *rest), (expected, *others) = step(x * scale), solve(x * scale)
        np.testing.assert_allclose(value.numpy(), expected.numpy(), rtol=1e-6)
        assert rest == others
    assert (step.stats.graphs, step.stats.splits, step.stats.compiles) == (1, 0, 1)


def test_what_a_constant_becomes_is_not_known(recwarn):
    """A constant that the input is written into decides nothing."""

    def fill(x):
        total = eager.zeros(())
        total.add_(x.sum())
        return [-x, x][int(total > 0)]

    step = jit(fill)
    for x in (eager.ones(3), -eager.ones(3)):
        assert step(x).tolist() == fill(x).tolist() == [1, 1, 1]
    assert step.stats.splits == 1
