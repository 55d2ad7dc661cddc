"""`eager.nn.utils`: a batch normalisation folded into the layer before it. two layers -> one that
gives the same in evaluation."""

from __future__ import annotations

import copy
from typing import Any, TypeVar

from eager.core.tensor import Tensor
from eager.nn.modules.module import Module
from eager.nn.parameter import Parameter

M = TypeVar("M", bound=Module)


def fuse_conv_bn_weights(
    conv_w: Tensor,
    conv_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
    transpose: bool = False,
) -> tuple[Parameter, Parameter]:
    """The weight and bias of a convolution followed by a normalisation with these statistics."""
    scale = (bn_rv + bn_eps).rsqrt()
    scale = scale if bn_w is None else bn_w * scale
    ones = [1] * (conv_w.ndim - 2)
    outputs = (1, -1, *ones) if transpose else (-1, 1, *ones)
    shift = -bn_rm if conv_b is None else conv_b - bn_rm
    bias = shift * scale
    bias = bias if bn_b is None else bias + bn_b
    weight = (conv_w * scale.reshape(outputs)).to(conv_w.dtype)
    needs = (conv_w.requires_grad, conv_w.requires_grad if conv_b is None else conv_b.requires_grad)
    return Parameter(weight.detach(), needs[0]), Parameter(bias.to(conv_w.dtype).detach(), needs[1])


def fuse_linear_bn_weights(
    linear_w: Tensor,
    linear_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor,
    bn_b: Tensor,
) -> tuple[Parameter, Parameter]:
    """The weight and bias of a linear layer followed by a normalisation with these statistics."""
    return fuse_conv_bn_weights(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b)


def _fused(layer: M, bn: Any, **how: Any) -> M:
    if layer.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError("Fusion needs the running statistics of the normalisation")
    out: Any = copy.deepcopy(layer)
    statistics = (bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias)
    out.weight, out.bias = fuse_conv_bn_weights(out.weight, out.bias, *statistics, **how)
    fused: M = out
    return fused


def fuse_conv_bn_eval(conv: M, bn: Any, transpose: bool = False) -> M:
    """A convolution that does what it and a batch normalisation, both in evaluation, do."""
    return _fused(conv, bn, transpose=transpose)


def fuse_linear_bn_eval(linear: M, bn: Any) -> M:
    """A linear layer that does what it and a batch normalisation, both in evaluation, do."""
    return _fused(linear, bn)
