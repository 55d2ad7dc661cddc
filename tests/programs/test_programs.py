"""Each program of the corpus under torch, eager and @jit: same results at every step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import eager
from jitcap import jit
from tests.programs.corpus import PROGRAMS

torch = pytest.importorskip(
    "torch", reason="torch is the reference these programs are compared with"
)


def plain(value: Any) -> Any:
    """Tensors as NumPy arrays, containers by structure."""
    if hasattr(value, "detach"):
        return np.array(value.detach().numpy())
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    return value


def assert_same(got: Any, want: Any, path: str) -> None:
    if isinstance(want, np.ndarray):
        assert got.dtype == want.dtype, f"{path}: dtype {got.dtype}, torch has {want.dtype}"
        assert got.shape == want.shape, f"{path}: shape {got.shape}, torch has {want.shape}"
        np.testing.assert_allclose(got, want, rtol=2e-4, atol=2e-5, err_msg=path)
    elif isinstance(want, dict):
        assert list(got) == list(want), path
        for k in want:
            assert_same(got[k], want[k], f"{path}[{k!r}]")
    elif isinstance(want, float):
        assert got == pytest.approx(want, rel=2e-4, abs=2e-5), path
    elif isinstance(want, list):
        assert len(got) == len(want), path
        for i, (g, w) in enumerate(zip(got, want, strict=True)):
            assert_same(g, w, f"{path}[{i}]")
    else:
        assert got == want, path


def run(name: str, namespace: Any, wrap: Any) -> tuple[list[Any], Any]:
    step, batches = PROGRAMS[name](namespace)
    step = wrap(step)
    return [plain(step(*args)) for args in batches], step


@pytest.mark.parametrize("executor", ["eager", "jit"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_program_agrees_with_torch(name: str, executor: str) -> None:
    want, _ = run(name, torch, lambda f: f)
    got, step = run(name, eager, jit if executor == "jit" else lambda f: f)
    assert_same(got, want, name)
    if executor == "jit":
        assert step.stats.fallbacks == 0, step.stats
        assert step.stats.splits == 0, step.stats
