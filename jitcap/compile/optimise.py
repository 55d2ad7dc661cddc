"""Between capture and lowering: every pass of the table, in order. Graph -> Graph."""

from __future__ import annotations

import difflib
from functools import partial

import codegen
from eager.base.config import config
from jitcap.base.diagnostics import Trail, say
from jitcap.compile.backends import choose_backend
from jitcap.compile.rewrites import rewrites
from jitcap.graph.cut_by_device import places_of
from jitcap.graph.graph import Graph, Node
from jitcap.graph.listing import listing
from jitcap.graph.show import show
from jitcap.graph.verify import verify
from jitcap.passes import PASSES, Settled
from jitcap.passes.repeats import share_repeats


def optimise(graph: Graph, trail: Trail, backend: str | None = None) -> Graph:
    """The graph as it is lowered. Raises ValueError for an unknown backend."""
    trail.keep("graph", lambda: listing(graph), made=graph)
    optimised = graph
    name = choose_backend(places_of(graph), backend)
    shares = name != "eager" and codegen.BACKENDS[name].bodies
    if shares:
        with trail.stage("passes"):
            optimised = share_repeats(graph)
    optimised = run_passes(optimised, trail)
    key = trail.keep("passes", lambda: listing(optimised), made=optimised)
    trail.rewrites[key] = partial(rewrites, graph, shares=shares)
    return optimised


def run_passes(graph: Graph, trail: Trail) -> Graph:
    """Every pass of the table, in order; verified between when `CHECK=1`, as a diff at DEBUG=6."""
    check, show_each, known = config.check, config.debug >= 6, set[Node]()
    settled = Settled()
    if check:
        verify(graph, "capture", known)
    with trail.stage("passes"):
        for each, why in PASSES:
            before = graph
            graph = settled.run(each, graph)
            if check and graph is not before:
                verify(graph, each.__name__, known)
            if show_each and graph is not before:
                say(_diff(before, graph, f"{each.__name__}: {why}"))
    return graph


def _diff(before: Graph, after: Graph, title: str) -> str:
    lines = difflib.unified_diff(
        show(before).splitlines(), show(after).splitlines(), "before", title, lineterm="", n=1
    )
    return "\n".join(lines)
