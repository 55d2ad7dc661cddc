"""Beside the graph: it prints as Python over eager, and the print captures to the same graph.

`show(graph)` is a module whose function does what the graph does. Two graphs are the same program
exactly when their prints without lines (`show(graph, lines=False)`) are equal. `ops.<name>(...)`
applies an op of the registry; `numbers.<name>(float, ...)` is arithmetic on run-time Python
numbers; `check(...)` what must be true. The graphs inside a node are functions inside the function,
which `choice(pick, arms, ...)`, `loop(count, go, (body,), ...)`,
`repeat(carried, sequences, length, reverse, steps, ..., (body,), ...)` and
`call(..., (body,), ...)` call.
"""

from __future__ import annotations

import keyword
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from codegen import CheckFailed
from eager.base import dtype as dt
from eager.construct.interop import from_numpy
from eager.control_flow.cond import handle_of
from eager.core.dispatch import apply
from eager.core.op import REGISTRY
from eager.core.sym import SymNumber
from eager.core.tensor import Tensor, wrap
from eager.core.traced import Traced, fresh
from eager.ops.move import stack
from eager.sizes.aval import Aval
from eager.sizes.substitute import symbols_in
from jitcap.graph.graph import (
    AS_NUMBER,
    BIND,
    CHECK,
    INPUT,
    ITEM,
    MOVE,
    SIZE,
    Graph,
    Node,
    is_definer,
    placeholder,
)
from jitcap.graph.loops import SCAN, split
from jitcap.graph.scalars import emit
from jitcap.graph.subgraphs import CALL, COND, WHILE, SubgraphOp, outline, subgraphs

HEADER: Final = "import eager\nfrom jitcap.graph.show import check, example, numbers, ops\n\n\n"
FLOW: Final = (
    "call, check, choice, example, loop, numbers, ops, repeat"  # imported where nodes hold graphs
)
WIDE: Final = 8  # results of a call whose types stand in the function alone
FOOTER: Final = '\n\nif __name__ == "__main__":\n    print({name}(*example({name}{sizes})))\n'
_BUILTIN = frozenset(
    {
        "eager",
        "call",
        "check",
        "choice",
        "loop",
        "ops",
        "numbers",
        "example",
        "float",
        "int",
        "bool",
        "complex",
        "draw",
        "given",
        "results",
    }
)


def show(graph: Graph, *, lines: bool = True) -> str:
    """The graph as one Python function. `lines` adds each value's aval and the user's line."""
    return "\n".join(function_lines(graph, function_name(graph), lines)) + "\n"


def function_lines(graph: Graph, name: str, lines: bool) -> list[str]:
    """The lines of a graph as a function of this name."""
    names = name_nodes(graph)
    parameters = [f'{names[i]}: "{i.aval!r}"' for i in graph.inputs]
    head = [f"def {name}({', '.join(parameters)}):"]
    if len(head[0]) > 96:
        head = [f"def {name}(", *(f"    {p}," for p in parameters), "):"]
    inner: dict[Graph, str] = {}  # those printed above
    body = [line for n in graph.nodes for line in statement(n, names, inner, lines=lines)]
    outputs = ", ".join(names[o] for o in graph.outputs)
    end = [f"    return ({outputs}{',' if len(graph.outputs) == 1 else ''})"]
    if len(end[0]) > 96:
        end = ["    return (", *(f"        {names[o]}," for o in graph.outputs), "    )"]
    return [*head, *body, *end]


def module(graph: Graph) -> str:
    """A file that runs on its own: the graph on random inputs, of the sizes of now."""
    sizes = "".join(f", {name}={size}" for name, size in symbol_hints(graph).items())
    footer = FOOTER.format(name=function_name(graph), sizes=sizes)
    return header(graph) + show(graph) + footer


def symbol_hints(graph: Graph) -> dict[str, int]:
    """The sizes of now of the symbols in the inputs' shapes, by name."""
    return {s.name: s.hint for s in symbols_in(tuple(n.aval.shape for n in graph.inputs))}


def header(graph: Graph) -> str:
    """Import lines of a printed graph."""
    flow = any(map(subgraphs, graph.nodes))
    return HEADER.replace("check, example, numbers, ops", FLOW) if flow else HEADER


def function_name(graph: Graph) -> str:
    """The graph's name as an identifier: the last part of a qualified name."""
    return _identifier(graph.name.rpartition(">")[2].rpartition(".")[2] or "graph")


def name_nodes(graph: Graph) -> dict[Node, str]:
    """A distinct identifier for every node: inputs by their own names, operations by their ops'."""
    sizes = [str(n.attrs["size"]) for n in graph.nodes if is_definer(n)]
    own = (*sizes, "min", "max") if sizes else ()
    taken: dict[str, int] = dict.fromkeys((*_BUILTIN, *own), 1)
    names: dict[Node, str] = {}
    for n in graph.everything():
        base = _identifier(n.attrs["name"]) if n.op is INPUT else n.op.name
        count = taken.get(base, 0)
        taken[base] = count + 1
        name = f"{base}_{count}" if count else base
        while count and name in taken:
            count += 1
            name = f"{base}_{count}"
        taken.setdefault(name, 1)
        names[n] = name
    return names


def _identifier(name: str) -> str:
    clean = re.sub(r"\W+", "_", name).strip("_") or "x"
    return f"_{clean}" if clean[0].isdigit() or keyword.iskeyword(clean) else clean


def statement(
    n: Node,
    names: dict[Node, str],
    inner: dict[Graph, str],
    *,
    lines: bool = True,
    function: Callable[[Graph, str, bool], list[str]] | None = None,
) -> list[str]:
    """The line of a node, after the functions of the graphs that it is the first to hold: `inner`
    has the names of those that were printed, and `function` prints one."""
    function = function or function_lines
    args = [names[a] if isinstance(a, Node) else literal(a) for a in n.args]
    new = {g: f"{names[n]}_graph_{i}" for i, g in enumerate(subgraphs(n)) if g not in inner}
    inner.update(new)
    functions = [f"    {x}" for graph in new for x in function(graph, new[graph], lines)]
    text = f"    {names[n]} = {_call(n, args, [inner[g] for g in subgraphs(n)])}"
    found = [f"    {_found(n, names[n])}"] if is_definer(n) else []
    if not lines:
        return [*functions, text, *found]
    where = f"  {place.rpartition('/')[2]}" if (place := n.where.place) else ""
    told = ", ".join(map(repr, n.avals))
    if len(n.avals) >= WIDE and subgraphs(n):  # of types that the functions say
        told = f"{len(n.avals)} values"
    return [*functions, f"{text}  # {told}{where}", *found]


def _found(n: Node, name: str) -> str:
    """The statement that defines a size as data decide it."""
    size = n.attrs["size"]
    if n.op is BIND:
        return f"{size} = {name}"
    places = ((i, d) for i, a in enumerate(n.avals) for d, s in enumerate(a.shape) if s is size)
    i, d = next(places)
    return f"{size} = {name}{f'[{i}]' if len(n.avals) > 1 else ''}.shape[{d}]"


def _call(n: Node, args: list[str], inner: list[str]) -> str:
    if isinstance(n.op, SubgraphOp):
        graphs = f"({', '.join(inner)}{',' if len(inner) == 1 else ''})"
        return f"{n.op.keyword(n)}{', '.join([*args[:1], graphs, *args[1:]])})"
    if n.op is ITEM:
        return f"{args[0]}[{n.attrs['index']}]"
    if n.op is AS_NUMBER:
        return f"{args[0]}.item()"
    if n.op is MOVE:
        return f"{args[0]}.to({n.attrs['device']!r})"
    if n.op is CHECK and "size" in n.attrs:
        sign = n.attrs["relation"] if n.attrs["holds"] else _NEGATED[n.attrs["relation"]]
        return f"check({n.attrs['size']} {sign} 0, what={n.attrs['what']!r})"
    if n.op is CHECK:
        return f"check({', '.join(args)}, what={n.attrs['what']!r})"
    if n.op is BIND:
        return args[0]
    if n.op is SIZE:
        return str(n.attrs["size"])
    if len(n.avals) == 1 and n.avals[0].weak:
        kind = type(np.zeros((), n.avals[0].dtype.np).item()).__name__
        return f"numbers.{n.op.name}({', '.join([kind, *args])})"
    attrs = [f"{k}={literal(v)}" for k, v in n.attrs.items() if k != "size" or not is_definer(n)]
    return f"ops.{n.op.name}({', '.join([*args, *attrs])})"


_NEGATED: Final = {"==": "!=", ">=": "<"}


def literal(value: Any) -> str:
    """Python text of a number or attribute."""
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    if isinstance(value, complex) and not isinstance(value, float):
        return f"complex({literal(value.real)}, {literal(value.imag)})"
    if isinstance(value, tuple):
        inner = ", ".join(map(literal, value))
        return f"({inner}{',' if len(value) == 1 else ''})"
    return repr(value)


class _Ops:
    """`ops.name(*operands, **attrs)`: one op through eager's dispatch."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        op = REGISTRY.get(name)
        if op is None:
            raise AttributeError(f"there is no op named {name!r}")
        return lambda *operands, **attrs: apply(op, *operands, **attrs)


class _Numbers:
    """`numbers.name(float, *operands)`: an op on Python numbers, run-time or known."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name not in REGISTRY:
            raise AttributeError(f"there is no op named {name!r}")

        def call(pytype: type, *operands: Any) -> Any:
            for x in operands:
                if isinstance(x, SymNumber):
                    handles = (o.handle if isinstance(o, SymNumber) else o for o in operands)
                    tracer: Any = x.tracer
                    return SymNumber(tracer, pytype, emit(tracer, name, pytype, *handles))
            aval = Aval((), dt.from_numpy(np.asarray(pytype()).dtype), weak=True)
            attrs = {"dtype": aval.dtype} if name == "cast" else {}
            (result,) = REGISTRY[name].compute(operands, attrs, (aval,))
            return pytype(result)

        return call


def check(*conditions: Any, what: str) -> Any:
    """Truths without which a run is given up."""
    for x in conditions:
        if isinstance(x, SymNumber) or (isinstance(x, Tensor) and isinstance(x._array, Traced)):
            tracer: Any = x.tracer if isinstance(x, SymNumber) else x._array.storage.tracer
            handles = (
                c.handle
                if isinstance(c, SymNumber)
                else c._array.read()
                if isinstance(c, Tensor)
                else c
                for c in conditions
            )
            return SymNumber(tracer, bool, tracer.check(what, *handles))
    if not all(map(bool, conditions)):
        raise CheckFailed(what)
    return True


def choice(pick: Any, arms: Sequence[Any], *operands: Any) -> Any:
    """The results of `arms[pick](*operands)`; one alone is no tuple."""
    tracer = _tracer_of(pick, *operands)
    if tracer is None:
        return _single(arms[int(pick)](*operands))
    graphs = tuple(_graph_of(tracer, arm) for arm in arms)
    return _node_of(tracer, COND, (pick, *operands), {"graphs": graphs})


def loop(carried: int, go: Any, bodies: Sequence[Any], *operands: Any) -> Any:
    """The last of the first `carried` operands, when the body says that it is enough."""
    tracer = _tracer_of(go, *operands)
    (body,) = bodies
    if tracer is None:
        first, rest = operands[:carried], operands[carried:]
        while bool(go):
            go, *first = body(*first, *rest)
        return _single(tuple(first))
    attrs = {"graphs": (_graph_of(tracer, body),), "carried": carried}
    return _node_of(tracer, WHILE, (go, *operands), attrs)


def call(*given: Any) -> Any:
    """The results of a body, which stands, in a tuple, behind the first operand."""
    (body,) = next(x for x in given if type(x) is tuple)
    operands = tuple(x for x in given if type(x) is not tuple)
    tracer = _tracer_of(*operands)
    if tracer is None:
        return _single(body(*operands))
    return _node_of(tracer, CALL, operands, {"graphs": (_graph_of(tracer, body),)})


def repeat(
    carried: int, sequences: int, length: int, reverse: bool, steps: tuple[int, ...], *given: Any
) -> Any:
    """A scan: see `jitcap.graph.loops`. The body, in a tuple, stands behind the first operand."""
    (body,) = next(x for x in given if type(x) is tuple)
    operands = tuple(x for x in given if type(x) is not tuple)
    attrs: dict[str, Any] = {
        "carried": carried, "sequences": sequences, "length": length, "reverse": reverse,
        "steps": steps,
    }  # fmt: skip
    tracer = _tracer_of(*operands)
    if tracer is not None:
        graphs = {"graphs": (_graph_of(tracer, body),)}
        return _node_of(tracer, SCAN, operands, {**graphs, **attrs})
    carries, stacks, rest, counters = split(operands, attrs)
    ys: list[Any] = [None] * length
    for i in range(length)[:: -1 if reverse else 1]:
        found = body(*carries, *(s[i] for s in stacks), *rest, *counters)
        carries, ys[i] = found[:carried], found[carried:]
        counters = [c + step for c, step in zip(counters, steps, strict=True)]
    return _single((*carries, *(stack([*each]) for each in zip(*ys, strict=True))))


def _single(values: tuple[Any, ...]) -> Any:
    return values[0] if len(values) == 1 else values


def _tracer_of(*values: Any) -> Any:
    for x in values:
        if isinstance(x, SymNumber):
            return x.tracer
        if isinstance(x, Tensor) and isinstance(x._array, Traced):
            return x._array.storage.tracer
    return None


def _graph_of(tracer: Any, fn: Callable[..., Any]) -> Graph:
    """A printed function as a graph."""
    annotations = fn.__annotations__.items()
    places = [placeholder(name, parse_aval(a)) for name, a in annotations]
    values = [_value(tracer, p) for p in places]
    ends, _ = tracer.part(lambda: [handle_of(tracer, x) for x in fn(*values)])
    graph, _, _ = outline(ends, tracer.outlines.inside, places, fn.__name__)
    return graph


def _value(tracer: Any, handle: Node) -> Any:
    """A node as the tensor or number that it is."""
    aval = handle.aval
    if aval.weak:
        return SymNumber(tracer, type(np.zeros((), aval.dtype.np).item()), handle)
    return wrap(fresh(tracer, handle, aval))


def _node_of(tracer: Any, op: SubgraphOp, operands: tuple[Any, ...], attrs: Any) -> Any:
    avals = op.abstract((), attrs)
    handles = tracer.emit(op, tuple(handle_of(tracer, x) for x in operands), attrs, avals)
    return _single(tuple(_value(tracer, h) for h in handles))


ops: Final = _Ops()
numbers: Final = _Numbers()


def parse_aval(text: str) -> Aval:
    """The aval that prints as `text`: "float32[2, 3]", "float64[]~"."""
    found = re.fullmatch(r"(\w+)\[([\d, ]*)\](~?)", text)
    if found is None:
        raise ValueError(f"not an abstract value: {text!r}")
    dims = tuple(int(d) for d in found[2].split(",") if d.strip())
    return Aval(dims, dt.by_name(found[1]), weak=bool(found[3]))


def parse_sized(text: str, sizes: Mapping[str, Any]) -> Aval:
    """The aval that prints as `text`, with these for the symbols in its shape."""
    found = re.fullmatch(r"(\w+)\[(.*)\](~?)", text)
    if found is None:
        raise ValueError(f"not an abstract value: {text!r}")
    dims = eval(f"({found[2]},)", {}, dict(sizes)) if found[2] else ()
    return Aval(dims, dt.by_name(found[1]), weak=bool(found[3]))


def example(fn: Callable[..., Any], seed: int = 0, **sizes: int) -> list[Any]:
    """Random arguments for a printed graph, by its annotations (numbers for run-time scalars) and
    the `sizes` that its symbols have. Floats are between 0 and 1: roots, powers and logarithms may
    be taken of them."""
    rng = np.random.default_rng(seed)
    values = []
    for name, text in fn.__annotations__.items():
        values.append(sizes[name] if name in sizes else example_of(text, rng, sizes))
    return values


def example_of(text: str, rng: np.random.Generator, sizes: dict[str, int]) -> Any:
    """A random value for an annotation."""
    aval = parse_sized(text, sizes)
    made = example_array(aval, rng)
    value = abs(made) % 1 if aval.dtype.category == dt.FLOAT else made
    return from_numpy(value) if isinstance(value, np.ndarray) else value


def example_array(aval: Aval, rng: np.random.Generator) -> Any:
    """A random array (or, for a weak aval, a Python number) of this aval."""
    if aval.dtype.category == dt.BOOL:
        data: Any = rng.integers(0, 2, aval.shape)
    elif aval.dtype.category == dt.INT:
        data = rng.integers(0, 2, aval.shape)
    else:
        data = rng.standard_normal(aval.shape)
    array = np.asarray(data).astype(aval.dtype.np)
    return array.item() if aval.weak else array


def reload(text: str, name: str = "graph") -> Callable[..., Any]:
    """The function printed by `show`, ready to be called or captured."""
    scope: dict[str, Any] = {}
    whole = HEADER.replace("check, example, numbers, ops", FLOW) + text
    exec(compile(whole, "<graph>", "exec", dont_inherit=True), scope)
    fn: Callable[..., Any] = scope[name]
    return fn
