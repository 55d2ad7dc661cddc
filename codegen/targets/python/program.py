"""Emit: a fused program as a Python module, a function per kernel. Fused -> Source.

Slow and exact: the oracle of the other backends, and what stages print as.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from codegen.ir.schema import Fused, Library
from codegen.targets.python.kernel import emit_kernel
from eager.base.dataclass import dataclass

HEADER: Final = "from codegen.targets.python.runtime.prelude import *"


@dataclass(frozen=True, eq=False, slots=True)
class Source:
    """`text` defines one function per kernel, of a table of flat arrays."""

    text: str
    fused: Fused


def emit(fused: Fused) -> Source:
    return Source("\n\n\n".join([HEADER, *_kernels(fused)]), fused)


def _kernels(fused: Fused) -> Iterator[str]:
    """The functions of the kernels, those of bodies among them."""
    for item in fused.items:
        if not isinstance(item, Library):
            yield emit_kernel(item)
            continue
        for body in item.bodies:
            yield from _kernels(body["source"].fused)
