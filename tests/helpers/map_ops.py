"""Every op sample of the registry in `vmap`: a sample -> what came of it, beside one call for each example.

The examples of a tensor are that of the sample and the same numbers in another order, where the function takes them.
Values, gradients by what is mapped (through `vmap`) and those of each example (inside of it) are compared with a loop's.
`scripts/vmap` runs the whole, `tests/eager/autograd/test_vmap.py` a slice.
"""

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import op_harness as harness
from device_ops import Outcome, difference

import eager
from eager.core.op import Sample
from eager.core.registry import PUBLIC, Public
from eager.core.tensor import Tensor

Place = tuple[
    str, int
]  # which of the tensors are mapped (all, even or odd ones), and over which dimension
PLACES: tuple[Place, ...] = (("all", 0), ("all", -1), ("all", 1), ("even", 0), ("odd", 0))
_NO_TENSORS = "takes or gives arrays and objects"
NOT_MAPPED = {"numpy": _NO_TENSORS, "from_numpy": _NO_TENSORS, "frombuffer": _NO_TENSORS}
_SIZE = "how large the result is depends on the example"
REFUSED = {
    "argwhere": _SIZE,
    "bincount": _SIZE,
    "masked_select": _SIZE,
    "nonzero": _SIZE,
    "nonzero_static": _SIZE,
    "repeat_interleave": _SIZE,
    "unique": _SIZE,
    "unique_consecutive": _SIZE,
    "equal": "gives a bool of Python",
}
WORDS = ("vmap: We do not support", "vmap: It looks like you're")


def cases() -> list[Public]:
    """Every public function with samples."""
    found = (p for _, p in sorted(PUBLIC.items()) if p.samples is not None)
    return [p for p in found if p.name not in NOT_MAPPED]


def accepted(name: str, outcome: Outcome) -> bool:
    """Whether it is right, or has its reason."""
    return outcome.what in ("right", "unchecked") or (outcome.what == "refused" and name in REFUSED)


def examples(p: Public, sample: Sample, dtype: Any) -> list[tuple[Tensor, Tensor]]:
    """For each tensor of the sample two examples."""
    first: list[Tensor] = []

    def make(x: np.ndarray) -> Tensor:
        first.append(harness.ours(x, dtype))
        return first[-1]

    harness.call(lambda *_, **__: None, sample, make)
    second = [x.flip(tuple(range(x.ndim))) if x.ndim else x.clone() for x in first]
    rows = iter(second)
    try:
        harness.call(p.fn, sample, lambda _: next(rows).clone())
    except Exception:  # whatever the function says of these numbers
        second = [x.clone() for x in first]
    return list(zip(first, second, strict=True))


def function(p: Public, sample: Sample) -> Any:
    """The call as a function of its tensors, which gives the tensors of the result."""

    def fn(*tensors: Tensor) -> tuple[Tensor, ...]:
        given = iter(tensors)
        found, _ = harness.call(p.fn, sample, lambda _: next(given).clone())
        return tuple(x for x in harness.flat(found) if isinstance(x, Tensor))

    return fn


def weighted(outs: Any) -> Any:
    """A number that all results decide; None where none can have a gradient."""
    total: Any = None
    for k, t in enumerate(outs):
        if t.dtype.is_floating_point:
            w = eager.linspace(0.5, 1.5, t.numel(), dtype=eager.float64).reshape(t.shape) + k
            part = (t * w.to(t.dtype)).sum()
            total = part if total is None else total + part
    return total


def leaves_of(row: list[Tensor], on: list[bool]) -> tuple[list[Tensor], list[int]]:
    """The tensors, those that are mapped as leaves, and which these are."""
    numbers = [i for i, x in enumerate(row) if on[i] and x.dtype.is_floating_point]
    return [x.clone().requires_grad_(i in numbers) for i, x in enumerate(row)], numbers


def gradients(total: Any, leaves: list[Tensor]) -> list[Tensor]:
    if not leaves or total is None or not total.requires_grad:
        return []
    found = eager.autograd.grad(total, leaves, allow_unused=True)
    return [eager.zeros_like(x) if g is None else g for g, x in zip(found, leaves, strict=True)]


def by_hand(fn: Any, row: list[Tensor], on: list[bool], grad: bool) -> list[Tensor]:
    """The results of one example, and its gradients: those that go through, and those inside."""
    eager.manual_seed(0)
    if not grad:
        return [*fn(*row)]
    leaves, numbers = leaves_of(row, on)
    outs = fn(*leaves)
    found = gradients(weighted(outs), [leaves[i] for i in numbers])
    return [*(x.detach() for x in outs), *found, *found]


def mapped(fn: Any, stacked: list[Tensor], dims: tuple[Any, ...], grad: bool) -> list[Tensor]:
    """The same of all examples."""
    eager.manual_seed(0)
    if not grad:
        return [*eager.vmap(fn, in_dims=dims, randomness="same")(*stacked)]
    leaves, numbers = leaves_of(stacked, [d is not None for d in dims])
    outs = eager.vmap(fn, in_dims=dims, randomness="same")(*leaves)
    floating = any(x.dtype.is_floating_point for x in outs)
    total = eager.vmap(lambda *xs: weighted(xs))(*outs).sum() if floating else None
    outer = gradients(total, [leaves[i] for i in numbers])
    inner: tuple[Tensor, ...] = ()
    if outer:
        outer = [g.movedim(dims[i], 0) for g, i in zip(outer, numbers, strict=True)]
        eager.manual_seed(0)
        gradient = eager.func.grad(lambda *xs: weighted(fn(*xs)), argnums=tuple(numbers))
        inner = eager.vmap(gradient, in_dims=dims, randomness="same")(*stacked)
    return [*(x.detach() for x in outs), *outer, *inner]


def outcome(p: Public, sample: Sample, dtype: Any, place: Place) -> Outcome:
    which, dim = place
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pairs = examples(p, sample, dtype)
        on = [which == "all" or (i % 2 == 0) == (which == "even") for i in range(len(pairs))]
        grad = dtype is eager.float32 and sample.grad
        fn = function(p, sample)
        rows = [[x[i] if on_ else x[0] for x, on_ in zip(pairs, on, strict=True)] for i in (0, 1)]
        try:
            one, other = (by_hand(fn, row, on, grad) for row in rows)
        except Exception as error:  # such a dtype is refused
            return Outcome("unchecked", f"plainly: {type(error).__name__}")
        if not any(on) or not one:
            return Outcome("unchecked", "nothing to map")
        at = [min(dim, x.ndim) if on_ else None for (x, _), on_ in zip(pairs, on, strict=True)]
        stacked = [x[0] if d is None else eager.stack(x, d) for x, d in zip(pairs, at, strict=True)]
        try:
            found = mapped(fn, stacked, tuple(at), grad)
        except Exception as error:  # what, is said
            refused = str(error).startswith(WORDS)
            return Outcome("refused" if refused else "error", f"{type(error).__name__}: {error}")
    expected = [eager.stack(pair) for pair in zip(one, other, strict=True)]
    if len(found) != len(expected):
        return Outcome("wrong", f"{len(found)} results instead of {len(expected)}")
    why = difference(found, expected, sample, dtype)
    return Outcome("wrong", why) if why else Outcome("right")


def outcomes(
    p: Public,
    dtypes: tuple[Any, ...] = (eager.float32, eager.float16),
    places: Any = PLACES,
    some: slice = slice(None),
) -> Iterator[tuple[str, Outcome]]:
    """The outcome of every sample (or some), mapped in several ways, with gradients in float32."""
    for i, sample in [*enumerate(harness.samples(p))][some]:
        for dtype in dtypes:
            for place in places:
                yield f"{i} {dtype} {place}", outcome(p, sample, dtype, place)
