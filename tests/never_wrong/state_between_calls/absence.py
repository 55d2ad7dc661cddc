"""What was not there appears, and what was there goes."""

import collections
import types

import eager
from eager import nn
from tests.never_wrong.harness import Call, Program, case
from tests.never_wrong.scene import module, nothing, rows, scene


@case("absence")
def an_attribute_appears_and_goes():
    class State:
        pass

    state = State()

    def step(x):
        try:
            return x * state.scale
        except AttributeError as error:
            return str(error).rpartition("State")[2]

    return scene(
        step,
        lambda: setattr(state, "scale", 3),
        lambda: delattr(state, "scale"),
        lambda: setattr(State, "scale", 4),
    )


@case("absence")
def a_class_gets_a_truth_of_its_own():
    class State:
        pass

    class Derived(State):
        pass

    state = Derived()

    def step(x):
        return x if state else -x

    return scene(
        step,
        lambda: setattr(State, "__bool__", lambda self: False),
        lambda: setattr(Derived, "__len__", lambda self: 1),
        lambda: delattr(State, "__bool__"),
        lambda: setattr(Derived, "__len__", lambda self: 0),
        lambda: setattr(Derived, "__bool__", lambda self: True),
    )


@case("absence")
def a_class_attribute_is_hidden():
    class State:
        scale = 2

    class Derived(State):
        pass

    state = Derived()
    return scene(
        lambda x: x * state.scale,
        lambda: setattr(Derived, "scale", 3),
        lambda: setattr(state, "scale", 4),
        lambda: delattr(Derived, "scale"),
        lambda: delattr(state, "scale"),
        lambda: delattr(State, "scale"),
    )


@case("absence")
def a_member_of_a_class_is_swapped_for_another():
    """The number of members stays the same."""

    class Base:
        scale = 2

    class Derived(Base):
        other = 1

    state = Derived()

    def swap():
        del Derived.other
        Derived.scale = 5

    return scene(lambda x: x * state.scale, swap)


@case("absence")
def a_key_appears_and_goes():
    table = {"a": 1}

    def step(x):
        return x * table.get("b", 10), "b" in table, table.get("c") is None

    return scene(
        step, lambda: table.update(b=2), lambda: table.pop("b"), lambda: table.update(c=None)
    )


@case("absence")
def a_key_of_another_type():
    table = {"1": 5}

    def step(x):
        return 1 in table, True in table, 1.0 in table, table.get(1, 7)

    return scene(step, lambda: table.update({1: 2}), lambda: table.update({True: 3}))


@case("absence")
def a_member_of_a_set_appears():
    names = {"a"}

    def step(x):
        return x * (2 if "b" in names else 3), len(names)

    return scene(step, lambda: names.add("b"), lambda: names.discard("a"))


@case("absence")
def an_element_appears_at_the_end():
    items = [1, 2]

    def step(x):
        try:
            return x * items[2]
        except IndexError as error:
            return str(error)

    return scene(step, lambda: items.append(7), lambda: items.pop(), items.clear)


@case("absence")
def a_slot_is_filled_and_emptied():
    class Slotted:
        __slots__ = ("scale",)

    state = Slotted()

    def step(x):
        return x * getattr(state, "scale", 1), hasattr(state, "scale")

    return scene(step, lambda: setattr(state, "scale", 4), lambda: delattr(state, "scale"))


@case("absence")
def a_module_attribute_appears():
    m = module("")

    def step(x):
        return x * getattr(m, "scale", 1), hasattr(m, "scale")

    return scene(step, lambda: setattr(m, "scale", 4), lambda: delattr(m, "scale"))


@case("absence")
def a_global_appears_and_goes():
    m = module("def step(x):\n  try: return x * SCALE\n  except NameError as e: return str(e)\n")
    return scene(m.step, lambda: setattr(m, "SCALE", 2), lambda: delattr(m, "SCALE"))


@case("absence")
def a_closure_variable_is_empty():
    def build():
        def step(x):
            try:
                return x * scale
            except NameError as error:
                return str(error)

        def put(value):
            nonlocal scale
            scale = value

        def drop():
            nonlocal scale
            del scale

        scale = 0
        del scale
        return step, put, drop

    step, put, drop = build()
    return scene(step, lambda: put(3), drop, lambda: put(4))


@case("absence")
def a_parameter_becomes_none():
    layer = nn.Linear(2, 2)
    x = eager.ones(1, 2)

    def drop():
        layer.bias = None

    def back():
        layer.bias = nn.Parameter(eager.ones(2))

    return scene(lambda x: layer(x), drop, back, args=(x,))


@case("absence")
def a_submodule_appears():
    class Model(nn.Module):
        def forward(self, x):
            if hasattr(self, "head"):
                return self.head(x)
            return x

    model = Model()

    def add():
        model.head = nn.ReLU()

    def swap():
        model.head = nn.Tanh()

    def drop():
        del model.head

    return scene(lambda x: model(x - 2), add, swap, drop)


@case("absence")
def a_gradient_is_there_or_not():
    w = eager.ones(2, requires_grad=True)

    def step(x):
        had = w.grad is None
        (w * 2).sum().backward()
        return had

    def drop():
        w.grad = None

    def zero():
        w.grad = eager.zeros(2)

    return scene(step, nothing, drop, zero, observe=lambda: w.grad)


@case("absence")
def a_tensor_gets_an_attribute():
    x = eager.ones(2)

    def step(x):
        return x * getattr(x, "scale", 1), hasattr(x, "mask")

    return scene(
        step,
        lambda: setattr(x, "scale", 3),
        lambda: setattr(x, "mask", None),
        lambda: delattr(x, "scale"),
        args=(x,),
    )


@case("absence")
def a_member_of_an_enumeration_of_names():
    space = types.SimpleNamespace(a=1)

    def step(x):
        return sorted(vars(space)), getattr(space, "b", 0), space == types.SimpleNamespace(a=1)

    return scene(step, lambda: setattr(space, "b", 2), lambda: delattr(space, "a"))


@case("absence")
def missing_keys_of_a_chain():
    a, b = {}, {"k": 2}
    chain = collections.ChainMap(a, b)

    def step(x):
        return x * chain["k"], len(chain), "z" in chain

    return scene(
        step, lambda: a.update(k=5), lambda: b.update(z=1), lambda: chain.maps.append({"q": 1})
    )


@case("absence")
def an_exception_class_gets_a_base():
    class Base(Exception):
        pass

    class Other(Exception):
        pass

    class Stop(Base):
        pass

    def step(x):
        try:
            raise Stop("s")
        except Other:
            return "other"
        except Exception:
            return "exception"

    def change():
        Stop.__bases__ = (Other,)

    return scene(step, change)


@case("absence")
def a_context_manager_gets_an_exit():
    class Context:
        def __enter__(self):
            return 1

    def step(x):
        try:
            with Context() as n:
                return x * n
        except TypeError as error:
            return "exit" in str(error)

    def change():
        Context.__exit__ = lambda self, *a: False

    return scene(step, change)


@case("absence")
def a_format_and_an_index_appear():
    class Number:
        pass

    number = Number()

    def step(x):
        try:
            return x[number], f"{number:>5}"
        except TypeError:
            return "no index"

    def change():
        Number.__index__ = lambda self: 1
        Number.__format__ = lambda self, spec: spec

    return scene(step, change, lambda: setattr(Number, "__index__", lambda self: 2))


@case("absence")
def a_hash_is_taken_away():
    class Key:
        pass

    key = Key()
    table = {key: 3}

    def step(x):
        try:
            return x * table[key]
        except (TypeError, KeyError) as error:
            return type(error).__name__

    def change():
        Key.__hash__ = None

    return scene(step, change, nothing)


@case("absence")
def an_empty_slot_of_a_base():
    class Base:
        __slots__ = ("a",)

    class Derived(Base):
        __slots__ = ("__dict__", "b")

    d = Derived()

    def step(x):
        d.count = getattr(d, "count", 0) + 1
        return getattr(d, "a", 10), getattr(d, "b", 20), d.count

    return scene(step, lambda: setattr(d, "a", 1), lambda: setattr(d, "b", 2), observe=lambda: d)


@case("absence")
def keyword_only_and_positional_only_names():
    def inner(a, /, b, *rest, c=3, **more):
        return a, b, rest, c, more

    def step(x, **kwargs):
        return inner(1, **kwargs)

    x = eager.ones(1)
    return rows(
        lambda x, k: step(x, **k),
        (x, {"b": 2}),
        (x, {"b": 2, "a": 5}),
        (x, {"b": 2, "c": 5, "d": 6}),
        (x, {"c": 2}),
    )


@case("absence")
def a_guarded_length_of_an_unsized_object():
    """What stood at a place is replaced by something on which the guard itself stumbles."""

    class Odd:
        def __len__(self):
            raise RuntimeError("len of odd")

        def __eq__(self, other):
            raise RuntimeError("eq of odd")

        __hash__ = None

        def __bool__(self):
            raise RuntimeError("bool of odd")

    class State:
        items = None
        n = 1

    state = State()
    state.items = [1, 2]

    def step(x):
        return x * (len(state.items) if type(state.items) is list else 5), type(state.n).__name__

    return scene(step, lambda: setattr(state, "items", Odd()), lambda: setattr(state, "n", Odd()))


@case("absence")
def the_eq_of_a_user_runs_in_no_guard():
    log = []

    class Tag:
        def __eq__(self, other):
            log.append("eq")
            return True

        def __hash__(self):
            log.append("hash")
            return 1

    class State:
        n = 1

    state, tag = State(), Tag()

    def step(x):
        return x * (state.n if type(state.n) is int else 7)

    return scene(step, lambda: setattr(state, "n", tag), nothing, observe=lambda: list(log))


@case("absence")
def the_hash_of_a_key_runs_once_per_look():
    log = []

    class Key:
        def __eq__(self, other):
            log.append("eq")
            return self is other

        def __hash__(self):
            log.append("hash")
            return 1

    key, table = Key(), {}

    def step(x):
        return x * table.get(key, 2)

    return scene(step, nothing, lambda: table.update({key: 5}), observe=lambda: list(log))


@case("absence")
def unbound_local_after_a_branch():
    def step(x, flag):
        if flag:
            y = 1
        try:
            return x * y
        except UnboundLocalError as error:
            return str(error)

    x = eager.ones(1)
    return rows(step, (x, True), (x, False), (x, 1))


@case("absence")
def the_module_disappears():
    import sys

    m = module("scale = 3\n")
    name = m.__name__

    def step(x):
        return x * (sys.modules[name].scale if name in sys.modules else 1)

    return Program(
        step,
        [Call((eager.ones(1),)), Call((eager.ones(1),), {}, lambda: sys.modules.pop(name))],
    )
