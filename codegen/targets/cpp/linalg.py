"""Linear systems, inverses, determinants and Cholesky factors as library steps, by LAPACK. Writer
-> calls of jitcap_linalg.h."""

from __future__ import annotations

from codegen.ir.schema import Access, Library
from codegen.ir.sizes import Size, is_static, numel, round_up
from codegen.schedule.plan import ALIGN
from codegen.targets.cpp.runtime import support
from codegen.targets.cpp.step import Writer
from eager.base import dtype as dt
from eager.base.process import threads


def possible(step: Library) -> bool:
    """Matrices of float32 or float64, of one batch shape, where there is a LAPACK."""
    kinds = {a.dtype for a in step.avals}
    arrays = all(isinstance(x, Access) for x in step.operands)
    batches = {a.shape[:-2] for a in step.avals}
    known = kinds in ({dt.float32}, {dt.float64})
    return known and arrays and len(batches) == 1 and bool(support.api().sgesv)


def _batch(w: Writer) -> int:
    return numel(w.aval(0).shape[:-2])


def _room(w: Writer, elements: int) -> str:
    """Scratch for every member: elements, and a whole number for each row."""
    own = elements * w.aval(0).dtype.itemsize + round_up(4 * w.aval(0).shape[-2], ALIGN)
    return w.take(_some(own) * threads.room())


def _some(nbytes: Size) -> Size:
    return max(nbytes, ALIGN) if is_static((nbytes,)) else nbytes


def _refused(w: Writer, why: str) -> str:
    site = w.site(f"{w.step.op.name}: {why}|{w.step.where}")
    return f"Refused{{arena, {site}, {str(bool(w.step.attrs.get('lenient'))).lower()}}}"


SINGULAR = "a matrix is singular"


def solve(w: Writer) -> None:
    n, k = w.aval(1).shape[-2:]
    room = _room(w, n * n + n * k)
    operands = (w.dense(0), w.dense(1), w.out())
    w.call("solve", _batch(w), n, k, *operands, _refused(w, SINGULAR), room)


def inv(w: Writer) -> None:
    n = w.aval(0).shape[-1]
    kind, room = w.ctype(0), _room(w, 2 * n * n)
    operands = (w.dense(0), f"(const {kind} *)0", w.out())
    w.call("solve", _batch(w), n, n, *operands, _refused(w, SINGULAR), room)


def determinant(w: Writer) -> None:
    """det, and slogdet with two results."""
    n, kind = w.aval(0).shape[-1], w.ctype(0)
    none = f"({kind} *)0"
    outs = (none, none, w.out()) if len(w.step.outs) == 1 else (w.out(0), w.out(1), none)
    refused = _refused(w, "there is no LAPACK")
    w.call("determinant", _batch(w), n, w.dense(0), *outs, refused, _room(w, n * n))


def pivots(w: Writer) -> None:
    m, n = w.aval(0).shape[-2:]
    room = _room(w, m * n)
    w.call("pivots", _batch(w), m, n, w.dense(0), w.out(0), w.out(1), room)


def plain_lu(w: Writer) -> None:
    w.call("plain_lu", _batch(w), w.aval(0).shape[-1], w.dense(0), w.out())


def cholesky(w: Writer) -> None:
    refused = _refused(w, "a matrix is not positive definite")
    w.call("cholesky", _batch(w), w.aval(0).shape[-1], w.dense(0), w.out(), refused)


def cholesky_solve(w: Writer) -> None:
    n, k = w.aval(1).shape[-2:]
    upper = str(bool(w.step.attrs["upper"])).lower()
    operands = (w.dense(0), w.dense(1), w.out())
    refused = _refused(w, SINGULAR)
    w.call("cholesky_solve", _batch(w), n, k, upper, *operands, refused, _room(w, n * k))
