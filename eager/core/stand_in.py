"""Under capture: the storage of what stands for other tensors. a tensor -> whether its kind
mattered.

A tensor from outside, and what a loop carries, are traced by a stand-in. Whether it is an inference
tensor is guarded, or must be the same in every step, only where the program would behave otherwise:
in inference mode most do not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from eager.base.dataclass import dataclass
from eager.core.mode import mode
from eager.core.storage import Storage, new_storage
from eager.core.traced import UnknownValue


@dataclass(slots=True, eq=False)
class Asked:
    """Facts of a tensor that another stands for: whether it is an inference tensor, whether it is
    sealed then, and whether somebody asked."""

    inference: bool
    sealed: bool
    asked: bool = False


class StandInStorage(Storage):
    """Storage of a stand-in for a tensor with this storage; it notes whether somebody asked what
    kind that is."""

    def __init__(self, real: Storage | None = None) -> None:
        self.real = new_storage() if real is None else real
        self.kind = Asked(self.real.inference, self.real.sealed)

    def ask(self) -> Storage:
        self.kind.asked = True
        return self.real

    inference: Any = property(lambda self: self.ask().inference)
    sealed: Any = property(lambda self: self.ask().sealed)

    def apart(self) -> Storage:
        return self.ask().apart()

    def detached(self) -> Storage:
        return self if mode.inference or not self.sealed else self.real.detached()

    def like(self) -> Storage:
        return self.ask().like()


def check_kinds(results: Iterable[Any], *rows: Sequence[Any]) -> None:
    """Rows of a tensor that stands for others in a loop, and those. UnknownValue where the body
    asked whether the first is an inference tensor, and not all others are as it is. What comes out
    of the loop is like the `results` of the body."""
    for t in results:
        t._storage.like()  # asks, where it is what stands for others
    for stand, *values in rows:
        kind = stand._storage.kind
        if kind.asked and any(x._storage.inference is not kind.inference for x in values):
            raise UnknownValue("not all that a tensor of a loop stands for are inference tensors")
