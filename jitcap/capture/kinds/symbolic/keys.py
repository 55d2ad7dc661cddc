"""Capture: keys that are run-time numbers. `counts[n]`, `batches[i]` -> one version for all.

In the twin of a container from outside such a key stands for itself: that it is none of the other
keys there is guarded, and the entry is read and written under the number of the call. What looks at
the whole container asks for the number's value first.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from eager.core.sym import SymNumber
from jitcap.base.origin import Origin
from jitcap.base.terms import Term
from jitcap.capture.epilogue_writes import Emitter
from jitcap.capture.kinds.base import Kind, Session, of
from jitcap.capture.numbers import Outside

MANY: Final = 8  # keys are compared with as many others


class SymKey:
    """A key that is this number, whatever it is at a call."""

    __slots__ = ("number",)

    def __init__(self, number: SymNumber) -> None:
        self.number = number

    @property
    def value(self) -> int:
        """Current value of the number."""
        return self.place()[0]

    @property
    def origin(self) -> Origin:
        return self.place()[1]

    def place(self) -> tuple[int, Origin]:
        leaf: Any = self.number.leaf
        return leaf.value, leaf.origin


def may_stand(key: Any) -> bool:
    """True if a key is a number whose value need not be known to look it up: no size, which is
    guarded in another way."""
    if type(key) is not SymNumber or key.pytype is not int or type(key.leaf) is not Outside:
        return False
    return key.leaf.size is None and not key.leaf.varies


def find(s: Session, key: Any, others: Iterable[Any]) -> Any:
    """The other key that is equal to this one, under guards; None if none is."""
    for other in others:
        number = other.number if type(other) is SymKey else other
        if s.truth(s.compare("==", key, number)):
            return other
    return None


@of(SymKey)
class NumberedKind(Kind):
    """Key that is a run-time number: it is seen where a write is replayed."""

    def rebuild(self, make: Emitter, value: SymKey) -> Term:
        return make.expr(value.number)
