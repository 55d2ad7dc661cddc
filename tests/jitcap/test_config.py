"""Settings: defaults, environment, code, `with`; custom ops."""

import os
import re
import subprocess
import sys

import numpy as np
import pytest

import eager
import jitcap
from eager.base.config import FLAGS
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


@pytest.mark.parametrize(
    ("name", "value", "valid"),
    [
        ("JITCAP_ISA", "avx1024", "'native', 'avx512', 'avx2', 'baseline'"),
        ("JITCAP_TRACEBACK", "ful", "'short', 'full'"),
        ("JITCAP_BACKEND", "gpp", "cpp, triton, python, eager"),
        ("JITCAP_DEVICE", "cuda", "'', 'sim'"),
        ("JITCAP_DEBUG", "7", "0 to 6"),
        ("JITCAP_STRICT", "maybe", "1, true, yes, on, 0, false, no, off"),
        ("JITCAP_ENTRIES", "0", "at least 1"),
        ("JITCAP_THREADS", "-1", "at least 0"),
    ],
)
def test_a_value_that_there_is_not_raises_at_the_compile(monkeypatch, name, value, valid):
    monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=re.escape(valid)) as raised:
        jit(lambda x: x + 1)(eager.ones(2))
    assert value in str(raised.value)


def test_a_wrong_value_in_code_raises():
    with pytest.raises(ValueError, match=r"config\.isa='avx1024': there are 'native'"):
        config.isa = "avx1024"
    with pytest.raises(ValueError, match="expected 0 to 6"), config(debug=-1):
        pass


def test_the_environment_is_looked_at_by_the_import():
    run = [sys.executable, "-W", "error", "-c", "import eager; print('imported')"]
    known = {k: v for k, v in os.environ.items() if not k.startswith("JITCAP_")}
    names = {
        "JITCAP_DEBUGG": "1",
        "JITCAP_XYZ": "1",
        "JITCAP_CACHE_DIR": "x",
        "JITCAP_FUZZ_SEEDS": "3",
    }
    found = subprocess.run(run, env=known | names, capture_output=True, text=True, check=True)
    assert found.stdout == "imported\n"
    assert "<string>:1: UserWarning: the environment has JITCAP_DEBUGG" in found.stderr
    assert "did you mean JITCAP_DEBUG" in found.stderr
    assert "JITCAP_XYZ, which means nothing here: there are JITCAP_DEBUG, " in found.stderr
    assert found.stderr.count("Warning") == 2
    found = subprocess.run(
        run, env=known | {"JITCAP_ISA": "sse"}, capture_output=True, text=True, check=False
    )
    assert "ValueError: JITCAP_ISA='sse': there are 'native'" in found.stderr


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
