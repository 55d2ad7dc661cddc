"""Pass: drop what no output depends on (all ops are pure). Graph -> Graph."""

from __future__ import annotations

from jitcap.graph.graph import Graph, needed_by


def dead_code(graph: Graph) -> Graph:
    """Keep the operations that outputs need; inputs stay, they are the calling convention."""
    live = needed_by(graph, graph.outputs)
    if len(live) >= len(graph.nodes) and all(n in live for n in graph.nodes):
        return graph
    return graph.with_(nodes=tuple(n for n in graph.nodes if n in live))
