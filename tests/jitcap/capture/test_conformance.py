"""Each construct of Python, interpreted by capture against plain CPython: values, effects, exceptions."""

import pytest

from . import programs_classes as programs_classes
from . import programs_generators as programs_generators
from . import programs_language as programs_language
from . import programs_match as programs_match
from . import programs_objects as programs_objects
from .harness import check, version_of
from .programs_language import counter_factory
from .table import CASES


@pytest.mark.parametrize("name", sorted(CASES))
def test_case(name):
    fn, args, kwargs = CASES[name]
    check(fn, *args, **kwargs)


def test_closure_state():
    plain, jitted = counter_factory(), counter_factory()
    for _ in range(3):
        _, entry = version_of(jitted, (), {})
        assert entry((), {}) == plain()
