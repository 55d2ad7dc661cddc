"""Exporting: a program as a file, and back. Program, tensors that it holds <-> a NumPy archive.

The program is JSON (op names, arguments, attributes, forms), the tensors are raw bytes: NumPy's
format of files does not know every element type of ours. Reading executes nothing.
"""

from __future__ import annotations

import json
import struct
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from eager.base import dtype as dt
from eager.core import attributes
from eager.core.tensor import wrap
from eager.device import transfer
from eager.device.array import DeviceArray
from eager.sizes.aval import Aval
from eager.sizes.polynomial import Scope
from eager.sizes.symint import SymInt
from jitcap.exporting.program import ARGUMENT, HELD, LEAF, NUMBER, Program, leaves_of
from jitcap.graph.codec import graph_data, graph_of
from jitcap.graph.graph import Graph
from jitcap.graph.symbols import Sizes
from jitcap.graph.verify import verify

FORMAT: Final = "jitcap-export-2"
_FAULTS: Final = (
    LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RuntimeError, MemoryError,
    EOFError, AssertionError, SyntaxError, zipfile.BadZipFile, zlib.error, struct.error,
)  # fmt: skip


def write(path: str | Path, program: Program, held: Sequence[Any]) -> None:
    """Raises OSError, and ValueError for a value that is no data."""
    arrays = {f"c{i}": _bytes(x) for i, x in enumerate(held)}
    data = {"format": FORMAT, **_program(program), "held": [_aval(wrap(x).aval) for x in held]}
    with Path(path).open("wb") as file:
        np.savez(file, allow_pickle=False, program=np.array(json.dumps(data)), **arrays)


def read(path: str | Path) -> tuple[Program, list[Any]]:
    """Program and arrays of a file by `write`. Raises ValueError for others, OSError if there is
    none."""
    try:
        if not zipfile.is_zipfile(path) and Path(path).stat():
            raise ValueError("no archive")
        with np.load(path, allow_pickle=False) as archive:
            data = json.loads(str(archive["program"]))
            if data["format"] != FORMAT:
                raise ValueError(f"format {data['format']!r}, expected {FORMAT!r}")
            reader = _Reader(data["symbols"], data["answers"])
            held = [reader.array(archive[f"c{i}"], row) for i, row in enumerate(data["held"])]
            program = reader.program(data)
            _fits(program, held)
            return program, held
    except _FAULTS as error:
        raise ValueError(f"{path} is not an exported program: {error}") from error


def _fits(program: Program, held: Sequence[Any]) -> None:
    """Raises where native code would be given other memory than it is made for."""
    verify(program.graph, "reading")
    inputs, results = program.graph.inputs, len(program.graph.outputs) - len(program.writes)
    for n, (kind, place) in zip(inputs, program.takes, strict=True):
        if kind == NUMBER and n.aval.weak:
            continue
        known = {ARGUMENT: program.avals, HELD: [wrap(x).aval for x in held]}[kind]
        if known[place] != n.aval or place < 0:
            raise ValueError(f"an input {n.aval} that is given a {known[place]}")
    for i, o in program.writes:
        if inputs[i].aval != program.graph.outputs[o].aval or min(i, o) < 0:
            raise ValueError("a write of another kind of tensor")
    if any(not 0 <= i < results for i in leaves_of(program.result)):
        raise ValueError("a result that there is not")


# ---- to the file


def _bytes(array: Any) -> Any:
    host = transfer.download(array) if type(array) is DeviceArray else array
    return np.frombuffer(host.tobytes(), np.uint8)


def _program(program: Program) -> dict[str, Any]:
    symbols = program.scope.symbols.values() if program.scope else ()
    answers = program.scope.answers.items() if program.scope else ()
    return {
        "symbols": [[s.name, s.hint, *map(attributes.encode, (s.lo, s.hi))] for s in symbols],
        "answers": [[r, attributes.encode(SymInt(t)), yes] for (r, t), yes in answers],
        "graph": graph_data(program.graph, _value),
        "writes": [*map(list, program.writes)],
        "takes": [[kind, _data(place)] for kind, place in program.takes],
        "given": _form(program.given),
        "avals": [*map(_aval, program.avals)],
        "result": _form(program.result),
        "draws": program.draws,
    }


def _form(form: Any) -> Any:
    kind, *parts = form
    if kind in (LEAF, "="):
        return [kind, attributes.encode(parts[0])]
    if kind == "dict":
        keys, *values = parts
        return [kind, [*map(attributes.encode, keys)], *map(_form, values)]
    return [kind, *map(_form, parts)]


def _data(place: Any) -> Any:
    """A list of lists, texts and numbers."""
    return ["l", *map(_data, place)] if isinstance(place, list) else attributes.encode(place)


def _value(value: Any) -> Any:
    """An attribute of an op, graphs among them."""
    if isinstance(value, tuple) and any(isinstance(x, Graph) for x in value):
        return [graph_data(graph, _value) for graph in value]
    return attributes.encode(value)


def _aval(aval: Aval) -> list[Any]:
    return [[*map(attributes.encode, aval.shape)], aval.dtype.name, aval.device, aval.weak]


# ---- from the file


class _Reader:
    """Reads the parts of one file, whose sizes are made of its symbols."""

    def __init__(self, symbols: Any, answers: Any) -> None:
        self.scope: Scope | None = Sizes() if symbols else None
        self.symbols: attributes.Symbols = {}
        if self.scope is not None:
            for name, value, lo, hi in symbols:
                self.scope.symbol(str(name), int(value), *map(attributes.decode, (lo, hi)))
            self.symbols = self.scope.symbols
            for relation, size, truth in answers:
                asked = attributes.decode_size(size, self.symbols)
                if self.scope.answer(relation, asked) is not truth:
                    raise ValueError("an answer about sizes that is wrong")

    def program(self, data: dict[str, Any]) -> Program:
        return Program(
            graph_of(data["graph"], self.value),
            tuple((int(i), int(o)) for i, o in data["writes"]),
            tuple((str(kind), self.data(place)) for kind, place in data["takes"]),
            self.form(data["given"]),
            tuple(map(self.aval, data["avals"])),
            self.scope,
            self.form(data["result"]),
            int(data["draws"]),
        )

    def array(self, raw: Any, row: Any) -> Any:
        aval = self.aval(row)
        array = np.frombuffer(raw.tobytes(), aval.dtype.np).reshape(aval.shape).copy()
        return array if aval.device == "cpu" else wrap(array).to(aval.device)._array

    def value(self, data: Any) -> Any:
        if isinstance(data, list) and isinstance(data[0], dict):
            return tuple(graph_of(graph, self.value) for graph in data)
        return attributes.decode(data, self.symbols)

    def data(self, data: Any) -> Any:
        if isinstance(data, list) and data[0] == "l":
            return [*map(self.data, data[1:])]
        return self.value(data)

    def form(self, data: Any) -> Any:
        kind, *parts = data
        if kind in (LEAF, "="):
            return [kind, self.value(parts[0])]
        if kind == "dict":
            keys, *values = parts
            return [kind, [*map(self.value, keys)], *map(self.form, values)]
        if kind not in ("list", "tuple"):
            raise ValueError(f"there is no form {kind!r}")
        return [kind, *map(self.form, parts)]

    def aval(self, row: Any) -> Aval:
        shape, kind, device, weak = row
        return Aval(tuple(map(self.value, shape)), dt.by_name(kind), str(device), bool(weak))
