"""The last graph stage, the one door to codegen: Graph -> codegen's Program of op calls.

Nothing is decided here; nodes become calls, `ITEM` picks an output of its call, `.item()` becomes a
cast whose result is a run-time scalar, outputs that are written back to inputs become writes, and
`CHECK`s the program's checks. The graphs that a node holds become programs that its call holds.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from codegen.ir.schema import Call, Check, Line, Program, Value
from eager.base.recorder import UserLine
from eager.core.op import REGISTRY
from eager.sizes.aval import Aval, contiguous_strides, same
from eager.sizes.substitute import simplify
from jitcap.graph.graph import AS_NUMBER, CHECK, ITEM, Graph, Node, Where
from jitcap.graph.subgraphs import SubgraphOp, subgraphs

Strides = tuple[int, ...]


def lower(
    graph: Graph,
    writes: Sequence[tuple[int, int]] = (),
    strides: Sequence[Strides | None] | None = None,
    *,
    resident: bool = False,
    prefix: str = "",
) -> Program:
    """Graph -> Program.

    `writes` pairs (input index, output index): that output is stored into that input's memory and
    is no output of the program. `strides` are the inputs' (None: contiguous), in elements.
    `resident`: for a device's memory. What is compiled does not depend on which device it is.
    `prefix`: of the names of its kernels.
    """
    values: dict[tuple[Node, int], Value] = {}
    inputs = []
    for i, n in enumerate(graph.inputs):
        given = strides[i] if strides is not None else None
        contiguous = given is None or same(given, contiguous_strides(n.aval.shape))
        symbol = n.attrs.get("symbol", "")
        value = Value(len(values), _anywhere(n.aval), None if contiguous else given, symbol)
        values[n, 0] = value
        inputs.append(value)
    symbolic = any("symbol" in n.attrs for n in graph.inputs)
    bodies: dict[Graph, Program] = {}  # nodes may share theirs
    for n in graph.nodes:
        bodies.update((inner, lower(inner)) for inner in subgraphs(n) if inner not in bodies)
    found = (_lower_node(n, values, symbolic, bodies) for n in graph.nodes)
    calls = [call for call in found if call is not None]
    written = {o for _, o in writes}
    plain = [o for i, o in enumerate(graph.outputs) if i not in written and o.op is not CHECK]
    outs = [values[o, 0] for o in plain]
    stores = [(inputs[i], values[graph.outputs[o], 0]) for i, o in writes]
    checks = [c for o in dict.fromkeys(graph.outputs) if o.op is CHECK for c in _checks(o, values)]
    ends = tuple(outs), tuple(stores), tuple(checks)
    return Program(tuple(inputs), tuple(calls), *ends, resident=resident, prefix=prefix)


def _checks(n: Node, values: dict[tuple[Node, int], Value]) -> Iterator[Check]:
    for a in n.args:
        if a is not True:
            value = values[a, 0] if isinstance(a, Node) else values[n, 0]
            yield Check(value, f"{n.attrs['what']}|{n.where.place}")


def _lower_node(
    n: Node,
    values: dict[tuple[Node, int], Value],
    symbolic: bool,
    bodies: Mapping[Graph, Program],
) -> Call | None:
    """The call of one node; its outputs get values. An ITEM is a name for one of them. `symbolic`:
    there are sizes that are symbols; those with one value left are ints from here on."""
    if n.op is ITEM:
        values[n, 0] = values[n.parents[0], n.attrs["index"]]
        return None
    if n.op is CHECK and all(isinstance(a, Node) or a is True for a in n.args):
        return None
    avals, attrs = tuple(map(_anywhere, n.avals)), n.attrs
    if "device" in attrs:
        attrs = {k: v for k, v in attrs.items() if k != "device"}
    if symbolic:
        avals = tuple(replace(a, shape=simplify(a.shape)) for a in avals)
        attrs = simplify(attrs)
    outs = tuple(Value(len(values) + i, aval) for i, aval in enumerate(avals))
    values.update({(n, i): v for i, v in enumerate(outs)})
    operands = tuple(values[a, 0] if isinstance(a, Node) else a for a in n.args)
    if n.op is CHECK:  # a condition that is known, and false
        return Call(_FULL, (False,), {"shape": (), "dtype": n.aval.dtype}, outs, _line(n.where))
    if n.op is AS_NUMBER:
        return Call(_CAST, operands, {"dtype": n.aval.dtype}, outs, _line(n.where))
    if isinstance(n.op, SubgraphOp):
        attrs = {k: v for k, v in attrs.items() if k != "graphs"}
        attrs["programs"] = tuple(bodies[inner] for inner in subgraphs(n))
    return Call(n.op, operands, attrs, outs, _line(n.where))


@functools.lru_cache(maxsize=4096)
def _line(where: Where) -> Line:
    return Line.of(UserLine(where.place, where.module, where.forward))


def _anywhere(aval: Aval) -> Aval:
    return aval if aval.device == "cpu" else replace(aval, device="cpu")


_CAST: Final = REGISTRY["cast"]
_FULL: Final = REGISTRY["full"]
