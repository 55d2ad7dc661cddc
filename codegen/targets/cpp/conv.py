"""Convolutions as library steps: what jitcap_conv.h is told, and its scratch. Writer -> lines."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

from codegen.ir.sizes import Size, blocks, hint, is_static, numel, round_up, same, same_all
from codegen.targets.cpp.step import Writer, array, three
from codegen.targets.cpp.table import size_text
from eager.base.dataclass import dataclass
from eager.base.process import threads

BAND_BYTES: Final = 1 << 18  # a band of source stays in the second-level cache
PARTIAL_BYTES: Final = 1280 << 10  # partial weight gradients: more cost more than they gain
# (places of the result, least channels of a group, least samples): up to so many places the batch
# gives the rows (jitcap_conv_maps.h). Measured: there it is 1.0 to 9 times as fast as bands, beyond
# them slower; few channels fill no lanes, few samples no rows, but with a handful of places neither
# do bands (of a single sample they are 1.4 to 1.8 times as fast, forward, from 5 places on).
BY_BATCH: Final = ((4, 2, 1), (16, 2, 2), (64, 4, 6), (128, 6, 6), (256, 8, 6))
BY_BATCH_INPUT: Final = ((16, 2, 1), *BY_BATCH[2:])  # of gradients by the input
BY_BATCH_WEIGHT: Final = ((16, 2, 1), (64, 8, 6), (256, 12, 6))  # of weight gradients
# Places up to which depthwise ones are by batch, too (channels are their lanes then): at stride 1,
# and above, where bands are slow. Measured: 1.1 to 15 times as fast.
DEPTHWISE: Final = (196, 256)
# Up to so many places of the result, and samples (forward; of gradients by the input), filters are
# not packed (jitcap_conv_patches.h), if there are so many channels for each sample. Measured: 1.1
# to 3.4 times as fast; for more samples forms that pack them are faster.
FEW_PLACES: Final = 16
FEW_SAMPLES: Final = {"conv": 2, "conv_input_grad": 1}
FEW_CHANNELS: Final = 32
SLACK: Final = 128  # elements that the last tile of a band may read past its end
_OPERANDS: Final = "const Conv &, const {T} *, const {T} *, {T} *, ConvRoom<{T}>"
FORWARD: Final = f"void conv<{{T}}>({_OPERANDS})"
INPUT_GRAD: Final = f"void conv_input_grad<{{T}}>({_OPERANDS})"
WEIGHT_GRAD: Final = f"void conv_weight_grad<{{T}}>({_OPERANDS}, i64)"


@dataclass(frozen=True, slots=True)
class Geometry:
    """A convolution: x (n, c, *size), w (o, c / groups, *kernel); three spatial dimensions."""

    n: int
    c: int
    o: int
    groups: int
    size: tuple[int, ...]
    out: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]

    @property
    def taps(self) -> int:
        return numel(self.kernel)

    @property
    def is_product(self) -> bool:
        """True if it is a matrix product per sample, and one that is worth it."""
        ones = same(self.taps, 1) and same(self.groups, 1)
        plain = ones and same_all(self.size, self.out) and not any(self.padding)
        return plain and min(map(hint, (self.c, self.o, numel(self.out)))) >= 32

    def by_batch(self, limits: tuple[tuple[int, int, int], ...]) -> bool:
        """True if the samples are the rows of products."""
        if not is_static((self.n, self.c, self.o, *self.size, *self.out, *self.kernel)):
            return False
        places = max(numel(self.out), numel(self.size) // 4)
        if self.is_depthwise:
            return places <= DEPTHWISE[max(self.stride) > 1] and self.c >= 8
        few = min(self.c, self.o) // self.groups
        return any(places <= p and few >= c and self.n >= n for p, c, n in limits)

    def by_patches(self, samples: int) -> bool:
        """True if it is a product of the filters as they lie, for so many samples at most."""
        if not same(self.groups, 1) or not is_static((self.n, *self.size, *self.out)):
            return False
        few = self.n <= samples and 0 < numel(self.out) <= FEW_PLACES
        return few and min(map(hint, (self.c, self.o))) >= FEW_CHANNELS * self.n

    @property
    def is_depthwise(self) -> bool:
        return self.groups > 1 and self.c == self.o == self.groups

    def text(self) -> str:
        """The initialiser of a jc::Conv."""
        fields = (self.size, self.out, self.kernel, self.stride, self.padding, self.dilation)
        counts = map(size_text, (self.n, self.c, self.o, self.groups))
        return f"{{{', '.join([*counts, *map(array, fields)])}}}"

    def dims(self) -> Iterator[tuple[int, int, int, int, int]]:
        """(size, out, kernel, stride, dilation) per dimension."""
        return zip(self.size, self.out, self.kernel, self.stride, self.dilation, strict=True)


def geometry(x: tuple[int, ...], w: tuple[int, ...], out: tuple[int, ...], attrs: Any) -> Geometry:
    return Geometry(
        x[0], x[1], w[0], attrs["groups"],
        three(x[2:], 1), three(out[2:], 1), three(w[2:], 1),
        three(attrs["stride"], 1), three(attrs["padding"], 0), three(attrs["dilation"], 1),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Reach:
    """One dimension of a band: results, how far apart they read, distance of the outermost taps."""

    count: int
    step: int
    taps: int
    span: int


def _forward(g: Geometry) -> list[_Reach]:
    return [_Reach(out, s, k, (k - 1) * d) for _, out, k, s, d in g.dims()]


def _backward(g: Geometry) -> list[_Reach]:
    """The largest of the interleaved parts."""
    reach = []
    for size, _, k, s, d in g.dims():
        div = math.gcd(s, d)
        taps = blocks(k, s // div)
        reach.append(_Reach(blocks(size, s), 1, taps, (taps - 1) * (d // div)))
    return reach


def band_elements(reach: list[_Reach], channels: int, rows: int) -> int:
    """Elements of the source of `rows` result rows, as Band in the header lays them out."""
    depth, height, across = reach
    width = (across.count + across.span // across.step) * min(across.step, across.span + 1)
    return channels * depth.taps * ((rows - 1) * height.step + height.span + 1) * width + SLACK


def band_room(reach: list[_Reach], channels: int, itemsize: int) -> int:
    """Elements of one member's band: all rows, or what fits the cache, but one row at least."""
    whole = band_elements(reach, channels, reach[1].count)
    return capped(band_elements(reach, channels, 1), whole, BAND_BYTES // itemsize)


def capped(least: Size, whole: Size, most: int) -> Size:
    """`whole`, but `most` at most, and `least` at least; more than that, where it is not known."""
    if is_static((least, whole)):
        return max(least, min(whole, most))
    return least + most


def _room(
    w: Writer, ctype: str, packed: int, offsets: int, room: int, turned: int, by_batch: bool = False
) -> str:
    """Scratch, as the initialiser of a jc::ConvRoom."""
    size = w.step.out_avals[0].dtype.itemsize
    room, turned = (round_up(x * size, 64) // size for x in (room, turned))
    parts = (
        f"({ctype} *){w.take(packed * size)}",
        f"(i64 *){w.take(8 * offsets)}",
        f"({ctype} *){w.take(threads.room() * (room + turned) * size)}",
    )
    sizes = f"{size_text(room)}, {size_text(turned)}, {str(by_batch).lower()}"
    return f"{{{', '.join(parts)}, {sizes}}}"


def _padded(channels: int, itemsize: int) -> int:
    """Channels rounded up to whole tiles of any processor."""
    return round_up(channels, 2 * 64 // itemsize)


def _batch_room(w: Writer, ctype: str, packed: int, lists: int, pairs: int, tiles: int) -> str:
    """Scratch of jitcap_conv_maps.h: both operands, lists of pairs, and a member's tile."""
    tile = 14 * tiles * _padded(1, w.step.out_avals[0].dtype.itemsize)
    return _room(w, ctype, packed, lists + 1 + 2 * pairs, tile, 0, by_batch=True)


def _rows(count: int) -> int:
    """Elements of a step of `count` rows in panels: 14 in 16, or 6 in 8, by the processor."""
    return max(16 * blocks(count, 14), 8 * blocks(count, 6))


def conv(w: Writer) -> None:
    out = w.step.out_avals[0]
    g = geometry(w.aval(0).shape, w.aval(1).shape, out.shape, w.step.attrs)
    _correlate(w, g, "conv", _forward(g), g.c // g.groups, g.o // g.groups)


def conv_input_grad(w: Writer) -> None:
    out = w.step.out_avals[0]
    g = geometry(out.shape, w.aval(1).shape, w.aval(0).shape, w.step.attrs)
    _correlate(w, g, "conv_input_grad", _backward(g), g.o // g.groups, g.c // g.groups)


def _correlate(w: Writer, g: Geometry, name: str, reach: list[_Reach], cin: int, cout: int) -> None:
    """A call that turns `cin` channels of the first operand into `cout`, per group."""
    ctype, size = w.ctype(0), w.step.out_avals[0].dtype.itemsize
    source, weight = w.dense(0), w.dense(1)
    if g.is_product:
        _product(w, g, weight, source, cout)
        return
    if g.by_patches(FEW_SAMPLES[name]):
        _by_patches(w, g, weight, source)
        return
    packed = g.groups * _padded(cout, size) * cin * g.taps
    if g.by_batch(BY_BATCH if name == "conv" else BY_BATCH_INPUT):
        results, places = map(numel, (g.out, g.size) if name == "conv" else (g.size, g.out))
        packed, tiles = packed + g.groups * _rows(g.n) * cin * places, results
        if g.is_depthwise:
            packed, tiles = _padded(g.c, size) * g.taps, places + results
        room = _batch_room(w, ctype, packed, results, results * g.taps, tiles)
    else:
        room = _room(w, ctype, packed, g.taps, band_room(reach, cin, size), 0)
    w.constant("Conv", "g", g.text())
    w.call(f"{name}<{ctype}>", "g", source, weight, w.out(), room)


def _product(w: Writer, g: Geometry, weight: str, source: str, cout: int) -> None:
    """A 1x1 filter: per sample, weights (o, c), or their transpose, times (channels, places)."""
    places, cin = numel(g.size), g.c + g.o - cout
    w.table("i64", "batch", (g.n, 0, cin * places))
    c, line = size_text(g.c), size_text(places)
    order = f"1, {c}" if w.step.name == "conv_input_grad" else f"{c}, 1"
    a, b = f"{{{weight}, {order}}}", f"{{{source}, {line}, 1}}"
    w.call(f"dot<{w.ctype(0)}>", cout, places, cin, a, b, w.out(), 1, "batch")


def _by_patches(w: Writer, g: Geometry, weight: str, source: str) -> None:
    """Per sample, weights (o, c x taps) times (c x taps, places), or their transpose times the
    gradient (o, places)."""
    ctype, size = w.ctype(0), w.step.out_avals[0].dtype.itemsize
    depth, places = g.c * g.taps, numel(g.out)
    patches = f"({ctype} *){w.take(g.n * depth * places * size)}"
    reads = f"(i64 *){w.take(8 * g.taps * places)}"
    w.constant("Conv", "g", g.text())
    dot = f"dot<{ctype}>"
    if w.step.name == "conv":
        w.table("i64", "batch", (g.n, 0, depth * places))
        w.call(f"conv_patches<{ctype}>", "g", source, patches, reads)
        a, b = f"{{{weight}, {depth}, 1}}", f"{{{patches}, 1, {depth}}}"
        w.call(dot, g.o, places, depth, a, b, w.out(), 1, "batch")
    else:
        w.table("i64", "batch", (g.n, 0, g.o * places))
        a, b = f"{{{weight}, 1, {depth}}}", f"{{{source}, {places}, 1}}"
        w.call(dot, depth, places, g.o, a, b, patches, 1, "batch")
        w.call(f"conv_from_patches<{ctype}>", "g", patches, w.out(), reads)


def conv_weight_grad(w: Writer) -> None:
    out = w.step.out_avals[0]
    g = geometry(w.aval(1).shape, out.shape, w.aval(0).shape, w.step.attrs)
    ctype, size = w.ctype(0), out.dtype.itemsize
    grad, source = w.dense(0), w.dense(1)
    cin = g.c // g.groups
    chunks = 1
    if g.by_batch(BY_BATCH_WEIGHT):
        grads, places = _padded(g.o // g.groups, size) * numel(g.out), _rows(cin) * numel(g.size)
        packed, tiles = g.groups * g.n * (grads + places), g.taps
        if g.is_depthwise:
            packed, tiles = 0, numel(g.size) + numel(g.out) + g.taps
        room = _batch_room(w, ctype, packed, g.taps, numel(g.out) * g.taps, tiles)
    else:
        room, chunks = _bands_room(w, g, cin)
    w.constant("Conv", "g", g.text())
    w.call(f"conv_weight_grad<{ctype}>", "g", grad, source, w.out(), room, chunks)


def _bands_room(w: Writer, g: Geometry, cin: int) -> tuple[str, int]:
    """Scratch of a weight gradient by bands, and in how many parts it is summed."""
    ctype, size = w.ctype(0), w.step.out_avals[0].dtype.itemsize
    partial = g.groups * _padded(g.o // g.groups, size) * cin * g.taps
    parts = hint(g.n * g.out[0] * g.out[1])
    chunks = max(1, min(8, parts, PARTIAL_BYTES // hint(partial * size)))
    reach = _forward(g)
    row = g.out[2] * _padded(1, size)
    turned = capped(row, row * g.out[1], BAND_BYTES // size)
    room = _room(w, ctype, chunks * partial, cin * g.taps, band_room(reach, cin, size), turned)
    return room, chunks
