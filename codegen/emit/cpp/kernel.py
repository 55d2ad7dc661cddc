"""One fused kernel as one C++ function: rows shared among threads, stages as SIMD loops. Kernel +
Schedule -> KernelText.

Two shapes of function. By rows: a unit of work is one row, lanes run along the loops of each stage.
By columns (the schedule has a `row_vector`): a unit is a block of neighbouring rows, a lane is a
row, and reductions need no combining at the end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from codegen import expr
from codegen.affine import Axis
from codegen.emit.cpp import table
from codegen.emit.cpp.expr import Names, Scope, Spell
from codegen.emit.cpp.lanes import position_of, width
from codegen.ir import Buffer, Kernel, Reduction, Schedule, Stage, Store
from codegen.monoid import ARGMAX, SUM
from codegen.sizes import extent
from codegen.tile import overwrites
from eager import dtype as dt

# A sum down a long column is a sum of sums of this many: errors grow with the root of the length.
CHUNK = 128
BLOCK = 4096  # the same along a row: 256 additions per lane
EXIT = 1024  # any and all look so often whether they know the answer
EACH = "JC_UNROLL for (int u_ = 0; u_ < U; u_++)"
NOWHERE = {"i32": "0x7fffffff", "i64": "0x7fffffffffffffffl"}  # behind every position
MAP_BLOCK = 64  # vectors per unit of an elementwise kernel
STREAM_BYTES = (
    4 << 20
)  # results from this size on are stored past the caches (measured: a gain from 2 MiB)


@dataclass(frozen=True, eq=False, slots=True)
class KernelText:
    """`text` is the function with {name} for its name; the same text serves all kernels that differ
    in buffers only."""

    text: str
    types: str  # what the declaration needs before `head`
    head: str  # the function's declaration
    params: tuple[str, ...]  # buffers, in the order of the parameters p0, p1, ...
    size: int  # the run-time number of rows; 0: the function has its sizes written in
    sites: tuple[str, ...]


def emit_kernel(kernel: Kernel, plan: Schedule, buffers: Mapping[str, Buffer]) -> KernelText:
    return _Writer(kernel, plan, buffers).run()


def streamed(kernel: Kernel, buffers: Mapping[str, Buffer]) -> frozenset[str]:
    """The large buffers that the kernel only writes."""
    return frozenset(
        name
        for name in set(kernel.writes()) - set(kernel.reads())
        if name in buffers and buffers[name].nbytes >= STREAM_BYTES
    )


class _Writer:
    def __init__(self, kernel: Kernel, plan: Schedule, buffers: Mapping[str, Buffer]) -> None:
        self.kernel = kernel
        self.plan = plan
        self.buffers = buffers
        own = [buffers[n] for n in (*kernel.reads(), *kernel.writes()) if n in buffers]
        dtypes = {b.name: b.dtype for b in (*own, *kernel.locals)}
        self.names = Names(dtypes, frozenset(b.name for b in own if b.kind == "scalar"))
        self.names.stored = frozenset(kernel.writes())
        for i, b in enumerate(kernel.locals):
            self.names.locals[b.name] = f"t{i}"
        self.streamed = streamed(kernel, buffers)
        self.top = Scope(frozenset())
        self.row = Scope(frozenset(kernel.rows))
        self.local_names: dict[str, tuple[str, int, bool]] = {}

    def run(self) -> KernelText:
        by_columns = self.plan.row_vector is not None
        body = self.columns() if by_columns else self.rows()
        params = [self.parameter(name, p) for name, p in self.names.params.items()]
        params += [f"i64 site{i}" for i in range(len(self.names.sites))]
        lines = [*indent(self.top.lines), *indent(body)]
        types, head, text = (self.many if self.sized() else self.one)(params, lines)
        size = self.kernel.rows[0].size if self.sized() else 0
        names = self.names
        return KernelText(
            "\n".join(text), types, head, tuple(names.params), size, tuple(names.sites)
        )

    def one(self, params: list[str], body: list[str]) -> tuple[str, str, list[str]]:
        """A function of its parameters: types, head, text."""
        head = f"JC_NOINLINE void {{name}}(void *arena, {', '.join(params)})"
        return "", head, [f"static {head} {{", *body, "}"]

    def many(self, params: list[str], body: list[str]) -> tuple[str, str, list[str]]:
        """A function of a table whose members are sets of parameters: one loop over the blocks of
        all members."""
        fields = [p.removeprefix("const ") for p in (*params, "i64 n0")]
        names = [field.rpartition(" ")[2].lstrip("*") for field in fields]
        own = [f"  const auto {n} = t_.{n};" for n in names]
        types = f"struct {{name}}_t {{ {'; '.join(fields)}; }};"
        head = "JC_NOINLINE void {name}(void *arena, const {name}_t *t, int members)"
        text = [
            types,
            "static JC_NOINLINE void {name}_blocks(void *arena, const {name}_t &t_,",
            "                                    i64 lo_, i64 hi_) {",
            *own,
            *body,
            "}",
            f"static {head} {{",
            f"  batch(t, members, {self.lanes()} * {self.vectors()}, {self.traffic()},",
            "        [=](auto &t_, i64 lo, i64 hi) { {name}_blocks(arena, t_, lo, hi); });",
            "}",
        ]
        return types, head, text

    def parameter(self, name: str, p: str) -> str:
        dtype = self.names.dtypes[name]
        if name in self.names.scalars:
            return f"const {table.register(dtype)} {p}"
        return f"{table.MEMORY[dtype.name]} *{p}"

    def sized(self) -> bool:
        """Whether the number of rows is a parameter: elementwise kernels over flat memory."""
        return self.plan.row_vector is not None and len(self.kernel.rows) == 1

    def spell(self, scopes: list[Scope], vector: Axis | None, lanes: str) -> Spell:
        s = Spell(scopes, self.names, vector, lanes)
        s.local_names = self.local_names
        return s

    def traffic(self) -> int:
        """What a row weighs, in bytes of plain traffic."""
        return 4 * sum(extent(s.loops) * _weight(s) for s in self.kernel.stages)

    def team(self) -> str:
        if not self.plan.parallel:
            return "1"
        return f"team_for(i64({extent(self.kernel.rows) * self.traffic()}))"

    # ------------------------------------------------------------------ by rows

    def rows(self) -> list[str]:
        out: list[str] = []
        for i, (stage, vector) in enumerate(zip(self.kernel.stages, self.plan.vector, strict=True)):
            self.row.lines += self.stage_by_rows(stage, vector, i)
        count = extent(self.kernel.rows)
        out.append(f"parallel({count}, 1, {self.team()}, [=](i64 lo_, i64 hi_) {{")
        for b in self.kernel.locals:
            out.append(
                f"  alignas(64) {table.MEMORY[b.dtype.name]} {self.names.locals[b.name]}[{b.size}];"
            )
        out.append("  for (i64 r_ = lo_; r_ < hi_; r_++) {")
        out += indent(decode(self.kernel.rows, "r_"), 2)
        out += indent(self.row.lines, 2)
        return [*out, "  }", "});"]

    def stage_by_rows(self, stage: Stage, vector: Axis | None, number: int) -> list[str]:
        lanes = "1" if vector is None else f"W{number}"
        lines: list[str] = []
        if vector is not None:
            self.top.lines.insert(0, f"constexpr int W{number} = {width((stage,), vector)};")
        loops = [Scope(frozenset((a,))) for a in stage.loops]
        if not loops:
            loops = [Scope(frozenset())]
        s = self.spell([self.top, self.row, *loops], vector, lanes)
        accs = [_Acc(self, r, s, "", stage.loops) for r in stage.reductions]
        body = loops[-1]
        for acc in accs:
            body.lines += acc.update()
        self.store_all(s, body, stage)
        blocks = _Blocks(stage, accs)
        lines += [a.declare() for a in accs] + blocks.declare()
        lines += self.nest(stage, vector, loops, number, blocks)
        for acc in accs:
            lines.append(f"const {table.register(acc.r.dtype)} {acc.total} = {acc.final()};")
            self.local_names[acc.r.name] = (acc.total, 1, False)
        return lines

    def nest(
        self, stage: Stage, vector: Axis | None, loops: list[Scope], number: int, blocks: _Blocks
    ) -> list[str]:
        """The loops of a stage around its body."""
        if not stage.loops:
            return ["{", *indent(loops[-1].lines), "}"]
        inner = stage.loops[-1]
        lo, hi = ("k_", "e_") if blocks.cuts(inner) else ("0", str(inner.size))
        if vector is None:
            lines = [for_loop(inner, lo, hi), *indent(loops[-1].lines), "}"]
            lambdas = []
        else:
            v, n, w = inner.name, inner.size, f"W{number}"
            last = f" && {hi} == {n}" if blocks.cuts(inner) else ""
            lambdas = [
                f"auto body{number} = [&](auto block_, const i64 {v}, const int n_) JC_BODY {{",
                "  typedef decltype(block_) B;",
                *indent(loops[-1].lines),
                "};",
            ]
            lines = [
                f"for (i64 {v} = {lo}; {v} + {w} <= {hi}; {v} += {w})",
                f"  body{number}(Full{{}}, {v}, {w});",
                f"if ({n} % {w}{last}) body{number}(Tail{{}}, {n} - {n} % {w}, {n} % {w});",
            ]
        lines = [*lambdas, *blocks.around(inner, lines)]
        for a, scope in zip(reversed(stage.loops[:-1]), reversed(loops[:-1]), strict=True):
            body = [*scope.lines, *blocks.around(a, lines)]
            lines = [for_loop(a), *indent(body), "}"]
        return lines

    def store_all(self, s: Spell, body: Scope, stage: Stage) -> None:
        """The stores of a stage, each after its value, or all values before all stores."""
        if overwrites(stage, self.buffers):
            body.lines += [self.store(s, store) for store in stage.stores]
            return
        for store in stage.stores:
            body.lines.append(self.store(s, store))

    def store(self, s: Spell, store: Store) -> str:
        p = self.names.buffer(store.buffer)
        value = store.value
        memory = self.names.dtypes[store.buffer]
        rounds = memory in (dt.float16, dt.bfloat16)
        if rounds and isinstance(value, expr.Cast) and value.arg.dtype is dt.float32:
            value = value.arg  # the store rounds
        step = s.step(store.offset)
        if s.vector is None or (step == 0 and not s.is_vector(value)):
            lane = table.register(memory)
            return f"store({p} + {s.index_text(store.offset)}, {lane}({s.scalar(value)}));"
        v = s.vector_of(value)
        if step == 1:
            op = "stream" if store.buffer in self.streamed else "st"
            return f"{op}<B>({p} + {s.index_text(store.offset)}, {v}, n_);"
        if step is not None:
            return f"st_strided<B>({p} + {s.index_text(store.offset)}, {step}, {v}, n_);"
        at = s.lane_index(store.offset, None)
        return f"for (int l_ = 0; l_ < n_; l_++) store({p} + {at}, lane({v}, l_));"

    # ------------------------------------------------------------------ by columns

    def columns(self) -> list[str]:
        v = self.plan.row_vector
        assert v is not None
        size = "n0" if self.sized() else str(v.size)
        outer = tuple(a for a in self.kernel.rows if a is not v)
        count = extent(outer)
        for i, stage in enumerate(self.kernel.stages):
            self.row.lines += self.stage_by_columns(stage, v, i, self.vectors())
        self.top.lines.insert(0, f"constexpr int W = {self.lanes()}, U = {self.vectors()};")
        blocks = f"const i64 blocks_ = ({size} + W * U - 1) / (W * U);"
        units = "const i64 o_ = r_ / blocks_, v_ = (r_ % blocks_) * (W * U);"
        if self.plan.across is not None:  # the lanes stay where they are while the rows go on
            units = f"const i64 o_ = r_ % {count}, v_ = (r_ / {count}) * (W * U);"
        loop = [
            "for (i64 r_ = lo_; r_ < hi_; r_++) {",
            f"  {units}",
            f"  const int all_ = {size} - v_ < W * U ? int({size} - v_) : W * U;",
            "  const int full_ = all_ / W, rest_ = all_ % W;",
            *indent(decode(outer, "o_")),
            *indent(self.row.lines),
            "}",
        ]
        if self.sized():
            return [blocks, *loop]
        head = f"parallel({count} * blocks_, 1, {self.team()}, [=](i64 lo_, i64 hi_) {{"
        return [blocks, head, *indent(loop), "});"]

    def lanes(self) -> str:
        """How many rows a vector holds."""
        v = self.plan.row_vector
        assert v is not None
        return width(self.kernel.stages, v)

    def vectors(self) -> int:
        """How many vectors of rows are a unit of work."""
        v = self.plan.row_vector
        assert v is not None
        if self.plan.across is not None:
            return 1  # neighbouring columns may share a cache set: few of them at a time
        if not any(s.reductions for s in self.kernel.stages):
            return MAP_BLOCK
        return 4 if v.size >= 256 else 2 if v.size >= 128 else 1

    def stage_by_columns(self, stage: Stage, v: Axis, number: int, units: int) -> list[str]:
        loops = [Scope(frozenset((a,))) for a in stage.loops]
        body = Scope(frozenset((v,)))
        outer = Scope(frozenset(a for a in self.kernel.rows if a is not v))
        s = self.spell([self.top, outer, *loops, body], v, "W")
        for name in self.local_names:
            cpp, _, _ = self.local_names[name]
            self.local_names[name] = (cpp, len(loops) + 2, True)
        accs = [_Acc(self, r, s, "[u_]", stage.loops) for r in stage.reductions]
        for acc in accs:
            body.lines += acc.update()
        self.store_all(s, body, stage)
        inner = [
            f"auto body{number} = [&](auto block_, const i64 {v.name}, const int n_,",
            "  const int u_) JC_BODY {",
            "  typedef decltype(block_) B;",
            *indent(body.lines),
            "};",
        ]
        each = (
            f"for (int u_ = 0; u_ < full_; u_++) body{number}(Full{{}}, v_ + u_ * W, W, u_);",
            f"if (rest_) body{number}(Tail{{}}, v_ + full_ * W, rest_, full_);",
        )
        if not accs:
            lines = [*inner, *each]
            for a, scope in zip(reversed(stage.loops), reversed(loops), strict=True):
                lines = [for_loop(a), *indent(scope.lines), *indent(lines), "}"]
            return ["{", *indent(outer.lines), *indent(lines), "}"]
        return self.reduce_by_columns(stage, number, (outer, loops), accs, (inner, each))

    def reduce_by_columns(
        self,
        stage: Stage,
        number: int,
        scopes: tuple[Scope, list[Scope]],
        accs: list[_Acc],
        code: tuple[list[str], tuple[str, str]],
    ) -> list[str]:
        """Accumulators in registers when the block is whole; long sums in chunks."""
        (outer, loops), (inner, (full, rest)) = scopes, code
        whole = (
            f"JC_UNROLL for (int u_ = 0; u_ < U; u_++) body{number}(Full{{}}, v_ + u_ * W, W, u_);"
        )
        lines = [
            *inner,
            f"if constexpr (decltype(whole_)::full) {{ {whole} }}",
            f"else {{ {full} {rest} }}",
        ]
        chunked = (
            len(stage.loops) > 0
            and stage.loops[0].size > 2 * CHUNK
            and all(a.chunked() for a in accs)
        )
        for i in range(len(loops) - 1, -1, -1):
            head = for_loop(stage.loops[i])
            if i == 0 and chunked:
                n = stage.loops[0].name
                size = stage.loops[0].size
                head = f"for (i64 {n} = k_; {n} < {size} && {n} < k_ + {CHUNK}; {n}++) {{"
            lines = [head, *indent(loops[i].lines), *indent(lines), "}"]
        if chunked:
            lines = [
                f"for (i64 k_ = 0; k_ < {stage.loops[0].size}; k_ += {CHUNK}) {{",
                *indent([a.declare_block() for a in accs]),
                *indent(lines),
                *indent([a.add_block() for a in accs]),
                "}",
            ]
        else:
            lines = [*(a.declare_block() for a in accs), *lines, *(a.add_block() for a in accs)]
        out = []
        for acc in accs:
            out.append(acc.declare_total())
            self.local_names[acc.r.name] = (f"{acc.total}[u_]", 0, True)
        stage_lines = [
            f"auto stage{number} = [&](auto whole_) JC_BODY {{",
            *indent(outer.lines),
            *indent(lines),
            "};",
        ]
        call = f"if (all_ == W * U) stage{number}(Full{{}}); else stage{number}(Tail{{}});"
        return [*out, *stage_lines, call]


class _Blocks:
    """A long sum is a sum of blocks' sums: of the only loop, or of the turns of the outermost.

    (Where the outermost loop is cut, `k_` and `e_` bound its current block.)"""

    def __init__(self, stage: Stage, accs: list[_Acc]) -> None:
        total = extent(stage.loops)
        self.accs = accs if total >= 2 * BLOCK and all(a.chunked() for a in accs) else []
        decides = all(a.decided() for a in accs) and accs and not stage.stores
        self.exits = accs if total >= 2 * EXIT and decides else []
        self.outer = stage.loops[0] if stage.loops else None
        self.alone = len(stage.loops) == 1
        self.turns = stage.loops[1] if len(stage.loops) > 1 else None

    def declare(self) -> list[str]:
        lines = [f"{a.vector} {a.name}t = {a.name};" for a in self.accs]
        for a in self.accs:
            a.result = f"{a.name}t"
        return lines

    def cuts(self, loop: Axis) -> bool:
        return bool(self.accs or self.exits) and self.alone and loop is self.outer

    def around(self, loop: Axis, lines: list[str]) -> list[str]:
        """`lines`, the whole of `loop`, with the sums of a block folded into the totals, or left
        where what follows cannot change the result."""
        if not (self.accs or self.exits) or (loop is not self.turns and not self.cuts(loop)):
            return lines
        reset = [f"{a.name} = {a.start};" for a in self.accs]
        fold = [f"{a.result} = {a.result} + {a.name};" for a in self.accs]
        if self.exits:
            fold = [f"if ({' && '.join(a.decided() for a in self.exits)}) break;"]
        if not self.alone:
            return [*reset, *lines, *fold]
        n, block = loop.size, EXIT if self.exits else BLOCK
        head = f"for (i64 k_ = 0; k_ < {n}; k_ += {block}) {{"
        end = f"const i64 e_ = k_ + {block} < {n} ? k_ + {block} : {n};"
        return [head, *indent([end, *reset, *lines, *fold]), "}"]


class _Acc:
    """The C++ of one reduction: accumulators of the stage's lanes, the step of the loop body, the
    result."""

    def __init__(
        self, writer: _Writer, r: Reduction, s: Spell, at: str, loops: tuple[Axis, ...]
    ) -> None:
        self.r = r
        self.s = s
        self.at = at
        self.name = writer.names.fresh("s")
        self.lane = table.lane(r.value.dtype)
        self.arg = r.monoid.of is not None
        self.identity = table.identity(r.monoid, r.value.dtype)
        self.struct = self.struct_name()
        self.vector = f"vec<{self.lane}, {s.lanes}>"
        self.how = f"{self.max()}, {str(self.arg and rises(r, loops)).lower()}"
        self.spot = table.register(position_of(r).dtype) if self.arg else ""
        self.place = f"vec<{self.spot}, {s.lanes}>"
        self.nowhere = f"splat<{self.spot}, {s.lanes}>({NOWHERE.get(self.spot)})"
        self.total = writer.names.fresh("a")
        self.start = f"splat<{self.lane}, {s.lanes}>({self.identity})"
        self.result = self.name

    def struct_name(self) -> str:
        if self.arg:
            return "Max"
        if self.r.value.dtype is dt.bool_:
            return table.BOOL_MONOIDS[self.r.monoid.name]
        return table.MONOIDS[self.r.monoid.name]

    def chunked(self) -> bool:
        return self.r.monoid is SUM and self.r.value.dtype.is_floating_point

    def decided(self) -> str:
        """The C++ condition under which no further element changes the result; "" if there is
        none."""
        return {"Or": f"any({self.name})", "And": f"!all({self.name})"}.get(self.struct, "")

    def declare(self) -> str:
        one = f"{self.vector} {self.name} = {self.start};"
        return one + (f" {self.place} {self.name}p = {self.nowhere};" if self.arg else "")

    def declare_block(self) -> str:
        text = self.declare_each(self.name)
        if self.arg:
            text += f" {self.place} {self.name}p[U]; {EACH} {self.name}p[u_] = {self.nowhere};"
        return text

    def declare_total(self) -> str:
        return f"vec<i64, W> {self.total}[U];" if self.arg else self.declare_each(self.total)

    def declare_each(self, name: str) -> str:
        return f"{self.vector} {name}[U]; {EACH} {name}[u_] = {self.start};"

    def add_block(self) -> str:
        """Fold the accumulators into the totals."""
        t, a = f"{self.total}[u_]", f"{self.name}[u_]"
        if self.arg:
            return f"{EACH} {t} = arg_place({self.name}p[u_], {self.first()});"
        what = f"{t} = {self.struct}::apply({t}, {a});"
        return f"{EACH} {what}"

    def update(self) -> list[str]:
        acc = f"{self.name}{self.at}"
        if self.s.vector is None:
            x = f"vec<{self.lane}, 1>({self.s.scalar(self.r.value)})"
            if self.arg:
                at = self.position(scalar=True)
                return [f"arg_step<{self.how}>({x}, {at}, -1, {self.name}, {self.name}p);"]
            return [f"{acc} = {self.struct}::apply({acc}, {x});"]
        v = self.s.vector_of(self.r.value)
        if self.arg:
            at = self.position(scalar=False)
            live = f"live_lanes<{self.s.lanes}>(n_)"
            return [f"arg_step<{self.how}>({v}, {at}, {live}, {acc}, {self.name}p{self.at});"]
        return [f"{acc} = {self.struct}::apply({acc}, tail({v}, n_, {self.identity}, B::full));"]

    def position(self, *, scalar: bool) -> str:
        at = position_of(self.r)
        return f"vec<{self.spot}, 1>({self.s.scalar(at)})" if scalar else self.s.vector_of(at)

    def max(self) -> str:
        return "true" if self.r.monoid is ARGMAX else "false"

    def first(self) -> str:
        assert self.r.position is not None
        return str(self.r.position.lo)

    def final(self) -> str:
        if self.arg:
            return f"arg_final<{self.max()}>({self.name}, {self.name}p, {self.first()})"
        return f"reduce<{self.struct}>({self.result})"


# ---------------------------------------------------------------------------------- small texts


def indent(lines: list[str], by: int = 1) -> list[str]:
    return ["  " * by + line for line in lines]


def for_loop(a: Axis, lo: str = "0", hi: str = "") -> str:
    return f"for (i64 {a.name} = {lo}; {a.name} < {hi or a.size}; {a.name}++) {{"


def decode(axes: tuple[Axis, ...], counter: str) -> list[str]:
    """Row axes from the unit's number."""
    if not axes:
        return []
    if len(axes) == 1:
        return [f"const i64 {axes[0].name} = {counter};"]
    lines, step = [], 1
    for i, a in enumerate(reversed(axes)):
        text = counter if step == 1 else f"{counter} / {step}"
        if i < len(axes) - 1:
            text = f"({text}) % {a.size}"
        lines.append(f"const i64 {a.name} = {text};")
        step *= a.size
    return lines


def _weight(stage: Stage) -> int:
    return max(1, sum(1 for _ in stage.walk()) // 3)


def rises(r: Reduction, loops: tuple[Axis, ...]) -> bool:
    """Whether the position of an argmax only grows while `loops` (outermost first) run."""
    assert r.position is not None
    steps = dict(r.position.terms)
    reach = 0  # of the loops within
    for a in reversed(loops):
        step = steps.pop(a, 0)
        if step <= reach:
            return False
        reach += step * (a.size - 1)
    return not steps
