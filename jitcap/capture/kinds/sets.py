"""Capture: sets. container -> twin; they hold constants, and members that tell themselves apart."""

from __future__ import annotations

import itertools
import operator
import sys
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final

import numpy as np

from eager.core.sym import PLAIN, SymNumber
from jitcap.base.breaks import Break
from jitcap.base.equality import comparable
from jitcap.base.origin import Origin, result_of
from jitcap.base.terms import Row, Term, method
from jitcap.capture.epilogue_writes import Effect, Emitter
from jitcap.capture.inputs import Shadow
from jitcap.capture.kinds.base import (
    MutableKind,
    Session,
    of,
)
from jitcap.capture.kinds.poison import refuse_identity
from jitcap.capture.kinds.sequences import MOVING, ContainerKind
from jitcap.guards.guard import Equals

_NUMBERS: Final = (bool, int, float, complex, *PLAIN)
_ORDERED: Final = ("pop", "__iter__", "__repr__", "__reduce__", "__reduce_ex__")
PERMUTED: Final = 6  # so many members of a set are tried in each order
_FEW = 32  # a run-time number is compared with each of as many elements of a set, and not hashed


class SetShadow(Shadow):
    """A set of constants. Their order is guarded when it is seen: what only asks for members, which
    is most of what is asked of sets, is right for any."""

    mutable = True

    def __init__(self, real: set[Any], origin: Origin, twin: set[Any]) -> None:
        super().__init__(real, origin, twin)
        self.base = frozenset(real)
        self.order = tuple(real)
        self.is_exact = tuple(twin) == self.order
        self.grows_alike = sys.getsizeof(twin) == sys.getsizeof(real)
        self.whole = False

    def complete(self, s: Session) -> None:
        """The order is seen."""
        if not self.is_exact or (self.twin != self.base and not self.grows_alike):
            raise Break("opaque object", "the order of a set, which a copy does not have")
        if not self.whole:
            self.whole = True
            place = result_of(tuple, self.origin)
            s.guard(Equals, place, self.order)

    def mark(self) -> tuple[Any, ...]:
        gone, new = self._differences()
        return (frozenset(self.twin),) if gone or new else ()

    def _differences(self) -> tuple[list[Any], list[Any]]:
        """Members removed, and members added: 4.0 is another member than the 4 that was there."""
        now, before = ({(type(x), x) for x in members} for members in (self.twin, self.base))
        return (
            [x for x in self.base if (type(x), x) not in now],
            [x for x in self.twin if (type(x), x) not in before],
        )

    def replay(self, make: Emitter) -> list[Effect]:
        write = partial(self.write, make)
        gone, new = self._differences()

        def before() -> set[Any]:
            again = _again(self.real)
            again.difference_update(gone)
            return again

        new = _as_added(make.session, new, self.twin, before)
        both = (("difference_update", gone), ("update", new))
        return [
            write(("do", method("t", name, "v")), value=("list", *make.all(members)))
            for name, members in both
            if members
        ]


@of(frozenset)
class FrozensetKind(ContainerKind):
    """A set that does not change; from outside it holds constants."""

    def check(self, real: Any, origin: Origin) -> None:
        if not comparable(real):
            raise Break("opaque object", f"{origin.show()} is a set of objects, which has no order")

    def load(self, s: Session, real: Any, origin: Origin) -> Any:
        self.check(real, origin)
        return s.outside.constant(real, origin)

    def rebuild(self, make: Emitter, value: Any) -> Term:
        members = make.all(_as_added(make.session, value, value))
        return make.let(("frozenset", ("tuple", *members)))

    def settle(self, s: Session, value: Any, depth: int) -> None:
        s.order_seen(value)
        super().settle(s, value, depth)

    def owned(self, s: Session, owner: Any, fn: Any) -> None:
        """Most methods ask for members."""
        if fn.__name__ in _ORDERED:
            s.order_seen(owner)
        if fn.__name__ in MOVING:
            self.complete(s, owner)
        else:
            super().settle(s, owner, 0)

    def length(self, s: Session, obj: Any) -> int:
        super().settle(s, obj, 0)
        return len(obj)

    def truth(self, s: Session, obj: Any) -> bool:
        return self.length(s, obj) > 0

    def complete(self, s: Session, value: Any) -> None:
        super().complete(s, value)
        if not all(type(x) in (int, float) for x in value):
            s.bound_to = "the order of a set"

    def contains(self, s: Session, obj: Any, item: Any) -> Any:
        if isinstance(item, SymNumber) and len(obj) <= _FEW and all(type(v) is int for v in obj):
            # as in a tuple: its value itself would be another version
            return any(s.truth(s.compare("==", v, item)) for v in sorted(obj))
        item = s.known(item)
        if obj and s.outside.shadow(obj) is not None:
            refuse_identity(item)
        s.hashing((item,))
        if id(obj) in s.outside.constants:  # a frozenset from outside, guarded with its order
            self.settle(s, obj, 0)
        self.settle_parts(s, obj)  # the order of others is not seen
        return item in obj


@of(set)
class SetKind(FrozensetKind, MutableKind):
    """A set."""

    def rebuild(self, make: Emitter, value: Any) -> Term:
        return make.mutable(self, value)

    def filling(self, make: Emitter, name: str, value: Any) -> list[Row]:
        members = make.all(_as_added(make.session, value, value))
        return [("do", method(name, "update", ("list", *members)))] if value else []

    def load(self, s: Session, real: Any, origin: Origin) -> Any:
        self.check(real, origin)
        s.outside.constant(set(real), origin)
        return s.outside.register(SetShadow(real, origin, _again(real)))


def _as_added(
    s: Session, new: Iterable[Any], whole: Iterable[Any], before: Callable[[], set[Any]] = set
) -> list[Any]:
    """The members `new` in an order in which a set that has them added stands in the order of
    `whole`: those that fall on one place of its table stand as they came. Raises Break where their
    addresses decide, or no order of a few does it."""
    added, wanted = [*new], [*whole]
    s.order_seen(added)
    if added and len(wanted) > 1 and all(map(_hashes_alike, wanted)):
        if not all(map(_is_number, wanted)):
            s.bound_to = "the order of a set"
        orders = itertools.permutations(added) if len(added) <= PERMUTED else (added,)
        for order in orders:
            again = before()
            again.update(order)
            if all(map(operator.is_, again, wanted)):
                return [*order]
        raise Break("opaque object", "the order of a set, which a copy does not have")
    return added


def _hashes_alike(member: Any) -> bool:
    """True if the hash of the member is no code of the program."""
    if type(member) in (tuple, frozenset):
        return all(map(_hashes_alike, member))
    alike = type(member) in (str, bytes, type, type(None)) or isinstance(member, np.generic)
    return alike or _is_number(member)


def _is_number(member: Any) -> bool:
    return (member.pytype if type(member) is SymNumber else type(member)) in _NUMBERS


def _again(real: set[Any]) -> set[Any]:
    """A set in the order of `real`, if it is found, which the size of its table decides: whether it
    was made of a set at once, or grew."""
    at_once, grown = set(real), set[Any]()
    for member in real:
        grown.add(member)
    size = sys.getsizeof(real)
    alike = sorted((grown, at_once), key=lambda made: sys.getsizeof(made) != size)
    return next((made for made in alike if [*made] == [*real]), alike[0])
