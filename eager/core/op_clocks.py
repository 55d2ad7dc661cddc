"""Around dispatch while a profile runs: how long each op of eager takes. op calls -> spans.

Kernels of the CPU run by `dispatch._quiet`, those of devices by `on_device.run`; each is another
function while a recording runs. Views are no rows: they compute nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from eager.base.compat_warnings import user_place, user_places
from eager.base.process.memory import owner_of
from eager.base.recorder import Recorder, UserLine, Work, now, recorder
from eager.core import dispatch, on_device
from eager.device.array import DeviceArray

_plain: Final = dispatch._quiet, on_device.run
# Operands and the result -> what has one element for each sum of products, the sizes of a sum.
_PRODUCTS: Final[Mapping[str, Callable[..., tuple[Any, Sequence[int]]]]] = {
    "dot": lambda a, b, out: (out, a.shape[-1:]),
    "conv": lambda x, w, out: (out, w.shape[1:]),
    "conv_input_grad": lambda g, w, out: (g, w.shape[1:]),
    "conv_weight_grad": lambda g, x, out: (g, out.shape[1:]),
}
ARRAYS: Final = (np.ndarray, DeviceArray)


class _Timed(dispatch._Quiet):
    """`run(f, ...)` is that of the class above, with a clock around it."""

    def __init__(self) -> None:
        super().__init__()
        quiet = self.run

        def run(fn: Callable[..., Any], *operands: Any, **options: Any) -> Any:
            start, result = now(), None
            try:
                result = quiet(fn, *operands, **options)
            finally:
                _note(fn, operands, result, start)
            return result

        self.run = run


_timed: Final = _Timed()


def _run_there(op: Any, arrays: Sequence[Any], attrs: Any) -> tuple[Any, ...]:
    start, result = now(), None
    try:
        result = _plain[1](op, arrays, attrs)
    finally:
        _note(op.run, (arrays, attrs), result, start)
    return result


def _note(fn: Any, operands: Sequence[Any], result: Any, start: int) -> None:
    end = now()
    op = getattr(fn, "__self__", None)
    given = operands if op is None else operands[0]
    name = fn.__name__ if op is None else op.name
    stack = user_places() if recorder.asked("stack") else ()
    line = stack[0] if stack else user_place()
    recorder.add(work_of(name, given, result, line, stack), start, end)
    if recorder.asked("memory"):
        results = result if isinstance(result, tuple) else (result,)
        for x in results:
            is_new = (
                isinstance(x, np.ndarray) and not _is_view(x) and all(x is not y for y in given)
            )
            if is_new:
                recorder.hold(owner_of(x), x.nbytes, name, line)


def work_of(
    name: str, given: Sequence[Any], result: Any, line: str, stack: tuple[str, ...] = ()
) -> Work:
    """One run of an op of eager, with the arrays that it was given, and what it gave."""
    results = result if isinstance(result, tuple) else (result,)
    arrays = [x for x in given if isinstance(x, ARRAYS)]
    made = [x for x in results if isinstance(x, ARRAYS)]
    shapes = " ".join("x".join(map(str, x.shape)) or "()" for x in arrays)
    nbytes = sum(x.size * x.dtype.itemsize for x in (*arrays, *made))
    products, operations = 0.0, float(max((x.size for x in (*arrays, *made)), default=0))
    if name in _PRODUCTS and made:
        outer, inner = _PRODUCTS[name](*arrays, made[0])
        products, operations = 2.0 * outer.size * math.prod(inner), 0.0
    new = sum(x.size * x.dtype.itemsize for x in made if not _is_view(x))
    places = {UserLine(line): 1.0} if line else {}
    return Work(name, "eager op", shapes, places, nbytes, products, operations, new, stack)


def _is_view(array: Any) -> bool:
    return isinstance(array, np.ndarray) and isinstance(array.base, np.ndarray)


def install(_: Recorder) -> None:
    """Ops from now on are timed."""
    dispatch._quiet = _timed
    on_device.run = _run_there


def remove(_: Recorder) -> None:
    """Ops from now on run as if there had been no profile."""
    dispatch._quiet, on_device.run = _plain
