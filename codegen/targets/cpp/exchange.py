"""Library steps as C++: collectives, whose start and wait are apart. Library, what is under way ->
lines.

Each start has a slot of the table that host functions are in, with a record of MPI's functions and
handles (jitcap_exchange.h). Which wait belongs to it is known by the handle, which is the memory of
the result. Starts that do not fit are callbacks that do all of it; their waits do nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from codegen.ir.schema import Access, Library
from codegen.ir.sizes import is_contiguous, numel, some
from codegen.runtime.artifact import Exchange, Host, Spec
from codegen.targets.cpp.step import Addresses, Writer
from codegen.targets.cpp.table import MEMORY, size_text

REDUCING: Final = ("start_all_reduce", "start_broadcast")  # the result is as large as the operand
STARTS: Final = (*REDUCING, "start_all_gather", "start_reduce_scatter", "start_all_to_all")


def fits(step: Library) -> bool:
    """True if the operand can be sent from where it lies, or where the result will lie."""
    x = step.operands[0]
    plain = isinstance(x, Access) and some(numel(x.shape)) and step.avals[0].dtype.name in MEMORY
    return plain and (step.name in REDUCING or is_contiguous(x.shape, x.strides))  # type: ignore[union-attr]


def start(w: Writer) -> None:
    """x, order -> the handle, which is written from now on, and the next order."""
    number, step = len(w.hosts), w.step
    sent, result = (Spec(a.shape, a.dtype.np) for a in (step.avals[0], step.out_avals[0]))
    w.hosts.append(Exchange(step.op, step.attrs, sent, result, step.where))
    w.places.under_way[step.outs[0]] = number
    x, out, operand = w.access(0), w.out(), w.at(0)
    if not is_contiguous(x.shape, x.strides):
        operand = out
        w.table("i64", "dims", (*x.shape, *x.strides))
        w.call("copy_dense", out, f"(const {w.ctype(0)} *)({w.at(0)})", len(x.shape), "dims")
    args = slot(w.places, number), out, operand, size_text(numel(x.shape))
    w.lines.append(f"*{w.out(1)} = *({w.at(1)}) + 1;")
    w.lines.append(f"if (exchange::start({', '.join(args)})) return 1;")


def wait(w: Writer) -> None:
    """Handle, x -> the result, which mostly lies in the handle's memory."""
    handle = w.access(0).buffer
    number = w.places.under_way.pop(handle, None)
    if number is not None:
        w.lines.append(f"if (exchange::wait({slot(w.places, number)})) return 1;")
    if w.places.pointer(handle) != w.out():
        w.call("__builtin_memcpy", w.out(), w.at(0), size_text(w.step.out_avals[0].nbytes))


def slot(places: Addresses, number: int) -> str:
    """The record of a collective, among the host functions."""
    return f"{places.top}[{places.first_host + number}]"


def polls(places: Addresses) -> list[str]:
    """Statements between two kernels: a question for each collective that is under way."""
    return [f"exchange::poll({slot(places, number)});" for number in places.under_way.values()]


def finish(hosts: Sequence[Host | Exchange], places: Addresses) -> list[str]:
    """The statement behind the last collective of a program."""
    first = next((i for i, host in enumerate(hosts) if isinstance(host, Exchange)), None)
    return [] if first is None else [f"exchange::finish({slot(places, first)});"]
