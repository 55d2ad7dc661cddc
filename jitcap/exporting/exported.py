"""Exporting: an exported program that can be called. graph, tensors that it holds -> results."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from eager.core import on_device
from eager.core.tensor import Tensor, wrap
from eager.device.array import DeviceArray
from eager.random import default_generator
from eager.sizes.polynomial import Scope
from eager.sizes.symint import SymInt
from jitcap.compile.compile_graph import compile_graph
from jitcap.exporting.file import read, write
from jitcap.exporting.program import (
    ARGUMENT,
    HELD,
    Program,
    filled,
    form_of,
    number_at,
    same_form,
    shown,
    tensors_in,
)  # fmt: skip
from jitcap.graph.graph import Graph
from jitcap.graph.show import show
from jitcap.graph.symbols import holds
from jitcap.guards.tensor_guard import is_writable


class Exported:
    """A function of tensors, fixed but for their values, and for sizes that may vary.

    It is called like the function that was exported, with tensors in the places of tensors and
    equal values elsewhere. It holds tensors of its own, which it may write (running means).
    Results carry no gradient."""

    def __init__(self, program: Program, held: Sequence[Any]) -> None:
        self.program = program
        self.held = tuple(held)
        self._run: Callable[[list[Any]], list[Any]] | None = None

    @property
    def graph(self) -> Graph:
        """The graph, whose inputs and outputs the program connects."""
        return self.program.graph

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Raises TypeError for arguments other than those it was exported for, or of which one is
        written and shares memory with another; RuntimeError where that is read-only."""
        program, given = self.program, ([*args], dict(sorted(kwargs.items())))
        tensors = tensors_in(given)
        if not same_form(form_of(given), program.given):
            called = shown(form_of(given))
            raise TypeError(f"exported for {shown(program.given)}, called with {called}")
        sizes = self._sizes(tensors)
        if self._run is None:
            self._run = compile_graph(program.graph, program.writes).run
            sizes = self._sizes(tensors)  # compiling asks more
        arrays = [t._array for t in tensors]
        inputs = [self._input(kind, place, arrays, sizes) for kind, place in program.takes]
        for i, _ in program.writes:
            if not is_writable(inputs[i]):
                raise RuntimeError("what the program writes is in memory that is read-only")
            if any(k != i and _may_share(inputs[i], x) for k, x in enumerate(inputs)):
                raise TypeError("what the program writes shares memory with another argument")
        own = [_in_order(x) for x in inputs]
        found = self._run(own)
        for i, _ in program.writes:
            kind, place = program.takes[i]
            if own[i] is not inputs[i]:
                _store(inputs[i], own[i])
            if kind == ARGUMENT:
                tensors[place]._storage.version += 1
        default_generator.ordinal += program.draws
        return filled(program.result, [wrap(x) for x in found])

    def _input(self, kind: str, place: Any, arrays: list[Any], sizes: Mapping[str, int]) -> Any:
        if kind == ARGUMENT:
            return arrays[place]
        if kind == HELD:
            return self.held[place]
        return number_at(place, sizes)

    def _sizes(self, tensors: Sequence[Tensor]) -> dict[str, int]:
        """The values of the symbols. Raises TypeError for tensors that the program is not for."""
        values: dict[str, int] = {}
        for tensor, aval in zip(tensors, self.program.avals, strict=True):
            got, fits = tensor.aval, True
            if (got.dtype, got.device, got.ndim) != (aval.dtype, aval.device, aval.ndim):
                fits = False
            for size, n in zip(aval.shape, got.shape, strict=fits):
                known = values.setdefault(str(size), n) if isinstance(size, SymInt) else size
                fits = fits and known == n
            if not fits:
                raise TypeError(f"exported for {list(self.program.avals)}, called with a {got}")
        if self.program.scope is not None:
            _check(self.program.scope, values)
        return values

    def save(self, path: str | Path) -> None:
        """Write the program to `path` (any suffix). Raises OSError, and ValueError for a value that
        a file cannot hold."""
        write(path, self.program, self.held)

    def __str__(self) -> str:
        return show(self.program.graph)


def load(path: str | Path) -> Exported:
    """An exported program from a file. Raises ValueError if it is not one, OSError if it cannot be
    read."""
    return Exported(*read(path))


def _check(scope: Scope, values: Mapping[str, int]) -> None:
    """Raises TypeError for sizes that the program is not for."""
    for name, n in values.items():
        symbol = scope.symbols[name]
        if not symbol.lo <= n <= symbol.hi:
            most = "" if symbol.hi == math.inf else f" <= {symbol.hi}"
            own = "" if n > 1 else ": a size of 0 or 1 is exported by an example that has it"
            raise TypeError(f"exported for {symbol.lo} <= {name}{most}, called with {n}{own}")
    for (relation, terms), truth in scope.answers.items():
        size = SymInt(terms)
        if holds(relation, size, values) is not truth:
            asked = f"{size} {relation} 0"
            raise TypeError(f"exported for sizes where {asked} is {truth}, called with {values}")


def _in_order(value: Any) -> Any:
    """An array as compiled code takes it: contiguous."""
    if type(value) is DeviceArray:
        return on_device.contiguous(value)
    return np.ascontiguousarray(value) if isinstance(value, np.ndarray) and value.ndim else value


def _may_share(a: Any, b: Any) -> bool:
    if type(a) is DeviceArray or type(b) is DeviceArray:
        return type(a) is type(b) and a.buffer is b.buffer
    arrays = isinstance(a, np.ndarray) and isinstance(b, np.ndarray)
    return arrays and bool(np.may_share_memory(a, b))


def _store(target: Any, value: Any) -> None:
    if type(target) is DeviceArray:
        on_device.store(target, value)
    else:
        np.copyto(target, value)
