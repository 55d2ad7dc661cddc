"""Random tensor programs on eager, on the reference and through jit: same values, same gradients."""

import importlib.util
import warnings
from pathlib import Path

import fuzz_seeds
import numpy as np
import pytest

import eager
import jitcap

_path = Path(__file__).with_name("tensor_programs.py")
_spec = importlib.util.spec_from_file_location("tensor_programs", _path)
programs = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(programs)


EXPANDED = "NumPy lets nothing be written through a part of an expanded array"
KNOWN = {
    n: pytest.param(n, marks=pytest.mark.xfail(strict=True, reason=EXPANDED)) for n in (197, 210)
}


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
@pytest.mark.parametrize("seed", [KNOWN.get(n, n) for n in fuzz_seeds.seeds(300)])
def test_like_the_reference(seed):
    torch = pytest.importorskip("torch")
    mine, reference = run(eager, seed), run(torch, seed)
    assert mine[0] == reference[0], "refused here, and by the reference"
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


BLOCK = 4  # programs in one graph


def one(block, backend="python", seeds=None):
    """Programs in one graph, and each that ends in an error alone. Raises AssertionError for a
    difference; gives the counts. `backend="python"`: the loops as Python, without a compiler."""
    seeds = seeds or range(block * BLOCK, block * BLOCK + BLOCK)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = {seed: outcomes(programs_of([seed]), [seed]) for seed in seeds}
        for seed in (seed for seed, plain in expected.items() if plain is None):
            assert outcomes(jitcap.jit(programs_of([seed]), backend=backend), [seed]) is None, seed
        sound = [seed for seed, plain in expected.items() if plain is not None]
        step = jitcap.jit(programs_of(sound), backend=backend)
        compiled = outcomes(step, sound) if sound else []
    counts = fuzz_seeds.counts_of(step) | {
        "programs": len(seeds),
        "one_graph": len(sound),
        "never_compiled": len(seeds) - len(sound),
    }
    assert counts["graphs"] == bool(sound), step.stats
    fuzz_seeds.check_stats(counts, step, splits=0)
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
    return counts


SEEDS = [*range(0, 60, 3), 126, 210]  # the rest as Python, below


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, len(SEEDS), BLOCK))
def test_compiled_like_eager(first):
    chosen = SEEDS[first : first + BLOCK]
    fuzz_seeds.note("tensors", first, one(0, backend="cpp", seeds=chosen))


@pytest.mark.parametrize("block", fuzz_seeds.seeds(15))
def test_loops_like_eager(block):
    fuzz_seeds.note("tensors", block, one(block))


# What they found: a stage of a kernel with nothing in it; a name that only one arm of a `where` binds.
@pytest.mark.parametrize("seed", [58, 79])
def test_loops_like_eager_where_they_once_were_not(seed):
    one(0, seeds=[seed])
