"""Whole programs around library steps: @jit against eager, values, gradients, in-place writes and
errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import eager as torch
from jitcap import jit

F = torch.nn.functional


def transposed(x: Any, w: Any) -> Any:
    return F.conv_transpose2d(x, w, stride=2, padding=1, output_padding=1)


def depthwise_then_pointwise(x: Any, w: Any, v: Any) -> Any:
    return F.conv2d(F.relu(F.conv2d(x, w, padding=1, groups=6)), v)


def volumes(x: Any, w: Any) -> Any:
    return F.conv3d(x, w, stride=(1, 2, 1), padding=1)


def sequences(x: Any, w: Any) -> Any:
    return F.conv1d(x.transpose(1, 2), w, padding=2, dilation=2, groups=2)


def pools(x: Any) -> Any:
    return F.avg_pool2d(F.max_pool2d(x, 2), 3, 2, 1)


def running(x: Any) -> Any:
    return x.cumsum(-1) + x.cumprod(0) + x.cummax(1)[0]


def largest(x: Any) -> Any:
    return x.topk(3, dim=-1)[0] + x.sort(dim=0, descending=True)[0][:, :3]


def halves(x: Any, w: Any) -> Any:
    return F.conv2d(x.to(torch.float16), w.to(torch.float16)).to(torch.float32)


def inverse(x: Any) -> Any:
    return torch.linalg.inv(x.transpose(0, 1)) @ x


DIFFERENTIABLE: list[tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = [
    (transposed, ((2, 6, 5, 7), (6, 4, 3, 3))),
    (depthwise_then_pointwise, ((2, 6, 9, 8), (6, 1, 3, 3), (5, 6, 1, 1))),
    (volumes, ((2, 3, 5, 8, 8), (4, 3, 3, 3, 3))),
    (sequences, ((2, 30, 4), (6, 2, 3))),
    (pools, ((2, 3, 18, 18),)),
    (running, ((7, 9),)),
    (largest, ((20, 40),)),
    (halves, ((2, 3, 8, 8), (5, 3, 3, 3))),
    (inverse, ((4, 4),)),
]


def gradients(f: Callable[..., Any]) -> Callable[..., Any]:
    def run(*xs: Any) -> Any:
        out = f(*xs)
        (out * out).sum().backward()
        return out.detach(), [x.grad for x in xs]

    return run


@pytest.mark.parametrize(("f", "shapes"), DIFFERENTIABLE, ids=lambda v: getattr(v, "__name__", ""))
def test_values_and_gradients(f: Callable[..., Any], shapes: tuple[tuple[int, ...], ...]) -> None:
    xs = [torch.randn(*shape) for shape in shapes]
    if f is inverse:
        xs[0] += 4 * torch.eye(4)
    results = []
    for run in (gradients(f), jit(gradients(f))):
        results.append(run(*(x.clone().requires_grad_() for x in xs)))
    (want, wanted), (got, given) = results
    for a, b in zip((got, *given), (want, *wanted), strict=True):
        scale = float(abs(b).max())
        unit = 2e-3 if f is halves else 1e-5
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=unit, atol=unit * scale)


def scatters(x: Any, index: Any, src: Any) -> Any:
    x.scatter_add_(1, index, src)
    y = x.clone()
    y.scatter_(1, index, src)
    y.index_add_(0, torch.tensor([0, 0, 1]), src[:3] * 2)
    y[torch.tensor([0, 3])] = 1.5
    y[torch.tensor([1, -1]), 0] += 1.0
    return y


def test_writes_in_place() -> None:
    index, src = torch.randint(0, 6, (4, 6)), torch.randn(4, 6)
    a, b = torch.ones(4, 6), torch.ones(4, 6)
    want, got = scatters(a, index, src), jit(scatters)(b, index, src)
    np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-6)
    np.testing.assert_allclose(b.numpy(), a.numpy(), rtol=1e-6)


def test_an_error_in_a_callback_is_the_ops_own() -> None:
    with pytest.raises(RuntimeError, match="Singular matrix"):
        jit(inverse)(torch.zeros(3, 3))


def test_an_index_out_of_range_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="9"):
        jit(scatters)(torch.ones(4, 6), torch.full((4, 6), 9), torch.ones(4, 6))
