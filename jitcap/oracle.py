"""Around the compiled graph, on request: the same graph op by op, to compare with or to search in.

`verify=True` compares the first run of every compiled version with eager's kernels; `check_nans`
looks at every run's results and, where a NaN appeared, names the user's line that made it. Both
copy the inputs first, because the compiled code may write them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jitcap.config import config
from jitcap.graph import Graph, Node

Run = Callable[[list[Any]], list[Any]]
Writes = Sequence[tuple[int, int]]


class VerifyError(AssertionError):
    """Compiled code and eager disagree: a bug of this library, found by verify=True."""


def compare_first(run: Run, graph: Graph, writes: Writes) -> Run:
    """`run`, whose first call is compared with `graph`. Raises VerifyError if they differ."""
    pending = True

    def checked(inputs: list[Any]) -> list[Any]:
        nonlocal pending
        if not pending:
            return run(inputs)
        copies = [copy_of(x) for x in inputs]
        results = run(inputs)
        with np.errstate(all="ignore"):
            expected = graph.run(copies)
        written = {o: i for i, o in writes}
        plain = iter(results)
        got = [inputs[written[o]] if o in written else next(plain) for o in range(len(expected))]
        for n, a, b in zip(graph.outputs, got, expected, strict=True):
            _compare(n, a, b, graph)
        pending = False
        return results

    return checked


def _compare(n: Node, got: Any, expected: Any, graph: Graph) -> None:
    a, b = np.asarray(got), np.asarray(expected)
    if a.shape != b.shape or a.dtype != b.dtype:
        raise VerifyError(f"{n!r} from {n.where}: {a.dtype}{a.shape} against {b.dtype}{b.shape}")
    if n.aval.dtype.category < 2:
        wrong = a != b
    else:
        a, b = a.astype(np.complex128), b.astype(np.complex128)
        scale = np.abs(b[np.isfinite(b)]).max(initial=1.0)
        wrong = ~np.isclose(a, b, config.tolerance, config.tolerance * scale, equal_nan=True)
    if wrong.any():
        at = tuple(int(i) for i in np.argwhere(wrong)[0]) if wrong.ndim else ()
        raise VerifyError(
            f"{graph.name}: compiled code and eager differ in {int(wrong.sum())} of {wrong.size} "
            f"elements of {n!r} from {n.where}; at {at}: {a[at]} against {b[at]}"
        )


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
    tainted = {n for n, x in zip(graph.inputs, inputs, strict=True) if has_nan(x)}
    with np.errstate(all="ignore"):
        for n, value in graph.steps(inputs):
            if not any(map(has_nan, value if isinstance(value, tuple) else (value,))):
                continue
            if not any(p in tainted for p in n.parents):
                raise FloatingPointError(
                    f"{n.op.name} makes the first NaN, at {n.where}; its arguments have none "
                    f"(shapes {', '.join(map(repr, (p.avals[0] for p in n.parents)))})"
                )
            tainted.add(n)


def has_nan(value: Any) -> bool:
    """Whether an array or number holds a NaN."""
    a = np.asarray(value)
    return bool(a.dtype.kind in "fcV" and np.isnan(a.astype(np.complex128)).any())


def copy_of(value: Any) -> Any:
    return value.copy() if isinstance(value, np.ndarray) else value
