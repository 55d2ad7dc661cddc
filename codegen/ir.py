"""The compiler's data: Program (op calls) -> Loops (one nest per value) -> Kernels (fused) ->
Schedule. Each schema on one screen.

Program   what `jitcap/lower.py` hands over: pure op calls in order, values with static shapes.
Loops     every value as a function of its index (`Nest`), or an opaque step (`Step`: matrix
product, sort, callback ...). Kernel    what the emitters spell: a loop over rows; in each row,
stages in order; in each stage, inner loops.

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

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from codegen.affine import Affine, Axis
from codegen.expr import Expr
from eager.aval import Aval
from eager.dtype import DType
from eager.op import Op

# ---------------------------------------------------------------------------------- Program


@dataclass(frozen=True, eq=False, slots=True)
class Value:
    """A tensor or run-time scalar (weak aval) of a program. `strides` in elements, for inputs;
    None: contiguous."""

    id: int
    aval: Aval
    strides: tuple[int, ...] | None = None


@dataclass(frozen=True, eq=False, slots=True)
class Call:
    """One op call. `where` is the user's "file:line", for errors at run time."""

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
    the value."""

    inputs: tuple[Value, ...]
    calls: tuple[Call, ...]
    outputs: tuple[Value, ...]
    writes: tuple[tuple[Value, Value], ...] = ()
    checks: tuple[Check, ...] = ()


@dataclass(frozen=True, slots=True)
class Target:
    """What to compile for. `isa`: "native", "avx512", "avx2" or "baseline"; threads 0: as many as
    there are cores."""

    backend: Literal["cpp", "triton", "python"] = "cpp"
    isa: str = "native"
    threads: int = 0


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
    monoid: str = ""  # "", sum prod max min any all argmax argmin
    over: tuple[Affine, ...] = ()
    view: bool = False  # body is a single Read: a change of index, never worth memory
    where: str = ""
    op: str = ""  # the op that the value is of, for notes


@dataclass(frozen=True, eq=False, slots=True)
class Step:
    """An op that is not a loop over expressions; a library routine or a callback computes whole
    outputs."""

    call: Call
    name: str  # "dot", "conv", ..., "extern"


@dataclass(frozen=True, eq=False, slots=True)
class Loops:
    """Items in order of execution; each value is defined once."""

    program: Program
    items: tuple[Nest | Step, ...]


# ---------------------------------------------------------------------------------- Kernels

BufferKind = Literal["input", "scalar", "output", "temp", "row"]


@dataclass(frozen=True, eq=False, slots=True)
class Buffer:
    """Flat memory of `size` elements. "scalar": a run-time number. "row": private to one row of one
    kernel.

    `value` is the program value kept there; `alias` the input whose memory is written in place."""

    name: str
    dtype: DType
    size: int
    kind: BufferKind
    value: int = -1
    alias: str = ""


@dataclass(frozen=True, eq=False, slots=True)
class Store:
    """buffer[offset] = value; or combined by `mode` ("add", "prod", "amax", "amin") with what is
    there.

    Offsets of a "set" are distinct for distinct loop indices. A `mode` store, or one through an
    opaque index, may collide: its stage runs in loop order."""

    buffer: str
    offset: Affine
    value: Expr
    mode: str = "set"


@dataclass(frozen=True, eq=False, slots=True)
class Reduction:
    """Local `name` of `dtype` = the reduction of `value` over the stage's loops; value.dtype is the
    type it accumulates in.

    monoid: sum prod max min any all; argmax argmin give the `position` (an index form over the
    loops, int64) of the first extremum. NaN wins max, min, argmax and argmin."""

    name: str
    monoid: str
    dtype: DType
    value: Expr
    position: Affine | None = None


@dataclass(frozen=True, eq=False, slots=True)
class Stage:
    """Loops (outermost first; none: once per row) around reductions and stores."""

    loops: tuple[Axis, ...]
    reductions: tuple[Reduction, ...] = ()
    stores: tuple[Store, ...] = ()


@dataclass(frozen=True, eq=False, slots=True)
class Kernel:
    """Stages over independent rows. `note` says which ops were fused; `where` the first user's
    line."""

    name: str
    rows: tuple[Axis, ...]
    stages: tuple[Stage, ...]
    locals: tuple[Buffer, ...] = ()
    note: str = ""
    where: str = ""


@dataclass(frozen=True, eq=False, slots=True)
class Access:
    """A strided view of a buffer: `shape` and `strides` in elements, one per dimension, from
    `offset`."""

    buffer: str
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Library:
    """A step with its operands placed: `name` is the routine, `outs` buffers (contiguous), `reads`
    accesses or numbers."""

    name: str
    op: Op
    reads: tuple[Access | int | float | str, ...]  # a str names a scalar buffer
    outs: tuple[str, ...]
    attrs: Mapping[str, Any]
    avals: tuple[Aval, ...]  # of the operands
    out_avals: tuple[Aval, ...]
    where: str = ""


@dataclass(frozen=True, eq=False, slots=True)
class Refusal:
    """Why a value was not fused into a kernel: the record behind JITCAP_DEBUG=4."""

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


@dataclass(frozen=True, eq=False, slots=True)
class Schedule:
    """How the CPU runs a kernel. `vector`: the axis spread over SIMD lanes, per stage (None:
    scalar); `parallel`: rows are shared among threads. `row_vector`: lanes hold neighbouring rows
    (reductions over an outer dimension)."""

    vector: tuple[Axis | None, ...]
    parallel: bool
    row_vector: Axis | None = None
    across: Axis | None = (
        None  # a transpose: the row axis along which other accesses are contiguous
    )


@dataclass(frozen=True, eq=False, slots=True)
class Tiled:
    """Fused kernels with axes split and merged, and a schedule by kernel name."""

    fused: Fused
    schedules: Mapping[str, Schedule]


@dataclass(frozen=True, eq=False, slots=True)
class Plan:
    """Byte offsets of the temporaries in the arena, and its size; `peak` is the planned peak of
    temporaries."""

    offsets: Mapping[str, int]
    arena_bytes: int
    notes: tuple[str, ...] = field(default=())
