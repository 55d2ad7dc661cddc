"""Library steps as C++: calls of routines of jitcap_*.h, or of host callbacks. Library -> lines.

    lines = call(step, places, hosts, site)      # one block { ... } of the entry function
    bytes = scratch_bytes(step)                  # what the plan reserves as scratch_name(step)
    includes = headers(steps)                    # ("jitcap_dot.h", "jitcap_conv.h")
    declared, libraries = heavy(steps)           # what is compiled once, for all programs

The lines stand in the entry itself, outside any parallel region (each routine opens its own), and
use its names `arena` and `b` (where the host functions are). Scratch is private to the step and
free again after it; it has room for `threads.room()` members of a team, and results
do not depend on how many there are.

Reads may have any strides: `dot` hands them to BLAS where it can take them; other routines get
contiguous memory, by a copy into scratch if need be. A step without a routine is a callback: the
op's NumPy kernel runs on arrays over the compiled graph's memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from codegen.fuse.operand_views import matrix_order
from codegen.ir.schema import Access, Library
from codegen.ir.sizes import Shape, Size, same, some
from codegen.runtime.artifact import Host, Spec
from codegen.runtime.callback import callback
from codegen.targets.cpp import control, conv, linalg, rows, signal
from codegen.targets.cpp.step import Places, Routine, Writer, alike
from codegen.targets.cpp.table import MEMORY, size_text
from eager import dtype as dt
from eager.aval import contiguous_strides
from eager.dataclass import dataclass


def call(
    step: Library,
    places: Places,
    hosts: list[Host],
    site: Callable[[str], int],
    bodies: Sequence[str] = (),
) -> list[str]:
    """The lines that run `step`. Functions that stay in Python are added to `hosts`; `site` numbers
    a place that can fail; `bodies` are the functions of the step's bodies."""
    w = Writer(step, places, hosts, site)
    write(w, bodies)
    note = f"  // {step.where}" if step.where else ""
    return ["{" + note, *(f"  {line}" for line in w.lines), "}"]


def scratch_bytes(step: Library) -> Size:
    """Scratch memory of `step`, for `threads.room()` threads."""
    w = Writer(step, _Nowhere(), [], lambda _: 0)
    write(w, ["body"] * len(step.bodies))
    return w.used


def write(w: Writer, bodies: Sequence[str]) -> None:
    if w.step.bodies:
        CONTROL[w.step.name](w, *bodies)
    else:
        routine(w.step).write(w)


def scratch_name(step: Library) -> str:
    """The name under which a plan keeps the scratch memory of `step`."""
    return f"{step.outs[0]}.scratch"


def headers(steps: Iterable[Library]) -> tuple[str, ...]:
    """The headers that define the routines of `steps`."""
    return tuple(sorted({"jitcap_dot.h" if s.bodies else routine(s).header for s in steps}))


def heavy(steps: Iterable[Library]) -> tuple[list[str], dict[str, str]]:
    """Routines that are compiled apart: (lines that declare them in the graph's source, sources by
    file name). Both empty if there are none. A source holds all such routines in one type, so that
    its text is the same for every program: they share most of their code."""
    types = {
        s: MEMORY[s.out_avals[0].dtype.name] for s in steps if not s.bodies and routine(s).heavy
    }
    names = sorted({routine(s).heavy.format(T=t) for s, t in types.items()})
    if not names:
        return [], {}
    declared = ["namespace jc {", *(f"extern template {name};" for name in names), "}"]
    return declared, {f"library_{t}.cpp": _library(t) for t in sorted(set(types.values()))}


def _library(ctype: str) -> str:
    """The source of all heavy routines for elements of a type."""
    routines = [r for r in ROUTINES.values() if r.heavy]
    includes = (f'#include "{header}"' for header in sorted({r.header for r in routines}))
    made = (f"template {r.heavy.format(T=ctype)};" for r in routines)
    return "\n".join([*includes, "namespace jc {", *made, "}", ""])


class _Nowhere:
    """Places for measuring only."""

    first_host = 0
    top = work = "b"

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


@dataclass(frozen=True, slots=True)
class _Operand:
    """A matrix operand: text of its Matrix<T>, and the strides of its batch dimensions."""

    text: str
    batch: Shape


def _dot(w: Writer) -> None:
    """out[*B, M, N] = a[*B, M, K] @ b[*B, K, N]."""
    a, b = _matrix(w, 0), _matrix(w, 1)
    *batch, m, k = w.access(0).shape
    n = w.access(1).shape[-1]
    dims = merge(tuple(batch), a.batch, b.batch)
    ctype = w.ctype(0)
    w.table("i64", "batch", (v for dim in dims or [(1, 0, 0)] for v in dim))
    w.call(f"dot<{ctype}>", m, n, k, a.text, b.text, w.out(), max(len(dims), 1), "batch")


def _matrix(w: Writer, i: int) -> _Operand:
    """Read `i` as BLAS takes it (one of the last two strides is 1), copied if it is not so."""
    x = w.access(i)
    order = matrix_order(x.shape, x.strides)
    pointer, batch = w.at(i), x.strides[:-2]
    if order is None:
        pointer, batch = w.dense(i), contiguous_strides(x.shape)[:-2]
        order = False, x.shape[-1] if some(x.shape[-1]) else 1
    transposed, ld = order
    return _Operand(f"{{{pointer}, {size_text(ld)}, {str(transposed).lower()}}}", batch)


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
    run-time scalars are passed."""
    number, step = len(w.hosts), w.step
    tensors = [i for i, r in enumerate(step.operands) if isinstance(r, Access)]
    slots = [i for i, r in enumerate(step.operands) if isinstance(r, str)]
    args = [f"(void *)({w.dense(i)})" for i in tensors]
    for i in slots:
        w.lines.append(f"{w.ctype(i)} n{i} = {w.places.argument(str(step.operands[i]))};")
        args.append(f"(void *)&n{i}")
    args += [f"(void *)({w.places.pointer(o)})" for o in step.outs]
    ins = [Spec(w.aval(i).shape, w.aval(i).dtype.np) for i in (*tensors, *slots)]
    outs = tuple(Spec(a.shape, a.dtype.np) for a in step.out_avals)
    w.hosts.append(Host(callback(step), tuple(ins), outs))
    w.lines += [
        f"void *args[] = {{{', '.join(args)}}};",
        f"if (((JcHost){w.places.top}[{w.places.first_host + number}])({number}, args)) return 1;",
    ]


CONTROL: Final[dict[str, Callable[..., None]]] = {
    "scan": control.scan,
    "cond": control.cond,
    "while_loop": control.repeat,
    "call": control.call,
}
NOTHING: Final = Routine("jitcap_dot.h", lambda w: None)
HOST: Final = Routine("jitcap_dot.h", _host)
WHOLE: Final = (dt.uint8, dt.int8, dt.int16, dt.int32, dt.int64)
FLOATS: Final = (dt.float32, dt.float64)
ROUTINES: dict[str, Routine] = {
    "dot": Routine("jitcap_dot.h", _dot),
    "conv": Routine("jitcap_conv.h", conv.conv, conv.FORWARD),
    "conv_input_grad": Routine("jitcap_conv.h", conv.conv_input_grad, conv.INPUT_GRAD),
    "conv_weight_grad": Routine("jitcap_conv_weight.h", conv.conv_weight_grad, conv.WEIGHT_GRAD),
    "max_pool": Routine("jitcap_pool.h", rows.max_pool),
    "sum_pool": Routine("jitcap_pool.h", rows.sum_pool),
    "sum_pool_grad": Routine("jitcap_pool.h", rows.sum_pool_grad),
    "cumsum": Routine("jitcap_scan.h", rows.scan),
    "cumprod": Routine("jitcap_scan.h", rows.scan),
    "cummax": Routine("jitcap_scan.h", rows.scan),
    "cummin": Routine("jitcap_scan.h", rows.scan),
    "sort": Routine("jitcap_sort.h", rows.sort),
    "scatter": Routine("jitcap_scatter.h", rows.scatter),
    "scatter_reduce": Routine("jitcap_scatter.h", rows.scatter),
    "index_add": Routine("jitcap_scatter.h", rows.index_add),
    "index_put": Routine("jitcap_scatter.h", rows.index_put),
    "fft_c2c": Routine("jitcap_fft.h", signal.c2c, fits=signal.wide_parts),
    "fft_r2c": Routine("jitcap_fft.h", signal.r2c, fits=signal.wide_parts),
    "fft_c2r": Routine("jitcap_fft.h", signal.c2r, fits=signal.wide_parts),
    "searchsorted": Routine("jitcap_search.h", signal.searchsorted, fits=alike(*WHOLE, *FLOATS)),
    "logcumsumexp": Routine("jitcap_scan.h", signal.logcumsumexp, fits=signal.real_operand),
    "polynomial": Routine("jitcap_polynomial.h", signal.polynomial, fits=alike(*FLOATS)),
    "solve": Routine("jitcap_linalg.h", linalg.solve, fits=linalg.possible),
    "inv": Routine("jitcap_linalg.h", linalg.inv, fits=linalg.possible),
    "det": Routine("jitcap_linalg.h", linalg.determinant, fits=linalg.possible),
    "slogdet": Routine("jitcap_linalg.h", linalg.determinant, fits=linalg.possible),
    "cholesky": Routine("jitcap_linalg.h", linalg.cholesky, fits=linalg.possible),
    "cholesky_solve": Routine("jitcap_linalg.h", linalg.cholesky_solve, fits=linalg.possible),
    "pivots": Routine("jitcap_linalg.h", linalg.pivots, fits=linalg.possible),
    "plain_lu": Routine("jitcap_linalg.h", linalg.plain_lu, fits=linalg.possible),
    "nextafter": Routine("jitcap_bits.h", signal.nextafter, fits=alike(*FLOATS)),
    "frexp": Routine("jitcap_bits.h", signal.frexp, fits=alike(*FLOATS)),
    "complex cast": Routine("jitcap_complex.h", signal.of_real, fits=signal.to_complex),
    "complex": Routine("jitcap_complex.h", signal.binary("Pair"), fits=alike(*FLOATS)),
    "view_as_real": Routine("jitcap_complex.h", signal.as_parts),
    "view_as_complex": Routine("jitcap_complex.h", signal.as_parts),
    "with_real": Routine("jitcap_complex.h", signal.each("WithRe")),
    "with_imag": Routine("jitcap_complex.h", signal.each("WithIm")),
}
# Complex numbers: each op by the struct of jitcap_complex.h that computes an element.
_OF_ONE: Final = {
    "real": "Re", "imag": "Im", "conj": "Conj", "angle": "Angle",
    "complex abs": "Abs", "complex neg": "Neg", "complex clone": "Same",
}  # fmt: skip
_OF_TWO: Final = {
    "complex add": "Plus", "complex sub": "Minus", "complex mul": "Times", "complex div": "Over",
}  # fmt: skip
ROUTINES |= {
    name: Routine("jitcap_complex.h", rule(struct), fits=fits)
    for names, rule, fits in (
        (_OF_ONE, signal.each, signal.complex_operand),
        (_OF_TWO, signal.binary, signal.complex_operands),
    )
    for name, struct in names.items()
}


def routine(step: Library) -> Routine:
    """How `step` is run: its routine, or the callback. Empty results need no work."""
    if step.name in ROUTINES and not any(some(a.numel) for a in step.out_avals):
        return NOTHING
    found = ROUTINES.get(step.name, HOST)
    return found if found.fits(step) else HOST
