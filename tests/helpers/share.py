"""A large grid of cases -> those that a run takes: CI a fixed share, scripts/nightly all.

@pytest.mark.parametrize("seed", share.of(range(150), 50))
"""

import os
import random

import pytest

ALL = bool(os.environ.get("JITCAP_TEST_ALL"))


def of(cases, most):
    """`most` of the cases, drawn once and for all and in their order; all of them if JITCAP_TEST_ALL is set."""
    cases = list(cases)
    if ALL or len(cases) <= most:
        return cases
    return [cases[i] for i in sorted(random.Random(most).sample(range(len(cases)), most))]


def in_turn(names, places):
    """(name, place) of a grid: CI takes each name at one of the places in turn, scripts/nightly at all."""
    return [
        pytest.param(name, place, marks=[pytest.mark.nightly] * (i % len(places) != k))
        for i, name in enumerate(names)
        for k, place in enumerate(places)
    ]
