"""Above the random op: generators and what users draw with them. (generator state, sizes) -> random
tensors.

A `Generator` is two Python ints: a seed, and the ordinal of the next draw. Each random op takes one
ordinal, in program order. The numbers are not PyTorch's for the same seed; the distributions are.
"""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np

from eager.base import dtype as dt
from eager.base.compat_warnings import options
from eager.base.dtype import DType
from eager.core.batched import Batched
from eager.core.dispatch import apply, current_tracer, must_hold
from eager.core.op import REGISTRY
from eager.core.registry import Out, public
from eager.core.tape import mode
from eager.core.tensor import Tensor, wrap
from eager.device import CPU, default, places
from eager.device import device as as_device
from eager.ops.complex import view_as_complex
from eager.ops.define import not_for
from eager.ops.draws import BINOMIAL, POISSON, STANDARD_GAMMA
from eager.ops.random import RANDOM
from eager.ops.search_and_count import searchsorted
from eager.ops.sort import SORT
from eager.ops.view import as_ints
from eager.random.fork import Forked
from eager.sizes.symint import index, integral

_DEFAULT_SEED = 67280421310721  # PyTorch's default seed


class Generator:
    """A stream of random draws: `seed` and `ordinal` are plain ints.

    For the compiler: `next_ordinal` is the only place that advances a generator, and `draw` the
    only caller. Under a tracer `draw` asks `tracer.next_draw(generator)` for a (seed, ordinal) pair
    of run-time scalars instead, and the compiled program advances the generator's `ordinal` as
    plain Python would."""

    def __init__(self, device: Any = "cpu") -> None:
        self.device = as_device(device)
        self.seed_value = _DEFAULT_SEED
        self.ordinal = 0

    def next_ordinal(self) -> int:
        self.ordinal += 1
        return self.ordinal - 1

    def manual_seed(self, seed: int) -> Generator:
        """Start the stream of `seed` (an int of up to 64 bits) from its beginning."""
        self.seed_value = int(seed) & 0xFFFFFFFFFFFFFFFF
        self.ordinal = 0
        return self

    def initial_seed(self) -> int:
        return self.seed_value

    def seed(self) -> int:
        """A seed from the operating system; returns it."""
        self.manual_seed(int.from_bytes(os.urandom(8), "little"))
        return self.seed_value

    def get_state(self) -> Tensor:
        """Seed and ordinal as a uint8 tensor of 16 bytes."""
        words = np.array([self.seed_value, self.ordinal], np.uint64)
        return wrap(words.view(np.uint8).copy())

    def set_state(self, state: Tensor) -> Generator:
        """Continue from what `get_state` returned. Raises RuntimeError for anything else."""
        raw = np.asarray(state._array)
        if raw.dtype != np.uint8 or raw.shape != (16,):
            raise RuntimeError("Generator.set_state: expected the uint8 tensor of get_state()")
        seed, ordinal = np.ascontiguousarray(raw).view(np.uint64).tolist()
        self.seed_value, self.ordinal = seed, ordinal
        return self

    def position(self) -> Any:
        """Position of the stream, for `go_to`: under capture of run-time numbers."""
        return self.seed_value, self.ordinal

    def go_to(self, place: Any) -> None:
        self.seed_value, self.ordinal = place

    def __deepcopy__(self, memo: dict[int, Any]) -> Generator:
        return Generator(self.device).set_state(self.get_state())


default_generator = Generator()
default_generators: dict[str, Generator] = {"cpu": default_generator}  # by device


def generator_of(place: Any) -> Generator:
    """The default generator of a device. Each has a seed and counts draws of its own; of the same
    two, all draw the same numbers."""
    there = as_device(place)
    name = f"cuda:{places.index_of(there)}" if there.type == "cuda" else there.type
    found = default_generators.get(name)
    if found is None:
        found = default_generators[name] = Generator(name).manual_seed(default_generator.seed_value)
    return found


def all_generators() -> list[Generator]:
    """The default generators of all devices that there are."""
    for number in range(places.count()):
        generator_of(f"cuda:{number}")
    return [*default_generators.values()]


@public(method=False)
def manual_seed(seed: Any) -> Generator:
    """Seed the default generators of all devices; the CPU's."""
    for generator in all_generators():
        generator.manual_seed(seed)
    return default_generator


@public(method=False)
def seed() -> int:
    """Seed the default generators of all devices from the operating system; returns the seed."""
    found = default_generator.seed()
    manual_seed(found)
    return found


@public(method=False)
def initial_seed() -> int:
    return default_generator.initial_seed()


@public(method=False)
def get_rng_state() -> Tensor:
    return default_generator.get_state()


@public(method=False)
def set_rng_state(state: Tensor) -> None:
    default_generator.set_state(state)


def fork_rng(
    devices: Any = None,
    enabled: bool = True,
    _caller: str = "fork_rng",
    _devices_kw: str = "devices",
    device_type: str = "cuda",
) -> Forked:
    """Draws in here leave the default generators of the CPU and of `devices` as they were: numbers
    or devices, by default all that there are."""
    del _caller, _devices_kw
    there = range(places.count()) if devices is None else devices
    names = (f"{device_type}:{x}" if isinstance(x, int) else x for x in there)
    return Forked((default_generator, *map(generator_of, names)) if enabled else ())


def draw(
    dist: str,
    shape: tuple[int, ...],
    dtype: DType,
    generator: Generator | None,
    place: Any = CPU,
) -> Tensor:
    """One draw of the random op, on a device; 16-bit floats are drawn in float32 and rounded.
    Complex numbers of two, which a normal draw's variance of 1 is shared by. RuntimeError for a
    generator of another device."""
    if dtype.is_complex:
        rows = set_rows(mode.rows if shape or mode.levels else None)  # two numbers are no rows
        try:
            parts = draw(dist, (*shape, 2), dt.real_of(dtype), generator, place)
        finally:
            set_rows(rows)
        return view_as_complex(parts * math.sqrt(0.5) if dist == "normal" else parts)
    if mode.levels:
        return _draw_for_each(dist, shape, dtype, generator, place)
    if mode.rows is not None and shape:
        return _draw_rows(dist, shape, dtype, generator, place)
    if place is not CPU:
        return _draw_there(dist, shape, dtype, generator, str(places.resolved(place)))
    source = default_generator if generator is None else _fitting(generator, "cpu")
    tracer: Any = current_tracer.get()
    if tracer is None:
        key: tuple[Any, Any] = source.seed_value, source.next_ordinal()
    else:
        key = tracer.next_draw(source)
    out = apply(RANDOM, *key, shape=shape, dtype=dtype.compute, dist=dist)
    return out if dtype.compute is dtype else _narrowed(out, dist, dtype)


def _narrowed(drawn: Tensor, dist: str, dtype: DType) -> Tensor:
    """A draw in 16 bits. A uniform one is cut, not rounded: it stays below 1."""
    if dist == "uniform":
        steps = 2 / dt.finfo(dtype).eps  # from 1/2 to 1 they are the numbers of the type
        drawn = (drawn * steps).floor() / steps
    return drawn.to(dtype)


def _draw_for_each(
    dist: str, shape: tuple[int, ...], dtype: DType, generator: Generator | None, place: Any
) -> Tensor:
    """A draw in a mapped function, as its `randomness` says."""
    levels = mode.levels
    level = levels[-1]
    if level.randomness == "error":
        raise RuntimeError(
            "vmap: called random operation while in randomness error mode. Please either use the "
            "'same' or 'different' randomness flags on vmap or perform the randomness operation "
            "out of vmap"
        )
    differs = level.randomness == "different"
    mode.levels = levels[:-1]
    try:
        value = draw(dist, (level.size, *shape) if differs else shape, dtype, generator, place)
    finally:
        mode.levels = levels
    return wrap(Batched(level, value, differs))


def set_rows(rows: tuple[int, int] | None) -> tuple[int, int] | None:
    """From now on draws are this thread's rows of those for a larger batch: number r, r + n, ...,
    for `rows` = (r, n). What they were before."""
    before, mode.rows = mode.rows, rows
    return before


def _draw_rows(
    dist: str, shape: tuple[int, ...], dtype: DType, generator: Generator | None, place: Any
) -> Tensor:
    """Rows of a draw for all of the batch. Compiled code draws no others: an element depends on its
    index alone."""
    number, parts = rows = mode.rows or (0, 1)
    mode.rows = None
    try:
        whole = draw(dist, (shape[0], parts, *shape[1:]), dtype, generator, place)
    finally:
        mode.rows = rows
    return whole[:, number]


def _draw_there(
    dist: str, shape: tuple[int, ...], dtype: DType, generator: Generator | None, there: str
) -> Tensor:
    if there == "cpu":
        return draw(dist, shape, dtype, generator)
    tracer: Any = current_tracer.get()
    source = generator_of(there) if generator is None else _fitting(generator, there)
    if tracer is None:
        key: tuple[Any, Any] = source.seed_value, source.next_ordinal()
    else:
        key = tracer.next_draw(source)
    out = apply(RANDOM, *key, shape=shape, dtype=dtype.compute, dist=dist, device=there)
    return out if dtype.compute is dtype else _narrowed(out, dist, dtype)


def _fitting(generator: Generator, place: str) -> Generator:
    kinds = [str(x).partition(":")[0] for x in (generator.device, place)]
    if kinds[0] != kinds[1]:
        raise RuntimeError(
            f"Expected a '{kinds[1]}' device type for generator but found '{kinds[0]}'"
        )
    return generator


def _device(device: Any) -> Any:
    """The device on which a constructor draws: as asked, else the default device of this thread."""
    return (default.place or CPU) if device is None else device


def _floating(name: str, dtype: DType | None) -> DType:
    dtype = dt.get_default_dtype() if dtype is None else dtype
    if dtype.category < dt.FLOAT:
        raise NotImplementedError(
            f'"{name}" is not implemented for {dtype}: draw a floating or complex type'
        )
    return dtype


def _finish(x: Tensor, device: Any, requires_grad: bool) -> Tensor:
    x = x if device is None else x.to(device)
    return x.requires_grad_() if requires_grad else x


@public(out=Out(), method=False)
def rand(
    *sizes: Any,
    size: Any = None,
    generator: Generator | None = None,
    out: None = None,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Uniform draws from [0, 1) of shape `size`."""
    if layout or pin_memory:
        options("rand", layout, pin_memory)
    kind = _floating("rand", dtype)
    x = draw("uniform", as_ints(sizes, size), kind, generator, _device(device))
    return _finish(x, device, requires_grad)


@public(out=Out(), method=False)
def randn(
    *sizes: Any,
    size: Any = None,
    generator: Generator | None = None,
    out: None = None,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Draws from the standard normal distribution, of shape `size`."""
    if layout or pin_memory:
        options("randn", layout, pin_memory)
    kind = _floating("randn", dtype)
    x = draw("normal", as_ints(sizes, size), kind, generator, _device(device))
    return _finish(x, device, requires_grad)


def integers(
    low: int,
    high: int,
    shape: tuple[int, ...],
    dtype: DType,
    generator: Generator | None,
    place: Any = CPU,
) -> Tensor:
    if high <= low:
        raise RuntimeError(
            f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}"
        )
    span = high - low
    if span > 1 << 63:
        raise RuntimeError(f"a range of at most 2**63 integers can be drawn from, got {span}")
    if span > 1 << 32:  # two draws make 63 bits
        top = draw("bits", shape, dt.int64, generator, place)
        bits = (top & 0x7FFFFFFF) * (1 << 32) + draw("bits", shape, dt.int64, generator, place)
        if span == 1 << 63:
            return (bits + low).to(dtype)
    else:
        bits = draw("bits", shape, dt.int64, generator, place)
    return (bits % span + low).to(dtype)


@public(out=Out(), method=False)
def randint(
    low: Any = 0,
    high: Any = None,
    size: Any = None,
    *,
    generator: Generator | None = None,
    out: None = None,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Integers from [low, high), or from [0, low) when called as `randint(high, size)`."""
    if layout:
        options("randint", layout)
    if size is None:
        low, high, size = 0, low, high
    elif high is None:
        low, high = 0, low
    shape, kind = as_ints((size,)), dtype or dt.int64
    x = integers(integral(low), integral(high), shape, kind, generator, _device(device))
    return _finish(x, device, requires_grad)


@public(out=Out(), method=False)
def randperm(
    n: int,
    *,
    generator: Generator | None = None,
    out: None = None,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """A random permutation of 0 .. n-1: the order that sorts random bits."""
    if layout or pin_memory:
        options("randperm", layout, pin_memory)
    high, low = (draw("bits", (index(n),), dt.int64, generator, _device(device)) for _ in range(2))
    keys = high * (1 << 20) + low // (1 << 12)  # 52 bits: ties are rare
    order = apply(SORT, keys, dim=0, descending=False)[1].to(dtype or dt.int64)
    return _finish(order, device, requires_grad)


@public(method=False)
def rand_like(
    input: Tensor, *, dtype: DType | None = None, device: Any = None, **kwargs: Any
) -> Tensor:
    """`rand` with x's shape and dtype."""
    place = input.device if device is None else device
    return rand(tuple(input.shape), dtype=dtype or input.dtype, device=place, **_known(kwargs))


@public(method=False)
def randn_like(
    input: Tensor, *, dtype: DType | None = None, device: Any = None, **kwargs: Any
) -> Tensor:
    """`randn` with x's shape and dtype."""
    place = input.device if device is None else device
    return randn(tuple(input.shape), dtype=dtype or input.dtype, device=place, **_known(kwargs))


@public(method=False)
def randint_like(
    input: Tensor,
    low: int | None = None,
    high: int | None = None,
    *,
    dtype: DType | None = None,
    device: Any = None,
    **kwargs: Any,
) -> Tensor:
    """`randint` with x's shape and dtype. TypeError without a bound."""
    if low is None and high is None:
        raise TypeError("randint_like() needs high, the bound that is not reached")
    low, high = (0, low) if high is None else (low or 0, high)
    shape, place = tuple(input.shape), input.device if device is None else device
    return randint(low, high, shape, dtype=dtype or input.dtype, device=place, **_known(kwargs))


def _known(kwargs: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in kwargs.items() if k in ("generator", "requires_grad")}


@public(out=Out())
def bernoulli(
    input: Tensor, p: float | None = None, *, generator: Generator | None = None
) -> Tensor:
    """1 with probability `input` (or `p` everywhere), else 0; of its shape and dtype."""
    if p is None:
        not_for("bernoulli", dt.BOOL, dt.INT)([input.aval])
    kind = input.dtype if input.dtype.is_floating_point else dt.get_default_dtype()
    check_chance(input.detach() if p is None else p)
    uniform = draw("uniform", tuple(input.shape), kind.compute, generator, input.device)
    chance: Any = input.detach() if p is None else p
    drawn = (uniform < chance).to(input.dtype)
    # On the tape, with a gradient of 0, as in PyTorch.
    return apply(REGISTRY["where"], uniform >= 0, drawn, input) if input.requires_grad else drawn


def in_both(number: float, dtype: DType) -> Any:
    """The number to add to draws: to both parts of complex ones."""
    return number * (1 + 1j) if dtype.is_complex else number


@public(out=Out(), method=False)
def normal(
    mean: Any = 0.0,
    std: Any = 1.0,
    size: Any = None,
    *,
    generator: Generator | None = None,
    out: None = None,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Normal draws with a mean and a standard deviation that are tensors or numbers (then with a
    `size`)."""
    tensors = [t for t in (mean, std) if isinstance(t, Tensor)]
    if size is None:
        if not tensors:
            raise TypeError("normal(): two numbers need a size")
        size = (mean + std).shape if len(tensors) == 2 else tensors[0].shape
        dtype, device = tensors[0].dtype, tensors[0].device if device is None else device
    if layout or pin_memory:
        options("normal", layout, pin_memory)
    if isinstance(std, Tensor):
        must_hold((std >= 0).all(), "normal expects all elements of std >= 0.0")
    elif std < 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std}")
    z = randn(tuple(size), generator=generator, dtype=dtype, device=device)
    drawn = z * std + (mean if tensors else in_both(mean, z.dtype))
    return drawn.requires_grad_() if requires_grad else drawn


@public(out=Out(exact=True))
def multinomial(
    input: Tensor,
    num_samples: int,
    replacement: bool = False,
    *,
    generator: Generator | None = None,
) -> Tensor:
    """Indices drawn with the (unnormalised) weights in the last dimension; (..., num_samples)
    int64.

    Without replacement by exponential races: the smallest of Exp(1) / weight wins with the weight's
    probability, the next smallest comes next (Efraimidis and Spirakis, 2006). With replacement, by
    inverting the cumulative sum. Raises RuntimeError where fewer places than `num_samples` are
    asked for."""
    n = input.shape[-1]
    if input.ndim not in (1, 2):
        raise RuntimeError("prob_dist must be 1 or 2 dim")
    if num_samples <= 0:
        raise RuntimeError("cannot sample n_sample <= 0 samples")
    if not replacement and num_samples > n:
        raise RuntimeError(
            "cannot sample n_sample > prob_dist.size(-1) samples without replacement"
        )
    _check_weights(input)
    wide = input.detach()
    wide = wide if wide.dtype is dt.float64 else wide.to(dt.float32)
    if replacement and num_samples > 1:
        total = wide.cumsum(-1)
        shape = (*input.shape[:-1], num_samples)
        u = draw("uniform", shape, wide.dtype, generator, input.device)
        return searchsorted(total, u * total[..., -1:], right=True).clamp(max=n - 1)
    u = draw("uniform", tuple(input.shape), wide.dtype, generator, input.device)
    race = -((-u).log1p()) / wide  # Exp(1) / weight; a weight of 0 gives infinity
    race = race.masked_fill(wide == 0, math.inf)
    return apply(SORT, race, dim=input.ndim - 1, descending=False)[1][..., :num_samples]


def _key(generator: Generator | None, beside: Tensor) -> Tensor:
    """Four 32-bit words, where another operand lives. RuntimeError where draws are rows of those
    for a larger batch, which these words do not number."""
    if mode.rows is not None:
        raise RuntimeError("gamma, Poisson and binomial draws cannot be rows of a whole batch's")
    return draw("bits", (4,), dt.int64, generator, beside.device)


@public(method=False)
def poisson(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Poisson draws of the rates `input`, in its shape and dtype. RuntimeError for a negative
    rate."""
    if not input.dtype.is_floating_point:
        raise NotImplementedError(f'"poisson_cpu" not implemented for {input.dtype}')
    return apply(POISSON, input.detach(), _key(generator, input))


def check_chance(p: Any) -> None:
    """RuntimeError for what is no probability."""
    what = "bernoulli expects all probabilities to be in [0, 1]"
    if isinstance(p, Tensor):
        must_hold(((p >= 0) & (p <= 1)).all(), what)
    elif not 0 <= p <= 1:
        raise RuntimeError(f"{what}, but found p={p}")


@public(method=False)
def binomial(count: Tensor, prob: Tensor, generator: Generator | None = None) -> Tensor:
    """Number of successes in `count` trials of probability `prob`. RuntimeError for others."""
    return apply(BINOMIAL, count.detach(), prob.detach(), _key(generator, count))


@public(method=False)
def _standard_gamma(concentration: Tensor, generator: Generator | None = None) -> Tensor:
    """Gamma draws of rate 1, differentiable in the concentration."""
    return apply(STANDARD_GAMMA, concentration, _key(generator, concentration))


def _check_weights(input: Tensor) -> None:
    """RuntimeError for weights that are no distribution."""
    if not input.dtype.is_floating_point:
        raise RuntimeError(
            f"multinomial only supports floating-point dtypes for input, got: {input.dtype}"
        )
    if input.shape[-1] > 1 << 24:
        raise RuntimeError("number of categories cannot exceed 2^24")
    if not input.numel():
        return
    must_hold(
        (input.isfinite() & (input >= 0)).all(),
        "probability tensor contains either `inf`, `nan` or element < 0",
    )
    must_hold(
        (input.sum(-1) > 0).all(),
        "invalid multinomial distribution (sum of probabilities <= 0)",
    )
