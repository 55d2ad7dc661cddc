"""Tensors: an array, its storage and its node on the tape. NumPy array, DeviceArray or Traced ->
Tensor.

Only state lives here. What a tensor can do (arithmetic, views, indexing, `backward`) is installed
from the registry of public functions, so that `eager.f(x)` and `x.f()` are one thing. What is read
at every call lies in slots, which CPython reads at once; what most tensors never have is a class
attribute, and lies in the dictionary, with what the user puts on a tensor, once it is set.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from eager.base import dtype as dt
from eager.base.compat_warnings import warn
from eager.base.dtype import DType
from eager.core.batched import Batched
from eager.core.mode import inferring, mode
from eager.core.storage import OUTSIDE, InferenceStorage, Storage, new_storage, owner_of
from eager.core.sym import SymNumber
from eager.core.traced import Traced, UnknownValue
from eager.device import CPU, Size, device
from eager.device.array import DeviceArray
from eager.sizes.aval import Aval, array_aval, contiguous_strides, same
from eager.sizes.symint import SymInt, most, of_data

T = TypeVar("T", bound="Tensor")
_new = object.__new__
WITH_AVAL = frozenset({Batched, Traced, DeviceArray})  # arrays that are no NumPy arrays
_NOT_FILLED = (
    "the .grad of a tensor that is no leaf is read: backward() does not fill it. Call "
    "retain_grad() on it before, or read the .grad of the leaf that was meant"
)
UNREAD: Any = object()  # `_grad` of a stand-in tensor whose `.grad` nobody has read yet


class ViewOf:
    """Origin of a view: its base tensor, the (view op, attributes) steps from there, the base's
    history then; `among` is the function that gave it among others (or gave what it is a view of),
    and None where it came alone."""

    __slots__ = ("among", "base", "chain", "history")

    def __init__(
        self, base: Tensor, chain: tuple[Any, ...], history: int, among: str | None = None
    ) -> None:
        self.base = base
        self.chain = chain
        self.history = history
        self.among = among

    def root(self) -> Tensor:
        """Base of the views of `base`: the tensor that it is a view of, or itself."""
        return self.base if self.base._view is None else self.base._view.base

    def holds(self, tensor: Tensor) -> bool:
        """True if `tensor`, which was made so, and its base still have one memory: neither was
        given another one by `.data`."""
        return tensor._counts is self.base._counts


class Tensor:
    """A strided array of one element type, with automatic differentiation.

    Made by `eager.tensor`, `eager.zeros` and the like. `Tensor(2, 3)` is an uninitialised (here:
    zero) float tensor of that shape, `Tensor([1, 2])` a float tensor of those values, as in
    PyTorch. `Tensor(x)` of a tensor shares its memory.
    """

    __slots__ = (
        "__dict__", "__weakref__",
        "_array", "_counts", "_hooks", "_node", "_requires_grad", "_view",
    )  # fmt: skip

    _array: Any
    _counts: Storage | None  # its storage, once someone asked for it: see `_storage`
    _requires_grad: bool
    _node: Any  # the tape node that made it (None for a leaf), and which of its outputs this is
    _index: int = 0
    _grad: Any = None
    _view: ViewOf | None
    _hooks: dict[int, Any] | None
    _accumulate_hooks: dict[int, Any] | None = None
    _retains: bool = False
    _shard: Any = None  # its place in a tensor of several ranks: `eager.distributed.shards`
    _unreduced: Any = None  # group whose ranks have other gradients, until its optimizer's step
    __array_priority__ = 1000  # NumPy's operators step back for ours

    if TYPE_CHECKING:  # installed from the registry
        _full: Any  # a static method: (number, aval) -> tensor, for the tape's zeros and ones

        def __getattr__(self, name: str) -> Any: ...
        def __add__(self, other: Any) -> Tensor: ...
        def __radd__(self, other: Any) -> Tensor: ...
        def __sub__(self, other: Any) -> Tensor: ...
        def __rsub__(self, other: Any) -> Tensor: ...
        def __mul__(self, other: Any) -> Tensor: ...
        def __rmul__(self, other: Any) -> Tensor: ...
        def __truediv__(self, other: Any) -> Tensor: ...
        def __rtruediv__(self, other: Any) -> Tensor: ...
        def __floordiv__(self, other: Any) -> Tensor: ...
        def __mod__(self, other: Any) -> Tensor: ...
        def __pow__(self, other: Any) -> Tensor: ...
        def __rpow__(self, other: Any) -> Tensor: ...
        def __matmul__(self, other: Any) -> Tensor: ...
        def __neg__(self) -> Tensor: ...
        def __abs__(self) -> Tensor: ...
        def __invert__(self) -> Tensor: ...
        def __and__(self, other: Any) -> Tensor: ...
        def __or__(self, other: Any) -> Tensor: ...
        def __xor__(self, other: Any) -> Tensor: ...
        def __eq__(self, other: object) -> Any: ...
        def __ne__(self, other: object) -> Any: ...
        def __lt__(self, other: Any) -> Tensor: ...
        def __le__(self, other: Any) -> Tensor: ...
        def __gt__(self, other: Any) -> Tensor: ...
        def __ge__(self, other: Any) -> Tensor: ...
        def __getitem__(self, index: Any) -> Tensor: ...
        def __setitem__(self, index: Any, value: Any) -> None: ...

    def __new__(cls, *args: Any, device: Any = None) -> Any:
        tensor = unmade(cls)
        if len(args) == 1 and isinstance(args[0], Tensor):
            return _shared(tensor, args[0])
        if len(args) == 1 and not isinstance(args[0], int | np.integer | SymNumber | SymInt):
            given = np.zeros(args[0]) if isinstance(args[0], Size) else args[0]
            tensor._array = np.array(given, dtype=dt.get_default_dtype().np)
        else:
            tensor._array = np.zeros(args or (0,), dt.get_default_dtype().np)
        tensor._storage = new_storage()
        return tensor

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Nothing is left to do: a subclass may take other arguments, and call this or not."""

    # ---- what it is
    @property
    def shape(self) -> Size:
        return tuple.__new__(Size, self._array.shape)

    @property
    def ndim(self) -> int:
        return cast("int", self._array.ndim)

    @property
    def dtype(self) -> DType:
        array = self._array
        return array.aval.dtype if type(array) in WITH_AVAL else dt.from_numpy(array.dtype)

    @property
    def device(self) -> device:
        array = self._array
        return device(array.aval.device) if type(array) in WITH_AVAL else CPU

    @property
    def aval(self) -> Aval:
        """Shape, dtype and device, without the data."""
        array = self._array
        return array.aval if type(array) in WITH_AVAL else array_aval(array.shape, array.dtype)

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        return self.numel() * self.itemsize

    @property
    def is_cuda(self) -> bool:
        return self.device.type == "cuda"

    @property
    def is_cpu(self) -> bool:
        return self.device.type == "cpu"

    @property
    def layout(self) -> str:
        return "eager.strided"

    @property
    def is_sparse(self) -> bool:
        return False

    is_quantized = is_nested = is_mps = is_xpu = is_mkldnn = is_xla = is_sparse  # none

    def numel(self) -> int:
        return cast("int", self._array.size)

    def stride(self, dim: int | None = None) -> Any:
        """Strides in elements: all of them, or dimension `dim`'s."""
        array, strides = self._array, self._layout
        if self._may_be_empty(strides):  # NumPy's are 0 then
            strides = contiguous_strides(tuple(n or 1 for n in array.shape))
        return strides if dim is None else strides[dim]

    @property
    def _layout(self) -> tuple[int, ...]:
        """The strides that its memory has."""
        array = self._array
        if type(array) in WITH_AVAL:
            strides: tuple[int, ...] = array.strides
            return strides
        return tuple([s // array.itemsize for s in array.strides])

    def _may_be_empty(self, strides: Any) -> bool:
        """True if there are no elements, where that changes what strides are shown."""
        shape = self._array.shape
        if type(self._array) is Traced and any(map(of_data, shape)):
            shown = contiguous_strides(tuple(most(n, 1) for n in shape))
            return not same(strides, shown) and 0 in shape
        return 0 in shape

    @property
    def _storage(self) -> Storage:
        """Made when someone first asks: most results are read once and dropped."""
        if self._counts is None:
            array = self._array
            self._counts = array.value._storage if type(array) is Batched else Storage()
        return self._counts

    @_storage.setter
    def _storage(self, storage: Storage) -> None:
        self._counts = storage

    def _memory(self) -> tuple[int, int]:
        """Address and size in bytes of the memory that this tensor and all its views share."""
        if type(self._array) is DeviceArray:
            return self._array.buffer.address, self._array.buffer.nbytes
        owner = owner_of(self._array)
        return int(owner.ctypes.data), int(owner.nbytes)

    def storage_offset(self) -> int:
        array = self._array
        if type(array) in WITH_AVAL:
            return cast("int", array.offset)
        return int(array.ctypes.data - self._memory()[0]) // int(array.itemsize)

    def data_ptr(self) -> int:
        array = self._array
        if type(array) is Traced:
            raise UnknownValue("data_ptr() of a tensor that is being captured")
        return array.address if type(array) is DeviceArray else int(array.ctypes.data)

    @property
    def _version(self) -> int:
        return self._storage.counted()

    # ---- its place on the tape
    @property
    def requires_grad(self) -> bool:
        if self._view is not None:
            refresh(self)
        return self._requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if self._node is not None:
            if value:
                return
            raise RuntimeError(
                "you can only change requires_grad flags of leaf variables. If you want to use a "
                "computed variable in a "
                "subgraph that doesn't require differentiation use var_no_grad = var.detach()."
            )
        if value:
            _require_differentiable(self)
        if value and not self._requires_grad and type(self._array) is Traced:
            self._array = self._array.storage.tracer.distinct(self._array)
        self._requires_grad = bool(value)

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        self.requires_grad = requires_grad
        return self

    @property
    def is_leaf(self) -> bool:
        return self._node is None

    @property
    def grad_fn(self) -> Any:
        if self._view is not None:
            refresh(self)
        return self._node

    @property
    def output_nr(self) -> int:
        return self._index

    @property
    def _base(self) -> Tensor | None:
        return None if self._view is None else self._view.root()

    @property
    def grad(self) -> Tensor | None:
        if self._grad is UNREAD:
            self._grad = self._array.storage.tracer.load_grad(self)
        if self._grad is None and self._node is not None and not self._retains:
            warn(_NOT_FILLED)
        return cast("Tensor | None", self._grad)

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is not None:
            if not isinstance(value, Tensor):
                raise TypeError(
                    f"assigned grad must be a Tensor or None, got {type(value).__name__}"
                )
            if value._array.shape != self._array.shape:
                raise RuntimeError(
                    f"assigned grad has data of a different size: {tuple(value.shape)} for a "
                    f"tensor of {tuple(self.shape)}"
                )
            if value.dtype is not self.dtype:
                raise RuntimeError(
                    f"assigned grad has data of a different type: {value.dtype} for a tensor of "
                    f"{self.dtype}"
                )
            if type(value._array) is not type(self._array) and value.device != self.device:
                raise RuntimeError(
                    f"assigned grad has data located on a different device: {value.device} for a "
                    f"tensor on {self.device}"
                )
        self._grad = value

    @property
    def data(self) -> Tensor:
        """A tensor of the same memory without the tape; writes through it are not counted."""
        array = self._array
        if type(array) is Batched:
            return wrap(array.of(array.value.data))
        return wrap(array, self._storage.apart())

    @data.setter
    def data(self, value: Tensor) -> None:
        if not isinstance(value, Tensor):
            raise TypeError(f"data must be a Tensor, got {type(value).__name__}")
        counted = self._counts is not None or value._storage.inference
        if counted and value._array is not self._array:
            self._counts = self._storage.moved(value._storage)
        self._array = value._array

    def detach(self) -> Tensor:
        """An alias of its memory, not on the tape. In-place writes show in both and are counted."""
        array = self._array  # nor on the tape outside of a mapped function
        array = array.of(array.value.detach()) if type(array) is Batched else array
        return wrap(array, self._storage.detached())

    def detach_(self) -> Tensor:
        if self._view is not None:
            raise RuntimeError("can't detach views in-place. Use detach() instead")
        self._node, self._index, self._requires_grad = None, 0, False
        return self

    # ---- Python protocols that need no op
    def __len__(self) -> int:
        if self._array.ndim == 0:
            raise TypeError("len() of a 0-d tensor")
        return int(self._array.shape[0])

    __hash__ = object.__hash__  # beside an `__eq__` of its own


def wrap(array: Any, storage: Storage | None = None, cls: type[T] = Tensor) -> T:  # type: ignore[assignment]
    """A tensor around an array; shares `storage` if the array is a view of another tensor's."""
    tensor = _new(cls)
    tensor._array = array
    if inferring and storage is None and mode.inference and type(array) is not Batched:
        storage = InferenceStorage()
    tensor._counts = storage
    tensor._node = tensor._view = tensor._hooks = None
    tensor._requires_grad = False
    return tensor


def wrap_all(arrays: Sequence[Any]) -> list[Tensor]:
    """`wrap` of each array, which takes less time for many."""
    if inferring:
        return [*map(wrap, arrays)]
    tensors = [*map(_new, repeat(Tensor, len(arrays)))]
    for tensor, array in zip(tensors, arrays, strict=True):
        tensor._array = array
        tensor._counts = tensor._node = tensor._view = tensor._hooks = None
        tensor._requires_grad = False
    return tensors


def _require_differentiable(tensor: Tensor) -> None:
    """RuntimeError for a tensor that cannot require a gradient."""
    if not (tensor.dtype.is_floating_point or tensor.dtype.is_complex):
        raise RuntimeError(
            "only Tensors of floating point and complex dtype can require gradients, this one is "
            f"{tensor.dtype}"
        )
    if not mode.inference and tensor._storage.inference:
        raise RuntimeError(OUTSIDE.format("Setting requires_grad=True on"))


def require_writable(tensor: Tensor) -> None:
    """RuntimeError for an inference tensor outside of inference mode."""
    if not mode.inference and tensor._storage.sealed:
        raise RuntimeError(OUTSIDE.format("Writing in place to"))


def bare(tensor: Tensor) -> Tensor:
    """A tensor of its memory, without the history that it has in its mapped function."""
    return wrap(tensor._array, tensor._storage)


def unmade(cls: type[Any]) -> Any:
    """A tensor of a class, without an array yet."""
    tensor = _new(cls)
    clear(tensor)
    return tensor


def _shared(tensor: Any, other: Tensor) -> Any:
    """`tensor` over the memory of another, without its history."""
    if type(other._array) is Traced:
        raise UnknownValue("Tensor(x) of a tensor whose values are not known yet")
    if other.dtype is not dt.get_default_dtype():
        raise TypeError(f"expected {dt.get_default_dtype()} (got {other.dtype}): use x.float()")
    tensor._array, tensor._storage = other._array, other._storage
    return tensor


def clear(tensor: Tensor) -> None:
    """Make the slots beside the array those of a new tensor."""
    tensor._counts = tensor._node = tensor._view = tensor._hooks = None
    tensor._requires_grad = False


def refresh(view: Tensor) -> None:
    """Give a view its derivative anew when its base was overwritten (on the tape) since the view
    was made."""
    where = view._view
    if where is None or where.history == view._storage.history:
        return
    if type(view._array) is Traced:
        view._array.storage.tracer.writing(view)
    again = where.base
    for op, attrs in where.chain:
        again = replay_view(op, again, attrs)
    where.history = view._storage.history
    view._node, view._index, view._requires_grad = again._node, again._index, again._requires_grad
    if view._retains:
        retain(view)


def retain(x: Tensor) -> None:
    """Let a sweep keep the gradient of a tensor that is no leaf."""
    if x._node is not None:
        x._retains = True
        x._node.retained = {**(x._node.retained or {}), x._index: x}


def _no_replay(op: Any, base: Tensor, attrs: Any) -> Tensor:
    raise NotImplementedError("eager.core.dispatch sets this")


replay_view = (
    _no_replay  # applies a view op on the tape; the dispatcher, which is above us, puts itself here
)
