"""Under compiled code: the ranks' side of its collectives. records of them -> groups, what an
engine's functions in C are given, agreement, errors.

Compiled code finds these functions by the op (`Start.compiled`), and calls those of the engine
itself where the engine says how (`in_c`). A record (`codegen.runtime.artifact.Exchange`) has the
op, its attributes, the operand, the result, and the user's line.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eager.distributed.engine import DistBackendError, DistError, ReduceOp, Request, late
from eager.distributed.engine import wait as wait_for
from eager.distributed.groups import (
    Caller,
    ProcessGroup,
    agrees,
    by_number,
    compares,
    digest,
    require_alike,
    told,
)

__all__ = [
    "agree", "agreement_in_c", "compares", "difference", "failure", "give_up", "groups_of", "in_c",
    "start", "wait",
]  # fmt: skip

Record = Any


def groups_of(records: Sequence[Record]) -> tuple[ProcessGroup, ...]:
    """The groups of collectives, each once. Raises DistError for one that is gone, or has another
    number of ranks than what was compiled (and may have been stored) is for."""
    found = {r.attrs["group"]: by_number(r.attrs["group"]) for r in records}
    for record in records:
        group, ranks = found[record.attrs["group"]], record.attrs["ranks"]
        if group.size() != ranks:
            what = f"{_shown(record, line=True)} was compiled for {ranks} ranks"
            raise DistError(f"{what}, and {group!r} has {group.size()}: compile it again")
    return tuple(found.values())


def in_c(group: ProcessGroup, record: Record) -> dict[str, Any]:
    """Fields of the structure by which compiled code calls the engine. `kind` 0: by Python."""
    attrs = record.attrs
    seconds = group.timeout.total_seconds()
    fields = {"kind": 0, "bytes": 1, "ranks": group.size(), "timeout": seconds}
    reduction = attrs.get("reduction", "")
    engine: Any = group.engine
    if not hasattr(engine, "in_c") or reduction == "avg" or attrs.get("sent"):
        return fields
    op = ReduceOp(reduction) if reduction else None
    found = engine.in_c(record.op.name, record.operand.dtype, op)
    return {**fields, "root": attrs.get("root", 0), **found}


def agreement_in_c(group: ProcessGroup, records: Sequence[Record]) -> dict[str, Any]:
    """The digest of a group's collectives, and how compiled code compares it."""
    engine: Any = group.engine
    number = digest(group, _pattern(group, records))
    how = engine.agreement_in_c() if hasattr(engine, "agreement_in_c") else {}
    return {"mine": (number, -number), **how}


def agree(group: ProcessGroup, records: Sequence[Record], is_first: bool) -> bool:
    """Compare the collectives of a call by Python; `is_first`: it has taken none. False where it is
    to run as plain Python, as another rank does. Raises DistBackendError where they differ."""
    agreed = agrees(group, _pattern(group, records))
    if not agreed:
        _require_alike(group, records, is_first)
    return agreed


def difference(record: Record, records: Sequence[Record], is_first: bool) -> DistError | None:
    """The error of ranks whose calls have different collectives; None where this one is to run as
    plain Python, as another rank does."""
    try:
        _require_alike(by_number(record.attrs["group"]), records, is_first)
    except DistError as error:
        return error
    return None


def _require_alike(group: ProcessGroup, records: Sequence[Record], is_first: bool) -> None:
    caller = Caller.COMPILED if is_first else Caller.AMID
    require_alike(group, _pattern(group, records, lines=True), caller)


def give_up(groups: Sequence[ProcessGroup]) -> None:
    """Note that a run is given up whose collectives were taken: they will be, again."""
    for group in groups:
        group.given_up += 1


def start(record: Record, out: Any, x: Any) -> Request:
    """Start a collective by Python."""
    given = dict(record.attrs)
    group = by_number(given.pop("group"))
    del given["ranks"]
    found: Request = record.op.start(out, x, group, **given)
    return found


def wait(record: Record, request: Request) -> None:
    """Wait for what `start` gave. Raises what the engine says is wrong, or DistTimeoutError."""
    group = by_number(record.attrs["group"])
    wait_for(request, group.timeout, lambda: f"{_shown(record, line=True)} of {group!r}")


def failure(record: Record, code: int | None) -> DistError:
    """The error of a collective of compiled code: MPI's code, or None after the timeout."""
    group = by_number(record.attrs["group"])
    what = f"{_shown(record, line=True)} of {group!r}"
    if code is None:
        return late(what, group.timeout)
    engine: Any = group.engine
    return DistBackendError(f"{what} failed: {engine.explain(code)}")


def _pattern(group: ProcessGroup, records: Sequence[Record], *, lines: bool = False) -> str:
    """The collectives of a call in a group: one line each."""
    own = (r for r in records if r.attrs["group"] == group.number)
    return "\n".join(_shown(r, line=lines) for r in own)


def _shown(record: Record, *, line: bool) -> str:
    place = f" (at {record.where})" if line and record.where else ""
    return told(record.op.name, record.operand.shape, record.operand.dtype, **record.attrs) + place
