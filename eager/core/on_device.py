"""Between dispatch and the devices: ops whose operands live on one. op record, arrays -> arrays
there.

An op runs as the launches that the provider of kernels (entry point `eager.kernels`) plans for it,
once per op, attributes, dtypes, sizes and strides; numbers are given at the launch. A call that is
like an earlier one finds all that follows from that ready (`_calls`). What has no kernel runs on
the host, with copies there and back: that is counted, kept with its reason in `host_runs`, and said
once per op.
"""

from __future__ import annotations

import collections
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from eager.base import plugins
from eager.base.compat_warnings import tell, user_line, user_place
from eager.base.dataclass import dataclass
from eager.base.dtype import get_default_dtype
from eager.core.op import REGISTRY, aval_of
from eager.device import CPU, device, places, transfer
from eager.device.array import DeviceArray
from eager.device.meta import META
from eager.device.plan import Argument, NoKernel, Operand, Plan
from eager.device.protocol import Grid, Region
from eager.sizes.aval import Aval, scalar_aval

_calls: dict[Any, _Call] = {}
_plans: dict[Any, Plan | NoKernel] = {}
host_runs: collections.Counter[tuple[str, str]] = collections.Counter()  # by op and reason
_said: set[str] = set()


@dataclass(frozen=True, slots=True)
class _Call:
    """State that all calls alike share: results, temporary memory, and launches as (kernel, grid,
    arguments, FLOPs), an argument as (what, index, bytes, writes)."""

    plan: Plan
    results: tuple[tuple[int, Aval, tuple[int, ...], int], ...]  # bytes, aval, strides, offset
    place: str
    launches: tuple[tuple[Any, Grid, tuple[tuple[str, int, int, bool], ...], int], ...]


class HostRunWarning(UserWarning):
    """An op on a device has no kernel there, and runs on the host. Said once per op."""


def run(op: Any, arrays: Sequence[Any], attrs: Mapping[str, Any]) -> tuple[Any, ...]:
    """The results of an op of which an operand lives on a device (or that is to be made there).

    Raises RuntimeError where operands live on different devices, and what the op's own rules do."""
    key: list[Any] = [op, get_default_dtype()]
    for x in arrays:
        if type(x) is DeviceArray:
            key += (x.aval, x.strides)
        else:
            key.append(type(x))
    key += attrs.items()
    call = _calls.get(tuple(key))
    if call is not None:
        return _launched(call, arrays, None)
    return _first(tuple(key), op, arrays, dict(attrs))


def _first(key: Any, op: Any, arrays: Sequence[Any], attrs: dict[str, Any]) -> tuple[Any, ...]:
    """The first of calls that are alike."""
    place = attrs.pop("device", None) or next(
        a.aval.device for a in arrays if type(a) is DeviceArray
    )
    given = [_operand(op, x, place, arrays) for x in arrays]
    if op.kind == "dynamic" and place == META:
        raise NotImplementedError(
            f"{op.name}(): the values decide the size of the result, and meta tensors have none"
        )
    if op.kind == "dynamic":
        return _on_host(op, given, attrs, place, "the size of the result depends on the values")
    avals = [x.aval if type(x) is DeviceArray else scalar_aval(x) for x in given]
    outs = tuple(at(aval, place) for aval in op.abstract(tuple(avals), attrs))
    if place == META:
        return tuple(map(transfer.empty, outs))
    if op.kind == "copy" and given[0].is_contiguous():
        return (_copied(given[0]),)
    operands = [_described(x, aval) for x, aval in zip(given, avals, strict=True)]
    plan = _plan(op, operands, attrs, outs, None)
    if isinstance(plan, NoKernel):
        return _on_host(op, given, attrs, place, str(plan))
    call = _call(plan, given, outs, None)
    if not any(isinstance(x, np.ndarray) for x in arrays):  # else they are alike by type alone
        _calls[key] = call
    return _launched(call, given, None)


def contiguous(array: DeviceArray) -> DeviceArray:
    """The elements in row-major order, in memory of their own."""
    if array.is_contiguous():
        return _copied(array)
    out = transfer.empty(array.aval)
    store(out, array)
    return out


def brought(array: DeviceArray, place: device) -> Any:
    """A copy on another device, or on the host, which waits for it."""
    if place == CPU:
        return transfer.download(array)
    dense = array.span == array.size
    return transfer.to_peer(array if dense else contiguous(array), place)


def store(target: DeviceArray, value: Any) -> None:
    """Write `value`, an array of the same shape and dtype, into `target`: as it is now, where the
    two overlap, which neither the driver's copies nor kernels see to."""
    if target.overlaps_itself():
        raise RuntimeError(
            "unsupported operation: this tensor cannot be written in place. More than one element "
            "refers to a single memory location (it was expanded). Please clone() the tensor "
            "before the operation."
        )
    if target.aval.device == META:
        return
    if type(value) is not DeviceArray:
        if target.is_contiguous():
            transfer.write(target, np.array(value, order="C"))
            return
        value = transfer.upload(value, device(target.aval.device))
    elif value.buffer.pool is not target.buffer.pool:
        value = transfer.to_peer(contiguous(value), device(target.aval.device))
    elif value.overlaps(target):
        if (value.address, value.strides) == (target.address, target.strides):
            return
        value = contiguous(value)
    if target.is_contiguous() and value.is_contiguous():
        transfer.copy(target, value)
        return
    copy = REGISTRY["clone"]
    into = Operand(target.aval, target.strides)
    plan = _plan(copy, [Operand(value.aval, value.strides)], {}, (target.aval,), into)
    if isinstance(plan, NoKernel):  # complex numbers: by way of the host
        _store_by_host(target, value, str(plan))
        return
    _launched(_call(plan, [value], (), target), [value], target)


def _store_by_host(target: DeviceArray, value: DeviceArray, reason: str) -> None:
    """All of the memory behind the target comes and goes."""
    note_host_run("clone", reason)
    whole = target.memory()
    host = transfer.download(whole)
    steps = tuple(s * host.itemsize for s in target.strides)
    part = np.lib.stride_tricks.as_strided(host[target.offset :], target.shape, steps)
    part[...] = transfer.download(value)
    transfer.write(whole, host)


def _copied(array: DeviceArray) -> DeviceArray:
    out = transfer.empty(array.aval)
    transfer.copy(out, array)
    return out


# ------------------------------------------------------------------------------- operands
def _operand(op: Any, x: Any, place: str, arrays: Sequence[Any]) -> Any:
    """An operand where the op runs: a 0-dim tensor of the CPU is copied there."""
    if type(x) is DeviceArray:
        if x.aval.device == place:
            return x
    elif not isinstance(x, np.ndarray):
        return x
    elif x.ndim == 0:
        return transfer.upload(x, device(place))
    avals = {
        i: a.aval if type(a) is DeviceArray else aval_of(a)
        for i, a in enumerate(arrays)
        if isinstance(a, DeviceArray | np.ndarray)
    }
    raise mixture(op, avals, place)


def mixture(op: Any, avals: Mapping[int, Aval], place: str) -> RuntimeError:
    """The error for operands, by position, that live on different devices."""
    shown = ", ".join(f"operand {i} {a!r} on {a.device}" for i, a in avals.items())
    return RuntimeError(
        "Expected all tensors to be on the same device, but found at least two devices: "
        f"{op.name}() was given {shown} {user_line()}. Move one of them: x.to({place!r})"
    )


def at(aval: Aval, place: str) -> Aval:
    """The aval on device `place`."""
    return aval if aval.device == place else Aval(aval.shape, aval.dtype, place)


def _described(x: Any, aval: Aval) -> Operand:
    return Operand(aval, x.strides if type(x) is DeviceArray else None)


# ---------------------------------------------------------------------------------- plans
def _plan(
    op: Any,
    operands: Sequence[Operand],
    attrs: Mapping[str, Any],
    outs: Sequence[Aval],
    into: Operand | None,
) -> Plan | NoKernel:
    key = (op, tuple(operands), tuple(sorted(attrs.items())), tuple(outs), into)
    found = _plans.get(key)
    if found is None:
        try:
            found = plugins.provider("eager.kernels").compile_op(op, operands, attrs, outs, into)
        except NoKernel as refusal:
            found = refusal
        _plans[key] = found
    return found


def _call(
    plan: Plan, given: Sequence[Any], outs: Sequence[Aval], into: DeviceArray | None
) -> _Call:
    first = next((x.aval for x in (*given, into) if type(x) is DeviceArray), None)
    place = outs[0].device if first is None else first.device
    sizes = [r.size * a.dtype.itemsize for r, a in zip(plan.results, outs, strict=True)]

    def described(x: Argument) -> tuple[str, int, int, bool]:
        if x.what in ("operand", "into"):
            array: Any = into if x.what == "into" else given[x.index]
            return x.what, x.index, array.span * array.itemsize, x.writes
        if x.what == "errors":
            return x.what, x.index, 4 * (len(plan.checks) - x.index), True
        nbytes = sizes[x.index] if x.what == "result" else x.nbytes
        return x.what, x.index, nbytes, x.writes or x.what == "arena"

    return _Call(
        plan,
        tuple(
            (size, a, r.strides, r.offset)
            for size, a, r in zip(sizes, outs, plan.results, strict=True)
        ),
        place,
        tuple(
            (s.kernel, (s.programs, 1, 1), tuple(map(described, s.arguments)), s.flops)
            for s in plan.steps
        ),
    )


def _launched(
    call: _Call, given: Sequence[Any], into: DeviceArray | None
) -> tuple[DeviceArray, ...]:
    """Queue the launches of a call: its results."""
    plan = call.plan
    first = next((x for x in given if type(x) is DeviceArray), into)
    pool = places.pool(device(call.place)) if first is None else first.buffer.pool
    unit = pool.device
    stream = places.stream(unit)
    results = tuple(
        DeviceArray(pool.empty(nbytes, stream), aval, strides, offset)
        for nbytes, aval, strides, offset in call.results
    )
    arena = pool.empty(plan.arena_bytes, stream) if plan.arena_bytes else None
    errors = 0
    if plan.checks:
        fail = plugins.provider("eager.kernels").fail
        errors = pool.checks.slots(plan.checks, user_place(), fail)
    for array in (*given, into):
        if type(array) is DeviceArray and array.buffer.stream is not stream:
            array.buffer.used_on(stream)
    for kernel, grid, places_of, flops in call.launches:
        arguments: list[Any] = []
        for what, index, nbytes, writes in places_of:
            if what == "operand":
                address = given[index].address
            elif what == "result":
                address = results[index].buffer.address
            elif what == "number":
                arguments.append(_in_64_bits(given[index]))
                continue
            elif what == "arena":
                address = arena.address + index  # type: ignore[union-attr]
            elif what == "errors":
                address = errors + 4 * index
            else:
                address = into.address  # type: ignore[union-attr]
            arguments.append(Region(address, nbytes, writes))
        pool.launch(kernel, grid, arguments, stream, flops=flops)
    return results


def _in_64_bits(x: Any) -> Any:
    """A number as a kernel takes it; a large int wraps around, as on the CPU."""
    if type(x) is int and not -(1 << 63) <= x < 1 << 63:
        return (x + (1 << 63)) % (1 << 64) - (1 << 63)
    return x


# --------------------------------------------------------------------------------- the host
def _on_host(
    op: Any, given: Sequence[Any], attrs: Mapping[str, Any], place: str, reason: str
) -> tuple[Any, ...]:
    """The op by NumPy, with copies there and back."""
    note_host_run(op.name, reason)
    arrays = [transfer.download(x) if type(x) is DeviceArray else x for x in given]
    with np.errstate(all="ignore"):
        results = op.run(arrays, attrs)
    return tuple(transfer.upload(np.asarray(r), device(place)) for r in results)


def note_host_run(name: str, reason: str) -> None:
    """Count an op that runs on the host, and say so once."""
    host_runs[name, reason] += 1
    if name in _said:
        return
    _said.add(name)
    tell(
        f"{name} runs on the host, with copies from the device and back: {reason} {user_line()}",
        HostRunWarning,
    )
