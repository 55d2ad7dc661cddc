"""Library steps as C++: calls of routines of jitcap_*.h, or of host callbacks. Library -> lines.

    lines = call(step, places, hosts, site)      # one block { ... } of the entry function
    bytes = scratch_bytes(step)                  # what the plan reserves as scratch_name(step)
    includes = headers(steps)                    # ("jitcap_dot.h", "jitcap_conv.h")
    declared, libraries = heavy(steps)           # what is compiled once, for all programs

The lines stand in the entry itself, outside any parallel region (each routine opens its own), and
use its names `arena` and `b` (where the host functions are). Scratch is private to the step and
free again after it; it has room for `threads.room()` members of a team, and results
do not depend on how many there are.

Reads may have any strides: `dot` takes them as they are; other routines get contiguous memory, by
a copy into scratch if need be. A step without a routine is a callback: the
op's NumPy kernel runs on arrays over the compiled graph's memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias

from codegen.ir.routine import anything, is_real, spell, spelling
from codegen.ir.schema import Access, Library
from codegen.ir.sizes import Shape, Size, same, some
from codegen.runtime.artifact import Exchange, Host, Spec
from codegen.runtime.callback import callback
from codegen.targets.cpp import blocks, control, conv, exchange, linalg, rows, signal
from codegen.targets.cpp.step import Addresses, CppCall, Writer, alike, is_float
from codegen.targets.cpp.table import MEMORY, size_text
from eager.base import dtype as dt

Calls: TypeAlias = dict[str, CppCall]  # by the name of the op


def call(
    step: Library,
    places: Addresses,
    hosts: list[Host | Exchange],
    site: Callable[[str], int],
    bodies: Sequence[str] = (),
    after: str = "",
) -> list[str]:
    """The lines that run `step`. Functions that stay in Python are added to `hosts`; `site` numbers
    a place that can fail; `bodies` are the functions of the step's bodies, `after` that of its
    epilogue with its parameters."""
    w = Writer(step, places, hosts, site, after=after)
    routine(step).write(w, *bodies)
    note = f"  // {step.where}" if step.where else ""
    return ["{" + note, *(f"  {line}" for line in w.lines), "}"]


def scratch_bytes(step: Library) -> Size:
    """Scratch memory of `step`, for `threads.room()` threads."""
    w, known = Writer(step, _Nowhere(), [], lambda _: 0), routine(step)
    if known.room:
        w.take(known.room(step))
    else:
        known.write(w, *["body"] * len(step.bodies))
    return w.used


def scratch_name(step: Library) -> str:
    """The name under which a plan keeps the scratch memory of `step`."""
    return f"{step.outs[0]}.scratch"


def headers(steps: Iterable[Library]) -> tuple[str, ...]:
    """The headers that define the routines of `steps`."""
    return tuple(sorted({routine(s).header for s in steps}))


def heavy(steps: Iterable[Library]) -> tuple[list[str], dict[str, str]]:
    """Routines that are compiled apart: (lines that declare them in the graph's source, sources by
    file name). Both empty if there are none. A source holds all such routines in one type, so that
    its text is the same for every program: they share most of their code."""
    types = {s: MEMORY[s.out_avals[0].dtype.name] for s in steps if routine(s).heavy}
    names = sorted({routine(s).heavy.format(T=t) for s, t in types.items()})
    if not names:
        return [], {}
    declared = ["namespace jc {", *(f"extern template {name};" for name in names), "}"]
    return declared, {f"library_{t}.cpp": _library(t) for t in sorted(set(types.values()))}


def _library(ctype: str) -> str:
    """The source of all heavy routines for elements of a type."""
    routines = [r for r in CALLS.values() if r.heavy]
    includes = (f'#include "{header}"' for header in sorted({r.header for r in routines}))
    made = (f"template {r.heavy.format(T=ctype)};" for r in routines)
    return "\n".join([*includes, "namespace jc {", *made, "}", ""])


class _Nowhere:
    """Places for measuring only."""

    first_host = 0
    top = work = "b"

    def __init__(self) -> None:
        self.under_way: dict[str, int] = {}

    def slot(self, name: str) -> str:
        return name

    def pointer(self, name: str) -> str:
        return name

    def location(self, name: str) -> int | None:
        return 0

    def argument(self, name: str) -> str:
        return name

    def scratch(self, step: Library) -> str:
        return "scratch"


# ---------------------------------------------------------------------------------- matrix products


def _dot(w: Writer) -> None:
    """out[*B, M, N] = a[*B, M, K] @ b[*B, K, N]."""
    a, b = w.access(0), w.access(1)
    *batch, m, k = a.shape
    dims = merge(tuple(batch), a.strides[:-2], b.strides[:-2])
    w.table("i64", "batch", (v for dim in dims or [(1, 0, 0)] for v in dim))
    operands = _matrix(w, 0), _right(w, 1)
    then, out = ("_then", w.after) if w.after else ("", w.out())
    rank = max(len(dims), 1)
    w.call(f"dot{then}<{w.ctype(0)}>", m, b.shape[-1], k, *operands, out, rank, "batch")


def _matrix(w: Writer, i: int) -> str:
    """Operand `i` as a JcView."""
    return f"{{{w.at(i)}, {', '.join(map(size_text, w.access(i).strides[-2:]))}}}"


def _right(w: Writer, i: int) -> str:
    """Operand `i`, on the right of a product, as a JcView with the panels behind it, if the step
    has these: from the row and the column `place` of a matrix of `deep` rows on."""
    if i + 1 == len(w.step.operands):
        return _matrix(w, i)
    a = w.step.attrs
    numbers = (a.get("deep", w.access(i).shape[-2]), *a.get("place", (0, 0)))
    return f"{{{_matrix(w, i)[1:-1]}, {{{w.at(i + 1)}, {', '.join(map(size_text, numbers))}}}}}"


def _pack(w: Writer) -> None:
    """The panels of b[*B, K, N]."""
    b = w.access(0)
    *batch, k, n = b.shape
    dims = merge(tuple(batch), b.strides[:-2], b.strides[:-2])
    w.table("i64", "batch", (v for dim in dims or [(1, 0, 0)] for v in dim))
    rank = max(len(dims), 1)
    w.call(f"pack_ahead<{w.ctype(0)}>", k, n, _matrix(w, 0), w.out(), rank, "batch")


def _dot_add(w: Writer) -> None:
    """out[M, N] = c[M, N] + a[M, K] @ b[K, N]; out is c's memory where the step says so."""
    (m, k), n = w.access(1).shape, w.access(2).shape[1]
    if not w.step.attrs.get("writes"):
        w.call("__builtin_memcpy", w.out(), w.dense(0), size_text(w.step.out_avals[0].nbytes))
    a, b = (f"JcView<{w.ctype(1)}>{text}" for text in (_matrix(w, 1), _right(w, 2)))
    w.call("product", m, n, k, a, b, w.out(), n, "true")


def _multiplies(step: Library) -> bool:
    """True if the brick computes such a product, of 16 bits or more: for `Spelling.fits`."""
    a, b = (x.dtype for x in step.avals)
    out = step.out_avals[0].dtype
    return is_float(step) or (a is b and a.itemsize == 2 and out in (dt.float16, dt.bfloat16))


def merge(shape: Shape, *strides: Shape) -> list[Shape]:
    """Dimensions (size, stride, stride, ...) with neighbours joined where all strides allow it."""
    out: list[Shape] = []
    for size, *steps in zip(shape, *strides, strict=True):
        if same(size, 1):
            continue
        if out and all(same(o, s * size) for o, s in zip(out[-1][1:], steps, strict=True)):
            out[-1] = (out[-1][0] * size, *steps)
        else:
            out.append((size, *steps))
    return out


# ---------------------------------------------------------------------------------- callbacks


def _host(w: Writer) -> None:
    """A callback into the op's own NumPy kernel. Numbers among the operands are bound in it;
    run-time scalars are passed; what the program computes lies in memory."""
    number, step = len(w.hosts), w.step
    tensors = [i for i, r in enumerate(step.operands) if isinstance(r, Access)]
    slots = [i for i, r in enumerate(step.operands) if isinstance(r, str)]
    args = [f"(void *)({w.dense(i)})" for i in tensors]
    for i in slots:
        name = str(step.operands[i])
        given = w.places.slot(name)
        if given:
            w.lines.append(f"{w.ctype(i)} n{i} = {w.places.argument(name)};")
        args.append(f"(void *)&n{i}" if given else f"(void *){w.places.pointer(name)}")
    args += [f"(void *)({w.places.pointer(o)})" for o in step.outs]
    ins = [Spec(w.aval(i).shape, w.aval(i).dtype.np) for i in (*tensors, *slots)]
    outs = tuple(Spec(a.shape, a.dtype.np) for a in step.out_avals)
    w.hosts.append(Host(callback(step), tuple(ins), outs))
    host = f"{w.places.top}[{w.places.first_host + number}]"
    w.lines += [
        f"void *args[] = {{{', '.join(args)}}};",
        f"if (!jc_hosted({host}, {number}, args)) return 1;",
    ]


NOTHING: Final = CppCall(lambda w: None)
HOST: Final = CppCall(_host)
WHOLE: Final = (dt.uint8, dt.int8, dt.int16, dt.int32, dt.int64)
FLOATS: Final = (dt.float32, dt.float64)


def _of(header: str, fits: Callable[[Library], bool], **writers: Callable[..., None]) -> Calls:
    """Spellings by name, of one header, for the same operands."""
    return {name: CppCall(write, fits, f"jitcap_{header}.h") for name, write in writers.items()}


def _complex(rule: Callable[[str], Callable[[Writer], None]], **structs: str) -> Calls:
    """Complex numbers: each op by the struct of jitcap_complex.h that computes an element."""
    fits = signal.complex_operand if rule is signal.each else signal.complex_operands
    return _of("complex", fits, **{name: rule(struct) for name, struct in structs.items()})


CALLS: Final[Calls] = {
    **_of("dot", _multiplies, dot=_dot),
    **_of("dot", is_float, dot_add=_dot_add, dot_packed=_dot, pack=_pack),
    "conv": CppCall(conv.conv, is_float, "jitcap_conv.h", conv.FORWARD),
    "conv_input_grad": CppCall(
        conv.conv_input_grad, is_float, "jitcap_conv.h", conv.INPUT_GRAD
    ),
    "conv_weight_grad": CppCall(
        conv.conv_weight_grad, is_float, "jitcap_conv_weight.h", conv.WEIGHT_GRAD
    ),
    **_of(
        "pool", is_float,
        max_pool=rows.max_pool, sum_pool=rows.sum_pool, sum_pool_grad=rows.sum_pool_grad,
    ),
    **_of("scan", is_real, **dict.fromkeys(("cumsum", "cumprod", "cummax", "cummin"), rows.scan)),
    **_of("scan", signal.real_operand, logcumsumexp=signal.logcumsumexp),
    **_of("sort", is_real, sort=rows.sort),
    **_of(
        "scatter", is_real,
        scatter=rows.scatter, scatter_reduce=rows.scatter, index_add=rows.index_add,
        index_put=rows.index_put,
    ),
    **_of("fft", signal.wide_parts, fft_c2c=signal.c2c, fft_r2c=signal.r2c, fft_c2r=signal.c2r),
    **_of("search", alike(*WHOLE, *FLOATS), searchsorted=signal.searchsorted),
    **_of("polynomial", alike(*FLOATS), polynomial=signal.polynomial),
    **_of(
        "linalg", linalg.possible,
        solve=linalg.solve, inv=linalg.inv, det=linalg.determinant, slogdet=linalg.determinant,
        cholesky=linalg.cholesky, cholesky_solve=linalg.cholesky_solve, pivots=linalg.pivots,
        plain_lu=linalg.plain_lu,
    ),
    **_of("bits", alike(*FLOATS), nextafter=signal.nextafter, frexp=signal.frexp),
    **_of("complex", signal.to_complex, cast=signal.of_real),
    **_of("complex", alike(*FLOATS), complex=signal.binary("Pair")),
    **_of(
        "complex", anything,
        view_as_real=signal.as_parts, view_as_complex=signal.as_parts,
        with_real=signal.each("WithRe"), with_imag=signal.each("WithIm"),
    ),
    **_complex(
        signal.each,
        real="Re", imag="Im", conj="Conj", angle="Angle", abs="Abs", neg="Neg", clone="Same",
        square="Squared", reciprocal="Inverse",
    ),
    **_complex(signal.binary, add="Plus", sub="Minus", mul="Times", div="Over"),
    **_of(
        "dot", anything,
        scan=control.scan, cond=control.cond, while_loop=control.repeat, blocks=blocks.blocks,
    ),
    "call": CppCall(control.call, anything, room=control.room),
    **_of("exchange", exchange.fits, **dict.fromkeys(exchange.STARTS, exchange.start)),
    **_of("exchange", anything, wait=exchange.wait),
}  # fmt: skip
spell("cpp", CALLS)


def routine(step: Library) -> CppCall:
    """The routine that runs `step`, or the callback. Empty results need no work."""
    if step.name in CALLS and not step.bodies and not any(some(a.numel) for a in step.out_avals):
        return NOTHING
    return spelling(step, "cpp") or HOST
