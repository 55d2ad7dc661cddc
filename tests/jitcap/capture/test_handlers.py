"""Handlers of builtins take what the builtin takes: a call that misses a parameter would raise
TypeError, which the program may catch."""

import functools
import inspect
import sys
import types
from inspect import Parameter
from pathlib import Path

import eager
from jitcap import jit
from jitcap.capture import session
from jitcap.capture.builtins import table
from jitcap.capture.kinds.base import HANDLERS

assert session  # it fills the table
_NAMED = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)


def _parameters(fn):
    try:
        return [*inspect.signature(fn).parameters.values()]
    except (TypeError, ValueError):  # a builtin without a signature
        return []


def test_every_keyword_of_a_builtin_is_taken():
    missing = []
    for fn, handler in HANDLERS.items():
        if not callable(fn):  # a method as (type, name), or a code object
            continue
        taken = _parameters(handler)
        if any(p.kind is Parameter.VAR_KEYWORD for p in taken):
            assert taken[0].kind is not Parameter.POSITIONAL_OR_KEYWORD, f"{fn}: {handler}"
            continue
        names = {p.name for p in taken if p.kind in _NAMED}
        given = {p.name for p in _parameters(fn) if p.kind in _NAMED} - {"self"}
        missing += [(fn, name) for name in given - names]
    assert not missing


def test_every_family_is_registered():
    files = {path.stem for path in Path(table.__file__).parent.glob("*.py")}
    assert files - {"__init__", "polyfills", "table"} <= {*table.__all__}


class Processor:
    def __call__(self, attn, x, scale=2.0, *more, temb=None, **rest):
        return x * scale


def chunk(x, y=1):
    return x + y


@functools.wraps(chunk)
def wrapped(*args, **kwargs):
    return chunk(*args, **kwargs)


def test_parameters_of_functions():
    """Libraries pass on what a function takes, as its signature says."""
    processor = Processor()

    def step(x, fn, **given):
        names = set(inspect.signature(processor.__call__).parameters.keys())
        taken = {name: value for name, value in given.items() if name in names}
        parameters = inspect.signature(fn).parameters
        view = types.MappingProxyType({"a": x, "b": 2})
        more = view["a"].sum(), view.get("c"), "b" in view, len(view), [*view]
        kinds = [(p.name, p.kind.name) for p in parameters.values()]
        return processor(None, x, **taken) + len(parameters), "y" in parameters, kinds, more[1:]

    compiled, x = jit(step), eager.ones(2)
    for fn, given in (chunk, {"scale": 3.0}), (chunk, {"other": 1}), (wrapped, {}), (chunk, {}):
        for _ in range(2):
            expected, found = step(x, fn, **given), compiled(x, fn, **given)
            assert eager.equal(found[0], expected[0]) and found[1:] == expected[1:]
    assert (compiled.stats.splits, compiled.stats.fallbacks) == (0, 0)
    limit = sys.getrecursionlimit()
    asked = jit(lambda: sys.getrecursionlimit(), backend="eager")
    try:
        assert asked() == limit
        sys.setrecursionlimit(limit + 7)
        assert asked() == limit + 7
    finally:
        sys.setrecursionlimit(limit)
    chunk.__defaults__ = (4, 5)
    assert step(x, chunk)[2] == compiled(x, chunk)[2]
    chunk.__defaults__ = (1,)
