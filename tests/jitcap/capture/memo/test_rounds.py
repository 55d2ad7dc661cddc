"""Rounds of a loop that are alike are repeated; those that differ are interpreted, from where they
differ."""

from functools import partial

import numpy as np
import pytest

import eager
from eager import nn
from jitcap import jit
from jitcap.capture.capture import capture
from jitcap.capture.memo.rounds import Program, Rounds
from tests.helpers import share
from tests.jitcap.capture.memo.loop_programs import compared

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def asked(monkeypatch):
    """Rounds that were repeated: whether an answer was another one."""
    seen, ask = [], Program._ask

    def noted(self, *args):
        answers, differs = ask(self, *args)
        seen.append(differs)
        return answers, differs

    monkeypatch.setattr(Program, "_ask", noted)
    return seen


@pytest.mark.parametrize("seed", share.of(range(1500), 40))
def test_loops_with_odd_rounds(seed):
    text, expected, found = compared(seed, partial(jit, backend="eager"))
    assert found == expected, text


def parameters(count, odd=None):
    rng = np.random.default_rng(0)
    made = [eager.from_numpy(rng.standard_normal((3, 4)).astype(np.float32)) for _ in range(count)]
    if odd is not None:
        made[odd] = made[odd].double()
    return [nn.Parameter(v) for v in made]


def step_of(kind, count, odd=None):
    every = parameters(count, odd)
    optimizer = kind(every, lr=0.1)

    def step(x):
        optimizer.zero_grad()
        sum((p * x).cos().sum() for p in every).backward()
        optimizer.step()
        return [p.detach() for p in every]

    return step


def shown(captured):
    guards = [(type(g).__name__, g.origin.show(), g.where) for g in captured.guards.items]
    places = [n.where for n in captured.graph.nodes]
    effects = [(e.origin.show(), e.where) for e in captured.epilogue.effects]
    return str(captured.graph), guards, places, captured.writes, effects


@pytest.mark.parametrize("odd", [None, 5])
@pytest.mark.parametrize("kind", [eager.optim.AdamW, eager.optim.NAdam, eager.optim.Adagrad])
def test_what_is_recorded_is_what_interpreting_records(kind, odd, asked, monkeypatch):
    found = capture(step_of(kind, 10, odd), (eager.ones(4),), {})
    assert asked.count(False) >= 10
    monkeypatch.setattr(Rounds, "begin", lambda self, frame, end: False)
    expected = capture(step_of(kind, 10, odd), (eager.ones(4),), {})
    assert shown(found) == shown(expected)


def test_a_round_asks_what_is_its_own(monkeypatch):
    """State of a parameter, and its update: not the settings of the group, nor names of modules."""
    made, ask = [], Program._ask
    monkeypatch.setattr(Program, "_ask", lambda self, *args: made.append(self) or ask(self, *args))
    capture(step_of(eager.optim.AdamW, 10), (eager.ones(4),), {})
    assert len(made[-1].steps) <= 12 < 24 <= len(made[-1].names)


def test_an_answer_that_is_another_one_in_the_middle_of_a_round(asked):
    class Weight:
        def __init__(self, flag):
            self.value, self.flag = eager.zeros(2), flag

    def step(weights):
        for w in weights:
            w.value.add_(1)
            if w.flag:
                w.value.mul_(10)
            w.value.add_(2)

    weights = [Weight(flag=i in (4, 6)) for i in range(9)]
    jit(step)(weights)
    assert [w.value.tolist()[0] for w in weights] == [3, 3, 3, 3, 12, 3, 12, 3, 3]
    assert asked.count(True) == 2
    assert asked.count(False) >= 4


def test_what_the_interpreter_looks_into_by_itself():
    def step(rows, scale):
        total = scale * 0
        for row in rows:
            a, b = row
            total = total + scale * a - b
        return total

    rows = [[1, 2]] * 4 + [[3, 4], [1, 2], [7, 8]]
    assert jit(step)(rows, eager.ones(())).item() == sum(a - b for a, b in rows)


def test_a_local_that_few_rounds_set():
    class Weight:
        def __init__(self, value, flag):
            self.value, self.flag = eager.tensor(value), flag

    def step(weights):
        best, marked = weights[0].value, weights[0].value * 0
        for w in weights:
            if w.flag:
                best = marked = w.value
        return best, marked

    weights = [Weight(float(i), i == 5) for i in range(9)]
    assert [x.item() for x in jit(step)(weights)] == [5.0, 5.0]


def drops_generators(x):
    """Generators that end where the last name of them goes, in a loop, or of what loops looked at."""
    log = []

    def gen(n):
        try:
            yield n
        finally:
            log.append(("end", n))

    def first(v):
        g = gen(v)
        return next(g)

    def part(values):
        mine = []
        for v in values:
            log.append(v)
            if v > 3:
                break
        mine.append(gen(20))
        next(mine[0])
        log.append("leaves")

    for i in range(1, 7):
        g = gen(i)
        log.append(next(g))
    del g
    gens = [gen(i) for i in range(10, 16)]
    for g in gens:
        next(g)
    del g
    for i in (0, 1, 2, 3, 4, 5):
        gens.pop()
        log.append(i)
    part([0, 1, 2, 3, 4, 5, 6, 7])
    log.append("left")
    for v in (1, 2, 3, 4, 5):
        log.append(first(v))
        log.append("next")
    held = []
    for v in (1, 2, 3, 4, 5, 6):
        held.append(v)
    held.append(gen(30))
    next(held[-1])
    del held
    log.append("dropped")
    return x * 2, log


def test_no_generator_lives_longer_for_a_round_that_is_recorded():
    step, x = jit(drops_generators, backend="eager"), eager.ones(2)
    assert step(x)[1] == drops_generators(x)[1]
    assert step.stats.splits == 0
