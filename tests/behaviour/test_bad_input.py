"""Wrong input under @jit: the exception of plain Python, at the user's line, and nothing changed."""

import traceback

import numpy as np
import pytest

import eager
from eager import nn
from eager.nn import functional as F
from jitcap import jit

HERE = __file__


def outcome(function, *args, **kwargs):
    """("value", result) or ("raises", exception)."""
    try:
        return "value", function(*args, **kwargs)
    except Exception as error:
        return "raises", error


def lines_in_this_file(error):
    """Line numbers of this file in the error's traceback, outermost first."""
    return [
        frame.lineno
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename == HERE
    ]


def raise_alike(function, *args, **kwargs):
    """Call plainly and under @jit; both must raise the same, from the same line. Returns both."""
    kind, plain = outcome(function, *args, **kwargs)
    assert kind == "raises"
    kind, compiled = outcome(jit(function), *args, **kwargs)
    assert kind == "raises", compiled
    assert type(compiled) is type(plain)
    assert str(compiled) == str(plain)
    assert lines_in_this_file(compiled)[-1] == lines_in_this_file(plain)[-1]
    return plain, compiled


def product(a, b):
    scaled = a * 2
    return scaled @ b


def total(a, b):
    return a + b


@pytest.mark.parametrize("function", [product, total])
def test_wrong_shapes_name_both(function):
    _, error = raise_alike(function, eager.ones(3, 4), eager.ones(5, 6))
    text = str(error)
    assert all(str(size) in text for size in (3, 4, 5, 6)), text


def test_wrong_shape_inside_a_module():
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(9, 2))

    def step(x):
        return model(x).sum()

    raise_alike(step, eager.ones(3, 4))


def test_wrong_dtype():
    def look_up(table, ids):
        return F.embedding(ids, table)

    raise_alike(look_up, eager.ones(3, 4), eager.ones(5))


def test_integer_tensor_cannot_require_grad():
    def mark(x):
        y = x * 2
        return y.requires_grad_()

    raise_alike(mark, eager.arange(3))


@pytest.mark.parametrize("thing", [None, "text", object(), [1, 2]])
def test_not_a_tensor(thing):
    _, plain = outcome(product, thing, eager.ones(2, 2))
    kind, compiled = outcome(jit(product), thing, eager.ones(2, 2))
    assert kind == "raises"
    assert type(compiled) is type(plain)


def test_closed_file(tmp_path):
    file = (tmp_path / "log.txt").open("w")
    file.close()

    def step(x):
        y = x + 1
        file.write("x")
        return y

    error, _ = raise_alike(step, eager.ones(2))
    assert isinstance(error, ValueError)


class Complaint(Exception):
    pass


def complain(x, count):
    if count > 2:
        raise Complaint(f"{count} is too many for {tuple(x.shape)}")
    return x


def test_raising_user_function():
    def step(x):
        return complain(x * 2, 3)

    raise_alike(step, eager.ones(2))


def test_an_exception_caught_inside_is_no_exception():
    def step(x):
        try:
            return complain(x, 3)
        except Complaint as error:
            return x * len(str(error))

    x = eager.ones(2)
    assert np.array_equal(jit(step)(x).numpy(), step(x).numpy())


def fresh():
    eager.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    model.calls = 0
    return model


def state(model):
    grads = [None if p.grad is None else p.grad.numpy().tolist() for p in model.parameters()]
    values = {name: value.numpy().tolist() for name, value in model.state_dict().items()}
    return model.calls, grads, values


@pytest.mark.parametrize("stage", ["before", "after forward", "after backward", "after update"])
def test_state_after_an_exception_is_plain_pythons(stage):
    """Tensors, grads and module state are as far along as plain Python would have left them."""

    def make(model):
        optimizer = eager.optim.SGD(model.parameters(), lr=0.1)
        log = []

        def fail(at):
            log.append(at)
            if at == stage:
                raise Complaint(at)

        def step(x):
            model.calls += 1
            fail("before")
            loss = (model(x) ** 2).sum()
            fail("after forward")
            loss.backward()
            fail("after backward")
            optimizer.step()
            x.add_(1)
            fail("after update")

        return step, log

    results = []
    for wrap in (lambda f: f, jit):
        model, x = fresh(), eager.arange(12).float().reshape(3, 4)
        step, log = make(model)
        with pytest.raises(Complaint, match=stage):
            wrap(step)(x)
        results.append((state(model), log, x.numpy().tolist()))
    (plain, plain_log, plain_x), (compiled, compiled_log, compiled_x) = results
    assert compiled_log == plain_log
    assert compiled_x == plain_x
    assert compiled[0] == plain[0]
    assert (compiled[1][0] is None) == (plain[1][0] is None)
    for name, value in plain[2].items():
        np.testing.assert_allclose(compiled[2][name], value, rtol=1e-5, atol=1e-6)


def test_index_out_of_range():
    def look_up(table, ids):
        return table[ids]

    raise_alike(look_up, eager.ones(3, 4), eager.tensor([0, 7]))


def test_backward_twice():
    def step(x):
        loss = (x * x).sum()
        loss.backward()
        loss.backward()

    raise_alike(step, eager.ones(3, requires_grad=True))


def test_good_input_after_bad_input():
    compiled = jit(product)
    with pytest.raises(RuntimeError):
        compiled(eager.ones(3, 4), eager.ones(5, 6))
    out = compiled(eager.ones(3, 4), eager.ones(4, 6))
    assert out.shape == (3, 6)
    assert float(out[0, 0]) == 8.0
