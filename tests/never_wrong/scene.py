"""For the programs of state_between_calls/: one call, then one more after each change of the world."""

import builtins
import decimal
import itertools
import operator
import os
import sys
import time
import types
import warnings

import eager
from eager import nn
from eager.nn import functional as F
from tests.never_wrong.harness import Call, Program

_COUNT = itertools.count()
_SHARED = (builtins, eager, F, operator, time, eager.Tensor, nn.Module, nn.ReLU, nn.Linear)


def nothing():
    """A change that changes nothing: the same call again."""


def scene(step, *changes, args=None, observe=nothing):
    """Call `step`, then after each change of the world again, with the same arguments."""
    given = (eager.tensor([1.0, 2.0, 3.0]),) if args is None else args
    calls = [Call(given, before=change) for change in (None, *changes)]
    return Program(step, calls, observe, restorer())


def rows(step, *arguments, observe=nothing):
    """Call `step` with each row of arguments; a row may end in a dictionary of keyword arguments."""
    return Program(step, [Call(row) for row in arguments], observe, restorer())


def module(source):
    """A fresh module with this text."""
    name = f"never_wrong_scene_{next(_COUNT)}"
    made = sys.modules[name] = types.ModuleType(name)
    exec(source, vars(made))
    return made


def restorer():
    """A function that puts back what a program may replace in the process."""
    names = [(owner, dict(vars(owner))) for owner in _SHARED]
    streams = sys.stdout, sys.stderr, sys.argv, sys.path.copy(), sys.getrecursionlimit()
    context, environ, place = decimal.getcontext().copy(), dict(os.environ), os.getcwd()
    filters = warnings.filters.copy()

    def restore():
        for owner, held in names:
            now = vars(owner)
            for name in [n for n in now if n not in held]:
                delattr(owner, name)
            for name, value in held.items():
                if now.get(name) is not value:
                    setattr(owner, name, value)
        sys.stdout, sys.stderr, sys.argv, sys.path[:] = streams[:4]
        sys.setrecursionlimit(streams[4])
        decimal.setcontext(context.copy())
        os.environ.clear()
        os.environ.update(environ)
        os.chdir(place)
        warnings.filters[:] = filters
        for name in [n for n in sys.modules if n.startswith("never_wrong_scene_")]:
            del sys.modules[name]

    return restore
