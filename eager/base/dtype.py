"""Bottom of the stack: the element types, and PyTorch's promotion lattice. names -> DType, (DType,
DType) -> DType.

A `DType` wraps the NumPy dtype that stores it. Promotion follows PyTorch: the category (bool < int
< float < complex) decides first; within one category a tensor with dimensions outranks a 0-dim
tensor, which outranks a Python number.
"""

from __future__ import annotations

import functools
import math
from typing import Any, Final, NoReturn

import ml_dtypes
import numpy as np

from eager.base.dataclass import dataclass

BOOL, INT, FLOAT, COMPLEX = range(4)


class DType:
    """An element type. Instances are singletons: compare with `is` or `==`. No dataclass: programs
    have dtypes in their own, which `dataclasses.asdict` and their like look into."""

    __slots__ = ("category", "name", "np")

    name: str
    np: np.dtype
    category: int

    def __init__(self, name: str, np: Any, category: int) -> None:
        for slot, value in (("name", name), ("np", np), ("category", category)):
            object.__setattr__(self, slot, value)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"attribute {name!r} of a dtype is not writable")

    @property
    def itemsize(self) -> int:
        """Bytes per element."""
        return self.np.itemsize

    @property
    def is_floating_point(self) -> bool:
        return self.category == FLOAT

    @property
    def is_complex(self) -> bool:
        return self.category == COMPLEX

    @property
    def is_signed(self) -> bool:
        return self.name not in ("bool", "uint8")

    @property
    def compute(self) -> DType:
        """The type arithmetic runs in: float32 for the 16-bit floats (results are rounded once),
        else itself."""
        return float32 if self in (float16, bfloat16) else self

    def to_real(self) -> DType:
        """The type of a complex number's parts; another type itself."""
        return real_of(self)

    def to_complex(self) -> DType:
        """The complex type whose parts are of this type (of float32 for the 16-bit floats). Raises
        RuntimeError for integers and bool."""
        if self.category not in (FLOAT, COMPLEX):
            raise RuntimeError(f"no complex type has parts of {self!r}")
        return complex_of(self)

    def __repr__(self) -> str:
        return f"eager.{self.name}"

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return by_name, (self.name,)


@dataclass(frozen=True, eq=False, slots=True)
class NamedType:
    """An element type that libraries name, in tables of what files have, and that no tensor has
    here: it is no `DType`, and nothing takes it."""

    name: str
    in_files: np.dtype
    category: int

    @property
    def itemsize(self) -> int:
        """Bytes per element."""
        return self.in_files.itemsize

    @property
    def is_floating_point(self) -> bool:
        return self.category == FLOAT

    @property
    def is_signed(self) -> bool:
        return self.category in (FLOAT, COMPLEX)

    @property
    def is_complex(self) -> bool:
        return self.category == COMPLEX

    @property
    def np(self) -> NoReturn:
        """Raises TypeError: functions ask for it to make a tensor."""
        raise TypeError(f"there are no tensors of {self!r}, only the name of the type")

    compute = np

    def __repr__(self) -> str:
        return f"eager.{self.name}"

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return named_type, (self.name,)


def _dtype(name: str, np_type: object, category: int) -> DType:
    return DType(name, np.dtype(np_type), category)  # type: ignore[call-overload]


bool_: Final = _dtype("bool", np.bool_, BOOL)
uint8: Final = _dtype("uint8", np.uint8, INT)
int8: Final = _dtype("int8", np.int8, INT)
int16: Final = _dtype("int16", np.int16, INT)
int32: Final = _dtype("int32", np.int32, INT)
int64: Final = _dtype("int64", np.int64, INT)
float16: Final = _dtype("float16", np.float16, FLOAT)
bfloat16: Final = _dtype("bfloat16", ml_dtypes.bfloat16, FLOAT)
float32: Final = _dtype("float32", np.float32, FLOAT)
float64: Final = _dtype("float64", np.float64, FLOAT)
complex64: Final = _dtype("complex64", np.complex64, COMPLEX)
complex128: Final = _dtype("complex128", np.complex128, COMPLEX)

ALL: Final = (
    bool_, uint8, int8, int16, int32, int64,
    float16, bfloat16, float32, float64, complex64, complex128,
)  # fmt: skip
_BY_NAME: Final = {d.name: d for d in ALL}
_BY_NP: Final = {d.np: d for d in ALL}


WITHOUT_TENSORS: Final = {
    name: NamedType(name, np.dtype(stored), category)
    for name, stored, category in (
        ("uint16", np.uint16, INT),
        ("uint32", np.uint32, INT),
        ("uint64", np.uint64, INT),
        ("float4_e2m1fn_x2", ml_dtypes.float4_e2m1fn, FLOAT),
        ("float8_e4m3fn", ml_dtypes.float8_e4m3fn, FLOAT),
        ("float8_e4m3fnuz", ml_dtypes.float8_e4m3fnuz, FLOAT),
        ("float8_e5m2", ml_dtypes.float8_e5m2, FLOAT),
        ("float8_e5m2fnuz", ml_dtypes.float8_e5m2fnuz, FLOAT),
        ("float8_e8m0fnu", ml_dtypes.float8_e8m0fnu, FLOAT),
        ("complex32", [("real", np.float16), ("imag", np.float16)], COMPLEX),
    )
}


def named_type(name: str) -> NamedType:
    """The type without tensors that is called `name`; KeyError otherwise."""
    return WITHOUT_TENSORS[name]


def by_name(name: str) -> DType:
    """The dtype called `name` ("float32"); KeyError otherwise."""
    return _BY_NAME[name]


def from_numpy(dtype: np.dtype) -> DType:
    """The DType stored as `dtype`. Raises TypeError for a NumPy type with no counterpart (strings,
    objects, ...)."""
    found = _BY_NP.get(np.dtype(dtype))
    if found is None:
        raise TypeError(
            f"a NumPy array of dtype {dtype} has no tensor counterpart; supported: "
            + ", ".join(str(d.np) for d in ALL)
        )
    return found


def _widen(a: DType, b: DType) -> DType:
    """The smaller of the types that hold both, for two different types of one category."""
    if a.category == INT:
        if uint8 in (a, b):  # an unsigned and a signed byte only fit in int16
            other = b if a is uint8 else a
            return int16 if other is int8 else other
        return a if a.itemsize > b.itemsize else b
    if {a, b} == {float16, bfloat16}:
        return float32
    return a if a.itemsize > b.itemsize else b


def promote_types(a: DType, b: DType) -> DType:
    """PyTorch's `promote_types`: the type both convert to when neither is a 0-dim tensor or a
    Python number."""
    if a is b:
        return a
    for x in (a, b):
        if not isinstance(x, DType):
            raise TypeError(f"promote_types(): must be torch.dtype, not {type(x).__name__}")
    if a.category != b.category:
        low, high = (a, b) if a.category < b.category else (b, a)
        if high is complex64 and low is float64:
            return complex128
        return high
    return _widen(a, b)


_default: list[DType] = [float32]
_sets = [0]


def get_default_dtype() -> DType:
    """The type of Python floats turned into tensors, and of `zeros`, `rand`, ... without a
    dtype."""
    return _default[0]


def set_default_dtype(dtype: DType) -> None:
    """Set the default floating point type. Raises TypeError if `dtype` is not a floating point
    type."""
    if not (isinstance(dtype, DType) and dtype.is_floating_point):
        raise TypeError(f"the default dtype must be a floating point type, got {dtype}")
    _default[0] = dtype
    _sets[0] += 1


def times_set() -> int:
    """Count of the settings of the default dtype: who works beside the program sees that it was."""
    return _sets[0]


def default_complex() -> DType:
    return complex128 if get_default_dtype() is float64 else complex64


def _in_memory(dtype: DType | NamedType) -> np.dtype:
    return dtype.in_files if isinstance(dtype, NamedType) else dtype.np


def real_of(dtype: DType) -> DType:
    """The type of a complex number's parts; a real type itself."""
    return {complex64: float32, complex128: float64}.get(dtype, dtype)


def complex_of(dtype: DType) -> DType:
    """The complex type whose parts are of a real type."""
    return {float64: complex128, complex64: complex64, complex128: complex128}.get(dtype, complex64)


class finfo:
    """The limits of a floating point type: bits, eps, max, min, tiny, resolution."""

    def __init__(self, dtype: DType | NamedType | None = None) -> None:
        dtype = get_default_dtype() if dtype is None else dtype
        if dtype.category < FLOAT:
            raise TypeError(f"finfo is for floating point types, got {dtype}; use iinfo")
        info: Any = ml_dtypes.finfo(_in_memory(dtype))  # type: ignore[no-untyped-call]
        self.dtype = dtype.name if isinstance(dtype, NamedType) else real_of(dtype).name
        self.bits = int(info.bits)
        self.eps, self.max, self.min = float(info.eps), float(info.max), float(info.min)
        self.tiny = self.smallest_normal = float(info.tiny)
        self.resolution = float(f"1e-{info.precision}")

    def __repr__(self) -> str:
        names = "resolution", "min", "max", "eps", "smallest_normal", "tiny"
        limits = ", ".join(f"{name}={getattr(self, name):.6g}" for name in names)
        return f"finfo({limits}, dtype={self.dtype})"


class iinfo:
    """The limits of an integer type: bits, min, max."""

    def __init__(self, dtype: DType | NamedType) -> None:
        if dtype.category != INT:
            raise TypeError(f"iinfo is for integer types, got {dtype}; use finfo")
        info = np.iinfo(_in_memory(dtype))
        self.dtype = dtype.name
        self.bits, self.min, self.max = int(info.bits), int(info.min), int(info.max)

    def __repr__(self) -> str:
        return f"iinfo(min={self.min:.6g}, max={self.max:.6g}, dtype={self.dtype})"


_OF_PYTHON: Final = {bool: bool_, int: int64, float: float64, complex: complex128}


def named(kind: Any) -> Any:
    """The dtype that `kind` names: `float` is float64, as in PyTorch. TypeError if it names
    none."""
    if kind is None or isinstance(kind, DType):
        return kind
    if isinstance(kind, NamedType):
        return kind.np
    if type(kind) is not type or kind not in _OF_PYTHON:
        raise TypeError(f"a dtype is expected, such as eager.float32, got {kind!r}")
    return _OF_PYTHON[kind]


def stored(value: Any, dtype: DType) -> Any:
    """A Python number as it is stored in an element of `dtype`: floats are cut to ints, negative
    ints wrap in unsigned types. Anything else is returned as it is.

    RuntimeError for what does not fit: an int out of range, NaN or infinity as an int, a finite
    float above the largest, an imaginary part where there is none."""
    if type(value) is complex and dtype.category in (INT, FLOAT):
        if value.imag:
            raise too_large(value, dtype)
        value = value.real
    if dtype.category not in (INT, FLOAT):
        return value
    if type(value) not in (int, float):
        as_stored = getattr(type(value), "__stored__", None)  # of a run-time number
        return value if as_stored is None else as_stored(value, dtype)
    if dtype.category == FLOAT:
        large = abs(value) > 65504 and dtype is not float64  # the least limit, float16's: most fit
        if large and abs(value) > limits(dtype)[1] and math.isfinite(value):
            raise too_large(value, dtype)
        return value
    if not math.isfinite(value):
        raise too_large(value, dtype)
    low, high = limits(dtype)
    if low <= value <= high:
        return int(value)
    if type(value) is int and not low and -high <= value < 0:
        return value + high + 1
    raise too_large(value, dtype)


def converted(array: Any, to: np.dtype) -> Any:
    """A copy in another dtype. What becomes float16 is rounded to float32 first, as compiled code
    and PyTorch do it."""
    wide = to == float16.np and array.dtype != np.float32
    return (array.astype(np.float32) if wide else array).astype(to, order="C")


def too_large(value: Any, dtype: DType) -> RuntimeError:
    return RuntimeError(f"value {value} cannot be converted to type {dtype.name} without overflow")


@functools.cache
def limits(dtype: DType) -> tuple[Any, Any]:
    """The least and the largest finite value."""
    return exact_range(dtype) if dtype.category == INT else (finfo(dtype).min, finfo(dtype).max)


def exact_range(dtype: DType) -> tuple[int, int]:
    """The integers, from least to largest, between which a dtype holds all."""
    if dtype.is_floating_point:
        largest = round(2 / finfo(dtype).eps)
        return -largest, largest
    if dtype is bool_:
        return 0, 1
    info = iinfo(dtype)
    return info.min, info.max
