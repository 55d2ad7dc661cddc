"""Random programs about numbers, plain against @jit: the same values (types and bits), exceptions
and effects, at several calls with other numbers.

A failure prints the program and its seed. JITCAP_FUZZ=N runs N programs instead of the usual few,
JITCAP_FUZZ_START=K begins at seed K.
"""

import importlib.util
import linecache
import math
import os
import types
import warnings
from pathlib import Path

import numpy as np
import pytest

import eager
from jitcap import jit

COUNT = int(os.environ.get("JITCAP_FUZZ", "200"))
START = int(os.environ.get("JITCAP_FUZZ_START", "0"))
STEP = 10  # programs to a test

spec = importlib.util.spec_from_file_location(
    "number_programs", Path(__file__).parent / "number_programs.py"
)
programs = importlib.util.module_from_spec(spec)
spec.loader.exec_module(programs)


def exact(value):
    """What tells values apart: type by type, and floats by their bits."""
    if isinstance(value, float):
        return type(value).__name__, "nan" if value != value else float(value).hex()
    if isinstance(value, tuple | list):
        return type(value).__name__, [exact(x) for x in value]
    if isinstance(value, eager.Tensor):
        array = value.numpy()
        return "tensor", array.dtype.name, np.where(array == array, array, 0).tobytes()
    return type(value).__name__, repr(value)


def run(text, name, seed, wrap):
    """Everything that can be seen of the calls: results, exceptions, effects after each."""
    scope = {
        "math": math, "log": [], "G": 5, "o": types.SimpleNamespace(k=2, r=0.25),
        "xs": [4, 1.5], "p": eager.ones(2), "q": eager.arange(2), "table": {1: "one", 2.5: "half"},
    }  # fmt: skip
    exec(compile(text, name, "exec"), scope)
    program = wrap(scope["program"])
    seen = []
    for n, a, whole, parts in programs.arguments(seed):
        a = np.float64(a) if seed % 5 == 0 else a
        t, f = eager.tensor([whole]), eager.tensor(parts, dtype=eager.float64)
        try:
            result = exact(program(n, a, t, f))
        except Exception as error:
            result = type(error).__name__, str(error)
        state = [scope[k] for k in ("log", "G", "xs", "p", "q")]
        o = scope["o"]
        seen.append((result, exact(state), exact([o.k, o.r])))
        del scope["log"][:]
    return seen, program


@pytest.mark.parametrize("first", range(START, START + COUNT, STEP))
@pytest.mark.filterwarnings("ignore")
def test_same_as_plain_python(first):
    for seed in range(first, min(first + STEP, START + COUNT)):
        text, name = programs.program(seed), f"<numbers {seed}>"
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            plain, _ = run(text, name, seed, lambda fn: fn)
            backend = "python" if seed % 8 == 0 else "eager"
            compiled, program = run(text, name, seed, lambda fn, b=backend: jit(fn, backend=b))
        for call, (expected, actual) in enumerate(zip(plain, compiled, strict=True)):
            assert actual == expected, f"seed {seed}, call {call}\n{text}\n{program.stats}"
