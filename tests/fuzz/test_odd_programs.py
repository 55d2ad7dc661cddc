"""Random programs of odd classes and odd calls, plain against @jit: the same results, and no record
that says that capture itself failed.

A failure prints the program and its seed; `fuzz_seeds` says how to run others.
"""

import contextlib
import importlib.util
import io
import linecache
import re
import warnings
from pathlib import Path

import fuzz_seeds
import pytest

import eager
from jitcap import jit

spec = importlib.util.spec_from_file_location(
    "odd_programs", Path(__file__).parent / "odd_programs.py"
)
odd_programs = importlib.util.module_from_spec(spec)
spec.loader.exec_module(odd_programs)

CALLS = 2


def define(seed):
    """The program of this seed in a module of its own, and its text."""
    text = odd_programs.program(seed)
    name = f"<odd {seed}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    scope = {"__name__": "odd"}
    exec(compile(text, name, "exec", dont_inherit=True), scope)
    return scope["program"], text


def shown(value, depth=0):
    """What is seen of a result, without addresses and times."""
    if isinstance(value, eager.Tensor):
        return value.tolist()
    kind = type(value)
    if kind in (list, tuple) and depth < 4:
        return kind.__name__, [shown(v, depth + 1) for v in value]
    if kind is dict and depth < 4:
        return [(shown(k, depth + 1), shown(v, depth + 1)) for k, v in value.items()]
    with contextlib.suppress(Exception):
        text = re.sub(r"0x[0-9a-f]+", "0x", repr(value))
        return kind.__qualname__, re.sub(r"(?<=\.)\d{3,}", "", text)
    return kind.__qualname__, None


def outcome(fn):
    """What one call gives, prints and warns of."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        try:
            result = shown(fn(eager.tensor([[1.0, -2.0], [0.5, 4.0]])))
        except Exception as error:
            result = type(error).__name__, re.sub(r"0x[0-9a-f]+", "0x", str(error))
    return result, said.getvalue()


def one(seed, backend="eager"):
    """Run one program. Raises AssertionError for a difference; gives the counts."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plain, text = define(seed)
        expected = [outcome(plain) for _ in range(CALLS)]
        if expected != [outcome(plain) for _ in range(CALLS)]:
            return {"programs": 1, "moves": 1}  # it has state of its own: a counter, a random name
        step = jit(define(seed)[0], backend=backend)
        found = [outcome(step) for _ in range(CALLS)]
    assert found == expected, f"seed {seed}\n{text}"
    counts = fuzz_seeds.counts_of(step)
    for reason in step.stats.refusals:
        assert not reason.startswith("internal:"), f"seed {seed}\n{text}\n{reason}"
    return counts


@pytest.mark.parametrize("first", fuzz_seeds.seeds(200)[::20])
def test_odd_programs(first):
    for seed in range(first, first + 20):
        fuzz_seeds.note("odd", seed, one(seed))
