"""Control flow, scopes, generators, arguments, classes and recursion, with values that change."""

import contextlib
import itertools

import eager
from tests.never_wrong.harness import Program, after, case, over


@case("control flow", one_graph=True)
def while_else_and_break():
    def step(x, n):
        log = []
        while n > 0:
            n -= 1
            if n == 3:
                log.append("break")
                break
            log.append(n)
        else:
            log.append("else")
        return x * n, log

    return over(step, [2, 6, 3, 0])


@case("control flow", one_graph=True)
def break_and_continue_in_finally():
    def step(x, n):
        log = []
        for i in range(4):
            try:
                if i == n:
                    continue
                if i == n + 2:
                    return x, log
                log.append(i)
            finally:
                log.append(f"f{i}")
                if i == n + 1:
                    break  # noqa: B012 - meant
        return x * 2, log

    return over(step, [0, 1, 2, 9, -2])


@case("control flow", one_graph=True)
def return_in_finally_swallows():
    def inner(n, log):
        try:
            log.append(10 // n)
            return "try"
        except ZeroDivisionError:
            log.append("except")
            raise KeyError(n) from None
        finally:
            log.append("finally")
            if n <= 0:
                return "finally"  # noqa: B012 - meant

    def step(x, n):
        log = []
        return inner(n, log), log, x

    return over(step, [1, 0, -1, 3])


@case("control flow", one_graph=True)
def nested_try_with_reraise():
    def step(x, n):
        log = []
        try:
            try:
                try:
                    log.append([1, 2, 3][n])
                except IndexError:
                    log.append("inner")
                    raise
                else:
                    log.append("else")
                finally:
                    log.append("finally")
            except LookupError as error:
                log.append(str(error))
                raise ValueError("outer") from error
        except ValueError as error:
            log.append(type(error.__cause__).__name__)
        return log, x

    return over(step, [0, 3, -4, 2])


@case("control flow")
def the_name_of_an_exception_is_unbound():
    def step(x, n):
        error = "kept"
        try:
            if n:
                raise ValueError(n)
        except ValueError as error:
            pass
        return error, x

    return over(step, [0, 1, 0])


class Manager:
    def __init__(self, log, name, *, swallow=False, fail=False):
        self.log, self.name, self.swallow, self.fail = log, name, swallow, fail

    def __enter__(self):
        self.log.append(f"enter {self.name}")
        return self.name

    def __exit__(self, kind, error, tb):
        self.log.append(f"exit {self.name} {kind and kind.__name__} {tb is not None}")
        if self.fail:
            raise RuntimeError(f"exit of {self.name}")
        return self.swallow


@case("control flow")
def with_statements_that_swallow():
    def step(x, n):
        log = []
        with Manager(log, "a", swallow=n > 1) as a, Manager(log, "b", swallow=n > 2) as b:
            log.append(a + b)
            log.append(10 // (n % 2))
            log.append("end")
        return log, x

    return over(step, [1, 2, 4, 3])


@case("control flow")
def with_statement_that_fails_to_leave():
    log = []

    def step(x, n):
        x = x + 1
        with Manager(log, "a", fail=n == 1), Manager(log, "b", fail=n == 2):
            if n == 2:
                raise KeyError("inside")
            log.append(x.sum().item())
        return x

    return over(step, [0, 1, 2, 0], lambda: log)


@case("control flow")
def exit_stack_in_order():
    log = []

    def step(x, names):
        with contextlib.ExitStack() as stack:
            for name in names:
                stack.enter_context(Manager(log, name, swallow=name == "s"))
            stack.callback(log.append, "callback")
            if len(names) > 1:
                raise ValueError(names)
        return x * len(names)

    return over(step, [["a"], ["a", "s"], ["s", "a"], ["b"]], lambda: log)


@case("control flow")
def context_manager_of_a_generator():
    log = []

    @contextlib.contextmanager
    def scope(name):
        log.append(f"enter {name}")
        try:
            yield name.upper()
        except ValueError as error:
            log.append(f"caught {error}")
        finally:
            log.append(f"leave {name}")

    def step(x, n):
        with scope("outer") as name:
            with scope("inner"):
                if n == 1:
                    raise ValueError("one")
                if n == 2:
                    raise KeyError("two")
            log.append(name)
        return x * n

    return over(step, [0, 1, 2, 0], lambda: log)


# ---- generators


@case("control flow")
def generator_send_throw_close():
    def running():
        total, log = 0, []
        while True:
            try:
                got = yield total, log
                total += got
            except ValueError as error:
                log.append(str(error))
                total = -1
            except GeneratorExit:
                log.append("closed")
                raise

    def step(x, n):
        g = running()
        next(g)
        first = g.send(n)
        second = g.throw(ValueError(f"thrown {n}"))
        third = g.send(5)
        g.close()
        return first, second, third, next(g, "over"), x

    return over(step, [1, 2, -3])


@case("control flow")
def generator_returns_a_value_to_yield_from():
    def inner(n):
        got = yield n
        yield got
        return n * 10

    def outer(n):
        result = yield from inner(n)
        yield result
        yield from (result, "abc")
        return "done"

    def step(x, n):
        g, seen = outer(n), []
        seen.append(next(g))
        seen.append(g.send("sent"))
        try:
            while True:
                seen.append(next(g))
        except StopIteration as stop:
            seen.append(stop.value)
        return seen, x

    return over(step, [1, 2, 3])


@case("control flow")
def generator_finally_at_close():
    log = []

    def numbers(n):
        try:
            for i in range(n):
                yield i
        finally:
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


@case("control flow")
def stop_iteration_inside_a_generator():
    def numbers(items):
        it = iter(items)
        while True:
            yield next(it)

    def step(x, items):
        got = []
        try:
            for v in numbers(items):
                got.append(v)
        except RuntimeError as error:
            got.append((str(error), type(error.__cause__).__name__))
        return got, x

    return over(step, [[1, 2], [], [3]])


@case("control flow")
def generator_is_kept_between_calls():
    def numbers():
        n = 0
        while True:
            n += 1
            yield n

    held = {"g": numbers()}

    def step(x):
        return x * next(held["g"]), next(held["g"])

    x = eager.tensor([1.0])
    return Program(step, [(x,), (x,), after(lambda: held.update(g=numbers()), x), (x,)])


@case("control flow")
def generator_expression_takes_its_first_iterable_at_once():
    def step(x, n):
        items = [1, 2, 3]
        g = (v * n for v in items)
        items = "other"
        n = n + 1
        return list(g), [w for w in (items, n)], x

    return over(step, [1, 2])


@case("control flow")
def lazy_map_and_filter_see_later_changes():
    def step(x, n):
        items, log = [1, 2, 3], []
        m = map(lambda v: log.append(v) or v * n, items)
        f = filter(lambda v: v > n, items)
        items.append(n + 10)
        first = next(m)
        items.append(0)
        return first, list(f), list(m), log, x

    return over(step, [1, 2])


@case("control flow")
def generators_interleave_effects():
    log = []

    def source(name, n):
        for i in range(n):
            log.append(f"{name}{i}")
            yield i

    def step(x, n):
        for a, b in zip(source("a", n), source("b", 2), strict=False):
            log.append(a + b)
        return x

    return over(step, [1, 3, 2], lambda: log)


@case("control flow")
def itertools_over_generators():
    def step(x, n):
        log = []
        g = (log.append(i) or i for i in range(10))
        taken = list(itertools.islice(g, n))
        rest = next(g)
        groups = [(k, list(v)) for k, v in itertools.groupby(range(n + 2), lambda i: i // 2)]
        a, b = itertools.tee(range(n))
        return taken, rest, groups, list(a), sum(b), list(itertools.accumulate(range(n))), log, x

    return over(step, [2, 3, 5])


# ---- match


class Point:
    __match_args__ = ("x", "y")

    def __init__(self, x, y):
        self.x, self.y = x, y


@case("control flow")
def match_of_many_kinds():
    def step(x, subject):
        match subject:
            case bool() as flag:
                found = ("bool", flag)
            case 0 | 1 | 2 as small:
                found = ("small", small)
            case int(n) if n > 100:
                found = ("big", n)
            case [first, *rest, last] if first == last:
                found = ("ends", first, rest)
            case [int(), _]:
                found = "pair"
            case {"key": value, **others}:
                found = (value, others)
            case Point(0, y=y):
                found = ("axis", y)
            case Point(x=px, y=py):
                found = (px, py)
            case str(text) if text.isdigit():
                found = int(text)
            case None:
                found = "none"
            case _:
                found = "other"
        return found, x

    subjects = [True, 1, 7, 101, [1, 2, 1], (3, 4), {"key": 1, "a": 2}, Point(0, 3), Point(1, 2),
                "12", "ab", None, 1.0, [], {"a": 1}, 10**30]  # fmt: skip
    return over(step, subjects)


@case("control flow")
def match_reads_attributes_once_and_in_order():
    log = []

    class Watched:
        def __init__(self, a, b):
            self.a, self.b = a, b

        def __getattribute__(self, name):
            log.append(name)
            return object.__getattribute__(self, name)

    def step(x, w):
        match w:
            case Watched(a=1, b=2):
                return x, "12"
            case Watched(a=1):
                return x, "1"
            case Watched(b=b):
                return x, b

    return over(step, [Watched(1, 2), Watched(1, 3), Watched(2, 2)], lambda: list(log))


@case("control flow", one_graph=True)
def min_of_a_number_and_a_tensor():
    w = eager.tensor([1.0, 2.0], requires_grad=True)

    def step(x, n):
        w.grad = None
        loss = (w * x * n).pow(2).sum()
        loss.backward()
        norm = w.grad.norm()
        w.grad.mul_(min(1.0, 5.0 / (norm + 1e-6)))
        return loss.detach(), norm

    return over(step, [1.0, 2.0, 0.1, -1.0, float("nan")], lambda: w)


@case("control flow", one_graph=True)
def max_of_a_number_and_a_tensor_in_a_loop():
    def step(x, n):
        h = x * n
        for i in range(4):
            h = h * i / max(1e-3, h.norm())
        return h

    return over(step, [1.0, 0.0, -2.5])


@case("control flow", one_graph=True)
def max_of_what_an_iterator_gives():
    log = []

    def norms(xs):
        for x in xs:
            log.append("next")
            yield x.abs().sum()

    def step(x, n):
        largest = max(norms([x, x * n, -x]))
        scale = max([0.5, x.mean() * n, 2])
        return x / largest, x * scale

    return over(step, [1.0, 3.0, -0.5], lambda: log)


@case("control flow", one_graph=True)
def max_of_numbers_of_two_types():
    def step(x, n):
        rate = max(1, (x * n).mean().item())
        return x * rate

    return over(step, [1.0, 3.0, -0.5])


@case("control flow")
def max_is_one_of_its_operands():
    def step(x, n):
        a, b = x.sum() * n, x.mean()
        return max(a, b) is a, max(0.5, a), min(a, b, 0.5), max(b, b + 0.0) is b

    return over(step, [1.0, 3.0, -0.5, float("nan")])


@case("control flow")
def max_of_several_elements_raises():
    def step(x, n):
        try:
            return max(x.sum(), x, n)
        except RuntimeError as error:
            return str(error)

    return over(step, [1.0, 3.0])


@case("control flow", one_graph=True)
def unlike_values_that_the_next_statement_uses_up():
    def step(x, n):
        y = x * n
        for _ in range(3):
            factor = 2
            if y.sum() > 3:
                factor = y.mean()
            y = y * factor
            factor = None
        return y, factor

    return over(step, [1.0, 0.0, 2.0])


def lengths():
    return [(eager.tensor([1.0, 2.0]), eager.tensor(n)) for n in (3, 1, 0, 5, 3)]


@case("control flow", compiles=1, one_graph=True)
def ranges_that_data_count_leave():
    def step(x, n):
        return x * 2, range(1, int(n)), reversed(range(int(n), 0, -2))

    return Program(step, lengths())


@case("control flow", splits=1)
def a_loop_that_data_count_is_resumed():
    def step(x, n):
        log = []
        for i in range(int(n)):
            log.append(x * i)
        return log, list(reversed(log)), x * 3

    return Program(step, lengths())


@case("control flow", one_graph=True)
def the_last_value_of_a_rolled_loop_has_memory_of_its_own():
    def step(x, n):
        for i in range(20):
            y = (x.outer(x) * (n * i)).relu() @ x
        y.add_(1)
        return y

    return over(step, [1.0, 2.0])


@case("control flow", compiles=3, one_graph=True)
def rows_that_data_pick():
    def step(x):
        y, total = x.clone(), eager.zeros(2)
        for row in x[x[:, 0] > 0]:
            total = total * 0.5 + row
        for i, j in (x > 1).nonzero():
            y[i, j] = -y[i, j]
        return y, total

    rows = [[1.0, 2.0], [-1.0, 3.0], [2.0, 0.5], [0.0, 4.0]]
    return Program(step, [(eager.tensor(rows[:n]),) for n in (4, 3, 2, 1, 4)])


@case("control flow")
def rows_that_data_pick_in_loops_that_split():
    def step(x):
        kept, where = [], None
        for row in x[x[:, 0] > 0]:
            kept.append(row * 2)
        for i in (x[:, 0] > 0).nonzero():
            if x[i].sum() > 2.6:
                where = i
                break
        else:
            return kept, "none"
        return kept, where

    rows = [[1.0, 1.0], [-1.0, 3.0], [2.0, 0.5], [0.0, 4.0], [3.0, 1.0]]
    return Program(step, [(eager.tensor(rows[:n]),) for n in (5, 4, 2, 1, 3)])
