"""Above the random ops: tensors overwritten with draws. (tensor, parameters) -> the tensor.

The generators, and draws that make tensors of their own, stand in `eager/random/__init__.py`.
"""

from __future__ import annotations

import math
from typing import Any

from eager.base import dtype as dt
from eager.core.registry import public
from eager.core.tensor import Tensor
from eager.random import Generator, check_chance, draw, in_both, integers


def _fill(x: Tensor, value: Tensor) -> Tensor:
    x.copy_(value)
    return x


@public("uniform_", namespace=False)
def uniform_(
    x: Tensor, a: float = 0.0, b: float = 1.0, *, generator: Generator | None = None
) -> Tensor:
    """Overwrite x with uniform draws from [a, b)."""
    if a > b:
        raise RuntimeError(
            f"uniform_ expects to return a [from, to) range, but found from={a} > to={b}"
        )
    drawn = draw("uniform", tuple(x.shape), x.dtype, generator, x.device) * (b - a)
    return _fill(x, drawn + in_both(a, x.dtype))


@public("normal_", namespace=False)
def normal_(
    x: Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Generator | None = None
) -> Tensor:
    """Overwrite x with normal draws."""
    if std < 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std}")
    drawn = draw("normal", tuple(x.shape), x.dtype, generator, x.device) * std
    return _fill(x, drawn + in_both(mean, x.dtype))


@public("bernoulli_", namespace=False)
def bernoulli_(x: Tensor, p: Any = 0.5, *, generator: Generator | None = None) -> Tensor:
    """Overwrite x with 1 with probability p (a number or a tensor), else 0."""
    check_chance(p)
    uniform = draw("uniform", tuple(x.shape), dt.float32, generator, x.device)
    return _fill(x, (uniform < p).to(x.dtype))


def _range_asked(bounds: tuple[Any, ...], to: Any, known: dict[str, Any]) -> tuple[int, int | None]:
    """[low, high) of the arguments of `random_`, where one bound alone is the upper one."""
    low = known.pop("from", None)  # a word of Python: it can be no parameter
    given = [*([] if low is None else [low]), *bounds, *([] if to is None else [to])]
    if known or len(given) > 2:
        raise TypeError(f"random_() takes (to) or (from, to), got {given} and {sorted(known)}")
    if len(given) == 2:
        return int(given[0]), None if given[1] is None else int(given[1])
    return (0, int(given[0])) if given else (0, None)


@public("random_", namespace=False)
def random_(
    x: Tensor,
    *bounds: Any,
    to: int | None = None,
    generator: Generator | None = None,
    **known: Any,
) -> Tensor:
    """Overwrite x with integers: `random_(to)` from [0, to), `random_(from, to)` from [from, to),
    by default from 0 to all that its dtype holds exactly (2**24 for float32).

    RuntimeError for an empty range or one that the dtype does not hold."""
    low, high = _range_asked(bounds, to, known)
    least, largest = dt.exact_range(x.dtype)
    if high is None:
        high = largest + 1
    if low >= high:
        raise RuntimeError(
            f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}"
        )
    if not x.is_floating_point() and not least <= low < high <= largest + 1:
        raise RuntimeError(f"random_: from={low} or to={high} is out of bounds for {x.dtype}")
    return _fill(x, integers(low, high, tuple(x.shape), x.dtype, generator, x.device))


@public("exponential_", namespace=False)
def exponential_(x: Tensor, lambd: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Overwrite x with draws of the exponential distribution with rate `lambd`."""
    if lambd <= 0:
        raise RuntimeError(f"exponential_ expects lambda > 0.0, but found lambda={lambd}")
    u = draw("uniform", tuple(x.shape), x.dtype.compute, generator, x.device)
    return _fill(x, -((-u).log1p()) / lambd)


@public("cauchy_", namespace=False)
def cauchy_(
    x: Tensor, median: float = 0.0, sigma: float = 1.0, *, generator: Generator | None = None
) -> Tensor:
    """Overwrite x with draws of the Cauchy distribution."""
    if sigma <= 0:
        raise RuntimeError(f"cauchy_ expects sigma > 0.0, but found sigma={sigma}")
    u = draw("uniform", tuple(x.shape), x.dtype, generator, x.device)
    return _fill(x, ((u - 0.5) * math.pi).tan() * sigma + median)


@public("log_normal_", namespace=False)
def log_normal_(
    x: Tensor, mean: float = 1.0, std: float = 2.0, *, generator: Generator | None = None
) -> Tensor:
    """Overwrite x with numbers whose logarithms are normal draws."""
    if std <= 0:
        raise RuntimeError(f"log_normal_ expects std > 0.0, but found std={std}")
    return _fill(
        x, (draw("normal", tuple(x.shape), x.dtype, generator, x.device) * std + mean).exp()
    )


@public("geometric_", namespace=False)
def geometric_(x: Tensor, p: float, *, generator: Generator | None = None) -> Tensor:
    """Overwrite x with how often one tries until a chance of `p` comes true."""
    if not 0 < p < 1:
        raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={p}")
    kind = x.dtype if x.dtype.is_floating_point else dt.float32
    u = draw("uniform", tuple(x.shape), kind.compute, generator, x.device)
    return _fill(x, ((-u).log1p() / math.log1p(-p)).ceil().clamp(min=1).to(x.dtype))
