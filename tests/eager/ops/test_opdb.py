"""A seeded slice of PyTorch's op database against ours; `scripts/opdb` runs the whole."""

import random

import op_harness
import pytest

import eager

pytestmark = [
    op_harness.needs_reference,
    pytest.mark.filterwarnings("ignore"),
]
OPS, SAMPLES = 70, 4
# Ops that were once wrong in complex numbers or in 16-bit floats.
COMPLEX = (
    "asinh float_power linspace logaddexp logcumsumexp logdet logsumexp masked_var masked_logsumexp"
    " linalg_cholesky linalg_det linalg_lstsq linalg_lu linalg_pinv_hermitian linalg_qr"
    " linalg_slogdet linalg_svd pca_lowrank rand_like randn uniform normal_in_place"
).split()
NARROW = (
    "addcdiv addcmul gradient grid_sampler_2d histc linalg_multi_dot nextafter sort msort topk"
    " nn_functional_adaptive_max_pool2d nn_functional_hinge_embedding_loss nn_functional_normalize"
    " nn_functional_soft_margin_loss matrix_exp"
).split()


@pytest.fixture(scope="module")
def opdb():
    pytest.importorskip("torch")
    import opdb

    opdb.database()
    return opdb


def _slice(opdb):
    return random.Random(9).sample(opdb.database(), OPS)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_values_and_gradients(opdb, dtype):
    """Values, shapes, dtypes and gradients are torch's; what we lack is not many ops."""
    found = {op.formatted_name: opdb.run_op(op, dtype, SAMPLES) for op in _slice(opdb)}
    assert not {name: out.wrong for name, out in found.items() if out.wrong}
    assert sum(len(out.right) for out in found.values()) > OPS


@pytest.mark.parametrize(
    ("dtype", "names"), [("complex64", COMPLEX), ("bfloat16", NARROW), ("float16", NARROW)]
)
def test_in_other_dtypes(opdb, dtype, names):
    """The same in complex numbers and in 16-bit floats."""
    some = {op.formatted_name: op for op in random.Random(2).sample(opdb.database(), OPS)}
    some |= {op.formatted_name: op for op in opdb.database() if op.formatted_name in names}
    found = {name: opdb.run_op(op, dtype, 8 if name in names else 2) for name, op in some.items()}
    assert not {name: out.wrong for name, out in found.items() if out.wrong}
    assert sum(len(out.right) for out in found.values()) > OPS


@pytest.mark.parametrize(("backend", "count"), [("eager", 60), ("cpp", 6)])
def test_through_jit(opdb, backend, count):
    """The same in one compiled program per op."""
    opdb_jit = pytest.importorskip("opdb_jit")
    some = random.Random(3).sample(_slice(opdb), count)
    found = {op.formatted_name: opdb_jit.run_op(op, "float32", 2, backend) for op in some}
    assert not {name: out.wrong for name, out in found.items() if out.wrong}
    assert sum(len(out.right) for out in found.values()) >= count


@pytest.mark.parametrize(("backend", "count"), [("eager", 30), ("cpp", 4)])
def test_at_several_sizes(opdb, backend, count):
    """One compile serves the samples' sizes and others; what has more versions has a reason."""
    opdb_sizes = pytest.importorskip("opdb_sizes")
    some = random.Random(6).sample(_slice(opdb), count)
    found = {op.formatted_name: opdb_sizes.run_op(op, "float64", 2, backend) for op in some}
    assert not {name: out.wrong for name, out in found.items() if out.wrong}
    fixed = [(name, *rest) for name, out in found.items() for _, *rest in out.fixed]
    assert not [each for each in fixed if not opdb_sizes.accepted(*each[:2])]
    assert sum(len(out.right) for out in found.values()) >= count


def test_the_comparison_sees_sizes_that_get_into_a_program(opdb):
    """One that is part of the program unseen, and one that is fixed."""
    opdb_sizes = pytest.importorskip("opdb_sizes")

    def outcome(fn):
        out = opdb_sizes.Outcome()
        given = ([eager.ones(3, 4)], {})
        program = opdb_sizes.larger(opdb_sizes.step_of(fn, lambda x: x), given)
        opdb_sizes.run(0, program, "eager", out)
        return [cause for _, cause, _ in (*out.wrong, *out.fixed)]

    assert outcome(lambda x: x * 2) == []
    assert outcome(lambda x: x * len([*range(x.shape[0])])) == ["equal"]
    assert outcome(lambda x: x if x.shape[0] < 5 else x * 2) == ["order"]
    assert outcome(lambda x: x if (x > 2).any() else x.tolist()) == ["values"]
    for other in (eager.ones(3), eager.ones(2) * 1.001, eager.ones(2).double()):
        with pytest.raises(opdb.Wrong):
            opdb_sizes.compare((other, []), (eager.ones(2), []))


def test_what_torch_refuses_is_refused(opdb):
    """Of the calls that raise in torch, at least 95 % raise the same here."""
    import opdb_errors

    found = [opdb_errors.run_errors(op) for op in random.Random(5).sample(opdb.database(), 4 * OPS)]
    right, wrong = (sum(len(getattr(out, key)) for out in found) for key in ("right", "wrong"))
    assert right >= 0.95 * (right + wrong), [w for out in found for w in out.wrong]


def test_the_comparison_sees_a_fault(opdb):
    """Another value, shape, dtype or gradient is found."""
    op = next(op for op in opdb.database() if op.formatted_name == "exp")

    def changed(change):
        def runner(call):
            result, gradients = opdb.run(call)
            return change(result, gradients)

        return {cause for _, cause, _ in opdb.run_op(op, "float32", 1, runner).wrong}

    assert changed(lambda r, g: ([r[0] + 1e-3], g)) == {"value"}
    assert changed(lambda r, g: ([r[0].unsqueeze(0)], g)) == {"shape"}
    assert changed(lambda r, g: ([r[0].double()], g)) == {"dtype"}
    assert changed(lambda r, g: (r, [g[0] * 1.001])) == {"gradient"}
    assert changed(lambda r, g: (r, g)) == set()


def test_what_is_absent_has_a_reason(opdb):
    absent = {}
    for op in opdb.database():
        try:
            opdb.ours(op)
        except opdb.Absent as error:
            absent.setdefault(str(error), []).append(op.formatted_name)
    assert not absent.keys() - opdb.WHY_ABSENT.keys()
    assert sum(map(len, absent.values())) <= 35
