"""Control flow, scopes, generators, arguments, classes and recursion, with values that change."""

import collections
import contextlib
import functools
import itertools

import eager

from .harness import Call, Program, after, case


def over(step, values, observe=lambda: None):
    x = eager.tensor([1.0, 2.0])
    return Program(step, [(x, value) for value in values], observe)


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


# ---- scopes


@case("control flow")
def comprehension_has_a_scope_of_its_own():
    def step(x, n):
        i = "kept"
        squares = [i * i for i in range(n)]
        nested = [[(i, j) for j in range(i)] for i in range(n)]
        found = {k: v for k, v in zip("abc", squares, strict=False)}
        last = [(y := v) for v in squares] and y
        return i, squares, nested, found, last, x

    return over(step, [2, 3, 4])


@case("control flow")
def closures_made_in_a_loop_share_the_variable():
    def step(x, n):
        late, early = [], []
        for i in range(n):
            late.append(lambda: i)
            early.append(lambda i=i: i)
        return [f() for f in late], [f() for f in early], x

    return over(step, [2, 3])


@case("control flow")
def closures_that_are_returned_share_a_cell():
    def step(x, n):
        count = n

        def up():
            nonlocal count
            count += 1
            return count

        def get():
            return count

        up()
        return up, get, x * n

    calls = []

    def observe():
        return None

    x = eager.tensor([1.0])
    return Program(step, [(x, 1), (x, 1), (x, 5)], observe)


@case("control flow")
def returned_closures_work():
    made = []

    def step(x, n):
        held = [n]

        def push(v):
            held.append(v)
            return len(held)

        push(0)
        made.append((push, held))
        return x

    return over(step, [1, 2, 2], lambda: [(push(9), held) for push, held in made])


TOTAL = 0


@case("control flow")
def globals_are_stored_and_deleted():
    def step(x, n):
        global TOTAL, FRESH
        TOTAL += n
        FRESH = TOTAL * 2
        value = FRESH
        if n == 2:
            del FRESH
        return x * value

    def close():
        global TOTAL
        TOTAL = 0
        globals().pop("FRESH", None)

    x = eager.tensor([1.0])
    observe = lambda: (TOTAL, globals().get("FRESH", "none"))
    return Program(step, [(x, 1), (x, 2), (x, 3), (x, 2)], observe, close)


@case("control flow")
def nonlocal_counts_through_two_levels():
    def make():
        count = 0
        log = []

        def step(x, n):
            def deeper():
                nonlocal count
                count += n
                log.append(count)
                return count

            deeper()
            return x * deeper()

        return step, (lambda: (count, log))

    step, observe = make()
    return over(step, [1, 1, 5, 2**62], observe)


@case("control flow")
def unbound_local_after_del():
    def step(x, n):
        value = n
        if n > 1:
            del value
        try:
            return value, x
        except UnboundLocalError as error:
            return str(error), x

    return over(step, [1, 2, 0])


@case("control flow")
def walrus_in_conditions():
    def step(x, items):
        it = iter(items)
        seen = []
        while (v := next(it, None)) is not None and (w := v * 2) < 10:
            seen.append((v, w))
        return seen, v, any((hit := u) > 3 for u in items) and hit, x

    return over(step, [[1, 2, 3], [4, 5, 6], []])


@case("control flow")
def del_of_items_slices_and_attributes():
    class Box:
        pass

    box = Box()
    box.items, box.gone = [1, 2, 3, 4], 1

    def step(x, n):
        del box.items[n]
        del box.items[:1]
        if hasattr(box, "gone"):
            del box.gone
        return x, len(box.items)

    x = eager.tensor([1.0])
    change = lambda: (box.items.extend([7, 8, 9]), setattr(box, "gone", 2))
    return Program(step, [(x, 1), (x, 0), after(change, x, -1), (x, 5)], lambda: vars(box))


# ---- arguments


@case("control flow")
def stars_keywords_and_defaults():
    def inner(a, b=2, /, *rest, c, d=4, **more):
        return a, b, rest, c, d, more

    def step(x, *args, **kwargs):
        return inner(*args, **kwargs), list(kwargs), x

    x = eager.tensor([1.0])
    return Program(
        step,
        [
            Call((x, 1), {"c": 3}),
            Call((x, 1, 2, 3, 4), {"c": 3, "z": 1, "y": 2}),
            Call((x, 1, 2, 3, 4), {"y": 2, "z": 1, "c": 3}),
            Call((x, 1), {"d": 1}),
            Call((x,), {"c": 1}),
            Call((x, 1), {"c": 3, "a": 7, "b": 8}),
        ],
    )


@case("control flow")
def order_of_keyword_arguments():
    def step(x, **named):
        log = []
        for key, value in named.items():
            x = x * value
            log.append(key)
        return x, log, next(iter(named))

    x = eager.tensor([1.0])
    calls = [{"a": 1.0, "b": 2.0}, {"b": 2.0, "a": 1.0}, {"a": 3.0, "b": 2.0}, {"b": 1.0}, {}]
    return Program(step, [Call((x,), kwargs) for kwargs in calls])


@case("control flow")
def defaults_are_made_once():
    def push(item, held=[], *, seen={}):  # noqa: B006 - meant
        held.append(item)
        seen[item] = len(held)
        return held, seen

    def step(x, n):
        held, seen = push(n)
        return len(held), seen[n], x * len(held)

    return over(step, [1, 2, 2, 3], lambda: (push.__defaults__, push.__kwdefaults__))


@case("control flow")
def keyword_defaults_change_between_calls():
    def inner(x, *, scale=2.0, bias=1):
        return x * scale + bias

    def step(x):
        return inner(x)

    x = eager.tensor([1.0])
    change = lambda: setattr(inner, "__kwdefaults__", {"scale": 3.0, "bias": 1})
    drop = lambda: setattr(inner, "__kwdefaults__", None)
    return Program(step, [(x,), after(change, x), after(drop, x)])


@case("control flow")
def code_of_a_function_changes():
    def inner(x):
        return x * 2

    def other(x):
        return x - 2

    def step(x):
        return inner(x)

    x = eager.tensor([1.0])
    return Program(step, [(x,), after(lambda: setattr(inner, "__code__", other.__code__), x)])


@case("control flow")
def attributes_on_the_function_itself():
    def step(x):
        step.count = getattr(step, "count", 0) + 1
        return x * step.count

    x = eager.tensor([1.0])
    return Program(step, [(x,)] * 3, lambda: vars(step))


@case("control flow")
def wrong_arguments_raise_pythons_words():
    def inner(a, b, *, c):
        return a

    def step(x, n):
        tries = [lambda: inner(1), lambda: inner(1, 2), lambda: inner(1, 2, 3, c=1),
                 lambda: inner(1, 2, c=1, d=2), lambda: inner(1, a=1, b=2, c=3)]  # fmt: skip
        try:
            return tries[n]()
        except TypeError as error:
            return str(error), x

    return over(step, [0, 1, 2, 3, 4])


@case("control flow")
def unpacking_of_many_shapes():
    def step(x, items):
        try:
            a, (b, *c), *d = items
        except (TypeError, ValueError) as error:
            return type(error).__name__, str(error), x
        return a, b, c, d, [*c, *d, a], {**{"a": a}, "b": b}, x

    return over(step, [[1, (2, 3)], [1, "xyz", 4, 5], [1], [1, 2], [1, ()], (1, [2], 3)])


# ---- classes, recursion, decorators


@case("control flow")
def class_statement_inside():
    def step(x, n):
        class Local:
            scale = n
            doubled = [scale * 2]

            def __init__(self, v):
                self.v = v

            def __call__(self):
                return self.v * self.scale, __class__.__name__

        return Local(x)(), Local.doubled, Local.__qualname__, x

    return over(step, [2, 3])


@case("control flow")
def class_statement_with_hooks():
    log = []

    class Base:
        def __init_subclass__(cls, /, tag=None, **kwargs):
            super().__init_subclass__(**kwargs)
            log.append((cls.__name__, tag))

    class Named:
        def __set_name__(self, owner, name):
            log.append((owner.__name__, name))

    def step(x, n):
        class Derived(Base, tag=n):
            field = Named()

        return x * n

    return over(step, [1, 2, 1], lambda: log)


@case("control flow")
def recursion_with_state():
    depth = []

    def walk(n, path):
        depth.append(len(path))
        if n == 0:
            return [path]
        return walk(n - 1, path + "l") + walk(n - 1, path + "r")

    def step(x, n):
        return walk(n, ""), x * len(depth)

    return over(step, [1, 2, 1], lambda: depth)


@case("control flow")
def recursion_too_deep():
    def down(n):
        return 0 if n == 0 else 1 + down(n - 1)

    def step(x, n):
        try:
            return down(n), x
        except RecursionError:
            return "too deep", x

    return over(step, [10, 140, 160])


@case("control flow")
def mutual_recursion_and_partials():
    def even(n):
        return True if n == 0 else odd(n - 1)

    def odd(n):
        return False if n == 0 else even(n - 1)

    def step(x, n):
        scaled = functools.partial(lambda a, *, by: a * by, by=n)
        return even(n), scaled(x), functools.reduce(lambda a, b: a * b, range(1, n + 1), 1)

    return over(step, [3, 4, 5])


@case("control flow")
def decorator_that_counts_calls():
    def counted(fn):
        @functools.wraps(fn)
        def wrapper(*args, **kwargs):
            wrapper.calls += 1
            return fn(*args, **kwargs)

        wrapper.calls = 0
        return wrapper

    @counted
    def double(x):
        return x * 2

    def step(x, n):
        for _ in range(n):
            x = double(x)
        return x, double.calls

    return over(step, [1, 3, 0, 2], lambda: double.calls)


@case("control flow")
def loops_over_what_changes_meanwhile():
    def step(x, n):
        items = [1, 2, 3]
        for v in items:
            if v < n:
                items.append(v + 2)
        counts = {"a": 1}
        try:
            for k in counts:
                counts[k + k] = n
        except RuntimeError as error:
            items.append(str(error))
        return items, x

    return over(step, [2, 4, 0])


@case("control flow")
def dictionary_from_outside_changes_while_it_is_iterated():
    table = {"a": 1, "b": 2}

    def step(x, n):
        seen = []
        for k in table:
            seen.append(k)
            if n and k == "a":
                table["new"] = n
        return seen, x

    return over(step, [0, 1, 0], lambda: table)


@case("control flow")
def deque_from_outside_rotates():
    window = collections.deque([1.0, 2.0], maxlen=3)

    def step(x, v):
        window.append(v)
        window.rotate(1)
        return x * sum(window), window[0], len(window)

    return over(step, [3.0, 4.0, 5.0], lambda: window)


@case("control flow")
def a_for_loop_leaves_its_variable():
    def step(x, n):
        for i in range(n):
            pass
        try:
            return i, x
        except NameError as error:
            return str(error), x

    return over(step, [3, 0, 1])


@case("control flow")
def conditional_on_types_and_lengths():
    def step(x, v):
        if not v:
            return "empty", x
        if isinstance(v, (list, tuple)) and len(v) > 1:
            return [step(x, w)[0] for w in v], x
        return type(v).__name__, x

    return over(
        step, [[], (), "", 0, 0.0, None, [1, "a"], {"a": 1}, eager.tensor([1.0]), [[], [1]]]
    )


@case("control flow")
def try_else_finally_order_with_returns():
    log = []

    def inner(n):
        for i in range(3):
            try:
                if i == n:
                    return f"return {i}"
                if i > n:
                    raise KeyError(i)
            except KeyError as error:
                log.append(error.args)
                continue
            else:
                log.append("else")
            finally:
                log.append("finally")
        else:
            return "loop ended"

    def step(x, n):
        return inner(n), x

    return over(step, [0, 1, 5, -1], lambda: log)
