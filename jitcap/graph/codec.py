"""Beside the graph: as data, for every file that has one in it. Graph <-> JSON.

    {"name", "inputs" (how many), "nodes", "outputs" (by number)}
    node: [op, arguments, {name: attribute}, [result, ...], [a `Where`]]
    argument: ["%", number of a node] or a number; result: [shape, dtype, device, weak]

Whoever writes the file says how numbers, sizes and attributes are written and read, in the same
order. Reading runs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from eager.base import dtype as dt
from eager.core.op import REGISTRY, Op
from eager.sizes.aval import Aval
from eager.sizes.symint import SymInt
from jitcap.graph.graph import GRAPH_OPS, INPUT, Graph, Node, Where

_NODE: Final = "%"


def graph_data(graph: Graph, write: Callable[[Any], Any]) -> dict[str, Any]:
    """Data of a graph. Raises ValueError for an op that has no name, and what `write` raises."""
    number = {n: i for i, n in enumerate(graph.everything())}  # also of what nobody reads
    return {
        "name": graph.name,
        "inputs": len(graph.inputs),
        "nodes": [
            [
                _op_name(n.op),
                [[_NODE, number[a]] if isinstance(a, Node) else write(a) for a in n.args],
                {key: write(value) for key, value in n.attrs.items()},
                [[[*map(write, a.shape)], a.dtype.name, a.device, a.weak] for a in n.avals],
                [*n.where],
            ]
            for n in number
        ],
        "outputs": [number[o] for o in graph.outputs],
    }


def graph_of(data: Mapping[str, Any], read: Callable[[Any], Any]) -> Graph:
    """The graph that `data` describes. Raises LookupError, TypeError or ValueError if it describes
    none, and what `read` raises."""
    nodes: list[Node] = []
    for name, args, attrs, avals, where in data["nodes"]:
        given = tuple(nodes[index(a[1])] if _is_node(a) else read(a) for a in args)
        values = {_only(str, key): read(value) for key, value in attrs.items()}
        outs = tuple(_aval(read, *row) for row in avals)
        file, line, *rest = where
        place = Where(_only(str, file), _only(int, line), *(_only(str, text) for text in rest))
        nodes.append(Node(_op(name), given, values, outs, place))
    count = index(data["inputs"])
    if any((n.op is INPUT) != (i < count) for i, n in enumerate(nodes)):
        raise ValueError("inputs that are none")
    outputs = tuple(nodes[index(i)] for i in data["outputs"])
    return Graph(tuple(nodes[:count]), tuple(nodes[count:]), outputs, _only(str, data["name"]))


def _op_name(op: Op) -> str:
    if op is not (GRAPH_OPS.get(op.name) or REGISTRY.get(op.name)):
        raise ValueError(f"the op {op.name}, which is not found by its name")
    return op.name


def _op(name: Any) -> Op:
    return GRAPH_OPS.get(name) or REGISTRY[name]


def _is_node(data: Any) -> bool:
    return type(data) is list and data[0] == _NODE


def _aval(read: Callable[[Any], Any], shape: Any, dtype: Any, device: Any, weak: Any) -> Aval:
    sizes = tuple(map(read, shape))
    if not all(type(n) is int or isinstance(n, SymInt) for n in sizes):
        raise ValueError("no shape")
    return Aval(sizes, dt.by_name(dtype), _only(str, device), _only(bool, weak))


def index(value: Any) -> int:
    """`value` itself. Raises ValueError if it is no place in a list."""
    if type(value) is not int or value < 0:
        raise ValueError("no index")
    return value


def _only(kind: type, value: Any) -> Any:
    if type(value) is not kind:
        raise ValueError(f"no {kind.__name__}")
    return value
