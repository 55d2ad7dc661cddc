"""The safetensors format: a dictionary of names and tensors <-> a JSON header and their bytes.

Eight bytes say how long the header is; the header says dtype, shape and place of each tensor; the
places follow one another without a gap. There is no checksum, so damage to a value goes unseen.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, BinaryIO

import numpy as np

from eager.base import dtype as dt
from eager.base.dtype import DType
from eager.core.tensor import Tensor, wrap
from eager.serialization.archive import fill
from eager.serialization.memory import MemoryTable
from eager.serialization.refusal import LoadError, size_of

MAX_HEADER = 100_000_000  # bytes: the limit of the format's own readers
_CODES: dict[str, DType] = {
    "F64": dt.float64, "F32": dt.float32, "F16": dt.float16, "BF16": dt.bfloat16,
    "I64": dt.int64, "I32": dt.int32, "I16": dt.int16, "I8": dt.int8, "U8": dt.uint8,
    "BOOL": dt.bool_, "C64": dt.complex64,
}  # fmt: skip
NAMES = {dtype: code for code, dtype in _CODES.items()}


# ------------------------------------------------------------------------------ tensors -> file
def write(tensors: Any, metadata: Any, file: BinaryIO) -> None:
    """A dictionary of tensors into a binary file; they are written row-major.

    TypeError or ValueError, before anything is written, names what the format cannot hold."""
    _check(tensors, metadata)
    write_unchecked(tensors, metadata, file)


def write_unchecked(
    tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None, file: BinaryIO
) -> None:
    """Tensors of dtypes that the format has; those that share memory are written each."""
    order = sorted(tensors, key=lambda name: (-tensors[name].itemsize, name))  # so all are aligned
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    end = 0
    for name in order:
        tensor = tensors[name]
        start, end = end, end + tensor.nbytes
        place = {"shape": list(tensor.shape), "data_offsets": [start, end]}
        header[name] = {"dtype": NAMES[tensor.dtype], **place}
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    file.write(len(text).to_bytes(8, "little") + text)
    for name in order:
        array: Any = np.ascontiguousarray(tensors[name].detach().cpu()._array)
        file.write(memoryview(array.reshape(-1).view(np.uint8)))


def _check(tensors: Any, metadata: Any) -> None:
    if not isinstance(tensors, Mapping):
        raise TypeError(
            f"eager.save: a safetensors file holds a dictionary of tensors, not a "
            f"{type(tensors).__name__}"
        )
    for name, tensor in tensors.items():
        if not isinstance(name, str) or not isinstance(tensor, Tensor):
            raise TypeError(
                f"eager.save: a safetensors file holds strings and tensors, not {name!r} and a "
                f"{type(tensor).__name__}; save other values in a file of another name (.pt)"
            )
        if tensor.dtype not in NAMES or name == "__metadata__":
            raise ValueError(
                f"eager.save: {name!r} of {tensor.dtype} does not fit into a safetensors file"
            )
    for key, value in (metadata or {}).items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise TypeError(f"eager.save: metadata are strings, not {key!r}: {value!r}")
    _check_apart(tensors)


def _check_apart(tensors: Mapping[str, Tensor]) -> None:
    """The format has no shared memory: a file would come back as copies."""
    pieces, spans = MemoryTable(), []
    for name, tensor in tensors.items():
        if tensor.numel():
            number, start, array = pieces.locate(tensor.detach()._array)
            steps = zip(array.shape, array.strides, strict=True)
            end = start + sum((n - 1) * step for n, step in steps) + array.itemsize
            spans.append((number, start, end, name))
    spans.sort()
    for (piece, _, end, name), (next_piece, start, _, other) in pairwise(spans):
        if piece == next_piece and start < end:
            raise ValueError(
                f"eager.save: {name!r} and {other!r} share memory, which a safetensors file cannot "
                "say: leave one out, or save its clone()"
            )


# ------------------------------------------------------------------------------ file -> tensors
def read_header(file: BinaryIO) -> dict[str, Any]:
    """The header of a file; the file is left where the tensors begin."""
    length = int.from_bytes(file.read(8), "little")
    if length > MAX_HEADER:
        raise LoadError(f"a header of {length} bytes", "byte 0")
    text = file.read(length)
    if len(text) != length:
        raise LoadError(f"the file ends in its header of {length} bytes", "byte 8")
    try:
        header = json.loads(text, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise LoadError(f"the header is not JSON: {error}", "byte 8") from error
    if not isinstance(header, dict):
        raise LoadError("the header is not a dictionary", "byte 8")
    return header


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) != len(pairs):
        raise ValueError("a name is there twice")
    return out


def read(file: BinaryIO) -> dict[str, Tensor]:
    """The tensors of a file, each in memory of its own."""
    header = read_header(file)
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(type(v) is str for v in metadata.values()):
        raise LoadError("the metadata are not strings", "__metadata__")
    begin = file.tell()
    data = file.seek(0, 2) - begin
    places = {name: extent(name, entry) for name, entry in header.items()}
    expected = 0
    for name, (_, _, start, end) in sorted(places.items(), key=lambda item: item[1][2:]):
        if start != expected or end > data:
            raise LoadError(f"its bytes {start} to {end} overlap others, or leave a gap", name)
        expected = end
    if expected != data:
        raise LoadError(f"{data} bytes of tensors, of which the header knows {expected}", "the end")
    out: dict[str, Tensor] = {}
    for name, (dtype, shape, start, end) in places.items():
        file.seek(begin + start)
        memory: Any = np.empty(end - start, np.uint8)
        if fill(memory, file) != memory.size:
            raise LoadError("the file ends early", name)
        out[name] = wrap(memory.view(dtype.np).reshape(shape))
    return out


def extent(name: str, entry: Any) -> tuple[DType, list[int], int, int]:
    """dtype, shape, first byte and end of a tensor."""
    if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape", "data_offsets"}:
        raise LoadError("an entry has a dtype, a shape and data_offsets, and no more", name)
    dtype = _CODES.get(entry["dtype"])
    if dtype is None:
        raise LoadError(
            f"the dtype {entry['dtype']!r:.40} is not there",
            name,
            "convert it where it was written: " + ", ".join(_CODES),
        )
    shape = [size_of(n, "a size") for n in entry["shape"]]
    start, end = (size_of(n, "an offset") for n in entry["data_offsets"])
    count = 1
    for n in shape:
        count *= n
    if end - start != count * dtype.itemsize:
        raise LoadError(f"{end - start} bytes for {count} elements of {dtype}", name)
    return dtype, shape, start, end
