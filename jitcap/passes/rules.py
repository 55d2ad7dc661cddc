"""Beside the passes: the words that rewrite rules are written in. nodes -> what they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from eager.core.op import Op
from eager.ops.create import FULL
from jitcap.graph.graph import Arg, Node, Number


class Maker(Protocol):
    """Builder of simplified nodes, which rules are given."""

    def make(self, op: Op | str, *args: Arg, like: Node, **attrs: Any) -> Arg:
        """A simplified node for `op(*args, **attrs)`."""


Rule = Callable[[Maker, Node], "Arg | None"]


def is_op(a: Arg, name: str) -> bool:
    """True if `a` is a node of the op `name`."""
    return isinstance(a, Node) and a.op.name == name


def constant(a: Arg) -> Number | None:
    """The number every element of `a` is, if that is known: a number, or a `full` of one."""
    if not isinstance(a, Node):
        return a
    if a.op is not FULL or isinstance(a.args[0], Node):
        return None
    return as_stored(a.args[0], a)


def as_stored(value: Number, n: Node) -> Number:
    """`value` after conversion to the node's element type (0.1 as a bfloat16, 300 as a uint8)."""
    with np.errstate(all="ignore"):
        stored: Number = np.asarray(value).astype(n.aval.dtype.np).item()
    return stored


def is_value(a: Arg, value: float) -> bool:
    """True if every element of `a` is known to be `value`; the sign of a zero counts."""
    c = constant(a)
    if c is None or isinstance(c, complex) or c != value:
        return False
    return value != 0 or bool(np.signbit(c) == np.signbit(value))
