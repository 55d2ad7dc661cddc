"""A graph in which data decide sizes, piece by piece (`jitcap/graph/cut_by_size.py`).

Graph -> Executable.
"""

from __future__ import annotations

import functools
from dataclasses import replace

from codegen import Target
from codegen.runtime.pending import Pending
from eager.base.config import config
from jitcap.base.diagnostics import Trail
from jitcap.compile.executable import Executable
from jitcap.compile.generate import Layout, Writes, generator
from jitcap.graph.cut_by_device import places_of
from jitcap.graph.cut_by_size import Whole, cut
from jitcap.graph.graph import Graph, Node
from jitcap.graph.listing import listing
from jitcap.graph.verify import verify


def in_pieces(
    graph: Graph, writes: Writes, strides: Layout, target: Target, trail: Trail
) -> Pending[Executable]:
    """The graph piece by piece, each compiled for the sizes that those before it find."""
    pieces = cut(graph, writes)
    layout = dict(zip(graph.inputs, strides or [None] * len(graph.inputs), strict=True))
    made: list[Executable | None] = []
    for number, piece in enumerate(pieces.pieces):
        if config.check:
            verify(piece.graph, f"cutting piece {number}")
        if not piece.graph.nodes and not piece.gives:
            made.append(None)
            continue
        trail.keep(f"piece {number}", functools.partial(listing, piece.graph))
        own = [layout.get(x) if isinstance(x, Node) else None for x in piece.takes]
        begin = generator(places_of(piece.graph))
        there = replace(target, prefix=f"{target.prefix}p{number}_")
        made.append(begin(piece.graph, piece.writes, own, there, trail).result())
    parts = [x for x in made if x is not None]
    whole = Executable(
        Whole(pieces, tuple(None if x is None else x.run for x in made), bool(places_of(graph))),
        target.backend,
        tuple(k for x in parts for k in x.kernels),
        callbacks=tuple(pieces.callbacks) + tuple(c for x in parts for c in x.callbacks),
        runs=tuple(r for x in parts for r in x.runs),
    )
    return Pending.of(whole)
