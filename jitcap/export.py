"""Beside the pipeline: a program as a file. function, example arguments -> Exported -> file.

The file is a NumPy archive: the graph as JSON (op names, arguments, attributes), and the tensors
the program refers to. Loading executes nothing from the file, and needs neither the function nor
its modules.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from eager import dtype as dt
from eager.attributes import decode as decode_value
from eager.attributes import encode as encode_value
from eager.aval import Aval
from eager.op import REGISTRY
from eager.tensor import Tensor, wrap
from jitcap.graph import GRAPH_OPS, INPUT, Graph, Node, Where, placeholder
from jitcap.pipeline import compile_graph
from jitcap.show import show
from jitcap.subgraphs import subgraphs
from jitcap.tracer import trace

FORMAT: Final = "jitcap-export-1"


class Exported:
    """A function of tensors, fixed at the shapes and dtypes it was exported with.

    Calling it takes tensors only and gives a tuple of tensors (one tensor if there is one).
    """

    def __init__(self, graph: Graph, constants: Sequence[Any], single: bool) -> None:
        self.graph = graph
        self.constants = tuple(constants)
        self._single = single
        self._run: Callable[[list[Any]], list[Any]] | None = None

    def __call__(self, *args: Tensor) -> Any:
        """Run on `args`. Raises TypeError if their number, shapes or dtypes are not as exported."""
        expected = self.graph.inputs[: len(self.graph.inputs) - len(self.constants)]
        got = tuple(a.aval if isinstance(a, Tensor) else type(a).__name__ for a in args)
        if got != tuple(n.aval for n in expected):
            raise TypeError(f"exported for {[n.aval for n in expected]}, called with {list(got)}")
        if self._run is None:
            self._run = compile_graph(self.graph).run
        arrays = [np.ascontiguousarray(a._array) for a in args]
        outs: list[Tensor] = [wrap(np.asarray(a)) for a in self._run([*arrays, *self.constants])]
        return outs[0] if self._single else tuple(outs)

    def save(self, path: str | Path) -> None:
        """Write the program to `path` (any suffix). Raises OSError."""
        arrays = {f"c{i}": _bytes(c) for i, c in enumerate(self.constants)}
        text = json.dumps({**encode(self.graph), "single": self._single})
        with Path(path).open("wb") as file:
            np.savez(file, allow_pickle=False, graph=np.array(text), **arrays)

    def __str__(self) -> str:
        return show(self.graph)


def export(fn: Callable[..., Any], args: Sequence[Tensor]) -> Exported:
    """The program that `fn(*args)` is, for tensors like `args`: a tensor or tuple of tensors.

    Tensors that `fn` refers to (parameters, say) are copied. Python control flow is fixed as taken.
    Raises TypeError if `args` is no tuple or list, ValueError if `fn` writes its arguments,
    DataDependent if it asks for a tensor's value.
    """
    if not isinstance(args, tuple | list):
        kind = type(args).__name__
        raise TypeError(f"export: args is a tuple of tensors, as in export(fn, (x,)); got a {kind}")
    found = trace(fn, *args, name="exported")
    if found.writes:
        raise ValueError("export: the function writes its arguments in place; export a pure one")
    constants = [np.ascontiguousarray(c._array).copy() for c in found.constants]
    return Exported(found.graph, constants, found.results == 1)


def load(path: str | Path) -> Exported:
    """An exported program from a file. Raises ValueError if it is not one."""
    with np.load(path, allow_pickle=False) as data:
        try:
            head = json.loads(str(data["graph"]))
            graph = decode(head)
            avals = [n.aval for n in graph.inputs]
            stored = [data[f"c{i}"] for i in range(len(data.files) - 1)]
        except (KeyError, ValueError, TypeError) as error:
            raise ValueError(f"{path} is not an exported program: {error}") from error
    tail = avals[len(avals) - len(stored) :]
    constants = [_array(raw, aval) for raw, aval in zip(stored, tail, strict=True)]
    return Exported(graph, constants, bool(head["single"]))


def _bytes(array: Any) -> Any:
    """Raw bytes: NumPy's file format does not know every element type of ours."""
    return np.frombuffer(array.tobytes(), np.uint8)


def _array(raw: Any, aval: Aval) -> Any:
    return np.frombuffer(raw.tobytes(), aval.dtype.np).reshape(aval.shape).copy()


def encode(graph: Graph) -> dict[str, Any]:
    """A graph as JSON values; `decode` undoes it."""
    number = {n: i for i, n in enumerate(graph.everything())}
    return {
        "format": FORMAT,
        "name": graph.name,
        "nodes": [_encode_node(n, number) for n in graph.everything()],
        "inputs": len(graph.inputs),
        "outputs": [number[o] for o in graph.outputs],
    }


def _encode_node(n: Node, number: dict[Node, int]) -> list[Any]:
    args = [["%", number[a]] if isinstance(a, Node) else encode_value(a) for a in n.args]
    attrs = {k: encode_value(v) for k, v in n.attrs.items() if k != "graphs"}
    if subgraphs(n):
        attrs["graphs"] = [encode(g) for g in subgraphs(n)]
    avals = [[list(a.shape), a.dtype.name, a.device, a.weak] for a in n.avals]
    return [n.op.name, args, attrs, avals, [n.where.file, n.where.line, n.where.function]]


def decode(data: dict[str, Any]) -> Graph:
    """The graph that `encode` wrote. Raises ValueError for another format or an unknown op."""
    if data.get("format") != FORMAT:
        raise ValueError(f"format {data.get('format')!r}, expected {FORMAT!r}")
    nodes: list[Node] = []
    for name, args, attrs, avals, where in data["nodes"]:
        op = GRAPH_OPS.get(name) or REGISTRY.get(name)
        if op is None:
            raise ValueError(f"there is no op named {name!r}")
        given = tuple(
            nodes[a[1]] if isinstance(a, list) and a[0] == "%" else decode_value(a) for a in args
        )
        outs = tuple(Aval(tuple(s), dt.by_name(d), v, w) for s, d, v, w in avals)
        inner = tuple(map(decode, attrs.pop("graphs", ())))
        decoded = {k: decode_value(v) for k, v in attrs.items()} | (
            {"graphs": inner} if inner else {}
        )
        if op is INPUT:
            nodes.append(placeholder(decoded["name"], outs[0]))
        else:
            nodes.append(Node(op, given, decoded, outs, Where(*where)))
    first = data["inputs"]
    outputs = tuple(nodes[i] for i in data["outputs"])
    return Graph(tuple(nodes[:first]), tuple(nodes[first:]), outputs, data["name"])
