"""A large grid of cases -> those that a run takes: CI a fixed share, scripts/nightly all.

@pytest.mark.parametrize("seed", share.of(range(150), 50))
"""

import os
import random

ALL = bool(os.environ.get("JITCAP_TEST_ALL"))


def of(cases, most):
    """`most` of the cases, drawn once and for all and in their order; all of them if JITCAP_TEST_ALL is set."""
    cases = list(cases)
    if ALL or len(cases) <= most:
        return cases
    return [cases[i] for i in sorted(random.Random(most).sample(range(len(cases)), most))]
