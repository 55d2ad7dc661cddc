"""`eager.save` and `eager.load`: nested containers of tensors and plain values <-> one zip file.

The file holds `value.json`, which says the structure, and one `.npy` file per piece of memory:
nothing in it can run code, so a file from a stranger is safe to load. Tensors that share memory
share it again after loading.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from eager import dtype as dt
from eager.device import Size, device
from eager.dtype import DType
from eager.nn.parameter import Parameter
from eager.notice import ignore
from eager.registry import public
from eager.tensor import Tensor, wrap

_FORMAT = 1
File = str | Path | BinaryIO


class _Writer:
    """Turns values into JSON, and collects the memory of tensors."""

    def __init__(self) -> None:
        self.memory: dict[int, tuple[int, Any]] = {}  # address -> (number, array)

    def encode(self, value: Any, path: str) -> Any:
        if value is None or isinstance(value, bool | str):
            return value
        if isinstance(value, np.generic):
            return self.encode(value.item(), path)
        if isinstance(value, int | float | complex):
            return _number(value)
        if isinstance(value, Tensor):
            return self.tensor(value)
        if isinstance(value, np.ndarray):
            return {"kind": "array", "of": self.tensor(wrap(np.ascontiguousarray(value)))}
        if isinstance(value, DType | device):
            return {"kind": type(value).__name__, "of": getattr(value, "name", str(value))}
        return self.container(value, path)

    def container(self, value: Any, path: str) -> Any:
        if isinstance(value, Mapping):
            items = [
                [self.encode(k, f"{path} key"), self.encode(v, f"{path}[{k!r}]")]
                for k, v in value.items()
            ]
            kind = "OrderedDict" if isinstance(value, OrderedDict) else "dict"
            return {"kind": kind, "of": items}
        for kind, cls in _SEQUENCES.items():
            if type(value) is cls:
                return {
                    "kind": kind,
                    "of": [self.encode(v, f"{path}[{i}]") for i, v in enumerate(value)],
                }
        raise TypeError(
            f"eager.save: {path} is a {type(value).__name__}, which cannot be saved; save "
            "tensors, numbers, "
            "strings, lists, tuples, sets and dicts of them (for a module, its state_dict())"
        )

    def tensor(self, tensor: Tensor) -> dict[str, Any]:
        array = tensor.detach()._array
        owner = array
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
        if not owner.flags.c_contiguous or owner.nbytes > 2 * array.nbytes + 1024:
            array = owner = np.ascontiguousarray(
                array
            )  # a small part of much memory: only the part
        number, _ = self.memory.setdefault(owner.ctypes.data, (len(self.memory), owner))
        return {
            "kind": "tensor",
            "memory": number,
            "dtype": tensor.dtype.name,
            "shape": list(array.shape),
            "strides": [s // array.itemsize for s in array.strides],
            "offset": (array.ctypes.data - owner.ctypes.data) // array.itemsize,
            "requires_grad": tensor.requires_grad,
            "parameter": isinstance(tensor, Parameter),
        }


_SEQUENCES: dict[str, Any] = {
    "list": list,
    "tuple": tuple,
    "Size": Size,
    "set": set,
    "frozenset": frozenset,
}


def _number(value: complex) -> Any:
    """JSON has neither infinities nor complex numbers."""
    if isinstance(value, complex):
        return {"kind": "complex", "of": [repr(value.real), repr(value.imag)]}
    if isinstance(value, float):
        return {"kind": "float", "of": repr(value)}
    return int(value)


def _bytes_of(array: Any) -> Any:
    """The memory as a plain NumPy array that `.npy` knows: bytes for the types it does not know."""
    return array.reshape(-1).view(np.uint8)


@public(method=False)
def save(obj: Any, f: File) -> None:
    """Write `obj` (tensors, numbers, strings, and containers of them) to a path or binary file.
    TypeError names what does not fit."""
    writer = _Writer()
    value = writer.encode(obj, "the object")
    with zipfile.ZipFile(f, "w", zipfile.ZIP_STORED) as out:
        out.writestr("value.json", json.dumps({"format": _FORMAT, "value": value}))
        for number, array in writer.memory.values():
            with out.open(f"memory/{number}.npy", "w", force_zip64=True) as part:
                np.lib.format.write_array(part, _bytes_of(array), allow_pickle=False)


class _Reader:
    """Turns JSON into values, with each piece of memory read once."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self.archive = archive
        self.tensors: dict[int, Tensor] = {}

    def decode(self, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        kind: str = value["kind"]
        of: Any = value.get("of")
        if kind == "tensor":
            return self.tensor(value)
        if kind == "array":
            return self.tensor(of).numpy()
        if kind in ("dict", "OrderedDict"):
            pairs = [(self.decode(k), self.decode(v)) for k, v in of]
            return OrderedDict(pairs) if kind == "OrderedDict" else dict(pairs)
        if kind in _SEQUENCES:
            return _SEQUENCES[kind](self.decode(v) for v in of)
        if kind == "float":
            return float(of)
        if kind == "complex":
            return complex(float(of[0]), float(of[1]))
        if kind == "DType":
            return dt.by_name(of)
        if kind == "device":
            return device(of)
        raise RuntimeError(f"eager.load: unknown kind of value {kind!r} in the file")

    def memory(self, number: int) -> Tensor:
        if number not in self.tensors:
            raw = self.archive.read(f"memory/{number}.npy")
            flat: Any = np.lib.format.read_array(io.BytesIO(raw), allow_pickle=False)
            self.tensors[number] = wrap(flat)
        return self.tensors[number]

    def tensor(self, value: dict[str, Any]) -> Tensor:
        whole = self.memory(int(value["memory"]))
        dtype = dt.by_name(value["dtype"])
        flat = whole._array.view(dtype.np)
        shape, strides = tuple(value["shape"]), tuple(value["strides"])
        _check_inside(flat.size, int(value["offset"]), shape, strides)
        array: Any = np.ndarray(
            shape,
            dtype.np,
            flat,
            int(value["offset"]) * dtype.itemsize,
            tuple(s * dtype.itemsize for s in strides),
        )
        out: Tensor = wrap(array, whole._storage)
        if value["parameter"]:
            return Parameter(out, value["requires_grad"])
        return out.requires_grad_() if value["requires_grad"] else out


def _check_inside(size: int, offset: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> None:
    """RuntimeError for a view that reaches outside its memory: a damaged or malicious file."""
    reach = sum((n - 1) * s for n, s in zip(shape, strides, strict=True) if n > 1)
    empty = 0 in shape
    if offset < 0 or any(s < 0 for s in strides) or (not empty and offset + reach >= size):
        raise RuntimeError("eager.load: the file is damaged: a tensor lies outside its memory")


@public(method=False)
def load(
    f: File,
    map_location: Any = None,
    *,
    weights_only: bool = True,
    mmap: bool | None = None,
    **pickle_options: Any,
) -> Any:
    """Read what `save` wrote. RuntimeError for a file of another kind.

    Nothing in it is run, whatever `weights_only` says; there is one place for tensors to be."""
    ignore("load", mmap=mmap, **pickle_options)
    try:
        archive = zipfile.ZipFile(f)
    except zipfile.BadZipFile:
        raise RuntimeError(f"eager.load: {f} is not a file that eager.save wrote") from None
    with archive:
        if "value.json" not in archive.namelist():
            raise RuntimeError(
                f"eager.load: {f} is not a file that eager.save wrote (PyTorch's files hold "
                "pickled objects, "
                "which could run any code)"
            )
        head = json.loads(archive.read("value.json"))
        if head["format"] != _FORMAT:
            raise RuntimeError(f"eager.load: {f} has format {head['format']}, this is {_FORMAT}")
        return _Reader(archive).decode(head["value"])
