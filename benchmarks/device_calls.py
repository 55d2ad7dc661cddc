"""Claim: what the host does for a GPU costs at most 15 us per eager op and 10 us per replayed step.

`python -m benchmarks.device_calls` needs no GPU: a driver that answers at once takes the calls, and
the time of its own calls is subtracted (pairs of batches, one after the other; the median of the
differences, and in brackets the least). A real driver adds what it takes itself, 2 to 5 us for a
launch. `--json FILE` keeps the figures.
"""

import argparse
import functools
import gc
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import eager
from eager import nn
from eager.device import places
from eager.device.cuda import CudaDevice
from eager.device.libcuda import Attribute
from eager.device.pool import Pool
from eager.device.protocol import Region
from eager.nn import functional as F
from jitcap import jit

BARS = {"eager op": 15.0, "replay": 10.0}
PLAIN = ("Init", "SetCurrent", "Synchronize", "Query", "Free", "Record", "Destroy", "Async", "Wait",
         "Kernel", "GraphLaunch", "BeginCapture", "SetAttribute")  # fmt: skip


class ReadyDriver:
    """Functions of the driver that do nothing, and succeed at once. `calls` are those made."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[Any, ...]]] = []
        self.pages: list[Any] = []
        self.next = 1 << 40  # the next piece of memory

    def __getattr__(self, name: str) -> Callable[..., tuple[Any, ...]]:
        answer = (0,) if any(part in name for part in PLAIN) and "Alloc" not in name else (0, 4096)
        if name == "cuDeviceGetName":
            answer = (0, b"no GPU")

        def call(*given: Any) -> tuple[Any, ...]:
            return answer

        setattr(self, name, call)
        return call

    def cuDeviceGetAttribute(self, attribute: int, unit: int) -> tuple[int, int]:
        found = {Attribute.COMPUTE_CAPABILITY_MAJOR: 9, Attribute.COMPUTE_CAPABILITY_MINOR: 0}
        return 0, found.get(Attribute(attribute), 1 << 20)

    def cuDeviceGetCount(self) -> tuple[int, int]:
        return 0, 1

    def cuMemAlloc(self, nbytes: int) -> tuple[int, int]:
        address, self.next = self.next, self.next + -(-nbytes // 512) * 512
        return 0, address

    def cuMemHostAlloc(self, nbytes: int, flags: int) -> tuple[int, int]:
        self.pages.append(np.empty(nbytes, np.uint8))
        return 0, int(self.pages[-1].ctypes.data)


class CountingDriver(ReadyDriver):
    """The same, and keeps what was called."""

    def __getattr__(self, name: str) -> Callable[..., tuple[Any, ...]]:
        plain = super().__getattr__(name)

        def call(*given: Any) -> tuple[Any, ...]:
            self.calls.append((name, given))
            return plain(*given)

        setattr(self, name, call)
        return call


def cases(device: CudaDevice) -> dict[str, Callable[[], Any]]:
    """What is timed, on `device` as "cuda"."""
    x, y = (eager.ones(16, device="cuda") for _ in range(2))
    w = eager.ones(16, device="cuda", requires_grad=True)
    places.pool(0).collect()
    region = Region(x._array.address, 64, writes=True)
    recording = device.record(
        lambda: device.copy(region, Region(y._array.address, 64), device.main), device.main
    )

    def two() -> None:
        (w * 2.0).sum().backward()
        w.grad = None

    model = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4)).to("cuda")
    optimizer = eager.optim.AdamW(model.parameters(), lr=1e-3)
    labels = eager.zeros(8, device="cuda", dtype=eager.int64)
    batch = eager.ones(8, 16, device="cuda")

    @jit
    def step(batch: Any, labels: Any) -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(batch), labels)
        loss.backward()
        optimizer.step()
        return loss.detach()

    for _ in range(3):
        step(batch, labels)  # compiled, queued, recorded

    return {
        "eager op": lambda: x + y,
        "eager op with a number": lambda: x * 3.0,
        "eager op in place": lambda: x.add_(y),
        "eager op, recorded for gradients": lambda: w + y,
        "forward and backward of two ops": two,
        "replay": lambda: recording.replay(device.main),
        "@jit of two ops": functools.partial(jit(lambda x: (x * 2.0).sum()), x),
        "@jit training step with AdamW": functools.partial(step, batch, labels),
    }


def opened(driver: ReadyDriver) -> CudaDevice:
    """A device over this driver, which is "cuda" from now on."""
    places.close()
    pool = places.install(Pool(CudaDevice(driver)))
    device: CudaDevice = pool.device
    return device


def measure(rounds: int, batch: int) -> dict[str, dict[str, float]]:
    """Microseconds per call without the driver's, by case, and how many driver calls it makes."""
    counting = CountingDriver()
    made: dict[str, list[tuple[str, tuple[Any, ...]]]] = {}
    for name, work in cases(opened(counting)).items():
        for _ in range(4):
            work()
        counting.calls.clear()
        work()
        made[name] = list(counting.calls)
    driver = ReadyDriver()
    rows = {}
    for name, work in cases(opened(driver)).items():
        for _ in range(4):
            work()
        functions = [(getattr(driver, called), given) for called, given in made[name]]

        def driver_alone(functions: Any = functions) -> None:
            for function, given in functions:
                function(*given)

        pairs = [(timed(work, batch), timed(driver_alone, batch)) for _ in range(rounds)]
        ours = [together - alone for together, alone in pairs]
        rows[name] = {
            "microseconds": statistics.median(ours),
            "least": min(ours),
            "driver_calls": len(functions),
        }
    places.close()
    return rows


def timed(work: Callable[[], Any], batch: int) -> float:
    start = time.perf_counter()
    for _ in range(batch):
        work()
    return (time.perf_counter() - start) / batch * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.device_calls", description=__doc__)
    parser.add_argument("--rounds", type=int, default=41)
    parser.add_argument("--batch", type=int, default=200)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    gc.disable()
    rows = measure(args.rounds, args.batch)
    for name, row in rows.items():
        bar = f"   (at most {BARS[name]:.0f})" if name in BARS else ""
        calls = f"{row['driver_calls']:.0f} calls of the driver"
        figures = f"{row['microseconds']:8.2f} us ({row['least']:.2f})"
        print(f"{name:34}{figures:22}{calls}{bar}")
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
