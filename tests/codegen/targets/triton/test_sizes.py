"""Kernels whose sizes are known at run time only: one text and one version for all of them."""

import re

import numpy as np
import pytest

pytest.importorskip("triton.language")

import share
from triton_machine_code import instruction_counts, usage

import codegen
import eager
from codegen.targets.triton.runtime.build import DEFAULT_TARGET
from codegen.targets.triton.runtime.kernel import kernels_of
from eager.base.config import config
from eager.nn import functional as F
from jitcap import explain, jit
from jitcap.compile.lower import lower
from tests.codegen.ir.test_symbols import CASES
from tests.codegen.symbolic import Case, f32, run, traced

SLOW = {"attention", "causal", "conv", "conv_hw"}  # many small programs in the interpreter


@pytest.fixture(autouse=True)
def simulated():
    with config(device="sim"):
        yield


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[pytest.mark.slow] * (n in SLOW)) for n in CASES],
)
def test_one_program_for_all_sizes(name):
    tried = run(CASES[name], "triton", most=17 if name in SLOW and not share.ALL else 40)
    fits_32_bits = re.compile(r"-(h\*)?n \+ |not (k\*n )?-.*\)%(256|16384)\) ")
    assert all(fits_32_bits.match(guard) for guard in tried.added)


def softmax_and_sums(x, w):
    return F.softmax(x, -1), (x @ w).relu().mean(0), x.t() * 2, (x * 0.1).exp().sum()


def test_a_version_serves_all_sizes_and_its_text_tells_none():
    rng = np.random.default_rng(0)
    texts = []
    for sizes in ((5, 33, 3, 64), (70, 12, 129, 48)):
        step = jit(softmax_and_sums, backend="triton")
        for n in sizes:
            x = eager.tensor(rng.standard_normal((n, 24)).astype(np.float32))
            w = eager.tensor(rng.standard_normal((24, 6)).astype(np.float32))
            for got, want in zip(step(x, w), softmax_and_sums(x, w), strict=True):
                np.testing.assert_allclose(got.numpy(), want.numpy(), 2e-5, 2e-5)
        assert (step.stats.compiles, step.stats.fallbacks) == (2, 0)
        told = explain(softmax_and_sums, backend="triton", dynamic=True)(x, w)
        texts.append([k.source for k in told.kernels])
    assert texts[0] == texts[1]


def test_indices_that_are_values_may_need_64_bits():
    def ramp(x):
        return eager.arange(x.shape[0]) * 1_000_000 + x

    step = jit(ramp, backend="triton")
    for n in (5000, 7000):
        x = eager.zeros(n, dtype=eager.int64)
        np.testing.assert_array_equal(step(x).numpy(), ramp(x).numpy())


def emitted(fn, *avals):
    done, _, _ = traced(Case(fn, ("n", "m"), lambda n, m: [a(n, m) for a in avals]))
    return codegen.run_stages(lower(done.graph), "triton")[0]["source"]


@pytest.mark.slow
def test_machine_code_is_as_wide_as_for_known_sizes():
    """Whole blocks run without a mask. Rows of any length are wide where that is a multiple of 16,
    of which there is code of its own."""
    flat = emitted(lambda n, m, x, y: x * y + 1, *[lambda n, m: f32(n, 7)] * 2)
    (kernel,) = kernels_of(flat)
    (_, code) = kernel.compiled(DEFAULT_TARGET)
    counts = instruction_counts(code)
    assert usage(code).local == 0
    assert counts["load128"] and counts["store128"]
    rows = emitted(lambda n, m, x: F.softmax(x, -1), lambda n, m: f32(n, m))
    (kernel,) = kernels_of(rows)
    assert kernel.strides
    odd = [not kernel.multiples >> i & 1 for i in range(kernel.own)]
    wide, narrow = (kernel.compiled(DEFAULT_TARGET, aligned)[1] for aligned in (None, odd))
    assert usage(wide).local == usage(narrow).local == 0
    assert instruction_counts(wide)["load128"]
    assert not instruction_counts(narrow)["load128"]
