"""One fused kernel as one C++ function: rows shared among threads, stages as SIMD loops. Kernel +
Schedule -> KernelText.

Two shapes of function: by rows, or by columns where the schedule has a `row_vector`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from codegen.ir import affine, expr
from codegen.ir.affine import Affine, Axis
from codegen.ir.expr import Apply, Const, Expr, IndexOf, Load
from codegen.ir.rewrite import Rewrite
from codegen.ir.schema import Buffer, Kernel, Schedule, Stage, Store, homes
from codegen.ir.sizes import Size, at_least, extent, hint, is_static, name_of, round_up, same
from codegen.schedule.plan import ALIGN
from codegen.targets.cpp import table
from codegen.targets.cpp.expr import Names, Scope, Spell
from codegen.targets.cpp.reduce import CHUNK, EACH, Accumulator, Blocks, indent, position_of
from codegen.targets.cpp.table import size_text
from codegen.targets.cpp.tile import overwrites
from codegen.targets.cpp.waits import waits
from eager.base import dtype as dt
from eager.base.dataclass import dataclass

PAGE = 4096  # bytes: a store holds up loads from the same place of another page
PLACES = 4  # of a buffer that is only read: parameters of their own
MAP_BLOCK = 64  # vectors per unit of an elementwise kernel
# Code is worth its compile time where many elements run through it. For fewer than FEW, a kernel
# with more than COSTLY long functions calls them, and one with a larger body than BULKY has it
# once, with masks, not also for whole vectors. Others call them from MOST_COSTLY on.
FEW = 1 << 12
COSTLY, MOST_COSTLY = 12, 64
BULKY = 120  # expressions
# Results from this size on are stored past the caches (measured: a gain from 2 MiB), but for those
# of kernels that wait for their arithmetic, to which it adds (7 %).
STREAM_BYTES = 4 << 20


@dataclass(frozen=True, eq=False, slots=True)
class KernelText:
    """`text` is the function with {name} for its name; the same text serves all kernels that differ
    in buffers only."""

    text: str
    types: str  # what the declaration needs before `head`
    head: str  # the function's declaration
    params: tuple[tuple[str, int], ...]  # buffers, each from which element on: p0, p1, ...
    size: Size  # the run-time number of rows; 0: the function has its sizes written in
    sites: tuple[str, ...]
    sizes: tuple[str, ...] = ()  # the variables of sizes that are parameters
    room: Size = 0  # bytes that a thread needs for the buffers of a row, if a parameter says where


def emit_kernel(
    kernel: Kernel, plan: Schedule, buffers: Mapping[str, Buffer], *, symbolic: bool = False
) -> KernelText:
    """`symbolic`: sizes may be parameters."""
    return written(
        _ByRows if plan.row_vector is None else _ByColumns, kernel, plan, buffers, symbolic=symbolic
    )


def written(
    kind: type[Writer],
    kernel: Kernel,
    plan: Schedule,
    buffers: Mapping[str, Buffer],
    *,
    symbolic: bool,
) -> KernelText:
    """The kernel by a kind of writer."""
    kernel, buffers, named = from_first(kernel, buffers)
    writer = kind(kernel, plan, buffers)
    body, names = writer.body(), writer.names
    params = [writer.parameter(name, p) for name, p in names.params.items()]
    params += [f"i64 site{i}" for i in range(len(names.sites))]
    sizes = tuple(map(name_of, kernel.symbols())) if symbolic else ()
    params += [f"i64 {size}" for size in sizes]
    params += ["char *room_"] if writer.apart else []
    types, head, text = writer.function(params, [*indent(writer.top.lines), *indent(body)])
    sites = tuple(names.sites)
    return KernelText(
        "\n".join(text),
        types,
        head,
        tuple(named.get(name, (name, 0)) for name in names.params),
        writer.size(),
        sites,
        sizes,
        writer.room(),
    )


def from_first(
    kernel: Kernel, buffers: Mapping[str, Buffer]
) -> tuple[Kernel, Mapping[str, Buffer], Mapping[str, tuple[str, int]]]:
    """The kernel with memory counted from the first element that it touches: what steps of an
    unrolled loop do to other rows is one text. What is only read at a few places (`d[:, k] + d[k]`)
    is a parameter for each. Third: which buffer a new name is, and from which element on."""
    offsets: dict[str, list[Affine]] = {}
    touched: list[Load | Store] = [*kernel.loads(), *kernel.stores()]
    for each in touched:
        offsets.setdefault(each.buffer, []).append(each.offset)
    homes = Counter(buffers[name].home for name in offsets if name in buffers)
    written = {*kernel.writes()}
    named: dict[str, tuple[str, int]] = {}
    starts: dict[tuple[str, Affine], str] = {}
    for name, found in offsets.items():
        if name not in buffers or homes[buffers[name].home] > 1:
            continue
        first = {o: _first(o) for o in found}
        if name in written or len({*first.values()}) > PLACES:
            first = dict.fromkeys(first, min(first.values()))
        for offset, start in first.items():
            if start:
                starts[name, offset] = f"{name}+{start}"
                named[f"{name}+{start}"] = name, start
    if not named:
        return kernel, buffers, {}

    def moved(buffer: str, offset: Affine, known: Affine) -> tuple[str, Affine]:
        name = starts.get((buffer, known), buffer)
        return name, offset - named[name][1] if name in named else offset

    by = Rewrite({}, on_load=lambda name, at, x: expr.load(*moved(name, at, x.offset), x.dtype))
    stages = []
    for stage in kernel.stages:
        new_stage, stores = stage.map(by), []
        for made, x in zip(new_stage.stores, stage.stores, strict=True):
            name, offset = moved(x.buffer, made.offset, x.offset)
            stores.append(replace(made, buffer=name, offset=offset))
        stages.append(replace(new_stage, stores=tuple(stores)))
    new = {
        name: replace(buffers[old], name=name, alias=buffers[old].home)
        for name, (old, _) in named.items()
    }
    return replace(kernel, stages=tuple(stages)), {**buffers, **new}, named


def _first(offset: Affine) -> int:
    """The element from which on an access may be counted; 0 where that is not known."""
    ends = offset.const, offset.lo
    return max(0, min(ends)) if all(type(n) is int for n in ends) else 0


def elements(kernel: Kernel) -> Size:
    """Number of iterations of the longest loop of a kernel."""
    return extent(kernel.rows) * max((hint(extent(s.loops)) for s in kernel.stages), default=1)


def streamed(kernel: Kernel, buffers: Mapping[str, Buffer]) -> frozenset[str]:
    """The large buffers that the kernel only writes: memory that it reads is in the caches."""
    large = (n for n in kernel.writes() if n in buffers and hint(buffers[n].nbytes) >= STREAM_BYTES)
    read = homes(kernel.reads(), buffers)
    return frozenset(name for name in large if buffers[name].home not in read)


class Writer:
    def __init__(self, kernel: Kernel, plan: Schedule, buffers: Mapping[str, Buffer]) -> None:
        self.kernel = kernel
        self.apart = [b for b in kernel.locals if not is_static((b.size,))]  # not on the stack
        self.plan = plan
        self.buffers = buffers
        own = [buffers[n] for n in (*kernel.reads(), *kernel.writes()) if n in buffers]
        dtypes = {b.name: b.dtype for b in (*own, *kernel.locals)}
        self.names = Names(dtypes, frozenset(b.name for b in own if b.kind == "scalar"))
        self.names.stored = frozenset(kernel.writes())
        found = {x for stage in kernel.stages for x in stage.walk()}
        self.few = hint(elements(kernel)) < FEW
        self.bulky = self.few and len(found) > BULKY
        costly = sum(type(x) is Apply and x.fn in table.APART for x in found)
        self.names.calls = costly > (COSTLY if self.few else MOST_COSTLY)
        for i, b in enumerate(kernel.locals):
            self.names.locals[b.name] = f"t{i}"
        v = plan.row_vector
        slow = v is not None and any(waits(stage, v) for stage in kernel.stages)
        self.streamed = frozenset() if slow else streamed(kernel, buffers)
        self.top = Scope(frozenset())
        self.row = Scope(frozenset(kernel.rows))
        self.local_names: dict[str, tuple[str, int, bool]] = {}

    def body(self) -> list[str]:
        """The loop over units of work."""
        raise NotImplementedError

    def size(self) -> Size:
        """The number of rows, where it is a parameter; else 0."""
        return 0

    def room(self) -> Size:
        """The bytes of one thread's buffers of unknown size."""
        sizes: list[Size] = [round_up(b.nbytes, ALIGN) for b in self.apart]
        return sum(sizes) + PAGE if sizes else 0

    def function(self, params: list[str], body: list[str]) -> tuple[str, str, list[str]]:
        """A function of its parameters: types, head, text."""
        head = f"JC_NOINLINE void {{name}}(void *arena, {', '.join(params)})"
        return "", head, [f"static {head} {{", *body, "}"]

    def parameter(self, name: str, p: str) -> str:
        dtype = self.names.dtypes[name]
        if name in self.names.scalars:
            return f"const {table.register(dtype)} {p}"
        return f"{table.MEMORY[dtype.name]} *{p}"

    def spell(self, scopes: list[Scope], vector: Axis | None, lanes: str) -> Spell:
        s = Spell(scopes, self.names, vector, lanes)
        s.local_names = self.local_names
        return s

    def traffic(self) -> Size:
        """Cost of a row, in bytes of plain traffic."""
        return 4 * sum(extent(s.loops) * _weight(s) for s in self.kernel.stages)

    def team(self) -> str:
        if not self.plan.parallel:
            return "1"
        return f"team_for(i64({size_text(extent(self.kernel.rows) * self.traffic())}))"

    def store_all(self, s: Spell, body: Scope, stage: Stage) -> None:
        """The stores of a stage, each after its value, or all values before all stores."""
        if overwrites(stage, self.buffers):
            body.lines += [self.store(s, store) for store in stage.stores]
        else:
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
        if s.vector is None or (step is not None and same(step, 0) and not s.is_vector(value)):
            lane = table.register(memory)
            return f"store({p} + {s.index_text(store.offset)}, {lane}({s.scalar(value)}));"
        v = s.vector_of(value)
        if step is not None and same(step, 1):
            op = "stream" if store.buffer in self.streamed else "st"
            return f"{op}<B>({p} + {s.index_text(store.offset)}, {v}, n_);"
        if step is not None:
            by = size_text(step)
            return f"st_strided<B>({p} + {s.index_text(store.offset)}, {by}, {v}, n_);"
        at = s.index_text(store.offset, lane=True)
        return f"for (int l_ = 0; l_ < n_; l_++) store({p} + {at}, lane({v}, l_));"


class _ByRows(Writer):
    """A unit of work is one row; lanes run along the loops of each stage."""

    def body(self) -> list[str]:
        out: list[str] = []
        for i, (stage, vector) in enumerate(zip(self.kernel.stages, self.plan.vector, strict=True)):
            self.row.lines += self.stage(stage, vector, i)
        count = extent(self.kernel.rows)
        out.append(f"parallel({size_text(count)}, 1, {self.team()}, [=](i64 lo_, i64 hi_) {{")
        out += indent(self.row_buffers())
        out.append("  for (i64 r_ = lo_; r_ < hi_; r_++) {")
        out += indent(decode(self.kernel.rows, "r_"), 2)
        out += indent(self.row.lines, 2)
        return [*out, "  }", "});"]

    def row_buffers(self) -> list[str]:
        """A thread's memory: on its stack, or where sizes are not known, in its part of `room_`."""
        lines: list[str] = []
        at: Size = 0
        for b in self.kernel.locals:
            kind, name = table.MEMORY[b.dtype.name], self.names.locals[b.name]
            if b not in self.apart:
                lines.append(f"alignas({ALIGN}) {kind} {name}[{b.size}];")
                continue
            lines.append(f"{kind} *{name} = ({kind} *)(own_ + {size_text(at)});")
            at = at + round_up(b.nbytes, ALIGN)
        if not self.apart:
            return lines
        own = [f"char *own_ = room_ + member() * {size_text(self.room())};"]
        near = next(
            (p for name, p in self.names.params.items() if name not in self.names.scalars), ""
        )
        if near:  # stores that meet loads at the same place of a page hold them up
            own.append(f"own_ += ((i64){near} - (i64)own_ + {PAGE // 2}) & {PAGE - ALIGN};")
        return [*own, *lines]

    def stage(self, stage: Stage, vector: Axis | None, number: int) -> list[str]:
        lanes = "1" if vector is None else f"W{number}"
        lines: list[str] = []
        if vector is not None:
            self.top.lines.insert(0, f"constexpr int W{number} = {width((stage,), vector)};")
        loops = [Scope(frozenset((a,))) for a in stage.loops]
        loops = loops or [Scope(frozenset())]
        s = self.spell([self.top, self.row, *loops], vector, lanes)
        accs = [Accumulator(r, s, "", stage.loops) for r in stage.reductions]
        body = loops[-1]
        for acc in accs:
            body.lines += acc.update()
        self.store_all(s, body, stage)
        blocks = Blocks(stage, accs)
        lines += [a.declare() for a in accs] + blocks.declare()
        lines += self.nest(stage, vector, loops, number, blocks)
        for acc in accs:
            lines.append(f"const {table.register(acc.r.dtype)} {acc.total} = {acc.final()};")
            self.local_names[acc.r.name] = (acc.total, 1, False)
        return lines

    def nest(
        self, stage: Stage, vector: Axis | None, loops: list[Scope], number: int, blocks: Blocks
    ) -> list[str]:
        """The loops of a stage around its body."""
        if not stage.loops:
            return ["{", *indent(loops[-1].lines), "}"]
        inner = stage.loops[-1]
        lo, hi = ("k_", "e_") if blocks.cuts(inner) else ("0", size_text(inner.size))
        if vector is None:
            lines = [for_loop(inner, lo, hi), *indent(loops[-1].lines), "}"]
            lambdas = []
        else:
            v, n, w = inner.name, size_text(inner.size), f"W{number}"
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


class _ByColumns(Writer):
    """A unit of work is a block of neighbouring rows, and a lane is a row: reductions need no
    combining at the end."""

    def __init__(self, kernel: Kernel, plan: Schedule, buffers: Mapping[str, Buffer]) -> None:
        super().__init__(kernel, plan, buffers)
        assert plan.row_vector is not None
        self.v = plan.row_vector
        # Elementwise kernels over flat memory have the number of rows as a parameter.
        self.sized = len(kernel.rows) == 1

    def size(self) -> Size:
        return self.kernel.rows[0].size if self.sized else 0

    def function(self, params: list[str], body: list[str]) -> tuple[str, str, list[str]]:
        """If the size is a parameter: a function of a table whose members are sets of parameters,
        with one loop over the blocks of all members."""
        if not self.sized:
            return super().function(params, body)
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
            f"  batch(t, members, {self.lanes()} * {self.vectors()}, {hint(self.traffic())},",
            "        [=](auto &t_, i64 lo, i64 hi) { {name}_blocks(arena, t_, lo, hi); });",
            "}",
        ]
        return types, head, text

    def body(self) -> list[str]:
        v = self.v
        size = "n0" if self.sized else size_text(v.size)
        outer = tuple(a for a in self.kernel.rows if a is not v)
        count = size_text(extent(outer))
        for i, stage in enumerate(self.kernel.stages):
            self.row.lines += self.stage(stage, i)
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
        if self.sized:
            return [blocks, *loop]
        head = f"parallel({count} * blocks_, 1, {self.team()}, [=](i64 lo_, i64 hi_) {{"
        return [blocks, head, *indent(loop), "});"]

    def lanes(self) -> str:
        """Number of rows in a vector."""
        return width(self.kernel.stages, self.v)

    def vectors(self) -> int:
        """Number of vectors of rows in a unit of work."""
        if self.plan.across is not None:
            return 1  # neighbouring columns may share a cache set: few of them at a time
        if not any(s.reductions for s in self.kernel.stages):
            return MAP_BLOCK
        size = hint(self.v.size)
        return 4 if size >= 256 else 2 if size >= 128 else 1

    def stage(self, stage: Stage, number: int) -> list[str]:
        v = self.v
        loops = [Scope(frozenset((a,))) for a in stage.loops]
        body = Scope(frozenset((v,)))
        outer = Scope(frozenset(a for a in self.kernel.rows if a is not v))
        around = [self.top, outer, *loops]
        s = self.spell_vector([*around, body])
        accs = [Accumulator(r, s, "[u_]", stage.loops) for r in stage.reductions]
        for acc in accs:
            body.lines += acc.update()
        self.store_all(s, body, stage)
        inner = self.block(f"body{number}", body.lines)
        full = f"for (int u_ = 0; u_ < full_; u_++) body{number}(Full{{}}, v_ + u_ * W, W, u_);"
        rest = f"if (rest_) body{number}(Tail{{}}, v_ + full_ * W, rest_, full_);"
        each = full, rest
        if not accs:
            loop = [*each]
            if self.bulky:
                once = f"body{number}(Tail{{}}, v_ + u_ * W, u_ < full_ ? W : rest_, u_);"
                loop = ["for (int u_ = 0; u_ * W < all_; u_++)", f"  {once}"]
            elif not self.few and waits(stage, v):
                inner += self.block(f"pair{number}", self.two_vectors(stage, around, body))
                pair = f"pair{number}(Full{{}}, v_ + u_ * W, W, u_);"
                pairs = f"for (; u_ + 1 < full_; u_ += 2) {pair}"
                loop = ["int u_ = 0;", pairs, full.replace("int u_ = 0", ""), rest]
            lines = [*inner, *loop]
            for a, scope in zip(reversed(stage.loops), reversed(loops), strict=True):
                lines = [for_loop(a), *indent(scope.lines + lines), "}"]
            return ["{", *indent(outer.lines), *indent(lines), "}"]
        return self.reduce(stage, number, (outer, loops), accs, (inner, each))

    def spell_vector(self, scopes: list[Scope], part: str = "") -> Spell:
        """Spell of what is done for a vector; `part` is behind the names of its counters."""
        s = self.spell(scopes, self.v, "W")
        s.counter = f"{self.v.name}{part}"
        s.local_names = {
            name: (f"{total}[u_{part}]", len(scopes) - 1, True)
            for name, (total, _, _) in self.local_names.items()
        }
        return s

    def two_vectors(self, stage: Stage, around: list[Scope], body: Scope) -> Iterator[str]:
        """The body of a vector, each line followed by that of the next vector."""
        behind = Scope(body.axes)
        self.store_all(self.spell_vector([*around, behind], "b"), behind, stage)
        yield f"const i64 {self.v.name}b = {self.v.name} + W;"
        yield "const int u_b = u_ + 1;"
        for lines in zip(body.lines, behind.lines, strict=True):
            yield from lines

    def block(self, name: str, lines: Iterable[str]) -> list[str]:
        """A function of what is done from one row on: for whole vectors, and for a part of one."""
        return [
            f"auto {name} = [&](auto block_, const i64 {self.v.name}, const int n_,",
            "  const int u_) JC_BODY {",
            "  typedef decltype(block_) B;",
            *(f"  {line}" for line in lines),
            "};",
        ]

    def reduce(
        self,
        stage: Stage,
        number: int,
        scopes: tuple[Scope, list[Scope]],
        accs: list[Accumulator],
        code: tuple[list[str], tuple[str, str]],
    ) -> list[str]:
        """Accumulators in registers when the block is whole; long sums in chunks."""
        (outer, loops), (inner, (full, rest)) = scopes, code
        whole = f"{EACH} body{number}(Full{{}}, v_ + u_ * W, W, u_);"
        lines = [
            *inner,
            f"if constexpr (decltype(whole_)::full) {{ {whole} }}",
            f"else {{ {full} {rest} }}",
        ]
        long = bool(stage.loops) and not at_least(2 * CHUNK, stage.loops[0].size)
        chunked = long and all(a.chunked() for a in accs)
        for i in range(len(loops) - 1, -1, -1):
            head = for_loop(stage.loops[i])
            if i == 0 and chunked:
                n, size = stage.loops[0].name, size_text(stage.loops[0].size)
                head = f"for (i64 {n} = k_; {n} < {size} && {n} < k_ + {CHUNK}; {n}++) {{"
            lines = [head, *indent(loops[i].lines), *indent(lines), "}"]
        if chunked:
            lines = [
                f"for (i64 k_ = 0; k_ < {size_text(stage.loops[0].size)}; k_ += {CHUNK}) {{",
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
            self.local_names[acc.r.name] = (acc.total, 0, True)
        stage_lines = [
            f"auto stage{number} = [&](auto whole_) JC_BODY {{",
            *indent(outer.lines),
            *indent(lines),
            "};",
        ]
        call = f"if (all_ == W * U) stage{number}(Full{{}}); else stage{number}(Tail{{}});"
        return [*out, *stage_lines, call]


# ---------------------------------------------------------------------------------- small texts


def for_loop(a: Axis, lo: str = "0", hi: str = "") -> str:
    return f"for (i64 {a.name} = {lo}; {a.name} < {hi or size_text(a.size)}; {a.name}++) {{"


def decode(axes: tuple[Axis, ...], counter: str) -> list[str]:
    """Row axes from the unit's number."""
    if not axes:
        return []
    if len(axes) == 1:
        return [f"const i64 {axes[0].name} = {counter};"]
    lines = []
    step: Size = 1
    for i, a in enumerate(reversed(axes)):
        text = counter if i == 0 else f"{counter} / {size_text(step)}"
        if i < len(axes) - 1:
            text = f"({text}) % {size_text(a.size)}"
        lines.append(f"const i64 {a.name} = {text};")
        step = step * a.size
    return lines


def _weight(stage: Stage) -> int:
    return max(1, sum(1 for _ in stage.walk()) // 3)


# ---------------------------------------------------------------------------------- lanes
# All values of a loop have the same number of lanes. With one of 8 bytes they are JC_W64; a loop of
# masks and bytes alone, long enough to fill them, has JC_W8.

# Shorter rows would run in masked tails of so many lanes.
BYTES_FROM: Final = 256
# What has an instruction for bytes, or is made of such. (The rest goes through wider lanes.)
BYTE_FUNCTIONS: Final = frozenset(
    "and_ or_ xor not_ eq ne lt le gt ge where add sub neg min max abs".split()
)


def width(stages: Sequence[Stage], vector: Axis) -> str:
    """The C++ constant with the number of lanes along `vector`."""
    varying = [x for s in stages for x in _values(s) if vector in expr.axes(x)]
    if any(x.dtype.itemsize == 8 for x in varying):
        return "JC_W64"
    narrow = hint(vector.size) >= BYTES_FROM and all(map(_is_bytes, varying))
    return "JC_W8" if narrow and all(_is_plain(s, vector) for s in stages) else "JC_W32"


def _values(stage: Stage) -> list[Expr]:
    positions = (position_of(r) for r in stage.reductions if r.monoid.of is not None)
    return list(expr.walk(*stage.roots(), *positions))


def _is_bytes(x: Expr) -> bool:
    if isinstance(x, IndexOf) or (isinstance(x, Apply) and x.fn not in BYTE_FUNCTIONS):
        return False
    return isinstance(x, Const) or x.dtype.itemsize == 1


def _is_plain(stage: Stage, vector: Axis) -> bool:
    """True if each access is contiguous along the lanes, or the same in all of them."""
    steps = (affine.coefficient(i, affine.form(vector)) for i in stage.indices())
    return all(step is not None and (same(step, 0) or same(step, 1)) for step in steps)
