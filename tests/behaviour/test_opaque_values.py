"""Values of types whose state lies in C: another one at the next call is seen, whatever it costs."""

import decimal
import operator

import numpy as np
import pytest

import eager
from jitcap import jit

CASES = {
    "itemgetter": (operator.itemgetter(0), operator.itemgetter(1), lambda x, get: x * get([2, 5])),
    "attrgetter": (
        operator.attrgetter("real"),
        operator.attrgetter("imag"),
        lambda x, get: x * get(3 + 4j),
    ),
    "methodcaller": (
        operator.methodcaller("count", "a"),
        operator.methodcaller("count", "b"),
        lambda x, call: x * call("aab"),
    ),
    "decimal": (decimal.Decimal(2), decimal.Decimal(5), lambda x, d: x * float(d)),
    "sum of decimals": (decimal.Decimal(2), decimal.Decimal(5), lambda x, d: x * float(d + 1)),
    "array of no dimensions": (np.array(2.0), np.array(5.0), lambda x, a: x * float(a)),
    "mask": (np.array([True, False]), np.array([True, True]), lambda x, mask: x[mask]),
    "vectorize": (
        np.vectorize(lambda v: v + 1),
        np.vectorize(lambda v: v + 5),
        lambda x, f: x * f(3).item(),
    ),
    "polynomial": (np.poly1d([2]), np.poly1d([5]), lambda x, f: x * float(f(3))),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore::jitcap.JitcapWarning")
def test_another_value_is_seen(name):
    first, second, function = CASES[name]
    step, x = jit(function, backend="eager"), eager.ones(2)
    for value in (first, second, first):
        assert step(x, value).tolist() == function(x, value).tolist()
