"""Iterators and generators: from outside, half consumed, stored and resumed."""

import collections
import copy
import itertools

import numpy as np

import eager
from jitcap import graph_break
from tests.never_wrong.harness import case, over
from tests.never_wrong.scene import nothing, rows, scene


@case("iterators")
def a_list_iterator_half_consumed():
    items = [1, 2, 3, 4]
    numbers = iter(items)
    next(numbers)

    def step(x):
        return x * next(numbers, 100)

    return scene(step, nothing, lambda: items.append(50), nothing, nothing, nothing)


@case("iterators")
def a_generator_from_outside():
    def numbers():
        n = 1
        while True:
            received = yield n
            n += received or 1

    g = numbers()

    def step(x):
        return x * next(g)

    return scene(step, nothing, lambda: (next(g), g.send(10)), g.close)


@case("iterators")
def a_generator_is_sent_to_inside():
    def numbers():
        total = 0
        while True:
            total += (yield total) or 1

    g = numbers()
    next(g)

    def step(x):
        return x * g.send(3), next(g)

    return scene(step, nothing)


@case("iterators")
def itertools_count_and_cycle():
    count, cycle = itertools.count(5), itertools.cycle("ab")

    def step(x):
        return x * next(count), next(cycle)

    return scene(step, nothing, lambda: next(cycle), observe=lambda: repr(count))


@case("iterators")
def zip_and_enumerate_and_map_from_outside():
    calls = []
    pairs = enumerate(zip([1, 2, 3], itertools.count(10)))
    mapped = map(lambda n: calls.append(n) or n * 2, [1, 2, 3])

    def step(x):
        i, (a, b) = next(pairs)
        return x * a, i, b, next(mapped)

    return scene(step, nothing, nothing, nothing, observe=lambda: list(calls))


@case("iterators")
def filter_and_reversed_from_outside():
    kept, back = filter(lambda n: n % 2, range(9)), reversed([1, 2, 3])

    def step(x):
        return x * next(kept), next(back, None)

    return scene(step, nothing, lambda: next(kept), nothing)


@case("iterators")
def islice_chain_and_tee_from_outside():
    chain = itertools.chain([1, 2], (n for n in [3, 4]))
    a, b = itertools.tee(chain)
    some = itertools.islice(itertools.count(), 1, None, 3)

    def step(x):
        return x * next(a), next(b), next(some)

    return scene(step, nothing, nothing, lambda: next(b))


@case("iterators")
def an_iterator_is_stored_and_resumed():
    held = {}

    def step(x):
        if "it" not in held:
            held["it"] = iter([1, 2, 3])
        return x * next(held["it"])

    return scene(step, nothing, nothing, held.clear)


@case("iterators")
def itertools_objects_are_stored():
    held = {}

    def step(x):
        if not held:
            held["count"] = itertools.count(3)
            held["cycle"] = itertools.cycle([1, 2])
            held["chain"] = itertools.chain([1], [2, 3])
        return next(held["count"]), next(held["cycle"]), x * next(held["chain"])

    return scene(step, nothing, nothing)


@case("iterators")
def a_generator_is_stored_and_resumed():
    held = []

    def numbers(x):
        n = 0
        while True:
            n += 1
            yield x * n

    def step(x):
        if not held:
            held.append(numbers(x))
        return next(held[0])

    return scene(step, nothing, nothing)


@case("iterators")
def a_generator_is_returned():
    def step(x):
        y = x * 2
        return (y + i for i in range(2))

    def call(x):
        g = inner(x)
        return type(g).__name__, [*g], [*g]

    inner = step
    return scene(call, nothing)


@case("iterators")
def a_generator_is_an_argument():
    def step(x, numbers):
        return x * sum(numbers)

    x = eager.ones(1)
    return rows(
        step,
        (x, (n for n in [1, 2])),
        (x, iter([5])),
        (x, range(3)),
        (x, [1]),
        (x, (n for n in [])),
    )


@case("iterators")
def one_iterator_given_twice():
    def step(x, a, b):
        return list(zip(a, b)), x  # noqa: B905

    x, it = eager.ones(1), iter([1, 2, 3, 4])
    return rows(step, (x, iter([1, 2]), iter([3, 4])), (x, it, it))


@case("iterators")
def iter_with_a_sentinel():
    items = [1, 2, 0, 3, 0]
    numbers = iter(lambda: items.pop(0), 0)

    def step(x):
        return x * sum(numbers), len(items)

    return scene(step, nothing, observe=lambda: list(items))


@case("iterators")
def an_iterator_of_a_dictionary():
    table = {"a": 1, "b": 2}
    keys = iter(table)

    def step(x):
        try:
            return next(keys), x
        except (StopIteration, RuntimeError) as error:
            return type(error).__name__, str(error)

    return scene(step, lambda: table.update(c=3), nothing)


@case("iterators")
def a_dictionary_that_changes_while_it_is_run_through():
    table = {"a": 1, "b": 2}

    def step(x):
        try:
            for key in table:
                table[key + "x"] = 1
        except RuntimeError as error:
            return str(error), len(table)

    return scene(step, observe=lambda: dict(table))


@case("iterators")
def a_list_that_grows_while_it_is_run_through():
    items = [1, 2]

    def step(x):
        total = 0
        for n in items:
            total += n
            if len(items) < 6:
                items.append(n * 10)
        return x * total

    return scene(step, nothing, items.clear, observe=lambda: items)


@case("iterators")
def an_exhausted_iterator_stays_exhausted():
    items = [1]
    it = iter(items)

    def step(x):
        return list(it), x

    return scene(step, lambda: items.append(2))


@case("iterators")
def an_iterator_that_lies_about_its_length():
    class Lazy:
        def __init__(self):
            self.n = 0

        def __iter__(self):
            return self

        def __next__(self):
            self.n += 1
            if self.n % 3 == 0:
                raise StopIteration
            return self.n

        def __length_hint__(self):
            return 10**9

    lazy = Lazy()

    def step(x):
        return list(lazy), [*lazy], x

    return scene(step, nothing, observe=lambda: lazy.n)


@case("iterators")
def an_array_is_run_through():
    rows_of = iter(np.arange(6.0).reshape(3, 2))

    def step(x):
        return x + eager.from_numpy(next(rows_of))

    return scene(step, nothing, args=(eager.ones(2),))


@case("iterators")
def a_tensor_iterator_from_outside():
    rows_of = iter(eager.arange(6.0).reshape(3, 2))

    def step(x):
        return x + next(rows_of)

    return scene(step, nothing, args=(eager.ones(2),))


@case("iterators")
def groupby_and_accumulate_and_pairwise():
    items = [1, 1, 2, 3, 3]

    def step(x):
        groups = [(k, len(list(g))) for k, g in itertools.groupby(items)]
        sums = list(itertools.accumulate(items, lambda a, b: a * b, initial=2))
        return (
            groups,
            sums,
            list(itertools.pairwise(items)),
            list(itertools.batched(items, 2)) if hasattr(itertools, "batched") else 0,
        )

    return scene(step, lambda: items.append(3))


@case("iterators")
def an_iterator_is_half_consumed_inside_and_returned():
    def step(x):
        it = iter([x, x + 1, x + 2])
        next(it)
        z = zip([1, 2], [3, 4])  # noqa: B905
        next(z)
        e = enumerate("abc")
        next(e)
        return [*it], z, e

    def call(x):
        a, z, e = inner(x)
        return a, [*z], [*e]

    inner = step
    return scene(call, nothing)


@case("iterators")
def an_iterator_over_an_object_from_outside_is_returned():
    items = [1, 2, 3]

    def step(x):
        it = iter(items)
        next(it)
        return it

    def call(x):
        it = inner(x)
        items.append(9)
        return [*it]

    inner = step
    return scene(call, nothing)


@case("iterators")
def yield_from_and_exceptions():
    log = []

    def inner():
        try:
            got = yield 1
            log.append(got)
        except ValueError as error:
            log.append(str(error))
            yield 5
        return "end"

    def outer():
        result = yield from inner()
        log.append(result)

    def step(x):
        g = outer()
        first = next(g)
        second = g.throw(ValueError("thrown"))
        return x * first, second, next(g, "done")

    return scene(step, nothing, observe=lambda: list(log))


@case("iterators")
def stopiteration_inside_a_generator():
    def numbers():
        yield next(iter([]))

    def step(x):
        try:
            return list(numbers())
        except RuntimeError as error:
            return str(error), type(error.__cause__).__name__

    return scene(step, nothing)


@case("iterators")
def unpacking_of_the_wrong_length():
    items = [1, 2]

    def step(x):
        try:
            a, b = items
            return x * a + b
        except ValueError as error:
            return str(error)

    return scene(step, lambda: items.append(3), items.clear)


@case("iterators")
def throw_send_and_close_pass_through_yield_from():
    def inner(log):
        try:
            while True:
                try:
                    got = yield 1
                except ValueError as error:
                    log.append((str(error), repr(error.__context__)))
                    got = yield 7
                log.append(got)
                if got == "stop":
                    return "end"
                if got == "raise":
                    raise KeyError("k")
        finally:
            log.append("closed")

    def outer(log):
        try:
            log.append((yield from inner(log)))
            yield from [10, 20, 30]
        except (KeyError, ZeroDivisionError) as error:
            log.append(repr(error))
            yield "caught"
        finally:
            log.append("outer closed")

    def drive(generator, action):
        if action == "next":
            return next(generator)
        if action == "close":
            return generator.close()
        if action in ("value", "zero"):
            return generator.throw(ValueError("v") if action == "value" else ZeroDivisionError("z"))
        return generator.send(action)

    scripts = (
        "next value a stop zero", "next value raise next", "next close", "next b zero next",
        "next value stop next close", "next stop next next next next",
    )  # fmt: skip

    def step(x):
        log = []
        for script in scripts:
            generator = outer(log)
            for action in script.split():
                try:
                    log.append(drive(generator, action))
                except Exception as error:
                    log.append(repr(error))
        return log

    return scene(step, nothing)


@case("iterators")
def generators_that_have_not_begun():
    kept = {}

    def numbers(count, *more, by=1, **named):
        kept["begun"] = kept.get("begun", 0) + 1
        yield from (count, more, by, named)

    def step(x, n):
        made = numbers(n, x, by=2, z=n)
        votes = collections.Counter(int((x * k).argmax()) for k in (1, -1, n))
        best = max(float(v) for v in x)
        return made, votes, best, (v * n for v in [x, x])

    def told(x, n):
        made, votes, best, products = step(x, n)
        return step, [*made], votes, best, [*products]

    return rows(told, *[(eager.tensor([1.0, 3.0]), n) for n in (1, 2, -2)], observe=lambda: kept)


@case("iterators", one_graph=True)
def tee_gives_the_objects_themselves():
    layers = [eager.nn.ReLU(), eager.nn.Identity()]

    def step(x, n):
        first, second = itertools.tee(layers)
        for layer in first:
            x = layer(x)
        a, b, c = itertools.tee((n * i for i in range(3)), 3)
        told = [next(a), [*b], [*a], [*c], next(second) is layers[0], itertools.tee([], 0)]
        try:
            itertools.tee([], -n)
        except ValueError as error:
            told.append(str(error))
        return x, told

    return rows(step, *[(eager.ones(2), n) for n in (1, 2)])


@case("iterators")
def a_generator_is_not_copied():
    def step(x):
        told = []
        for how in (copy.copy, copy.deepcopy):
            try:
                how(v for v in [x])
            except TypeError as error:
                told.append(str(error))
        return told

    return scene(step, nothing)


def _grows_in_a_loop(view_of):
    table = {"a": 1, "b": 2, "c": 3}

    def step(x, n):
        seen = []
        for entry in view_of(table):
            graph_break()
            seen.append(entry)
            table["b"] = n
            if len(seen) == n:
                table[f"new {len(table)}"] = n
        return seen, x

    return over(step, [0, 1, 0, 2, 0], lambda: table)


@case("iterators")
def a_dictionary_gets_keys_between_the_parts_of_a_loop():
    return _grows_in_a_loop(lambda table: table)


@case("iterators")
def a_dictionary_got_keys_before_it_is_iterated():
    table = {"a": 1.0}

    def step(x):
        table[f"key{len(table)}"] = 2.0
        total = 0.0
        for _, value in table.items():
            graph_break()
            total += value
        return x * total

    return scene(step, nothing, nothing)


@case("iterators")
def a_dictionary_gets_keys_while_its_values_are_iterated():
    return _grows_in_a_loop(lambda table: enumerate(table.values()))


@case("iterators")
def a_set_gets_other_members_between_the_parts_of_a_loop():
    members = {1, 2, 3}

    def step(x, n):
        seen = []
        try:
            for member in members:
                graph_break()
                seen.append(member)
                if n:
                    members.add(member + 20)
        except RuntimeError as error:
            seen.append(str(error))
        return seen, x

    return over(step, [0, 1, 0], lambda: members)


@case("iterators")
def iterators_are_shown():
    class Rows:
        def __getitem__(self, i):
            return range(4)[i]

        def __len__(self):
            return 4

    def numbers():
        yield 1

    def step(x):
        made = [iter(Rows()), reversed(Rows()), map(len, []), filter(None, [1]), numbers()]
        texts = [*map(str, made), repr(made[1]), f"{made[2]}", str([made[3]]), "%r" % made[0]]
        return x * 2, [text.split(" at ")[0].split(" object")[0] for text in texts]

    return scene(step, nothing)
