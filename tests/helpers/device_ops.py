"""Every op sample of the registry on the simulated GPU: a sample -> what came of it, beside the CPU.

Values and gradients of a call on tensors of the device are compared with those on the CPU. A result
that is right but took a kernel-less op to the host is told apart. `scripts/device` runs the whole,
`tests/eager/device/test_registry.py` a seeded slice.
"""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import op_harness as harness

import eager
from eager.core import on_device
from eager.core.op import Sample
from eager.core.registry import PUBLIC, Public
from eager.core.tensor import Tensor

# What is right to do on the host, or is not asked of a device: {name: why}.
HOST_ONLY = {
    "from_numpy": "shares the memory of an array",
    "frombuffer": "shares the memory of an object",
    "numpy": "is asked of tensors of the CPU",
}


@dataclass(frozen=True)
class Outcome:
    """`what`: right, host (right, by way of the host), refused (as on the CPU), unchecked (nobody
    asks for the same), wrong or error."""

    what: str
    why: str = ""


def cases() -> list[Public]:
    """Every public function with samples."""
    found = (p for _, p in sorted(PUBLIC.items()) if p.samples is not None)
    return [p for p in found if p.name not in HOST_ONLY]


def call(p: Public, sample: Sample, dtype: Any, place: str, grad: bool) -> list[Any]:
    """The results, and the gradients of a weighted sum of them."""
    leaves: list[Tensor] = []

    def make(x: np.ndarray) -> Tensor:
        made = harness.ours(x, dtype).to(place)
        if grad and made.dtype.is_floating_point:
            leaves.append(made.requires_grad_())
        return made

    eager.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result, _ = harness.call(p.fn, sample, make)
        outs = harness.flat(result)
        total = weighted(outs) if leaves else None
        found = [None] * len(leaves)
        if total is not None and total.requires_grad:
            found = list(eager.autograd.grad(total, leaves, allow_unused=True))
    return [*outs, *found]


def weighted(outs: list[Any]) -> Any:
    total: Any = None
    for k, t in enumerate(outs):
        if isinstance(t, Tensor) and t.dtype.is_floating_point and t.requires_grad:
            w = eager.linspace(0.5, 1.5, t.numel(), dtype=eager.float64).reshape(t.shape) + k
            part = (t * w.to(t.device, t.dtype)).sum()
            total = part if total is None else total + part
    return total


def outcome(p: Public, sample: Sample, dtype: Any, grad: bool) -> Outcome:
    try:
        expected = call(p, sample, dtype, "cpu", grad)
    except Exception as error:
        expected = error
    on_device.host_runs.clear()
    try:
        found = call(p, sample, dtype, "cuda", grad)
        eager.cuda.synchronize()
    except Exception as error:
        if isinstance(expected, Exception):
            return Outcome("refused")
        return Outcome("error", f"{type(error).__name__}: {error}")
    if isinstance(expected, Exception):
        if str(expected) == "ZeroDivisionError":
            return Outcome("unchecked", "ints divided by zero, as on PyTorch's GPUs: it would wait")
        return Outcome("wrong", f"the CPU raises {expected!r}")
    why = difference(found, expected, sample, dtype)
    if why:
        return Outcome("unchecked", UNSORTED) if is_unsorted(p, dtype) else Outcome("wrong", why)
    took = "\n".join(f"{op}: {reason}" for op, reason in on_device.host_runs)
    return Outcome("host", took) if took else Outcome("right")


UNSORTED = "boundaries below zero wrap in uint8, so that they are not sorted"


def is_unsorted(p: Public, dtype: Any) -> bool:
    return dtype is eager.uint8 and p.torch in ("bucketize", "searchsorted")


def difference(found: list[Any], expected: list[Any], sample: Sample, dtype: Any) -> str:
    """What differs; "" if nothing does."""
    for x, y in zip(found, expected, strict=True):
        if not isinstance(y, Tensor):
            if x is not None or y is not None:
                if not np.array_equal(harness.to_numpy(x), harness.to_numpy(y), equal_nan=True):
                    return f"{x} instead of {y}"
            continue
        if (x.dtype, x.shape) != (y.dtype, y.shape):
            return f"{x.aval} instead of {y.aval}"
        rtol, atol = harness.tolerance(y.dtype.name, sample, dtype, 4.0)
        a, b = harness.to_numpy(x.cpu()), harness.to_numpy(y)
        if not np.allclose(a, b, rtol=rtol, atol=atol, equal_nan=True):
            return f"values differ by {np.abs(a.astype(complex) - b).max():.3g}"
    return ""


def outcomes(p: Public, dtypes: tuple[Any, ...]) -> Iterator[tuple[Any, Outcome]]:
    """The outcome of every sample in every dtype, with gradients in float32."""
    for sample in harness.samples(p):
        for dtype in dtypes:
            grad = dtype is eager.float32 and sample.grad
            yield dtype, outcome(p, sample, dtype, grad)
