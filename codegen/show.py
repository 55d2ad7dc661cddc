"""Beside every stage: IRs as text. A stage's result -> Python that says the same; made when
somebody asks for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from codegen.fuse.group_nests import Groups
from codegen.fuse.inline import Inlined, Stored
from codegen.ir import affine
from codegen.ir.expr import Expr
from codegen.ir.schema import (
    Access,
    Call,
    Fused,
    Kernel,
    Library,
    Loops,
    Nest,
    Plan,
    Program,
    Step,
    Tiled,
    Value,
)
from codegen.targets.python.expr import OneLine
from codegen.targets.python.kernel import emit_kernel
from codegen.targets.python.program import HEADER
from eager.base.recursion import room


class Texts(Mapping[str, str]):
    """Stage name -> text, printed at the first look."""

    def __init__(self, results: Mapping[str, Any]) -> None:
        self.results = dict(results)
        self.made: dict[str, str] = {}

    def __getitem__(self, name: str) -> str:
        if name not in self.made:
            with room():
                self.made[name] = show(self.results[name])
        return self.made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)


def show(x: Any) -> str:
    rule = RULES.get(type(x))
    if rule is not None:
        return rule(x)
    return x.text if hasattr(x, "text") else repr(x)


def expression(x: Expr) -> str:
    """One expression as Python over buffers and the vocabulary `m`."""
    return OneLine(x).value(x)


def index(i: affine.Affine) -> str:
    return OneLine().index(i)


def _value(v: Any) -> str:
    return f"v{v.id}" if isinstance(v, Value) else repr(v)


def _call(c: Call) -> str:
    attrs = {k: v for k, v in c.attrs.items() if k != "programs"}
    args = [_value(v) for v in c.operands] + [f"{k}={v!r}" for k, v in attrs.items()]
    outs = ", ".join(f"v{v.id}" for v in c.outs)
    kinds = ", ".join(repr(v.aval) for v in c.outs)
    where = f"  {c.where}" if c.where else ""
    bodies = "".join(f"\n{_indented(show(body))}" for body in c.attrs.get("programs", ()))
    return f"{outs} = {c.op.name}({', '.join(args)})  # {kinds}{where}{bodies}"


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())


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


def _nest(n: Nest, body: Expr | None = None) -> str:
    at = ", ".join(index(a) for a in n.axes)
    over = (
        f", {n.monoid.name} over {', '.join(f'{index(k)}<{k.extent}' for k in n.over)}"
        if n.monoid
        else ""
    )
    text = expression(n.body if body is None else body)
    return f"v{n.value.id}[{at}] = {text}  # {n.value.aval!r}{over}"


def _inlined(x: Inlined) -> str:
    return "\n".join(_stored(i) for i in x.items)


def _stored(i: Stored | Step) -> str:
    return "# library\n" + _call(i.call) if isinstance(i, Step) else _nest(i.nest, i.body)


def _groups(x: Groups) -> str:
    """Each group's values, and their bodies."""
    parts = []
    for item in x.items:
        if isinstance(item, Step):
            parts.append(_stored(item))
            continue
        rows = "any" if item.rows is None else item.rows
        members = [f"    {_stored(m.stored)}" for m in item.members]
        parts.append("\n".join([f"# rows: {rows}", *members]))
    return "\n\n".join(parts)


def _library(x: Library) -> str:
    reads = [
        f"{r.buffer}[{r.offset}: {r.shape} strides {r.strides}]"
        if isinstance(r, Access)
        else repr(r)
        for r in x.operands
    ]
    text = f"# {', '.join(x.outs)} = {x.name}({', '.join(reads)})  # {x.where}"
    if x.epilogue is None:
        return text
    return f"{text}\n# on the tiles of {', '.join(x.outs)}:\n{emit_kernel(x.epilogue)}"


def _fused(f: Fused) -> str:
    """A module that defines the kernels."""
    parts = [emit_kernel(i) if isinstance(i, Kernel) else _library(i) for i in f.items]
    parts += [f"# not fused: {r.what} into {r.into}: {r.why}" for r in f.refusals]
    return "\n\n".join([HEADER, *parts])


def _tiled(t: Tiled) -> str:
    lines = []
    for name, s in t.schedules.items():
        lanes = (
            s.row_vector.name if s.row_vector else ", ".join(a.name if a else "-" for a in s.vector)
        )
        lines.append(f"# {name}: lanes along {lanes}{', parallel' if s.parallel else ''}")
    return _fused(t.fused) + "\n\n" + "\n".join(lines)


def _plan(p: Plan) -> str:
    if p.is_symbolic:
        return "\n".join(
            f"{n}: {size} bytes, items {a}..{b}" for n, (a, b, size) in p.blocks.items()
        )
    return "\n".join(
        [f"arena: {p.arena_bytes} bytes", *(f"{n} at {o}" for n, o in p.offsets.items())]
    )


RULES: Final[dict[type, Callable[[Any], str]]] = {
    Program: _program,
    Loops: _loops,
    Inlined: _inlined,
    Groups: _groups,
    Fused: _fused,
    Tiled: _tiled,
    Plan: _plan,
}
