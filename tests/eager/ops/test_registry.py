"""Every public function against its reference: values, dtypes, shapes and gradients, from the samples in the registry."""

import dataclasses

import numpy as np
import op_harness as harness
import pytest

import eager
from eager.base.scalar import NUMPY, VOCABULARY
from eager.core.op import REGISTRY, Sample
from eager.core.registry import PUBLIC, Public

torch = harness.torch

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::RuntimeWarning")


def _label(sample):
    def one(x):
        return (
            "x".join(map(str, x.shape)) or "()" if isinstance(x, np.ndarray) else type(x).__name__
        )

    return "-".join([one(a) for a in sample.args] + [f"{k}" for k in sample.kwargs])


CASES = [
    pytest.param(p, sample, id=f"{p.torch}:{i}:{_label(sample)}")
    for p in harness.cases()
    for i, sample in enumerate(harness.samples(p))
]
WITH_GRADIENT = [c for c in CASES if c.values[1].grad]
FIRST_TWO = [c for c in WITH_GRADIENT if c.id.split(":")[1] in "01"]
OWN = {p.name for p in harness.cases() if torch is not None and not harness.in_torch(p)}
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


@harness.needs_reference
@pytest.mark.parametrize("dtype", harness.FLOATS, ids=lambda d: d.name)
@pytest.mark.parametrize(("p", "sample"), CASES)
def test_value(p, sample, dtype):
    reference, _ = harness.call(harness.reference(p), sample, lambda x: harness.theirs(x, dtype))
    mine, _ = harness.call(p.fn, sample, lambda x: harness.ours(x, dtype))
    harness.assert_same(mine, reference, sample, dtype)


@harness.needs_reference
@pytest.mark.parametrize("dtype", harness.HALVES, ids=lambda d: d.name)
@pytest.mark.parametrize(
    ("p", "sample"),
    [c for c in CASES if c.id.split(":")[1] == "0" and c.values[0].name not in NO_HALVES],
)
def test_value_in_16_bits(p, sample, dtype):
    reference, _ = _or_skip(
        lambda: harness.call(harness.reference(p), sample, lambda x: harness.theirs(x, dtype))
    )
    wide, _ = harness.call(
        harness.reference(p), sample, lambda x: harness.widened(harness.theirs(x, dtype))
    )
    mine, _ = harness.call(p.fn, sample, lambda x: harness.ours(x, dtype))
    harness.assert_same(mine, harness.nearest(mine, reference, wide), sample, dtype)


def _or_skip(run):
    """Run on the reference; what it cannot do is not compared."""
    try:
        return run()
    except RuntimeError as error:
        if not any(phrase in str(error) for phrase in REFUSALS):
            raise
        pytest.skip(str(error).splitlines()[0])


@harness.needs_reference
@pytest.mark.parametrize(("p", "sample"), [c for c in WITH_GRADIENT if c.values[0].name not in OWN])
def test_gradient(p, sample):
    reference = _or_skip(
        lambda: harness.gradients(p, harness.reference(p), sample, torch, eager.float64)
    )
    mine = harness.gradients(p, p.fn, sample, eager, eager.float64)
    assert (mine is None) == (reference is None)
    for a, b in zip(mine or [], reference or [], strict=True):
        harness.assert_same(a, b, sample, eager.float64, loosen=10)


@pytest.mark.parametrize(("p", "sample"), FIRST_TWO)
def test_gradient_is_the_limit_of_differences(p, sample):
    if p.name in STEPS | BY_LOGITS:
        pytest.skip("steps, or a gradient by something else")
    mine = _or_skip(lambda: harness.gradients(p, p.fn, sample, eager, eager.float64))
    if mine is None:
        pytest.skip("not differentiable")
    for a, b in zip(mine, harness.finite_differences(p, sample), strict=True):
        np.testing.assert_allclose(harness.to_numpy(a), b, rtol=2e-5, atol=2e-5)


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
@pytest.mark.parametrize(
    ("p", "sample"),
    [c for c in FIRST_TWO if c.values[0].name not in FIRST_ORDER | OWN],
)
def test_gradient_of_the_gradient(p, sample):
    reference = _or_skip(lambda: _second_order(torch, harness.reference(p), sample))
    mine = _second_order(eager, p.fn, sample)
    for a, b in zip(mine or [], reference or [], strict=True):
        harness.assert_same(a, b, sample, eager.float64, loosen=1e3)


INPLACE = [
    c
    for c in CASES
    if torch is not None
    and c.values[0].namespace
    and hasattr(torch.Tensor, c.values[0].name + "_")
    and c.id.split(":")[1] in "012"
]


@harness.needs_reference
@pytest.mark.parametrize(("p", "sample"), INPLACE)
def test_in_place_method(p, sample):
    """`x.f_()` writes what `f(x)` is, or refuses where the reference does."""
    name = p.name + "_"
    if not hasattr(eager.Tensor, name):
        pytest.skip(f"Tensor.{name} does not exist")
    outcome = []
    for module, make in ((torch, harness.theirs), (eager, harness.ours)):
        try:
            result, made = harness.call(
                getattr(module.Tensor, name),
                sample,
                lambda x, make=make: make(np.array(x), eager.float64),
            )
            assert result is made[0]
            outcome.append(result)
        except (RuntimeError, TypeError, AttributeError) as error:
            outcome.append(type(error))
    if isinstance(outcome[0], type):
        assert isinstance(outcome[1], type)
    else:
        harness.assert_same(outcome[1], outcome[0], sample, eager.float64)


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
        test_value(mine, sample, dtype)
        with pytest.raises(AssertionError):
            test_value(wrong, sample, dtype)
    for dtype in harness.HALVES:
        test_value_in_16_bits(mine, sample, dtype)
    test_gradient_is_the_limit_of_differences(mine, sample)


@harness.needs_reference
def test_the_registry_is_covered():
    """At least 120 operations and functions are compared with the reference."""
    compared = {c.values[0].torch for c in CASES}
    print(
        f"{len(compared)} functions in {len(CASES)} calls; {len(PUBLIC)} public names, {len(REGISTRY)} op records"
    )
    assert len(compared) >= 120


def test_numpy_spells_the_whole_vocabulary():
    for name in VOCABULARY:
        assert callable(getattr(NUMPY, name))
    with pytest.raises(AttributeError, match="not a scalar intrinsic"):
        NUMPY.frobnicate
