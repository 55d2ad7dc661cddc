"""Beside capture: what a backend will load begins to compile before the graph is whole.

A third of the C++ compiler's work on a new machine are the kernels of matrix products. Capture says
when it sees the first product; the backend begins them then, beside the rest of the capture.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import codegen
from eager.base.config import config
from jitcap.compile.backends import HOST, known_backend

# What is called at the first product of matrices of float32 on the host.
on_product: ContextVar[Callable[[], None] | None] = ContextVar("on_product", default=None)


@contextmanager
def anticipated(backend: str | None) -> Iterator[None]:
    """Inside, a graph is captured for this backend."""
    name = known_backend(backend or config.backend) or HOST
    begin = codegen.BACKENDS[name].anticipate if name in codegen.BACKENDS else None
    token = on_product.set(begin)
    try:
        yield
    finally:
        on_product.reset(token)
