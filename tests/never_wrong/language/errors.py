"""Errors that Python raises itself, StopIteration, and exceptions of the caller's handlers."""

import collections
import contextlib
import functools
import operator
import os
import re

import numpy as np

import eager
from tests.never_wrong.harness import case, over


@case("exceptions")
def stop_iteration_leaves_next():
    class Numbers:
        def __init__(self, n):
            self.n = n

        def __iter__(self):
            return self

        def __next__(self):
            if self.n == 0:
                raise StopIteration("end", 7)
            self.n -= 1
            return self.n

    def step(x, n):
        numbers = Numbers(n)
        got = list(numbers)
        try:
            next(numbers)
        except StopIteration as stop:
            return got, stop.value, stop.args, x

    return over(step, [0, 2, 3])


@case("exceptions")
def stop_iteration_escapes_the_step():
    def step(x, items):
        it = iter(items)
        return next(it), next(it), x

    return over(step, [[1, 2, 3], [1], []])


@case("exceptions")
def exceptions_in_comprehensions_and_lambdas():
    def step(x, items):
        halves = [10 // v for v in items]
        return halves, x, sorted(items, key=lambda v: 1 / (v - 3))

    return over(step, [[1, 2], [1, 0], [5, 3], [4]])


@case("exceptions")
def errors_of_attributes_and_names():
    class Box:
        here = 1

    def step(x, n):
        try:
            if n == 0:
                return Box.missing
            if n == 1:
                return Box().missing
            if n == 2:
                return undefined_name  # noqa: F821
            if n == 3:
                return (None).field
            return x.no_such_attribute
        except (AttributeError, NameError) as error:
            return type(error).__name__, str(error), error.name, error.args

    return over(step, [0, 1, 2, 3, 4])


@case("exceptions")
def errors_of_wrong_types():
    def step(x, n):
        tries = [
            lambda: n + "a", lambda: len(n), lambda: n[0], lambda: n(), lambda: iter(n),
            lambda: "a" + n, lambda: [1] + (n,), lambda: -"a", lambda: {}[[]], lambda: n < "a",
            lambda: int([]), lambda: {**{"a": 1}, **n}, lambda: sum(["a"]), lambda: max([]),
            lambda: "abc".index("z"), lambda: [1].remove(n), lambda: int("3x"), lambda: n @ n,
            lambda: range(1.5), lambda: "%d" % "a", lambda: "{}{}".format(n), lambda: f"{n:zz}",  # noqa: F524, PLE1307
            lambda: (lambda a: a)(), lambda: print(end=n), lambda: isinstance(n, n),
        ]  # fmt: skip
        found = []
        for each in tries:
            try:
                found.append(each())
            except Exception as error:
                found.append((type(error).__name__, str(error)))
        return found, x

    return over(step, [5, 6, 7])


@case("exceptions")
def calls_that_a_builtin_does_not_take():
    def step(x, n):
        tries = [
            lambda: abs(n, 2), lambda: abs(n, c=1), lambda: len(), lambda: next(iter([n]), 1, 2),
            lambda: getattr(x, "shape", n, 1), lambda: map(abs), lambda: dict([], [n]),
            lambda: operator.lt(1, n, 2), lambda: operator.add(1, n, 2), lambda: vars(n),
            lambda: isinstance(n), lambda: type(n, "A"), lambda: reversed(), lambda: repr(n / 2, c=1),
            lambda: filter(None), lambda: functools.reduce(max, [n], 1, 2), lambda: hasattr(n),
        ]  # fmt: skip
        found = []
        for each in tries:
            try:
                found.append(each())
            except TypeError as error:
                found.append(str(error))
        return found, x

    return over(step, [5, 6])


@case("exceptions")
def errors_about_what_stands_for_a_value():
    class Box:
        def __init__(self, v):
            self.v = v

        def method(self):
            return self.v

    def step(x, r):
        box, number = Box(r), np.float64(r)

        def write():
            r.grad = None

        def store():
            r[0] = 1

        def each():
            yield r

        tries = [
            lambda: {**r}, lambda: dict(**number), lambda: r.missing, write, store, lambda: max(1, box.method),
            lambda: r + box, lambda: sorted([1, box.method]), lambda: "a" + r,
            lambda: [1][r], lambda: each()[0], lambda: each() + 1, lambda: [] + each(), lambda: number(),
            lambda: (lambda *a: a)(*number), lambda: x[[1, r]], lambda: x[[[r]]], lambda: [1] < box.method,
        ]  # fmt: skip
        found = []
        for attempt in tries:
            try:
                found.append(attempt())
            except (TypeError, AttributeError, IndexError) as error:
                found.append((type(error).__name__, str(error)))
        return found, x

    return over(step, [1.5, 2.5])


@case("exceptions")
def a_list_that_holds_itself_is_shown():
    items, log = [1, 2.5], []

    def step(x):
        try:
            log.append(f"{items}")
        except RecursionError as error:
            log.append(str(error))
        items[0] = items
        return x

    return over(lambda x, _: step(x), [1, 2, 3], lambda: log)


@case("exceptions")
def a_list_of_numbers_is_an_index():
    def step(x, n):
        return x[[n, 0]], x[[[0, n], [n, n]]], x[[True, n > 0]]

    return over(step, [0, 1, -1])


@case("exceptions")
def errors_of_tensors():
    def step(x, n):
        tries = [
            lambda: x + eager.ones(3), lambda: x.view(3), lambda: x[n], lambda: x @ eager.ones(3),
            lambda: x.reshape(n, 3), lambda: bool(x), lambda: x.item(), lambda: int(x),
            lambda: x.sum(dim=n), lambda: eager.cat([x, x], dim=n), lambda: x.backward(),
            lambda: len(x.sum()), lambda: x.to("nowhere"), lambda: eager.zeros(-n),
        ]  # fmt: skip
        found = []
        for each in tries:
            try:
                found.append(each())
            except Exception as error:
                found.append((type(error).__name__, str(error)))
        return found

    return over(step, [5, 6, 7])


@case("exceptions")
def suppressed_errors_and_their_order():
    log = []

    def step(x, n):
        with contextlib.suppress(KeyError, IndexError):
            log.append("a")
            [1, 2][n]
            log.append("b")
            {1: 1}[n]
            log.append("c")
        return x

    return over(step, [1, 0, 5, 1], lambda: log)


@case("exceptions")
def exception_is_returned_and_shared():
    def step(x, n):
        try:
            raise ValueError(n, [x])
        except ValueError as error:
            return error, [error, error.args], x

    return over(step, [1, 2, 3])


@case("exceptions")
def keyboard_interrupt_and_system_exit():
    log = []

    def step(x, n):
        try:
            log.append("try")
            if n == 1:
                raise SystemExit(n + 2)
            if n == 2:
                raise KeyboardInterrupt
        except Exception:
            log.append("except")
        finally:
            log.append("finally")
        return x

    return over(step, [0, 1, 2, 0], lambda: log)


@case("exceptions")
def exception_classes_compare_by_hooks():
    log = []

    class Meta(type):
        def __instancecheck__(cls, instance):
            log.append("asked")
            return True

    class Any_(Exception, metaclass=Meta):
        pass

    def step(x, n):
        try:
            raise ValueError(n)
        except (KeyError, Any_):
            return "any", isinstance(n, Any_), x
        except ValueError:
            return "value", isinstance(n, Any_), x

    return over(step, [1, 2], lambda: list(log))


@case("exceptions")
def errors_of_a_step_while_the_caller_handles_another():
    kept = []

    def step(x, n):
        try:
            return 1 // n, x
        except ZeroDivisionError as error:
            return repr(error.__context__), x

    def outer(x, n):
        try:
            raise OSError(n)
        except OSError:
            return step(x, n)

    return over(outer, [1, 0, 2], lambda: kept)


@case("errors")
def exceptions_hold_more_than_their_arguments():
    def read(error):
        names = "filename filename2 strerror name path value code lineno text".split()
        return [getattr(error, name, "-") for name in names]

    makers = [
        lambda n: OSError(2, "missing", f"file {n}"),
        lambda n: OSError(1, "moved", "from", None, f"to {n}"),
        lambda n: ImportError("module", name=f"name {n}", path="path"),
        lambda n: AttributeError("attribute", name="name", obj=n),
        lambda n: SyntaxError("text", ("file", n, 2, "line")),
        lambda n: ExceptionGroup("group", [KeyError(n)]),
    ]
    kept = []

    def step(x, n):
        made = [make(n) for make in makers]
        changed = [SyntaxError("text"), OSError(1, "moved"), StopIteration(1), SystemExit()]
        changed[0].lineno, changed[1].filename, changed[2].value, changed[3].code = n, "later", n, n
        kept.append(made + changed)
        return x * n, kept[-1]

    return over(step, [1, 2], lambda: [[read(error) for error in each] for each in kept])


@case("errors")
def an_error_of_a_value_of_the_run_leaves_a_part():
    class Told(Exception):
        pass

    def step(x, n):
        os.getppid()  # splits the program here
        if n > 1:
            raise Told(x.sum().item(), n)
        return x

    return over(step, [1, 2, 3])


@case("exceptions")
def items_by_key_alone_are_no_items():
    class Named:
        def __getitem__(self, key):
            return {"a": 1}[key]

    class Of(type):
        def __iter__(cls):
            return iter("ab")

    class Plain(metaclass=Of):
        pass

    row = np.array([(1, 2.5)], [("a", int), ("b", float)])[0]
    values = [np.int64(3), np.float32(2), re.match("(a)(b)", "ab"), row, Named(), Plain(), Plain, 3]
    ways = {
        "all": lambda v: [*v],
        "arguments": lambda v: max(*v),
        "two": lambda v: (lambda a, b: (a, b))(*v),
        "later arguments": lambda v: max(1, *v),
    }

    def step(x, v):
        said = []
        for name, way in ways.items():
            try:
                said.append((name, way(v)))
            except (TypeError, KeyError) as error:
                said.append((name, type(error).__name__, str(error)))
        try:
            a, b = v
            c, *d = v
            said.append((a, b, c, d))
        except (TypeError, KeyError) as error:
            said.append((type(error).__name__, str(error)))
        return x, said

    return over(step, values)


@case("exceptions")
def numpy_is_asked_before_a_list_takes_items():
    record = [("a", int), ("b", float)]
    makes = {
        "array": lambda n: np.array([n, 2]),
        "number": lambda n: np.float64(n),
        "record": lambda n: np.zeros(1, record)[0],
        "text": lambda n: np.str_("ab"),
        "list": lambda n: [n],
    }

    def step(x, n):
        found = []
        for name, make in makes.items():
            for kind in (list, collections.deque):
                items = kind([1, 2])
                kept = items
                try:
                    items += make(n)
                except TypeError as error:
                    found.append((name, type(error).__name__))
                found.append((items, kept, items is kept))
        return x, found

    return over(step, [1, 2, 3])
