"""Reproducing: the inputs of a graph. a value -> text that makes one like it, or that very value.

A rule tells nothing of the user's data but a range, in two digits (of integers both ends, since
they may be indices). Values are stored only where no rule shows the fault.
"""

from __future__ import annotations

import base64
import math
import zlib
from pathlib import Path
from typing import Any, Final

import numpy as np

from eager.base import dtype as dt
from eager.base.dataclass import dataclass
from eager.sizes.aval import Aval
from jitcap.graph.show import literal, parse_aval

WIDTH: Final = 92  # of a line of stored values


def random(aval: str, low: Any, high: Any, seed: int) -> Any:
    """An array of this aval ("float32[2, 3]"; a number if it ends in "~"), uniform in `low` to
    `high`, both included."""
    kind = parse_aval(aval)
    chance = np.random.default_rng(seed)
    if kind.dtype.category in (dt.BOOL, dt.INT):
        made: Any = chance.integers(low, high, kind.shape, endpoint=True)
    else:
        made = chance.uniform(low, high, kind.shape)
        if kind.dtype.category == dt.COMPLEX:
            made = made + 1j * chance.uniform(low, high, kind.shape)
    return _of_kind(np.asarray(made).astype(kind.dtype.np), kind)


def stored(aval: str, text: str) -> Any:
    """The array of this aval whose bytes are packed (zlib) in base64."""
    return _from_bytes(zlib.decompress(base64.b64decode(text)), parse_aval(aval))


def read(aval: str, path: str) -> Any:
    """The array of this aval whose bytes are a file."""
    return _from_bytes(Path(path).read_bytes(), parse_aval(aval))


def _from_bytes(data: bytes, kind: Aval) -> Any:
    return _of_kind(np.frombuffer(data, kind.dtype.np).reshape(kind.shape).copy(), kind)


def _of_kind(array: Any, kind: Aval) -> Any:
    return array.item() if kind.weak else array


@dataclass(frozen=True, slots=True)
class Given:
    """One input: its value, and the rule that makes it ("": there is none, it is stored)."""

    aval: Aval
    value: Any
    rule: str = ""

    def text(self, folder: Path | None = None, number: int = 0) -> str:
        """Python text of the value; for trials in one `folder`, long ones lie in a file there."""
        if self.rule:
            return self.rule
        if not isinstance(self.value, np.ndarray):
            return literal(self.value)
        data = self.value.tobytes()
        if folder is not None and len(data) > 4096:
            path = folder / f"{number}.bin"
            path.write_bytes(data)
            return f'read("{self.aval!r}", {str(path)!r})'
        packed = base64.b64encode(zlib.compress(data, 9)).decode()
        if len(packed) <= WIDTH // 2:
            return f'stored("{self.aval!r}", "{packed}")'
        lines = [packed[i : i + WIDTH] for i in range(0, len(packed), WIDTH)]
        rows = "\n".join(f'            "{line}"' for line in lines)
        return f'stored(\n            "{self.aval!r}",\n{rows},\n        )'


def as_it_is(aval: Aval, value: Any, _: int = 0) -> Given:
    """The value itself."""
    return Given(aval, value)


def by_rule(aval: Aval, value: Any, seed: int) -> Given:
    """Values in the range of `value` (None: not known). A number is itself."""
    if aval.weak and value is not None:
        return Given(aval, value)
    low, high = _range(aval, value)
    rule = f'random("{aval!r}", {literal(low)}, {literal(high)}, seed={seed})'
    return Given(aval, random(repr(aval), low, high, seed), rule)


def _range(aval: Aval, value: Any) -> tuple[Any, Any]:
    """Both ends of the values, those of floats in two digits, outwards."""
    whole = aval.dtype.category in (dt.BOOL, dt.INT)
    if value is None or not np.size(value):
        return (0, 1) if whole else (0.0, 1.0)
    if whole:
        return int(np.min(value)), int(np.max(value))
    numbers = np.asarray(value).astype(np.complex128).ravel()
    two = aval.dtype.category == dt.COMPLEX
    parts = np.concatenate([numbers.real, numbers.imag]) if two else numbers.real
    finite = parts[np.isfinite(parts)]
    if not finite.size:
        return 0.0, 1.0
    return _rounded(float(finite.min()), math.floor), _rounded(float(finite.max()), math.ceil)


def _rounded(x: float, way: Any) -> float:
    """A number in two digits, towards `way`."""
    if not x:
        return 0.0
    unit = 10.0 ** (math.floor(math.log10(abs(x))) - 1)
    made = float(f"{way(x / unit) * unit:.6g}") if unit else x
    return made if math.isfinite(made) else x
