"""One fused kernel as NumPy expressions: every counter is an open grid, every value an array over
[rows ..., loops ...]."""

from codegen import Unsupported
from codegen.ir import affine, expr
from codegen.ir.walk import Walk

REDUCE = {
    "sum": "np.add", "prod": "np.multiply", "max": "np.maximum", "min": "np.minimum",
    "any": "np.logical_or", "all": "np.logical_and",
}  # fmt: skip


def emit_kernel(k):
    if k.locals or any(s.monoid for s in k.stores()):
        raise Unsupported("memory of a row, or stores that collide")
    lines = [f"{name} = B[{name!r}]" for name in dict.fromkeys((*k.reads(), *k.writes()))]
    rank = len(k.rows) + max((len(s.loops) for s in k.stages), default=0)
    spell = Expressions()
    for stage in k.stages:
        axes = (*k.rows, *stage.loops)
        for i, a in enumerate(axes):
            lines.append(f"{a.name} = np.arange({a.size}).reshape{grid(i, rank)}")
        shape = tuple(a.size for a in axes) + (1,) * (rank - len(axes))
        over = tuple(range(len(k.rows), len(axes)))
        for r in stage.reductions:
            if r.monoid.of:
                raise Unsupported("the position of an extremum")
            whole = f"np.broadcast_to({spell.value(r.value)}, {shape})"
            lines.append(
                f"{r.name} = {REDUCE[r.monoid.name]}.reduce({whole}, {over}, {r.dtype.name}, "
                "keepdims=True)"
            )
        values = [f"np.broadcast_to({spell.value(s.value)}, {shape})" for s in stage.stores]
        lines += [f"x{i} = {value}" for i, value in enumerate(values)]
        for i, s in enumerate(stage.stores):
            lines.append(f"{s.buffer}[np.broadcast_to({spell.index(s.offset)}, {shape})] = x{i}")
    return "\n    ".join([f"def {k.name}(B):", *lines, "pass"])


def grid(i, rank):
    return (1,) * i + (-1,) + (1,) * (rank - i - 1)


class Expressions(Walk):
    def value(self, x):
        return self.spell(x)

    def index(self, index):
        if affine.reads_data(index):
            raise Unsupported("an index from data")
        return affine.text(index)

    def const(self, x):
        value = f"'{x.value}'" if isinstance(x.value, float) else x.value  # inf, nan
        return f"{x.dtype.name}({value})"

    def local(self, x):
        return x.name

    def load(self, x):
        return f"{x.buffer}[{self.index(x.offset)}]"

    def index_of(self, x):
        return f"np.asarray({self.index(x.index)}).astype({x.dtype.name})"

    def apply(self, x):
        if x.fn in expr.CODEGEN:
            raise Unsupported(f"{x.fn} as a NumPy expression")
        return f"m.{x.fn}({', '.join(map(self.value, x.args))})"

    def cast(self, x):
        return f"np.asarray({self.value(x.arg)}).astype({x.dtype.name})"

    def select(self, x):
        raise Unsupported("a branch, or a check, as a NumPy expression")

    checked = select
