"""Learning rates by phases or by results: one-cycle, sequences and chains of schedulers, reduction
on a plateau."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from eager.base.compat_warnings import refuse
from eager.optim.lr_epochs import (
    LRScheduler,
    _per_group,
    put_rate,
    rates,
    warn_of_epoch,
    warn_outside_step,
)
from eager.optim.optimizer import Optimizer


def _cosine(start: float, end: float, share: float) -> float:
    return end + (start - end) / 2.0 * (math.cos(math.pi * share) + 1)


def _line(start: float, end: float, share: float) -> float:
    return (end - start) * share + start


class OneCycleLR(LRScheduler):
    """Up to max_lr and down again in `total_steps` steps, the momentum opposite (Smith, Topin
    2019)."""

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: Any,
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: Any = 0.85,
        max_momentum: Any = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        if total_steps is None:
            if epochs is None or steps_per_epoch is None:
                raise ValueError(
                    "You must define either total_steps OR (epochs AND steps_per_epoch)"
                )
            total_steps = epochs * steps_per_epoch
        if total_steps <= 0:
            raise ValueError(f"Expected positive integer total_steps, but got {total_steps}")
        if pct_start < 0 or pct_start > 1:
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}"
            )
        self.total_steps = total_steps
        self._schedule_phases = _phases(total_steps, pct_start, three_phase)
        self._anneal_func_type = anneal_strategy
        self.cycle_momentum = cycle_momentum
        if last_epoch == -1:
            _set_peaks(optimizer, max_lr, div_factor, final_div_factor)
        if cycle_momentum:
            self._set_momenta(optimizer, base_momentum, max_momentum, last_epoch)
        super().__init__(optimizer, last_epoch)

    def _set_momenta(self, optimizer: Optimizer, base: Any, peak: Any, last_epoch: int) -> None:
        if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
            raise ValueError(
                "optimizer must support momentum or beta1 with `cycle_momentum` option enabled"
            )
        self.use_beta1 = "betas" in optimizer.defaults
        if last_epoch != -1:
            return
        bases = _per_group(base, optimizer, "base_momentum")
        peaks = _per_group(peak, optimizer, "max_momentum")
        for group, low, high in zip(optimizer.param_groups, bases, peaks, strict=True):
            self._write_momentum(group, high)
            group["max_momentum"], group["base_momentum"] = high, low

    def _write_momentum(self, group: dict[str, Any], value: float) -> None:
        if self.use_beta1:
            group["betas"] = (value, *group["betas"][1:])
        else:
            group["momentum"] = value

    def get_lr(self) -> list[Any]:
        warn_outside_step(self)
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueError(
                f"Tried to step {step} times. The specified number of total steps is "
                f"{self.total_steps}"
            )
        between = _line if self._anneal_func_type == "linear" else _cosine
        rates = []
        for group in self.optimizer.param_groups:
            start = 0.0
            for i, phase in enumerate(self._schedule_phases):
                end = phase["end_step"]
                if step <= end or i == len(self._schedule_phases) - 1:
                    share = (step - start) / (end - start)
                    rates.append(between(group[phase["start_lr"]], group[phase["end_lr"]], share))
                    if self.cycle_momentum:
                        low, high = group[phase["start_momentum"]], group[phase["end_momentum"]]
                        self._write_momentum(group, between(low, high, share))
                    break
                start = end
        return rates


def _phases(total: int, share: float, three: bool) -> list[dict[str, Any]]:
    """The last step of each phase, and in which entries of a group it begins and ends: kept in
    `state_dict()` as in PyTorch's."""
    up = ("initial_lr", "max_lr", "max_momentum", "base_momentum")
    down = ("max_lr", "initial_lr" if three else "min_lr", "base_momentum", "max_momentum")
    first = float(share * total) - 1
    phases = [(first, up), (float(2 * share * total) - 2 if three else total - 1, down)]
    if three:
        phases.append((total - 1, ("initial_lr", "min_lr", "max_momentum", "max_momentum")))
    names = ("end_step", "start_lr", "end_lr", "start_momentum", "end_momentum")
    return [dict(zip(names, (end, *ends), strict=True)) for end, ends in phases]


def _set_peaks(optimizer: Optimizer, max_lr: Any, divide: float, final: float) -> None:
    peaks = _per_group(max_lr, optimizer, "max_lr")
    for group, peak in zip(optimizer.param_groups, peaks, strict=True):
        group["initial_lr"] = peak / divide
        group["max_lr"] = peak
        group["min_lr"] = group["initial_lr"] / final


class CyclicLR(LRScheduler):
    """Up from `base_lr` to `max_lr` and down again, over and over; momentum (or beta1) the other
    way (Smith 2017).

    `mode`: "triangular", "triangular2" (half as high each cycle), "exp_range" (gamma ** step as
    high); or `scale_fn` of the cycle or of the iteration (`scale_mode`)."""

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: Any,
        max_lr: Any,
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: Any = 0.8,
        max_momentum: Any = 0.9,
        last_epoch: int = -1,
    ) -> None:
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError("mode is invalid and scale_fn is None")
        base_lrs = _per_group(base_lr, optimizer, "base_lr")
        self.max_lrs = _per_group(max_lr, optimizer, "max_lr")
        down = step_size_up if step_size_down is None else step_size_down
        self.total_size = float(step_size_up + down)
        self.step_ratio = step_size_up / self.total_size
        self.mode, self.gamma, self._scale_fn_custom = mode, gamma, scale_fn
        self.scale_mode = "iterations" if scale_fn is None and mode == "exp_range" else scale_mode
        self.cycle_momentum = cycle_momentum
        if last_epoch == -1:
            for lr, group in zip(base_lrs, optimizer.param_groups, strict=True):
                put_rate(group, lr)
        if cycle_momentum:
            self._cycle_momenta(optimizer, base_momentum, max_momentum, last_epoch)
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def _cycle_momenta(self, optimizer: Optimizer, base: Any, peak: Any, last_epoch: int) -> None:
        if not {"momentum", "betas"} & optimizer.defaults.keys():
            raise ValueError(
                "optimizer must support momentum or beta1 with `cycle_momentum` option enabled"
            )
        self.use_beta1 = "betas" in optimizer.defaults
        self.base_momentums = lows = _per_group(base, optimizer, "base_momentum")
        self.max_momentums = highs = _per_group(peak, optimizer, "max_momentum")
        if last_epoch != -1:
            return
        for group, low, high in zip(optimizer.param_groups, lows, highs, strict=True):
            group["max_momentum"], group["base_momentum"] = high, low

    def scale_fn(self, x: float) -> float:
        """Scale of the height of cycle (or iteration) `x`."""
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        if self.mode == "triangular2":
            return 1 / (2.0 ** (x - 1))
        return self.gamma**x if self.mode == "exp_range" else 1.0

    def get_lr(self) -> list[Any]:
        warn_outside_step(self)
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        up = x <= self.step_ratio
        share = x / self.step_ratio if up else (x - 1) / (self.step_ratio - 1)
        scale = self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            for group, low, high in zip(
                self.optimizer.param_groups, self.base_momentums, self.max_momentums, strict=True
            ):
                momentum = high - (high - low) * share * scale
                if self.use_beta1:
                    group["betas"] = (momentum, *group["betas"][1:])
                else:
                    group["momentum"] = momentum
        return [
            low + (high - low) * share * scale
            for low, high in zip(self.base_lrs, self.max_lrs, strict=True)
        ]


def _check_schedulers(
    kind: str, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None
) -> Optimizer:
    """The optimizer of all of them, which is `optimizer` if that is given. ValueError for none, for
    several optimizers, or for one whose step takes a measure."""
    if not schedulers:
        raise ValueError(f"{kind} expects at least one scheduler, but got no scheduler.")
    wanted = optimizer or schedulers[0].optimizer
    for i, scheduler in enumerate(schedulers):
        if isinstance(scheduler, ReduceLROnPlateau):
            raise ValueError(  # noqa: TRY004 - as PyTorch
                f"{kind} does not support `ReduceLROnPlateau` scheduler as it requires additional "
                f"kwargs to be specified when calling `step`, but got one at index {i} in the "
                "given schedulers sequence."
            )
        if scheduler.optimizer is not wanted:
            raise ValueError(
                f"{kind} expects all schedulers to belong to the same optimizer, but got scheduler "
                f"{type(scheduler).__name__} at index {i} has {scheduler.optimizer}, which is "
                f"different from {type(wanted).__name__}."
            )
    return wanted


def _undo_epoch(scheduler: Any) -> None:
    """Take back the step that the construction of schedulers made, where they are within."""
    for each in scheduler._schedulers:
        if hasattr(each, "_schedulers"):
            _undo_epoch(each)
        else:
            each.last_epoch -= 1


class SequentialLR(LRScheduler):
    """One scheduler after the other, changing at the milestones."""

    def __init__(
        self,
        optimizer: Optimizer,
        schedulers: Sequence[LRScheduler],
        milestones: Sequence[int],
        last_epoch: int = -1,
    ) -> None:
        _check_schedulers("SequentialLR", schedulers, optimizer)
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                "Sequential Schedulers expects number of schedulers provided to be one more than "
                "the number of "
                f"milestone points, but got number of schedulers {len(schedulers)} and the number "
                "of "
                f"milestones to be equal to {len(milestones)}"
            )
        self._schedulers = list(schedulers)
        self._milestones = list(milestones)
        self.last_epoch = last_epoch + 1
        self.optimizer = optimizer
        for group in optimizer.param_groups:  # undo what the schedulers' construction did
            put_rate(group, group["initial_lr"])
        _undo_epoch(self)
        first = self._schedulers[self._number()]
        first._start()
        self._last_lr = first.get_last_lr()

    def _number(self) -> int:
        """The index of the scheduler that is at work at this epoch."""
        return sum(milestone <= self.last_epoch for milestone in self._milestones)

    def step(self, epoch: int | None = None) -> None:
        refuse("SequentialLR.step", "call step()", epoch=epoch)
        self.last_epoch += 1
        number = self._number()
        scheduler = self._schedulers[number]
        if number and self._milestones[number - 1] == self.last_epoch:
            scheduler._update_lr(0)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()

    def state_dict(self) -> dict[str, Any]:
        state = {k: v for k, v in super().state_dict().items() if k != "_schedulers"}
        state["_schedulers"] = [s.state_dict() for s in self._schedulers]
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        own = dict(state_dict)
        for scheduler, state in zip(self._schedulers, own.pop("_schedulers"), strict=True):
            scheduler.load_state_dict(state)
        self.__dict__.update(own)


class ChainedScheduler(LRScheduler):
    """All schedulers at every step."""

    def __init__(
        self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None
    ) -> None:
        self.optimizer = _check_schedulers("ChainedScheduler", schedulers, optimizer)
        self._schedulers = list(schedulers)
        self._last_lr = rates(self.optimizer)

    def step(self, epoch: int | None = None) -> None:
        refuse("ChainedScheduler.step", "call step()", epoch=epoch)
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = rates(self.optimizer)

    def state_dict(self) -> dict[str, Any]:
        return {
            "_schedulers": [s.state_dict() for s in self._schedulers],
            "_last_lr": self._last_lr,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        for scheduler, state in zip(self._schedulers, state_dict["_schedulers"], strict=True):
            scheduler.load_state_dict(state)
        self._last_lr = state_dict["_last_lr"]


class ReduceLROnPlateau(LRScheduler):
    """lr * factor when a measure has not improved for `patience` epochs."""

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: Any = 0,
        eps: float = 1e-8,
    ) -> None:
        if factor >= 1.0:
            raise ValueError("Factor should be < 1.0.")
        if mode not in ("min", "max"):
            raise ValueError(f"mode {mode} is unknown!")
        if threshold_mode not in ("rel", "abs"):
            raise ValueError(f"threshold mode {threshold_mode} is unknown!")
        self.optimizer = optimizer
        self.mode = mode
        self.factor = factor
        self.patience = patience
        self.threshold = threshold
        self.threshold_mode = threshold_mode
        self.cooldown = cooldown
        self.default_min_lr = None if isinstance(min_lr, list | tuple) else min_lr
        self.min_lrs = _per_group(min_lr, optimizer, "min_lrs")
        self.eps = eps
        self.last_epoch = 0
        self._last_lr = rates(optimizer)
        self._reset()

    def _reset(self) -> None:
        self.mode_worse = math.inf if self.mode == "min" else -math.inf
        self.best = self.mode_worse
        self.cooldown_counter = 0
        self.num_bad_epochs = 0

    def step(self, metrics: Any, epoch: int | None = None) -> None:  # type: ignore[override]
        """Report the measure of one epoch."""
        if epoch is not None:
            warn_of_epoch()
        current = float(metrics)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self.is_better(current, self.best):
            self.best = current
            self.num_bad_epochs = 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce()
            self.cooldown_counter = self.cooldown
            self.num_bad_epochs = 0
        self._last_lr = rates(self.optimizer)

    def _reduce(self) -> None:
        for group, least in zip(self.optimizer.param_groups, self.min_lrs, strict=True):
            new = max(group["lr"] * self.factor, least)
            if group["lr"] - new > self.eps:
                put_rate(group, new)

    @property
    def in_cooldown(self) -> bool:
        return self.cooldown_counter > 0

    def is_better(self, a: float, best: float) -> bool:
        """True if `a` improves on `best` by more than the threshold."""
        sign = 1 if self.mode == "max" else -1
        if self.threshold_mode == "rel":
            return sign * a > sign * best * (1 + sign * self.threshold)
        return sign * a > sign * (best + sign * self.threshold)
