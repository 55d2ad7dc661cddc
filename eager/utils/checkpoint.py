"""`eager.utils.checkpoint`: PyTorch's way to trade time for memory. a function -> its result.

Under `@jit` the compiler chooses what the backward recomputes (`jitcap/partition.py`), so the
function is simply called. Eagerly it is called as well, with a warning: values and gradients are
the same, but the memory of its intermediate results is not saved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from eager.dispatch import tracing
from eager.notice import refuse, warn_once

_TEXT = (
    "utils.checkpoint saves no memory in eager mode: the function is called as it is. Put @jit on "
    "the step, whose compiler decides what the backward recomputes"
)


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Any = None,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    preserve_rng_state: bool = True,
    **kwargs: Any,
) -> Any:
    """`function(*args, **kwargs)`. The other arguments say how PyTorch recomputes: they change no
    value, but for `context_fn`, which raises."""
    refuse("checkpoint", "enter the contexts inside the function", context_fn=context_fn)
    if use_reentrant and kwargs:
        raise ValueError(f"Unexpected keyword arguments: {','.join(kwargs)}")
    if not tracing():
        warn_once("checkpoint", _TEXT)
    return function(*args, **kwargs)


def checkpoint_sequential(
    functions: Iterable[Callable[..., Any]],
    segments: int,
    input: Any,
    use_reentrant: bool | None = None,
    preserve_rng_state: bool = True,
) -> Any:
    """The functions (or the layers of a Sequential) one after the other."""
    if not tracing():
        warn_once("checkpoint", _TEXT)
    for function in functions:
        input = function(input)
    return input
