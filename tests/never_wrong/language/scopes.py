"""Scopes, arguments, classes, recursion and loops over what changes."""

import collections
import functools
import os

import eager
from tests.never_wrong.harness import Call, Program, after, case, over

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
def arguments_are_named_as_those_of_the_library():
    @functools.lru_cache
    def kept(fn, self=1, s=2, cls=3):
        return fn + self * s + cls

    def own(x, self, fn, args=1, kwargs=2, obj=3, name=4):
        return x * self + fn + args - kwargs + obj * name

    class Calls:
        def __call__(this, self=1, fn=2, s=3):  # noqa: N805
            return self * fn + s

    calls = Calls()

    def step(x, self, fn=1, s=2, args=3):
        part = functools.partial(own, self=self, fn=fn)
        return own(x, self=self, fn=fn), kept(fn=fn, self=s), calls(self=fn, s=s), part(x, obj=args)

    x = eager.ones(2)
    return Program(step, [Call((x,), {"self": n, "fn": n + 1, "args": 2}) for n in (2, 3, 4)])


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
def attributes_on_the_function_count_its_calls():
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
def recursion_nearly_too_deep_for_python():
    class Node:
        def __init__(self, below):
            self.below = below

        def depth(self):
            return 1 + self.below.depth() if self.below else 0

        def __getattr__(self, name):
            n = int(name[1:])
            return getattr(self, f"a{n - 1}") + 1 if n else 0

    def even(n):
        return True if n == 0 else odd(n - 1)

    def odd(n):
        return False if n == 0 else even(n - 1)

    def add(x, n):
        return x if n == 0 else add(x + 1, n - 1)

    def step(x, n):
        node = None
        for _ in range(3):
            node = Node(node)
        top = node
        while top.below:
            top = top.below
        top.below = chain(Node, n)
        return node.depth(), node.a9, even(n), add(x, n)

    return over(step, [600, 20, 700])


def chain(kind, n):
    last = None
    for _ in range(n):
        last = kind(last)
    return last


@case("control flow")
def recursion_in_parts():
    opened = []

    def down(x, n):
        if n == 0:
            return x
        opened.append(os.path.exists("/"))
        with open(os.devnull):
            return down(x + 1, n - 1)

    return over(down, [600, 20, 700], lambda: len(opened))


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
