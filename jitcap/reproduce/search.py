"""Reproducing: which of the suspects shows the fault alone, and its smallest form. -> Found."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from eager.base.dataclass import dataclass
from eager.sizes.substitute import symbols_in
from jitcap.compile.suspect import Suspect, SuspectCall
from jitcap.graph.graph import CHECK, Graph, Node, aval_at, sizes_of
from jitcap.reproduce.fault import INVALID, Outcome
from jitcap.reproduce.inputs import as_it_is, by_rule
from jitcap.reproduce.reduce import Reduction, fewest
from jitcap.reproduce.shrink import Candidate, refilled, settled
from jitcap.reproduce.source import Program, Statements, needed
from jitcap.reproduce.text import call_text, graph_text
from jitcap.reproduce.trials import OutOfTime, Trials

NOT_ALONE = "it does not show in a process of its own"


@dataclass(frozen=True, slots=True)
class Found:
    """A fault that shows alone: the file's `text`, what is `left` of how much, in `seconds` and so
    many `trials`; `whole` is False where time was over before the end of the search."""

    text: str
    outcome: Outcome
    where: str
    label: str
    left: str
    seconds: float
    trials: int
    whole: bool

    def summary(self) -> str:
        """One line: how far it is reduced, and what that took."""
        ended = "" if self.whole else ", when the time was over (JITCAP_REPRODUCE)"
        return f"{self.left}, in {self.seconds:.0f} s by {self.trials} trials{ended}"


def search(suspects: Sequence[Suspect | SuspectCall], seconds: float) -> Found:
    """The first suspect that shows a fault, reduced. Raises ValueError, which says why, where none
    does, and OutOfTime."""
    start, reasons = time.monotonic(), []
    with Trials(seconds) as trials:
        for suspect in suspects:
            try:
                if isinstance(suspect, SuspectCall):
                    return _call(suspect, trials, start)
                return _graph(suspect, trials, start)
            except ValueError as error:
                reasons.append(str(error))
    raise ValueError("; ".join(reasons))


# ---- graphs


def _graph(suspect: Suspect, trials: Trials, start: float) -> Found:
    """Raises ValueError for a graph that shows nothing alone."""
    why = ""
    for candidate, whole in _candidates(suspect):
        try_ = partial(_tried, trials, suspect.shows)
        outcome = try_(candidate)
        if outcome.fault in ("", INVALID):
            why = why or f" ({outcome.text})" * bool(outcome.text)
            continue
        reduction = Reduction(candidate, outcome, try_)
        reduction.run()
        return _reduced(reduction, whole, trials, start)
    raise ValueError(f"{NOT_ALONE}, from the graph and its inputs{why}")


def _tried(trials: Trials, shows: str, candidate: Candidate) -> Outcome:
    return trials(graph_text(candidate, shows, folder=trials.folder))


def _reduced(reduction: Reduction, whole: int, trials: Trials, start: float) -> Found:
    best, fault, seconds = reduction.best, reduction.outcome.fault, time.monotonic() - start
    outcome = trials.staged(graph_text(best, fault, folder=trials.folder))
    nodes = [n for n in best.graph.nodes if n.op is not CHECK]
    where = ", ".join(_lines(best.graph)) or "no line of the program's"
    left = f"{len(best.units)} of {whole} operations"
    label = nodes[-1].op.name if nodes else "graph"
    text = graph_text(best, fault)
    return Found(text, outcome, where, label, left, seconds, trials.count, reduction.whole)


def _candidates(suspect: Suspect) -> Iterator[tuple[Candidate, int]]:
    """The suspect with inputs by rule, and with its own; sizes fixed first, where some are symbols.
    Raises ValueError for a graph that is none of one process and the host."""
    graph = suspect.graph
    if any(a.device != "cpu" for n in graph.everything() for a in n.avals):
        raise ValueError("the graph lives on a device")
    if any(n.op.ordered for n in graph.nodes):
        raise ValueError("the graph speaks with other processes")
    strides = None if suspect.strides is None else tuple(suspect.strides)
    values = _values(suspect)
    sizes = sizes_of(graph, dict(zip(graph.inputs, values, strict=True)))
    given = tuple(map(as_it_is, (aval_at(n.aval, sizes) for n in graph.inputs), values))
    own = Candidate(graph, given, suspect.backend, as_it_is, tuple(suspect.writes), strides)
    for candidate in [settled(own), own] if graph.has_symbols else [own]:
        if candidate.graph.has_data_sizes:
            continue  # which a printed graph alone cannot be asked for
        yield refilled(candidate, by_rule), len(own.units)
        if suspect.values is not None:
            yield candidate, len(own.units)


def _values(suspect: Suspect) -> list[Any]:
    """The values of a graph's inputs, None where they are not known; of symbols those with which it
    was captured."""
    if suspect.values is not None:
        return [x.item() if isinstance(x, np.generic) else x for x in suspect.values]
    graph = suspect.graph
    sizes = symbols_in((n.attrs, *(a.shape for a in n.avals)) for n in graph.everything())
    hints = {symbol.name: symbol.hint for symbol in sizes}
    return [hints.get(n.attrs.get("symbol", "")) for n in graph.inputs]


def _lines(graph: Graph) -> list[str]:
    """The program's lines that the operations come from."""
    nodes = [n for n in graph.nodes if n.op is not CHECK and n.where.file]
    return [*dict.fromkeys(f"{n.op.name} at {_short(n)}" for n in nodes)][:4]


def _short(node: Node) -> str:
    return f"{Path(node.where.file).name}:{node.where.line}"


# ---- calls


def _call(suspect: SuspectCall, trials: Trials, start: float) -> Found:
    """Raises ValueError for a call of which there is no text, or that shows nothing alone."""
    program = Program(suspect.before)
    fn = program.text(suspect.fn)
    args, kwargs = program.text(tuple(suspect.args)), program.text(dict(suspect.kwargs))
    whole = Statements(program.lines)

    def text(lines: Sequence[str], shows: str) -> str:
        used = needed(lines, f"{fn}, {args}, {kwargs}")
        return call_text(program.imports, used, fn, (args, kwargs), shows, suspect.backend)

    outcome = trials(text(program.lines, ""))
    if outcome.fault in ("", INVALID):
        why = f" ({outcome.text})" * bool(outcome.text)
        raise ValueError(f"{NOT_ALONE}, from the function and its arguments{why}")
    best = whole.all

    def shows(kept: list[tuple[int, int]]) -> bool:
        nonlocal best
        there = trials(text(whole.keeping(kept), "")).fault == outcome.fault
        best = kept if there else best
        return there

    ended = True
    try:
        fewest(whole.all, shows)
    except OutOfTime:
        ended = False
    seconds, lines = time.monotonic() - start, whole.keeping(best)
    outcome = trials.staged(text(lines, outcome.fault))
    left = f"{len(best)} of {len(whole.all)} statements"
    made, where = text(lines, outcome.fault), re.sub(r"\S*/", "", suspect.place)
    return Found(made, outcome, where, "call", left, seconds, trials.count, ended)
