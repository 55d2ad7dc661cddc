"""`eager.utils.tensorboard`: training curves as event files. scalars, text and histograms -> files
that TensorBoard reads.

An event file is a sequence of records (length, checksum, bytes, checksum), each a protocol-buffer
message `Event`. The few messages that are needed are spelled out here, so that nothing has to be
installed to write them.
"""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from eager.notice import ignore, refuse
from eager.tensor import Tensor


# ---------------------------------------------------------------------- protocol buffers
def _varint(value: int) -> bytes:
    out = bytearray()
    value &= (1 << 64) - 1
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _field(number: int, value: Any) -> bytes:
    """One field: ints as varints, floats as doubles, text and messages by length."""
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    if isinstance(value, float):
        return _varint(number << 3 | 1) + struct.pack("<d", value)
    raw = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(raw)) + raw


def _single(number: int, value: float) -> bytes:
    """A 32-bit float field."""
    return _varint(number << 3 | 5) + struct.pack("<f", value)


def _doubles(number: int, values: Iterable[float]) -> bytes:
    return _field(number, np.asarray(list(values), "<f8").tobytes())


def _crc_table() -> list[int]:
    table = []
    for n in range(256):
        for _ in range(8):
            n = n >> 1 ^ (0x82F63B78 if n & 1 else 0)
        table.append(n)
    return table


_CRC = _crc_table()


def masked_crc32c(data: bytes) -> int:
    """The checksum of the record format: CRC-32C (Castagnoli), rotated and shifted."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _CRC[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _record(data: bytes) -> bytes:
    length = struct.pack("<Q", len(data))
    return b"".join(
        (
            length,
            struct.pack("<I", masked_crc32c(length)),
            data,
            struct.pack("<I", masked_crc32c(data)),
        )
    )


# --------------------------------------------------------------------------------- values
def _number(value: Any) -> float:
    return float(value.item() if isinstance(value, Tensor) else value)


def _text_value(text: str) -> bytes:
    plugin = _field(9, _field(1, _field(1, "text")))
    shape = _field(2, _field(2, _field(1, 1)))
    return plugin + _field(8, _field(1, 7) + shape + _field(8, text))


def _histogram_value(values: Any, bins: int) -> bytes:
    data = values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)
    flat = data.astype(np.float64).reshape(-1)
    counts, edges = np.histogram(flat, bins)
    numbers = (flat.min(), flat.max(), flat.size, flat.sum(), (flat * flat).sum())
    head = b"".join(_field(i, float(n)) for i, n in enumerate(numbers, 1))
    return _field(5, head + _doubles(6, edges[1:]) + _doubles(7, counts))


class SummaryWriter:
    """Writes to an event file in `log_dir` (by default `runs/<time>_<host>`). Usable in a `with`
    statement."""

    def __init__(
        self,
        log_dir: str | os.PathLike[str] | None = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int = 10,
        flush_secs: int = 120,
        filename_suffix: str = "",
    ) -> None:
        refuse("SummaryWriter", "delete the old events", purge_step=purge_step)
        host = socket.gethostname()
        if not log_dir:
            log_dir = Path("runs") / (time.strftime("%b%d_%H-%M-%S") + f"_{host}{comment}")
        self.log_dir = str(log_dir)
        folder = Path(log_dir)
        folder.mkdir(parents=True, exist_ok=True)
        stamp = f"{time.time():.0f}.{host}.{os.getpid()}.{time.monotonic_ns() & 0xFFFF}"
        self._file = (folder / f"events.out.tfevents.{stamp}{filename_suffix}").open("ab")
        self._write(_field(3, "brain.Event:2"), None, None)

    def _write(self, content: bytes, step: int | None, walltime: float | None) -> None:
        head = _field(1, float(time.time() if walltime is None else walltime))
        if step is not None:
            head += _field(2, int(step))
        self._file.write(_record(head + content))

    def _value(self, tag: str, value: bytes, step: int | None, walltime: float | None) -> None:
        self._write(_field(5, _field(1, _field(1, tag) + value)), step, walltime)

    def add_scalar(
        self,
        tag: str,
        scalar_value: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        new_style: bool = False,
        double_precision: bool = False,
    ) -> None:
        """One point of the curve `tag`."""
        ignore("add_scalar", new_style=new_style, double_precision=double_precision)
        self._value(tag, _single(2, _number(scalar_value)), global_step, walltime)

    def add_scalars(
        self,
        main_tag: str,
        tag_scalar_dict: Mapping[str, Any],
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """One point of each curve `main_tag/<key>`."""
        for tag, value in tag_scalar_dict.items():
            self.add_scalar(f"{main_tag}/{tag}", value, global_step, walltime)

    def add_text(
        self,
        tag: str,
        text_string: str,
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        self._value(tag, _text_value(text_string), global_step, walltime)

    def add_histogram(
        self,
        tag: str,
        values: Any,
        global_step: int | None = None,
        bins: Any = 64,
        walltime: float | None = None,
        max_bins: int | None = None,
    ) -> None:
        """The distribution of `values` over equal bins."""
        refuse("add_histogram", "give the number as `bins`", max_bins=max_bins)
        count = bins if isinstance(bins, int) else 64
        self._value(tag, _histogram_value(values, count), global_step, walltime)

    def add_hparams(
        self, hparam_dict: Mapping[str, Any], metric_dict: Mapping[str, Any], **options: Any
    ) -> None:
        """Settings as a text table, results as scalars."""
        ignore("add_hparams", **options)
        rows = "\n".join(f"|{k}|{v}|" for k, v in hparam_dict.items())
        self.add_text("hparams", "|name|value|\n|-|-|\n" + rows)
        for tag, value in metric_dict.items():
            self.add_scalar(tag, value)

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
