"""Capture: where the program's generators of random tensors are. draws -> seeds and ordinals.

A draw is a function of its generator's seed and of how many came before it. That is known while the
program is captured, up to where the stream was at the call; what arms of a choice and rounds of a
loop draw may be a number that the graph computes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from eager.core.sym import SymNumber
from eager.random import Generator
from eager.sizes.aval import scalar_aval
from eager.sizes.symint import SymInt
from jitcap.base.breaks import Break
from jitcap.base.origin import Attribute, Origin
from jitcap.graph import scalars
from jitcap.graph.graph import Node, placeholder
from jitcap.graph.subgraphs import Part

DRAWS: Final = "random numbers are drawn in a loop of unknown length"
Place = tuple[Any, Any, Any, Any, Any]  # see `Draws.around`
_UNUSED: Final = (None, None, None, 0, 0)


def operand(number: Any) -> Any:
    """A number as an operand in the graph; of a size its number."""
    number = number.number() if isinstance(number, SymInt) else number
    return number.handle if isinstance(number, SymNumber) else number


def total(tracer: Any, start: Any, count: Any) -> Any:
    """Their sum: a node of the graph, unless both are known."""
    if isinstance(count, SymNumber) or (count and isinstance(start, SymNumber)):
        return SymNumber(
            tracer, int, scalars.emit(tracer, "add", int, operand(start), operand(count))
        )
    return start + count


def beginning(tracer: Any) -> SymNumber:
    """Placeholder for the ordinal of the first draw of a step."""
    return SymNumber(tracer, int, placeholder("ordinal", scalar_aval(0)))


class Draws:
    """The state of one random generator during a capture."""

    def __init__(self, generator: Generator, origin: Origin) -> None:
        self.generator = generator
        self.origin = origin
        self.ordinal = Attribute(origin, "ordinal")  # one place, however often it is told
        self.seed: Any = None  # a run-time number, or the int that the program set
        self.start: Any = None  # of the call, of a step of a loop, or behind a choice
        self.count = 0  # of the draws since `start`
        self.passed: Any = 0  # how many were before it: a number of the graph, after a choice
        self.reseeded = False
        self.outer: Any = None  # inside the body of a loop: where the first step begins
        self.began: Any = None  # and where each step does
        self.places: list[tuple[Any, Any]] = []  # that the program has, and what this was there

    def opened(self, tracer: Any) -> Draws:
        """With the place where the stream is: as if it had been known when the parts of the graph
        began that are recorded now."""
        if self.seed is None:
            seed = self.read(tracer, "seed_value")
            large = self.generator.seed_value >= 1 << 63  # the graph's numbers have a sign
            self.seed = seed - (1 << 64) if large else seed
            self.start = self.read(tracer, "ordinal")
            for before, is_body in tracer.open_parts:
                before[id(self.generator)] = self.around()
                if is_body:
                    self.begin_step(tracer)
        return self

    def now(self) -> tuple[Any, ...]:
        """All that a program can save of a stream."""
        return self.seed, self.reseeded, self.start, self.count, self.passed

    def go_to(self, saved: tuple[Any, ...]) -> None:
        self.seed, self.reseeded, self.start, self.count, self.passed = saved

    def since(self, tracer: Any, place: Place) -> Any:
        """Number of draws since the stream was at `place`."""
        count, passed = place[-2:]
        if self.passed is passed:
            return self.count - count
        now, then = tracer.plus(self.passed, self.count), tracer.plus(passed, count)
        return SymNumber(tracer, int, scalars.emit(tracer, "sub", int, operand(now), operand(then)))

    def skip(self, tracer: Any, number: Any) -> None:
        """Go on behind draws whose number is known when the graph has run."""
        for field in ("start", "passed"):
            reached = tracer.plus(getattr(self, field), self.count)
            setattr(self, field, tracer.plus(reached, number))
        self.count = 0

    def read(self, tracer: Any, name: str) -> Any:
        """A field of the generator, as a run-time number."""
        value = getattr(self.generator, name)
        return tracer.session.number_input(value, Attribute(self.origin, name))

    def begin_step(self, tracer: Any) -> None:
        """The draws of a step are numbered from where it begins."""
        if self.seed is not None:
            self.outer, self.start, self.count = self.start, beginning(tracer), 0
            self.began = self.start

    def around(self) -> Place:
        """State of the stream that a subgraph restores when it ends."""
        return self.outer, self.began, self.start, self.count, self.passed


def drawn_since(tracer: Any, before: Mapping[int, Place]) -> dict[int, Any]:
    """Number of draws of each stream since `before`, for the streams that drew."""
    found = {key: d.since(tracer, before.get(key, _UNUSED)) for key, d in tracer.draws.items()}
    return {key: n for key, n in found.items() if isinstance(n, SymNumber) or n}


@contextmanager
def open_part(tracer: Any, *, is_body: bool = False) -> Iterator[dict[int, Place]]:
    """While a part of the graph is recorded; then each stream is where it was, as given. In a body
    of a loop draws are numbered from where a step begins."""
    before = {key: d.around() for key, d in tracer.draws.items()}
    tracer.open_parts.append((before, is_body))
    try:
        for d in tracer.draws.values():
            if is_body:
                d.begin_step(tracer)
        yield before
    finally:
        tracer.open_parts.pop()
        for key, d in tracer.draws.items():
            if key in before:
                d.outer, d.began, d.start, d.count, d.passed = before[key]
            else:  # it was set to a seed, which is refused
                d.count = 0


def go_on(tracer: Any, known: Mapping[int, Any], found: Iterable[tuple[int, Node]]) -> None:
    """Streams go on behind so many draws, which are known or numbers of the graph."""
    for key, count in known.items():
        tracer.draws[key].count += count
    for key, handle in found:
        tracer.draws[key].skip(tracer, SymNumber(tracer, int, handle))


class Carried(NamedTuple):
    """A stream that rounds of a loop draw from: what stands for its ordinal in a round, what that
    is in the first one, and in the next."""

    key: int
    place: Any
    first: Any
    then: Any


def carried_draws(tracer: Any, part: Part) -> list[Carried]:
    """The streams of a round. Raises Break where it draws as many as a size says."""
    found = []
    for key, place, count in part.more:
        if isinstance(count, SymInt):
            raise Break("effect", DRAWS)
        state = tracer.draws[key]
        first = operand(tracer.plus(state.start, state.count))
        found.append(Carried(key, place, first, tracer.outlines.plus(place, operand(count))))
    return found


def of_arms(parts: Sequence[Part]) -> tuple[dict[int, Any], dict[int, list[Any]]]:
    """Number of draws of the arms of a choice, by stream: those with one number for all arms, and
    those with a list of one number per arm. Raises Break where one of those is a size."""
    counts = {key: [part.more.get(key, 0) for part in parts] for part in parts for key in part.more}
    apart = {key: ns for key, ns in counts.items() if not _is_one(ns)}
    if any(isinstance(n, SymInt) for ns in apart.values() for n in ns):
        raise Break("effect", "the arms of a choice draw differently many random numbers")
    return {key: ns[0] for key, ns in counts.items() if key not in apart}, apart


def _is_one(counts: Sequence[Any]) -> bool:
    """True if all counts are known now and equal."""
    known = not any(isinstance(n, SymNumber) for n in counts)
    return known and all(n == counts[0] for n in counts)
