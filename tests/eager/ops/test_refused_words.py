"""What is refused speaks of the function and the tensors, not of what lies beneath: tensors without
dimensions, too few of them, and what is no tensor."""

import re

import pytest

import eager
from eager.nn import functional as F

ONE, ROW, SQUARE = eager.tensor(1.0), eager.ones(2), eager.ones(3, 3)
BENEATH = re.compile(
    r"tuple index|has no attribute|unpack|ufunc|core dimension|casting|cast array|too deep|broadcast input"
)
REFUSED = {
    "unbind": (IndexError, lambda: ONE.unbind()),
    "split": (RuntimeError, lambda: ONE.split(1)),
    "chunk": (RuntimeError, lambda: ONE.chunk(2)),
    "tensor_split": (RuntimeError, lambda: ONE.tensor_split(2)),
    "diff": (RuntimeError, lambda: ONE.diff()),
    "trapezoid": (IndexError, lambda: eager.trapezoid(ONE)),
    "cumulative_trapezoid": (IndexError, lambda: eager.cumulative_trapezoid(ONE)),
    "glu": (RuntimeError, lambda: F.glu(ONE)),
    "cdist": (RuntimeError, lambda: eager.cdist(ROW, SQUARE)),
    "pixel_shuffle": (RuntimeError, lambda: F.pixel_shuffle(ROW, 1)),
    "pixel_unshuffle": (RuntimeError, lambda: F.pixel_unshuffle(SQUARE, 1)),
    "channel_shuffle": (RuntimeError, lambda: F.channel_shuffle(ROW, 1)),
    "cholesky_solve": (RuntimeError, lambda: eager.cholesky_solve(eager.ones(2, 2), SQUARE)),
    "repeats of floats": (RuntimeError, lambda: eager.repeat_interleave(ROW)),
    "repeats of rows": (RuntimeError, lambda: eager.repeat_interleave(SQUARE.long())),
    "repeats beside": (RuntimeError, lambda: ROW.repeat_interleave(ROW, dim=0)),
    "atleast_2d": (TypeError, lambda: eager.atleast_2d(ROW, 1)),
    "block_diag": (TypeError, lambda: eager.block_diag(ROW, 2.0)),
    "broadcast_tensors": (TypeError, lambda: eager.broadcast_tensors(ROW, 1)),
    "cartesian_prod": (TypeError, lambda: eager.cartesian_prod(ROW, [1])),
    "meshgrid": (TypeError, lambda: eager.meshgrid(ROW, 1, indexing="ij")),
    "narrow": (RuntimeError, lambda: eager.narrow(ROW, 0, eager.tensor([0]), 1)),
    "bitwise_not": (NotImplementedError, lambda: eager.bitwise_not(ROW)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_do_not_speak_of_what_lies_beneath(name):
    error, call = REFUSED[name]
    with pytest.raises(error) as raised:
        call()
    assert not BENEATH.search(str(raised.value))
