"""Library steps as C++, the workbench: what the writer of a routine's call has at hand."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import field
from typing import Protocol

from codegen.ir.routine import Spelling
from codegen.ir.schema import Access, Library
from codegen.ir.sizes import Shape, Size, is_contiguous, numel, round_up, same, some
from codegen.runtime.artifact import Exchange, Host
from codegen.schedule.plan import ALIGN
from codegen.targets.cpp.table import MEMORY, any_text, mentions_size, size_text
from eager.base import dtype as dt
from eager.base.dataclass import dataclass
from eager.base.dtype import DType
from eager.sizes.aval import Aval


class Addresses(Protocol):
    """Names in the entry function of what a step uses."""

    first_host: int  # index of the first host function
    work: str  # a `char *` to where temporaries lie
    top: str  # the table that host functions are in
    under_way: dict[str, int]  # collectives by their handles: numbers among the host functions

    def pointer(self, name: str) -> str:
        """A typed pointer to a buffer's first element."""

    def location(self, name: str) -> int | None:
        """The position of the buffer as a number for `jc::hand`: a slot of the table of pointers,
        or -1 - the offset among the temporaries. None for one that a run decides."""

    def argument(self, name: str) -> str:
        """A typed pointer, or the value of a run-time number."""

    def slot(self, name: str) -> str:
        """The slot of a number that the program is given; "" for one that it computes."""

    def scratch(self, step: Library) -> str:
        """A `char *` to the scratch memory of a step."""


@dataclass(slots=True)
class Writer:
    """The lines of one step so far, and how much scratch they use."""

    step: Library
    places: Addresses
    hosts: list[Host | Exchange]
    site: Callable[[str], int]
    lines: list[str] = field(default_factory=list)
    used: Size = 0
    after: str = ""  # the function that is called with tiles of the result, and its parameters

    def take(self, nbytes: Size) -> str:
        """A `char *` to `nbytes` of scratch."""
        at = self.used
        self.used = at + (round_up(nbytes, ALIGN) if some(nbytes) else ALIGN)
        return f"({self.places.scratch(self.step)} + {size_text(at)})"

    def call(self, name: str, *args: object) -> None:
        """A statement that calls a routine."""
        self.lines.append(f"{name}({', '.join(map(any_text, args))});")

    def table(self, kind: str, name: str, values: Iterable[object]) -> None:
        """A constant array (of one element at least: C++ knows no empty ones)."""
        self.constant(kind, f"{name}[]", f"{{{', '.join(map(any_text, values)) or '{}'}}}")

    def constant(self, kind: str, name: str, value: str) -> None:
        """A constant; of what is known at run time only, one of the call."""
        static = "" if mentions_size(value) else "static "
        self.lines.append(f"{static}const {kind} {name} = {value};")

    def aval(self, i: int) -> Aval:
        """The aval of read `i`, which is no plain number."""
        before = sum(isinstance(x, Access | str) for x in self.step.operands[:i])
        return self.step.avals[before]

    def access(self, i: int) -> Access:
        x = self.step.operands[i]
        assert isinstance(x, Access)
        return x

    def out(self, i: int = 0) -> str:
        return self.places.pointer(self.step.outs[i])

    def out_type(self, i: int) -> str:
        return MEMORY[self.step.out_avals[i].dtype.name]

    def ctype(self, i: int) -> str:
        return MEMORY[self.aval(i).dtype.name]

    def at(self, i: int) -> str:
        """Pointer to the first element of read `i`, wherever its strides lead."""
        x = self.access(i)
        base = self.places.pointer(x.buffer)
        return base if same(x.offset, 0) else f"{base} + {size_text(x.offset)}"

    def location(self, i: int) -> int | None:
        """The position of read `i` as a number: see `Addresses.location`."""
        x = self.access(i)
        base = self.places.location(x.buffer)
        if base is None or same(x.offset, 0):
            return base
        if base >= 0 or not isinstance(x.offset, int):
            return None
        return base - x.offset * self.aval(i).dtype.itemsize

    def dense(self, i: int) -> str:
        """Pointer to read `i` as contiguous memory: itself, or a copy in scratch."""
        x = self.access(i)
        if is_contiguous(x.shape, x.strides):
            return self.at(i)
        ctype, name = self.ctype(i), f"c{i}"
        room = self.take(numel(x.shape) * self.aval(i).dtype.itemsize)
        self.lines.append(f"{ctype} *{name} = ({ctype} *){room};")
        self.table("i64", f"{name}_", (*x.shape, *x.strides))
        self.call("copy_dense", name, f"(const {ctype} *)({self.at(i)})", len(x.shape), f"{name}_")
        return name


def three(values: Shape, missing: int) -> Shape:
    """The values of as many spatial dimensions as there are, for three."""
    return (missing,) * (3 - len(values)) + tuple(values)


def array(values: Iterable[Size]) -> str:
    return "{" + ", ".join(map(size_text, values)) + "}"


def is_float(step: Library) -> bool:
    """True if the (first) result is of float32 or float64: for `Spelling.fits`."""
    return step.out_avals[0].dtype in (dt.float32, dt.float64)


def alike(*kinds: DType) -> Callable[[Library], bool]:
    """Predicate for `Spelling.fits`: the operands are arrays of one type, and of one of these."""

    def fits(step: Library) -> bool:
        (kind, *others), x = {a.dtype for a in step.avals}, step.operands
        return not others and kind in kinds and all(isinstance(a, Access) for a in x)

    return fits


@dataclass(frozen=True, slots=True)
class CppCall(Spelling):
    """Spelling of a call: `write` takes a `Writer` and the functions of the step's bodies, `header`
    defines what is called.

    `heavy`: its declaration with {T} for the element type, if it takes so long to compile that it
    is compiled once, for all programs. `room`: bytes of scratch memory, where that is known without
    writing. Steps that do not fit are callbacks.
    """

    header: str = "jitcap_dot.h"
    heavy: str = ""
    room: Callable[[Library], Size] | None = None
