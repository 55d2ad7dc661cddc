"""Beside the pipeline: the garbage collector, which waits while something is compiled."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_frozen = False  # whether the program was seen to have frozen objects: to count them takes long


@contextmanager
def collection_paused() -> Iterator[None]:
    """No garbage collection: a compile makes many objects that live, and scanning them each time a
    few thousand more exist takes as long as all the rest. Nor are they scanned at its end, as young
    ones: they count as old, unless the program has frozen some, which no call thaws alone."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            _age()
            gc.enable()


def _age() -> None:
    """Make all objects old, unless the program has frozen some."""
    global _frozen
    _frozen = _frozen or gc.get_freeze_count() > 0
    if not _frozen:
        gc.freeze()
        gc.unfreeze()
