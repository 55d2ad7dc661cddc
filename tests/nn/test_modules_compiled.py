"""Every module in a training step under `jit` against the same step in eager: losses, parameters, buffers."""

import copy

import numpy as np
import pytest

pytest.importorskip("torch")
from nn_cases import CASES, arrays, flat, tensors  # noqa: E402

import eager  # noqa: E402
from jitcap import jit  # noqa: E402

pytestmark = [pytest.mark.compiled, pytest.mark.slow]


def training_step(module):
    parameters = list(module.parameters())
    optimizer = eager.optim.SGD(parameters, lr=0.05, momentum=0.9) if parameters else None

    def step(*inputs):
        outs = flat(module(*inputs))
        loss = sum((t * t).mean() for t in outs if t.dtype.is_floating_point)
        if optimizer is not None and loss.requires_grad:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return loss

    return step


def close(a, b):
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=2e-4, atol=2e-5)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(("name", "args", "kwargs", "specs"), CASES, ids=lambda v: str(v)[:60])
def test_three_steps(name, args, kwargs, specs):
    eager.manual_seed(0)
    module = getattr(eager.nn, name)(*args, **kwargs)
    twin = copy.deepcopy(module)
    given = [a.astype(np.float32) if a.dtype.kind == "f" else a for a in arrays(specs)]
    inputs = [t.detach() for t in tensors(eager, given, name)]
    plain, compiled = training_step(module), jit(training_step(twin))
    state = eager.get_rng_state()
    expected = [plain(*inputs) for _ in range(3)]
    eager.set_rng_state(state)
    for loss in expected:
        close(compiled(*inputs), loss)
    for a, b in zip(twin.state_dict().values(), module.state_dict().values(), strict=True):
        close(a, b)
    stats = compiled.stats
    assert (stats.graphs, stats.splits, stats.fallbacks) == (1, 0, 0)
