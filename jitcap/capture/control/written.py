"""Capture: tensors whose rows the steps of a loop write, for `roll`. `x[:, t] = value` in a step ->
one write of all rows behind the loop.

Such a tensor was made by the program, and the step does nothing else with its memory: then it makes
no difference when its rows are written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

from eager.aval import Aval, same_aval
from eager.ops.move import flip
from eager.ops.pointwise import clone
from eager.ops.view import movedim
from eager.sym import SymNumber
from eager.tensor import Tensor
from jitcap.capture.control.behind import Behind, NotRolled
from jitcap.capture.control.steps import Numbers, dimension
from jitcap.capture.sizes import out


class Write(NamedTuple):
    """`x[..., place, ...] = value`, with `dim` dimensions before the place."""

    x: Tensor
    dim: int
    place: SymNumber
    value: Tensor


class Written:
    """The writes of a step. `numbers`: those of the counter; `reachable`: what the program has."""

    def __init__(self, session: Any, numbers: Numbers, reachable: Iterable[Any]) -> None:
        self.s, self.numbers = session, numbers
        self.known = Counter(
            id(x._array.storage) for x in reachable if isinstance(x, Tensor) and _is_traced(x)
        )
        self.writes: list[Write] = []

    def store(self, x: Tensor, key: Any, value: Any) -> bool:
        """Whether this is such a write, which is noted then. Raises NotRolled for one at a place
        that the counter decides in another way."""
        keys = key if type(key) is tuple else (key,)
        at = [i for i, k in enumerate(keys) if self.numbers.has(k)]
        if not at:
            return False
        rest = (*keys[: at[0]], *keys[at[0] + 1 :])
        if not all(k is Ellipsis or (type(k) is slice and k == slice(None)) for k in rest):
            raise NotRolled
        dim = dimension(keys, at[0], x.ndim)
        if not self._may_wait(x) or not isinstance(value, Tensor):
            raise NotRolled
        row = Aval(tuple(n for d, n in enumerate(x.aval.shape) if d != dim), x.dtype, x.aval.device)
        if not same_aval(row, value.aval):
            raise NotRolled
        self.numbers.range_in(keys[at[0]], x.shape[dim])
        self.writes.append(Write(x, dim, keys[at[0]], clone(value)))  # which may be written later
        return True

    def _may_wait(self, x: Tensor) -> bool:
        """Whether nobody but the program sees when it is written."""
        s, once = self.s, all(x is not w.x for w in self.writes)
        alone = self.known[id(x._array.storage)] == 1  # not a view, and none of it
        outside = s.outside.shadow(x) is not None or x._requires_grad
        return once and alone and not outside and not s.ties.open and not s.ties.regions

    def check(self, read: Iterable[Any], others: Iterable[Tensor]) -> None:
        """Raises NotRolled if the step reads what it writes. `read`: what its operations read;
        `others`: tensors that it is given parts of."""
        handles, memory = {*read}, {id(x._array.storage) for x in others if _is_traced(x)}
        for x in (w.x for w in self.writes):
            storage = x._array.storage
            if storage.handle in handles or id(storage) in memory:
                raise NotRolled

    def finish(self, behind: Behind) -> None:
        """Write the rows, behind the loop."""
        for x, dim, place, value in self.writes:
            rows = behind.whole(value)  # [step, ...]
            low, high, step = self.numbers.range_in(place, x.shape[dim])
            rows = movedim(flip(rows, 0) if step < 0 else rows, 0, dim)
            x[(*(slice(None),) * dim, slice(low, high + 1, abs(step)))] = rows
            if type(behind.length) is int:
                x._storage.version += behind.length - 1
            else:  # what only a run knows: in the place of the one write
                counts = self.s.counts.setdefault(id(x._storage), [])
                counts.append((x._storage, 1, out(behind.length)))


def _is_traced(x: Tensor) -> bool:
    return hasattr(x._array, "storage")
