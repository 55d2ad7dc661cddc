"""At the edge: `functorch`, the package that PyTorch ships for programs older than `torch.func`."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

from eager import nn
from eager.core.tensor import Tensor
from eager.func import (
    functional_call,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    stack_module_state,
    vjp,
    vmap,
)

__all__ = [
    "combine_state_for_ensemble",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "make_functional",
    "make_functional_with_buffers",
    "vjp",
    "vmap",
]


def make_functional_with_buffers(
    model: nn.Module, disable_autograd_tracking: bool = False
) -> tuple[Callable[..., Any], tuple[Tensor, ...], tuple[Tensor, ...]]:
    """A function (parameters, buffers, *args) that does what a copy of `model` does, and the
    copy's parameters and buffers; the parameters ask for no gradient if
    `disable_autograd_tracking`."""
    apart = copy.deepcopy(model)
    names = [n for n, _ in apart.named_parameters()], [n for n, _ in apart.named_buffers()]

    def call(params: Sequence[Tensor], buffers: Sequence[Tensor], *args: Any, **kwargs: Any) -> Any:
        states = tuple(
            dict(zip(each, values, strict=True))
            for each, values in zip(names, (params, buffers), strict=True)
        )
        return functional_call(apart, states, args, kwargs)

    parameters: tuple[Tensor, ...] = tuple(apart.parameters())
    if disable_autograd_tracking:
        parameters = tuple(p.detach() for p in parameters)
    return call, parameters, tuple(apart.buffers())


def make_functional(
    model: nn.Module, disable_autograd_tracking: bool = False
) -> tuple[Callable[..., Any], tuple[Tensor, ...]]:
    """A function (parameters, *args) that does what a copy of `model` does, and the copy's
    parameters. RuntimeError for a model with buffers."""
    call, parameters, buffers = make_functional_with_buffers(model, disable_autograd_tracking)
    if buffers:
        raise RuntimeError(
            "make_functional: the model has buffers; use make_functional_with_buffers"
        )
    return lambda params, *args, **kwargs: call(params, (), *args, **kwargs), parameters


def combine_state_for_ensemble(
    models: Sequence[nn.Module],
) -> tuple[Callable[..., Any], tuple[Tensor, ...], tuple[Tensor, ...]]:
    """A function (parameters, buffers, *args) of models of one kind, for `vmap`, and what the
    models have, stacked. RuntimeError for none, or for models that differ."""
    parameters, buffers = stack_module_state(models)
    call, _, _ = make_functional_with_buffers(models[0])
    return call, tuple(parameters.values()), tuple(buffers.values())
