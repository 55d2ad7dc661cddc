"""Reproducing: the smallest graph that shows a fault. Candidate, trials -> Candidate.

Delta debugging: a smaller graph is tried, and kept if it shows the very fault. In this order:
operations, graphs inside them, outputs, inputs by rule, sizes; again, while it helps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, TypeVar

from eager.sizes.symint import hint
from jitcap.graph.graph import CHECK
from jitcap.reproduce.fault import STAGES, Outcome
from jitcap.reproduce.inputs import Given, by_rule
from jitcap.reproduce.shrink import Candidate, bypassed, halved, inside, keeping, only
from jitcap.reproduce.trials import OutOfTime

T = TypeVar("T")
Try = Callable[[Candidate], Outcome]


class Reduction:
    """One search. `best` is the smallest candidate that showed `outcome`'s fault; `whole` is False
    where time was over before the end."""

    def __init__(self, candidate: Candidate, outcome: Outcome, try_: Try) -> None:
        self.best = candidate
        self.outcome = outcome
        self.whole = False
        self._try = try_

    def run(self) -> None:
        """Search until nothing helps any more, or time is over."""
        try:
            self._simpler_settings()
            size = None
            while size != (size := self._size()):
                self._fewer_operations()
                while self._first(inside(self.best)):
                    self._fewer_operations()
                while self._first(bypassed(self.best)):
                    pass
                self._fewer_outputs()
                self._cheaper_backend()
                self._rules()
                while self._first(halved(self.best)):
                    pass
            self.whole = True
        except OutOfTime:
            pass

    def _size(self) -> tuple[Any, ...]:
        graph = self.best.graph
        elements = sum(hint(a.numel) for n in graph.everything() for a in n.avals)
        return len(graph), len(graph.inputs), len(graph.outputs), elements

    def _shows(self, candidate: Candidate) -> bool:
        """True if it shows the fault: then it is the best."""
        if not candidate.graph.outputs:
            return False
        found = self._try(candidate)
        if found.fault != self.outcome.fault:
            return False
        self.best, self.outcome = candidate, found
        return True

    def _first(self, candidates: Iterable[Candidate]) -> bool:
        """True if one of them shows the fault."""
        return any(map(self._shows, candidates))

    def _simpler_settings(self) -> None:
        if self.best.writes:
            self._shows(replace(self.best, writes=()))
        if self.best.strides is not None:
            self._shows(replace(self.best, strides=None))

    def _fewer_operations(self) -> None:
        start = self.best
        fewest(start.units, lambda kept: self._shows(keeping(start, kept)))

    def _fewer_outputs(self) -> None:
        start = self.best
        ends = [o for o in start.graph.outputs if o.op is not CHECK]
        fewest(ends, lambda kept: self._shows(only(start, kept)))

    def _cheaper_backend(self) -> None:
        if self.outcome.fault not in STAGES:
            cheaper = ("eager", "python")
            known = cheaper.index(self.best.backend) if self.best.backend in cheaper else 2
            self._first(replace(self.best, backend=each) for each in cheaper[:known])

    def _rules(self) -> None:
        """Inputs of any values; else those that are stored, by a rule of their range."""
        for i, each in enumerate(self.best.given):
            if not each.aval.weak:
                ways = [by_rule(each.aval, None, i)]
                ways += [] if each.rule else [by_rule(each.aval, each.value, i)]
                self._first(self._with(i, way) for way in ways if way.rule != each.rule)

    def _with(self, number: int, given: Given) -> Candidate:
        """The best with another value of an input."""
        rows = self.best.given
        return replace(self.best, given=(*rows[:number], given, *rows[number + 1 :]))


def fewest(items: Sequence[T], shows: Callable[[list[T]], bool]) -> list[T]:
    """A part of `items` that shows a fault, of which none can be left out: halves are tried first,
    then ever smaller stretches, and what is left without one."""
    items, count = list(items), 2
    while len(items) > 1:
        bounds = [len(items) * i // count for i in range(count + 1)]
        stretches = [(a, b) for a, b in pairwise(bounds) if a < b]
        alone = next((items[a:b] for a, b in stretches if shows(items[a:b])), None)
        if alone is not None:
            items, count = alone, 2
            continue
        rests = ((items[:a] + items[b:]) for a, b in stretches if count > 2)
        rest = next((each for each in rests if shows(each)), None)
        if rest is not None:
            items, count = rest, max(count - 1, 2)
        elif count >= len(items):
            break
        else:
            count = min(2 * count, len(items))
    return items
