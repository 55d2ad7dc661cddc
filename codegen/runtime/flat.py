"""Runtime of the backends that write Python: a fused program over flat arrays. (Fused, functions of
its kernels) -> a function on arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from codegen.ir import Access, Buffer, Fused, Kernel, Library, Value
from codegen.runtime.artifact import Array, CheckFailed
from codegen.sizes import span


class FlatProgram:
    """Calls kernels and library ops in order over flat arrays."""

    def __init__(self, fused: Fused, functions: Mapping[str, Any]) -> None:
        self.fused = fused
        self.functions = functions

    def __call__(self, inputs: Sequence[Any]) -> list[Array]:
        fused = self.fused
        flat: dict[str, Any] = {}
        for v, x in zip(fused.program.inputs, inputs, strict=True):
            flat[f"v{v.id}"] = [v.aval.dtype.np.type(x)] if v.aval.weak else _flat(v, x)
        for name, b in fused.buffers.items():
            if name not in flat:
                flat[name] = flat[b.home] if b.alias else np.empty(b.size, b.dtype.np)
        with np.errstate(all="ignore"):
            for item in fused.items:
                if isinstance(item, Kernel):
                    self.functions[item.name](flat)
                else:
                    _library(item, flat, fused.buffers)
        return [np.array(_view(flat, a)) for a in fused.outputs]


def _flat(v: Value, x: Array) -> Array:
    """One-dimensional memory of an input, up to its last element; writes go through."""
    if x.flags.c_contiguous:
        return x.reshape(-1)
    return as_strided(x, (span(v.aval.shape, v.layout),), (x.itemsize,))


def _view(flat: Mapping[str, Any], a: Access) -> Array:
    memory = flat[a.buffer][a.offset :]
    return as_strided(memory, a.shape, tuple(s * memory.itemsize for s in a.strides))


def _library(item: Library, flat: Mapping[str, Any], buffers: Mapping[str, Buffer]) -> None:
    operands = [
        _view(flat, r) if isinstance(r, Access) else flat[r][0].item() if isinstance(r, str) else r
        for r in item.operands
    ]
    try:
        results = item.op.compute(tuple(operands), item.attrs, item.out_avals)
    except Exception as error:
        raise CheckFailed(f"{item.op.name} raised {error!r}", item.where) from error
    for name, value in zip(item.outs, results, strict=True):
        flat[name][:] = np.asarray(value, buffers[name].dtype.np).reshape(-1)
