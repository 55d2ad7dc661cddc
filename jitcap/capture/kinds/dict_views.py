"""Capture: members of a dictionary's keys and pairs. view, item -> whether it is there."""

from __future__ import annotations

from typing import Any, Final

from jitcap.capture.kinds.base import Session

_KEYS: Final[Any] = type({}.keys())
_ITEMS: Final[Any] = type({}.items())


def looks_up(view: Any, item: Any) -> bool:
    """True if a dictionary view finds `item` by a key, as its dictionary does."""
    pair = type(item) is tuple and len(item) == 2
    return type(view) is _KEYS or (type(view) is _ITEMS and pair)


def in_view(s: Session, view: Any, item: Any) -> bool:
    """True if the item is in the view: the key is found by itself, not by a stand-in."""
    of_pairs = type(view) is _ITEMS
    key = s.known(item[0] if of_pairs else item)
    s.hashing((key,))
    if not of_pairs:
        return key in view
    hash(key)  # also of an empty dictionary
    held = [v for k, v in view if k is key or k == key]
    return any(s.same(v, item[1]) or s.truth(s.compare("==", v, item[1])) for v in held)
