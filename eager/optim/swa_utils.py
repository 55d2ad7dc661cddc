"""`eager.optim.swa_utils`: averages of weights over training. (model after each step) -> a model of
averaged parameters (SWA: Izmailov et al. 2018; EMA), its rates and its batch statistics.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from typing import Any

from eager.autograd import no_grad
from eager.construct.interop import tensor
from eager.core.tensor import Tensor
from eager.nn.modules.batchnorm import _BatchNorm
from eager.nn.modules.module import Module
from eager.ops.pointwise import where
from eager.optim.lr_epochs import LRScheduler, _per_group, warn_outside_step
from eager.optim.optimizer import Optimizer

Tensors = Sequence[Tensor]


def _check_decay(decay: float) -> None:
    if decay < 0.0 or decay > 1.0:
        raise ValueError(
            f"Invalid decay value {decay} provided. Please provide a value in [0,1] range."
        )


def get_ema_multi_avg_fn(decay: float = 0.999) -> Callable[..., None]:
    """A function that moves averages (the first list) to the current parameters by 1 - `decay`."""
    _check_decay(decay)

    def ema_update(ema_param_list: Tensors, current_param_list: Tensors, _: Any) -> None:
        with no_grad():
            for average, current in zip(ema_param_list, current_param_list, strict=True):
                if average.is_floating_point() or average.is_complex():
                    average.lerp_(current, 1 - decay)
                else:
                    average.copy_(average * decay + current * (1 - decay))

    return ema_update


def get_swa_multi_avg_fn() -> Callable[..., None]:
    """A function that makes the first list the equal average of one more model, the second."""

    def swa_update(
        averaged_param_list: Tensors, current_param_list: Tensors, num_averaged: Any
    ) -> None:
        with no_grad():
            for average, current in zip(averaged_param_list, current_param_list, strict=True):
                average.copy_(average + (current - average) * (1 / (num_averaged + 1)))

    return swa_update


def get_ema_avg_fn(decay: float = 0.999) -> Callable[..., Tensor]:
    """The moving average of one parameter, as a value."""
    _check_decay(decay)

    def ema_update(ema_param: Tensor, current_param: Tensor, num_averaged: Any) -> Tensor:
        with no_grad():
            return decay * ema_param + (1 - decay) * current_param

    return ema_update


def get_swa_avg_fn() -> Callable[..., Tensor]:
    """The equal average of one parameter, as a value."""

    def swa_update(averaged_param: Tensor, current_param: Tensor, num_averaged: Any) -> Tensor:
        with no_grad():
            return averaged_param + (current_param - averaged_param) / (num_averaged + 1)

    return swa_update


class AveragedModel(Module):
    """A copy of `model` whose parameters (and buffers, if `use_buffers`) are averages.

    `avg_fn(average, current, n_averaged)` gives an average, `multi_avg_fn(averages, currents,
    n_averaged)` changes a list of them in place; the default is the equal average."""

    def __init__(
        self,
        model: Module,
        device: Any = None,
        avg_fn: Callable[..., Any] | None = None,
        multi_avg_fn: Callable[..., Any] | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = deepcopy(model)
        if device is not None:
            self.module.to(device)
        self.register_buffer("n_averaged", tensor(0))
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)

    def update_parameters(self, model: Module) -> None:
        """One more model in the averages; the first is copied (by a mask, not by a branch: the
        count may be known only to a compiled step)."""
        own: list[Tensor] = [*self.module.parameters()]
        given: list[Tensor] = [*model.parameters()]
        if self.use_buffers:
            own += self.module.buffers()
            given += model.buffers()
        averages = [p.detach() for p in own]
        currents = [p.detach() for p in given]
        first = self.n_averaged == 0
        self._average([where(first, c, a) for a, c in zip(averages, currents, strict=True)],
                      averages, currents, first)  # fmt: skip
        if not self.use_buffers:
            for mine, theirs in zip(self.module.buffers(), model.buffers(), strict=True):
                mine.detach().copy_(theirs.detach())
        self.n_averaged += 1

    def _average(self, start: Tensors, averages: Tensors, currents: Tensors, first: Any) -> None:
        """Write `averages`: those of `start`, where the first model is in place already."""
        if self.avg_fn is not None:
            found = [
                self.avg_fn(a, c, self.n_averaged) for a, c in zip(start, currents, strict=True)
            ]
        else:
            found = [a.clone() for a in start]
            (self.multi_avg_fn or get_swa_multi_avg_fn())(found, currents, self.n_averaged)
        for average, current, new in zip(averages, currents, found, strict=True):
            average.copy_(where(first, current, new))


def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Set the statistics of the model's batch norms to the plain averages over `loader` (of inputs,
    or of tuples that begin with them)."""
    norms = [m for m in model.modules() if isinstance(m, _BatchNorm)]
    momenta = [m.momentum for m in norms]
    if not norms:
        return
    was_training = model.training
    model.train()
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None
    with no_grad():
        for batch in loader:
            given = batch[0] if isinstance(batch, list | tuple) else batch
            model(given if device is None else given.to(device))
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
    model.train(was_training)


class SWALR(LRScheduler):
    """From each group's rate to `swa_lr` over `anneal_epochs` ("cos" or "linear"), then fixed."""

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: Any,
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        rates = _per_group(swa_lr, optimizer, "swa_lr")
        for rate, group in zip(rates, optimizer.param_groups, strict=True):
            group["swa_lr"] = rate
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}"
            )
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        self.anneal_strategy = anneal_strategy
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    def _share(self, step: int) -> float:
        t = max(0, min(1, step / max(1, self.anneal_epochs)))
        return t if self.anneal_strategy == "linear" else (1 - math.cos(math.pi * t)) / 2

    def get_lr(self) -> list[Any]:
        warn_outside_step(self)
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, share = self._share(step - 1), self._share(step)
        rates = []
        for group in self.optimizer.param_groups:
            lr, goal = group["lr"], group["swa_lr"]
            start = goal if before == 1 else (lr - before * goal) / (1 - before)
            rates.append(goal * share + start * (1 - share))
        return rates
