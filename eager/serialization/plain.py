"""Under PyTorch's format: values of Python's library and of NumPy that a file may hold.
a name -> what makes the value of its parts, which it checks: nothing in a file runs, and no value
is larger than the file.
"""

from __future__ import annotations

import enum
import functools
import re
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from eager.serialization.pickled import ADVICE, Callee
from eager.serialization.refusal import LoadError, give_attributes, hashable, size_of

_FACTORIES: Final = (
    None, bool, int, float, complex, str, bytes, list, tuple, dict, set, frozenset, OrderedDict,
    Counter, deque,
)  # fmt: skip


def listed(items: Any) -> Any:
    """A list or a tuple, of which a file has every element."""
    if type(items) not in (list, tuple):
        raise LoadError(f"a {type(items).__name__} where a list stands")
    return items


def _texts(*parts: Any) -> Any:
    if not all(type(part) is str for part in parts):
        raise LoadError("something else where text stands")
    return parts


def _of_texts(cls: Any) -> Callable[..., Any]:
    return lambda *parts: cls(*_texts(*parts))


# ------------------------------------------------------------------------ builtins, collections
def bytes_of(text: str = "", encoding: str = "latin1") -> bytes:
    if encoding not in ("latin1", "latin-1"):  # others are looked up, and import modules
        raise LoadError(f"bytes are written as {encoding!r:.80}")
    return text.encode("latin-1")


def _bytearray(value: Any = b"", encoding: str = "latin-1") -> bytearray:
    """Not of a number: that would be as many zeros."""
    if isinstance(value, str):
        value = bytes_of(value, encoding)
    if not isinstance(value, bytes):
        raise LoadError(f"a bytearray is made of a {type(value).__name__}")
    return bytearray(value)


def _ordered(items: Any = ()) -> OrderedDict[Any, Any]:
    return OrderedDict((hashable(key), value) for key, value in listed(items))


def _counter(items: Any = None) -> Counter[Any]:
    out: Counter[Any] = Counter()
    for key, count in (items or {}).items():
        out[hashable(key)] = count
    return out


def _default(factory: Any = None) -> defaultdict[Any, Any]:
    if not any(factory is each for each in _FACTORIES):
        raise LoadError(f"a defaultdict makes its values by {factory!r:.80}", advice=ADVICE)
    return defaultdict(factory)


def _deque(items: Any = (), maxlen: Any = None) -> deque[Any]:
    return deque(listed(items), maxlen)


def _complex(real: float, imaginary: float) -> complex:
    return complex(float(real), float(imaginary))


def _ints(make: Callable[..., Any]) -> Callable[..., Any]:
    """A range or a slice: three ints or Nones."""

    def made(*parts: Any) -> Any:
        if not all(part is None or type(part) is int for part in parts):
            raise LoadError(f"a {make.__name__} of something else than ints")
        return make(*parts)

    return made


_BUILTINS: Final[dict[str, tuple[Any, Callable[..., Any]]]] = {
    "collections.OrderedDict": (OrderedDict, _ordered),
    "collections.Counter": (Counter, _counter),
    "collections.defaultdict": (defaultdict, _default),
    "collections.deque": (deque, _deque),
    "builtins.set": (set, lambda items=(): set(map(hashable, listed(items)))),
    "builtins.frozenset": (frozenset, lambda items=(): frozenset(map(hashable, listed(items)))),
    "builtins.bytearray": (bytearray, _bytearray),
    "builtins.bytes": (bytes, bytes_of),
    "builtins.complex": (complex, _complex),
    "builtins.range": (range, _ints(range)),
    "builtins.slice": (slice, _ints(slice)),
    "_codecs.encode": (None, bytes_of),
}


# ------------------------------------------------------------------------------ Python's library
@functools.cache
def _library() -> dict[str, tuple[Any, Callable[..., Any]]]:
    """Imported when a file names something of it, or of nothing that is known."""
    import argparse
    import datetime as dt
    import decimal
    import fractions
    import pathlib
    import types
    import uuid

    def dated(cls: Any) -> Callable[..., Any]:
        def made(raw: Any, zone: Any = None) -> Any:
            if type(raw) is not bytes or not isinstance(zone, dt.timezone | None):
                raise LoadError(f"a {cls.__name__} is made of a {type(raw).__name__}")
            return cls(raw, *([] if zone is None else [zone])).replace()  # which looks at the parts

        return made

    def zone(offset: Any, *name: Any) -> Any:
        return dt.timezone(offset, *_texts(*name))

    def fraction(*parts: Any) -> Any:
        if not all(type(part) is int for part in parts):  # a text may be 1e999999999
            parts = tuple(int(part) for part in _texts(*parts)[0].split("/"))
        return fractions.Fraction(*parts)

    STATES[argparse.Namespace] = STATES[types.SimpleNamespace] = give_attributes
    STATES[uuid.UUID] = _uuid_state
    pure = {"Posix": pathlib.PurePosixPath, "Windows": pathlib.PureWindowsPath}
    paths: dict[str, tuple[Any, Callable[..., Any]]] = {}
    for kind, cls in pure.items():
        here: Any = type(pathlib.Path()) if isinstance(pathlib.Path(), cls) else cls
        for module in ("pathlib", "pathlib._local"):  # the latter of Python 3.13
            paths[f"{module}.{kind}Path"] = (here, _of_texts(here))
            paths[f"{module}.Pure{kind}Path"] = (cls, _of_texts(cls))
    others: dict[str, tuple[Any, Callable[..., Any]]] = {
        "argparse.Namespace": (argparse.Namespace, argparse.Namespace),
        "types.SimpleNamespace": (types.SimpleNamespace, types.SimpleNamespace),
        "datetime.date": (dt.date, dated(dt.date)),
        "datetime.time": (dt.time, dated(dt.time)),
        "datetime.datetime": (dt.datetime, dated(dt.datetime)),
        "datetime.timedelta": (dt.timedelta, dt.timedelta),
        "datetime.timezone": (dt.timezone, zone),
        "decimal.Decimal": (decimal.Decimal, _of_texts(decimal.Decimal)),
        "fractions.Fraction": (fractions.Fraction, fraction),
        "uuid.UUID": (uuid.UUID, lambda: object.__new__(uuid.UUID)),
    }
    return paths | others


def _uuid_state(target: Any, state: Any) -> None:
    if not isinstance(state, dict) or state.keys() - {"int", "is_safe"}:
        raise LoadError("a UUID with more than a number")
    if size_of(state["int"], "a UUID") >> 128:
        raise LoadError("a UUID of more than 128 bits")
    target.__setstate__(state)


# -------------------------------------------------------------------------------------- NumPy
_DTYPE: Final = re.compile(r"[?bBhHiIlLqQefdgFDG]|[biufcSU]\d{1,9}|[mM]8(\[\w{1,20}\])?")


def _dtype(code: Any, align: Any = False, copy: Any = True) -> Any:
    """One of its own, whose byte order may be set then; no objects and no records."""
    if type(code) is not str or not _DTYPE.fullmatch(code):
        raise LoadError(f"a NumPy dtype {code!r:.80}", advice=ADVICE)
    return np.dtype(code, copy=True)


def _dtype_state(target: Any, state: Any) -> None:
    """The byte order, and the unit of times; all else is as the dtype has it."""
    own = list(target.__reduce__()[2])
    if type(state) is not tuple or not 8 <= len(state) <= 9 or state[1] not in ("<", ">", "|", "="):
        raise LoadError("the state of a NumPy dtype is none")
    if state[2:5] != (None, None, None) or state[5] not in (-1, target.itemsize):
        raise LoadError("a NumPy dtype with fields", advice=ADVICE)
    own[1] = state[1] if own[1] != "|" else "|"
    if len(own) == 9 and len(state) == 9:  # ({}, (unit, count, 1, 1))
        unit, *counts = state[8][1]
        if type(unit) is not bytes or not all(0 < size_of(n, "a unit") < 2**31 for n in counts):
            raise LoadError("the unit of a NumPy time")
        own[8] = ({}, (unit, *counts))
    target.__setstate__(tuple(own))


def _scalar(dtype: Any, raw: Any = b"") -> Any:
    return _array_of(raw, dtype, (), fortran=False)[()]


def _array_of(raw: Any, dtype: Any, shape: Any, *, fortran: Any) -> Any:
    """A new array of bytes that are all there."""
    if not isinstance(dtype, np.dtype) or dtype.hasobject or (shape and not dtype.itemsize):
        raise LoadError(f"a NumPy array of {dtype!r:.80}", advice=ADVICE)
    sizes = [size_of(n, "a size") for n in listed(shape)]
    count = dtype.itemsize
    for n in sizes:
        count *= n
    if not isinstance(raw, bytes | bytearray) or len(raw) != count:
        raise LoadError(f"a NumPy array of {count} bytes is made of something else")
    order: Any = "F" if fortran else "C"
    kind = np.dtype(dtype.str)  # the one object of its kind, where a file makes others
    return np.ndarray(sizes, kind, bytearray(raw), order=order)


def _begun(cls: Any, shape: Any = (0,), code: Any = b"b") -> Any:
    """An array that gets its state later."""
    if cls is not np.ndarray:
        raise LoadError("an array of a class of its own", advice=ADVICE)
    return np.ndarray((0,), np.int8)


def _array_state(target: Any, state: Any) -> None:
    if target.shape != (0,) or type(state) is not tuple or len(state) != 5:
        raise LoadError("the state of a NumPy array is none, or is there twice")
    _, shape, dtype, fortran, raw = state
    whole = _array_of(raw, dtype, shape, fortran=fortran)
    target.__setstate__((1, whole.shape, whole.dtype, bool(fortran), bytes(raw)))


def _from_buffer(raw: Any, dtype: Any, shape: Any, order: Any) -> Any:
    return _array_of(raw, dtype, shape, fortran=order == "F")


_NUMPY: Final[dict[str, tuple[Any, Callable[..., Any]]]] = {
    "dtype": (np.dtype, _dtype),
    "_core.multiarray.scalar": (None, _scalar),
    "_core.multiarray._reconstruct": (None, _begun),
    "_core.numeric._frombuffer": (None, _from_buffer),
}
_VALUES: Final[dict[str, Any]] = {
    "builtins.Ellipsis": ...,
    "builtins.NotImplemented": NotImplemented,
    "numpy.ndarray": np.ndarray,
    **{f"builtins.{c.__name__}": c for c in (bool, int, float, str, list, tuple, dict)},
    **{f"numpy.{c.__name__}": c for c in np.sctypeDict.values()},
    "numpy.bool_": np.bool_,
}  # classes among them are values: none is called


# ------------------------------------------------------------------------------------ names
def find(name: str) -> Any:
    """Value of a name, None if it is not known."""
    if name in _VALUES:
        return _VALUES[name]
    if name.startswith("numpy."):
        known: Any = _NUMPY
        short = name.removeprefix("numpy.")
        key = f"_{short}" if short.startswith("core.") else short  # of NumPy 1
    else:
        known, key = (_BUILTINS if name in _BUILTINS else _library()), name
    if key in known:
        value, make = known[key]
        return Callee(name, make, value=value)
    return _enumeration(name)


def _enumeration(name: str) -> Any:
    """An Enum of a module that is imported: members are looked up by their values: nothing runs."""
    module, _, attribute = name.rpartition(".")
    found = vars(sys.modules[module]).get(attribute) if module in sys.modules else None
    if not isinstance(found, type) or not issubclass(type(found), enum.EnumMeta):
        return None
    members = type.__getattribute__(found, "_value2member_map_")
    return Callee(name, lambda value: members[hashable(value)], value=found)


STATES: Final[dict[type, Callable[[Any, Any], None]]] = {
    OrderedDict: give_attributes,
    np.ndarray: _array_state,
}


def give_state(target: Any, state: Any) -> bool:
    """Give an object of what is known here its state; False for another."""
    give = _dtype_state if isinstance(target, np.dtype) else STATES.get(type(target))
    if give is not None:
        give(target, state)
    return give is not None
