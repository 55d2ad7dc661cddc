"""At run time, where kernels run on the host: the arrays behind a program's buffers. Inputs -> flat
memory -> outputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from codegen.ir.schema import Access, Buffer, Fused, Value
from codegen.ir.sizes import span
from codegen.runtime.artifact import Array
from eager.sizes.substitute import substitute
from eager.sizes.symint import evaluate


class Memory:
    """The memory of one run by buffer: vectors that share the inputs' memory, run-time numbers,
    and new vectors for temporaries and outputs."""

    def __init__(self, fused: Fused, inputs: Sequence[Any]) -> None:
        self.fused = fused
        named = fused.program.symbols.items()
        self.sizes = {symbol: int(inputs[i]) for symbol, i in named}  # the symbols' values
        self.arrays: dict[str, Any] = {
            f"v{v.id}": v.aval.dtype.np.type(x) if v.aval.weak else self._flat(v, x)
            for v, x in zip(fused.program.inputs, inputs, strict=True)
        }
        for name, b in fused.buffers.items():
            if name not in self.arrays and b.kind in ("temp", "output"):
                self.arrays[name] = self._empty(b)
        for name, b in fused.buffers.items():
            if b.alias:
                self.arrays[name] = self.arrays[b.home].view(b.dtype.np)

    def _empty(self, b: Buffer) -> Array:
        return np.empty(evaluate(b.size, self.sizes), b.dtype.np)

    def _flat(self, v: Value, x: Array) -> Array:
        """The memory of an input up to its last element; writes go through."""
        if x.flags.c_contiguous:
            return x.reshape(-1)
        size = evaluate(span(v.aval.shape, v.layout), self.sizes)
        return as_strided(x, (size,), (x.itemsize,))

    def view(self, a: Access) -> Array:
        offset, shape, strides = substitute((a.offset, a.shape, a.strides), self.sizes)
        memory = self.arrays[a.buffer][offset:]
        return as_strided(memory, shape, tuple(s * memory.itemsize for s in strides))

    def outputs(self) -> list[Array]:
        """The program's outputs in their shapes. (Written inputs were written by the kernels.)"""
        return [self.view(a) for a in self.fused.outputs]
