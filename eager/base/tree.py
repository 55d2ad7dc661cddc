"""Trees of values: what control flow carries. nested tuples, lists and dictionaries <-> leaves.

A leaf is anything else; None is a tree without leaves. Two trees agree when their `Structure`s are
equal: the same containers, of the same types, with the same keys in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, cast

from eager.base.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Structure:
    """Structure of a tree without its leaves. `kind` is a container's type, None for a leaf; `keys`
    are those of a dictionary."""

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


def mapped(fn: Callable[[Any], Any], tree: Any) -> Any:
    """`tree` with `fn` of its leaves, from left to right."""
    if tree is None:
        return None
    if isinstance(tree, dict):
        return type(tree)((key, mapped(fn, value)) for key, value in tree.items())
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*(mapped(fn, value) for value in tree))
    if isinstance(tree, tuple | list):
        return type(tree)(mapped(fn, value) for value in tree)
    return fn(tree)


def fill(tree: Any, leaves: Sequence[Any]) -> Any:
    """`tree` with other leaves."""
    rest = iter(leaves)
    return mapped(lambda _: next(rest), tree)


def leaves_of(tree: Any, path: str = "") -> list[tuple[str, Any]]:
    """The leaves of `tree`, each with the way to it."""
    if tree is None:
        return []
    if isinstance(tree, dict):
        parts = [(f"{path}[{key!r}]", value) for key, value in tree.items()]
    elif isinstance(tree, tuple) and hasattr(tree, "_fields"):
        parts = [(f"{path}.{name}", getattr(tree, name)) for name in tree._fields]
    elif isinstance(tree, tuple | list):
        parts = [(f"{path}[{i}]", value) for i, value in enumerate(tree)]
    else:
        return [(path, tree)]
    return [leaf for way, value in parts for leaf in leaves_of(value, way)]


def structure(tree: Any) -> Structure:
    """Equal for trees that differ in their leaves only."""
    return flatten(tree)[1]


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


def ragged(data: Any) -> Exception:
    """The exception for nested sequences whose lengths are not those of the first ones."""
    lengths: list[int] = []
    first = data
    while isinstance(first, Sequence) and not isinstance(first, str) and first:
        lengths.append(len(first))
        first = first[0]

    def unlike(x: Any, dim: int) -> Exception | None:
        nested = isinstance(x, Sequence) and not isinstance(x, str)
        if dim == len(lengths):
            kind = type(x).__name__
            return (
                TypeError(f"{kind!r} object cannot be interpreted as a number") if nested else None
            )
        if not nested:
            return TypeError("not a sequence")
        if len(x) != lengths[dim]:
            text = f"expected sequence of length {lengths[dim]} at dim {dim} (got {len(x)})"
            return ValueError(f"{text}: pad them to one, as nn.utils.rnn.pad_sequence does")
        found = (unlike(each, dim + 1) for each in x)
        return next((error for error in found if error is not None), None)

    return unlike(data, 0) or ValueError("the lengths of nested sequences differ")
