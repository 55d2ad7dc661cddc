"""Under `eager.utils.tensorboard`: pictures and sounds. arrays of any order of axes -> the message
of a PNG (with several frames for a video), or of a WAV file.
"""

from __future__ import annotations

import io
import struct
import wave
import zlib
from typing import Any, Final

import numpy as np

from eager.core.tensor import Tensor
from eager.utils.tensorboard.event_file import field, single

_COLOURS: Final = {1: 0, 2: 4, 3: 2, 4: 6}  # channels -> PNG's number: grey, with alpha, RGB, RGBA
_ROW: Final = 8  # pictures side by side


def array_of(values: Any) -> Any:
    return values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)


def as_bytes(values: Any) -> Any:
    """Pixels as bytes: those of floats from 0 to 1, or bytes already."""
    array = array_of(values)
    if array.dtype == np.uint8:
        return array
    return (array.astype(np.float32) * 255).clip(0, 255).astype(np.uint8)


def image_of(values: Any, dataformats: str) -> Any:
    """Bytes (height, width, channels). Axes are named as in "CHW"; with an N the pictures lie side
    by side. Raises ValueError where names and axes do not fit."""
    array, order = as_bytes(values), dataformats.upper()
    if (
        len(order) != array.ndim
        or len({*order}) != len(order)
        or not {*"HW"} <= {*order} <= {*"NCHW"}
    ):
        raise ValueError(
            f"dataformats={dataformats!r} does not name the axes of {list(array.shape)}: it has "
            "each of H and W, and may have C and N"
        )
    for missing in {*"NC"} - {*order}:
        array, order = array[None], missing + order
    array = array.transpose([order.index(axis) for axis in "NHWC"])
    if array.shape[3] not in _COLOURS:
        raise ValueError(f"a picture has 1 to 4 channels, not {array.shape[3]}")
    return _grid(array)


def _grid(pictures: Any) -> Any:
    """(N, H, W, C) -> (rows * H, columns * W, C), what is left over black."""
    count, height, width, channels = pictures.shape
    columns = min(count, _ROW)
    rows = -(-count // max(columns, 1))
    out = np.zeros((rows * columns, height, width, channels), np.uint8)
    out[:count] = pictures
    out = out.reshape(rows, columns, height, width, channels)
    return out.transpose(0, 2, 1, 3, 4).reshape(rows * height, columns * width, channels)


# ----------------------------------------------------------------------------------- PNG
def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _pixels(image: Any) -> bytes:
    """Compressed rows, each after a 0: it is not filtered."""
    height = image.shape[0]
    rows = np.zeros((height, 1 + image[0].size if height else 1), np.uint8)
    rows[:, 1:] = image.reshape(height, -1)
    return zlib.compress(rows.tobytes())


def png(frames: list[Any], fps: float = 1) -> bytes:
    """A PNG file of pictures (H, W, C) of one size; several of them are shown one after another."""
    height, width, channels = frames[0].shape
    head = struct.pack(">IIBBBBB", width, height, 8, _COLOURS[channels], 0, 0, 0)
    out = [b"\x89PNG\r\n\x1a\n", _chunk(b"IHDR", head)]
    if len(frames) == 1:
        out.append(_chunk(b"IDAT", _pixels(frames[0])))
        return b"".join([*out, _chunk(b"IEND", b"")])
    out.append(_chunk(b"acTL", struct.pack(">II", len(frames), 0)))
    number = 0
    for frame in frames:
        delay = (max(1, round(1000 / fps)), 1000)
        control = struct.pack(">IIIIIHHBB", number, width, height, 0, 0, *delay, 0, 0)
        out.append(_chunk(b"fcTL", control))
        number += 1
        if frame is frames[0]:
            out.append(_chunk(b"IDAT", _pixels(frame)))
        else:
            out.append(_chunk(b"fdAT", struct.pack(">I", number) + _pixels(frame)))
            number += 1
    return b"".join([*out, _chunk(b"IEND", b"")])


def image_value(frames: list[Any], fps: float = 1) -> bytes:
    """The field of a summary's value that holds a picture."""
    height, width, channels = frames[0].shape
    sizes = field(1, height) + field(2, width) + field(3, channels)
    return field(4, sizes + field(4, png(frames, fps)))


def video_frames(values: Any) -> list[Any]:
    """(N, T, C, H, W) -> T pictures, each of N side by side."""
    array = as_bytes(values)
    if array.ndim != 5:
        raise ValueError(f"a video has the axes (N, T, C, H, W), not {list(array.shape)}")
    return [image_of(array[:, t], "NCHW") for t in range(array.shape[1])]


def figure_image(figure: Any) -> Any:
    """A figure of Matplotlib's, drawn without a window: bytes (3, height, width)."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas: Any = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].transpose(2, 0, 1)


# --------------------------------------------------------------------------------- sound
def audio_value(values: Any, sample_rate: int) -> bytes:
    """The field of a summary's value that holds one channel of samples between -1 and 1."""
    samples = array_of(values).squeeze()
    if samples.ndim != 1:
        raise ValueError(f"a sound has one axis, not {list(samples.shape)}")
    raw = (samples.astype(np.float64).clip(-1, 1) * 32767).astype("<i2")
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(sample_rate)
        out.writeframes(raw.tobytes())
    sizes = single(1, sample_rate) + field(2, 1) + field(3, samples.size)
    return field(6, sizes + field(4, file.getvalue()) + field(5, "audio/wav"))
