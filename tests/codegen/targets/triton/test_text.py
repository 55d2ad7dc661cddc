"""What kernels look like: kernels.md has the whole text of a few, to read and to see change.

`pytest --update-golden` writes the file again from what the emitter does now."""

import re
from pathlib import Path

import pytest
import triton_helpers as helpers

import eager
from eager.nn import functional as F

GOLDEN = Path(__file__).with_name("kernels.md")
SECTION = re.compile(r"^## (\w+): (.*?)\n\n```python\n(.*?)```\n", re.DOTALL | re.MULTILINE)
HEAD = "# Triton kernels of small programs\n\nWritten by test_text.py; `jc` is codegen/targets/triton/runtime/prelude.py.\n"


def zeros(*shape):
    return eager.zeros(*shape)


def update(*tensors):
    for p, g in zip(tensors[::2], tensors[1::2], strict=True):
        p.sub_(g * 0.1)
    return ()


CASES = {
    "softmax": (
        "a program owns rows; a row is read once and stays in registers",
        lambda x: F.softmax(x, -1),
        (zeros(1000, 200),),
    ),
    "tail": (
        "full blocks run without a mask, which would make every access scalar at this size",
        lambda x, y: x * y + 1,
        (zeros(5003), zeros(5003)),
    ),
    "linear": (
        "bias and activation on the product's tile; the product itself is not stored",
        lambda x, w, b: F.relu(F.linear(x, w, b)),
        (zeros(100, 64), zeros(70, 64), zeros(70)),
    ),
    "update": (
        "one launch for all parameters: a program finds its tensor in tables",
        update,
        (zeros(64, 32), zeros(64, 32), zeros(32), zeros(32)),
    ),
    "down": (
        "few results of much work: chunks in parallel, then one pass over the chunks",
        lambda x: x.sum(0),
        (zeros(100_000, 64),),
    ),
}


def text(name):
    _, fn, args = CASES[name]
    program, _ = helpers.program_of(fn, args)
    return "\n\n".join(k.source.strip("\n") for k in program.kernels.values()) + "\n"


def test_texts(request):
    written = {name: (CASES[name][0], text(name)) for name in CASES}
    if request.config.getoption("--update-golden"):
        parts = [f"\n## {n}: {why}\n\n```python\n{code}```\n" for n, (why, code) in written.items()]
        GOLDEN.write_text(HEAD + "".join(parts))
    expected = {n: (why, code) for n, why, code in SECTION.findall(GOLDEN.read_text())}
    assert expected == written


@pytest.mark.parametrize("name", CASES)
def test_text_is_python(name):
    compile(text(name), name, "exec")
