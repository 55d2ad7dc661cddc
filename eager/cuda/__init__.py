"""At the edge: `eager.cuda`, GPUs as programs ask for them. devices, streams, events, memory.

They are the GPUs that the NVIDIA driver finds. `JITCAP_DEVICE=sim` makes them simulated ones, whose
times are a model's and no measurement. Where there is none, what needs one raises
DeviceUnavailable.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from eager.base.byte_text import byte_text
from eager.base.compat_warnings import refuse
from eager.base.stub_modules import Absent, absent
from eager.core.on_device import host_runs as host_runs
from eager.cuda import amp as amp
from eager.device import default, places
from eager.device import device as device_type
from eager.device.pool import Pool
from eager.device.protocol import OutOfMemoryError as OutOfMemoryError
from eager.device.protocol import Properties
from eager.random import Generator, generator_of

nvtx = absent("cuda.nvtx", "there are no ranges for NVIDIA's profiler: use eager.profiler", "")
CUDAGraph, graph = (
    Absent(
        f"cuda.{name}", "kernels are launched as they come; jitcap.jit makes one graph of a step"
    )
    for name in ("CUDAGraph", "graph")
)


def is_available() -> bool:
    """True if tensors can live on a GPU."""
    return places.count() > 0


def device_count() -> int:
    return places.count()


def is_initialized() -> bool:
    """True if a GPU was used."""
    return bool(places.opened())


def init() -> None:
    """Open the current GPU, which its first use does anyway."""
    places.pool()


def _index(place: Any) -> int:
    """The number that a device, its name or its number says; None is the current one."""
    if place is None or isinstance(place, int):
        return places.index_of(place)
    found = device_type(str(place))
    if found.type != "cuda":
        raise ValueError(f"Expected a cuda device, but got: {found}")
    return places.index_of(found)


def _pool(place: Any = None) -> Pool:
    return places.pool(_index(place))


def current_device() -> int:
    """The number of the GPU that "cuda" means in this thread."""
    return _pool().device.index


def set_device(device: Any) -> None:
    """Let "cuda" mean this GPU in this thread; one of a negative number changes nothing.
    DeviceUnavailable for one that there is not."""
    if _index(device) >= 0:
        default.current = _pool(device).device.index


class device:
    """`with cuda.device(1):` lets "cuda" mean this GPU in this thread; None or a negative number
    changes nothing."""

    def __init__(self, device: Any) -> None:
        self.idx = -1 if device is None else _index(device)
        self.prev_idx = -1
        if self.idx >= 0:
            places.pool(self.idx)

    def __enter__(self) -> device:
        self.prev_idx = default.current
        if self.idx >= 0:
            default.current = self.idx
        return self

    def __exit__(self, *_: object) -> None:
        default.current = self.prev_idx


class device_of(device):
    """`with cuda.device_of(x):` lets "cuda" mean the GPU of a tensor, if it is on one."""

    def __init__(self, obj: Any) -> None:
        super().__init__(obj.device if obj.is_cuda else None)


def can_device_access_peer(device: Any, peer_device: Any) -> bool:
    """True if copies between two GPUs need not go by way of the host. ValueError for one GPU
    alone."""
    one, other = _pool(device).device, _pool(peer_device).device
    if one is other:
        raise ValueError("can_device_access_peer: expected two different devices")
    return bool(one.reaches(other))


def get_device_properties(device: Any = None) -> Properties:
    return _pool(device).device.properties


def get_device_name(device: Any = None) -> str:
    return _pool(device).device.properties.name


def get_device_capability(device: Any = None) -> tuple[int, int]:
    found = _pool(device).device.properties
    return found.major, found.minor


def is_bf16_supported() -> bool:
    return is_available() and get_device_capability() >= (8, 0)


# ------------------------------------------------------------------------- streams, events
def synchronize(device: Any = None) -> None:
    """Wait for all that is queued. Raises what a kernel found meanwhile (an index out of bounds).
    Without a GPU there is nothing to wait for."""
    if is_available():
        pool = _pool(device)
        pool.device.synchronize()
        pool.checks.settle()


class Event:
    """A point in a stream. With `enable_timing`, `start.elapsed_time(end)` is the milliseconds
    between two: on a simulated GPU those of its model."""

    def __init__(
        self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False
    ) -> None:
        refuse("cuda.Event", "events stay in their process", interprocess=interprocess)
        self.enable_timing = enable_timing
        self.blocking = blocking  # every wait of the host is
        _pool()  # there must be one
        self._pool: Any = None  # of the device of the first stream that it is recorded in
        self._own: Any = None

    @property
    def device(self) -> device_type | None:
        return None if self._pool is None else device_type("cuda", self._pool.device.index)

    def record(self, stream: Stream | None = None) -> None:
        """Let it be the point that a stream has come to. RuntimeError for a stream of another GPU
        than the first one's."""
        stream = current_stream() if stream is None else stream
        if self._pool is None:
            self._pool = stream._pool
            self._own = self._pool.device.event(timing=self.enable_timing)
        elif self._pool is not stream._pool:
            raise RuntimeError(
                f"Event device {self.device} does not match recording stream's device "
                f"{stream.device}."
            )
        stream._own.record(self._own)

    def wait(self, stream: Stream | None = None) -> None:
        """Let a stream, of whichever GPU, wait for this point."""
        if self._own is not None:
            (current_stream() if stream is None else stream)._own.wait(self._own)

    def query(self) -> bool:
        """True if all before the event is done."""
        return self._own is None or bool(self._own.query())

    def synchronize(self) -> None:
        """Let the host wait."""
        if self._own is not None:
            self._own.synchronize()
            self._pool.checks.settle()

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds to another event. RuntimeError unless both were recorded, on one GPU, with
        timing, and have come."""
        if not (self.enable_timing and end_event.enable_timing):
            raise RuntimeError("Both events must be created with argument 'enable_timing=True'.")
        if self._own is None or end_event._own is None:
            raise RuntimeError("Both events must be recorded before calculating elapsed time.")
        if self._pool is not end_event._pool:
            raise RuntimeError(
                f"elapsed_time() of events on {self.device} and {end_event.device}: no clock is "
                "common to two devices"
            )
        return float(self._own.elapsed_time(end_event._own))


class Stream:
    """A queue of its own: what runs in `with cuda.stream(s):` is ordered among itself, and with
    other streams by events alone."""

    def __init__(self, device: Any = None, priority: int = 0) -> None:
        refuse("cuda.Stream", "all streams have one priority", priority=priority or None)
        self._pool = _pool(device)
        self._own = self._pool.device.stream()

    @classmethod
    def _of(cls, pool: Pool, own: Any) -> Stream:
        made = cls.__new__(cls)
        made._pool, made._own = pool, own
        return made

    @property
    def device(self) -> device_type:
        return device_type("cuda", self._pool.device.index)

    @property
    def stream_id(self) -> int:
        return int(self._own.number)

    def record_event(self, event: Event | None = None) -> Event:
        event = Event() if event is None else event
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        event.wait(self)

    def wait_stream(self, stream: Stream) -> None:
        """Make later work of this stream wait for all that was queued on `stream` until now."""
        self.wait_event(stream.record_event())

    def query(self) -> bool:
        """True if all that was queued is done."""
        return bool(self._own.query())

    def synchronize(self) -> None:
        self._own.synchronize()
        self._pool.checks.settle()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and other._own is self._own

    def __hash__(self) -> int:
        return id(self._own)

    def __repr__(self) -> str:
        return f"<eager.cuda.Stream device={self.device} stream={self.stream_id}>"


def current_stream(device: Any = None) -> Stream:
    pool = _pool(device)
    return Stream._of(pool, places.stream(pool.device))


def default_stream(device: Any = None) -> Stream:
    pool = _pool(device)
    return Stream._of(pool, pool.device.main)


@contextmanager
def stream(stream: Stream | None) -> Iterator[None]:
    """Queue on this stream in a `with` block, in which "cuda" is its GPU; None changes nothing."""
    if stream is None:
        yield
        return
    with places.on_stream(stream._pool.device, stream._own):
        yield


StreamContext = type(stream(None))  # of what it gives, for annotations


# ---------------------------------------------------------------------------------- memory
def _opened(device: Any) -> Pool | None:
    """A GPU that was used already: asking for its memory opens none."""
    index = _index(device)
    for pool in places.opened():
        if pool.device.index == index:
            pool.collect()
            return pool
    return None


def memory_allocated(device: Any = None) -> int:
    """Bytes that tensors hold, in the sizes in which memory is given."""
    pool = _opened(device)
    return 0 if pool is None else pool.allocated


def max_memory_allocated(device: Any = None) -> int:
    pool = _opened(device)
    return 0 if pool is None else pool.peak


def memory_reserved(device: Any = None) -> int:
    """Bytes taken from the device: those of tensors, and those kept for new ones."""
    pool = _opened(device)
    return 0 if pool is None else pool.reserved


def max_memory_reserved(device: Any = None) -> int:
    pool = _opened(device)
    return 0 if pool is None else pool.peak_reserved


def reset_peak_memory_stats(device: Any = None) -> None:
    pool = _opened(device)
    if pool is not None:
        pool.reset_peaks()


def empty_cache() -> None:
    """Give the device back what no tensor holds."""
    for pool in places.opened():
        pool.release()


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Bytes that are free, and that there are."""
    pool = _pool(device)
    total = pool.device.properties.total_memory
    return total - pool.reserved, total


def counters(device: Any = None) -> dict[str, float]:
    """Counters of work queued since the GPU was opened: launches, replays, copies and bytes by
    direction, waits, memory. `modelled_seconds` of a simulated GPU is a model's answer, no
    measurement."""
    return dict(_pool(device).device.counters())


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """Memory and work so far, for people; `abbreviated` leaves the work out."""
    pool = _pool(device)
    pool.collect()
    rows = {
        "allocated": f"{byte_text(pool.allocated)} (at most {byte_text(pool.peak)})",
        "reserved": f"{byte_text(pool.reserved)} (at most {byte_text(pool.peak_reserved)})",
        "requests": f"{pool.requests}, of which {pool.misses} asked the device",
    }
    if not abbreviated:
        for name, count in pool.device.counters().items():
            rows[name] = f"{count:.6f} (a model's)" if name == "modelled_seconds" else f"{count}"
        for (op, reason), count in host_runs.items():
            rows[f"host: {op}"] = f"{count} times: {reason}"
    lines = [f"cuda:{pool.device.index}, {pool.device.properties.name}"]
    return "\n".join([*lines, *(f"  {name:22} {row}" for name, row in rows.items())])


# ---------------------------------------------------------------------------------- random
def manual_seed(seed: int) -> None:
    """Seed the current GPU's generator; without one, nothing. `eager.manual_seed` seeds all."""
    if is_available():
        generator_of("cuda").manual_seed(seed)


def manual_seed_all(seed: int) -> None:
    """Seed all GPUs' generators; without any, nothing."""
    for generator in generators():
        generator.manual_seed(seed)


def generators() -> list[Generator]:
    """Those of all GPUs."""
    return [generator_of(f"cuda:{index}") for index in range(device_count())]


def initial_seed() -> int:
    return generator_of("cuda").initial_seed()


def get_rng_state(device: Any = "cuda") -> Any:
    return generator_of(f"cuda:{_index(device)}").get_state()


def get_rng_state_all() -> list[Any]:
    return [get_rng_state(index) for index in range(device_count())]


def set_rng_state(new_state: Any, device: Any = "cuda") -> None:
    generator_of(f"cuda:{_index(device)}").set_state(new_state)


def set_rng_state_all(new_states: Any) -> None:
    for index, state in enumerate(new_states):
        set_rng_state(state, index)


def __getattr__(name: str) -> Any:
    if name == "_initialized":  # PyTorch's flag, which code that saves random states reads
        return is_initialized()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
