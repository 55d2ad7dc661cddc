"""Ground floor: what one attempt of capture assumes. A refusal that teaches -> the next attempt."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Final

from eager.base.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Assumed:
    """Assumptions about a call.

    varying     names of ints that are run-time numbers and of sizes that are symbols: origins as
                they show themselves, and signs of `jitcap.capture.sizes`
    unasked     arguments among them of which the program must not ask the value
    asked       names of texts that vary, into which the program looks
    memories    ids of memory that several inputs share: there the bases of views are inputs
    sites       branches (code, instruction), (code, None) for all of a function's, and loops (code,
                "for", instruction) that are no node of the graph, but interpreted as they stand
    caches      ids of functions whose caches are asked, and not looked through
    addresses   True if sets of objects have an order that their addresses decide
    apart       True if calls of layers that are alike are interpreted, each by itself
    """

    varying: frozenset[str] = frozenset()
    unasked: frozenset[str] = frozenset()
    asked: frozenset[str] = frozenset()
    memories: frozenset[int] = frozenset()
    sites: frozenset[tuple[Any, ...]] = frozenset()
    caches: frozenset[int] = frozenset()
    addresses: bool = False
    apart: bool = False

    def __or__(self, more: Assumed) -> Assumed:
        return Assumed(*(getattr(self, name) | getattr(more, name) for name in _FIELDS))

    def includes(self, other: Assumed) -> bool:
        """True if `other` assumes nothing else."""
        return self | other == self


_FIELDS: Final = tuple(f.name for f in fields(Assumed))
NOTHING: Final = Assumed()
