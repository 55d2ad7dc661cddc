"""Triton runtime: one kernel as a device takes it. Source, parameters -> machine code, or a run in
the interpreter.

Machine code is compiled when a device first asks for it, for that device, and kept in the compile
cache: a process that finds all of it there imports no triton.
"""

from __future__ import annotations

import functools
import pkgutil
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from typing import Any, Final

import numpy as np

from codegen.runtime import cache
from codegen.runtime.artifact import Array
from codegen.targets.triton import table
from codegen.targets.triton.runtime import build
from codegen.targets.triton.runtime.build import Platform, Record
from codegen.targets.triton.runtime.program import TABLES, Tables, TritonProgram
from eager.base.dataclass import dataclass
from eager.device.protocol import Binary, Grid, Properties

ALIGNMENT: Final = "alignment"  # the constant of grouped kernels: bytes, of the addresses in tables
# The letters of `struct` for parameters that are passed by value.
LETTERS: Final = {
    "i1": "?", "u8": "B", "i8": "b", "i16": "h", "i32": "i", "i64": "q", "fp32": "f", "fp64": "d",
}  # fmt: skip
NUMPY: Final = {name: dtype.np for dtype, name in table.PARAMETERS.items()}


@dataclass(frozen=True, eq=False, slots=True)
class TritonKernel:
    """The function `symbol` of the module `source`, with what a launch fixes: its tables, which are
    its first parameters."""

    name: str
    symbol: str
    source: str
    parameters: tuple[tuple[str, str], ...]  # with Triton's names of types
    warps: int
    group: Tables | None = None
    strides: tuple[str, ...] = ()  # parameters that are sizes, perhaps multiples of 16

    @property
    def own(self) -> int:
        return len(self.parameters) - (len(TABLES) if self.group is not None else 0)

    @property
    def _types(self) -> tuple[str, ...]:
        return tuple(kind for _, kind in self.parameters[len(self.parameters) - self.own :])

    def prepare(self, device: Properties) -> None:
        """Do now what its first launch needs. ModuleNotFoundError where that is triton, and it is
        not installed."""
        if device.is_simulated:
            self._function("sim")
        else:
            self.compiled(target_of(device.major, device.minor))

    def _function(self, extra: str = "gpu") -> Any:
        with _needing(extra):
            return getattr(build.load_kernels(self.source), self.symbol)

    # ---- on a device
    def binary(
        self, capability: tuple[int, int], aligned: Sequence[bool], behind: int = 16
    ) -> Binary:
        record, code = self.compiled(target_of(*capability), aligned, behind)
        if record.ctas != 1 or record.scratch:
            raise NotImplementedError(f"kernel {self.name} needs clusters or scratch memory")
        letters = map(letter, record.parameters)
        scratch = "QQ"  # two addresses that all kernels of Triton take last, here of nothing
        threads = record.warps * record.target[2]
        return Binary(record.name, code, "".join(letters) + scratch, threads, record.shared)

    def compiled(
        self, target: Platform, aligned: Sequence[bool] | None = None, behind: int = 16
    ) -> tuple[Record, bytes]:
        """The kernel for `target`, from the compile cache or by triton, with no device at hand.
        `aligned`: which of its own arguments lie on 16 bytes, or are multiples of 16; None: all.
        `behind`: of how many
        bytes those in its tables are multiples."""
        divisible, constants = self._known(aligned, behind)
        key = self._key(target, divisible, constants)
        store = cache.default()
        entry = store.get(key)
        if entry is None:
            function = self._function()
            record, code = build.compile_offline(
                function,
                dict(self.parameters),
                constants,
                divisible=divisible,
                warps=self.warps,
                target=target,
            )
            entry = store.put(key, record.to_json(), {"code": code})
        return Record.from_json(entry.data), entry.file("code").read_bytes()

    def key(self, target: Platform, aligned: Sequence[bool] | None = None) -> str:
        """The name in the compile cache of its code."""
        return self._key(target, *self._known(aligned, 16))

    @property
    def multiples(self) -> int:
        """The arguments of which it matters whether they are multiples of 16, as bits."""
        return sum(1 << self._names.index(name) for name in self.strides)

    def _key(self, target: Platform, divisible: list[str], constants: dict[str, int]) -> str:
        how = repr([target, self.symbol, self.parameters, self.warps, divisible, constants])
        return cache.digest("triton", *_compiler(), how, self.source)

    def _known(
        self, aligned: Sequence[bool] | None, behind: int
    ) -> tuple[list[str], dict[str, int]]:
        """The parameters that are multiples of 16, and constants."""
        pairs = [] if aligned is None else zip(self._names, aligned, strict=True)
        odd = {name for name, fits in pairs if not fits}
        kinds = dict(self.parameters)
        told = [n for n, kind in kinds.items() if kind.startswith("*") or n in self.strides]
        divisible = [n for n in told if n not in odd]
        return divisible, {} if self.group is None else {ALIGNMENT: behind}

    @property
    def _names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.parameters[len(self.parameters) - self.own :])

    def tables(self, addresses: Sequence[int]) -> list[Array]:
        """The addresses [slots, members] of what is grouped, each block's member, each member's
        first block, sizes."""
        if self.group is None:
            return []
        blocks = np.array(self.group.blocks)
        return [
            np.array(addresses, np.int64).reshape(len(self.group.slots), len(self.group.sizes)),
            np.repeat(np.arange(len(blocks)), blocks).astype(np.int32),
            (np.cumsum(blocks) - blocks).astype(np.int32),
            np.array(self.group.sizes, np.int64),
        ]

    # ---- on NumPy
    def simulate(self, grid: Grid, arguments: Sequence[Any]) -> None:
        """Run it in the interpreter, on writable arrays of bytes."""
        behind: list[Array] = list(arguments[self.own :])
        given = [
            x.view(NUMPY[kind.removeprefix("*")]) if kind.startswith("*") else NUMPY[kind].type(x)
            for x, kind in zip(arguments[: self.own], self._types, strict=True)
        ]
        tables = self.tables([x.ctypes.data for x in behind])
        function = self._function("sim")
        _interpreter().interpret(function, grid[:1], *tables, *given, reachable=behind)

    def together(self) -> AbstractContextManager[None]:
        """Context in which many simulated launches are cheaper."""
        with _needing("sim"):
            scope: AbstractContextManager[None] = _interpreter().interpreting()
        return scope


def kernels_of(program: TritonProgram) -> list[TritonKernel]:
    """The kernel of each launch."""
    made: dict[Any, TritonKernel] = {}
    for launch in program.launches:
        k = program.kernels[launch.kernel]
        key = launch.kernel, launch.tables
        if key not in made:
            made[key] = TritonKernel(
                k.name, k.name, program.source, k.parameters, k.warps, launch.tables, k.strides
            )
    return [made[launch.kernel, launch.tables] for launch in program.launches]


def letter(kind: str) -> str:
    """Format character of a parameter for `struct`. ValueError for a type that cannot be passed by
    value."""
    found = "Q" if kind.startswith("*") else LETTERS.get(kind)
    if found is None:
        raise ValueError(f"type {kind} cannot be passed by value; use {sorted(LETTERS)}")
    return found


def target_of(major: int, minor: int) -> Platform:
    return ("cuda", 10 * major + minor, 32)


@contextmanager
def _needing(extra: str) -> Iterator[None]:
    """Context that names the extra of ours that brings triton, if it is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        kind = {"gpu": "a GPU", "sim": "a simulated GPU"}[extra]
        package = (error.name or "triton").partition(".")[0]
        raise ModuleNotFoundError(
            f"kernels for {kind} need the package {package}: pip install 'jitcap[{extra}]'",
            name=package,
        ) from error


def _interpreter() -> Any:
    """The module `interpreter`, which imports triton."""
    return import_module("codegen.targets.triton.runtime.interpreter")


@functools.cache
def _compiler() -> tuple[str, str]:
    """Triton's version, and the device functions that kernels call: part of what they mean."""
    metadata = import_module("importlib.metadata")  # slow to import
    prelude = pkgutil.get_data(__name__, "prelude.py") or b""
    with _needing("gpu"):
        return metadata.version("triton"), prelude.decode()
