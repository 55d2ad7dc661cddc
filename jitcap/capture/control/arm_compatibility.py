"""Capture: whether what two ways of a branch leave can be one value. one of each -> refusals.

Tensors must look the same, and gradients must go to the same tensors: Python gives none, and no
zeros, to what was not used. Where one way leads to all that the other leads to, and to more (a
penalty that is added, rows that an expert gets), `OneSided` says which.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from eager.control_flow import cond as control_flow
from eager.control_flow.cond import ChoiceNode
from eager.core.grad_fn_names import NamedNode
from eager.core.sym import SymNumber
from eager.core.tape import CopySlicesNode, OpNode, mode
from eager.core.tensor import Tensor
from eager.core.traced import Traced
from eager.sizes.aval import contiguous_strides
from jitcap.base.walks import reach
from jitcap.capture.control.checkpoint import Differ
from jitcap.capture.control.histories import Unsayable
from jitcap.capture.control.loop_iterables import same_look, strides_of
from jitcap.capture.interpret import NULL
from jitcap.capture.kinds.base import MISSING
from jitcap.capture.numbers import INT64

CONSTANTS: Final = (str, bytes, type(None), bool, int, float, complex)
_SURE: Final = (OpNode, ChoiceNode, NamedNode, CopySlicesNode)  # all edges get a gradient
Span = tuple[float, float]


class OneSided(Differ):
    """Gradients of the way `way` go to more tensors than those of the other."""

    expected: Final = "gradients go to all that one way uses"

    def __init__(self, what: str, way: int) -> None:
        super().__init__(what)
        self.way = way


class FirstTime(Unsayable):
    """The way `way` makes what is not there yet, and will be: gradients, state of an optimizer."""

    expected: Final = "what is not there yet is made"

    def __init__(self, what: str, way: int) -> None:
        super().__init__(what)
        self.way = way


def check_tensors(session: Any, spans: Sequence[Span], a: Tensor, b: Tensor, *left: Tensor) -> None:
    """`left`: the same with the history that each way leaves."""
    given = [x for r in session.rolls for x in r.given]  # which have no history yet
    if type(a) is not Tensor or type(b) is not Tensor:
        raise Differ("a tensor of a class of its own")
    if (a._storage.inference, a._storage.sealed) != (b._storage.inference, b._storage.sealed):
        raise Differ("one way leaves an inference tensor, the other a normal one")
    if not same_look(a.aval, b.aval):
        raise Differ(f"one way leaves {a.aval!r}, the other {b.aval!r}")
    for x in (a, b):
        leaf = x._requires_grad and x._node is None and not any(x is each for each in given)
        if x._hooks or x._retains or leaf:
            raise Differ("a leaf, or a tensor with hooks")
        in_loop = session.rolls or session.ties.regions
        if is_placed(session, x) and (x.requires_grad or in_loop or not _in_order(x)):
            raise Differ("a view, in a loop or with a gradient, or one whose dimensions are moved")
    check_histories(spans, *left)


def check_histories(spans: Sequence[Span], a: Tensor, b: Tensor) -> None:
    if not (a._requires_grad or b._requires_grad):
        return
    if not mode.enabled:
        raise Differ("the result requires a gradient where none is recorded")
    edges = [
        {*map(_behind_views, control_flow.outer_edges([x], (span,)))}
        for x, span in zip((a, b), spans, strict=True)
    ]
    covers = [edges[way] >= edges[1 - way] for way in range(2)]
    if not all(covers):
        covers = [_reached(edges[way]) >= edges[1 - way] for way in range(2)]
    if all(covers) and a._requires_grad == b._requires_grad:
        return
    what = "a gradient goes elsewhere after the one way than after the other"
    if a._requires_grad != b._requires_grad:
        what = "the result requires a gradient after one way only"
    for way in range(2):
        if covers[way] and (a, b)[way]._requires_grad:
            raise OneSided(what, way)
    raise Differ(what)


def _behind_views(edge: Any) -> Any:
    """The edge that a gradient reaches through views alone: zeros arrive as zeros."""
    node = edge[0]
    while isinstance(node, OpNode) and node.op.kind == "view" and not (node.hooks or node.retained):
        edge = node.edges[0]
        node = edge[0]
    return edge


def _reached(edges: set[Any]) -> set[Any]:
    """Edges that gradients reach in backward from these: more zeros make no difference."""
    return {*reach(edges, lambda e: _edges_of(e[0]) if isinstance(e[0], _SURE) else ())}


def _edges_of(node: Any) -> list[Any]:
    return [_behind_views(e) for e in node.edges if e is not None]


def is_placed(session: Any, x: Tensor) -> bool:
    """True if the tensor shows that it lies in the memory of another, or may after a branch."""
    array = x._array
    inner = type(array) is Traced and bool(array.chain or array.offset)
    known = type(array) is Traced and id(array.storage) in session.ties.placed
    return x._view is not None or inner or known or not is_contiguous(x)


def _in_order(x: Tensor) -> bool:
    """True if what is computed from the tensor lies as if it was contiguous."""
    strides = strides_of(x)
    known = all(type(n) is int for n in strides) and 0 not in strides
    return is_contiguous(x) or (known and list(strides) == sorted(strides, reverse=True))


def is_contiguous(x: Tensor) -> bool:
    array = x._array
    if type(array) is Traced:
        return bool(array.strides == contiguous_strides(array.shape))
    return bool(np.asarray(array).flags.c_contiguous)


def number_kind(value: Any) -> type | None:
    """The type of a number that the graph can hold."""
    kind = value.pytype if isinstance(value, SymNumber) else type(value)
    if kind is int and not isinstance(value, SymNumber) and value not in INT64:
        return None
    return kind if kind in (bool, int, float) else None


def word_of(value: Any) -> str:
    if value is NULL or value is MISSING:
        return "nothing"
    return repr(value) if type(value) in CONSTANTS else type(value).__name__
