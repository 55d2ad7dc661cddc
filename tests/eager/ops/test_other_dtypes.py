"""Ints and bools: what the functions of one tensor make of them, and numbers that do not fit a dtype, beside torch."""

import numpy as np
import pytest

import eager
from jitcap import jit

torch = pytest.importorskip("torch")

DATA = [[3, 1, 2], [0, 5, 1]]
# Functions that take what torch refuses, or that are not to be compared.
ELSEWHERE = {
    "column_stack": "of one tensor, its rows",
    "compile": "of functions: it imports torch's compiler",
    "get_autocast_dtype": "of a device's kind",
    "histc": "of ints, too",
    "is_autocast_enabled": "of a device's kind",
    "pin_memory": "what it needs is there",
    "positive": "of bools, too",
    "resize": "a copy of another size",
    "softsign": "of bools, too",
    "tanhshrink": "of bools, too",
    "meshgrid": "of one vector", "from_dlpack": "not a value",
    "broadcast_shapes": "",
}  # fmt: skip


def _functions():
    for where in ("", "nn.functional."):
        home, own = (m.nn.functional if where else m for m in (torch, eager))
        for name in sorted({*dir(home)} & {*dir(own)}):
            ours = getattr(own, name)
            drawn = any(word in name for word in ("rand", "empty", "seed", "bernoulli", "dropout"))
            drawn |= name.startswith(("set_", "use_"))  # state of the process
            skipped = name in ELSEWHERE or name.startswith("_") or name.endswith("_") or drawn
            theirs = getattr(home, name)
            if not skipped and callable(ours) and not isinstance(theirs, type):
                yield where + name, theirs, ours


def _outcome(module, fn, dtype):
    try:
        value = fn(module.tensor(DATA, dtype=getattr(module, dtype)))
    except Exception as error:
        return type(error)
    if not hasattr(value, "dtype"):
        return None
    wide = value.detach().to(module.complex128 if value.dtype.is_complex else module.float64)
    return str(value.dtype).split(".")[-1], np.asarray(wide.numpy())


@pytest.mark.parametrize("dtype", ["int64", "uint8", "bool"])
@pytest.mark.filterwarnings("ignore")
def test_functions_of_one_tensor(dtype):
    wrong, compared = [], 0
    for name, theirs, ours in _functions():
        expected, found = _outcome(torch, theirs, dtype), _outcome(eager, ours, dtype)
        if isinstance(expected, type) and issubclass(expected, TypeError):
            continue  # it needs more arguments
        if isinstance(expected, tuple) and isinstance(found, tuple):
            compared += 1
            same = expected[0] == found[0] and expected[1].shape == found[1].shape
            close = same and np.allclose(found[1], expected[1], 1e-4, 1e-5, equal_nan=True)
            wrong += [] if close else [(name, expected, found)]
        elif isinstance(expected, type) != isinstance(found, type):
            wrong.append((name, expected, found))
    assert not wrong
    assert compared > 90


NUMBERS = [-1, 255, 256, -129, 2**31, 1.7, -1.7, float("nan"), float("inf"), 1e300, True]
STORES = {
    "full": lambda m, kind, v: m.full((2,), v, dtype=kind),
    "full_like": lambda m, kind, v: m.full_like(m.zeros(2, dtype=kind), v),
    "new_full": lambda m, kind, v: m.zeros(1, dtype=kind).new_full((2,), v),
    "fill_": lambda m, kind, v: m.zeros(2, dtype=kind).fill_(v),
    "tensor": lambda m, kind, v: m.tensor([v], dtype=kind),
    "setitem": lambda m, kind, v: _set(m.zeros(2, dtype=kind), v),
    "masked_fill": lambda m, kind, v: m.zeros(2, dtype=kind).masked_fill(
        m.tensor([True, False]), v
    ),
    "index_fill": lambda m, kind, v: m.zeros(2, dtype=kind).index_fill(0, m.tensor([0]), v),
    "where": lambda m, kind, v: m.where(m.tensor([True, False]), m.zeros(2, dtype=kind), v),
    "clamp": lambda m, kind, v: m.ones(2, dtype=kind).clamp(max=v),
    "pad": lambda m, kind, v: m.nn.functional.pad(m.zeros(2, dtype=kind), (1, 0), value=v),
}


def _set(x, value):
    x[0] = value
    return x


@pytest.mark.parametrize("name", STORES)
@pytest.mark.filterwarnings("ignore")
def test_a_number_that_does_not_fit_is_refused(name):
    wrong = []
    for kind in ("uint8", "int8", "int32", "int64", "bool"):
        for value in NUMBERS if name != "clamp" else NUMBERS[:-1]:
            outcomes = []
            for module in (torch, eager):
                try:
                    x = STORES[name](module, getattr(module, kind), value)
                    outcomes.append((str(x.dtype).split(".")[-1], str(x.tolist())))
                except RuntimeError:
                    outcomes.append("refused")
            wider = value == 1e300 and "float32" in outcomes[1]  # infinite, where torch refuses
            wraps = name == "pad" and kind == "uint8" and value < 0  # as it does elsewhere
            if outcomes[0] != outcomes[1] and not wider and not wraps:
                wrong.append((kind, value, *outcomes))
    assert not wrong


def test_random_takes_the_upper_bound_alone():
    x = eager.zeros(1000, dtype=eager.uint8)
    for args, kwargs, low, high in (
        ((2,), {}, 0, 1),
        ((), {"to": 2}, 0, 1),
        ((3, 9), {}, 3, 8),
        ((), {"from": 3, "to": 9}, 3, 8),
        ((), {}, 0, 255),
    ):
        x.random_(*args, **kwargs)
        assert (x.min().item(), x.max().item()) == (low, high)
    with pytest.raises(RuntimeError, match="less than 'to'"):
        x.random_(5, 2)
    with pytest.raises(RuntimeError, match="out of bounds"):
        x.random_(300)
    wide = eager.zeros(1000, dtype=eager.int64).random_()
    assert wide.min() >= 0
    assert wide.max() > 2**62


def test_ints_to_powers_that_are_negative_in_a_tensor():
    x, y = eager.tensor([1, -1, -1, 2, 0]), eager.tensor([-3, -3, -2, -1, -1])
    assert (x**y).tolist() == (torch.tensor(x.tolist()) ** torch.tensor(y.tolist())).tolist()


def test_dlpack_knows_bfloat16_and_capsules():
    theirs = torch.ones(3, dtype=torch.bfloat16)
    ours = eager.from_dlpack(theirs)
    ours[0] = 7
    assert theirs.tolist() == [7, 1, 1]
    assert torch.from_dlpack(ours).dtype is torch.bfloat16
    assert eager.from_dlpack(theirs, copy=True).data_ptr() != theirs.data_ptr()
    capsule = torch.utils.dlpack.to_dlpack(theirs)
    assert eager.utils.dlpack.from_dlpack(capsule).tolist() == [7, 1, 1]
    with pytest.raises(ValueError, match="read before"):
        eager.from_dlpack(capsule)
    with pytest.raises(BufferError, match="require gradient"):
        eager.ones(2).requires_grad_().__dlpack__()


def test_einsum_of_lists_and_smoothed_images():
    x, y = np.random.default_rng(0).standard_normal((2, 2, 3, 4)).astype(np.float32)
    for form in ([[..., 0, 1], [..., 2, 1], [..., 0, 2]], [[0, 1, 2], [0, 1, 2], [1]]):
        expected, found = (
            m.einsum(m.tensor(x), form[0], m.tensor(y), form[1], form[2]) for m in (torch, eager)
        )
        np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-5)
    for mode in ("bilinear", "bicubic"):
        for size in ((2, 9), (3, 4)):
            expected, found = (
                m.nn.functional.interpolate(m.tensor(x[None]), size, mode=mode, antialias=True)
                for m in (torch, eager)
            )
            np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-4, atol=1e-5)


# ---------------------------------------------------------------- what values decide
def _one_hot(x, y):
    return eager.nn.functional.one_hot(x, 4) + y.sum()


def _update(x, y):
    x += 1
    quotient = x // y
    x += 1
    return quotient


def _in_a_branch(x, y):
    return x % y if x.sum() > 0 else x


def _in_a_loop(x, y):
    for _ in range(20):
        x = x + 7 // y
    return x


def _density(x, y):
    return (eager.distributions.Normal(0.0, y.float()).log_prob(x) * 100).round()


def _drawn(x, y):
    return eager.multinomial(y.float(), 2), y.float().clamp(max=1).bernoulli()


@pytest.mark.parametrize("backend", ["eager", "cpp"])
@pytest.mark.parametrize(
    ("fn", "bad"),
    [
        (_one_hot, (4, 2)),
        (_one_hot, (-1, 2)),
        (_update, (3, 0)),
        (_in_a_branch, (3, 0)),
        (_in_a_loop, (3, 0)),
        (_density, (3, 0)),
        (_drawn, (3, -1)),
    ],
)
def test_values_that_an_op_refuses_are_refused_by_compiled_code(fn, bad, backend):
    step = jit(fn, backend=backend)
    for values in ((1, 2), bad, (2, 3)):
        results = []
        for run in (fn, step):
            x, y = (eager.tensor([v, 1]) for v in values)
            eager.manual_seed(3)
            try:
                result = str(run(x, y))
            except (RuntimeError, ValueError) as error:
                result = error
            results.append((str(result), x.tolist(), eager.get_rng_state().tolist()))
        assert results[0] == results[1]
        assert (values == bad) == isinstance(result, Exception)
    assert step.stats.compiles == step.stats.graphs == step.stats.discards == 1


def test_einsum_of_several_types_where_nothing_is_summed():
    x = np.arange(6.0).reshape(2, 3)
    for equation, shape in (("bd,dn->bdn", (3, 2)), ("bd,bd->bd", (2, 3)), ("bd,n->bdn", (4,))):
        results = []
        for m in (torch, eager):
            a, b = m.tensor(x, dtype=m.bfloat16).requires_grad_(), m.ones(shape).requires_grad_()
            out = m.einsum(equation, a, b)
            out.sum().backward()
            results.append(
                [(str(t.dtype).split(".")[1], t.tolist()) for t in (out, a.grad, b.grad)]
            )
        assert results[0] == results[1]
    with pytest.raises(RuntimeError, match="same dtype"):
        eager.einsum("bd,dn->bn", eager.ones(2, 3), eager.ones(3, 2, dtype=eager.float64))
