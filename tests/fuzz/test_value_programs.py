"""Random programs that show values of the run, or give them to NumPy, the standard library and what
makes numbers: plain against @jit, at calls that differ. The same results, types, text and errors.

A failure prints the program and its seed; `fuzz_seeds` says how to run others.
"""

import contextlib
import importlib.util
import io
import linecache
import re
import types
import warnings
from pathlib import Path

import fuzz_seeds
import numpy as np
import pytest

import eager
from jitcap import jit

spec = importlib.util.spec_from_file_location(
    "value_programs", Path(__file__).parent / "value_programs.py"
)
value_programs = importlib.util.module_from_spec(spec)
spec.loader.exec_module(value_programs)

GIVEN = (
    (3, 0.5, 2, 1.5, True), (3, 0.25, 3, 2.5, False), (4, 1.0, 5, 0.75, True), (2, 0.0, -2, -7.25, False)
)  # fmt: skip


def define(seed):
    """A module of its own for the program of this seed, and its text."""
    text = value_programs.program(seed)
    name = f"<value {seed}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    scope = {"__name__": "value"}
    exec(compile(text, name, "exec", dont_inherit=True), scope)
    return types.SimpleNamespace(**scope), text


def shown(value, depth=0):
    """A result with the types of all that it holds, without addresses."""
    kind = type(value)
    if issubclass(kind, eager.Tensor):
        return (
            kind.__name__,
            str(value.dtype),
            tuple(value.shape),
            value.requires_grad,
            repr(value.tolist()),
        )
    if issubclass(kind, np.ndarray | np.generic):
        return kind.__name__, value.dtype.str, value.shape, repr(value.tolist())
    if issubclass(kind, list | tuple) and depth < 6:
        return kind.__name__, [shown(v, depth + 1) for v in value]
    if issubclass(kind, dict) and depth < 6:
        return kind.__name__, [(shown(k, depth + 1), shown(v, depth + 1)) for k, v in value.items()]
    return kind.__name__, re.sub(r"0x[0-9a-f]{6,}", "0x", repr(value))


def outcome(fn, outside, size, shift, *numbers):
    """What one call gives, prints and raises, and what it leaves of its arguments."""
    given, said = (eager.arange(float(size)) + shift, *numbers), io.StringIO()
    held = outside(*given)
    with contextlib.redirect_stdout(said):
        try:
            result = shown(fn(*given, held))
        except Exception as error:
            result = type(error).__name__, re.sub(r"0x[0-9a-f]{6,}", "0x", str(error))
    text = re.sub(r"0x[0-9a-f]{6,}", "0x", said.getvalue())
    return result, text, shown(given), shown(list(vars(held).values()))


def one(seed, backend="eager"):
    """Run one program. Raises AssertionError for a difference; gives the counts."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plain, text = define(seed)
        step = jit(plain.program, backend=backend)
        for given in GIVEN:
            expected = outcome(plain.program, plain.outside, *given)
            assert outcome(step, plain.outside, *given) == expected, f"seed {seed}\n{text}"
    counts = fuzz_seeds.counts_of(step)
    for reason in step.stats.refusals:
        assert not reason.startswith("internal:"), f"seed {seed}\n{text}\n{reason}"
    return counts


@pytest.mark.parametrize("first", fuzz_seeds.seeds(40)[::20])
def test_value_programs(first):
    for seed in range(first, first + 20):
        fuzz_seeds.note("value", seed, one(seed))
