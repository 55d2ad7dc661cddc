"""The library's own format: nested containers of tensors and plain values <-> one zip file.

The file holds `value.json`, which says the structure, and one `.npy` file of bytes per piece of
memory: nothing in it can run code. Tensors that share memory share it again after loading, and an
object that is there twice (a list, a tensor) is one object again.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, BinaryIO

import numpy as np

from eager.base import dtype as dt
from eager.base.dtype import DType
from eager.core.storage import UntypedStorage
from eager.core.tensor import Tensor, wrap
from eager.device import Size, device
from eager.nn.parameter import Parameter
from eager.serialization.archive import Archive
from eager.serialization.memory import Loaded, MemoryTable, strided
from eager.serialization.refusal import LoadError, give_attributes, hashable

Place = Callable[[UntypedStorage, str], UntypedStorage]  # a storage, and where it was: it, placed
FORMAT = 2
_READABLE = (1, 2)  # 1 had no `again`, no bytes, and no attributes of dictionaries


# ------------------------------------------------------------------------------ value -> file
def write(value: Any, file: BinaryIO) -> None:
    """`value` into a binary file. TypeError names what does not fit, before anything is written."""
    writer = _Writer()
    text = json.dumps({"format": FORMAT, "value": writer.finished(value)})
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as out:
        out.writestr("value.json", text)
        for number in range(len(writer.pieces.memory)):
            with out.open(_entry(number), "w", force_zip64=True) as part:
                kept = writer.pieces.used_bytes(number)
                np.lib.format.write_array(part, kept, allow_pickle=False)


def _entry(number: int) -> str:
    return f"memory/{number}.npy"


class _Writer:
    """Turns values into JSON, and collects the memory of tensors."""

    def __init__(self) -> None:
        self.pieces = MemoryTable()
        self.tensors: list[dict[str, Any]] = []
        self.numbers: dict[int, int] = {}  # id of a tensor or a container -> which one it was
        self.alive: list[Any] = []

    def finished(self, value: Any) -> Any:
        """The JSON of `value`; tensors lie in what is kept of their memory."""
        out = self.encode(value, "the object")
        for tensor in self.tensors:
            start = self.pieces.start(tensor["memory"])
            tensor["offset"] = (tensor["offset"] - start) // dt.by_name(tensor["dtype"]).itemsize
        return out

    def encode(self, value: Any, path: str) -> Any:
        if value is None or type(value) in (bool, str):
            return value
        if type(value) in (int, float, complex):
            return _number(value)
        if isinstance(value, bytes | bytearray):
            return {"kind": type(value).__name__, "of": value.decode("latin-1")}
        if isinstance(value, DType | device):
            return {"kind": type(value).__name__, "of": getattr(value, "name", str(value))}
        if id(value) in self.numbers:
            return {"kind": "again", "of": self.numbers[id(value)]}
        if not isinstance(value, tuple | frozenset):  # these are equal where their parts are
            self.numbers[id(value)] = len(self.numbers)
            self.alive.append(value)
        if isinstance(value, Tensor):
            return self.tensor(value)
        if isinstance(value, np.ndarray):
            return {"kind": "array", "of": self.tensor(wrap(value))}
        return self.container(value, path)

    def container(self, value: Any, path: str) -> Any:
        if type(value) in (dict, OrderedDict):
            items = [
                [self.encode(k, f"{path} key"), self.encode(v, f"{path}[{k!r}]")]
                for k, v in value.items()
            ]
            if type(value) is dict:
                return {"kind": "dict", "of": items}
            attributes = self.encode(dict(vars(value)), f"the attributes of {path}")
            return {"kind": "OrderedDict", "of": items, "attributes": attributes}
        for kind, cls in _SEQUENCES.items():
            if type(value) is cls:
                parts = [self.encode(v, f"{path}[{i}]") for i, v in enumerate(value)]
                return {"kind": kind, "of": parts}
        raise TypeError(
            f"eager.save: {path} is a {type(value).__name__}, which format='eager' does not have; "
            "format='torch' has more, or save tensors, numbers, strings, bytes, lists, tuples, "
            "sets and dicts of them (for a module, its state_dict())"
        )

    def tensor(self, tensor: Tensor) -> dict[str, Any]:
        number, offset, array = self.pieces.locate(tensor.detach()._array)
        record = {
            "kind": "tensor",
            "memory": number,
            "dtype": tensor.dtype.name,
            "shape": list(array.shape),
            "strides": [s // array.itemsize for s in array.strides],
            "offset": offset,  # in bytes, until all tensors are known
            "requires_grad": tensor.requires_grad,
            "parameter": isinstance(tensor, Parameter),
        }
        if not tensor.is_cpu:
            record["device"] = str(tensor.device)
        self.tensors.append(record)
        return record


class _PlainWriter(_Writer):
    def tensor(self, tensor: Tensor) -> dict[str, Any]:
        raise TypeError("eager.save: a tensor or an array is in a set, or under an unusual key")


def encode_plain(value: Any, path: str) -> Any:
    """`value`, in which there are no tensors, as JSON. TypeError names what does not fit."""
    return _PlainWriter().encode(value, path)


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


# ------------------------------------------------------------------------------ file -> value
def read(archive: Archive, place: Place) -> Any:
    """Value that `write` wrote, with each storage where `place` says."""
    head = json.loads(archive.read("value.json"))
    if head["format"] not in _READABLE:
        raise LoadError(
            f"the file has format {head['format']!r}, this version reads up to {FORMAT}",
            "value.json",
            "read it with the version of jitcap that wrote it, or a later one",
        )
    reader = _Reader(archive, place)
    try:
        return reader.decode(head["value"])
    except RecursionError as error:
        raise LoadError("values are nested too deeply", "value.json") from error


class _Reader:
    """Turns JSON into values, with each piece of memory read once."""

    def __init__(self, archive: Archive, place: Place) -> None:
        self.archive = archive
        self.place = place
        self.memory: dict[int, UntypedStorage] = {}
        self.known: list[Any] = []  # tensors and containers in the order in which they begin

    def decode(self, value: Any) -> Any:
        if not isinstance(value, dict):
            if isinstance(value, list | float):
                raise LoadError(f"a bare {type(value).__name__}", "value.json")
            return value
        kind = value["kind"]
        if kind == "again":
            return self.known[value["of"]]
        read = _LITERALS.get(kind)
        if read is not None:
            return read(value["of"])
        if kind not in _CONTAINERS:
            raise LoadError(f"{kind!r:.80} is no kind of value", "value.json")
        return _CONTAINERS[kind](self, value)

    def items(self, values: Any) -> list[Any]:
        if type(values) is not list:
            raise LoadError(f"a {type(values).__name__} where a list stands", "value.json")
        return [self.decode(each) for each in values]

    def begun(self, out: Any) -> Any:
        """`out`, which may be met again, in itself too."""
        self.known.append(out)
        return out

    def list_(self, value: Any) -> Any:
        out = self.begun([])
        out.extend(self.items(value["of"]))
        return out

    def set_(self, value: Any) -> Any:
        out = self.begun(set())
        out.update(map(hashable, self.items(value["of"])))
        return out

    def tuple_(self, value: Any) -> Any:
        return tuple(self.items(value["of"]))

    def size(self, value: Any) -> Any:
        return Size(self.items(value["of"]))

    def frozenset_(self, value: Any) -> Any:
        return frozenset(map(hashable, self.items(value["of"])))

    def dictionary(self, value: Any) -> Any:
        out = self.begun(OrderedDict() if value["kind"] == "OrderedDict" else {})
        for key, item in value["of"]:
            out[hashable(self.decode(key))] = self.decode(item)
        if "attributes" in value:
            give_attributes(out, self.decode(value["attributes"]))
        return out

    def array(self, value: Any) -> Any:
        index = len(self.known)
        self.begun(None)
        self.known[index] = self.view(value["of"], host=True).numpy()
        return self.known[index]

    def tensor(self, value: Any) -> Tensor:
        out = self.view(value)
        if value["parameter"]:
            out = Parameter(out, bool(value["requires_grad"]))
        elif value["requires_grad"]:
            out.requires_grad_()
        self.begun(out)
        return out

    def view(self, value: Any, *, host: bool = False) -> Tensor:
        dtype = dt.by_name(value["dtype"])
        memory = self.storage(value["memory"], value.get("device", "cpu"))
        if host:  # an array, wherever the tensors go
            memory = UntypedStorage.over(memory._bytes, memory._storage)
        return strided(memory, dtype, value["offset"], value["shape"], value["strides"])

    def storage(self, number: int, location: Any) -> UntypedStorage:
        if number not in self.memory:
            read = Loaded.over(_bytes_of(self.archive, _entry(number)))
            self.memory[number] = self.place(read, _text(location))
        return self.memory[number]


class _PlainReader(_Reader):
    def __init__(self) -> None:
        self.known = []

    def view(self, value: Any, *, host: bool = False) -> Tensor:
        raise LoadError("a tensor among plain values")


def decode_plain(data: Any) -> Any:
    """Value of which `encode_plain` made `data`. LoadError, or an error of `refusal.DAMAGE`, for
    anything else."""
    return _PlainReader().decode(data)


_CONTAINERS: dict[str, Callable[[_Reader, Any], Any]] = {
    "tensor": _Reader.tensor,
    "array": _Reader.array,
    "dict": _Reader.dictionary,
    "OrderedDict": _Reader.dictionary,
    "list": _Reader.list_,
    "set": _Reader.set_,
    "tuple": _Reader.tuple_,
    "Size": _Reader.size,
    "frozenset": _Reader.frozenset_,
}


def _text(value: Any) -> str:
    if type(value) is not str:
        raise LoadError(f"{value!r:.80} where text stands", "value.json")
    return value


_LITERALS: dict[str, Callable[[Any], Any]] = {
    "float": lambda of: float(_text(of)),
    "complex": lambda of: complex(float(_text(of[0])), float(_text(of[1]))),
    "bytes": lambda of: of.encode("latin-1"),
    "bytearray": lambda of: bytearray(of.encode("latin-1")),
    "DType": dt.by_name,
    "device": device,
}
_NPY = re.compile(
    rb"\x93NUMPY\x01\x00..\{'descr': '\|u1', 'fortran_order': False, 'shape': \((\d+),\), \} *\n",
    re.DOTALL,
)


def _bytes_of(archive: Archive, entry: str) -> Any:
    """The bytes in a `.npy` file of bytes. (NumPy's own reader evaluates the header as Python.)"""
    raw = archive.array(entry)
    header = _NPY.match(raw[:256].tobytes())
    if header is None or int(header[1]) != raw.size - header.end():
        raise LoadError("it is not an array of bytes", entry)
    return raw[header.end() :]
