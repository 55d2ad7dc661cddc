"""Our dataclasses are those of the standard library, made with less."""

import contextlib
import copy
import dataclasses
import pickle
import sys
from dataclasses import FrozenInstanceError, field, fields, replace
from typing import Any, ClassVar

import pytest

import codegen  # noqa: F401 - the module that a class here is said to be of
from eager.base.dataclass import dataclass

HOW = [{"frozen": f, "eq": e, "slots": s} for f in (0, 1) for e in (0, 1) for s in (0, 1)]


def classes(decorator, module, **how):
    """A class with every kind of field that we use, one that inherits from it, and one without."""

    @decorator(**how)
    class Base:
        __module__ = module
        x: int
        y: tuple[int, ...] = (1,)
        kind: ClassVar[str] = "base"

    @decorator(**how)
    class Derived(Base):
        """With more."""

        __module__ = module
        must: str = field(kw_only=True)
        made: list[Any] = field(default_factory=list, repr=False)
        own: dict[str, Any] = field(default_factory=dict, init=False, compare=False)
        kind: ClassVar[str] = "derived"

        def __post_init__(self) -> None:
            self.own["seen"] = self.x

    @decorator(**how)
    class Empty:
        __module__ = module

        def __repr__(self) -> str:
            return "nothing"

    return Base, Derived, Empty


def told(cls, call):
    try:
        found = call(cls)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the same for both
        return type(error).__name__, str(error).replace(cls.__qualname__, "")
    return repr(found).replace(cls.__qualname__, "")


def fixed(method):
    return lambda cls: method(cls(1, must="a") if cls.kind == "derived" else cls(1))


QUESTIONS = [
    lambda cls: [(f.name, f.init, f.kw_only) for f in fields(cls)],
    lambda cls: cls.__match_args__,
    lambda cls: hasattr(cls, "__slots__"),
    lambda cls: cls.__hash__ is None,
    fixed(lambda v: v),
    fixed(lambda v: replace(v, x=3)),
    fixed(lambda v: (v == replace(v), v == replace(v, x=2), v == 1, v != replace(v))),
    fixed(lambda v: setattr(v, "x", 2) or v.x),
    fixed(lambda v: delattr(v, "x") or hasattr(v, "x")),
    fixed(copy.copy),
    fixed(copy.deepcopy),
    fixed(lambda v: hash(v) == hash(replace(v))),
]


@pytest.mark.parametrize("how", HOW, ids=lambda how: "-".join(n for n in how if how[n]) or "plain")
@pytest.mark.parametrize("module", [__name__, "codegen"])
def test_it_is_what_the_standard_one_makes(how, module):
    made = (classes(d, module, **how) for d in (dataclass, dataclasses.dataclass))
    for ours, theirs in zip(*made, strict=True):
        if not fields(ours):
            assert repr(ours()) == repr(theirs()) == "nothing"
            continue
        for question in QUESTIONS:
            assert told(ours, question) == told(theirs, question), (ours, how)


@dataclass(frozen=True, slots=True)
class Point:
    x: float
    y: float = 0.0


def test_a_record_travels_and_matches():
    point = Point(1.0, 2.0)
    assert pickle.loads(pickle.dumps(point)) == point
    match point:
        case Point(x, y):
            assert (x, y) == (1.0, 2.0)
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'x'"):
        point.x = 3.0
    assert Point.__init__.__qualname__ == "Point.__init__"
    assert Point.__init__.__globals__ is vars(sys.modules[__name__])


def test_a_frozen_record_of_the_compiler_refuses_where_it_is_checked(monkeypatch):
    def made(module):
        class Base:
            x: int
            y: int = 2

        Base.__module__ = module
        return dataclass(frozen=True, slots=True)(Base)

    for checked, module, refuses in (
        (True, "codegen", True), (True, "eager", True), (False, "eager", True),
        (False, "codegen", False),
    ):  # fmt: skip
        monkeypatch.setattr("eager.base.dataclass.CHECKED", checked)
        cls = made(module)
        assert cls(1) == cls(1, 2) and hash(cls(1)) == hash(cls(1)) and cls(3).x == 3
        assert pickle.loads(pickle.dumps(copy.copy(Point(1.0)))) == Point(1.0)
        with pytest.raises(FrozenInstanceError) if refuses else contextlib.nullcontext():
            cls(1).x = 2


def test_a_parameter_that_is_missing_or_unknown_is_refused():
    for call in (Point, lambda: Point(1.0, z=2), lambda: Point(1.0, 2.0, 3.0)):
        with pytest.raises(TypeError, match="__init__"):
            call()
