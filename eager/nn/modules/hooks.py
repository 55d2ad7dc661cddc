"""Functions that run around `forward`. (table of hooks, function) -> a handle to take it back."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

_handle_ids = itertools.count()


class RemovableHandle:
    """Takes a hook back: `handle.remove()`, or at the end of `with handle:`."""

    def __init__(self, hooks: dict[int, Any]) -> None:
        self.hooks = hooks
        self.id = next(_handle_ids)

    def remove(self) -> None:
        self.hooks.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()


def add_hook(
    hooks: dict[int, Any], hook: Callable[..., Any], prepend: bool, with_kwargs: bool
) -> RemovableHandle:
    handle = RemovableHandle(hooks)
    entries = list(hooks.items())
    entries.insert(0 if prepend else len(entries), (handle.id, (hook, with_kwargs)))
    hooks.clear()
    hooks.update(entries)
    return handle
