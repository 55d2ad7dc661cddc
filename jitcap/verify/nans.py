"""`check_nans=True`: where the results of a run have a NaN, the same graph op by op. -> the line.

The inputs are copied first, because the compiled code may write them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jitcap.graph.graph import Graph, Node

Run = Callable[[list[Any]], list[Any]]


def search_nans(run: Run, graph: Graph) -> Run:
    """`run`, which raises FloatingPointError at the op that made a NaN out of none."""

    def checked(inputs: list[Any]) -> list[Any]:
        copies = [copy_of(x) for x in inputs]
        results = run(inputs)
        if any(map(has_nan, results)) or any(map(has_nan, inputs)):
            _blame(graph, copies)
        return results

    return checked


def _blame(graph: Graph, inputs: Sequence[Any]) -> None:
    """Find the first op whose result has a NaN while its arguments have none; raise."""
    n = first_made(graph, inputs, has_nan)
    if n is not None:
        raise FloatingPointError(
            f"{n.op.name} makes the first NaN, at {n.where}; its arguments have none "
            f"(shapes {', '.join(map(repr, (p.avals[0] for p in n.parents)))})"
        )


def first_made(
    graph: Graph, inputs: Sequence[Any], bad: Callable[[Any], bool], *, numbers: bool = False
) -> Node | None:
    """The first operation, op by op, whose result is `bad` while its operands are not; `numbers`:
    those that the program itself writes down are operands, too."""
    tainted = {n for n, x in zip(graph.inputs, inputs, strict=True) if bad(x)}
    with np.errstate(all="ignore"):
        for n, value in graph.steps(inputs):
            if not any(map(bad, value if isinstance(value, tuple) else (value,))):
                continue
            known = numbers and any(bad(a) for a in n.args if not isinstance(a, Node))
            if not known and not any(p in tainted for p in n.parents):
                return n
            tainted.add(n)
    return None


def has_nan(value: Any) -> bool:
    """True if an array or number holds a NaN."""
    a = np.asarray(value)
    return bool(a.dtype.kind in "fcV" and np.isnan(a.astype(np.complex128)).any())


def is_endless(value: Any) -> bool:
    """True if an array or number holds a NaN or an infinity."""
    a = np.asarray(value)
    return bool(a.dtype.kind in "fcV" and not np.isfinite(a.astype(np.complex128)).all())


def copy_of(value: Any) -> Any:
    return value.copy() if isinstance(value, np.ndarray) else value
