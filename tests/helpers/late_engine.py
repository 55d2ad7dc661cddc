"""An engine without other ranks, for tests of what compiled code does between start and wait: it
reads what is sent, and writes what is received, as late as it may, and spoils memory before.

As if all ranks gave the same. `latency`: seconds that pass between a start and its end at least.
"""

import time
from datetime import timedelta

import numpy as np

from eager.distributed import groups
from eager.distributed.engine import ReduceOp


class _Request:
    def __init__(self, engine, end):
        self._engine, self._end = engine, end
        engine.idle_at = max(time.monotonic(), engine.idle_at) + engine.latency
        self._at, self._asked = engine.idle_at, False

    def done(self):
        left = self._at - time.monotonic()
        if not self._asked:
            self._asked = True
            self._engine.waited += max(0.0, left)
        if left > 0:
            return False
        if self._end is not None:
            self._end()
            self._end = None
        return True


class LateEngine:
    def __init__(self, size=2, latency=0.0):
        self.rank, self.size, self.latency = 0, size, latency
        self.started = []  # names
        self.idle_at = 0.0  # when the wire is idle, which has one message at a time
        self.waited = 0.0  # seconds that were left of the latencies when somebody waited

    def _late(self, name, out, value):
        """`value()` is asked for, and written, when somebody waits."""
        self.started.append(name)

        def end():
            out[...] = value()

        return _Request(self, end)

    def all_reduce(self, array, op):
        kept = array.copy()
        spoil(array)
        return self._late("all_reduce", array, lambda: self._reduced(kept, op))

    def _reduced(self, x, op):
        found = x * self.size if op is ReduceOp.SUM else x
        return found.astype(x.dtype)

    def broadcast(self, array, root):
        kept = array.copy()
        spoil(array)
        return self._late("broadcast", array, lambda: kept)

    def all_gather(self, out, array):
        spoil(out)
        return self._late(
            "all_gather", out, lambda: np.stack([array] * self.size).reshape(out.shape)
        )

    def reduce_scatter(self, out, array, op):
        spoil(out)
        part = array.reshape(self.size, -1)[0]
        return self._late("reduce_scatter", out, lambda: self._reduced(part, op).reshape(out.shape))

    def all_to_all(self, out, array, received, sent):
        spoil(out)
        first = array.reshape(-1)[: sent[0] if sent else array.size // self.size]
        return self._late(
            "all_to_all", out, lambda: np.concatenate([first] * self.size).reshape(out.shape)
        )

    def barrier(self):
        return self.all_reduce(np.zeros(1, np.float32), ReduceOp.SUM)

    def free(self):
        pass


def spoil(array):
    array.reshape(-1).view(np.uint8)[...] = 0xFF if array.dtype.kind == "f" else 0x55


def world(engine, timeout=10.0):
    """The default group on an engine; `destroy_process_group()` ends it."""
    assert groups._state.world is None
    made = groups.ProcessGroup(
        engine, tuple(range(engine.size)), timedelta(seconds=timeout), "world"
    )
    groups._state.world = groups.GroupMember.WORLD = made
    return made
