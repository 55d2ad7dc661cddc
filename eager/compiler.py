"""At the edge: `eager.compiler`, what PyTorch's programs say to a compiler. Functions -> functions.

A compiled program computes what plain Python computes, so a program never learns that it is
compiled: `is_compiling()` is False in both.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, TypeVar

from eager.base import plugins
from eager.base.compilation import BACKENDS
from eager.base.compilation import compile as compile

NO_CAPTURE: Final = "__jitcap_disable__"  # an attribute of functions that are called plainly

STANCES: Final = {
    "default": "default", "force_eager": "eager", "fail_on_recompile": "fail_on_recompile",
}  # fmt: skip
F = TypeVar("F", bound=Callable[..., Any])

__all__ = [
    "allow_in_graph", "assume_constant_result", "compile", "cudagraph_mark_step_begin", "disable",
    "is_compiling", "is_dynamo_compiling", "is_exporting", "list_backends",
    "nested_compile_region", "reset", "set_stance",
]  # fmt: skip


def disable(
    fn: Callable[..., Any] | None = None, recursive: bool = True, *, reason: str | None = None
) -> Any:
    """`fn` with a mark that a compiler respects: it is called plainly, and a compiled program is
    split around its calls. Also `@disable()`.

    `reason` is for readers. With `recursive=False`, too, what it calls is plain, but for functions
    that are compiled by themselves."""
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


def allow_in_graph(fn: F) -> F:
    """`fn` itself. PyTorch's compiler would not look into it; this one does, and it computes the
    same."""
    return fn


def assume_constant_result(fn: F) -> F:
    """`fn` itself. PyTorch's compiler would call it once; it is called as often as plainly."""
    return fn


def nested_compile_region(fn: F) -> F:
    """`fn` itself. PyTorch's compiler would compile it once for all its calls; equal calls share
    code here without being told."""
    return fn


def list_backends() -> list[str]:
    """The backends of `compile`, all that there are."""
    return sorted(BACKENDS)


def reset() -> None:
    """Forget everything that was compiled in this process."""
    plugins.compiler("reset")()


class set_stance:
    """Say what compiled functions do from now on, in a `with` block, or in a function that it
    decorates: "default", "force_eager" (nothing is compiled) or "fail_on_recompile". ValueError for
    others."""

    def __init__(self, stance: str = "default") -> None:
        if stance not in STANCES:
            raise ValueError(f"set_stance: unknown stance {stance!r}; there are {[*STANCES]}")
        self.stance = stance
        self._held: Any = plugins.compiler("stance")(STANCES[stance])
        self._held.__enter__()

    def __enter__(self) -> None:
        """Nothing to do: the stance holds already."""

    def __exit__(
        self, kind: type[BaseException] | None, error: Any, trace: TracebackType | None
    ) -> None:
        held, self._held = self._held, None
        if held is not None:  # one may decorate several functions
            held.__exit__(None, None, None)

    def __call__(self, fn: F) -> F:
        self.__exit__(None, None, None)

        @functools.wraps(fn)
        def call(*args: Any, **kwargs: Any) -> Any:
            with set_stance(self.stance):
                return fn(*args, **kwargs)

        return call  # type: ignore[return-value]
