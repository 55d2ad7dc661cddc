"""Beside the resident program: as data, for the next process. TritonProgram <-> JSON, and the
text of its kernels.

Reading runs nothing. What is read is looked at as far as memory depends on it: every argument of a
launch has its buffer, temporaries lie inside the arena, and outputs inside their buffers. Of
symbolic sizes that is so when they are known.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from math import inf
from types import UnionType
from typing import Any, Final, Literal, get_args, get_origin, get_type_hints

from codegen.ir.sizes import is_static
from codegen.targets.triton.guard import SLOTS, STATE
from codegen.targets.triton.runtime.program import TABLES, TritonProgram
from eager.base import dtype as dt
from eager.base.dtype import DType
from eager.core.attributes import Unasked, decode_size, encode

_LARGEST: Final = 1 << 48  # no address, size or count is larger: the file is damaged


def to_data(program: TritonProgram) -> dict[str, Any]:
    """All but the text of the module: a record is the list of its fields, a table of records that
    have names the list of them."""
    kept = (f.name for f in fields(program) if f.name != "source")
    return {name: _data(getattr(program, name)) for name in kept}


def _data(x: Any) -> Any:
    if isinstance(x, DType):
        return x.name
    if is_dataclass(x):
        return [_data(getattr(x, f.name)) for f in fields(x)]
    if isinstance(x, Mapping):
        return [_data(v) if is_dataclass(v) else [key, _data(v)] for key, v in x.items()]
    if isinstance(x, frozenset):
        return sorted(x)
    if isinstance(x, str):
        return str(x)  # of a line, the text
    return [*map(_data, x)] if isinstance(x, tuple) else encode(x)


def from_data(data: Mapping[str, Any], source: str) -> TritonProgram:
    """The program that `to_data` wrote. Raises LookupError, TypeError or ValueError for what is no
    program."""
    read = _Reader(texts(symbol for *_, symbol in data["inputs"] if symbol))
    kinds = _hints(TritonProgram)
    found = {name: read(kinds[name], data[name]) for name in kinds if name != "source"}
    made = TritonProgram(_text(source), **found)
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


class _Reader:
    """Reads what a type says: in sizes may be these symbols."""

    def __init__(self, symbols: Sequence[str]) -> None:
        scope = Unasked()
        for name in dict.fromkeys(symbols):
            scope.symbol(name, 0, -inf)
        self.symbols = scope.symbols

    def __call__(self, kind: Any, data: Any) -> Any:
        if kind is int:
            return decode_size(data, self.symbols) if type(data) is list else _count(data)
        if kind is str:
            return _text(data)
        if kind is DType:
            return dt.by_name(data)
        if kind is bool or get_origin(kind) is Literal:
            if type(data) not in (bool, str) or data not in (get_args(kind) or (False, True)):
                raise ValueError(f"no {kind}")
            return data
        return self.several(kind, get_origin(kind), get_args(kind), data)

    def several(self, kind: Any, origin: Any, of: tuple[Any, ...], data: Any) -> Any:
        """A record, a table, a tuple, a set; or None, where there may be none."""
        if origin is UnionType and data is None:
            return None
        if type(data) is not list:
            raise ValueError("no list")
        if origin is UnionType:
            return self(of[0], data)
        if is_dataclass(kind):
            record: Any = kind
            values = zip(_hints(record).values(), data, strict=True)
            return record(*(self(each, x) for each, x in values))
        if origin is Mapping and is_dataclass(of[1]):
            return {x.name: x for x in (self(of[1], row) for row in data)}
        if origin is Mapping:
            return {_text(key): self(of[1], value) for key, value in data}
        if origin is frozenset or of[1:] == (...,):
            return origin(self(of[0], x) for x in data)
        return tuple(self(each, x) for each, x in zip(of, data, strict=True))


@functools.cache
def _hints(record: Any) -> dict[str, Any]:
    """The types of its fields, in order."""
    hints = get_type_hints(record)
    return {f.name: hints[f.name] for f in fields(record)}


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
