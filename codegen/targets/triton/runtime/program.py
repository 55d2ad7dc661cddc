"""Triton runtime: what it is given. Kernels as a Python module, and the launches that run them.

Where sizes are symbolic, the kernels are the same for all of them: `at` gives the launches, buffers
and places of one vector of sizes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import Any, Final

from codegen.ir.schema import Access, Buffer, Value
from codegen.ir.sizes import Size, blocks, spelled
from codegen.schedule.plan import assign_offsets
from eager.base.dataclass import dataclass
from eager.sizes.aval import Aval
from eager.sizes.substitute import substitute
from eager.sizes.symint import evaluate

TABLES: Final = ("table", "owner", "first", "sizes")  # arguments that are made of `Tables`


@dataclass(frozen=True, slots=True)
class Tables:
    """Tables that a grouped launch reads besides its scalars: for each slot the buffers of all
    members, and their sizes."""

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

    With `tables`, the arguments in TABLES are made from them."""

    kernel: str
    arguments: tuple[str, ...]
    programs: Size
    checks: tuple[str, ...] = ()
    tables: Tables | None = None
    writes: tuple[str, ...] = ()

    @property
    def passed(self) -> list[str]:
        """The buffers (or "errors", or sizes) to pass: a kernel's own, and those behind its
        tables."""
        behind = () if self.tables is None else self.tables.slots
        own = [name for name in self.arguments if name not in TABLES]
        return own + [name for slot in behind for name in slot]


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
    """`source` is a Python module; `launches` run in order. `inputs`, of which some (by number) are
    `written`, and the `outputs` with where they lie.

    `buffers` are the program's and the temporaries made here; `arena` gives the temporaries their
    byte offsets in `arena_bytes` of memory, where those that are never alive together overlap.
    `sizes` are arguments of launches by name. Of symbolic sizes there is no arena but `lives`.
    """

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

    @property
    def text(self) -> str:
        """Printed form of the stage."""
        return self.source

    def at(self, values: Mapping[str, int]) -> TritonProgram:
        """The program for these values of the symbols."""

        def known(x: Any, *fields: str) -> Any:
            return replace(x, **{n: substitute(getattr(x, n), values) for n in fields})

        sizes = {name: evaluate(n, values) for name, n in self.sizes.items()}
        lives = {n: (a, b, evaluate(size, values)) for n, (a, b, size) in self.lives.items()}
        arena, arena_bytes = assign_offsets(lives) if lives else (self.arena, self.arena_bytes)
        launches = (
            replace(
                launch,
                programs=evaluate(launch.programs, values),
                checks=tuple(said(site, sizes) for site in launch.checks),
            )
            for launch in self.launches
        )
        return TritonProgram(
            self.source,
            self.kernels,
            tuple(launches),
            {name: known(b, "size") for name, b in self.buffers.items()},
            arena,
            arena_bytes,
            tuple(replace(known(v, "strides"), aval=known(v.aval, "shape")) for v in self.inputs),
            self.written,
            tuple(
                (known(a, "offset", "shape", "strides"), known(aval, "shape"))
                for a, aval in self.outputs
            ),
            sizes,
        )


def size_key(n: Size) -> str:
    """The name of a size among arguments of launches, and in braces in what checks say: no buffer
    has such a name."""
    return f"={spelled(n, whole=True)}"


def said(site: str, sizes: Mapping[str, int]) -> str:
    """Message of a check, with its sizes."""
    for name in sizes if "{=" in site else ():
        site = site.replace(f"{{{name}}}", str(sizes[name]))
    return site
