"""The devices of this process: which there are, which are open, which is meant. a `device` -> its
Pool.

A device is opened when something is first asked of it. They are the GPUs that the NVIDIA driver
finds; `JITCAP_DEVICE=sim` makes them simulated ones, `JITCAP_SIM_DEVICES` many.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from eager.base.config import config
from eager.base.process.locks import lock
from eager.device import CPU, cuda, default, device
from eager.device.meta import META, MetaDevice
from eager.device.pool import Pool
from eager.device.protocol import DeviceUnavailable
from eager.device.sim import SimDevice

SIMULATED: Final = "sim"
HOW: Final = 'tensors live on the cpu. JITCAP_DEVICE=sim makes "cuda" a simulated GPU (docs/gpu.md)'
_open: dict[int, Pool] = {}
_nowhere: Final = Pool(MetaDevice())
_lock: Final = lock()


class _Current(threading.local):
    """The stream of each device that this thread means."""

    def __init__(self) -> None:
        self.streams: dict[int, Any] = {}


_current = _Current()


def count() -> int:
    """Number of devices beside the CPU."""
    asked = config.device
    if asked not in ("", SIMULATED):
        raise ValueError(f"JITCAP_DEVICE={asked!r}: expected {SIMULATED!r}, or nothing")
    if asked == SIMULATED:
        return max(config.sim_devices, 1)
    driver = _driver()
    return 0 if isinstance(driver, DeviceUnavailable) else _how_many(driver)


@functools.cache
def _driver() -> Any:
    """The NVIDIA driver, or why there is none."""
    try:
        return cuda.find()
    except DeviceUnavailable as error:
        return error


@functools.lru_cache(4)  # a forked child cannot ask
def _how_many(driver: Any) -> int:
    return cuda.count(driver)


def opened() -> list[Pool]:
    """Those that something was asked of."""
    return list(_open.values())


def index_of(place: device | int | None) -> int:
    """The number of a device: the current one's, where none is said."""
    index = place if place is None or isinstance(place, int) else place.index
    return default.current if index is None else index


def pool(place: device | int | None = None) -> Pool:
    """The memory of a device, which is opened. Raises DeviceUnavailable where there is none."""
    if isinstance(place, device) and place.type == META:
        return _nowhere
    index = index_of(place)
    found = _open.get(index)
    return _opened(index) if found is None else found


def _opened(index: int) -> Pool:
    known = count()
    if not known:
        raise DeviceUnavailable(f"device 'cuda' is not available here: {_driver()}; {HOW}")
    if not 0 <= index < known:
        raise DeviceUnavailable(
            f"device 'cuda:{index}' is not available here: there "
            + ("is cuda:0 alone" if known == 1 else f"are cuda:0 to cuda:{known - 1}")
        )
    with _lock:
        if index not in _open:
            if config.device == SIMULATED:
                others = (p.device for p in _open.values() if isinstance(p.device, SimDevice))
                machine = next((other.machine for other in others), None)
                unit: Any = SimDevice(index, machine=machine)
            else:
                unit = cuda.CudaDevice(_driver(), index)
            _open[index] = Pool(unit)
        return _open[index]


def install(pool: Pool) -> Pool:
    """Make this memory that of its device's number, in place of what the settings say."""
    with _lock:
        _open[pool.device.index] = pool
    return pool


def close() -> None:
    """Forget all devices: tensors that are left keep theirs, and what comes next gets new ones."""
    with _lock:
        _open.clear()
        _current.streams.clear()
        default.current = 0


def resolved(place: Any) -> device:
    """A place with its index: "cuda" is the current device. Raises DeviceUnavailable where it is
    not there."""
    found = place if isinstance(place, device) else device(place)
    if found.type == "cuda":
        return device("cuda", pool(found).device.index)
    return CPU if found.type == "cpu" else device(META)


def stream(of: Any) -> Any:
    """The stream on which this thread queues commands of a device (an open one)."""
    return _current.streams.get(of.index) or of.main


@contextmanager
def on_stream(of: Any, stream: Any) -> Iterator[None]:
    """Mean this device, and this stream of it."""
    before, current = _current.streams.get(of.index), default.current
    _current.streams[of.index], default.current = stream, of.index
    try:
        yield
    finally:
        default.current = current
        if before is None:
            del _current.streams[of.index]
        else:
            _current.streams[of.index] = before
