"""What tells a guard from another, and a value from one that Python calls equal."""

import numpy as np

import eager
from jitcap import jit
from jitcap.base.origin import Positional
from jitcap.guards.guard import Equals, Holds, Length


def test_a_guard_on_a_truth_is_none_on_a_value():
    programs = [
        (lambda x, n: [0] * n if n else 0, [(2,), (3,), (1,), (4,), (0,), (True,)]),
        (lambda x, a, n: [x, [0] * (a or n)], [(0, 2), (0, 3), (True, 4), (1, 4), (2, 4), (0, 1)]),
        (lambda x, a, n: [max(a, n), max(a, n) == 1], [(True, 1), (True, 0), (0.5, 1), (1.0, 0)]),
        (lambda x, v: [x, bool(v)], [(np.float64(1),), (np.float64(0),), (2,)]),
    ]
    for program, calls in programs:
        step = jit(program, backend="eager")
        for args in calls:
            assert repr(step(eager.ones(2), *args)) == repr(program(eager.ones(2), *args)), args


def test_the_key_of_a_guard_is_all_that_it_asks():
    place = Positional(0, "n")
    zeros = [0, False, 0.0, -0.0, 0j, -0j, "", b"", (), None, np.float64(0), np.float64(-0.0)]
    constants = [*zeros, (0,), (False,), (0.0,), (-0.0,), float("nan"), 1, True, 1.0, (1, (True,))]
    guards = [Equals(place, "", c) for c in constants]
    guards += [Holds(place, "", True), Holds(place, "", False), Length(place, "", 1)]
    guards += [
        Length(place, "", 1, len),
        Length(place, "", True),
        Equals(Positional(1, "m"), "", 1),
    ]
    assert len({guard.key() for guard in guards}) == len(guards)
    assert len({Equals(place, f"line {i}", c).key() for c in constants for i in (1, 2)}) == len(
        constants
    )
