"""PyTorch's op database through `@jit`: several samples of an op in one program, with gradients.

A program is run twice, compiled; where it does not come out right, each of its samples is run by
itself, so that a fault is one sample's.
"""

from typing import Any

import opdb

import eager
from jitcap import jit

TOGETHER = 8


def leaves_of(value: Any) -> list[Any]:
    """The parts of a result, in order."""
    if type(value) is eager.Size or not isinstance(value, list | tuple):
        return [value]
    found = []
    for part in value:
        found.extend(leaves_of(part))
    return found


def program(calls: list[opdb.Call]) -> Any:
    """A function that makes all the calls and takes all the gradients."""
    jobs = [
        (c.fn, c.args, c.kwargs, c.process, c.leaves, _weights(c), c.gradients is not None)
        for c in calls
    ]

    def step() -> Any:
        results = []
        for fn, args, kwargs, process, leaves, weights, wanted in jobs:
            result = fn(*args, **kwargs)
            gradients = None
            if wanted:
                processed = process(result) if process is not None else result
                outs = [
                    o
                    for o in leaves_of(processed)
                    if isinstance(o, eager.Tensor) and o.requires_grad
                ]
                gradients = eager.autograd.grad(outs, leaves, weights, allow_unused=True)
            results.append((result, gradients))
        return results

    return step


def _weights(call: opdb.Call) -> list[Any]:
    outs = [o for o in call.processed if opdb.differentiable(o)]
    return [
        eager.from_numpy(w).to(getattr(eager, str(o.dtype).removeprefix("torch.")))
        for w, o in zip(call.weights(), outs, strict=True)
    ]


def run(calls: list[opdb.Call], backend: str) -> list[tuple[list[Any], list[Any] | None]]:
    """What each call gives, compiled: the results of the second run, which compiles nothing."""
    step = jit(program(calls), backend=backend)
    found: Any = None
    for _ in range(2):
        eager.manual_seed(0)
        found = step()
    out = []
    for call, (result, gradients) in zip(calls, found, strict=True):
        full = None
        if gradients is not None:
            pairs = zip(call.leaves, gradients, strict=True)
            full = [eager.zeros_like(x) if g is None else g for x, g in pairs]
        out.append((opdb.flat(result), full))
    return out


def run_op(op: Any, dtype: str, most: int | None = None, backend: str = "eager") -> opdb.Outcome:
    """Each sample of an op (the first `most`) through `@jit` against torch."""
    calls: list[opdb.Call] = []

    def keep(call: opdb.Call) -> Any:
        found = opdb.run(call)  # what eager refuses or lacks is not the compiler's
        calls.append(call)
        return found

    eagerly = opdb.run_op(op, dtype, most, keep)
    out = opdb.Outcome(absent=eagerly.absent, name=eagerly.name)
    known = {index for index, *_ in eagerly.wrong}
    calls = [c for c in calls if c.index not in known]
    for start in range(0, len(calls), TOGETHER):
        _run_batch(calls[start : start + TOGETHER], backend, out)
    return out


def _run_batch(calls: list[opdb.Call], backend: str, out: opdb.Outcome) -> None:
    try:
        for call, found in zip(calls, run(calls, backend), strict=True):
            opdb.check(call, *found)
        out.right.extend(c.index for c in calls)
    except Exception as error:
        if len(calls) > 1:
            for call in calls:
                _run_batch([call], backend, out)
        elif isinstance(error, opdb.Wrong):
            out.wrong.append((calls[0].index, *error.args))
        else:
            out.wrong.append((calls[0].index, "refused", opdb.text_of(error)))
