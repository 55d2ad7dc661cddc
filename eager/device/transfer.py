"""Between host and device memory: NumPy array <-> DeviceArray. Every copy is one that the device
counts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from eager.base import dtype as dt
from eager.device import device, places
from eager.device.array import DeviceArray
from eager.device.pinned import is_pinned
from eager.device.pool import Buffer, Pool
from eager.device.protocol import Array, Region
from eager.sizes.aval import Aval


def pinned_copy(array: Array) -> Array:
    """A copy in page-locked memory, of the device's row-major bytes."""
    memory = places.pool().device.pinned(max(array.nbytes, 1))
    out: Array = np.ndarray(array.shape, array.dtype, memory[: array.nbytes])
    out[...] = array
    return out


def empty(aval: Aval) -> DeviceArray:
    """A row-major array of undefined values where the aval says."""
    return DeviceArray(new_buffer(aval), aval)


def strided(aval: Aval, strides: tuple[int, ...]) -> DeviceArray:
    """An array of undefined values with these strides (in elements)."""
    reach = sum((n - 1) * s for n, s in zip(aval.shape, strides, strict=True)) + 1
    memory = replace(aval, shape=(reach if aval.numel else 0,))
    return DeviceArray(new_buffer(memory), aval, strides)


def new_buffer(aval: Aval) -> Buffer:
    pool = places.pool(device(aval.device))
    return pool.empty(aval.nbytes, places.stream(pool.device))


def upload(array: Array, place: device, *, non_blocking: bool = False) -> DeviceArray:
    """A copy on a device. What is dense keeps its strides. From pinned memory a copy that is
    `non_blocking` goes on while the host does; the array must not change until then."""
    aval = Aval(array.shape, dt.from_numpy(array.dtype), str(place))
    order = sorted(range(array.ndim), key=lambda d: (-array.strides[d], d))
    packed = array.transpose(order)
    if not packed.flags.c_contiguous:
        packed = array = np.ascontiguousarray(array).reshape(array.shape)
    item = array.itemsize
    strides = tuple(s // item for s in array.strides) if array.size else None
    out = DeviceArray(new_buffer(aval), aval, strides)
    write(out, packed, non_blocking=non_blocking)
    return out


def values_of(array: Any) -> Any:
    """The values of a tensor's array as NumPy's, for a check of them: copied from a device, None
    where they are not known."""
    if type(array) is DeviceArray:
        return download(array)
    return array if isinstance(array, np.ndarray) else None


def write(target: DeviceArray, packed: Array, *, non_blocking: bool = False) -> None:
    """Copy an array without gaps over the memory of one without gaps."""
    if not packed.size:
        return
    unit = target.buffer.device
    stream = places.stream(unit)
    target.buffer.used_on(stream)
    pinned = non_blocking and is_pinned(packed)
    unit.upload(target.region(writes=True, reads=False), packed, stream, pinned=pinned)


def download(array: DeviceArray) -> Array:
    """A copy in host memory, after what is queued before it. What is dense keeps its strides."""
    kind = array.aval.dtype.np
    flat = np.empty(array.span, kind)
    if array.size:
        unit = array.buffer.device
        stream = places.stream(unit)
        array.buffer.used_on(stream)
        unit.download(flat, array.region(), stream)
        array.buffer.pool.checks.settle()
    steps = tuple(s * kind.itemsize for s in array.strides)
    if array.span != array.size:
        return np.array(as_strided(flat, array.shape, steps), order="C")
    if array.is_contiguous():
        return flat.reshape(array.shape)
    return as_strided(flat, array.shape, steps)


def copy(target: DeviceArray, source: DeviceArray) -> None:
    """Copy an array without gaps over another, on this device or another."""
    if not source.size:
        return
    pool, to = target.buffer.pool, target.region(writes=True, reads=False)
    stream = places.stream(pool.device)
    target.buffer.used_on(stream)
    if source.buffer.pool is not pool:
        from_peer(to, pool, source, stream)
        return
    source.buffer.used_on(stream)
    pool.device.copy(to, source.region(), stream)


def from_peer(to: Region, pool: Pool, source: DeviceArray, stream: Any) -> None:
    """Copy the memory of an array to where a stream of another device uses it. The source's device
    copies: it waits for what is queued on the stream, which then waits for it."""
    origin = source.buffer.device
    there = places.stream(origin)
    source.buffer.used_on(there)
    order(stream, there)
    origin.copy_to(pool.device, to, source.region(), there)
    order(there, stream)
    pool.checks.sources.add(source.buffer.pool.checks)


def order(before: Any, after: Any) -> None:
    """Make later work of stream `after` wait for all that is queued on `before` by now."""
    event = before.device.event()
    before.record(event)
    after.wait(event)


def to_peer(array: DeviceArray, place: device) -> DeviceArray:
    """A copy on another device, with the same strides, of an array without gaps."""
    aval = replace(array.aval, device=str(place))
    out = DeviceArray(new_buffer(aval), aval, array.strides)
    copy(out, array)
    return out
