"""Verified calls: how far two right answers may lie apart. (graph, inputs) -> samples of rounding.

Compiled code rounds in other places than eager does, so floats differ; by how much is a property of
the program: where it divides by what cancelled, a lot. It is measured, element by element: the
graph is run op by op a few times with every result moved by one unit of rounding (of what was
summed, in a sum), up or down by chance. An element that differs by more than a small multiple of
what it moved by was not rounded, it is wrong; an integer or a mask that never moves is exact.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, Final

import numpy as np

from eager.base.config import config
from eager.ops.contract import Contract
from eager.ops.index import IndexAdd
from eager.ops.kinds import Cast, Reduce, Scan
from eager.ops.window import SumPool, SumPoolGrad
from jitcap.graph.graph import (
    CHECK,
    Graph,
    Node,
    evaluate,
    is_definer,
    last_uses,
    sized,
    sizes_found,
    sizes_of,
)
from jitcap.verify.compare import Leaf

FREE: Final = 4  # roundings that are allowed without a measurement
FIRST: Final = 8  # samples that most elements are decided by; the others need all
ALL: Final = 64  # each runs the graph op by op
TEXT: Final = 64  # roundings by which the numbers in a text are moved
_SUMS: Final = (Contract, IndexAdd, Reduce, Scan, SumPool, SumPoolGrad)
_NUMBER: Final = r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+|inf|nan)"

Samples = Callable[[float], Iterator[dict[str, Any]]]  # amplitude -> value by path, again and again


def disturbed(graph: Graph, inputs: Sequence[Any], amplitude: float, seed: int) -> list[Any]:
    """The outputs of the graph, op by op, each result moved by `amplitude` roundings."""
    chance = np.random.default_rng(seed)
    env: dict[Node, Any] = dict(zip(graph.inputs, inputs, strict=True))
    dead, sizes = last_uses(graph), sizes_of(graph, env)
    with np.errstate(all="ignore"):
        for n in graph.nodes:
            arrays = tuple(env[a] if isinstance(a, Node) else a for a in n.args)
            node = sized(n, sizes)
            value: Any = True if n.op is CHECK else evaluate(node, arrays)
            env[n] = value if amplitude == 0 else _moved(node, arrays, value, amplitude, chance)
            if is_definer(n):
                sizes |= sizes_found(n, value if len(n.avals) > 1 else (value,))
            for d in dead.get(n, ()):
                env.pop(d, None)
    return [env[o] for o in graph.outputs]


def _moved(n: Node, arrays: tuple[Any, ...], value: Any, amplitude: float, chance: Any) -> Any:
    if not n.op.rounds:
        return value
    if isinstance(value, tuple):
        return tuple(_shift(v, np.abs(v), amplitude, chance) for v in value)
    if isinstance(n.op, Cast) and _eps(value) <= _eps(arrays[0]):
        return value  # to a type that holds more
    magnitude = np.abs(value)
    if isinstance(n.op, _SUMS) and getattr(n.op, "monoid", "sum") == "sum":
        magnitude = _summed(n, arrays, magnitude)
    return _shift(value, magnitude, amplitude, chance)


def _summed(n: Node, arrays: tuple[Any, ...], magnitude: Any) -> Any:
    """The size of what was summed, times what the order of a long sum can do to it."""
    positive = tuple(np.abs(a) if _eps(a) else a for a in arrays)
    size = max((a.size for a in arrays if isinstance(a, np.ndarray)), default=1)
    terms = max(1.0, size / max(1, np.size(magnitude)))
    whole = evaluate(n, positive)
    return np.maximum(magnitude, np.abs(whole)) * (1 + np.sqrt(terms) / 8)


def _shift(value: Any, magnitude: Any, amplitude: float, chance: Any) -> Any:
    unit = _eps(value) * amplitude
    if not unit:
        return value
    step = np.asarray(magnitude * unit, np.asarray(value).dtype)
    up = chance.integers(0, 2, np.shape(value), dtype=np.bool_)
    moved = np.where(up, value + step, value - step)
    return moved if isinstance(value, np.ndarray) else type(value)(moved)


def _eps(value: Any) -> float:
    """One rounding of values of this type; 0 of what is not rounded."""
    kind = np.asarray(value).dtype
    if kind.kind in "fc":
        return float(np.finfo(kind).eps)
    return 2.0**-7 if kind.kind == "V" or kind.name == "bfloat16" else 0.0


# ---- leaves


def judge(leaf: Leaf, samples: Samples) -> str:
    """Description of what is wrong with a leaf, "" if nothing is."""
    if isinstance(leaf.got, str):
        return _judge_text(leaf, samples)
    if isinstance(leaf.got, bytes):
        return "" if leaf.got == leaf.want else f"{leaf.got!r} instead of {leaf.want!r}"
    if _other_zero(leaf.got, leaf.want):
        return f"{leaf.got} in the compiled version, {leaf.want} in Python"
    wrong = far(leaf.got, leaf.want)
    for count in (FIRST, ALL):
        if not wrong.any():
            return ""
        wrong &= ~_within(leaf, islice(samples(1.0), count + 1))
    if not wrong.any():
        return ""
    a, b = np.asarray(leaf.got), np.asarray(leaf.want)
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    element = f"element {list(at)}: " if at else ""
    more = f" ({int(wrong.sum())} of {wrong.size} elements differ)" if wrong.size > 1 else ""
    return f"{element}{a[at]!s} in the compiled version, {b[at]!s} in Python{more}"


def _other_zero(got: Any, want: Any) -> bool:
    """True if two zeros of Python differ in their sign. (In an array that depends on the order of a
    sum.)"""
    both = isinstance(got, float) and isinstance(want, float) and got == want == 0.0
    return both and math.copysign(1.0, got) != math.copysign(1.0, want)


def far(got: Any, want: Any) -> Any:
    """A mask of what differs by more than a few roundings of its own."""
    if _other_zero(got, want):
        return np.asarray(True)
    a, b = np.asarray(got), np.asarray(want)
    eps = _eps(a)
    if not eps:
        return np.atleast_1d(a != b).reshape(a.shape) if a.shape else np.asarray(a != b)
    x, y = _wide(a), _wide(b)
    with np.errstate(all="ignore"):
        apart = np.abs(x - y)
        close = apart <= FREE * eps * np.abs(y) + _tiny(a)
    return ~(close | (x == y) | (np.isnan(x) & np.isnan(y)))


def _within(leaf: Leaf, samples: Iterator[dict[str, Any]]) -> Any:
    """Mask of elements as near as rounding may bring them; the first sample is undisturbed."""
    got, want = _wide(np.asarray(leaf.got)), _wide(np.asarray(leaf.want))
    first: Any = next(samples).get(leaf.key)
    spread = np.zeros(got.shape)
    broken = np.zeros(got.shape, bool)
    for sample in samples:
        value: Any = sample.get(leaf.key)
        if np.shape(value) != got.shape or np.shape(first) != got.shape:
            continue
        with np.errstate(all="ignore"):
            moved = np.abs(_wide(np.asarray(value)) - _wide(np.asarray(first)))
        broken |= ~np.isfinite(moved) & ~np.isnan(_wide(np.asarray(first)))
        spread = np.fmax(spread, moved)
    if not _eps(leaf.got):
        return (spread > 0) | broken  # an integer that rounding decides
    with np.errstate(all="ignore"):
        near = np.abs(got - want) <= config.tolerance * spread + FREE * _eps(leaf.got) * np.abs(
            want
        )
    return near | broken


def _wide(a: Any) -> Any:
    return a.astype(np.complex128 if a.dtype.kind == "c" else np.float64)


def _tiny(a: Any) -> float:
    return float(np.finfo(a.dtype).tiny) if a.dtype.kind in "fc" else 1e-38


def _judge_text(leaf: Leaf, samples: Samples) -> str:
    """Texts must be the same but for numbers that rounding moves across what the text shows."""
    what = f"{leaf.got!r} in the compiled version, {leaf.want!r} in Python"
    got, want = re.findall(_NUMBER, leaf.got), re.findall(_NUMBER, leaf.want)
    if leaf.got == leaf.want:
        return ""
    if re.sub(_NUMBER, "#", leaf.got) != re.sub(_NUMBER, "#", leaf.want) or len(got) != len(want):
        return what
    texts = [s.get(leaf.key) for s in islice(samples(float(TEXT)), ALL)]
    rows = [re.findall(_NUMBER, t) for t in texts if isinstance(t, str)]
    rows = [[float(x) for x in row] for row in rows if len(row) == len(want)]
    for i, (a, b) in enumerate(zip(got, want, strict=True)):
        seen = [row[i] for row in rows] + [float(a)]
        if a != b and not min(seen) <= float(b) <= max(seen):
            return what
    return ""
