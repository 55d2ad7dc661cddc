"""Beside the resident program: as data, for the next process. TritonProgram <-> JSON, and the
text of its kernels.

Reading runs nothing. What is read is looked at as far as memory depends on it: every argument of a
launch has its buffer, temporaries lie inside the arena, and outputs inside their buffers. Of
symbolic sizes that is so when they are known.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import Any, Final, get_args

from codegen.emit.triton.guard import SLOTS, STATE
from codegen.emit.triton.runtime.program import TABLES, Compiled, Launch, Tables, TritonProgram
from codegen.ir import Access, Buffer, BufferKind, Value
from codegen.sizes import is_static
from eager import dtype as dt
from eager.attributes import Unasked, decode_size, encode
from eager.aval import Aval

_LARGEST: Final = 1 << 48


def to_data(program: TritonProgram) -> dict[str, Any]:
    """All but the text of the module."""
    return {
        "kernels": [
            [k.name, k.source, [[*p] for p in k.parameters], k.warps, [*k.notes], [*k.strides]]
            for k in program.kernels.values()
        ],
        "launches": [_launch_data(launch) for launch in program.launches],
        "buffers": [
            [b.name, b.dtype.name, encode(b.size), b.kind, b.value, b.alias, b.offset]
            for b in program.buffers.values()
        ],
        "arena": [[*row] for row in program.arena.items()],
        "arena_bytes": program.arena_bytes,
        "inputs": [
            [
                v.id,
                _aval_data(v.aval),
                None if v.strides is None else _sizes_data(v.strides),
                v.symbol,
            ]
            for v in program.inputs
        ],
        "written": sorted(program.written),
        "outputs": [
            [
                [a.buffer, encode(a.offset), _sizes_data(a.shape), _sizes_data(a.strides)],
                _aval_data(aval),
            ]
            for a, aval in program.outputs
        ],
        "sizes": [[name, encode(n)] for name, n in program.sizes.items()],
        "lives": [[name, a, b, encode(n)] for name, (a, b, n) in program.lives.items()],
    }


def from_data(data: Mapping[str, Any], source: str) -> TritonProgram:
    """What `to_data` wrote. Raises LookupError, TypeError or ValueError for what is no program."""
    kernels = (
        Compiled(_text(name), _text(text), _pairs(pairs), _count(warps), texts(notes), texts(steps))
        for name, text, pairs, warps, notes, steps in data["kernels"]
    )
    read = _Reader(texts(symbol for *_, symbol in data["inputs"] if symbol))
    buffers = (
        Buffer(
            _text(name),
            dt.by_name(kind),
            read.size(n),
            _kind(what),
            int(value),
            _text(alias),
            _count(offset),
        )
        for name, kind, n, what, value, alias, offset in data["buffers"]
    )
    made = TritonProgram(
        _text(source),
        {k.name: k for k in kernels},
        tuple(map(read.launch, data["launches"])),
        {b.name: b for b in buffers},
        {_text(name): _count(offset) for name, offset in data["arena"]},
        _count(data["arena_bytes"]),
        tuple(
            Value(_count(i), read.aval(a), None if s is None else read.sizes(s), _text(symbol))
            for i, a, s, symbol in data["inputs"]
        ),
        frozenset(map(_count, data["written"])),
        tuple((read.access(*access), read.aval(aval)) for access, aval in data["outputs"]),
        {_text(name): read.size(n) for name, n in data["sizes"]},
        {_text(n): (_count(a), _count(b), read.size(size)) for n, a, b, size in data["lives"]},
    )
    if any(v.symbol and not v.aval.weak for v in made.inputs):
        raise ValueError("a symbol that is no number")
    look(made)
    return made


def look(made: TritonProgram) -> None:
    """Raises LookupError or ValueError for a program that reaches other memory than its own."""
    homes = {name: made.buffers[b.home] for name, b in made.buffers.items()}
    for launch in made.launches:
        _ = made.kernels[launch.kernel]
        members = () if launch.tables is None else launch.tables.slots
        for name in (*launch.arguments, *(n for slot in members for n in slot), *launch.writes):
            if name not in homes and name not in (*TABLES, STATE, SLOTS, "errors", *made.sizes):
                raise ValueError(f"no memory {name}")
    for name, b in made.buffers.items():
        room = homes[name].nbytes
        if is_static((b.size, room)) and b.offset + b.nbytes > room:
            raise ValueError(f"{name} lies outside {b.home}")
    for name in made.lives:
        _ = made.buffers[name]
    counts = [*(b.size for b in made.buffers.values()), *(x.programs for x in made.launches)]
    if any(is_static((n,)) and n < 0 for n in counts):
        raise ValueError("less than nothing")
    for name, offset in made.arena.items():
        if offset + int(made.buffers[name].nbytes) > made.arena_bytes:
            raise ValueError(f"{name} lies outside the arena")
    for v in made.inputs:
        _ = made.buffers[f"v{v.id}"]
    if any(i >= len(made.inputs) for i in made.written):
        raise ValueError("no input")
    for access, _ in made.outputs:
        room = homes[access.buffer].size
        if not is_static((access.offset, *access.shape, *access.strides, room)):
            continue
        reach = (max(n - 1, 0) * s for n, s in zip(access.shape, access.strides, strict=True))
        last = access.offset + sum(reach)
        if math.prod(access.shape) and last >= room:
            raise ValueError(f"an output lies outside {access.buffer}")


def _launch_data(launch: Launch) -> list[Any]:
    t = launch.tables
    tables = None if t is None else [[*map(list, t.slots)], [*t.sizes], t.block]
    return [
        launch.kernel, [*launch.arguments], encode(launch.programs), [*launch.checks], tables,
        [*launch.writes],
    ]  # fmt: skip


def _aval_data(aval: Aval) -> list[Any]:
    return [_sizes_data(aval.shape), aval.dtype.name, aval.weak, aval.device]


def _sizes_data(sizes: Iterable[Any]) -> list[Any]:
    return [*map(encode, sizes)]


class _Reader:
    """Reads what may have sizes in it, of these symbols."""

    def __init__(self, symbols: Sequence[str]) -> None:
        scope = Unasked()
        for name in dict.fromkeys(symbols):
            scope.symbol(name, 0, -inf)
        self.symbols = scope.symbols

    def size(self, data: Any) -> Any:
        return decode_size(data, self.symbols) if type(data) is list else _count(data)

    def sizes(self, data: Any) -> tuple[Any, ...]:
        return tuple(map(self.size, data))

    def launch(self, data: Any) -> Launch:
        kernel, arguments, programs, checks, tables, writes = data
        made = None
        if tables is not None:
            slots, sizes, block = tables
            made = Tables(tuple(map(texts, slots)), tuple(map(_count, sizes)), _count(block))
        programs = self.size(programs)
        return Launch(_text(kernel), texts(arguments), programs, texts(checks), made, texts(writes))

    def aval(self, data: Any) -> Aval:
        shape, dtype, weak, place = data
        if type(weak) is not bool:
            raise ValueError("no aval")
        return Aval(self.sizes(shape), dt.by_name(dtype), _text(place), weak)

    def access(self, buffer: Any, offset: Any, shape: Any, strides: Any) -> Access:
        return Access(_text(buffer), self.size(offset), self.sizes(shape), self.sizes(strides))


def _kind(text: Any) -> Any:
    if text not in get_args(BufferKind):
        raise ValueError("no kind of buffer")
    return text


def _pairs(rows: Any) -> tuple[tuple[str, str], ...]:
    return tuple((_text(name), _text(kind)) for name, kind in rows)


def texts(values: Iterable[Any]) -> tuple[str, ...]:
    """Strings. Raises ValueError."""
    return tuple(map(_text, values))


def _text(value: Any) -> str:
    if type(value) is not str:
        raise ValueError("no text")
    return value


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value < _LARGEST:
        raise ValueError("no number")
    return value
