"""Under the compiled calls: collectives of a program. Their records -> structures that compiled
code reads (jitcap_exchange.h), and errors.

What is of the ranks is asked of the op (`eager/distributed/compiled.py`), so that nothing of
`eager.distributed` is imported by a program without it: how an engine does a collective in C, the
agreement on a call's collectives, and what becomes of a failure.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any, Final

from codegen.runtime.artifact import Array, CheckFailed, Exchange, Spec

NONE, REFUSED, LATE, DIFFERENT = range(4)  # exchange::Fault
AGREED: Final = 2  # `state` of an agreement
START: Final = 0  # exchange::What
OVER: Final = 2  # `begun` of the first record of a program, behind its last collective
HostFunction = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p
)
Wrap = Callable[[int | None, Spec], Array]


class AgreementStruct(ctypes.Structure):
    """JcAgreement of jitcap_exchange.h."""

    _fields_ = (
        ("state", ctypes.c_int64),
        ("mine", ctypes.c_int64 * 2),
        ("least", ctypes.c_int64 * 2),
        ("reduce", ctypes.c_void_p),
        ("type", ctypes.c_uint64),
        ("least_of", ctypes.c_uint64),
    )


class ExchangeStruct(ctypes.Structure):
    """JcExchange of jitcap_exchange.h."""

    _fields_ = (
        ("kind", ctypes.c_int64),
        ("begin", ctypes.c_void_p),
        ("test", ctypes.c_void_p),
        *((name, ctypes.c_uint64) for name in ("comm", "type", "op", "in_place")),
        *((name, ctypes.c_int64) for name in ("root", "bytes", "ranks")),
        ("timeout", ctypes.c_double),
        ("agreement", ctypes.c_void_p),
        ("host", ctypes.c_void_p),
        *((name, ctypes.c_int64) for name in ("number", "active", "begun", "fault", "code")),
        ("request", ctypes.c_uint64),
        ("status", ctypes.c_char * 128),
    )


class Exchanges:
    """The collectives of one runner on one thread."""

    def __init__(self, records: Sequence[Exchange], wrap: Wrap) -> None:
        self._wrap = wrap
        self._ranks: Any = records[0].op.compiled  # eager/distributed/compiled.py
        self.records = records  # at the sizes of the call
        self._structs = [ExchangeStruct(number=i) for i in range(len(records))]
        self._agreements: list[AgreementStruct] = []  # of the groups
        self._groups: tuple[Any, ...] = ()
        self._states: tuple[Any, ...] = ()  # of the groups: what was asked of the ranks before
        self._under_way: dict[int, Any] = {}  # what Python has started
        self._host = HostFunction(self._call)
        self._failure: BaseException | None = None

    def address_of(self, record: Exchange) -> int:
        """The address of the structure of a record."""
        number = next(i for i, x in enumerate(self.records) if x is record)
        return ctypes.addressof(self._structs[number])

    def prepare(self, records: Sequence[Exchange]) -> None:
        """Make ready for a call. Raises DistError for a group that is gone."""
        if records is not self.records or not self._groups:
            self.records = records
            self._groups = self._ranks.groups_of(records)
            self._states = ()
        states = tuple([(group.engine, group.given_up) for group in self._groups])
        if states != self._states:
            self._link(states)
        for group, agreement in zip(self._groups, self._agreements, strict=True):
            agreement.state = 0 if self._ranks.compares(group) else AGREED
        for struct in self._structs:
            struct.begun = struct.fault = NONE

    def _link(self, states: tuple[Any, ...]) -> None:
        self._states = states
        self._agreements = []
        for group in self._groups:
            agreement = AgreementStruct(**self._ranks.agreement_in_c(group, self.records))
            self._agreements.append(agreement)
            for struct, record in zip(self._structs, self.records, strict=True):
                if record.attrs["group"] == group.number:
                    for name, value in self._ranks.in_c(group, record).items():
                        setattr(struct, name, value)
                    struct.agreement = ctypes.addressof(agreement)
                    struct.host = ctypes.cast(self._host, ctypes.c_void_p).value

    def _call(self, number: int, what: int, out: int | None, x: int | None) -> int:
        """A start or a wait that the engine does by Python."""
        record = self.records[number]
        try:
            if what == START:
                self._agree(record)
                arrays = self._wrap(out, record.result), self._wrap(x, record.operand)
                self._under_way[number] = self._ranks.start(record, *arrays)
            else:
                self._ranks.wait(record, self._under_way[number])
                del self._under_way[number]  # not where it is late: it reads and writes on
        except BaseException as error:  # noqa: BLE001 - raised again after the C frame
            self._failure = error
            return 0
        return 1  # not what ctypes gives for an exception that it cannot raise

    def _agree(self, record: Exchange) -> None:
        group = self._ranks.groups_of([record])[0]
        agreement = self._agreements[self._groups.index(group)]
        if agreement.state != AGREED:
            if not self._ranks.agree(group, self.records, self._is_first()):
                raise _plain_elsewhere(record)
            agreement.state = AGREED

    def _is_first(self) -> bool:
        """True if the last call came to one collective alone."""
        return sum(struct.begun != NONE for struct in self._structs) == 1

    def error(self) -> BaseException | None:
        """The error of the collective that failed in the last call."""
        failure, self._failure = self._failure, None
        for struct, record in zip(self._structs, self.records, strict=True):
            if struct.fault in (REFUSED, LATE):
                code = None if struct.fault == LATE else int(struct.code)
                failure = self._ranks.failure(record, code)
            elif struct.fault == DIFFERENT:
                found = self._ranks.difference(record, self.records, self._is_first())
                failure = found or _plain_elsewhere(record)
        return failure

    def give_up(self) -> None:
        """Note that the results of the last call are dropped, and its collectives were taken."""
        if any(struct.begun for struct in self._structs):
            self._ranks.give_up(self._groups)

    def is_half_done(self) -> bool:
        """True if the last call ended between its first and its last collective."""
        return self._structs[0].begun != OVER and any(s.begun for s in self._structs)

    def is_busy(self) -> bool:
        """True if memory of the last call is still read or written by others."""
        return bool(self._under_way) or any(s.active for s in self._structs)


def _plain_elsewhere(record: Exchange) -> CheckFailed:
    """The reason for which a step runs as plain Python: another rank does so."""
    return CheckFailed("another rank runs this step as plain Python", record.where)
