"""Beside the ops: what users can call, in one table. a function -> `eager.name`, `Tensor.name` and
`Tensor.name_`.

A public function is registered where it is defined; functions, methods and in-place methods of the
whole library come from this table, and so do the tests (its samples are run against the reference
of the same name).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, TypeVar, cast

import numpy as np

from eager.base import dtype as dt
from eager.base.compat_warnings import warn
from eager.base.dataclass import dataclass
from eager.base.tracebacks import trim
from eager.core.batched import Batched
from eager.core.casts import Policy
from eager.core.casts import on_gpus as cast_on_gpus
from eager.core.dispatch import write_, write_ufunc
from eager.core.op import Op, Samples, parameters
from eager.core.tape import keep_operand, sequence_now
from eager.core.tensor import Tensor
from eager.core.traced import Traced
from eager.device.array import DeviceArray
from eager.sizes import symint

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Out:
    """Rules by which a function writes into `out=`.

    `overlap`: how its memory may meet an operand's. "same": all of it, element by element; "none":
    the operand is read while the result is written; "any": it is read before, also in PyTorch
    (whose `sum` clears a part of its operand, and sums what is left: no value to agree with).
    `exact`: it must have the result's type, without conversion. `dtype`, of functions that take
    one: "checked", it must be that of `out`; "decides", that of `out` stands in for it, too."""

    overlap: Literal["same", "none", "any"] = "same"
    exact: bool = False
    dtype: Literal["", "checked", "decides"] = ""


@dataclass(frozen=True, slots=True)
class Public:
    """One public function. `torch` is the dotted name of its reference below `torch.` (its own by
    default); `reference`, on NumPy arrays, that of one that PyTorch does not have. `out` is None
    where it has no `out=`; `on_gpus` is how autocast of GPUs treats it, if another way than that of
    the CPU."""

    name: str
    fn: Callable[..., Any]
    torch: str
    samples: Samples | None
    namespace: bool
    reference: Callable[..., Any] | None = None
    out: Out | None = None
    on_gpus: Policy | None = None


PUBLIC: dict[str, Public] = {}
# What PyTorch also calls these parameters: NumPy's names, and the name that methods have.
_OTHER_NAMES = {"axis": "dim", "keepdims": "keepdim", "split_size": "split_size_or_sections"}


def public(
    name: str | None = None,
    *,
    torch: str | None = None,
    samples: Samples | None = None,
    method: bool = True,
    inplace: bool | Op = False,
    namespace: bool = True,
    alias: tuple[str, ...] = (),
    reference: Callable[..., Any] | None = None,
    out: Out | None = None,
    on_gpus: Policy | None = None,
) -> Callable[[F], F]:
    """Register a function: as `eager.<name>` (`namespace`), as a Tensor method, and as `<name>_`
    (`inplace`).

    What is in `eager/ops` writes into `out=` by the rules of `Out()`, if it does not say by which;
    elsewhere a function says that it does. `on_gpus` is for calls by users alone, `casts.on_gpus`
    for those of the library, too. `alias` lists further names of the same function.
    `samples` makes it a test against PyTorch's of the same name, or against `reference`, a function
    of NumPy arrays in float64."""

    def register(fn: F) -> F:
        own = name or fn.__name__
        called = _with_other_names(fn)
        if on_gpus is not None:
            called = cast_on_gpus(on_gpus, called)(fn)
        writes = out or (Out() if fn.__module__.startswith("eager.ops.") else None)
        for each in (own, *alias):
            key = each if namespace else f"{fn.__module__}.{each}"
            if key in PUBLIC:
                raise ValueError(f"the public function {key!r} is registered twice")
            given = samples if each == own else None
            PUBLIC[key] = Public(
                each, called, torch or each, given, namespace, reference, writes, on_gpus
            )
            if method:
                alone = len(_tensor_parameters(fn)) == 1 and not _int_parameters(fn)
                own_method = called if alone else checked(called)
                setattr(Tensor, each, own_method)
            if inplace:
                op = inplace if isinstance(inplace, Op) else None
                setattr(Tensor, each + "_", in_place(each + "_", called, op))
        return fn

    return register


def needs_tensors(which: str) -> Callable[[F], F]:
    """A decorator for a function of two operands: "both", the "first", or at least "one" of them
    must be tensors (TypeError); the others may be numbers."""

    def checked(fn: F) -> F:
        names = parameters(fn)[:2]

        @functools.wraps(fn)
        def called(*operands: Any, **kwargs: Any) -> Any:
            try:
                if len(operands) == 2 and type(operands[0]) is Tensor:  # felt on small tensors
                    fine = which != "both" or type(operands[1]) is Tensor
                    if fine:
                        return fn(*operands, **kwargs)
                given = operands
                if len(given) < 2 and kwargs:
                    given = (*given, *(kwargs[n] for n in names[len(given) :] if n in kwargs))
                require_tensors(fn.__name__, which, given[:2])
                return fn(*operands, **kwargs)
            except Exception as error:
                trim(error)
                raise

        return called  # type: ignore[return-value]

    return checked


def require_tensors(name: str, which: str, operands: Any) -> None:
    """TypeError unless those of the operands are tensors that must be: see `needs_tensors`."""
    tensors = [isinstance(x, Tensor) for x in operands]
    fine = all(tensors) if which == "both" else any(tensors)
    if tensors and not (fine and (which != "first" or tensors[0])):
        given = ", ".join(type(x).__name__ for x in operands)
        raise TypeError(f"{name}(): {_WHICH[which]} must be Tensor, got {given}")


_WHICH = {"both": "both operands", "first": "the first operand", "one": "one operand"}


def checked(fn: F) -> F:
    """`fn`, which raises TypeError for what is no tensor where its parameters are tensors, and for
    what is no int where they are ints."""
    tensors, ints = _tensor_parameters(fn), _int_parameters(fn)
    if not tensors and not ints:
        return fn
    alone = len(tensors) == 1 and tensors[0][0] == 0

    @functools.wraps(fn)
    def called(*args: Any, **kwargs: Any) -> Any:
        try:
            if not (alone and args and type(args[0]) is Tensor):
                _check_tensors(fn.__name__, tensors, args, kwargs)
            if ints:
                args = _with_ints(fn.__name__, ints, args, kwargs)
            return fn(*args, **kwargs)
        except Exception as error:
            trim(error)
            raise

    return called  # type: ignore[return-value]


@functools.cache
def _tensor_parameters(fn: Callable[..., Any]) -> tuple[tuple[int, str, bool], ...]:
    """Parameters of a function that are tensors: (position, name, whether it may be None)."""
    return _annotated(fn, {"Tensor": False, "Tensor | None": True})


@functools.cache
def _int_parameters(fn: Callable[..., Any]) -> IntParameters:
    """Parameters of a function that are ints, or ints in a list: (position, name, kind)."""
    return _annotated(fn, _INTS)


def _annotated(fn: Callable[..., Any], kinds: dict[str, Any]) -> tuple[tuple[int, str, Any], ...]:
    notes = getattr(fn, "__annotations__", {})
    found = [(i, name, notes.get(name)) for i, name in enumerate(parameters(fn))]
    return tuple((i, name, kinds[note]) for i, name, note in found if note in kinds)


# By annotation: what takes an argument for ints, what they are to a reader, and what else may be.
_NONE = type(None)
_SEVERAL = (symint.integrals, "int or tuple of ints")
_INTS: dict[str, Any] = {
    "int": (symint.integral, "int", ()),
    "int | None": (symint.integral, "int", (_NONE,)),
    "Ints": (*_SEVERAL, ()),
    "Ints | None": (*_SEVERAL, (_NONE,)),
    "Ints | str": (*_SEVERAL, (str,)),
    "Sequence[int]": (*_SEVERAL, ()),
    "Sequence[int] | None": (*_SEVERAL, (_NONE,)),
}
IntParameters = tuple[tuple[int, str, tuple[Callable[[Any], Any], str, tuple[type, ...]]], ...]


def _with_ints(name: str, ints: IntParameters, args: Any, kwargs: dict[str, Any]) -> Any:
    """`args`, and `kwargs` themselves, with ints where the parameters are ints: NumPy's ints and
    0-dim tensors of ints are some. TypeError for floats, bools and all else."""
    for i, parameter, (taken, kind, others) in ints:
        x = args[i] if i < len(args) else kwargs.get(parameter, 0)
        if type(x) is int or type(x) in others:
            continue
        try:
            value = taken(x)
        except TypeError:
            raise TypeError(
                f"{name}(): argument '{parameter}' (position {i + 1}) must be {kind}, not "
                f"{type(x).__name__}"
            ) from None
        if i >= len(args):
            kwargs[parameter] = value
        elif value is not x:
            args = (*args[:i], value, *args[i + 1 :])
    return args


def _check_tensors(
    name: str, tensors: tuple[tuple[int, str, bool], ...], args: Any, kwargs: Any
) -> None:
    for i, parameter, optional in tensors:
        x = args[i] if i < len(args) else kwargs.get(parameter, Tensor)
        if isinstance(x, Tensor) or x is Tensor or (optional and x is None):
            continue
        if not hasattr(x, "to_dense"):  # sparse ones are of a class of their own
            raise TypeError(
                f"{name}(): argument '{parameter}' (position {i + 1}) must be Tensor, not "
                f"{type(x).__name__}"
            )


def need_tensors(name: str, operands: Sequence[Any]) -> None:
    """TypeError unless all operands are tensors, of a function that takes any number of them."""
    for i, x in enumerate(operands):
        if not isinstance(x, Tensor):
            raise TypeError(f"{name}(): expected Tensor as element {i}, got {type(x).__name__}")


def under(path: str, out: Out | None = None) -> Callable[..., Callable[[F], F]]:
    """A decorator that registers as `torch.<path>.<name>`: neither a method nor in `eager`. What it
    gives writes into `out=` by these rules."""

    def with_samples(
        samples: Samples | None = None, on_gpus: Policy | None = None
    ) -> Callable[[F], F]:
        def register(fn: F) -> F:
            name = f"{path}.{fn.__name__}"
            make = public(
                torch=name, samples=samples, method=False, namespace=False, on_gpus=on_gpus, out=out
            )
            return checked(make(fn)) if out is None else cast("F", with_out(make(fn), out))

        return register

    return with_samples


def _with_other_names(fn: Callable[..., Any]) -> Callable[..., Any]:
    """`fn`, which also takes the other names (`axis` for `dim`) of parameters that it has, and
    Python's types as a `dtype`."""
    own = parameters(fn)
    names = {old: new for old, new in _OTHER_NAMES.items() if new in own and old not in own}
    if not names and "dtype" not in own:
        return fn

    @functools.wraps(fn)
    def called(*args: Any, **kwargs: Any) -> Any:
        try:
            if kwargs:
                if not names.keys().isdisjoint(kwargs):
                    kwargs = {names.get(each, each): value for each, value in kwargs.items()}
                if type(kwargs.get("dtype")) is type:
                    kwargs["dtype"] = dt.named(kwargs["dtype"])
            return fn(*args, **kwargs)
        except Exception as error:
            trim(error)
            raise

    return called


def with_out(fn: Callable[..., Any], rules: Out) -> Callable[..., Any]:
    """`fn`, which also writes its result into tensors that are given as `out=`, by `rules`.

    RuntimeError where the result has a gradient; `out` takes the shape of the result. What is no
    tensor is refused as in `checked`."""
    tensors, ints = _tensor_parameters(fn), _int_parameters(fn)
    alone = len(tensors) == 1 and tensors[0][0] == 0

    @functools.wraps(fn)
    def called(*args: Any, **kwargs: Any) -> Any:
        try:
            if tensors and not (alone and args and type(args[0]) is Tensor):
                _check_tensors(fn.__name__, tensors, args, kwargs)
            if ints:
                args = _with_ints(fn.__name__, ints, args, kwargs)
            out = kwargs.pop("out", None) if kwargs else None
            if out is None:
                return fn(*args, **kwargs)
            return _written(fn, rules, out, args, kwargs)
        except Exception as error:
            trim(error)
            raise

    return called


def _written(
    fn: Callable[..., Any], rules: Out, out: Any, args: Any, kwargs: dict[str, Any]
) -> Any:
    """The result of `fn`, in the memory of `out`."""
    if rules.dtype:
        kwargs["dtype"] = _dtype_for(rules, out, kwargs.get("dtype"))
    result = fn(*args, **kwargs)
    for each in out if isinstance(out, tuple | list) else (out,):
        _check_out(rules, each, (*args, *kwargs.values()))
    if rules.exact:
        _same_dtypes(out, result)
    if not isinstance(result, tuple):
        return _into(out, result)
    outs = [_into(o, r) for o, r in zip(out, result, strict=True)]
    return type(result)(*outs) if hasattr(result, "_fields") else tuple(outs)


def _dtype_for(rules: Out, out: Tensor, dtype: Any) -> Any:
    """The dtype to compute in. RuntimeError where it is given and is not that of `out`."""
    if dtype is not None and dt.named(dtype) is not out.dtype:
        raise RuntimeError(f"Expected out tensor to have dtype {dtype}, but got {out.dtype}")
    return out.dtype if rules.dtype == "decides" else dtype


def _check_out(rules: Out, out: Any, operands: tuple[Any, ...]) -> None:
    """RuntimeError for memory to write into whose elements overlap, or overlap an operand's."""
    array = out._array
    if type(array) is Batched:
        return
    steps = zip(array.shape, array.strides, strict=True)
    if any(type(step) is int and not step and n != 1 for n, step in steps) and array.size:
        raise RuntimeError(
            "unsupported operation: more than one element of the written-to tensor refers to a "
            "single memory location. Please clone() the tensor before performing the operation."
        )
    for x in () if rules.overlap == "any" else _tensors(operands):
        other = x._array
        if not _may_share(array, other):
            continue
        same = _start(array) == _start(other) and array.strides == other.strides
        if not (same and array.shape == other.shape) or rules.overlap == "none":
            raise RuntimeError(
                "unsupported operation: some elements of the input tensor and the written-to "
                "tensor refer to a single memory location. Please clone() the tensor before "
                "performing the operation."
            )


def _may_share(array: Any, other: Any) -> bool:
    """True if the memory ranges of two arrays overlap, from their first elements to their last."""
    if type(array) is not type(other):
        return False
    if type(array) is np.ndarray:
        return np.may_share_memory(array, other)
    if type(array) is DeviceArray:
        return array.overlaps(other)
    if type(array) is not Traced or array.storage is not other.storage:
        return False
    ends = [_start(x) + _reach(x) * x.aval.dtype.itemsize for x in (array, other)]
    return bool(_start(array) < ends[1] and _start(other) < ends[0])


def _start(array: Any) -> Any:
    """Address of the first element; of a traced array, its byte offset in its storage."""
    if type(array) is np.ndarray:
        return array.ctypes.data
    if type(array) is DeviceArray:
        return array.address
    return array.offset * array.aval.dtype.itemsize


def _reach(array: Traced) -> Any:
    """Elements from the first to the last."""
    if not array.aval.numel:
        return 0
    steps = zip(array.shape, array.strides, strict=True)
    return 1 + sum((n - 1) * step for n, step in steps)


def _same_dtypes(out: Any, result: Any) -> None:
    pairs = zip(out, result, strict=True) if isinstance(result, tuple) else ((out, result),)
    for o, r in pairs:
        if o.dtype is not r.dtype:
            raise RuntimeError(f"Expected out tensor to have dtype {r.dtype}, but got {o.dtype}")


def _tensors(values: Any) -> Iterator[Tensor]:
    for x in values:
        if isinstance(x, Tensor):
            yield x
        elif isinstance(x, tuple | list):
            yield from _tensors(x)


def _into(out: Any, result: Tensor) -> Tensor:
    if result._requires_grad:
        raise RuntimeError(
            "functions with out=... arguments don't support automatic differentiation, but one of "
            "the arguments requires grad."
        )
    if out._array.shape != result._array.shape:
        if out._array.size:
            warn(
                f"out= has shape {tuple(out._array.shape)} and is resized to the result's, "
                f"{tuple(result._array.shape)}: this is deprecated, out.resize_(0) says so"
            )
        out.resize_(result._array.shape)
    return write_(out, result)


def in_place(name: str, fn: Callable[..., Any], op: Op | None = None) -> Callable[..., Tensor]:
    """The method that overwrites its tensor by what `fn` returns for it (`op`, if it is just
    that)."""

    def method(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        try:
            if op is not None and len(args) == 1 and not kwargs and write_ufunc(op, self, args[0]):
                return self
            return overwrite(fn, self, *args, **kwargs)
        except Exception as error:
            trim(error)
            raise

    method.__name__ = name
    method.__qualname__ = f"Tensor.{name}"
    method.__doc__ = f"In-place version of `{fn.__name__}`."
    return method


def overwrite(fn: Callable[..., Any], target: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """`target` becomes `fn(target, ...)`, in its own memory; what the derivative needs of its old
    value is kept."""
    since = sequence_now()
    value = fn(target, *args, **kwargs)
    _keep_old(value, target, since)
    return write_(target, value)


def _keep_old(value: Tensor, target: Tensor, since: int) -> None:
    """The old value, for derivatives of what was recorded `since`."""
    if value._requires_grad:
        keep_operand(value._node, since, target._storage)
    if type(value._array) is Batched:
        _keep_old(value._array.value, target, since)
