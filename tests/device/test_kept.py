"""Versions for a device on disk: what another process starts from."""

import numpy as np
import pytest

import eager
from eager import nn
from eager.nn import functional as F
from jitcap import config, jit
from jitcap.kept import versions

pytest.importorskip("triton.language")
pytestmark = pytest.mark.once


@pytest.fixture
def recalled(monkeypatch, tmp_path):
    """Versions are kept, as they are outside of tests; the list of those that were found again."""
    found = []
    recall = versions.recall

    def counted(*args):
        found.append(recall(*args))
        return found[-1]

    monkeypatch.setattr(versions, "recall", counted)
    monkeypatch.setenv("JITCAP_CACHE_DIR", str(tmp_path / "cache"))
    with config(check=False):
        yield found


def losses(x, y):
    """Of a step with draws, state, replaced gradients and a schedule."""
    eager.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 5), nn.Dropout(0.3), nn.Linear(5, 3)).cuda()
    optimizer = eager.optim.AdamW(model.parameters(), lr=0.1)
    schedule = eager.optim.lr_scheduler.CosineAnnealingLR(optimizer, 4)

    @jit
    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    found = []
    for _ in range(3):
        found.append(step(x, y))
        schedule.step()
    return [loss.item() for loss in found], step


def test_a_step_is_found_again(recalled):
    rng = np.random.default_rng(0)
    x = eager.tensor(rng.standard_normal((4, 6)).astype(np.float32)).cuda()
    y = eager.tensor([0, 1, 2, 1]).cuda()
    expected, first = losses(x, y)
    found, again = losses(x, y)
    assert [made is not None for made in recalled] == [False, True]
    assert found == expected
    assert again.stats.kernels == first.stats.kernels > 0
    with pytest.raises(IndexError, match="test_kept.py"):  # its line is kept, too
        again(x, eager.tensor([0, 1, 7, 1]).cuda()).item()


def test_a_tensor_of_the_cpu_is_another_version(recalled):
    def twice(x):
        return x * 2

    x = eager.ones(3)
    for found in (False, True):
        for each in (x, x.cuda(), x.cuda().double()):
            y = jit(twice)(each)
            assert (y.device, y.dtype, y.tolist()) == (each.device, each.dtype, [2, 2, 2])
            assert (recalled.pop() is not None) == found
