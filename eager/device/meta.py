"""Beside the devices of a machine: the one whose tensors have no values. command -> nothing.

Shapes, dtypes and strides are those of any tensor; there is no memory behind them, so what is
written is lost, and what would be read raises. Models too large to hold, or not loaded yet, are
built on it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from eager.device.protocol import Array, Grid, Kernel, Properties, Region

META = "meta"
_NO_VALUES = (
    "Cannot copy out of meta tensor; no data! It has a shape and no values: build or load it on "
    "another device; Module.to_empty(device=...) makes room for the values of a module"
)


class MetaDevice:
    """A `Device` without memory: addresses are numbers that lie apart."""

    index = -1
    properties = Properties("meta", 0, 0, 0, 0)

    def __init__(self) -> None:
        self.main = _Order()
        self._addresses = itertools.count(1 << 40, 1 << 40)

    def allocate(self, nbytes: int) -> int:
        del nbytes
        return next(self._addresses)

    def free(self, address: int) -> None:
        """Nothing is held."""

    def upload(self, to: Region, array: Array, stream: Any, *, pinned: bool = False) -> None:
        """The values are lost."""

    def download(self, array: Array, source: Region, stream: Any) -> NoReturn:
        raise NotImplementedError(_NO_VALUES)

    def copy(self, to: Region, source: Region, stream: Any) -> None:
        """Do nothing: there are no values."""

    def copy_to(self, peer: Any, to: Region, source: Region, stream: Any) -> NoReturn:
        raise NotImplementedError(_NO_VALUES)

    def reaches(self, peer: Any) -> bool:
        return peer is self

    def clear(self, region: Region, stream: Any) -> None:
        """Do nothing."""

    def launch(
        self, kernel: Kernel, grid: Grid, arguments: Sequence[Any], stream: Any, *, flops: int = 0
    ) -> None:
        """Nothing runs."""

    def pinned(self, nbytes: int) -> Array:
        return np.empty(nbytes, np.uint8)

    def stream(self) -> Any:
        return self.main

    def event(self, *, timing: bool = False) -> Any:
        del timing
        return self.main

    def record(self, work: Callable[[], None], stream: Any) -> NoReturn:
        raise NotImplementedError("nothing runs on the meta device")

    def synchronize(self) -> None:
        """Nothing is queued."""

    def counters(self) -> Mapping[str, float]:
        return {}


class _Order:
    """The stream of a device on which nothing runs, and each event in it."""

    number = 0
    device: Any = None

    def record(self, event: Any) -> None:
        """Do nothing: it has happened."""

    def wait(self, event: Any) -> None:
        """Do not wait."""

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        """Nothing is queued."""
