"""Event files: records with the published checksums, and what was written comes back."""

import io
import struct
import wave
import zlib

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
        writer.add_scalars("acc", {"train": np.array([0.25])}, 4)
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


def written(tmp_path, write):
    """The values of the summaries that `write(writer)` writes."""
    with SummaryWriter(tmp_path / "run") as writer:
        write(writer)
    (path,) = [p for p in (tmp_path / "run").iterdir() if p.is_file()]
    events = [fields(r) for r in records(path)][1:]
    return [fields(fields(e[5][0])[1][0]) if 5 in e else e for e in events]


def pixels(value):
    """Of a summary's picture: its frames as arrays (H, W, C)."""
    picture = fields(value[4][0])
    (height,), (width,), (channels,) = picture[1], picture[2], picture[3]
    raw, at, frames = picture[4][0], 8, []
    while at < len(raw):
        size, kind = struct.unpack_from(">I4s", raw, at)
        data = raw[at + 8 : at + 8 + size]
        assert struct.unpack_from(">I", raw, at + 8 + size)[0] == zlib.crc32(kind + data)
        if kind in (b"IDAT", b"fdAT"):
            rows = zlib.decompress(data if kind == b"IDAT" else data[4:])
            rows = np.frombuffer(rows, np.uint8).reshape(height, -1)
            assert not rows[:, 0].any()
            frames.append(rows[:, 1:].reshape(height, width, channels))
        at += 12 + size
    return frames


@pytest.mark.parametrize("order", ["CHW", "HWC", "WHC"])
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_pictures_of_any_order_of_axes(tmp_path, order, channels):
    image = np.arange(5 * 7 * channels, dtype=np.uint8).reshape(5, 7, channels)
    turned = image.transpose(["HWC".index(axis) for axis in order])
    kinds = [turned, eager.from_numpy(turned.copy()), turned.astype(np.float32) / 255 + 1e-4]
    for value in written(
        tmp_path, lambda w: [w.add_image("x", k, 1, dataformats=order) for k in kinds]
    ):
        np.testing.assert_array_equal(pixels(value)[0], image)
    pillow = pytest.importorskip("PIL.Image")
    np.testing.assert_array_equal(
        np.asarray(pillow.open(io.BytesIO(fields(value[4][0])[4][0]))).reshape(image.shape), image
    )


def test_pictures_side_by_side_figures_and_videos(tmp_path):
    many = eager.arange(10, dtype=eager.uint8).reshape(10, 1, 1, 1).expand(10, 3, 2, 2)

    def write(writer):
        writer.add_images("many", many)
        writer.add_image("plain", eager.ones(2, 3), dataformats="HW")
        writer.add_video("video", many.reshape(2, 5, 3, 2, 2), fps=2)

    many_value, plain, video = written(tmp_path, write)
    (image,) = pixels(many_value)
    assert image.shape == (4, 16, 3)
    assert image[::2, ::2, 0].tolist() == [[0, 1, 2, 3, 4, 5, 6, 7], [8, 9, 0, 0, 0, 0, 0, 0]]
    assert pixels(plain)[0].tolist() == [[[255]] * 3] * 2
    frames = pixels(video)
    assert [frame[0, ::2, 0].tolist() for frame in frames] == [[i, i + 5] for i in range(5)]
    with SummaryWriter(tmp_path / "other") as writer:
        for axes in ("HH", "CH", "HWX", "NCHW"):
            with pytest.raises(ValueError, match="axes"):
                writer.add_image("x", eager.ones(2, 3), dataformats=axes)
        with pytest.raises(ValueError, match="channels"):
            writer.add_image("x", eager.ones(5, 3, 2))


def test_figures(tmp_path):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure = pyplot.figure(figsize=(1, 0.5), dpi=40, facecolor=(1, 0, 0))
    one, two = written(
        tmp_path,
        lambda w: [
            w.add_figure("a", figure, 1, close=False),
            w.add_figure("b", [figure, figure], 2),
        ],
    )
    assert pixels(one)[0].shape == (20, 40, 3)
    assert pixels(one)[0][0, 0].tolist() == [255, 0, 0]
    assert pixels(two)[0].shape == (20, 80, 3)
    assert not pyplot.get_fignums()


def test_sounds(tmp_path):
    (value,) = written(
        tmp_path, lambda w: w.add_audio("a", eager.tensor([[0.0, 0.5, -2.0]]), 1, 8000)
    )
    sound = fields(value[6][0])
    assert (sound[1], sound[2], sound[3], sound[5]) == ([8000.0], [1], [3], [b"audio/wav"])
    with wave.open(io.BytesIO(sound[4][0])) as file:
        assert np.frombuffer(file.readframes(3), "<i2").tolist() == [0, 16383, -32767]


class Net(eager.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = eager.nn.Embedding(5, 4)
        self.body = eager.nn.Sequential(eager.nn.Linear(4, 3), eager.nn.ReLU())
        self.scale = eager.nn.Parameter(eager.ones(1), requires_grad=False)

    def forward(self, tokens, x):
        return (self.body(self.embed(tokens) + x) * self.scale).sum(), x.exp()


def test_the_graph_of_a_model(tmp_path):
    model = Net()
    inputs = (eager.tensor([[1, 2]]), eager.ones(1, 2, 4))
    (event,) = written(tmp_path, lambda w: w.add_graph(model, inputs))
    nodes = {}
    for raw in fields(event[4][0])[1]:
        node = fields(raw)
        shapes = fields(fields(fields(node[5][0])[2][0])[1][0]).get(7, [b""])
        sizes = [[fields(d)[1][0] for d in fields(s).get(2, [])] for s in shapes]
        inner = [name.decode().partition(":")[0] for name in node.get(3, [])]
        nodes[node[1][0].decode()] = (node[2][0].decode(), inner, sizes)
    assert all(source in nodes for _, inner, _ in nodes.values() for source in inner)
    assert nodes["Net/Sequential[body]/Linear[0]/weight"] == ("Parameter", [], [[3, 4]])
    assert nodes["input/x1"] == ("IO Node", [], [[1, 2, 4]])
    assert nodes["output/output.0"][2] == [[]]
    inside = {
        name.rpartition("/")[0]
        for name, (op, _, _) in nodes.items()
        if op not in ("IO Node", "Parameter")
    }
    assert inside == {
        "Net",
        "Net/Embedding[embed]",
        "Net/Sequential[body]/Linear[0]",
        "Net/Sequential[body]/ReLU[1]",
    }
    (adding,) = [n for n, (op, _, _) in nodes.items() if op == "add" and n.startswith("Net/add")]
    assert nodes[adding][1][1] == "input/x1"
    assert model.embed.weight.grad is None
    assert not model.scale.requires_grad
    assert not eager.nn.modules.hooks.EVERY_MODULE.forward
    with (
        SummaryWriter(tmp_path / "other") as writer,
        pytest.raises(ValueError, match="called with"),
    ):
        writer.add_graph(model)


def test_settings_and_their_results(tmp_path):
    with SummaryWriter(tmp_path / "run") as writer:
        writer.add_hparams({"lr": 0.1, "name": "x", "bias": True}, {"loss": 0.5}, run_name="first")
    (path,) = (tmp_path / "run" / "first").iterdir()
    values = [fields(fields(fields(r)[5][0])[1][0]) for r in list(records(path))[1:]]
    assert [v[1][0] for v in values] == [
        b"_hparams_/experiment", b"_hparams_/session_start_info", b"_hparams_/session_end_info", b"loss",
    ]  # fmt: skip
    plugin = fields(fields(values[1][9][0])[1][0])
    assert plugin[1] == [b"hparams"]
    entries = [fields(entry) for entry in fields(fields(plugin[2][0])[3][0])[1]]
    assert {e[1][0]: fields(e[2][0]) for e in entries} == {
        b"lr": {2: [0.1]}, b"name": {3: [b"x"]}, b"bias": {4: [1]},
    }  # fmt: skip


def test_what_is_not_there_says_what_to_use(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        with pytest.raises(NotImplementedError, match="add_figure"):
            writer.add_pr_curve("x", eager.ones(2), eager.ones(2))
        with pytest.raises(ValueError, match="no values"):
            writer.add_histogram("x", eager.ones(0))
        writer.add_histogram("x", eager.arange(9.0), bins="auto")
