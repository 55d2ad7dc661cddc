"""Learning rates over time. (optimizer, epochs counted by `step()`) -> new `lr` in its parameter
groups.

The formulas are the recursive ones of PyTorch, so that rates changed by hand or by another
scheduler in between behave as there.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from types import FunctionType
from typing import Any

from eager.autograd import no_grad
from eager.base.compat_warnings import warn
from eager.core.tensor import Tensor
from eager.optim.optimizer import Optimizer


def _apart(rate: Any) -> Any:
    """A rate that does not change with its group's, which may be a tensor."""
    return rate.detach().clone() if isinstance(rate, Tensor) else rate


def rates(optimizer: Optimizer) -> list[Any]:
    """The rates of all groups as they are now."""
    return [_apart(group["lr"]) for group in optimizer.param_groups]


def put_rate(group: dict[str, Any], rate: Any) -> None:
    """Set a group's rate; into the tensor that it is, if it is one."""
    if isinstance(group["lr"], Tensor):
        with no_grad():
            group["lr"].fill_(rate)
    else:
        group["lr"] = rate


class LRScheduler:
    """Base: counts epochs and writes `get_lr()` into the groups. Construction makes the first step
    (epoch 0)."""

    _last_lr: list[Any]
    _get_lr_called_within_step = False  # schedulers of users ask it, as PyTorch's do

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        self.optimizer = optimizer
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", _apart(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{i}] when resuming an "
                    "optimizer"
                )
        self.base_lrs: list[Any] = [_apart(group["initial_lr"]) for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self._start()

    def _start(self) -> None:
        """The first step, which sets the rates of epoch 0."""
        self._step_count = 0
        self._is_initial = True
        self.step()
        self._is_initial = False

    def get_lr(self) -> list[Any]:
        """The rates for `last_epoch`, one per group."""
        raise NotImplementedError

    def get_last_lr(self) -> list[Any]:
        """The rates that were last set."""
        return self._last_lr

    def step(self, epoch: int | None = None) -> None:
        """Go to the next epoch (or to `epoch`) and set its rates."""
        if not self.optimizer._opt_called and self._step_count == 1:  # in this order: the
            # count is another one at each call, and a compiled step would be, too
            warn(
                "lr_scheduler.step() is called before optimizer.step(): the first learning rate "
                "of the schedule is skipped. Call optimizer.step() first, then lr_scheduler.step()"
            )
        self._step_count += 1
        if epoch is not None:
            warn_of_epoch()
        self._update_lr(epoch)

    def _update_lr(self, epoch: int | None = None) -> None:
        closed = None if epoch is None else getattr(self, "_get_closed_form_lr", None)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        self._get_lr_called_within_step = True
        values = self.get_lr() if closed is None else closed()
        self._get_lr_called_within_step = False
        self._set(values)

    def _set(self, values: Sequence[Any]) -> None:
        for group, lr in zip(self.optimizer.param_groups, values, strict=True):
            put_rate(group, lr)
        self._last_lr = self._now()

    def _now(self) -> list[Any]:
        return rates(self.optimizer)

    def _times(self, factor: float) -> list[Any]:
        return [lr * factor for lr in self._now()]

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer."""
        return {key: value for key, value in self.__dict__.items() if key != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.__dict__.update(state_dict)


_LRScheduler = LRScheduler  # PyTorch's old name


def warn_of_epoch() -> None:
    warn(
        "scheduler.step(epoch) is deprecated: call scheduler.step() once after each epoch, without "
        "the epoch"
    )


def warn_outside_step(scheduler: LRScheduler) -> None:
    """`get_lr` is for `step`: many formulas take the last rate, and would be applied once more."""
    if not scheduler._get_lr_called_within_step:
        warn("get_lr() computes the next learning rates; use get_last_lr() for those that are set")


class LambdaLR(LRScheduler):
    """initial lr * lr_lambda(epoch)."""

    def __init__(self, optimizer: Optimizer, lr_lambda: Any, last_epoch: int = -1) -> None:
        self.lr_lambdas = _per_group(lr_lambda, optimizer, "lr_lambdas")
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        warn_outside_step(self)
        return [
            base * fn(self.last_epoch)
            for fn, base in zip(self.lr_lambdas, self.base_lrs, strict=True)
        ]

    def state_dict(self) -> dict[str, Any]:
        """With the attributes of callable objects in place of them, and None for functions, which
        cannot be saved."""
        kept = [None if isinstance(fn, FunctionType) else dict(vars(fn)) for fn in self.lr_lambdas]
        return {**super().state_dict(), "lr_lambdas": kept}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        own = dict(state_dict)
        for fn, kept in zip(self.lr_lambdas, own.pop("lr_lambdas"), strict=True):
            if kept is not None:
                vars(fn).update(kept)
        super().load_state_dict(own)


class MultiplicativeLR(LambdaLR):
    """lr * lr_lambda(epoch), epoch by epoch."""

    def get_lr(self) -> list[Any]:
        warn_outside_step(self)
        if self._is_initial:
            return self._now()
        return [
            lr * fn(self.last_epoch) for fn, lr in zip(self.lr_lambdas, self._now(), strict=True)
        ]


def _per_group(given: Any, optimizer: Optimizer, name: str) -> list[Any]:
    n = len(optimizer.param_groups)
    if not isinstance(given, list | tuple):
        return [given] * n
    if len(given) != n:
        raise ValueError(f"Expected {n} {name}, but got {len(given)}")
    return list(given)


class StepLR(LRScheduler):
    """lr * gamma every `step_size` epochs."""

    def __init__(
        self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        warn_outside_step(self)
        if self.last_epoch == 0 or self.last_epoch % self.step_size:
            return self._now()
        return self._times(self.gamma)

    def _get_closed_form_lr(self) -> list[Any]:
        return [base * self.gamma ** (self.last_epoch // self.step_size) for base in self.base_lrs]


class MultiStepLR(LRScheduler):
    """lr * gamma at each milestone."""

    def __init__(
        self,
        optimizer: Optimizer,
        milestones: Iterable[int],
        gamma: float = 0.1,
        last_epoch: int = -1,
    ) -> None:
        self.milestones = Counter(milestones)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        warn_outside_step(self)
        passed = 0  # compared and not looked up: so @jit needs no version for each epoch
        for milestone, times in self.milestones.items():
            passed += times * (milestone == self.last_epoch)
        return self._times(self.gamma**passed) if passed else self._now()

    def _get_closed_form_lr(self) -> list[Any]:
        passed = bisect_right(sorted(self.milestones.elements()), self.last_epoch)
        return [base * self.gamma**passed for base in self.base_lrs]


class ConstantLR(LRScheduler):
    """initial lr * factor until epoch `total_iters`."""

    def __init__(
        self,
        optimizer: Optimizer,
        factor: float = 1.0 / 3,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if factor > 1.0 or factor < 0:
            raise ValueError("Constant multiplicative factor expected to be between 0 and 1.")
        self.factor = factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        warn_outside_step(self)
        if self.last_epoch == 0:
            return self._times(self.factor)
        return (
            self._times(1.0 / self.factor) if self.last_epoch == self.total_iters else self._now()
        )

    def _get_closed_form_lr(self) -> list[Any]:
        early = self.last_epoch < self.total_iters
        return [base * (self.factor if early else 1) for base in self.base_lrs]


class LinearLR(LRScheduler):
    """initial lr times a factor that goes from start_factor to end_factor in `total_iters`
    epochs."""

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if start_factor > 1.0 or start_factor <= 0:
            raise ValueError(
                "Starting multiplicative factor expected to be greater than 0 and less or equal "
                "to 1."
            )
        if end_factor > 1.0 or end_factor < 0:
            raise ValueError("Ending multiplicative factor expected to be between 0 and 1.")
        self.start_factor = start_factor
        self.end_factor = end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        warn_outside_step(self)
        if self.last_epoch == 0:
            return self._times(self.start_factor)
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._now()
        gain = self.end_factor - self.start_factor
        before = self.total_iters * self.start_factor + (self.last_epoch - 1) * gain
        return self._times(1.0 + gain / before)

    def _get_closed_form_lr(self) -> list[Any]:
        share = min(self.total_iters, self.last_epoch) / self.total_iters
        factor = self.start_factor + (self.end_factor - self.start_factor) * share
        return [base * factor for base in self.base_lrs]


class ExponentialLR(LRScheduler):
    """lr * gamma every epoch."""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        warn_outside_step(self)
        if self._is_initial:
            return self._now()
        return self._times(self.gamma)

    def _get_closed_form_lr(self) -> list[Any]:
        return [base * self.gamma**self.last_epoch for base in self.base_lrs]


class PolynomialLR(LRScheduler):
    """initial lr * (1 - epoch / total_iters) ** power."""

    def __init__(
        self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1
    ) -> None:
        self.total_iters = total_iters
        self.power = power
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        warn_outside_step(self)
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._now()
        now = 1.0 - self.last_epoch / self.total_iters
        before = 1.0 - (self.last_epoch - 1) / self.total_iters
        return self._times((now / before) ** self.power)

    def _get_closed_form_lr(self) -> list[Any]:
        share = min(self.total_iters, self.last_epoch) / self.total_iters
        return [base * (1.0 - share) ** self.power for base in self.base_lrs]


class CosineAnnealingLR(LRScheduler):
    """From the initial lr to eta_min along half a cosine in `T_max` epochs (Loshchilov, Hutter
    2017)."""

    def __init__(
        self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        warn_outside_step(self)
        if self._is_initial:
            return self._now()
        low, t = self.eta_min, self.T_max
        if self._step_count == 1 and self.last_epoch > 0:
            return self._get_closed_form_lr()
        if (self.last_epoch - 1 - t) % (2 * t) == 0:  # the rate was eta_min: the ratio is 0 / 0
            turn = (1 - math.cos(math.pi / t)) / 2
            return [
                lr + (base - low) * turn
                for base, lr in zip(self.base_lrs, self._now(), strict=True)
            ]
        ratio = (1 + math.cos(math.pi * self.last_epoch / t)) / (
            1 + math.cos(math.pi * (self.last_epoch - 1) / t)
        )
        return [ratio * (lr - low) + low for lr in self._now()]

    def _get_closed_form_lr(self) -> list[Any]:
        share = (1 + math.cos(math.pi * self.last_epoch / self.T_max)) / 2
        return [self.eta_min + (base - self.eta_min) * share for base in self.base_lrs]


class CosineAnnealingWarmRestarts(LRScheduler):
    """Half cosines of T_0, T_0 T_mult, ... epochs, each from the initial lr (Loshchilov, Hutter
    2017)."""

    def __init__(
        self,
        optimizer: Optimizer,
        T_0: int,
        T_mult: int = 1,
        eta_min: float = 0.0,
        last_epoch: int = -1,
    ) -> None:
        if T_0 <= 0 or not isinstance(T_0, int):
            raise ValueError(f"Expected positive integer T_0, but got {T_0}")
        if T_mult < 1 or not isinstance(T_mult, int):
            raise ValueError(f"Expected integer T_mult >= 1, but got {T_mult}")
        self.T_0 = T_0
        self.T_i: Any = T_0
        self.T_mult = T_mult
        self.eta_min = eta_min
        self.T_cur: Any = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        warn_outside_step(self)
        share = (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2
        return [self.eta_min + (base - self.eta_min) * share for base in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        """Go to the next epoch, or to a (fractional) `epoch`."""
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur -= self.T_i
                self.T_i *= self.T_mult
        else:
            self._seek(epoch)
        self._step_count += 1
        self.last_epoch = math.floor(epoch)
        self._get_lr_called_within_step = True
        values = self.get_lr()
        self._get_lr_called_within_step = False
        self._set(values)

    def _seek(self, epoch: float) -> None:
        if epoch < 0:
            raise ValueError(f"Expected non-negative epoch, but got {epoch}")
        if epoch < self.T_0:
            self.T_cur, self.T_i = epoch, self.T_0
        elif self.T_mult == 1:
            self.T_cur, self.T_i = epoch % self.T_0, self.T_0
        else:
            m = self.T_mult
            n = int(math.log(epoch / self.T_0 * (m - 1) + 1, m))
            self.T_cur = epoch - self.T_0 * (m**n - 1) / (m - 1)
            self.T_i = self.T_0 * m**n
