"""Capture: tensors whose rows the steps of a `for` write. `x[:, t] = value` in a step -> one
write of all rows behind the loop.

Such a tensor was made by the program, and the step does nothing else with its memory: then it makes
no difference when its rows are written.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

from eager.core.tensor import Tensor
from eager.ops.move import flip
from eager.ops.pointwise import clone
from eager.ops.view import movedim
from eager.sizes.aval import Aval, same_aval
from eager.sizes.symint import known_lt
from jitcap.base.modes import Modes
from jitcap.capture.control.log import Region, memory_of
from jitcap.capture.control.loop_iterables import Numbers, dimension
from jitcap.capture.control.loop_results import Behind, NotRolled
from jitcap.capture.sizes import out


class Write(NamedTuple):
    """`x[key] = value`, where `key[at]` is a number of the counter and the others are whole
    dimensions, or places in them."""

    x: Tensor
    key: tuple[Any, ...]
    at: int
    value: Tensor

    def whole(self) -> tuple[int, ...]:
        """Dimensions of the tensor that a row has."""
        taken = {
            dimension(self.key, i, self.x.ndim)
            for i, k in enumerate(self.key)
            if k is not Ellipsis and type(k) is not slice
        }
        return tuple(d for d in range(self.x.ndim) if d not in taken)


class Written:
    """The writes of a step, which is read in `region`. `numbers`: those of the counter."""

    def __init__(self, session: Any, numbers: Numbers, region: Region) -> None:
        self.s, self.numbers, self.modes = session, numbers, Modes.now()
        self.region = region
        self.writes: list[Write] = []
        self.versions: list[tuple[Tensor, int]] = []  # of what is written, then

    @functools.cached_property
    def known(self) -> Counter[int]:
        """Number of tensors in each piece of memory that the program could reach."""
        return Counter(id(m) for m in map(memory_of, self.region.seen.values()) if m is not None)

    def store(self, x: Tensor, key: Any, value: Any) -> bool:
        """True if this is such a write, which is noted then. Raises NotRolled for one at an index
        that depends on the counter in another way."""
        keys = key if type(key) is tuple else (key,)
        at = [i for i, k in enumerate(keys) if self.numbers.has(k)]
        if not at:
            return False
        write = Write(x, keys, at[0], value)
        if len(at) > 1 or not all(map(self._is_plain, keys)) or not isinstance(value, Tensor):
            raise NotRolled
        aval = x.aval
        row = Aval(tuple(aval.shape[d] for d in write.whole()), aval.dtype, aval.device)
        if not self._may_wait(x) or not same_aval(row, value.aval):
            raise NotRolled
        for i, k in enumerate(keys):
            size = aval.shape[dimension(keys, i, x.ndim)] if type(k) is int else None
            if size is not None and not (known_lt(k, size) and known_lt(-size, k + 1)):
                raise NotRolled
        self.numbers.range_in(keys[at[0]], aval.shape[dimension(keys, at[0], x.ndim)])
        self.writes.append(write._replace(value=clone(value)))  # which may be written later
        self.versions.append((value, value._storage.version))
        return True

    def _is_plain(self, k: Any) -> bool:
        whole = k is Ellipsis or (type(k) is slice and k == slice(None))
        return whole or type(k) is int or self.numbers.has(k)

    def _may_wait(self, x: Tensor) -> bool:
        """True if a write can be deferred: nobody but the program sees when it is done."""
        s, once = self.s, all(x is not w.x for w in self.writes)
        alone = self.known[id(x._array.storage)] == 1  # not a view, and none of it
        outside = s.outside.shadow(x) is not None or x._requires_grad
        always = not s.ties.open and not s.ties.regions and self.modes == Modes.now()
        return once and alone and always and not outside

    def check(self, read: Iterable[Any], others: Iterable[Tensor]) -> None:
        """Raises NotRolled if the step reads what it writes, or what it wrote lost its history by a
        later write. `read`: what its operations read; `others`: tensors that it is given parts
        of."""
        if any(x.requires_grad and x._storage.version != n for x, n in self.versions):
            raise NotRolled
        handles, memory = {*read}, {id(memory_of(x)) for x in others}
        for x in (w.x for w in self.writes):
            storage = x._array.storage
            if storage.handle in handles or id(storage) in memory:
                raise NotRolled

    def finish(self, behind: Behind) -> None:
        """Write the rows, behind the loop."""
        for write in self.writes:
            x, key, at, value = write
            rows = behind.whole(value)  # [step, ...]
            dim = dimension(key, at, x.ndim)
            low, high, step = self.numbers.range_in(key[at], x.shape[dim])
            before = sum(d < dim for d in write.whole())
            rows = movedim(flip(rows, 0) if step < 0 else rows, 0, before)
            x[(*key[:at], slice(low, high + 1, abs(step)), *key[at + 1 :])] = rows
            if type(behind.length) is int:
                x._storage.version += behind.length - 1
            else:  # what only a run knows: in the place of the one write
                counts = self.s.counts.setdefault(id(x._storage), [])
                counts.append((x._storage, 1, out(behind.length)))
