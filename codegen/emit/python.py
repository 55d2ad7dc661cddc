"""Fifth stage, reference: fused kernels as executable Python loops over flat arrays. Fused ->
Source (text and a callable).

Slow and exact: the oracle of the other backends. One statement per distinct subexpression, NumPy
scalars for every element type, so that each operation rounds as eager's does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.lib.stride_tricks import as_strided

from codegen import affine, expr
from codegen.emit.show_table import INFIX
from codegen.expr import Apply, Cast, Checked, Const, Expr, IndexOf, Load, Local, Select
from codegen.ir import Access, Buffer, Fused, Kernel, Library, Stage, Store, Value
from codegen.monoid import MONOIDS
from codegen.runtime.artifact import CheckFailed, failure
from codegen.sizes import span
from eager import dtype as dt
from eager.dtype import DType
from eager.ops.philox import scalar_words
from eager.scalar import NUMPY

Array = Any


@dataclass(frozen=True, eq=False, slots=True)
class Source:
    """`text` defines one function per kernel; `run(inputs)` calls them in order."""

    text: str
    run: Callable[[Sequence[Any]], list[Array]]


def emit(fused: Fused) -> Source:
    text = "\n\n".join(_Writer(k).text() for k in fused.kernels())
    functions: dict[str, Any] = dict(RUNTIME)
    exec(compile(text, "<codegen python>", "exec"), functions)
    return Source(text, _Runner(fused, functions))


# ---------------------------------------------------------------------------------- text


class _Writer:
    """One kernel. `lines` is the innermost open block; `names` the expressions that have a name
    there."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.count = 0

    def text(self) -> str:
        k = self.kernel
        lines = [f"def {k.name}(B):  # {k.note} {k.where}".rstrip()]
        pad = "    "
        buffers = {*k.reads(), *k.writes()} - {b.name for b in k.locals}
        lines += [f"{pad}{name} = B['{name}']" for name in sorted(buffers)]
        for a in k.rows:
            lines.append(f"{pad}for {a.name} in range({a.size}):")
            pad += "    "
        lines += [f"{pad}{b.name} = empty({b.size}, {b.dtype.name})" for b in k.locals]
        for stage in k.stages:
            lines += [pad + line for line in self.stage(stage)]
        return "\n".join([*lines, f"{pad}pass"])

    def stage(self, stage: Stage) -> list[str]:
        lines = []
        for r in stage.reductions:
            start = f"identity('{r.monoid.name}', {r.value.dtype.name})"
            lines.append(
                f"{r.name} = ({start}, None)" if r.position is not None else f"{r.name} = {start}"
            )
        pad = ""
        for a in stage.loops:
            lines.append(f"{pad}for {a.name} in range({a.size}):")
            pad += "    "
        block = _Block(self)
        for r in stage.reductions:
            at = f", {block.index(r.position)}" if r.position is not None else ""
            step = f"{r.monoid.name}_step({r.name}, {block.value(r.value)}{at})"
            block.lines.append(f"{r.name} = {step}")
        block.lines += [block.store(s) for s in stage.stores]  # after all values: see `overwrites`
        lines += [pad + line for line in block.lines]
        lines += [
            f"{r.name} = int64({r.name}[1])" for r in stage.reductions if r.position is not None
        ]
        return lines


class _Block:
    """Statements at one loop level. Inside the branch of a Select names are bound by `:=` and end
    with the branch."""

    def __init__(self, writer: _Writer) -> None:
        self.writer = writer
        self.lines: list[str] = []
        self.names: dict[Expr, str] = {}
        self.branch: list[dict[Expr, str]] = []

    def value(self, x: Expr) -> str:
        """The text of `x`: a name, a literal, or inside a branch an assignment expression."""
        if isinstance(x, Const):
            return f"{x.dtype.name}({_literal(x)})"
        if isinstance(x, Local):
            return x.name
        for names in (self.names, *self.branch):
            if x in names:
                return names[x]
        text = _TEXT[type(x)](self, x)
        self.writer.count += 1
        name = f"x{self.writer.count}"
        if self.branch:
            self.branch[-1][x] = name
            return f"({name} := {text})"
        self.names[x] = name
        self.lines.append(f"{name} = {text}")
        return name

    def lazily(self, x: Expr) -> str:
        self.branch.append({})
        text = self.value(x)
        self.branch.pop()
        return text

    def index(self, i: affine.Affine) -> str:
        return affine.text(i, lambda x: f"int({self.value(x)})")

    def store(self, s: Store) -> str:
        target = f"{s.buffer}[{self.index(s.offset)}]"
        value = self.value(s.value)
        return (
            f"{target} = {value}"
            if s.monoid is None
            else f"{target} = {s.monoid.name}_step({target}, {value})"
        )


def _literal(x: Const) -> str:
    if isinstance(x.value, float) and not math.isfinite(x.value):
        return f"float('{x.value}')"
    return repr(x.value)


def _apply(b: _Block, x: Apply) -> str:
    if x.fn == "where" and b.branch:  # what one arm names, the other lacks
        cond = b.value(x.args[0])
        return f"({b.lazily(x.args[1])} if {cond} else {b.lazily(x.args[2])})"
    args = [b.value(a) for a in x.args]
    if x.fn in expr.CODEGEN:
        return f"{x.fn}({', '.join(args)}, {x.dtype.name})"
    if x.fn == "where":
        return f"({args[1]} if {args[0]} else {args[2]})"
    if x.fn in INFIX:
        return f"{args[0]} {INFIX[x.fn]} {args[1]}"
    return f"m.{x.fn}({', '.join(args)})"


def _select(b: _Block, x: Select) -> str:
    cond = b.value(x.cond)
    return f"({b.lazily(x.then)} if {cond} else {b.lazily(x.other)})"


_TEXT: Final[dict[type[Expr], Callable[[_Block, Any], str]]] = {
    Apply: _apply,
    Select: _select,
    Cast: lambda b, x: f"cast({b.value(x.arg)}, {x.dtype.name})",
    Checked: lambda b, x: f"checked({b.value(x.arg)}, {x.lo}, {x.hi}, {x.where!r})",
    IndexOf: lambda b, x: f"{x.dtype.name}({b.index(x.index)})",
    Load: lambda b, x: f"{x.buffer}[{b.index(x.offset)}]",
}


# ---------------------------------------------------------------------------------- what the text
# calls


def _arg_step(better: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def step(state: tuple[Any, int | None], x: Any, at: int) -> tuple[Any, int | None]:
        best, where = state
        if where is None or (best == best and (better(x, best) or x != x)):  # NaN
            return x, at
        return state

    return step


def _cast(x: Any, dtype: DType) -> Any:
    return np.asarray(x).astype(dtype.np)[()]


def _checked(x: Any, lo: int, hi: int, where: str) -> Any:
    if not lo <= x <= hi:
        raise failure(where, int(x), hi + 1)
    return x


def _uniform(seed: Any, ordinal: Any, index: Any, dtype: DType) -> Any:
    w0, w1 = scalar_words(int(seed), int(ordinal), int(index))
    if dtype is dt.float32:
        return np.float32(w0 >> 8) * np.float32(2.0**-24)
    return np.float64((w0 << 21) ^ (w1 >> 11)) * 2.0**-53


def _normal(seed: Any, ordinal: Any, index: Any, dtype: DType) -> Any:
    w0, w1 = scalar_words(int(seed), int(ordinal), int(index))
    t = dtype.np.type
    if dtype is dt.float32:
        u0, u1 = (t(w >> 8) * t(2.0**-24) for w in (w0, w1))
    else:
        u0, u1 = (t(w) * t(2.0**-32) for w in (w0, w1))
    return np.sqrt(np.log(t(1) - u0) * t(-2)) * np.cos(u1 * t(2 * math.pi))


RUNTIME: Final[dict[str, Any]] = {
    **{d.name: d.np.type for d in dt.ALL},
    "m": NUMPY,
    "empty": np.empty,
    "identity": lambda monoid, t: t(MONOIDS[monoid].unit(dt.from_numpy(np.dtype(t)))),
    "cast": lambda x, t: _cast(x, dt.from_numpy(np.dtype(t))),
    "checked": _checked,
    "sum_step": lambda a, x: a | x if isinstance(a, np.bool_) else a + x,
    "prod_step": lambda a, x: a * x,
    "max_step": np.maximum,
    "min_step": np.minimum,
    "any_step": np.logical_or,
    "all_step": np.logical_and,
    "argmax_step": _arg_step(lambda x, best: x > best),
    "argmin_step": _arg_step(lambda x, best: x < best),
    "random_uniform": lambda s, o, i, t: _uniform(s, o, i, dt.from_numpy(np.dtype(t))),
    "random_normal": lambda s, o, i, t: _normal(s, o, i, dt.from_numpy(np.dtype(t))),
    "random_bits": lambda s, o, i, t: np.int64(scalar_words(int(s), int(o), int(i))[0]),
}


# ---------------------------------------------------------------------------------- running


class _Runner:
    """Calls kernels and library ops in order over flat arrays."""

    def __init__(self, fused: Fused, functions: Mapping[str, Any]) -> None:
        self.fused = fused
        self.functions = functions

    def __call__(self, inputs: Sequence[Any]) -> list[Array]:
        fused = self.fused
        flat: dict[str, Any] = {}
        for v, x in zip(fused.program.inputs, inputs, strict=True):
            flat[f"v{v.id}"] = [v.aval.dtype.np.type(x)] if v.aval.weak else _flat(v, x)
        for name, b in fused.buffers.items():
            if name not in flat:
                flat[name] = flat[b.home] if b.alias else np.empty(b.size, b.dtype.np)
        with np.errstate(all="ignore"):
            for item in fused.items:
                if isinstance(item, Kernel):
                    self.functions[item.name](flat)
                else:
                    _library(item, flat, fused.buffers)
        return [np.array(_view(flat, a)) for a in fused.outputs]


def _flat(v: Value, x: Array) -> Array:
    """One-dimensional memory of an input, up to its last element; writes go through."""
    if x.flags.c_contiguous:
        return x.reshape(-1)
    return as_strided(x, (span(v.aval.shape, v.layout),), (x.itemsize,))


def _view(flat: Mapping[str, Any], a: Access) -> Array:
    memory = flat[a.buffer][a.offset :]
    return as_strided(memory, a.shape, tuple(s * memory.itemsize for s in a.strides))


def _library(item: Library, flat: Mapping[str, Any], buffers: Mapping[str, Buffer]) -> None:
    operands = [
        _view(flat, r) if isinstance(r, Access) else flat[r][0].item() if isinstance(r, str) else r
        for r in item.operands
    ]
    try:
        results = item.op.compute(tuple(operands), item.attrs, item.out_avals)
    except Exception as error:
        raise CheckFailed(f"{item.op.name} raised {error!r}", item.where) from error
    for name, value in zip(item.outs, results, strict=True):
        flat[name][:] = np.asarray(value, buffers[name].dtype.np).reshape(-1)
