"""Descriptors that have some of the three methods, and what gives back the very object: as plain Python does."""

import itertools

import pytest

import eager
from jitcap import jit

WAYS = {
    "__get__": lambda self, obj, cls=None: ("got", obj is None),
    "__set__": lambda self, obj, value: obj.__dict__.update(held=value),
    "__delete__": lambda self, obj: obj.__dict__.pop("held", None),
}


def sets(obj):
    obj.v = 1


def deletes(obj):
    del obj.v


def deletes_by_default(obj):
    object.__delattr__(obj, "v")


def catches(obj):
    try:
        obj.v = 1
        del obj.v
    except AttributeError as error:
        return str(error)


def reads(obj):
    return getattr(obj, "v", None)


def outcome(step, obj):
    try:
        _, found = step(eager.ones(2), obj)
    except AttributeError as error:
        found = error.args
    held = {k: v for k, v in vars(obj).items() if k in ("v", "held")}
    return found, held


@pytest.mark.filterwarnings("ignore::jitcap.JitcapWarning")
def test_each_subset_of_the_methods():
    ways = [sets, deletes, deletes_by_default, catches, reads]
    subsets = itertools.chain(*(itertools.combinations(WAYS, n) for n in range(4)))
    for names in subsets:
        member = type("Descriptor", (), {name: WAYS[name] for name in names})()
        for bases, make in (
            ((), lambda cls: cls()),
            ((eager.Tensor,), lambda cls: eager.ones(2).as_subclass(cls)),
        ):
            cls = type("Owner", bases, {"v": member})
            for way in ways[: 5 if not bases or names else 4]:
                step = jit(lambda x, obj, way=way: (x * 2, way(obj)), backend="eager")
                for own in ({}, {"v": "own"}, {}):
                    wanted, found = make(cls), make(cls)
                    for obj in (wanted, found):
                        vars(obj).update(own)
                    expected = outcome(step.original, wanted)
                    assert outcome(step, found) == expected, (names, bases, way, own)


def test_what_is_its_own_copy():
    def program(x, members, row, text, data):
        return (
            frozenset(members) is members, type(members)(members) is members, tuple(row) is row,
            str(text) is text, bytes(data) is data, row[:] is row, text[:] is text, x,
        )  # fmt: skip

    step = jit(program, fullgraph=True, backend="eager")
    args = (frozenset([1, 2]), (1, 2000), "some text", b"some data")
    assert step(eager.ones(2), *args)[:-1] == program(eager.ones(2), *args)[:-1]
