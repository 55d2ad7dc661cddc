"""Every public function against its reference: values, dtypes, shapes and gradients, from the samples in the registry."""

import dataclasses

import numpy as np
import op_harness as harness
import pytest

import eager
from eager.base.scalar import NUMPY, VOCABULARY
from eager.core.op import Sample
from eager.core.registry import Public

torch = harness.torch

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::RuntimeWarning")


ALL = harness.cases()
WITH_GRADIENT = [p for p in ALL if any(sample.grad for sample in harness.samples(p))]
OWN = {p.name for p in ALL if torch is not None and not harness.in_torch(p)}
REFUSALS = (
    "MKL FFT doesn't support",
    "Unsupported dtype",  # 16-bit floats have no Fourier transform
    "not implemented",
    "Low precision dtypes not supported",
    "expected a tensor with 2 or more dimensions of float",
    "is not differentiable with respect to argument",
    "tensors but got",  # complex numbers of 16-bit parts
    "must be either float or double dtype",
    "handle types other than float and double",
    "supports floating point, complex, and integer tensors",
)
NO_HALVES = {"complex", "view_as_complex", "polar"}
# Not the limit of differences: steps, and rounding to fewer bits.
STEPS = {"sign", "sgn", "floor", "ceil", "trunc", "round", "float", "half", "bfloat16"}
# Its gradient is that by the logits of a log_softmax before, as PyTorch's is.
BY_LOGITS = {"ctc_loss"}
# Infinities on the way make the second derivative NaN.
FIRST_ORDER = {"logcumsumexp", "native_batch_norm"}  # (torch fails on the second)


def by_name(functions):
    """One test of each function; which sample fails is said by `harness.each`."""
    return pytest.mark.parametrize("p", functions, ids=lambda p: p.torch)


def check_value(p, sample, dtype):
    reference, _ = harness.call(harness.reference(p), sample, lambda x: harness.theirs(x, dtype))
    mine, _ = harness.call(p.fn, sample, lambda x: harness.ours(x, dtype))
    harness.assert_same(mine, reference, sample, dtype)


@harness.needs_reference
@by_name(ALL)
def test_value(p):
    for sample, dtype in harness.each(harness.samples(p), harness.FLOATS):
        check_value(p, sample, dtype)


def check_value_in_16_bits(p, sample, dtype):
    reference = _unless_refused(
        lambda: harness.call(harness.reference(p), sample, lambda x: harness.theirs(x, dtype))
    )
    if reference is REFUSED:
        return
    wide, _ = harness.call(
        harness.reference(p), sample, lambda x: harness.widened(harness.theirs(x, dtype))
    )
    mine, _ = harness.call(p.fn, sample, lambda x: harness.ours(x, dtype))
    harness.assert_same(mine, harness.nearest(mine, reference[0], wide), sample, dtype)


@harness.needs_reference
@by_name([p for p in ALL if p.name not in NO_HALVES])
def test_value_in_16_bits(p):
    for sample, dtype in harness.each(harness.samples(p)[:1], harness.HALVES):
        check_value_in_16_bits(p, sample, dtype)


REFUSED = object()


def _unless_refused(run):
    """Run on the reference; what it cannot do is not compared."""
    try:
        return run()
    except RuntimeError as error:
        if not any(phrase in str(error) for phrase in REFUSALS):
            raise
        return REFUSED


@harness.needs_reference
@by_name([p for p in WITH_GRADIENT if p.name not in OWN])
def test_gradient(p):
    for sample in harness.each(s for s in harness.samples(p) if s.grad):
        reference = _unless_refused(
            lambda: harness.gradients(p, harness.reference(p), sample, torch, eager.float64)
        )
        if reference is REFUSED:
            continue
        mine = harness.gradients(p, p.fn, sample, eager, eager.float64)
        assert (mine is None) == (reference is None)
        for a, b in zip(mine or [], reference or [], strict=True):
            harness.assert_same(a, b, sample, eager.float64, loosen=10)


def check_differences(p, sample):
    mine = _unless_refused(lambda: harness.gradients(p, p.fn, sample, eager, eager.float64))
    if mine is None or mine is REFUSED:  # not differentiable
        return
    for gradient, differences in zip(mine, harness.finite_differences(p, sample), strict=True):
        found = [harness.to_numpy(gradient)[place] for place in differences]
        np.testing.assert_allclose(found, [*differences.values()], rtol=2e-5, atol=2e-5)


@by_name([p for p in WITH_GRADIENT if p.name not in STEPS | BY_LOGITS])
def test_gradient_is_the_limit_of_differences(p):
    for sample in harness.each(s for s in harness.samples(p)[:2] if s.grad):
        check_differences(p, sample)


def _second_order(module, fn, sample):
    make = harness.ours if module is eager else harness.theirs
    result, made = harness.call(fn, sample, lambda x: make(x, eager.float64, True))
    leaves = [t for t in made if t.requires_grad]
    total = harness.weighted_sum(result, module)
    if total is None:
        return None
    first = module.autograd.grad(
        total, leaves, create_graph=True, allow_unused=True, materialize_grads=True
    )
    again = harness.weighted_sum(list(first), module)
    if again is None or not again.requires_grad:
        return [module.zeros_like(t) for t in leaves]
    return list(module.autograd.grad(again, leaves, allow_unused=True, materialize_grads=True))


@harness.needs_reference
@by_name([p for p in WITH_GRADIENT if p.name not in FIRST_ORDER | OWN])
def test_gradient_of_the_gradient(p):
    for sample in harness.each(s for s in harness.samples(p)[:2] if s.grad):
        reference = _unless_refused(lambda: _second_order(torch, harness.reference(p), sample))
        if reference is REFUSED:
            continue
        mine = _second_order(eager, p.fn, sample)
        for a, b in zip(mine or [], reference or [], strict=True):
            harness.assert_same(a, b, sample, eager.float64, loosen=1e3)


def _in_place(module, name, sample, make):
    """The result of the method, or the type of what it raises."""
    try:
        result, made = harness.call(
            getattr(module.Tensor, name), sample, lambda x: make(np.array(x), eager.float64)
        )
        assert result is made[0]
        return result
    except (RuntimeError, TypeError, AttributeError) as error:
        return type(error)


@harness.needs_reference
@by_name(
    [
        p
        for p in ALL
        if p.namespace and hasattr(eager.Tensor, p.name + "_")
        if torch is not None and hasattr(torch.Tensor, p.name + "_")
    ]
)
def test_in_place_method(p):
    """`x.f_()` writes what `f(x)` is, or refuses where the reference does."""
    for sample in harness.each(harness.samples(p)[:3]):
        theirs = _in_place(torch, p.name + "_", sample, harness.theirs)
        ours = _in_place(eager, p.name + "_", sample, harness.ours)
        if isinstance(theirs, type):
            assert isinstance(ours, type)
        else:
            harness.assert_same(ours, theirs, sample, eager.float64)


@harness.needs_reference
def test_every_function_with_samples_has_a_reference():
    """PyTorch's of its name, else that of its entry: `@public(reference=...)`."""
    assert not [p.name for p in harness.cases() if harness.reference(p) is None]


@harness.needs_reference
def test_a_function_that_torch_does_not_have_is_compared_with_its_own_reference():
    def reference(x, y, *, by=1.0):
        return np.exp(-by * np.square(x - y)), x > y

    def rbf(x, y, *, by=1.0):
        return (-by * (x - y).square()).exp(), x > y

    rng = np.random.default_rng(0)
    sample = Sample((rng.standard_normal((2, 3)), rng.standard_normal(3)), {"by": 0.5})
    mine = Public("rbf", rbf, "rbf", lambda: [sample], namespace=True, reference=reference)
    wrong = dataclasses.replace(mine, fn=lambda x, y, by: rbf(x, y, by=2 * by))
    for dtype in harness.FLOATS:
        check_value(mine, sample, dtype)
        with pytest.raises(AssertionError):
            check_value(wrong, sample, dtype)
    for dtype in harness.HALVES:
        check_value_in_16_bits(mine, sample, dtype)
    check_differences(mine, sample)


@harness.needs_reference
def test_the_registry_is_covered():
    """At least 120 operations and functions are compared with the reference."""
    assert len({p.torch for p in ALL}) >= 120


def test_numpy_spells_the_whole_vocabulary():
    for name in VOCABULARY:
        assert callable(getattr(NUMPY, name))
    with pytest.raises(AttributeError, match="not a scalar intrinsic"):
        NUMPY.frobnicate
