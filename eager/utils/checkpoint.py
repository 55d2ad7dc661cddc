"""`eager.utils.checkpoint`: PyTorch's way to trade time for memory. a function -> its result.

Under `@jit` the compiler chooses what the backward recomputes (`jitcap/graph/partition.py`), so the
function is simply called. Eagerly it is called as well, with a warning: values and gradients are
the same, but the memory of its intermediate results is not saved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import nullcontext
from typing import Any

from eager import cuda
from eager.base.compat_warnings import refuse, warn_once
from eager.core.dispatch import tracing
from eager.core.tensor import Tensor
from eager.utils._pytree import tree_leaves

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


def get_device_states(*args: Any) -> tuple[list[int], list[Tensor]]:
    """The devices, but for the host, of the tensors in trees, and the states of their generators:
    what a function's own recomputation puts back."""
    places = [x.get_device() for x in tree_leaves(args) if isinstance(x, Tensor) and x.is_cuda]
    return places, [*map(cuda.get_rng_state, places)]


def set_device_states(
    devices: Iterable[int], states: Iterable[Tensor], *, device_type: str | None = None
) -> None:
    """Put states of generators back, each on its device."""
    if device_type != "meta":
        for device, state in zip(devices, states, strict=False):
            cuda.set_rng_state(state, device)


def detach_variable(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """The tensors without their history, as leaves that ask for a gradient where they did. Raises
    RuntimeError for what is no tuple."""
    if not isinstance(inputs, tuple):
        what = "Only tuple of tensors is supported. Got Unsupported input type: "
        raise RuntimeError(what, type(inputs).__name__)  # noqa: TRY004 - as PyTorch

    def leaf(x: Any) -> Any:
        return x.detach().requires_grad_(x.requires_grad) if isinstance(x, Tensor) else x

    return tuple(map(leaf, inputs))


def noop_context_fn() -> tuple[Any, Any]:
    """Two contexts that do nothing."""
    return nullcontext(), nullcontext()
