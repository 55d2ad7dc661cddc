"""`eager.distributed`: random draws that do not depend on the number of ranks. a `with` block ->
this rank's rows of the draws that one process makes for the whole batch.

Written like user code, which `@jit` reads: only what draws are rows of is the library's.
"""

from __future__ import annotations

import contextlib
from typing import Any

from eager.distributed.groups import is_initialized, resolve
from eager.random import set_rows


class whole_batch_draws(contextlib.ContextDecorator):
    """`with whole_batch_draws(): loss = loss_of(model(x), y)`: dropout and other draws are those
    that one process makes for the whole batch, of which each rank has every n-th row, as
    `DistributedSampler` gives them. All ranks have the same seed and draw the same.

    The first dimension of each draw in here is that of the batch; draws without dimensions are the
    same on all ranks. What has other first dimensions (parameters, sequences before batches)
    belongs outside. Without compiling, a rank draws for all ranks and keeps its part. Of one
    process, or before `init_process_group`, draws are as ever.

    Gamma, Poisson and binomial draws raise RuntimeError in here."""

    def __init__(self, group: Any = None) -> None:
        alone = group is None and not is_initialized()
        found = None if alone else resolve(group)
        here = found is not None and found.size() > 1
        self._rows = (found.rank(), found.size()) if here and found is not None else None
        self._before: list[Any] = []  # a decorated function may call itself

    def __enter__(self) -> whole_batch_draws:
        self._before.append(set_rows(self._rows))
        return self

    def __exit__(self, *_: object) -> None:
        set_rows(self._before.pop())
