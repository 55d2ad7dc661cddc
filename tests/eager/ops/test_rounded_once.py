"""16-bit floats: functions of several steps compute in float32 and round their result once."""

import pytest

import eager
from eager.nn import functional as F
from eager.ops import samples as s
from jitcap import jit

ROUNDED_ONCE = {
    "linear": lambda x, y, b: F.linear(x, y, b),
    "addmm": lambda x, y, b: eager.addmm(b, x, y.T, beta=0.3, alpha=0.7),
    "addmv": lambda x, y, b: eager.addmv(b, x.T, b, alpha=0.7),
    "baddbmm": lambda x, y, b: eager.baddbmm(b, x[None], y.T[None], beta=0.3),
    "conv1d": lambda x, y, b: F.conv1d(x[None], y[:, :, None].transpose(0, 1), b),
    "attention": lambda x, y, b: F.scaled_dot_product_attention(x, y, y),
    "softmax": lambda x, y, b: x.softmax(-1),
    "log_softmax": lambda x, y, b: x.log_softmax(-1),
    "mean": lambda x, y, b: x.mean(0),
    "var": lambda x, y, b: x.var(0),
    "glu": lambda x, y, b: F.glu(x),
    "avg_pool2d": lambda x, y, b: F.avg_pool2d(x[None], 3),
    "interpolate": lambda x, y, b: F.interpolate(x[None], scale_factor=2.0, mode="linear"),
}


@pytest.mark.parametrize("dtype", [eager.bfloat16, eager.float16], ids=str)
@pytest.mark.parametrize("name", ROUNDED_ONCE)
def test_what_takes_several_steps_is_rounded_once(name, dtype):
    call = ROUNDED_ONCE[name]
    operands = [
        s.values((24, 24), -2, 2),
        s.values((24, 24), -2, 2, seed=1),
        s.values((24,), -9, 9),
    ]
    narrow = [eager.tensor(a).to(dtype) for a in operands]
    for run in (call, jit(call)):
        exact = call(*(t.double() for t in narrow)).to(dtype)
        assert (run(*narrow) == exact).float().mean() > 0.97  # what lies halfway may go either way


def test_operands_of_two_types_are_not_rounded_to_one():
    with pytest.raises(RuntimeError, match="dtype"):
        F.linear(eager.ones(2, 3, dtype=eager.bfloat16), eager.ones(2, 3))
