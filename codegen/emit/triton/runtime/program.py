"""Triton runtime: what it is given. Kernels as a Python module, and the launches that run them."""

from __future__ import annotations

from collections.abc import Mapping

from codegen.ir import Access, Buffer, Fused, Value
from codegen.sizes import blocks
from eager.aval import Aval
from eager.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Tables:
    """What a grouped launch reads besides its scalars: for each slot the buffers of all members,
    and their sizes."""

    slots: tuple[tuple[str, ...], ...]
    sizes: tuple[int, ...]
    block: int

    @property
    def blocks(self) -> tuple[int, ...]:
        return tuple(blocks(n, self.block) for n in self.sizes)


@dataclass(frozen=True, slots=True)
class Launch:
    """Run `kernel` with these buffers, of which it `writes` some. `checks`: what each slot of its
    error buffer means when set.

    With `tables`, the arguments "table", "owner", "first" and "sizes" are made from them."""

    kernel: str
    arguments: tuple[str, ...]
    programs: int
    checks: tuple[str, ...] = ()
    tables: Tables | None = None
    writes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Compiled:
    """One kernel: its text, how to compile it (parameters with Triton type names, warps), and what
    was fused into it, from which line."""

    name: str
    source: str
    parameters: tuple[tuple[str, str], ...]
    warps: int
    notes: tuple[str, ...]


@dataclass(frozen=True, eq=False, slots=True)
class TritonProgram:
    """`source` is a Python module; `launches` run in order.

    `buffers` are the program's and the temporaries made here; `arena` gives the temporaries their
    byte offsets in `arena_bytes` of memory, where those that are never alive together overlap.
    """

    fused: Fused
    source: str
    kernels: Mapping[str, Compiled]
    launches: tuple[Launch, ...]
    buffers: Mapping[str, Buffer]
    arena: Mapping[str, int]
    arena_bytes: int

    @property
    def text(self) -> str:
        """What the stage prints as."""
        return self.source


@dataclass(frozen=True, eq=False, slots=True)
class ResidentProgram:
    """What of a `TritonProgram` a device needs, as data: `inputs` of which some (by number) are
    `written`, and the `outputs` with where they lie."""

    source: str
    kernels: Mapping[str, Compiled]
    launches: tuple[Launch, ...]
    buffers: Mapping[str, Buffer]
    arena: Mapping[str, int]
    arena_bytes: int
    inputs: tuple[Value, ...]
    written: frozenset[int]
    outputs: tuple[tuple[Access, Aval], ...]

    @staticmethod
    def of(program: TritonProgram) -> ResidentProgram:
        fused = program.fused
        inputs, outputs = fused.program.inputs, fused.program.outputs
        targets = {target.id for target, _ in fused.program.writes}
        return ResidentProgram(
            program.source, program.kernels, program.launches, program.buffers, program.arena,
            program.arena_bytes, inputs,
            frozenset(i for i, v in enumerate(inputs) if v.id in targets),
            tuple((a, v.aval) for a, v in zip(fused.outputs, outputs, strict=True)),
        )  # fmt: skip
