"""Lists and arrays of tensors that only the graph knows, and iterators that run the program."""

import functools
import math

import numpy as np

import eager
from tests.never_wrong.harness import Program, after, case, over


@case("later")
def lists_of_tensors_are_stored_and_printed():
    log = []

    def step(x, n):
        y = x * n
        log.append(y.tolist())
        print(y.tolist(), f"{y.sum(0).tolist():.1f} {(y > 1).tolist()}")
        y.add_(1)
        return y.tolist(), y.reshape(2, 1).int().tolist(), isinstance(log[-1], list)

    return over(step, [1, 2, 3], lambda: log)


@case("later")
def lists_of_tensors_are_looked_into():
    def step(x, n):
        values = (x * n).tolist()
        values.append(n)
        return sorted(values, reverse=True), values == [2.0, 4.0, 2], sum(values), x + values[0]

    return over(step, [1, 2, 3])


@case("later")
def one_list_in_two_places():
    def step(x, n):
        values = (x * n).tolist()
        return values, [values], {"v": values}

    def call(x, n):
        first, (second,), third = step(x, n)
        first.append("x")
        return first is second is third["v"], second

    return over(call, [1, 2])


@case("later")
def arrays_share_memory_with_their_tensors():
    kept = {}

    def step(x, n):
        y = x * n
        array = y.numpy()
        part = y[1:].numpy()
        y.mul_(10)
        kept["array"], kept["tensor"] = array, y
        print(array, part, type(array).__name__)
        y.add_(1)
        return array, part, y.t().numpy()

    def observe():
        if kept:
            kept["array"][0] = -5.0
        return kept

    return over(step, [1, 2, 3], observe)


@case("later")
def arrays_of_parameters():
    p = eager.tensor([1.0, 2.0], requires_grad=True)
    q = eager.tensor([3.0, 4.0])

    def step(x, n):
        (p * x).sum().backward()
        arrays = p.detach().numpy(), p.grad.numpy(), q.numpy()
        q.add_(n)
        try:
            p.numpy()
        except RuntimeError as error:
            return *arrays, p.numpy(force=True), str(error)

    return over(step, [1, 2, 3], lambda: (p, q))


@case("later")
def arrays_are_reckoned_with():
    def step(x, n):
        array = (x * n).numpy()
        more = array * 2 + np.ones(2, "float32")
        return more, array.mean(), eager.from_numpy(more) + x

    return over(step, [1, 2])


@case("later")
def arrays_after_the_data_was_changed():
    p = eager.tensor([1.0, 2.0])

    def step(x, n):
        before = p.numpy()
        p.data = x * n
        p.add_(1)
        return before, p.numpy()

    return over(step, [1, 2], lambda: p)


@case("later")
def texts_that_are_no_texts():
    def step(x, n):
        text = f"{x.sum().item()}"
        try:
            return text + n
        except TypeError as error:
            return str(error), text + "!", text * 2, x

    return over(step, [1, "a"])


class Meets:
    """Equal to what has its value; also unequal to everything."""

    def __init__(self, value):
        self.value = value

    def __eq__(self, other):
        return self.value == getattr(other, "value", other)

    def __ne__(self, other):
        return True

    __hash__ = None


@case("later")
def calls_until_a_sentinel():
    def step(x, n):
        source = iter([1, 2, Meets(3), 4, math.nan, 5])
        first = [*iter(lambda: next(source), 3)]
        rest = iter(functools.partial(next, source), math.nan)
        return len(first), [*rest], next(rest, "ended"), x * n

    return over(step, [1, 2])


@case("later")
def functions_that_stop_an_iteration():
    def stops(value):
        if value == 2:
            raise StopIteration("two")
        return value + 1

    def step(x, n):
        given = [0, 1, 2, 3]
        mapped = map(stops, given)
        first = [*mapped], next(mapped, "end")
        second = (
            [*filter(stops, given)],
            [*iter(functools.partial(stops, n), 0)][:0] if n == 2 else n,
        )
        return first, second, x

    return over(step, [2, 1 + 1])


@case("later")
def types_of_lazy_iterators():
    def step(x, n):
        lazy = (
            map(abs, [n]),
            filter(None, [n]),
            iter(int, 1),
            reversed([n]),
            zip([n]),
            enumerate([n]),
        )
        errors = []
        for wrong in (lambda: map(abs), lambda: iter(n, 1)):
            try:
                wrong()
            except TypeError as error:
                errors.append(str(error))
        names = [type(each).__name__ for each in lazy]
        return names, errors, isinstance(lazy[0], map), iter(lazy[1]) is lazy[1], x

    return over(step, [1, 2])


@case("later")
def map_goes_on_where_it_stopped():
    def step(x, n):
        seen = []

        def look(a, b=0):
            seen.append(a)
            return a * x.sum() + b

        lazy = map(look, [1, 2, 3, 4], [n, n, n])
        first = next(lazy)
        taken = [*seen]
        rest = [*lazy]
        return first, taken, rest, seen, [*filter(lambda v: v % 2, map(int, "12345"))]

    return over(step, [1, 2])


@case("later")
def the_count_of_what_was_written(tmp_path=None):
    import io

    file = io.StringIO()

    def step(x, n):
        total = file.write(f"{(x * n).sum().item()} ")
        return total, total + 1 if n > 1 else isinstance(total, int), x

    return Program(step, [(eager.tensor([1.0, 2.0]), n) for n in (1, 2, 10)], file.getvalue)


class Steps:
    def __init__(self, n):
        self.n = n
        self.i = 0

    def __iter__(self):
        return self

    def __next__(self):
        if self.i >= self.n:
            raise StopIteration
        self.i += 1
        return self.i


class Items:
    def __init__(self, n):
        self.n = n

    def __getitem__(self, i):
        if i >= self.n:
            raise IndexError(i)
        return i * self.n


@case("later")
def iterators_of_instances_are_themselves():
    def step(x, n):
        it = iter(Steps(n))
        first, again = next(it), iter(it) is it
        old = iter(Items(n))
        next(old)
        return (
            first,
            again,
            it.i,
            [*it],
            it.i,
            type(old).__name__,
            [*old],
            next(old, "end"),
            x,
            n in Items(3),
        )

    return over(step, [1, 2, 3])


@case("later")
def generators_have_generators_attributes():
    def numbers():
        yield 1

    def step(x, n):
        g = numbers()
        tries = (
            lambda: g.frame, lambda: setattr(g, "frame", 1), lambda: g.running, lambda: g.__name__,
            lambda: g.gi_running, lambda: delattr(g, "q"), lambda: g[0],
        )  # fmt: skip
        seen = []
        for each in tries:
            try:
                seen.append(each())
            except (AttributeError, TypeError) as error:
                seen.append(str(error))
        return seen, next(g), hasattr(g, "vm"), x

    return over(step, [1, 2])


@case("later")
def truths_that_decide_nothing():
    def step(x, n):
        loss = (x.sum() - 3 * n).item()
        return bool(loss), [bool(loss * 0)], bool(loss / 0.0 if n < 0 else math.nan * loss), x

    return over(step, [1, 2, 0])


@case("later")
def functions_of_numpy_on_sizes():
    factors = [2, 3]

    def step(x, n):
        size = int(np.prod(x.shape)) * np.prod(factors)
        spread = np.linspace(0, n, 3)
        mean = np.mean([n, size]) + np.max([1.5, n])
        return (
            x.reshape(1, -1) * size,
            spread,
            mean,
            type(mean).__name__,
            np.cumsum((1, n)),
            np.clip(n, 1, 2),
        )

    return over(step, [1, 2, 3], lambda: factors.append(1))


@case("later")
def a_function_of_numpy_is_replaced():
    held = {"fn": np.prod}

    def step(x, n):
        return x * held["fn"](x.shape), held["fn"]([n, 2.0])

    x = eager.tensor([1.0, 2.0])
    return Program(step, [(x, 1), after(lambda: held.update(fn=np.sum), x, 1), (x, 2)])


@case("later")
def lists_of_numbers_for_numpy():
    def step(x, n):
        loss = x.sum().item()
        spread = np.add([n, 1], [[2.5, n]]), np.sqrt([n * 4, n]), np.multiply.reduce([n, 3.0])
        return (
            x,
            spread,
            np.array([n, 1]) * n,
            np.prod([n, [n, 1][0]]),
            type(np.sum([n])).__name__,
            loss,
        )

    return over(step, [1, 2, 3])


class Stops:
    def __init__(self):
        self.asked = []

    def __getitem__(self, i):
        self.asked.append(i)
        if i == 2:
            raise StopIteration
        return i


@case("later")
def items_that_stop_an_iteration():
    def step(x, n):
        items = Stops()
        it = iter(items)
        return [*it], [*it], next(it, "end"), items.asked, x * n

    return over(step, [1, 2])
