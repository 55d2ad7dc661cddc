"""L-BFGS: quasi-Newton steps from the last few changes of parameters and gradients. closure ->
parameters changed in place.

Source: Nocedal, Wright, "Numerical Optimization" (2006), algorithms 7.4 and 7.5 (two-loop
recursion), 3.5 and 3.6 (strong Wolfe line search), with PyTorch's settings and stopping rules.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from eager.autograd import enable_grad, no_grad
from eager.core.tensor import Tensor
from eager.nn.utils.convert import parameters_to_vector
from eager.optim.optimizer import Optimizer, Params, check, settings, zeros_like

Evaluate = Callable[[float], tuple[float, Tensor]]


class LBFGS(Optimizer):
    """Needs `step(closure)`, where the closure computes the loss and its gradients anew; one
    parameter group only."""

    by_element = False

    def __init__(
        self,
        params: Params,
        lr: float = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        check("learning rate", lr, lr >= 0)
        if max_eval is None:
            max_eval = max_iter * 5 // 4
        super().__init__(params, settings(locals()))
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")
        if line_search_fn not in (None, "strong_wolfe"):
            raise RuntimeError("only 'strong_wolfe' is supported")

    @property
    def _params(self) -> list[Tensor]:
        return self.param_groups[0]["params"]

    def _gradient(self) -> Tensor:
        return parameters_to_vector(
            [zeros_like(p) if p.grad is None else p.grad for p in self._params]
        )

    def _move(self, size: float, direction: Tensor) -> None:
        start = 0
        for p in self._params:
            n = p.numel()
            p.add_(direction[start : start + n].reshape(p.shape), alpha=size)
            start += n

    def step(self, closure: Callable[[], Any]) -> Any:  # type: ignore[override]
        """Up to `max_iter` iterations, each with the loss and its gradients of `closure`. Returns
        the loss before the first."""

        def evaluate() -> Any:
            with enable_grad():
                return closure()

        with no_grad():
            return self._iterate(evaluate)

    def _iterate(self, evaluate: Callable[[], Any]) -> Any:
        group, state = self.param_groups[0], self.state[self._params[0]]
        state.setdefault("n_iter", 0)
        first = evaluate()
        loss, gradient = float(first), self._gradient()
        state["func_evals"] = state.get("func_evals", 0) + 1
        evaluations = 1
        for left in reversed(range(group["max_iter"])):
            if float(gradient.abs().max()) <= group["tolerance_grad"]:
                break
            direction = _direction(state, gradient, group["history_size"])
            slope = float((gradient * direction).sum())
            size = float(group["lr"])
            if state["n_iter"] == 1:  # no curvature known: a short step
                size *= min(1.0, 1.0 / float(gradient.abs().sum()))
            before, size_used = loss, size
            state["t"], state["prev_loss"] = size, before
            if slope > -group["tolerance_change"]:
                break
            if group["line_search_fn"] is None:
                self._move(size, direction)
                count = 0
                if left:  # the next step begins with this evaluation
                    loss, gradient, count = float(evaluate()), self._gradient(), 1
            else:
                along = self._along(direction, evaluate)
                start = (loss, gradient, slope)
                loss, gradient, size_used, count = _strong_wolfe(
                    along, size, direction, start, max(group["max_eval"] - evaluations, 0)
                )
                self._move(size_used, direction)
            state["t"] = size_used
            evaluations += count
            state["func_evals"] += count
            small = float((direction * size_used).abs().max()) <= group["tolerance_change"]
            if not left or evaluations >= group["max_eval"] or small:
                break
            if abs(loss - before) < group["tolerance_change"]:
                break
        return first

    def _along(self, direction: Tensor, evaluate: Callable[[], Any]) -> Evaluate:
        """The loss and gradient at a distance along `direction`; the parameters are put back."""

        def at(size: float) -> tuple[float, Tensor]:
            saved = [p.clone() for p in self._params]
            self._move(size, direction)
            loss, gradient = float(evaluate()), self._gradient()
            for p, value in zip(self._params, saved, strict=True):
                p.copy_(value)
            return loss, gradient

        return at


def _direction(state: dict[str, Any], gradient: Tensor, history: int) -> Tensor:
    """Minus the inverse Hessian's estimate times the gradient; the last change joins the history
    first."""
    steps, changes = state.setdefault("old_stps", []), state.setdefault("old_dirs", [])
    inverses = state.setdefault("ro", [])  # of the curvature along each step
    state["n_iter"] += 1
    if state["n_iter"] == 1:
        state["H_diag"] = 1.0
        direction = -gradient
    else:
        y, s = gradient - state["prev_flat_grad"], state["d"] * state["t"]
        curvature = (y * s).sum()
        if float(curvature) > 1e-10:
            if len(changes) == history:
                del changes[0], steps[0], inverses[0]
            changes.append(y)
            steps.append(s)
            inverses.append(1.0 / curvature)
            state["H_diag"] = curvature / (y * y).sum()
        direction = _two_loops(gradient, changes, steps, inverses, state["H_diag"])
    state["prev_flat_grad"], state["d"] = gradient.clone(), direction
    return direction


def _two_loops(
    gradient: Tensor,
    changes: list[Tensor],
    steps: list[Tensor],
    inverses: list[Tensor],
    scale: Any,
) -> Tensor:
    q = -gradient
    weights = []
    for y, s, ro in zip(reversed(changes), reversed(steps), reversed(inverses), strict=True):
        weight = (s * q).sum() * ro
        weights.append(weight)
        q = q - y * weight
    r = q * scale
    for y, s, ro, weight in zip(changes, steps, inverses, reversed(weights), strict=True):
        r = r + s * (weight - (y * r).sum() * ro)
    return r


_C1, _C2 = 1e-4, 0.9
_SMALLEST = 1e-9  # a bracket whose ends move no parameter further than this is not shrunk

_Point = tuple[float, float, Tensor, float]  # step size, loss, gradient, slope


def _strong_wolfe(
    at: Evaluate, size: float, direction: Tensor, start: tuple[float, Tensor, float], most: int
) -> tuple[float, Tensor, float, int]:
    """(loss, gradient, step size, evaluations) of a point with sufficient decrease and a flat
    enough slope. The first evaluation is not one of the `most`."""

    def evaluate(size: float) -> _Point:
        loss, gradient = at(size)
        return size, loss, gradient, float((gradient * direction).sum())

    loss0, _, slope0 = start
    previous: _Point = (0.0, *start)
    point = evaluate(size)
    for i in range(most):
        if point[1] > loss0 + _C1 * point[0] * slope0 or (i > 1 and point[1] >= previous[1]):
            break
        if abs(point[3]) <= -_C2 * slope0:
            return point[1], point[2], point[0], i + 1
        if point[3] >= 0:
            break
        low = point[0] + 0.01 * (point[0] - previous[0])
        size = _between(previous, point, low, point[0] * 10)
        previous, point = point, evaluate(size)
    else:  # no bracket found: the start, or the last point
        i, previous = most, (0.0, *start)
    (size, loss, gradient, _), more = _zoom(
        evaluate, direction, (loss0, slope0), previous, point, most - i
    )
    return loss, gradient, size, i + 1 + more


def _between(a: _Point, b: _Point, low: float, high: float) -> float:
    """The minimum of the cubic through two points and their slopes, kept in [low, high]."""
    if a[0] == b[0]:
        return (low + high) / 2
    d1 = a[3] + b[3] - 3 * (a[1] - b[1]) / (a[0] - b[0])
    square = d1 * d1 - a[3] * b[3]
    if not square >= 0:
        return (low + high) / 2
    if a[0] > b[0]:
        a, b = b, a
    d2 = square**0.5
    above, below = b[3] + d2 - d1, b[3] - a[3] + 2 * d2
    if not below:  # a straight line has its minimum at one end
        return high if above < 0 else low
    return min(max(b[0] - (b[0] - a[0]) * (above / below), low), high)


def _zoom(
    evaluate: Callable[[float], _Point],
    direction: Tensor,
    start: tuple[float, float],
    first: _Point,
    second: _Point,
    most: int,
) -> tuple[_Point, int]:
    """Shrink a bracket; (its end with the smaller loss, evaluations)."""
    loss0, slope0 = start
    ends = [first, second]
    low = int(second[1] < first[1])
    was_near = False
    largest = float(direction.abs().max())
    for count in range(most):
        left, right = sorted((first[0], second[0]))
        width = right - left
        if width * largest < _SMALLEST:
            return ends[low], count
        size = _between(first, second, left, right)
        near = min(right - size, size - left) < 0.1 * width
        # Near an end a point tells little: the second in a row, or the end itself, moves inwards.
        if near and (was_near or not left < size < right):
            size = right - 0.1 * width if right - size < size - left else left + 0.1 * width
            near = False
        was_near = near
        point = evaluate(size)
        if point[1] > loss0 + _C1 * size * slope0 or point[1] >= ends[low][1]:
            ends[1 - low] = point
            low = int(ends[1][1] < ends[0][1])
        elif abs(point[3]) <= -_C2 * slope0:
            return point, count + 1
        else:
            if point[3] * (ends[1 - low][0] - ends[low][0]) >= 0:
                ends[1 - low] = ends[low]
            ends[low] = point
        first, second = ends
    return ends[low], most
