"""Every module in a training step under `jit` against the same step in eager: losses, parameters, buffers."""

import copy

import numpy as np
import pytest

pytest.importorskip("torch")
from nn_cases import CASES, arrays, flat, tensors  # noqa: E402

import eager  # noqa: E402
from jitcap import jit  # noqa: E402

pytestmark = [pytest.mark.compiled, pytest.mark.slow]


# One graph for each would take minutes of the C++ compiler.
TOGETHER = 4
SPLITS = ("AdaptiveLogSoftmaxWithLoss",)  # which rows a cluster has is known when it runs
WHOLE = [case for case in CASES if case[0] not in SPLITS]
GROUPS = [WHOLE[i : i + TOGETHER] for i in range(0, len(WHOLE), TOGETHER)]


def training_step(module):
    parameters = list(module.parameters())
    optimizer = eager.optim.SGD(parameters, lr=0.05, momentum=0.9) if parameters else None

    def step(inputs):
        outs = flat(module(*inputs))
        loss = sum((t * t).mean() for t in outs if t.dtype.is_floating_point)
        if optimizer is not None and loss.requires_grad:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return loss

    return step


def training_steps(modules):
    steps = [training_step(module) for module in modules]

    def run(inputs):
        return [step(given) for step, given in zip(steps, inputs, strict=True)]

    return run


def made(name, args, kwargs, specs):
    """The module, and its inputs."""
    given = [a.astype(np.float32) if a.dtype.kind == "f" else a for a in arrays(specs)]
    inputs = [t.detach() for t in tensors(eager, given, name)]
    return getattr(eager.nn, name)(*args, **kwargs), inputs


def close(a, b, what):
    np.testing.assert_allclose(
        a.detach().numpy(), b.detach().numpy(), rtol=2e-4, atol=2e-5, err_msg=what
    )


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("group", GROUPS, ids=lambda cases: "-".join(name for name, *_ in cases))
def test_three_steps(group):
    eager.manual_seed(0)
    modules, inputs = zip(*(made(*case) for case in group), strict=True)
    twins = copy.deepcopy(modules)
    plain, compiled = training_steps(modules), jit(training_steps(twins))
    state = eager.get_rng_state()
    expected = [plain(inputs) for _ in range(3)]
    eager.set_rng_state(state)
    for losses in expected:
        for module, mine, wanted in zip(modules, compiled(inputs), losses, strict=True):
            close(mine, wanted, f"loss of {module}")
    for twin, module in zip(twins, modules, strict=True):
        for name, wanted in module.state_dict().items():
            close(twin.state_dict()[name], wanted, f"{name} of {module}")
    stats = compiled.stats
    assert (stats.graphs, stats.splits, stats.fallbacks) == (1, 0, 0)


def test_a_step_that_hooks_a_module_and_lets_it_go_is_compiled_once():
    layer = eager.nn.Linear(3, 2, bias=False)
    layer.requires_grad_(False)

    @jit
    def activation(x):
        kept = []
        with layer.register_forward_hook(lambda module, args, out: kept.append(out) or out * 2):
            y = layer(x)
        return kept[0], y, layer(x)

    for _ in range(3):
        kept, doubled, plain = activation(eager.ones(1, 3))
        assert (kept.tolist(), doubled.tolist()) == (plain.tolist(), (plain * 2).tolist())
    assert (activation.stats.compiles, activation.stats.splits) == (1, 0)
    old = layer.register_forward_hook(lambda module, args, out: out)
    old.remove()
    layer.register_forward_hook(lambda module, args, out: out * 0)
    old.remove()  # not the new one, whatever its number
    assert layer(eager.ones(1, 3)).tolist() == [[0.0, 0.0]]
