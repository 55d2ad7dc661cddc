"""Beside the entry: what differs from call to call, by name. guards that failed -> what the next
capture generalises.

An int that has changed becomes a run-time number (also a bool in a list, or in what is in one: one
of many flags is data, one alone is a way to go), a size a symbol; so does the length of a list
whose guard failed; a tensor that was found at two places is taken for two. Where some of a row
have changed (`batch[3][1]`, `batch[7][1]` ...), all do. A list that was longer at each of `RISES`
misses in turn (a memory, a history) grows: what looks at all of it is left to Python, where each
length would be a version. Names are those of origins (`n`, `self.step`, `x.shape[0]~32>64`): what
is known outlives the versions that it was learnt from.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict, deque
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from eager.core.tensor import Tensor
from jitcap.base.marks import any_marked
from jitcap.base.origin import ANY, APART, siblings
from jitcap.capture import sizes
from jitcap.capture.result import Version, misfit
from jitcap.capture.sizes import counted, growing
from jitcap.compile.backends import takes_symbols
from jitcap.guards.guard import Equals, Guard, Is, Length, Same, failing
from jitcap.versions.version import Options

NEAR: Final = 4  # versions among which the nearest is looked for: each of their guards is tested
MANY: Final = 4  # of a row vary: then all of them do
RISES: Final = 6  # a list of which nobody knows more may well have as many lengths in any order


class Varying:
    """The names of what has varied. `symbols`: whether sizes may be symbols; `whole`: whether
    nothing may be left to Python."""

    def __init__(self, *, symbols: bool, names: set[str], whole: bool = False) -> None:
        self.symbols = symbols
        self.names = names
        self.whole = whole
        self._rises: Counter[str] = Counter()
        self._rows: defaultdict[str, set[str]] = defaultdict(set)  # what has varied in each

    @staticmethod
    def of(options: Options) -> Varying:
        """State before the first call: with `dynamic=True`, all sizes of arguments vary."""
        symbols = options.dynamic is not False and takes_symbols(options.backend)
        names = {sizes.ALL} if symbols and options.dynamic else set()
        return Varying(symbols=symbols, names=names, whole=options.fullgraph)

    def learn(
        self, versions: Sequence[Version], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        """Note what these arguments change of what versions were compiled for, the last used first:
        of that one, and of the nearest of the others, as a counter that another way of the program
        moved is a constant of this one's only."""
        found: set[str] = set()
        for guard, _, value in failing(versions[0].guards.items, args, kwargs):
            found |= _names(guard, value)
            if isinstance(guard, Length) and isinstance(value, list | deque) and not self.whole:
                self._measure(guard, value)
        misfits = [misfit(version, args, kwargs) for version in versions[1:NEAR]]
        for version, count in zip(versions[1:], misfits, strict=False):
            if count == min(misfits) < math.inf:
                for guard, _, value in failing(version.guards.items, args, kwargs):
                    found |= _names(guard, value)
        if not self.symbols:
            found = {name for name in found if not sizes.is_size(name)}
        elif found:
            found.add(sizes.INTS)
        self.names |= found
        for name in found:
            for row in siblings(name) if APART in name or not sizes.is_size(name) else ():
                self._rows[row].add(name)
                if len(self._rows[row]) >= MANY:
                    self.names |= {row, ANY}

    def _measure(self, guard: Length, value: list[Any] | deque[Any]) -> None:
        """Count how often in turn this list was longer than in the version before."""
        name, kind = guard.origin.show(), list if isinstance(value, list) else deque
        count = kind.__len__(value)  # type: ignore[arg-type]
        self._rises[name] = self._rises[name] + 1 if count > guard.n else 0
        if self._rises[name] >= RISES:
            self.names.add(growing(name))

    def known(self) -> frozenset[str]:
        """Names of the sizes and numbers that the next capture takes as varying."""
        more = {sizes.DATA} if self.symbols else set()
        if self.symbols and any_marked():
            more.add(sizes.INTS)
        return frozenset(self.names | more)


def _names(guard: Guard, value: Any) -> set[str]:
    """The number, the length of a list or the sizes whose guarded value is another now; of a tuple
    of ints itself, and those in it."""
    name = guard.origin.show()
    if isinstance(guard, Length):
        return {counted(name)}
    if isinstance(guard, Same):
        return {APART + name} if guard.same and type(value) in (Tensor, np.ndarray) else set()
    if isinstance(guard, Is):
        of_many = any(siblings(name)) and type(guard.value) is type(value) is bool
        return {name} if of_many else set()
    found = set(sizes.seen(guard, value))
    fixed = guard.value if isinstance(guard, Equals) else None
    if isinstance(fixed, int | float | str | np.number) and type(fixed) is not bool:
        found.add(name)
    elif isinstance(guard, Equals) and type(guard.value) is type(value) is tuple:
        pairs = enumerate(zip(guard.value, value, strict=False))
        found |= {name, *(f"{name}[{i}]" for i, (a, b) in pairs if _vary(a, b))}
    return found


def _vary(a: Any, b: Any) -> bool:
    return type(a) is type(b) and type(a) in (int, bool, str) and a != b
