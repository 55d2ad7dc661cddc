"""Triton runtime: what it is given. Kernels as a Python module, and the launches that run them.

Where sizes are symbolic, the kernels are the same for all of them: `at` gives the launches, buffers
and places of one vector of sizes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import Any

from codegen.ir import Access, Buffer, Fused, Value
from codegen.plan import place
from codegen.sizes import Size, blocks, spelled
from eager.aval import Aval
from eager.dataclass import dataclass
from eager.sized import concrete
from eager.symint import evaluate


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
    programs: Size
    checks: tuple[str, ...] = ()
    tables: Tables | None = None
    writes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Compiled:
    """One kernel: its text, how to compile it (parameters with Triton type names, warps), and what
    was fused into it, from which line. `strides`: the parameters that are sizes of which it matters
    whether they are multiples of 16."""

    name: str
    source: str
    parameters: tuple[tuple[str, str], ...]
    warps: int
    notes: tuple[str, ...]
    strides: tuple[str, ...] = ()


Lives = Mapping[str, tuple[int, int, Size]]  # (first launch, last launch, bytes) of temporaries


@dataclass(frozen=True, eq=False, slots=True)
class TritonProgram:
    """`source` is a Python module; `launches` run in order.

    `buffers` are the program's and the temporaries made here; `arena` gives the temporaries their
    byte offsets in `arena_bytes` of memory, where those that are never alive together overlap.
    `sizes` are arguments of launches by name. Of symbolic sizes there is no arena but `lives`.
    """

    fused: Fused
    source: str
    kernels: Mapping[str, Compiled]
    launches: tuple[Launch, ...]
    buffers: Mapping[str, Buffer]
    arena: Mapping[str, int]
    arena_bytes: int
    sizes: Mapping[str, Size] = field(default_factory=dict)
    lives: Lives = field(default_factory=dict)

    def at(self, values: Mapping[str, int]) -> TritonProgram:
        """For these values of the symbols."""
        return replace(self, **_at(self, values))

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
    sizes: Mapping[str, Size] = field(default_factory=dict)
    lives: Lives = field(default_factory=dict)

    @property
    def symbols(self) -> tuple[tuple[str, int], ...]:
        """Each symbol with the input that it is."""
        return tuple((v.symbol, i) for i, v in enumerate(self.inputs) if v.symbol)

    def at(self, values: Mapping[str, int]) -> ResidentProgram:
        """For these values of the symbols."""
        inputs = (
            replace(
                v,
                aval=replace(v.aval, shape=concrete(v.aval.shape, values)),
                strides=concrete(v.strides, values),
            )
            for v in self.inputs
        )
        outputs = (
            (
                replace(a, **{n: concrete(getattr(a, n), values) for n in _OF_ACCESS}),
                replace(aval, shape=concrete(aval.shape, values)),
            )
            for a, aval in self.outputs
        )
        return replace(self, inputs=tuple(inputs), outputs=tuple(outputs), **_at(self, values))

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
            program.sizes, program.lives,
        )  # fmt: skip


def size_key(n: Size) -> str:
    """The name of a size among arguments of launches, and in braces in what checks say: no buffer
    has such a name."""
    return f"={spelled(n, whole=True)}"


def said(site: str, sizes: Mapping[str, int]) -> str:
    """What a check says, with its sizes."""
    for name in sizes if "{=" in site else ():
        site = site.replace(f"{{{name}}}", str(sizes[name]))
    return site


_OF_ACCESS = ("offset", "shape", "strides")


def _at(program: TritonProgram | ResidentProgram, values: Mapping[str, int]) -> dict[str, Any]:
    """What both kinds of programs have, for these values of the symbols."""
    sizes = {name: evaluate(n, values) for name, n in program.sizes.items()}
    found: dict[str, Any] = {
        "sizes": sizes,
        "buffers": {
            name: replace(b, size=evaluate(b.size, values)) for name, b in program.buffers.items()
        },
        "launches": tuple(
            replace(
                launch,
                programs=evaluate(launch.programs, values),
                checks=tuple(said(site, sizes) for site in launch.checks),
            )
            for launch in program.launches
        ),
    }
    if program.lives:
        lives = {n: (a, b, evaluate(size, values)) for n, (a, b, size) in program.lives.items()}
        found["arena"], found["arena_bytes"] = place(lives)
        found["lives"] = {}
    return found
