"""A kept version from disk: what stands in the source that is made of it, and what it calls."""

import operator
import sys

import pytest

from jitcap.store.allowlist import library_place, text_of_home
from tests.jitcap.store.test_kept_crafted import OBJECT
from tests.jitcap.store.test_kept_crafted import kept as kept
from tests.jitcap.store.test_kept_crafted import watch as watch

pytestmark = pytest.mark.once

HIDDEN = "().__class__.__base__.__subclasses__()"


def test_a_name_that_is_source(kept):
    """The names of a file are pasted into the source that is run."""
    for name in (HIDDEN, "os", "K", "t1", "C1 if bird() else C1", "C1\nbird()", ""):
        constants = {**kept.start["constants"], name: 1}
        kept.is_miss({**kept.start, "constants": constants})
        kept.is_miss({**kept.with_body(["do", name]), "constants": constants})
        kept.is_miss({**kept.start, "roots": {**kept.start["roots"], name: "fn"}})


def test_an_attribute_that_is_spelt_otherwise(kept):
    """CPython reads `_\uff3fsubclasses__` as `__subclasses__`."""
    for name in ("_\uff3fsubclasses__", "_\uff3fbuiltins_\uff3f", "\ufb01eld"):
        kept.is_miss(kept.with_body(["let", "t999", ["attribute", "args", f"'{name}"]]))


CALLS = (
    ("builtins", "max", [1, 2, ["keyword", "'key", OBJECT]]),
    ("builtins", "min", [1, ["star", "args"]]),
    ("builtins", "iter", [OBJECT, 1]), ("builtins", "iter", [["star", "args"]]),
    ("collections", "defaultdict.__init__", ["t998", "t998"]),
    ("builtins", "object.__setattr__", ["t998", "'default_factory", "t998"]),
    ("builtins", "object.__setattr__", ["t998", "t998", "t998"]),
    ("builtins", "print", [1, ["keyword", "'file", OBJECT]]),
    ("collections", "defaultdict", [["tuple", OBJECT]]), ("collections", "defaultdict", ["t998"]),
    ("jitcap.capture.builtins.host_rng", "run_once", [OBJECT, ["list"], ["tuple"], 1]),
    ("jitcap.capture.kinds.constants", "_again", [OBJECT]),
    ("eager.core.dispatch", "apply", [OBJECT, 1]),
    ("jitcap.autodiff.double_backward", "view", [1, ["tuple", ["tuple", OBJECT, ["dict"]]], "True"]),
)  # fmt: skip


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call[1])
def test_a_function_that_would_call_what_it_is_given(kept, call):
    module, name, given = call
    fn = operator.attrgetter(name)(sys.modules[module])
    library = ["library", *library_place(fn), text_of_home(fn)]
    start = kept.with_body(["do", ["call", "C999", *given]])
    start["body"].insert(0, ["let", "t998", OBJECT])
    kept.is_miss({**start, "constants": {**start["constants"], "C999": library}})
