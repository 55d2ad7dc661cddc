"""Initial values of parameters. tensor -> the same tensor overwritten (outside the tape), with
PyTorch's distributions."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

from eager import random as rng
from eager.autograd import no_grad
from eager.base.compat_warnings import warn
from eager.base.misspelled import missing
from eager.core.tensor import Tensor
from eager.linalg import qr
from eager.ops.index_and_sort import iota
from eager.random import Generator, in_place

_LINEAR = {
    "linear", "conv1d", "conv2d", "conv3d",
    "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "sigmoid",
}  # fmt: skip


def calculate_gain(nonlinearity: str, param: Any = None) -> float:
    """The factor by which a nonlinearity shrinks the standard deviation of its input. ValueError
    for an unknown one."""
    if nonlinearity in _LINEAR:
        return 1.0
    if nonlinearity == "tanh":
        return 5.0 / 3
    if nonlinearity == "relu":
        return math.sqrt(2.0)
    if nonlinearity == "selu":
        return 3.0 / 4
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else param
        return math.sqrt(2.0 / (1 + slope**2))
    raise ValueError(f"Unsupported nonlinearity {nonlinearity}")


def uniform_(
    tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Generator | None = None
) -> Tensor:
    """Uniform on [a, b)."""
    with no_grad():
        return in_place.uniform_(tensor, a, b, generator=generator)


def normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None
) -> Tensor:
    """Normal with the given mean and standard deviation."""
    with no_grad():
        return in_place.normal_(tensor, mean, std, generator=generator)


def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Generator | None = None,
) -> Tensor:
    """Normal, restricted to [a, b]: the inverse of the distribution function at uniform draws."""

    def below(x: float) -> float:
        return (1.0 + math.erf((x - mean) / (std * math.sqrt(2.0)))) / 2.0

    if mean < a - 2 * std or mean > b + 2 * std:
        warn(
            "trunc_normal_: the mean lies more than 2 std outside [a, b]: the values may not be "
            "distributed as they should"
        )
    with no_grad():
        low, high = 2 * below(a) - 1, 2 * below(b) - 1
        in_place.uniform_(tensor, low, high, generator=generator)
        drawn = tensor.erfinv() * (std * math.sqrt(2.0)) + mean
        return tensor.copy_(drawn.clamp(a, b))


def constant_(tensor: Tensor, val: float) -> Tensor:
    """One value everywhere."""
    with no_grad():
        return tensor.fill_(val)


def ones_(tensor: Tensor) -> Tensor:
    return constant_(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    return constant_(tensor, 0.0)


def eye_(tensor: Tensor) -> Tensor:
    """The identity matrix. ValueError unless 2-D."""
    if tensor.ndim != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    with no_grad():
        rows, columns = tensor.shape
        one = (iota(rows, like=tensor).unsqueeze(1) == iota(columns, like=tensor)).to(tensor.dtype)
        return tensor.copy_(one)


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """The filters that pass each channel through unchanged. ValueError unless 3-, 4- or 5-D."""
    if tensor.ndim not in (3, 4, 5):
        raise ValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    if tensor.shape[0] % groups:
        raise ValueError("dim 0 must be divisible by groups")
    per_group = tensor.shape[0] // groups
    with no_grad():
        tensor.zero_()
        middle = tuple(k // 2 for k in tensor.shape[2:])
        for g in range(groups):
            for d in range(min(per_group, tensor.shape[1])):
                tensor[(g * per_group + d, d, *middle)] = 1.0
    return tensor


def _fans(tensor: Tensor) -> tuple[int, int]:
    """Number of inputs that feed each output, and of outputs that each input feeds."""
    if tensor.ndim < 2:
        raise ValueError(
            "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions"
        )
    field = math.prod(tensor.shape[2:])
    return tensor.shape[1] * field, tensor.shape[0] * field


_calculate_fan_in_and_fan_out = _fans  # PyTorch's name, which programs use


def xavier_uniform_(
    tensor: Tensor, gain: float = 1.0, generator: Generator | None = None
) -> Tensor:
    """Uniform with variance 2 / (fan_in + fan_out) (Glorot, Bengio 2010)."""
    fan_in, fan_out = _fans(tensor)
    bound = gain * math.sqrt(6.0 / (fan_in + fan_out))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Normal with variance 2 / (fan_in + fan_out) (Glorot, Bengio 2010)."""
    fan_in, fan_out = _fans(tensor)
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / (fan_in + fan_out)), generator)


def _kaiming_std(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    return calculate_gain(nonlinearity, a) / math.sqrt(_calculate_correct_fan(tensor, mode))


def _calculate_correct_fan(tensor: Tensor, mode: str) -> int:
    """The number of inputs or outputs; PyTorch's name, which programs use."""
    if (mode := mode.lower()) not in ("fan_in", "fan_out"):
        raise ValueError(f"Mode {mode} not supported, please use one of ['fan_in', 'fan_out']")
    return _fans(tensor)[mode == "fan_out"]


def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Uniform with variance gain^2 / fan (He et al. 2015)."""
    if 0 in tensor.shape:
        warn("initializing a tensor without elements does nothing")
        return tensor
    bound = math.sqrt(3.0) * _kaiming_std(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Normal with variance gain^2 / fan (He et al. 2015)."""
    if 0 in tensor.shape:
        warn("initializing a tensor without elements does nothing")
        return tensor
    return normal_(tensor, 0.0, _kaiming_std(tensor, a, mode, nonlinearity), generator)


def orthogonal_(tensor: Tensor, gain: float = 1, generator: Generator | None = None) -> Tensor:
    """A (semi-)orthogonal matrix over the first dimension and the rest (Saxe et al. 2013)."""
    if tensor.ndim < 2:
        raise ValueError("Only tensors with 2 or more dimensions are supported")
    if tensor.numel() == 0:
        return tensor
    rows = tensor.shape[0]
    columns = tensor.numel() // rows
    with no_grad():
        flat = rng.randn(
            rows, columns, generator=generator, dtype=tensor.dtype, device=tensor.device
        )
        q, r = qr(flat.t() if rows < columns else flat)
        q = q * r.diagonal().sign()  # makes the distribution uniform
        q = q.t() if rows < columns else q
        return tensor.copy_(q.reshape(tensor.shape) * gain)


def sparse_(
    tensor: Tensor, sparsity: float, std: float = 0.01, generator: Generator | None = None
) -> Tensor:
    """Normal, with a fraction `sparsity` of each column set to zero (Martens 2010). ValueError
    unless 2-D."""
    if tensor.ndim != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    rows, columns = tensor.shape
    zeros = math.ceil(sparsity * rows)
    with no_grad():
        in_place.normal_(tensor, 0.0, std, generator=generator)
        for column in range(columns):
            tensor[rng.randperm(rows, generator=generator)[:zeros], column] = 0
    return tensor


# What PyTorch's functions call, and modules that were copied from it.
_no_grad_uniform_, _no_grad_normal_, _no_grad_trunc_normal_ = uniform_, normal_, trunc_normal_
_no_grad_fill_, _no_grad_zero_ = constant_, zeros_


def _older(fn: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """`fn` under its name without the underscore, which PyTorch has from before."""
    name = fn.__name__

    @functools.wraps(fn)
    def renamed(*args: Any, **kwargs: Any) -> Tensor:
        warn(f"nn.init.{name[:-1]} is now deprecated in favor of nn.init.{name}.", FutureWarning)
        return fn(*args, **kwargs)

    return renamed


uniform, normal, constant = _older(uniform_), _older(normal_), _older(constant_)
eye, dirac = _older(eye_), _older(dirac_)
orthogonal, sparse = _older(orthogonal_), _older(sparse_)
xavier_uniform, xavier_normal = _older(xavier_uniform_), _older(xavier_normal_)
kaiming_uniform, kaiming_normal = _older(kaiming_uniform_), _older(kaiming_normal_)

__getattr__ = missing(__name__)
