"""PyTorch's format: a zip file of `torch.save` -> nested containers of tensors and plain values.

`data.pkl` is a pickle, read by a machine that runs nothing (`pickled.py`); here is the table of
what it may name. Each storage is an entry of its own. What a user has allowed with
`add_safe_globals` is called, as in PyTorch; that is the only code that runs.
"""

from __future__ import annotations

import _compat_pickle
import io
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from eager.base import dtype as dt
from eager.base.compat_warnings import STRIDED
from eager.base.dtype import DType
from eager.core.storage import TypedStorage, UntypedStorage
from eager.core.tensor import Tensor
from eager.device import Size, device
from eager.nn.parameter import Buffer, Parameter
from eager.serialization import plain
from eager.serialization.archive import Archive
from eager.serialization.memory import Loaded, relocation, strided
from eager.serialization.pickled import ADVICE, Callee, Machine
from eager.serialization.plain import listed
from eager.serialization.refusal import LoadError, give_attributes, size_of
from eager.serialization.torch_write import STORAGES, public_name
from eager.serialization.trusted import Unpickler
from eager.sparse.make import sparse_coo_tensor, sparse_csc_tensor, sparse_csr_tensor
from eager.sparse.tensor import COO, CSC, CSR

_NEVER = ("sys", "os", "posix", "nt", "subprocess", "builtins")  # whoever asks for them
_PLAIN = (  # of builtins, those that run nothing
    bool, bytearray, bytes, complex, dict, float, frozenset, int, list, range, set, slice, str,
    tuple,
)  # fmt: skip
_allowed: dict[str, Callee] = {}


# ------------------------------------------------------------------------ what the user allows
def _named(entry: Any) -> tuple[Any, set[str]]:
    """Value that an entry allows, and the names by which files know it."""
    if isinstance(entry, tuple):
        value, name = entry
        return value, {name}
    return entry, {f"{entry.__module__}.{entry.__qualname__}", ".".join(public_name(entry))}


def add_safe_globals(safe_globals: Iterable[Any]) -> None:
    """Classes and functions that files may name, and which are then called: only what you trust.

    Each is the object itself, or a pair of it and the full name by which files know it."""
    for value, names in map(_named, safe_globals):
        for name in names:
            if name.partition(".")[0] in _NEVER and value not in _PLAIN:
                raise ValueError(f"add_safe_globals: {name} would let a file run anything")
            _allowed[name] = Callee(name, value, users=True, value=value)


def get_safe_globals() -> list[Any]:
    """Values that `add_safe_globals` has allowed."""
    return list({id(callee.make): callee.make for callee in _allowed.values()}.values())


def clear_safe_globals() -> None:
    """Nothing is allowed any more but the library's own."""
    _allowed.clear()


@contextmanager
def safe_globals(allowed: Iterable[Any]) -> Iterator[None]:
    """`add_safe_globals` for the length of a `with` block."""
    before = dict(_allowed)
    add_safe_globals(allowed)
    try:
        yield
    finally:
        _allowed.clear()
        _allowed.update(before)


# ------------------------------------------------------------------------ tensors and storages
def _flipped(out: Tensor, metadata: Any) -> Tensor:
    """PyTorch may leave a conjugate or a minus to be done; here it is done."""
    if metadata.get("conj"):
        out = out.conj()
    return -out if metadata.get("neg") else out


def _tensor(
    storage: Any, offset: Any, size: Any, stride: Any,
    requires_grad: Any = False, hooks: Any = (), dtype: Any = None, metadata: Any = None,
) -> Tensor:  # fmt: skip
    if isinstance(storage, TypedStorage):
        storage, dtype = storage.untyped(), storage.dtype
    if not isinstance(storage, UntypedStorage) or not isinstance(dtype, DType):
        raise LoadError("a tensor is made of something that is not a storage")
    out = strided(storage, dtype, offset, size, stride)
    if metadata:
        out = _flipped(out, metadata)
    _no_hooks(hooks)
    return out.requires_grad_() if requires_grad else out


def _tensor_v2(
    storage: Any, offset: Any, size: Any, stride: Any,
    requires_grad: Any, hooks: Any, metadata: Any = None,
) -> Tensor:  # fmt: skip
    return _tensor(storage, offset, size, stride, requires_grad, hooks, None, metadata)


def _no_hooks(hooks: Any) -> None:
    if hooks:
        raise LoadError("a tensor has backward hooks, which are functions", advice=ADVICE)


def _parameter(data: Any, requires_grad: Any = True, hooks: Any = (), state: Any = None) -> Tensor:
    if not isinstance(data, Tensor):
        raise LoadError(f"a parameter is made of a {type(data).__name__}")
    _no_hooks(hooks)
    out = Parameter(data, bool(requires_grad))
    if state:
        give_attributes(out, state)
    return out


def _with_attributes(make: Any, cls: Any, args: Any, state: Any) -> Tensor:
    """A tensor that has attributes of the user's."""
    if type(make) is not Callee or make.users or not isinstance(cls, type):
        raise LoadError("a tensor is made by something else", advice=ADVICE)
    if cls is not Tensor and not issubclass(cls, Tensor):
        raise LoadError(f"a tensor of a class {cls.__name__!r:.80}", advice=ADVICE)
    out = make(*args)
    if cls is not Tensor:
        out = out.as_subclass(cls)
    state = {**(state[0] or {}), **(state[1] or {})} if isinstance(state, tuple) else dict(state)
    if state.pop("_is_buffer", False):
        out = Buffer(out, persistent=bool(state.pop("persistent", True)))
    give_attributes(out, state)
    return out


# ------------------------------------------------------------------------------- plain values
_LAYOUTS = {layout.replace("eager", "torch"): layout for layout in (STRIDED, COO, CSR, CSC)}


def _layout(name: str) -> str:
    if name not in _LAYOUTS:
        raise LoadError(f"the layout {name!r:.80}", advice="save dense tensors")
    return _LAYOUTS[name]


def _size(sizes: Any = ()) -> Size:
    return Size(size_of(n, "a size") for n in listed(sizes))


def _sparse(layout: Any, data: Any) -> Any:
    """A sparse tensor, whose indices are checked when it is made."""
    if layout not in (COO, CSR, CSC) or not all(isinstance(x, Tensor) for x in data[:2]):
        raise LoadError("a sparse tensor is made of something else")
    if layout == COO:
        places, entries, size, *coalesced = data
        # Whether they are in order is looked at, not believed.
        out = sparse_coo_tensor(places, entries, _size(tuple(size)))
        return out.coalesce() if coalesced and coalesced[0] else out
    make = sparse_csr_tensor if layout == CSR else sparse_csc_tensor
    begins, others, entries, size = data
    return make(begins, others, entries, _size(tuple(size)))


def _unsupported(name: str) -> Any:
    raise LoadError(
        f"{name} has no counterpart here",
        advice="convert it in PyTorch to a dense tensor of another dtype, and save again",
    )


class StorageType:
    """The class of a storage, which says the dtype of its elements (None: bytes)."""

    def __init__(self, dtype: DType | None) -> None:
        self.dtype = dtype


_CALLED: dict[str, Callable[..., Any]] = {
    "torch.serialization._get_layout": _layout,
    "torch._utils._rebuild_tensor": _tensor,
    "torch._utils._rebuild_tensor_v2": _tensor_v2,
    "torch._utils._rebuild_tensor_v3": _tensor,
    "torch._utils._rebuild_parameter": _parameter,
    "torch._utils._rebuild_parameter_with_state": _parameter,
    "torch._utils._rebuild_sparse_tensor": _sparse,
    "torch._tensor._rebuild_from_type_v2": _with_attributes,
}
_CLASSES: dict[str, tuple[Any, Callable[..., Any]]] = {
    "torch.Size": (Size, _size),
    "torch.device": (device, device),
    "torch.nn.parameter.Parameter": (Parameter, _parameter),
    "torch.Tensor": (Tensor, lambda *_: _unsupported("torch.Tensor")),
}
_TABLE: dict[str, Any] = {
    **{name: Callee(name, make) for name, make in _CALLED.items()},
    "torch.Size": Callee("torch.Size", _size, value=Size),
    "torch.device": Callee("torch.device", device, value=device),
    "torch.nn.parameter.Parameter": Callee(
        "torch.nn.parameter.Parameter", _parameter, value=Parameter
    ),
    "torch.Tensor": Callee("torch.Tensor", lambda *_: _unsupported("torch.Tensor"), value=Tensor),
    "torch.storage.UntypedStorage": StorageType(None),
    **{f"torch.{kind}Storage": StorageType(dt.by_name(name)) for name, kind in STORAGES.items()},
    **{f"torch.{dtype.name}": dtype for dtype in dt.ALL},
}
_KNOWN_ABSENT = (
    "torch.uint", "torch.float8", "torch.float4", "torch.int", "torch.bits", "torch.q",
    "torch.complex32", "torch._utils._rebuild_", "torch.per_",
)  # fmt: skip


def find(name: str) -> Any:
    """Value of a name in a pickle. LoadError for a name that is not in the tables."""
    module, _, attribute = name.rpartition(".")
    if (module, attribute) in _compat_pickle.NAME_MAPPING:  # PyTorch writes names of Python 2
        name = ".".join(_compat_pickle.NAME_MAPPING[module, attribute])
    elif module in _compat_pickle.IMPORT_MAPPING:
        name = f"{_compat_pickle.IMPORT_MAPPING[module]}.{attribute}"
    if name in _TABLE:
        return _TABLE[name]
    if name in _allowed:
        return _allowed[name]
    found = None if name.startswith("torch.") else plain.find(name)
    if found is not None:
        return found
    if name.startswith(_KNOWN_ABSENT):
        return _unsupported(name)
    raise LoadError(f"it names {name!r:.120}, which is not on the list of what is read", "", ADVICE)


# ------------------------------------------------------------------------------------- the file
class _Storages:
    """The storages of a file: each entry is read (or `mapped`) once, and put where the user wants
    it."""

    def __init__(
        self, archive: Archive, root: str, place: Callable[[Any, str], Any], mapped: bool
    ) -> None:
        self.archive = archive
        self.root = root
        self.place = place
        self.entry = archive.mapped if mapped else archive.array
        self.read: dict[str, UntypedStorage] = {}
        order = archive.read(f"{root}byteorder") if f"{root}byteorder" in archive.entries else b""
        if order not in (b"", b"little", b"big"):
            raise LoadError(f"the byte order {order!r:.40}", f"{root}byteorder")
        self.swapped = bool(order) and order.decode() != sys.byteorder

    def __call__(self, what: Any) -> Any:
        kind, storage_type, key, location, count = what
        if kind != "storage" or not isinstance(storage_type, StorageType):
            raise LoadError(f"{what!r:.120} is not a storage")
        dtype = storage_type.dtype
        if key not in self.read:
            self.read[key] = self.place(self.storage(key, dtype), location)
        storage = self.read[key]
        expected = size_of(count, "a storage's size") * (dtype.itemsize if dtype else 1)
        if storage.nbytes() != expected:
            raise LoadError(
                f"it has {storage.nbytes()} bytes, not {expected}", f"{self.root}data/{key}"
            )
        return storage if dtype is None else TypedStorage(wrap_storage=storage, dtype=dtype)

    def storage(self, key: str, dtype: DType | None) -> UntypedStorage:
        memory = self.entry(f"{self.root}data/{key}")
        if self.swapped:
            if dtype is None:
                return _unsupported("a storage of bytes from a machine of the other byte order")
            part = dtype.itemsize // 2 if dtype.is_complex else dtype.itemsize
            memory = memory.reshape(-1, part)[:, ::-1].reshape(-1).copy()
        return Loaded.over(memory)


def read(
    archive: Archive, root: str, map_location: Any, *, weights_only: bool, mapped: bool
) -> Any:
    """Value that `torch.save` wrote into a zip file whose entries are in the folder `root`."""
    storages = _Storages(archive, root, relocation(map_location), mapped)
    name = f"{root}data.pkl"
    data = archive.read(name)
    return unpickled(io.BytesIO(data), storages, name, weights_only=weights_only)


def unpickled(
    file: Any,
    storages: Callable[[Any], Any],
    where: str,
    *,
    weights_only: bool,
    find: Callable[[str], Any] = find,
) -> Any:
    """The value of a pickle, which runs nothing, or what it likes."""
    if weights_only:
        return Machine(find, storages, plain.give_state, where).run(file)
    return Unpickler(find, storages, file).load()
