"""Capture: a value of two kinds that a branch leaves. two values -> the one that the run chose.

`return None` after one way and a number after the other: where nothing of the call comes behind, it
is made when the graph has run.
"""

from __future__ import annotations

from typing import Any

from eager.core.sym import SymNumber
from jitcap.base.breaks import Break
from jitcap.base.terms import Term
from jitcap.capture.epilogue_writes import Emitter
from jitcap.capture.kinds.base import of
from jitcap.capture.kinds.constants import OpaqueKind
from jitcap.capture.kinds.poison import Poison


class Chosen(Poison):
    """The second of two values where `truth` holds, else the first."""

    __slots__ = ("truth", "ways")

    def __init__(self, truth: SymNumber, ways: tuple[Any, Any]) -> None:
        self.truth, self.ways = truth, ways

    def refusal(self) -> Break:
        return Break("data dependent", "a value of two kinds, which a branch left, is looked into")


@of(Chosen)
class ChosenKind(OpaqueKind):
    """Values that are left behind and asked nothing."""

    def rebuild(self, make: Emitter, value: Chosen) -> Term:
        return make.let(make.one_of(("tuple", *make.all(value.ways)), value.truth.handle))
