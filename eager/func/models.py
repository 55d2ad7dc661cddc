"""Models for mapped functions: several of one kind -> their state, stacked; a model -> one that can
be vmapped."""

from __future__ import annotations

from typing import Any

from eager.core.tensor import Tensor
from eager.nn.modules.batchnorm import _BatchNorm
from eager.nn.modules.module import Module
from eager.ops.move import stack


def stack_module_state(models: Any) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The parameters and the buffers of models of one kind, stacked: for `vmap` of
    `functional_call`. RuntimeError for none, or for models that differ in kind or mode."""
    if not models:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if any(type(m) is not type(models[0]) for m in models):
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")
    if any(m.training != models[0].training for m in models):
        raise RuntimeError(
            "stack_module_state: Expected all models to have the same training/eval mode."
        )
    parameters = _stacked_by_name([dict(m.named_parameters()) for m in models])
    for name, p in parameters.items():
        asks = dict(models[0].named_parameters())[name].requires_grad
        parameters[name] = p.detach().requires_grad_(asks)
    return parameters, _stacked_by_name([dict(m.named_buffers()) for m in models])


def _stacked_by_name(states: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    return {name: stack([s[name] for s in states]) for name in states[0]}


def replace_all_batch_norm_modules_(root: Module) -> Module:
    """`root`, in which no batch normalisation keeps running statistics any more: it uses those of
    the batch, and can be vmapped."""
    for module in root.modules():
        if isinstance(module, _BatchNorm):
            module.track_running_stats = False
            module.running_mean = module.running_var = module.num_batches_tracked = None
    return root
