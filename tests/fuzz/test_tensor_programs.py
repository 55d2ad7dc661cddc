"""Random tensor programs on eager, on the reference and through jit: same values, same gradients."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import eager

_path = Path(__file__).with_name("tensor_programs.py")
_spec = importlib.util.spec_from_file_location("tensor_programs", _path)
programs = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(programs)


def run(m, seed):
    arrays, steps = programs.draw(seed)
    leaves = [m.tensor(a, dtype=m.float64).requires_grad_() for a in arrays]
    values, refused = programs.execute(m, leaves, steps)
    try:
        programs.total(values).backward()
    except RuntimeError as error:
        return refused, values, error
    grads = [np.zeros(tuple(t.shape)) if t.grad is None else t.grad.numpy() for t in leaves]
    return refused, values, grads


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(300))
def test_like_the_reference(seed):
    torch = pytest.importorskip("torch")
    mine, reference = run(eager, seed), run(torch, seed)
    if mine[0] != reference[0]:
        pytest.skip(f"refused here: {mine[0]}, by the reference: {reference[0]}")
    for a, b in zip(mine[1], reference[1], strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-8, atol=1e-10)
    if isinstance(reference[2], RuntimeError):
        return  # the reference refuses some histories that we keep
    assert not isinstance(mine[2], RuntimeError), mine[2]
    for a, b in zip(mine[2], reference[2], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-9)


def loss_of(seed):
    """A function of tensors that runs program `seed` and differentiates it."""
    _, steps = programs.draw(seed)

    def loss(tensors):
        values, refused = programs.execute(eager, tensors, steps)
        programs.total(values).backward()
        return values, refused

    return loss


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", [*range(60), 126, 210])
def test_compiled_like_eager(seed):
    jitcap = pytest.importorskip("jitcap")
    arrays, _ = programs.draw(seed)
    outcome = []
    for fn in (loss_of(seed), jitcap.jit(loss_of(seed))):
        leaves = [eager.tensor(a).requires_grad_() for a in arrays]
        try:
            values, refused = fn(leaves)
        except RuntimeError as error:
            outcome.append(str(error))
            continue
        grads = [t.grad for t in leaves]
        outcome.append((refused, values, grads))
    plain, compiled = outcome
    if isinstance(plain, str):
        assert isinstance(compiled, str)
        return
    assert plain[0] == compiled[0]
    for a, b in zip(compiled[1] + compiled[2], plain[1] + plain[2], strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            np.testing.assert_allclose(
                a.detach().numpy(), b.detach().numpy(), rtol=1e-8, atol=1e-10
            )
