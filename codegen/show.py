"""Beside every stage: IRs as text. A stage's result -> Python that says the same; made when
somebody asks for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from codegen import affine
from codegen.emit.show_table import INFIX
from codegen.expr import Apply, Cast, Checked, Const, Expr, IndexOf, Load, Local, Read, Select
from codegen.ir import (
    Access,
    Call,
    Fused,
    Kernel,
    Library,
    Loops,
    Nest,
    Plan,
    Program,
    Stage,
    Tiled,
    Value,
)


class Texts(Mapping[str, str]):
    """Stage name -> text, printed at the first look."""

    def __init__(self, results: Mapping[str, Any]) -> None:
        self.results = dict(results)
        self.made: dict[str, str] = {}

    def __getitem__(self, name: str) -> str:
        if name not in self.made:
            self.made[name] = show(self.results[name])
        return self.made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)


def show(x: Any) -> str:
    rule = RULES.get(type(x))
    return rule(x) if rule is not None else getattr(x, "text", repr(x))


def expression(x: Expr) -> str:
    """One expression as Python over buffers and the vocabulary `m`."""
    if isinstance(x, Const):
        return repr(x.value)
    if isinstance(x, Read):
        return f"v{x.value}[{', '.join(map(index, x.index))}]"
    if isinstance(x, Load):
        return f"{x.buffer}[{index(x.offset)}]"
    if isinstance(x, IndexOf):
        return f"({index(x.index)})"
    if isinstance(x, Local):
        return x.name
    if isinstance(x, Cast):
        return f"{x.dtype.name}({expression(x.arg)})"
    if isinstance(x, Select):
        return f"({expression(x.then)} if {expression(x.cond)} else {expression(x.other)})"
    if isinstance(x, Checked):
        return f"checked({expression(x.arg)}, {x.lo}, {x.hi})"
    assert isinstance(x, Apply)
    args = [expression(a) for a in x.args]
    if x.fn in INFIX:
        return f"({args[0]} {INFIX[x.fn]} {args[1]})"
    return f"m.{x.fn}({', '.join(args)})"


def index(i: affine.Affine) -> str:
    return affine.text(i, expression)


def _value(v: Any) -> str:
    return f"v{v.id}" if isinstance(v, Value) else repr(v)


def _call(c: Call) -> str:
    args = [_value(v) for v in c.operands] + [f"{k}={v!r}" for k, v in c.attrs.items()]
    outs = ", ".join(f"v{v.id}" for v in c.outs)
    kinds = ", ".join(repr(v.aval) for v in c.outs)
    where = f"  {c.where}" if c.where else ""
    return f"{outs} = {c.op.name}({', '.join(args)})  # {kinds}{where}"


def _program(p: Program) -> str:
    lines = [f"v{v.id}: {v.aval!r}  # input, strides {v.strides}" for v in p.inputs]
    lines += [_call(c) for c in p.calls]
    lines += [f"check(v{c.value.id})  # {c.where}" for c in p.checks]
    lines += [f"v{t.id}[...] = v{v.id}" for t, v in p.writes]
    return "\n".join([*lines, f"return {', '.join(f'v{v.id}' for v in p.outputs)}"])


def _loops(x: Loops) -> str:
    return "\n".join(
        _nest(i) if isinstance(i, Nest) else "# library\n" + _call(i.call) for i in x.items
    )


def _nest(n: Nest) -> str:
    at = ", ".join(index(a) for a in n.axes)
    over = (
        f", {n.monoid.name} over {', '.join(f'{index(k)}<{k.extent}' for k in n.over)}"
        if n.monoid
        else ""
    )
    return f"v{n.value.id}[{at}] = {expression(n.body)}  # {n.value.aval!r}{over}"


def _stage(s: Stage) -> list[str]:
    lines = [f"{r.name} = IDENTITY['{r.monoid.name}']" for r in s.reductions]
    pad = ""
    for a in s.loops:
        lines.append(f"{pad}for {a.name} in range({a.size}):")
        pad += "    "
    for r in s.reductions:
        lines.append(f"{pad}{r.name} = {r.monoid.name}({r.name}, {expression(r.value)})")
    for st in s.stores:
        lines.append(f"{pad}{st.buffer}[{index(st.offset)}] = {expression(st.value)}")
    return lines


def kernel(k: Kernel) -> str:
    lines = [f"def {k.name}():  # {k.note} {k.where}"]
    pad = "    "
    for a in k.rows:
        lines.append(f"{pad}for {a.name} in range({a.size}):")
        pad += "    "
    lines += [f"{pad}{b.name} = empty({b.size}, {b.dtype.name})" for b in k.locals]
    for s in k.stages:
        lines += [pad + line for line in _stage(s)]
    return "\n".join(lines)


def _library(x: Library) -> str:
    reads = [
        f"{r.buffer}[{r.offset}: {r.shape} strides {r.strides}]"
        if isinstance(r, Access)
        else repr(r)
        for r in x.operands
    ]
    return f"{', '.join(x.outs)} = {x.name}({', '.join(reads)})  # {x.where}"


def _fused(f: Fused) -> str:
    parts = [kernel(i) if isinstance(i, Kernel) else _library(i) for i in f.items]
    parts += [f"# not fused: {r.what} into {r.into}: {r.why}" for r in f.refusals]
    return "\n\n".join(parts)


def _tiled(t: Tiled) -> str:
    lines = []
    for name, s in t.schedules.items():
        lanes = (
            s.row_vector.name if s.row_vector else ", ".join(a.name if a else "-" for a in s.vector)
        )
        lines.append(f"# {name}: lanes along {lanes}{', parallel' if s.parallel else ''}")
    return _fused(t.fused) + "\n\n" + "\n".join(lines)


def _plan(p: Plan) -> str:
    return "\n".join(
        [f"arena: {p.arena_bytes} bytes", *(f"{n} at {o}" for n, o in p.offsets.items())]
    )


RULES: Final[dict[type, Callable[[Any], str]]] = {
    Program: _program,
    Loops: _loops,
    Fused: _fused,
    Tiled: _tiled,
    Plan: _plan,
}
