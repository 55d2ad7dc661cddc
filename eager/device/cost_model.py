"""Under the simulated device: how long a GPU might take. (bytes, FLOPs) -> seconds, by a model.

A roofline with the published figures of one device. What comes out is a model's answer and never a
measurement: it tells bandwidth-bound from launch-bound work, and more copies from fewer.
"""

from __future__ import annotations

from typing import Final

from eager.base.dataclass import dataclass
from eager.device.protocol import Properties


@dataclass(frozen=True, slots=True)
class Model:
    """Rates per second, times in seconds."""

    memory: float  # bytes of device memory
    arithmetic: float  # float32 operations outside tensor cores
    pinned: float  # bytes over the bus, from page-locked host memory
    pageable: float  # the same through a staging buffer
    peer: float  # bytes between two devices, one way
    launch: float  # of the host, per command
    start: float  # of the device, per command
    replay: float  # of the host, per replayed recording
    step: float  # of the device, per command of a recording

    def kernel(self, nbytes: int, flops: int) -> float:
        return max(nbytes / self.memory, flops / self.arithmetic)

    def transfer(self, nbytes: int, *, pinned: bool) -> float:
        return nbytes / (self.pinned if pinned else self.pageable)


# NVIDIA's data sheet of the H200 SXM (141 GB, 4.8 TB/s, 67 TFLOP/s of float32, PCIe 5.0 x16,
# NVLink); the latencies are the usual orders of magnitude of a driver.
H200: Final = Model(
    memory=4.8e12,
    arithmetic=67e12,
    pinned=55e9,
    pageable=12e9,
    peer=450e9,
    launch=2.5e-6,
    start=2e-6,
    replay=8e-6,
    step=1e-6,
)
H200_PROPERTIES: Final = Properties(
    name="NVIDIA H200 (simulated)",
    major=9,
    minor=0,
    total_memory=141_000_000_000,
    multi_processor_count=132,
    shared_memory_per_block=232_448,
    L2_cache_size=50 << 20,
    is_simulated=True,
)
