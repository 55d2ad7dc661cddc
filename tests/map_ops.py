"""Every op sample of the registry in `vmap`: a sample -> what came of it, beside one call for each example.

The examples of a tensor are its sample and the same numbers in another order, where the function takes them. Values,
gradients by what is mapped (through `vmap`) and those of each example (inside of it) are compared with a loop's.
`tests/eager/test_vmap.py` runs a slice, `python tests/map_ops.py` the whole.
"""

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import op_harness as harness
from device_ops import Outcome, difference

import eager
from eager.op import Sample
from eager.registry import PUBLIC, Public
from eager.tensor import Tensor

# What a mapped function may not ask of a tensor that stands for many: functions whose answer is Python's, or whose
# result is as large as the values say. `vmap` raises for them, as PyTorch's does.
REFUSED = ("on a Tensor", "data-dependent control flow", "dynamic shape", "inplace arithmetic")
# What gives another stream, or memory that nobody wrote: {name: why}.
UNCHECKED = {"numpy": "gives an array", "from_numpy": "takes an array", "frombuffer": "takes an object"}


def cases() -> list[Public]:
    """Every public function with samples."""
    found = (p for _, p in sorted(PUBLIC.items()) if p.samples is not None)
    return [p for p in found if p.name not in UNCHECKED]


def examples(p: Public, sample: Sample, dtype: Any) -> list[list[Tensor]]:
    """For each tensor of the sample two examples: the second are the numbers in another order, where those fit."""
    first: list[Tensor] = []
    harness.call(lambda *a, **k: None, sample, lambda x: first.append(harness.ours(x, dtype)) or first[-1])
    second = [x.flip(tuple(range(x.ndim))) if x.ndim else x.clone() for x in first]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            rows = iter(second)
            harness.call(p.fn, sample, lambda x: next(rows).clone())
    except Exception:
        second = [x.clone() for x in first]
    return [list(pair) for pair in zip(first, second, strict=True)]


def function(p: Public, sample: Sample) -> Any:
    def fn(*tensors: Tensor) -> tuple[Any, ...]:
        given = iter(tensors)
        found, _ = harness.call(p.fn, sample, lambda x: next(given).clone())
        return tuple(harness.flat(found))

    return fn


def outcome(p: Public, sample: Sample, dtype: Any, which: str, dim: int) -> Outcome:
    """`which` of the tensors are mapped: all, even or odd ones; `dim`: where."""
    pairs = examples(p, sample, dtype)
    chosen = [which == "all" or (i % 2 == 0) == (which == "even") for i in range(len(pairs))]
    if not any(chosen):
        return Outcome("unchecked", "nothing to map")
    grad = dtype is eager.float32 and sample.grad
    fn = function(p, sample)
    rows = [[pair[i] if on else pair[0] for pair, on in zip(pairs, chosen)] for i in (0, 1)]
    try:
        by_hand = [results(fn, row, chosen, grad) for row in rows]
    except Exception as error:
        return Outcome("unchecked", f"plainly: {type(error).__name__}")
    stacked = [eager.stack(pair, dim if dim < 0 else min(dim, pair[0].ndim)) if on else pair[0] for pair, on in zip(pairs, chosen)]
    dims = tuple((-1 if dim < 0 else min(dim, x.ndim - 1)) if on else None for x, on in zip(stacked, chosen))
    try:
        got = through(fn, stacked, dims, chosen, grad)
    except Exception as error:
        if any(words in str(error) for words in REFUSED):
            return Outcome("refused", str(error)[:60])
        return Outcome("error", f"{type(error).__name__}: {error}")
    kept = [k for k, x in enumerate(by_hand[0]) if isinstance(x, Tensor)]
    expected = [eager.stack([one[k] for one in by_hand]) for k in kept]
    if len(got) != len(expected):
        return Outcome("wrong", f"{len(got)} results instead of {len(expected)}")
    why = difference(got, expected, sample, dtype)
    return Outcome("wrong", why) if why else Outcome("right")


def weighted(outs: Any) -> Any:
    """A number that all results decide, if any can have a gradient."""
    total: Any = None
    for k, t in enumerate(outs):
        if isinstance(t, Tensor) and t.dtype.is_floating_point:
            w = eager.linspace(0.5, 1.5, t.numel(), dtype=eager.float64).reshape(t.shape) + k
            part = (t * w.to(t.dtype)).sum()
            total = part if total is None else total + part
    return total


def results(fn: Any, row: list[Tensor], chosen: list[bool], grad: bool) -> list[Any]:
    """The results of one example, and the gradients of a sum of them by what is mapped."""
    eager.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if not grad:
            return [*fn(*row)]
        leaves = [x.clone().requires_grad_() if on and x.dtype.is_floating_point else x for x, on in zip(row, chosen)]
        outs = fn(*leaves)
        total = weighted(outs)
        asked = [x for x in leaves if x.requires_grad]
        found = list(eager.autograd.grad(total, asked, allow_unused=True)) if total is not None and total.requires_grad and asked else []
        found = [eager.zeros_like(x) if g is None else g for g, x in zip(found, asked)]
    return [*(x.detach() if isinstance(x, Tensor) else x for x in outs), *found, *found]


def through(fn: Any, stacked: list[Tensor], dims: Any, chosen: list[bool], grad: bool) -> list[Any]:
    """The same by `vmap`: gradients by the tape behind it, and inside."""
    outs: list[Any] = []

    def tensors(*args: Tensor) -> Any:
        return tuple(x for x in fn(*args) if isinstance(x, Tensor))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        eager.manual_seed(0)
        if not grad:
            return [*eager.vmap(tensors, in_dims=dims, randomness="same")(*stacked)]
        leaves = [x.clone().requires_grad_() if on and x.dtype.is_floating_point else x for x, on in zip(stacked, chosen)]
        asked = [x for x in leaves if x.requires_grad]
        outs = [*eager.vmap(tensors, in_dims=dims, randomness="same")(*leaves)]
        total = eager.vmap(lambda *xs: weighted(xs), randomness="same")(*outs) if any(x.dtype.is_floating_point for x in outs) else None
        if total is None or not total.requires_grad or not asked:
            return [x.detach() for x in outs]
        outer = list(eager.autograd.grad(total.sum(), asked, allow_unused=True))
        outer = [eager.zeros_like(x) if g is None else g for g, x in zip(outer, asked)]
        outer = [g.movedim(d, 0) for g, d in zip(outer, [d for x, d in zip(leaves, dims) if x.requires_grad])]
        numbers = tuple(i for i, x in enumerate(leaves) if x.requires_grad)
        eager.manual_seed(0)
        gradient = eager.func.grad(lambda *xs: weighted(fn(*xs)), argnums=numbers)
        inner = eager.vmap(gradient, in_dims=dims, randomness="same")(*stacked)
    return [*(x.detach() for x in outs), *outer, *inner]


def outcomes(p: Public, dtypes: tuple[Any, ...], places: Any) -> Iterator[tuple[Any, Outcome]]:
    for sample in harness.samples(p):
        for dtype in dtypes:
            for which, dim in places:
                yield (sample, dtype.name, which, dim), outcome(p, sample, dtype, which, dim)


PLACES = (("all", 0), ("all", -1), ("all", 1), ("even", 0), ("odd", 0))

if __name__ == "__main__":
    import collections
    import sys

    counts: Any = collections.Counter()
    seen = set()
    for p in cases():
        names = [a for a in sys.argv[1:] if a != "-r"]
        if names and p.name not in names:
            continue
        for what, found in outcomes(p, (eager.float32, eager.float16), PLACES):
            counts[found.what] += 1
            key = (p.name, found.what, found.why[:80])
            if found.what in ("wrong", "error") or (found.what == "refused" and "-r" in sys.argv):
                if key not in seen:
                    print(p.name, what[1:], found.what, found.why[:300])
                seen.add(key)
    print(dict(counts))
