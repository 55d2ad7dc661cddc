"""Special methods that appear and go: fallbacks, operators, lengths, contexts."""

from tests.never_wrong.harness import case
from tests.never_wrong.scene import nothing, scene


@case("absence")
def a_fallback_appears():
    class State:
        pass

    state = State()

    def step(x):
        return x * getattr(state, "scale", 1)

    return scene(
        step,
        lambda: setattr(State, "__getattr__", lambda self, name: 5),
        lambda: setattr(State, "__getattr__", lambda self, name: 6),
        lambda: delattr(State, "__getattr__"),
    )


@case("absence")
def a_fallback_is_hidden_by_an_attribute():
    class State:
        def __getattr__(self, name):
            return 5

    state = State()
    return scene(
        lambda x: x * state.scale,
        lambda: setattr(state, "scale", 2),
        lambda: delattr(state, "scale"),
        lambda: setattr(State, "scale", 3),
    )


@case("absence")
def getattribute_appears():
    class State:
        scale = 2

    state = State()
    return scene(
        lambda x: x * state.scale,
        lambda: setattr(State, "__getattribute__", lambda self, name: 9),
        lambda: delattr(State, "__getattribute__"),
    )


@case("absence")
def a_property_appears():
    class State:
        pass

    state = State()
    state.scale = 2
    return scene(
        lambda x: x * state.scale,
        lambda: setattr(State, "scale", property(lambda self: 9)),
        lambda: delattr(State, "scale"),
    )


@case("absence")
def a_setter_appears():
    class State:
        pass

    log, state = [], State()

    def step(x):
        state.scale = 3
        return x

    def change():
        State.__setattr__ = lambda self, name, value: log.append((name, value))

    return scene(
        step, change, lambda: delattr(State, "__setattr__"), observe=lambda: (log, vars(state))
    )


@case("absence")
def a_special_method_appears():
    class State:
        pass

    state = State()

    def step(x):
        return bool(state), (state == 1), str(state) == "s"

    def change():
        State.__bool__ = lambda self: False
        State.__eq__ = lambda self, other: True
        State.__str__ = lambda self: "s"

    def lengths():
        del State.__bool__
        State.__len__ = lambda self: 0

    return scene(step, change, lengths)


@case("absence")
def contains_and_iter_appear():
    class State:
        def __getitem__(self, i):
            if i > 2:
                raise IndexError
            return i

    state = State()

    def step(x):
        return 2 in state, list(state), 9 in state

    def iterate():
        State.__iter__ = lambda self: iter([9])

    def contain():
        State.__contains__ = lambda self, item: item == 7

    return scene(step, iterate, contain)


@case("absence")
def a_reflected_operator_appears():
    class Left:
        def __add__(self, other):
            return "left"

    class Right(Left):
        pass

    a, b = Left(), Right()

    def step(x):
        return a + b

    return scene(step, lambda: setattr(Right, "__radd__", lambda self, other: "right"))


@case("absence")
def an_in_place_operator_appears():
    class Sum:
        def __init__(self, n):
            self.n = n

        def __add__(self, other):
            return Sum(self.n + other)

    total = Sum(1)

    def step(x):
        t = total
        t += 1
        return x * t.n, t is total

    def change():
        def iadd(self, other):
            self.n += other
            return self

        Sum.__iadd__ = iadd

    return scene(step, change, nothing, observe=lambda: total.n)
