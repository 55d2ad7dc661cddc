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


def outcomes(run, seeds):
    """(values, what was refused, gradients) of the programs of `seeds`; None if an error ends them."""
    leaves = [[eager.tensor(a).requires_grad_() for a in programs.draw(seed)[0]] for seed in seeds]
    try:
        results = run(leaves)
    except RuntimeError:
        return None
    return [(*r, [t.grad for t in own]) for r, own in zip(results, leaves, strict=True)]


def programs_of(seeds):
    losses = [loss_of(seed) for seed in seeds]

    def run(leaves):
        return [loss(own) for loss, own in zip(losses, leaves, strict=True)]

    return run


SEEDS = [*range(60), 126, 210]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("first", range(0, len(SEEDS), 4))
def test_compiled_like_eager(first):
    """Four programs in one graph, and each that ends in an error alone."""
    jitcap = pytest.importorskip("jitcap")
    expected = {seed: outcomes(programs_of([seed]), [seed]) for seed in SEEDS[first : first + 4]}
    for seed in (seed for seed, plain in expected.items() if plain is None):
        assert outcomes(jitcap.jit(programs_of([seed])), [seed]) is None, seed
    sound = [seed for seed, plain in expected.items() if plain is not None]
    step = jitcap.jit(programs_of(sound))
    compiled = outcomes(step, sound)
    assert (step.stats.graphs, step.stats.splits, step.stats.fallbacks) == (1, 0, 0), step.stats
    for seed, (values, refused, grads) in zip(sound, compiled, strict=True):
        ((want, wanted_refused, want_grads),) = expected[seed]
        assert refused == wanted_refused, seed
        for a, b in zip(values + grads, want + want_grads, strict=True):
            assert (a is None) == (b is None), seed
            if a is not None:
                np.testing.assert_allclose(
                    a.detach().numpy(),
                    b.detach().numpy(),
                    rtol=1e-8,
                    atol=1e-10,
                    err_msg=f"seed {seed}",
                )
