"""The one choke point: every op call of the library goes through `apply`. op record and operands
-> tensors.

NumPy kernels run here, and those of a device where an operand lives on one; under a tracer the op
is appended to its graph instead; of operands that stand for many examples (`vmap`) it becomes ops
on all of them; if an operand requires a gradient the call goes on the tape. Nothing else in `eager`
calls a kernel, a tracer or the tape.
"""

from __future__ import annotations

import contextlib
import contextvars
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from eager.base import dtype as dt
from eager.base.tracebacks import trim
from eager.core import on_device
from eager.core import tensor as tensor_module
from eager.core.batched import Batched, Level
from eager.core.op import REGISTRY, Op
from eager.core.storage import Storage
from eager.core.sym import SymNumber
from eager.core.tape import CopySlicesNode, OpNode, differentiable, mode
from eager.core.tensor import WITH_AVAL, Tensor, ViewOf, bare, refresh, require_writable, wrap
from eager.core.traced import IndexedRef, Traced, Tracer, fresh
from eager.device import transfer
from eager.device.array import DeviceArray
from eager.sizes.aval import Aval, plain_number, scalar_aval
from eager.sizes.symint import SymInt

current_tracer: contextvars.ContextVar[Tracer | None] = contextvars.ContextVar(
    "current_tracer", default=None
)
_FLOATS = frozenset({np.dtype(np.float32), np.dtype(np.float64)})
ARRAY: Final = np.ndarray  # looked up once: felt on small tensors
_ARRAY_OR_NUMBER = frozenset({ARRAY, float, int})
_NUMBERS = frozenset({bool, int, float, complex, SymNumber})


class _Quiet(threading.local):
    """`run(f, ...)` calls f where NumPy does not warn of overflow or division by zero, without
    touching the user's setting.

    A context of one's own costs a tenth of `numpy.errstate`. One per thread: a context cannot be
    entered twice."""

    run: Callable[..., Any]

    def __init__(self) -> None:
        context = contextvars.copy_context()
        context.run(np.seterr, all="ignore")
        self.run = context.run


_quiet = _Quiet()


@contextlib.contextmanager
def untraced() -> Iterator[None]:
    """Inside a kernel that calls ops itself: they run, whatever is captured outside, and in a
    context of their own."""
    token, outer = current_tracer.set(None), _quiet.run
    _quiet.__init__()  # type: ignore[misc]
    try:
        yield
    finally:
        _quiet.run = outer
        current_tracer.reset(token)


def tracing() -> bool:
    """True if ops are recorded and not run: under capture."""
    return current_tracer.get() is not None


def _is_tensor(x: Any) -> bool:
    return isinstance(x, Tensor)


def apply(op: Op, *operands: Any, **attrs: Any) -> Any:
    """Call an op: one tensor, or a tuple when the op has several outputs. Of numbers alone the
    first is taken for a 0-dim tensor.

    Raises TypeError for an operand that is neither tensor nor number; what the op's own rules
    raise otherwise."""
    try:
        if op.shares:
            return _apply_view(op, operands[0], attrs)
        tracer = current_tracer.get()
        arrays: list[Any] = []
        tracked, place = False, None
        for x in operands:
            if isinstance(x, Tensor):
                if x._view is not None:
                    refresh(x)
                if x._requires_grad:
                    tracked = True
                x = x._array
                if type(x) is not ARRAY:
                    if type(x) is Traced:
                        tracer = x.storage.tracer
                    elif type(x) is DeviceArray:
                        place = x
                    else:
                        return _apply_batched(op, operands, attrs)
            elif type(x) not in _NUMBERS:
                return apply(op, *(_checked(op, y) for y in operands), **attrs)
            elif not arrays and op.kind == "pointwise" and not any(map(_is_tensor, operands)):
                if len(operands) == 1:
                    what = type(x).__name__
                    raise TypeError(f"{op.name}(): argument 'input' must be Tensor, not {what}")
                return apply(op, with_tensor(x, x), *operands[1:], **attrs)
            arrays.append(x)
        if tracer is not None:
            results = _trace(tracer, op, operands, attrs)
        elif place is None and "device" not in attrs:
            results = _quiet.run(op.run, arrays, attrs)
        else:
            results = on_device.run(op, arrays, attrs)
        outs = (_wrap(results[0]),) if op.n_outputs == 1 else tuple(map(_wrap, results))
        if tracked and mode.enabled and not op.stops:
            _record(op, operands, attrs, outs)
        return outs[0] if op.n_outputs == 1 else outs
    except Exception as error:
        trim(error)
        raise


def must_hold(condition: Tensor, what: str, error: Callable[[], Exception] | None = None) -> None:
    """Raise `error()`, or RuntimeError with `what`, unless the condition, a bool, is true. While
    tracing it becomes a check of the run, which is given up where it fails: plain Python raises
    then. On a device nothing is checked: it would wait."""
    array = condition._array
    if condition.aval.device != "cpu":
        return
    if type(array) is Batched:
        must_hold(array.value.all(), what, error)
    elif type(array) is Traced:
        array.storage.tracer.check(what, array.read())
    elif not array:
        raise RuntimeError(what) if error is None else error()


def apply_unary(op: Op, x: Tensor) -> Any:
    """`apply(op, x)`, with a short way for a float tensor that needs no gradient.

    Operators and elementary functions come this way and through `apply_binary`: what eager adds to
    NumPy's own call is felt on small tensors."""
    if type(x) is Tensor and op.ufunc is not None:
        a = x._array
        if (
            type(a) is ARRAY
            and a.dtype in _FLOATS
            and not x._requires_grad
            and x._view is None
            and current_tracer.get() is None
        ):
            result = _quiet.run(op.ufunc, a, order="C")
            return wrap(result if type(result) is ARRAY else np.asarray(result))
    return apply(op, x)


def apply_binary(op: Op, x: Any, y: Any) -> Any:
    """`apply(op, x, y)`, with a short way for a float tensor and another, or a number."""
    if type(x) is Tensor and op.ufunc is not None:
        a, b = x._array, y
        plain = not x._requires_grad and x._view is None
        if type(y) is Tensor:
            b = y._array
            plain = plain and type(a) is type(b) is ARRAY and b.dtype is a.dtype
            plain = plain and not y._requires_grad and y._view is None
        if (
            plain
            and type(b) in _ARRAY_OR_NUMBER
            and type(a) is ARRAY
            and a.dtype in _FLOATS
            and current_tracer.get() is None
        ):
            try:
                result = _quiet.run(op.ufunc, a, b, order="C")
                return wrap(result if type(result) is ARRAY else np.asarray(result))
            except ValueError:  # shapes that do not fit: the op's own rule says so better
                pass
    return apply(op, x, y)


def with_tensor(x: Any, y: Any) -> Any:
    """`x`, which is made a tensor where neither is one: what two numbers give has the default
    dtype, as in PyTorch."""
    if isinstance(x, Tensor) or isinstance(y, Tensor) or type(x) not in _NUMBERS:
        return x
    own = scalar_aval(x).dtype
    default = dt.get_default_dtype()
    kinds = {dt.float64: default, dt.complex128: dt.default_complex()}
    return Tensor._full(x, Aval((), kinds.get(own, own)))


# ------------------------------------------------------------------------ many examples at once
def innermost(operands: Sequence[Any]) -> Level | None:
    """The innermost mapped function that an operand belongs to."""
    arrays = [x._array for x in operands if isinstance(x, Tensor) and type(x._array) is Batched]
    return max((a.level for a in arrays), key=lambda level: level.number, default=None)


def lifted(level: Level, x: Any) -> Any:
    """An operand as one of the level; numbers are the same on all."""
    if not isinstance(x, Tensor):
        return x
    array = x._array
    same = type(array) is Batched and array.level is level
    return x if same else wrap(Batched(level, x, False))


def variable(x: Tensor) -> Tensor:
    """`x` as a variable of its own, for a derivative by it, in the mapped function that runs; the
    history that it has is still behind it."""
    levels = [level for level in (innermost([x]), *mode.levels[-1:]) if level is not None]
    if levels:
        x = lifted(max(levels, key=lambda level: level.number), x)
    if x.requires_grad:
        return x.view_as(x)
    own = wrap(x._array, Storage()) if x._storage.inference else bare(x)
    return own.requires_grad_()


def _apply_batched(op: Op, operands: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
    """Call an op on what stands for many examples: ops on all of them, by the rule of its kind."""
    level: Any = innermost(operands)
    operands = tuple([lifted(level, x) for x in operands])
    for x in operands:
        if isinstance(x, Tensor) and x._view is not None:
            refresh(x)
    made = level.rule(level, op, operands, attrs)
    outs: tuple[Tensor, ...] = tuple([wrap(Batched(level, *row)) for row in made])
    if op.shares:
        out, source = outs[0], operands[0]
        if out._storage is source._storage:
            _note_view(out, source, op, attrs)
    tracked = any(isinstance(x, Tensor) and x._requires_grad for x in operands)
    if tracked and mode.enabled and not op.stops:
        _record(op, operands, attrs, outs)
    return outs[0] if op.n_outputs == 1 else outs


def _wrap(result: Any) -> Tensor:
    if type(result) is not ARRAY and type(result) not in WITH_AVAL:
        result = np.asarray(result)
    return wrap(result)


def _apply_view(op: Op, source: Any, attrs: Mapping[str, Any]) -> Tensor:
    """Call a view op: the result shares the storage, unless a reshape had to copy."""
    if not isinstance(source, Tensor):
        raise TypeError(f"{op.name}(): expected a Tensor, got {type(source).__name__}")
    if source._view is not None:
        refresh(source)
    tracer, array = current_tracer.get(), source._array
    if type(array) is Batched:
        return _apply_batched(op, (source,), attrs)
    result: Any
    if tracer is None and type(array) is ARRAY:
        result = op.run((array,), attrs)[0]
        base = result.base
        shared = not op.may_copy or (base is not None and (base is array or base is array.base))
    elif tracer is None and type(array) is DeviceArray:
        result = array.view(op, attrs)
        shared = result is not None
        if result is None:
            result = on_device.contiguous(array).view(op, attrs)
    else:
        traced = array if type(array) is Traced or tracer is None else tracer.lift(source)
        attrs = {k: _settled(v) for k, v in attrs.items()}
        result = traced.view(op, attrs)
        shared = result.storage is traced.storage
    storage = source._storage if shared else None
    out: Tensor = wrap(result, storage)
    if storage is not None:
        _note_view(out, source, op, attrs)
    if source._requires_grad and mode.enabled and not op.stops:
        _record(op, (source,), attrs, (out,))
    return out


def _note_view(out: Tensor, source: Tensor, op: Op, attrs: Mapping[str, Any]) -> None:
    """`out` looks at the memory of `source`."""
    above, history = source._view, source._storage.history
    if above is None or (source._node is None and source._requires_grad):  # a leaf is its own base
        out._view = ViewOf(source, ((op, attrs),), history)
    else:
        out._view = ViewOf(above.base, (*above.chain, (op, attrs)), history, above.among)


def _checked(op: Op, x: Any) -> Any:
    if isinstance(x, Tensor) or type(x) in _NUMBERS:
        return x
    if isinstance(x, np.generic):
        return plain_number(x)
    if isinstance(x, SymInt):
        return x.number()
    python_types: tuple[Any, ...] = (bool, int, float, complex)
    for number in python_types:
        if isinstance(x, number):
            return number(x)
    raise TypeError(f"{op.name}(): an operand must be a Tensor or a number, got {type(x).__name__}")


def _trace(
    tracer: Tracer, op: Op, operands: tuple[Any, ...], attrs: Mapping[str, Any]
) -> tuple[Traced, ...]:
    """Append the op to the graph. A copy appends nothing: values in the graph do not alias."""
    handles: list[Any] = []
    avals: list[Aval] = []
    for x in operands:
        if isinstance(x, Tensor):
            traced = x._array if type(x._array) is Traced else tracer.lift(x)
            handles.append(traced.read())
            avals.append(traced.aval)
        else:
            handles.append(x.handle if isinstance(x, SymNumber) else x)
            avals.append(scalar_aval(x))
    place = attrs.get("device") or _device_of(avals)
    if place != "cpu":
        _bring(tracer, op, handles, avals, place)
    if op.kind == "copy":
        return (fresh(tracer, handles[0], avals[0]),)
    if op.kind == "dynamic":
        values = [tracer.value(h) for h in handles]
        if all(v is not None for v in values):
            return op.run(tuple(values), attrs)
        attrs = tracer.with_size(op, tuple(handles), attrs)
    attrs = {k: _settled(v) for k, v in attrs.items()} if attrs else {}
    outs = op.abstract(tuple(avals), attrs)
    if place != "cpu":
        outs = tuple(on_device.at(aval, place) for aval in outs)
    made = tracer.emit(op, tuple(handles), attrs, outs)
    return tuple([fresh(tracer, handle, aval) for handle, aval in zip(made, outs, strict=True)])


def _device_of(avals: Sequence[Aval]) -> str:
    """The device that a traced op runs on: that of an operand which lives on one, else the CPU."""
    for a in avals:
        if a.device != "cpu" and not a.weak:
            return a.device
    return "cpu"


def _bring(tracer: Tracer, op: Op, handles: list[Any], avals: list[Aval], place: str) -> None:
    """A 0-dim operand of the CPU goes to the device, as when the op runs; any other is refused."""
    for i, aval in enumerate(avals):
        if not aval.weak and aval.device != place:
            if aval.ndim:
                tensors = {i: a for i, a in enumerate(avals) if not a.weak}
                raise on_device.mixture(op, tensors, place)
            handles[i] = tracer.move(handles[i], aval, place)
            avals[i] = on_device.at(aval, place)


def _settled(value: Any) -> Any:
    """An attribute as a graph holds it: a run-time number is a size, or guarded and an int."""
    if type(value) is tuple:
        return tuple(map(_settled, value)) if SymNumber in map(type, value) else value
    return value.tracer.size_of(value) if _is_number(value) else value


def _is_number(value: Any) -> bool:
    return type(value) is SymNumber and value.pytype is int


def _record(
    op: Op, operands: tuple[Any, ...], attrs: Mapping[str, Any], outs: tuple[Tensor, ...]
) -> None:
    floating = [i for i, t in enumerate(outs) if differentiable(t.dtype)]
    if not floating:
        return
    node = OpNode(op, operands, attrs, outs)
    for i in floating:
        outs[i]._node, outs[i]._index, outs[i]._requires_grad = node, i, True


# -------------------------------------------------------------------------- in-place writes
def write_(target: Tensor, value: Tensor, *, anew: bool = False) -> Tensor:
    """Make `target` what `value` is: data into its memory (and so into all views of it), history
    onto the tape.

    `value` has `target`'s shape or broadcasts to it, and is converted to its dtype; `anew`: it was
    not made of `target`, whose old history gets zeros. Raises
    RuntimeError for a leaf that requires a gradient, a shape that does not fit, a lossy kind of
    dtype (float into int), or memory whose elements overlap."""
    if not isinstance(target, Tensor):
        raise TypeError(f"an in-place operation needs a Tensor, got {type(target).__name__}")
    if Batched in (type(target._array), type(value._array)):
        value = _of_target(target, value)
    if target._view is not None:
        refresh(target)
    records = mode.enabled and (target._requires_grad or value._requires_grad)
    if records:
        _check_writable(target)
    if (tracer := current_tracer.get()) is not None:
        tracer.writing(target)
    require_writable(target)
    value = _conform(target, value)
    _store(target, value)
    target._storage.version += 1
    if records:
        _rebase(target, value, anew)
    if type(target._array) is Traced and target._array.storage.picked is not None:
        _write_through(target._array.storage.picked)
    return target


def _write_through(link: IndexedRef) -> None:
    """Write the value of `base[places]` back to the base."""
    base, put = link.base, REGISTRY["index_put"]
    new = apply(put, base, link.owner, *link.places, dims=link.dims, accumulate=False)
    write_(base, new)
    if type(base._array) is Traced:
        link.generation = base._array.storage.generation


def write_ufunc(op: Op, target: Tensor, other: Any) -> bool:
    """`target = op(target, other)` in one pass, where both are floats of one dtype and nothing is
    recorded or traced. False when it is not that simple."""
    array, value, needs = target._array, other, target._requires_grad
    if isinstance(other, Tensor):
        value, needs = other._array, needs or other._requires_grad
    if type(array) is not ARRAY or type(value) not in _ARRAY_OR_NUMBER:
        return False
    same = type(value) is not ARRAY or value.dtype is array.dtype
    if not same or array.dtype not in _FLOATS or not array.flags.writeable:
        return False
    if (needs and mode.enabled) or current_tracer.get() is not None:
        return False
    storage = target._storage
    if storage.sealed and not mode.inference:
        return False
    try:
        _quiet.run(op.ufunc, array, value, out=array)
    except ValueError:  # shapes that do not fit: said where the general way checks them
        return False
    storage.version += 1
    return True


LEAF_WRITTEN: Final = (
    "a leaf Variable that requires grad is being used in an in-place operation. Make a new tensor "
    "(x = x + 1), or write under no_grad(), as an optimizer does"
)


def _check_writable(target: Tensor) -> None:
    if type(target._array) is Traced:
        target._array.storage.tracer.check_writable(target)
    if target._node is None and target._requires_grad:
        raise RuntimeError(LEAF_WRITTEN)
    where = target._view
    if where is None:
        return
    if where.base._node is None and where.base._requires_grad:
        raise RuntimeError(
            "a view of a leaf Variable that requires grad is being used in an in-place operation."
        )
    if where.among is not None:
        raise RuntimeError(
            f"Output of {where.among} is a view and is being modified inplace. This view is the "
            "output of a function that returns multiple views. Such functions do not allow the "
            "output views to be modified inplace. You should replace the inplace operation by an "
            "out-of-place one, or index the tensor (x[i])."
        )


def _conform(target: Tensor, value: Tensor) -> Tensor:
    have, want = value.dtype, target.dtype
    if have.category > want.category:
        raise RuntimeError(
            f"result type {have.name} can't be cast to the desired output type {want.name}: x.to("
            f"{have.name}) before it is written, or an operation that is not in place"
        )
    if value._array.shape != target._array.shape:
        if len(value._array.shape) > len(target._array.shape) or not _fits(
            value._array.shape, target._array.shape
        ):
            raise RuntimeError(
                f"output with shape {list(target.shape)} doesn't match the broadcast shape "
                f"{list(value.shape)}"
            )
        value = value.expand(target.shape)
    return value if have is want else value.to(want)


def _fits(shape: tuple[int, ...], into: tuple[int, ...]) -> bool:
    return all(a in (1, b) for a, b in zip(reversed(shape), reversed(into), strict=False))


def _of_target(target: Tensor, value: Tensor) -> Tensor:
    """The value to be written, as a tensor of the target's level."""
    level: Any = innermost((target, value))
    goal, given = lifted(level, target)._array, lifted(level, value)._array
    if given.mapped and not goal.mapped:
        raise RuntimeError(
            "vmap: inplace arithmetic(self, *extra_args) is not possible because there exists a "
            "Tensor `other` in extra_args that has more elements than `self`. This happened due to "
            "`other` being vmapped over but `self` not being vmapped over in a vmap. Please use "
            "out-of-place operators instead of inplace arithmetic, or make `self` of what is "
            "vmapped over: x.new_zeros(...) and zeros_like(x) are"
        )
    if type(target._array) is Batched and target._array.level is level:
        out: Tensor = lifted(level, value)
        return out
    if value._requires_grad and mode.enabled:
        raise RuntimeError(
            "vmap: an in-place operation writes what a gradient inside of it goes through into a "
            "tensor from outside of it: it is a captured tensor, which has no history here. Please "
            "use out-of-place operations"
        )
    inner: Tensor = given.value
    return _of_target(target, inner) if innermost((target, inner)) else inner


def _store(target: Tensor, value: Tensor) -> None:
    array = target._array
    if type(array) is Batched:
        write_(array.value, value._array.value)
        return
    if type(array) is not Traced and type(value._array) is Traced:
        array = value._array.storage.tracer.lift(target)
    elif DeviceArray in (type(array), type(value._array)) and type(array) is not Traced:
        if type(array) is not DeviceArray:
            array[...] = transfer.download(value._array)
        else:
            on_device.store(array, value._array)
        return
    if type(array) is Traced:
        if array.storage.read_only:
            array.storage.refused = True
            raise RuntimeError(_OVERLAPS)
        if 0 in array.strides and _overlaps(array):
            raise RuntimeError(_OVERLAPS)
        source = value._array
        if type(source) is not Traced:
            source = array.storage.tracer.lift(value)
        array.write(source.read())
    elif not array.flags.writeable:
        raise RuntimeError(_OVERLAPS)
    else:
        values = value._array
        apart = array.ndim == 1 and array.strides != values.strides
        if apart and np.may_share_memory(array, values):
            values = values.copy()  # NumPy would read what it has just written
        np.copyto(array, values, casting="unsafe")


_OVERLAPS = (
    "unsupported operation: this tensor cannot be written in place. Either more than one element "
    "refers to a single memory location (it was expanded), or its memory is read-only. Please "
    "clone() the tensor before the operation."
)


def _overlaps(array: Traced) -> bool:
    """True if two elements of a traced tensor share one address."""
    sizes = [*zip(array.shape, array.strides, strict=True)]
    if any(type(n) is int and n == 0 for n, _ in sizes):  # there are none
        return False
    return any(type(step) is int and step == 0 and n != 1 for n, step in sizes)


def _rebase(target: Tensor, value: Tensor, anew: bool) -> None:
    """Give `target` the history of `value`; through a view, give its base a new history, and every
    view anew from that."""
    where = target._view
    owner, chain = (target, ()) if where is None else (where.base, where.chain)
    if where is None and value._node is not None and not (anew and target._requires_grad):
        owner._node, owner._index = value._node, value._index
    else:  # what was there before still gets its zeros
        owner._node, owner._index = CopySlicesNode(owner, value, chain, apply), 0
    owner._requires_grad = True
    if owner._retains:
        tensor_module.retain(owner)
    target._storage.history += 1
    if where is not None:
        refresh(target)


def _replay_view(op: Op, base: Tensor, attrs: Mapping[str, Any]) -> Tensor:
    before, mode.enabled = mode.enabled, True
    try:
        return apply(op, base, **attrs)
    finally:
        mode.enabled = before


tensor_module.replay_view = _replay_view
