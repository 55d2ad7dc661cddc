"""Run a function plainly and by capture, and compare: result, changes of the arguments, printed text."""

import contextlib
import copy
import io

from jitcap.base.breaks import Break
from jitcap.base.diagnostics import Trail
from jitcap.capture.capture import capture
from jitcap.pipeline import compile_captured
from jitcap.versions.version import MISS as MISS
from jitcap.versions.version import Options


def plain(value):
    """A value as something that `==` compares in depth."""
    if isinstance(value, float) and value != value:
        return "nan"
    if isinstance(value, (list, tuple)):
        return (type(value).__name__, [plain(v) for v in value])
    if isinstance(value, dict):
        return (type(value).__name__, [(plain(k), plain(v)) for k, v in value.items()])
    if isinstance(value, (set, frozenset)):
        return (type(value).__name__, sorted(map(repr, value)))
    if hasattr(value, "_array"):
        return ("tensor", value._array.dtype.name, value._array.tolist())
    if isinstance(value, type) or callable(value):
        return getattr(value, "__qualname__", type(value).__qualname__)
    if hasattr(value, "__dict__") and not isinstance(value, BaseException):
        return (type(value).__qualname__, plain(vars(value)))
    if hasattr(type(value), "__slots__"):
        names = [n for n in type(value).__slots__ if hasattr(value, n)]
        return (type(value).__qualname__, [(n, plain(getattr(value, n))) for n in names])
    return (type(value).__name__, repr(value))


def outcome(run):
    """(result or exception, printed text) of a call."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        try:
            result = ("returned", plain(run()))
        except Exception as error:
            result = ("raised", type(error).__name__, str(error))
    return result, out.getvalue()


def version_of(fn, args, kwargs):
    """A version of `fn` for this call, run op by op."""
    captured = capture(fn, args, kwargs)
    return captured, compile_captured(captured, Options(backend="eager"), Trail("test")).call


def check_refusal(refusal, expected):
    """Capture gave up because the program raises: the same exception."""
    assert refusal.kind == "exception", refusal.record()
    assert expected[0] == "raised", refusal.record()
    assert refusal.what == f"{expected[1]}: {expected[2]}"


def check(fn, *args, calls=2, **kwargs):
    """`fn` captured does what `fn` does, call after call; capturing itself changes nothing."""
    mine, theirs = copy.deepcopy((args, kwargs)), copy.deepcopy((args, kwargs))
    for _ in range(calls):
        expected = outcome(lambda: fn(*mine[0], **mine[1]))
        before = plain(theirs)
        try:
            _, entry = version_of(fn, *theirs)
        except Break as refusal:
            check_refusal(refusal, expected[0])
            return
        finally:
            assert plain(theirs) == before, "capture changed something"
        got = outcome(lambda: entry(*theirs))
        assert got == expected, f"{got}\n{expected}"
        assert plain(theirs) == plain(mine), f"{plain(theirs)}\n{plain(mine)}"
