"""At the edge: `eager.compile`, in the place of `torch.compile`. a function or module -> compiled.

The compiler is a package above this one (`eager.base.plugins`); this says what of PyTorch's options
it honours.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, Final

from eager.base import plugins
from eager.base.compat_warnings import warn_once

# PyTorch's names of backends, as those of `jitcap.jit`.
BACKENDS: Final[dict[str, str | None]] = {
    "inductor": None, "eager": "eager", "aot_eager": "eager",
    "cpp": "cpp", "triton": "triton", "python": "python",
}  # fmt: skip
_MODES: Final = ("reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")


def compile(
    model: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Callable[..., Any] = "inductor",
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
    disable: bool = False,
) -> Any:
    """`jitcap.jit` with the signature of `torch.compile`; also `@compile` and `@compile(...)`.

    `mode` and `options` tune PyTorch's compiler: they change no result, and are ignored with a
    warning. A backend of one's own, or one that is not known, raises."""
    if not isinstance(backend, str):
        raise NotImplementedError(
            "eager.compile: a backend that is a function would get PyTorch's FX graphs; there are "
            f"{', '.join(map(repr, BACKENDS))}"
        )
    if backend not in BACKENDS:
        raise ValueError(f"eager.compile: unknown backend {backend!r}; there are {[*BACKENDS]}")
    if mode is not None and options:
        raise RuntimeError("Either mode or options can be specified, but both can't be specified.")
    if mode not in (None, "default", *_MODES):
        raise ValueError(f"eager.compile: unknown mode {mode!r}; there are {['default', *_MODES]}")
    if mode in _MODES or options:
        given = f"mode={mode!r}" if mode else f"options {', '.join(options or ())}"
        warn_once("compile", f"eager.compile: {given} is of PyTorch's compiler, and ignored")
    if disable:
        return model if model is not None else lambda each: each
    jit = plugins.provider("eager.compiler")
    jit = functools.partial(jit, fullgraph=fullgraph, dynamic=dynamic, backend=BACKENDS[backend])
    return jit(model) if model is not None else jit
