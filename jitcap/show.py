"""Beside the graph: it prints as Python over eager, and the print captures to the same graph.

`show(graph)` is a module whose function does what the graph does. Two graphs are the same program
exactly when their prints without lines (`show(graph, lines=False)`) are equal, which is how caches
name a graph. `ops.<name>(...)` applies an op of the registry; `numbers.<name>(float, ...)` is
arithmetic on run-time Python numbers; `check(...)` what must be true.
"""

from __future__ import annotations

import keyword
import math
import re
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from codegen import CheckFailed
from eager import dtype as dt
from eager.aval import Aval
from eager.dispatch import apply
from eager.interop import from_numpy
from eager.op import REGISTRY
from eager.sym import SymNumber
from eager.tensor import Tensor
from eager.traced import Traced
from jitcap.graph import AS_NUMBER, CHECK, INPUT, ITEM, Graph, Node
from jitcap.scalars import emit

HEADER: Final = "import eager\nfrom jitcap.show import check, example, numbers, ops\n\n\n"
FOOTER: Final = '\n\nif __name__ == "__main__":\n    print({name}(*example({name})))\n'
_BUILTIN = frozenset(
    {"eager", "check", "ops", "numbers", "example", "float", "int", "bool", "complex"}
)


def show(graph: Graph, *, lines: bool = True) -> str:
    """The graph as one Python function. `lines` adds each value's aval and the user's line."""
    names = name_nodes(graph)
    parameters = [f'{names[i]}: "{i.aval!r}"' for i in graph.inputs]
    name = function_name(graph)
    head = f"def {name}({', '.join(parameters)}):"
    if len(head) > 96:
        head = f"def {name}(\n" + "".join(f"    {p},\n" for p in parameters) + "):"
    body = [_statement(n, names, lines) for n in graph.nodes]
    outputs = ", ".join(names[o] for o in graph.outputs)
    body.append(f"    return ({outputs}{',' if len(graph.outputs) == 1 else ''})")
    return "\n".join([head, *body]) + "\n"


def module(graph: Graph) -> str:
    """A file that runs on its own: the graph on random inputs."""
    return HEADER + show(graph) + FOOTER.format(name=function_name(graph))


def function_name(graph: Graph) -> str:
    """The graph's name as an identifier: the last part of a qualified name."""
    return _identifier(graph.name.rpartition(">")[2].rpartition(".")[2] or "graph")


def name_nodes(graph: Graph) -> dict[Node, str]:
    """A distinct identifier for every node: inputs by their own names, operations by their ops'."""
    taken: dict[str, int] = dict.fromkeys(_BUILTIN, 1)
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


def _statement(n: Node, names: dict[Node, str], lines: bool) -> str:
    args = [names[a] if isinstance(a, Node) else literal(a) for a in n.args]
    text = f"    {names[n]} = {_call(n, args)}"
    if not lines:
        return text
    file = n.where.file.rpartition("/")[2]
    where = f"  {file}:{n.where.line}" if file else ""
    return f"{text}  # {', '.join(map(repr, n.avals))}{where}"


def _call(n: Node, args: list[str]) -> str:
    if n.op is ITEM:
        return f"{args[0]}[{n.attrs['index']}]"
    if n.op is AS_NUMBER:
        return f"{args[0]}.item()"
    if n.op is CHECK:
        return f"check({', '.join(args)}, what={n.attrs['what']!r})"
    if len(n.avals) == 1 and n.avals[0].weak:
        kind = type(np.zeros((), n.avals[0].dtype.np).item()).__name__
        return f"numbers.{n.op.name}({', '.join([kind, *args])})"
    attrs = [f"{k}={literal(v)}" for k, v in n.attrs.items()]
    return f"ops.{n.op.name}({', '.join([*args, *attrs])})"


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


ops: Final = _Ops()
numbers: Final = _Numbers()


def parse_aval(text: str) -> Aval:
    """The aval that prints as `text`: "float32[2, 3]", "float64[]~"."""
    found = re.fullmatch(r"(\w+)\[([\d, ]*)\](~?)", text)
    if found is None:
        raise ValueError(f"not an abstract value: {text!r}")
    dims = tuple(int(d) for d in found[2].split(",") if d.strip())
    return Aval(dims, dt.by_name(found[1]), weak=bool(found[3]))


def example(fn: Callable[..., Any], seed: int = 0) -> list[Any]:
    """Random arguments for a printed graph, by its annotations (numbers for run-time scalars)."""
    rng = np.random.default_rng(seed)
    annotations = fn.__annotations__.values()
    values = [example_array(parse_aval(a), rng) for a in annotations]
    return [from_numpy(v) if isinstance(v, np.ndarray) else v for v in values]


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
    exec(compile(HEADER + text, "<graph>", "exec"), scope)
    fn: Callable[..., Any] = scope[name]
    return fn
