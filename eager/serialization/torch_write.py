"""PyTorch's format, written: any value -> a zip file that `torch.load` and `eager.load` read.

`data.pkl` is a pickle of protocol 2 in which tensors, dtypes and devices have PyTorch's names
(which are not imported), and all else the name it has in Python; what is ours is named as users
name it (`eager.nn.Linear`), not by the file it stands in. Each piece of memory is an entry.
"""

from __future__ import annotations

import codecs
import pickle
import struct
import sys
import zipfile
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any, BinaryIO, Final

from eager.autograd import copies
from eager.base.dtype import DType
from eager.base.process.recursion import room
from eager.core.storage import TypedStorage, UntypedStorage
from eager.core.tensor import Tensor
from eager.device import Size, device
from eager.nn.parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter
from eager.serialization.memory import MemoryTable
from eager.sparse.tensor import COO, SparseTensor

STORAGES: Final = {
    "bool": "Bool", "uint8": "Byte", "int8": "Char", "int16": "Short", "int32": "Int",
    "int64": "Long", "float16": "Half", "bfloat16": "BFloat16", "float32": "Float",
    "float64": "Double", "complex64": "ComplexFloat", "complex128": "ComplexDouble",
}  # fmt: skip
_ALIGNMENT: Final = 64  # of the bytes of a tensor in the file, for who maps it
_PLAIN: Final = frozenset(
    {type(None), bool, int, float, str, bytes, tuple, list, dict, OrderedDict}
)
_HOMES: Final = (  # of what stands in a file that is not below its home
    "eager.nn.functional", "eager.optim.lr_scheduler", "eager.autograd", "eager.linalg",
    "eager.special",
)  # fmt: skip
_LARGE: Final = 1 << 30  # an entry of more bytes has its size in 64 bits


class SaveError(TypeError, pickle.PicklingError):
    """A value that cannot be saved: which, where it is, and why."""


class _Name:
    """A class or a function of PyTorch."""

    def __init__(self, module: str, name: str) -> None:
        self.line = f"c{module}\n{name}\n".encode()

    def __call__(self) -> None:
        """The pickler asks that what makes a value can be called; it is when the file is read."""


class _Later:
    """A number that is known when all tensors are."""

    def __init__(self, of: Callable[[], int]) -> None:
        self.of = of


class _Stored:
    """A piece of memory, as elements of a type: what a pickle says of an entry of the file."""

    def __init__(self, number: int, kind: _Name, location: str, size: _Later) -> None:
        self.id = ("storage", kind, str(number), location, size)


_UTILS = "torch._utils"
_TENSOR = _Name("torch", "Tensor")
_V2, _V3 = (_Name(_UTILS, f"_rebuild_tensor_{v}") for v in ("v2", "v3"))
_PARAMETER = _Name(_UTILS, "_rebuild_parameter")
_WITH_STATE = _Name(_UTILS, "_rebuild_parameter_with_state")
_FROM_TYPE = _Name("torch._tensor", "_rebuild_from_type_v2")
_SPARSE, _LAYOUT = (
    _Name(_UTILS, "_rebuild_sparse_tensor"),
    _Name("torch.serialization", "_get_layout"),
)
_UNTYPED = _Name("torch.storage", "UntypedStorage")
_OF_DTYPE = {name: _Name("torch", f"{kind}Storage") for name, kind in STORAGES.items()}


# ------------------------------------------------------------------------------------- names
def public_name(value: Any) -> tuple[str, str]:
    """Module and name by which users know a class or a function, if it is ours."""
    module, name = value.__module__, value.__qualname__
    parts = module.split(".")
    if parts[0] == "pathlib":  # in Python 3.13 there is a private file under it
        return "pathlib", name
    if parts[0] != "eager":
        return module, name
    above = [".".join(parts[:count]) for count in range(1, len(parts))]
    for home in (*above, *_HOMES):
        for known, each in vars(sys.modules[home]).items() if home in sys.modules else ():
            if each is value and not known.startswith("_"):
                return home, known
    return module, name


# ------------------------------------------------------------------------------- value -> pickle
class _Chunks(list[Any]):
    """The pickle: bytes, and numbers that are not known yet."""

    write = list.append


_Python: Any = pickle._Pickler  # the one whose parts can be replaced


class _Pickler(_Python):  # type: ignore[misc]
    """Collects the memory of tensors while it writes the pickle."""

    dispatch: dict[Any, Any] = dict(_Python.dispatch)

    def __init__(self) -> None:
        self.parts = _Chunks()
        super().__init__(self.parts, 2)
        self.pieces = MemoryTable()
        self.dtypes: list[DType | None] = []  # of each piece, by the first that was met

    # ---- names
    def save_global(self, obj: Any, name: str | None = None) -> None:
        """Write a global as Python does, but under the name that the file has for it."""
        if name is None and type(getattr(obj, "__module__", None)) is str:
            module, known = public_name(obj)
            if (module, known) != (obj.__module__, obj.__qualname__):
                self.named(_Name(module, known), obj)
                return
        super().save_global(obj, name)

    def named(self, name: _Name, obj: Any = None) -> None:
        self.write(name.line)
        self.memoize(name if obj is None else obj)

    def dtype(self, obj: DType) -> None:
        self.named(_Name("torch", obj.name), obj)

    def later(self, obj: _Later) -> None:
        self.parts.append(obj)

    def bytes_(self, obj: bytes) -> None:
        """PyTorch reads empty ones, too, if they are written as the others."""
        self.save_reduce(codecs.encode, (obj.decode("latin1"), "latin1"), obj=obj)

    dispatch |= {
        bytes: bytes_,
        _Name: named,
        _Later: later,
        DType: dtype,
        FunctionType: save_global,
    }

    # ---- tensors
    def persistent_id(self, obj: Any) -> Any:
        if isinstance(obj, TypedStorage):
            return self.storage(obj.untyped(), obj.dtype).id
        if isinstance(obj, UntypedStorage):
            return self.storage(obj, None).id
        return obj.id if type(obj) is _Stored else None

    def storage(self, obj: UntypedStorage, dtype: DType | None) -> _Stored:
        number, _, _ = self.pieces.locate(obj._bytes)
        return self.stored(number, dtype, str(obj.device))

    def stored(self, number: int, dtype: DType | None, location: str) -> _Stored:
        if number == len(self.dtypes):
            self.dtypes.append(dtype)
        kind = _UNTYPED if dtype is None else _OF_DTYPE[dtype.name]
        item = 1 if dtype is None else dtype.itemsize
        return _Stored(number, kind, location, _Later(lambda: self.size(number) // item))

    def size(self, number: int) -> int:
        """Bytes of an entry: whole elements of the type that was met first."""
        dtype, count = self.dtypes[number], self.pieces.used_bytes(number).size
        return count if dtype is None else -(-count // dtype.itemsize) * dtype.itemsize

    def reducer_override(self, obj: Any) -> Any:
        """Reduction of a value of ours: a function of PyTorch's, and its arguments."""
        if type(obj) in _PLAIN:
            return NotImplemented
        if isinstance(obj, Tensor):
            if isinstance(obj, UninitializedParameter | UninitializedBuffer):
                return NotImplemented
            return self.parameter(obj) if isinstance(obj, Parameter) else self.tensor(obj)
        if isinstance(obj, Size):
            return _Name("torch", "Size"), (tuple(obj),)
        if isinstance(obj, device):
            parts = (obj.type,) if obj.index is None else (obj.type, obj.index)
            return _Name("torch", "device"), parts
        if isinstance(obj, SparseTensor):
            return self.sparse(obj)
        return NotImplemented

    def parameter(self, obj: Parameter) -> Any:
        parts: Any = (obj.data, obj.requires_grad, OrderedDict())
        state = copies.own_attributes(obj)
        if type(obj) is not Parameter:
            return NotImplemented
        return (_WITH_STATE, (*parts, state)) if state else (_PARAMETER, parts)

    def tensor(self, obj: Tensor) -> Any:
        number, start, array = self.pieces.locate(obj.detach()._array)
        dtype, item = obj.dtype, obj.itemsize
        same = number == len(self.dtypes) or self.dtypes[number] is dtype
        args: Any = (
            self.stored(number, dtype if same else None, str(obj.device)),
            _Later(lambda: (start - self.pieces.start(number)) // item),
            tuple(array.shape),
            tuple(step // item for step in array.strides) if array.size else obj.stride(),
            obj.requires_grad,
            OrderedDict(),  # hooks
        )
        make: _Name = _V2
        if not same:  # memory is looked at as another type than that of its first tensor
            make, args = _V3, (*args, dtype)
        state = copies.own_attributes(obj)
        if isinstance(obj, Buffer):
            state["_is_buffer"] = True
        cls = _TENSOR if type(obj) in (Tensor, Buffer) else type(obj)
        if state or cls is not _TENSOR:
            return _FROM_TYPE, (make, cls, args, state)
        return make, args

    def sparse(self, obj: SparseTensor) -> Any:
        layout = _Reduced(_LAYOUT, (obj.layout.replace("eager", "torch"),))
        if obj.layout == COO:
            parts: Any = (obj._indices(), obj._values(), obj.shape, obj.is_coalesced())
        else:
            lines = "crow_indices col_indices" if obj.is_sparse_csr else "ccol_indices row_indices"
            parts = (*(getattr(obj, name)() for name in lines.split()), obj.values(), obj.shape)
        return _SPARSE, (layout, parts)


class _Reduced:
    """A value that is made by a function of PyTorch's."""

    def __init__(self, make: _Name, args: Any) -> None:
        self.make, self.args = make, args

    def __reduce__(self) -> Any:
        return self.make, self.args


# --------------------------------------------------------------------------------- -> zip file
def write(value: Any, file: BinaryIO) -> None:
    """`value` into a binary file. SaveError, before anything is written, names what does not
    fit."""
    pickler = _Pickler()
    try:
        with room():
            pickler.dump(value)
    except RecursionError:
        raise SaveError("eager.save: values are nested too deeply") from None
    except Exception as error:
        path, culprit = _culprit(value, "the object", [])
        raise SaveError(
            f"eager.save: {path} is a {type(culprit).__name__}, which cannot be saved ({error}); "
            "save tensors, plain values and containers of them (for a module, its state_dict())"
        ) from error
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as out:
        for name, data in _entries(pickler):
            _put(out, f"archive/{name}", memoryview(data).cast("B"))


def _entries(pickler: _Pickler) -> Iterator[tuple[str, Any]]:
    """Entries of a file, in PyTorch's order."""
    program = b"".join(
        part if type(part) is not _Later else pickle.dumps(part.of(), 2)[2:-1]
        for part in pickler.parts
    )
    yield "data.pkl", program
    yield ".format_version", b"1"
    yield ".storage_alignment", str(_ALIGNMENT).encode()
    yield "byteorder", sys.byteorder.encode()
    for number in range(len(pickler.pieces.memory)):
        kept = pickler.pieces.used_bytes(number)
        missing = pickler.size(number) - kept.size
        yield f"data/{number}", bytes(kept) + bytes(missing) if missing else kept
    yield "version", b"3\n"
    yield ".data/serialization_id", b"%040d" % zlib.crc32(program)


def _put(out: zipfile.ZipFile, name: str, data: memoryview) -> None:
    """One entry, whose bytes begin at a multiple of 64: an empty field fills the gap."""
    info = zipfile.ZipInfo(name)  # of 1980: a value is always the same file
    info.file_size, large = data.nbytes, data.nbytes > _LARGE
    begin = out.start_dir + 30 + len(name) + 20 * large + 4
    gap = -begin % _ALIGNMENT
    info.extra = struct.pack("<2sH", b"FB", gap) + b"Z" * gap
    with out.open(info, "w", force_zip64=large) as entry:
        entry.write(data)


# ----------------------------------------------------------------------------------- refusals
def _culprit(value: Any, path: str, around: list[Any]) -> tuple[str, Any]:
    """The innermost part of a value that cannot be saved alone, and where it is."""
    around = [*around, value]
    if isinstance(value, dict):
        parts = [(f"{path}[{k!r:.80}]", v) for k, v in value.items()]
    elif isinstance(value, list | tuple):
        parts = [(f"{path}[{i}]", v) for i, v in enumerate(value)]
    else:
        fields = vars(value) if hasattr(value, "__dict__") and not callable(value) else {}
        parts = [(f"{path}.{k}", v) for k, v in dict(fields).items()]
    for where, part in parts:
        if any(part is each for each in around):
            continue
        try:
            _Pickler().dump(part)
        except Exception:  # noqa: BLE001 - whatever it is, it lies in there
            return _culprit(part, where, around)
    return path, value
