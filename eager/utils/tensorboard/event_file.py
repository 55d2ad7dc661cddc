"""Under `eager.utils.tensorboard`: event files. messages -> records of a file.

An event file is a sequence of records (length, checksum, bytes, checksum), each a protocol-buffer
message `Event`. The few messages that are needed are spelled out where they are made, so that
nothing has to be installed to write them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any

import numpy as np


# ---------------------------------------------------------------------- protocol buffers
def _varint(value: int) -> bytes:
    out = bytearray()
    value &= (1 << 64) - 1
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(number: int, value: Any) -> bytes:
    """One field: ints as varints, floats as doubles, text and messages by length."""
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    if isinstance(value, float):
        return _varint(number << 3 | 1) + struct.pack("<d", value)
    raw = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(raw)) + raw


def single(number: int, value: float) -> bytes:
    """A 32-bit float field."""
    return _varint(number << 3 | 5) + struct.pack("<f", value)


def doubles(number: int, values: Iterable[float]) -> bytes:
    return field(number, np.asarray(list(values), "<f8").tobytes())


# ------------------------------------------------------------------------------- records
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


def record(data: bytes) -> bytes:
    length = struct.pack("<Q", len(data))
    return b"".join(
        (
            length,
            struct.pack("<I", masked_crc32c(length)),
            data,
            struct.pack("<I", masked_crc32c(data)),
        )
    )
