"""Sizes that vary, gradients asked for outside the compiled region: one version serves them all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sized_models import BACKENDS, GPT, Recurrent, close, cross_entropy, floats, ints

import eager
import eager.nn.functional as F
from codegen import Unsupported
from eager import nn
from jitcap import jit
from jitcap.base.diagnostics import JitcapWarning
from jitcap.compile.compile_graph import compile_graph

pytestmark = pytest.mark.once

SIZES = (32, 64, 17, 2, 3, 40, 5, 64)
Batch = Callable[[int], tuple[Any, ...]]


def mlp() -> Any:
    return nn.Sequential(nn.Linear(20, 32), nn.LayerNorm(32), nn.GELU(), nn.Linear(32, 10))


def cnn() -> Any:
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(4, 8, 3, stride=2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(8, 10),
    )  # fmt: skip


def words(n: int) -> tuple[Any, ...]:
    return ints(31, n, 6), ints(31, n, 6, seed=1)


def lengths(n: int) -> tuple[Any, ...]:
    return ints(31, 3, n), ints(31, 3, n, seed=1)


MODELS: dict[str, tuple[Callable[[], Any], Batch]] = {
    "mlp": (mlp, lambda n: (floats(n, 20), ints(10, n))),
    "cnn": (cnn, lambda n: (floats(n, 1, 8, 8), ints(10, n))),
    "gpt": (GPT, words),
    "gpt of many lengths": (GPT, lengths),
    "gru": (lambda: Recurrent(nn.GRU), words),
}


def twins(build: Callable[[], Any]) -> tuple[Any, Any]:
    made = []
    for _ in range(2):
        eager.manual_seed(0)
        made.append(build())
    return made[0], made[1]


def same_gradients(plain: Any, model: Any) -> bool:
    return all(
        close(p.grad, q.grad) and p.grad.stride() == q.grad.stride()
        for p, q in zip(plain.parameters(), model.parameters(), strict=True)
    )


# Convolutions and attention with their gradients take the C++ compiler longest; test_sizes.py has both.
NIGHTLY = {("cnn", "cpp"), ("gpt", "cpp"), ("gpt", "python")}
CASES = [
    pytest.param(name, backend, marks=[pytest.mark.nightly] * ((name, backend) in NIGHTLY))
    for name in MODELS
    for backend in BACKENDS
]


@pytest.mark.parametrize(("name", "backend"), CASES)
def test_models(name: str, backend: str) -> None:
    build, batch = MODELS[name]
    plain, model = twins(build)
    forward = jit(lambda x: model(x), backend=backend, fullgraph=True)
    for n in SIZES if backend != "python" else (5, 6, 2):  # which is slow
        x, y = batch(n)
        losses = []
        for each, parameters in ((plain, plain), (forward, model)):
            parameters.zero_grad()
            out = each(x)
            losses.append(cross_entropy(out.reshape(-1, out.shape[-1]), y))
            losses[-1].backward()
        assert close(*losses), n
        assert same_gradients(plain, model), n
        for p, q in zip(plain.buffers(), model.buffers(), strict=True):
            assert close(p, q), n
    assert forward.stats.compiles == 2, forward.stats.recompiles
    assert not forward.stats.refusals


def test_a_module_that_is_jitted() -> None:
    plain, model = twins(mlp)
    compiled = jit(model, fullgraph=True)
    for n in SIZES:
        x, y = floats(n, 20), ints(10, n)
        for each in (plain, compiled):
            each.zero_grad()
            F.cross_entropy(each(x), y).backward()
        assert same_gradients(plain, model), n


def test_sizes_of_two_calls_at_once() -> None:
    """A size belongs to its call: backward comes in any order, and again."""
    weight = floats(3).requires_grad_()
    step = jit(lambda x: (x * weight).exp().sum(0), backend="cpp", fullgraph=True)
    step(floats(4, 3))
    first, second, third = (step(floats(n, 3)) for n in (5, 7, 9))
    assert step.stats.compiles == 2
    for n, out in ((7, second), (5, first), (9, third), (5, first)):
        weight.grad = None
        out.sum().backward(retain_graph=True)
        mine, weight.grad = weight.grad, None
        (floats(n, 3) * weight).exp().sum().backward()
        assert close(mine, weight.grad), n


@pytest.mark.parametrize("backend", BACKENDS)
def test_outputs_and_inputs_of_many_sizes(backend: str) -> None:
    """Some of the outputs, hooks on them, gradients of inputs, views that pass one on."""

    def parts(x: Any, y: Any) -> tuple[Any, ...]:
        h = (x @ y.t()).tanh()
        return h, h.sum(0), x[1:] * 2, y.t()

    compiled = jit(parts, backend=backend, fullgraph=True)
    for n, m in ((4, 6), (5, 7), (3, 9), (8, 2)):
        for pick in ((0,), (1, 2), (0, 3), (2,), (3,)):
            found: list[list[Any]] = []
            for f in (parts, compiled):
                x, y = floats(n, 3).requires_grad_(), floats(m, 3, seed=1).requires_grad_()
                outs, seen = f(x, y), []
                for i in pick:
                    outs[i].register_hook(seen.append)
                sum((outs[i] * floats(*outs[i].shape, seed=2)).sum() for i in pick).backward()
                found.append([g for g in (x.grad, y.grad, *seen) if g is not None])
            assert len(found[0]) == len(found[1])
            assert all(map(close, *found)), (n, m, pick)
    assert compiled.stats.compiles == 2, compiled.stats.recompiles


@pytest.mark.filterwarnings("ignore:.*runs it again op by op")
@pytest.mark.parametrize("backend", BACKENDS)
def test_derivatives_of_derivatives(backend: str) -> None:
    weight = floats(3).requires_grad_()

    def energy(x: Any) -> Any:
        return (x * weight).tanh().mean(0)

    compiled = jit(energy, backend=backend, fullgraph=True)
    for n in (4, 5, 6, 9):
        found = []
        for f in (energy, compiled):
            x = floats(n, 3).requires_grad_()
            (g,) = eager.autograd.grad(f(x).sum(), x, create_graph=True)
            weight.grad = None
            (g * g).sum().backward()
            found.append((g, x.grad, weight.grad))
        assert all(map(close, *found)), n
    assert compiled.stats.compiles == 2


class Scaled(eager.autograd.Function):
    """A derivative of the user's own, which asks for sizes."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x.shape[0]

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return g * x.shape[0] * (2 if x.shape[0] > 6 else 3)


def test_a_function_of_the_user() -> None:
    compiled = jit(Scaled.apply, backend="eager", fullgraph=True)
    for n in (4, 5, 6, 9, 12):
        x = floats(n, 3).requires_grad_()
        compiled(x).sum().backward()
        assert close(x.grad, x.detach() * 0 + n * (2 if n > 6 else 3)), n
    assert compiled.stats.compiles == 3, compiled.stats.recompiles


def test_inference_compiles_no_backward() -> None:
    model = mlp()
    forward = jit(lambda x: model(x), fullgraph=True)
    for n in SIZES:
        assert close(forward(floats(n, 20)), model(floats(n, 20)))
    assert forward.stats.compiles == 2


def test_verified() -> None:
    model = mlp()
    forward = jit(lambda x: model(x), verify=True, fullgraph=True)
    for n in (4, 5, 7):
        forward(floats(n, 20)).sum().backward()
    assert forward.stats.compiles == 2


def backwards(step: Any, weight: Any, sizes: tuple[int, ...]) -> None:
    for n in sizes:
        weight.grad = None
        step(floats(n, 3)).sum().backward()
        mine, weight.grad = weight.grad, None
        (floats(n, 3) * weight).exp().sum().backward()
        assert close(mine, weight.grad), n


def test_questions_of_a_backward(monkeypatch: pytest.MonkeyPatch) -> None:
    """What compiling a backward asks is no guard of the entry: the backward has it, and for other
    answers there is another one; beyond a limit they run op by op."""
    compiled: list[bool] = []

    def asking(graph: Any, *args: Any, **options: Any) -> Any:
        if graph.name.endswith("_backward"):
            n = next(i.aval.shape[0] for i in graph.inputs if i.aval.ndim == 2)
            compiled.append(n % 3 == 0)
        return compile_graph(graph, *args, **options)

    monkeypatch.setattr("jitcap.pipeline.compile_graph", asking)
    weight = floats(3).requires_grad_()
    step = jit(lambda x: (x * weight).exp(), backend="cpp", fullgraph=True)
    backwards(step, weight, (4, 5, 6, 7, 9, 8, 12))
    assert compiled == [False, False, True]
    assert step.stats.compiles == 2

    monkeypatch.setattr("jitcap.autodiff.backward_cache.VARIANTS", 1)
    step = jit(lambda x: (x * weight).exp(), backend="cpp", fullgraph=True)
    backwards(step, weight, (4, 5, 7))
    with pytest.warns(JitcapWarning, match="op by op: 1 are compiled"):
        backwards(step, weight, (6, 7, 9))


def test_a_backward_that_takes_no_symbols(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = []

    def refusing(graph: Any, *args: Any, **options: Any) -> Any:
        if graph.name.endswith("_backward"):
            if graph.has_symbols:
                raise Unsupported("a symbol")
            compiled.append(graph)
        return compile_graph(graph, *args, **options)

    monkeypatch.setattr("jitcap.pipeline.compile_graph", refusing)
    weight = floats(3).requires_grad_()
    step = jit(lambda x: (x * weight).exp(), backend="cpp", fullgraph=True)
    backwards(step, weight, (4, 5, 6, 5, 6))
    assert (step.stats.compiles, len(compiled)) == (2, 3)
