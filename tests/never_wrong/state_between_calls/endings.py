"""What runs when an object goes: `__del__`, finalizers, calls of weak references."""

import weakref

import eager
from jitcap import graph_break
from tests.never_wrong.harness import case, over
from tests.never_wrong.scene import nothing, rows, scene


def world():
    """A log, and a class whose objects write to it when they go."""
    log = []

    class Thing:
        def __init__(self, name="thing"):
            self.name = name

        def __del__(self):
            log.append(f"{self.name} goes")

    return log, Thing


@case("endings")
def a_name_gets_another_object():
    log, Thing = world()

    def step(x):
        thing = Thing("first")
        log.append("made")
        thing = Thing("second")
        log.append("made again")
        return x * len(thing.name)

    return scene(step, nothing, observe=lambda: list(log))


@case("endings")
def nobody_keeps_the_object():
    log, Thing = world()

    def step(x):
        Thing("nobody's")
        log.append("after")
        return x * len(log)

    return scene(step, nothing, observe=lambda: list(log))


@case("endings")
def an_object_goes_with_a_function():
    log, Thing = world()

    def inner():
        thing = Thing("local")
        log.append("inside")
        return len(thing.name)

    def step(x):
        n = inner()
        log.append("after")
        return x * n

    return scene(step, nothing, observe=lambda: list(log))


@case("endings")
def an_object_goes_with_an_attribute():
    log, Thing = world()

    class Holder:
        pass

    holder = Holder()
    holder.thing = Thing("old")

    def step(x):
        log.append("before")
        holder.thing = Thing("new")
        log.append("after")
        return x + len(log)

    return scene(step, nothing, observe=lambda: list(log))


@case("endings")
def an_object_goes_with_an_entry():
    log, Thing = world()
    table = {"a": Thing("a"), "b": [Thing("b")]}

    def step(x):
        n = len(log)
        if "a" in table:
            del table["a"]
        table["b"] = n
        log.append("after")
        return x * (len(log) - n)

    return scene(step, nothing, observe=lambda: (list(log), sorted(table)))


@case("endings")
def an_object_goes_with_a_global_variable():
    log, Thing = world()
    thing = Thing("captured")

    def step(x):
        nonlocal thing
        thing = None
        log.append("after")
        return x, list(log)

    return scene(step, nothing, observe=lambda: list(log))


@case("endings")
def an_object_is_popped_from_a_list():
    log, Thing = world()
    held = [Thing("a"), Thing("b"), Thing("c")]

    def step(x):
        held.pop()
        log.append("popped")
        return x * len(held)

    return scene(step, nothing, observe=lambda: list(log))


@case("endings")
def an_object_goes_with_a_slot():
    log, Thing = world()

    class Holder:
        __slots__ = ("thing",)

    holder = Holder()
    holder.thing = Thing("in a slot")

    def step(x):
        holder.thing = x
        log.append("after")
        return x * len(log)

    return scene(step, nothing, observe=lambda: list(log))


@case("endings")
def a_finalizer_is_called_at_the_right_time():
    log = []

    class Plain:
        pass

    def step(x):
        first, second = Plain(), Plain()
        weakref.finalize(first, log.append, "first")
        weakref.finalize(second, log.append, "second")
        second = None
        log.append("between")
        first = second
        return x * len(log), first

    return scene(step, nothing, observe=lambda: list(log))


@case("endings")
def a_finalizer_of_an_object_from_outside():
    log = []

    class Plain:
        pass

    held = [Plain()]
    weakref.finalize(held[0], log.append, "gone")

    def step(x):
        held.clear()
        n = len(log)
        held.append(Plain())
        return x * n, len(log)

    return scene(step, nothing, observe=lambda: list(log))


@case("endings")
def a_weak_reference_calls_back():
    log = []

    class Plain:
        pass

    state = {"plain": Plain()}
    reference = weakref.ref(state["plain"], lambda _: log.append("called"))

    def step(x):
        state["plain"] = None
        log.append("after")
        return x, reference() is None, len(log)

    return scene(step, nothing, observe=lambda: list(log))


@case("endings")
def a_weak_dictionary_is_looked_at_after_an_object_went():
    class Plain:
        pass

    held = [Plain(), Plain()]
    table = weakref.WeakValueDictionary(a=held[0], b=held[1])

    def step(x):
        if held:
            held.pop()
        return x * len(table), sorted(table)

    return scene(step, nothing, nothing)


@case("endings")
def an_object_in_a_loop():
    log, Thing = world()

    def step(x):
        for i in range(3):
            thing = Thing(i)
            log.append("made")
            x = x + thing.name
        return x

    return scene(step, nothing, observe=lambda: list(log))


@case("endings")
def an_object_survives_because_it_is_returned():
    log, Thing = world()
    kept = []

    def step(x):
        thing = Thing("kept")
        kept.append(thing)
        log.append("end")
        return x, len(log)

    return scene(step, nothing, kept.clear, observe=lambda: list(log))


@case("endings")
def an_object_with_an_ending_is_used_and_stays():
    log, Thing = world()
    thing = Thing("stays")
    state = {"n": 0}

    def step(x):
        state["n"] += 1
        other = thing
        del other
        return x * len(thing.name), state["n"], len(log)

    return scene(step, nothing, observe=lambda: list(log))


@case("endings")
def a_tensor_that_is_dropped_calls_back():
    log = []
    state = {"x": eager.ones(2)}
    weakref.finalize(state["x"], log.append, "tensor")

    def step(x):
        state["x"] = x * 2
        log.append("after")
        return len(log), x

    return scene(step, nothing, observe=lambda: list(log))


@case("endings")
def an_exception_holds_an_object():
    log, Thing = world()

    def fail():
        thing = Thing("in a frame")
        raise ValueError(thing.name)

    def step(x):
        try:
            fail()
        except ValueError:
            log.append("caught")
        log.append("after")
        return x * len(log)

    return scene(step, nothing, observe=lambda: list(log))


@case("endings")
def a_with_block_ends_and_an_object_goes():
    log, Thing = world()

    class Manager:
        def __enter__(self):
            return Thing("managed")

        def __exit__(self, *_):
            log.append("exit")

    def step(x):
        with Manager() as thing:
            x = x * len(thing.name)
        thing = None
        log.append("after")
        return x

    return scene(step, nothing, observe=lambda: list(log))


@case("endings")
def what_an_exception_leaves_behind():
    """Its frames are in no cycle: what they hold goes with it, and what lies on their stacks before."""
    log, held = [], []

    class Thing:
        pass

    def closing():
        try:
            yield 1
            yield 2
        finally:
            log.append("closed")

    def fails(x):
        thing = Thing()
        held.append(weakref.ref(thing))
        for value in closing():
            if x.sum().item() > value:
                raise KeyError(value)

    def step(x):
        try:
            fails(x)
        except KeyError as error:
            log.append(str(error))
        return [ref() is None for ref in held]

    return scene(step, nothing, nothing, observe=lambda: log)


@case("endings")
def an_inverted_bool_warns():
    def step(x, flag):
        return x, ~flag, ~True, ~(flag == 1)

    return rows(step, *[(eager.ones(2), flag) for flag in (True, False, True)])


def _raising_through(register):
    """A function that raises leaves an object, which goes with the exception."""
    log = []

    class Thing:
        pass

    def inner(x, n):
        thing = Thing()
        register(thing, log.append, n)
        if x.sum() * n > 4:
            raise ValueError("big")
        return x * n

    def step(x, n):
        try:
            y = inner(x, n)
        except ValueError as error:
            log.append(f"caught {error}")
            y = x
        log.append("after")
        return y

    return over(step, [1, 2, 3, 1], lambda: list(log))


@case("endings")
def a_finalizer_in_a_function_that_raises():
    return _raising_through(weakref.finalize)


@case("endings")
def a_reference_with_a_call_in_a_function_that_raises():
    references = []

    def register(thing, call, n):
        references.append(weakref.ref(thing, lambda _: call(n)))

    return _raising_through(register)


@case("endings")
def a_generator_whose_finally_is_split():
    log = []

    def numbers(n):
        try:
            for i in range(n):
                yield i
        finally:
            graph_break()
            log.append("finally")

    def step(x, n):
        for i in numbers(n):
            if i == 2:
                break
        log.append("behind the loop")
        first = next(numbers(n), None)
        log.append("behind next")
        return x * n, first

    return over(step, [2, 5, 0, 3], lambda: log)


@case("endings")
def a_generator_is_left_in_a_function_that_is_split():
    log = []

    def numbers(n):
        try:
            for i in range(n):
                yield i
        finally:
            log.append("finally")

    def find(values):
        for value in values:
            graph_break()
            if value >= 2:
                return value
        return None

    def step(x, n):
        found = find(numbers(n))
        log.append("behind the function")
        return x * n, found

    return over(step, [2, 5, 0, 3], lambda: log)


@case("endings")
def a_generator_is_left_by_an_exception_behind_a_split():
    """It ends before the handler begins."""
    log = []

    def numbers(n):
        try:
            yield from range(n)
        finally:
            log.append("finally")

    def step(x, n):
        y = x
        try:
            for value in numbers(3):
                graph_break()
                y = y * (6 // (value - n))
        except ZeroDivisionError:
            log.append("handler")
        try:
            for value in numbers(3):
                graph_break()
                if value == n:
                    raise KeyError(value)
        finally:
            log.append("behind")
        return y

    return over(step, [0, 1, 2, 3], lambda: log)
