"""Counts of operations beside PyTorch's, by module."""

import pytest

torch = pytest.importorskip("torch")
import eager  # noqa: E402
from eager.utils.flop_counter import FlopCounterMode  # noqa: E402
from jitcap import jit  # noqa: E402


def model(lib):
    nn = lib.nn
    inner = nn.Sequential(nn.Linear(36, 5), nn.ReLU())
    return nn.Sequential(nn.Conv2d(2, 4, 3), nn.Flatten(), inner, nn.Linear(5, 3))


def counted(lib, mode):
    net, x = model(lib), lib.ones(2, 2, 5, 5)
    with mode(display=False) as counter, lib.no_grad():
        net(x)
    totals = {name: sum(each.values()) for name, each in counter.get_flop_counts().items()}
    with mode(display=False, depth=None) as counter:
        net(x).sum().backward()
    return totals, counter.get_total_flops()


def test_counts_as_pytorch():
    from torch.utils.flop_counter import FlopCounterMode as Theirs

    ours, theirs = counted(eager, FlopCounterMode), counted(torch, Theirs)
    assert ours == theirs and ours[0]["Sequential.2.0"] == 2 * 2 * 36 * 5


def test_a_table_is_printed_and_compiled_calls_stay_so(capsys):
    net, x = model(eager), eager.ones(2, 2, 5, 5)
    step = jit(lambda x: net(x))
    with FlopCounterMode(display=False):
        assert eager.allclose(step(x), net(x))
    assert (step.stats.splits, step.stats.fallbacks) == (0, 0)
    with FlopCounterMode() as plain:
        net(x)
    table = capsys.readouterr().out
    assert table.startswith("Module") and "100.00%" in table and "Global" in table
    assert "Sequential.2" not in plain.get_table(0) and "Sequential.2.0" in plain.get_table()
    with pytest.raises(NotImplementedError, match="only matrix products"):
        FlopCounterMode(custom_mapping={eager.sin: len})
