"""Beside all stages: walks over things that lead to others. starts, steps -> each thing once.

Not by recursion: what a loop of the program computes is as deep as the loop is long.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any, TypeVar

T = TypeVar("T")


def _itself(thing: Any) -> Any:
    return thing


def reach(
    starts: Iterable[T],
    following: Callable[[T], Iterable[T]],
    key: Callable[[T], Hashable] = _itself,
) -> Iterator[T]:
    """`starts`, and what `following` leads to from there, each once. `key` tells them apart.

    A thing is asked where it leads to when the next one is wanted."""
    seen: set[Hashable] = set()
    stack = [*starts]
    while stack:
        thing = stack.pop()
        name = key(thing)
        if name not in seen:
            seen.add(name)
            yield thing
            stack += following(thing)


def after_parents(
    end: T, parents: Callable[[T], Iterable[T]], is_done: Callable[[T], bool]
) -> Iterator[T]:
    """Items to do for `end`, parents first. The caller does each before it asks for the next."""
    stack = [end]
    while stack:
        top = stack[-1]
        missing = [] if is_done(top) else [p for p in parents(top) if not is_done(p)]
        stack += missing
        if not missing:
            stack.pop()
            if not is_done(top):
                yield top
