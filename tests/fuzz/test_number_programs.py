"""Random programs about numbers, plain against @jit: the same values (types and bits), exceptions
and effects, at several calls with other numbers.

A failure prints the program and its seed; `fuzz_seeds` says how to run others.
"""

import importlib.util
import linecache
import math
import types
import warnings
from pathlib import Path

import fuzz_seeds
import numpy as np
import pytest

import eager
from jitcap import jit

spec = importlib.util.spec_from_file_location(
    "number_programs", Path(__file__).parent / "number_programs.py"
)
programs = importlib.util.module_from_spec(spec)
spec.loader.exec_module(programs)


LONGEST = 4000  # bits of a number that a program keeps for its next call


def exact(value):
    """What tells values apart: type by type, and floats by their bits."""
    if isinstance(value, float):
        return type(value).__name__, "nan" if value != value else float(value).hex()
    if isinstance(value, tuple | list):
        return type(value).__name__, [exact(x) for x in value]
    if isinstance(value, eager.Tensor):
        array = value.numpy()
        return "tensor", array.dtype.name, np.where(array == array, array, 0).tobytes()
    if type(value) is int:
        return "int", hex(value)  # Python has no decimal text for the longest
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
        if any(
            type(x) is int and x.bit_length() > LONGEST for x in (scope["G"], o.k, *scope["xs"])
        ):
            break  # the next call would take Python itself minutes
    return seen, program


def one(seed, backend=None):
    """Run one program. Raises AssertionError for a difference; gives the counts."""
    text, name = programs.program(seed), f"<numbers {seed}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    backend = backend or ("python" if seed % 8 == 0 else "eager")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plain, _ = run(text, name, seed, lambda fn: fn)
        compiled, step = run(text, name, seed, lambda fn: jit(fn, backend=backend))
    for call, (expected, actual) in enumerate(zip(plain, compiled, strict=True)):
        assert actual == expected, f"seed {seed}, call {call}\n{text}\n{step.stats}"
    counts = fuzz_seeds.counts_of(step)
    fuzz_seeds.check_stats(counts, step)
    return counts


STEP = 10  # programs to a test


@pytest.mark.parametrize("first", fuzz_seeds.seeds(200)[::STEP])
@pytest.mark.filterwarnings("ignore")
def test_same_as_plain_python(first):
    for seed in range(first, first + STEP):
        fuzz_seeds.note("numbers", seed, one(seed))


# What they found: a branch from which every way ends in a `raise` that is caught.
@pytest.mark.filterwarnings("ignore")
def test_same_as_plain_python_where_it_once_was_not():
    one(3000016)
