"""Triton testing: runs ordinary @triton.jit kernels on NumPy arrays in this process. (kernel, grid,
arrays) -> arrays written.

No GPU, no torch, no TRITON_INTERPRET: the kernel is the same object that
`build.compile_offline` compiles. Programs of the grid run one after the other; each
operation of a block is one NumPy call. `on_numpy` holds what the operations mean. While a
kernel runs, the functions of `triton.language` are replaced, so one kernel runs at a time (and none
compiles meanwhile: both take `build.LANGUAGE`); afterwards everything is put back.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import product
from typing import Any, Final

import numpy as np
import triton.language as tl
import triton.runtime.interpreter as stock
from triton.runtime.jit import JITFunction

from codegen.targets.triton.runtime.build import LANGUAGE
from codegen.targets.triton.runtime.on_numpy import (
    Array,
    Bounds,
    Builder,
    Handle,
    ReduceOps,
    ScanOps,
    patch_libdevice,
)

Grid = Sequence[int] | Callable[[dict[str, Any]], Sequence[int]]

_builder: Final = Builder()
_semantic: Final = stock.TritonSemantic(_builder)
# The patcher looks for triton.language among the globals of a function: this one has both names of
# it.
_SEES_LANGUAGE: Final = types.FunctionType((lambda: None).__code__, {"tl": tl, "core": tl.core})
_INTS: Final = "uint8 uint32 uint64 int8 int16 int32 int64"
_SCALARS: Final = {"bool": tl.int1} | {
    name: getattr(tl, name)
    for name in (*_INTS.split(), *"float16 bfloat16 float32 float64".split())
}


def interpret(
    kernel: Any,
    grid: Grid,
    *args: Any,
    check: bool = True,
    overflow: bool = False,
    reachable: Sequence[Array] = (),
    **named: Any,
) -> None:
    """Run `kernel` once per program of `grid` (1 to 3 ints, or a function of the arguments that
    returns them).

    Args:
        args, named: what the kernel takes. An array is passed as its address and written in place
        (bfloat16:
            `ml_dtypes.bfloat16`); a NumPy scalar keeps its type; a Python float is float32, an int
            is int32 or int64, as in a launch; `tl.constexpr` parameters take any value.
        check: raise IndexError when an unmasked address lies outside the arrays (else: memory is
        corrupted). overflow: raise when an int32 operation overflows (twice as slow).
        reachable: arrays the kernel gets at through addresses stored in its arguments.
    """
    bound = inspect.getcallargs(kernel.fn, *args, **named)
    constants = {
        n
        for n, t in kernel.fn.__annotations__.items()
        if "constexpr" in str(getattr(t, "__name__", t))
    }
    arrays = [a for n, a in bound.items() if n not in constants and isinstance(a, np.ndarray)]
    sizes = tuple(grid(bound) if callable(grid) else grid)
    sizes += (1,) * (3 - len(sizes))
    with np.errstate(all="ignore"), interpreting():
        values = {n: a if n in constants else _device_value(a) for n, a in bound.items()}
        body = rewritten(kernel)
        _builder.bounds = Bounds([*arrays, *reachable]) if check else None
        _builder.options = stock.InterpreterOptions(sanitize_overflow=overflow, debug=overflow)
        _builder.set_grid_dim(*sizes)
        for program in product(*map(range, sizes)):
            _builder.set_grid_idx(*program)
            body(**values)


def _device_value(value: Any) -> Any:
    """A kernel argument as the block or scalar the body sees."""
    if isinstance(value, np.ndarray):
        pointer = tl.pointer_type(_scalar_type(value.dtype))
        return tl.tensor(Handle(np.array([value.ctypes.data], np.uint64), pointer), pointer)
    if isinstance(value, np.generic):
        scalar = _scalar_type(value.dtype)
        bits = np.array([value])
        return tl.tensor(
            Handle(bits.view(np.uint16) if scalar == tl.bfloat16 else bits, scalar), scalar
        )
    if isinstance(value, bool):
        return _device_value(np.bool_(value))
    if isinstance(value, float):
        return _device_value(np.float32(value))
    if isinstance(value, int):
        return _device_value(np.int32(value) if -(2**31) <= value < 2**31 else np.int64(value))
    return stock._implicit_cvt(value)  # tuples, tensor descriptors


def _scalar_type(dtype: np.dtype[Any]) -> Any:
    found = _SCALARS.get(dtype.name)
    if found is None:
        raise TypeError(
            f"a kernel argument has dtype {dtype}, which Triton lacks; it has {sorted(_SCALARS)}"
        )
    return found


class _Rewriter(stock.FunctionRewriter):  # type: ignore[misc]
    """The stock rewriter, without leaking the interpreter's names into the globals of the kernel's
    module."""

    def _compile_and_exec(self, transformed_ast: Any) -> Any:
        names = {**vars(stock), **self.fn.__globals__, "interpreter_semantic": _semantic}
        code = compile(transformed_ast, filename=self.filename, mode="exec")
        local: dict[str, Any] = {}
        exec(code, names, local)
        return local[self.fn.__name__]


@cache
def _rewritten(fn: Callable[..., Any]) -> Callable[..., Any]:
    body: Callable[..., Any] = _Rewriter(fn).rewrite_ast()
    return body


def rewritten(kernel: Any) -> Callable[..., Any]:
    """The kernel's body with assignments turned into block values."""
    return _rewritten(kernel.fn)


def _call_device_function(self: Any, *args: Any, **named: Any) -> Any:
    """`tl.sum`, `tl.cdiv`, a user's helper: a @triton.jit function called from a running kernel."""
    named.pop("_semantic", None)
    return rewritten(self)(*args, **named)


def _new_reduce(input: Any, axis: Any, combine_fn: Any, keep_dims: bool = False, **_: Any) -> Any:
    return ReduceOps(axis, combine_fn, keep_dims).apply(input)


def _new_scan(input: Any, axis: Any, combine_fn: Any, reverse: bool = False, **_: Any) -> Any:
    return ScanOps(axis, combine_fn, reverse).apply(input)


_inside: list[None] = []  # how deep; whoever holds LANGUAGE changes it


@contextmanager
def interpreting() -> Iterator[None]:
    """Inside, `triton.language` computes with NumPy: entered once for many kernels, it saves what
    replacing and restoring it costs each. Nothing may compile meanwhile."""
    with LANGUAGE:
        _inside.append(None)
        try:
            if len(_inside) > 1:
                yield
            else:
                with _interpreted_language():
                    yield
        finally:
            _inside.pop()


@contextmanager
def _interpreted_language() -> Iterator[None]:
    """`triton.language` computes with NumPy inside, compiles again outside."""
    saved = stock.interpreter_builder, stock.interpreter_semantic
    stock.interpreter_builder, stock.interpreter_semantic = _builder, _semantic
    scope = stock._LangPatchScope()
    try:
        scope.set_attr(JITFunction, "__call__", _call_device_function)
        patch_libdevice(scope)
        language = stock._patch_lang(_SEES_LANGUAGE)
        try:
            _patch_last(language)
            yield
        finally:
            language.restore()
    finally:
        scope.restore()
        stock.interpreter_builder, stock.interpreter_semantic = saved


def _patch_last(scope: Any) -> None:
    """Apply the patches that must replace a replacement of the stock interpreter."""
    scope.set_attr(tl.tensor, "__index__", lambda self: int(self.handle.data.reshape(-1)[0]))
    for module in (tl, tl.core):
        scope.set_attr(module, "reduce", _new_reduce)
        scope.set_attr(module, "associative_scan", _new_scan)
