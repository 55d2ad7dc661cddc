"""Sets of objects that hash by their address: their order is that of plain Python, though what
stands for the objects during capture lies elsewhere."""

import abc
import heapq
import random

import numpy as np
import pytest

import eager
from jitcap import jit


class Box:
    def __init__(self, n):
        self.n = n


class Longest:
    """A key of its own."""

    def __init__(self, box):
        self.box = box

    def __lt__(self, other):
        return self.box.n > other.box.n


def added(boxes):
    found = set()
    for box in boxes:
        found.add(box)
    return [box.n for box in found]


def in_pairs(boxes):
    return [a.n - b.n for a, b in {(a, b) for a in boxes for b in boxes[:2]}]


PROGRAMS = {
    "unpacked": lambda boxes: [box.n for box in {*boxes}],
    "made": lambda boxes: [box.n for box in set(boxes)],
    "comprehension": lambda boxes: [box.n for box in {box for box in boxes}],
    "added": added,
    "frozen": lambda boxes: next(iter(frozenset(boxes))).n,
    "popped": lambda boxes: set(boxes).pop().n,
    "less": lambda boxes: [box.n for box in set(boxes) - {boxes[0]}],
    "listed": lambda boxes: [box.n for box in list(set(boxes))],
    "enumerated": lambda boxes: [i * box.n for i, box in enumerate({*boxes})],
    "starred": lambda boxes: (lambda *each: [box.n for box in each])(*{*boxes}),
    "keys": lambda boxes: [box.n for box in dict.fromkeys(boxes).keys() & set(boxes[1:])],
    "pairs": in_pairs,
    "returned": lambda boxes: {*boxes},
    "stable": lambda boxes: [box.n for box in sorted(set(boxes), key=lambda box: box.n > 2)],
    "methods": lambda boxes: [m.__self__.n for m in {box.__init__ for box in boxes}],
    "text": lambda boxes: [box.n for box in sorted(boxes, key=str)],
    "largest text": lambda boxes: max(boxes, key=str).n,
    "largest texts": lambda boxes: [box.n for box in heapq.nlargest(3, boxes, key=str)],
    "own keys": lambda boxes: [box.n for box in sorted(boxes, key=Longest)],
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.filterwarnings("ignore:@jit")
def test_order_is_that_of_the_objects(name):
    program = PROGRAMS[name]
    compiled = jit(program, backend="eager")
    kept = []  # so that the next objects lie elsewhere
    for count in (5, 5, 6, 9):
        kept += [object() for _ in range(count)]
        boxes = [Box(i) for i in range(count)]
        expected, found = program(boxes), compiled(boxes)
        assert [*found] == [*expected] if type(expected) is set else found == expected


@pytest.mark.filterwarnings("ignore:@jit")
def test_pairs_stand_as_they_were_added_wherever_the_objects_lie():
    """Those of one place in the table stand as they came: in one of eighty tables of six."""
    kept = []
    compiled = jit(lambda boxes: {(a, b) for a in boxes for b in boxes[:2]}, backend="eager")
    for count in range(300):
        boxes = [Box(i) for i in range(6)]
        kept.append((boxes, [object() for _ in range(count % 7)]))
        assert [*compiled(boxes)] == [*{(a, b) for a in boxes for b in boxes[:2]}]


def grown(found, numbers):
    for number in numbers:
        found.add(number)
    found.discard(numbers[0])
    return found


GROWN = {
    "made": lambda numbers: {*numbers},
    "outside": lambda numbers: grown({1, 2}, numbers),
    "frozen": lambda numbers: frozenset([3, *numbers]),
    "words": lambda numbers: grown(set(), [str(n) for n in numbers]),
}


@pytest.mark.filterwarnings("ignore:@jit")
@pytest.mark.parametrize("name", GROWN)
def test_numbers_of_one_place_in_the_table_stand_as_they_came(name):
    draw = random.Random(0)
    program = GROWN[name]
    for _ in range(40):
        numbers = [draw.choice([draw.randrange(-9, 40), draw.randrange(1000)]) for _ in range(6)]
        given = tuple(numbers[: draw.randrange(2, 7)])
        compiled = jit(program, backend="eager")
        for _ in range(2):
            assert [*compiled(given)] == [*program(given)]


@pytest.mark.parametrize("kind", [int, np.int32, np.float64])
def test_numbers_that_vary_from_call_to_call_stand_as_they_came(kind):
    compiled = jit(lambda a, b: {a, b}, backend="eager")
    for a, b in ((3, 11), (11, 3), (3, 19), (19, 3)):
        assert [*compiled(kind(a), kind(b))] == [*{kind(a), kind(b)}]


def test_asking_for_members_is_one_graph():
    def step(boxes):
        seen, numbers = set(), []
        for box in boxes + boxes:
            if box not in seen:
                seen.add(box)
                numbers.append(box.n)
        return numbers, len(seen), bool(seen)

    compiled = jit(step, backend="eager", fullgraph=True)
    boxes = [Box(i) for i in range(5)]
    assert compiled(boxes) == step(boxes) == ([0, 1, 2, 3, 4], 5, True)
    assert compiled.stats.splits == 0


class Renaming(type):
    """A metaclass that does not say how its classes are hashed or compared."""

    def __setattr__(cls, name, value):
        super().__setattr__(name, value)


class Hashing(type):
    asked = []

    def __hash__(cls):
        Hashing.asked.append(cls.__name__)
        return 1

    def __eq__(cls, other):
        return cls is other


@pytest.mark.filterwarnings("ignore:@jit")
def test_classes_of_a_metaclass_in_a_set():
    Named, Abstract = Renaming("Named", (), {}), abc.ABCMeta("Abstract", (), {})
    Hashed = Hashing("Hashed", (), {})
    seen = {Named}

    def step(x, kind):
        if kind in seen:
            return x
        seen.add(kind)
        return x + 1

    compiled, x = jit(step), eager.ones(1)
    for kind, more in (Named, 0), (Abstract, 1), (Abstract, 0), (int, 1), (Named, 0):
        assert compiled(x, kind).item() == 1 + more
    assert (compiled.stats.splits, compiled.stats.fallbacks, len(seen)) == (0, 0, 3)
    Hashing.asked.clear()
    assert [compiled(x, Hashed).item() for _ in range(2)] == [2, 1]
    found, seen = Hashing.asked[:], {Named, Abstract, int}
    Hashing.asked.clear()
    assert [step(x, Hashed).item() for _ in range(2)] == [2, 1] and Hashing.asked == found
