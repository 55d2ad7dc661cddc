"""Memory of a profile: what was made and how long it lived -> bytes over time, and who held them.

    arrays        results of eager's ops and of compiled calls, from their making until they go
    temporaries   values in the arena of compiled calls, while the parts run in which they live
    named         parameters, gradients, buffers and the state of optimizers, by their names

What has a name is looked up when the profile ends, among all objects of the process; what was there
before the profile, and has none, is not known.
"""

from __future__ import annotations

import gc
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from eager.base.byte_text import byte_text
from eager.base.dataclass import dataclass
from eager.base.process.memory import POOL, owner_of
from eager.base.recorder import Held, Temporary, Work
from eager.core.tensor import Tensor
from eager.nn import Module
from eager.optim import Optimizer
from jitcap.profiling.rows import Timeline
from jitcap.profiling.table import short

KINDS: Final = ("named", "arrays", "temporaries")


class Holder(NamedTuple):
    """Memory that was there, in bytes, and who held it."""

    nbytes: int
    kind: str
    what: str
    place: str = ""


class Life(NamedTuple):
    """Time in which memory is there, in microseconds from the profile's begin: what has a name, or
    the temporaries of a part of compiled code."""

    start: float
    end: float  # infinite: it is there still
    kind: str
    nbytes: int
    holder: Holder | Work


@dataclass(frozen=True, eq=False, slots=True)
class Memory:
    """Bytes over time. `samples`: (microseconds from the profile's begin, bytes by kind); `peak`:
    the one with most bytes; `lives`: when what was there; `plan`: the arena of compiled calls
    (offset -1: sizes decide it); `pool`: bytes that are kept for reuse, at last."""

    samples: Sequence[tuple[float, Mapping[str, int]]]
    peak: tuple[float, Mapping[str, int]]
    lives: Sequence[Life]
    plan: Sequence[Temporary]
    pool: int

    @property
    def holders(self) -> Sequence[Holder]:
        """Holders of what was alive at the peak, the largest first."""
        return self.at(self.peak[0])

    def at(self, us: float) -> Sequence[Holder]:
        """Holders of what is alive at a time, in microseconds from the profile's begin, the largest
        first."""
        alive = Counter(life.holder for life in self.lives if life.start <= us < life.end)
        found = [h for holder, count in alive.items() for h in _holders(holder, count)]
        return sorted(found, key=lambda h: -h.nbytes)

    @property
    def peak_bytes(self) -> int:
        return sum(self.peak[1].values())

    def table(self, limit: int | None = 20) -> str:
        """Table of what was alive at the peak, the largest first."""
        at, sums = self.peak
        parts = ", ".join(f"{kind} {byte_text(sums[kind])}" for kind in KINDS)
        kept = f"; {byte_text(self.pool)} are kept for reuse" if self.pool else ""
        head = f"peak {byte_text(self.peak_bytes)} at {at:,.1f} us: {parts}{kept}"
        lines = [head, f"{'bytes':>14} {'kind':<12} what"]
        holders = self.holders
        for holder in holders[:limit]:
            where = f"  {short(holder.place)}" if holder.place else ""
            lines.append(f"{holder.nbytes:14,} {holder.kind:<12} {holder.what}{where}")
        rest = holders[len(lines) - 2 :]
        if rest:
            lines.append(f"{sum(h.nbytes for h in rest):14,} in {len(rest)} others")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return self.table()


def memory_of(line: Timeline, held: Sequence[Held], named: Mapping[int, Holder]) -> Memory:
    """The memory of a profile that has ended. `named`: who has a name, by id of the owner."""
    lives: list[Life] = []
    before = dict(named)

    def at(time: int) -> float:
        return max(time - line.begin, 0) / 1e3

    for each in held:
        owner = each.owner
        holder = None if owner is None else before.pop(id(owner), None)
        holder = holder or Holder(each.nbytes, "arrays", each.what, each.place)
        end = at(each.end) if each.end else math.inf
        lives.append(Life(at(each.start), end, holder.kind, each.nbytes, holder))
    lives += [Life(0.0, math.inf, h.kind, h.nbytes, h) for h in before.values()]
    plan: dict[Temporary, None] = {}
    for span, part, _ in line.spans:
        if part.temporaries and span.end > span.start:
            plan |= dict.fromkeys(part.temporaries)
            nbytes = sum(t.nbytes for t in part.temporaries)
            lives.append(Life(at(span.start), at(span.end), "temporaries", nbytes, part))
    return Memory(*_summed(lives), lives, [*plan], POOL.held())


Sample = tuple[float, Mapping[str, int]]


def _summed(lives: Sequence[Life]) -> tuple[Sequence[Sample], Sample]:
    """The bytes after each change, of those at one time what goes first; and the most there
    were."""
    sums, samples = dict.fromkeys(KINDS, 0), list[Sample]()
    peak: Sample = (0.0, dict(sums))
    begins = ((life.start, 1, life) for life in lives)
    ends = ((life.end, -1, life) for life in lives if life.end < math.inf)
    for us, sign, life in sorted([*begins, *ends], key=lambda change: change[:2]):
        sums[life.kind] += sign * life.nbytes
        samples.append((us, dict(sums)))
        if sum(sums.values()) > sum(peak[1].values()):
            peak = samples[-1]
    return samples, peak


def _holders(holder: Holder | Work, count: int) -> Iterator[Holder]:
    """Those of `count` that are alike, as one."""
    if isinstance(holder, Work):
        for t in holder.temporaries if count else ():
            yield Holder(t.nbytes, "temporaries", t.what, t.place)
    elif count:
        what = f"{holder.what}, {count} times" if count > 1 else holder.what
        yield holder._replace(nbytes=holder.nbytes * count, what=what)


def named_now() -> dict[int, Holder]:
    """The memory of the modules and optimizers that there are, by the ids of the owners."""
    objects = gc.get_objects()
    modules = [x for x in objects if issubclass(type(x), Module) and "_modules" in vars(x)]
    # Asking for `state` would end what an optimizer has allocated ahead.
    optimizers = [x for x in objects if issubclass(type(x), Optimizer) and "_slots" in vars(x)]
    inner = {id(child) for m in modules for child in vars(m)["_modules"].values()}
    found: dict[int, Holder] = {}
    names: dict[int, str] = {}
    seen: set[int] = set()
    for root in sorted(modules, key=lambda m: id(m) in inner):  # those in a circle come last
        if id(root) not in seen:
            for name, tensor, kind in _tensors(root, type(root).__name__, seen):
                names.setdefault(id(tensor), name)
                _add(found, tensor, f"{kind} {name}")
                _add(found, tensor.grad if tensor.is_leaf else None, f"gradient {name}.grad")
    for optimizer in optimizers:
        for parameter, state in (vars(optimizer)["_slots"] or {}).items():
            name = names.get(id(parameter), "a parameter")
            for key, value in state.items() if isinstance(state, dict) else ():
                _add(found, value, f"state {type(optimizer).__name__} {key} of {name}")
    return found


def _tensors(module: Any, path: str, seen: set[int]) -> Iterator[tuple[str, Tensor, str]]:
    """The parameters and buffers of a module and those in it, each once (it may be in itself):
    (name, tensor, kind)."""
    seen.add(id(module))
    tables = vars(module)
    for table, kind in (("_parameters", "parameter"), ("_buffers", "buffer")):
        for name, tensor in tables.get(table, {}).items():
            # What capture had in its place is there until Python collects it, and has no array.
            if isinstance(tensor, Tensor) and isinstance(tensor._array, np.ndarray):
                yield f"{path}.{name}", tensor, kind
    for name, child in tables.get("_modules", {}).items():
        if child is not None and id(child) not in seen:
            yield from _tensors(child, f"{path}.{name}", seen)


def _add(found: dict[int, Holder], tensor: Any, what: str) -> None:
    """Note the array whose memory a tensor has."""
    array = tensor._array if isinstance(tensor, Tensor) else None
    if not isinstance(array, np.ndarray):
        return
    owner = owner_of(array)
    nbytes = array.nbytes if array.base is None else getattr(owner, "nbytes", array.nbytes)
    found.setdefault(id(owner), Holder(int(nbytes), "named", what))
