"""Conformance programs: classes, builtins, containers, identity."""

import collections
import contextlib
import copy
import dataclasses
import functools
import itertools
import math
import operator

from .subjects import (
    Base,
    Color,
    Countdown,
    Derived,
    Described,
    Point,
    WithMeta,
)
from .table import case

GLOBAL = 10


def helper(a, b=2, *args, c, d=4, **kw):
    return (a, b, args, c, d, sorted(kw.items()))


@case(3)
def metaclasses(n):
    w = WithMeta(n)
    return w.stamp, w.x


@case(4)
def descriptors(n):
    d = Described()
    d.field = n
    return d.field, d.lazy, d.lazy, sorted(vars(d))


@case(6)
def local_classes(n):
    class Local(Base):
        factor = n

        def get(self):
            return super().get() * self.factor

    return Local(2).get(), Local.__name__, Local.make(1).value


@case({"kind": "circle", "r": 2}, (1, 2, 3), Point(0, 7), "text")
def matching(d, t, p, s):
    out = []
    for subject in (d, t, p, s, 5, [1], None, {"x": 1, "y": 2}, Color.RED):
        match subject:
            case {"kind": "circle", "r": r}:
                out.append(("circle", r))
            case {"x": x, **rest}:
                out.append((x, rest))
            case (a, *more) if a == 1 and more:
                out.append(more)
            case Point(x=0, y=y):
                out.append(y)
            case str(text):
                out.append(text)
            case 5 | 6:
                out.append("five")
            case Color.RED:
                out.append("red")
            case None:
                out.append("none")
            case _:
                out.append("other")
    return out


@case([5, 3, 8])
def builtins_over_lists(xs):
    return (
        sum(xs),
        min(xs),
        max(xs),
        sorted(xs),
        sorted(xs, key=lambda v: -v),
        list(reversed(xs)),
        list(enumerate(xs, 1)),
        list(zip(xs, "abc", strict=True)),
        list(map(lambda a, b: a + b, xs, xs)),
        list(filter(lambda v: v > 3, xs)),
        any(xs),
        all(xs),
        any(v > 7 for v in xs),
        max(xs, key=lambda v: -v),
        abs(-3),
        round(2.6),
        divmod(7, 2),
        pow(2, 5, 7),
        isinstance(xs, list),
        issubclass(bool, int),
        callable(len),
        type(xs).__name__,
        str(xs),
        repr("a"),
        int("5"),
        tuple(xs),
        set(xs),
        frozenset(xs),
        list(range(1, 10, 3)),
        iter([1]).__next__(),
        chr(65),
        ord("a"),
        bin(5),
        "%d-%s" % (1, "x"),
    )


@case([5, 3, 8])
def library_functions(xs):
    return (
        functools.reduce(lambda a, b: a * b, xs),
        functools.partial(helper, 1, c=2)(3),
        operator.add(1, 2),
        list(itertools.chain(xs, [1])),
        list(itertools.product("ab", repeat=2)),
        list(itertools.accumulate(xs)),
        list(itertools.islice(itertools.count(3), 2)),
        list(itertools.zip_longest("ab", "c")),
        math.sqrt(16),
        math.floor(2.5),
        math.prod(xs),
        collections.Counter("aab")["a"],
        collections.OrderedDict(a=1),
        operator.itemgetter(1)(xs),
        list(itertools.starmap(lambda a, b: a - b, [(3, 1)])),
        list(itertools.takewhile(lambda v: v > 4, xs)),
        math.pi,
    )


@case()
def default_dictionaries():
    d = collections.defaultdict(list)
    d["a"].append(1)
    e = collections.defaultdict(lambda: 7)
    q = collections.deque([1, 2], maxlen=2)
    q.append(3)
    return dict(d), e["x"], list(q), len(e)


@case("héllo", 3.5)
def strings(s, f):
    return (
        f"{s!r:>10}|{len(s):03d}|{s}",
        s.upper(),
        s.split("l"),
        ",".join(str(i) for i in range(3)),
        s[1:3],
        "{} {x}".format(1, x=2),
        s.startswith("h"),
        s + "!",
        s * 2,
        "l" in s,
        s.replace("l", "L"),
        sorted(s),
        "a\n b".splitlines(),
        s.encode(),
    )


@case(3)
def walrus_and_conditions(n):
    if (m := n * 2) > 5 and not n < 0 or n == 100:
        r = m if n else -m
    else:
        r = 0
    return m, r, n and 5, n or 6, None or [] or "x"


@case([1, 2, 3])
def iterate_and_mutate(xs):
    out = []
    for x in xs:
        out.append(x)
        if len(xs) < 6:
            xs.append(x + 10)
    return out


@case(Countdown(3))
def user_iterators(c):
    return (
        list(c),
        [x for x in Countdown(2)],
        list(zip(Countdown(3), Countdown(2), strict=False)),
        sum(Countdown(4)),
        tuple(Countdown(1)),
    )


@case(4)
def recursion(n):
    def fact(k):
        return 1 if k <= 1 else k * fact(k - 1)

    return fact(n)


@functools.lru_cache(maxsize=None)
def cached(n):
    return n + 1


@case(4)
def decorated(n):
    def twice(fn):
        @functools.wraps(fn)
        def inside(*args, **kwargs):
            return fn(*args, **kwargs) * 2

        return inside

    @twice
    def f(x):
        "doc"
        return x + 1

    return f(n), f.__name__, f.__doc__, cached(n)


@case([1, [2, 3]])
def identities(xs):
    ys = [xs, xs, xs[1]]
    ys[2].append(ys[0] is ys[1])
    return ys, xs[1] is ys[2], xs


@case([1])
def returns_argument(xs):
    xs.append(xs[0])
    return {"same": xs, "also": [xs]}


@case()
def cycles():
    a = []
    a.append((a, 1))
    b = {"self": None}
    b["self"] = b
    return a[0][0] is a, b["self"] is b


@case(2)
def prints(n):
    print("start", n, [n, "x"], sep="-", end="!\n")
    for i in range(n):
        print(i, Derived(i))
    print()
    return n


@case({1, 2, 3})
def sets(s):
    s.add(4)
    s.discard(1)
    return 2 in s, s | {9}, s & {2}, len(s), {x for x in s if x > 2}


@case(5)
def imports(n):
    import math as m
    from collections import OrderedDict as O

    return m.factorial(n), O(a=1)


@case()
def unbound_local():
    if GLOBAL == -1:
        x = 1
    return x  # noqa: F821


@case()
def undefined_name():
    return nonexistent_name  # noqa: F821


@case(3)
def star_expressions(n):
    return [*range(n), *"ab"], {**{"a": 1}, "b": 2}, (*[], 1), print(*[1, 2])


@case(1.5, 2.0)
def floats(a, b):
    return (
        a + b,
        a * b,
        a / b,
        a - 1,
        -a,
        a < b,
        a == 1.5,
        a**2,
        max(a, b),
        abs(-a),
        int(a),
        float(3),
        a // 1,
        bool(a),
    )


@case([1.5, 2.5])
def float_lists(xs):
    return (
        sum(xs),
        [x * 2 for x in xs],
        max(xs),
        sorted(xs, reverse=True),
        f"{xs[0]:.2f}",
        str(xs[1]),
    )


@case([3, 4], {"n": 1})
def deletes(xs, d):
    y = 5
    del y, d["n"], xs[0]
    return xs, d


@case(Base(3))
def attribute_deletion(b):
    b.other = 1
    del b.value
    return hasattr(b, "value"), b.other


@case(Base(1))
def class_attributes(b):
    b.count += 1
    return (
        b.count,
        Base.count,
        type(b).__name__,
        b.__class__ is Base,
        isinstance(b, Base),
        Base.registry.get("x"),
    )


@case(7)
def slices_objects(n):
    s = slice(1, n, 2)
    return list(range(10))[s], s.start, s.indices(5), (1, 2, 3)[-1], "abc"[::-1]


@case(3)
def nested_functions_with_defaults(n):
    fs = [lambda x, i=i: x + i for i in range(n)]
    return [f(10) for f in fs]


@case(3)
def boolean_short_circuit(n):
    log = []

    def t(v):
        log.append(v)
        return v

    r = t(0) or t(n) and t("") or t("end")
    return r, log


class Named(list):
    pass


class Linked(Described):
    __slots__ = ("me", "next")


@case([1, [2]])
def deep_copies(items):
    named, linked, table = Named(items), Linked(), collections.defaultdict(list, a=[items])
    named.note = linked
    linked.me, linked.own = linked, {"x": items}
    copied = copy.deepcopy([named, linked, table, Color.RED, len, Linked])
    copied[0][1].append(3)
    copied[2]["b"].append(4)
    return (
        copied[0], copied[0].note is copied[1] is copied[1].me, copied[1].own, dict(copied[2]),
        copied[3] is Color.RED, copied[4:], items, named.note is linked,
    )  # fmt: skip


@case(4)
def dataclasses_made_inside(n):
    @dataclasses.dataclass(order=True)
    class Settings:
        a: int
        b: int = n
        rest: list = dataclasses.field(default_factory=lambda: [n])

        def total(self):
            return self.a + self.b + sum(self.rest)

    one, two = Settings(1), Settings(2, b=7)
    one.rest.append(5)
    return one.total(), two.rest, one < two, repr(two), Settings.__dict__["b"]


@functools.singledispatch
def describe(value, *rest):
    raise TypeError(f"a {type(value).__name__}")


@describe.register(int)
def _(value, *rest):
    return ("int", value, rest)


@describe.register(list)
@describe.register(tuple)
def _(value, *rest):
    return [describe(v, *rest) for v in value]


@case([1, (2, True)])
def generic_functions(items):
    try:
        describe("text")
    except TypeError as error:
        return describe(items, 1), str(error)


@case(3)
def exit_stacks(n):
    log = []

    @contextlib.contextmanager
    def opened(i):
        log.append(("open", i))
        try:
            yield i
        finally:
            log.append(("close", i))

    with contextlib.suppress(KeyError), contextlib.ExitStack() as stack:
        total = sum(stack.enter_context(opened(i)) for i in range(n))
        stack.callback(log.append, "called")
        raise KeyError(total)
    with contextlib.ExitStack() as stack:
        stack.enter_context(opened(n))
        kept = stack.pop_all()
    log.append("kept")
    kept.close()
    return log
