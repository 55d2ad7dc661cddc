"""Settings: defaults, environment, code, `with`; custom ops."""

import numpy as np
import pytest

import eager
import jitcap
from eager.config import FLAGS
from jitcap import JitcapWarning, config, custom_op, jit


def test_order_of_precedence(monkeypatch):
    assert config.debug == 0
    monkeypatch.setenv("JITCAP_DEBUG", "2")
    assert config.debug == 2
    with config(debug=3):
        assert config.debug == 3
    assert config.debug == 2


def test_mistakes_are_named(monkeypatch):
    with pytest.raises(AttributeError, match="no setting 'debgu'"):
        config.debgu = 1
    with pytest.raises(TypeError, match=r"config\.debug is int"):
        config.debug = "2"
    monkeypatch.setenv("JITCAP_DEBUG", "much")
    with pytest.raises(ValueError, match="JITCAP_DEBUG='much'"):
        config.debug  # noqa: B018


def test_flags_are_documented():
    assert len(FLAGS) <= 15
    for name, flag in FLAGS.items():
        assert flag.what
        assert name in repr(config)


@custom_op("tests::cube")
def cube(x):
    return eager.tensor(x.detach().numpy() ** 3)


def _save(ctx, inputs, output):
    ctx.save_for_backward(*inputs)


def _backward(ctx, g):
    (x,) = ctx.saved_tensors
    return g * 3 * x * x


cube.register_autograd(_backward, setup_context=_save)


def test_custom_op_in_eager_and_compiled():
    x = eager.tensor([1.0, 2.0, -3.0], requires_grad=True)

    def fn(x):
        return (cube(x * 2) + 1).sum()

    fn(x).backward()
    expected = x.grad.numpy().copy()
    x.grad = None
    jit(fn)(x).backward()
    np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-6)
    np.testing.assert_allclose(expected, 24 * x.detach().numpy() ** 2, rtol=1e-6)


def test_warnings_have_a_class_of_their_own():
    assert issubclass(JitcapWarning, UserWarning)
    assert jitcap.cache.directory is not None
