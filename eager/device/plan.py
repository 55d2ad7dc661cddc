"""Between the provider of kernels and devices: how an op is done there. What `eager.kernels` is
asked, and what it answers.

    compile_op(op, operands, attrs, outs, into=None) -> Plan     or raises NoKernel
    fail(site, where) -> the exception of a check that failed, at a file:line
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from eager.base.dataclass import dataclass
from eager.device.protocol import Kernel
from eager.sizes.aval import Aval


class NoKernel(Exception):
    """The provider has no kernel for an op; the message says why."""


class Operand(NamedTuple):
    """A tensor's aval and strides in elements, or a number's (weak) aval."""

    aval: Aval
    strides: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of a launch: the memory of an operand, of a result, of the tensor written into,
    some of the temporary memory, slots of checks, or the number that an operand is."""

    what: Literal["operand", "result", "into", "arena", "errors", "number"]
    index: int  # of the operand, the result, the first slot; of an arena's piece its offset
    writes: bool = False
    nbytes: int = 0  # of an arena's piece


@dataclass(frozen=True, slots=True)
class Step:
    """One launch."""

    kernel: Kernel
    programs: int
    arguments: tuple[Argument, ...]
    flops: int


@dataclass(frozen=True, slots=True)
class Result:
    """Memory of `size` elements in which a result lies."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class Plan:
    """The launches of an op, and the memory that they need. `checks`: what a slot means where it is
    not 0, as "message|file:line" or a place alone."""

    steps: tuple[Step, ...]
    results: tuple[Result, ...]
    arena_bytes: int
    checks: tuple[str, ...]
