"""Weak references, finalizers, the collector."""

import gc
import weakref

import eager
from tests.never_wrong.harness import Call, Program, case
from tests.never_wrong.scene import nothing, scene


@case("weak")
def a_weak_reference_dies():
    class Thing:
        n = 3

    held = [Thing()]
    reference = weakref.ref(held[0])

    def step(x):
        thing = reference()
        return x if thing is None else x * thing.n

    return scene(step, held.clear)


@case("weak")
def a_weak_dictionary_loses_its_entry():
    class Thing:
        n = 3

    held = [Thing(), Thing()]
    table = weakref.WeakValueDictionary(a=held[0], b=held[1])

    def step(x):
        return len(table), x * table["b"].n, "a" in table, sorted(table)

    return scene(step, lambda: held.pop(0), lambda: table.update(c=held[0]))


@case("weak")
def a_weak_key_dictionary():
    class Key:
        pass

    key, other = Key(), Key()
    table = weakref.WeakKeyDictionary({key: 2})

    def step(x):
        return x * table.get(key, 1), len(table), other in table

    return scene(step, lambda: table.update({other: 5}), lambda: table.pop(key))


@case("weak")
def a_weak_set():
    class Thing:
        pass

    held = [Thing()]
    things = weakref.WeakSet(held)

    def step(x):
        return x * len(things)

    def add():
        held.append(Thing())
        things.add(held[-1])

    return scene(step, add, held.clear)


@case("weak")
def a_weak_reference_is_made_inside():
    class Thing:
        n = 2

    thing, made = Thing(), []

    def step(x):
        made.append(weakref.ref(thing))
        return x * made[-1]().n, weakref.getweakrefcount(thing)

    return scene(step, nothing, observe=lambda: [r() is thing for r in made])


@case("weak")
def a_weak_reference_to_an_object_made_inside():
    class Thing:
        pass

    def step(x):
        thing = Thing()
        reference = weakref.ref(thing)
        alive = reference() is thing
        del thing
        return alive, reference() is None

    return scene(step, nothing)


@case("weak")
def a_proxy():
    class Thing:
        n = 2

        def run(self, x):
            return x * self.n

    thing = Thing()
    proxy = weakref.proxy(thing)
    return scene(lambda x: (proxy.run(x), proxy.n), lambda: setattr(thing, "n", 3))


@case("weak")
def a_weak_method():
    class Thing:
        n = 2

        def run(self, x):
            return x * self.n

    thing = Thing()
    method = weakref.WeakMethod(thing.run)
    return scene(lambda x: method()(x), lambda: setattr(thing, "n", 3))


@case("weak")
def del_runs_at_each_call():
    log = []

    class Thing:
        def __init__(self, n):
            self.n = n

        def __del__(self):
            log.append(self.n)

    def step(x):
        thing = Thing(1)
        y = x * thing.n
        del thing
        log.append("after")
        return y

    return scene(step, nothing, nothing, observe=lambda: list(log))


@case("weak")
def del_runs_when_the_last_reference_goes():
    log, held = [], []

    class Thing:
        def __del__(self):
            log.append("gone")

    held.append(Thing())

    def step(x):
        held.clear()
        log.append("cleared")
        held.append(Thing())
        return x + 1

    return scene(step, nothing, observe=lambda: list(log))


@case("weak")
def a_finalizer_is_registered_inside():
    log = []

    class Thing:
        pass

    def step(x):
        thing = Thing()
        weakref.finalize(thing, log.append, "gone")
        del thing
        return x + 1, len(log)

    return scene(step, nothing, observe=lambda: list(log))


@case("weak")
def a_generator_is_closed_when_it_goes():
    log = []

    def numbers():
        try:
            yield 1
            yield 2
        finally:
            log.append("closed")

    def step(x):
        for n in numbers():
            break
        log.append("after")
        return x * n

    return scene(step, nothing, observe=lambda: list(log))


@case("weak")
def the_collector_is_asked():
    def step(x):
        return x + 1, gc.isenabled()

    return Program(
        step,
        [
            Call((eager.ones(1),)),
            Call((eager.ones(1),), {}, gc.disable),
            Call((eager.ones(1),), {}, gc.enable),
        ],
        close=gc.enable,
    )


@case("weak")
def the_arguments_are_not_kept_alive():
    class Thing:
        def __init__(self):
            self.x = eager.ones(2)

    dead = []

    def step(thing):
        return thing.x * 2

    def call(_):
        thing = Thing()
        weakref.finalize(thing, dead.append, 1)
        result = inner(thing)
        del thing
        return result

    inner = step
    return scene(call, nothing, observe=lambda: list(dead))


@case("weak")
def a_tensor_that_is_weakly_held():
    held = [eager.ones(2)]
    reference = weakref.ref(held[0])

    def step(x):
        w = reference()
        return x if w is None else x + w

    return scene(step, lambda: held[0].add_(1), held.clear, args=(eager.ones(2),))
