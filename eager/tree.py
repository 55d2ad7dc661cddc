"""Trees of values: what control flow carries. nested tuples, lists and dictionaries <-> leaves.

A leaf is anything else; None is a tree without leaves. Two trees agree when their `Structure`s are
equal: the same containers, of the same types, with the same keys in the same order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, cast

from eager.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Structure:
    """What a tree is without its leaves. `kind` is a container's type, None for a leaf; `keys` are
    those of a dictionary."""

    kind: type | None
    children: tuple[Structure, ...] = ()
    keys: tuple[Any, ...] = ()

    def __str__(self) -> str:
        if self.kind is None:
            return "*"
        if self.kind is type(None):
            return "None"
        inner = ", ".join(map(str, self.children))
        if self.keys:
            inner = ", ".join(f"{k!r}: {c}" for k, c in zip(self.keys, self.children, strict=True))
        if self.kind is tuple:
            return f"({inner}{',' if len(self.children) == 1 else ''})"
        if self.kind is list:
            return f"[{inner}]"
        return f"{{{inner}}}" if self.kind is dict else f"{self.kind.__name__}({inner})"

    def build(self, leaves: Sequence[Any]) -> Any:
        """The tree with these leaves, in the order of `flatten`."""
        return self._fill(iter(leaves))

    def _fill(self, leaves: Iterator[Any]) -> Any:
        if self.kind is None:
            return next(leaves)
        if self.kind is type(None):
            return None
        parts, make = [c._fill(leaves) for c in self.children], cast("Any", self.kind)
        if issubclass(self.kind, dict):
            return make(zip(self.keys, parts, strict=True))
        return make(*parts) if hasattr(make, "_fields") else make(parts)


LEAF: Final = Structure(None)
_NONE: Final = Structure(type(None))


def flatten(tree: Any) -> tuple[list[Any], Structure]:
    """The leaves of a tree, from left to right, and its structure."""
    leaves: list[Any] = []
    return leaves, _structure(tree, leaves)


def _structure(tree: Any, leaves: list[Any]) -> Structure:
    if tree is None:
        return _NONE
    if isinstance(tree, dict):
        children = tuple(_structure(v, leaves) for v in tree.values())
        return Structure(type(tree), children, tuple(tree))
    if isinstance(tree, tuple | list):
        return Structure(type(tree), tuple(_structure(v, leaves) for v in tree))
    leaves.append(tree)
    return LEAF
