"""Beside dispatch: what `autocast` does to the arguments of a function, and steps in 16-bit floats
that are rounded once. function -> the function that casts its arguments.

Matrix products and convolutions run in the type of autocast, losses and what loses much by few
bits in float32, all else in the types it is given. The lists are PyTorch's: each function says
where it is defined on which it stands, on GPUs perhaps on another (`on_gpus`): of half precision's
range little is left behind an exponential, a power or a sum.
Autocast of a device casts tensors of that device. Inside such a function nothing is cast again.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Literal, TypeVar

from eager.base import dtype as dt
from eager.base.dtype import DType
from eager.base.tracebacks import trim
from eager.core.dispatch import apply_unary
from eager.core.op import parameters
from eager.core.tape import Autocast, mode
from eager.core.tensor import Tensor

F = TypeVar("F", bound=Callable[..., Any])


# The types that a function gets its tensors in: those of autocast, float32, those it is given, the
# widest of them; "keep": as it is without the rule, and autocast stays on inside.
Policy = Literal["lower", "full", "given", "widest", "keep"]


def is_autocast_enabled(device_type: str = "cuda") -> bool:
    """True if autocast is on for a device."""
    return _on(device_type) is not None


def is_autocast_cpu_enabled() -> bool:
    """`is_autocast_enabled("cpu")`, by its older name."""
    return is_autocast_enabled("cpu")


def get_autocast_dtype(device_type: str) -> DType:
    """The type that products have under autocast on a device."""
    return _on(device_type) or (dt.bfloat16 if device_type == "cpu" else dt.float16)


def get_autocast_cpu_dtype() -> DType:
    """`get_autocast_dtype` of the CPU."""
    return get_autocast_dtype("cpu")


def get_autocast_gpu_dtype() -> DType:
    """`get_autocast_dtype("cuda")`, by its older name."""
    return get_autocast_dtype("cuda")


def _on(device_type: str) -> DType | None:
    on = mode.autocast
    return on[_NUMBER[device_type]] if on is not None and device_type in _NUMBER else None


_NUMBER: Final = {"cpu": 0, "cuda": 1}


def with_autocast(device_type: str, dtype: DType | None) -> Autocast | None:
    """The autocast state in which tensors of a device are cast to `dtype` (None: not at all), and
    those of others as now."""
    cpu, cuda = mode.autocast or (None, None)
    on = (dtype, cuda) if device_type == "cpu" else (cpu, dtype)
    return None if on == (None, None) else on


def set_autocast(on: Autocast | None) -> Autocast | None:
    """Cast so from now on; what autocast was before."""
    before, mode.autocast = mode.autocast, on
    return before


def autocast_now() -> Autocast | None:
    """The autocast state of this thread."""
    return mode.autocast


def lower_precision(fn: F) -> F:
    """`fn` runs in the type of autocast."""
    return casting(fn, "lower", "lower")


def full_precision(fn: F) -> F:
    """`fn` runs in float32 where autocast is on."""
    return casting(fn, "full", "full")


def on_gpus(policy: Policy, named: Callable[..., Any] | None = None) -> Callable[[F], F]:
    """A function runs so where autocast of GPUs is on; it says nothing of that of the CPU. `named`
    as in `casting`."""
    return functools.partial(casting, cpu="keep", gpu=policy, named=named)


def given_precision(fn: F) -> F:
    """`fn` runs in the types it is given, although it is made of functions that would be cast."""
    return casting(fn, "given", "given")


def casting(fn: F, cpu: Policy, gpu: Policy, named: Callable[..., Any] | None = None) -> F:
    """`fn` gets its tensors by these policies where autocast is on, which is off inside. `named`:
    what is called in its place with keywords."""
    with_keywords = named or fn

    @functools.wraps(fn)
    def cast(*args: Any, **kwargs: Any) -> Any:
        on = mode.autocast
        if on is None:
            try:
                return with_keywords(*args, **kwargs) if kwargs else fn(*args)
            except Exception as error:
                trim(error)
                raise
        given = (*args, *kwargs.values())
        types = (_type(cpu, on[0], given, "cpu"), _type(gpu, on[1], given, "cuda"))
        args = tuple(by_place(x, types) for x in args)
        kwargs = {k: by_place(x, types) for k, x in kwargs.items()}
        inside = on[0] if cpu == "keep" else None, on[1] if gpu == "keep" else None
        before = set_autocast(None if inside == (None, None) else inside)
        try:
            return with_keywords(*args, **kwargs)
        except Exception as error:
            trim(error)
            raise
        finally:
            set_autocast(before)

    if parameters(fn) != ("input",):
        return cast  # type: ignore[return-value]
    op: Any = getattr(fn, "unary_op", None)

    # One argument is passed on in a quarter of the time.
    @functools.wraps(fn)
    def cast_one(input: Any) -> Any:
        try:
            return fn(input) if mode.autocast is None else cast(input)
        except Exception as error:
            trim(error)
            raise

    @functools.wraps(fn)
    def cast_operand(input: Any) -> Any:
        try:
            return apply_unary(op, input) if mode.autocast is None else cast(input)
        except Exception as error:
            trim(error)
            raise

    return cast_one if op is None else cast_operand  # type: ignore[return-value]


def _type(policy: Policy, on: DType | None, given: Sequence[Any], place: str) -> DType | None:
    """The dtype that tensors of a device are cast to where its autocast is on (None: they are not
    cast)."""
    if on is None or policy in ("given", "keep"):
        return None
    if policy == "widest":
        kinds = {t.dtype for t in _tensors(given) if (t.aval.device == "cpu") is (place == "cpu")}
        return dt.float32 if dt.float32 in kinds else None
    return dt.float32 if policy == "full" else on


def _tensors(values: Sequence[Any]) -> Iterator[Tensor]:
    for x in values:
        if isinstance(x, Tensor):
            yield x
        elif type(x) in (list, tuple):
            yield from _tensors(x)


def lowered_on_gpus(x: Any) -> Any:
    """Tensors in the type of autocast of GPUs, where it is on: what recurrent steps begin with."""
    on = mode.autocast
    return x if on is None else by_place(x, (None, on[1]))


def by_place(x: Any, types: Sequence[DType | None]) -> Any:
    """A float tensor in the type for where it lives (of the CPU, of GPUs; None: as it is), also in
    lists and tuples."""
    if isinstance(x, Tensor):
        dtype = types[x.aval.device != "cpu"]
        return x if dtype is None else to_precision(x, dtype)
    if type(x) in (list, tuple):
        return type(x)(by_place(each, types) for each in x)
    return x


def rounded_once(fn: F) -> F:
    """`fn` of 16-bit floats is computed in float32, and rounded at its end: for functions of
    several steps, whose roundings would add up or cancel the result."""

    @functools.wraps(fn)
    def run(*args: Any, **kwargs: Any) -> Any:
        given = (*args, *kwargs.values())
        kinds = [x.dtype for x in given if isinstance(x, Tensor) and x.dtype.is_floating_point]
        if all(kind.compute is kind for kind in kinds):
            return fn(*args, **kwargs)
        args = tuple(to_precision(x, dt.float32) for x in args)
        kwargs = {k: to_precision(x, dt.float32) for k, x in kwargs.items()}
        return to_precision(fn(*args, **kwargs), functools.reduce(dt.promote_types, kinds))

    return run  # type: ignore[return-value]


def product_rounded_once(fn: F) -> F:
    """`rounded_once` for products and what is added to them, where all floats have one 16-bit type
    and live on the CPU, which multiplies in float32 anyway. GPUs multiply 16-bit floats, and what
    differs in type is for `fn` to refuse."""
    once = rounded_once(fn)

    @functools.wraps(fn)
    def run(*args: Any, **kwargs: Any) -> Any:
        if args and isinstance(args[0], Tensor) and args[0].itemsize > 2:
            return fn(*args, **kwargs)
        given = _tensors((*args, *kwargs.values()))
        floats = [t.aval for t in given if t.dtype.is_floating_point]
        alike = len({(a.dtype, a.device) for a in floats}) == 1 and floats[0].device == "cpu"
        return (once if alike else fn)(*args, **kwargs)

    return run  # type: ignore[return-value]


def to_precision(x: Any, dtype: DType) -> Any:
    """A float tensor in `dtype`, also in lists and tuples; float64 and all else as they are."""
    if isinstance(x, Tensor):
        casts = x.dtype.is_floating_point and x.dtype is not dt.float64 and x.dtype is not dtype
        return x.to(dtype) if casts else x
    if type(x) in (list, tuple):
        return type(x)(to_precision(each, dtype) for each in x)
    return x
