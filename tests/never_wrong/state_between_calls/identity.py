"""Who is who: ids and hashes of objects, `is`, what claims to be another, what is made anew."""

import datetime
import math
import weakref

import numpy as np

import eager
from eager import nn
from tests.never_wrong.harness import case
from tests.never_wrong.scene import nothing, rows, scene


class Box:
    n = 1


# ---- ids and hashes


@case("identity")
def an_id_is_looked_up_in_a_set_from_outside():
    box, other = Box(), Box()
    known, place = {id(box)}, [box]

    def step(x):
        return id(place[0]) in known, id(box) in known, id(other) in known, x * 2

    return scene(step, lambda: place.__setitem__(0, other), lambda: known.add(id(other)))


@case("identity")
def an_id_is_computed_with():
    box = Box()

    def step(x):
        return id(box) % 1 == 0, f"{id(box)}" == str(id(box)), -id(box) < 0, hex(id(box))[:2]

    return scene(step, nothing)


@case("identity")
def ids_are_compared_with_numbers():
    box = Box()
    kept = [id(box), 0]

    def step(x):
        return id(box) == kept[0], id(box) == kept[1], kept.index(id(box)), id(box) in kept

    return scene(step, lambda: kept.reverse())


@case("identity")
def the_hash_of_an_object_is_kept():
    box, seen = Box(), {}

    def step(x):
        seen[hash(box)] = seen.get(hash(box), 0) + 1
        return x * seen[hash(box)], hash((box, 1)) == hash((box, 1))

    return scene(step, nothing, observe=lambda: hash(box) in seen)


@case("identity")
def two_places_become_one_object():
    a, b = Box(), Box()
    pair = [a, b]

    def step(x):
        return len({id(v) for v in pair}), id(pair[0]) == id(pair[1]), len(set(pair)), x

    return scene(step, lambda: pair.__setitem__(1, a), lambda: pair.__setitem__(1, Box()))


@case("identity")
def ids_are_sorted():
    boxes = [Box(), Box(), Box()]

    def step(x):
        found = sorted(boxes, key=id)
        return [id(v) for v in found] == sorted(map(id, boxes)), max(map(id, boxes)) > 0, x

    return scene(step, lambda: boxes.reverse())


@case("identity")
def objects_are_ordered_by_where_they_are():
    boxes = [Box() for _ in range(6)]

    def step(x):
        found = sorted(boxes, key=id), max(boxes, key=id), sorted(boxes, key=repr)[0]
        boxes.sort(key=hash)
        return x, found, list(boxes)

    return scene(step, lambda: boxes.reverse(), lambda: boxes.reverse(), observe=lambda: boxes)


# ---- sets of callable objects


@case("identity")
def functions_in_a_set():
    def double(x):
        return x * 2

    def triple(x):
        return x * 3

    chosen = [double, triple]

    def step(x):
        seen = set()
        for f in chosen:
            if f not in seen:
                seen.add(f)
                x = f(x)
        return x, len(seen), double in seen

    return scene(step, lambda: chosen.append(double), lambda: chosen.append(lambda x: x + 1))


@case("identity")
def a_function_is_a_default_of_a_dictionary():
    def double(x):
        return x * 2

    def step(x):
        table, queue = {}, []
        f = table.setdefault("f", double)
        queue.insert(0, double)
        return f(x), table["f"] is double, queue[0] is double, table.pop("g", double) is double

    return scene(step, nothing)


@case("identity")
def modules_are_keys():
    a, b = nn.Linear(2, 2), nn.Linear(2, 2)
    model = nn.Sequential(a, b)
    names = {a: "a", b: "b"}

    def step(x):
        seen = {}
        for m in model:
            seen[m] = seen.get(m, 0) + 1
        return [*seen.values()], [names.get(m) for m in model], a in seen, x

    def share():
        model[1] = a

    return scene(step, share, nothing, args=(eager.ones(1, 2),))


@case("identity")
def parameters_become_shared():
    a, b = nn.Linear(2, 2), nn.Linear(2, 2)
    model = nn.Sequential(a, b)

    def step(x):
        return len(list(model.parameters())), len({id(p) for p in model.parameters()}), model(x)

    def share():
        b.weight = a.weight

    return scene(step, share, nothing, args=(eager.ones(1, 2),))


# ---- `is` of constants


@case("identity")
def is_between_texts():
    def step(x, a, b):
        return a is b, a == b, a is not b

    x, one = eager.ones(1), "two words"
    return rows(step, (x, one, one), (x, one, " ".join(["two", "words"])), (x, one, one))


@case("identity")
def is_between_a_constant_and_a_literal():
    state = {"n": 1000, "small": 7, "text": "abc"}

    def step(x):
        return state["n"] is limit, state["small"] is small, state["text"] is text

    limit, small, text = 1000, 7, "abc"
    state["n"] = limit

    def replace():
        state.update(n=int("1000"), small=int("7"), text="".join("abc"))

    return scene(step, replace, nothing)


@case("identity")
def is_between_a_number_and_false():
    state = {"a": 1.5, "b": 0.5}

    def step(x):
        return (state["a"] > state["b"]) is True, (state["a"] == state["b"]) is False, x

    return scene(step, lambda: state.update(b=1.5), lambda: state.update(b=3.5))


@case("identity")
def is_between_tuples_and_dates():
    day, pair = datetime.date(2020, 1, 2), (1, "a")
    state = {"day": day, "pair": pair}

    def step(x):
        return state["day"] is day, state["pair"] is pair, x

    return scene(step, lambda: state.update(day=datetime.date(2020, 1, 2), pair=(1, "ab"[:1])))


# ---- nan


@case("identity")
def nan_is_counted_and_removed():
    nan, other = math.nan, float("nan")
    items = [nan, 1.0, other]

    def step(x):
        copied = [*items]
        if nan in copied:
            copied.remove(nan)
        return items.count(nan), len(copied), (nan, 1.0) == (items[0], 1.0), items == [*items]

    return scene(step, lambda: items.__setitem__(0, 2.0), lambda: items.__setitem__(2, nan))


@case("identity")
def nan_is_a_key():
    nan = float("nan")
    table, place = {nan: 1}, [nan]

    def step(x):
        return table.get(place[0]), place[0] in table, nan in {place[0]}, x

    return scene(step, lambda: place.__setitem__(0, float("nan")))


@case("identity")
def a_number_becomes_nan_between_calls():
    state = {"a": 1.0}
    held = [2.0, 3.0]

    def step(x):
        return state["a"] in [state["a"], 5.0], [state["a"]] == [state["a"]], held.count(state["a"])

    def spoil():
        state["a"] = float("nan")
        held[0] = state["a"]

    return scene(step, spoil, nothing)


# ---- one dictionary, two objects


@case("identity")
def a_dictionary_is_shared_by_a_class():
    class Shared:
        _state = {"n": 1}

        def __init__(self):
            self.__dict__ = self._state

    a, b = Shared(), Shared()

    def step(x):
        a.n += 1
        y = x * b.n
        b.m = a.n
        return y, a.m, Shared._state["n"]

    return scene(step, nothing, lambda: Shared._state.update(n=5), observe=lambda: (a.n, b.m))


@case("identity")
def a_dictionary_is_shared_by_objects_of_two_classes():
    class First:
        pass

    class Second:
        pass

    a, b = First(), Second()
    a.n = 1
    b.__dict__ = a.__dict__

    def step(x):
        b.n += 2
        return x * a.n, vars(a) is vars(b)

    return scene(step, nothing, observe=lambda: (a.n, b.n))


@case("identity")
def objects_come_to_share_their_dictionary():
    class First:
        pass

    class Second:
        pass

    a, b = First(), Second()
    a.n, b.n = 1.0, 10.0

    def step(x):
        a.n += 1
        return x * b.n

    def share():
        b.__dict__ = a.__dict__

    return scene(step, share, nothing, observe=lambda: (a.n, b.n))


@case("identity")
def a_global_dictionary_is_that_of_an_object():
    shared = {"n": 1}
    box = Box()
    box.__dict__ = shared

    def step(x):
        shared["n"] += 1
        y = x * box.n
        box.n += 1
        return y, shared["n"]

    return scene(step, nothing, observe=lambda: shared)


# ---- what claims to be another


@case("identity")
def an_object_that_forwards_its_class():
    class Wrapper:
        def __init__(self, inner):
            self.inner = inner

        @property
        def __class__(self):
            return type(self.inner)

    wrapped = Wrapper(2.5)

    def step(x):
        return isinstance(wrapped, float), type(wrapped) is Wrapper, x * wrapped.inner

    return scene(step, lambda: setattr(wrapped, "inner", [1]), lambda: setattr(wrapped, "inner", 3))


@case("identity")
def looking_at_the_class_is_counted():
    log = []

    class Loud:
        @property
        def __class__(self):
            log.append("asked")
            return Loud

    loud = Loud()

    def step(x):
        return isinstance(loud, int), isinstance(loud, Loud), loud.__class__ is Loud, x

    return scene(step, nothing, observe=lambda: len(log))


@case("identity")
def an_object_made_inside_claims_to_be_an_int():
    class Number:
        __class__ = int
        n = 4

    def step(x):
        made = Number()
        return isinstance(made, int), isinstance(made, Number), x * made.n

    return scene(step, lambda: setattr(Number, "n", 5))


# ---- made anew at each call


@case("identity")
def dates_and_scalars_are_made_anew():
    log = []

    def step(x):
        log.append((datetime.timedelta(days=1), np.int16(3), datetime.date(2020, 1, 1)))
        log.append(np.float64(0.5))
        log.append(np.bool_(True))
        return x

    def observe():
        flat = [v for entry in log for v in (entry if type(entry) is tuple else (entry,))]
        return len(flat), len({id(v) for v in flat}) >= len(flat) - len(log) // 3 + 1

    return scene(step, nothing, observe=lambda: [log[0], observe()])


@case("identity")
def a_scalar_from_outside_is_itself():
    one, log = np.float32(1.5), []

    def step(x):
        log.append(one)
        return one, log[-1] is one

    return scene(step, nothing, observe=lambda: all(v is one for v in log))


@case("identity")
def a_date_is_returned_and_stored():
    state = {}

    def step(x):
        day = datetime.date(2024, 2, 29)
        state["a"] = state["b"] = day
        return day, state["a"] is state["b"]

    return scene(step, nothing, observe=lambda: (state, state["a"] is state["b"]))


# ---- super() and fields of namespaces


@case("identity")
def super_is_asked_about_itself():
    class A:
        def __len__(self):
            return 3

    class B(A):
        def run(self):
            s = super()
            return (
                type(s).__name__,
                s.__class__.__name__,
                s.__self__ is self,
                s.__self_class__.__name__,
                s.__len__(),
                hasattr(s, "nothing"),
            )

    b = B()
    return scene(lambda x: (b.run(), x), lambda: setattr(A, "nothing", 1))


@case("identity")
def super_of_what_is_no_instance():
    class A:
        pass

    class B(A):
        pass

    def step(x):
        try:
            super(B, A()).__init__()
        except TypeError as error:
            return str(error), x
        return x

    return scene(step, nothing)


@case("identity")
def super_is_indexed():
    class A(list):
        pass

    class B(A):
        def run(self):
            try:
                return super()[0]
            except TypeError as error:
                return str(error)

    b = B([4])
    return scene(lambda x: (b.run(), x), nothing)


@case("identity")
def members_of_builtin_bases():
    class Z(complex):
        pass

    class Stop(StopIteration):
        pass

    z, held = Z(1, 2), [Stop(3)]

    def step(x):
        return z.real, z.imag, held[0].value, x

    return scene(step, lambda: held.__setitem__(0, Stop(4)))


# ---- what stood somewhere is something else


@case("identity")
def a_list_becomes_a_proxy():
    class Odd:
        def __len__(self):
            raise RuntimeError("len")

        def __getattr__(self, name):
            raise RuntimeError(f"{name} is asked")

    state = Box()
    state.items, state.count = [[1], [2]], 3

    def step(x):
        if type(state.items) is not list:
            return x
        return x * len(state.items) + len(state.items[0]) + state.count

    return scene(step, lambda: setattr(state, "items", Odd()), lambda: setattr(state, "count", 4))


@case("identity")
def a_nested_place_becomes_odd():
    class Odd(dict):
        def __getitem__(self, key):
            raise RuntimeError("item")

        def __len__(self):
            raise RuntimeError("len")

    state = {"inner": {"n": 2, "list": [1, 2]}}

    def step(x):
        inner = state["inner"]
        return x if type(inner) is not dict else x * inner["n"] + len(inner["list"])

    return scene(
        step, lambda: state.update(inner=Odd(n=1)), lambda: state.update(inner={"n": 1, "list": []})
    )


@case("identity")
def a_proxy_of_a_weak_reference_takes_a_place():
    box = Box()
    state = {"box": box}

    def step(x):
        return x * state["box"].n, type(state["box"]).__name__

    return scene(step, lambda: state.update(box=weakref.proxy(box)), lambda: setattr(box, "n", 4))
