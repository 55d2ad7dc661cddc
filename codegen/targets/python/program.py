"""Emit: a fused program as a Python module, a function per kernel. Fused -> Source.

Slow and exact: the oracle of the other backends, and what stages print as.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from codegen.ir.schema import Fused, Library
from codegen.targets.python.kernel import emit_kernel
from codegen.targets.python.runtime.flat import body_name
from eager.base.dataclass import dataclass

HEADER: Final = "from codegen.targets.python.runtime.prelude import *"


@dataclass(frozen=True, eq=False, slots=True)
class Source:
    """`text` defines one function per kernel, of a table of flat arrays."""

    text: str
    fused: Fused


def emit(fused: Fused) -> Source:
    return Source("\n\n\n".join([HEADER, *_kernels(fused)]), fused)


def _kernels(fused: Fused, inside: str = "") -> Iterator[str]:
    """The functions of the kernels; those of bodies carry the way to them in their names."""
    for i, item in enumerate(fused.items):
        if not isinstance(item, Library):
            yield emit_kernel(replace(item, name=inside + item.name))
            continue
        for k, body in enumerate(item.bodies):
            yield from _kernels(body["source"].fused, body_name(inside, i, k))
