"""Numbers that only some ways through a step change: a few versions, however high they count."""

import warnings

import pytest

import eager
from jitcap import graph_break, jit

pytestmark = pytest.mark.once


class Trainer:
    def __init__(self):
        self.updates, self.seen, self.log = 0, 0, []

    def accumulated(self, x, i):
        """The counter moves at every other call, and is read at each."""
        if (i + 1) % 2 == 0:
            self.updates += 1
        self.log.append((self.updates, x.sum().item()))

    def by_size(self, x, i):
        if x.shape[0] == 3:
            self.updates += 1
        return self.updates * x

    def two_counters(self, x, i):
        if i % 2:
            self.updates += 1
            self.seen += x.shape[0]
        return x * self.updates + self.seen

    def three_ways(self, x, i):
        if i % 3 == 1:
            self.updates += 1
        elif i % 3 == 2:
            self.seen += 2
        return x + self.updates - self.seen

    def in_parts(self, x, i):
        graph_break()
        if i % 2:
            self.updates += 1
        return x * self.updates


@pytest.mark.parametrize(
    ("way", "most"),
    [("accumulated", 4), ("by_size", 4), ("two_counters", 5), ("three_ways", 8), ("in_parts", 8)],
)
def test_a_counter_that_moves_now_and_then(way, most):
    def run(transform):
        trainer = Trainer()
        step = transform(getattr(trainer, way))
        given = [eager.ones(2 + (way == "by_size" and i % 2)) for i in range(24)]
        found = [step(x, i) for i, x in enumerate(given)]
        return step, ([r.tolist() for r in found] if way != "accumulated" else trainer.log)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        step, got = run(lambda fn: jit(fn, backend="eager"))
    assert got == run(lambda fn: fn)[1]
    assert step.stats.compiles <= most
