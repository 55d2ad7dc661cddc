"""Emit: a fused program as a Python module, a function per kernel. Fused -> Source.

Slow and exact: the oracle of the other backends, and what stages print as.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from codegen.emit.python.kernel import emit_kernel
from codegen.ir import Fused

HEADER: Final = "from codegen.runtime.python_prelude import *"


@dataclass(frozen=True, eq=False, slots=True)
class Source:
    """`text` defines one function per kernel, of a table of flat arrays."""

    text: str
    fused: Fused


def emit(fused: Fused) -> Source:
    return Source("\n\n\n".join([HEADER, *map(emit_kernel, fused.kernels())]), fused)
