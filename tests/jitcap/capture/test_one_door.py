"""A real object from outside is in the hands of its kind alone: nothing else can read it unguarded."""

import ast
from pathlib import Path

import pytest
from sources import nodes

import eager
import jitcap.capture
from eager.core.sym import SymNumber
from jitcap.base.breaks import Break
from jitcap.capture.kinds.base import HOLDING, KINDS, Kind, kind_of_class
from jitcap.capture.kinds.constants import OPAQUE, ConstantKind, Opaque
from jitcap.capture.kinds.poison import Poison

CAPTURE = Path(jitcap.capture.__file__).parent


def test_only_kinds_hold_the_real_object():
    """`Shadow.real` is named in `kinds/` and in `inputs.py`, the door."""
    faults = []
    for path in sorted(CAPTURE.rglob("*.py")):
        if CAPTURE / "kinds" in path.parents or path.name == "inputs.py":
            continue
        for node in nodes(path):
            if isinstance(node, ast.Attribute) and node.attr == "real":
                faults.append(f"{path.name}:{node.lineno}")
    assert not faults, faults


def test_shadows_are_made_by_kinds():
    """Nobody else brings an object in."""
    faults = []
    for path in sorted(CAPTURE.rglob("*.py")):
        if CAPTURE / "kinds" in path.parents or path.name == "inputs.py":
            continue
        for node in nodes(path):
            name = getattr(getattr(node, "func", None), "id", "")
            if isinstance(node, ast.Call) and name.endswith("Shadow"):
                faults.append(f"{path.name}:{node.lineno} {name}")
    assert faults == [], faults


@pytest.mark.parametrize(
    "use",
    [bool, len, iter, next, hash, str, repr, int, float, abs, round, list, tuple, sorted, format,
     lambda x: x + 1, lambda x: 1 + x, lambda x: x == 1, lambda x: x != x, lambda x: x < 1,
     lambda x: 1 in x, lambda x: x[0], lambda x: [x].index(1), lambda x: {x: 1}, lambda x: f"{x}",
     lambda x: "%s" % x, lambda x: -x, lambda x: x @ x, lambda x: [1].count(x), lambda x: f"{[x]}"],
)  # fmt: skip
def test_what_stands_for_an_opaque_object_refuses_native_code(use):
    with pytest.raises(Break, match="use of a object"):
        use(Opaque(object))


def test_a_kind_refuses_what_it_does_not_define():
    for name in (
        "getattr",
        "getitem",
        "contains",
        "length",
        "truth",
        "iter",
        "next",
        "call",
        "text",
    ):
        assert hasattr(Kind, name)
    calls = {
        "getattr": ("x",), "setattr": ("x", 1), "delattr": ("x",), "getitem": (0,),
        "setitem": (0, 1), "delitem": (0,), "contains": (1,), "length": (), "truth": (),
        "iter": (), "next": (), "call": ((), {}),
    }  # fmt: skip
    for name, rest in calls.items():
        for kind in (Kind(), OPAQUE):
            with pytest.raises(Break):
                getattr(kind, name)(None, Opaque(object), *rest)
    assert issubclass(Opaque, Poison)


def test_plain_values_are_handed_on_as_they_are():
    """A call skips what it does with others: they have no parts, and nothing of them is refused."""
    plain = {cls: kind for cls, kind in KINDS.items() if kind.plain}
    assert {int, float, str, bool, type(None), SymNumber} <= plain.keys()
    for cls, kind in {**plain, eager.Tensor: kind_of_class(eager.Tensor)}.items():
        assert kind.plain and not (kind.python or kind.contains_values), cls
        assert type(kind).see is Kind.see and type(kind).to_native is Kind.to_native, cls
        assert type(kind).settle in (Kind.settle, ConstantKind.settle), cls
        assert not issubclass(cls, tuple(HOLDING)) and not hasattr(cls, "__next__"), cls
