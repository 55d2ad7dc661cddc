"""Fourier transforms, complex arithmetic, searches and running logarithms of sums as library steps.
Writer -> calls of jitcap_{fft,complex,search,scan}.h."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

from codegen.ir.schema import Access, Library
from codegen.ir.sizes import divides, is_static, numel, round_up, same, same_all
from codegen.schedule.plan import ALIGN
from codegen.targets.cpp.rows import around
from codegen.targets.cpp.step import Writer
from codegen.targets.cpp.table import MEMORY, REGISTER, size_text
from eager.base import dtype as dt
from eager.base.process import threads
from eager.sizes.aval import Aval, contiguous_strides

LANES: Final = 4  # lines that are transformed at a time: 256 bits of doubles
LARGEST_FACTOR: Final = 64  # a pass costs as many products per element as its factor


# ------------------------------------------------------------------------------- Fourier
def factors(n: int) -> list[int]:
    """n as a product of 4s and primes."""
    out, each = [], 4
    while n > 1:
        while divides(each, n):
            out.append(each)
            n //= each
        each = {4: 2, 2: 3}.get(each, each + 2)
        if each * each > n > 1 and each > 3:
            out.append(n)
            break
    return out


def _transform(
    w: Writer, source: str, to: str, shapes: Sequence[tuple[int, ...]], dim: int, size: int,
    scale: float, *, backward: bool, half: bool = False,
) -> None:  # fmt: skip
    """One call: `source` of the first shape to `to` of the second, along `dim`. Numbers of 32 bits
    are transformed in them; the long convolutions of a chirp would lose too much."""
    kinds = (w.aval(0).dtype, w.step.out_avals[0].dtype)
    outer, given, inner = around(shapes[0], dim)
    passes, chirp = factors(size), 0
    if max(passes, default=1) > LARGEST_FACTOR:
        chirp = 1 << (2 * size - 1).bit_length()
        passes = factors(chirp)
    number = w.used if is_static((w.used,)) else len(w.lines)
    length = chirp or size
    w.table("i64", f"factors{number}", [*passes, 0])
    w.lines.append(f"static const Fft fft{number} = {{{size}, {chirp}, factors{number}}};")
    shared = 4 * chirp + size if chirp else size
    narrow = not chirp and all(k.itemsize // (1 + k.is_complex) == 4 for k in kinds)
    lanes = 1 if same(outer * inner, 1) else LANES * (2 if narrow else 1)
    room = w.take(round_up(16 * shared, ALIGN) + 32 * length * LANES * threads.room())
    counts = (outer, inner, given, shapes[1][dim])
    flags = (str(flag).lower() for flag in (backward, half))
    w.call(
        f"fft<{lanes}, {'f32' if narrow else 'f64'}>",
        f"fft{number}",
        *counts,
        *flags,
        repr(scale),
        source,
        to,
        room,
    )


def _scale(name: str, count: int) -> float:
    return {"none": 1.0, "n": 1.0 / count, "sqrt": 1.0 / math.sqrt(count)}[name]


def _dims(w: Writer) -> tuple[int, ...]:
    return tuple(d % w.aval(0).ndim for d in w.step.attrs["dim"])


def c2c(w: Writer) -> None:
    shape, dims = w.aval(0).shape, _dims(w)
    backward = not w.step.attrs["forward"]
    _each_dim(w, w.dense(0), w.out(), shape, dims, backward, _count(shape, dims))


def _count(shape: tuple[int, ...], dims: tuple[int, ...]) -> int:
    return numel(shape[d] for d in dims)


def _each_dim(
    w: Writer, source: str, to: str, shape: tuple[int, ...], dims: tuple[int, ...],
    backward: bool, count: int | None,
) -> None:  # fmt: skip
    """Complex to complex over `dims`, scaled by the whole `count` in the last (None: not)."""
    for d in dims:
        scale = _scale(w.step.attrs["scale"], count) if count and d == dims[-1] else 1.0
        _transform(w, source, to, (shape, shape), d, shape[d], scale, backward=backward)
        source = to


def r2c(w: Writer) -> None:
    """The last dimension first: then there are complex numbers."""
    shape, out, (*rest, last) = w.aval(0).shape, w.step.out_avals[0].shape, _dims(w)
    scale = _scale(w.step.attrs["scale"], _count(shape, (*rest, last)))
    _transform(w, w.dense(0), w.out(), (shape, out), last, shape[last], scale, backward=False)
    _each_dim(w, w.out(), w.out(), out, tuple(rest), False, None)


def c2r(w: Writer) -> None:
    """The last dimension last, from half a spectrum to real numbers."""
    shape, out, (*rest, last) = w.aval(0).shape, w.step.out_avals[0].shape, _dims(w)
    source, kind = w.dense(0), w.ctype(0)
    if rest:
        room = f"({kind} *){w.take(w.aval(0).numel * w.aval(0).dtype.itemsize)}"
        _each_dim(w, source, room, shape, tuple(rest), True, None)
        source = room
    scale = _scale(w.step.attrs["scale"], _count(out, (*rest, last)))
    size = w.step.attrs["size"]
    _transform(w, source, w.out(), (shape, out), last, size, scale, backward=True, half=True)


def wide_parts(step: Library) -> bool:
    """Transforms of float32, float64 and their complex numbers, each dimension once."""
    kinds = (dt.float32, dt.float64, dt.complex64, dt.complex128)
    dims = step.attrs["dim"]
    known = all(is_static(a.shape[d] for d in dims) for a in (*step.avals, *step.out_avals))
    once = bool(dims) and len(set(dims)) == len(dims)
    return once and known and all(a.dtype in kinds for a in step.avals)


# ------------------------------------------------------------------------------- complex numbers
def each(struct: str) -> Callable[[Writer], None]:
    """Element by element, of operands of one shape."""

    def write(w: Writer) -> None:
        given = map(w.dense, range(len(w.step.operands)))
        w.call(f"complex_map<{struct}>", w.aval(0).numel, *given, w.out())

    return write


def binary(struct: str) -> Callable[[Writer], None]:
    def write(w: Writer) -> None:
        out = w.step.out_avals[0]
        kind = w.aval(0) if struct == "Pair" else out
        x, y = (_array_or_number(w, i, Aval(out.shape, kind.dtype)) for i in range(2))
        w.call(f"complex_map<{struct}>", out.numel, x, y, w.out())

    return write


def _array_or_number(w: Writer, i: int, want: Aval) -> str:
    x = w.step.operands[i]
    if isinstance(x, Access) or not want.dtype.is_complex:
        return _spread(w, i, want)
    value = complex(x)
    return f"{MEMORY[want.dtype.name]}{{{_text(value.real)}, {_text(value.imag)}}}"


def as_parts(w: Writer) -> None:
    """Pairs of numbers as complex ones, or the other way: the same bytes."""
    x, out = w.aval(0), w.step.out_avals[0]
    whole = x if x.dtype.is_complex else out
    kind = MEMORY[whole.dtype.name]
    w.call("complex_map<Same>", whole.numel, f"(const {kind} *)({w.dense(0)})",
           f"({kind} *)({w.out()})")  # fmt: skip


def of_real(w: Writer) -> None:
    """A cast to complex numbers."""
    w.call("complex_of", w.aval(0).numel, _number_pointer(w, 0), w.out())


def _number_pointer(w: Writer, i: int) -> str:
    """Operand `i` in contiguous memory; truth as bytes, which are numbers."""
    pointer = w.dense(i)
    return f"(const u8 *)({pointer})" if w.aval(i).dtype is dt.bool_ else pointer


def _spread(w: Writer, i: int, want: Aval) -> str:
    """Operand `i` as contiguous memory of a wanted shape and type."""
    x, kind = w.step.operands[i], MEMORY[want.dtype.name]
    if not isinstance(x, Access):
        value = complex(x)
        w.table(kind, f"number{i}", [f"{{{_text(value.real)}, {_text(value.imag)}}}"])
        return _copied(w, f"number{i}", (), (), want)
    pointer, own = _number_pointer(w, i), w.aval(i)
    if own.dtype is not want.dtype:
        room = f"({kind} *){w.take(own.numel * want.dtype.itemsize)}"
        w.call("complex_of", own.numel, pointer, room)
        pointer = room
    if own.ndim == want.ndim and same_all(own.shape, want.shape):
        return pointer
    return _copied(w, pointer, own.shape, contiguous_strides(own.shape), want)


def _text(value: float) -> str:
    return (
        repr(value) if math.isfinite(value) else f"__builtin_{'nan' if value != value else 'inf'}"
    )


def _copied(
    w: Writer, pointer: str, shape: tuple[int, ...], strides: tuple[int, ...], want: Aval
) -> str:
    """Pointer to a copy of the array at `pointer`, repeated to the larger shape of `want`."""
    missing = want.ndim - len(shape)
    steps = [0 if same(n, 1) else s for n, s in zip(shape, strides, strict=True)]
    kind = MEMORY[want.dtype.name]
    room = f"({kind} *){w.take(want.numel * want.dtype.itemsize)}"
    name = f"spread{w.used if is_static((w.used,)) else len(w.lines)}"
    w.table("i64", name, (*want.shape, *[0] * missing, *steps))
    w.call("copy_dense", room, f"(const {kind} *)({pointer})", want.ndim, name)
    return room


def complex_operands(step: Library) -> bool:
    """Arrays and finite numbers; no run-time numbers, and nothing that would be narrowed."""
    out = step.out_avals[0].dtype
    numbers = [x for x in step.operands if not isinstance(x, Access | str)]
    finite = all(math.isfinite(abs(complex(x))) for x in numbers)
    arrays = all(not isinstance(x, str) for x in step.operands)
    return out.is_complex and finite and arrays and _no_wider(step, out.itemsize)


def _no_wider(step: Library, itemsize: int) -> bool:
    return all(a.dtype.itemsize <= itemsize for a in step.avals if a.dtype.is_complex)


def complex_operand(step: Library) -> bool:
    return step.avals[0].dtype.is_complex


def to_complex(step: Library) -> bool:
    """A cast of real numbers; that of truth is as bytes."""
    return step.out_avals[0].dtype.is_complex and not step.avals[0].dtype.is_complex


# ------------------------------------------------------------------------------- rows
def searchsorted(w: Writer) -> None:
    bounds, values = w.aval(0).shape, w.aval(1).shape
    shared = len(bounds) == 1
    rows = 1 if shared else numel(bounds[:-1])
    count = numel(values) if shared else values[-1]
    kind = w.ctype(0)
    right = str(bool(w.step.attrs["right"])).lower()
    pointers = (f"(const {kind} *)({w.dense(i)})" for i in range(2))
    w.call(f"searchsorted<{right}, {kind}>", rows, bounds[-1], count, *pointers, w.out())


def logcumsumexp(w: Writer) -> None:
    kind = REGISTER[w.aval(0).dtype.name]
    lines = ", ".join(map(size_text, around(w.aval(0).shape, w.step.attrs["dim"])))
    w.call(f"scan<LogAddExp, {kind}>", lines, w.dense(0), w.out())


POLYNOMIALS: Final = {
    "chebyshev_polynomial_t": "Chebyshev<1, 0, false>",
    "chebyshev_polynomial_u": "Chebyshev<2, 0, false>",
    "chebyshev_polynomial_v": "Chebyshev<2, -1, false>",
    "chebyshev_polynomial_w": "Chebyshev<2, 1, false>",
    "shifted_chebyshev_polynomial_t": "Chebyshev<1, 0, true>",
    "shifted_chebyshev_polynomial_u": "Chebyshev<2, 0, true>",
    "shifted_chebyshev_polynomial_v": "Chebyshev<2, -1, true>",
    "shifted_chebyshev_polynomial_w": "Chebyshev<2, 1, true>",
    "hermite_polynomial_h": "Hermite<2>",
    "hermite_polynomial_he": "Hermite<1>",
    "laguerre_polynomial_l": "Laguerre",
    "legendre_polynomial_p": "Legendre",
}


def polynomial(w: Writer) -> None:
    out = w.step.out_avals[0]
    x, degree = (_spread(w, i, out) for i in range(2))
    w.call(f"polynomial<{POLYNOMIALS[w.step.attrs['family']]}>", out.numel, x, degree, w.out())


def nextafter(w: Writer) -> None:
    out = w.step.out_avals[0]
    w.call("nextafter", out.numel, _spread(w, 0, out), _spread(w, 1, out), w.out())


def frexp(w: Writer) -> None:
    w.call("frexp", w.aval(0).numel, w.dense(0), w.out(0), w.out(1))


def real_operand(step: Library) -> bool:
    return step.avals[0].dtype.is_floating_point
