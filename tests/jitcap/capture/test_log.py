"""The write log of capture: what a way of a branch, a round or a part of the graph has changed."""

import ctypes
import itertools
import re
from collections import OrderedDict, defaultdict, deque
from functools import partial

import numpy as np
import pytest

import eager
from eager import nn
from jitcap import jit
from jitcap.capture.capture import capture
from jitcap.capture.control import log
from tests.helpers.log_comparison import Unlogged


class Table(dict):
    pass


class Meta(type):
    pass


class Queue(deque):
    pass


class Chars(bytearray):
    pass


class Names(set):
    pass


class Fault(Exception):
    pass


class Box:
    pass


def attribute_of_a_dictionary(x):
    table = Table(a=1)
    table.n = 0
    if x.sum() > 0:
        table.n = 1
    return x + table.n


def bytes_in_one_way(x):
    data = bytearray(b"ab")
    if x.sum() > 0:
        data.append(3)
    return x + len(data)


def arguments_of_an_error(x):
    error = Fault("a")
    if x.sum() > 0:
        error.args = ("a", "b")
        error.__cause__ = ValueError("c")
    return x + len(error.args), type(error.__cause__).__name__


def entries_in_another_order(x):
    a, b = {}, {}
    if x.sum() > 0:
        a["n"], b["n"] = x * 2, x * 3
    else:
        b["n"], a["n"] = x * 4, x * 5
    return a["n"] - b["n"]


def bytes_in_a_loop(x):
    data = bytearray(b"ab")
    for _ in range(20):
        x = x * 0.9
        data.append(3)
    return x, bytes(data)


def another_order(x):
    table = OrderedDict(a=1, b=2)
    if x.sum() > 0:
        table.move_to_end("a")
    return x, [*table]


def a_default_in_one_way(x):
    table = defaultdict(list)
    if x.sum() > 0:
        table["a"].append(1)
    return x, [*table]


def both_ways_move_an_iterator(x):
    pairs = enumerate([5, 6, 7])
    if x.sum() > 0:
        next(pairs)
        x = x * 2
    else:
        next(pairs)
    return x, [*pairs]


def an_array_in_one_way(x):
    array = np.zeros(2)
    if x.sum() > 0:
        array[1:][0] = 1
    return x, array.tolist()


def held_where(make):
    """A list that only what `make` gives leads to is longer after one way."""

    def program(x):
        holder, held = make(x)
        if x.sum() > 0:
            held(holder).append(1)
        return x, len(held(holder))

    program.__name__ = make.__name__
    return program


def class_attribute(x):
    class Own:
        items = []

    return Own, lambda own: own.items


def attribute_of_a_tensor(x):
    y = x * 2
    y.items = []
    return y, lambda y: y.items


def attribute_of_an_error(x):
    error = ValueError("a")
    error.items = []
    return error, lambda error: error.items


def owner_of_a_builtin_method(x):
    return [].append, lambda push: push.__self__


def start_of_a_slice(x):
    return slice([], None), lambda cut: cut.start


def only_a_view(x):
    return {"a": []}.values(), lambda view: [*view][0]


def a_repeated_list(x):
    return itertools.repeat([]), next


def moved(make):
    """An iterator is at another place after one way."""

    def program(x):
        it = make()
        if x.sum() > 0:
            next(it)
        return x, next(it)

    program.__name__ = make.__name__
    return program


def pairs():
    return itertools.product([0, 1], [2, 3])


def orders():
    return itertools.permutations([0, 1, 2])


def choices():
    return itertools.combinations([0, 1, 2], 2)


def rounds():
    it = itertools.cycle([0, 1, 2])
    return [next(it) for _ in range(4)] and it


def of_each():
    return map(str, [1, 2, 3])


def some():
    return filter(None, [1, 2, 3])


def twins():
    one, other = itertools.tee([1, 2, 3])
    return next(other) and one


def by_index():
    class Items:
        def __getitem__(self, i):
            return i

    return iter(Items())


def an_iterator_in_a_loop(x):
    it = map(str, range(100))
    while x.abs().sum() < 20:
        x, _ = x * 1.5, next(it)
    return x, next(it)


def another_default(x):
    table = defaultdict(list)
    if x.sum() > 0:
        table.default_factory = int
    return x, table["a"]


def another_name(x):
    def own():
        pass

    if x.sum() > 0:
        own.__name__ = "b"
    return x, own.__name__


def context_of_an_error(x):
    error = ValueError("a")
    if x.sum() > 0:
        error.__suppress_context__ = True
    return x, error.__suppress_context__


def members_of_errors(x):
    stop, found = StopIteration(1), UnicodeDecodeError("utf8", b"abc", 0, 1, "bad")
    if x.sum() > 0:
        stop.value, found.reason, found.start = 2, "worse", 1
    return x, stop.value, found.reason, found.start


def tables_of_a_function(x):
    def own(a=1, *, b=2):
        return a + b

    own.tag = 0
    if x.sum() > 0:
        own.__kwdefaults__["b"] = 3
        own.__annotations__["a"] = int
        own.__dict__["tag"] = 1
    return x, own(), sorted(own.__annotations__), own.tag


def attributes_of_a_partial(x):
    bound = partial(max, [1])
    bound.tag = 0
    if x.sum() > 0:
        bound.tag = 1
    return bound, vars(bound), x


def a_class_that_a_metaclass_makes(x):
    own = Meta("Own", (), {"n": 0})
    if x.sum() > 0:
        own.n = 1
    return x, own.n, own.__module__


def subclasses_of_containers(x):
    queue, chars, names = Queue([1]), Chars(b"a"), Names({1})
    if x.sum() > 0:
        queue.append(2)
        chars.append(98)
        names.add(2)
    return x, [*queue], bytes(chars), sorted(names)


def both_ways_add_an_entry(x):
    table = OrderedDict(a=1)
    if x.sum() > 0:
        table["b"] = x * 2
    else:
        table["b"] = x * 3
    return x, [*table], [*reversed(table)]


def an_equal_key_of_another_type(x):
    table = {1: "a", 2: "b"}
    if x.sum() > 0:
        table[2.0] = table.pop(2)
    return x, str(table)


def attributes_of_an_ordered_dictionary(x):
    table = OrderedDict()
    table.tag = 1
    return table, vars(table), x


def a_record_of_an_array(x):
    rows = np.zeros(2, dtype=[("a", "i4")])
    if x.sum() > 0:
        rows[0]["a"] = 3
    return x, rows.tolist()


def an_array_behind_a_place(x):
    elements = np.arange(4).flat
    if x.sum() > 0:
        next(elements)
    return x, next(elements)


def an_array_by_its_elements(x):
    array = np.zeros(3)
    if x.sum() > 0:
        array.flat[0] = 3
    return x, array.tolist()


def names_and_bases_of_a_class(x):
    class One:
        v = 1

    class Two:
        v = 2

    class Named(One):
        pass

    class Based(One):
        pass

    def of_a_module():
        pass

    if x.sum() > 0:
        Named.__name__ = "Renamed"
    if x.mean() > 0:
        Based.__bases__ = (Two,)
    if x.max() > 0:
        of_a_module.__module__ = "another"
    return x * Based.v, Named.__name__, of_a_module.__module__


def where_an_error_was_raised(x):
    first, second = ValueError("first"), KeyError("second")
    try:
        raise TypeError
    except TypeError as error:
        kept = error
    if x.sum() > 0:
        first.__context__ = second
    if x.mean() > 0:
        kept.__traceback__ = None
    return x, first.__context__ is second, kept.__traceback__ is None


def state_of_a_partial(x):
    power = partial(pow, 2)
    if x.sum() > 0:
        power.__setstate__((pow, (3,), {}, {}))
    return x * power(3)


def elements_of_an_array_of_objects(x):
    array = np.empty(1, dtype=object)
    array[0] = [1, 2]
    if x.sum() > 0:
        array[0].append(3)
    return x * len(array[0])


def an_array_that_cannot_be_written_to(x):
    array = np.zeros(2)
    if x.sum() > 0:
        array.setflags(write=False)
    return x, array.flags.writeable


def a_number_of_c(x):
    number = ctypes.c_int(3)
    if x.sum() > 0:
        number.value = 5
    return x, number.value


def iterators_that_tell_nothing(x):
    found, places = re.finditer("a", "aaaa"), np.ndenumerate(np.arange(3))
    numbers = np.nditer(np.arange(3))
    if x.sum() > 0:
        next(found)
    if x.mean() > 0:
        next(places)
    if x.max() > 0:
        next(numbers)
    return x, next(found).start(), next(places), int(next(numbers))


PROGRAMS = [
    names_and_bases_of_a_class, elements_of_an_array_of_objects, where_an_error_was_raised, state_of_a_partial,
    an_array_that_cannot_be_written_to, a_number_of_c, iterators_that_tell_nothing,
    *map(held_where, (
        class_attribute, attribute_of_a_tensor, attribute_of_an_error, owner_of_a_builtin_method,
        start_of_a_slice, only_a_view, a_repeated_list,
    )),
    *map(moved, (pairs, orders, choices, rounds, of_each, some, twins, by_index)),
    an_iterator_in_a_loop, another_default, another_name, context_of_an_error,
    an_array_by_its_elements, a_record_of_an_array, an_array_behind_a_place,
    members_of_errors, tables_of_a_function, attributes_of_a_partial, subclasses_of_containers,
    a_class_that_a_metaclass_makes, both_ways_add_an_entry, an_equal_key_of_another_type,
    attributes_of_an_ordered_dictionary,
    both_ways_move_an_iterator, an_array_in_one_way,
    another_order, a_default_in_one_way,
    attribute_of_a_dictionary, bytes_in_one_way, arguments_of_an_error, entries_in_another_order,
    bytes_in_a_loop,
]  # fmt: skip


@pytest.mark.parametrize("fn", PROGRAMS)
@pytest.mark.filterwarnings("ignore::jitcap.base.diagnostics.JitcapWarning")
def test_it_answers_as_python(fn):
    step = jit(fn, backend="eager")
    for sign in (1, -1, 1):
        x = eager.tensor([1.0, 2.0]) * sign
        assert str(step(x)) == str(fn(x))


def read_by_nobody_before(x, table):
    if x.sum() > 0:
        table["a"] = 5
        n = len([*table])
    else:
        n = 0
    return x * table["a"] + n


def moved_twice(x, table):
    table.move_to_end("a")
    if x.sum() > 0:
        table.move_to_end("b")
    return x, [*table]


@pytest.mark.filterwarnings("ignore::jitcap.base.diagnostics.JitcapWarning")
def test_a_list_that_only_an_object_from_outside_leads_to():
    def step(x, box):
        box.items = []
        if x.sum() > 0:
            box.n = 1
            box.items.append(2)
        else:
            box.n = 2
        return x, len(box.items)

    compiled = jit(step, backend="eager")
    for sign in (1, -1):
        x, boxes = eager.tensor([1.0, 2.0]) * sign, [Box(), Box()]
        for box in boxes:
            box.n = 0
        assert str(compiled(x, boxes[0])) == str(step(x, boxes[1]))
        assert vars(boxes[0]) == vars(boxes[1])


n = 2


def global_of_a_way(x, table):
    global n
    if x.sum() > 0:
        n = 5
    else:
        n = 2
    return x * n


@pytest.mark.parametrize("fn", [read_by_nobody_before, moved_twice, global_of_a_way])
@pytest.mark.filterwarnings("ignore::jitcap.base.diagnostics.JitcapWarning")
def test_tables_from_outside(fn):
    step = jit(fn, backend="eager")
    for sign in (1, -1, 1):
        x, tables = eager.tensor([1.0, 2.0]) * sign, [OrderedDict(a=1, b=2) for _ in range(2)]
        assert str(step(x, tables[0])) == str(fn(x, tables[1]))
        assert [*tables[0].items()] == [*tables[1].items()]


def counted(n):
    def step(x):
        nonlocal n
        if x.sum() > 0:
            n = 5
        return x * n

    return step


def test_a_variable_from_outside_that_one_way_sets():
    for sign in (1, -1):
        x, compiled, plain = eager.tensor([1.0, 2.0]) * sign, counted(2), counted(2)
        step = jit(compiled, backend="eager", fullgraph=True)
        assert str(step(x)) == str(plain(x))


def test_what_is_written_without_a_record_is_found(monkeypatch):
    monkeypatch.setattr(log.Log, "writing", lambda self, obj: None)

    def one_way(x, box):
        if x.sum() > 0:
            box.y = x
        return x

    with pytest.raises(Unlogged, match="Box|Shadow"):
        jit(one_way, backend="eager")(eager.ones(2), Box())


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(3, 3)

    def forward(self, x):
        h = self.inner(x)
        if h.sum() > 0:
            h = h * 2
        return x + h


def test_a_branch_looks_at_what_it_writes_alone(monkeypatch):
    """Not at all that the program can reach: capture of many branches takes no time for that."""
    net = nn.Sequential(*(Layer() for _ in range(3)))

    def step(x):
        loss = net(x).square().mean()
        loss.backward()
        return loss

    def walked(self):
        raise AssertionError("everything is walked over")

    monkeypatch.setattr(log.Region, "seen", property(walked))
    assert "cond" in str(capture(step, (eager.ones(2, 3),), {}).graph)
