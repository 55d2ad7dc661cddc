"""Watches kernels in the interpreter for what hardware does not order: threads of a program between barriers, programs of a grid. Imported by the tests of triton."""

from contextlib import contextmanager

import numpy as np

from codegen.targets.triton.runtime import interpreter
from codegen.targets.triton.runtime.on_numpy import Builder


class Watch:
    """The accesses of one kernel. `found`: what was not ordered."""

    def __init__(self):
        self.found = []
        self.begin(None)

    def begin(self, kernel):
        self.kernel, self.program = kernel, None
        self.reads, self.stores = [], []  # of the grid: (program, addresses)
        self.barrier()

    def barrier(self):
        self.read, self.stored = [], []  # of a program since a barrier: addresses

    def note(self, what):
        self.found.append(f"{self.kernel.fn.__name__}: {what}")

    def access(self, builder, pointers, mask):
        """Where it goes, by the lanes that are not masked off."""
        if builder.grid_idx != self.program:
            self.program, self.widest = builder.grid_idx, 1
            self.barrier()
        self.widest = max(self.widest, pointers.data.size)
        chosen = np.broadcast_to(np.asarray(getattr(mask, "data", mask), bool), pointers.data.shape)
        return np.unique(pointers.data[chosen])

    def load(self, builder, pointers, mask):
        at = self.access(builder, pointers, mask)
        if any(meet(at, other) for other in self.stored):
            self.note("reads back what it stored, with no barrier between")
        self.read.append(at)
        self.reads.append((self.program, at))

    def store(self, builder, pointers, mask):
        """What is smaller than a tile is read by many threads, and stored by one."""
        at = self.access(builder, pointers, mask)
        if pointers.data.size < self.widest and any(meet(at, other) for other in self.read):
            self.note("stores over what other threads read, with no barrier between")
        self.stored.append(at)
        self.stores.append((self.program, at))

    def end(self):
        for program, at in self.stores:
            for other, theirs in (*self.stores, *self.reads):
                if other != program and meet(at, theirs):
                    self.note("one program stores what another one reads or stores")
                    return


def meet(a, b):
    """Whether two sorted sets of addresses have one in common."""
    apart = not a.size or not b.size or a[-1] < b[0] or b[-1] < a[0]
    return not apart and np.intersect1d(a, b, assume_unique=True).size > 0


@contextmanager
def watching(monkeypatch):
    """Inside, kernels that are interpreted are watched."""
    watch = Watch()
    plain = interpreter.interpret

    def interpret(kernel, *args, **named):
        watch.begin(kernel)
        plain(kernel, *args, **named)
        watch.end()

    load, store = Builder.create_masked_load, Builder.create_masked_store

    def watched_load(self, pointers, mask, *rest):
        watch.load(self, pointers, mask)
        return load(self, pointers, mask, *rest)

    def watched_store(self, pointers, value, mask, *rest):
        watch.store(self, pointers, mask)
        return store(self, pointers, value, mask, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(interpreter, "interpret", interpret)
        patch.setattr(Builder, "create_masked_load", watched_load)
        patch.setattr(Builder, "create_masked_store", watched_store)
        patch.setattr(Builder, "create_barrier", lambda self: watch.barrier())
        yield watch
