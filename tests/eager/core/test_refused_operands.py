"""What functions do not take, beside torch: numbers and lists for tensors, complex numbers where an
order is needed, bools where numbers are."""

import pytest

import eager
from jitcap import jit

torch = pytest.importorskip("torch")

NO_TENSORS = """
t.where(1, 2, 3)
t.where(True, 2, 3)
t.clamp(1, 2)
t.clip(1.0, 0.0, 2.0)
t.relu(1)
t.softmax(1.0, 0)
t.gather([1.0], 0, t.tensor([0]))
t.gather(t.ones(2), 0, [0])
t.ones(2).gather(0, [0])
t.ones(2).index_select(0, [0])
t.allclose(t.ones(2), 1.0)
t.tril(1)
t.atleast_1d(t.ones(2)).amax(1.5)
t.addmm(2, 2, t.eye(2), t.eye(2))
t.isin(1, 2)
t.linalg.inv([[1.0]])
F.softplus(1)
F.elu(1.0)
F.leaky_relu(1.0)
F.hardtanh(1.0)
F.dropout(1.0)
F.linear(1.0, t.ones(2, 2))
F.linear(t.ones(2, 2), [1.0])
F.cross_entropy(t.ones(2, 3), [0, 1])
F.one_hot([1])
F.pad([1.0], (1, 1))
F.layer_norm([1.0], (1,))
F.conv2d([1.0], t.ones(1, 1, 1, 1))
F.max_pool2d(1, 2)
F.scaled_dot_product_attention(1.0, 1.0, 1.0)
""".strip().splitlines()

COMPLEX = """
z.max()
z.max(0)
z.amin()
z.argmax()
z.aminmax()
z.sort()
z.argsort()
z.topk(1)
z.kthvalue(1)
z.median()
z.nanmedian()
z.mode()
z.cummax(0)
z.msort()
z.unique()
t.maximum(z, z)
t.fmax(z, z)
t.searchsorted(z, z)
z.floor()
z.round()
z.trunc()
z.sign()
z.signbit()
z.heaviside(z)
z.atan2(z)
z.fmod(2)
z.erf()
z.lgamma()
z.clamp(0, 1)
t.hypot(z, z)
t.special.i0e(z)
t.special.zeta(z, z)
t.igamma(z, z)
t.igammac(z, z)
t.polygamma(1, z)
t.special.hermite_polynomial_h(z, 2)
F.max_pool1d(z[None, None], 2)
F.adaptive_max_pool1d(z[None, None], 1)
t.ones(2) < 1j
""".strip().splitlines()

BOOLS = """
b // b
b // True
b ** b
True ** b
b >> b
b << b
b % b
b.fmod(b)
t.div(b, b, rounding_mode="trunc")
b.topk(1)
b.kthvalue(1)
""".strip().splitlines()

TAKEN = """
b ** True
b ** 2
2 ** b
b // 2
b % 2
b << 1
b.sort().values
b.max()
z.sgn()
z.cumsum(0)
t.isin(2, t.tensor([1, 2]))
t.isin(t.tensor([1, 2]), 2)
t.float_power(2, t.tensor([1, 2]))
z.type().replace("eager", "torch")
""".strip().splitlines()


def of(library, program):
    names = {
        "t": library,
        "F": library.nn.functional,
        "z": library.tensor([1 + 1j, 2.0]),
        "b": library.tensor([True, False]),
    }
    try:
        return eval(program, names)
    except (TypeError, RuntimeError) as error:
        return TypeError if isinstance(error, TypeError) else RuntimeError


@pytest.mark.parametrize("program", NO_TENSORS)
def test_what_is_no_tensor_is_a_type_error(program):
    assert of(torch, program) is of(eager, program) is TypeError


@pytest.mark.parametrize("program", COMPLEX + BOOLS)
def test_numbers_that_a_function_is_not_of(program):
    assert of(torch, program) is of(eager, program) is RuntimeError


@pytest.mark.parametrize("program", TAKEN)
def test_their_neighbours_are_taken(program):
    theirs, ours = of(torch, program), of(eager, program)
    if not isinstance(theirs, torch.Tensor):
        assert ours == theirs
    else:
        assert (ours.tolist(), str(ours.dtype)[6:]) == (theirs.tolist(), str(theirs.dtype)[6:])


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda x: eager.clamp(x.shape[0], 2), TypeError),
        (lambda x: eager.nn.functional.softplus(1), TypeError),
        (lambda x: (x * 1j).max(), NotImplementedError),
        (lambda x: (x > 0) // (x > 0), NotImplementedError),
    ],
)
def test_compiled_code_refuses_the_same(call, error):
    step = jit(call, backend="eager")
    for _ in range(3):
        with pytest.raises(error):
            step(eager.ones(2))
