"""Under `Function`: a derivative from a `jvp` that the user wrote. Gradients of the results ->
gradients of the arguments.

The tape is the only record, and tangents are read off it (`eager.func.jvp`). A `jvp` is linear in
the tangents, so that its derivative by them is what a `backward` would give, at any tangents.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from eager.core.dispatch import variable
from eager.core.tape import differentiable, edge_of, full, sweep
from eager.core.tape import mode as mode
from eager.core.tensor import Tensor
from eager.sizes.aval import Aval


@contextmanager
def forward_derivatives() -> Iterator[None]:
    """Inside, a sweep is for tangents: a Function that has a `jvp` gives it."""
    before, mode.tangents = mode.tangents, True
    try:
        yield
    finally:
        mode.tangents = before


def transposed(
    jvp: Callable[..., Any], ctx: Any, avals: Sequence[Aval | None], grads: Sequence[Any]
) -> tuple[Any, ...]:
    """One gradient per argument, None for what is no tensor (`avals` has None for it) or has no
    derivative. RuntimeError where `jvp` gives another number of tangents than there are results."""
    record, before = mode.enabled, mode.tangents
    mode.enabled, mode.tangents, ctx._in_jvp = mode.may_record or record, False, True
    try:
        own = [
            variable(full(0, aval)) if aval is not None and differentiable(aval.dtype) else None
            for aval in avals
        ]
        # Copies, since the tangent of an argument that is written in place is, too.
        found = jvp(ctx, *[None if t is None else t.clone() for t in own])
        outs = found if isinstance(found, tuple) else (found,)
        if len(outs) != len(grads):
            raise RuntimeError(
                f"jvp of a Function with {len(grads)} results returned {len(outs)} tangents"
            )
        roots = [
            (edge_of(out), g)
            for out, g in zip(outs, grads, strict=True)
            if isinstance(out, Tensor) and isinstance(g, Tensor) and edge_of(out) is not None
        ]
        wanted = {(id(t), 0) for t in own if t is not None}
        _, leaves = sweep(roots, wanted, keep=True, create=record)
    finally:
        mode.enabled, mode.tangents, ctx._in_jvp = record, before, False
    return tuple(None if t is None or id(t) not in leaves else leaves[id(t)][1] for t in own)
