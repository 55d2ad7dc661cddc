"""Rewriting of scalar expressions: (Expr, axis substitution, rule for leaves) -> Expr. Used by
every stage after lower."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from codegen.ir import affine, expr
from codegen.ir.affine import Affine, Axis
from codegen.ir.expr import Apply, Cast, Checked, Expr, IndexOf, Load, Read, Select
from eager.base import dtype as dt

OnRead = Callable[[int, tuple[Affine, ...], Read], Expr]
OnLoad = Callable[[str, Affine, Load], Expr]


class Rewrite:
    """One rewriting with its memo: call it on expressions. Axes are replaced by `axes`, then reads
    and loads by the rules.

    The rules get the already substituted index. Rebuilding simplifies again, since indices may have
    become constant."""

    def __init__(
        self,
        axes: Mapping[Axis, Affine],
        on_read: OnRead | None = None,
        on_load: OnLoad | None = None,
    ) -> None:
        self.axes = axes
        self.on_read = on_read
        self.on_load = on_load
        self.memo: dict[Expr, Expr] = {}

    def __call__(self, x: Expr) -> Expr:
        found = self.memo.get(x)
        if found is None:
            found = self.memo[x] = self.rewritten(x)
        return found

    def rewritten(self, x: Expr) -> Expr:
        """The new `x`: what a kind of rewriting overrides. Operands go through the call."""
        rule = _RULES.get(type(x))
        return x if rule is None else rule(self, x)

    def index(self, index: Affine) -> Affine:
        return affine.substitute(index, self.axes, self)


def _apply(r: Rewrite, x: Apply) -> Expr:
    args = tuple(map(r, x.args))
    same = all(a is b for a, b in zip(args, x.args, strict=True))
    if same:
        return x
    if x.fn in expr.CODEGEN:
        seed, ordinal, index = args
        return expr.random(x.fn, seed, ordinal, index, x.dtype)
    return expr.apply(x.fn, *args)


def _checked(r: Rewrite, x: Checked) -> Expr:
    return expr.checked(r(x.arg), x.lo, x.hi, x.where)


def _cast(r: Rewrite, x: Cast) -> Expr:
    return expr.cast(r(x.arg), x.dtype)


def _select(r: Rewrite, x: Select) -> Expr:
    return expr.select(r(x.cond), r(x.then), r(x.other))


def _read(r: Rewrite, x: Read) -> Expr:
    index = tuple(map(r.index, x.index))
    return expr.read(x.value, index, x.dtype) if r.on_read is None else r.on_read(x.value, index, x)


def _load(r: Rewrite, x: Load) -> Expr:
    offset = r.index(x.offset)
    return (
        expr.load(x.buffer, offset, x.dtype)
        if r.on_load is None
        else r.on_load(x.buffer, offset, x)
    )


def _index_of(r: Rewrite, x: IndexOf) -> Expr:
    index = r.index(x.index)
    if index is x.index:
        return x
    return expr.short_index(index) if x.dtype is dt.int32 else expr.index_of(index)


_RULES: dict[type[Expr], Callable[..., Expr]] = {
    Apply: _apply,
    Cast: _cast,
    Checked: _checked,
    Select: _select,
    Read: _read,
    Load: _load,
    IndexOf: _index_of,
}
