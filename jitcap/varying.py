"""Beside the entry: what differs from call to call, by name. guards that failed -> what the next
capture generalises.

An int that has changed becomes a run-time number, a size a symbol; so does the length of a list
whose guard failed. Names are those of origins (`n`, `self.step`, `x.shape[0]~32>64`): what is known
outlives the versions that it was learnt from.
"""

from __future__ import annotations

from typing import Any

from jitcap.capture import sizes
from jitcap.capture.result import Version
from jitcap.guards import Equals, Length, failing
from jitcap.marks import any_marked
from jitcap.pipeline import takes_symbols
from jitcap.version import Options


class Varying:
    """The names of what has varied. `symbols`: whether sizes may be symbols."""

    def __init__(self, *, symbols: bool, names: set[str]) -> None:
        self.symbols = symbols
        self.names = names

    @staticmethod
    def of(options: Options) -> Varying:
        """What is known before the first call: with `dynamic=True`, all sizes of arguments vary."""
        symbols = options.dynamic is not False and takes_symbols(options.backend)
        return Varying(symbols=symbols, names={sizes.ALL} if symbols and options.dynamic else set())

    def learn(self, version: Version, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Note what these arguments change of what `version` was compiled for."""
        found = changed(version, args, kwargs)
        if not self.symbols:
            found = {name for name in found if not sizes.is_size(name)}
        elif found:
            found.add(sizes.INTS)
        self.names |= found

    def known(self) -> frozenset[str]:
        """What the next capture is told."""
        more = {sizes.DATA} if self.symbols else set()
        if self.symbols and any_marked():
            more.add(sizes.INTS)
        return frozenset(self.names | more)


def changed(
    version: Version, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None
) -> set[str]:
    """The names of numbers, of lengths of lists and of sizes whose guarded value is another now."""
    found: set[str] = set()
    for guard, _, value in failing(version.guards.items, args, kwargs or {}):
        name = guard.origin.show()
        found.update(sizes.seen(guard, value))
        if isinstance(guard, Length):
            found.add(f"len({name})")
        elif isinstance(guard, Equals) and isinstance(guard.value, int | float):
            found.add(name)
    return found
