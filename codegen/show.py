"""Beside every stage: IRs as text. A stage's result -> Python that says the same; made when
somebody asks for it."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
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
    Schedule,
    Step,
    Tiled,
    Value,
)
from codegen.ir.sizes import is_contiguous
from codegen.targets.python.expr import OneLine
from codegen.targets.python.kernel import body, buffers
from codegen.targets.python.program import HEADER
from eager.base.fold_text import Fixed, fold_text
from eager.base.process.recursion import room

WIDE: Final = 8  # results in one line
_WORD: Final = re.compile(r"(?<![.\w])[A-Za-z_]\w*")


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


def _at(where: str) -> str:
    """The end of a line that says where in the user's program it comes from."""
    return f"  {where.rpartition('/')[2]}" if where else ""


class _Bodies:
    """Names of the programs in steps, which many steps may share, by first use."""

    def __init__(self) -> None:
        self.names: dict[int, str] = {}

    def name(self, body: Any) -> str:
        return self.names.setdefault(id(body), f"body{len(self.names)}")

    def keyword(self, bodies: Sequence[Any]) -> list[str]:
        """The argument of a step that has these."""
        names = ", ".join(map(self.name, bodies))
        if len(bodies) > 1:
            return [f"bodies=({names})"]
        return [f"body={names}"] if bodies else []

    def new(self, bodies: Iterable[Any]) -> list[tuple[str, Any]]:
        """Those that have no name yet, with their new names."""
        return [(self.name(x), x) for x in bodies if id(x) not in self.names]


def _call(c: Call, bodies: _Bodies) -> str:
    attrs = {k: v for k, v in c.attrs.items() if k != "programs"}
    args = [_value(v) for v in c.operands] + [f"{k}={v!r}" for k, v in attrs.items()]
    args += bodies.keyword(c.attrs.get("programs", ()))
    outs = ", ".join(f"v{v.id}" for v in c.outs)
    kinds = ", ".join(repr(v.aval) for v in c.outs)
    if len(c.outs) >= WIDE and c.attrs.get("programs"):  # of types that the body says
        kinds = f"{len(c.outs)} values"
    return f"{outs} = {c.op.name}({', '.join(args)})  # {kinds}{_at(c.where)}"


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" if line else line for line in text.splitlines())


def _folded(lines: Iterable[str]) -> str:
    return fold_text([*lines], slices=True).text


def _program(p: Program) -> str:
    return _folded(_program_lines(p, _Bodies()))


def _program_lines(p: Program, bodies: _Bodies) -> Iterator[str]:
    """Each program inside stands, as a function, before its first call."""
    for v in p.inputs:
        strides = f"  # strides {v.strides}" if v.strides is not None else ""
        yield f"v{v.id}: {v.aval!r}{strides}"
    for c in p.calls:
        for name, program in bodies.new(c.attrs.get("programs", ())):
            inside = _indented(_folded(_program_lines(program, bodies)))
            given = ", ".join(f"v{v.id}" for v in program.inputs)
            yield Fixed(f"def {name}({given}):\n{inside}")
        yield _call(c, bodies)
    for check in p.checks:
        what, _, place = check.where.rpartition("|")
        yield f"check(v{check.value.id})  # {what}{_at(place)}"
    for t, v in p.writes:
        yield f"v{t.id}[...] = v{v.id}"
    yield from _results([f"v{v.id}" for v in p.outputs])


def _results(names: Sequence[str]) -> list[str]:
    """The end of a function; of many results each in a line, which may be in a loop."""
    if len(names) <= WIDE:
        return [f"return {', '.join(names)}"] if names else []
    return [f"yield {name}" for name in names]


def _loops(x: Loops) -> str:
    bodies = _Bodies()
    return _folded(_nest(i) if isinstance(i, Nest) else _step(i, bodies) for i in x.items)


def _step(step: Step, bodies: _Bodies) -> str:
    return _call(step.call, bodies)


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
    bodies = _Bodies()
    return _folded(_stored(i, bodies) for i in x.items)


def _stored(i: Stored | Step, bodies: _Bodies) -> str:
    return _step(i, bodies) if isinstance(i, Step) else _nest(i.nest, i.body)


def _groups(x: Groups) -> str:
    """Each group's values, and their bodies."""
    parts, bodies = [], _Bodies()
    for item in x.items:
        if isinstance(item, Step):
            parts.append(_step(item, bodies))
            continue
        rows = "any" if item.rows is None else item.rows
        members = [f"    {_nest(m.stored.nest, m.stored.body)}" for m in item.members]
        parts.append("\n".join([f"# rows: {rows}", *members]))
    return _folded(parts)


class Kernels:
    """Kernels as functions of flat arrays: those that are equal up to their buffers are one, by the
    name of the first. `remarks`: what more is said of each."""

    def __init__(self, remarks: Mapping[str, str] = MappingProxyType({})) -> None:
        self.remarks = remarks
        self.names: dict[str, str] = {}  # by the text without names
        self.texts: list[str] = []

    def call(self, k: Kernel) -> str:
        """The call of a kernel, which is printed if none is equal to it."""
        text = "\n".join(map(str, body(k)))
        given = buffers(k)
        words = dict.fromkeys(_WORD.findall(text))
        arguments = [word for word in words if word in given]
        own = {r.name for stage in k.stages for r in stage.reductions} | {b.name for b in k.locals}
        short = {word: f"p{i}" for i, word in enumerate(arguments)}
        short |= {word: f"a{i}" for i, word in enumerate(x for x in words if x in own)}
        remark = self.remarks.get(k.name, "")
        key = remark + _WORD.sub(lambda found: short.get(found[0], found[0]), text)
        name = self.names.setdefault(key, k.name)
        if name == k.name:
            head = f"def {k.name}({', '.join(arguments)}):  # {k.note}{_at(k.where)}".rstrip()
            self.texts.append(
                "\n".join([head, *([f"    {remark}"] * bool(remark)), _indented(text)])
            )
        return f"{name}({', '.join(arguments)})"


def _library(x: Library, bodies: _Bodies) -> str:
    reads = [*map(_operand, x.operands)]
    reads += bodies.keyword(x.bodies or x.attrs.get("programs", ()))
    return f"{', '.join(x.outs)} = {x.name}({', '.join(reads)})"


def _operand(r: Any) -> str:
    """An operand of a step: a buffer, a view of one, or a number."""
    if not isinstance(r, Access):
        return str(r)
    if not r.offset and is_contiguous(r.shape, r.strides):
        return r.buffer if len(r.shape) < 2 else f"{r.buffer}.view{r.shape}"
    offset = f", offset={r.offset}" if r.offset else ""
    return f"{r.buffer}.strided({r.shape}, {r.strides}{offset})"


def _fused(f: Fused, remarks: Mapping[str, str] = MappingProxyType({})) -> str:
    """A module that defines the kernels, and `run`, which says in which order they run."""
    kernels, bodies = Kernels(remarks), _Bodies()
    parts = [*_order(f, kernels, bodies, "run()")]
    return "\n\n".join([HEADER, *kernels.texts, *parts, *_refusals(f)])


def _order(f: Fused, kernels: Kernels, bodies: _Bodies, head: str) -> Iterator[str]:
    """The functions of the bodies, then that of the program, with this head."""
    lines: list[str] = []
    for item in f.items:
        if isinstance(item, Kernel):
            lines.append(f"    {kernels.call(item)}")
            continue
        for inner, made in bodies.new(item.bodies):
            last = _last(made)
            given = ", ".join(f"v{v.id}" for v in last.program.inputs)
            yield from _order(last, kernels, bodies, f"{inner}({given})")
        kinds = "  " + ", ".join(map(repr, item.out_avals)) if len(item.outs) < WIDE else ""
        lines.append(f"    {_library(item, bodies)}  #{(kinds + _at(item.where))[1:]}")
        if item.epilogue is not None:
            lines.append(
                f"    {kernels.call(item.epilogue)}  # on the tiles of {', '.join(item.outs)}"
            )
    lines += [f"    {line}" for line in _results([x.buffer for x in f.outputs])]
    yield f"def {head}:\n{_folded(lines or ['    pass'])}"


def _last(results: Mapping[str, Any]) -> Fused:
    """A body's kernels, as its own last stage has them."""
    return next(
        x.fused if isinstance(x, Tiled) else x
        for x in reversed([*results.values()])
        if isinstance(x, Fused | Tiled)
    )


def _refusals(f: Fused) -> Iterator[str]:
    """Why values are apart, those for one reason together."""
    pairs: dict[str, list[str]] = {}
    for r in f.refusals:
        pairs.setdefault(r.why, []).append(f"{r.what} into {r.into}")
    for why, those in pairs.items():
        rows = (f"#   {row}" for row in textwrap.wrap(", ".join(those), 94))
        yield "\n".join([f"# not fused: {why}:", *rows])


def _tiled(t: Tiled) -> str:
    return _fused(t.fused, {name: f"# {_schedule(s)}" for name, s in t.schedules.items()})


def _schedule(s: Schedule) -> str:
    lanes = s.row_vector.name if s.row_vector else ", ".join(a.name if a else "-" for a in s.vector)
    return f"lanes along {lanes}{', parallel' if s.parallel else ''}"


def _plan(p: Plan) -> str:
    if p.is_symbolic:
        return _folded(f"{n}: {size} bytes, items {a}..{b}" for n, (a, b, size) in p.blocks.items())
    return _folded(
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
