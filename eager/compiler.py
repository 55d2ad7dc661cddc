"""At the edge: `eager.compiler`, what PyTorch's programs say to a compiler. Functions -> functions.

A compiled program computes what plain Python computes, so a program never learns that it is
compiled: `is_compiling()` is False in both.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

from eager.base.compilation import compile as compile

NO_CAPTURE: Final = "__jitcap_disable__"  # an attribute of functions that are called plainly

__all__ = [
    "compile", "cudagraph_mark_step_begin", "disable", "is_compiling", "is_dynamo_compiling",
    "is_exporting",
]  # fmt: skip


def disable(
    fn: Callable[..., Any] | None = None, recursive: bool = True, *, reason: str | None = None
) -> Any:
    """`fn` with a mark that a compiler respects: it is called plainly, and a compiled program is
    split around its calls. Also `@disable()`.

    `reason` is for readers. Raises NotImplementedError for `recursive=False`."""
    if not recursive:
        raise NotImplementedError(
            "compiler.disable(recursive=False): what a plain function calls is plain, too; put "
            "@jit on the functions it calls"
        )
    if fn is None:
        return functools.partial(disable, reason=reason)

    @functools.wraps(fn)
    def plainly(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    setattr(plainly, NO_CAPTURE, True)
    return plainly


def is_compiling() -> bool:
    """True if the answer may differ from plain Python's: never."""
    return False


is_dynamo_compiling = is_exporting = is_compiling


def cudagraph_mark_step_begin() -> None:
    """Mark the point from which PyTorch may reuse the memory of earlier results. Results stay valid
    here, so there is nothing to mark."""
