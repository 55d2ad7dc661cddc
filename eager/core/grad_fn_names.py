"""On the tape, behind control flow: names of histories. a result of a choice or a loop -> the same,
with the history under the name that eager gives it.

Under capture all results of a choice or a loop come from one node; in eager each has the operation
that gave it. Which one that is, only the run may know.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eager.core.tape import Node, edge_of
from eager.core.tensor import Tensor

# A name, or (truth, name where it does not hold, name where it holds); None: nobody knows.
Label = str | tuple[Any, str, str] | None


class NamedNode(Node):
    """A result's own place on the tape; gradients pass through."""

    __slots__ = ("label",)

    def __init__(self, tensor: Tensor, label: Label) -> None:
        super().__init__((), (tensor.aval,))
        self.edges = (edge_of(tensor),)
        self.avals = (tensor.aval,)
        self.label = label

    def name(self) -> str:
        return self.label if isinstance(self.label, str) else "CloneBackward0"

    def vjp(self, grads: list[Any]) -> Sequence[Any]:
        return grads


def put_name(tensor: Tensor, label: Label) -> None:
    """Give a result with a history a place of its own."""
    if tensor._node is not None:
        tensor._node, tensor._index = NamedNode(tensor, label), 0


def label_of(tensor: Tensor) -> Label:
    """The name of a tensor's history; None also where it has none."""
    node = tensor._node
    if isinstance(node, NamedNode):
        return node.label
    return None if node is None else node.name()


def joined(truth: Any, labels: Sequence[Label]) -> Label:
    """The name of what is the one (where `truth` does not hold) or the other."""
    first, second = labels
    if first == second:
        return first
    plain = isinstance(first, str) and isinstance(second, str)
    return (truth, first, second) if plain else None  # type: ignore[return-value]
