"""At the edge: `eager.cuda`, GPUs as programs ask for them. devices, streams, events, memory.

It is the first GPU that the NVIDIA driver finds. `JITCAP_DEVICE=sim` makes it a simulated one,
whose times are a model's and no measurement. Where there is none, what needs one raises
DeviceUnavailable.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from eager.cuda import amp as amp
from eager.device import device as device_type
from eager.device import places
from eager.device.pool import Pool, text
from eager.device.protocol import OutOfMemoryError as OutOfMemoryError
from eager.device.protocol import Properties
from eager.notice import refuse
from eager.on_device import host_runs as host_runs
from eager.random import generator_of


def is_available() -> bool:
    """Whether tensors can live on a GPU."""
    return places.count() > 0


def device_count() -> int:
    return places.count()


def is_initialized() -> bool:
    """Whether a GPU was used."""
    return bool(places.opened())


def init() -> None:
    """Open the GPU, which its first use does anyway."""
    places.pool(0)


def _pool(place: Any = None) -> Pool:
    if isinstance(place, int):
        return places.pool(place)
    found = None if place is None else device_type(str(place))
    if found is not None and found.type != "cuda":
        raise ValueError(f"Expected a cuda device, but got: {found}")
    return places.pool(found)


def current_device() -> int:
    """The number of the GPU that "cuda" means: there is one, 0."""
    return _pool().device.index


def set_device(device: Any) -> None:
    """Let "cuda" mean this GPU. DeviceUnavailable for one that there is not."""
    _pool(device)


class device:
    """`with cuda.device(0):` lets "cuda" mean this GPU: there is one."""

    def __init__(self, device: Any) -> None:
        self.idx = _pool(device).device.index

    def __enter__(self) -> device:
        return self

    def __exit__(self, *_: object) -> None:
        return None


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
        self._pool = _pool()
        self._own = self._pool.device.event(timing=enable_timing)

    def record(self, stream: Stream | None = None) -> None:
        (current_stream() if stream is None else stream)._own.record(self._own)

    def wait(self, stream: Stream | None = None) -> None:
        """Let a stream wait for this point."""
        (current_stream() if stream is None else stream)._own.wait(self._own)

    def query(self) -> bool:
        """Whether all before it is done."""
        return bool(self._own.query())

    def synchronize(self) -> None:
        """Let the host wait."""
        self._own.synchronize()
        self._pool.checks.settle()

    def elapsed_time(self, end_event: Event) -> float:
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
        self._own.wait(event._own)

    def wait_stream(self, stream: Stream) -> None:
        """What is queued here from now on comes after what was queued there until now."""
        self.wait_event(stream.record_event())

    def query(self) -> bool:
        """Whether all that was queued is done."""
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
    """Queue on this stream in a `with` block; None changes nothing."""
    if stream is None:
        yield
        return
    with places.on_stream(stream._pool.device, stream._own):
        yield


# ---------------------------------------------------------------------------------- memory
def _opened(device: Any) -> Pool | None:
    """A GPU that was used already: asking for its memory opens none."""
    if not places.opened():
        return None
    pool = _pool(device)
    pool.collect()
    return pool


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
    """What was queued since the GPU was opened: launches, replays, copies and bytes by direction,
    waits, memory. `modelled_seconds` of a simulated GPU is a model's answer, no measurement."""
    return dict(_pool(device).device.counters())


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """Memory and work so far, for people; `abbreviated` leaves the work out."""
    pool = _pool(device)
    pool.collect()
    rows = {
        "allocated": f"{text(pool.allocated)} (at most {text(pool.peak)})",
        "reserved": f"{text(pool.reserved)} (at most {text(pool.peak_reserved)})",
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
    """Seed the GPU's generator; without one, nothing. `eager.manual_seed` seeds all."""
    if is_available():
        generator_of("cuda").manual_seed(seed)


def manual_seed_all(seed: int) -> None:
    """Seed all GPUs' generators; without any, nothing."""
    manual_seed(seed)


def initial_seed() -> int:
    return generator_of("cuda").initial_seed()


def get_rng_state(device: Any = "cuda") -> Any:
    return generator_of(device).get_state()


def set_rng_state(new_state: Any, device: Any = "cuda") -> None:
    generator_of(device).set_state(new_state)
