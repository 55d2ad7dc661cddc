"""Event files: records with the published checksums, and what was written comes back."""

import struct

import numpy as np
import pytest

eager = pytest.importorskip("eager")
from eager.utils.tensorboard import SummaryWriter, masked_crc32c  # noqa: E402


def records(path):
    raw = path.read_bytes()
    at = 0
    while at < len(raw):
        (size,) = struct.unpack_from("<Q", raw, at)
        assert struct.unpack_from("<I", raw, at + 8)[0] == masked_crc32c(raw[at : at + 8])
        body = raw[at + 12 : at + 12 + size]
        assert struct.unpack_from("<I", raw, at + 12 + size)[0] == masked_crc32c(body)
        yield body
        at += 16 + size


def fields(message):
    """{number: [values]} of one protocol-buffer message."""
    out, at = {}, 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(message):
        key = varint()
        kind = key & 7
        if kind == 0:
            value = varint()
        elif kind == 2:
            size = varint()
            value, at = message[at : at + size], at + size
        else:
            size = 8 if kind == 1 else 4
            (value,) = struct.unpack_from("<d" if kind == 1 else "<f", message, at)
            at += size
        out.setdefault(key >> 3, []).append(value)
    return out


def test_checksum():
    """The CRC-32C of "123456789" is e3069283; masked as the format says."""
    crc = 0xE3069283
    assert masked_crc32c(b"123456789") == ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def test_what_is_written_comes_back(tmp_path):
    with SummaryWriter(tmp_path / "run") as writer:
        writer.add_scalar("loss", eager.tensor(0.5), 3)
        writer.add_scalars("acc", {"train": 0.25}, 4)
        writer.add_text("note", "hello")
        writer.add_histogram("w", eager.arange(10.0), 5, bins=5)
    (path,) = (tmp_path / "run").iterdir()
    head, *events = [fields(r) for r in records(path)]
    assert head[3] == [b"brain.Event:2"]
    values = [fields(fields(e[5][0])[1][0]) for e in events]
    assert [v[1][0] for v in values] == [b"loss", b"acc/train", b"note", b"w"]
    assert [e.get(2) for e in events] == [[3], [4], None, [5]]
    assert values[0][2] == [0.5]
    assert values[1][2] == [0.25]
    assert fields(values[2][8][0])[8] == [b"hello"]
    histogram = fields(values[3][5][0])
    assert (histogram[1], histogram[2], histogram[3]) == ([0.0], [9.0], [10.0])
    assert np.frombuffer(histogram[7][0]).tolist() == [2.0] * 5
