"""Capture: what finds a size inside an arm or a step is done ahead of it. values of the part that
is recorded -> values of the whole graph.

Data decide a size between two pieces of compiled code, so what finds it lies in no part. What it is
made of is moved in front where that is cheap, and cannot fail, in a run that goes the other way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from jitcap.base.walks import reach
from jitcap.graph.graph import INPUT, Node

_CHEAP: Final = frozenset({"pointwise", "cast", "reduce", "view", "move", "copy", "create", "scan"})


def move_ahead(tracer: Any, values: Iterable[Any]) -> bool:
    """Take what the values are made of out of the parts that are recorded now, if it may be."""
    lists = [tracer.nodes, *_around(tracer)]
    inner = {n for nodes in lists[:-1] for n in nodes}
    taken, given = tracer.outlines.inside, set(tracer.inputs)
    own, wanted = [], [v for v in values if isinstance(v, Node)]
    for n in reach(wanted, lambda n: n.parents if n in inner else ()):
        if n in taken or (n.op is INPUT and n not in given):
            return False  # of another part, or of one step
        if n in inner:
            if n.op.kind not in _CHEAP or n.op.raises:
                return False
            own.append(n)
    moved = set(own)
    for nodes in reversed(lists[:-1]):  # from the outside in, each in its order
        lists[-1].extend(n for n in nodes if n in moved)
        nodes[:] = [n for n in nodes if n not in moved]
    return True


@contextmanager
def ahead(tracer: Any) -> Iterator[None]:
    """Context in which nodes are emitted in front of the parts that are recorded."""
    before = tracer.nodes, tracer.inside
    tracer.nodes, tracer.inside = [tracer.nodes, *_around(tracer)][-1], None
    try:
        yield
    finally:
        tracer.nodes, tracer.inside = before


def _around(tracer: Any) -> Iterator[list[Node]]:
    part = tracer.inside
    while part is not None:
        yield part.around
        part = part.outer
