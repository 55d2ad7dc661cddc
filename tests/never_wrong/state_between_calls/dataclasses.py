"""Data classes, copies, comparisons and order of containers."""

import collections
import collections.abc
import copy
import dataclasses
import math

import eager
from tests.never_wrong.harness import case
from tests.never_wrong.scene import nothing, rows, scene


@dataclasses.dataclass
class Config:
    lr: float = 0.5
    tags: list = dataclasses.field(default_factory=list)
    scale: int = 2


@dataclasses.dataclass(frozen=True)
class Frozen:
    n: int
    m: object = None


@dataclasses.dataclass(slots=True, order=True)
class Slotted:
    n: int = 1
    extra: list = dataclasses.field(default_factory=list, compare=False)


@case("containers")
def a_dataclass_is_compared_and_replaced():
    config = Config()

    def step(x):
        config.tags.append("a")
        other = dataclasses.replace(config, lr=config.lr * 2)
        return x * other.lr, other == config, other.tags is config.tags, dataclasses.asdict(config)

    return scene(step, lambda: setattr(config, "lr", 0.25), observe=lambda: config)


@case("containers")
def a_frozen_dataclass_as_key():
    table = {Frozen(1): "a"}

    def step(x, n):
        key = Frozen(n)
        try:
            key.n = 5
        except dataclasses.FrozenInstanceError as error:
            told = str(error)
        return table.get(key), key in table, told, key == Frozen(1), hash(key) == hash(Frozen(n))

    x = eager.ones(1)
    return rows(step, (x, 1), (x, 2), (x, True), (x, 1.0))


@case("containers")
def a_frozen_dataclass_is_changed_by_force():
    config = Frozen(2)

    def step(x):
        return x * config.n, config == Frozen(2)

    return scene(step, lambda: object.__setattr__(config, "n", 3))


@case("containers")
def a_dataclass_with_slots():
    state = Slotted()

    def step(x):
        state.n += 1
        state.extra.append(state.n)
        try:
            state.other = 1
        except AttributeError as error:
            return "other" in str(error), state < Slotted(5), sorted([Slotted(3), state])[0].n

    return scene(step, nothing, lambda: setattr(state, "n", 9), observe=lambda: state)


@case("containers")
def fields_of_a_dataclass_as_it_is():
    config = Config()

    def step(x):
        names = [f.name for f in dataclasses.fields(config)]
        return names, dataclasses.is_dataclass(config), dataclasses.astuple(config), repr(config)

    return scene(step, lambda: config.tags.append(1), lambda: setattr(config, "scale", math.inf))


@case("containers")
def a_deep_copy_inside():
    state = {"a": [1], "x": eager.ones(2)}
    state["b"] = state["a"]

    def step(x):
        other = copy.deepcopy(state)
        other["a"].append(2)
        other["x"].add_(1)
        return other, other["a"] is other["b"], copy.copy(state)["a"] is state["a"]

    return scene(step, lambda: state["a"].append(5), observe=lambda: state)


@case("containers")
def a_list_is_sorted_with_a_key():
    items, order = [3, 1, 2], {"sign": 1}

    def step(x):
        items.sort(key=lambda v: order["sign"] * v)
        items.reverse()
        return list(items), min(items, key=lambda v: abs(v - 2)), sorted(items, reverse=True)

    return scene(step, lambda: order.update(sign=-1), observe=lambda: list(items))


@case("containers")
def slices_of_a_list_are_assigned():
    items = [1, 2, 3, 4]

    def step(x):
        items[1:3] = [9]
        items[::2] = items[::2][::-1]
        del items[-1]
        items.insert(0, len(items))
        items.extend(items[:1])
        return list(items)

    return scene(step, nothing, lambda: items.extend([5, 6]), observe=lambda: items)


@case("containers")
def lists_are_compared_with_tensors_inside():
    x = eager.ones(1)
    items = [1, x]

    def step(y):
        return items == [1, y], x in items, items.index(y), y in [1, y]

    return rows(step, (x,), (x,), observe=lambda: items)


@case("containers")
def a_tuple_as_key_with_a_list_inside():
    table = {(1, "a"): 5}

    def step(x, key):
        try:
            return table[key]
        except (KeyError, TypeError) as error:
            return type(error).__name__, str(error)

    x = eager.ones(1)
    return rows(step, (x, (1, "a")), (x, (True, "a")), (x, (1, [2])), (x, (2, "a")), (x, [1]))


@case("containers")
def abstract_mappings_of_the_user():
    class Table(collections.abc.MutableMapping):
        def __init__(self):
            self.held = {}
            self.log = []

        def __getitem__(self, key):
            self.log.append(key)
            return self.held[key]

        def __setitem__(self, key, value):
            self.held[key] = value

        def __delitem__(self, key):
            del self.held[key]

        def __iter__(self):
            return iter(self.held)

        def __len__(self):
            return len(self.held)

    table = Table()

    def step(x):
        table.setdefault("a", 1)
        table.update(b=table["a"] + 1)
        return dict(table), table.pop("b"), "a" in table, table == {"a": 1}, {**table}

    return scene(step, nothing, table.clear, observe=lambda: (table.held, table.log))


@case("dataclasses")
def sentinels_are_themselves():
    missing = dataclasses.MISSING

    @dataclasses.dataclass
    class Outside:
        a: int
        b: list = dataclasses.field(default_factory=list)

    def step(x):
        made = dataclasses.field(default=1)
        held = [(f.name, f.default is missing) for f in dataclasses.fields(Outside)]
        return x, made.default_factory is missing, made.kw_only is missing, held

    return scene(step, nothing)
