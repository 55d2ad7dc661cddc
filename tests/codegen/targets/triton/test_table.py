"""The vocabulary is complete: every intrinsic, on every type that eager computes it on, in Triton's words."""

import itertools
import re

import numpy as np
import pytest

from codegen.ir.expr import CODEGEN
from codegen.ir.schema import Unsupported
from codegen.targets.triton import table
from codegen.targets.triton.program import HEADER
from codegen.targets.triton.runtime import build
from eager.base import dtype as dt
from eager.base.scalar import VOCABULARY

FLOATS = (dt.float32, dt.float64)
INTS = (dt.uint8, dt.int8, dt.int16, dt.int32, dt.int64)
FLOAT_ONLY = set(
    "exp expm1 log log1p log2 sqrt rsqrt sin cos tan asin acos atan atan2 sinh cosh tanh erf lgamma".split()
)
INT_ONLY = set("and_ or_ xor not_ shl shr gcd".split())


@pytest.mark.parametrize("name", sorted(VOCABULARY))
def test_every_intrinsic_is_spelled(name):
    kinds = FLOATS if name in FLOAT_ONLY else INTS if name in INT_ONLY else (*FLOATS, *INTS)
    for dtype in kinds:
        arguments = [f"x{i}" for i in range(VOCABULARY[name].arity)]
        text = table.template(name, dtype).format(*arguments)
        assert all(a in text for a in arguments)


@pytest.mark.parametrize("name", CODEGEN)
def test_every_draw_is_spelled(name):
    for dtype in (dt.int64,) if name == "random_bits" else FLOATS:
        assert table.template(name, dtype)


@pytest.mark.parametrize("dtype", [dt.int32, dt.bool_, dt.float32], ids=lambda d: d.name)
def test_blocks_stand_beside_what_is_one_for_all(dtype):
    """The interpreter lets a loop make a block of a number; the compiler does not."""
    pytest.importorskip("triton.language")
    lines = []
    for fn, template in table.TABLES[dtype].items():
        arity = 1 + max(map(int, re.findall(r"\{(\d)\}", template)))
        for given in itertools.product(("x", "one"), repeat=arity):
            if set(given) == {"x", "one"} and not fn.startswith(("random", "where")):
                value = f"({template.format(*given)}).to({table.type_name(dtype)})"
                lines.append(f"    tl.store(p + {128 * len(lines)} + at, {value})\n")
    head = "\n\n@triton.jit\ndef all_of_it(p):\n    at = tl.arange(0, 128)\n"
    source = f"{HEADER}{head}    x, one = tl.load(p + at), tl.load(p)\n{''.join(lines)}"
    kernel = build.load_kernels(source).all_of_it
    assert build.compile_offline(kernel, {"p": f"*{table.PARAMETERS[dtype]}"}, {})


def test_what_a_type_lacks_is_refused_by_name():
    with pytest.raises(Unsupported, match="exp of int32"):
        table.template("exp", dt.int32)
    with pytest.raises(Unsupported, match="complex64"):
        table.type_name(dt.complex64)


@pytest.mark.parametrize("value", [0.1, -0.0, 1e300, np.inf, -np.inf, np.nan])
def test_literals_read_back_exactly(value):
    text = table.number(value, dt.float64)
    assert np.array_equal(np.float64(eval(text)), np.float64(value), equal_nan=True)
    assert np.signbit(eval(text)) == np.signbit(value)
