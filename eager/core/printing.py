"""At the edge: tensors as text, in PyTorch's layout. Tensor -> str."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

import numpy as np

from eager.base import dtype as dt
from eager.core.batched import Batched
from eager.core.tensor import Tensor
from eager.core.traced import Traced, UnknownValue
from eager.device import transfer
from eager.device.array import DeviceArray
from eager.device.meta import META

# PyTorch's name for them, which libraries read.
PRINT_OPTS = SimpleNamespace(precision=4, threshold=1000, edgeitems=3, linewidth=80, sci_mode=None)
_options: dict[str, Any] = vars(PRINT_OPTS)


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Set how tensors print: digits, from how many elements on to abbreviate, elements at the
    edges, line width."""
    profiles: dict[str, dict[str, Any]] = {
        "default": {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80},
        "short": {"precision": 2, "threshold": 1000, "edgeitems": 2, "linewidth": 80},
        "full": {"precision": 4, "threshold": float("inf"), "edgeitems": 3, "linewidth": 80},
    }
    _options.update(profiles.get(profile or "", {}))
    given = {
        "precision": precision,
        "threshold": threshold,
        "edgeitems": edgeitems,
        "linewidth": linewidth,
    }
    _options.update({k: v for k, v in given.items() if v is not None})
    _options["sci_mode"] = sci_mode


def _float_format(shown: Any) -> Callable[[Any], str]:
    """One format for all shown elements: `1.` for whole ones, 1.0000e-05 for a wide range."""
    finite = shown[np.isfinite(shown)].astype(np.float64)
    sizes = np.abs(finite[finite != 0])
    whole = bool(finite.size and (finite == np.rint(finite)).all())
    sci = _options["sci_mode"]
    if sci is None:
        wide = sizes.size and (sizes.max() / sizes.min() > 1000.0 or sizes.max() > 1e8)
        sci = bool(wide or (sizes.size and sizes.min() < 1e-4))
    precision = _options["precision"]
    spec = f".{precision}e" if sci else ".0f" if whole else f".{precision}f"
    dot = "." if whole and not sci else ""
    return lambda v: format(v, spec) + dot if np.isfinite(v) else str(float(v))


def _format_of(shown: Any) -> Any:
    kind = shown.dtype.kind
    if kind == "c":
        real, imag = _float_format(shown.real), _float_format(shown.imag)
        width = _width(shown.real, real)

        def both(v: Any) -> str:
            last = imag(v.imag)
            return real(v.real).rjust(width) + ("" if last[0] == "-" else "+") + last + "j"

        return both
    return _float_format(shown) if kind == "f" else str


def _shown(array: Any, edge: int | None) -> Any:
    """The elements that will appear, flat."""
    if edge is None:
        return array.reshape(-1)
    for axis, n in enumerate(array.shape):
        if n > 2 * edge:
            array = np.take(array, [*range(edge), *range(n - edge, n)], axis=axis)
    return array.reshape(-1)


def _rows(array: Any, edge: int | None, one: Any, indent: int, width: int) -> str:
    if array.ndim == 0:
        return str(one(array[()]))
    n = array.shape[0]
    places: list[int | None] = list(range(n))
    if edge is not None and n > 2 * edge:
        places = [*range(edge), None, *range(n - edge, n)]
    if array.ndim == 1:
        words = [" ..." if i is None else one(array[i]) for i in places]
        return _row(words, indent, width or max(map(len, words), default=0))
    parts = ["..." if i is None else _rows(array[i], edge, one, indent + 1, width) for i in places]
    gap = "," + "\n" * (array.ndim - 1) + " " * (indent + 1)
    return "[" + gap.join(parts) + "]"


def _row(words: list[str], indent: int, width: int) -> str:
    """`[a, b, ...]`, broken where words of this width fill the line."""
    per_line = max(1, int((_options["linewidth"] - indent) // (width + 2)))
    lines = [", ".join(words[i : i + per_line]) for i in range(0, len(words), per_line)]
    return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"


def _width(shown: Any, one: Callable[[Any], str]) -> int:
    """The width that all elements get: that of the longest, where zeros, infinities and NaN do not
    count."""
    if shown.dtype.kind == "f":
        shown = shown[np.isfinite(shown) & (shown != 0)]
    return max((len(one(v)) for v in shown), default=1)


def body(array: Any, indent: int) -> str:
    if array.dtype == dt.bfloat16.np:
        array = array.astype(np.float32)
    edge: Any = _options["edgeitems"] if array.size > _options["threshold"] else None
    shown = _shown(array, edge)
    one = _format_of(shown)
    width = _width(shown, one) if array.ndim and array.dtype.kind != "c" else 0
    return _rows(array, edge, lambda v: one(v).rjust(width), indent, width)


def in_lines(text: str, words: Iterable[str], indent: int, apart: bool = False) -> str:
    """`text, word, word)`: what does not fit into the last line begins another, and the first word
    does if it is to stand `apart`."""
    used = len(text) - text.rfind("\n") + 1
    for word in words:
        fits = not apart and used + len(word) + 2 <= _options["linewidth"]
        text += (", " if fits else ",\n" + " " * indent) + word
        used, apart = len(word) + (used + 2 if fits else indent), False
    return text + ")"


def tensor_repr(self: Tensor) -> str:
    """`tensor([1., 2.], requires_grad=True)`. Raises UnknownValue under capture, where nothing
    stands for the values."""
    name = type(self).__name__
    head = "Parameter containing:\n" if name == "Parameter" else ""
    name = "tensor" if type(self) is Tensor or head or name == "Buffer" else name
    array = self._array
    if type(array) is Traced:
        raise UnknownValue("text of a tensor whose values are not known yet: it is being captured")
    if type(array) is Batched:
        count = f"one of {array.level.size} examples" if array.mapped else "the same for each"
        return f"{head}{name}(<{array.aval}, {count}, in vmap of {tensor_repr(array.value)}>)"
    there, valued = type(array) is DeviceArray, self.device.type != META
    if there and valued:
        array = transfer.download(array)
    parts = ["..."] if not valued else ["[]"]
    if valued and (array.size or array.ndim == 1):
        parts = [body(array, len(name) + 1)]
    if not valued:
        parts += [f"device='{self.device}'", f"size={tuple(array.shape)}"]
    elif not array.size and array.ndim != 1:
        parts.append(f"size={tuple(array.shape)}")
    shown = (dt.get_default_dtype(), dt.default_complex())
    implied = (*shown, dt.int64, dt.bool_) if valued and array.size else shown
    if there and valued:
        parts.append(f"device='{self.device}'")
    if self.dtype not in implied:
        parts.append(f"dtype={self.dtype!r}")
    if self.grad_fn is not None:
        parts.append(f"grad_fn=<{self.grad_fn.name()}>")
    elif self.requires_grad:
        parts.append("requires_grad=True")
    return head + in_lines(f"{name}({parts[0]}", parts[1:], len(name) + 1)


def part_text(name: str, x: Tensor) -> str:
    """`values=tensor([1., 2.])`: a tensor in the text of another, at the beginning of a line behind
    `tensor(`."""
    array = x._array
    if type(array) is Traced:
        return f"{name}={tensor_repr(x)}"  # which refuses
    array = transfer.download(array) if type(array) is DeviceArray else array
    size = "" if array.size else f", size={tuple(array.shape)}"
    return f"{name}=tensor({body(array, len(name) + 15) if array.size else '[]'}{size})"


def tensor_format(self: Tensor, spec: str) -> str:
    """A one-element tensor formats as its number."""
    if self.ndim == 0:
        return format(self.item(), spec)
    return object.__format__(self, spec)


for _name, _fn in (
    ("__repr__", tensor_repr),
    ("__str__", tensor_repr),
    ("__format__", tensor_format),
):
    setattr(Tensor, _name, _fn)
