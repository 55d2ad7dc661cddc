"""Containers of the standard library and of the user."""

import array
import collections
import collections.abc
import inspect
import types

import eager
from tests.never_wrong.harness import Call, Program, case
from tests.never_wrong.scene import nothing, rows, scene
from tests.never_wrong.scene_subjects import Missing


@case("containers")
def a_dict_with_missing():
    table = Missing(a=1)

    def step(x):
        return table["a"], table["b"], table.get("c"), "b" in table, len(table)

    return scene(
        step,
        lambda: table.update(b=2),
        lambda: setattr(Missing, "n", 1),
        observe=lambda: dict(table),
    )


@case("containers")
def missing_that_stores():
    class Memo(dict):
        def __missing__(self, key):
            self[key] = key * 2
            return self[key]

    table = Memo()

    def step(x):
        return x * table[3], table[4]

    return scene(step, nothing, table.clear, observe=lambda: dict(table))


@case("containers")
def a_default_dict_grows_when_it_is_read():
    table = collections.defaultdict(list)

    def step(x):
        table["a"].append(1)
        table["b"]
        return x * len(table["a"]), table.get("c"), len(table)

    def change():
        table.default_factory = None

    return scene(step, nothing, change, observe=lambda: dict(table))


@case("containers")
def a_default_dict_with_another_factory():
    table = collections.defaultdict(int)

    def step(x, key):
        table[key] += 1
        return x * table[key]

    x = eager.ones(1)
    return Program(
        step,
        [
            Call((x, "a")),
            Call((x, "b"), before=lambda: setattr(table, "default_factory", lambda: 10)),
            Call((x, "c")),
            Call((x, "d"), before=lambda: setattr(table, "default_factory", None)),
        ],
        lambda: dict(table),
    )


@case("containers")
def a_counter():
    count = collections.Counter("aab")

    def step(x):
        count["a"] += 1
        count.update("bc")
        count.subtract(["b"])
        return (
            count["z"],
            count.most_common(1),
            count.total(),
            +count,
            count & collections.Counter("ab"),
        )

    return scene(step, nothing, lambda: count.update("zz"), observe=lambda: dict(count))


@case("containers")
def an_ordered_dict_moves_to_the_end():
    table = collections.OrderedDict(a=1, b=2, c=3)

    def step(x):
        table.move_to_end("a")
        return list(table), table == collections.OrderedDict(b=2, c=3, a=1), next(reversed(table))

    return scene(
        step, nothing, lambda: table.move_to_end("b", last=False), observe=lambda: list(table)
    )


@case("containers")
def the_order_of_a_dictionary_changes():
    table = {"a": 1, "b": 2}

    def step(x):
        return list(table), [v for v in table.values()], next(iter(table))

    def change():
        table["a"] = table.pop("a")

    return scene(step, change, nothing)


@case("containers")
def the_order_of_items_with_object_keys():
    class Key:
        def __init__(self, n):
            self.n = n

    a, b = Key(1), Key(2)
    table = {a: "a", b: "b"}

    def step(x):
        return [k.n for k in table], list(table.values())

    def change():
        table[a] = table.pop(a)

    return scene(step, change)


@case("containers")
def a_popitem_and_a_reversal():
    table = {"a": 1, "b": 2, "c": 3}

    def step(x):
        last = table.popitem()
        table["z"] = last[1]
        return last, list(reversed(table)), list(table.items())

    return scene(step, nothing, lambda: table.update(q=5), observe=lambda: list(table.items()))


@case("containers")
def views_of_a_dictionary_are_kept():
    table = {"a": 1}
    keys, items = table.keys(), table.items()

    def step(x):
        table["n"] = table.get("n", 0) + 1
        return list(keys), len(items), ("n", 1) in items, keys & {"a"}, keys == {"a", "n"}

    return scene(step, nothing, lambda: table.update(z=1), observe=lambda: list(items))


@case("containers")
def a_view_made_inside_is_returned():
    table = {"a": 1}

    def step(x):
        return table.keys(), table.values()

    return scene(step, lambda: table.update(b=2), observe=lambda: dict(table))


@case("containers")
def a_mapping_proxy():
    table = {"a": 1}
    proxy = types.MappingProxyType(table)

    def step(x):
        return x * proxy["a"], len(proxy), "b" in proxy, dict(proxy)

    return scene(step, lambda: table.update(a=2), lambda: table.update(b=2))


@case("containers")
def mapping_proxies_are_read_in_all_ways():
    table, ordered = {"a": 1.0, "b": 2.0}, collections.OrderedDict(z=1, y=eager.ones(3))
    proxy, other = types.MappingProxyType(table), types.MappingProxyType(ordered)

    def step(x):
        table["n"] = table.get("n", 0) + 1
        made = types.MappingProxyType({"x": x, **proxy})
        try:
            proxy["a"] = 3
        except TypeError as error:
            refused = str(error)
        for name, value in proxy.items():
            x = x * value if name in proxy else x
        found = sum(proxy.values()), [*other], [*reversed(other)], other.get("w", 5), proxy | {"q": 1}
        return x * other["y"], found, made, len(made), repr(proxy), proxy.copy(), refused, other == ordered

    def change():
        table.update(a=4.0, c=1.0)
        ordered.move_to_end("z")

    return scene(step, change, nothing, observe=lambda: dict(table))


@case("containers")
def arguments_are_bound_to_a_signature():
    def scaled(x, scale=2.0, *, shift: float = 1.0, **more):
        return x * scale + shift

    signature = inspect.signature(scaled)

    def step(x):
        bound = signature.bind(x, shift=4)
        bound.apply_defaults()
        floats = [n for n, p in signature.parameters.items() if p.annotation is float]
        without = [n for n, p in signature.parameters.items() if p.default is inspect.Parameter.empty]
        return scaled(*bound.args, **bound.kwargs), list(bound.arguments), floats, without

    def change():
        nonlocal signature
        signature = signature.replace(parameters=[*signature.parameters.values()][:3])

    return scene(step, change, nothing)


@case("containers")
def user_containers():
    d, l, s = collections.UserDict(a=1), collections.UserList([1]), collections.UserString("ab")

    def step(x):
        d["n"] = d.get("n", 0) + 1
        l.append(len(l))
        return x * d["a"], l[-1], s.upper(), len(l), "n" in d, l + [1]

    return scene(step, lambda: d.update(a=2), lambda: l.clear(), observe=lambda: (d.data, l.data))


@case("containers")
def a_deque_of_limited_length():
    window = collections.deque([1, 2, 3], maxlen=3)

    def step(x):
        window.append(window[-1] + 1)
        window.rotate(1)
        return x * window[0], window.maxlen, list(window), sum(window)

    return scene(step, nothing, lambda: window.appendleft(50), observe=lambda: list(window))


@case("containers")
def a_deque_with_another_length():
    class State:
        window = None

    state = State()
    state.window = collections.deque([1, 2], maxlen=2)

    def step(x):
        state.window.append(9)
        return list(state.window), len(state.window)

    return scene(
        step,
        lambda: setattr(state, "window", collections.deque([1, 2], maxlen=3)),
        lambda: setattr(state, "window", collections.deque([1, 2])),
        lambda: setattr(state, "window", [1, 2]),
        observe=lambda: list(state.window),
    )


@case("containers")
def a_deque_that_is_only_appended_to():
    window = collections.deque(maxlen=2)

    def step(x):
        window.append(x.sum())
        return x + 1

    return scene(step, nothing, nothing, window.clear, observe=lambda: list(window))


@case("containers")
def both_ends_of_a_deque():
    window = collections.deque([1, 2, 3])

    def step(x):
        first, last = window.popleft(), window.pop()
        window.extendleft([last, first])
        return first, last, window.index(first), window.count(2)

    return scene(step, nothing, lambda: window.extend([7, 8, 9]), observe=lambda: list(window))


@case("containers")
def an_array_of_numbers():
    numbers = array.array("i", [1, 2])

    def step(x):
        numbers.append(len(numbers))
        return x * numbers[0], sum(numbers), numbers.typecode

    return scene(step, lambda: numbers.__setitem__(0, 5), observe=lambda: list(numbers))


@case("containers")
def a_bytearray_is_written():
    data = bytearray(b"abc")

    def step(x):
        data[0] += 1
        data.extend(b"z")
        return x * data[1], bytes(data), data.find(b"z")

    return scene(step, nothing, lambda: data.__setitem__(1, 5), observe=lambda: bytes(data))


@case("containers")
def a_memoryview():
    data = bytearray(b"abc")
    view = memoryview(data)

    def step(x):
        view[0] = view[1]
        return x * view[2], bytes(view[1:]), len(view)

    return scene(step, lambda: data.__setitem__(1, 5), observe=lambda: bytes(data))


@case("containers")
def a_set_of_tuples_and_its_order():
    members = frozenset([("a", 1), ("b", 2)])

    def step(x, extra):
        return sorted(members | {extra}), len(members & {extra}), extra in members

    x = eager.ones(1)
    return rows(step, (x, ("a", 1)), (x, ("a", True)), (x, ("c", 3)), (x, ("a", 1.0)))


@case("containers")
def a_set_is_changed_in_place():
    members = {1, 2}

    def step(x):
        members.add(len(members) + 1)
        members.discard(1)
        return len(members), sorted(members), members >= {2}

    return scene(step, nothing, lambda: members.add(1), observe=lambda: sorted(members))


@case("containers")
def a_set_holds_equal_members_of_other_types():
    members = {1}

    def step(x):
        members.add(True)
        members.add(1.0)
        return sorted(map(repr, members)), [type(v).__name__ for v in members]

    return scene(
        step,
        lambda: (members.clear(), members.add(1.0)),
        lambda: (members.clear(), members.add(True)),
    )


@case("containers")
def a_subclass_of_list():
    class Log(list):
        def append(self, item):
            super().append((len(self), item))

        def __len__(self):
            return list.__len__(self) + 100

    log = Log()

    def step(x):
        log.append("a")
        return len(log), log[-1], bool(log), [*log]

    return scene(step, nothing, observe=lambda: list.__len__(log))


@case("containers")
def a_subclass_of_dict_with_a_getter():
    class Loud(dict):
        def __getitem__(self, key):
            return "loud", dict.__getitem__(self, key)

        def keys(self):
            return ["k"]

    table = Loud(a=1)

    def inner(**kwargs):
        return kwargs

    def step(x):
        return table["a"], table.get("a"), {**{"a": 2}}, [*table], dict.copy(table)

    return scene(step, lambda: table.update(a=2), observe=lambda: dict.__getitem__(table, "a"))


@case("containers")
def a_subclass_of_tuple_and_set():
    class Shape(tuple):  # noqa: SLOT001
        def __add__(self, other):
            return "sum"

        @property
        def rank(self):
            return len(self)

    class Names(set):
        def __contains__(self, item):
            return True

    shape, names = Shape((2, 3)), Names(["a"])

    def step(x):
        return shape + (1,), shape.rank, "z" in names, shape == (2, 3), len(names)

    return scene(step, lambda: names.add("b"))


def _names(count):
    """A set whose order a copy often does not have: hashes of text differ from process to process."""
    return {f"layers.{i}.weight" for i in range(count)}


@case("containers")
def members_of_a_large_set():
    names = _names(40)

    def step(x):
        return x * 2 if "layers.7.weight" in names else x, len(names), "other" in names

    return scene(step, lambda: names.discard("layers.7.weight"))


@case("containers")
def members_of_a_set_whose_order_changes():
    """The same members, added in another order."""
    names = _names(40)

    def change():
        kept = sorted(names)
        names.clear()
        names.update(reversed(kept))

    return scene(lambda x: (x, sorted(names), "layers.3.weight" in names), change)


@case("containers")
def a_set_of_numbers_of_other_types():
    numbers = {1, 2}

    def change():
        numbers.remove(1)
        numbers.add(True)

    return scene(lambda x: (x, 1 in numbers, [type(n) for n in numbers]), change)


@case("containers")
def the_order_of_a_small_set():
    names = {"a", "b"}

    def step(x):
        return x, [*names]

    def change():
        kept = [*names]
        names.clear()
        names.update(reversed(kept))

    return scene(step, change)


@case("containers", one_graph=True, compiles=3)
def entries_under_a_number_that_varies():
    counts, seen, table = collections.Counter(), {}, {k: float(k) for k in range(20)}
    marks = [0] * 20
    rows_of = [eager.tensor([1.0 * k, 1.0]) for k in range(20)]

    def step(x, n):
        counts[n] += 1
        seen[n] = x.sum()
        marks[n] += 1
        return x * rows_of[n], table[n], n in seen, marks[n]

    values = [(eager.ones(2), n) for n in (1, 2, 3, 7, 1, 4, 2)]
    return rows(step, *values, observe=lambda: (counts, seen, marks))


@case("containers")
def numbers_that_may_be_one_key():
    table, items, aliases = {3: 1}, [0] * 6, [eager.ones(2), eager.ones(2)]
    aliases.append(aliases[0])

    def step(x, n, m):
        told = [table.get(n), table.get(3), items[n], items[-1]]
        table[n] = table.get(m, 0) + 1
        items[m] += 2
        items[0] = items[n]
        table[3] += 1
        aliases[n % 3].add_(1)
        told += [aliases[m % 3] is aliases[0], table.pop(m, None), n in table, [*table]]
        return told, sum(items), sorted(table)

    pairs = [(1, 2), (2, 3), (2, 2), (3, 3), (5, 0), (0, 5), (4, 1)]
    given = [(eager.ones(2), n, m) for n, m in pairs]
    return rows(step, *given, observe=lambda: (table, items, aliases))


@case("containers")
def numbers_that_are_no_key():
    table, items = {0: 1}, [5, 6, 7]

    def step(x, n):
        told = []
        for ask in (
            lambda: items[n],
            lambda: table[n],
            lambda: items.__setitem__(n, 1),
            lambda: (1.5, 2.5)[n],
            lambda: "abc"[n],
            lambda: range(3)[n],
            lambda: items[n:],
            lambda: table.__delitem__(n),
        ):
            try:
                told.append(ask())
            except (LookupError, TypeError) as error:
                told.append((type(error).__name__, str(error)))
        return told

    values = (1, 2, 9, 8, -1, -9, True, 1.5, 2.5, 0)
    return rows(step, *[(eager.ones(2), n) for n in values], observe=lambda: (table, items))


@case("containers", one_graph=True)
def a_key_comes_back_as_another_that_is_equal():
    table, members = {5: 2, 4: 1}, {1, 5}

    def step(x):
        del table[4]
        table[4.0] = 3
        members.discard(1)
        members.add(True)  # equal to the 1 that was there
        return x

    return scene(step, observe=lambda: (table, members))


@case("containers")
def a_deque_of_a_class_of_the_program():
    class Window(collections.deque):
        def mean(self):
            return sum(self) / len(self)

    window, plain = Window(maxlen=2), Window([1.0, 2.0])

    def step(x):
        window.append(x.sum())
        plain.appendleft(len(plain))
        plain.rotate(1)
        return window.mean(), [*plain], plain[-1], window.maxlen, Window([x, x])

    return scene(step, nothing, nothing, plain.clear, observe=lambda: (window, plain))


@case("containers")
def what_is_compared_changes_what_holds_it():
    class Clears:
        def __init__(self, held):
            self.held = held

        def __eq__(self, other):
            self.held.clear()
            return True

    def step(x):
        a, b, c = [], [], {}
        a += [Clears(a), 1]
        b += [Clears(b), 2]
        c["a"] = Clears(c)
        return x, a == b, len(a), len(b), c == {"a": 1}, len(c)

    return scene(step, nothing)
