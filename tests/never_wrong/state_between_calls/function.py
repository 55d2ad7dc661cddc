"""The function itself: its attributes, its defaults, how its arguments are given."""

import functools
import operator
import types

import numpy as np

import eager
from jitcap import graph_break
from tests.never_wrong.harness import Call, Program, case, vector
from tests.never_wrong.scene import module, nothing, rows, scene


@case("function")
def attributes_on_the_function_itself():
    def step(x):
        step.calls = getattr(step, "calls", 0) + 1
        return x * step.calls

    return scene(
        step, nothing, lambda: setattr(step, "calls", 10), observe=lambda: vars(step).get("calls")
    )


@case("function")
def an_attribute_of_a_helper_changes():
    def helper(x):
        return x * helper.scale

    helper.scale = 2
    return scene(
        lambda x: helper(x), lambda: setattr(helper, "scale", 3), lambda: delattr(helper, "scale")
    )


@case("function")
def the_name_of_a_helper_changes():
    def helper(x):
        """first"""
        return x

    def step(x):
        return helper.__name__, helper.__doc__, helper.__qualname__.rpartition(".")[2]

    def rename():
        helper.__name__, helper.__doc__, helper.__qualname__ = "renamed", "second", "renamed"

    return scene(step, rename)


@case("function")
def the_code_of_a_helper_is_replaced():
    def helper(x):
        return x * 2

    def other(x):
        return x * 3

    def swap():
        helper.__code__ = other.__code__

    return scene(lambda x: helper(x), swap)


@case("function")
def the_defaults_of_a_helper_are_replaced():
    def helper(x, scale=2, *, shift=1):
        return x * scale + shift

    def positional():
        helper.__defaults__ = (3,)

    def keyword():
        helper.__kwdefaults__ = {"shift": 5}

    def none():
        helper.__kwdefaults__["shift"] = 7

    return scene(lambda x: helper(x), positional, keyword, none)


@case("function")
def a_call_that_does_not_fit_is_given_defaults():
    def positional(x, scale):
        return x * scale

    def keyword(x, *, shift):
        return x + shift

    def filled(x, *, shift, scale):
        return x * scale + shift

    filled.__kwdefaults__ = {"scale": 2}

    def tried(fn, x):
        try:
            return fn(x)
        except TypeError:
            return None

    def step(x):
        return tried(positional, x), tried(keyword, x), tried(filled, x)

    def all_fit():
        positional.__defaults__ = (3,)
        keyword.__kwdefaults__ = {"shift": 5}
        filled.__kwdefaults__["shift"] = 7

    def one_does_not():
        keyword.__kwdefaults__ = None

    return scene(step, all_fit, one_does_not)


@case("function")
def the_defaults_of_the_step_are_replaced():
    def step(x, scale=2, *, shift=1):
        return x * scale + shift

    def positional():
        step.__defaults__ = (3,)

    def keyword():
        step.__kwdefaults__["shift"] = 7

    return scene(step, positional, keyword)


@case("function")
def a_default_is_a_list_that_grows():
    def step(x, seen=[]):  # noqa: B006
        seen.append(len(seen))
        return x * len(seen), list(seen)

    return scene(step, nothing, nothing, observe=lambda: step.__defaults__)


@case("function")
def the_order_of_keyword_arguments():
    def step(**kwargs):
        return list(kwargs), [v for v in kwargs.values()]

    x = eager.ones(1)
    return Program(
        step,
        calls=[
            Call((), {"a": x, "b": 2}),
            Call((), {"b": 2, "a": x}),
            Call((), {"b": 2}),
            Call((), {"a": x, "b": 2}),
        ],
        observe=nothing,
    )


@case("function")
def keyword_arguments_in_another_order_are_passed_on():
    def order(**kwargs):
        return "".join(kwargs)

    def step(x, **kwargs):
        return order(**kwargs), order(z=1, **kwargs), dict(kwargs)

    x = eager.ones(1)
    return Program(
        step,
        calls=[Call((x,), {"p": 1, "q": 2}), Call((x,), {"q": 2, "p": 1})],
        observe=nothing,
    )


@case("function")
def an_argument_by_name_then_by_position():
    def step(x, scale=2):
        return x * scale

    x = eager.ones(2)
    return Program(
        step,
        calls=[Call((x, 3)), Call((x,), {"scale": 4}), Call((), {"scale": 5, "x": x}), Call((x,))],
        observe=nothing,
    )


@case("function")
def the_arguments_do_not_fit():
    def step(x, scale, *, shift=0):
        return x * scale + shift

    x = eager.ones(2)
    return Program(
        step,
        calls=[
            Call((x,)),
            Call((x, 1, 2)),
            Call((x, 1), {"scale": 2}),
            Call((x, 1), {"other": 2}),
            Call((x, 1)),
        ],
        observe=nothing,
    )


@case("function")
def an_unused_number_changes():
    def step(x, epoch, note=""):
        return x * 2

    x = eager.ones(2)
    return rows(step, (x, 1), (x, 2, "b"), (x, 10**30), (x, 1.5), (x, None), (x, x))


@case("function")
def a_number_becomes_a_tensor():
    def step(x, scale):
        return x * scale

    x = eager.ones(2)
    return rows(step, (x, 2), (x, eager.tensor([1.0, 2.0])), (x, 2.0), (x, True), (x, 2))


@case("function")
def a_global_number_becomes_a_tensor_and_none():
    m = module("S = 2\ndef step(x): return x if S is None else x * S\n")
    return scene(
        m.step,
        lambda: setattr(m, "S", eager.tensor([1.0, 2.0, 3.0])),
        lambda: setattr(m, "S", None),
        lambda: setattr(m, "S", "no"),
        lambda: setattr(m, "S", 2),
    )


@case("function")
def an_attribute_becomes_an_array():
    class State:
        scale = 2

    state = State()

    def step(x):
        return x * 2 if isinstance(state.scale, int) else x * 3

    return scene(
        step,
        lambda: setattr(state, "scale", np.ones(3)),
        lambda: setattr(state, "scale", [2]),
        lambda: setattr(state, "scale", 2),
    )


@case("function")
def a_function_is_jitted_with_a_wrapper():
    log = []

    def traced(fn):
        @functools.wraps(fn)
        def wrapper(*args):
            log.append(fn.__name__)
            return fn(*args)

        return wrapper

    @traced
    def step(x):
        return x * 2

    return scene(step, nothing, observe=lambda: list(log))


@case("function")
def the_getter_of_a_property_is_given_other_code():
    class State:
        @property
        def scale(self):
            return 2

        @staticmethod
        def shift():
            return 1

    def other(self):
        return 3

    def another():
        return 4

    state = State()

    def change():
        State.scale.fget.__code__ = other.__code__

    def change_again():
        State.shift.__code__ = another.__code__

    return scene(lambda x: x * state.scale + state.shift(), change, change_again)


@case("function")
def a_keyword_default_is_added_and_deleted_inside():
    def helper(x, *, scale=2, shift):
        return x * scale + shift

    def step(x):
        helper.__kwdefaults__["shift"] = helper.__kwdefaults__.get("shift", 0) + 1
        y = helper(x)
        del helper.__kwdefaults__["scale"]
        try:
            helper(x)
        except TypeError as error:
            text = str(error)
        helper.__kwdefaults__["scale"] = 3
        return y, text

    return scene(step, nothing, observe=lambda: dict(helper.__kwdefaults__))


@case("function")
def attributes_of_a_method_are_those_of_its_function():
    class State:
        def scale(self, by=[1]):  # noqa: B006
            """First."""
            return by

    state = State()

    def step(x):
        state.scale.__defaults__[0].append(len(state.scale.__doc__))
        return state.scale.__name__, sum(state.scale())

    def rename():
        State.scale.__doc__, State.scale.__name__ = "Another.", "renamed"

    return scene(step, rename, nothing, observe=lambda: list(State.scale.__defaults__[0]))


@case("function")
def names_and_annotations_of_a_class():
    class Base:
        x: int = 1

    class State(Base):
        pass

    def step(x):
        State.__annotations__["n"] = len(State.__annotations__)
        Base.__annotations__["x"] = str
        return State.__name__, State.__qualname__, [b.__name__ for b in State.__mro__]

    def rename():
        State.__name__, Base.__qualname__, Base.__name__ = "Renamed", "Other", "Other"

    return scene(
        step, rename, nothing, observe=lambda: (State.__annotations__, Base.__annotations__)
    )


@case("function")
def calls_that_do_not_fit_in_python_s_words():
    def one(a, /, b):
        pass

    def two(a, b=2, *, c, d=3):
        pass

    class State:
        def method(self, a, *rest):
            pass

    def words(call):
        try:
            call()
        except TypeError as error:
            return str(error)

    def step(x):
        calls = (
            lambda: one(b=1, a=2), lambda: one(1, 2, 3), lambda: one(1, 2, b=2), lambda: one(),
            lambda: two(1), lambda: two(1, 2, 3), lambda: two(1, 2, 3, c=2), lambda: two(c=1),
            lambda: two(1, c=1, z=3), lambda: State().method(), lambda: State.method(),
        )  # fmt: skip
        return [words(call) for call in calls]

    return scene(step)


@case("function")
def a_function_over_a_dictionary():
    space = {"a": 3}

    def plain():
        global told  # noqa: PLW0604
        told = a  # noqa: F821
        return a  # noqa: F821

    def step(x):
        made = types.FunctionType(plain.__code__, space, "made", None, None)
        return x * made(), made.__globals__ is space, made.__name__

    return scene(
        step, lambda: space.update(a=4), observe=lambda: {k: space.get(k) for k in ("a", "told")}
    )


@case("function")
def getters_that_are_made_inside_a_split():
    def step(x):
        second, shape = operator.itemgetter(1, 0), operator.attrgetter("shape")
        total = operator.methodcaller("sum", 0, keepdim=True)
        if x.sum().item() > 5:
            x = x + 1
        return second([x, 2]), shape(x), total(x), x[0].item() > 1

    return scene(step, nothing)


@case("function")
def functions_that_call_each_other_in_a_generator_behind_a_split():
    def walker():
        def items(given):
            for value in given:
                yield from one(value)

        def one(value):
            if isinstance(value, list):
                yield from items(value)
            else:
                yield value

        return one

    def step(x, given):
        values = walker()(given)
        graph_break()
        return x * 2, list(values)

    return Program(step, [(vector(), [1, [2, [3]]]), (vector(), [4])])
