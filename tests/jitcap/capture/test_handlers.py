"""Handlers of builtins take what the builtin takes: a call that misses a parameter would raise
TypeError, which the program may catch."""

import inspect
from inspect import Parameter
from pathlib import Path

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
