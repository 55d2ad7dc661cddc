"""The compiler's data: Program (op calls) -> Loops (one nest per value) -> Kernels (fused) ->
Schedule. Each schema on one screen.

Program   what `jitcap/compile/lower.py` hands over: pure op calls in order, of known shapes.
Loops     every value as a function of its index (`Nest`), or an opaque step (`Step`: matrix
          product, sort, callback ...).
Kernel    what the emitters spell: a loop over rows; in each row, stages in order; in each stage,
          inner loops.

A fused softmax over the last dimension of x[4096, 1000] is

    Kernel("k0", rows=(r0: 4096,), stages=(
        Stage(loops=(c0: 1000,), reductions=(Reduction("m", "max", float32, x[r0*1000 + c0]),)),
        Stage(loops=(c0: 1000,), reductions=(Reduction("s", "sum", float32, exp(x[..] - m)),),
              stores=(Store("e", c0, exp(..)),)),
        Stage(loops=(c0: 1000,), stores=(Store("out", r0*1000 + c0, e[c0] / s),)),
    ), locals=(Buffer("e", float32, 1000, "row"),))

and means, as executable Python, `codegen.show` of it. Rows are independent (any order, in
parallel); within a row, a stage is complete before the next starts; within a stage, reductions and
stores at one loop index happen together in any loop order.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import field, replace
from typing import Any, Literal

from codegen.ir import affine, expr
from codegen.ir.affine import Affine, Axis
from codegen.ir.expr import Checked, Expr, Load
from codegen.ir.monoid import Monoid
from codegen.ir.rewrite import Rewrite
from codegen.ir.sizes import Shape, Size
from eager.base.dataclass import dataclass
from eager.base.dtype import DType
from eager.base.recorder import UserLine
from eager.core.op import Op
from eager.sizes.aval import Aval, contiguous_strides
from eager.sizes.substitute import symbols_in
from eager.sizes.symint import Symbol, symbols_of

# ---------------------------------------------------------------------------------- Program


@dataclass(frozen=True, eq=False, slots=True)
class Value:
    """A tensor or run-time scalar (weak aval) of a program. `strides` in elements, for inputs;
    None: contiguous. `symbol`: the name of the symbol of which an input is the value."""

    id: int
    aval: Aval
    strides: Shape | None = None
    symbol: str = ""

    @property
    def layout(self) -> Shape:
        """Strides of the value in memory."""
        return contiguous_strides(self.aval.shape) if self.strides is None else self.strides


class Line(str):
    """The user's "file:line", and what else is known of it. Texts are made of the line alone: of
    programs that differ in the rest only they are the same."""

    __slots__ = ("whole",)
    whole: UserLine

    @classmethod
    def of(cls, whole: UserLine) -> Line:
        made = cls(whole.line)
        made.whole = whole
        return made


def line_of(where: str) -> UserLine:
    """A line, with all that is known of it."""
    return where.whole if isinstance(where, Line) else UserLine(where)


@dataclass(frozen=True, eq=False, slots=True)
class Call:
    """One op call. `where` is the user's "file:line" (a `Line`, where more is known), for errors at
    run time."""

    op: Op
    operands: tuple[Value | bool | int | float | complex, ...]
    attrs: Mapping[str, Any]
    outs: tuple[Value, ...]
    where: str = ""


@dataclass(frozen=True, eq=False, slots=True)
class Check:
    """A bool (a scalar) that must be true, or the run fails before it has written an input. `where`
    says what was expected, then "|", then the user's "file:line"."""

    value: Value
    where: str


@dataclass(frozen=True, eq=False, slots=True)
class Program:
    """Calls in order of execution. `writes` (input, value): after the run the input's memory holds
    the value. Every symbol in a size is the value of an input. `resident`: it runs in a device's
    memory, where its run-time scalars lie, too. `prefix`: of the names of its kernels, which are
    those of no other program of the compile."""

    inputs: tuple[Value, ...]
    calls: tuple[Call, ...]
    outputs: tuple[Value, ...]
    writes: tuple[tuple[Value, Value], ...] = ()
    checks: tuple[Check, ...] = ()
    resident: bool = False
    prefix: str = ""

    @property
    def symbols(self) -> dict[str, int]:
        """The positions of the inputs that are symbols' values, by name."""
        return {v.symbol: i for i, v in enumerate(self.inputs) if v.symbol}

    def used_symbols(self) -> set[Symbol]:
        """The symbols in its sizes."""
        sizes = {v.aval.shape for call in self.calls for v in call.outs}
        sizes |= {shape for v in self.inputs for shape in (v.aval.shape, v.layout)}
        return symbols_in((*sizes, *(call.attrs for call in self.calls)))

    def raises(self, known: dict[Program, bool]) -> bool:
        """True if it calls a function that may raise. `known`: memo of the answers for other
        programs."""
        if self not in known:
            known[self] = any(
                call.op.raises or any(p.raises(known) for p in call.attrs.get("programs", ()))
                for call in self.calls
            )
        return known[self]

    def values(self) -> Iterator[Value]:
        """The inputs, and what calls define."""
        yield from self.inputs
        for call in self.calls:
            yield from call.outs

    def free_ids(self) -> itertools.count[int]:
        """Numbers of values that it does not have."""
        used = [v.id for v in self.inputs] + [v.id for call in self.calls for v in call.outs]
        return itertools.count(1 + max(used, default=0))

    def wanted(self) -> Iterator[Value]:
        """Values that are read of it from outside."""
        yield from self.outputs
        yield from (v for _, v in self.writes)
        yield from (check.value for check in self.checks)


@dataclass(frozen=True, slots=True)
class Target:
    """Target of a compilation. `isa`: "native", "avx512", "avx2" or "baseline". `place`: the device
    whose arrays a program for one takes and gives, under its `name`; "": it takes and gives those
    of the host. `prefix`: of the names of kernels, where a graph becomes several programs."""

    backend: str = "cpp"  # a key of codegen.BACKENDS
    isa: str = "native"
    place: str = ""
    name: str = ""
    prefix: str = ""


class Unsupported(Exception):
    """The program needs something this backend does not compile: the caller runs it in eager. Says
    what and where."""


# ---------------------------------------------------------------------------------- Loops


@dataclass(frozen=True, eq=False, slots=True)
class Nest:
    """value[axes] = body, or, with a monoid, the reduction of body over `over` (axes outside
    `axes`)."""

    value: Value
    axes: tuple[Affine, ...]  # one per dimension of the value: an Axis, or 0 for size 1
    body: Expr
    monoid: Monoid | None = None
    over: tuple[Affine, ...] = ()
    view: bool = False  # body is a single Read: a change of index, never worth memory
    where: str = ""
    op: str = ""  # the op that the value is of, for notes


@dataclass(frozen=True, eq=False, slots=True)
class Step:
    """An op that is not a loop over expressions; a library routine or a callback computes whole
    outputs."""

    call: Call


@dataclass(frozen=True, eq=False, slots=True)
class Loops:
    """Items in order of execution; each value is defined once."""

    program: Program
    items: tuple[Nest | Step, ...]

    def by_id(self) -> dict[int, Value]:
        """The inputs, and what items define, by number."""
        found = {v.id: v for v in self.program.inputs}
        for item in self.items:
            outs = item.call.outs if isinstance(item, Step) else (item.value,)
            for v in outs:
                found[v.id] = v
        return found


# ---------------------------------------------------------------------------------- Kernels

BufferKind = Literal["input", "scalar", "output", "temp", "row"]


@dataclass(frozen=True, eq=False, slots=True)
class Buffer:
    """Flat memory of `size` elements. "scalar": a run-time number. "row": private to one row of one
    kernel.

    `alias`: the buffer whose memory it is, from the byte `offset` on: an input that is written in
    place, or what a step of a loop sees of another."""

    name: str
    dtype: DType
    size: Size
    kind: BufferKind
    alias: str = ""
    offset: int = 0

    @property
    def nbytes(self) -> Size:
        return self.size * self.dtype.itemsize

    @property
    def home(self) -> str:
        """The buffer whose memory it is."""
        return self.alias or self.name

    def over(self, alias: str) -> Buffer:
        """This buffer in the memory of another."""
        return Buffer(self.name, self.dtype, self.size, self.kind, alias, self.offset)


@dataclass(frozen=True, eq=False, slots=True)
class Store:
    """buffer[offset] = value; or, with a monoid, combined with what is there.

    Offsets are distinct for distinct loop indices. A store that combines, or one through an opaque
    index, may collide: its stage runs in loop order."""

    buffer: str
    offset: Affine
    value: Expr
    monoid: Monoid | None = None


@dataclass(frozen=True, eq=False, slots=True)
class Reduction:
    """Local `name` of `dtype` = the reduction of `value` over the stage's loops; value.dtype is the
    type it accumulates in.

    argmax and argmin give the `position` (an index form over the loops, int64) of the first
    extremum. NaN wins max, min, argmax and argmin."""

    name: str
    monoid: Monoid
    dtype: DType
    value: Expr
    position: Affine | None = None


@dataclass(frozen=True, eq=False, slots=True)
class Stage:
    """Loops (outermost first; none: once per row) around reductions and stores."""

    loops: tuple[Axis, ...]
    reductions: tuple[Reduction, ...] = ()
    stores: tuple[Store, ...] = ()

    def roots(self) -> tuple[Expr, ...]:
        """Every expression that is computed, those inside the stores' offsets included."""
        found = [r.value for r in self.reductions]
        for s in self.stores:
            found += [s.value, *affine.opaques(s.offset)]
        return tuple(found)

    def walk(self) -> Iterable[Expr]:
        """Every distinct expression, operands first."""
        return expr.walk(*self.roots())

    def loads(self) -> Iterator[Load]:
        return (x for x in self.walk() if isinstance(x, Load))

    def indices(self) -> Iterator[Affine]:
        """Every index form: of stores, loads and index values."""
        for s in self.stores:
            yield s.offset
        for x in self.walk():
            yield from expr.indices(x)

    def map(self, by: Rewrite, loops: tuple[Axis, ...] | None = None) -> Stage:
        """The stage with every expression and index through `by`, and other `loops` around it."""
        return Stage(
            self.loops if loops is None else loops,
            tuple(
                replace(
                    r,
                    value=by(r.value),
                    position=None if r.position is None else by.index(r.position),
                )
                for r in self.reductions
            ),
            tuple(replace(s, offset=by.index(s.offset), value=by(s.value)) for s in self.stores),
        )


Touched = dict[str, tuple[str, ...]]  # buffers that an item reads and writes: each stage asks


@dataclass(frozen=True, eq=False, slots=True)
class Kernel:
    """Stages over independent rows. `note` says which ops were fused; `where` the first user's
    line; `origins` each op with its place and for how many elements it is computed."""

    name: str
    rows: tuple[Axis, ...]
    stages: tuple[Stage, ...]
    locals: tuple[Buffer, ...] = ()
    note: str = ""
    where: str = ""
    origins: tuple[tuple[str, UserLine, Size], ...] = ()
    touched: Touched = field(default_factory=dict, init=False, repr=False)

    def loads(self) -> Iterator[Load]:
        return (x for stage in self.stages for x in stage.loads())

    def stores(self) -> Iterator[Store]:
        return (s for stage in self.stages for s in stage.stores)

    def reads(self) -> tuple[str, ...]:
        """The buffers that it loads from, by first use."""
        known = self.touched.get("reads")
        if known is None:
            known = self.touched["reads"] = tuple(dict.fromkeys(x.buffer for x in self.loads()))
        return known

    def writes(self) -> tuple[str, ...]:
        """The buffers that it stores to, by first use."""
        known = self.touched.get("writes")
        if known is None:
            known = self.touched["writes"] = tuple(dict.fromkeys(s.buffer for s in self.stores()))
        return known

    def symbols(self) -> tuple[str, ...]:
        """The symbols in its sizes and indices, sorted."""
        sizes: list[Any] = [a.size for a in self.rows]
        sizes += [b.size for b in self.locals]
        for stage in self.stages:
            sizes += [a.size for a in stage.loops]
            for x in stage.walk():
                sizes += (x.lo, x.hi) if isinstance(x, Checked) else ()
            for index in stage.indices():
                sizes += affine.sizes(index)
        return tuple(sorted({s.name for n in sizes for s in symbols_of(n)}))

    def is_elementwise(self) -> bool:
        """True if it only stores, in one nest of loops."""
        return len(self.stages) == 1 and not self.stages[0].reductions and not self.locals


@dataclass(frozen=True, eq=False, slots=True)
class Access:
    """A strided view of a buffer: `shape` and `strides` in elements, one per dimension, from
    `offset`."""

    buffer: str
    offset: Size
    shape: Shape
    strides: Shape


@dataclass(frozen=True, eq=False, slots=True)
class Library:
    """A step with its operands placed; `outs` are buffers (contiguous).

    `epilogue`: the elementwise kernel that makes of the result, of which it loads each element, all
    that is stored (`fuse/epilogues.py`)."""

    op: Op
    operands: tuple[Access | int | float | str, ...]  # a str names the buffer of a number
    outs: tuple[str, ...]
    attrs: Mapping[str, Any]
    avals: tuple[Aval, ...]  # of the operands
    out_avals: tuple[Aval, ...]
    where: str = ""
    bodies: tuple[Any, ...] = ()  # the programs of its attributes, compiled (`fuse/bodies.py`)
    epilogue: Kernel | None = None
    touched: Touched = field(default_factory=dict, init=False, repr=False)

    @property
    def name(self) -> str:
        """The op's, by which a target finds how to write it (`codegen.ir.routine`)."""
        return self.op.name

    @property
    def label(self) -> str:
        """Name of a kernel that stands for it: its first result has the number."""
        return "_".join((self.name, *self.outs[:1]))

    def fails(self, known: dict[Program, bool]) -> bool:
        """True if it can make the run fail: a function that may raise. `known`: memo of the
        programs that have one."""
        return self.op.raises or any(p.raises(known) for p in self.attrs.get("programs", ()))

    def reads(self) -> tuple[str, ...]:
        """The buffers of its operands, and those that its epilogue reads besides the result."""
        known = self.touched.get("reads")
        if known is None:
            names: list[Any] = [x.buffer if type(x) is Access else x for x in self.operands]
            if self.epilogue is not None:
                names += (name for name in self.epilogue.reads() if name not in self.outs)
            known = tuple(dict.fromkeys([x for x in names if type(x) is str]))
            self.touched["reads"] = known
        return known

    def writes(self) -> tuple[str, ...]:
        return self.outs if self.epilogue is None else self.epilogue.writes()


@dataclass(frozen=True, eq=False, slots=True)
class Refusal:
    """Reason why a value was not fused into a kernel: the record behind JITCAP_DEBUG=4."""

    what: str
    into: str
    why: str


@dataclass(frozen=True, eq=False, slots=True)
class Fused:
    """The whole program after fusion: items in order of execution over named buffers."""

    program: Program
    buffers: Mapping[str, Buffer]
    items: tuple[Kernel | Library, ...]
    outputs: tuple[Access, ...]  # where each program output lies
    refusals: tuple[Refusal, ...] = ()

    def kernels(self) -> Iterator[Kernel]:
        return (item for item in self.items if isinstance(item, Kernel))

    def failing(self) -> set[int]:
        """The positions of the items that can make the run fail: that have a check of the program,
        or call a function that may raise."""
        checks = {f"v{check.value.id}" for check in self.program.checks}
        known: dict[Program, bool] = {}  # many items call one program
        return {
            i
            for i, item in enumerate(self.items)
            if (isinstance(item, Library) and item.fails(known))
            or not checks.isdisjoint(item.writes())
        }

    def touching(
        self, names: Set[str] | None = None
    ) -> tuple[dict[str, list[int]], dict[str, list[int]]]:
        """The positions of the items that read, and of those that write, each buffer, or each of
        `names`; in order."""
        readers: dict[str, list[int]] = defaultdict(list)
        writers: dict[str, list[int]] = defaultdict(list)
        for i, item in enumerate(self.items):
            for found, touched in ((readers, item.reads()), (writers, item.writes())):
                for name in touched if names is None else names & {*touched}:
                    found[name].append(i)
        return dict(readers), dict(writers)

    def map_kernels(self, rule: Callable[[Kernel], Iterable[Kernel]]) -> Fused:
        """Each kernel replaced by what `rule` makes of it."""
        items: list[Kernel | Library] = []
        for item in self.items:
            items += rule(item) if isinstance(item, Kernel) else (item,)
        return replace(self, items=tuple(items))

    def homes(self, names: Iterable[str]) -> set[str]:
        """The memory behind buffers: those that share it are one."""
        return homes(names, self.buffers)


def homes(names: Iterable[str], buffers: Mapping[str, Buffer]) -> set[str]:
    """The memory behind buffers; a kernel's own are in no table."""
    return {(b.alias or name) if (b := buffers.get(name)) else name for name in names}


@dataclass(frozen=True, eq=False, slots=True)
class Schedule:
    """Schedule of a kernel on the CPU. `vector`: the axis spread over SIMD lanes, per stage (None:
    scalar); `parallel`: rows are shared among threads. `row_vector`: lanes hold neighbouring rows
    (reductions over an outer dimension)."""

    vector: tuple[Axis | None, ...]
    parallel: bool
    row_vector: Axis | None = None
    # A transpose: the row axis along which other accesses are contiguous.
    across: Axis | None = None


@dataclass(frozen=True, eq=False, slots=True)
class Tiled:
    """Fused kernels with axes split and merged, and a schedule by kernel name."""

    fused: Fused
    schedules: Mapping[str, Schedule]


@dataclass(frozen=True, eq=False, slots=True)
class Plan:
    """Byte offsets of the temporaries in the arena, and its size. Or, where sizes are symbolic, the
    `blocks` to be placed at run time: (first item, last item, bytes) by name. (Those of a body are
    lined up instead.)"""

    offsets: Mapping[str, Size]
    arena_bytes: Size
    blocks: Mapping[str, tuple[int, int, Size]] = field(default_factory=dict)

    @property
    def is_symbolic(self) -> bool:
        return bool(self.blocks)

    def slot(self, name: str) -> int:
        """The number of a block, in the order of `blocks`."""
        return list(self.blocks).index(name)
