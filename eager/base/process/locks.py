"""Beside everything: locks that a forked process finds open. -> Lock, RLock, and properties that
have one.

Only the thread that forks is in the child: a lock that another one held would stay held there for
ever. What ours guard is changed by steps that each leave it whole, so the child goes on with what
it finds; a module that is half imported is no such thing, and a fork waits for its end.
"""

from __future__ import annotations

import _imp
import functools
import os
import threading
import time
import weakref
from _frozen_importlib import _module_locks  # type: ignore[attr-defined]
from typing import TYPE_CHECKING, Any, Final

PATIENCE: Final = 10.0  # seconds that a fork waits for imports

_locks: Final[weakref.WeakSet[Any]] = weakref.WeakSet()


def lock() -> threading.Lock:
    """A new `threading.Lock` that a forked process finds open."""
    made = threading.Lock()
    _locks.add(made)
    return made


def rlock() -> Any:
    """A new `threading.RLock` that a forked process finds open."""
    made = threading.RLock()
    _locks.add(made)
    return made


if TYPE_CHECKING:
    from functools import cached_property as cached_property
else:

    def cached_property(function: Any) -> Any:
        """A `functools.cached_property`; a forked process finds its lock, which it has in Python
        3.11, open."""
        made = functools.cached_property(function)
        if hasattr(made, "lock"):
            _locks.add(made.lock)
        return made


def _hold_imports() -> None:
    """Wait until no other thread is in the middle of an import, and let none begin: the child would
    wait for its end for ever."""
    end = time.monotonic() + PATIENCE
    while True:
        _imp.acquire_lock()
        owners = {getattr(each(), "owner", None) for each in tuple(_module_locks.values())}
        if owners <= {None, threading.get_ident()} or time.monotonic() > end:
            return
        _imp.release_lock()
        time.sleep(0.001)


def _in_child() -> None:
    for each in tuple(_locks):
        each._at_fork_reinit()
    _imp.release_lock()


os.register_at_fork(
    before=_hold_imports, after_in_parent=_imp.release_lock, after_in_child=_in_child
)
