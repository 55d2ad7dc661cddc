"""Beside the stages: what a thread computes under, and no argument says. Its state <-> Modes.

Whether the tape records, in which types ops run (autocast), where new tensors are made, which rows
of a larger batch are drawn. Programs change it and set it back (`no_grad`, `with device(...)`):
capture runs that on the state itself, guards what it was, and leaves what differs in the end as
effects.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from eager.base.dataclass import dataclass
from eager.core.tape import Autocast, mode
from eager.device import default, device
from jitcap.base.terms import Term, attribute

ANY: Final = "any"


@dataclass(frozen=True, slots=True)
class Modes:
    """The state at one time. `blocks`: the places that come back when `with` blocks end."""

    grad: bool
    inference: bool
    autocast: Autocast | None
    place: device | None
    current: int  # the number of the device that "cuda" is
    blocks: tuple[device | None, ...]
    rows: Any  # of draws; ANY for a program that draws nothing

    @staticmethod
    def now() -> Modes:
        return Modes(
            mode.enabled,
            mode.inference,
            mode.autocast,
            default.place,
            default.current,
            tuple(default.before),
            mode.rows,
        )

    def put(self) -> None:
        """The thread's state from now on."""
        mode.enabled, mode.inference, mode.autocast = self.grad, self.inference, self.autocast
        default.place, default.current = self.place, self.current
        default.before[:] = self.blocks
        mode.rows = self.rows

    def tests(self, names: Any) -> Iterator[Term]:
        """Conditions, one of which is true in a thread with other modes. `names` binds objects.
        Blocks do not matter where there are none: what ends here began here."""
        tape, there = names.bind(mode), names.bind(default)
        yield ("is not", attribute(tape, "enabled"), repr(self.grad))
        yield ("is not", attribute(tape, "inference"), repr(self.inference))
        differs = "is not" if self.autocast is None else "!="
        yield (differs, attribute(tape, "autocast"), names.bind(self.autocast))
        differs = "is not" if self.place is None else "!="
        yield (differs, attribute(there, "place"), names.bind(self.place))
        yield ("!=", attribute(there, "current"), self.current)
        if self.blocks:
            yield ("!=", attribute(there, "before"), names.bind([*self.blocks]))
        if self.rows != ANY:
            differs = "is not" if self.rows is None else "!="
            yield (differs, attribute(tape, "rows"), names.bind(self.rows))

    def why_not(self) -> str | None:
        """Reason why what was captured under these does not fit the thread; None where it does."""
        now = Modes.now()
        if now.grad is not self.grad:
            return f"expected grad mode {'on' if self.grad else 'off'}"
        if now.inference is not self.inference:
            return f"expected inference mode {'on' if self.inference else 'off'}"
        if now.autocast != self.autocast:
            return f"expected autocast {self.autocast or 'off'}"
        if now.place != self.place:
            return f"expected {self.place or 'the CPU'} as default device, not {now.place or 'cpu'}"
        if now.current != self.current:
            return f"expected cuda:{self.current} as the current device, not cuda:{now.current}"
        if self.blocks and now.blocks != self.blocks:
            return "expected other blocks of default devices around it"
        if self.rows not in (ANY, now.rows):
            return f"expected draws of rows {self.rows}, not {now.rows}"
        return None
